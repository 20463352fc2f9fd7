"""BranchAndBound and solve(): Sudoku, published optima, limits, interrupts, proofs that verify."""

from itertools import pairwise

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.certificate import MessageCertificate, SearchCertificate
from maxsum.inference import BranchAndBound, JunctionTree


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


@pytest.mark.parametrize("name", ["sudoku-easy50.txt", "sudoku-top95.txt"])
def test_every_sudoku_is_solved_and_proven(data_folder, name):
    folder = data_folder / "sudoku"
    lines = (folder / "norvig_with_solutions.csv").read_text().split()
    solutions = {puzzle.replace("0", "."): solution for _, puzzle, solution, *_ in (line.split(",") for line in lines)}
    puzzles = (folder / name).read_text().split()
    for i, puzzle in enumerate(puzzles):
        problem = sudoku(puzzle)
        result = ms.solve(problem)
        assert result.guarantee == "optimal" and result.score == 0
        assert "".join(str(k + 1) for k in result.labels) == solutions[puzzle.replace("0", ".")]
        if i % 10 == 0:
            assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal
    assert len(puzzles) == (50 if "easy" in name else 95)


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


def test_celar6_sub1_is_proven(data_folder):
    problem = ms.read_problem(data_folder / "map_benchmarks" / "toulbar2" / "CELAR6-SUB1.wcsp.xz")
    result = BranchAndBound(time_limit=300).solve(problem)
    assert result.guarantee == "optimal" and -result.score == 2669


@pytest.mark.slow
def test_the_proof_of_celar6_sub1_verifies(data_folder):
    problem = ms.read_problem(data_folder / "map_benchmarks" / "toulbar2" / "CELAR6-SUB1.wcsp.xz")
    result = BranchAndBound(time_limit=300).solve(problem)
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal


def dense(n_nodes=14, n_labels=4, seed=0):
    rng = np.random.default_rng(seed)
    graph = ms.Graph.complete(n_nodes)
    return ms.Problem(graph, rng.normal(size=(n_nodes, n_labels)), rng.normal(size=(graph.n_edges, n_labels, n_labels)))


@pytest.mark.parametrize("seed", range(3))
def test_dense_problems_agree_with_the_junction_tree(seed):
    problem = dense(10, 3, seed)
    result = BranchAndBound().solve(problem)
    assert isinstance(result.certificate, SearchCertificate) and result.guarantee == "optimal"
    assert result.score == pytest.approx(JunctionTree().solve(problem).score, rel=1e-12)
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).optimal


@pytest.mark.parametrize("max_nodes", [1, 2, 3, 5, 8, 20])
def test_an_unfinished_search_proves_what_it_says(max_nodes):
    problem = dense()
    optimum = BranchAndBound().solve(problem).score
    result = BranchAndBound(max_nodes=max_nodes).solve(problem)
    assert result.termination == "iteration_limit" and result.guarantee == "within_gap"
    assert result.score <= optimum <= result.bound
    proven = result.certificate.verify(problem, result.labels, result.score, result.bound)
    assert proven.bound <= result.bound + 1e-9


@pytest.mark.parametrize("stop", [1, 45, 50, 60])
def test_an_interrupt_at_any_step_leaves_a_valid_bracket(stop):
    problem = dense(16, 5)
    steps = []

    def interrupt(point):
        steps.append(point)
        if len(steps) == stop:
            raise KeyboardInterrupt

    result = BranchAndBound().solve(problem, callback=interrupt)
    assert result.termination == "interrupted" and result.guarantee in ("within_gap", "optimal")
    proven = result.certificate.verify(problem, result.labels, result.score, result.bound)
    assert proven.gap >= 0


def test_a_proof_too_large_is_not_claimed():
    problem = dense()
    result = BranchAndBound(certificate_bytes=10_000).solve(problem)
    assert result.score == BranchAndBound().solve(problem).score
    assert isinstance(result.certificate, MessageCertificate) and result.guarantee == "within_gap"
    assert "certificate_bytes" in result.message
    result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_the_bound_falls_during_the_search():
    trace = BranchAndBound().solve(dense(15, 4)).trace
    bounds = [point.bound for point in trace]
    assert all(later <= earlier for earlier, later in pairwise(bounds))
