"""The rules of Sudoku, learned from one puzzle and its solution (Franc & Savchynskyy 2008, §7.2)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxsum import MaxsumError, ParseError, Problem, experiments
from maxsum.experiments import MissingDataError, sudoku
from maxsum.experiments.sudoku import Puzzle
from maxsum.inference import BranchAndBound

SOLUTION = np.array([[(3 * (r % 3) + r // 3 + c) % 9 + 1 for c in range(9)] for r in range(9)]).ravel()


def puzzle(n_blank: int, seed: int = 0) -> Puzzle:
    given = SOLUTION.copy()
    given[np.random.default_rng(seed).permutation(81)[:n_blank]] = 0
    return Puzzle(given, SOLUTION)


@pytest.fixture(scope="module")
def learned() -> sudoku.Learned:
    return sudoku.learn(puzzle(25))


def test_the_board() -> None:
    graph = sudoku.board()
    assert (graph.n_nodes, graph.n_edges) == (81, 810) and (graph.degrees == 20).all()
    u, v = graph.edges.T
    assert (SOLUTION[u] != SOLUTION[v]).all()


def test_one_puzzle_teaches_the_rules(learned: sudoku.Learned) -> None:
    assert learned.converged and learned.rules and learned.sharp
    assert learned.updates >= learned.sweeps > 1
    assert sudoku.rules_hold(learned.q, learned.g)
    for breaks in (learned.q.copy(), learned.g.copy()):
        breaks.flat[-1] = 1e6
        assert not sudoku.rules_hold(*(breaks, learned.g) if breaks.ndim == 1 else (learned.q, breaks))


def test_learned_weights_play(learned: sudoku.Learned) -> None:
    graph = sudoku.board()
    proper = next(p for p in (puzzle(40, seed) for seed in range(99)) if sudoku.waiting(p.given, graph) is not None)
    problem = sudoku.playing_problem(learned.q, learned.g, proper.given, graph)
    labels, unique = sudoku.play(problem)
    assert unique and labels is not None and (labels + 1 == SOLUTION).all()
    empty = sudoku.playing_problem(learned.q, learned.g, puzzle(81).given, graph)
    labels, unique = sudoku.play(empty)
    assert labels is not None and not unique
    u, v = graph.edges.T
    assert (labels[u] != labels[v]).all()


def test_a_broken_rule_costs_more_than_all_else_gains(learned: sudoku.Learned) -> None:
    """The sharpened scores themselves, finite, on a puzzle small enough to enumerate: the best labelling is the solution."""
    given = puzzle(4, 2).given
    raise_by = sudoku.sharpen(learned.q, learned.g)
    q, g = learned.q.copy(), learned.g - raise_by * np.eye(9)
    q[9] -= raise_by
    unary = np.array([[q[k] if x == k + 1 else q[9] for k in range(9)] for x in given])
    problem = Problem(sudoku.board(), unary, tables=g)
    blank = np.flatnonzero(given == 0)
    fixed = np.full((81, 9), -np.inf)
    fixed[np.arange(81), SOLUTION - 1] = 0.0
    fixed[blank] = 0.0
    inside = Problem(sudoku.board(), unary + fixed, tables=g)
    assert (BranchAndBound().solve(inside).labels + 1 == SOLUTION).all()
    truth = problem.score(SOLUTION - 1)
    random = np.random.default_rng(0)
    for _ in range(200):
        other = SOLUTION - 1
        other[random.integers(81, size=random.integers(1, 4))] = random.integers(9)
        assert (other == SOLUTION - 1).all() or problem.score(other) < truth


def test_waiting() -> None:
    graph = sudoku.board()
    assert sudoku.waiting(SOLUTION, graph) == 0
    assert sudoku.waiting(puzzle(1).given, graph) == 1
    assert sudoku.waiting(puzzle(81).given, graph) is None
    pool = [puzzle(81), puzzle(10), puzzle(1), SOLUTION_PUZZLE]
    assert sudoku.training_puzzles(pool, 3, graph) == [3, 2, 1]


SOLUTION_PUZZLE = Puzzle(SOLUTION, SOLUTION)


def test_files(tmp_path: Path) -> None:
    text = ["".join(map(str, row)) for row in puzzle(30)]
    file = tmp_path / "p.csv"
    file.write_text(f"a,{text[0].replace('0', '.')},{text[1]},1\nb,{text[1]},{text[1]},1\n")
    (one,) = sudoku.read_puzzles(file, "a")
    assert (one.given == puzzle(30).given).all() and (one.solution == SOLUTION).all()
    assert len(sudoku.read_puzzles(file)) == 2
    file.write_text(f"{text[0]},{text[1]}\n{text[0]},12\n")
    with pytest.raises(ParseError, match="line 2"):
        sudoku.read_puzzles(file)


def test_absent_data_say_where_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MAXSUM_DATA", raising=False)
    with pytest.raises(MissingDataError, match=r"MAXSUM_DATA is not set.*pytudes"):
        experiments.run("sudoku")
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match=r"there is no norvig_with_solutions\.csv"):
        experiments.run("sudoku")
    with pytest.raises(MaxsumError, match=r"no experiment 'chess'; wanted one of .*sudoku"):
        experiments.run("chess")


def test_the_experiment(monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    lines: list[str] = []
    report = experiments.run("sudoku", quick=True, progress=lines.append)
    assert not report.failed and len(report.rows) == sudoku.N_QUICK_TRAIN
    assert sum(claim.holds is True for claim in report.claims) == 6
    assert len(lines) == sudoku.N_QUICK_TRAIN + sudoku.N_QUICK_TEST
