"""DualDecomposition: bounds from trees that reach the LP value, by bundle and by subgradients."""

import numpy as np
import pytest
from factories.problems import dense, on_graph
from reference.dense_lp import local_polytope_value
from reference.families import make

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, UnsupportedProblemError
from maxsum.inference import TRWS, LinearProgram, TreeDP
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.bundle import ColumnBundle
from maxsum.inference.relaxations.decomposition import DualDecomposition, Trees
from maxsum.kernels.decomposition import split_forests

FAMILIES = [
    "chain",
    "tree",
    "forest_with_isolated_nodes",
    "grid4",
    "grid8",
    "complete",
    "one_node",
    "no_edges",
    "no_nodes",
    "unequal_label_counts",
    "ties",
    "whole_numbers",
    "zeros",
    "hard_feasible",
    "hard_random",
    "hard_tree",
    "edge_weights",
    "single_label",
    "scale_1e_minus_9",
    "scale_1e9",
    "constant_1e9_in_unaries",
    "constant_1e9_in_tables",
    "one_huge_edge",
]


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("steps", ["bundle", "subgradient"])
def test_bounds_hold_and_the_certificate_proves_them(name, steps):
    for seed in range(6):
        case = make(name, seed)
        result = DualDecomposition(steps, max_iter=200).solve(case.problem)
        slip = 1.001 * case.raw.resolution + case.raw.fuzz + case.raw.noise
        assert result.bound >= case.raw.best - slip
        found = result.certificate.verify(case.problem, result.labels, bound=result.bound)
        if result.guarantee == "optimal":
            assert case.raw.regret(result.labels.tolist()) <= slip and found.gap <= slip


@pytest.mark.parametrize("seed", range(4))
def test_the_bundle_reaches_the_lp_value_where_trws_stalls(seed):
    problem = dense(12, 4, seed)
    lp = LinearProgram().solve(problem).certificate.bound(problem)
    stalled = TRWS().solve(problem)
    assert stalled.termination == "stalled" and stalled.bound > lp * (1 + 1e-3)
    result = DualDecomposition().solve(problem)
    assert result.termination == "converged"
    assert abs(result.certificate.bound(problem) - lp) <= 2e-6 * abs(lp)
    assert result.guarantee == "within_gap"


@pytest.mark.parametrize("connectivity", [4, 8])
def test_rows_and_columns_give_the_value_of_the_lp(connectivity):
    """(3) and (6) of the LP-M3N paper have the same minimum."""
    problem = on_graph(ms.Graph.grid(7, 6, connectivity), 3, 1)
    lp = LinearProgram().solve(problem).certificate.bound(problem)
    trees = Trees(problem, prepare(problem).net, 1, 4)
    assert trees.n_forests == connectivity // 2
    if connectivity == 4:
        assert trees.n_trees == 7 + 6
    result = DualDecomposition().solve(problem)
    assert abs(result.certificate.bound(problem) - lp) <= 2e-6 * abs(lp)


def test_subgradient_steps_come_near_the_lp_value():
    problem = dense(12, 4, 0)
    lp = LinearProgram().solve(problem).certificate.bound(problem)
    result = DualDecomposition("subgradient", max_iter=1500).solve(problem)
    assert lp * (1 - 1e-9) <= result.certificate.bound(problem) <= lp * 1.01
    few = DualDecomposition("subgradient", max_iter=20).solve(problem)
    assert few.termination == "iteration_limit" and few.n_iter == 20 and few.bound > result.bound


@pytest.mark.parametrize("steps", ["bundle", "subgradient"])
def test_a_forest_is_solved_at_once(steps):
    rng = np.random.default_rng(3)
    edges = [(int(rng.integers(v)), v) for v in range(1, 40) if v % 9]
    problem = ms.Problem(ms.Graph.from_edges(edges, 40), rng.normal(size=(40, 4)), rng.normal(size=(len(edges), 4, 4)))
    result = DualDecomposition(steps).solve(problem)
    assert result.guarantee == "optimal" and result.n_iter == 1
    assert result.score == pytest.approx(TreeDP().solve(problem).score, rel=1e-12)


def test_messages_prove_the_value_of_the_dual_and_a_warm_start_keeps_it():
    problem = dense(9, 3, 5)
    prepared = prepare(problem)
    trees = Trees(problem, prepared.net, 1, 4)
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = problem.as_messages(rng.normal(size=(2, problem.n_edges, 3)))
        shares = trees.shares(start)
        total = np.zeros((9, 3))
        np.add.at(total, trees.copy_node, shares)
        np.testing.assert_allclose(total, prepared.net.unary, atol=1e-12)
        value, _, _, messages = trees.maximise(shares)
        assert problem.bound(messages) <= prepared.constant + value + 1e-9
        assert prepared.constant + value <= problem.bound(start) + 1e-9


def test_a_warm_start_continues():
    problem = dense(15, 4, 2)
    first = TRWS().solve(problem)
    one = DualDecomposition(max_iter=1).solve(problem, init=first)
    assert one.bound <= first.bound and one.score >= first.score
    from_messages = DualDecomposition(max_iter=1).solve(problem, init=first.messages)
    assert from_messages.bound <= first.bound + 1e-9


def test_the_bracket_holds_the_lp_value():
    for seed in range(5):
        case = make("complete", seed)
        lp = local_polytope_value(case.raw)
        result = DualDecomposition(tol=1e-7).solve(case.problem)
        if result.guarantee == "optimal":
            continue
        low, high = map(float, result.message.split("[")[1].split("]")[0].split(","))
        assert low <= lp + 1e-6 and lp - 1e-6 <= high and high - low <= 1e-5
        np.testing.assert_allclose(result.marginals.sum(axis=1), 1.0)


def test_threads_change_nothing():
    problem = on_graph(ms.Graph.grid(12, 9), 3, 4)
    one, two = (DualDecomposition(max_iter=30, n_jobs=n).solve(problem) for n in (1, 2))
    assert one.bound == two.bound and np.array_equal(one.labels, two.labels)


def test_forests_are_disjoint_forests_and_respect_the_size():
    graph = ms.Graph.complete(11)
    for largest in (2, 4, 11):
        forest = split_forests(11, graph.edges, np.arange(graph.n_edges, dtype=np.int32), largest)
        assert forest.min() == 0
        for number in range(forest.max() + 1):
            part = ms.Graph.from_edges(graph.edges[forest == number], 11)
            assert part.n_edges and part.is_forest
            assert np.bincount(part.components).max() <= largest


def test_a_full_bundle_drops_columns_and_keeps_weights():
    starts, nodes = np.array([0, 2, 4]), np.array([0, 1, 0, 1], dtype=np.int32)
    bundle = ColumnBundle(starts, nodes, 2, 2, 1.0, 2)
    shares = np.zeros((4, 2))
    for labels in ([0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0], [1, 0, 0, 0]):
        bundle.add(np.array(labels, dtype=np.int32), np.zeros(2))
        bundle.propose(shares, 0.0, 1e-12)
        np.testing.assert_allclose(bundle.weights.sum(axis=1), 1.0)
    assert (bundle.filled == 2).all()
    assert bundle.add(np.array([1, 0, 0, 0], dtype=np.int32), np.zeros(2)) == 0


def test_cliques_and_bad_parameters_are_refused():
    cliques = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.eye(2), cliques=[([0, 1, 2], [1.0, 0.0])])
    with pytest.raises(UnsupportedProblemError, match="cliques"):
        DualDecomposition().solve(cliques)
    for bad in (dict(steps="newton"), dict(max_iter=0), dict(tol=-1.0), dict(tol=np.nan)):
        with pytest.raises(InvalidParameterError, match=next(iter(bad))):
            DualDecomposition(**bad)


def test_limits_and_callbacks_stop_the_run():
    problem = dense(12, 4, 1)
    assert DualDecomposition(time_limit=0.0).solve(problem).termination == "time_limit"
    assert DualDecomposition(max_iter=3).solve(problem).termination == "iteration_limit"
    stopped = DualDecomposition().solve(problem, callback=lambda point: point.iteration >= 4)
    assert stopped.termination == "stopped" and stopped.n_iter == 4 and np.isfinite(stopped.bound)
