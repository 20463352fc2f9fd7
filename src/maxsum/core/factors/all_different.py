r"""All nodes have different labels: an assignment problem, whose linear program is its own proof.

With prices :math:`v_k` of the labels, and for fewer nodes than labels further nodes that take any label for nothing,

.. math:: \max_{y\text{ different}} \sum_i \psi_i(y_i) \le \sum_i \max_k [\psi_i(k) - v_k] + \sum_k v_k

for all prices, with equality at the best ones. So a bound never depends on whether the assignment was solved rightly.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import InvalidProblemError
from .function import UNIT, Function, Integers, Lift


class AllDifferent(Function):
    """0 if all nodes have different labels, ``-inf`` otherwise.

    Examples
    --------
    >>> import numpy as np, maxsum as ms
    >>> scores = np.array([[3.0, 2, 0], [3, 1, 0], [3, 0, 0]])
    >>> p = ms.Problem(ms.Graph.from_edges([], 3), scores, factors=[([0, 1, 2], ms.factors.AllDifferent())])
    >>> ms.solve(p).labels.tolist()
    [1, 2, 0]
    """

    def __repr__(self) -> str:
        return "AllDifferent()"

    def check(self, shape: tuple[int, ...], name: str) -> None:
        """Any nodes will do; more nodes than labels make the problem infeasible."""

    @property
    def numbers(self) -> np.ndarray:
        return np.zeros(1)

    @property
    def is_hard(self) -> bool:
        return True

    def values(self, labels: np.ndarray) -> np.ndarray:
        ordered = np.sort(labels, axis=1)
        return np.where((ordered[:, 1:] == ordered[:, :-1]).any(axis=1), -np.inf, 0.0)

    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        n, k = psi.shape
        solved = _assign(psi)
        if solved is None:
            return np.full(psi.shape, -np.inf)
        square, label, price = solved
        # Loss of moving node i from its label to another one, and what the nodes displaced by that lose in the best chain of moves.
        profit = square[np.arange(k), label] - price[label]
        loss = np.maximum(profit[:, None] - (square - price), 0.0)
        away = np.empty((k, k))
        away[label] = loss  # away[a, b]: the node with label a moves to b
        path = away.copy()
        np.fill_diagonal(path, 0.0)
        for middle in range(k):
            np.minimum(path, path[:, middle, None] + path[None, middle, :], out=path)
        best = float(square[np.arange(k), label].sum())
        with np.errstate(invalid="ignore"):
            return best - (loss[:n] + path[:, label[:n]].T)

    def top(self, psi: np.ndarray) -> float:
        n, k = psi.shape
        solved = _assign(psi)
        if solved is None:
            return -np.inf
        _, _, price = solved
        best = (psi - price).max(axis=1)
        free = (k - n) * float((-price).max())
        parts = [*best.tolist(), free, *price.tolist()]
        size = float(np.abs(best).sum() + abs(free) + np.abs(price).sum())
        return math.fsum(parts) + (4 * UNIT * size + 5e-324 if size else 0.0)

    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        n, k = len(psi), max(len(row) for row in psi)
        rows = [list(row) + [None] * (k - len(row)) for row in psi]
        finite = [abs(v) for row in rows for v in row if v is not None]
        shift = max(0, max(finite, default=0).bit_length() - 1000)  # floats are large enough for what is left
        floats = np.array([[-np.inf if v is None else float(v >> shift) for v in row] for row in rows])
        solved = _assign(floats)
        if solved is None:
            return None
        price = [int(p) << shift for p in np.rint(solved[2]).tolist()]
        best = sum(max(v - price[j] for j, v in enumerate(row) if v is not None) for row in rows)
        return best + (k - n) * max(-p for p in price) + sum(price)

    def support(self, domain: np.ndarray) -> np.ndarray:
        """Régin 1994: labels that are in some perfect matching; those in the same strong component as the label that a node has."""
        n, k = domain.shape
        label = _match(domain)
        if label is None:
            return np.zeros_like(domain)
        edges = np.ones((k, k), dtype=bool)
        edges[label[:n]] = domain
        part = _strong_components(edges)
        return domain & (part[None, :] == part[label[:n]][:, None])

    def lift_cells(self, shape: tuple[int, ...]) -> float:
        return float(max(shape))

    def lift(self, shape: tuple[int, ...]) -> Lift:
        """An edge between any two nodes, which forbids equal labels: the same labellings, and a weaker bound."""
        among = []
        for i in range(len(shape)):
            for j in range(i + 1, len(shape)):
                among.append((i, j, np.where(np.arange(shape[i])[:, None] == np.arange(shape[j]), -np.inf, 0.0)))
        return Lift([], [], [], lambda labels: [], among)

    def encode(self) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(0, dtype=np.int64), np.zeros(0)

    @classmethod
    def decode(cls, numbers: np.ndarray, scores: np.ndarray) -> Function:
        if len(numbers) or len(scores):
            raise InvalidProblemError(f"all-different has {len(numbers) + len(scores)} numbers, wanted none.")
        return cls()


_SMALL = 64
"""Labels up to which plain Python is faster than scipy, whose sparse matrices take half a millisecond to make."""


def _match(domain: np.ndarray) -> np.ndarray | None:
    """A label for every row and for every free row that takes any, all different (K,); None if the rows cannot have such."""
    n, k = domain.shape
    if n > k:
        return None
    found = _augment(domain) if k <= _SMALL else _match_sparse(domain)
    if found is None:
        return None
    return found if n == k else np.concatenate([found, np.setdiff1d(np.arange(k), found)])


def _augment(domain: np.ndarray) -> np.ndarray | None:
    """Matching by augmenting paths; rows with few labels first."""
    choices = [[label for label, has in enumerate(row) if has] for row in domain.tolist()]
    row_of = [-1] * domain.shape[1]

    def place(row: int, tried: set[int]) -> bool:
        for label in choices[row]:
            if label not in tried:
                tried.add(label)
                if row_of[label] < 0 or place(row_of[label], tried):
                    row_of[label] = row
                    return True
        return False

    for row in sorted(range(len(choices)), key=lambda r: len(choices[r])):
        if not place(row, set()):
            return None
    found = np.empty(len(choices), dtype=np.int64)
    for label, row in enumerate(row_of):
        if row >= 0:
            found[row] = label
    return found


def _match_sparse(domain: np.ndarray) -> np.ndarray | None:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_bipartite_matching

    found = np.asarray(maximum_bipartite_matching(csr_array(domain.astype(np.int8)), perm_type="column"))
    return None if (found < 0).any() else found


def _strong_components(edges: np.ndarray) -> np.ndarray:
    """A number for each vertex of a directed graph (K, K), the same for those that reach each other."""
    k = len(edges)
    if k <= _SMALL:
        reach = edges | np.eye(k, dtype=bool)
        for _ in range((k - 1).bit_length()):  # paths twice as long each time
            reach = reach @ reach
        return np.asarray((reach & reach.T).argmax(axis=1))
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    return np.asarray(connected_components(csr_array(edges.astype(np.int8)), directed=True, connection="strong")[1])


def _assign(psi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Square messages (free nodes have 0 for every label), the best assignment, and prices of the labels; None if there is none."""
    from scipy.optimize import linear_sum_assignment

    n, k = psi.shape
    if _match(psi > -np.inf) is None:
        return None
    square = np.vstack([psi, np.zeros((k - n, k))])
    label = np.asarray(linear_sum_assignment(-square)[1])
    held = square[np.arange(k), label]
    price = np.zeros(k)
    for _ in range(k):  # every round settles one more label of each chain of displacements
        raised = np.maximum(price, (price[label] - held + square.T).max(axis=1))
        if (raised == price).all():
            break
        price = raised
    return square, label, price
