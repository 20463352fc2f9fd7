"""JunctionTree: optimal on everything of small width, with a certificate; refusals that name the width."""

from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from contracts.common import check_result
from reference.families import FAMILIES, make

import maxsum as ms
from maxsum.core.certificates.base import EliminationCertificate
from maxsum.inference.exact import junction
from maxsum.inference.exact.junction import MAX_AXES, JunctionTree
from maxsum.inference.exact.tree import TreeDP


@pytest.mark.parametrize("family", FAMILIES)
def test_equals_enumeration(family):
    for seed in range(8):
        case = make(family, seed)
        result = JunctionTree().solve(case.problem)
        check_result(case, result)
        assert result.guarantee == ("optimal" if case.raw.feasible else "infeasible"), (case, result)
        assert result.termination == "converged"


def test_separator_tables_prove_the_optimum():
    """The optimum of an odd cycle is out of reach of messages, so the proof must be the tables."""
    case = make("infeasible_colouring", 0)
    result = JunctionTree().solve(case.problem)
    assert isinstance(result.certificate, EliminationCertificate)
    assert np.isneginf(result.certificate.bound(case.problem))
    triangle = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), -np.eye(2))
    result = JunctionTree().solve(triangle)
    assert isinstance(result.certificate, EliminationCertificate)
    assert (result.score, result.bound, result.gap) == (-1.0, -1.0, 0.0) and triangle.bound() == 0.0
    assert result.certificate.bound(triangle) == pytest.approx(-1.0, rel=1e-13)


@pytest.mark.parametrize(
    "table",
    [np.full(2, 1e6), np.full(2, -1e6), np.array([1.7e308, 0.0]), np.array([0.0, -np.inf]), np.full(2, -np.inf)],
)
def test_no_numbers_in_the_certificate_prove_a_wrong_bound(table):
    problem = ms.Problem(ms.Graph.chain(3), [[0.0, 1], [0, 0], [2, 0]], np.eye(2))
    true = JunctionTree().solve(problem)
    for i in range(3):
        tables = list(true.certificate.tables)
        tables[i] = table if tables[i].ndim else np.array(table[-1])
        bound = dataclasses.replace(true.certificate, tables=tuple(tables)).bound(problem)
        assert bound >= true.score


def test_ties_go_to_the_lowest_labels():
    problem = ms.Problem(ms.Graph.grid(3, 4), np.zeros((12, 3)), np.zeros((3, 3)))
    assert not JunctionTree().solve(problem).labels.any()


def test_equals_tree_dp_on_a_long_tree_and_is_quick():
    rng = np.random.default_rng(5)
    n = 10_000
    edges = [(int(rng.integers(max(0, v - 50), v)), v) for v in range(1, n)]
    problem = ms.Problem(ms.Graph.from_edges(edges), rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))
    result, reference = JunctionTree().solve(problem), TreeDP().solve(problem)
    assert result.guarantee == "optimal" and result.score == pytest.approx(reference.score, rel=1e-12)
    assert result.gap <= 1e-3 * problem.resolution
    assert result.seconds < 20


def test_gap_of_a_strip_agrees_with_the_independent_check():
    rng = np.random.default_rng(6)
    problem = ms.Problem(ms.Graph.grid(4, 60), rng.normal(size=(240, 3)) + 1e9, rng.normal(size=(416, 3, 3)))
    result = JunctionTree().solve(problem)
    found = result.certificate.verify(problem, result.labels, result.score, result.bound)
    assert found.optimal and found.gap == pytest.approx(result.gap, abs=1e-12)
    assert result.gap < 1e-10


def test_refusal_names_width_cells_and_limit():
    problem = ms.Problem(ms.Graph.complete(30), np.zeros((30, 2)), np.eye(2))
    with pytest.raises(ms.UnsupportedProblemError, match=r"width 29 and 2.1e\+09 table cells.*6.7e\+07 table cells"):
        JunctionTree(max_cells=2**26).solve(problem)
    strip = ms.Problem(ms.Graph.grid(3, 5), np.zeros((15, 2)), np.eye(2))
    assert JunctionTree().supports(strip)
    assert "max_cells" in JunctionTree(max_cells=20).supports(strip).reason


@pytest.mark.parametrize(
    ("graph", "n_labels", "width"),
    [(ms.Graph.complete(1100), 2, 26), (ms.Graph.grid(400, 300), 2, 300), (ms.Graph.complete(400), 1, MAX_AXES)],
)
def test_wide_graphs_are_refused_at_once(graph, n_labels, width):
    problem = ms.Problem(graph, np.zeros((graph.n_nodes, n_labels)), np.zeros((n_labels, n_labels)))
    start = time.perf_counter()
    support = JunctionTree(max_cells=2**26).supports(problem)
    assert not support and f"at least width {width}," in support.reason
    assert time.perf_counter() - start < 5


