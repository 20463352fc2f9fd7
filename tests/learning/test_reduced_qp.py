"""The reduced dual: against Clarabel and the enumerated structured SVM, invariants, hostile shapes."""

import numpy as np
import pytest
from reference.structured_svm import enumerate_planes, primal_value, solve_structured_svm

from maxsum.core.errors import InvalidProblemError
from maxsum.qp import steps as qp_steps
from maxsum.qp.reduced import ReducedQP


def random_task(n, n_blocks, dim, seed, n_orthant=0, scale=1.0, c_scale=1.0):
    """Vectors, offsets, blocks (-1 last) and block weights; every block has a column."""
    rng = np.random.default_rng(seed)
    vectors = scale * (rng.normal(size=(n + n_orthant, dim)) * np.logspace(0, -2, dim) + 0.5 * rng.normal(size=dim))
    vectors[n:] = scale * np.abs(rng.normal(size=(n_orthant, dim)))
    offset = np.concatenate([rng.uniform(0, 5, size=n), np.zeros(n_orthant)])
    block = np.concatenate([np.arange(n_blocks), rng.integers(0, n_blocks, n - n_blocks), np.full(n_orthant, -1)])
    return vectors, offset, block, c_scale * rng.uniform(0.5, 2, size=n_blocks)


def build(vectors, offset, block, c, loose=False):
    qp = ReducedQP(c, loose=loose)
    qp.extend(vectors @ vectors.T, offset, block)
    return qp


def reference_value(vectors, offset, block, c, loose=False):
    """Optimal value by Clarabel on the primal."""
    from reference.structured_svm import Planes

    examples = []
    for j in range(len(c)):
        own = block == j
        zero = [np.zeros((1, vectors.shape[1]))] if loose else []
        examples.append(Planes(np.concatenate([offset[own], np.zeros(len(zero))]), np.vstack([vectors[own], *zero])))
    return solve_structured_svm(examples, c, vectors[block < 0]).value


def check_claims(qp, answer):
    """Feasible, and the value and the bound belong to the variables."""
    alpha, own = answer.alpha, qp.block >= 0
    assert (alpha >= 0).all()
    mass = np.bincount(qp.block[own], alpha[own], len(qp.weights))
    filled = np.bincount(qp.block[own], minlength=len(qp.weights)) > 0
    over = mass - qp.weights if qp.loose else np.abs(mass - qp.weights)
    assert (over[filled] <= 1e-13 * max(qp.weights.max(), 1e-300)).all()
    value = alpha @ qp.offset - 0.5 * alpha @ qp.gram @ alpha
    assert answer.value == pytest.approx(value, rel=1e-9, abs=1e-12 * abs(alpha @ qp.offset))
    assert answer.gap >= 0 and answer.upper >= answer.value


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("n_orthant", [0, 6])
@pytest.mark.parametrize(("n", "n_blocks", "dim"), [(12, 1, 5), (40, 1, 8), (60, 10, 12), (80, 80, 10), (150, 30, 10)])
def test_the_optimum_is_that_of_clarabel(n, n_blocks, dim, n_orthant, loose):
    task = random_task(n, n_blocks, dim, seed=n + dim, n_orthant=n_orthant)
    wanted = reference_value(*task, loose=loose)
    qp = build(*task, loose=loose)
    answer = qp.solve(1e-9)
    check_claims(qp, answer)
    assert answer.converged and answer.relative_gap <= 1e-9
    assert answer.value == pytest.approx(wanted, rel=1e-8)
    assert answer.value <= wanted + 1e-8 * abs(wanted) and answer.upper >= wanted - 1e-8 * abs(wanted)


@pytest.mark.parametrize("n_orthant", [0, 5])
@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("c_scale", [1e-6, 1.0, 1e6])
def test_scales_do_not_matter(scale, c_scale, n_orthant):
    """With vectors times s and c times t / s**2, all variables scale; offsets times t keep the optimum's shape."""
    vectors, offset, block, c = random_task(50, 8, 6, seed=3, n_orthant=n_orthant)
    plain = build(vectors, offset, block, c).solve(1e-9)
    scaled = build(vectors * scale, offset * c_scale, block, c * c_scale / scale**2).solve(1e-9)
    assert plain.converged and scaled.converged
    assert scaled.value == pytest.approx(plain.value * (c_scale / scale) ** 2, rel=1e-8)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("C", [1.0, 1e3])
