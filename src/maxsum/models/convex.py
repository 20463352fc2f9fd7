"""Convex energies: quadratic forms over products of simplices that are convex for every allowed weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import Elsewhere, Flag, OneOf, WholeNumber, check, settings
from ..core.problem import Problem
from .bound import BoundModel, Encoded, refuse_factors
from .matrices import STRICTLY, Definite, Dictionary, MatrixFamily, NoMatrices
from .multilabel import MultiLabelBound

FORMS = ("definite", "dictionary", "none")


@dataclass(frozen=True, eq=False)
class Convex:
    r"""Which convex energies a model allows:

    .. math:: E(\mu) = -\langle q, \mu\rangle + \sum_{uv}\sum_p f_{uv,p}\Big(\langle b_p, z_{uv}\rangle
              + \tfrac12 z_{uv}^\top W_p z_{uv}\Big) + \tfrac12\sum_s w_s \langle\mu, Q_s\mu\rangle
              + \tfrac\varepsilon2\|\mu\|^2,\qquad z_{uv} = (\mu_u, \mu_v),

    with node scores :math:`q` as in `GraphModel`. At labellings the last term is a constant, so it changes no comparison.

    Parameters
    ----------
    form : {"definite", "dictionary", "none"}
        :math:`W_p \succeq \text{floor}` (form 2 of Jancsary, Nowozin & Rother 2013; with the leaves of decision trees as edge features also form 3), or
        :math:`W_p = D^\top\operatorname{diag}(w_p) D` with :math:`w_p \ge \text{floor}` (form 1), or no matrices.
    floor : float
        Least eigenvalue or weight, > 0.
    ridge : float
        :math:`\varepsilon > 0`; makes energies strictly convex even at nodes without edges.
    linear : bool
        Whether edges have linear terms :math:`b_p`, as (11) of Jancsary, Nowozin & Rother 2013.
    rows : array-like, optional
        :math:`D`; see `maxsum.models.matrices.Dictionary`. A list of single rows, one for each edge feature :math:`f_p(x) \ge 0`, makes the rows depend
        on the input: (12) with :math:`F_{ij}(x) = \operatorname{diag}(\sqrt{f_{ij}(x)})\,D`.
    n_operators : int
        Number of operators :math:`Q_s \succeq 0` a sample (form 4), weighted by :math:`w_s \ge 0`.
    operators : Matting or tuple of them, optional
        How estimators make the operators of each sample, such as ``Matting(radius=2)``; ``n_operators`` is then their number.
    trees : Trees, optional
        How estimators grow trees whose leaves hold the matrices (form 3).
    """

    form: str = "definite"
    floor: float = 1e-3
    ridge: float = 0.1
    linear: bool = True
    rows: Any = None
    n_operators: int = 0
    operators: Any = None
    trees: Any = None

    _parameters = settings(
        form=OneOf(*FORMS, wanted=f"one of {', '.join(FORMS)}"),
        floor=STRICTLY,
        ridge=STRICTLY,
        linear=Flag(),
        rows=Elsewhere("None, or matrices for form='dictionary'; `bind` knows their shape"),
        n_operators=WholeNumber(0),
        operators=Elsewhere("None, or objects with a method `of`"),
        trees=Elsewhere("None or Trees, where an estimator can grow them"),
    )

    def __post_init__(self) -> None:
        check(self)
        if self.rows is not None and self.form != "dictionary":
            raise InvalidParameterError(f"rows are given beside form={self.form!r}, wanted form='dictionary' with them.")
        if self.operators is not None:
            own = self.operators if isinstance(self.operators, (list, tuple)) else (self.operators,)
            if not own or not all(callable(getattr(one, "of", None)) for one in own):
                raise InvalidParameterError(f"operators is {self.operators!r}, wanted Matting(radius=...) or several of them.")
            object.__setattr__(self, "operators", tuple(own))
            object.__setattr__(self, "n_operators", len(own))

    def bind(self, base: BoundModel) -> ConvexBound:
        """The convex energies on the data, node features, edge types and edge features of a bound model; its own tables are not
        used."""
        if base.data.joint:
            raise InvalidSampleError("convex energies are for models of node and edge features, not for a JointModel.")
        base.refuse_factors("training of convex energies (surrogates qp and logistic)")
        shapes = _shapes(base)
        family: MatrixFamily
        if self.form == "dictionary":
            family = Dictionary(shapes, base.n_labels, self.floor, self.rows)
        else:
            family = (Definite if self.form == "definite" else NoMatrices)(shapes, base.n_labels, self.floor)
        check_edge_features(base.data)
        return ConvexBound(base, self, family)


class Counts(NamedTuple):
    """How much of each matrix each node gets as first and as second end: CSR, (n_nodes, P)."""

    first: Any
    second: Any


@dataclass(frozen=True, eq=False)
class ConvexBound:
    """Convex energies with training data: weights to energies, moments to weights.

    The weights are those of nodes, linear terms of edges, matrices and operators, in this order.

    Attributes
    ----------
    base : BoundModel
        Node features, edge features, classes and labels.
    spec : Convex
    family : MatrixFamily
    """

    base: BoundModel
    spec: Convex
    family: MatrixFamily
    slices: tuple[slice, slice, slice, slice] = field(init=False)

    def __post_init__(self) -> None:
        used = self.base.node_index
        n_linear = 2 * self.base.n_labels * len(self.family.shapes) if self.spec.linear else 0
        sizes = [int(used.max(initial=-1)) + 1, n_linear, self.family.n_weights, int(self.spec.n_operators)]
        ends = np.cumsum([0, *sizes]).tolist()
        object.__setattr__(self, "slices", tuple(slice(a, b) for a, b in pairwise(ends)))

    # ---- what the base has -------------------------------------------------------------------------------------

    @property
    def n_weights(self) -> int:
        """Number of weights: of nodes, linear terms of edges, matrices, operators."""
        return int(self.slices[-1].stop)

    @property
    def data(self) -> Encoded:
        return self.base.data

    @property
    def n_labels(self) -> int:
        """Most labels of a node."""
        return self.base.n_labels

    @property
    def n_examples(self) -> int:
        """Number of examples."""
        return self.base.n_examples

    @property
    def classes(self) -> tuple[np.ndarray, ...]:
        return self.base.classes

    @property
    def labels(self) -> np.ndarray | None:
        return self.base.labels

    @property
    def layout(self) -> Any:
        """Which weight belongs to which feature and label."""
        return self.base.layout

    def encode(self, samples: Any) -> Encoded:
        """Features of new samples, for points that are rounded; samples with factors are max-sum problems (`problems`)."""
        data = self.base.encode(samples)
        refuse_factors(data.factors, "the rounded prediction of convex energies")
        return data

    @property
    def is_forest(self) -> bool:
        """Whether no example has a cycle."""
        return self.base.is_forest

    def truth(self, j: int) -> np.ndarray:
        """The training labelling of example ``j``."""
        return self.base.truth(j)

    @property
    def names(self) -> list[str]:
        """Name of each weight."""
        own = self.base.names[: self.slices[0].stop]
        if self.spec.linear:
            own += [f"b{p}({i})" for p in range(len(self.family.shapes)) for i in range(2 * self.n_labels)]
        return own + self.family.names() + [f"operator {s}" for s in range(self.spec.n_operators)]

    # ---- weights -----------------------------------------------------------------------------------------------

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest allowed weights."""
        out = np.array(w, dtype=np.float64)
        out[self.slices[2]] = self.family.project(out[self.slices[2]])
        out[self.slices[3]] = np.maximum(out[self.slices[3]], 0.0)
        return out

    @property
    def free(self) -> bool:
        """Whether all weights are allowed."""
        return self.slices[2].start == self.n_weights

    def matrices(self, w: np.ndarray) -> list[np.ndarray]:
        """The learned :math:`W_p`, without rows of labels that do not exist."""
        bank = self.family.bank(w[self.slices[2]])
        return [bank[p][np.ix_(place, place)] for p, place in enumerate(self.family.places)]

    def linear(self, w: np.ndarray, data: Encoded | None = None, counts: Counts | None = None) -> np.ndarray:
        r"""Linear costs :math:`\theta` (n_nodes, K) of the union; 0 past the labels of a node."""
        data = self.data if data is None else data
        scores = self.base.unary(_padded(w[self.slices[0]], self.base.n_weights), data)
        theta = np.where(np.isneginf(scores), 0.0, -scores)
        if self.spec.linear and len(data.edges):
            counts = self.counts if counts is None else counts
            terms = w[self.slices[1]].reshape(-1, 2 * self.n_labels)
            theta += counts.first @ terms[:, : self.n_labels] + counts.second @ terms[:, self.n_labels :]
            theta[np.arange(self.n_labels) >= data.n_states[:, None]] = 0.0
        return np.ascontiguousarray(theta)

    def moments(self, node: np.ndarray, pairs: np.ndarray, operators: np.ndarray) -> np.ndarray:
        r"""Weights' gradient :math:`\Psi` of an energy, from node moments :math:`\sum \mu` (n_nodes, K), pair moments
        :math:`\tfrac12\sum f_p z z^\top` (P, 2K, 2K) and operator moments :math:`\tfrac12\langle\mu, Q_s\mu\rangle`; all of the
        training data."""
        out = np.zeros(self.n_weights)
        out[self.slices[0]] = -self._node_adjoint(node)
        if self.spec.linear:
            parts = [np.asarray(count.T @ node) for count in self.counts]
            out[self.slices[1]] = np.concatenate(parts, axis=1).reshape(-1)
        out[self.slices[2]] = self.family.adjoint(pairs)
        out[self.slices[3]] = operators
        return out

    def _node_adjoint(self, node: np.ndarray) -> np.ndarray:
        base, x = self.base, self.data.x
        out = np.zeros(self.slices[0].stop)
        if isinstance(base, MultiLabelBound):
            on = node[:, 1].reshape(-1, base.graph.n_nodes)
            out[:] = np.asarray((x.T @ on).T).reshape(-1)
            return out
        value, used = np.asarray(x.T @ node), base.node_index >= 0
        np.add.at(out, base.node_index[used], value[used])
        return out

    def node_squares(self, weight: np.ndarray) -> np.ndarray:
        r""":math:`\sum_v c_v x_{vf}^2` of each node weight, nodes of the training data weighted by ``weight``."""
        base, x = self.base, self.data.x
        squares = x.multiply(x) if sparse.issparse(x) else x * x
        if isinstance(base, MultiLabelBound):
            own = np.asarray(squares.T @ weight.reshape(-1, base.graph.n_nodes))
            return own.T.reshape(-1)
        value, used = np.asarray(squares.T @ weight), base.node_index >= 0
        out = np.zeros(self.slices[0].stop)
        np.add.at(out, base.node_index[used], np.broadcast_to(value[:, None], used.shape)[used])
        return out

    @cached_property
    def counts(self) -> Counts:
        """`Counts` of the training data."""
        return count_ends(self.data)

    # ---- the energy as a max-sum problem -----------------------------------------------------------------------

    def problems(self, w: np.ndarray, samples: Any = None) -> list[Problem]:
        r"""Max-sum problems with ``score(y) = -E(y)`` at every labelling, for exact solvers; operators are not possible.

        At a labelling the matrices are tables :math:`-\tfrac12(W_{kk} + W_{ll} + 2 W_{kl})`.
        """
        if self.spec.n_operators:
            raise InvalidSampleError("energies with operators join all nodes of a sample; they are no pairwise problems.")
        data = self.data if samples is None else self.base.encode(samples)
        check_edge_features(data)
        theta, size = self.linear(w, data, count_ends(data)), self.n_labels
        theta += 0.5 * self.spec.ridge
        theta[np.arange(size) >= data.n_states[:, None]] = np.inf
        bank = self.family.bank(w[self.slices[2]])
        own = np.einsum("pii->pi", bank)
        tables = -0.5 * (own[:, :size, None] + own[:, None, size:]) - bank[:, :size, size:]
        every = np.asarray(data.f @ tables.reshape(len(tables), size**2)).reshape(len(data.edges), size, size)
        found = []
        for j, graph in enumerate(data.graphs):
            nodes, edges = slice(*data.node_ptr[j : j + 2].tolist()), slice(*data.edge_ptr[j : j + 2].tolist())
            own_tables = every[edges] if graph.n_edges else None
            terms = None if data.factors is None else data.factors[j]
            found.append(Problem(graph, -theta[nodes], own_tables, n_states=data.n_states[nodes], factors=terms))
        return found


