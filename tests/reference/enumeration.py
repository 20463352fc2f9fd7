"""Brute force over all labellings, from the raw inputs of a case: shares no code with the library.

Scores are compared by exact differences (`math.fsum` over the terms of both labellings), so a large constant in the
inputs hides nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


def every_labelling(problem: Any) -> np.ndarray:
    """All labellings of a problem in lexicographic order, shape (n_labellings, n_nodes)."""
    ranges = [range(k) for k in problem.n_states.tolist()]
    return np.array(list(itertools.product(*ranges)), dtype=np.int32).reshape(-1, len(ranges))


@dataclass(frozen=True, eq=False)
class Raw:
    """A problem as plain lists: what a caller would write down.

    ``tables[e][k, l]`` is the score of labels ``k`` at ``edges[e][0]`` and ``l`` at ``edges[e][1]``, before the weight. A factor is
    its nodes, the table of all its scores, one axis a node, and the finite scores of its function, some of which no labelling may reach.
    """

    unary: Sequence[np.ndarray]
    edges: Sequence[tuple[int, int]] = ()
    tables: Sequence[np.ndarray] = ()
    weights: Sequence[float] = ()
    cliques: Sequence[tuple[tuple[int, ...], np.ndarray]] = ()
    offset: float = 0.0
    factors: Sequence[tuple[tuple[int, ...], np.ndarray, np.ndarray]] = ()

    def terms(self, labels: Sequence[int]) -> list[float]:
        """Every term of the score of a labelling."""
        node = [float(row[k]) for row, k in zip(self.unary, labels, strict=True)]
        edge = [float(t[labels[u], labels[v]]) * w for (u, v), t, w in zip(self.edges, self.tables, self.weights, strict=True)]
        clique = []
        for nodes, weights in self.cliques:
            first = labels[nodes[0]]
            clique.append(float(weights[first]) if all(labels[v] == first for v in nodes) else 0.0)
        factor = [float(table[tuple(labels[v] for v in nodes)]) for nodes, table, _ in self.factors]
        return [self.offset, *node, *edge, *clique, *factor]

    def score(self, labels: Sequence[int]) -> float:
        """Score of a labelling, correctly rounded."""
        return math.fsum(self.terms(labels))

    def difference(self, labels: Sequence[int], other: Sequence[int]) -> float:
        """``F(labels) - F(other)``, correctly rounded, for labellings of finite score."""
        return math.fsum(self.terms(labels) + [-t for t in self.terms(other)])

    @cached_property
    def labellings(self) -> np.ndarray:
        """All labellings in lexicographic order, shape (n_labellings, n_nodes)."""
        ranges = [range(len(row)) for row in self.unary]
        return np.array(list(itertools.product(*ranges)), dtype=np.int64).reshape(math.prod(map(len, ranges)), len(ranges))

    @cached_property
    def scores(self) -> np.ndarray:
        """Scores of `labellings`, in extended precision."""
        y = self.labellings
        total = np.full(len(y), self.offset, dtype=np.longdouble)
        for v, row in enumerate(self.unary):
            total += row.astype(np.longdouble)[y[:, v]]
        for (u, v), table, weight in zip(self.edges, self.tables, self.weights, strict=True):
            total += (table * weight).astype(np.longdouble)[y[:, u], y[:, v]]
        for nodes, weights in self.cliques:
            member = y[:, list(nodes)]
            agree = (member == member[:, :1]).all(axis=1)
            total += np.where(agree, weights[np.minimum(member[:, 0], len(weights) - 1)], 0.0)
        for nodes, table, _ in self.factors:
            total += table.astype(np.longdouble)[tuple(y[:, v] for v in nodes)]
        return total

    @cached_property
    def optima(self) -> np.ndarray:
        """All optimal labellings in lexicographic order; none if every labelling is forbidden."""
        top = self.scores.max()
        if not np.isfinite(top):
            return self.labellings[:0]
        room = 1e-15 * self.magnitude * (1 + len(self.unary) + len(self.edges))
        near = self.labellings[self.scores >= top - room]
        best = near[0]
        above = np.array([self.difference(y, best) for y in near])
        return near[above == above.max()]

    @property
    def feasible(self) -> bool:
        return len(self.optima) > 0

    @cached_property
    def best(self) -> float:
        """The largest score; ``-inf`` if every labelling is forbidden."""
        return self.score(self.optima[0]) if self.feasible else -math.inf

    def regret(self, labels: Sequence[int]) -> float:
        """How much a labelling of finite score loses against the best."""
        return self.difference(self.optima[0], labels)

    @cached_property
    def magnitude(self) -> float:
        """Largest finite number in the inputs, weights multiplied in."""
        arrays = [np.asarray([self.offset]), *self.unary, *(t * w for t, w in zip(self.tables, self.weights, strict=True))]
        arrays += [*(weights for _, weights in self.cliques), *(scores for _, _, scores in self.factors)]
        return max((float(np.abs(a[np.isfinite(a)]).max(initial=0.0)) for a in arrays), default=0.0)

    @cached_property
    def spreads(self) -> np.ndarray:
        """Largest minus smallest finite value of each term."""
        arrays = [
            *self.unary,
            *(t * w for t, w in zip(self.tables, self.weights, strict=True)),
            *(s for _, _, s in self.factors),
        ]
        finite = [a[np.isfinite(a)] for a in arrays]
        spread = [float(f.max() - f.min()) if f.size else 0.0 for f in finite]
        usable = [min(len(self.unary[v]) for v in nodes) for nodes, _ in self.cliques]
        spread += [float(np.max(w[:k])) for (_, w), k in zip(self.cliques, usable, strict=True)]
        return np.array(spread)

    @property
    def resolution(self) -> float:
        """What `Problem.resolution` should be: 1e-9 of the tenth percentile of the spreads that vary, times their number."""
        varying = self.spreads[self.spreads > 0]
        if not len(varying):
            return 0.0
        return 1e-9 * float(np.quantile(varying, 0.1)) * len(varying)

    @property
    def noise(self) -> float:
        """Rounding of a score that no float64 method can avoid: a few units in the last place of each term."""
        return 16 * np.finfo(float).eps * self.magnitude * (1 + len(self.spreads))

    @property
    def fuzz(self) -> float:
        """Rounding of a gap: as `noise`, but constants in the inputs do not count."""
        return 16 * np.finfo(float).eps * float(self.spreads.max(initial=0.0)) * (1 + len(self.spreads))
