"""Kernels for problems with factors, against enumeration in plain Python (`reference.factor_nets`)."""

from __future__ import annotations

import numpy as np
import pytest
from reference import factor_nets as ref
from reference.factor_nets import AGREEMENT, ALL_DIFFERENT, AUTOMATON, CARDINALITY, INF, TABLE, Builder, random_net
from reference.seeds import seeds
from scipy.optimize import linear_sum_assignment

from maxsum.kernels import assignment, counting, factor_decode, factor_moves, factor_passes, factor_support, factors

KINDS = {
    "table": TABLE,
    "agreement": AGREEMENT,
    "cardinality": CARDINALITY,
    "automaton": AUTOMATON,
    "all_different": ALL_DIFFERENT,
}
MIXES = {**{name: (kind,) for name, kind in KINDS.items()}, "mixed": tuple(range(5))}


def nets(mix: str, n: int, hard: float = 0.1, **shape: int):
    rng = np.random.default_rng([len(mix), n])
    for _ in range(n):
        yield rng, random_net(rng, MIXES[mix], hard if rng.random() < 0.7 else 0.0, **shape)


def random_messages(rng: np.random.Generator, net, scale: float = 1.0) -> np.ndarray:
    return scale * rng.normal(size=(len(net.nodes), net.unary.shape[1]))


@pytest.mark.parametrize("mix", MIXES)
def test_max_marginals(mix: str) -> None:
    for rng, net in nets(mix, 60):
        for f in range(len(net.kind)):
            n, n_labels = int(net.ptr[f + 1] - net.ptr[f]), net.unary.shape[1]
            for hard in (0.0, 0.25):
                psi = np.where(rng.random((n, n_labels)) < hard, -INF, rng.normal(size=(n, n_labels)))
                wanted, found, one = ref.marginals(net, f, psi), np.full((n, n_labels), np.nan), np.full(n_labels, np.nan)
                top = factors.max_marginals(net, f, psi, found)
                np.testing.assert_allclose(found, wanted, atol=1e-10, rtol=0)
                assert top == pytest.approx(wanted.max(), abs=1e-10)
                for i in range(n):
                    assert factors.max_marginal(net, f, int(net.ptr[f]) + i, psi, one) == pytest.approx(
                        wanted[i].max(), abs=1e-10
                    )
                    np.testing.assert_allclose(one, wanted[i], atol=1e-10, rtol=0)


def test_tables_of_every_shape() -> None:
    """Folds go four rows at a time: sizes around that."""
    rng = np.random.default_rng(0)
    for shape in (
        (7,),
        (1,),
        (5, 9),
        (9, 5),
        (1, 6),
        (6, 1),
        (2, 3, 11),
        (11, 2, 3),
        (3, 8, 4),
        (2, 2, 2, 2, 2),
        (4, 1, 5, 1, 3),
        (1, 1, 1),
    ):
        table = np.where(rng.random(shape) < 0.2, -INF, rng.normal(size=shape))
        built = Builder(list(shape), np.zeros((len(shape), max(shape))))
        built.add(TABLE, range(len(shape)), table.ravel())
        net = built.net()
        psi, found = rng.normal(size=(len(shape), max(shape))), np.empty((len(shape), max(shape)))
        factors.max_marginals(net, 0, psi, found)
        total = table + sum(psi[i, :n].reshape([-1 if j == i else 1 for j in range(len(shape))]) for i, n in enumerate(shape))
        for i, n in enumerate(shape):
            wanted = np.full(max(shape), -INF)
            wanted[:n] = total.max(axis=tuple(j for j in range(len(shape)) if j != i))
            np.testing.assert_allclose(found[i], wanted, atol=1e-12)


@pytest.mark.parametrize("mix", MIXES)
def test_terms(mix: str) -> None:
    for rng, net in nets(mix, 40):
        messages = random_messages(rng, net)
        y = np.array([rng.integers(n) for n in net.n_states], dtype=np.int32)
        found = factor_passes.terms(net, messages, y)
        np.testing.assert_allclose(found, ref.terms(net, messages, y), atol=1e-10)
        assert factor_moves.value(net, y) == pytest.approx(ref.score(net, y))
        assert factor_passes.terms(net, messages, np.zeros(0, dtype=np.int32)) == (found[0], 0.0, found[2], 0.0)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("settle", [False, True])
