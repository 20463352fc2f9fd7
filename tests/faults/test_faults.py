"""Bad input and hard numerics: behaviour and message, the entries of docs/faults.md."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from reference.dense_lp import local_polytope_value
from reference.families import build, make

import maxsum as ms
from maxsum.inference import TreeDP
from maxsum.inference.registry import SOLVERS

CHAIN = ms.Graph.chain(3)
UNARY = np.array([[0.0, 1.0], [0.5, 0.0], [2.0, 0.0]])
EQUAL = np.eye(2)


def solvers_for(problem: ms.Problem) -> list:
    return [solver() for solver in SOLVERS.values() if solver().supports(problem)]


def best(problem: ms.Problem) -> float:
    return max(problem.score(y) for y in np.ndindex(*problem.n_states.tolist()))


def test_fault_03_nan_in_potentials() -> None:
    with pytest.raises(
        ValueError, match="unary of node 2, label 1 is nan; wanted a finite score, or -inf for a forbidden label"
    ):
        ms.Problem(CHAIN, [[0, 1], [0, 0], [0, np.nan]], tables=EQUAL)
    with pytest.raises(ValueError, match=r"table 0 \(first used by edge 0, nodes 0-1\) is nan at labels \(1, 0\)"):
        ms.Problem(CHAIN, UNARY, tables=[[0, 0], [np.nan, 0]])


def test_fault_04_forbidden_labels_are_never_used_and_an_empty_node_is_named() -> None:
    problem = ms.Problem(CHAIN, [[0, 100], [-np.inf, 0], [5, -np.inf]], tables=[[0, -np.inf], [0, 0]])
    for solver in solvers_for(problem):
        result = solver.solve(problem)
        if result.labels is not None:
            assert result.labels[1] == 1 and result.labels[2] == 0 and result.labels[0] == 1, solver
    with pytest.raises(ms.InfeasibleError, match="node 1 has every label forbidden"):
        ms.Problem(CHAIN, [[0, 0], [-np.inf, -np.inf], [0, 0]], tables=EQUAL)


def test_fault_05_plus_infinity() -> None:
    with pytest.raises(ValueError, match="unary of node 0, label 1 is inf"):
        ms.Problem(CHAIN, [[0, np.inf], [0, 0], [0, 0]], tables=EQUAL)
    with pytest.raises(ValueError, match=r"is inf at labels \(0, 0\)"):
        ms.Problem(CHAIN, UNARY, tables=[[np.inf, 0], [0, 0]])
    with pytest.raises(ValueError, match="edge_weight of edge 1 is inf, wanted a finite number"):
        ms.Problem(CHAIN, UNARY, tables=EQUAL, edge_weight=[1, np.inf])


def test_fault_06_two_colours_for_a_triangle() -> None:
    differ = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    problem = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), tables=differ)
    result = ms.solve(problem)
    assert result.guarantee == "infeasible" and result.labels is None
    assert result.score == result.bound == -np.inf and result.gap == np.inf
    assert result.certificate.verify(problem).infeasible
    for solver in solvers_for(problem):
        found = solver.solve(problem)
        assert found.labels is None and found.guarantee in ("infeasible", "upper_bound", "none"), solver


def test_fault_11_self_loop() -> None:
    with pytest.raises(
        ValueError, match=r"edge 1 joins node 2 to itself \(2 self-loops in all\)\. Remove them; .* belongs into the unary"
    ):
        ms.Graph.from_edges([(0, 1), (2, 2), (1, 1)])


def test_fault_12_duplicate_edges() -> None:
    with pytest.raises(ValueError, match=r'edge 2 \(1-0\) repeats edge 0 in the opposite orientation.*duplicates="merge"'):
        ms.Graph.from_edges([(0, 1), (1, 2), (1, 0)])
    rng = np.random.default_rng(0)
    first, second, third = rng.normal(size=(3, 2, 2))
    merged = ms.Problem(ms.Graph.from_edges([(0, 1), (1, 2), (1, 0)], duplicates="merge"), UNARY, tables=[first, second, third])
    by_hand = ms.Problem(CHAIN, UNARY, tables=[first + third.T, second])
    a, b = TreeDP().solve(merged), TreeDP().solve(by_hand)
    assert a.score == pytest.approx(b.score) == pytest.approx(best(by_hand)) and np.array_equal(a.labels, b.labels)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 5)], r"edge 0 names node 5, but the graph has 3 nodes \(0\.\.2\)"),
        ([(-1, 0)], "edge 0 names node -1"),
        ([(0.0, 1.0)], "dtype float64, wanted integers"),
        (np.array([[0, 2**64 - 1]], dtype=np.uint64), f"edge 0 names node {2**64 - 1}"),
        (np.array([[0, 2**32]], dtype=np.int64), f"edge 0 names node {2**32}"),
        ([(1, 2), (2, 3)], r"1-based edges\? Subtract 1"),
    ],
)
def test_fault_13_edge_indices(edges, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ms.Graph.from_edges(edges, n_nodes=3)


def test_fault_14_transposed_table() -> None:
    with pytest.raises(
        ValueError, match=r"table of edge 0 \(nodes 0-1\) has shape \(3, 2\), wanted \(2, 3\)\. It looks transposed"
    ):
        ms.Problem(ms.Graph.chain(2), [[0, 0], [0, 0, 0]], tables=[np.zeros((3, 2))])
    only = np.array([[0.0, 1.0], [0.0, 0.0]])
    for edge, wanted in (((0, 1), [0, 1]), ((1, 0), [1, 0])):
        problem = ms.Problem(ms.Graph.from_edges([edge]), np.zeros((2, 2)), tables=only)
        for solver in solvers_for(problem):
            result = solver.solve(problem)
            assert result.labels.tolist() == wanted or result.guarantee != "optimal", solver
        assert TreeDP().solve(problem).labels.tolist() == wanted


def test_fault_15_disconnected_graph() -> None:
    parts = [make("chain", 1), make("tree", 2), make("chain", 3)]
    union = ms.Problem.union([p.problem for p in parts])
    result = TreeDP().solve(union)
    alone = [TreeDP().solve(p.problem) for p in parts]
    assert result.labels.tolist() == [k for r in alone for k in r.labels.tolist()]
    assert result.bound == pytest.approx(sum(r.bound for r in alone))
    loopy = ms.Problem.union([make("complete", 1).problem, make("complete", 2).problem])
    assert ms.solve(loopy).score == pytest.approx(make("complete", 1).raw.best + make("complete", 2).raw.best)


def test_fault_16_isolated_nodes() -> None:
    rng = np.random.default_rng(3)
    unary, tables = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3))
    edges = [(0, 1), (1, 2), (2, 3), (3, 0)]
    small = ms.Problem(ms.Graph.from_edges(edges), unary, tables=tables)
    large = ms.Problem(ms.Graph.from_edges(edges, 6), np.vstack([unary, [[0, 1, 0], [0, 0, 2]]]), tables=tables)
    for solver in solvers_for(small):
        a, b = solver.solve(small), solver.solve(large)
        if a.guarantee == "optimal":
            assert b.labels[:4].tolist() == a.labels.tolist() and b.labels[4:].tolist() == [1, 2], solver


def test_fault_19_node_varying_labels() -> None:
    rng = np.random.default_rng(4)
    states = [2, 3, 4, 2]
    edges = [(0, 1), (2, 1), (2, 3), (3, 0)]
    problem, raw = build(
        [rng.normal(size=k) for k in states], edges, [rng.normal(size=(states[u], states[v])) for u, v in edges]
    )
    for solver in solvers_for(problem):
        result = solver.solve(problem)
        assert result.bound >= raw.best - 1e-9 and (result.labels < states).all()
    assert ms.solve(problem).score == pytest.approx(raw.best, abs=1e-12)


@pytest.mark.parametrize("kind", ["float32", "int8", "Fortran", "strided", "memmap", "big-endian"])
def test_fault_20_kinds_of_arrays(kind: str, tmp_path) -> None:
    rng = np.random.default_rng(5)
    unary, table = rng.integers(-9, 9, size=(5, 3)).astype(float), rng.integers(-9, 9, size=(3, 3)).astype(float)

    def turned(array: np.ndarray, name: str) -> np.ndarray:
        np.save(tmp_path / f"{name}.npy", array)
        return {
            "float32": lambda: array.astype(np.float32),
            "int8": lambda: array.astype(np.int8),
            "Fortran": lambda: np.asfortranarray(array),
            "strided": lambda: np.repeat(array, 2, axis=1)[:, ::2],
            "memmap": lambda: np.load(tmp_path / f"{name}.npy", mmap_mode="r"),
            "big-endian": lambda: array.astype(">f8"),
        }[kind]()

    graph = ms.Graph.chain(5)
    given = turned(unary, "unary"), turned(table, "table")
    before = [a.copy() for a in given]
    a, b = TreeDP().solve(ms.Problem(graph, unary, tables=table)), TreeDP().solve(ms.Problem(graph, given[0], tables=given[1]))
    assert np.array_equal(a.labels, b.labels) and (a.score, a.bound) == (b.score, b.bound)
    assert all(np.array_equal(x, y) for x, y in zip(given, before, strict=True))


def test_fault_23_cliques() -> None:
    rng = np.random.default_rng(6)
    unary, pay = rng.normal(size=(50, 2)), np.array([3.0, 3.5])
    none = ms.Graph.from_edges([], 50)
    one = ms.Problem(none, unary, cliques=[([7], pay)])
    assert one.score(np.ones(50, dtype=int)) == pytest.approx(unary[:, 1].sum() + 3.5)
    two = ms.solve(ms.Problem(ms.Graph.from_edges([], 2), unary[:2], cliques=[([1, 0], pay)]))
    edge = ms.solve(ms.Problem(ms.Graph.chain(2), unary[:2], tables=np.diag(pay)))
    assert two.score == pytest.approx(edge.score) and two.guarantee == edge.guarantee == "optimal"
    wide = ms.Problem(none, unary, cliques=[(range(50), 10 * pay)])
    apart = float(unary.max(axis=1).sum())
    wanted = max(apart, *(unary[:, k].sum() + 10 * pay[k] for k in range(2)))
    for solver in solvers_for(wide):
        result = solver.solve(wide)
        assert result.bound >= wanted - 1e-9, solver
        assert result.guarantee != "optimal" or result.score == pytest.approx(wanted), solver
    with pytest.raises(ValueError, match="clique 0 names node 3 more than once; list each node once"):
        ms.Problem(none, unary, cliques=[([3, 4, 3], pay)])
    with pytest.raises(ValueError, match="wanted a list of at least one node"):
        ms.Problem(none, unary, cliques=[([], pay)])


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_fault_27_scales(scale: float) -> None:
    rng = np.random.default_rng(7)
    unary, tables = rng.normal(size=(6, 3)), rng.normal(size=(7, 3, 3))
    graph = ms.Graph.grid(2, 3)
    a, b = ms.solve(ms.Problem(graph, unary, tables=tables)), ms.solve(ms.Problem(graph, scale * unary, tables=scale * tables))
    assert np.array_equal(a.labels, b.labels) and a.guarantee == b.guarantee == "optimal"
    assert b.score == pytest.approx(scale * a.score, rel=1e-9) and b.bound == pytest.approx(scale * a.bound, rel=1e-9)


def test_fault_28_large_constant() -> None:
    rng = np.random.default_rng(8)
    unary = rng.normal(size=(6, 3)) + 1e9
    tables = rng.normal(size=(7, 3, 3))
    graph = ms.Graph.grid(2, 3)
    plain, high = ms.Problem(graph, unary - 1e9, tables=tables), ms.Problem(graph, unary, tables=tables)
    for solver in solvers_for(plain):
        a, b = solver.solve(plain), solver.solve(high)
        assert np.array_equal(a.labels, b.labels), solver
        assert b.bound - 6e9 == pytest.approx(a.bound, abs=4e-6) or a.bound == np.inf, solver
        assert b.gap == pytest.approx(a.gap, abs=1e-9), solver
        assert a.guarantee == b.guarantee, solver


def test_fault_29_one_huge_edge() -> None:
    for seed in range(5):
        case = make("one_huge_edge", seed)
        for solver in solvers_for(case.problem):
            result = solver.solve(case.problem)
            assert result.bound >= case.raw.best * (1 - 1e-6) and np.isfinite(result.score), solver
            assert result.guarantee != "optimal" or case.raw.regret(result.labels.tolist()) <= 1e-2
        assert ms.solve(case.problem).gap <= 1e-2


def test_fault_30_ties_everywhere() -> None:
    for graph in (ms.Graph.chain(6), ms.Graph.grid(3, 3)):
        problem = ms.Problem(graph, np.zeros((graph.n_nodes, 3)), tables=np.zeros((3, 3)))
        for solver in solvers_for(problem):
            result = solver.solve(problem)
            assert np.array_equal(result.labels, solver.solve(problem).labels) and result.score == 0.0, solver
            if solver.name not in ("LinearProgram", "Toulbar2"):  # there another program picks among the optima
                assert result.labels.tolist() == [0] * graph.n_nodes, solver
        result = ms.solve(problem)
        assert result.labels.tolist() == [0] * graph.n_nodes and result.guarantee == "optimal" and result.gap == 0.0


def test_fault_31_frustrated_triangle() -> None:
    table = 1.0 - np.eye(2)
    unary = np.array([[0.0, 0.01], [0.0, 0.02], [0.0, 0.0]])
    problem, raw = build(list(unary), [(0, 1), (1, 2), (0, 2)], [table] * 3)
    relaxed = local_polytope_value(raw)
    assert relaxed > raw.best + 0.5
    for solver in solvers_for(problem):
        result = solver.solve(problem)
        assert result.bound >= raw.best - 1e-9
        if result.guarantee == "optimal":
            assert result.score == pytest.approx(raw.best) and type(result.certificate).__name__ != "MessageCertificate", solver
        elif np.isfinite(result.bound):
            assert result.bound >= relaxed - 1e-6, solver
    assert ms.solve(problem).guarantee == "optimal" and ms.solve(problem).score == pytest.approx(raw.best)


def test_fault_41_subnormal_and_negative_zero() -> None:
    tiny = 5e-324
    graph = ms.Graph.chain(4)
    zero = ms.Problem(graph, [[-0.0, 0.0], [0.0, -0.0], [-0.0, -0.0], [0.0, 0.0]], tables=[[-0.0, 0.0], [0.0, -0.0]])
    for solver in solvers_for(zero):
        assert solver.solve(zero).labels.tolist() == [0, 0, 0, 0], solver
    small = ms.Problem(graph, [[0.0, tiny], [0.0, 0.0], [tiny, 0.0], [0.0, 0.0]], tables=np.zeros((2, 2)))
    for solver in solvers_for(small):
        result = solver.solve(small)
        assert result.bound >= 2 * tiny and result.gap >= 0, solver
    assert TreeDP().solve(small).labels.tolist() == [1, 0, 0, 0]

    rng = np.random.default_rng(9)
    normal = ms.Problem(ms.Graph.chain(20_000), rng.normal(size=(20_000, 8)), tables=rng.normal(size=(8, 8)))
    denormal = ms.Problem(ms.Graph.chain(20_000), 1e-310 * normal.unary, tables=1e-310 * normal.tables)
    TreeDP().solve(normal)
    seconds = [min(TreeDP().solve(p).seconds for _ in range(5)) for p in (normal, denormal)]
    assert seconds[1] < 10 * seconds[0] + 0.05


@pytest.mark.parametrize("limits", [dict(max_iter=1), dict(time_limit=0.002)])
def test_fault_43_limits_return_the_best_bracket(limits: dict) -> None:
    rng = np.random.default_rng(10)
    problem = ms.Problem(ms.Graph.grid(25, 25), rng.normal(size=(625, 5)), tables=rng.normal(size=(1200, 5, 5)))
    tried = 0
    for name, solver in SOLVERS.items():
        fields = getattr(solver, "__dataclass_fields__", {})
        if not set(limits) <= set(fields) or not solver().supports(problem):
            continue
        solver(**limits).solve(problem)
        started = time.perf_counter()
        result = solver(**limits).solve(problem)
        assert time.perf_counter() - started < 2.5, name
        wanted = ("iteration_limit",) if "max_iter" in limits else ("time_limit",)
        assert result.termination in (*wanted, "converged", "stalled"), (name, result)
        if result.guarantee not in ("optimal", "feasible", "none") and name in ("TRWS", "BranchAndBound"):
            assert result.termination in wanted, (name, result)
        assert result.labels is None or result.bound >= result.score
        if result.certificate is not None:
            result.certificate.verify(problem, result.labels, bound=result.bound)
        tried += 1
    assert tried >= 1
    if "time_limit" in limits:
        result = ms.solve(problem, time_limit=0.01)
        assert result.termination == "time_limit" and result.bound >= result.score


def test_fault_50_long_chain_needs_linear_memory() -> None:
    n = 1_000_000
    unary = np.random.default_rng(11).normal(size=(n, 2))
    problem = ms.Problem(ms.Graph.chain(n), unary, tables=0.3 * np.eye(2))
    TreeDP().solve(ms.Problem(CHAIN, UNARY, tables=EQUAL))
    tracemalloc.start()
    result = TreeDP().solve(problem)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.guarantee == "optimal" and result.gap <= problem.resolution
    assert peak < 400 * n, f"{peak / n:.0f} bytes a node"
    assert result.score >= problem.score(unary.argmax(axis=1))


def test_fault_50_star_has_no_quadratic_adjacency() -> None:
    n = 100_000
    edges = np.stack([np.zeros(n - 1, dtype=int), np.arange(1, n)], axis=1)
    unary = np.random.default_rng(12).normal(size=(n, 3))
    problem = ms.Problem(ms.Graph.from_edges(edges), unary, tables=np.eye(3))
    result = TreeDP().solve(problem)
    hub = [unary[0, k] + np.where(np.arange(3) == k, unary[1:] + 1, unary[1:]).max(axis=1).sum() for k in range(3)]
    assert result.score == pytest.approx(max(hub)) and result.labels[0] == int(np.argmax(hub))
    assert result.seconds < 5.0
    result.certificate.verify(problem, result.labels, bound=result.bound)
