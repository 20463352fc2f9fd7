"""From functions in the order of a file to a `Problem`: equal scopes of at most two variables are summed, larger ones become factors, equal
tables are stored once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import NoReturn

import numpy as np

from ..errors import MaxsumError, ParseError
from ..factors import Function, SparseTable
from ..graph import Graph
from ..ownership import own
from ..problem import Problem
from ..validation import EXACT, LARGEST
from .text import Limits

Fail = Callable[[str], NoReturn]

DENSE_CELLS = 1 << 16
"""Cells of a table over three or more variables up to which it is kept dense although few of its tuples are listed: half a megabyte."""

# What an edge or a factor that one word of a file stands for counts against the limit on cells: its Python objects, rounded up.
EDGE_CELLS = 64
FACTOR_CELLS = 1024
_MANY = 1 << 62  # cells that are as good as infinitely many


def named(variables: object, most: int = 8) -> str:
    """The scope of a function, cut short."""
    names = list(variables)  # type: ignore[call-overload]
    return ", ".join(str(name) for name in names[:most]) + (", ..." if len(names) > most else "")


def product(sizes: Iterable[int]) -> int:
    """Cells of a table, or 2**62 if there are more: numbers of a million digits are not needed to refuse it."""
    cells = 1
    for size in sizes:
        cells *= size
        if cells >= _MANY:
            return _MANY
    return cells


def counted(cells: int) -> str:
    """What `product` found, in words."""
    return str(cells) if cells < _MANY else "2**62 or more"


class Builder:
    """Collects functions and builds the problem.

    Parameters
    ----------
    n_states : ndarray of int64, shape (n_nodes,)
    limits : Limits
    fail : callable
        Raises `ParseError` for a message, with the place where the file is being read.
    """

    def __init__(self, n_states: np.ndarray, limits: Limits, fail: Fail):
        self.n_states = n_states
        self._sizes = n_states.tolist()
        self._limit = limits.cells
        self._cells = 0
        self._fail = fail
        self._offset = 0.0
        self._unary: dict[int, np.ndarray] = {}
        self._tables: list[np.ndarray] = []
        self._known: dict[tuple[tuple[int, ...], bytes], int] = {}
        self._edges: list[tuple[int, int]] = []
        self._edge_of: dict[tuple[int, int], int] = {}
        self._number: list[int] = []
        self._merged: dict[int, np.ndarray] = {}
        self._factors: list[tuple[tuple[int, ...], np.ndarray | Function]] = []
        n_labels = max(self._sizes, default=0)
        if len(n_states) * n_labels > self._limit:
            fail(
                f"{len(n_states)} variables with domains of up to {n_labels} values need {len(n_states) * n_labels} "
                f"scores, the limit is {self._limit}; refused."
            )

    def shape(self, scope: tuple[int, ...]) -> tuple[int, ...]:
        """Numbers of values of the variables of a scope."""
        return tuple(self._sizes[v] for v in scope)

    def spend(self, cells: int) -> None:
        """Count cells before they are made: small files can describe large tables."""
        self._cells += cells
        if self._cells > self._limit:
            self._fail(f"the functions have more than {self._limit} entries in all; refused.")

    def add(self, scope: tuple[int, ...], scores: np.ndarray) -> None:
        """Add a function by its scores, in any shape, the last variable fastest."""
        if len(scope) == 2:
            self.edge(scope, self.table(scores.reshape(self.shape(scope))))
        elif len(scope) == 1:
            self.unary(scope[0], scores.reshape(-1))
        elif not scope:
            self.constant(float(scores.reshape(-1)[0]))
        else:
            kept = tuple(
                v for v in scope if self._sizes[v] > 1
            )  # numpy has a limit on axes, which those of one value would fill
            if len(kept) < 3:
                return self.add(kept, scores)
            self._factors.append((kept, self._tables[self.table(scores.reshape(self.shape(kept)))]))

    def sparse(self, scope: tuple[int, ...], tuples: np.ndarray, scores: np.ndarray, default: float) -> SparseTable:
        """A function of many variables by its listed tuples; see `factor`."""
        self.spend(tuples.size + len(scores))
        return SparseTable(self.shape(scope), tuples, scores, default)

    def factor(self, scope: tuple[int, ...], function: Function) -> None:
        """Add a function of any number of variables; one or two make a table of it."""
        if len(scope) > 2:
            self._factors.append((scope, function))
        else:
            self.spend(product(self.shape(scope)))
            self.add(scope, function.dense(self.shape(scope)))

    def constant(self, score: float) -> None:
        """Add a score that every labelling has."""
        if score == -np.inf:
            self._fail("a function of no variables forbids everything, so no labelling exists.")
        self._offset = float(self._sum(np.array(self._offset), np.array(score)))

    def unary(self, v: int, scores: np.ndarray) -> None:
        """Add scores of one variable; several functions of it are summed."""
        self.spend(len(scores))
        self._unary[v] = self._sum(self._unary[v], scores) if v in self._unary else scores

    def table(self, scores: np.ndarray, spent: bool = False) -> int:
        """Number of a table in the bank; ``spent`` says that its cells are counted already."""
        key = (scores.shape, blake2b(scores.tobytes()).digest())
        if key not in self._known:
            if not spent:
                self.spend(scores.size)
            self._known[key] = len(self._tables)
            self._tables.append(scores)
        return self._known[key]

    def edge(self, scope: tuple[int, ...], table: int) -> None:
        """Add a function of two variables, given by the number of its table; several of the same two are summed."""
        u, v = scope
        if (u, v) not in self._edge_of and (v, u) not in self._edge_of:
            self._edge_of[u, v] = len(self._edges)
            self._edges.append((u, v))
            self._number.append(table)
            return
        flip = (u, v) not in self._edge_of
        e = self._edge_of[(v, u) if flip else (u, v)]
        own = self._merged[e] if e in self._merged else self._tables[self._number[e]]
        self.spend(own.size)
        self._merged[e] = self._sum(own, self._tables[table].T if flip else self._tables[table])

    def _sum(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        total = first + second
        if np.any(np.isfinite(total) & (np.abs(total) > LARGEST)):
            self._fail(f"functions with the same scope add up to more than {LARGEST} in size.")
        large = np.isfinite(total) & (np.abs(total) >= EXACT) & (first == np.rint(first)) & (second == np.rint(second))
        if any(int(a) + int(b) != int(c) for a, b, c in zip(first[large], second[large], total[large], strict=True)):
            self._fail("whole numbers of functions with the same scope add up to one beyond 2**53 that a float64 would round.")
        return np.asarray(total)

    def problem(self, path: str) -> Problem:
        """The problem of all that was added."""
        for e, scores in self._merged.items():
            self._number[e] = self.table(scores, spent=True)
        n_nodes, n_labels = len(self._sizes), max(self._sizes, default=0)
        used, number = np.unique(np.array(self._number, dtype=np.int64), return_inverse=True)
        cells = len(used) * n_labels**2 + n_nodes * n_labels
        if cells > self._limit:
            self._fail(
                f"{len(used)} different tables, padded to the largest domain of {n_labels} values, need {cells} "
                f"numbers, the limit is {self._limit}; refused."
            )
        unary = np.where(np.arange(n_labels) < self.n_states[:, None], 0.0, -np.inf)
        for v, scores in self._unary.items():
            unary[v, : len(scores)] = scores
        bank = np.zeros((len(used), n_labels, n_labels))
        for t, old in enumerate(used):
            rows, columns = self._tables[old].shape
            bank[t, :rows, :columns] = self._tables[old]
        unary, bank = own(unary), own(bank)
        try:
            return Problem(
                Graph.from_edges(np.array(self._edges, dtype=np.int64).reshape(-1, 2), n_nodes),
                unary,
                bank if len(used) else None,
                edge_table=number if len(used) else None,
                n_states=self.n_states,
                offset=self._offset,
                factors=self._factors or None,
            )
        except MaxsumError as error:
            raise ParseError(str(error), path) from error
