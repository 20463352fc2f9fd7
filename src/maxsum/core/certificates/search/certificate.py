"""Certificates of an exact search: a branching tree, replayed box by box in plain numpy.

The checker takes many boxes at a time. Everything that decides (maxima of reparametrised terms, excess of a box, loss of a
label) is computed with the rounding it may hide added on the safe side, or exactly with integers; messages may be any numbers,
so how they are made (stored, or by passes on the box) needs no care.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ...errors import CertificateError
from ..base import Certificate, Evaluation, Verification
from ..dual import own_labels, raised_score
from ..exact import exact_score
from ..scale import tolerance
from .numbers import Floats, Integers, Terms
from .passes import HELD, Consistency, Passes, single

if TYPE_CHECKING:
    from ...problem import Messages, Problem

_KEPT = (np.not_equal, np.equal, np.less, np.greater_equal)
# A box with more labels is not enumerated: its tables of losses would not fit the caches.
MAX_ENUMERATED = 1024
# Labels that a row of the enumeration may open, as a power of two; above it a tampered certificate would only waste time.
MAX_EFFORT = 26
# Passes on a box: a byte holds them.
MAX_PASSES = 255


# The last evaluation of a certificate in this process: a search asks what its proof is worth, and then its run does.
_evaluated: WeakKeyDictionary[SearchCertificate, tuple[Problem, np.ndarray | None, Evaluation]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False, repr=False)
class SearchCertificate(Certificate):
    """A branching tree. Every box is closed by messages, by propagation, by enumeration, or by its children.

    Box 0 is the whole problem. Box ``i > 0`` is its parent's box, restricted to labels ``y`` of ``node[i]`` for which
    ``y != label[i]``, ``y == label[i]``, ``y < label[i]`` or ``y >= label[i]``, as ``relation[i]`` is 0, 1, 2 or 3. Its
    messages are set ``message_set[i]``, or those its parent ended with, rounded to float32, if that is -1. Labels that cannot
    beat the known labelling by more than the room, by arc consistency or by the box's messages, are removed from it again
    and again. Then ``passes[i]`` TRW-S passes on what is left (the first from the last node to the first, then in turn) make
    new messages, and labels are removed again. A box that is left is split into its children if they leave out no label;
    otherwise at most ``2**effort[i]`` partial labellings of it are enumerated (none if ``effort[i]`` is 0).

    The room is what may be left open anyway: the tolerance of the problem or, if larger, ``level``, the gap that an
    unfinished search has reached.

    Message set ``s`` is stored sparsely: entry ``index[j]`` of the edge messages and, after them, the clique messages,
    all laid out flat, is ``value[j]`` for ``ptr[s] <= j < ptr[s + 1]``; the others are 0.
    """

    parent: np.ndarray
    node: np.ndarray
    label: np.ndarray
    relation: np.ndarray
    message_set: np.ndarray
    ptr: np.ndarray
    index: np.ndarray
    value: np.ndarray
    passes: np.ndarray | None = None
    effort: np.ndarray | None = None
    level: float = 0.0

    @classmethod
    def of_messages(cls, messages: Messages) -> SearchCertificate:
        """A tree of one box, with these messages."""
        flat = np.concatenate([messages.edge.ravel(), messages.clique.ravel()])
        index, none = np.flatnonzero(flat), np.zeros(1, dtype=np.int32)
        return cls(none - 1, none - 1, none - 1, none, none, np.array([0, len(index)]), index, flat[index], none, none)

    def __len__(self) -> int:
        return len(self.parent)

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        known = _evaluated.get(self)
        if known is not None and known[0] is problem and _same(known[1], labels):
            return known[2]
        return self.assess(problem, labels, np.inf)

    def assess(self, problem: Problem, labels: np.ndarray | None, seconds: float) -> Evaluation:
        """`evaluate` within some seconds: boxes that there is no time for count as open."""
        found = self._judge(problem, labels, False, time.perf_counter() + seconds)
        _evaluated[self] = problem, None if labels is None else labels.copy(), found
        return found

    def remember(self, problem: Problem, labels: np.ndarray, gap: float) -> None:
        """Keep what a finished search knows of its own proof, so that its run does not replay it. `verify` computes it anew."""
        _evaluated[self] = problem, labels.copy(), Evaluation(raised_score(problem, labels, gap), gap)

    def verify(self, *args: Any, **claims: Any) -> Verification:
        _evaluated.pop(self, None)  # a check computes everything anew
        return super().verify(*args, **claims)

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        """The same with integers instead of rounding; the gap, or without a labelling the bound, is rounded up once, at the end.

        Boxes are closed no further above the labelling than floating point had to: with the whole room some would be closed
        sooner, and the exact gap could be the larger one.
        """
        bound, gap, _ = self._judge(problem, labels, True, most=self.evaluate(problem, labels).gap)
        if labels is None or not np.isfinite(gap):
            return bound, gap
        return exact_score(problem, labels) + Fraction(gap), Fraction(gap)

    def _judge(
        self, problem: Problem, labels: np.ndarray | None, exact: bool, deadline: float = np.inf, most: float = np.inf
    ) -> Evaluation:
        children = self._children(problem)
        known = labels if labels is not None and np.isfinite(problem.score(labels)) else None
        room = -np.inf if known is None else max(target_gap(problem, known), self.level if self.level < np.inf else 0.0)
        room = min(room, most) if most >= 0 else room
        number = (Integers if exact else Floats)(problem, known)
        replay = _Replay(self, problem, children, number, room)
        replay.deadline = deadline
        above = replay.run()
        if known is not None:
            gap = max(0.0, above)
            return Evaluation(raised_score(problem, known, gap), gap)
        return Evaluation(above, np.nan if labels is None else np.inf)

    def _children(self, problem: Problem) -> list[list[int]]:
        """Children of each box, once all numbers are known to be in range."""
        if len(problem.factors):  # their terms would not be counted
            raise CertificateError(
                f"a SearchCertificate is for problems without factors; this one has {len(problem.factors)}. A search of the lifted "
                "problem is a LiftedCertificate."
            )
        n_boxes, n_sets = len(self), len(self.ptr) - 1
        per_box = (self.node, self.label, self.relation, self.message_set, self._passes, self._effort)
        n_entries = 2 * problem.n_edges * problem.n_labels + problem.cliques.n_members * problem.n_labels
        inside = (
            n_boxes > 0
            and {len(a) for a in per_box} == {n_boxes}
            and _within(self.node[1:], 0, problem.n_nodes)
            and _within(self.relation, 0, 4)
            and _within(self.message_set, -1, n_sets)
            and _within(self._passes, 0, MAX_PASSES + 1)
            and _within(self._effort, 0, MAX_EFFORT + 1)
            and _within(self.index, 0, n_entries)
            and len(self.index) == len(self.value)
            and n_sets >= 0
            and bool((self.ptr[1:] >= self.ptr[:-1]).all())
            and (n_sets == 0 or self.ptr[0] >= 0)
            and (n_sets == 0 or self.ptr[-1] <= len(self.index))
            and self.level >= 0
        )
        if not inside:
            raise CertificateError("the search record has no boxes, or numbers out of range.")
        wrong = np.flatnonzero((self.parent[1:] < 0) | (self.parent[1:] >= np.arange(1, n_boxes)))
        if len(wrong):
            raise CertificateError(f"box {wrong[0] + 1} of the search comes before its parent {self.parent[wrong[0] + 1]}.")
        children: list[list[int]] = [[] for _ in range(n_boxes)]
        for i, parent in enumerate(self.parent[1:].tolist(), start=1):
            children[parent].append(i)
        return children

    @property
    def _passes(self) -> np.ndarray:
        return np.zeros(len(self), dtype=np.uint8) if self.passes is None else self.passes

    @property
    def _effort(self) -> np.ndarray:
        return np.zeros(len(self), dtype=np.uint8) if self.effort is None else self.effort

    def kept(self, box: int, n_labels: int) -> np.ndarray:
        """Mask of the labels that the box leaves to its node."""
        mask: np.ndarray = _KEPT[int(self.relation[box])](np.arange(n_labels), self.label[box])
        return mask

    def unpack(self, problem: Problem, number: int) -> Messages:
        """Messages of one set; none of them, if the number is -1."""
        edge, clique, _ = problem.zero_messages()
        flat = np.zeros(edge.size + clique.size)
        if number >= 0:
            part = slice(self.ptr[number], self.ptr[number + 1])
            flat[self.index[part]] = self.value[part]
        return problem.as_messages((flat[: edge.size].reshape(edge.shape), flat[edge.size :].reshape(clique.shape)))

    def covers(self, children: list[int], labels: np.ndarray) -> bool:
        """Whether the children, all branching on one node, leave out none of its labels (given as a mask)."""
        if not children or len(set(self.node[children].tolist())) > 1:
            return False
        met = np.any([self.kept(c, len(labels)) for c in children], axis=0)
        return bool((met | ~labels).all())


def _same(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


def _within(numbers: np.ndarray, low: int, high: int) -> bool:
    return bool(((numbers >= low) & (numbers < high)).all())


def target_gap(problem: Problem, labels: np.ndarray) -> float:
    """Gap at which boxes are closed: half of what counts as none, since rounding adds to it, or just below the step of whole numbers."""
    return max(0.5 * tolerance(problem, labels), problem.step * (1 - 1e-6))


# ---- the replay ------------------------------------------------------------------------------------------------------


class _Waiting(NamedTuple):
    """A box to be judged: its number, its labels (N, K), the messages its parent ended with (terms, K) in float32, and how
    far its parent may lie above the labelling.
    """

    box: int
    domain: np.ndarray
    inherited: np.ndarray
    above: Any


class _Replay:
    """Depth first over the tree, as many boxes at a time as the memory allows."""

    def __init__(self, tree: SearchCertificate, problem: Problem, children: list[list[int]], number: Any, room: float):
        self.tree, self.problem, self.children, self.number, self.room = tree, problem, children, number, room
        self.terms = 2 * problem.n_edges + problem.cliques.n_members
        self.passes, self.effort = tree._passes, tree._effort
        if len(problem.cliques):  # neither passes nor enumeration know about cliques: the messages are taken as they are
            self.passes, self.effort = np.zeros_like(self.passes), np.zeros_like(self.effort)
        self.consistency, self.tighten = Consistency(problem), Passes(problem)
        self.most = max(1, HELD // max(1, self.terms * problem.n_labels))
        self.closed = number.nothing
        self.sets: dict[int, np.ndarray] = {}
        self.deadline = np.inf

    def run(self) -> float:
        problem, k = self.problem, self.problem.n_labels
        stack = [_Waiting(0, own_labels(problem), np.zeros((self.terms, k), dtype=np.float32), np.inf)]
        while stack:
            if time.perf_counter() > self.deadline:  # what waits is no better than the boxes it is a part of
                self.closed = max(self.closed, *(w.above for w in stack))
                break
            some, stack = stack[-self.most :], stack[: -self.most]
            stack += self.judge(sorted(some, key=lambda w: -int(self.passes[w.box])))
        return float(self.number.bound(self.closed))

    def judge(self, some: list[_Waiting]) -> list[_Waiting]:
        """Close the boxes, or give their children. They come with falling numbers of passes."""
        # (N, K, b) and (terms, K, b): numpy is fast where the boxes lie together
        domain = np.stack([w.domain for w in some], axis=2)
        messages = np.stack([self.messages(w) for w in some], axis=2)
        boxes = np.array([w.box for w in some])
        boxes, domain, messages, terms = self.shrink(boxes, domain, messages)
        n_tightened = int((self.passes[boxes] > 0).sum())
        part, rest = slice(0, n_tightened), slice(n_tightened, None)
        waiting = self.split(boxes[rest], domain[..., rest], messages[..., rest], terms.pick(rest)) if len(boxes) else []
        if n_tightened:
            tighter = self.tighten(domain[..., part], messages[..., part], self.passes[boxes[part]])
            waiting += self.split(*self.shrink(boxes[part], domain[..., part], tighter))
        return waiting

    def messages(self, waiting: _Waiting) -> np.ndarray:
        number = int(self.tree.message_set[waiting.box])
        if number < 0:
            return waiting.inherited.astype(float)
        if number not in self.sets:
            edge, clique, _ = self.tree.unpack(self.problem, number)
            self.sets = {number: np.concatenate([edge.reshape(-1, self.problem.n_labels), clique])}
        return self.sets[number]

    def shrink(self, boxes: np.ndarray, domain: np.ndarray, messages: np.ndarray) -> tuple[Any, ...]:
        """Remove what cannot exceed the room; gives the boxes that are left, with what the last evaluation found."""
        open_boxes, open_domain, open_messages, found = [], [], [], []
        while len(boxes):
            domain = self.consistency(domain)
            some = domain.any(axis=1).all(axis=0)
            if not some.all():
                boxes, domain, messages = boxes[some], domain[..., some], messages[..., some]
                continue
            terms = self.number.terms(domain, messages)
            above, by_label = terms.above, terms.by_label
            empty = terms.empty
            closed = empty | (above <= self.number.room(self.room))
            self.note(above[closed & ~empty])
            worse = domain & (by_label <= self.number.room(self.room)) & ~closed
            self.note(by_label[worse])
            changed = worse.any(axis=(0, 1))
            still = ~closed & ~changed
            if still.any():
                open_boxes.append(boxes[still])
                open_domain.append(domain[..., still])
                open_messages.append(messages[..., still])
                found.append(terms.pick(still))
            boxes, domain, messages = boxes[changed], (domain & ~worse)[..., changed], messages[..., changed]
        if not open_boxes:
            return np.zeros(0, dtype=int), domain[..., :0], messages[..., :0], None
        if len(found) == 1:
            return open_boxes[0], open_domain[0], open_messages[0], found[0]
        order = np.argsort(-self.passes[np.concatenate(open_boxes)], kind="stable")
        joined = np.concatenate(open_boxes)[order]
        both = (np.concatenate(parts, axis=2)[..., order] for parts in (open_domain, open_messages))
        return joined, *both, Terms.join(found, order)

    def enumerable(self, domain: np.ndarray) -> bool:
        """Whether a box is small enough, and an enumeration can close anything."""
        n_edges, k = self.problem.n_edges, self.problem.n_labels
        some = n_edges > 0 and (self.room > -np.inf or bool(self.consistency.hard.any()))
        return some and n_edges * k * k <= HELD and domain.sum() <= MAX_ENUMERATED

    def note(self, excess: np.ndarray) -> None:
        """Remember the largest excess that something was closed with."""
        if excess.size:
            self.closed = max(self.closed, excess.max())

    def split(self, boxes: np.ndarray, domain: np.ndarray, messages: np.ndarray, terms: Terms | None) -> list[_Waiting]:
        waiting = []
        for j, i in enumerate(boxes.tolist()):
            assert terms is not None
            children, own = self.children[i], domain[..., j]
            if children and self.tree.covers(children, own[self.tree.node[children[0]]]):
                with np.errstate(over="ignore"):
                    inherited = single(messages[..., j])
                for child in children:
                    part = own.copy()
                    part[self.tree.node[child]] &= self.tree.kept(child, self.problem.n_labels)
                    waiting.append(_Waiting(child, part, inherited, terms.above[j]))
            elif self.effort[i] and self.enumerable(own):
                excess = self.number.enumerate(
                    own, messages[..., j], terms.pick(slice(j, j + 1)), self.room, 1 << int(self.effort[i])
                )
                self.closed = max(self.closed, excess)
            else:
                self.closed = max(self.closed, terms.above[j])
        return waiting
