"""Convex quadratics over simplices: spectral projected gradient against other people's solvers, its gap, bad input."""

from __future__ import annotations

import itertools
import logging

import numpy as np
import pytest
from reference.seeds import seeds
from scipy.optimize import minimize
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import maxsum as ms
from maxsum.kernels import qp as kernels
from maxsum.kernels.simplex import project
from maxsum.qp.block_form import BlockForm
from maxsum.qp.simplex import minimise_simplex_qp


def definite(rng, n, size, floor=0.05):
    root = rng.normal(size=(n, size, size))
    return root @ root.transpose(0, 2, 1) / size + floor * np.eye(size)


def instance(seed, equal=True, nodes=True):
    """Graph, states, list of edge blocks, node blocks (or None), weights, linear costs."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    pairs = [p for p in itertools.combinations(range(n), 2) if rng.random() < 0.6] or [(0, 1)]
    edges = np.array([p if rng.random() < 0.5 else p[::-1] for p in pairs])
    states = np.full(n, 3) if equal else rng.integers(1, 6, size=n)
    blocks = [definite(rng, 1, states[u] + states[v])[0] for u, v in edges]
    own = definite(rng, n, int(states.max())) if nodes else None
    weight = rng.exponential(size=len(edges))
    return ms.Graph.from_edges(edges, n), states, blocks, own, weight, [2 * rng.normal(size=k) for k in states]


def matrix_of(graph, states, blocks, own, weight):
    """The matrix of a form, entry by entry."""
    at = np.concatenate([[0], np.cumsum(states)])
    matrix = np.zeros((at[-1], at[-1]))
    for (u, v), block, w in zip(graph.edges.tolist(), blocks, weight, strict=True):
        where = np.concatenate([np.arange(at[u], at[u + 1]), np.arange(at[v], at[v + 1])])
        matrix[np.ix_(where, where)] += w * block
    for v, k in enumerate(states):
        if own is not None:
            matrix[at[v] : at[v + 1], at[v] : at[v + 1]] += own[v, :k, :k]
    return matrix


def conic_optimum(theta, matrix, states):
    """Optimal value by Clarabel, an interior-point method."""
    clarabel = pytest.importorskip("clarabel")
    size = len(theta)
    sums = np.zeros((len(states), size))
    for v, start in enumerate(np.concatenate([[0], np.cumsum(states)[:-1]])):
        sums[v, start : start + states[v]] = 1.0
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    cones = [clarabel.ZeroConeT(len(states)), clarabel.NonnegativeConeT(size)]
    right = np.concatenate([np.ones(len(states)), np.zeros(size)])
    rows = csc_matrix(np.concatenate([sums, -np.eye(size)]))
    return clarabel.DefaultSolver(csc_matrix(np.triu(matrix)), theta, rows, right, cones, settings).solve().obj_val


def energy(x, theta, matrix):
    return float(theta @ x + 0.5 * x @ matrix @ x)


# ---- projection ------------------------------------------------------------------------------------------------


def reference_projection(z):
    ordered = np.sort(z)[::-1]
    level = (np.cumsum(ordered) - 1) / np.arange(1, len(z) + 1)
    return np.maximum(z - level[np.flatnonzero(ordered > level)[-1]], 0)


@pytest.mark.parametrize("n_labels", [1, 2, 5, 20, 32, 33, 64, 200])
@pytest.mark.parametrize("spread", [0.0, 1e-3, 0.3, 1.0, 30.0])
def test_projection_equals_the_reference(n_labels, spread):
    rng = np.random.default_rng(n_labels)
    points = spread * rng.normal(size=(40, n_labels)) + rng.normal(size=(40, 1))
    points[:10] = np.round(points[:10], 2)
    states = np.full(40, n_labels, dtype=np.int32)
    states[20:] = rng.integers(1, n_labels + 1, size=20)
    out = np.zeros_like(points)
    project(points, states, out)
    for row, z, k in zip(out, points, states, strict=True):
        np.testing.assert_allclose(row[:k], reference_projection(z[:k]), atol=1e-13)
        assert (row[k:] == 0).all()


# ---- the minimiser ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("equal", [True, False])
@pytest.mark.parametrize("seed", seeds(15))
def test_optimum_equals_a_conic_solver(seed, equal):
    graph, states, blocks, own, weight, theta = instance(seed, equal, nodes=seed % 2 == 0)
    matrix, flat = matrix_of(graph, states, blocks, own, weight), np.concatenate(theta)
    result = minimise_simplex_qp(theta, BlockForm(graph, states, blocks, edge_weight=weight, node_blocks=own), tol=1e-11)
    assert result.termination == "converged"
    mask = np.arange(states.max()) < states[:, None]
    assert (result.mu >= 0).all() and (result.mu[~mask] == 0).all()
    np.testing.assert_allclose(result.mu.sum(axis=1), 1, atol=1e-14)
    assert result.value == pytest.approx(energy(result.mu[mask], flat, matrix), rel=1e-13, abs=1e-13)
    best = conic_optimum(flat, matrix, states)
    assert result.value == pytest.approx(best, rel=1e-8, abs=1e-8)
    assert result.value - result.gap <= best + 1e-9


def test_optimum_equals_slsqp():
    graph, states, blocks, own, weight, theta = instance(3, equal=False)
    matrix, flat = matrix_of(graph, states, blocks, own, weight), np.concatenate(theta)
    result = minimise_simplex_qp(theta, BlockForm(graph, states, blocks, edge_weight=weight, node_blocks=own), tol=1e-10)
    cuts = np.cumsum(states)[:-1]
    sums = {"type": "eq", "fun": lambda x: np.array([part.sum() - 1 for part in np.split(x, cuts)])}
    start = np.concatenate([np.full(k, 1 / k) for k in states])
    other = minimize(
        energy, start, (flat, matrix), "SLSQP", lambda x, t, m: t + m @ x,
        bounds=[(0, 1)] * len(flat), constraints=sums, options=dict(ftol=1e-14, maxiter=500),
    )  # fmt: skip
    assert result.value == pytest.approx(other.fun, rel=1e-8)


@pytest.mark.parametrize("max_iter", [0, 1, 3, 7])
def test_the_frank_wolfe_gap_bounds_the_error_at_every_moment(max_iter):
    for seed in seeds(10):
        graph, states, blocks, own, weight, theta = instance(seed, equal=False)
        form = BlockForm(graph, states, blocks, edge_weight=weight, node_blocks=own)
        best = minimise_simplex_qp(theta, form, tol=1e-12)
        early = minimise_simplex_qp(theta, form, tol=0, max_iter=max_iter)
        assert early.value - early.gap <= best.value + 1e-12 <= early.value + 2e-12
        assert early.n_iter <= max_iter and early.n_products >= 1
        if max_iter == 0 and states.max() > 1:
            assert early.termination == "iteration_limit" or early.gap < 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_operator_equals_blocks(seed):
    graph, states, blocks, own, weight, theta = instance(seed, equal=False)
    form = BlockForm(graph, states, blocks, edge_weight=weight, node_blocks=own)
    matrix = matrix_of(graph, states, blocks, own, weight)
    x = np.random.default_rng(seed).normal(size=len(matrix))
    np.testing.assert_allclose(form.matvec(x), matrix @ x, rtol=1e-12, atol=1e-12)
    by_blocks = minimise_simplex_qp(theta, form, tol=1e-9)
    by_form = minimise_simplex_qp(theta, LinearOperator(form.shape, matvec=form.matvec), tol=1e-9)
    by_matrix = minimise_simplex_qp(theta, LinearOperator(matrix.shape, matvec=lambda v: matrix @ v), tol=1e-9)
    assert (by_form.n_iter, by_form.n_products) == (by_blocks.n_iter, by_blocks.n_products)
    np.testing.assert_allclose(by_form.mu, by_blocks.mu, atol=1e-12)
    assert by_matrix.value == pytest.approx(by_blocks.value, rel=1e-8, abs=1e-8)


def test_products_are_counted_as_the_operator_sees_them():
    graph, states, blocks, own, weight, theta = instance(1)
    matrix, calls = matrix_of(graph, states, blocks, own, weight), []
    operator = LinearOperator(matrix.shape, matvec=lambda v: calls.append(1) or matrix @ v, dtype=float)
    result = minimise_simplex_qp(theta, operator, tol=1e-9)
    assert result.n_products == len(calls) <= result.n_iter + 3


def grid(seed=0, side=12, n_labels=6, shared=True):
    rng = np.random.default_rng(seed)
    graph = ms.Graph.grid(side, side)
    blocks = definite(rng, 1 if shared else graph.n_edges, 2 * n_labels, 0.1)
    return graph, blocks, rng.normal(size=(graph.n_nodes, n_labels))


def test_shared_blocks_equal_blocks_of_their_own():
    graph, blocks, _ = grid()
    weight = np.random.default_rng(1).exponential(size=graph.n_edges)
    node = definite(np.random.default_rng(2), 2, 6)
    which = np.arange(graph.n_nodes) % 2
    shared = BlockForm(graph, 6, blocks[0], edge_weight=weight, node_blocks=node, node_block=which)
    own = BlockForm(graph, 6, np.repeat(blocks, graph.n_edges, axis=0) * weight[:, None, None], node_blocks=node[which])
    assert len(shared.rows.bank) < 10 < len(own.rows.bank)
    x = np.random.default_rng(3).normal(size=shared.shape[0])
    np.testing.assert_allclose(shared.matvec(x), own.matvec(x), rtol=1e-12, atol=1e-12)


def test_a_warm_start_needs_fewer_products():
    graph, blocks, theta = grid()
    form = BlockForm(graph, 6, blocks)
    cold = minimise_simplex_qp(theta, form)
    near = theta + 1e-3 * np.random.default_rng(5).normal(size=theta.shape)
    warm, anew = minimise_simplex_qp(near, form, init=cold.mu), minimise_simplex_qp(near, form)
    assert minimise_simplex_qp(theta, form, init=cold.mu).n_products == 1
    assert warm.n_products < anew.n_products
    assert warm.value == pytest.approx(anew.value, rel=2e-6)


def test_parts_of_a_union_are_solved_as_if_alone():
    graphs, linear, single = [], [], []
    block = definite(np.random.default_rng(0), 1, 8, 0.1)[0]
    for seed, side in enumerate((2, 5, 3)):
        rng = np.random.default_rng(seed)
        graphs.append(ms.Graph.grid(side, side))
        linear.append(10.0**seed * rng.normal(size=(side * side, 4)))
        single.append(minimise_simplex_qp(linear[-1], BlockForm(graphs[-1], 4, block)))
    union = ms.Graph.union(graphs)
    form, theta = BlockForm(union, 4, block), np.concatenate(linear)
    for n_jobs in (1, 2):
        together = minimise_simplex_qp(theta, form, parts=union.parts, n_jobs=n_jobs)
        np.testing.assert_allclose(together.mu, np.concatenate([r.mu for r in single]), atol=1e-13)
        np.testing.assert_allclose(together.values, [r.value for r in single], rtol=1e-13)
        np.testing.assert_allclose(together.gaps, [r.gap for r in single], rtol=1e-6, atol=1e-13)
        assert together.n_products == max(r.n_products for r in single)
    with pytest.raises(ms.InvalidProblemError, match="nodes 0 and 2 are joined by a block but lie in different parts"):
        minimise_simplex_qp(theta, form, parts=[0, 2, len(theta)])


@pytest.mark.parametrize("scale", [1e-9, 1e12])
def test_the_scale_of_the_costs_changes_nothing(scale):
    graph, blocks, theta = grid()
    one = minimise_simplex_qp(theta, BlockForm(graph, 6, blocks))
    other = minimise_simplex_qp(scale * theta, BlockForm(graph, 6, scale * blocks))
    assert other.n_products == one.n_products
    assert other.value == pytest.approx(scale * one.value, rel=1e-9)


def test_forbidden_labels_stay_at_zero():
    rng = np.random.default_rng(0)
    graph, blocks, theta = grid(side=5)
    forbidden = rng.random(theta.shape) < 0.4
    forbidden[np.arange(25), rng.integers(6, size=25)] = False
    result = minimise_simplex_qp(np.where(forbidden, np.inf, theta), BlockForm(graph, 6, blocks), tol=1e-9)
    costly = minimise_simplex_qp(np.where(forbidden, 1e4, theta), BlockForm(graph, 6, blocks), tol=1e-9)
    assert (result.mu[forbidden] == 0).all() and result.termination == "converged"
    np.testing.assert_allclose(result.mu, costly.mu, atol=1e-3)
    assert result.value == pytest.approx(costly.value, rel=1e-7)


def test_callback_time_limit_and_interrupt():
    graph, blocks, theta = grid()
    form, seen = BlockForm(graph, 6, blocks), []
    minimise_simplex_qp(theta, form, callback=lambda point: seen.append(point))
    assert len(seen) > 2 and [p.iteration for p in seen] == sorted({p.iteration for p in seen})
    assert minimise_simplex_qp(theta, form, callback=lambda point: True).termination == "stopped"
    assert minimise_simplex_qp(theta, form, time_limit=0).termination == "time_limit"

    def interrupt(point):
        raise KeyboardInterrupt

    result = minimise_simplex_qp(theta, form, callback=interrupt)
    best = minimise_simplex_qp(theta, form)
    assert result.termination == "interrupted" and result.value - result.gap <= best.value <= result.value


# ---- bad input -------------------------------------------------------------------------------------------------


def test_a_block_with_a_negative_eigenvalue_is_named():
    blocks = np.repeat(np.eye(4)[None], 3, axis=0)
    blocks[1, 2, 2] = -1.0
    with pytest.raises(
        ms.InvalidProblemError, match=r"edge block 1 is not positive semidefinite: its smallest eigenvalue is -1 "
    ):
        BlockForm(ms.Graph.chain(4), 2, blocks)
    with pytest.raises(
        ms.InvalidProblemError, match=r"node block 0 is not positive semidefinite: its smallest eigenvalue is -2 "
    ):
        BlockForm(ms.Graph.chain(4), 2, node_blocks=np.diag([3.0, -2.0]))


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_a_slightly_indefinite_block_is_lifted_and_logged(caplog, scale):
    block = scale * np.diag([1.0, 1.0, 1.0, -1e-10])
    with caplog.at_level(logging.WARNING, "maxsum"):
        form = BlockForm(ms.Graph.chain(3), 2, block)
    assert "slightly indefinite" in caplog.text
    unit = np.zeros(6)
    unit[3] = 1.0
    assert unit @ form.matvec(unit) >= scale * 1.0 - 1e-12
    unit = np.roll(unit, 2)
    assert unit @ form.matvec(unit) >= 0


def test_semidefinite_and_ill_conditioned_blocks_pass_without_a_word(caplog):
    root = np.random.default_rng(0).normal(size=(6, 2))
    with caplog.at_level(logging.WARNING, "maxsum"):
        for block in (root @ root.T, root @ root.T + 1e-12 * np.eye(6), np.zeros((6, 6))):
            form = BlockForm(ms.Graph.chain(4), 3, block)
            result = minimise_simplex_qp(np.random.default_rng(1).normal(size=(4, 3)), form)
            assert result.termination == "converged" and result.relative_gap <= 1e-6
    assert not caplog.text


GOOD = dict(graph=ms.Graph.chain(3), n_states=2, edge_blocks=np.eye(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(edge_blocks=np.eye(3)), r"edge_blocks have shape \(3, 3\), wanted \(T, 4, 4\)"),
        (dict(edge_blocks=np.triu(np.ones((4, 4)))), "edge block 0 is not symmetric"),
        (dict(edge_blocks=np.full((4, 4), np.nan)), "edge block 0 holds a number that is not finite"),
        (dict(edge_weight=[1.0, -1.0]), r"edge_weight of edge 1 is -1.0, wanted finite and >= 0"),
        (dict(edge_weight=[1.0]), r"edge_weight has shape \(1,\), wanted \(2,\)"),
        (dict(edge_block=[0, 1]), "edge 1 has block 1, but there are 1"),
        (dict(edge_blocks=np.repeat(np.eye(4)[None], 5, axis=0)), "there are 5 edge blocks for 2 edges"),
        (dict(n_states=[2, 0, 2]), "node 1 has 0 states"),
        (dict(n_states=2.0), "n_states has dtype float64"),
        (dict(edge_blocks=[np.eye(4), np.eye(3)]), r"edge block 1 \(nodes 1-2\) has shape \(3, 3\), wanted \(4, 4\)"),
    ],
)
def test_bad_forms_are_refused(change, message):
    BlockForm(**GOOD)
    with pytest.raises(ms.InvalidProblemError, match=message):
        BlockForm(**{**GOOD, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dict(theta=np.zeros((2, 2))), r"theta has shape \(2, 2\), wanted \(3, 2\)"),
        (dict(theta=[[0, np.nan], [0, 0], [0, 0]]), "theta of node 0, label 1 is nan"),
        (dict(theta=[[0, 0], [0, 0], [np.inf, np.inf]]), "node 2 has no allowed label"),
        (dict(init=np.zeros((3, 3))), r"init has shape \(3, 3\), wanted \(3, 2\)"),
        (dict(init=np.full((3, 2), np.nan)), "init holds nan"),
        (dict(parts=[0, 2]), "wanted node offsets that rise from 0 to 3"),
        (dict(form=np.eye(6)), "form is a ndarray, wanted a BlockForm or an object with shape and matvec"),
        (dict(form=LinearOperator((5, 5), matvec=lambda x: x)), r"the operator has shape \(5, 5\), wanted \(6, 6\)"),
        (dict(form=LinearOperator((6, 6), matvec=lambda x: x), parts=[0, 3]), "parts were given with an operator"),
        (
            dict(form=LinearOperator((6, 6), matvec=lambda x: x * np.inf, dtype=float)),
            "matvec returned (nan|inf), wanted finite",
        ),
        (
            dict(form=LinearOperator((6, 6), matvec=lambda x: -x)),
            "not positive semidefinite: along a feasible step its curvature is -1",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
def test_bad_calls_are_refused(change, message):
    good = dict(theta=[[0.0, 1.0], [0.5, 0.0], [2.0, 0.0]], form=BlockForm(**GOOD))
    minimise_simplex_qp(**good)
    with pytest.raises(ms.InvalidProblemError, match=message):
        minimise_simplex_qp(**{**good, **change})


@pytest.mark.parametrize("setting", [dict(tol=-1.0), dict(max_iter=-1), dict(time_limit=-1.0), dict(allowed=-1.0)], ids=str)
def test_bad_settings_are_refused(setting):
    ((name, value),) = setting.items()
    with pytest.raises(ms.InvalidParameterError, match=f"{name} is {value}, wanted"):
        minimise_simplex_qp([[0.0, 1.0], [0.5, 0.0], [2.0, 0.0]], BlockForm(**GOOD), **setting)


def test_steps_in_the_null_space_are_not_taken_for_negative_curvature():
    """A form of rank one: the minimum is reached along steps whose product is nothing but rounding."""
    for seed in seeds(200):
        rng = np.random.default_rng(seed)
        n_nodes, n_labels = int(rng.integers(1, 4)), int(rng.integers(2, 5))
        root = rng.normal(size=(n_nodes * n_labels, int(rng.integers(1, 3))))
        matrix, theta = root @ root.T, 0.1 * rng.normal(size=(n_nodes, n_labels))
        result = minimise_simplex_qp(theta, aslinearoperator(matrix), tol=1e-9)
        assert result.gap <= 1e-7 * max(1.0, abs(result.value)), seed
        assert result.value == pytest.approx(energy(result.mu.ravel(), theta.ravel(), matrix), abs=1e-9)


def test_conjugate_directions_need_few_products():
    """On a well-conditioned grid of positive definite blocks, as few as the target of the benchmark."""
    rng = np.random.default_rng(0)
    graph = ms.Graph.grid(12, 12)
    root = rng.normal(size=(40, 40))
    form = BlockForm(graph, 20, (root @ root.T / 40 + 0.1 * np.eye(40))[None])
    for scale in (0.3, 1.0, 3.0):
        result = minimise_simplex_qp(scale * rng.normal(size=(144, 20)), form, tol=1e-6)
        assert result.termination == "converged" and result.n_products <= 30


@pytest.mark.parametrize("seed", range(4))
def test_the_product_that_skips_rows_equals_the_whole_one(seed):
    graph, states, blocks, own, weight, _ = instance(seed, equal=False)
    form = BlockForm(graph, states, blocks, edge_weight=weight, node_blocks=own)
    rng = np.random.default_rng(seed)
    mask = np.arange(states.max()) < states[:, None]
    x = np.where(mask, rng.normal(size=mask.shape), 0.0)
    rest = np.arange(len(states)) % 2 == seed % 2
    x[rest] = 0.0
    live = np.where(rest, kernels.CORNER, kernels.STEPPED).astype(np.uint8)
    whole, skipped = np.zeros_like(x), np.full_like(x, 7.0)
    wanted = kernels.multiply(form.rows, x, whole, 0, len(x))
    found = kernels.multiply_live(form.rows, x, skipped, 0, len(x), live)
    np.testing.assert_allclose(skipped[mask], whole[mask], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_rows_that_left_a_corner_may_return_to_it():
    """Far starts make rows rest and move again; the answer is that of a start at the optimum."""
    for seed in seeds(10):
        graph, states, blocks, own, weight, theta = instance(seed, equal=False)
        form = BlockForm(graph, states, blocks, edge_weight=weight, node_blocks=own)
        best = minimise_simplex_qp(theta, form, tol=1e-11)
        for k in range(int(states.max())):
            corner = np.zeros_like(best.mu)
            corner[np.arange(len(states)), np.minimum(k, states - 1)] = 1.0
            other = minimise_simplex_qp(theta, form, init=corner, tol=1e-11)
            assert other.termination == "converged"
            assert other.value == pytest.approx(best.value, rel=1e-9, abs=1e-9)
            np.testing.assert_allclose(other.mu, best.mu, atol=1e-4)
