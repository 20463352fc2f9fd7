"""Node features: from what a sample holds to one row of numbers a node."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidSampleError, NotFittedError
from .sample import GraphSample

Matrix = Any


@dataclass(frozen=True)
class NodeFeatures(ABC):
    """How the observations of a node become a row of numbers.

    `fit` returns a copy that knows its columns from training samples; `encode` then turns samples into one matrix.
    """

    kind = ""

    @property
    @abstractmethod
    def n_features(self) -> int: ...

    @property
    def names(self) -> list[str]:
        return [f"x{i}" for i in range(self.n_features)]

    @abstractmethod
    def fit(self, samples: Sequence[GraphSample]) -> NodeFeatures: ...

    def encode(self, samples: Sequence[GraphSample]) -> Matrix:
        """Matrix (all nodes of all samples, n_features): a dense array or a CSR one."""
        _check_kind(samples, self.kind)
        return self._encode(samples)

    @abstractmethod
    def _encode(self, samples: Sequence[GraphSample]) -> Matrix: ...


def auto(samples: Sequence[GraphSample]) -> NodeFeatures:
    """The features that the first sample with nodes asks for."""
    kind = next((sample.kind for sample in samples if sample.n_nodes), "dense")
    return {"codes": Codes(), "dense": Dense(), "sparse": Sparse(), "dicts": Dicts()}[kind]


@dataclass(frozen=True)
class Codes(NodeFeatures):
    """Integer codes: a weight for each code and label, the table :math:`q(x, y)`.

    Parameters
    ----------
    n_codes : int, optional
        Codes are ``0 .. n_codes - 1``; by default up to the largest one in training.
    """

    n_codes: int | None = None
    kind = "codes"

    @property
    def n_features(self) -> int:
        return _known(self.n_codes)

    @property
    def names(self) -> list[str]:
        return [f"x={i}" for i in range(self.n_features)]

    def fit(self, samples: Sequence[GraphSample]) -> Codes:
        if self.n_codes is not None:
            return self
        return replace(self, n_codes=1 + max((int(s.X.max()) for s in samples if s.n_nodes and s.kind == "codes"), default=0))

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        for j, sample in enumerate(samples):
            if sample.n_nodes and sample.X.max() >= self.n_features:
                node = int(sample.X.argmax())
                raise InvalidSampleError(
                    f"sample {j} has code {sample.X[node]} at node {node}; known are 0..{self.n_features - 1}. "
                    "Declare more with Codes(n_codes=...)."
                )
        codes = np.concatenate([np.zeros(0, dtype=np.int64)] + [sample.X for sample in samples if sample.n_nodes])
        return sparse.csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)), shape=(len(codes), self.n_features))


@dataclass(frozen=True)
class Dense(NodeFeatures):
    """Real features, as they are."""

    width: int | None = None
    kind = "dense"

    @property
    def n_features(self) -> int:
        return _known(self.width)

    def fit(self, samples: Sequence[GraphSample]) -> NodeFeatures:
        return self if self.width is not None else replace(self, width=_width(samples, self.kind))

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        _check_width(samples, self.n_features)
        return np.concatenate([np.zeros((0, self.n_features))] + [sample.X for sample in samples if sample.n_nodes])


@dataclass(frozen=True)
class Sparse(Dense):
    """Sparse features (CSR); explicit zeros are dropped."""

    kind = "sparse"

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        _check_width(samples, self.n_features)
        rows = [sparse.csr_array((0, self.n_features))] + [sparse.csr_array(sample.X) for sample in samples if sample.n_nodes]
        matrix = sparse.csr_array(sparse.vstack(rows, format="csr"))
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix


@dataclass(frozen=True)
class Dicts(NodeFeatures):
    """Dicts of features: ``{"length": 3, "word": "dog"}`` has the features ``length`` (3) and ``word=dog`` (1).

    Features that training has not seen are passed over.
    """

    vocabulary: tuple[str, ...] | None = None
    kind = "dicts"

    @property
    def n_features(self) -> int:
        return len(_known(self.vocabulary))

    @property
    def names(self) -> list[str]:
        return list(_known(self.vocabulary))

    def fit(self, samples: Sequence[GraphSample]) -> Dicts:
        if self.vocabulary is not None:
            return self
        _check_kind(samples, self.kind)
        return replace(self, vocabulary=tuple(sorted({name for _, _, name, _ in _items(samples)})))

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        column = {name: i for i, name in enumerate(self.names)}
        found = ((row, column[name], value) for row, _, name, value in _items(samples) if name in column)
        return _matrix(found, sum(sample.n_nodes for sample in samples), self.n_features)


@dataclass(frozen=True)
class Hashed(NodeFeatures):
    """Dicts of features hashed into a fixed number of columns, with signs, so that no vocabulary is kept."""

    width: int = 2**18
    kind = "dicts"

    @property
    def n_features(self) -> int:
        return self.width

    def fit(self, samples: Sequence[GraphSample]) -> Hashed:
        return self

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        def hashed() -> Iterable[tuple[int, int, float]]:
            for row, _, name, value in _items(samples):
                code = zlib.crc32(name.encode())
                yield row, (code >> 1) % self.width, value if code & 1 else -value

        return _matrix(hashed(), sum(sample.n_nodes for sample in samples), self.width)


@dataclass(frozen=True)
class Kernel(NodeFeatures):
    r"""Kernel expansion on a basis of observations: feature :math:`i` of a node is :math:`k(x, b_i)`, as in 003 §7.3.

    Parameters
    ----------
    kernel : {"rbf", "poly", "linear", "precomputed"} or callable
        :math:`e^{-\gamma\|x - b\|^2}`, :math:`(\gamma\langle x, b\rangle + c)^p`, or a function of two matrices. With
        ``precomputed`` the observations are rows of the kernel matrix already.
    gamma : float, optional
        ``1 / n_features`` by default.
    basis : array-like or int, optional
        Basis observations, or how many of the training observations to draw; all of them by default.
    seed : int
        For drawing the basis.
    """

    kernel: str | Callable[[np.ndarray, np.ndarray], np.ndarray] = "rbf"
    gamma: float | None = None
    degree: int = 3
    coef0: float = 1.0
    basis: Any = None
    seed: int = 0
    kind = "dense"

    @property
    def n_features(self) -> int:
        return len(_known(self.basis)) if self.kernel != "precomputed" else _known(self.basis)

    @property
    def names(self) -> list[str]:
        return [f"k{i}" for i in range(self.n_features)]

    def fit(self, samples: Sequence[GraphSample]) -> Kernel:
        if self.kernel == "precomputed":
            return replace(self, basis=_width(samples, self.kind))
        if not callable(self.kernel) and self.kernel not in ("rbf", "poly", "linear"):
            raise InvalidSampleError(f"kernel is {self.kernel!r}, wanted rbf, poly, linear, precomputed or a function.")
        observed = Dense().fit(samples).encode(samples)
        if self.basis is None:
            basis = observed
        elif isinstance(self.basis, (int, np.integer)):
            chosen = np.random.default_rng(self.seed).choice(len(observed), min(int(self.basis), len(observed)), replace=False)
            basis = observed[np.sort(chosen)]
        else:
            basis = np.array(self.basis, dtype=np.float64)
            if basis.ndim != 2 or basis.shape[1] != observed.shape[1] or not np.isfinite(basis).all():
                raise InvalidSampleError(f"basis has shape {basis.shape}, wanted finite rows of {observed.shape[1]} features.")
        gamma = 1.0 / max(1, observed.shape[1]) if self.gamma is None else float(self.gamma)
        return replace(self, basis=basis, gamma=gamma)

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        if self.kernel == "precomputed":
            return Dense(self.n_features)._encode(samples)
        basis = _known(self.basis)
        x = Dense(basis.shape[1])._encode(samples)
        if callable(self.kernel):
            value = np.asarray(self.kernel(x, basis), dtype=np.float64)
            if value.shape != (len(x), len(basis)) or not np.isfinite(value).all():
                raise InvalidSampleError(
                    f"the kernel function returned shape {value.shape}, wanted finite numbers of shape {(len(x), len(basis))}."
                )
            return value
        product = x @ basis.T
        if self.kernel == "linear":
            return product
        if self.kernel == "poly":
            return (self.gamma * product + self.coef0) ** self.degree
        distance = (x**2).sum(axis=1)[:, None] + (basis**2).sum(axis=1) - 2 * product
        return np.exp(-self.gamma * np.maximum(distance, 0.0))  # type: ignore[operator]


def _known(value: Any) -> Any:
    if value is None:
        raise NotFittedError("these node features were not fitted; call fit(samples) first.")
    return value


def _check_kind(samples: Sequence[GraphSample], kind: str) -> None:
    for j, sample in enumerate(samples):
        if sample.kind != kind and sample.n_nodes:
            raise InvalidSampleError(f"sample {j} has {sample.kind} observations, but the model was given {kind} ones.")


def _width(samples: Sequence[GraphSample], kind: str) -> int:
    for j, sample in enumerate(samples):
        if sample.kind == kind and sample.n_nodes:
            return int(sample.X.shape[1])
        if sample.n_nodes:
            raise InvalidSampleError(f"sample {j} has {sample.kind} observations, wanted {kind} ones.")
    return 0


def _check_width(samples: Sequence[GraphSample], width: int) -> None:
    for j, sample in enumerate(samples):
        if sample.n_nodes and sample.X.shape[1] != width:
            raise InvalidSampleError(f"sample {j} has {sample.X.shape[1]} features a node, but the model has {width}.")


def _items(samples: Sequence[GraphSample]) -> Iterable[tuple[int, int, str, float]]:
    """(row over all samples, sample, name, value) of each feature."""
    row = 0
    for j, sample in enumerate(samples):
        for node, features in enumerate(sample.X):
            if not isinstance(features, Mapping):
                raise InvalidSampleError(f"sample {j}, node {node} is a {type(features).__name__}, wanted a dict of features.")
            for name, value in features.items():
                if isinstance(value, str):
                    yield row, j, f"{name}={value}", 1.0
                elif isinstance(value, (bool, int, float, np.number)) and np.isfinite(value):
                    yield row, j, str(name), float(value)
                else:
                    raise InvalidSampleError(
                        f"sample {j}, node {node}, feature {name!r} is {value!r}, wanted a finite number or a string."
                    )
            row += 1


def _matrix(items: Iterable[tuple[int, int, float]], n_rows: int, n_columns: int) -> Matrix:
    entries = list(items)
    row, column, value = zip(*entries, strict=True) if entries else ((), (), ())
    matrix = sparse.csr_array(
        sparse.coo_array(
            (np.array(value, dtype=np.float64), (np.array(row, dtype=np.int64), np.array(column, dtype=np.int64))),
            shape=(n_rows, n_columns),
        )
    )
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix
