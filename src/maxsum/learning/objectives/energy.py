"""Energies of many examples at once: weights to forms, forms to minimisers, minimisers to gradients in the weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.errors import InvalidSampleError
from ...core.result import Termination
from ...executors.threads import fixed_split, split, thread_map
from ...kernels import moments, qp
from ...models.bound import Encoded
from ...models.convex import ConvexBound, Counts, check_edge_features, count_ends
from ...qp.block_form import BlockForm, block_rows
from ...qp.simplex import SimplexQPResult, minimise_simplex_qp

_OWN_BLOCKS = 1 << 25  # numbers in own blocks for mixtures of matrices: 256 MB; with more, products add matrices up
_SYMMETRIC = 1e-9  # of the largest entry: a matrix whose halves differ by more was not meant to be symmetric
_SEMIDEFINITE = 1e-8  # of the largest entry, what an eigenvalue may be below 0: that of a singular matrix after rounding
_DENSE = 500  # rows up to which all eigenvalues are computed: a second at most, and no iteration that may fail


class Minimum(NamedTuple):
    """Minimisers of all examples: points (n_nodes, K), values and Frank-Wolfe gaps (n_examples,)."""

    mu: np.ndarray
    values: np.ndarray
    gaps: np.ndarray
    n_products: int
    termination: Termination


class Energies:
    r"""The energies :math:`E_j(\mu) = \langle\theta_j, \mu\rangle + \tfrac12\langle\mu, \Theta_j\mu\rangle` of the examples of a union.

    What does not depend on the weights (which block is where) is prepared once; `at` fills in the weights.

    Parameters
    ----------
    model : ConvexBound
    data : Encoded, optional
        The training data by default.
    operators : sequence of sequences, optional
        The operators of form 4 of each example: objects with ``apply(x)`` for (n_nodes, K) arrays, or matrices (n_nodes, n_nodes).
    n_jobs : int
        Threads over examples.
    """

    def __init__(
        self, model: ConvexBound, data: Encoded | None = None, operators: Sequence[Any] | None = None, n_jobs: int = 1
    ):
        self.model, self.n_jobs = model, n_jobs
        self.data = model.data if data is None else data
        if data is not None:
            check_edge_features(data)
        self.counts: Counts = model.counts if data is None else count_ends(self.data)
        self.starts = np.ascontiguousarray(self.data.node_ptr, dtype=np.int64)
        self.operators = _operators(operators, self.data, model.spec.n_operators)
        self._layout()
        self.theta = np.zeros((len(self.data.n_states), model.n_labels))
        self.weights = np.zeros(0)

    def _layout(self) -> None:
        """Which block goes where. Edges and nodes with the same mixture of matrices share a block."""
        data, size = self.data, self.model.n_labels
        n, n_matrices = len(data.n_states), data.f.shape[1]
        self.edge_mix, edge_block, edge_weight = _mixtures(data.f, size)
        both = sparse.csr_array(sparse.hstack([self.counts.first, self.counts.second], format="csr"))
        if not n_matrices:
            both = sparse.csr_array((n, 0))
        self.node_mix, node_block, node_weight = _mixtures(both, size)
        u, v = data.edges.T.astype(np.int64)
        entry_edge = np.repeat(np.arange(len(u)), np.diff(edge_block.indptr))
        n_edge = self.edge_mix.shape[0]
        entry_node = np.repeat(np.arange(n), np.diff(node_block.indptr))
        groups = [
            (v[entry_edge], u[entry_edge], edge_block.indices, edge_weight),
            (u[entry_edge], v[entry_edge], n_edge + edge_block.indices, edge_weight),
            (entry_node, entry_node, 2 * n_edge + node_block.indices, node_weight),
        ]
        row, col, block, weight = (np.concatenate(column) for column in zip(*groups, strict=True))
        ridge = np.full((n, size), self.model.spec.ridge)
        bank = np.zeros((2 * n_edge + self.node_mix.shape[0], size, size))
        self.rows = block_rows(data.n_states, row, col, block, weight, bank, ridge)

    def at(self, w: np.ndarray) -> Energies:
        """Set the weights."""
        model, size = self.model, self.model.n_labels
        self.theta = model.linear(w, self.data, self.counts)
        bank = model.family.bank(w[model.slices[2]])
        n = len(bank)
        off = np.asarray(self.edge_mix @ bank[:, :size, size:].reshape(n, size**2)).reshape(-1, size, size)
        own = np.concatenate([bank[:, :size, :size], bank[:, size:, size:]]).reshape(2 * n, size**2)
        diagonal = np.asarray(self.node_mix @ own).reshape(-1, size, size)
        self.rows = self.rows._replace(bank=np.concatenate([off, off.transpose(0, 2, 1), diagonal]))
        self.weights = np.array(w[model.slices[3]])
        return self

    # ---- minimisation ------------------------------------------------------------------------------------------

    def minimise(
        self,
        extra: np.ndarray | None = None,
        init: np.ndarray | None = None,
        tol: float = 1e-6,
        allowed: Any = 0.0,
        max_iter: int = 5000,
    ) -> Minimum:
        """Minimise ``E(mu) + <extra, mu>`` of every example over its product of simplices.

        Parameters
        ----------
        extra : ndarray, shape (n_nodes, K), optional
            Further linear costs (minus the loss, in learning).
        init : ndarray, shape (n_nodes, K), optional
            Warm start; by default the labels of least linear cost.
        tol, allowed : float
            Relative and absolute gap that is good enough; ``allowed`` may be one for each example.
        """
        theta = self.theta if extra is None else self.theta + extra
        start = self.vertex(theta) if init is None else init
        if not len(theta):
            n = self.data.n_examples
            return Minimum(start, np.zeros(n), np.zeros(n), 0, Termination.converged)
        if self.operators is None:
            form = BlockForm._from_rows(self.rows)
            found = minimise_simplex_qp(
                theta, form, parts=self.starts, init=start, tol=tol, allowed=allowed, max_iter=max_iter, n_jobs=self.n_jobs
            )
            if found.termination == Termination.interrupted:
                raise KeyboardInterrupt
            return Minimum(found.mu, found.values, found.gaps, found.n_products, found.termination)
        limits = np.broadcast_to(np.asarray(allowed, dtype=np.float64), (self.data.n_examples,))
        work = np.zeros((2, *theta.shape))

        def one(j: int) -> SimplexQPResult:
            rows = slice(int(self.starts[j]), int(self.starts[j + 1]))
            operator, states = self.example(j, work), self.data.n_states[rows]
            return minimise_simplex_qp(
                theta[rows], operator, n_states=states, init=start[rows], tol=tol, allowed=limits[j], max_iter=max_iter
            )

        answers = thread_map(one, range(self.data.n_examples), self.n_jobs)
        worst = [a.termination for a in answers if a.termination != Termination.converged]
        if Termination.interrupted in worst:
            raise KeyboardInterrupt
        return Minimum(
            np.concatenate([a.mu for a in answers]),
            np.array([a.value for a in answers]),
            np.array([a.gap for a in answers]),
            max(a.n_products for a in answers),
            worst[0] if worst else Termination.converged,
        )

    def vertex(self, theta: np.ndarray) -> np.ndarray:
        """The labels of least linear cost, as a point."""
        inside = np.arange(theta.shape[1]) < self.data.n_states[:, None]
        point = np.zeros_like(theta)
        if theta.size:
            point[np.arange(len(theta)), np.where(inside, theta, np.inf).argmin(axis=1)] = 1.0
        return point

    def multiply(self, x: np.ndarray) -> np.ndarray:
        r""":math:`\Theta x` of all examples."""
        out = np.zeros_like(x)

        def part(piece: tuple[int, int]) -> None:
            qp.multiply(self.rows, x, out, int(self.starts[piece[0]]), int(self.starts[piece[1]]))

        thread_map(part, split(self.starts, self.n_jobs), self.n_jobs)
        for j, own in enumerate(self.operators or ()):
            rows = slice(int(self.starts[j]), int(self.starts[j + 1]))
            for weight, operator in zip(self.weights.tolist(), own, strict=True):
                out[rows] += weight * operator.apply(x[rows])
        return out

    def example(self, j: int, work: np.ndarray) -> Example:
        """The form of one example; ``work`` (2, n_nodes, K) may be shared by all examples."""
        return Example(self, j, work)

    def matrix(self) -> Any:
        """The form as an explicit sparse matrix over the labels that exist, node after node; without operators."""
        rows, size = self.rows, self.model.n_labels
        row = np.repeat(np.arange(len(rows.n_states)), np.diff(rows.ptr))
        values = rows.weight[:, None, None] * rows.bank[rows.block].transpose(0, 2, 1)
        label = np.arange(size)
        i = np.broadcast_to((row[:, None] * size + label)[:, :, None], values.shape)
        j = np.broadcast_to((rows.col.astype(np.int64)[:, None] * size + label)[:, None, :], values.shape)
        n = len(rows.n_states) * size
        whole = sparse.csr_array(sparse.coo_array((values.ravel(), (i.ravel(), j.ravel())), shape=(n, n)))
        whole = whole + sparse.diags_array(rows.diagonal.ravel(), format="csr")
        inside = np.flatnonzero((label < rows.n_states[:, None]).ravel())
        return sparse.csr_array(sparse.csr_array(whole)[inside][:, inside])

    # ---- values and gradients ----------------------------------------------------------------------------------

    def energy(self, mu: np.ndarray) -> np.ndarray:
        r""":math:`E_j(\mu_j)` of each example."""
        out, work = np.zeros(self.data.n_examples), np.zeros_like(mu)

        def part(piece: tuple[int, int]) -> None:
            moments.energies(self.rows, self.theta, mu, work, self.starts, *piece, out)

        thread_map(part, split(self.starts, self.n_jobs), self.n_jobs)
        return out + self.operator_moments(mu) @ self.weights if self.operators is not None else out

    def operator_moments(self, mu: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
        r""":math:`\tfrac12\langle\mu_j, Q_{js}\mu_j\rangle`, (n_examples, n_operators)."""
        out = np.zeros((self.data.n_examples, self.model.spec.n_operators))
        if self.operators is None:
            return out
        other = mu if other is None else other

        def one(j: int) -> None:
            rows = slice(int(self.starts[j]), int(self.starts[j + 1]))
            for s, operator in enumerate(self.operators[j]):  # type: ignore[index]
                out[j, s] = 0.5 * float(np.vdot(other[rows], operator.apply(mu[rows])))

        thread_map(one, range(self.data.n_examples), self.n_jobs)
        return out

    def moments(self, mu: np.ndarray, weight: np.ndarray, other: np.ndarray | None = None) -> np.ndarray:
        r"""Gradient of :math:`\sum_j c_j E_j(\mu_j)` in the weights; with ``other`` that of
        :math:`\sum_j c_j (\langle\theta_j, \mu_j\rangle + \tfrac12\langle\mu'_j, \Theta_j\mu_j\rangle)`.

        The order of summation does not depend on ``n_jobs``.
        """
        data, model = self.data, self.model
        node = np.ascontiguousarray(mu * np.repeat(weight, np.diff(data.node_ptr))[:, None])
        edge_weight = np.repeat(weight, np.diff(data.edge_ptr))
        second = mu if other is None else other
        f, indices = data.f, np.ascontiguousarray(data.f.indices)
        pieces = fixed_split(np.ascontiguousarray(data.edge_ptr, dtype=np.int64))
        banks = np.zeros((len(pieces), *model.family.size)) if model.family.n_weights else np.zeros((1, *model.family.size))

        def part(number: int) -> None:
            first, last = (int(data.edge_ptr[i]) for i in pieces[number])
            moments.pair_moments(
                mu, second, data.edges, data.n_states, f.indptr, indices, f.data, edge_weight, first, last, banks[number]
            )

        if model.family.n_weights and len(data.edges):
            thread_map(part, range(len(pieces)), self.n_jobs)
        return model.moments(node, banks.sum(axis=0), weight @ self.operator_moments(mu, other))

    def scale(self, weight: np.ndarray) -> np.ndarray:
        """A guess of the inverse root of the curvature of the weights' objective, one number for each group of them."""
        model, data = self.model, self.data
        per_node = np.repeat(weight, np.diff(data.node_ptr))
        size = np.zeros(model.n_weights)
        size[model.slices[0]] = model.node_squares(per_node)
        first, second = (np.asarray((count * count).T @ per_node) for count in self.counts)
        if model.spec.linear:
            size[model.slices[1]] = np.stack([first, second], axis=1).repeat(model.n_labels, axis=1).reshape(-1)
        size[model.slices[2]] = model.family.spread(0.25 * (first + second))
        size[model.slices[3]] = float(per_node.sum())
        return 1.0 / np.sqrt(1.0 + size)


