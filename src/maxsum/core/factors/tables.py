"""Functions given by their scores: dense tables, and lists of tuples with a default for the others."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import InvalidProblemError
from ..ownership import own
from ..validation import LARGEST, as_float, read_only
from .diagram import Diagram, reduced
from .function import Function, Integers, Lift, check_shape, impossible, raise_share, raised

MAX_ARITY = 30  # axes of a dense table: numpy has 32, and two are needed to work with many tables at once
_CHUNK = 1 << 20  # table entries that are worked on at once: 8 MB


class Table(Function):
    """A dense table of scores, one axis a node; ``-inf`` forbids.

    Parameters
    ----------
    scores : array-like
    """

    def __init__(self, scores: Any):
        table = np.array(check_scores(scores, "the table of a factor"), order="C")
        if not 1 <= table.ndim <= MAX_ARITY or not table.size:
            raise InvalidProblemError(
                f"the table of a factor has the shape {table.shape}, wanted 1 to {MAX_ARITY} axes, one a node, none of them empty."
            )
        self.scores = read_only(own(table))
        self.packed: tuple[np.ndarray, int] | None = (
            None  # the array of many tables in which the scores lie, and their row there
        )

    def __repr__(self) -> str:
        return f"Table(shape={self.scores.shape})"

    def check(self, shape: tuple[int, ...], name: str) -> None:
        check_shape(shape, self.scores.shape, name, "a table")

    @cached_property
    def numbers(self) -> np.ndarray:
        return self.scores[np.isfinite(self.scores)]

    @cached_property
    def is_hard(self) -> bool:
        return bool(np.isneginf(self.scores).any())

    @cached_property
    def _centred(self) -> np.ndarray:
        return self.scores - self.centre

    def values(self, labels: np.ndarray) -> np.ndarray:
        return self.scores[tuple(labels.T)]

    def _added(self, table: np.ndarray, psi: np.ndarray) -> np.ndarray:
        """Table plus messages of many factors (m, n, K)."""
        value = table[None]
        for i, states in enumerate(self.scores.shape):
            shape = [len(psi)] + [1] * self.scores.ndim
            shape[1 + i] = states
            value = value + psi[:, i, :states].reshape(shape)
        return value

    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        value = self._added(self.scores, psi[None])[0]
        found = np.full(psi.shape, -np.inf)
        for i, states in enumerate(self.scores.shape):
            found[i, :states] = np.moveaxis(value, i, 0).reshape(states, -1).max(axis=1)
        return found

    def top(self, psi: np.ndarray) -> float:
        return float(self.tops(psi[None])[0])

    def tops(self, psi: np.ndarray) -> np.ndarray:
        n, each = self.scores.ndim, max(1, _CHUNK // self.scores.size)
        table, more = raised(self._centred, n), raised(psi, n)
        parts = [self._added(table, more[i : i + each]) for i in range(0, len(psi), each)]
        return np.concatenate([part.reshape(len(part), -1).max(axis=1) for part in parts] or [np.zeros(0)])

    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        shape, n = self.scores.shape, self.scores.ndim
        # floating point finds the few entries that may be the maximum; whole numbers may be too large for it, so they are scaled first
        sizes = [abs(v) for row in psi for v in row if v is not None]
        scores = integer(self.scores)
        finite = np.array([v is not None for v in scores.ravel()]).reshape(shape)
        if not finite.any():
            return None
        sizes += [abs(v) for v in scores.ravel() if v is not None]
        scale = max(0, max(sizes, default=0).bit_length() - 1000)
        value = np.where(
            finite, np.array([0.0 if v is None else float(v >> scale) for v in scores.ravel()]).reshape(shape), -np.inf
        )
        size = np.abs(np.where(finite, value, 0.0))
        for i, states in enumerate(shape):
            row = np.array([-np.inf if v is None else float(v >> scale) for v in psi[i][:states]])
            axis = [1] * n
            axis[i] = states
            value = value + row.reshape(axis)
            size = size + np.abs(np.where(np.isfinite(row), row, 0.0)).reshape(axis)
        best = value.max()
        if best == -np.inf:
            return None
        off = raise_share(n) * size + n + 1  # what the shifts cut off
        places = np.argwhere(value + off >= (value - off).max())
        return max(scores[tuple(place)] + sum(psi[i][k] for i, k in enumerate(place.tolist())) for place in places)

    def support(self, domain: np.ndarray) -> np.ndarray:
        return self.max_marginals(np.where(domain, 0.0, -np.inf)) > -np.inf

    def dense(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.scores

    def lift_cells(self, shape: tuple[int, ...]) -> float:
        return float(self.numbers.size)

    def lift(self, shape: tuple[int, ...]) -> Lift:
        """One extra node, whose labels are the tuples that are not forbidden."""
        tuples = np.argwhere(np.isfinite(self.scores))
        return tuple_node(tuples, self.numbers, shape)

    def encode(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array(self.scores.shape, dtype=np.int64), self.scores.ravel()

    @classmethod
    def decode(cls, numbers: np.ndarray, scores: np.ndarray) -> Function:
        return cls(scores.reshape(checked_shape(numbers, len(scores))))


def pack(tables: list[Table]) -> None:
    """Lay the scores of tables of one shape into one array, row by row, so that they can be worked on together without a copy."""
    stack = np.empty((len(tables), *tables[0].scores.shape))
    for row, table in enumerate(tables):
        stack[row] = table.scores
        table.scores = table.scores[:0]  # its memory can be used again
    stack = own(stack)
    for row, table in enumerate(tables):
        table.scores, table.packed = stack[row], (stack, row)


def stacked(tables: list[Table]) -> np.ndarray:
    """Scores of tables of one shape in one array, the one in which they lie if they do."""
    found = tables[0].packed
    if found is not None and len(found[0]) == len(tables):
        stack = found[0]
        if all(t.packed is not None and t.packed[0] is stack and t.packed[1] == row for row, t in enumerate(tables)):
            return stack
    return np.stack([table.scores for table in tables])


def finite_tops(stack: np.ndarray) -> np.ndarray:
    """Largest finite score of each table of a stack; 0 where there is none."""
    top = stack.reshape(len(stack), -1).max(axis=1)
    return np.where(np.isfinite(top), top, 0.0)


def stacked_tops(stack: np.ndarray, row: np.ndarray, psi: np.ndarray) -> np.ndarray:
    """`Table.tops` of many factors (m, n, K), where factor ``i`` has the table ``stack[row[i]]``."""
    n, each = stack.ndim - 1, max(1, _CHUNK // math.prod(stack.shape[1:]))
    found = [np.zeros(0)]
    for first in range(0, len(psi), each):
        tables, more = stack[row[first : first + each]], raised(psi[first : first + each], n)
        value = raised(tables - finite_tops(tables).reshape(-1, *[1] * n), n)
        for i, states in enumerate(stack.shape[1:]):
            shape = [len(more)] + [1] * n
            shape[1 + i] = states
            value = value + more[:, i, :states].reshape(shape)
        found.append(value.reshape(len(value), -1).max(axis=1))
    return np.concatenate(found)


class SparseTable(Function):
    """Scores of listed tuples of labels, and one score for all others.

    Parameters
    ----------
    shape : tuple of int
        Number of labels of each node.
    tuples : array-like of int, shape (m, n)
    scores : array-like, shape (m,)
    default : float
        Score of the tuples that are not listed; ``-inf`` forbids them.
    """

    def __init__(self, shape: Any, tuples: Any, scores: Any, default: float = 0.0):
        self.shape = tuple(int(s) for s in shape)
        given = np.asarray(tuples)
        if given.size == 0:
            given = np.zeros((0, len(self.shape)), dtype=np.int64)
        values = check_scores(scores, "the scores of a sparse table")
        if not self.shape or min(self.shape) < 1:
            raise InvalidProblemError(f"a sparse table has the shape {self.shape}, wanted at least one node, each with labels.")
        if given.ndim != 2 or given.shape[1] != len(self.shape) or given.dtype.kind not in "iu":
            raise InvalidProblemError(
                f"a sparse table has tuples of shape {given.shape} and dtype {given.dtype}, wanted integers (m, {len(self.shape)})."
            )
        if values.shape != (len(given),):
            raise InvalidProblemError(f"a sparse table lists {len(given)} tuples, but scores of shape {values.shape}.")
        outside = (given < 0) | (given >= np.array(self.shape))
        if outside.any():
            row = int(np.flatnonzero(outside.any(axis=1))[0])
            raise InvalidProblemError(
                f"tuple {row} of a sparse table is {given[row].tolist()}, but its nodes have {list(self.shape)} labels (counted from 0)."
            )
        self.default = float(check_scores([default], "the default of a sparse table")[0])
        order = np.lexsort(given.T[::-1])
        listed = given[order].astype(np.int32)
        twice = np.flatnonzero((listed[1:] == listed[:-1]).all(axis=1))
        if len(twice):
            raise InvalidProblemError(
                f"a sparse table lists the tuple {listed[twice[0]].tolist()} twice; list each tuple once."
            )
        self.tuples, self.scores = read_only(own(listed)), read_only(own(values[order].copy()))

    def __repr__(self) -> str:
        return f"SparseTable(shape={self.shape}, {len(self.tuples)} tuples, default={self.default})"

    def check(self, shape: tuple[int, ...], name: str) -> None:
        check_shape(shape, self.shape, name, "a sparse table")

    @cached_property
    def numbers(self) -> np.ndarray:
        every = np.append(self.scores, self.default) if self._has_default else self.scores
        return every[np.isfinite(every)]

    @cached_property
    def _has_default(self) -> bool:
        """Whether some tuple is not listed."""
        return float(np.prod(np.array(self.shape, dtype=float))) > len(self.tuples)

    @cached_property
    def is_hard(self) -> bool:
        return bool(np.isneginf(self.scores).any() or (self._has_default and self.default == -np.inf))

    @cached_property
    def diagram(self) -> Diagram:
        """The trie of the listed tuples, with a path beside it for all others."""
        rows, n = self.tuples, len(self.shape)
        steps = []
        number = np.zeros(
            len(rows), dtype=np.int64
        )  # state of each listed tuple before node i; the last state is beside the trie
        count = 1
        for i in range(n):
            code = number * self.shape[i] + rows[:, i]
            first, after = np.unique(code, return_inverse=True)
            beside = len(first)
            start = 0 if i == 0 else 1  # before the first node nothing is beside the trie
            step = np.full((count + start, self.shape[i]), beside, dtype=np.int32)
            step[first // self.shape[i], first % self.shape[i]] = np.arange(len(first))
            steps.append(step)
            number, count = after, len(first)
        scores = np.empty(count + 1)
        scores[number], scores[-1] = self.scores, self.default
        return reduced(steps, scores)

    def values(self, labels: np.ndarray) -> np.ndarray:
        return self.diagram.values(labels)

    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        return self.diagram.max_marginals(psi)

    def top(self, psi: np.ndarray) -> float:
        return self.diagram.top(psi, self.centre)

    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        return self.diagram.exact_top(psi, integer)

    def support(self, domain: np.ndarray) -> np.ndarray:
        return self.diagram.support(domain)

    def lift_cells(self, shape: tuple[int, ...]) -> float:
        return float(self.numbers.size if self.default == -np.inf else self.diagram.largest_layer)

    def lift(self, shape: tuple[int, ...]) -> Lift:
        """One extra node where only the listed tuples are possible, otherwise the layers of the diagram."""
        if self.default > -np.inf:
            return self.diagram.lift()
        some = np.isfinite(self.scores)
        return tuple_node(self.tuples[some], self.scores[some], shape)

    def encode(self) -> tuple[np.ndarray, np.ndarray]:
        return np.array([len(self.shape), *self.shape, *self.tuples.ravel()], dtype=np.int64), np.append(
            self.default, self.scores
        )

    @classmethod
    def decode(cls, numbers: np.ndarray, scores: np.ndarray) -> Function:
        n = int(numbers[0]) if len(numbers) else 0
        if not 0 < n < len(numbers) or len(numbers) != 1 + n * len(scores):
            raise InvalidProblemError(
                f"a sparse table has {len(numbers)} whole numbers and {len(scores)} scores, which do not fit."
            )
        return cls(numbers[1 : n + 1].tolist(), numbers[n + 1 :].reshape(-1, n), scores[1:], float(scores[0]))


def checked_shape(numbers: np.ndarray, size: int) -> tuple[int, ...]:
    """Whole numbers as the shape of so many scores."""
    shape = tuple(int(n) for n in numbers)
    if not 0 < len(shape) <= MAX_ARITY or min(shape) < 1 or math.prod(shape) != size:
        raise InvalidProblemError(f"a table has the shape {shape[:MAX_ARITY]}, but {size} scores.")
    return shape


def tuple_node(tuples: np.ndarray, scores: np.ndarray, shape: tuple[int, ...]) -> Lift:
    """A factor as one extra node whose labels are tuples, each linked to what it says about a member."""
    if not len(tuples):
        return impossible(shape)
    links = [(i, 0, np.where(np.arange(states)[:, None] == tuples[:, i], 0.0, -np.inf)) for i, states in enumerate(shape)]
    number = {tuple(row): t for t, row in enumerate(tuples.tolist())}
    # a forbidden labelling is no tuple: any one disagrees with it somewhere
    return Lift([np.array(scores)], links, [], lambda labels: [number.get(tuple(labels.tolist()), 0)])


def check_scores(given: Any, name: str) -> np.ndarray:
    """Scores as float64, refused if not a number, ``+inf`` or too large."""
    scores = as_float(given, name)
    bad = np.isnan(scores) | (scores > LARGEST) | ((scores < -LARGEST) & ~np.isneginf(scores))
    if bad.any():
        raise InvalidProblemError(
            f"{name} holds {scores[bad].ravel()[0]}, wanted numbers of at most {LARGEST} in size, or -inf for what is forbidden."
        )
    return scores
