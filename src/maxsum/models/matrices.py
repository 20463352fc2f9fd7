r"""Families of positive definite matrices :math:`W_p` that are linear in weights, with the projection onto the allowed weights.

All matrices act on the stacked labels of an edge's two ends and are kept in a bank (P, 2K, 2K): label ``k`` of the first end is
row ``k``, label ``l`` of the second is row ``K + l``. Ends with fewer labels leave rows of zeros.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import Real, check_value
from ..kernels.definite import clip_eigenvalues

STRICTLY = Real(above=0.0, below=np.inf, wanted="a number > 0, so that the energy is strictly convex")


class MatrixFamily(ABC):
    """Matrices as a linear function of weights.

    Parameters
    ----------
    shapes : ndarray of int, shape (P, 2)
        Labels of the first and of the second end of the edges that each matrix is for.
    n_labels : int
        K.
    floor : float
        Least eigenvalue, or least weight of the dictionary.
    """

    n_weights: int

    def __init__(self, shapes: np.ndarray, n_labels: int, floor: float):
        check_value("floor", floor, STRICTLY)
        self.shapes, self.n_labels, self.floor = shapes, n_labels, float(floor)
        self.places = [np.concatenate([np.arange(a), n_labels + np.arange(b)]) for a, b in shapes.tolist()]

    @property
    def size(self) -> tuple[int, int, int]:
        """Shape (P, 2K, 2K) of `bank`."""
        return len(self.shapes), 2 * self.n_labels, 2 * self.n_labels

    @abstractmethod
    def bank(self, w: np.ndarray) -> np.ndarray:
        """The matrices (P, 2K, 2K) of weights."""

    @abstractmethod
    def adjoint(self, gradient: np.ndarray) -> np.ndarray:
        """Gradient in the weights from that in the entries of the matrices; the adjoint of `bank`."""

    @abstractmethod
    def spread(self, values: np.ndarray) -> np.ndarray:
        """One value for each matrix as one for each weight."""

    @abstractmethod
    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest allowed weights."""

    @abstractmethod
    def pack(self, matrices: Any) -> np.ndarray:
        """Weights of given matrices, one (a + b, a + b) for each p."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of the weights."""