def test_a_reached_bound_is_never_below_the_optimum(seed, C):
    task = random_task(40, 5, 6, seed=seed, n_orthant=4 * (seed % 2), c_scale=C)
    best = build(*task).solve(1e-12).value
    for tol in (0.5, 1e-1, 1e-2, 1e-4):
        answer = build(*task).solve(tol)
        assert answer.value <= best + 1e-10 * abs(best) and answer.upper >= best - 1e-10 * abs(best)
        assert answer.relative_gap <= tol


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("n_orthant", [0, 5])
def test_the_bound_at_any_point_is_the_primal_value_of_feasible_weights(n_orthant, loose):
    vectors, offset, block, c = random_task(25, 4, 6, seed=15, n_orthant=n_orthant, c_scale=3.0)
    vectors[:25] -= vectors[:25].mean(axis=0)
    best = build(vectors, offset, block, c, loose).solve(1e-11)
    rng, violated = np.random.default_rng(0), 0
    for trial in range(40):
        qp = build(vectors, offset, block, c, loose)
        alpha = best.alpha * rng.choice([1.0, 0.98, 0.5], size=len(block)) if trial % 2 else rng.exponential(size=len(block))
        alpha[block < 0] *= trial % 3
        for j, cj in enumerate(c):
            alpha[block == j] *= cj / alpha[block == j].sum() * (rng.choice([1.0, 0.7, 0.0]) if loose else 1.0)
        qp.alpha[:] = alpha
        answer = qp.solve(1e12)
        assert answer.steps == 0 and np.allclose(answer.alpha, alpha, rtol=1e-12)
        assert answer.upper >= best.value - 1e-9 * abs(best.value)
        violated += answer.violation > 0
        moved = alpha.copy()
        if answer.violation > 0:
            moved[block < 0] += answer.violation * qp._interior()
        w = moved @ vectors
        assert (vectors[block < 0] @ w >= -1e-9).all()
        slack = [max((offset - vectors @ w)[block == j].max(), 0.0 if loose else -np.inf) for j in range(4)]
        assert answer.upper == pytest.approx(0.5 * w @ w + c @ slack, rel=1e-9)
    assert (violated > 0) == (n_orthant > 0)


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("n_blocks", [1, 7])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_the_value_never_falls_when_columns_come(n_blocks, loose, C):
    vectors, offset, block, c = random_task(90, n_blocks, 10, seed=4, n_orthant=0, c_scale=C)
    qp, last = ReducedQP(c, loose=loose), -np.inf
    for i in range(90):
        before = qp.value
        assert qp.append(vectors[: i + 1] @ vectors[i], offset[i], block[i]) == i
        if loose or i >= n_blocks:
            assert qp.value == pytest.approx(before, rel=1e-12)
        answer = qp.solve(1e-7)
        assert answer.converged
        if loose or i >= n_blocks:
            assert answer.value >= last - 1e-13 * abs(last)
        last = answer.value
    assert np.array_equal(qp.gram, np.array(vectors @ vectors.T)) or np.allclose(qp.gram, vectors @ vectors.T, rtol=1e-13)
    assert last == pytest.approx(build(vectors, offset, block, c, loose).solve(1e-9).value, rel=2e-7)


def test_a_second_solve_costs_nothing():
    qp = build(*random_task(100, 10, 20, seed=5))
    first, second = qp.solve(1e-6), qp.solve(1e-6)
    assert first.steps > 0 and second.steps == 0
    assert second.value == pytest.approx(first.value, rel=1e-14)


def test_columns_that_say_the_same_and_columns_that_say_nothing():
    vectors, offset, block, c = random_task(30, 4, 6, seed=6)
    once = build(vectors, offset, block, c).solve(1e-10)
    twice = build(*(np.concatenate([x, x, x]) for x in (vectors, offset, block)), c).solve(1e-10)
    assert twice.converged and twice.value == pytest.approx(once.value, rel=1e-9)
    zeros = build(np.zeros((30, 6)), offset, block, c).solve(1e-10)
    assert zeros.converged
    assert zeros.value == pytest.approx(sum(cj * offset[block == j].max() for j, cj in enumerate(c)), rel=1e-12)
    loose = build(vectors, offset, block, c, loose=True).solve(1e-10)
    written = build(np.vstack([vectors, np.zeros((4, 6))]), np.r_[offset, np.zeros(4)], np.r_[block, np.arange(4)], c)
    assert loose.value == pytest.approx(written.solve(1e-10).value, rel=1e-9)


