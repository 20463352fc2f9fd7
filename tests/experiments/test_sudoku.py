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
    problem = sudoku.playing_problem(learned.q, learned.g, proper.given)
    labels, unique = sudoku.play(problem)
    assert unique and labels is not None and (labels + 1 == SOLUTION).all()
    empty = sudoku.playing_problem(learned.q, learned.g, puzzle(81).given)
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
    drawn = sudoku.training_puzzles(pool, 2, graph)
    assert len(drawn) == 2 and 0 not in drawn and drawn == sudoku.training_puzzles(pool, 2, graph)
    assert sorted(sudoku.training_puzzles(pool, 9, graph)) == [1, 2, 3]
    assert len({tuple(sudoku.training_puzzles(pool, 2, graph, seed)) for seed in range(9)}) > 1


def test_the_lectures_puzzle_is_proper() -> None:
    given, solution = (np.array([int(digit) for digit in text]) for text in sudoku.LECTURE)
    graph = sudoku.board()
    u, v = graph.edges.T
    assert (solution[u] != solution[v]).all() and (given == solution)[given > 0].all()
    q, g = np.append(np.ones(9), 0.0), 1.0 - np.eye(9)
    labels, unique = sudoku.play(sudoku.playing_problem(q, g, given))
    assert unique and labels is not None and (labels + 1 == solution).all()


def test_all_different_functions_are_the_pairs() -> None:
    """Random labellings: the problem that is played forbids what the table of pairs forbids."""
    random = np.random.default_rng(0)
    q, g = np.append(np.ones(9), 0.0), 1.0 - np.eye(9)
    given = puzzle(70, 5).given
    played = sudoku.playing_problem(q, g, given)
    unary = np.where((given[:, None] > 0) & (given[:, None] != np.arange(1, 10)), -np.inf, 0.0)
    pairs = Problem(sudoku.board(), unary, tables=np.where(g < 1, -np.inf, 0.0))
    assert played is not None
    for _ in range(50):
        labels = SOLUTION - 1
        if random.random() < 0.7:
            a, b = random.choice(81, 2, replace=False)
            labels[[a, b]] = labels[[b, a]]
        assert played.score(labels) == pairs.score(labels)
    assert sudoku.playing_problem(q, g + 2 * np.eye(9), given) is None and sudoku.play(None) == (None, False)


def test_two_fillings_are_seen() -> None:
    """A rectangle of two digits in two boxes can be swapped: emptied, the puzzle has two fillings, and no crossing out tells."""
    u, v = sudoku.board().edges.T
    q, g = np.append(np.ones(9), 0.0), 1.0 - np.eye(9)
    found = 0
    for a in range(9):
        for b in range(a + 1, 9):
            given = np.where(np.isin(SOLUTION, (a + 1, b + 1)), 0, SOLUTION)
            labels, unique = sudoku.play(sudoku.playing_problem(q, g, given))
            assert not unique and labels is not None and (labels[u] != labels[v]).all()
            found += 1
    assert found == 36


def test_hard_sets_and_weights_as_they_are(learned: sudoku.Learned, tmp_path: Path) -> None:
    file = tmp_path / "hard.txt"
    text = "".join(map(str, puzzle(45, 3).given))
    file.write_text(f"a title\n#!sudoku\n{text.replace('0', '.')},label,99\n")
    (given,) = sudoku.read_hard(file)
    assert (given == puzzle(45, 3).given).all()
    played = sudoku.play_set("made", [puzzle(30).given], learned, None, lambda line: None)
    assert (played.n_file, played.n, played.correct) == (1, 1, 1)
    problem = sudoku.problem_as_learned(learned.q, learned.g, puzzle(25).given, sudoku.board())
    keeps = puzzle(25).given[:, None] == np.arange(1, 10)
    assert (problem.unary[keeps] == np.broadcast_to(learned.q[:9], (81, 9))[keeps]).all() and (
        problem.unary[~keeps] == learned.q[9]
    ).all()
    training = sudoku.play_as_learned([puzzle(25)], learned, lambda line: None)
    assert training.wrong == 0 and training.proven == 1


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


@pytest.mark.slow
def test_the_experiment(monkeypatch: pytest.MonkeyPatch, data_folder: Path) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    lines: list[str] = []
    report = experiments.run("sudoku", quick=True, progress=lines.append)
    assert not report.failed and len(report.rows) == 1
    assert sum(claim.holds is True for claim in report.claims) == 5 + len(sudoku.HARD)
    assert len(lines) == 1 + sudoku.N_QUICK_TEST * (1 + len(sudoku.HARD)) + 1
