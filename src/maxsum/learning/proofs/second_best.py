"""The objective of the 0/1 loss from the data alone, and what its planes add: what its certificates are checked with."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from ...core.certificates.scale import score_rounding
from ...core.errors import CertificateError
from ...core.problem import Problem
from ...inference.questions.k_best import k_best
from ...models.bound import BoundModel
from ...models.multilabel import MultiLabelBound
from ..certificate import Check, Proven
from .evaluation import MOST_SUBSETS, Slacks, total, trees
from .exact_sums import Dyadic, power_of, rounded
from .feature_sums import EPS, FeatureSum
from .forests import Forest, exact_slacks, scores_of, second_highest

_ROWS = 2**21  # sums of subsets that are in memory at once
_ROOM = 4.0  # times the rounding error of a score: differences of scores are added up along the way to a root


def add_losses(found: FeatureSum, alpha: np.ndarray) -> FeatureSum:
    """The sums of planes with a loss of 1 for each of some multipliers, which are summed up exactly and rounded once."""
    value = math.fsum(alpha.tolist())
    error = 4 * EPS * (value + abs(found.value + value))
    return found._replace(value=found.value + value, value_error=found.value_error + error)


def zero_one_hinge(objective: Any, w: np.ndarray, check: Check) -> Proven:
    """The objective of a `ZeroOneObjective`: dynamic programming over forests, all subsets of few labels, elsewhere lists of the two best
    labellings whose proof is checked, all in plain numpy."""
    model: BoundModel = objective.model
    n, data = model.n_examples, model.data
    scores, easy = scores_of(model, w), trees(model)
    owner = np.repeat(np.arange(n), np.diff(data.node_ptr))
    check.expect(int(easy[owner].sum()) + int((~easy).sum()))
    few = isinstance(model, MultiLabelBound) and model.graph.n_nodes <= MOST_SUBSETS
    forest = Forest.of(len(owner), data.edges, easy[owner], len(owner)) if easy.any() and not few else None
    low, high, words = np.full(n, -np.inf), np.full(n, -np.inf), []
    if check.exact:
        if forest is None or not easy.all():
            raise CertificateError(
                "the objective of the 0/1 loss is checked in rational arithmetic on forests alone, and these examples have cycles, factors or are "
                "sets of few labels; leave exact=True out."
            )
        return _exactly(objective, w, exact_slacks(model, w, np.zeros_like(scores.unary), easy, forest, scores, check, True))
    if few:
        assert isinstance(model, MultiLabelBound)
        low = high = _subsets(model, w)
        words.append("all subsets of the labels")
    elif forest is not None:
        found = second_highest(forest, data.edges, scores, owner, n, check)
        low[easy], high[easy] = found[easy], found[easy]
        words.append("dynamic programming over forests")
    left = np.flatnonzero(~easy) if not few else np.zeros(0, dtype=np.int64)
    for j in left.tolist():
        low[j], high[j] = _listed(objective.loss_problem(w, j), np.asarray(model.truth(j)))
        check.step()
    if len(left):
        words.append("the two best labellings and the proof of their order")
    error = _ROOM * scores.error
    low = np.where(np.isfinite(low), np.maximum(1.0 + low - error, 0.0), 0.0)
    high = np.where(np.isneginf(high), 0.0, np.maximum(1.0 + high + error, 0.0))
    return total(objective.c, w, Slacks(low, high, 2 * error, " and ".join(words)))


def _exactly(objective: Any, w: np.ndarray, found: tuple[np.ndarray, int]) -> Proven:
    second, power = found
    value = Dyadic.of(w).square() / 2
    for c, own in zip(objective.c.tolist(), second, strict=True):
        if own is not None:
            value += Fraction(c) * max(Fraction(0), 1 + power_of(power) * int(own))
    words = "objective by dynamic programming over forests, in rational arithmetic"
    return Proven(rounded(value, up=False), rounded(value, up=True), 0.0, words)


def _listed(problem: Problem, truth: np.ndarray) -> tuple[float, float]:
    """Bracket of the best score above that of the truth among all other labellings."""
    own = problem.score(truth)
    best = k_best(problem, 2)
    rest = best.verify(problem).bound
    others = [row for row in best.labels if not np.array_equal(row, truth)]
    reached = max((problem.score(row) for row in others), default=-np.inf)
    room = sum(score_rounding(problem, row) for row in (truth, *others))
    return reached - own - room, max(reached, rest) - own + room


def _subsets(model: MultiLabelBound, w: np.ndarray) -> np.ndarray:
    """The same of all sets of labels but the true one, each example by all of them."""
    n, n_labels = model.n_examples, model.graph.n_nodes
    subsets = (np.arange(1 << n_labels)[:, None] >> np.arange(n_labels)) & 1
    node, tables = model.blocks(w)
    pairs = np.zeros(len(subsets))
    for table, (u, v) in zip(tables, model.graph.edges, strict=True):
        pairs += table[subsets[:, u], subsets[:, v]]
    number = np.asarray(model.labels).reshape(n, n_labels) @ (1 << np.arange(n_labels))
    best, step = np.empty(n), max(1, _ROWS // len(subsets))
    for start in range(0, n, step):
        some = slice(start, min(start + step, n))
        sums = np.asarray(model.data.x[some] @ node.T) @ subsets.T + pairs
        rows = np.arange(len(sums))
        own = sums[rows, number[some]].copy()
        sums[rows, number[some]] = -np.inf
        best[some] = sums.max(axis=1) - own
    return best