def test_sweeps_never_make_the_bound_worse(mix: str, settle: bool) -> None:
    n_tight = 0
    for rng, net in nets(mix, 40, n_nodes=5):
        best = ref.optimum(net)
        messages = random_messages(rng, net, 2.0 * (rng.random() < 0.5))
        before = ref.bound(net, messages)
        for i in range(30):
            found = factor_passes.sweep(net, i % 2 == 0, messages, settle and i > 0)
            assert np.isfinite(messages).all()
            after = ref.bound(net, messages) if i < 4 or i == 29 else found
            assert found == pytest.approx(after, abs=1e-10)
            assert best - 1e-10 <= after <= before + 1e-10
            before = after
        n_tight += after <= best + 1e-6
    assert n_tight >= 15  # a relaxation, but most of these are easy


@pytest.mark.parametrize("mix", MIXES)
def test_first_members_need_not_ask_again(mix: str) -> None:
    for rng, net in nets(mix, 30):
        every = random_messages(rng, net)
        some = every.copy()
        for i in range(12):
            full, less = factor_passes.sweep(net, i % 2 == 0, every), factor_passes.sweep(net, i % 2 == 0, some, i > 0)
            assert less == pytest.approx(full, abs=1e-12)
            np.testing.assert_allclose(some, every, atol=1e-12)


