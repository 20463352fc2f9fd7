"""Functions of several nodes: scores, max-marginals, tops, supports, lifts, files and refusals, against their definitions."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories.factors import factor_case
from reference.functions import KINDS, every_score, random_function, value, written_out
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.certificates.dual import arc_consistent
from maxsum.core.factors import Table
from maxsum.core.factors.all_different import _match, _strong_components
from maxsum.core.factors.lifting import lift, unliftable

INF = np.inf
kinds = pytest.mark.parametrize("kind", range(len(KINDS)), ids=KINDS)


def drawn(kind: int, n: int, seed: int = 0):
    """Functions of a kind with the shape of their nodes and their tables."""
    rng = np.random.default_rng([kind, seed])
    for _ in range(n):
        shape = [int(k) for k in rng.integers(1, 4, size=int(rng.integers(1, 5)))]
        function = random_function(rng, shape, kind, whole=bool(rng.random() < 0.3))
        yield rng, shape, function, written_out(function, shape)


def messages(rng: np.random.Generator, shape: list[int], hard: float = 0.2) -> np.ndarray:
    """Messages to nodes of these numbers of labels, ``-inf`` at labels that they lack and at some others."""
    k = max(shape) + int(rng.integers(2))
    psi = np.where(rng.random((len(shape), k)) < hard, -INF, rng.normal(size=(len(shape), k)))
    return np.where(np.arange(k) < np.array(shape)[:, None], psi, -INF)


def added(table: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """The table with messages, cell by cell."""
    found = table.copy()
    for cell in np.ndindex(*table.shape):
        found[cell] += sum(psi[i, k] for i, k in enumerate(cell))
    return found


@kinds
def test_scores_are_those_of_the_definition(kind: int) -> None:
    for _, shape, function, table in drawn(kind, 60):
        rows = np.array(list(itertools.product(*map(range, shape))))
        np.testing.assert_array_equal(function.values(rows), table.ravel())
        np.testing.assert_array_equal(function.dense(tuple(shape)), table)
        wanted = every_score(function)
        assert set(function.numbers.tolist()) == set(wanted.tolist())
        assert function.centre == wanted.max(initial=-INF) or not wanted.size
        assert function.is_hard or np.isfinite(table).all()  # a function may forbid what no labelling of these nodes has


@kinds
def test_max_marginals_are_those_of_all_labellings(kind: int) -> None:
    for rng, shape, function, table in drawn(kind, 80):
        psi = messages(rng, shape)
        total, found = added(table, psi), function.max_marginals(psi)
        assert found.shape == psi.shape
        for i, states in enumerate(shape):
            wanted = np.array([np.take(total, k, axis=i).max() for k in range(states)])
            np.testing.assert_allclose(found[i, :states], wanted, atol=1e-12)
            assert np.isneginf(found[i, states:]).all()


@kinds
def test_tops_are_above_the_exact_maximum_by_rounding_alone(kind: int) -> None:
    """In rational numbers; messages of very different sizes, so that rounding shows."""
    for rng, shape, function, table in drawn(kind, 80):
        psi = messages(rng, shape, 0.15) * 10.0 ** float(rng.integers(-8, 9))
        found, centre = function.top(psi), Fraction(function.centre)
        cells = [(cell, [psi[i, k] for i, k in enumerate(cell)]) for cell in np.ndindex(*table.shape)]
        sums = [
            Fraction(float(table[cell])) + sum(map(Fraction, map(float, own)))
            for cell, own in cells
            if np.isfinite(table[cell]) and np.isfinite(own).all()
        ]
        np.testing.assert_array_equal(function.tops(psi[None]), [found])
        if not sums:
            assert found == -INF
            continue
        size = (
            sum(float(np.abs(row[np.isfinite(row)]).max(initial=0.0)) for row in psi)
            + np.abs(function.numbers - function.centre).max()
        )
        assert max(sums) - centre <= Fraction(found) <= max(sums) - centre + Fraction(1e-13 * size + 1e-300)


@kinds
def test_exact_tops_are_the_maximum_in_whole_numbers(kind: int) -> None:
    """Whole numbers of any size. All-different is bounded by prices, which are rounded: never below, and above by a rounding at most."""
    for rng, shape, function, table in drawn(kind, 80):
        unit = 2 ** int(rng.integers(0, 1500))
        k, size = max(shape), int(rng.choice([3, 10**6, 2**62]))
        psi = [
            [None if j >= n or rng.random() < 0.15 else int(rng.integers(-size, size)) * unit + 1 for j in range(k)]
            for n in shape
        ]

        def integer(values: Any, unit: int = unit) -> np.ndarray:
            flat = np.asarray(values, dtype=float)
            whole = [None if x == -INF else int(Fraction(float(x)) * 2**60) * unit for x in flat.ravel()]
            return np.array([*whole, None], dtype=object)[:-1].reshape(flat.shape)

        exact = integer(table)
        sums = [
            exact[cell] + sum(psi[i][j] for i, j in enumerate(cell))
            for cell in np.ndindex(*table.shape)
            if exact[cell] is not None and all(psi[i][j] is not None for i, j in enumerate(cell))
        ]
        found = function.exact_top(psi, integer)
        if not sums:
            assert found is None
        elif kind == KINDS.index("all different"):
            largest = max(abs(x) for row in psi for x in row if x is not None)
            assert max(sums) <= found <= max(sums) + largest * k // 2**48
        else:
            assert found == max(sums)


@kinds
def test_supports_are_what_some_labelling_inside_has(kind: int) -> None:
    for rng, shape, function, table in drawn(kind, 80):
        k = max(shape)
        domain = (rng.random((len(shape), k)) < 0.7) & (np.arange(k) < np.array(shape)[:, None])
        wanted = np.zeros_like(domain)
        for cell in np.ndindex(*table.shape):
            if table[cell] > -INF and all(domain[i, j] for i, j in enumerate(cell)):
                wanted[np.arange(len(shape)), cell] = True
        np.testing.assert_array_equal(function.support(domain), wanted)


@kinds
def test_lifts_have_the_same_scores(kind: int) -> None:
    """Over all labels of the extra nodes: one choice of theirs gives the score, and all others what is forbidden."""
    for _, shape, function, table in drawn(kind, 25):
        form, n = function.lift(tuple(shape)), len(shape)
        assert max(map(len, form.unary), default=0) <= max(function.lift_cells(tuple(shape)), 1)
        for cell in np.ndindex(*table.shape):
            scores = []
            for extra in itertools.product(*(range(len(row)) for row in form.unary)):
                total = sum(row[k] for row, k in zip(form.unary, extra, strict=True))
                total += sum(edge[cell[i], extra[j]] for i, j, edge in form.to_member)
                total += sum(edge[extra[i], extra[j]] for i, j, edge in form.between)
                total += sum(edge[cell[i], cell[j]] for i, j, edge in form.among)
                scores.append(total)
                if list(extra) == list(form.complete(np.array(cell))):
                    assert total == table[cell]
            finite = [score for score in scores if score > -INF]
            assert finite == ([] if table[cell] == -INF else [table[cell]])
        assert {i for i, _, _ in form.to_member} in (set(range(n)), set())


@kinds
def test_functions_survive_a_file(kind: int, tmp_path: Path) -> None:
    for _, shape, function, table in drawn(kind, 15):
        again = type(function).decode(*function.encode())
        np.testing.assert_array_equal(written_out(again, shape), table)
        n = len(shape)
        graph = ms.Graph.from_edges([], 2 * n)
        factors = [(range(n), function), (np.arange(n, 2 * n), function)]
        p = ms.Problem(graph, [np.zeros(k) for k in shape + shape], factors=factors)
        assert len(p.factors.functions) == 1
        p.save(tmp_path / "p.npz")
        q = ms.read_problem(tmp_path / "p.npz")
        assert len(q.factors) == 2 and len(q.factors.functions) == 1 and q.factors.nodes.tolist() == list(range(2 * n))
        for cell in itertools.product(*map(range, shape)):
            y = [*cell, *([0] * n)]
            assert q.score(y) == p.score(y) == value(function, cell) + value(function, [0] * n)


def test_equal_tables_are_kept_once_and_functions_by_identity() -> None:
    rng = np.random.default_rng(0)
    table, count = rng.normal(size=(2, 2, 2)), ms.factors.Cardinality([0.0, 1, 0, 0])
    factors = [
        ([0, 1, 2], table),
        ([1, 2, 3], table.copy()),
        ([2, 3, 0], Table(table)),
        ([0, 1, 3], table + 1),
        ([3, 2, 1], count),
    ]
    p = ms.Problem(ms.Graph.from_edges([], 4), np.zeros((4, 2)), factors=[*factors, ([0, 2, 3], count)])
    assert p.factors.number.tolist() == [0, 0, 0, 1, 2, 2]
    assert [len(group.factors) for group in p.factors.groups] == [3, 1, 2]
    table[:] = 7  # of the caller: the problem has its own
    assert p.score([0, 0, 0, 0]) != 29.0 and not p.factors.functions[0].scores.flags.writeable


def test_limits_on_counts_are_what_their_names_say() -> None:
    for n, limit in itertools.product((1, 4), (0, 1, 3)):
        for y in itertools.product(range(3), repeat=n):
            count = sum(k in (1, 2) for k in y)
            for make, fits in ((ms.factors.at_most, count <= limit), (ms.factors.at_least, count >= limit), (ms.factors.exactly, count == limit)):  # fmt: skip
                nodes, function = make(range(n), limit, [1, 2])
                assert len(nodes) == n and function.values(np.array([y])).tolist() == [0.0 if fits else -INF]


def test_whole_problems_are_lifted_with_the_same_scores() -> None:
    """Labels outside the arc-consistent domain are forbidden there, and only these: they have no finite score anyway."""
    n_smaller = 0
    for seed in seeds(60):
        p, raw = factor_case(seed)
        domain = arc_consistent(p)
        try:
            lifted = lift(p)
        except ms.InfeasibleError:
            assert not raw.feasible and not domain.any(axis=1).all()
            continue
        np.testing.assert_array_equal(lifted.problem.unary[: p.n_nodes, : p.n_labels] > -INF, domain)
        n_smaller += int(domain.sum() < (p.unary > -INF).sum())
        for y, score in zip(raw.labellings, raw.scores, strict=True):
            full = lifted.labels(y)
            assert full[: p.n_nodes].tolist() == y.tolist()
            found = lifted.problem.score(full)
            assert found == float(score) or abs(found - float(score)) <= raw.noise, seed
    assert n_smaller > share(10)


def test_messages_go_up_and_down_between_the_forms() -> None:
    """Up the bound stays where every factor is one extra node; down it is never larger."""
    rng, n_down = np.random.default_rng(0), 0
    for seed in seeds(60):
        p, raw = factor_case(seed, hard=0.0, forbidden=0.0, kind=seed % 5)
        if not raw.feasible or not arc_consistent(p).any(axis=1).all():
            continue
        lifted, zero = lift(p), p.zero_messages()
        given = ms.Messages(*(rng.normal(size=part.shape) for part in zero))
        up = lifted.messages_up(given)
        if seed % 5 == 0:
            assert lifted.problem.bound(up) == pytest.approx(p.bound(given), abs=1e-9)
        other = ms.Messages(*(rng.normal(size=part.shape) for part in lifted.problem.zero_messages()))
        for own in (up, other):
            down = lifted.messages_down(own)
            if down is not None:
                assert raw.best - raw.noise <= p.bound(down) <= lifted.problem.bound(own) + 1e-9
                n_down += 1
    assert n_down > share(60)


def test_scores_of_a_lifted_problem_can_be_changed_in_place() -> None:
    """As oracles do, from weights to weights: the scores are those of the new problem."""
    rng = np.random.default_rng(0)
    for seed in seeds(20):
        p, raw = factor_case(seed, forbidden=0.0)
        if not arc_consistent(p).any(axis=1).all():
            continue
        unary, tables = p.unary + rng.normal(size=p.unary.shape), p.tables + rng.normal(size=p.tables.shape)
        q = ms.Problem(p.graph, unary, tables, p.edge_table, p.edge_weight, p.n_states, None, 3.0, p.factors)
        moved = lift(p).with_scores(q)
        for y in raw.labellings[:40]:
            found = moved.problem.score(moved.labels(y))
            assert found == q.score(y) or found == pytest.approx(q.score(y), abs=1e-9)


BAD: list[tuple[Any, str]] = [
    (lambda: ms.factors.SparseTable((2, 2), [[0, 2]], [1.0]), "tuple 0 of a sparse table is"),
    (lambda: ms.factors.SparseTable((2, 2), [[0, 1], [0, 1]], [1.0, 2.0]), "twice"),
    (lambda: ms.factors.SparseTable((2, 2), [[0, 1]], [1.0, 2.0]), "lists 1 tuples"),
    (lambda: ms.factors.SparseTable((2, 2), [[0.0, 1.0]], [1.0]), "wanted integers"),
    (lambda: ms.factors.SparseTable((), [], []), "at least one node"),
    (lambda: ms.factors.SparseTable((2,), [[0]], [INF]), "wanted numbers"),
    (lambda: ms.factors.SparseTable((2,), [[0]], [0.0], default=np.nan), "the default"),
    (lambda: ms.factors.Cardinality([1.0]), r"wanted \(n \+ 1,\)"),
    (lambda: ms.factors.Cardinality([0.0, np.nan]), "wanted numbers"),
    (lambda: ms.factors.Cardinality([0.0, 1.0], labels=-1), "counts the labels"),
    (lambda: ms.factors.Cardinality([0.0, 1.0], labels=[]), "counts the labels"),
    (lambda: ms.factors.Linear([]), "no nodes"),
    (lambda: ms.factors.Linear([[0.5, 1.0]]), "wanted integers"),
    (lambda: ms.factors.Linear([[0, 2**41]]), r"2\*\*40"),
    (lambda: ms.factors.Linear([500**i * np.arange(400) for i in range(4)]), "divide weights"),
]


@pytest.mark.parametrize(("make", "words"), BAD, ids=range(len(BAD)))
def test_functions_that_make_no_sense_are_refused(make: Any, words: str) -> None:
    with pytest.raises(ms.InvalidProblemError, match=words):
        make()


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (([0, 1], np.zeros((2, 2, 2))), r"factor 0 has a table of shape \(2, 2, 2\)"),
        (([0, 1, 2], np.zeros((2, 2, 2))), "wanted the shape"),
        (([0, 1], np.full((2, 3), INF)), "wanted numbers"),
        (([0, 0], np.zeros((2, 2))), "twice|more than once|repeat"),
        (([0, 7], np.zeros((2, 2))), "7"),
        (([], np.zeros(())), "wanted|no "),
        ((None), "wanted a pair"),
        (([0, 1], ms.factors.Cardinality([0.0, 1.0])), "wanted 3"),
        (([0, 2], ms.factors.Linear([[0, 1], [0, 1]])), "a weight for every label"),
        (([0, 2], ms.factors.SparseTable((3, 2), [], [])), "a sparse table of shape"),
    ],
)
def test_factors_that_do_not_fit_are_refused(factor: Any, words: str) -> None:
    with pytest.raises(ms.InvalidProblemError, match=words):
        ms.Problem(ms.Graph.from_edges([], 3), [[0.0, 0], [0, 0, 0], [0, 0, 0]], factors=[factor])


@pytest.mark.parametrize("k", [5, 70])
def test_matchings_and_components_are_those_of_scipy_where_they_are_ours(k: int) -> None:
    """Up to 64 labels plain code is used, above scipy's: one reference for both."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components, maximum_bipartite_matching

    rng = np.random.default_rng(k)
    for _ in range(20):
        domain = rng.random((k - int(rng.integers(3)), k)) < rng.choice([1.5 / k, 4 / k, 0.5])
        found = _match(domain)
        matched = maximum_bipartite_matching(csr_array(domain.astype(np.int8)), perm_type="column")
        assert (found is None) == bool((matched < 0).any())
        if found is not None:
            assert sorted(found.tolist()) == list(range(k)) and domain[np.arange(len(domain)), found[: len(domain)]].all()
        edges = rng.random((k, k)) < 1.2 / k
        part = _strong_components(edges)
        wanted = connected_components(csr_array(edges.astype(np.int8)), directed=True, connection="strong")[1]
        assert ((part[:, None] == part) == (wanted[:, None] == wanted)).all()


def test_what_is_too_large_for_extra_nodes_is_said() -> None:
    rng = np.random.default_rng(0)
    wide = ms.Problem(ms.Graph.from_edges([], 3), np.zeros((3, 17)), factors=[(range(3), rng.normal(size=(17, 17, 17)))])
    assert "4913" in unliftable(wide)
    with pytest.raises(ms.UnsupportedProblemError, match="4096"):
        lift(wide)
    with pytest.raises(ms.UnsupportedProblemError, match="BranchAndBound writes factors with extra nodes"):
        ms.solve(wide, "BranchAndBound")
    assert ms.solve(wide).guarantee == "optimal"
