"""`k_best`: the best labellings in order, with the proof that nothing better was left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ...core.certificates.dual import centred_score
from ...core.certificates.ranking import Ranking, count_proven
from ...core.certificates.scale import score_rounding
from ...core.errors import CertificateError
from ...core.parameters import RELATIVE_GAP, TIME_LIMIT, Maybe, WholeNumber, check_value
from ...core.problem import Problem
from ...core.validation import as_labels
from ...executors.clock import Clock
from .bags import exact_order
from .enumeration import BagEnumeration, BoxEnumeration, Enumeration
from .log_partition import check_problem


@dataclass(frozen=True)
class Tuning:
    """How far `k_best` looks for labellings that differ enough."""

    # Labellings that may be passed over in all, as too near to those before: a few seconds on a hundred nodes. Each takes a
    # place in the proof, whose check compares all pairs of them.
    most_passed: int = 1000
    # Seconds for solving boxes where no limit is given: as long as `solve` searches.
    box_seconds: float = 60.0
    # Share of a time limit for solving boxes; the rest is kept for the proof, whose searches are evaluated again.
    box_share: float = 0.6


_TUNING = Tuning()


class KBestVerification(NamedTuple):
    """What is proven, recomputed: ``bound`` of all that is not listed, and how many positions of the order are ``proven``."""

    bound: float
    proven: int


@dataclass(frozen=True, eq=False)
class KBest:
    """The best labellings of a problem, in the order of their scores.

    Attributes
    ----------
    labels : ndarray of int32, shape (k, n_nodes)
        All different. Fewer than were asked for if there are no more of finite score, or time was up.
    scores : ndarray, shape (k,)
        Their scores, not rising.
    bound : float
        No labelling that is not listed scores more (with ``diverse``: none that was neither listed nor passed over); ``-inf`` if
        there is none of finite score.
    proven : int
        So many positions, from the first on, are proven: each of these labellings is at least as good as all that follow it and all
        that are not listed (with ``diverse``: as all of these that differ enough from the ones before it), up to what "optimal" means
        in a `Result`, or within the relative ``gap``.
    message : str
        One sentence for people.
    gap : float
    diverse : int or None
    passed : ndarray of int32, shape (m, n_nodes)
        Labellings that were passed over, as they are too near to those before them; part of the proof.
    """

    labels: np.ndarray
    scores: np.ndarray
    bound: float
    proven: int
    message: str
    gap: float = 0.0
    diverse: int | None = None
    passed: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), dtype=np.int32))
    _proof: Ranking | None = field(default=None, repr=False)
    _rank: np.ndarray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    def verify(self, problem: Problem) -> KBestVerification:
        """Recompute scores, order and the bound of all that is not listed, in plain numpy, and compare every claim.

        The space is cut into the listed labellings and boxes (a prefix of one of them, and other labels at the next node); every box has
        a certificate, which is evaluated for the problem restricted to it.

        Raises
        ------
        CertificateError
            If a claim does not hold.
        """
        if self._proof is None or self._rank is None:
            raise CertificateError("this list has no proof; only k_best() makes one.")
        y, passed = (
            np.array([as_labels(row, problem.n_states) for row in rows], dtype=np.int32).reshape(len(rows), problem.n_nodes)
            for rows in (self.labels, self.passed)
        )
        for i, (labels, score) in enumerate(zip(y, self.scores, strict=True)):
            own = problem.score(labels)
            if not abs(own - score) <= score_rounding(problem, labels):
                raise CertificateError(f"labelling {i} is said to have the score {score}, but has {own}.")
        found = _judge(problem, y, passed, self._rank, self._proof, self.gap, self.diverse)
        if not found.bound <= self.bound:
            raise CertificateError(f"the claimed bound of the rest is {self.bound}, but the proof gives only {found.bound}.")
        if found.proven < self.proven:
            raise CertificateError(f"{self.proven} positions are said to be proven, but the proof gives only {found.proven}.")
        return found


def _judge(
    problem: Problem, labels: np.ndarray, passed: np.ndarray, rank: np.ndarray, proof: Ranking, gap: float, diverse: int | None
) -> KBestVerification:
    """Bound of what was never given, and the number of positions that follow from it; ``rank`` puts listed and passed labellings in
    the order of the proof."""
    given = np.concatenate([labels, passed]).astype(np.int32)
    if sorted(rank.tolist()) != list(range(len(given))):
        raise CertificateError("the proof does not name every labelling once.")
    inverse = np.empty(len(rank), dtype=np.int64)
    inverse[rank] = np.arange(len(rank))
    rest, _ = proof.judge(problem, given[inverse], gap)
    # Rows of the proof come in the order of discovery, those of the list by score.
    gaps = rest.gaps[rank][: len(labels)]
    proven = count_proven(problem, labels, rest._replace(gaps=gaps, least=gaps), gap)
    relative = np.array([centred_score(problem, y) for y in given])
    for i in range(proven):
        later = list(range(i + 1, len(given)))
        if diverse is not None:
            apart = (given[:, None, :] != labels[None, :i, :]).sum(axis=2)
            if i and apart[i].min() < diverse:
                raise CertificateError(f"labelling {i} differs from one before it in {apart[i].min()} nodes, wanted {diverse}.")
            later = [j for j in later if not i or apart[j].min() >= diverse]
        room = score_rounding(problem, labels[i]) + gap * abs(problem.score(labels[i]))
        if later and relative[later].max() > relative[i] + room:
            return KBestVerification(rest.bound, i)
    return KBestVerification(rest.bound, proven)


def k_best(
    problem: Problem,
    k: int,
    *,
    diverse: int | None = None,
    time_limit: float | None = None,
    gap: float | None = None,
) -> KBest:
    """The ``k`` best labellings in order, with the proof that nothing better was left out.

    On forests and graphs of small width by dynamic programming, which is exact. Elsewhere by Lawler's partition (Lawler 1972): what is
    left is cut into boxes that begin as a known labelling and go on differently, and those of the largest bounds are solved by `solve`
    (two labels and supermodular: by `MaxFlow`), from the messages of the box around them.

    Parameters
    ----------
    problem : Problem
    k : int
    diverse : int, optional
        Each labelling differs from all before it in at least so many nodes, and is the best of these (Batra et al. 2012, with the
        constraint in place of a penalty). The order is gone through as without it, and labellings that are too near are passed over:
        at most 1000, then the list ends, and says so.
    time_limit : float, optional
        Seconds; when they are over the list has what is known, and ``proven`` tells how much of its order is. Without a limit boxes are
        solved for 60 seconds.
    gap : float, optional
        Relative gap within which each position is proven; 0 by default.

    Returns
    -------
    KBest

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> p = ms.Problem(ms.Graph.chain(3), [[0, 1], [0, 0], [2, 0]], tables=np.eye(2))
    >>> found = ms.k_best(p, 3)
    >>> found.scores.tolist(), found.bound, found.proven
    ([4.0, 4.0, 4.0], 3.0, 3)
    """
    check_problem(problem, "k_best")
    check_value("k", k, WholeNumber(1))
    check_value("diverse", diverse, Maybe(WholeNumber(1)))
    check_value("time_limit", time_limit, TIME_LIMIT)
    check_value("gap", gap, Maybe(RELATIVE_GAP))
    clock, order = Clock(time_limit), exact_order(problem)
    source: Enumeration
    if order is not None:
        source, how = BagEnumeration(problem, order), f"dynamic programming over bags of at most {order.width + 1} nodes"
    else:
        clock = Clock(_TUNING.box_seconds if time_limit is None else _TUNING.box_share * time_limit)
        source, how = BoxEnumeration(problem, gap, clock), "Lawler's partition into boxes"
    listed, passed, why = _collect(source, int(k), diverse, clock)
    source.settle()
    # Scores in the order of the proof, then by what they are: rounding, or boxes that were left open, may have turned two of them.
    relative = np.array([centred_score(problem, y) for _, y in listed])
    best_first = np.argsort(-relative, kind="stable") if diverse is None else np.arange(len(listed))
    listed = [listed[i] for i in best_first.tolist()]
    n = problem.n_nodes
    labels = np.array([y for _, y in listed], dtype=np.int32).reshape(len(listed), n)
    skipped = np.array([y for _, y in passed], dtype=np.int32).reshape(len(passed), n)
    rank = np.array([number for number, _ in [*listed, *passed]], dtype=np.int64)
    scores, proof = np.array([problem.score(y) for y in labels]), source.proof()
    found = _judge(problem, labels, skipped, rank, proof, gap or 0.0, diverse)
    said = f"k_best: {len(labels)} of {k} labellings by {how}; {found.proven} of them are proven to be in order{why}."
    for array in (labels, scores, skipped):
        array.flags.writeable = False
    return KBest(labels, scores, found.bound, found.proven, said, gap or 0.0, diverse, skipped, proof, rank)


Numbered = tuple[int, np.ndarray]
"""A labelling, and which one it was in the order in which the source gave them."""


def _collect(source: Enumeration, k: int, diverse: int | None, clock: Clock) -> tuple[list[Numbered], list[Numbered], str]:
    """Labellings until there are ``k`` that differ enough, those that were passed over, and why there are not more."""
    listed: list[Numbered] = []
    passed: list[Numbered] = []
    while len(listed) < k:
        if listed and clock.left <= 0:
            return listed, passed, "; time was up"
        labels = source.next()
        if labels is None:
            return listed, passed, "; time was up" if clock.left <= 0 else "; there are no more"
        number = len(listed) + len(passed)
        if diverse is None or all(int((labels != y).sum()) >= diverse for _, y in listed):
            listed.append((number, labels))
            continue
        passed.append((number, labels))
        if len(passed) >= _TUNING.most_passed:
            return listed, passed, f"; {len(passed)} more were too near to those before, which is as far as is looked"
    return listed, passed, ""