def test_blocks_without_weight_or_columns():
    vectors, offset, block, c = random_task(30, 4, 6, seed=7)
    c[1] = 0.0
    answer = build(vectors, offset, block, c).solve(1e-10)
    assert answer.converged and (answer.alpha[block == 1] == 0).all()
    others = block != 1
    alone = build(vectors[others], offset[others], block[others], c).solve(1e-10)
    assert answer.value == pytest.approx(alone.value, rel=1e-9)
    assert ReducedQP(np.zeros(3)).solve().converged
    empty = ReducedQP([1.0, 2.0], loose=True).solve()
    assert empty.value == 0 and empty.gap == 0 and empty.top.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("loose", [False, True])
def test_removed_columns_are_gone(loose):
    vectors, offset, block, c = random_task(60, 5, 8, seed=8, n_orthant=4)
    qp = build(vectors, offset, block, c, loose)
    qp.solve(1e-9)
    mask = np.random.default_rng(0).random(64) < 0.5
    mask[qp.alpha > 0] |= np.arange(int((qp.alpha > 0).sum())) % 2 == 0
    keep = ~mask
    qp.remove(mask)
    mass = np.bincount(qp.block[qp.block >= 0], qp.alpha[qp.block >= 0], 5)
    assert (mass <= c * (1 + 1e-12)).all() and (loose or mass == pytest.approx(c))
    answer = qp.solve(1e-9)
    check_claims(qp, answer)
    assert len(qp) == keep.sum() and np.allclose(qp.gram, vectors[keep] @ vectors[keep].T, rtol=1e-12)
    fresh = build(vectors[keep], offset[keep], block[keep], c, loose).solve(1e-9)
    assert answer.value == pytest.approx(fresh.value, rel=1e-8)


def test_new_weights_of_the_blocks():
    vectors, offset, block, c = random_task(50, 5, 8, seed=9)
    qp = build(vectors, offset, block, c)
    qp.solve(1e-9)
    new = 3 * c[::-1].copy()
    new[2] = 0
    qp.reweight(new)
    assert qp.solve(1e-9).value == pytest.approx(build(vectors, offset, block, new).solve(1e-9).value, rel=1e-8)
    qp.reweight(c)
    answer = qp.solve(1e-9)
    check_claims(qp, answer)
    assert answer.value == pytest.approx(build(vectors, offset, block, c).solve(1e-9).value, rel=1e-8)


def crawling_task():
    """Many columns in few dimensions and a large C: pairwise steps alone take very long."""
    rng = np.random.default_rng(11)
    vectors = rng.normal(size=(240, 30)) * np.logspace(0, -2, 30)
    return vectors, rng.uniform(0, 5, size=240), np.arange(240) % 6, np.full(6, 1e3)


@pytest.mark.parametrize("piqp", [True, False])
def test_where_pairs_crawl_others_step_in(piqp):
    if piqp:
        pytest.importorskip("piqp")
    task = crawling_task()
    wanted = reference_value(*task, loose=True)
    answer = build(*task, loose=True).solve(1e-9, piqp=piqp)
    assert answer.converged and answer.value == pytest.approx(wanted, rel=1e-8)
    assert answer.method.startswith("smo+") and ("piqp" in answer.method) == piqp
    assert answer.stationarity <= 1e-5


def test_a_worse_answer_of_piqp_is_not_kept(monkeypatch):
    def worse(gram, offset, block, weights, *rest):
        calls.append(1)
        return np.zeros(len(gram)), np.zeros(len(gram))

    calls = []

    monkeypatch.setattr("maxsum.qp.reduced.interior_point", worse)
    qp = build(*crawling_task(), loose=True)
    answer = qp.solve(1e-9)
    check_claims(qp, answer)
    assert calls and answer.converged and "piqp" not in answer.method


def test_the_way_into_the_orthant():
    rng = np.random.default_rng(12)
    vectors = np.abs(rng.normal(size=(6, 8)))
    p = qp_steps.interior_direction(vectors @ vectors.T)
    assert (p >= 0).all() and (vectors @ vectors.T @ p >= 1 - 1e-12).all()
    opposite = np.array([[1.0, 0.0], [-1.0, 0.0]])
    assert qp_steps.interior_direction(opposite @ opposite.T) is None


