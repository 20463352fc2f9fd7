"""Functions of a count or of a sum of whole numbers: their maxima need no table, however many nodes they have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InvalidProblemError
from ..ownership import own
from ..validation import read_only
from .diagram import Diagram, reduced
from .function import Function, Integers, Lift, raise_share, raised
from .tables import check_scores

MAX_CELLS = 10**7
"""Pairs of a partial sum and a label that a `Linear` may have: 40 MB."""


class Cardinality(Function):
    r"""A score of how many nodes have one of some labels, :math:`f(y) = s[\#\{i : y_i \in L\}]`, for any :math:`s`.

    Its maximum and its max-marginals take a sort: with :math:`d_i` the gain of node i from its best label inside :math:`L` over its best one
    outside, the best labelling with count c takes the c largest :math:`d_i`.

    Parameters
    ----------
    scores : array-like, shape (n + 1,)
        Score of each count 0, 1, .., n; ``-inf`` forbids it.
    labels : int or list of int
        The labels that count.
    """

    def __init__(self, scores: Any, labels: Any = 1):
        given = check_scores(scores, "the scores of a cardinality")
        if given.ndim != 1 or len(given) < 2:
            raise InvalidProblemError(
                f"a cardinality has scores of shape {given.shape}, wanted (n + 1,), one for each count from 0 to the number of nodes."
            )
        counted = np.atleast_1d(np.asarray(labels))
        if counted.ndim != 1 or not len(counted) or counted.dtype.kind not in "iu" or counted.min() < 0:
            raise InvalidProblemError(
                f"a cardinality counts the labels {labels!r}, wanted a label (0, 1, ..) or a list of them."
            )
        self.scores = read_only(own(given.copy()))
        self.labels = tuple(sorted(set(counted.tolist())))

    def __repr__(self) -> str:
        return f"Cardinality({len(self.scores) - 1} nodes, labels={list(self.labels)})"

    def check(self, shape: tuple[int, ...], name: str) -> None:
        if len(shape) != len(self.scores) - 1:
            raise InvalidProblemError(
                f"{name} has {len(shape)} nodes, but its cardinality has {len(self.scores)} scores; wanted {len(shape) + 1}, "
                f"one for each count from 0 to {len(shape)}."
            )

    @cached_property
    def numbers(self) -> np.ndarray:
        return self.scores[np.isfinite(self.scores)]

    @cached_property
    def is_hard(self) -> bool:
        return bool(np.isneginf(self.scores).any())

    def counted(self, n_labels: int) -> np.ndarray:
        """Mask (n_labels,) of the labels that count."""
        return np.isin(np.arange(n_labels), self.labels)

    def values(self, labels: np.ndarray) -> np.ndarray:
        return self.scores[np.isin(labels, self.labels).sum(axis=1)]

    def _best(self, psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Best message of each node among the labels that count, and among the others."""
        inside = self.counted(psi.shape[1])
        return (
            np.where(inside, psi, -np.inf).max(axis=1, initial=-np.inf),
            np.where(inside, -np.inf, psi).max(axis=1, initial=-np.inf),
        )

    def _by_count(self, yes: np.ndarray, no: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Gains in falling order with their nodes, and how many are forced to count; nodes that cannot count come last."""
        with np.errstate(invalid="ignore"):
            gain = np.where(np.isneginf(no), np.inf, np.where(np.isneginf(yes), -np.inf, yes - no))
        order = np.argsort(-gain, kind="stable")
        return gain[order], order, int(np.isneginf(no).sum())

    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        n = len(psi)
        yes, no = self._best(psi)
        found = np.full(psi.shape, -np.inf)
        if (np.isneginf(yes) & np.isneginf(no)).any():
            return found
        gain, order, forced = self._by_count(yes, no)
        able = n - int(np.isneginf(yes).sum())
        base = float(np.where(np.isneginf(no), yes, no).sum())
        rise = np.where(np.isfinite(gain), gain, 0.0)
        total = np.concatenate([[0.0], np.cumsum(rise)])  # of the nodes in front, beyond the forced ones
        count = np.arange(n + 1)
        value = np.where((count >= forced) & (count <= able), base + total + self.scores, -np.inf)
        # With node of rank r counted: counts above r as they are; for others it takes the place of the last one in front (count c of which
        # c - 1 stay). Not counted: counts up to r as they are, for others the next one behind takes its place.
        above = np.maximum.accumulate(value[::-1])[::-1]  # best of counts >= c
        below = np.maximum.accumulate(value)  # best of counts <= c
        swap_in = np.full(n + 2, -np.inf)  # best of counts c = 1 .. r without the last in front
        swap_out = np.full(n + 2, -np.inf)  # best of counts c = r + 1 .. n - 1 with one more in front
        for c in range(max(forced, 1), able + 1):
            last = -np.inf if c - 1 < forced else base + total[c - 1] + self.scores[c]
            swap_in[c] = last
        reach_in = np.maximum.accumulate(swap_in)
        for c in range(forced, able):
            swap_out[c] = base + total[c + 1] + self.scores[c]
        reach_out = np.maximum.accumulate(swap_out[::-1])[::-1]
        with_it, without = np.full(n, -np.inf), np.full(n, -np.inf)
        for rank, node in enumerate(order.tolist()):
            if np.isfinite(gain[rank]):
                with_it[node] = max(above[rank + 1], reach_in[rank] + gain[rank])
                without[node] = max(below[rank], reach_out[rank + 1] - gain[rank])
            elif gain[rank] > 0:
                with_it[node] = value.max()
            else:
                without[node] = value.max()
        inside = self.counted(psi.shape[1])
        with np.errstate(invalid="ignore"):
            counts = psi - yes[:, None] + with_it[:, None]
            others = psi - no[:, None] + without[:, None]
        both = np.where(inside, counts, others)
        return np.where(np.isneginf(psi) | np.isnan(both), -np.inf, both)

    def top(self, psi: np.ndarray) -> float:
        n = len(psi)
        yes, no = self._best(psi)
        if (np.isneginf(yes) & np.isneginf(no)).any():
            return -np.inf
        gain, _, forced = self._by_count(yes, no)
        able = n - int(np.isneginf(yes).sum())
        base = float(np.where(np.isneginf(no), yes, no).sum())
        total = np.concatenate([[0.0], np.cumsum(np.where(np.isfinite(gain), gain, 0.0))])
        count = np.arange(n + 1)
        possible = (count >= forced) & (count <= able)
        best = float(np.where(possible, base + total + raised(self.scores - self.centre, n), -np.inf).max())
        size = sum(float(np.abs(part[np.isfinite(part)]).sum()) for part in (yes, no))
        return best + 2 * raise_share(n) * size

    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        base, gains, forced, able = 0, [], 0, len(psi)
        for row in psi:
            yes = max((v for k, v in enumerate(row) if v is not None and k in self.labels), default=None)
            no = max((v for k, v in enumerate(row) if v is not None and k not in self.labels), default=None)
            if yes is None and no is None:
                return None
            forced, able = forced + (no is None), able - (yes is None)
            base += no if no is not None else yes or 0
            if yes is not None and no is not None:
                gains.append(yes - no)
        best, total, scores = None, base, integer(self.scores).tolist()
        for c, gain in zip(range(forced, able + 1), [*sorted(gains, reverse=True), 0], strict=True):
            if scores[c] is not None and (best is None or total + scores[c] > best):
                best = total + scores[c]
            total += gain
        return best

    def support(self, domain: np.ndarray) -> np.ndarray:
        plain = Cardinality(np.where(np.isneginf(self.scores), -np.inf, 0.0), self.labels)
        return plain.max_marginals(np.where(domain, 0.0, -np.inf)) > -np.inf

    def _diagram(self, shape: tuple[int, ...]) -> Diagram:
        steps = []
        for i, states in enumerate(shape):
            steps.append((np.arange(i + 1)[:, None] + self.counted(states)).astype(np.int32))
        return reduced(steps, self.scores)

    def lift_cells(self, shape: tuple[int, ...]) -> float:
        possible = np.flatnonzero(np.isfinite(self.scores))
        if not len(possible):
            return float(max(shape))
        at, n = (
            np.arange(len(shape)),
            len(shape),
        )  # partial counts before each node from which the count can still become possible
        width = np.minimum(at, possible[-1]) - np.maximum(0, possible[0] - (n - at)) + 1
        return float(width.max() * max(shape))

    def lift(self, shape: tuple[int, ...]) -> Lift:
        return self._diagram(shape).lift()

    def encode(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.labels, dtype=np.int64), self.scores

    @classmethod
    def decode(cls, numbers: np.ndarray, scores: np.ndarray) -> Function:
        return cls(scores, numbers)


def at_most(nodes: Any, count: int, labels: Any = 1) -> tuple[Any, Cardinality]:
    """Factor that lets at most so many of the nodes have one of the labels.

    Parameters
    ----------
    nodes : array-like of int
    count : int
    labels : int or list of int

    Returns
    -------
    tuple
        Nodes and function, an entry of ``Problem(factors=[...])``.
    """
    return _between(nodes, 0, count, labels)


def at_least(nodes: Any, count: int, labels: Any = 1) -> tuple[Any, Cardinality]:
    """The same for at least so many; see `at_most`."""
    return _between(nodes, count, len(nodes), labels)


def exactly(nodes: Any, count: int, labels: Any = 1) -> tuple[Any, Cardinality]:
    """The same for exactly so many; see `at_most`."""
    return _between(nodes, count, count, labels)


def _between(nodes: Any, low: int, high: int, labels: Any) -> tuple[Any, Cardinality]:
    count = np.arange(len(nodes) + 1)
    return nodes, Cardinality(np.where((count >= low) & (count <= high), 0.0, -np.inf), labels)


class Linear(Function):
    r"""A linear inequality, :math:`\text{low} \le \sum_i w_i(y_i) \le \text{high}` with whole numbers :math:`w`: 0 if it holds, ``-inf`` if not.

    Partial sums are the states of a decision diagram, so their range has to be small.

    Parameters
    ----------
    weights : sequence of array-like of int
        A vector a node, an entry a label.
    low, high : int, optional
    """

    def __init__(self, weights: Any, low: int | None = None, high: int | None = None):
        rows = [np.asarray(row) for row in weights]
        for i, row in enumerate(rows):
            if row.ndim != 1 or not len(row) or row.dtype.kind not in "iu":
                raise InvalidProblemError(
                    f"a linear inequality has weights of shape {row.shape} and dtype {row.dtype} for node {i}, wanted integers, one a label."
                )
        if not rows:
            raise InvalidProblemError("a linear inequality has no nodes, wanted at least one.")
        if any(int(np.abs(row.astype(object)).max()) > 2**40 for row in rows):
            raise InvalidProblemError(
                "a linear inequality has a weight beyond 2**40; divide weights and limits by a common factor."
            )
        self.weights = tuple(read_only(own(row.astype(np.int64))) for row in rows)
        least, most = (int(sum(int(f(row)) for row in rows)) for f in (np.min, np.max))
        self.low = least if low is None else max(int(low), least)
        self.high = most if high is None else min(int(high), most)
        _ = self.diagram  # refuses too many partial sums at once

    def __repr__(self) -> str:
        return f"Linear({len(self.weights)} nodes, {self.low} <= sum <= {self.high})"

    def check(self, shape: tuple[int, ...], name: str) -> None:
        wanted = tuple(len(row) for row in self.weights)
        if shape != wanted:
            raise InvalidProblemError(
                f"{name} has nodes with {', '.join(map(str, shape))} labels, but its linear inequality has weights for "
                f"{', '.join(map(str, wanted))}; wanted a weight for every label."
            )

    @property
    def numbers(self) -> np.ndarray:
        return np.zeros(1)

    @property
    def is_hard(self) -> bool:
        return True

    @cached_property
    def diagram(self) -> Diagram:
        """The partial sums that can still end inside the limits."""
        left_low = np.cumsum([0] + [int(row.min()) for row in self.weights[::-1]])[::-1]
        left_high = np.cumsum([0] + [int(row.max()) for row in self.weights[::-1]])[::-1]
        sums, steps, cells = np.zeros(1, dtype=np.int64), [], 0
        for i, row in enumerate(self.weights):
            cells += len(sums) * len(row)
            if cells > MAX_CELLS:
                raise InvalidProblemError(
                    f"a linear inequality of {len(self.weights)} nodes has more than {MAX_CELLS} pairs of a partial sum and a label; "
                    "divide weights and limits by a common factor, or split it."
                )
            after = sums[:, None] + row
            possible = (after + left_high[i + 1] >= self.low) & (after + left_low[i + 1] <= self.high)
            found = np.unique(after[possible])
            if not len(found):
                found = np.zeros(1, dtype=np.int64)
            steps.append(np.where(possible, np.searchsorted(found, after), -1).astype(np.int32))
            sums = found
        return reduced(steps, np.where((sums >= self.low) & (sums <= self.high), 0.0, -np.inf))

    def values(self, labels: np.ndarray) -> np.ndarray:
        total = sum(row[labels[:, i]] for i, row in enumerate(self.weights))
        return np.where((total >= self.low) & (total <= self.high), 0.0, -np.inf)

    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        return self.diagram.max_marginals(psi)

    def top(self, psi: np.ndarray) -> float:
        return self.diagram.top(psi, 0.0)

    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        return self.diagram.exact_top(psi, integer)

    def support(self, domain: np.ndarray) -> np.ndarray:
        return self.diagram.support(domain)

    def lift_cells(self, shape: tuple[int, ...]) -> float:
        return float(self.diagram.largest_layer)

    def lift(self, shape: tuple[int, ...]) -> Lift:
        return self.diagram.lift()

    def encode(self) -> tuple[np.ndarray, np.ndarray]:
        sizes = [len(row) for row in self.weights]
        numbers = np.concatenate([[len(sizes), self.low, self.high], sizes, *self.weights]).astype(np.int64)
        return numbers, np.zeros(0)

    @classmethod
    def decode(cls, numbers: np.ndarray, scores: np.ndarray) -> Function:
        n = int(numbers[0]) if len(numbers) else 0
        sizes = numbers[3 : 3 + n]
        if n < 1 or len(sizes) != n or sizes.min() < 1 or 3 + n + int(sizes.sum()) != len(numbers) or len(scores):
            raise InvalidProblemError(f"a linear inequality of {n} nodes has {len(numbers)} whole numbers, which do not fit.")
        return cls(np.split(numbers[3 + n :], np.cumsum(sizes)[:-1]), int(numbers[1]), int(numbers[2]))
