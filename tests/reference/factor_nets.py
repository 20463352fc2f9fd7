"""Small problems with factors of every kind, and what they are worth by enumeration in plain Python."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from maxsum.kernels.records import FactorNet

TABLE, AGREEMENT, CARDINALITY, AUTOMATON, ALL_DIFFERENT = range(5)
INF = np.inf


class Builder:
    """Factors are added one by one; `net` puts them into arrays."""

    def __init__(self, n_states: Sequence[int], unary: np.ndarray) -> None:
        self.n_states = np.array(n_states, dtype=np.int32)
        self.unary = np.array(unary, dtype=float)
        self.n_labels = self.unary.shape[1]
        for v, states in enumerate(self.n_states):
            self.unary[v, states:] = -INF
        self.members: list[list[int]] = []
        self.kind: list[int] = []
        self.start: list[int] = []
        self.scores: list[float] = []
        self.counted: list[np.ndarray] = []
        self.level: list[int] = []
        self.width: list[int] = []
        self.final_width: list[int] = []
        self.step: list[int] = []

    def add(self, kind: int, members: Sequence[int], scores: Iterable[float] = ()) -> None:
        self.kind.append(kind)
        self.members.append(list(members))
        self.start.append(len(self.scores))
        self.scores.extend(np.ravel(np.array(list(scores), dtype=float)))
        n = len(members)
        self.counted.append(np.zeros((n, self.n_labels), dtype=np.uint8))
        self.level.extend([0] * n)
        self.width.extend([1] * n)
        self.final_width.append(1)

    def cardinality(self, members: Sequence[int], counted: np.ndarray, scores: Iterable[float]) -> None:
        self.add(CARDINALITY, members, scores)
        self.counted[-1] = np.array(counted, dtype=np.uint8)

    def automaton(self, members: Sequence[int], layers: Sequence[np.ndarray], scores: Sequence[float]) -> None:
        """``layers[i]`` has a row of targets for each state before member i."""
        self.add(AUTOMATON, members, scores)
        first = len(self.level) - len(members)
        for i, layer in enumerate(layers):
            self.level[first + i] = len(self.step)
            self.width[first + i] = len(layer)
            self.step.extend(np.ravel(layer))
        self.final_width[-1] = len(scores)

    def net(self) -> FactorNet:
        nodes = np.array([v for own in self.members for v in own], dtype=np.int32)
        order = np.argsort(nodes, kind="stable").astype(np.int32)
        return FactorNet(
            n_states=self.n_states,
            unary=self.unary,
            ptr=np.cumsum([0, *map(len, self.members)], dtype=np.int64),
            nodes=nodes,
            kind=np.array(self.kind, dtype=np.int32),
            start=np.array(self.start, dtype=np.int64),
            scores=np.array(self.scores, dtype=float),
            counted=np.concatenate([np.zeros((0, self.n_labels), dtype=np.uint8), *self.counted]),
            level=np.array(self.level, dtype=np.int64),
            width=np.array(self.width, dtype=np.int32),
            final_width=np.array(self.final_width, dtype=np.int32),
            step=np.array(self.step, dtype=np.int32),
            member_ptr=np.cumsum([0, *np.bincount(nodes, minlength=len(self.n_states))], dtype=np.int64),
            member=order,
        )


def random_net(
    rng: np.random.Generator, kinds: Sequence[int] = range(5), hard: float = 0.1, n_nodes: int = 6, n_factors: int = 5
) -> FactorNet:
    """Mixed factors of 1 to 5 members with 2 to 4 labels; about a share ``hard`` of all scores is ``-inf``."""
    n_states = rng.integers(2, 5, size=n_nodes)
    n_labels = int(n_states.max())

    def scores(*shape: int) -> np.ndarray:
        return np.where(rng.random(shape) < hard, -INF, rng.normal(size=shape))

    unary = scores(n_nodes, n_labels)
    unary[np.arange(n_nodes), rng.integers(n_states)] = rng.normal(size=n_nodes)  # every node has a label
    built = Builder(list(n_states), unary)
    for _ in range(n_factors):
        kind = int(rng.choice(list(kinds)))
        n = int(rng.integers(1, min(n_nodes, 5) + 1))
        members = rng.permutation(n_nodes)[:n].tolist()
        if rng.random() < 0.5:
            members = sorted(members, reverse=bool(rng.random() < 0.3))
        if kind == TABLE:
            built.add(TABLE, members, scores(*n_states[members]).ravel())
        elif kind == AGREEMENT:
            built.add(AGREEMENT, members, np.abs(rng.normal(size=n_labels)))
        elif kind == CARDINALITY:
            counted = (
                np.zeros((n, n_labels)) + rng.integers(0, 2, size=n_labels)
                if rng.random() < 0.5
                else rng.integers(0, 2, size=(n, n_labels))
            )
            built.cardinality(members, counted, np.where(rng.random(n + 1) < 2 * hard, -INF, rng.normal(size=n + 1)))
        elif kind == AUTOMATON:
            widths = [1, *rng.integers(1, 4, size=n)]
            layers = [rng.integers(0, b, size=(a, n_labels)) for a, b in itertools.pairwise(widths)]
            layers = [np.where(rng.random(own.shape) < hard, -1, own) for own in layers]
            built.automaton(members, layers, scores(widths[-1]).tolist())
        else:
            built.add(ALL_DIFFERENT, members[: int(rng.integers(1, min(n, n_labels) + 1))])
    return built.net()


def members_of(net: FactorNet, f: int) -> list[int]:
    return [int(v) for v in net.nodes[net.ptr[f] : net.ptr[f + 1]]]


def factor_value(net: FactorNet, f: int, t: Sequence[int]) -> float:
    """Score of factor ``f`` when its members have the labels ``t``."""
    members, kind, start = members_of(net, f), int(net.kind[f]), int(net.start[f])
    if kind == TABLE:
        shape = tuple(int(net.n_states[v]) for v in members)
        return float(net.scores[start : start + int(np.prod(shape))].reshape(shape)[tuple(t)])
    if kind == AGREEMENT:
        return float(net.scores[start + t[0]]) if len(set(t)) == 1 else 0.0
    if kind == CARDINALITY:
        return float(net.scores[start + sum(int(net.counted[net.ptr[f] + i, k]) for i, k in enumerate(t))])
    if kind == AUTOMATON:
        state = 0
        for i, k in enumerate(t):
            state = int(net.step[net.level[net.ptr[f] + i] + state * net.unary.shape[1] + k])
            if state < 0:
                return -INF
        return float(net.scores[start + state])
    return 0.0 if len(set(t)) == len(t) else -INF


def tuples_of(net: FactorNet, f: int) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(int(net.n_states[v])) for v in members_of(net, f)))


def score(net: FactorNet, y: Sequence[int]) -> float:
    total = sum(float(net.unary[v, k]) for v, k in enumerate(y))
    return total + sum(factor_value(net, f, [int(y[v]) for v in members_of(net, f)]) for f in range(len(net.kind)))


def labellings(net: FactorNet) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(int(n)) for n in net.n_states))


def optimum(net: FactorNet) -> float:
    return max(score(net, y) for y in labellings(net))


def marginals(net: FactorNet, f: int, psi: np.ndarray) -> np.ndarray:
    out = np.full(psi.shape, -INF)
    for t in tuples_of(net, f):
        total = factor_value(net, f, t) + sum(psi[i, k] for i, k in enumerate(t))
        for i, k in enumerate(t):
            out[i, k] = max(out[i, k], total)
    return out


def used(net: FactorNet, messages: np.ndarray) -> np.ndarray:
    """Messages with ``-inf`` at forbidden labels."""
    return np.where(net.unary[net.nodes] > -INF, messages, -INF)


def node_scores(net: FactorNet, messages: np.ndarray) -> np.ndarray:
    theta = net.unary.copy()
    np.subtract.at(theta, net.nodes, messages)
    return np.where(net.unary > -INF, theta, -INF)


def terms(net: FactorNet, messages: np.ndarray, y: Sequence[int]) -> tuple[float, float, float, float]:
    """The maxima of nodes and factors, and their distances from the labelling."""
    theta, psi = node_scores(net, messages), used(net, messages)
    node_top = node_gap = factor_top = factor_gap = 0.0
    for v in range(len(theta)):
        node_top += theta[v].max()
        node_gap += theta[v].max() - theta[v, y[v]] if theta[v, y[v]] > -INF else INF
    for f in range(len(net.kind)):
        own, members = psi[net.ptr[f] : net.ptr[f + 1]], members_of(net, f)
        top = marginals(net, f, own).max()
        t = [int(y[v]) for v in members]
        at = factor_value(net, f, t) + sum(own[i, k] for i, k in enumerate(t))
        factor_top += top
        factor_gap += top - at if at > -INF else INF
    return node_top, node_gap, factor_top, factor_gap


def bound(net: FactorNet, messages: np.ndarray) -> float:
    node_top, _, factor_top, _ = terms(net, messages, [0] * len(net.n_states))
    return node_top + factor_top


def conditioned(net: FactorNet, forward: bool, messages: np.ndarray) -> list[int]:
    """Each node takes its best label given those before."""
    theta, psi = node_scores(net, messages), used(net, messages).copy()
    y = [0] * len(theta)
    for v in range(len(theta)) if forward else reversed(range(len(theta))):
        total = theta[v].copy()
        slots = [(f, i) for f in range(len(net.kind)) for i, w in enumerate(members_of(net, f)) if w == v]
        for f, i in slots:
            own = marginals(net, f, psi[net.ptr[f] : net.ptr[f + 1]])[i]
            if own.max() > -INF:
                total += own
        y[v] = int(np.argmax(total if total.max() > -INF else theta[v]))
        for f, i in slots:
            psi[net.ptr[f] + i] = -INF
            psi[net.ptr[f] + i, y[v]] = 0.0
    return y


def supported(net: FactorNet, f: int, domain: np.ndarray) -> np.ndarray:
    psi = np.where(domain.astype(bool), 0.0, -INF)
    return (marginals(net, f, psi) > -INF).astype(np.uint8)


def consistent(net: FactorNet, domain: np.ndarray) -> np.ndarray | None:
    """Domains after generalised arc consistency, None where one is empty."""
    domain = (domain.astype(bool) & (net.unary > -INF)).astype(np.uint8)
    while True:
        before = domain.copy()
        for f in range(len(net.kind)):
            domain[members_of(net, f)] &= supported(net, f, domain[members_of(net, f)])
        if not domain.any(axis=1).all():
            return None
        if (domain == before).all():
            return domain


def violation(net: FactorNet, y: Sequence[int]) -> int:
    """How much of what is forbidden a labelling uses, as moves count it."""
    total = sum(int(net.unary[v, k] == -INF) for v, k in enumerate(y))
    for f in range(len(net.kind)):
        t = [int(y[v]) for v in members_of(net, f)]
        kind, start = int(net.kind[f]), int(net.start[f])
        if kind == ALL_DIFFERENT:
            total += len(t) - len(set(t))
        elif kind == CARDINALITY:
            c = sum(int(net.counted[net.ptr[f] + i, k]) for i, k in enumerate(t))
            possible: Any = np.flatnonzero(net.scores[start : start + len(t) + 1] > -INF)
            total += int(np.abs(possible - c).min()) if len(possible) else 0
        else:
            total += int(factor_value(net, f, t) == -INF)
    return total
