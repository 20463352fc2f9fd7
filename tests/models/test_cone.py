"""Cones of weights: projection with multipliers, exact repair."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidProblemError
from maxsum.inference import MaxFlow
from maxsum.models.cone import Cone


def symmetric_table(k, start=0):
    upper = np.triu_indices(k)
    table = np.zeros((k, k), dtype=int)
    table[upper] = start + np.arange(len(upper[0]))
    return np.maximum(table, table.T)


def mixed():
    """Two 3x3 tables, a 2x4 one, a symmetric 4x4 one, signs and free weights, in a shuffled order."""
    shuffled = np.random.default_rng(5).permutation(45)
    tables = [shuffled[:9].reshape(3, 3), shuffled[9:18].reshape(3, 3), shuffled[18:26].reshape(2, 4)]
    tables.append(shuffled[symmetric_table(4, 26)])
    nonneg = np.zeros(45, dtype=bool)
    nonneg[shuffled[36:41]] = True
    return Cone(45, nonneg, tables)


def cones():
    yield Cone.free(5)
    yield Cone.nonnegative(6, [0, 3, 5])
    for k in (2, 3, 5, 9):
        yield Cone.supermodular(2 * k * k + 3, np.arange(2 * k * k).reshape(2, k, k))
    yield Cone.supermodular(10, symmetric_table(4)[None])
    yield mixed()


def check_projection(cone, u, found, tol=1e-12):
    """The conditions of Karush, Kuhn and Tucker decide: the cone is convex."""
    w, nonneg, rows = found
    scale = max(np.abs(u).max(), 1e-300)
    assert np.abs(u + nonneg + cone.rows.T @ rows - w).max() <= tol * scale
    assert (nonneg >= 0).all() and (rows >= 0).all() and (nonneg[~cone.nonneg] == 0).all()
    assert cone.contains(w, tol * scale)
    assert abs(nonneg @ w) <= tol * scale**2 and abs(rows @ (cone.rows @ w)) <= 10 * tol * scale**2


@pytest.mark.parametrize("cone", list(cones()), ids=repr)
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_projection_satisfies_its_optimality_conditions(cone, scale):
    rng = np.random.default_rng(0)
    for _ in range(5):
        u = scale * rng.normal(size=cone.n_weights)
        found = cone.project(u)
        check_projection(cone, u, found)
        near = u + 1e-3 * scale * rng.normal(size=len(u))
        warm, cold = cone.project(near, found.rows), cone.project(near)
        check_projection(cone, near, warm)
        assert np.allclose(warm.weights, cold.weights, rtol=0, atol=1e-12 * scale)
        again = cone.project(found.weights)
        assert np.allclose(again.weights, found.weights, rtol=0, atol=1e-12 * scale)


def test_degenerate_and_large_tables():
    rng = np.random.default_rng(1)
    for k in (3, 10, 26):
        cone = Cone.supermodular(k * k, np.arange(k * k).reshape(1, k, k))
        modular = np.add.outer(rng.normal(size=k), rng.normal(size=k)).ravel()
        for u in (modular, np.zeros(k * k), -np.eye(k).ravel(), 1 + 1e-9 * rng.normal(size=k * k)):
            check_projection(cone, u, cone.project(u))
        assert np.allclose(cone.project(modular).weights, modular, rtol=0, atol=1e-13)


def test_projection_of_a_two_label_table_by_hand():
    cone = Cone.supermodular(4, [[[0, 1], [2, 3]]])
    w, _, rows = cone.project([0.0, 1.0, 3.0, 0.0])
    assert w.tolist() == [1.0, 0.0, 2.0, 1.0] and rows.tolist() == [1.0]
    assert cone.project([1.0, 0.0, 0.0, 1.0])[0].tolist() == [1.0, 0.0, 0.0, 1.0]


def test_projection_of_signs():
    w, nonneg, rows = Cone.nonnegative(4, [1, 2]).project([-1.0, -2.0, 3.0, -4.0])
    assert w.tolist() == [-1.0, 0.0, 3.0, -4.0] and nonneg.tolist() == [0.0, 2.0, 0.0, 0.0] and not len(rows)


def test_multipliers_belong_to_the_matrix():
    cone = mixed()
    u = np.random.default_rng(2).normal(size=45)
    assert cone.matrix.shape == (5 + len(cone.rows.toarray()), 45)
    assert np.allclose(u + cone.matrix.T @ cone.multipliers(u), cone.project(u).weights, rtol=0, atol=1e-13)


def test_symmetric_tables_have_a_row_for_each_cell_of_the_upper_half():
    cone = Cone.supermodular(6, symmetric_table(3)[None])
    assert cone.rows.toarray().tolist() == [[1, -2, 0, 1, 0, 0], [0, 1, -1, -1, 1, 0], [0, 0, 0, 1, -2, 1]]


@pytest.mark.parametrize("k", [2, 3, 4, 7, 12])
def test_repaired_tables_are_supermodular_exactly_and_maxflow_takes_them(k):
    rng = np.random.default_rng(k)
    cone = Cone.supermodular(k * k, np.arange(k * k).reshape(1, k, k))
    broken = 0
    for scale in (1e-300, 1e-6, 1.0, 1e6):
        for _ in range(10):
            u = scale * rng.normal(size=k * k)
            w = cone.project(u).weights
            broken += not cone.contains(w)
            fixed = cone.repair(u)
            assert np.linalg.norm(fixed - w) <= 4 * k * k * np.finfo(float).eps * np.linalg.norm(u)
            assert cone.contains(fixed) and np.array_equal(cone.repair(fixed), fixed)
            g = fixed.reshape(k, k)
            assert (g[:-1, :-1] + g[1:, 1:] - g[:-1, 1:] - g[1:, :-1] >= 0).all()
            assert (g[:-1, :-1] + g[1:, 1:] >= g[:-1, 1:] + g[1:, :-1]).all()
            if scale == 1.0:
                problem = ms.Problem(ms.Graph.chain(3), rng.normal(size=(3, k)), g)
                assert MaxFlow().supports(problem).ok
    assert broken, "rounding never broke a projected table: the test shows nothing"


def test_repair_of_a_mixed_cone():
    cone = mixed()
    rng = np.random.default_rng(3)
    for _ in range(20):
        u = rng.normal(size=45)
        w = cone.repair(u)
        assert cone.contains(w) and np.array_equal(cone.repair(w), w)
        assert np.allclose(w, cone.project(u).weights, rtol=0, atol=1e-14)
        untouched = ~cone.nonneg & ~np.isin(np.arange(45), np.concatenate([t.ravel() for t in cone.tables]))
        assert np.array_equal(w[untouched], u[untouched])


def test_contains_with_and_without_tolerance():
    cone = Cone.nonnegative(2, [0])
    assert cone.contains([0.0, -1.0]) and not cone.contains([-1e-9, 0.0]) and cone.contains([-1e-9, 0.0], 1e-8)
    table = Cone.supermodular(4, [[[0, 1], [2, 3]]])
    assert not table.contains([0.0, 1e-9, 0.0, 0.0]) and table.contains([0.0, 1e-9, 0.0, 0.0], 1e-8)
    assert Cone.free(3).is_free and not cone.is_free and not table.is_free
    assert Cone.supermodular(2, np.zeros((0, 3, 3), dtype=int)).is_free


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cone.nonnegative(3, [3]), "weights 0 to 2"),
        (lambda: Cone(3, [0, 1]), "bool"),
        (lambda: Cone.supermodular(4, [[[0, 1], [2, 4]]]), "0 to 3"),
        (lambda: Cone.supermodular(4, [[[0, 1], [2, 0]]]), "twice"),
        (lambda: Cone.supermodular(4, [[[0.0, 1], [2, 3]]]), "matrix of weight indices"),
        (lambda: Cone.supermodular(8, [[[0, 1], [2, 3]], [[3, 4], [5, 6]]]), "weight 3"),
        (lambda: Cone(4, np.array([True, False, False, False]), [[[0, 1], [2, 3]]]), "weight 0"),
        (lambda: Cone.free(2).project([np.nan, 0.0]), "weight 0 is nan"),
        (lambda: Cone.free(2).project([0.0]), "shape"),
        (lambda: Cone.supermodular(4, [[[0, 1], [2, 3]]]).project(np.zeros(4), np.zeros(3)), "1 rows"),
    ],
)
def test_faults_are_named(make, words):
    with pytest.raises(InvalidProblemError, match=words):
        make()