class Example:
    """The form of one example as an operator on its own vectors."""

    def __init__(self, energies: Energies, j: int, work: np.ndarray):
        self.energies, self.j, self.x, self.out = energies, j, work[0], work[1]
        self.first, self.last = (int(i) for i in energies.starts[j : j + 2])
        states = energies.data.n_states[self.first : self.last]
        self.mask = np.arange(work.shape[2]) < states[:, None]
        size = int(states.sum())
        self.shape = (size, size)

    def matvec(self, x: np.ndarray) -> np.ndarray:
        """The quadratic form of the example times a vector of its allowed labels."""
        rows = slice(self.first, self.last)
        own, out = self.x[rows], self.out[rows]
        own[self.mask] = x
        qp.multiply(self.energies.rows, self.x, self.out, self.first, self.last)
        for weight, operator in zip(self.energies.weights.tolist(), self.energies.operators[self.j], strict=True):  # type: ignore[index]
            if weight:
                out += weight * operator.apply(own)
        return out[self.mask]


class MatrixOperator:
    """A symmetric positive semidefinite matrix (n, n), dense or sparse, that acts on each label alike."""

    def __init__(self, matrix: Any, what: str):
        own = sparse.csr_array(matrix) if sparse.issparse(matrix) else np.array(matrix, dtype=np.float64)
        if own.ndim != 2 or own.shape[0] != own.shape[1]:
            raise InvalidSampleError(f"{what} has shape {own.shape}, wanted a square matrix.")
        values = own.data if sparse.issparse(own) else own
        if not np.isfinite(values).all():
            raise InvalidSampleError(f"{what} holds a number that is not finite.")
        skew, size = abs(own - own.T).max() if own.shape[0] else 0.0, np.abs(values).max(initial=0.0)
        if skew > _SYMMETRIC * size:
            raise InvalidSampleError(f"{what} is not symmetric: entries differ by {skew:.3g}. Pass (Q + Q.T) / 2.")
        low = _least_eigenvalue(own)
        if low < -_SEMIDEFINITE * max(float(size), 1e-300):
            raise InvalidSampleError(
                f"{what} is not positive semidefinite: it has the eigenvalue {low:.6g}, wanted >= 0. Add {-low:.6g} to its diagonal."
            )
        self.matrix, self.shape = own, own.shape

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The matrix times a vector, or times each column."""
        return np.asarray(self.matrix @ x)


def _least_eigenvalue(matrix: Any) -> float:
    n = matrix.shape[0]
    if n <= _DENSE:
        dense = matrix.toarray() if sparse.issparse(matrix) else matrix
        return float(np.linalg.eigvalsh(dense)[0]) if n else 0.0
    from scipy.sparse.linalg import eigsh

    largest = float(eigsh(matrix, k=1, which="LA", return_eigenvectors=False, tol=1e-3, v0=np.ones(n))[0])
    shifted = matrix - 1.05 * largest * sparse.eye_array(n, format="csr")
    return float(eigsh(shifted, k=1, which="LM", return_eigenvectors=False, tol=1e-6, v0=np.ones(n))[0]) + 1.05 * largest


def _operators(given: Sequence[Any] | None, data: Encoded, n_operators: int) -> list[list[Any]] | None:
    if not n_operators:
        if given is not None:
            raise InvalidSampleError("operators are given, but the model has none; wanted Convex(n_operators=...).")
        return None
    if given is None or len(given) != data.n_examples:
        found = "none" if given is None else len(given)
        raise InvalidSampleError(f"operators: {found} given for {data.n_examples} samples, wanted {n_operators} for each.")
    out = []
    for j, one in enumerate(given):
        own = list(one) if isinstance(one, (list, tuple)) else [one]
        if len(own) != n_operators:
            raise InvalidSampleError(f"sample {j} has {len(own)} operators, wanted {n_operators}.")
        what = f"operator of sample {j}"
        own = [q if callable(getattr(q, "apply", None)) else MatrixOperator(q, what) for q in own]
        n = int(data.node_ptr[j + 1] - data.node_ptr[j])
        for q in own:
            if tuple(q.shape) != (n, n):
                raise InvalidSampleError(f"{what} has shape {tuple(q.shape)}, but the sample has {n} nodes; wanted {(n, n)}.")
        out.append(own)
    return out


def _mixtures(rows: Any, n_labels: int) -> tuple[Any, Any, np.ndarray]:
    """Blocks to make of the matrices (a row each), which of them each row of ``rows`` uses, and with which weights.

    Rows with the same entries share a block; rows with at most one entry use the matrix itself. Where that would make too many
    blocks, every row uses the matrices themselves.
    """
    n, width = rows.shape
    identity = sparse.eye_array(width, format="csr")
    if n == 0 or np.diff(rows.indptr).max() <= 1:
        return identity, rows, rows.data
    random = np.random.default_rng(0).standard_normal((width, 2))
    _, first, which = np.unique(np.asarray(rows @ random), axis=0, return_index=True, return_inverse=True)
    some, which = rows[first], which.reshape(-1)
    if abs(some[which] - rows).max() > 0 or len(first) * n_labels**2 > _OWN_BLOCKS:
        return identity, rows, rows.data
    block = sparse.csr_array((np.ones(n), which, np.arange(n + 1)), shape=(n, len(first)))
    return some, block, block.data
