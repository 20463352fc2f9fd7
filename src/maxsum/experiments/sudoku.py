r"""Learning the rules of Sudoku from one puzzle and its solution: Franc & Savchynskyy 2008, §7.2.

The model has a weight :math:`q(y)` for each given digit that the labelling keeps, one weight :math:`q_\square` for a blank or
different digit, and a table :math:`g(y, y')` for all pairs of cells that share a row, a column or a box: 91 weights, nothing known
of the rules but who is next to whom. They are learned if (35) holds,

.. math:: q_\square < q(y), \qquad g(y, y) < g(y', y'') \quad\text{for all } y \text{ and } y' \ne y''.

Algorithm 3 learns them without any solver. To play, the weights are sharpened: lowering :math:`q_\square` and every
:math:`g(y, y)` by the same :math:`\lambda \ge 0` keeps all inequalities (20) of the training set, since its solution uses neither
(blank cells have :math:`q_\square` for every label, so it cancels). With :math:`\lambda` larger than the range of all other
scores, see `sharpen`, every labelling that keeps the givens and repeats no digit scores more than every other labelling, so the
best labelling is a correct filling, and the only one if the puzzle is proper. `BranchAndBound` finds it with the other
labellings forbidden, pairs that exclude equal digits written as all-different functions of rows, columns and boxes (``-inf``), and then proves it unique: for one blank cell after the other, no filling agrees with it on the cells
before and differs there; cells that crossing out leaves one digit need no search.

The learned weights play as they are, too: then nothing is forbidden, and a best labelling may prefer digits that it likes.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.files.text import Limits
from ..core.graph import Graph
from ..core.problem import Problem
from ..core.result import Guarantee, Termination
from ..datasets.source import lines
from ..datasets.sudoku import SOURCE, Puzzle, read_puzzles
from ..factors import AllDifferent
from ..inference import BranchAndBound, solve
from ..learning import Perceptron, TrivialObjective
from ..models import Codes, GraphModel, GraphSample
from . import Claim, Progress, Report, data_folder

TEST_FILE, TRAIN_FILE, TEST_SET = "norvig_with_solutions.csv", "rrn-validation.csv.xz", "sudoku-top95"
HARD = {"17 givens": "sudoku17-tenth.sdm.xz", "top1465": "top1465.sdm", "hardest known in 2011": "HardestDatabase110626.txt"}
"""Sets of hard puzzles without solutions; those whose file is missing are left out."""
LECTURE = (
    "000008000019560200250010360900002081082609000570100002021090043005076800890300000",
    "763428195419563278258917364934752681182639457576184932621895743345276819897341526",
)
"""The puzzle of Franc's lecture (2015), and its solution."""
N_TRAIN = 18  # puzzles that are learned from, one at a time
N_QUICK_DRAWN = 20  # puzzles of which a quick run takes the one that needs the least crossing out
N_QUICK_TEST = 3  # puzzles of the test in a quick run
N_HARD = 300  # puzzles of each hard set, drawn at random; all of them in a full run
N_AS_LEARNED = 10  # puzzles that the weights play as they are
AS_LEARNED_SECONDS = 3.0  # for each of them
SEED = 0  # of all draws
_MOST_BYTES = 2**24  # of a file of puzzles
_BLANK = 9  # number of the weight of empty cells, after those of nine digits
MAX_SWEEPS = 1_000_000  # of a training: its seconds end it
TRAIN_SECONDS = 60.0  # of a training, as published at most
_DIAGONAL = np.eye(9, dtype=bool)


class Learned(NamedTuple):
    """What one training found: weights, effort, whether Algorithm 3 ended and (35) holds, also after `sharpen`."""

    q: np.ndarray
    g: np.ndarray
    sweeps: int
    updates: int
    seconds: float
    converged: bool
    rules: bool
    sharp: bool


def board() -> Graph:
    """The 81 cells and the 810 pairs that share a row, a column or a box."""
    pairs = {(int(u), int(v)) for unit in units() for u in unit for v in unit if u < v}
    return Graph.from_edges(sorted(pairs), n_nodes=81)


def units() -> np.ndarray:
    """Cells of the rows, columns and boxes, (27, 9)."""
    cell = np.arange(81).reshape(9, 9)
    return np.concatenate([cell, cell.T, cell.reshape(3, 3, 3, 3).transpose(0, 2, 1, 3).reshape(9, 9)])


def model() -> GraphModel:
    """Weights 0..8 for digits that are kept, 9 for blank or different, then the table."""
    tie = np.full((10, 9), _BLANK)
    tie[np.arange(1, 10), np.arange(9)] = np.arange(9)
    return GraphModel(features=Codes(10), tie=tie)


