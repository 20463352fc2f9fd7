"""The objective of given weights, from the data alone: what certificates compare claims with. The learners' oracles have no part in it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.exact import exact_score, to_float_up
from ...core.certificates.search.certificate import SearchCertificate
from ...core.errors import CertificateError
from ...core.problem import Problem
from ...core.result import Result
from ...inference.dispatch import is_easy, solve
from ...models.bound import BoundModel
from ...models.multilabel import MultiLabelBound
from ..certificate import AGREE, Check, Proven
from .exact_sums import Dyadic, power_of, rounded, scaled
from .feature_sums import PAIRWISE
from .forests import Forest, Scores, exact_slacks, highest, scores_of

MOST_SUBSETS = 12  # labels of which all subsets are tried: 4096 sums an example, faster than any solver
_ROWS = 2**21  # sums of subsets that are in memory at once
_SEARCH_SECONDS = 5.0  # for one example whose gap is still open after message passing


class Slacks(NamedTuple):
    """Brackets of the slacks of all examples, what of them is rounding, and how they were found."""

    low: np.ndarray
    high: np.ndarray
    rounding: np.ndarray
    words: str


def hinge(objective: Any, w: np.ndarray, check: Check, goal: float | None, relax: Any = None) -> Proven:
    """The objective of a `MarginObjective`: dynamic programming over forests and all subsets of few labels, both in plain numpy; elsewhere
    certificates of fresh solves. For linear relaxations ``relax(problem, result, seconds)`` goes on from the messages of TRW-S: only
    messages bound a relaxation, as a search or an elimination may prove less than its value."""
    if check.exact:
        return exact_hinge(objective, w, check, relax)
    model: BoundModel = objective.model
    scores = scores_of(model, w, objective.loss_table)
    easy = trees(model)
    check.expect(int(np.diff(model.data.node_ptr)[easy].sum()) + int((~easy).sum()))
    found = _by_levels(model, scores, easy, check)
    if found is None:
        easy[:] = False
    low, high = np.zeros(model.n_examples), np.full(model.n_examples, np.inf)
    words = []
    if found is not None:
        low[easy], high[easy] = found[easy], found[easy]
        words.append("dynamic programming over forests")
    left = np.flatnonzero(~easy)
    if len(left) and relax is None and isinstance(model, MultiLabelBound) and model.graph.n_nodes <= MOST_SUBSETS:
        low[left] = high[left] = _by_subsets(objective, w, check)[left]
        words.append("all subsets of the labels")
    elif len(left):
        _by_solving(objective, w, left, check, goal, low, high, scores.error, relax)
        words.append("certificates of fresh solves")
    low, high = np.maximum(low - scores.error, 0.0), np.maximum(high + scores.error, 0.0)
    return total(objective.c, w, Slacks(low, high, 2 * scores.error, " and ".join(words)))


def by_messages(objective: Any, w: np.ndarray, messages: Any, check: Check) -> Proven:
    """The objective from above, from messages (2, E, K) on all edges that somebody gave: any are valid. From below nothing is known but the norm."""
    model: BoundModel = objective.model
    edges, size = model.data.edge_ptr, model.n_labels
    given = np.asarray(messages)
    if given.shape != (2, int(edges[-1]), size) or given.dtype.kind != "f" or not np.isfinite(given).all():
        raise CertificateError(
            f"messages are {given.dtype} of shape {given.shape}, wanted finite numbers of shape {(2, int(edges[-1]), size)}."
        )
    error, half = scores_of(model, w, objective.loss_table).error, Dyadic.of(w).square() / 2
    check.expect(model.n_examples)
    high = half
    for j in range(model.n_examples):
        problem, truth = objective.loss_problem(w, j), np.asarray(model.truth(j))
        own = problem.zero_messages()._replace(edge=given[:, edges[j] : edges[j + 1]])
        proof = MessageCertificate(own)
        gap = proof.evaluate_exactly(problem, truth)[1] if check.exact else proof.evaluate(problem, truth)[1]
        if not np.isfinite(float(gap)):
            raise CertificateError(f"the messages of example {j} leave a gap of {gap}, so they prove nothing.")
        high += Fraction(float(objective.c[j])) * max(Fraction(gap) + Fraction(float(error[j])), Fraction(0))
        check.step()
    words = "objective by messages of the certificate, in " + ("rational arithmetic" if check.exact else "plain numpy")
    rounding = 0.0 if check.exact else 2 * float((objective.c * error).sum()) + PAIRWISE * float(high)
    return Proven(rounded(half, up=False), rounded(high, up=True), rounding, words)


def exact_hinge(objective: Any, w: np.ndarray, check: Check, relax: Any) -> Proven:
    """The objective in rational arithmetic: exact dynamic programming over forests; on graphs with cycles certificates that are checked
    exactly, for scores rounded to float64, with a bound on what that rounding may change."""
    model: BoundModel = objective.model
    data, n = model.data, model.n_examples
    scores = scores_of(model, w, objective.loss_table)
    easy = trees(model)
    owner = np.repeat(np.arange(n), np.diff(data.node_ptr))
    check.expect(int(easy[owner].sum()) + int((~easy).sum()))
    half, (c, unit) = Dyadic.of(w).square() / 2, scaled(objective.c)
    low = high = half
    words = []
    if easy.any():
        forest = Forest.of(len(owner), data.edges, easy[owner], most=len(owner))
        assert forest is not None
        slack, power = exact_slacks(model, w, objective.loss_table, easy, forest, scores, check)
        low = high = half + power_of(unit + power) * int((c * slack).sum())
        words.append("dynamic programming over forests")
    for j in np.flatnonzero(~easy).tolist():
        problem, truth = objective.loss_problem(w, j), np.asarray(model.truth(j))
        found = solve(problem, gap=0.0) if relax is None else solve(problem, "TRWS")
        gap = _exact_gap(found, problem, truth)
        again = None if relax is None else relax(problem, found, min(_SEARCH_SECONDS, check.seconds_left))
        if again is not None:
            gap = min(gap, _exact_gap(again, problem, truth))
        gap += Fraction(float(scores.error[j]))
        own = Fraction(float(objective.c[j]))
        high += own * max(gap, Fraction(0))
        low += own * max(Fraction(bracket(problem, found, truth)[0]) - 2 * Fraction(float(scores.error[j])), Fraction(0))
        check.step()
    if not easy.all():
        words.append("certificates of fresh solves")
    words_ = f"objective by {' and '.join(words)}, in rational arithmetic"
    return Proven(rounded(low, up=False), rounded(high, up=True), 0.0, words_)


def _exact_gap(result: Result, problem: Problem, truth: np.ndarray) -> Fraction:
    """How far the best score may be above that of the truth, by the certificate in rational arithmetic."""
    if result.certificate is None:
        raise CertificateError(
            f"{result.solver} gave no certificate, so the slack of an example with cycles cannot be checked."
        )
    searched = _searched(result)
    gap = result.certificate.evaluate_exactly(problem, truth if searched is None else searched)[1]
    if not isinstance(gap, Fraction) and not np.isfinite(gap):
        raise CertificateError(
            f"the certificate of {result.solver} leaves a gap of {gap}, so the slack of an example is not proven."
        )
    return Fraction(gap) + (0 if searched is None else exact_score(problem, searched) - exact_score(problem, truth))


def _searched(result: Result) -> np.ndarray | None:
    """The labelling that a search closed its boxes against: beside another one, such as the truth, its replay leaves more open."""
    known = isinstance(result.certificate, SearchCertificate) and np.isfinite(result.score)
    return None if not known or result.labels is None else np.asarray(result.labels)


def total(c: np.ndarray, w: np.ndarray, slacks: Slacks) -> Proven:
    r""":math:`\tfrac12\|w\|^2 + \sum_j c_j\xi_j` from brackets of the slacks."""
    half = 0.5 * float((w * w).sum())
    low, high = (half + float((c * own).sum()) for own in (slacks.low, slacks.high))
    rounding = float((c * slacks.rounding).sum()) + PAIRWISE * abs(high) if np.isfinite(high) else 0.0
    return Proven(
        low - PAIRWISE * abs(low), high + PAIRWISE * abs(high), rounding, f"objective by {slacks.words}, in plain numpy"
    )


def trees(model: BoundModel) -> np.ndarray:
    """Which examples are forests without factors; none where there are cliques."""
    if model.data.cliques is not None:
        return np.zeros(model.n_examples, dtype=bool)
    known: dict[int, bool] = {}
    found = np.array([known.setdefault(id(graph), graph.is_forest) for graph in model.data.graphs], dtype=bool)
    if model.data.factors is not None:
        found &= np.array([not len(own) for own in model.data.factors], dtype=bool)
    return found


def _by_levels(model: BoundModel, scores: Scores, easy: np.ndarray, check: Check) -> np.ndarray | None:
    """Slacks of the examples that are forests."""
    if not easy.any():
        return None
    data = model.data
    owner = np.repeat(np.arange(model.n_examples), np.diff(data.node_ptr))
    forest = Forest.of(len(owner), data.edges, easy[owner])
    if forest is None:
        return None
    value = highest(forest, data.edges, scores, check)
    return np.bincount(owner[forest.roots], weights=value, minlength=model.n_examples)


def _by_subsets(objective: Any, w: np.ndarray, check: Check) -> np.ndarray:
    """Slacks of all examples of a `MultiLabelBound` with few labels: every subset of labels is tried."""
    model = objective.model
    n, n_labels = model.n_examples, model.graph.n_nodes
    subsets = (np.arange(1 << n_labels)[:, None] >> np.arange(n_labels)) & 1
    node, tables = model.blocks(w)
    pairs = np.zeros(len(subsets))
    for table, (u, v) in zip(tables, model.graph.edges, strict=True):
        pairs += table[subsets[:, u], subsets[:, v]]
    loss = objective.loss_table.reshape(n, n_labels, 2)
    truth = np.asarray(model.labels).reshape(n, n_labels)
    number = truth @ (1 << np.arange(n_labels))
    best, step = np.empty(n), max(1, _ROWS // len(subsets))
    for start in range(0, n, step):
        some = slice(start, min(start + step, n))
        gain = np.asarray(model.data.x[some] @ node.T)
        rows = np.arange(len(gain))
        away = (loss[some, :, 1] - loss[some, :, 0]) + gain
        sums = away @ subsets.T + pairs + loss[some, :, 0].sum(axis=1)[:, None]
        at_truth = (gain * truth[some]).sum(axis=1) + pairs[number[some]]
        best[some] = sums.max(axis=1) - at_truth
        check.step(len(rows))
    return best


def _by_solving(
    objective: Any,
    w: np.ndarray,
    left: np.ndarray,
    check: Check,
    goal: float | None,
    low: np.ndarray,
    high: np.ndarray,
    error: np.ndarray,
    relax: Any,
) -> None:
    """Brackets of slacks from certificates, which are checked in plain numpy; those that matter are searched."""
    problems, first = {}, {}
    for j in left.tolist():
        problem = problems[j] = objective.loss_problem(w, j)
        simple = relax is None and is_easy(problem)
        found = first[j] = solve(problem) if simple else solve(problem, "TRWS")
        low[j], high[j] = bracket(problem, found, objective.model.truth(j))
        check.step()
    c = objective.c
    half = 0.5 * float((w * w).sum())
    everything = lambda slack: half + float((c * np.maximum(slack, 0.0)).sum())  # noqa: E731
    open_ = c * (high - low)
    for j in left[np.argsort(-open_[left], kind="stable")].tolist():
        value = everything(high)
        wanted = value - everything(low) <= AGREE * value if goal is None else value <= goal * (1 + AGREE)
        if wanted or open_[j] <= AGREE * value / len(left):
            break
        seconds = min(_SEARCH_SECONDS, check.seconds_left)
        again = (
            solve(problems[j], init=first[j], gap=0.0, time_limit=seconds)
            if relax is None
            else relax(problems[j], first[j], seconds)
        )
        if again is not None:
            better = bracket(problems[j], again, objective.model.truth(j))
            low[j], high[j] = max(low[j], better[0]), min(high[j], better[1])
        check.step(0)


def bracket(problem: Problem, result: Result, truth: np.ndarray) -> tuple[float, float]:
    """The best score above that of the truth, from below and from above: a labelling, and a certificate checked in plain numpy."""
    own = problem.score(truth)
    reached = -np.inf if result.labels is None else problem.score(result.labels) - own
    if result.certificate is None:
        return max(reached, 0.0), np.inf
    searched = _searched(result)
    if searched is not None:
        gap = float(result.certificate.verify(problem, searched).gap)
        more = exact_score(problem, searched) - exact_score(problem, np.asarray(truth))
        return max(reached, 0.0), to_float_up(Fraction(gap) + more) if np.isfinite(gap) else gap
    return max(reached, 0.0), float(result.certificate.evaluate(problem, np.asarray(truth))[1])
