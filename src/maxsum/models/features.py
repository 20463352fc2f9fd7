"""Node features: from what a sample holds to one row of numbers a node."""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError, InvalidSampleError, NotFittedError
from ..core.parameters import WholeNumber, check, settings
from .batch import Batch
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
    def n_features(self) -> int:
        """Number of columns."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [f"x{i}" for i in range(self.n_features)]

    @abstractmethod
    def fit(self, samples: Sequence[GraphSample]) -> NodeFeatures:
        """A copy that knows its columns from training samples."""

    def encode(self, samples: Sequence[GraphSample]) -> Matrix:
        """Matrix (all nodes of all samples, n_features): a dense array or a CSR one."""
        if isinstance(samples, Batch):
            samples = samples.union()
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
        if len(samples) == 1 and isinstance(samples[0].X, sparse.csr_array) and samples[0].X.has_canonical_format:
            return samples[0].X
        rows = [sparse.csr_array((0, self.n_features))] + [sparse.csr_array(sample.X) for sample in samples if sample.n_nodes]
        matrix = sparse.csr_array(sparse.vstack(rows, format="csr"))
        matrix.eliminate_zeros()
        matrix.sort_indices()
        return matrix


@dataclass(frozen=True)
class Dicts(NodeFeatures):
    """Dicts of features: ``{"length": 3, "word": "dog"}`` has the features ``length`` (3) and ``word=dog`` (1).

    The forms of CRFsuite are taken as well: a list or set of strings names features of value 1, also as a value in a dict
    (``{"suffix": ["s", "gs"]}`` has ``suffix=s`` and ``suffix=gs``), and a dict inside a dict has its name before those of its own
    features (``{"next": {"word": "dog"}}`` has ``next:word=dog``). Features that training has not seen are passed over.

    Parameters
    ----------
    vocabulary : tuple of str, optional
        Names of the features; by default those of the training samples, in the order in which they first occur there, so that
        weights which are used together are near each other in memory.
    min_count : int
        Leave out features that fewer nodes of the training samples have; no effect on a vocabulary that is given.
    """

    vocabulary: tuple[str, ...] | None = None
    min_count: int = 1
    kind = "dicts"

    _parameters = settings(min_count=WholeNumber(1))

    def __post_init__(self) -> None:
        check(self)

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
        number: dict[str, int] = {}
        found = _columns(samples, lambda name: number.setdefault(name, len(number)))
        if self.min_count == 1:
            return replace(self, vocabulary=tuple(number))
        rows, n_rows = found.rows, len(found.ends)
        pairs = np.unique(found.columns * n_rows + rows)
        count = np.bincount(pairs // max(1, n_rows), minlength=len(number))
        return replace(self, vocabulary=tuple(name for name, c in zip(number, count, strict=True) if c >= self.min_count))

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        column = {name: i for i, name in enumerate(self.names)}
        found = _columns(samples, lambda name: column.get(name, -1))
        seen = found.columns >= 0
        return _matrix(found.rows[seen], found.columns[seen], found.values[seen], (len(found.ends), self.n_features))


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
        found = _columns(samples, lambda name: zlib.crc32(name.encode()))
        value = np.where(found.columns & 1, found.values, -found.values)
        return _matrix(found.rows, (found.columns >> 1) % self.width, value, (len(found.ends), self.width))


@dataclass(frozen=True)
class Kernel(NodeFeatures):
    r"""Kernel expansion on a basis of observations: feature :math:`i` of a node is :math:`k(x, b_i)`, as in Franc & Savchynskyy 2008, §7.3.

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
            raise InvalidParameterError(f"kernel is {self.kernel!r}, wanted rbf, poly, linear, precomputed or a function.")
        observed = Dense().fit(samples).encode(samples)
        if self.basis is None:
            basis = observed
        elif isinstance(self.basis, (int, np.integer)):
            chosen = np.random.default_rng(self.seed).choice(len(observed), min(int(self.basis), len(observed)), replace=False)
            basis = observed[np.sort(chosen)]
        else:
            basis = np.array(self.basis, dtype=np.float64)
            if basis.ndim != 2 or basis.shape[1] != observed.shape[1] or not np.isfinite(basis).all():
                raise InvalidParameterError(
                    f"basis has shape {basis.shape}, wanted finite rows of {observed.shape[1]} features."
                )
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
                raise InvalidParameterError(
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


@dataclass(frozen=True)
class KernelMap(Kernel):
    r"""Features whose products are the kernel: :math:`\langle\phi(x), \phi(x')\rangle = k(x, x')` on the basis.

    With all training nodes as basis (the default) the weights of label ``k`` are a support vector expansion (12) of Taskar, Chatalbashev & Koller 2004,

    .. math:: w_k = \sum_i (C \hat y_i^k - \mu_i^k)\,\phi(x_i),\qquad \langle w_k, \phi(x)\rangle = \sum_i (C \hat y_i^k - \mu_i^k)\,k(x_i, x),

    and :math:`\|w_k\|` is its norm in the space of the kernel, as in the dual (11) with products replaced by kernels. With
    :math:`G = U \Lambda U^\top` the kernel matrix of the basis, :math:`\phi(x) = \Lambda^{-1/2} U^\top k(B, x)`. A part of the training
    nodes as basis gives the approximation of Nyström.

    Parameters are those of `Kernel`, without ``precomputed``. `Kernel` itself penalises the coefficients of the expansion instead.

    Examples
    --------
    The label of a node says whether both of its features have the same sign, which no linear score can tell:

    >>> import numpy as np, maxsum as ms
    >>> x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    >>> samples, y = [ms.GraphSample(x, ms.Graph.chain(4))], [[1, 0, 1, 0]]
    >>> net = ms.GraphLabeler(features=ms.models.KernelMap("rbf", gamma=0.5), C=10.0).fit(samples, y)
    >>> net.predict(samples)[0].tolist()
    [1, 0, 1, 0]
    """

    root: Any = None

    @property
    def n_features(self) -> int:
        return 0 if self.root is None else int(self.root.shape[1])

    def fit(self, samples: Sequence[GraphSample]) -> KernelMap:
        if self.kernel == "precomputed":
            raise InvalidParameterError(
                "kernel of KernelMap is 'precomputed', wanted a name or a function, to be used on new nodes."
            )
        known = super().fit(samples)
        gram = np.asarray(self._values(known, known.basis))
        if not np.isfinite(gram).all():
            raise InvalidParameterError("the kernel is not finite on the training nodes; wanted finite numbers.")
        size = float(np.abs(gram).max(initial=0.0))
        skew = float(np.abs(gram - gram.T).max(initial=0.0))
        if skew > 1e-8 * size:
            raise InvalidParameterError(f"the kernel is not symmetric: k(x, y) and k(y, x) differ by up to {skew:.3g}.")
        value, vector = np.linalg.eigh(0.5 * (gram + gram.T)) if gram.size else (np.zeros(0), gram)
        if value.min(initial=0.0) < -1e-8 * max(value.max(initial=0.0), size):
            raise InvalidParameterError(
                f"the kernel is not positive semidefinite: its matrix of {len(gram)} training nodes has the eigenvalue {value.min():.3g}. "
                "Use another kernel, or Kernel(...), which takes any function."
            )
        kept = value > 1e-12 * value.max(initial=0.0)
        return replace(self, basis=known.basis, gamma=known.gamma, root=vector[:, kept] / np.sqrt(value[kept]))

    @staticmethod
    def _values(known: Kernel, x: np.ndarray) -> Matrix:
        plain = Kernel(known.kernel, known.gamma, known.degree, known.coef0, known.basis)
        from ..core.graph import Graph

        return plain._encode([GraphSample(x, Graph.from_edges([], n_nodes=len(x)))])

    def _encode(self, samples: Sequence[GraphSample]) -> Matrix:
        return super()._encode(samples) @ self.root


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


def dict_matrix(samples: Sequence[GraphSample], number: Callable[[str], int]) -> Matrix:
    """Dicts of samples as a CSR matrix, names of features numbered by a function; as wide as the largest number needs."""
    found = _columns(samples, number)
    return _matrix(found.rows, found.columns, found.values, (len(found.ends), 1 + int(found.columns.max(initial=-1))))


class _Entries(NamedTuple):
    """Features of all nodes, node after node: columns, values, and where each node ends."""

    columns: np.ndarray
    values: np.ndarray
    ends: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        return np.repeat(np.arange(len(self.ends)), np.diff(self.ends, prepend=0))


def _columns(samples: Sequence[GraphSample], number: Callable[[str], int]) -> _Entries:
    """Features of dicts, numbered by their names; each pair of name and string becomes one name, and is numbered once."""
    columns, values, ends = array("q"), array("d"), array("q")
    known: dict[str, dict[str, int]] = {}
    for j, sample in enumerate(samples):
        for node, features in enumerate(sample.X):
            if not isinstance(features, Mapping):
                features = _named(features, j, node)
            for name, value in features.items():
                if type(value) is str and type(name) is str:
                    own = known.setdefault(name, {})
                    column = own.get(value)
                    if column is None:
                        column = own[value] = number(f"{name}={value}")
                    columns.append(column)
                    values.append(1.0)
                elif isinstance(value, (bool, int, float, np.number)) and np.isfinite(value):
                    columns.append(number(str(name)))
                    values.append(float(value))
                else:
                    for own_name, amount in _nested(str(name), value, j, node):
                        columns.append(number(own_name))
                        values.append(amount)
            ends.append(len(columns))
    return _Entries(np.array(columns, dtype=np.int64), np.array(values), np.array(ends, dtype=np.int64))


def _named(features: Any, j: int, node: int) -> Mapping[str, int]:
    """A list or set of names as a dict; a name that comes twice counts twice."""
    if isinstance(features, (list, tuple, set, frozenset)) and all(isinstance(own, str) for own in features):
        return Counter(sorted(features) if isinstance(features, (set, frozenset)) else features)
    raise InvalidSampleError(
        f"sample {j}, node {node} is a {type(features).__name__}, wanted a dict of features, or a list of strings."
    )


def _nested(name: str, value: Any, j: int, node: int) -> Iterator[tuple[str, float]]:
    """Features of a value that is a string, a list of strings, or a dict of such."""
    if isinstance(value, str):
        yield f"{name}={value}", 1.0
    elif isinstance(value, (bool, int, float, np.number)) and np.isfinite(value):
        yield name, float(value)
    elif isinstance(value, Mapping):
        for own, inner in value.items():
            yield from _nested(f"{name}:{own}", inner, j, node)
    elif isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(own, str) for own in value):
        for own in sorted(value) if isinstance(value, (set, frozenset)) else value:
            yield f"{name}={own}", 1.0
    else:
        raise InvalidSampleError(
            f"sample {j}, node {node}, feature {name!r} is {value!r}, wanted a finite number or a string, a list of strings, or a dict of such."
        )


def _matrix(rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> Matrix:
    matrix = sparse.csr_array(sparse.coo_array((values, (rows, columns)), shape=shape))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return matrix