def test_hard_constraints_with_offsets():
    """``min w^2 / 2, w >= 1``: value 1/2, multiplier 1."""
    qp = ReducedQP([])
    qp.append([1.0], 1.0, -1)
    answer = qp.solve(1e-12)
    assert answer.converged and answer.value == pytest.approx(0.5) and answer.alpha == pytest.approx([1.0])
    assert answer.violation == 0 and answer.complementarity <= 1e-15


def test_hard_constraints_that_contradict_each_other_are_never_solved():
    """``w >= 1`` and ``-w >= 1``: the dual has no bound, so no gap may be claimed."""
    for extra in (0.0, 1e-3):
        qp = ReducedQP([])
        vectors = np.array([[1.0, 0.0], [-1.0, 0.0], [0.5, 1.0]])
        qp.extend(vectors @ vectors.T, [1.0, 1.0, extra], [-1, -1, -1])
        answer = qp.solve(1e-6)
        assert not answer.converged and answer.gap == np.inf and answer.upper == np.inf


def test_opposite_rows_are_an_equation():
    """``w_0 >= 0`` and ``-w_0 >= 0`` leave no interior; the optimum is that without the first coordinate."""
    vectors, offset, block, c = random_task(30, 3, 6, seed=14)
    rows = np.zeros((2, 6))
    rows[:, 0] = 1, -1
    task = np.vstack([vectors, rows]), np.r_[offset, 0, 0], np.r_[block, -1, -1], c
    answer = build(*task, loose=True).solve(1e-8)
    without = build(vectors[:, 1:], offset, block, c, loose=True).solve(1e-10)
    assert answer.converged and answer.value == pytest.approx(without.value, rel=1e-7)
    assert abs((answer.alpha @ task[0])[0]) <= 1e-10


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("supermodular", [False, True])
def test_the_enumerated_structured_svm(n_labels, supermodular):
    rng = np.random.default_rng(13)
    n_nodes, n_weights = 3, n_labels + n_labels**2

    def plane(j):
        x = rng.normal(size=n_nodes)
        truth = rng.integers(0, n_labels, size=n_nodes)

        def feature(labels):
            psi = np.zeros(n_weights)
            np.add.at(psi, labels, x)
            np.add.at(psi, n_labels + labels[:-1] * n_labels + labels[1:], 1.0)
            return psi

        return enumerate_planes(truth, n_labels, feature, lambda y, z: float((y != z).sum()))

    examples, c = [plane(j) for j in range(5)], np.full(5, 2.0)
    rows = np.zeros((0, n_weights))
    if supermodular:
        from maxsum.models.cone import Cone

        rows = Cone.supermodular(n_weights, n_labels + np.arange(n_labels**2).reshape(1, n_labels, n_labels)).rows.toarray()
    best = solve_structured_svm(examples, c, rows)
    vectors = np.vstack([*(p.vectors for p in examples), rows])
    offset = np.concatenate([*(p.offset for p in examples), np.zeros(len(rows))])
    block = np.concatenate([np.repeat(np.arange(5), n_labels**n_nodes), np.full(len(rows), -1)])
    answer = build(vectors, offset, block, c).solve(1e-10)
    w = answer.alpha @ vectors
    assert answer.converged and answer.value == pytest.approx(best.value, rel=1e-8)
    assert np.allclose(w, best.weights, atol=1e-4)
    assert primal_value(examples, c, w) == pytest.approx(best.value, rel=1e-5)
    assert (rows @ w >= -1e-5).all() and answer.top == pytest.approx(best.slacks, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda qp: qp.append([1.0], 0.0, 0), "shape"),
        (lambda qp: qp.append([1.0, 1.0], 0.0, 2), "-1 to 1"),
        (lambda qp: qp.append([1.0, np.nan], 0.0, 0), "finite"),
        (lambda qp: qp.append([1.0, -1.0], 0.0, 0), "square"),
        (lambda qp: qp.append([0.0, 0.0], 1.0, -1), "cannot hold"),
        (lambda qp: qp.remove([0]), "bools"),
        (lambda qp: qp.reweight([1.0]), "2 blocks"),
        (lambda qp: ReducedQP([1.0, -1.0]), ">= 0"),
    ],
)
def test_faults_are_named(call, words):
    qp = ReducedQP([1.0, 1.0])
    qp.append([1.0], 0.5, 0)
    with pytest.raises(InvalidProblemError, match=words):
        call(qp)
