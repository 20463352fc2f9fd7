"""What must not change the optimum: reparametrisation, renumbering, flips, scales, constants, splits, unions."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from contracts.common import ALL, EXACT, solver_of
from hypothesis import given
from hypothesis import strategies as st
from reference.enumeration import Raw
from reference.families import FAMILIES, build, make
from reference.seeds import seeds

import maxsum as ms

SEEDS = seeds(6)
ORDERED = frozenset({"MaxFlow"})
LOOPY = [
    "chain",
    "tree",
    "complete",
    "unequal_label_counts",
    "ties",
    "hard_feasible",
    "binary_supermodular",
    "potts",
    "edge_weights",
]
CLIQUES = ["cliques_binary", "cliques_three_labels", "cliques_unequal"]


def exact(problem: ms.Problem, but: frozenset[str] = frozenset()) -> dict[str, ms.Result]:
    """Results of all exact solvers that take the problem."""
    names = [name for name in ALL if name in EXACT and name not in but and solver_of(name).supports(problem)]
    return {name: solver_of(name).solve(problem) for name in names}


@cache
def original(family: str, seed: int) -> dict[str, ms.Result]:
    return exact(make(family, seed).problem)


def agree(problem: ms.Problem, wanted: float, room: float, but: frozenset[str] = frozenset()) -> dict[str, ms.Result]:
    """Every exact solver finds the wanted value; every other one a bound above and a score below it."""
    found = exact(problem, but)
    assert found
    for name, result in found.items():
        if np.isneginf(wanted):
            assert result.guarantee == "infeasible", (name, result)
        else:
            assert result.score == pytest.approx(wanted, abs=room), (name, result)
            assert result.bound == pytest.approx(wanted, abs=room), (name, result)
    for name in ALL:
        if name not in EXACT and solver_of(name).supports(problem):
            result = solver_of(name).solve(problem)
            assert result.score <= wanted + room and result.bound >= wanted - room, (name, result)
    return found


def room(raw: Raw) -> float:
    return 2 * raw.resolution + 4 * raw.noise


cases = pytest.mark.parametrize("family", LOOPY + CLIQUES)
loopy = pytest.mark.parametrize("family", LOOPY)


@loopy
def test_reparametrisation_keeps_every_score_and_the_optimum(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        messages = rng.normal(size=(2, case.problem.n_edges, case.problem.n_labels))
        moved = case.problem.reparametrize(messages)
        for y in case.raw.labellings:
            a, b = moved.score(y), case.problem.score(y)
            assert a == b or a == pytest.approx(b, abs=room(case.raw))
        agree(moved, case.raw.best, 8 * room(case.raw))


@cases
def test_permuting_nodes_permutes_the_answer(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw, new = case.raw, rng.permutation(len(case.raw.unary))
        old = np.argsort(new)
        edges = [(int(new[u]), int(new[v])) for u, v in raw.edges]
        cliques = [(tuple(int(new[v]) for v in nodes), w) for nodes, w in raw.cliques]
        order = rng.permutation(len(edges))
        problem, _ = build(
            [raw.unary[v] for v in old], [edges[e] for e in order], [raw.tables[e] for e in order],
            [raw.weights[e] for e in order], cliques,
        )  # fmt: skip
        for name, result in agree(problem, raw.best, room(raw)).items():
            if len(raw.optima) == 1:
                assert result.labels[new].tolist() == raw.optima[0].tolist(), (case, name)


@cases
def test_permuting_labels_permutes_the_answer(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw = case.raw
        turn = [rng.permutation(len(row)) for row in raw.unary]
        cliques = raw.cliques
        if cliques:
            shared = rng.permutation(case.problem.n_labels)
            if not (case.problem.n_states == case.problem.n_labels).all():
                shared = np.arange(case.problem.n_labels)
            turn = [shared[: len(row)] for row in raw.unary]
            cliques = [(nodes, w[shared]) for nodes, w in cliques]
        tables = [t[np.ix_(turn[u], turn[v])] for (u, v), t in zip(raw.edges, raw.tables, strict=True)]
        problem, _ = build(
            [row[p] for row, p in zip(raw.unary, turn, strict=True)], list(raw.edges), tables, raw.weights, cliques
        )
        for name, result in agree(problem, raw.best, room(raw), ORDERED if family != "potts" else frozenset()).items():
            if len(raw.optima) == 1:
                back = [int(p[k]) for p, k in zip(turn, result.labels, strict=True)]
                assert back == raw.optima[0].tolist(), (case, name)


@cases
def test_flipping_edges_with_transposed_tables_changes_nothing(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw = case.raw
        flip = rng.random(len(raw.edges)) < 0.5
        edges = [(v, u) if f else (u, v) for (u, v), f in zip(raw.edges, flip, strict=True)]
        tables = [t.T if f else t for t, f in zip(raw.tables, flip, strict=True)]
        problem, _ = build(raw.unary, edges, tables, raw.weights, raw.cliques)
        for name, result in agree(problem, raw.best, room(raw)).items():
            if len(raw.optima) == 1:
                assert np.array_equal(result.labels, raw.optima[0]), (case, name)


@pytest.mark.parametrize("scale", [1e-12, 1e12, 0.37])
@cases
def test_scaling_scales_the_optimum(family: str, scale: float) -> None:
    for seed in range(3):
        case = make(family, seed)
        raw = case.raw
        cliques = [(nodes, scale * w) for nodes, w in raw.cliques]
        problem, scaled = build(
            [scale * q for q in raw.unary], raw.edges, [scale * t for t in raw.tables], raw.weights, cliques
        )
        for name, result in agree(problem, scale * raw.best, room(scaled)).items():
            assert result.guarantee == original(family, seed)[name].guarantee
            if len(raw.optima) == 1:
                assert np.array_equal(result.labels, raw.optima[0]), (case, name)


@cases
def test_constants_shift_the_optimum_and_nothing_else(family: str) -> None:
    for seed in range(3):
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw = case.raw
        node = [float(rng.integers(-(10**6), 10**6)) for _ in raw.unary]
        edge = [float(rng.integers(-(10**6), 10**6)) for _ in raw.tables]
        unary = [q + c for q, c in zip(raw.unary, node, strict=True)]
        tables = [t + c for t, c in zip(raw.tables, edge, strict=True)]
        shift = sum(node) + sum(w * c for w, c in zip(raw.weights, edge, strict=True)) + 7.5
        problem, moved = build(unary, raw.edges, tables, raw.weights, raw.cliques, offset=7.5)
        slip = room(moved) + 1e-9 * len(node)
        for name, result in agree(problem, raw.best + shift, slip).items():
            assert result.guarantee == original(family, seed)[name].guarantee
            assert not np.isfinite(result.gap) or result.gap <= 4 * moved.resolution


@loopy
def test_splitting_tables_over_duplicate_edges_changes_nothing(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw = case.raw
        if not raw.edges:
            continue
        edges, tables = [], []
        for (u, v), table, weight in zip(raw.edges, raw.tables, raw.weights, strict=True):
            share = rng.normal(size=table.shape)
            flip = rng.random() < 0.5
            edges += [(u, v), (v, u) if flip else (u, v)]
            rest = weight * table - share
            tables += [share, rest.T if flip else rest]
        graph = ms.Graph.from_edges(edges, len(raw.unary), duplicates="merge")
        problem = ms.Problem(graph, list(raw.unary), tables=tables)
        assert problem.n_edges == len(raw.edges)
        agree(problem, raw.best, 4 * room(raw))


def test_disjoint_union_concatenates_answers() -> None:
    families = ["chain", "complete", "unequal_label_counts", "cliques_three_labels", "binary_supermodular", "no_edges"]
    for seed in range(8):
        chosen = np.random.default_rng(seed).choice(families, size=3)
        parts = [make(str(f), seed) for f in chosen]
        union = ms.Problem.union([p.problem for p in parts])
        slip = sum(room(p.raw) for p in parts)
        found = agree(
            union, sum(p.raw.best for p in parts), slip, frozenset({"Exhaustive"}) if union.n_nodes > 12 else frozenset()
        )
        if all(len(p.raw.optima) == 1 for p in parts):
            wanted = np.concatenate([p.raw.optima[0] for p in parts])
            assert all(np.array_equal(r.labels, wanted) for r in found.values())


def test_union_with_an_infeasible_part_is_infeasible() -> None:
    union = ms.Problem.union([make("chain", 0).problem, make("infeasible_colouring", 0).problem])
    found = agree(union, -np.inf, 0.0)
    assert found and all(result.labels is None or not np.isfinite(result.score) for result in found.values())


@cases
def test_isolated_nodes_change_nothing_elsewhere(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw = case.raw
        extra = [rng.normal(size=2) for _ in range(2)]
        problem, _ = build([*raw.unary, *extra], raw.edges, raw.tables, raw.weights, raw.cliques)
        found = agree(problem, raw.best + sum(q.max() for q in extra), 2 * room(raw))
        for name, result in found.items():
            assert result.labels[-2:].tolist() == [int(q.argmax()) for q in extra]
            if len(raw.optima) == 1:
                assert np.array_equal(result.labels[:-2], raw.optima[0]), (case, name)


@pytest.mark.parametrize("family", ["chain", "potts", "cliques_binary", "unequal_label_counts"])
def test_cliques_of_one_and_two_nodes_are_unaries_and_edges(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        raw, n = case.raw, len(case.raw.unary)
        u, v = (int(i) for i in rng.choice(n, size=2, replace=False))
        labels = case.problem.n_labels
        one, two = rng.exponential(size=labels), rng.exponential(size=labels)
        with_cliques, reference = build(
            raw.unary, raw.edges, raw.tables, raw.weights, [*raw.cliques, ((u,), one), ((u, v), two)]
        )
        unary = [q + one[: len(q)] if i == u else q for i, q in enumerate(raw.unary)]
        pay = np.zeros((len(unary[u]), len(unary[v])))
        np.fill_diagonal(pay, two)
        graph = ms.Graph.from_edges([*raw.edges, (u, v)], n, duplicates="merge")
        tables = [w * t for t, w in zip(raw.tables, raw.weights, strict=True)] + [pay]
        as_edges = ms.Problem(graph, unary, tables=tables, cliques=raw.cliques or None)
        assert reference.best == pytest.approx(max(as_edges.score(y) for y in raw.labellings))
        agree(with_cliques, reference.best, 2 * room(reference))
        agree(as_edges, reference.best, 2 * room(reference))


# ---- hypothesis ------------------------------------------------------------------------------------------------

numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(-100, 100, allow_subnormal=True), st.just(-np.inf), st.just(-0.0))


@st.composite
def problems(draw: st.DrawFn) -> tuple[ms.Problem, Raw]:
    n = draw(st.integers(1, 4))
    states = [draw(st.integers(1, 3)) for _ in range(n)]
    unary = [np.array([draw(numbers) for _ in range(k)]) for k in states]
    for row in unary:
        if np.isneginf(row).all():
            row[0] = 0.0
    pairs = [(u, v) for u in range(n) for v in range(n) if u != v]
    edges = draw(st.lists(st.sampled_from(pairs), max_size=5, unique_by=lambda e: tuple(sorted(e)))) if pairs else []
    tables = [np.array([[draw(numbers) for _ in range(states[v])] for _ in range(states[u])]) for u, v in edges]
    cliques = []
    if draw(st.booleans()):
        members = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True))
        cliques.append((tuple(members), np.array([draw(st.floats(0, 10)) for _ in range(max(states))])))
    return build(unary, edges, tables, cliques=cliques)


@given(problems())
def test_any_small_problem_is_solved_with_proof(drawn: tuple[ms.Problem, Raw]) -> None:
    problem, raw = drawn
    found = agree(problem, raw.best, room(raw))
    for result in found.values():
        result.certificate.verify(problem, result.labels, bound=result.bound)
        if result.guarantee == "optimal":
            assert raw.regret(result.labels.tolist()) <= room(raw)


def test_families_are_all_covered_somewhere() -> None:
    assert set(LOOPY + CLIQUES) <= set(FAMILIES)
