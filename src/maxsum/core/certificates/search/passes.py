"""What the check of a search does to many boxes at once: arc consistency, and passes that make messages. Plain numpy.

Arrays of boxes have the boxes last, (..., K, b): numpy is fast where they lie together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...rows import row_max

if TYPE_CHECKING:
    from ...problem import Problem

# Numbers that numpy handles at a time: small enough for the caches, large enough to hide the cost of a call.
CHUNK = 1 << 17
# Numbers that are held for the boxes in hand, which bounds the memory.
HELD = 1 << 22


def finite(array: np.ndarray) -> np.ndarray:
    """Messages may be any numbers, but numbers."""
    return array if np.isfinite(array).all() else np.where(np.isfinite(array), array, 0).astype(array.dtype)


def single(array: np.ndarray) -> np.ndarray:
    """Messages in single precision; those that are too large for it become 0."""
    with np.errstate(over="ignore"):
        return finite(array.astype(np.float32))


class Consistency:
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


class Passes:
    """TRW-S passes on many boxes at once. What comes out may be wrong in any way without harm, so whole-number problems, which
    leave much room, are passed over in single precision.
    """

    def __init__(self, problem: Problem):
        self.problem, self.n_edges = problem, problem.n_edges
        self.dtype = np.float32 if problem.step else np.float64
        edges = problem.graph.edges
        self.ends, self.other = np.concatenate([edges[:, 0], edges[:, 1]]), np.concatenate([edges[:, 1], edges[:, 0]])
        self.back = np.concatenate([np.arange(self.n_edges) + self.n_edges, np.arange(self.n_edges)])
        self.unary = problem.unary - finite(row_max(problem.unary))[:, None]
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
        if self.kinds is None and 2 * self.n_edges * problem.n_labels**2 <= HELD:
            self.kinds = self._tables(np.arange(2 * self.n_edges))
        return self._tables(some) if self.kinds is None else self.kinds[some]

    def _tables(self, some: np.ndarray) -> np.ndarray:
        edge = some % self.n_edges
        table = self.problem.tables[self.problem.edge_table[edge]] * self.problem.edge_weight[edge, None, None]
        turned = (some >= self.n_edges)[:, None, None]
        return np.where(turned, table.transpose(0, 2, 1), table).astype(self.dtype)

    def do(self, step: _Step, messages: np.ndarray, unary: np.ndarray, domain: np.ndarray) -> None:
        """One step of a pass: new messages of the step's nodes to their later neighbours, in many boxes at a time."""
        theta = unary[step.nodes] - np.add.reduceat(messages[step.mine], step.starts, axis=0)
        theta *= step.share[:, None, None]
        size = max(1, CHUNK // (messages.shape[1] * messages[0].size))
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