def training_set(puzzle: Puzzle) -> TrivialObjective:
    """One puzzle and its solution."""
    return TrivialObjective(model().bind([GraphSample(puzzle.given, board())], [puzzle.solution], classes=np.arange(1, 10)))


def learn(puzzle: Puzzle) -> Learned:
    """Algorithm 3 on one puzzle and its solution."""
    objective = training_set(puzzle)
    started = time.process_time()
    result = Perceptron(max_iter=MAX_SWEEPS, time_limit=TRAIN_SECONDS).fit(objective)
    seconds = time.process_time() - started
    q, g = split_weights(objective.model_weights(result.weights))
    sharper = result.weights.copy()
    sharper[_BLANK] -= sharpen(q, g)
    sharper[10:91].reshape(9, 9)[_DIAGONAL] -= sharpen(q, g)
    sharp = bool((objective.check(sharper)[2] == 0).all())
    converged = result.termination == Termination.converged
    return Learned(q, g, result.n_iter, result.extra["n_updates"], seconds, converged, rules_hold(q, g), sharp)


def split_weights(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """:math:`q` (the last is that of blank or different) and :math:`g`."""
    return weights[:10].copy(), weights[10:91].reshape(9, 9).copy()


def rules_hold(q: np.ndarray, g: np.ndarray) -> bool:
    """Conditions (35)."""
    return bool(q[_BLANK] < q[:9].min() and g[_DIAGONAL].max() < g[~_DIAGONAL].min())


def sharpen(q: np.ndarray, g: np.ndarray) -> float:
    r"""A :math:`\lambda` such that one broken rule costs more than all 81 cells and 810 pairs together can gain."""
    return float(1.0 + 81 * np.ptp(q) + 810 * np.ptp(g))


def filling(unary: np.ndarray) -> Problem:
    """A filling without a digit twice in a row, column or box: what all pairs say that forbid equal digits, as 27 functions that keep domains
    arc consistent by matchings, which pairs do not."""
    return Problem(Graph.from_edges([], n_nodes=81), unary, factors=[(unit.tolist(), AllDifferent()) for unit in units()])


def playing_problem(q: np.ndarray, g: np.ndarray, given: np.ndarray) -> Problem | None:
    """The classifier after `sharpen`, for a puzzle: 0 for what the learned rules allow, ``-inf`` for what they forbid; None where (35) does not
    hold, so that these are not the rules of the game."""
    if not rules_hold(q, g):
        return None
    unary = np.zeros((81, 9))
    for digit in range(1, 10):
        unary[given == digit] = np.where(np.arange(9) == digit - 1, 0.0, -np.inf)
    return filling(unary)


def problem_as_learned(q: np.ndarray, g: np.ndarray, given: np.ndarray, graph: Graph) -> Problem:
    """The classifier itself, with the learned weights as scores and nothing forbidden."""
    keeps = given[:, None] == np.arange(1, 10)
    return Problem(graph, np.where(keeps, q[:9], q[_BLANK]), tables=g)


def neighbours(graph: Graph) -> np.ndarray:
    """Who is next to whom, (81, 81) of 0 and 1."""
    near = np.zeros((81, 81), dtype=np.int64)
    near[tuple(graph.edges.T)] = 1
    return near + near.T


def crossed_out(left: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, int]:
    """What is left where cells with one digit cross it out at their neighbours, and how long the cells waited, added up."""
    total = 0
    while True:
        single = left.sum(axis=1) == 1
        fewer = left & ~(near[:, single] @ left[single] > 0)
        total += int((~single).sum())
        if (fewer == left).all():
            return left, total
        left = fewer


def play(problem: Problem | None, time_limit: float = 60.0) -> tuple[np.ndarray | None, bool]:
    """The best filling as labels, and whether it is proven to be the only one."""
    if problem is None:
        return None, False
    solver = BranchAndBound(time_limit=time_limit)
    result = solver.solve(problem)
    if result.labels is None or result.guarantee != Guarantee.optimal:
        return None, False
    near = neighbours(board())
    left, _ = crossed_out(np.isfinite(problem.unary), near)
    while (left.sum(axis=1) > 1).any():
        count = left.sum(axis=1)
        v = int(np.where(count > 1, count, 10).argmin())
        label = int(result.labels[v])
        other = np.where(left, 0.0, -np.inf)
        other[v, label] = -np.inf
        again = solver.solve(filling(other))
        if again.guarantee != Guarantee.infeasible:
            return result.labels, False
        left = left.copy()
        left[v] = np.arange(9) == label
        left, _ = crossed_out(left, near)
    return result.labels, True


def waiting(given: np.ndarray, graph: Graph) -> int | None:
    """How long the cells wait until crossing out the digits of their neighbours leaves one, added up; None if some wait forever."""
    left = np.where(given[:, None] == 0, True, given[:, None] == np.arange(1, 10))
    left, total = crossed_out(left, neighbours(graph))
    return total if (left.sum(axis=1) == 1).all() else None


def training_puzzles(pool: list[Puzzle], n: int, graph: Graph, seed: int = SEED) -> list[int]:
    """Which puzzles to learn from: drawn at random from those that crossing out solves. Their relaxation is tight, so that a strictly
    trivial equivalent exists; of others it may not."""
    found: list[int] = []
    for i in np.random.default_rng(seed).permutation(len(pool)).tolist():
        if len(found) == n:
            break
        if waiting(pool[i].given, graph) is not None:
            found.append(i)
    return found


def read_hard(path: Path) -> list[np.ndarray]:
    """Puzzles without solutions, at the beginning of lines; other lines are remarks."""
    found = []
    for _, line in lines(path, Limits(bytes=_MOST_BYTES)):
        text = line[:81].replace(".", "0")
        if len(text) == 81 and text.isdigit():
            found.append(np.array([int(digit) for digit in text], dtype=np.int64))
    return found


class Played(NamedTuple):
    """A set of puzzles: how many there are in the file, were played, are filled correctly, and proven to have one filling; CPU seconds."""

    name: str
    n_file: int
    n: int
    correct: int
    proven: int
    seconds: float


def play_set(name: str, puzzles: list[np.ndarray], learned: Learned, limit: int | None, progress: Progress) -> Played:
    """Play puzzles, or some drawn at random, with sharpened weights. A filling is correct if it keeps all givens and breaks no rule."""
    graph = board()
    u, v = graph.edges.T
    chosen = np.random.default_rng(SEED).permutation(len(puzzles))[:limit] if limit else np.arange(len(puzzles))
    correct = proven = 0
    began = time.process_time()
    for count, i in enumerate(chosen.tolist()):
        given = puzzles[i]
        labels, unique = play(playing_problem(learned.q, learned.g, given))
        proven += unique
        if labels is not None:
            correct += bool((labels[u] != labels[v]).all() and (labels + 1 == given)[given > 0].all())
        progress(f"{name}: puzzle {count + 1} of {len(chosen)}")
    return Played(name, len(puzzles), len(chosen), correct, proven, time.process_time() - began)


class AsLearned(NamedTuple):
    """Puzzles that are played with the learned weights as they are: wrong cells of all, proofs, CPU seconds."""

    n: int
    wrong: int
    solved: int
    proven: int
    seconds: float


def play_as_learned(puzzles: list[Puzzle], learned: Learned, progress: Progress) -> AsLearned:
    """Play with nothing forbidden, by `solve`."""
    graph, wrong, solved, proven, began = board(), 0, 0, 0, time.process_time()
    for i, puzzle in enumerate(puzzles):
        result = solve(problem_as_learned(learned.q, learned.g, puzzle.given, graph), time_limit=AS_LEARNED_SECONDS)
        off = 81 if result.labels is None else int((result.labels + 1 != puzzle.solution).sum())
        wrong, solved, proven = wrong + off, solved + (off == 0), proven + (result.guarantee == Guarantee.optimal)
        progress(f"as learned: puzzle {i + 1} of {len(puzzles)}")
    return AsLearned(len(puzzles), wrong, solved, proven, time.process_time() - began)


def run(quick: bool, progress: Progress, full: bool = False) -> Report:
    """Learn from 18 single puzzles and from the lecture's; play top95 as learned and sharpened, and hard puzzles with one training puzzle."""
    folder = data_folder("sudoku", (TEST_FILE, TRAIN_FILE), SOURCE)
    graph = board()
    tests = read_puzzles(folder / TEST_FILE, TEST_SET)
    pool = read_puzzles(folder / TRAIN_FILE) + read_puzzles(folder / TEST_FILE, "sudoku-easy50")
    chosen = [pool[i] for i in training_puzzles(pool, N_QUICK_DRAWN if quick else N_TRAIN, graph)]
    if quick:
        chosen = sorted(chosen, key=lambda puzzle: waiting(puzzle.given, graph) or 0)[:1]
    lecture = Puzzle(*(np.array([int(digit) for digit in text], dtype=np.int64) for text in LECTURE))
    Perceptron(max_iter=1).fit(training_set(chosen[0]))
    learned = []
    for i, puzzle in enumerate(chosen if quick else [*chosen, lecture]):
        learned.append(learn(puzzle))
        progress(f"training set {i + 1} of {len(chosen)}: {learned[-1].sweeps} sweeps, {learned[-1].seconds:.1f} s")
    first, limit = learned[0], N_QUICK_TEST if quick else None
    sets = [play_set(TEST_SET, [puzzle.given for puzzle in tests], first, limit, progress)]
    for name, file in HARD.items():
        if (folder / file).is_file():
            sets.append(play_set(name, read_hard(folder / file), first, limit or (None if full else N_HARD), progress))
    some = [tests[i] for i in np.random.default_rng(SEED).permutation(len(tests))[: 1 if quick else N_AS_LEARNED]]
    return _report(learned, chosen if quick else [*chosen, lecture], sets, play_as_learned(some, first, progress), quick)


def _report(learned: list[Learned], chosen: list[Puzzle], sets: list[Played], plain: AsLearned, quick: bool) -> Report:
    known = learned if quick else learned[:-1]
    n = len(known)
    sweeps, updates, times = (np.array([getattr(one, name) for one in known]) for name in ("sweeps", "updates", "seconds"))
    ended, rules, sharp = (sum(getattr(one, name) for one in known) for name in ("converged", "rules", "sharp"))
    claims = [
        Claim("Algorithm 3 ends", "18 of 18", f"{ended} of {n}", ended == n),
        Claim("conditions (35) hold", "18 of 18", f"{rules} of {n}", rules == n),
        Claim("iterations (sweeps over all inequalities)", "12e3 to 95e3", f"{sweeps.min()} to {sweeps.max()}"),
        Claim("updates", "", f"{updates.min():.2e} to {updates.max():.2e}"),
        Claim(
            "CPU time of a training", "< 60 s", f"{times.min():.1f} to {times.max():.1f} s", bool(times.max() < TRAIN_SECONDS)
        ),
        Claim("training sets whose inequalities (20) hold after sharpening", "", f"{sharp} of {n}", sharp == n, "all"),
        Claim(
            f"{plain.n} puzzles of {TEST_SET}, weights as learned, {AS_LEARNED_SECONDS:g} s each",
            "",
            f"{plain.solved} solved, {plain.wrong} of {81 * plain.n} cells wrong, {plain.proven} proven best, {plain.seconds / plain.n:.1f} CPU s a puzzle",
        ),
    ]
    if not quick:
        last = learned[-1]
        claims.append(
            Claim(
                "the lecture's puzzle",
                "",
                f"{last.sweeps} sweeps, {last.seconds:.1f} s, (35) {'holds' if last.rules else 'fails'}",
            )
        )
    for own in sets:
        claims.append(
            Claim(
                f"{own.name}: sharpened weights of one training puzzle, {own.n} of {own.n_file} puzzles",
                "all, by (35)",
                f"{own.correct} filled correctly, {own.proven} proven to be the only filling, {own.seconds / max(1, own.n):.2f} CPU s a puzzle",
                own.correct == own.proven == own.n,
            )
        )
    rows = tuple(
        (
            "lecture" if not quick and i == n else i + 1, int((p.given > 0).sum()), one.sweeps, one.updates, f"{one.seconds:.2f}",
            "yes" if one.converged else "no", "yes" if one.rules else "no",
        )
        for i, (p, one) in enumerate(zip(chosen, learned, strict=True))
    )  # fmt: skip
    return Report(
        "sudoku",
        "Franc & Savchynskyy 2008, section 7.2",
        "The rules of Sudoku from one puzzle and its solution",
        tuple(claims),
        ("training set", "givens", "sweeps", "updates", "CPU s", "ended", "(35)"),
        rows,
        (
            f"Training puzzles are drawn at random (seed {SEED}) from those of the validation set of RRN and sudoku-easy50 that crossing out "
            "alone solves; which ones the paper trained on is not known. The paper does not say what it counts as an iteration; sweeps have "
            "the size of its numbers.",
            "As learned: scores are the learned weights. (35) makes a solution the best labelling only if breaking a rule or a given costs "
            "more than all cells and pairs together can gain, which the perceptron does not ask for; the search must close the gap as well.",
            "Sharpened: q(blank) and all g(y, y) lower by one number, which keeps every inequality (20) of the training set and lets one broken "
            "rule cost more than all else can gain. Proven: no other filling exists, by exhaustive search with certificates.",
            f"Hard puzzles without a count 'of all' are drawn at random (seed {SEED}); `maxsum reproduce sudoku --full` plays all of them.",
            "Neural networks on hard Sudoku (Sudoku-Extreme) report 55 % (Hierarchical Reasoning Model, Wang et al. 2025) and 87 % (Tiny Recursive "
            "Model, Jolicoeur-Martineau 2025) of puzzles solved, from 1000 puzzles with solutions. Other puzzles, and another task: they are not told "
            "which cells belong together, and do not search; ours is told the board, learns what the rules are, and searches.",
        ),
    )
