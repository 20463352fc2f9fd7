r"""Proofs that no labelling outside a list scores more than a bound: what the order of the k best is checked with, in plain numpy.

Nodes are put in an order. The labellings of a list, read in that order, make a tree of prefixes, and the complement of the list falls
into *boxes*: for every prefix :math:`y_1 \dots y_{d-1}` of a listed labelling, all labellings that begin with it and go on with a label
that none of the listed ones with this prefix has (Lawler 1972). Boxes and list together are everything, by construction, so a bound of
every box is a bound of all that is not listed.

- `EliminationRanking`: the separator tables of a junction tree bound all boxes at once. Against the order of elimination the score is
  :math:`c + \sum_v C_v(y_v, y_S)`, and every bag is at most its maximum: a prefix counts with its values, the first label after it with
  the best that is left, all others with their maxima. Exact tables make these bounds exact.
- `BoxRanking`: messages bound the boxes that branch off a listed labelling, in one pass over the edges; boxes that were solved by
  themselves have certificates of their own.

Both hold whatever their numbers are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..conditioning import within
from ..errors import CertificateError, InfeasibleError
from ..factors.collection import MOVES_ARITY
from .base import Certificate, EliminationCertificate
from .dual import (
    _clique_terms,
    arc_consistent,
    node_intervals,
    own_labels,
    raised_edge_scores,
    raised_score,
    rounded_up,
    sum_up,
    up,
)
from .exact import ExactTerms, to_float_up
from .scale import UNIT, chunks, edge_centres, score_rounding, tolerance

if TYPE_CHECKING:
    from ..problem import Messages, Problem

_EXACT_CELLS = 200_000
"""Labels of all nodes of all listed labellings up to which rational arithmetic decides what rounding leaves open, some seconds."""


class Rest(NamedTuple):
    """What is proven about everything outside a list of labellings.

    ``bound``: none of it scores more. ``gaps`` (k,): by how much the best of it may lie above each labelling of the list (negative: it lies
    below). ``least`` (k,): the same without what rounding could hide.
    """

    bound: float
    gaps: np.ndarray
    least: np.ndarray


class Ranking(ABC):
    """Proof of a bound of everything that is not in a list of labellings."""

    @abstractmethod
    def evaluate(self, problem: Problem, labels: np.ndarray) -> Rest:
        """Bound and gaps, recomputed in plain numpy and rounded up; ``labels`` (k, n_nodes) are checked and distinct."""

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray) -> Rest | None:
        """The same in rational numbers, where the proof has that form."""
        return None

    def judge(self, problem: Problem, labels: np.ndarray, gap: float = 0.0) -> tuple[Rest, int]:
        """What is proven, and how many labellings from the first on are each at least as good as all that is not listed.

        "As good" is what `core.certificates.scale.tolerance` means by optimal, or within the relative ``gap``.
        """
        rest = self.evaluate(problem, labels)
        count = count_proven(problem, labels, rest, gap)
        if count < len(labels) and labels.size * problem.n_labels <= _EXACT_CELLS:
            least = Rest(rest.bound, rest.least, rest.least)
            exact = self.evaluate_exactly(problem, labels) if count_proven(problem, labels, least, gap) > count else None
            if exact is not None:
                rest, count = exact, count_proven(problem, labels, exact, gap)
        return rest, count


def count_proven(problem: Problem, labels: np.ndarray, rest: Rest, gap: float) -> int:
    """How many labellings, from the first on, are each at least as good as all that is not listed; see `Ranking.judge`."""
    for i, y in enumerate(labels):
        above = rest.gaps[i]
        if problem.step and np.isfinite(above):
            above = np.floor(above)
        allowed = max(tolerance(problem, y), gap * max(abs(problem.score(y)), abs(rest.bound)) if gap else 0.0)
        if not above <= allowed:
            return i
    return len(labels)


class _Prefixes(NamedTuple):
    """The tree of prefixes: ``labels`` (k, n) in the order of the proof; ``used`` (k, n, K), the labels after each prefix that listed
    labellings have; ``first`` (k, n), whether no labelling earlier in the list has the same prefix."""

    labels: np.ndarray
    used: np.ndarray
    first: np.ndarray


def prefixes(labels: np.ndarray, order: np.ndarray, n_labels: int) -> _Prefixes:
    """The tree of prefixes of distinct labellings; `CertificateError` if two are the same."""
    ordered = labels[:, order].astype(np.int64)
    k, n = ordered.shape
    used, first = np.zeros((k, n, n_labels), dtype=bool), np.ones((k, n), dtype=bool)
    places = np.arange(n)
    for j in range(k):
        used[j, places, ordered[j]] = True
        for other in range(j):
            apart = np.flatnonzero(ordered[j] != ordered[other])
            if not len(apart):
                raise CertificateError(f"labellings {other} and {j} of the list are the same.")
            shared = slice(0, int(apart[0]) + 1)
            used[j, places[shared], ordered[other, shared]] = True
            used[other, places[shared], ordered[j, shared]] = True
            first[j, shared] = False
    return _Prefixes(ordered, used, first)


@dataclass(frozen=True, eq=False, repr=False)
class EliminationRanking(Ranking):
    """The separator tables of a junction tree as a proof of order."""

    certificate: EliminationCertificate

    def evaluate(self, problem: Problem, labels: np.ndarray) -> Rest:
        if not len(labels):
            return Rest(self.certificate.bound(problem), np.zeros(0), np.zeros(0))
        k, n = labels.shape
        raised, plain, below = (np.full((k, n, problem.n_labels), -np.inf) for _ in range(3))
        top, high = np.zeros(n), np.zeros(n)
        for bag in self.certificate._bags(problem):
            if bag is None or not np.isfinite(bag.top()):
                return _unknown(k)
            place = n - 1 - bag.number
            at: tuple[Any, ...] = (slice(None), *(labels[:, w] for w in bag.nodes[1:]))
            value = bag.value[at] if len(at) > 1 else np.repeat(bag.value[:, None], k, axis=1)
            size = bag.size[at[1:]] if bag.size.ndim else bag.size
            off = bag.unit * (2 * np.abs(np.where(np.isfinite(value), value, 0.0)) + size + 2 * bag.raised)
            m = len(value)
            raised[:, place, :m], plain[:, place, :m], below[:, place, :m] = (value + off).T, value.T, (value - off).T
            top[place], high[place] = bag.top(), float(bag.value.max())
        tree = prefixes(labels, np.array(self.certificate.nodes[::-1], dtype=np.int64), problem.n_labels)
        above, own = _rest(tree, raised, top)
        estimate, middle = _rest(tree, plain, high)
        low = np.take_along_axis(below, tree.labels[:, :, None], axis=2)[:, :, 0].sum(axis=1, dtype=np.longdouble)
        sizes = np.abs(np.where(np.isfinite(own), own, 0.0)).sum() + np.abs(top).sum()
        off = float(UNIT + 4 * np.finfo(np.longdouble).eps * (n + 2)) * float(sizes)
        gaps = np.array([up(float(above - mine) + off) if np.isfinite(mine) else np.inf for mine in low])
        least = np.array([float(estimate - mine) - off if np.isfinite(mine) else np.inf for mine in middle.sum(axis=1)])
        return Rest(_bound(problem, labels, gaps, above), np.where(np.isneginf(above), -np.inf, gaps), least)

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray) -> Rest | None:
        certificate = self.certificate
        terms = ExactTerms(problem, *certificate.tables)
        k, n = labels.shape
        values: Any = np.full((k, n, problem.n_labels), None, dtype=object)
        top: list[int] = [0] * n
        for bag in certificate._bags(problem):
            if bag is None:
                return None
            off, place = bag.off(()), n - 1 - bag.number
            low = (bag.value - off).max()
            if not np.isfinite(low):
                return None
            where = dict(zip(bag.nodes, np.nonzero(bag.value + off >= low), strict=True))
            top[place] = max(certificate._exact_values(problem, terms, bag, where).tolist())
            m = len(bag.value)
            rows, own = np.repeat(np.arange(k), m), np.tile(np.arange(m), k)
            at = {w: own if i == 0 else labels[rows, w] for i, w in enumerate(bag.nodes)}
            fine = np.isfinite(bag.value[tuple(at[w] for w in bag.nodes)])
            some = {w: index[fine] for w, index in at.items()}
            if fine.any():
                values[rows[fine], place, own[fine]] = certificate._exact_values(problem, terms, bag, some)
        tree = prefixes(labels, np.array(certificate.nodes[::-1], dtype=np.int64), problem.n_labels)
        suffix = [0] * (n + 1)
        for place in range(n - 1, -1, -1):
            suffix[place] = suffix[place + 1] + top[place]
        best, totals = None, []
        for j in range(k):
            prefix = 0
            for place in range(n):
                alternatives = [
                    x for x, taken in zip(values[j, place], tree.used[j, place], strict=True) if x is not None and not taken
                ]
                if alternatives:
                    found = prefix + max(alternatives) + suffix[place + 1]
                    best = found if best is None else max(best, found)
                prefix += values[j, place, tree.labels[j, place]]
            totals.append(prefix)
        if best is None:
            return Rest(-np.inf, np.full(k, -np.inf), np.full(k, -np.inf))
        gaps = np.array([to_float_up((best - total) * terms.unit) for total in totals])
        bound = to_float_up(best * terms.unit + Fraction(problem.offset))
        return Rest(bound, gaps, gaps)


def _rest(tree: _Prefixes, values: np.ndarray, top: np.ndarray) -> tuple[np.longdouble, np.ndarray]:
    """The largest bound of a box, of values (k, n, K) at all labels after each prefix, and the values at the labellings."""
    own = np.take_along_axis(values, tree.labels[:, :, None], axis=2)[:, :, 0]
    other = np.where(tree.used, -np.inf, values).max(axis=2, initial=-np.inf)
    before = np.cumsum(own, axis=1, dtype=np.longdouble) - own
    after = top.sum(dtype=np.longdouble) - np.cumsum(top, dtype=np.longdouble)
    with np.errstate(invalid="ignore"):
        found = np.where(np.isneginf(other), -np.inf, before + other + after)
    return found.max(initial=-np.inf), own


def _unknown(k: int) -> Rest:
    return Rest(np.inf, np.full(k, np.inf), np.full(k, np.inf))


def _bound(problem: Problem, labels: np.ndarray, gaps: np.ndarray, above: np.longdouble) -> float:
    """The score of a labelling plus its gap, rounded up: the least that the listed ones prove."""
    if np.isneginf(above):
        return -np.inf
    return min((raised_score(problem, y, float(gap)) for y, gap in zip(labels, gaps, strict=True)), default=np.inf)


@dataclass(frozen=True, eq=False, repr=False)
class BoxRanking(Ranking):
    """Boxes along an order of nodes, with messages for all that branch off a listed labelling and certificates for some.

    Attributes
    ----------
    order : tuple of int
        All nodes, each once.
    messages : tuple of Messages
        One set for each listed labelling.
    around : tuple of Certificate or None
        For each listed labelling, of the box that it was the best of: it bounds all boxes that branch off inside.
    solved : mapping of (row, depth) to Certificate
        For the box that branches off labelling ``row`` after ``depth`` nodes: a certificate for the problem restricted to it, or to a larger box.
    empty : Certificate or None
        Proof that there is no labelling at all, where the list is empty.
    """

    order: tuple[int, ...]
    messages: tuple[Messages, ...]
    around: tuple[Certificate | None, ...]
    solved: Mapping[tuple[int, int], Certificate]
    empty: Certificate | None = None

    def evaluate(self, problem: Problem, labels: np.ndarray) -> Rest:
        k, n = labels.shape
        if not k:
            return Rest(np.inf if self.empty is None else self.empty.bound(problem), np.zeros(0), np.zeros(0))
        if sorted(self.order) != list(range(n)) or {len(self.messages), len(self.around)} != {k}:
            raise CertificateError("the order of the proof does not list every node once, or messages are missing.")
        order = np.array(self.order, dtype=np.int64)
        tree, own, bound = prefixes(labels, order, problem.n_labels), own_labels(problem), -np.inf
        for j in range(k):
            found = branch_bounds(problem, self.messages[j], order, labels[j], tree.used[j])
            found = np.where(tree.first[j], found, -np.inf)
            outside = self.around[j]
            if outside is not None and found.max(initial=-np.inf) > bound:
                # all these boxes begin as the labelling does, up to its first own prefix
                depth = int(np.argmax(tree.first[j]))
                mask = box_mask(own, order, labels[j], depth, np.zeros(problem.n_labels, dtype=bool))
                found = np.minimum(found, certificate_bound(problem, mask, outside))
            for depth in np.flatnonzero(found > -np.inf).tolist():
                certificate = self.solved.get((j, depth))
                if certificate is not None and found[depth] > bound:
                    mask = box_mask(own, order, labels[j], depth, tree.used[j, depth])
                    found[depth] = min(found[depth], certificate_bound(problem, mask, certificate))
            bound = max(bound, float(found.max(initial=-np.inf)))
        if problem.step and np.isfinite(bound):
            bound = float(np.floor(bound))
        gaps = np.array([bound - problem.score(y) for y in labels])
        room = np.array([score_rounding(problem, y) for y in labels])
        return Rest(bound, gaps + room, gaps - room)


def box_mask(own: np.ndarray, order: np.ndarray, labels: np.ndarray, depth: int, used: np.ndarray) -> np.ndarray:
    """Labels (N, K) of the box of all labellings that begin as ``labels`` and go on with a label that is not ``used``."""
    mask, before = own.copy(), order[:depth]
    mask[before] = False
    mask[before, labels[before]] = own[before, labels[before]]
    mask[order[depth]] &= ~used
    return mask


def certificate_bound(problem: Problem, mask: np.ndarray, certificate: Certificate) -> float:
    """What a certificate proves about the labellings inside a mask."""
    try:
        return certificate.bound(within(problem, mask))
    except InfeasibleError:
        return -np.inf


def branch_bounds(problem: Problem, messages: Messages, order: np.ndarray, labels: np.ndarray, used: np.ndarray) -> np.ndarray:
    """Bounds (n,), by messages, of the boxes that branch off a labelling at each depth of the order, all in one pass over the edges.

    In the box of depth ``d`` nodes before ``d`` have their label, node ``d`` any but those in ``used[d]``, the others are free. A term
    changes at the depths of its nodes only, so its contributions are steps, which are added up. Cliques count as free, and so do factors
    of more than `MOVES_ARITY` nodes.
    """
    n, domain = problem.n_nodes, arc_consistent(problem)
    messages = problem.as_messages(messages)
    if not n or not domain.any(axis=1).all():
        return np.full(n, -np.inf)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    open_ = np.zeros(domain.shape, dtype=bool)
    open_[order] = ~used
    open_ &= domain
    theta, error = node_intervals(problem, messages, domain)
    theta += error
    steps = _Steps(n)
    free, other = theta.max(axis=1), np.where(open_, theta, -np.inf).max(axis=1)
    steps.add(np.zeros(n, dtype=np.int64), place, free)
    steps.add(place, place + 1, other)
    steps.add(place + 1, np.full(n, n), theta[np.arange(n), labels])
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        u, v = problem.graph.edges[part].T
        table = raised_edge_scores(problem, messages, domain, part)
        turned = place[u] > place[v]
        table[turned] = table[turned].transpose(0, 2, 1)
        a, b = np.where(turned, v, u), np.where(turned, u, v)
        row = table[np.arange(len(part)), labels[a]]
        values = (
            table.max(axis=(1, 2)),
            np.where(open_[a][:, :, None], table, -np.inf).max(axis=(1, 2)),
            row.max(axis=1),
            np.where(open_[b], row, -np.inf).max(axis=1),
            row[np.arange(len(part)), labels[b]],
        )
        starts = (np.zeros(len(part), dtype=np.int64), place[a], place[a] + 1, place[b], place[b] + 1)
        ends = (*starts[1:], np.full(len(part), n))
        for begin, end, value in zip(starts, ends, values, strict=True):
            steps.add(begin, end, rounded_up(value))
    _add_factors(steps, problem, messages, domain, open_, place, labels)
    best = np.where(domain, problem.unary, -np.inf).max(axis=1)
    centre = edge_centres(problem)
    off = UNIT * float(np.abs(centre).sum())
    cliques = _clique_terms(problem, messages, domain, None)[0]
    constant = sum_up(best, centre, cliques, problem.factors.centres, np.array([problem.offset, off]))
    return steps.sums(constant)


def _add_factors(
    steps: _Steps,
    problem: Problem,
    messages: Messages,
    domain: np.ndarray,
    open_: np.ndarray,
    place: np.ndarray,
    labels: np.ndarray,
) -> None:
    """The steps of all factors: each of its nodes, in their order, goes from free to open to its label."""
    n, inside = problem.n_nodes, problem.factors.messages_inside(messages.factor, domain)
    held = np.arange(problem.n_labels) == labels[:, None]
    for group in problem.factors.groups:
        psi, rows = inside[group.slots], np.arange(len(group.nodes))
        begin, arity = np.zeros(len(rows), dtype=np.int64), group.nodes.shape[1]
        turn = np.argsort(place[group.nodes], axis=1) if arity <= MOVES_ARITY else np.zeros((len(rows), 0), dtype=np.int64)
        for member in turn.T:
            nodes = group.nodes[rows, member]
            for end, left in ((place[nodes], open_[nodes]), (place[nodes] + 1, held[nodes])):
                steps.add(begin, end, group.function.tops(psi))
                psi, begin = psi.copy(), end
                psi[rows, member] = np.where(left, inside[group.slots[rows, member]], -np.inf)
        steps.add(begin, np.full(len(rows), n), group.function.tops(psi))


class _Steps:
    """Sums of functions of the depth that are constant between two depths and 0 elsewhere; ``-inf`` is counted apart."""

    def __init__(self, n: int):
        self.change, self.forbidden = np.zeros(n + 1, dtype=np.longdouble), np.zeros(n + 1, dtype=np.int64)
        self.size, self.count = 0.0, 0

    def add(self, first: np.ndarray, last: np.ndarray, value: np.ndarray) -> None:
        """Add ``value[i]`` at the depths ``first[i] .. last[i] - 1``."""
        never, fine = np.isneginf(value), np.where(np.isneginf(value), 0.0, value)
        for at, sign in ((first, 1), (last, -1)):
            np.add.at(self.change, at, sign * fine.astype(np.longdouble))
            np.add.at(self.forbidden, at, sign * never)
        self.size += 2 * float(np.abs(fine).sum())
        self.count += 2 * len(value)

    def sums(self, constant: float) -> np.ndarray:
        """Values at all depths plus a constant, rounded up."""
        total = np.cumsum(self.change)[:-1] + np.longdouble(constant)
        off = (2 * float(np.finfo(np.longdouble).eps) * (self.count + 2)) * (self.size + abs(constant))
        found = np.nextafter((total + off).astype(np.float64), np.inf)
        return np.where(np.cumsum(self.forbidden)[:-1] > 0, -np.inf, found)