def test_a_chain_of_tables_is_solved() -> None:
    """A tree of factors: the bound is tight after a pass each way, and conditioning finds the optimum."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        n_states = rng.integers(2, 5, size=7)
        built = Builder(list(n_states), rng.normal(size=(7, 4)))
        for members in ((0, 1, 2), (2, 3, 4), (4, 5, 6)):
            built.add(TABLE, members, rng.normal(size=n_states[list(members)]).ravel())
        net = built.net()
        messages, y = np.zeros((9, 4)), np.zeros(7, dtype=np.int32)
        factor_passes.sweep(net, True, messages)
        found, best = factor_passes.sweep(net, False, messages), ref.optimum(net)
        assert found == pytest.approx(best, abs=1e-10)
        factor_decode.decode(net, True, messages, y)
        assert ref.score(net, y) == pytest.approx(best, abs=1e-10)


def test_messages_do_not_drift() -> None:
    for rng, net in nets("mixed", 20, hard=0.0):
        messages = random_messages(rng, net) + 1e3 * rng.normal(size=(len(net.nodes), 1))
        for i in seeds(300):
            factor_passes.sweep(net, i % 2 == 0, messages)
        assert np.abs(messages[net.unary[net.nodes] > -INF]).max() < 50


def test_a_problem_without_labellings_has_no_bound() -> None:
    built = Builder([2, 2], np.zeros((2, 2)))
    built.add(TABLE, [0, 1], [-INF] * 4)
    net, messages = built.net(), np.ones((2, 2))
    assert factor_passes.sweep(net, True, messages) == -INF
    assert np.isfinite(messages).all()
    empty = net._replace(unary=np.array([[0.0, 1.0], [-INF, -INF]]))
    assert factor_passes.sweep(empty, True, messages) == -INF
    assert factor_passes.terms(empty, messages, np.zeros(2, dtype=np.int32))[1] == INF


def test_factors_without_members_are_constants() -> None:
    built = Builder([2], np.zeros((1, 2)))
    built.add(TABLE, [], [0.5])
    built.add(AGREEMENT, [], [7.0, 7.0])
    built.cardinality([], np.zeros((0, 2)), [0.25])
    built.automaton([], [], [0.125])
    built.add(ALL_DIFFERENT, [])
    net, y = built.net(), np.zeros(1, dtype=np.int32)
    assert [factors.max_marginals(net, f, np.zeros((0, 2)), np.zeros((0, 2))) for f in range(5)] == [0.5, 0.0, 0.25, 0.125, 0.0]
    assert factor_passes.sweep(net, True, np.zeros((0, 2))) == factor_moves.value(net, y) == 0.875
    factor_decode.decode(net, True, np.zeros((0, 2)), y)
    assert factor_moves.icm(net, y, 9) == 1
    assert factor_support.consistency(net, np.ones((1, 2), dtype=np.uint8))


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_without_labels_harms_no_kernel(kind: str) -> None:
    """Nothing is promised there but an end, and labels that exist."""
    rng = np.random.default_rng(10)
    for _ in range(20):
        net = random_net(rng, (KINDS[kind],))
        net.unary[2] = -INF
        messages, y, domain = random_messages(rng, net), np.zeros(6, dtype=np.int32), np.ones(net.unary.shape, dtype=np.uint8)
        for forward in (True, False):
            assert factor_passes.sweep(net, forward, messages) == -INF
            factor_decode.decode(net, forward, messages, y)
            assert ((y >= 0) & (y < net.n_states)).all()
        factor_moves.icm(net, y, 10)
        assert factor_moves.value(net, y) == -INF
        assert not factor_support.consistency(net, domain)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("forward", [True, False])
def test_decode(mix: str, forward: bool) -> None:
    for rng, net in nets(mix, 60):
        messages, y = random_messages(rng, net), np.full(len(net.n_states), -1, dtype=np.int32)
        factor_decode.decode(net, forward, messages, y)
        assert y.tolist() == ref.conditioned(net, forward, messages)


@pytest.mark.parametrize("mix", MIXES)
def test_icm(mix: str) -> None:
    for rng, net in nets(mix, 40, hard=0.25):
        y = np.array([rng.integers(n) for n in net.n_states], dtype=np.int32)
        old = ref.violation(net, y), -ref.score(net, y)
        rounds = factor_moves.icm(net, y, 100)
        assert 1 <= rounds < 100
        new = ref.violation(net, y), -ref.score(net, y)
        assert new <= old
        assert (new[0] == 0) == (new[1] < INF) or mix in ("cardinality", "mixed")
        for v in range(len(y)):
            for k in range(int(net.n_states[v])):
                other = y.copy()
                other[v] = k
                bad = ref.violation(net, other)
                assert bad >= new[0]
                if bad == new[0] == 0:
                    assert -ref.score(net, other) >= new[1] - 1e-10


def test_icm_finds_what_is_allowed() -> None:
    """From one label for all: 12 members with different labels out of 15, and 40 of 100 that count."""
    built = Builder([15] * 12 + [2] * 100, np.zeros((112, 15)))
    built.add(ALL_DIFFERENT, range(12))
    built.cardinality(range(12, 112), np.eye(15)[[1] * 100], np.where(np.arange(101) == 40, 0.0, -INF))
    net, y = built.net(), np.zeros(112, dtype=np.int32)
    assert factor_moves.icm(net, y, 100) < 100
    assert factor_moves.value(net, y) == 0.0
    assert factor_moves.icm(net, y, 0) == 0


@pytest.mark.parametrize("mix", MIXES)
def test_support(mix: str) -> None:
    for rng, net in nets(mix, 80, hard=0.4):
        for f in range(len(net.kind)):
            domain = (rng.random((int(net.ptr[f + 1] - net.ptr[f]), net.unary.shape[1])) < 0.7).astype(np.uint8)
            wanted = ref.supported(net, f, domain)
            found = factor_support.support(net, f, domain)
            assert found == bool(wanted.any())
            if found:
                assert (domain == wanted).all()


@pytest.mark.parametrize("mix", MIXES)
def test_consistency(mix: str) -> None:
    n_possible = 0
    for rng, net in nets(mix, 80, hard=0.3):
        domain = (rng.random(net.unary.shape) < 0.95).astype(np.uint8)
        wanted = ref.consistent(net, domain)
        found = factor_support.consistency(net, domain)
        assert found == (wanted is not None)
        if wanted is not None:
            assert (domain == wanted).all()
            n_possible += 1
    assert 5 < n_possible < 80


def test_assignment_is_that_of_scipy() -> None:
    rng = np.random.default_rng(5)
    for n, n_labels in ((60, 60), (40, 60), (1, 3), (7, 7)):
        for hard in (0.0, 0.5):
            scores = np.where(rng.random((n, n_labels)) < hard, -INF, rng.normal(size=(n, n_labels)))
            scores[np.arange(n), rng.permutation(n_labels)[:n]] = rng.normal(size=n)  # one way there is
            chosen = np.zeros(n, dtype=np.int32)
            rows, columns = linear_sum_assignment(np.where(scores > -INF, scores, -1e6), maximize=True)
            assert assignment.assign(scores, chosen) == pytest.approx(scores[rows, columns].sum(), abs=1e-10)
            assert scores[np.arange(n), chosen].sum() == pytest.approx(scores[rows, columns].sum(), abs=1e-10)
            assert len(set(chosen.tolist())) == n


@pytest.mark.parametrize("n", [60, 45])
def test_marginals_of_different_labels_are_those_of_scipy(n: int) -> None:
    rng = np.random.default_rng(6)
    built = Builder([60] * n, np.zeros((n, 60)))
    built.add(ALL_DIFFERENT, range(n))
    psi, out, one = rng.normal(size=(n, 60)), np.empty((n, 60)), np.empty(60)
    net = built.net()
    factors.max_marginals(net, 0, psi, out)
    factors.max_marginal(net, 0, 17, psi, one)
    np.testing.assert_allclose(one, out[17], atol=1e-10)
    for i, k in zip(rng.integers(n, size=60), rng.integers(60, size=60), strict=True):
        rest = np.delete(np.delete(psi, i, axis=0), k, axis=1)
        rows, columns = linear_sum_assignment(rest, maximize=True)
        assert out[i, k] == pytest.approx(psi[i, k] + rest[rows, columns].sum(), abs=1e-10)


def test_supports_of_different_labels_are_those_of_scipy() -> None:
    rng = np.random.default_rng(7)
    for _ in range(10):
        domain = (rng.random((14, 15)) < 0.15).astype(np.uint8)
        domain[np.arange(14), rng.permutation(15)[:14]] = 1
        wanted = np.zeros_like(domain)
        for i, k in np.argwhere(domain):
            rest = np.delete(np.delete(domain, i, axis=0), k, axis=1)
            rows, columns = linear_sum_assignment(rest, maximize=True)
            wanted[i, k] = rest[rows, columns].all()
        assert assignment.all_different_support(domain)
        assert (domain == wanted).all()
    assert not assignment.all_different_support(np.ones((4, 3), dtype=np.uint8))


def large_count(n: int, scores: np.ndarray, rng: np.random.Generator):
    built = Builder([3] * n, rng.normal(size=(n, 3)))
    counted = np.zeros((n, 3), dtype=np.uint8)
    counted[:, 1:] = 1
    built.cardinality(range(n), counted, scores)
    return built.net()


def test_a_count_of_many_nodes() -> None:
    """The best labelling with exactly m members that count, by a sort in numpy; passes prove it and conditioning finds it."""
    rng, n, m = np.random.default_rng(8), 100_000, 30_000
    net = large_count(n, np.where(np.arange(n + 1) == m, 0.0, -INF), rng)
    gain = net.unary[:, 1:].max(axis=1) - net.unary[:, 0]
    best = net.unary[:, 0].sum() + np.sort(gain)[::-1][:m].sum()
    out, counts = np.empty((n, 3)), np.zeros(n, dtype=np.uint8)
    assert factors.max_marginals(net, 0, net.unary, out) == pytest.approx(best)
    assert counting.best(net, 0, net.unary, counts) == pytest.approx(best)
    assert counts.sum() == m and gain[counts > 0].min() >= gain[counts == 0].max()
    chosen, border = gain >= np.sort(gain)[-m], np.sort(gain)[::-1][m - 1 : m + 1]
    forced = np.where(chosen, best - gain + border[1], best)  # without a member that counts the next one does instead
    np.testing.assert_allclose(out[:, 0], forced, atol=1e-6)
    messages, y = np.zeros((n, 3)), np.zeros(n, dtype=np.int32)
    assert factor_passes.sweep(net, True, messages) == pytest.approx(best)
    assert sum(factor_passes.terms(net, messages, y)[::2]) == pytest.approx(best)
    factor_decode.decode(net, False, messages, y)
    assert factor_moves.value(net, y) == pytest.approx(best)


@pytest.mark.parametrize("kind", ["concave", "exactly", "any"])
def test_prices_of_counts_never_make_the_bound_worse(kind: str) -> None:
    """Counts of many members, two of which overlap: with any scores, bounds fall, and one count alone is solved by one pass."""
    rng, n = np.random.default_rng(12), 40
    for alone in (True, False) * 5:
        scores = {
            "concave": np.concatenate([[0.0], np.cumsum(np.sort(rng.normal(size=n))[::-1])]),
            "exactly": np.where(np.arange(n + 1) == rng.integers(5, 30), 0.0, -INF),
            "any": 3 * rng.normal(size=n + 1),
        }[kind]
        built = Builder([3] * n, rng.normal(size=(n, 3)))
        for _ in range(1 if alone else 2):
            counted = np.zeros((n, 3), dtype=np.uint8)
            counted[np.arange(n), rng.integers(0, 3, size=n)] = 1
            built.cardinality(range(n), counted, scores)
        net, y = built.net(), np.zeros(n, dtype=np.int32)
        messages = rng.normal(size=(len(net.nodes), 3))
        bounds = [sum(factor_passes.terms(net, messages, y)[::2])]
        for i in range(8):
            bounds.append(factor_passes.sweep(net, i % 2 == 0, messages))
            assert bounds[-1] == pytest.approx(sum(factor_passes.terms(net, messages, y)[::2]), abs=1e-8)
        assert (np.diff(bounds) <= 1e-9).all()
        if alone:
            out = np.empty((n, 3))
            best = factors.max_marginals(net, 0, net.unary, out)
            assert bounds[1] == pytest.approx(best, abs=1e-9)


def conditioned_afresh(net, messages: np.ndarray) -> np.ndarray:
    """The labels of conditioning where every factor is a count of the nodes 0, 1, .., asked anew for each node."""
    psi, y = np.where(net.unary[net.nodes] > -INF, messages, -INF), np.empty(len(net.n_states), dtype=np.int32)
    for v in range(len(y)):
        score = net.unary[v].copy()
        for f in range(len(net.kind)):
            first, last = int(net.ptr[f]), int(net.ptr[f + 1])
            out = np.empty((last - first, net.unary.shape[1]))
            if factors.max_marginals(net, f, psi[first:last], out) > -INF:
                score += np.where(
                    np.isneginf(out[v]), -INF, out[v] - np.where(np.isneginf(psi[first + v]), 0.0, psi[first + v])
                )
        y[v] = score.argmax()
        for first in net.ptr[:-1]:
            psi[first + v] = -INF
            psi[first + v, y[v]] = 0.0
    return y


@pytest.mark.parametrize("kind", ["concave", "between", "exactly", "two"])
def test_large_counts_are_decoded_as_if_asked_anew(kind: str) -> None:
    """One sort for all members of a count gives the labels that a sort for each gives, where the differences of its scores fall."""
    rng, n = np.random.default_rng(9), 300
    count = np.arange(n + 1)
    falling = np.concatenate([[0.0], np.cumsum(np.sort(rng.normal(size=n))[::-1])])
    scores = {
        "concave": [falling],
        "between": [np.where((count > 80) & (count < 110), 0.0, -INF)],
        "exactly": [np.where(count == 40, 0.0, -INF)],
        "two": [falling, np.where(count >= 220, 0.5 * falling, -INF)],
    }
    built = Builder([3] * n, np.where(rng.random((n, 3)) < 0.1, -INF, rng.normal(size=(n, 3))))
    for part in scores[kind]:
        counted = np.zeros((n, 3), dtype=np.uint8)
        counted[np.arange(n), rng.integers(0, 3, size=n)] = 1
        built.cardinality(range(n), counted, part)
    net, y = built.net(), np.zeros(n, dtype=np.int32)
    net.unary[:, 0] = np.where(np.isneginf(net.unary).all(axis=1), 0.0, net.unary[:, 0])
    messages = rng.normal(size=(len(net.nodes), 3))
    factor_decode.decode(net, True, messages, y)
    assert y.tolist() == conditioned_afresh(net, messages).tolist()


def test_large_counts_are_decoded_as_small_ones() -> None:
    """Above some size conditioning is computed anew only where it has to be: the count holds all the same."""
    rng, n = np.random.default_rng(9), 2000
    net = large_count(n, np.where(np.arange(n + 1) % 7 == 3, 0.0, -INF), rng)
    messages, y = rng.normal(size=(n, 3)), np.zeros(n, dtype=np.int32)
    factor_decode.decode(net, True, messages, y)
    assert np.isfinite(factor_moves.value(net, y))