class Definite(MatrixFamily):
    r"""Form 2: every matrix with eigenvalues of at least the floor.

    The weights are the entries on and above the diagonal, those above it times :math:`\sqrt2`: so the norm of the weights is the
    Frobenius norm, and the projection clips eigenvalues.
    """

    def __init__(self, shapes: np.ndarray, n_labels: int, floor: float):
        super().__init__(shapes, n_labels, floor)
        row = 2 * n_labels
        entry, mirror, scale = [], [], []
        self.groups: list[tuple[int, np.ndarray]] = []
        by_size: dict[int, list[int]] = {}
        starts, at = [], 0
        for p, place in enumerate(self.places):
            i, j = np.triu_indices(len(place))
            entry.append((p * row + place[i]) * row + place[j])
            mirror.append((p * row + place[j]) * row + place[i])
            scale.append(np.where(i == j, 1.0, np.sqrt(0.5)))
            by_size.setdefault(len(place), []).append(p)
            starts.append(at)
            at += len(i)
        self.n_weights = at
        none = np.zeros(0, dtype=np.int64)
        self.entry, self.mirror = np.concatenate([none, *entry]), np.concatenate([none, *mirror])
        self.scale = np.concatenate([np.zeros(0), *scale])
        for size, numbers in by_size.items():
            if size:
                self.groups.append((size, np.array([starts[p] for p in numbers])))

    def bank(self, w: np.ndarray) -> np.ndarray:
        flat = np.zeros(int(np.prod(self.size)))
        flat[self.entry] = flat[self.mirror] = w * self.scale
        return flat.reshape(self.size)

    def adjoint(self, gradient: np.ndarray) -> np.ndarray:
        flat = gradient.reshape(-1)
        both = flat[self.entry] + flat[self.mirror]
        return np.where(self.entry == self.mirror, 0.5 * both, both) * self.scale

    def spread(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, [len(place) * (len(place) + 1) // 2 for place in self.places])

    def project(self, w: np.ndarray) -> np.ndarray:
        out = np.array(w, dtype=np.float64)
        for size, starts in self.groups:
            clip_eigenvalues(out, starts, size, self.floor)
        return out

    def pack(self, matrices: Any) -> np.ndarray:
        parts = []
        for p, (place, given) in enumerate(zip(self.places, _listed(matrices, len(self.places)), strict=True)):
            matrix = check_definite(given, f"matrix {p}", len(place), self.floor)
            i, j = np.triu_indices(len(place))
            parts.append(matrix[i, j] / np.where(i == j, 1.0, np.sqrt(0.5)))
        return np.concatenate([np.zeros(0), *parts])

    def names(self) -> list[str]:
        return [
            f"W{p}({i}, {j})" for p, place in enumerate(self.places) for i, j in zip(*np.triu_indices(len(place)), strict=True)
        ]


class Dictionary(MatrixFamily):
    r"""Form 1: :math:`W_p = D_p^\top \operatorname{diag}(w_p) D_p` with weights of at least the floor.

    Parameters
    ----------
    rows : array-like, shape (m, a + b), or list of one for each p, optional
        The matrix :math:`D_p`. By default each label of each end, and for ends with the same labels also the difference and the sum
        of each label at both ends: the smoothness terms of the logistic random field.
    """

    def __init__(self, shapes: np.ndarray, n_labels: int, floor: float, rows: Any = None):
        super().__init__(shapes, n_labels, floor)
        if rows is None:
            own = [_default_rows(a, b) for a, b in shapes.tolist()]
        else:
            own = [_checked_rows(given, p, len(self.places[p])) for p, given in enumerate(_listed(rows, len(shapes)))]
        self.sizes = [len(one) for one in own]
        self.n_weights = sum(self.sizes)
        self.which = np.repeat(np.arange(len(own)), self.sizes)
        self.rows = np.zeros((self.n_weights, 2 * n_labels))
        at = 0
        for one, place in zip(own, self.places, strict=True):
            self.rows[at : at + len(one)][:, place] = one
            at += len(one)

    def bank(self, w: np.ndarray) -> np.ndarray:
        out, at = np.zeros(self.size), 0
        for p, m in enumerate(self.sizes):
            rows = self.rows[at : at + m]
            out[p] = rows.T @ (w[at : at + m, None] * rows)
            at += m
        return out

    def adjoint(self, gradient: np.ndarray) -> np.ndarray:
        parts, at = [np.zeros(0)], 0
        for p, m in enumerate(self.sizes):
            rows = self.rows[at : at + m]
            parts.append(np.einsum("mi,mi->m", rows @ gradient[p], rows))
            at += m
        return np.concatenate(parts)

    def spread(self, values: np.ndarray) -> np.ndarray:
        return np.repeat(values, self.sizes)

    def project(self, w: np.ndarray) -> np.ndarray:
        return np.maximum(w, self.floor)

    def pack(self, matrices: Any) -> np.ndarray:
        raise InvalidSampleError("a dictionary has weights, not matrices; give the weights of its rows.")

    def names(self) -> list[str]:
        return [f"D{p}({i})" for p, m in enumerate(self.sizes) for i in range(m)]


class NoMatrices(MatrixFamily):
    """No pairwise matrices at all, for energies of form 4 only."""

    n_weights = 0

    def bank(self, w: np.ndarray) -> np.ndarray:
        return np.zeros(self.size)

    def adjoint(self, gradient: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def spread(self, values: np.ndarray) -> np.ndarray:
        return np.zeros(0)

    def project(self, w: np.ndarray) -> np.ndarray:
        return w

    def pack(self, matrices: Any) -> np.ndarray:
        return np.zeros(0)

    def names(self) -> list[str]:
        return []


def check_definite(given: Any, what: str, size: int | None = None, floor: float = 0.0) -> np.ndarray:
    """A symmetric matrix with eigenvalues of at least ``floor``.

    Raises
    ------
    InvalidSampleError
        If it is not symmetric, or an eigenvalue is below the floor by more than rounding.
    """
    matrix = np.array(given, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or (size is not None and len(matrix) != size):
        wanted = "a square matrix" if size is None else f"({size}, {size})"
        raise InvalidSampleError(f"{what} has shape {matrix.shape}, wanted {wanted}.")
    if not np.isfinite(matrix).all():
        raise InvalidSampleError(f"{what} holds {matrix[~np.isfinite(matrix)][0]}, wanted finite numbers.")
    largest = float(np.abs(matrix).max(initial=0.0))
    skew = float(np.abs(matrix - matrix.T).max(initial=0.0))
    if skew > 1e-9 * largest:
        raise InvalidSampleError(f"{what} is not symmetric: entries differ by {skew:.3g}. Pass (M + M.T) / 2.")
    matrix = 0.5 * (matrix + matrix.T)
    low = float(np.linalg.eigvalsh(matrix)[0]) if len(matrix) else floor
    if low < floor - 1e-9 * max(largest, floor):
        kind = "positive definite" if floor > 0 else "positive semidefinite"
        raise InvalidSampleError(
            f"{what} is not {kind}: its smallest eigenvalue is {low:.6g}, wanted at least {floor:g}. Add {floor - low:.6g} to its "
            "diagonal, or project it."
        )
    return matrix


def _listed(given: Any, n: int) -> list[Any]:
    """One item for each of ``n``; a single matrix is for all of them."""
    many = list(given) if np.ndim(given[0]) == 2 else [given] * n
    if len(many) != n:
        raise InvalidSampleError(f"there are {len(many)} matrices, wanted {n}: one for each edge type and feature.")
    return many


def _default_rows(a: int, b: int) -> np.ndarray:
    own = np.eye(a + b)
    if a != b:
        return own
    first, second = own[:a], own[a:]
    return np.concatenate([own, first - second, first + second])


def _checked_rows(given: Any, p: int, size: int) -> np.ndarray:
    rows = np.array(given, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != size or not len(rows) or not np.isfinite(rows).all():
        raise InvalidParameterError(
            f"dictionary {p} has shape {rows.shape}, wanted finite numbers of shape (m, {size}), m >= 1."
        )
    return rows
