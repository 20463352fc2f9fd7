"""Certificates of an exact search: a branching tree, replayed box by box in plain numpy.

The checker takes many boxes at a time. Everything that decides (maxima of reparametrised terms, excess of a box, loss of a
label) is computed with the rounding it may hide added on the safe side, or exactly with integers; messages may be any numbers,
so how they are made (stored, or by passes on the box) needs no care.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from .certificate import Certificate, Evaluation, Verification
from .dual import own_labels, raised_score
from .errors import CertificateError
from .exact import exact_score
from .rows import row_max
from .scale import edge_centres, table_centres, tolerance

if TYPE_CHECKING:
    from .problem import Messages, Problem

_U = 2.0**-53
_OTHER, _SAME, _BELOW, _FROM = range(4)
_KEPT = (np.not_equal, np.equal, np.less, np.greater_equal)
# Numbers that numpy handles at a time: small enough for the caches, large enough to hide the cost of a call.
_CHUNK = 1 << 17
# Numbers of all messages of the boxes in hand, which bounds the memory.
_HELD = 1 << 22
# A box with more labels is not enumerated: its tables of losses would not fit the caches.
MAX_ENUMERATED = 1024
# Labels that a row of the enumeration may open, as a power of two; above it a tampered certificate would only waste time.
MAX_EFFORT = 26
# Passes on a box: a byte holds them.
MAX_PASSES = 255
# Losses of an enumeration are counted in units of what closes the box: coarse where whole numbers leave much room.
_COARSE, _FINE = 22, 52


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

    def __len__(self) -> int:
        return len(self.parent)

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        known = _evaluated.get(self)
        if known is not None and known[0] is problem:
            same = known[1] is labels if known[1] is None or labels is None else np.array_equal(known[1], labels)
            if same:
                return known[2]
        return self.assess(problem, labels, np.inf)

    def assess(self, problem: Problem, labels: np.ndarray | None, seconds: float) -> Evaluation:
        """`evaluate` within some seconds: boxes that there is no time for count as open."""
        found = self._judge(problem, labels, False, time.perf_counter() + seconds)
        _evaluated[self] = problem, None if labels is None else labels.copy(), found
        return found

    def verify(self, *args: Any, **claims: Any) -> Verification:
        _evaluated.pop(self, None)  # a check computes everything anew
        return super().verify(*args, **claims)

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        """The same with integers instead of rounding; the gap, or without a labelling the bound, is rounded up once, at the end."""
        bound, gap, _ = self._judge(problem, labels, exact=True)
        if labels is None or not np.isfinite(gap):
            return bound, gap
        return exact_score(problem, labels) + Fraction(gap), Fraction(gap)

    def _judge(self, problem: Problem, labels: np.ndarray | None, exact: bool, deadline: float = np.inf) -> Evaluation:
        children = self._children(problem)
        known = labels if labels is not None and np.isfinite(problem.score(labels)) else None
        room = -np.inf if known is None else max(target_gap(problem, known), self.level if self.level < np.inf else 0.0)
        number = (_Integers if exact else _Floats)(problem, known)
        replay = _Replay(self, problem, children, number, room)
        replay.deadline = deadline
        above = replay.run()
        if known is not None:
            gap = max(0.0, above)
            return Evaluation(raised_score(problem, known, gap), gap)
        return Evaluation(above, np.nan if labels is None else np.inf)

    def _children(self, problem: Problem) -> list[list[int]]:
        """Children of each box, once all numbers are known to be in range."""
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
        edge, clique = problem.zero_messages()
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


def _within(numbers: np.ndarray, low: int, high: int) -> bool:
    return bool(((numbers >= low) & (numbers < high)).all())


def target_gap(problem: Problem, labels: np.ndarray) -> float:
    """Gap that is as good as none: what counts as optimal, or just below the step of whole numbers."""
    return max(tolerance(problem, labels), problem.step * (1 - 1e-6))


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
        self.consistency, self.tighten = _Consistency(problem), _Passes(problem)
        self.most = max(1, _HELD // max(1, self.terms * problem.n_labels))
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
            edge, clique = self.tree.unpack(self.problem, number)
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
        return joined, *both, _Terms.join(found, order)

    def enumerable(self, domain: np.ndarray) -> bool:
        """Whether a box is small enough, and an enumeration can close anything."""
        n_edges, k = self.problem.n_edges, self.problem.n_labels
        some = n_edges > 0 and (self.room > -np.inf or bool(self.consistency.hard.any()))
        return some and n_edges * k * k <= _HELD and domain.sum() <= MAX_ENUMERATED

    def note(self, excess: np.ndarray) -> None:
        """Remember the largest excess that something was closed with."""
        if excess.size:
            self.closed = max(self.closed, excess.max())

    def split(self, boxes: np.ndarray, domain: np.ndarray, messages: np.ndarray, terms: _Terms | None) -> list[_Waiting]:
        waiting = []
        for j, i in enumerate(boxes.tolist()):
            assert terms is not None
            children, own = self.children[i], domain[..., j]
            if children and self.tree.covers(children, own[self.tree.node[children[0]]]):
                with np.errstate(over="ignore"):
                    inherited = _finite(messages[..., j].astype(np.float32))
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


def _finite(array: np.ndarray) -> np.ndarray:
    """Messages may be any numbers, but numbers."""
    return array if np.isfinite(array).all() else np.where(np.isfinite(array), array, 0).astype(array.dtype)


class _Consistency:
    """Arc consistency of many boxes at once."""

    def __init__(self, problem: Problem):
        allowed = ~np.isneginf(problem.tables)
        self.hard = ~np.logical_and.reduce(allowed, axis=(1, 2))[problem.edge_table]
        self.steps: list[tuple[np.ndarray, np.ndarray]] = []
        edges = np.flatnonzero(self.hard)
        u, v = problem.graph.edges[edges].T
        target = []
        for t in np.unique(problem.edge_table[edges]):
            mine = problem.edge_table[edges] == t
            pairs = allowed[t].astype(np.float32)
            self.steps += [(v[mine], pairs), (u[mine], np.ascontiguousarray(pairs.T))]
            target += [u[mine], v[mine]]
        into = np.concatenate(target) if target else np.zeros(0, dtype=int)
        self.order = np.argsort(into, kind="stable")
        self.nodes, self.starts = np.unique(into[self.order], return_index=True)

    def __call__(self, domain: np.ndarray) -> np.ndarray:
        if not self.steps:
            return domain
        domain = domain.copy()
        active = np.arange(domain.shape[2])
        while len(active):
            now = domain[..., active]
            weight = now.astype(np.float32)
            supported = np.concatenate([pairs @ weight[source] > 0 for source, pairs in self.steps])[self.order]
            now[self.nodes] &= np.logical_and.reduceat(supported, self.starts, axis=0)
            changed = (now != domain[..., active]).any(axis=(0, 1)) & now.any(axis=1).all(axis=0)
            domain[..., active] = now
            active = active[changed]
        return domain


class _Step(NamedTuple):
    """Nodes of a pass that do not depend on each other: messages at them, sorted by node, where each node's begin, the messages
    that go on to later nodes, the place of their node in ``nodes``, and the share of each node.
    """

    nodes: np.ndarray
    mine: np.ndarray
    starts: np.ndarray
    later: np.ndarray
    owner: np.ndarray
    share: np.ndarray


class _Passes:
    """TRW-S passes on many boxes at once. What comes out may be wrong in any way without harm, so whole-number problems, which
    leave much room, are passed over in single precision.
    """

    def __init__(self, problem: Problem):
        self.problem, self.n_edges = problem, problem.n_edges
        self.dtype = np.float32 if problem.step else np.float64
        edges = problem.graph.edges
        self.ends, self.other = np.concatenate([edges[:, 0], edges[:, 1]]), np.concatenate([edges[:, 1], edges[:, 0]])
        self.back = np.concatenate([np.arange(self.n_edges) + self.n_edges, np.arange(self.n_edges)])
        self.unary = problem.unary - _finite(row_max(problem.unary))[:, None]
        self.steps: tuple[list[_Step], list[_Step]] | None = None
        self.kinds: np.ndarray | None = None

    def __call__(self, domain: np.ndarray, messages: np.ndarray, passes: np.ndarray) -> np.ndarray:
        """New messages (terms, K, b) of boxes with falling numbers of passes; those of labels outside their box are 0."""
        if self.steps is None:
            self.steps = self.schedule(False), self.schedule(True)
        with np.errstate(invalid="ignore", over="ignore"):
            unary = np.where(domain, self.unary[:, :, None], -np.inf).astype(self.dtype)
            new = messages.astype(self.dtype)
            for iteration in range(int(passes.max())):
                b = int((passes > iteration).sum())
                for step in self.steps[iteration % 2]:
                    self.do(step, new[..., :b], unary[..., :b], domain[..., :b])
            return np.where(domain[self.ends] & np.isfinite(new), new, 0).astype(float)

    def schedule(self, forward: bool) -> list[_Step]:
        """Nodes in the order of a pass, those together whose earlier neighbours are all done."""
        n, sign = self.problem.n_nodes, 1 if forward else -1
        order = np.argsort(self.ends, kind="stable")
        ptr = np.searchsorted(self.ends[order], np.arange(n + 1))
        level = np.zeros(n, dtype=int)
        for v in range(n)[::sign]:
            near = self.other[order[ptr[v] : ptr[v + 1]]]
            level[v] = 1 + level[near[sign * near < sign * v]].max(initial=-1)
        steps = []
        for nodes in np.split(np.argsort(level, kind="stable"), np.cumsum(np.bincount(level))[:-1]) if n else []:
            goes_on = [sign * self.other[order[ptr[v] : ptr[v + 1]]] > sign * v for v in nodes]
            chosen = [i for i, later in enumerate(goes_on) if later.any()]
            if not chosen:
                continue
            mine = [order[ptr[nodes[i]] : ptr[nodes[i] + 1]] for i in chosen]
            later = [part[goes_on[i]] for i, part in zip(chosen, mine, strict=True)]
            n_mine, n_later = np.array([len(part) for part in mine]), np.array([len(part) for part in later])
            share = 1.0 / np.maximum(n_later, n_mine - n_later)
            starts, owner = np.cumsum(n_mine) - n_mine, np.repeat(np.arange(len(chosen)), n_later)
            steps.append(
                _Step(nodes[chosen], np.concatenate(mine), starts, np.concatenate(later), owner, share.astype(self.dtype))
            )
        return steps

    def tables(self, some: np.ndarray) -> np.ndarray:
        """Tables (n, K, K) of some messages, their own end first."""
        problem = self.problem
        if self.kinds is None and 2 * self.n_edges * problem.n_labels**2 <= _HELD:
            self.kinds = self._tables(np.arange(2 * self.n_edges))
        return self._tables(some) if self.kinds is None else self.kinds[some]

    def _tables(self, some: np.ndarray) -> np.ndarray:
        edge = some % self.n_edges
        table = self.problem.tables[self.problem.edge_table[edge]] * self.problem.edge_weight[edge, None, None]
        turned = (some >= self.n_edges)[:, None, None]
        return np.where(turned, table.transpose(0, 2, 1), table).astype(self.dtype)

    def do(self, step: _Step, messages: np.ndarray, unary: np.ndarray, domain: np.ndarray) -> None:
        theta = unary[step.nodes] - np.add.reduceat(messages[step.mine], step.starts, axis=0)
        theta *= step.share[:, None, None]
        size = max(1, _CHUNK // (messages.shape[1] * messages[0].size))
        for begin in range(0, len(step.later), size):
            some = step.later[begin : begin + size]
            own = messages[some] + theta[step.owner[begin : begin + size]]
            messages[some] = own
            out = _plus_max(own, self.tables(some))
            out[~domain[self.other[some]]] = -np.inf
            back = out.max(axis=1, keepdims=True) - out
            back[np.isinf(out)] = 0
            messages[self.back[some]] = back


def _plus_max(own: np.ndarray, table: np.ndarray) -> np.ndarray:
    """``out[m, l, b] = max over k of own[m, k, b] + table[m, k, l]``; the inner loop is over the longer of boxes and labels."""
    if own.shape[2] >= table.shape[2]:
        best: np.ndarray = (own[:, :, None] + table[..., None]).max(axis=1)
        return best
    turned = np.ascontiguousarray(own.transpose(0, 2, 1))
    return np.ascontiguousarray((turned[..., None] + table[:, None]).max(axis=2).transpose(0, 2, 1))


# ---- numbers -----------------------------------------------------------------------------------------------------------


class _Terms(NamedTuple):
    """Evaluation of some boxes. ``above`` is how far a box may lie above the labelling, ``by_label`` those of its labellings
    that have label ``k`` at ``v``; ``empty`` boxes hold no labelling. ``node`` and ``edge`` are the maxima that ``above`` is
    made of, ``value`` the node values that the maxima are taken over.
    """

    above: np.ndarray  # (b,)
    by_label: np.ndarray  # (N, K, b)
    empty: np.ndarray  # (b,)
    node: np.ndarray  # (N, b)
    edge: np.ndarray  # (E, b)
    value: np.ndarray  # (N, K, b)

    def pick(self, which: Any) -> _Terms:
        return _Terms(*(part[..., which] for part in self))

    @staticmethod
    def join(some: list[_Terms], order: np.ndarray) -> _Terms:
        return _Terms(*(np.concatenate(field, axis=-1) for field in zip(*some, strict=True))).pick(order)


class _Floats:
    """Evaluation in double precision, with what rounding could hide added to every maximum and taken from every value of the
    labelling. The errors are those of the numbers that matter: a huge term that is not a maximum costs nothing.
    """

    nothing = -np.inf
    low = -np.inf

    def __init__(self, problem: Problem, labels: np.ndarray | None):
        self.problem, self.labels = problem, labels
        self.n_edges, self.ends = problem.n_edges, _ends(problem)
        top = row_max(np.where(own_labels(problem), problem.unary, -np.inf))
        self.centre = np.where(np.isneginf(top), 0.0, top)
        self.unary = np.where(own_labels(problem), problem.unary - self.centre[:, None], -np.inf)
        self.size = np.where(np.isneginf(self.unary), 0.0, np.abs(self.unary))
        self.degree = np.bincount(self.ends, minlength=problem.n_nodes)
        self.gather = _Gather(self.ends, problem.n_nodes)
        self.table_centre = table_centres(problem)
        self.cached: np.ndarray | None = None

    def room(self, room: float) -> float:
        return room

    def tables(self, part: slice) -> np.ndarray:
        """Centred tables of some edges, rounded up: the difference, the product and a sum each add half a unit."""
        if self.cached is None and self.n_edges * self.problem.n_labels**2 <= _HELD:
            self.cached = self._tables(slice(0, self.n_edges))
        return self._tables(part) if self.cached is None else self.cached[part]

    def _tables(self, part: slice) -> np.ndarray:
        problem = self.problem
        table = problem.tables[problem.edge_table[part]] - self.table_centre[part, None, None]
        table = table * problem.edge_weight[part, None, None]
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(table), table + 6 * _U * np.abs(table), -np.inf)

    def messages(self, messages: np.ndarray) -> np.ndarray:
        return messages + 8 * _U * np.abs(messages)

    def terms(self, domain: np.ndarray, messages: np.ndarray) -> _Terms:
        with np.errstate(invalid="ignore", over="ignore"):
            sizes = self.size[:, :, None] + self.gather(np.abs(messages))
            error = ((self.degree + 4) * _U)[:, None, None] * sizes
            plain = self.unary[:, :, None] - self.gather(messages)
            value = np.where(domain, plain + error, -np.inf)
            node = value.max(axis=1, initial=-np.inf)
            edge = _edge_tops(self, domain, self.messages(messages))
            edge = _raised(edge)
            clique, clique_own = self.cliques(domain, messages)
            empty = np.isneginf(node).any(axis=0) | np.isneginf(edge).any(axis=0)
            parts = [node, edge, clique]
            if self.labels is not None:
                y, n = self.labels, np.arange(len(self.labels))
                parts[0] = node - (plain - error)[n, y]
                parts[1] = edge - self.edge_values(messages)
                parts[2] = clique - clique_own
            every = np.concatenate(parts)
            above = every.sum(axis=0) + (len(every) + 4) * _U * np.abs(every).sum(axis=0)
            above = np.where(np.isnan(above), np.inf, above)
            by_label = above - (node[:, None] - value)
            by_label = by_label + 4 * _U * (np.abs(by_label) + np.abs(above))
            by_label = np.where(np.isnan(by_label), np.inf, by_label)
        return _Terms(above, by_label, empty, node, edge, value)

    def edge_values(self, messages: np.ndarray) -> np.ndarray:
        """Lower bounds (E, b) of the reparametrised edge scores at the labelling."""
        problem, y, e = self.problem, self.labels, np.arange(self.n_edges)
        assert y is not None
        u, v = y[problem.graph.edges[:, 0]], y[problem.graph.edges[:, 1]]
        table = (problem.tables[problem.edge_table, u, v] - self.table_centre) * problem.edge_weight
        first, second = messages[e, u], messages[self.n_edges + e, v]
        total = table[:, None] + first + second
        error = 6 * np.abs(table)[:, None] + 8 * np.abs(first) + 8 * np.abs(second) + 4 * np.abs(total)
        lower: np.ndarray = total - _U * error
        return lower

    def cliques(self, domain: np.ndarray, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds of the maxima of the cliques, and lower bounds of their values at the labelling, (C, b)."""
        cliques, b = self.problem.cliques, domain.shape[2]
        if not len(cliques):
            return np.zeros((0, b)), np.zeros((0, b))
        mine = messages[2 * self.n_edges :]
        error = _clique_error(cliques, mine)
        top = _clique_tops(cliques, np.where(domain[cliques.nodes], mine, -np.inf), cliques.weights)
        if self.labels is None:
            return top + error, np.zeros_like(top)
        own = np.add.reduceat(mine[np.arange(len(mine)), self.labels[cliques.nodes]], cliques.ptr[:-1], axis=0)
        return top + error, own + cliques.values(self.labels)[:, None] - error

    def bound(self, above: float) -> float:
        if self.labels is not None or not np.isfinite(above):
            return above
        parts = (np.array([above, self.problem.offset]), self.centre, edge_centres(self.problem))
        total = sum(part.sum(dtype=np.longdouble) for part in parts)
        sizes = sum(np.abs(part).sum(dtype=np.longdouble) for part in parts)
        return float(np.nextafter(float(total + 4 * _U * sizes), np.inf))

    def enumerate(self, domain: np.ndarray, messages: np.ndarray, terms: _Terms, room: float, limit: int) -> float:
        above = float(terms.above[0])
        if not np.isfinite(above):
            return above
        up = self.messages(messages)
        value, top = terms.value[..., 0], terms.node[:, 0]
        wanted = above - room
        bits = _bits(self.problem, wanted, room)
        unit = wanted / 2.0**bits if room > -np.inf else 1.0

        def units(loss: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                counted = np.floor(loss * (1 - 16 * _U) / unit) if room > -np.inf else np.isposinf(loss).astype(float)
            most = 2.0**bits + 1 if room > -np.inf else 1.0
            return np.where(loss > 0, np.minimum(counted, most), 0.0).astype(np.int64)

        score = (up[: self.n_edges, :, None] + self.tables(slice(0, self.n_edges))) + up[self.n_edges :, None]
        edge = units(terms.edge[:, :1, None] - _raised(score))
        node = units(top[:, None] - np.where(domain, value, -np.inf))
        needed = (1 << bits) + 1 if room > -np.inf else 1
        least = _enumerate(self.problem, domain, node, edge, needed, limit)
        if room == -np.inf:
            return -np.inf if least >= 1 else above
        return float(np.nextafter(above - least * unit + 4 * _U * abs(above), np.inf))


def _raised(total: np.ndarray) -> np.ndarray:
    """Upper bounds of sums, the last rounding included; ``-inf`` stays."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(total), total, total + 4 * _U * np.abs(total))


def _ends(problem: Problem) -> np.ndarray:
    """Node of each message: first ends of the edges, second ends, members of cliques."""
    return np.concatenate([problem.graph.edges[:, 0], problem.graph.edges[:, 1], problem.cliques.nodes])


class _Gather:
    """Sum of the messages at each node."""

    def __init__(self, ends: np.ndarray, n_nodes: int):
        self.order = np.argsort(ends, kind="stable")
        self.nodes, self.starts = np.unique(ends[self.order], return_index=True)
        self.n_nodes = n_nodes

    def __call__(self, messages: np.ndarray) -> np.ndarray:
        total = np.zeros((self.n_nodes, *messages.shape[1:]), dtype=messages.dtype)
        if len(self.nodes):
            total[self.nodes] = np.add.reduceat(messages[self.order], self.starts, axis=0)
        return total


def _edge_tops(number: Any, domain: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """Maximum (E, b) of each reparametrised table inside each box."""
    edges, n_edges, k, n_boxes = number.problem.graph.edges, number.n_edges, domain.shape[1], domain.shape[2]
    top = np.empty((n_edges, n_boxes), dtype=messages.dtype)
    n_at_once = max(1, _CHUNK // max(1, k * k * n_boxes))
    for at in range(0, n_edges, n_at_once):
        part, back = slice(at, at + n_at_once), slice(n_edges + at, n_edges + min(at + n_at_once, n_edges))
        u, v = edges[part].T
        first = np.where(domain[u], messages[at : min(at + n_at_once, n_edges)], number.low)
        second = np.where(domain[v], messages[back], number.low)
        best = (first[:, :, None] + number.tables(slice(at, min(at + n_at_once, n_edges)))[..., None]).max(axis=1)
        top[part] = (best + second).max(axis=1)
    return top


def _clique_tops(cliques: Any, psi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Maximum of each clique: the larger of the best without the reward, and the best with it."""
    apart = np.add.reduceat(psi.max(axis=1), cliques.ptr[:-1], axis=0)
    together = (weights[:, :, None] + np.add.reduceat(psi, cliques.ptr[:-1], axis=0)).max(axis=1)
    return np.maximum(apart, together)


def _clique_error(cliques: Any, messages: np.ndarray) -> np.ndarray:
    sizes = (
        np.add.reduceat(np.abs(messages).max(axis=1), cliques.ptr[:-1], axis=0) + np.abs(cliques.weights).max(axis=1)[:, None]
    )
    error: np.ndarray = ((np.diff(cliques.ptr) + 4) * _U)[:, None] * sizes
    return error


# ---- exact numbers -------------------------------------------------------------------------------------------------------


def common_exponent(arrays: list[np.ndarray]) -> int:
    """Largest ``e`` (at most 0) for which every finite number is a whole multiple of ``2**e``."""
    least = 0
    for array in arrays:
        values = np.asarray(array, dtype=float)
        values = values[np.isfinite(values) & (values != 0)]
        if values.size:
            mantissa, exponent = np.frexp(values)
            whole = np.abs(mantissa * 2.0**53).astype(np.int64)
            zeros = np.frexp((whole & -whole).astype(float))[1] - 1
            least = min(least, int((exponent - 53 + zeros).min()))
    return least


def to_integers(array: np.ndarray, exponent: int) -> np.ndarray:
    """Python integers ``array * 2**-exponent``, rounded down; -inf gives None."""
    mantissa, power = np.frexp(np.where(np.isfinite(array), array, 0.0))
    whole = (mantissa * 2.0**53).astype(np.int64).ravel().tolist()
    shift = (power.astype(np.int64) - 53 - exponent).ravel().tolist()
    finite = np.isfinite(array).ravel().tolist()
    out = np.empty(len(whole), dtype=object)
    out[:] = [(m << s if s >= 0 else m >> -s) if ok else None for m, s, ok in zip(whole, shift, finite, strict=True)]
    return out.reshape(np.shape(array))


class _Integers:
    """Evaluation with integers, in units of a power of two of which every score is a multiple: nothing is rounded.

    They are machine integers where all sums fit, Python's otherwise. Messages, which may be any numbers, are rounded to the unit.
    """

    nothing = -np.inf

    def __init__(self, problem: Problem, labels: np.ndarray | None):
        self.problem, self.labels, self.n_edges, self.ends = problem, labels, problem.n_edges, _ends(problem)
        self.gather = _Gather(self.ends, problem.n_nodes)
        table_exponent, weight_exponent = common_exponent([problem.tables]), common_exponent([problem.edge_weight])
        cliques = problem.cliques
        own = own_labels(problem)
        exponent = min(table_exponent + weight_exponent, common_exponent([problem.unary[own], cliques.weights]))
        largest = max((_largest(a) for a in (problem.unary[own], cliques.weights)), default=0.0)
        largest = max(largest, _largest(problem.tables) * _largest(problem.edge_weight), 2.0**-900)
        degree = int(np.bincount(self.ends, minlength=1).max(initial=0))
        spare = 57 - (problem.n_nodes + self.n_edges + len(cliques) + degree).bit_length()
        # messages get the digits that the scores leave, and may be larger than those
        self.exponent = min(exponent, math.frexp(largest)[1] - spare + _MESSAGE_ROOM)
        self.most = 1 << spare
        fits = math.frexp(largest)[1] - self.exponent < spare and not len(cliques)
        self.dtype: Any = np.int64 if fits else object
        self.low = -(1 << 60) if fits else -(1 << (abs(self.exponent) + max(0, math.frexp(largest)[1]) + 4096))
        self.unary = self._array(np.where(own, problem.unary, -np.inf), self.exponent)
        # weight * table, exactly
        kinds = [to_integers(part, e) for part, e in ((problem.tables, table_exponent), (problem.edge_weight, weight_exponent))]
        shift = table_exponent + weight_exponent - self.exponent
        self.kinds, self.weights, self.shift = kinds[0], kinds[1], shift
        self.clique_weights = self._array(cliques.weights, self.exponent)
        self.cached: dict[int, np.ndarray] = {}
        self.all_tables: np.ndarray | None = None

    def _array(self, array: np.ndarray, exponent: int) -> np.ndarray:
        return self._sealed(to_integers(array, exponent))

    def _sealed(self, whole: np.ndarray) -> np.ndarray:
        out = np.empty(whole.shape, dtype=self.dtype)
        flat = [self.low if x is None else x for x in whole.ravel().tolist()]
        out.ravel()[:] = flat if self.dtype is object else np.array(flat, dtype=np.int64)
        return out

    def room(self, room: float) -> Any:
        return room if np.isinf(room) else math.floor(Fraction(room) / Fraction(2) ** self.exponent)

    def _table(self, e: int) -> np.ndarray:
        if e not in self.cached:
            weight, kind = self.weights[e], self.kinds[self.problem.edge_table[e]]
            flat = [None if x is None else (x * weight) << self.shift for x in kind.ravel().tolist()]
            whole = np.empty(len(flat), dtype=object)
            whole[:] = flat
            self.cached[e] = self._sealed(whole.reshape(kind.shape))
        return self.cached[e]

    def tables(self, part: slice) -> np.ndarray:
        if part.stop - part.start == self.n_edges:
            if self.all_tables is None:
                self.all_tables = np.stack([self._table(e) for e in range(self.n_edges)])
            return self.all_tables
        return np.stack([self._table(e) for e in range(part.start, part.stop)])

    def messages(self, messages: np.ndarray) -> np.ndarray:
        if self.dtype is object:
            return self._sealed(to_integers(messages, self.exponent))
        with np.errstate(over="ignore"):
            scaled = np.rint(np.ldexp(messages, -self.exponent))
        return np.clip(scaled, -float(self.most), float(self.most)).astype(np.int64)

    def terms(self, domain: np.ndarray, messages: np.ndarray) -> _Terms:
        whole = self.messages(messages)
        plain = self.unary[:, :, None] - self.gather(whole)
        value = np.where(domain, plain, self.low)
        node, nothing = value.max(axis=1), np.zeros((0, domain.shape[2]), dtype=self.dtype)
        edge = _edge_tops(self, domain, whole) if self.n_edges else nothing
        clique = nothing
        mine, cliques = whole[2 * self.n_edges :], self.problem.cliques
        if len(cliques):
            clique = _clique_tops(cliques, np.where(domain[cliques.nodes], mine, self.low), self.clique_weights)
        empty = ((node <= self.low // 2).any(axis=0) | (edge <= self.low // 2).any(axis=0)).astype(bool)
        above = node.sum(axis=0) + edge.sum(axis=0) + clique.sum(axis=0)
        if self.labels is not None:
            y, e = self.labels, np.arange(self.n_edges)
            above = above - plain[np.arange(len(y)), y].sum(axis=0)
            if self.n_edges:
                u, v = y[self.problem.graph.edges[:, 0]], y[self.problem.graph.edges[:, 1]]
                table = np.array([self._table(i)[u[i], v[i]] for i in range(self.n_edges)], dtype=self.dtype)
                above = above - (table[:, None] + whole[e, u] + whole[self.n_edges + e, v]).sum(axis=0)
            if len(cliques):
                own = mine[np.arange(len(mine)), y[cliques.nodes]].sum(axis=0)
                above = above - own - self._array(cliques.values(y), self.exponent).sum()
        by_label = above - (node[:, None] - value)
        return _Terms(above, by_label, empty, node, edge, value)

    def bound(self, above: Any) -> float:
        if above == -np.inf:
            return -np.inf
        exact = Fraction(int(above)) * Fraction(2) ** self.exponent
        if self.labels is None:
            exact += Fraction(self.problem.offset)
        nearest = float(exact)
        return nearest if Fraction(nearest) >= exact else float(np.nextafter(nearest, np.inf))

    def enumerate(self, domain: np.ndarray, messages: np.ndarray, terms: _Terms, room: float, limit: int) -> Any:
        above, whole = int(terms.above[0]), self.messages(messages)
        wanted = above - self.room(room) if room > -np.inf else 1
        scale = 2.0**-self.exponent if self.exponent > -1000 else np.inf
        bits = _bits(self.problem, float(min(wanted, 1 << 900)), min(room * scale, 2.0**900) if room > -np.inf else room)
        unit = max(1, wanted >> bits) if room > -np.inf else -self.low // 4
        needed = -(-wanted // unit)

        def units(loss: np.ndarray) -> np.ndarray:
            return np.clip(loss // unit, 0, needed).astype(np.int64)

        score = (whole[: self.n_edges, :, None] + self.tables(slice(0, self.n_edges))) + whole[self.n_edges :, None]
        edge = units(terms.edge[:, :1, None] - score)
        node = units(terms.node - np.where(domain, terms.value[..., 0], self.low))
        least = _enumerate(self.problem, domain, node, edge, needed, limit)
        if room == -np.inf:
            return -np.inf if least >= 1 else above
        return above - least * unit


# Binary digits by which messages may exceed the largest score before they are cut off.
_MESSAGE_ROOM = 6


def _largest(array: np.ndarray) -> float:
    return float(np.abs(np.where(np.isfinite(array), array, 0.0)).max(initial=0.0))


# ---- enumeration -----------------------------------------------------------------------------------------------------------


def _bits(problem: Problem, wanted: float, room: float) -> int:
    """Binary digits of the units that losses are counted in. Every term loses up to a unit, which must not fill the room."""
    degree = int(problem.graph.degrees.max(initial=0))
    if (problem.n_nodes + problem.n_edges) * wanted <= 0.05 * room * 2.0**_COARSE and degree < 256:
        return _COARSE
    return min(_FINE, 61 - ((problem.n_nodes + 1) * (degree + 2)).bit_length())


def _enumerate(problem: Problem, domain: np.ndarray, node: np.ndarray, edge: np.ndarray, needed: int, limit: int) -> int:
    """Least loss of a labelling of the box, or of what was closed with at least the loss ``needed``.

    ``node`` (N, K) and ``edge`` (E, K, K) are losses in units. Nodes get their labels one after another, many partial
    labellings at a time; one is closed when its loss and, for each open node, the least loss of a label there reach ``needed``.
    At most ``limit`` partial labellings are opened.
    """
    order, pairs = _losses(problem, domain, node, edge, needed)
    sizes = domain[order].sum(axis=1).tolist()
    dtype = np.int32 if needed <= (1 << _COARSE) + 1 and problem.graph.degrees.max(initial=0) < 256 else np.int64
    pairs, ends = pairs.astype(dtype), np.cumsum(sizes).tolist()
    first = node[order][domain[order]].astype(dtype)
    stack = [(0, np.zeros(1, dtype=np.int64), first[None])]
    least, opened = 1 << 62, 0
    while stack:
        depth, spent, loss = stack.pop()
        starts = np.concatenate([[0], np.cumsum(sizes[depth:-1])]).astype(int)
        smallest = np.minimum.reduceat(loss, starts, axis=1)
        total = spent + smallest.sum(axis=1, dtype=np.int64)
        here = (total - smallest[:, 0])[:, None] + loss[:, : sizes[depth]]
        keep = here < needed
        if opened > limit or depth == len(sizes) - 1:
            least = min(least, int(here.min()))
            continue
        if not keep.all():
            least = min(least, int(here[~keep].min()))
        row, label = np.nonzero(keep)
        opened += len(row)
        rest = loss.shape[1] - sizes[depth]
        for begin in range(0, len(row), max(1, 4 * _CHUNK // rest)):
            part = slice(begin, begin + max(1, 4 * _CHUNK // rest))
            r, a = row[part], label[part]
            at = ends[depth] - sizes[depth] + a
            stack.append((depth + 1, spent[r] + loss[r, a], loss[r, sizes[depth] :] + pairs[at, ends[depth] :]))
    return least


def _losses(
    problem: Problem, domain: np.ndarray, node: np.ndarray, edge: np.ndarray, needed: int
) -> tuple[list[int], np.ndarray]:
    """Order of the nodes, and the losses of all pairs of labels of the box, in that order, of which the second is the later.

    First come nodes with few labels that lose much; what they lose to nodes that are still open counts less.
    """
    n, ends = domain.shape[0], problem.graph.edges
    size = domain.sum(axis=1)
    edge = np.where(domain[ends[:, 0]][:, :, None] & domain[ends[:, 1]][:, None], edge, 0)
    mean = np.zeros((n, n))
    each = edge.sum(axis=(1, 2)) / (size[ends[:, 0]] * size[ends[:, 1]])
    np.add.at(mean, (ends[:, 0], ends[:, 1]), each)
    mean += mean.T
    inside = np.where(domain, node, 0).sum(axis=1) / size + 1e-9 * needed
    outside = mean.sum(axis=1)
    order: list[int] = []
    value = np.empty(n)
    for _ in range(n):
        np.divide(size, inside + _OPEN_SHARE * outside, out=value)
        value[order] = np.inf
        v = int(value.argmin())
        order.append(v)
        inside += mean[v]
        outside -= mean[v]
    place = np.full(domain.shape, -1)
    place[order] = np.where(domain[order], np.cumsum(domain[order].ravel()).reshape(domain.shape) - 1, -1)
    e, k, m = np.nonzero(edge)
    first, second = place[ends[e, 0], k], place[ends[e, 1], m]
    pairs = np.zeros((int(size.sum()),) * 2, dtype=np.int64)
    np.add.at(pairs, (np.minimum(first, second), np.maximum(first, second)), edge[e, k, m])
    return order, pairs


# Share that losses to nodes still open have in the choice of the next node (measured on radio link problems).
_OPEN_SHARE = 0.3