def test_quick_refusal_is_right():
    """A complete graph of the largest width that fits is taken, with the next node it is not."""
    for n_labels, largest in ((2, 18), (3, 11), (4, 9)):
        for extra in (0, 1):
            graph = ms.Graph.union([ms.Graph.complete(largest + extra), ms.Graph.chain(400)])
            problem = ms.Problem(graph, np.zeros((graph.n_nodes, n_labels)), np.zeros((n_labels, n_labels)))
            room = sum(n_labels**i for i in range(1, largest + 1)) + 400 * n_labels**2
            assert bool(JunctionTree(max_cells=room).supports(problem)) == (not extra)


def test_more_nodes_in_a_bag_than_an_array_has_axes():
    for n, ok in ((MAX_AXES, True), (MAX_AXES + 1, False)):
        problem = ms.Problem(ms.Graph.complete(n), np.ones((n, 1)), np.ones((1, 1)))
        assert bool(JunctionTree().supports(problem)) == ok
        if ok:
            assert JunctionTree().solve(problem).guarantee == "optimal"


def test_large_cliques():
    rng = np.random.default_rng(8)
    unary = rng.normal(size=(18, 2))
    problem = ms.Problem(ms.Graph.chain(18), unary, 0.1 * np.eye(2), cliques=[(np.arange(12), [9.0, 8.0])])
    result = JunctionTree().solve(problem)
    assert result.guarantee == "optimal"
    inside = [problem.score(np.r_[np.full(12, k), result.labels[12:]]) for k in range(2)]
    assert result.score >= max(inside) and len(set(result.labels[:12].tolist())) == 1


def test_time_limit_and_callback_leave_an_honest_answer():
    rng = np.random.default_rng(9)
    problem = ms.Problem(ms.Graph.chain(500), rng.normal(size=(500, 3)), rng.normal(size=(3, 3)))
    result = JunctionTree(time_limit=0).solve(problem)
    assert result.termination == "time_limit" and result.guarantee == "within_gap" and result.gap > 1
    best = TreeDP().solve(problem).score
    assert result.score < best <= result.bound
    assert JunctionTree().solve(problem, callback=lambda point: True).termination == "stopped"


def test_interrupt_leaves_an_answer():
    rng = np.random.default_rng(9)
    problem = ms.Problem(ms.Graph.chain(500), rng.normal(size=(500, 3)), rng.normal(size=(3, 3)))

    def press(point):
        raise KeyboardInterrupt

    result = JunctionTree().solve(problem, callback=press)
    assert result.termination == "interrupted" and result.labels is not None
    result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_warm_start_with_the_optimum_keeps_it():
    case = make("ties", 3)
    first = JunctionTree().solve(case.problem)
    again = JunctionTree().solve(case.problem, init=first)
    assert again.guarantee == "optimal" and np.array_equal(again.labels, first.labels)


def binary_grid(side):
    rng, graph = np.random.default_rng(0), ms.Graph.grid(side, side)
    return ms.Problem(graph, rng.normal(size=(side**2, 2)), rng.normal(size=(graph.n_edges, 2, 2)))


def test_grids_are_eliminated_along_their_diagonals():
    """The order of least fill has width 25 and seven times the cells."""
    order = junction._order(binary_grid(18), 1e9)
    assert order.width == 18 and order.cells < 4e7
    assert sorted(order.nodes) == list(range(18 * 18))


def test_the_other_order_has_the_same_optimum(monkeypatch):
    problem, same = binary_grid(14), binary_grid(14)
    result = JunctionTree().solve(problem)
    monkeypatch.setattr(junction, "_TUNING", dataclasses.replace(junction._TUNING, many_cells=2**60))
    known = JunctionTree().solve(same)
    assert junction._order(problem, 1e9).width == 14 < junction._order(same, 1e9).width
    assert result.guarantee == "optimal" and result.score == known.score
    result.verify(problem)


def test_tables_take_the_memory_there_is(monkeypatch):
    problem = binary_grid(14)
    need = junction.elimination_bytes(problem, junction._order(problem, 1e9))
    for room, ok in ((2.1 * need, True), (1.9 * need, False)):
        monkeypatch.setattr(junction, "available", lambda room=room: (room, "a test"))
        support = JunctionTree().supports(binary_grid(14))
        assert bool(support) == ok and (junction.affordable_order(binary_grid(14), 1e9) is not None) == ok
        assert JunctionTree(max_cells=10**9).supports(problem)
    assert "half of the memory that is left" in support.reason
    assert junction.affordable_order(problem, 0.0) is None


def test_the_memory_that_is_announced_is_what_it_takes():
    import tracemalloc

    problem = binary_grid(15)
    need = junction.elimination_bytes(problem, junction._order(problem, 1e9))
    JunctionTree().solve(binary_grid(4))
    tracemalloc.start()
    try:
        JunctionTree().solve(problem)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 * need < peak < 1.25 * need