def count_ends(data: Encoded) -> Counts:
    """`Counts` of a union."""
    n, edges = len(data.n_states), data.edges.astype(np.int64)
    ones, number = np.ones(len(edges)), np.arange(len(edges))
    ends = [sparse.csr_array((ones, (edges[:, i], number)), shape=(n, len(edges))) for i in (0, 1)]
    return Counts(*(sparse.csr_array(end @ data.f) for end in ends))


def check_edge_features(data: Encoded) -> None:
    """Refuse edge features below 0, with which a sum of convex terms need not be convex; 0 leaves the term out."""
    low = float(data.f.data.min(initial=0.0))
    if low < 0:
        place = int(data.f.data.argmin())
        edge = int(np.searchsorted(data.f.indptr, place, side="right")) - 1
        j = int(np.searchsorted(data.edge_ptr, edge, side="right")) - 1
        raise InvalidSampleError(
            f"sample {j} has edge feature {low:g} at edge {edge - int(data.edge_ptr[j])}; convex energies need features >= 0 (f_p > 0 in "
            "form 2 of Jancsary, Nowozin & Rother 2013). Shift them, or split them into positive and negative parts."
        )


def _shapes(base: BoundModel) -> np.ndarray:
    """Most labels of first and second ends of the edges that have each feature; all labels for features that no edge has."""
    data, n = base.data, base.data.f.shape[1] if len(base.data.edges) else len(base.edge_index)
    shapes = np.zeros((n, 2), dtype=np.int64)
    if len(data.edges):
        edge = np.repeat(np.arange(len(data.edges)), np.diff(data.f.indptr))
        for i in (0, 1):
            np.maximum.at(shapes[:, i], data.f.indices, data.n_states[data.edges[edge, i]])
    shapes[shapes.sum(axis=1) == 0] = base.n_labels
    return shapes


def _padded(w: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros(max(n, len(w)))
    out[: len(w)] = w
    return out


def one_hot(labels: np.ndarray, n_labels: int) -> np.ndarray:
    """Labelling as a point of the product of simplices."""
    out = np.zeros((len(labels), n_labels))
    out[np.arange(len(labels)), labels] = 1.0
    return out


def part_sums(data: Encoded, values: np.ndarray) -> np.ndarray:
    """Sums of the values of nodes over each sample."""
    part = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
    return np.bincount(part, weights=values, minlength=data.n_examples)


def samples_of(data: Encoded, values: np.ndarray) -> Sequence[np.ndarray]:
    """Rows of a union, sample by sample."""
    return np.split(values, data.node_ptr[1:-1]) if data.n_examples else []
