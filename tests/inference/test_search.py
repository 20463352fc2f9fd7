"""BranchAndBound and solve(): Sudoku, published optima, limits, interrupts, proofs that verify."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from factories.problems import dense
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.certificates.search.certificate import SearchCertificate
from maxsum.inference import TRWS, BranchAndBound, Exhaustive, JunctionTree
from maxsum.inference.exact import search
from maxsum.inference.exact.search import _room
from maxsum.inference.prepare import prepare
from maxsum.kernels.box import pack, packed_sweep, tighten, unpack
from maxsum.kernels.search import restrict
from maxsum.kernels.trws import sweep


def sudoku(text):
    cells = np.arange(81)
    row, column = cells // 9, cells % 9
    block = 3 * (row // 3) + column // 3
    u, v = np.triu_indices(81, 1)
    clash = (row[u] == row[v]) | (column[u] == column[v]) | (block[u] == block[v])
    unary = np.zeros((81, 9))
    for cell, digit in enumerate(text):
        if digit not in "0.":
            unary[cell] = -np.inf
            unary[cell, int(digit) - 1] = 0.0
    table = np.where(np.eye(9, dtype=bool), -np.inf, 0.0)
    return ms.Problem(ms.Graph.from_edges(np.stack([u, v], axis=1)[clash], 81), unary, table)


WHOLE = (("sudoku-easy50.txt", 50), ("sudoku-top95.txt", 95))


@pytest.mark.parametrize(
    ("name", "count"),
    [("sudoku-easy50.txt", 10), ("sudoku-top95.txt", 8), *(pytest.param(name, n, marks=pytest.mark.slow) for name, n in WHOLE)],
)
def test_every_sudoku_is_solved_and_proven(data_folder, name, count):
    folder = data_folder / "sudoku"
    lines = (folder / "norvig_with_solutions.csv").read_text().split()
    solutions = {puzzle.replace("0", "."): solution for _, puzzle, solution, *_ in (line.split(",") for line in lines)}
    puzzles = (folder / name).read_text().split()[:count]
    for i, puzzle in enumerate(puzzles):
        problem = sudoku(puzzle)
        result = ms.solve(problem)
        assert result.guarantee == "optimal" and result.score == 0
        assert "".join(str(k + 1) for k in result.labels) == solutions[puzzle.replace("0", ".")]
        if i % 10 == 0:
            assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal
    assert len(puzzles) == count


def test_a_sudoku_without_solution_is_proven_infeasible():
    puzzle = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..7."
    assert ms.solve(sudoku(puzzle)).guarantee == "optimal"
    wrong = puzzle[:2] + "2" + puzzle[3:]
    problem = sudoku(wrong)
    result = ms.solve(problem)
    assert result.guarantee == "infeasible" and result.labels is None and result.bound == -np.inf
    assert result.certificate.verify(problem).infeasible


@pytest.mark.parametrize(("name", "optimum"), [("example", 27), ("GEOM40_6", 0)])
def test_published_optima_are_proven(data_folder, name, optimum):
    problem = ms.read_problem(data_folder / "map_benchmarks" / "toulbar2" / f"{name}.wcsp.xz")
    result = ms.solve(problem)
    assert result.guarantee == "optimal" and -result.score == optimum
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal


@pytest.mark.slow
def test_celar6_sub1_is_proven(data_folder):
    problem = ms.read_problem(data_folder / "map_benchmarks" / "toulbar2" / "CELAR6-SUB1.wcsp.xz")
    result = BranchAndBound(time_limit=300).solve(problem)
    assert result.guarantee == "optimal" and -result.score == 2669
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal


@pytest.mark.parametrize("seed", range(3))
def test_dense_problems_agree_with_the_junction_tree(seed):
    problem = dense(10, 3, seed)
    result = BranchAndBound().solve(problem)
    assert isinstance(result.certificate, SearchCertificate) and result.guarantee == "optimal"
    assert result.score == pytest.approx(JunctionTree().solve(problem).score, rel=1e-12)
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 5, 8, 20])
def test_an_unfinished_search_proves_what_it_says(max_nodes):
    problem = dense(20, 5)
    optimum = BranchAndBound().solve(problem).score
    result = BranchAndBound(max_nodes=max_nodes).solve(problem)
    assert result.termination == "iteration_limit" and result.guarantee == "within_gap"
    assert result.score <= optimum <= result.bound
    proven = result.certificate.verify(problem, result.labels, result.score, result.bound)
    assert proven.bound <= result.bound + 1e-9


@pytest.mark.parametrize("stop", [1, 45, 50, 60])
def test_an_interrupt_at_any_step_leaves_a_valid_bracket(stop):
    problem = dense(20, 5)
    steps = []

    def interrupt(point):
        steps.append(point)
        if len(steps) == stop:
            raise KeyboardInterrupt

    result = BranchAndBound().solve(problem, callback=interrupt)
    # how often it reports depends on the clock: on a busy machine all is done before the last of these steps
    assert result.termination == ("interrupted" if len(steps) == stop else "converged") and len(steps) >= min(stop, 10)
    assert result.guarantee in ("within_gap", "optimal")
    proven = result.certificate.verify(problem, result.labels, result.score, result.bound)
    assert proven.gap >= 0


def test_a_proof_too_large_is_cut_to_the_part_that_fits():
    problem = dense(18, 5)
    whole = BranchAndBound().solve(problem)
    root = TRWS(max_iter=400).solve(problem)
    messages, boxes = 8 * len(whole.certificate.index), 12 * len(whole.certificate)
    bounds = []
    for room in (100, messages + boxes // 8, messages + boxes // 4, messages + boxes // 2, 10 * (messages + boxes)):
        result = BranchAndBound(certificate_bytes=room).solve(problem)
        assert result.score == whole.score
        proven = result.certificate.verify(problem, result.labels, result.score, result.bound)
        assert proven.bound >= whole.score
        bounds.append(proven.bound)
        if room < messages + boxes:
            assert result.guarantee == "within_gap" and "certificate_bytes" in result.message
    assert bounds == sorted(bounds, reverse=True) and bounds[-1] < bounds[2] < bounds[0] <= root.bound + 1
    assert result.guarantee == "optimal"


def whole_numbers(problem, factor=20.0):
    return ms.Problem(problem.graph, np.rint(factor * problem.unary), np.rint(factor * problem.tables))


def with_forbidden_pairs(problem, rng, share=0.04):
    return ms.Problem(problem.graph, problem.unary, np.where(rng.random(problem.tables.shape) < share, -np.inf, problem.tables))


@pytest.mark.parametrize("kind", ["plain", "whole numbers", "forbidden pairs", "large terms", "from bad labellings"])
def test_what_a_search_says_of_itself_is_what_its_check_finds(kind, monkeypatch):
    """A search that ends is not replayed by its run: many of them are, here, by a check that remembers nothing."""
    monkeypatch.setattr(search, "_TUNING", replace(search._TUNING, enumeration_passes=4))  # so that there are many boxes
    was_sure = []
    plain = search._Search.conclude
    monkeypatch.setattr(search._Search, "conclude", lambda self: (was_sure.append(self.is_sure), plain(self))[1])
    if kind == "from bad labellings":  # boxes are closed against several labellings, and the search begins anew
        monkeypatch.setattr(search._Search, "search_locally", lambda self, *limits: None)
    n_boxes = []
    for seed in seeds(40):
        rng = np.random.default_rng([seed, 7])
        problem = dense(int(rng.integers(6, 16)), int(rng.integers(2, 6)), rng, density=rng.uniform(0.5, 1.0))
        if kind == "whole numbers":
            problem = whole_numbers(problem)
        elif kind == "forbidden pairs":
            problem = with_forbidden_pairs(problem, rng)
        elif kind == "large terms":
            problem = ms.Problem(
                problem.graph, problem.unary, problem.tables * 10.0 ** rng.integers(0, 7, (problem.n_edges, 1, 1))
            )
        result = BranchAndBound(root_iter=3).solve(problem)
        found = replace(result.certificate).verify(problem, result.labels, result.score, result.bound, result.guarantee)
        assert found.gap <= result.gap and (found.optimal or found.infeasible or kind == "large terms")
        n_boxes.append(result.n_iter)
    # where rounding could hide more than the gap that is allowed, the run has to replay
    assert (np.sum(was_sure) <= 5 if kind == "large terms" else np.sum(was_sure) >= share(30)) and max(n_boxes) > (
        1 if kind == "large terms" else share(50)
    )


@pytest.mark.parametrize("seed", range(2))
def test_more_boxes_never_prove_less(seed):
    """The record of a long search is cut to the best part that fits: its bound is not worse than that of a shorter one."""
    problem = dense(18, 5, seed)
    size = 8 * 2 * problem.n_edges * problem.n_labels
    bounds = []
    for max_nodes in (5, 20, 60, 200):
        result = BranchAndBound(max_nodes=max_nodes, certificate_bytes=size + 500).solve(problem)
        proven = result.certificate.verify(problem, result.labels, result.score, result.bound)
        assert isinstance(result.certificate, SearchCertificate)
        assert 12 * len(result.certificate) + 8 * len(result.certificate.index) <= size + 500
        bounds.append(proven.bound)
    assert all(later <= earlier + 1e-6 for earlier, later in pairwise(bounds)) and bounds[-1] < bounds[0]


def test_a_time_limit_is_kept_with_the_check_of_the_proof():
    problem = dense(30, 6, 1)
    BranchAndBound(max_nodes=3).solve(problem)
    result = BranchAndBound(time_limit=1.5).solve(problem)
    assert result.seconds <= 2.5 and isinstance(result.certificate, SearchCertificate)
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).bound <= result.bound + 1e-9


def test_the_bound_falls_during_the_search():
    trace = BranchAndBound().solve(dense(15, 4)).trace
    bounds = [point.bound for point in trace]
    assert all(later <= earlier for earlier, later in pairwise(bounds))


def box_of(seed, hard):
    """A problem with unequal label counts, edges in both directions, and a random box of it that is arc consistent."""
    rng = np.random.default_rng(seed)
    n_nodes, n_labels = 7, 4
    edges = [(u, v) if rng.random() < 0.5 else (v, u) for u in range(n_nodes) for v in range(u) if rng.random() < 0.7]
    states = rng.integers(2, n_labels + 1, size=n_nodes)
    states[0] = n_labels
    tables = rng.normal(size=(len(edges), n_labels, n_labels))
    if hard:
        tables[:, 1:, 1:][rng.random((len(edges), n_labels - 1, n_labels - 1)) < 0.3] = -np.inf
    weight = rng.random(len(edges)) + 0.5
    problem = ms.Problem(
        ms.Graph.from_edges(edges, n_nodes), rng.normal(size=(n_nodes, n_labels)), tables, None, weight, states
    )
    domain = (np.arange(n_labels) < states[:, None]) & (rng.random((n_nodes, n_labels)) < 0.6)
    domain[:, 0] = True
    return problem, domain.astype(np.uint8)


@pytest.mark.parametrize("hard", [False, True])
def test_packed_passes_are_those_of_trws_inside_the_box(hard):
    for seed in seeds(20):
        problem, domain = box_of(seed, hard)
        base = prepare(problem).net
        net, box = base._replace(unary=base.unary.copy()), _room(problem)
        restrict(net.unary, base.unary, domain)
        rng = np.random.default_rng(seed)
        inside = domain.astype(bool)[problem.graph.edges].transpose(1, 0, 2)
        ours = np.where(inside, rng.normal(size=(2, problem.n_edges, problem.n_labels)), 0.0)
        theirs, cliques = ours.copy(), np.zeros((0, problem.n_labels))
        pack(net, domain, ours, box)
        for forward in (False, True, False):
            bound = packed_sweep(net.unary, net.edges, net.ptr, net.adj_edge, net.adj_side, box, forward)
            assert bound == pytest.approx(sweep(net, forward, theirs, cliques), abs=1e-9)
        unpack(net, ours, box)
        np.testing.assert_allclose(ours, np.where(inside, theirs, 0.0), atol=1e-9)


def test_a_tightened_box_has_a_lower_bound_and_a_labelling_inside_it():
    for seed in seeds(20):
        problem, domain = box_of(seed, False)
        base = prepare(problem).net
        net, box = base._replace(unary=base.unary.copy()), _room(problem)
        restrict(net.unary, base.unary, domain)
        messages, labels = np.zeros((2, problem.n_edges, problem.n_labels)), np.zeros(problem.n_nodes, dtype=np.int32)
        score, _ = tighten(net, domain, messages, np.inf, -np.inf, 10, 0.0, box, labels)
        assert domain[np.arange(problem.n_nodes), labels].all()
        assert score + prepare(problem).constant == pytest.approx(problem.score(labels), abs=1e-9)
        best = max(
            problem.score(y) for y in np.ndindex(*problem.n_states.tolist()) if all(domain[v, k] for v, k in enumerate(y))
        )
        assert best >= problem.score(labels) - 1e-9
        restricted = ms.Problem(
            problem.graph,
            np.where(domain.astype(bool), problem.unary, -np.inf),
            problem.tables,
            problem.edge_table,
            problem.edge_weight,
            problem.n_states,
        )
        assert best <= restricted.bound(ms.Messages(messages, np.zeros((0, problem.n_labels)))) + 1e-9


@pytest.mark.parametrize("hard", [False, True])
def test_unequal_label_counts_agree_with_enumeration(hard):
    for seed in seeds(25):
        problem, _ = box_of(seed, hard)
        result, exact = BranchAndBound(root_iter=2).solve(problem), Exhaustive().solve(problem)
        assert result.guarantee == "optimal" and result.score == pytest.approx(exact.score, abs=1e-9)
        assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal


def test_the_search_profits_from_local_search():
    """Searches that take longer than the delay of the local search reach at least what that finds in a few moves."""
    from maxsum.inference.moves.local_search import LocalSearch

    problem = dense(30, 6, 3)
    local = LocalSearch(max_iter=60).solve(problem)
    BranchAndBound(max_nodes=3).solve(problem)
    result = BranchAndBound(time_limit=1.0).solve(problem)
    assert result.score >= local.score
    result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_numbers_beyond_single_precision_are_searched():
    """Messages of boxes are kept in single precision; those that are too large for it must not become infinite."""
    problem = dense(6, 3, 1)
    large = ms.Problem(problem.graph, 1e60 * problem.unary, 1e60 * problem.tables)
    result = BranchAndBound(root_iter=2).solve(large)
    assert result.labels.tolist() == BranchAndBound().solve(problem).labels.tolist()
    assert result.verify(large).guarantee == result.guarantee
