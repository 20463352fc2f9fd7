"""The cone of allowed weights: non-negative entries and supermodular tables."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, vstack

from ..core.errors import InvalidProblemError
from ..kernels import cone as kernel


class Projection(NamedTuple):
    """``weights = u + nonneg + rows.T @ rows_multipliers``, the nearest point of the cone.

    Attributes
    ----------
    weights : ndarray, shape (P,)
    nonneg : ndarray, shape (P,)
        Multipliers of ``w >= 0``; zero where a weight has no sign constraint.
    rows : ndarray, shape (R,)
        Multipliers of ``rows @ w >= 0``.
    """

    weights: np.ndarray
    nonneg: np.ndarray
    rows: np.ndarray


class _Group(NamedTuple):
    """Tables of one shape and one pattern of ties."""

    weights: np.ndarray  # int64 (T, n): the weights of each table
    local: csr_array  # (r, n): the rows of one table on its own weights
    band: np.ndarray  # (r, width): lower diagonals of local @ local.T
    rows: np.ndarray  # int64 (T, r): where its rows are among all


class Cone:
    r"""Weights that are allowed: ``w[nonneg] >= 0``, and every table of weights is supermodular,

    .. math:: g(k, l) + g(k + 1, l + 1) - g(k, l + 1) - g(k + 1, l) \ge 0,

    inequalities (8) of the 2008 paper. No weight is in two tables, or in a table and non-negative as well. A table may be
    symmetric (``g(k, l)`` and ``g(l, k)`` one weight); then the rows of cells ``k <= l`` are kept.

    Parameters
    ----------
    n_weights : int
    nonneg : array-like of bool, shape (P,), optional
        None by default.
    tables : array-like of int, shape (T, K, L), or iterable of 2-D arrays
        Indices of weights.

    Attributes
    ----------
    rows : csr_array, shape (R, P)
        The inequalities of the tables, ``rows @ w >= 0``.
    """

    def __init__(self, n_weights: int, nonneg: Any = None, tables: Iterable[Any] = ()):
        self.n_weights = int(n_weights)
        mask = np.zeros(self.n_weights, dtype=bool) if nonneg is None else np.array(nonneg)
        if mask.shape != (self.n_weights,) or mask.dtype != bool:
            raise InvalidProblemError(
                f"nonneg of the cone has shape {mask.shape} and type {mask.dtype}; wanted one bool for each of {self.n_weights} "
                "weights. For a list of indices use Cone.nonnegative."
            )
        self.nonneg = mask
        self.nonneg.setflags(write=False)
        self.tables = tuple(_checked(table, self.n_weights, number) for number, table in enumerate(tables))
        _reject_shared(self.tables, self.nonneg)
        quads: list[np.ndarray] = []
        groups: dict[tuple[Any, ...], tuple[list[Any], list[Any]]] = {}
        shapes: dict[tuple[Any, ...], tuple[csr_array, np.ndarray]] = {}
        at = 0
        for table in self.tables:
            symmetric = _is_symmetric(table)
            own = _quads(table, symmetric)
            quads.append(own)
            shape = (*table.shape, symmetric)
            if shape not in shapes:
                shapes[shape] = _pattern(*shape)
                groups[shape] = ([], [])
            groups[shape][0].append(table[np.triu_indices(len(table))] if symmetric else table.ravel())
            groups[shape][1].append(at + np.arange(len(own)))
            at += len(own)
        self._quads = np.concatenate(quads) if quads else np.zeros((0, 4), dtype=np.int64)
        self._groups = [_Group(np.array(w), *shapes[shape], np.array(r)) for shape, (w, r) in groups.items() if len(r[0])]

    @classmethod
    def free(cls, n_weights: int) -> Cone:
        """Every vector."""
        return cls(n_weights)

    @classmethod
    def nonnegative(cls, n_weights: int, indices: Any) -> Cone:
        """``w[indices] >= 0``."""
        indices = np.asarray(indices, dtype=np.int64).reshape(-1)
        if len(indices) and not (indices.min() >= 0 and indices.max() < n_weights):
            raise InvalidProblemError(
                f"non-negative weights {indices.min()} to {indices.max()}: the cone has weights 0 to {n_weights - 1}"
            )
        mask = np.zeros(n_weights, dtype=bool)
        mask[indices] = True
        return cls(n_weights, mask)

    @classmethod
    def supermodular(cls, n_weights: int, tables: Any) -> Cone:
        """Tables of weights, ``tables[t, k, l]`` the index of ``g_t(k, l)``, are supermodular."""
        return cls(n_weights, None, tables)

    @cached_property
    def rows(self) -> csr_array:
        n_rows = len(self._quads)
        sign = np.tile([1.0, 1.0, -1.0, -1.0], n_rows)
        place = (np.repeat(np.arange(n_rows), 4), self._quads.ravel())
        rows = csr_array((sign, place), shape=(n_rows, self.n_weights))
        rows.sum_duplicates()
        return rows

    @cached_property
    def matrix(self) -> csr_array:
        """All inequalities ``A w >= 0``: the signs of the non-negative weights, then ``rows``."""
        signed = np.flatnonzero(self.nonneg)
        place = (np.arange(len(signed)), signed)
        signs = csr_array((np.ones(len(signed)), place), shape=(len(signed), self.n_weights))
        return csr_array(vstack([signs, self.rows], format="csr"))

    @property
    def is_free(self) -> bool:
        """Whether all weights are allowed."""
        return not self.nonneg.any() and not len(self._quads)

    def __repr__(self) -> str:
        return f"Cone({self.n_weights} weights, {int(self.nonneg.sum())} non-negative, {len(self._quads)} rows)"

    def contains(self, weights: Any, tol: float = 0.0) -> bool:
        """Whether no inequality is violated by more than ``tol``; with 0, exactly as `MaxFlow` tests tables. In plain numpy."""
        w = self._vector(weights)
        if tol == 0:
            a, d, b, c = w[self._quads.T]
            both = a + d
            holds = (both >= b + c) & ((both - b) - c >= 0) & ((both - c) - b >= 0)
            return not (w[self.nonneg] < 0).any() and bool(holds.all())
        return not (w[self.nonneg] < -tol).any() and not (self.rows @ w < -tol).any()

    def project(self, u: Any, start: np.ndarray | None = None) -> Projection:
        r"""The nearest point of the cone, and the multipliers that prove it.

        .. math:: w = u + \mu_{nonneg} + rows^T \mu_{rows}, \quad \mu \ge 0, \quad \mu^T (A w) = 0.

        Tables are independent. Each is a linear complementarity problem with ``G = D D^T``, solved exactly (up to rounding) by
        block principal pivoting with a banded Cholesky factor: about ``4 K**4`` operations a round, few rounds.

        Parameters
        ----------
        u : array-like, shape (P,)
        start : ndarray, shape (R,), optional
            Multipliers of an earlier projection; their support is the first guess.
        """
        w = self._vector(u).copy()
        below = np.where(self.nonneg, np.maximum(-w, 0.0), 0.0)
        w[self.nonneg] = np.maximum(w[self.nonneg], 0.0)
        multipliers = np.zeros(len(self._quads))
        if start is not None and np.shape(start) != multipliers.shape:
            raise InvalidProblemError(
                f"start of the projection has shape {np.shape(start)}; wanted the multipliers of {len(multipliers)} rows"
            )
        for group in self._groups:
            own = w[group.weights]
            targets = np.ascontiguousarray((group.local @ own.T).T)
            if group.band.shape[0] == 1:
                found = np.maximum(-targets / group.band[0, 0], 0.0)
            elif not (targets < 0).any():
                continue
            else:
                found = np.zeros_like(targets) if start is None else np.array(start[group.rows], dtype=float)
                self._pivot(group, targets, found)
            w[group.weights] = own + (group.local.T @ found.T).T
            multipliers[group.rows] = found
        return Projection(w, below, multipliers)

    @staticmethod
    def _pivot(group: _Group, targets: np.ndarray, found: np.ndarray) -> None:
        if not kernel.project_duals(group.band, targets, found, 100 + 3 * len(group.band)):
            return
        from scipy.optimize import nnls

        dense = group.local.toarray()
        lift = np.linalg.lstsq(dense, targets.T, rcond=None)[0]
        for t in range(len(targets)):
            if _residual(dense, targets[t], found[t]) > 1e-12:
                other = nnls(dense.T, -lift[:, t], maxiter=100 * len(group.band))[0]
                found[t] = min(found[t], other, key=lambda mu, t=t: _residual(dense, targets[t], mu))  # type: ignore[misc]

    def multipliers(self, u: Any) -> np.ndarray:
        """Multipliers ``mu`` of `matrix` with ``project(u) = u + matrix.T @ mu``."""
        found = self.project(u)
        return np.concatenate([found.nonneg[self.nonneg], found.rows])

    def repair(self, weights: Any) -> np.ndarray:
        """Weights near ``weights`` that satisfy every inequality exactly in floating point.

        What holds exactly is returned as it is. Otherwise the projection is taken, and what rounding has left is removed by
        raising corners of cells by a few ulps.
        """
        w = self._vector(weights)
        if self.contains(w):
            return w.copy()
        w = self.project(w).weights
        kernel.raise_corners(w, self._quads)
        return w

    def _vector(self, weights: Any) -> np.ndarray:
        w = np.ascontiguousarray(weights, dtype=np.float64)
        if w.shape != (self.n_weights,):
            raise InvalidProblemError(f"weights have shape {w.shape}; the cone is one of {self.n_weights} weights")
        if not np.isfinite(w).all():
            i = int(np.argmin(np.isfinite(w)))
            raise InvalidProblemError(f"weight {i} is {w[i]}; wanted finite numbers")
        return w


def _checked(table: Any, n_weights: int, number: int) -> np.ndarray:
    table = np.asarray(table)
    if table.ndim != 2 or table.dtype.kind not in "iu":
        raise InvalidProblemError(
            f"table {number} of the cone has shape {table.shape} and type {table.dtype}; wanted a matrix of weight indices"
        )
    if table.size and not (table.min() >= 0 and table.max() < n_weights):
        raise InvalidProblemError(
            f"table {number} of the cone has indices {table.min()} to {table.max()}; wanted 0 to {n_weights - 1}"
        )
    if len(np.unique(table)) < table.size and not _is_symmetric(table):
        raise InvalidProblemError(
            f"table {number} of the cone uses a weight twice; wanted distinct weights, or a symmetric table with distinct ones"
        )
    return table.astype(np.int64)


def _is_symmetric(table: np.ndarray) -> bool:
    rows, cols = table.shape
    return bool(rows == cols > 1 and (table == table.T).all() and len(np.unique(table)) == rows * (rows + 1) // 2)


def _reject_shared(tables: tuple[np.ndarray, ...], nonneg: np.ndarray) -> None:
    if not tables:
        return
    used = np.concatenate([np.unique(table) for table in tables])
    count = np.bincount(used, minlength=len(nonneg)) + nonneg
    twice = np.flatnonzero((count > 1) & (np.bincount(used, minlength=len(nonneg)) > 0))
    if len(twice):
        raise InvalidProblemError(
            f"weight {twice[0]} of the cone is in two tables, or in a table and non-negative; wanted one kind of constraint"
        )


def _cells(n_rows: int, n_cols: int, symmetric: bool) -> np.ndarray:
    """Cells ``(k, l)`` row after row; the upper half of a symmetric table."""
    cells = np.stack(np.meshgrid(np.arange(n_rows - 1), np.arange(n_cols - 1), indexing="ij"), axis=-1).reshape(-1, 2)
    return cells[cells[:, 0] <= cells[:, 1]] if symmetric else cells


def _quads(table: np.ndarray, symmetric: bool) -> np.ndarray:
    k, m = _cells(table.shape[0], table.shape[1], symmetric).T
    return np.stack([table[k, m], table[k + 1, m + 1], table[k, m + 1], table[k + 1, m]], axis=1)


def _pattern(n_rows: int, n_cols: int, symmetric: bool) -> tuple[csr_array, np.ndarray]:
    """The rows of one table on its own weights, and the lower diagonals of their Gram matrix."""
    local = np.arange(n_rows * n_cols).reshape(n_rows, n_cols)
    if symmetric:
        upper = np.triu_indices(n_rows)
        local[upper] = np.arange(len(upper[0]))
        local.T[upper] = np.arange(len(upper[0]))
    quads = _quads(local, symmetric)
    place = (np.repeat(np.arange(len(quads)), 4), quads.ravel())
    rows = csr_array((np.tile([1.0, 1.0, -1.0, -1.0], len(quads)), place), shape=(len(quads), int(local.max(initial=-1)) + 1))
    rows.sum_duplicates()
    gram = (rows @ rows.T).tocoo()
    apart = gram.row - gram.col
    band = np.zeros((len(quads), int(apart.max(initial=0)) + 1))
    low = apart >= 0
    band[gram.row[low], apart[low]] = gram.data[low]
    return rows, band


def _residual(rows: np.ndarray, target: np.ndarray, mu: np.ndarray) -> float:
    """Violation of ``s = target + G mu >= 0`` and ``s' mu = 0``, relative to the target."""
    slack = target + rows @ (rows.T @ mu)
    scale = max(float(np.abs(target).max(initial=0.0)), 1e-300)
    return float(max(-slack.min(initial=0.0), np.minimum(np.abs(slack), mu).max(initial=0.0)) / scale)
