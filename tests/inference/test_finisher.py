"""LPFinisher: the LP value, proven from both sides, by each of its methods."""

import numpy as np
import pytest
from factories.problems import dense, on_graph
from reference.dense_lp import local_polytope_value
from reference.families import FAMILIES, make

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, UnsupportedProblemError
from maxsum.inference import TRWS, LinearProgram
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.finisher import LPFinisher, _narrow
from maxsum.inference.relaxations.interior import iterate
from maxsum.inference.relaxations.polytope import LocalPolytope
from maxsum.kernels.cholesky import cholesky, substitute


def bracket(result):
    low, high = result.message.split("[")[1].split("]")[0].split(",")
    return float(low), float(high)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_bounds_hold_and_reach_the_lp_value(name):
    for seed in range(6):
        case = make(name, seed)
        if len(case.problem.factors):
            assert "takes no factors" in LPFinisher().supports(case.problem).reason
            continue
        result = LPFinisher().solve(case.problem)
        slip = 1.001 * case.raw.resolution + case.raw.fuzz + case.raw.noise
        assert result.bound >= case.raw.best - slip
        result.certificate.verify(case.problem, result.labels, bound=result.bound)
        if result.guarantee == "optimal":
            assert case.raw.regret(result.labels.tolist()) <= slip
        lp = local_polytope_value(case.raw)
        if result.guarantee != "optimal" and np.isfinite(lp):
            scale = max(abs(lp), case.raw.magnitude)
            assert abs(result.certificate.bound(case.problem) - lp) <= 2e-6 * scale + slip


@pytest.mark.parametrize("method", ["interior", "highs", "bundle"])
@pytest.mark.parametrize("seed", range(3))
def test_every_method_closes_what_trws_leaves_open(method, seed):
    problem = dense(12, 4, seed)
    lp = LinearProgram().solve(problem).certificate.bound(problem)
    stalled = TRWS().solve(problem)
    assert stalled.termination == "stalled" and stalled.bound > lp * (1 + 1e-3)
    result = LPFinisher(method=method).solve(problem)
    assert result.termination == "converged"
    assert abs(result.certificate.bound(problem) - lp) <= 2e-6 * abs(lp)
    low, high = bracket(result)
    assert low <= lp + 1e-7 * abs(lp) and high - low <= 1.01e-6 * abs(lp)


def test_dense_and_larger_sparse_graphs():
    problem = dense(60, 5, 0, density=0.3)
    result = LPFinisher(tol=1e-4).solve(problem)
    low, high = bracket(result)
    assert result.termination == "converged" and high - low <= 1e-4 * high and "interior" in result.message
    rough = on_graph(ms.Graph.grid(26, 26), 4, 0)
    assert _narrow(rough) and not _narrow(dense(1000, 4, 0, density=0.01))
    result = LPFinisher().solve(rough)
    low, high = bracket(result)
    assert result.termination == "converged" and high - low <= 1e-6 * high
    lower, higher = bracket(LPFinisher(method="interior").solve(rough))
    assert lower <= high and low <= higher


@pytest.mark.parametrize("seed", range(4, 8))
def test_marginals_are_those_of_the_lp(seed):
    problem = dense(8, 3, seed)
    mine, theirs = LPFinisher(tol=1e-9).solve(problem), LinearProgram().solve(problem)
    np.testing.assert_allclose(mine.marginals.sum(axis=1), 1.0)
    np.testing.assert_allclose(mine.marginals, theirs.marginals, atol=1e-3)


def test_interior_points_are_feasible_and_dual_points_bound():
    case = make("complete", 3)
    problem, lp = case.problem, local_polytope_value(case.raw)
    polytope = LocalPolytope.of(prepare(problem).net)
    widths = []
    for _, point in zip(range(12), iterate(polytope, problem.zero_messages().edge), strict=False):
        node, edge, feasible = polytope.repair(point.node, point.edge)
        assert feasible
        np.testing.assert_allclose(edge.sum(axis=2), node[polytope.first], atol=1e-12)
        np.testing.assert_allclose(edge.sum(axis=1), node[polytope.second], atol=1e-12)
        low, high = polytope.value(node, edge) + prepare(problem).constant, problem.bound(point.messages)
        assert low <= lp + 1e-9 and lp <= high + 1e-9
        widths.append(high - low)
    assert widths[-1] < 1e-5 * widths[0]


def test_repair_makes_any_numbers_feasible():
    problem = make("unequal_label_counts", 1).problem
    polytope = LocalPolytope.of(prepare(problem).net)
    rng = np.random.default_rng(0)
    node, edge, feasible = polytope.repair(rng.normal(size=polytope.node.shape), rng.normal(size=polytope.edge.shape))
    assert feasible and (node >= 0).all() and (edge >= 0).all()
    assert not node[~polytope.alive].any() and not edge[~polytope.pair].any()
    np.testing.assert_allclose(node.sum(axis=1), 1.0)
    np.testing.assert_allclose(edge.sum(axis=2), node[polytope.first], atol=1e-12)
    np.testing.assert_allclose(edge.sum(axis=1), node[polytope.second], atol=1e-12)


def test_mass_on_forbidden_pairs_proves_nothing():
    problem = ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), [[0.0, -np.inf], [-np.inf, 0.0]])
    polytope = LocalPolytope.of(prepare(problem).net)
    assert not polytope.repair(np.array([[1.0, 0.0], [0.0, 1.0]]), np.zeros((1, 2, 2)))[2]
    assert polytope.repair(np.full((2, 2), 0.5), 0.5 * np.eye(2)[None])[2]


def test_a_warm_start_is_not_worse_and_limits_are_kept():
    problem = dense(20, 5, 0)
    first = TRWS(max_iter=5).solve(problem)
    assert LPFinisher().solve(problem, init=first).bound <= first.bound
    assert LPFinisher(time_limit=0.0).solve(problem).termination == "time_limit"
    few = LPFinisher(method="bundle", max_iter=2).solve(problem)
    assert few.termination == "iteration_limit" and few.bound <= TRWS(max_iter=100).solve(problem).bound + 1e-9
    whole = LPFinisher().solve(problem)
    steps = [point.iteration for point in whole.trace]
    assert steps == list(range(1, whole.n_iter + 1))
    stopped = LPFinisher().solve(problem, callback=lambda point: point.iteration == whole.n_iter - 3)
    assert stopped.termination == "stopped" and whole.bound < stopped.bound < TRWS().solve(problem).bound


def test_bad_parameters_and_cliques():
    for bad in (dict(method="guess"), dict(tol=-1.0), dict(max_iter=0)):
        with pytest.raises(InvalidParameterError, match=next(iter(bad))):
            LPFinisher(**bad)
    problem = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), -np.eye(2), cliques=[([0, 1, 2], [1.0, 0.0])])
    with pytest.raises(UnsupportedProblemError, match="cliques"):
        LPFinisher(method="interior").solve(problem)
    assert not LPFinisher(small=3).supports(problem)


@pytest.mark.parametrize("size", [1, 5, 32, 33, 71])
def test_cholesky_against_numpy(size):
    rng = np.random.default_rng(size)
    root = rng.normal(size=(size, size))
    matrix, right = root @ root.T + np.eye(size), rng.normal(size=size)
    factor = matrix.copy()
    assert cholesky(factor)
    np.testing.assert_allclose(np.tril(factor), np.linalg.cholesky(matrix), atol=1e-10)
    np.testing.assert_allclose(matrix @ substitute(factor, right), right, atol=1e-9)
    matrix[size // 2, size // 2] = -1.0
    assert not cholesky(matrix)
