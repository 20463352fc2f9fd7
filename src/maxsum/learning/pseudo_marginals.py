r"""Pseudo-marginals: dual feasible points of LP-M3N, and the proof that the paper lacks.

The dual of the learning problem with the linear relaxation inside is, for :math:`\mu_j` in the local polytope of example
:math:`j` and multipliers :math:`\nu \ge 0` of the cone :math:`A w \ge 0`,

.. math:: D(\mu, \nu) = \sum_j c_j \langle L_j, \mu_j\rangle - \tfrac12\|u + A^\top\nu\|^2, \qquad
          u = \sum_j c_j\,(\Psi(y_j) - \Psi(\mu_j)) .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import CertificateError, InvalidSampleError
from ..inference.parallel import split, thread_map
from ..kernels.local_polytope import add_edge_marginals, expected_difference, settle_edges, settle_nodes
from ..models.bound import BoundModel
from .certificate import LearningVerification

if TYPE_CHECKING:
    from .objective import MarginObjective

_ALLOWED = 1e-9
_CHUNK = 2**21


class PseudoMarginals:
    r"""Node and edge tables of all examples in the local polytope, with what the dual needs of them.

    Any non-negative tables are taken; they are copied, and moved into the polytope (see `settle_edges`).

    Parameters
    ----------
    objective : MarginObjective
        Or an objective with the same attributes.
    node : ndarray, shape (n_nodes, K), optional
        Of the union of all examples. By default the averages of the edges' marginals, the truth where there are no edges.
    edge : ndarray, shape (n_edges, K, K), optional
        By default products of the nodes' marginals. The truth if both are left out.
    n_jobs : int
        Threads.
    copy : bool
        Whether to leave the given arrays as they are.

    Attributes
    ----------
    loss : float
        :math:`\sum_j c_j\langle L_j, \mu_j\rangle`.
    u : ndarray, shape (n_weights,)
        :math:`\sum_j c_j (\Psi(y_j) - \Psi(\mu_j))`.
    weights : ndarray, shape (n_weights,)
        :math:`\gamma\,(u + A^\top\nu)`, the projection of :math:`\gamma u` to the cone: the primal point of this dual point.
    gamma : float
        Best share of the pseudo-marginals in a mixture with the truth, in closed form: along
        :math:`\gamma\mu + (1 - \gamma) y` the dual is :math:`\gamma\,\text{loss} - \tfrac12\gamma^2\|u + A^\top\nu\|^2`.
    dual : float
        The bound at this mixture.
    """

    def __init__(
        self,
        objective: MarginObjective,
        node: np.ndarray | None = None,
        edge: np.ndarray | None = None,
        n_jobs: int = 1,
        copy: bool = True,
    ):
        self.objective, self.n_jobs = objective, n_jobs
        model, size = objective.model, objective.model.n_labels
        data = model.data
        truth = node is None and edge is None
        u, v = data.edges.T
        for name, table, shape in (("node", node, (len(data.n_states), size)), ("edge", edge, (len(u), size, size))):
            if table is not None and (table.shape != shape or not np.isfinite(table).all()):
                raise InvalidSampleError(f"{name} marginals have shape {table.shape}, wanted finite numbers of shape {shape}.")
        if node is None:
            node = np.zeros((len(data.n_states), size))
            if edge is None:
                node[np.arange(len(node)), model.labels] = 1.0
            else:
                add_edge_marginals(data.edges, np.maximum(edge, 0.0), node)
                alone = node.sum(axis=1) <= 0
                node[alone, objective.design.truth[alone]] = 1.0
        elif copy:
            node = np.array(node, dtype=np.float64)
        settle_nodes(data.n_states, node, 0, len(node))
        if edge is None:
            edge = node[u][:, :, None] * node[v][:, None, :]
        else:
            edge = np.array(edge, dtype=np.float64) if copy else edge
            parts = split(np.arange(len(u) + 1), n_jobs)
            thread_map(lambda part: settle_edges(data.edges, node, edge, *part), parts, n_jobs)
        self.node, self.edge = node, edge
        if truth:
            self.loss, self.u = 0.0, np.zeros(objective.n_weights)
        else:
            self.loss, self.u = self._measure()
        self._refresh()

    def _measure(self) -> tuple[float, np.ndarray]:
        objective = self.objective
        design = objective.design
        parts = split(design.edge_ptr + design.node_ptr, self.n_jobs)
        sums = [np.zeros(objective.n_weights) for _ in parts]

        def run(i: int) -> float:
            return float(expected_difference(design, objective.c, self.node, self.edge, *parts[i], sums[i]))

        values = thread_map(run, range(len(parts)), self.n_jobs)
        return float(sum(values)), np.sum(sums, axis=0) if sums else np.zeros(objective.n_weights)

    def _refresh(self) -> None:
        cone = self.objective.cone
        w = self.u if cone.is_free else cone.project(self.u).weights
        self.gamma, self.dual = _mixture(self.loss, float(w @ w))
        self.weights = self.gamma * w

    def mix(self, other: PseudoMarginals) -> PseudoMarginals:
        """Move to the best point between these pseudo-marginals and others (and the truth), in place; the bound never falls."""
        one, two = self._direction(), other._direction()
        gain, turn = other.loss - self.loss, two - one
        square = float(turn @ turn)
        share = float(np.clip((gain - one @ turn) / square, 0.0, 1.0)) if square > 0 else float(gain > 0)
        for first, second in ((self.node, other.node), (self.edge, other.edge), (self.u, other.u)):
            first *= 1.0 - share
            first += share * second
        self.loss += share * gain
        self._refresh()
        return self

    def _direction(self) -> np.ndarray:
        cone = self.objective.cone
        return self.u if cone.is_free else cone.project(self.u).weights

    def certificate(self) -> MarginalCertificate:
        """The proof of ``dual``; what is as in the true labelling is left out, and so are products of marginals."""
        objective = self.objective
        data, labels = objective.model.data, objective.design.truth
        changed = self.node[np.arange(len(labels)), labels] != 1.0
        u, v = data.edges.T
        edges = np.flatnonzero(changed[u] & changed[v])
        nodes = np.flatnonzero(changed)
        mu = objective.cone.multipliers(self.u) * self.gamma
        return MarginalCertificate(nodes, self.node[nodes], edges, self.edge[edges], self.gamma, mu)


def _mixture(loss: float, square: float) -> tuple[float, float]:
    """(best share of the pseudo-marginals in a mixture with the truth, the dual there)."""
    if not loss > 0:
        return 0.0, 0.0
    gamma = min(1.0, loss / square) if square > 0 else 1.0
    return gamma, gamma * loss - 0.5 * gamma**2 * square


@dataclass(frozen=True, eq=False)
class MarginalCertificate:
    r"""Pseudo-marginals that prove a lower bound on the LP-M3N objective, whoever made them:

    .. math:: D = \gamma\sum_j c_j\langle L_j, \mu_j\rangle - \tfrac12\|\gamma u + A^\top\nu\|^2 \le \min_{w,\varphi} F(w, \varphi)

    for :math:`\mu_j` in the local polytope, :math:`0 \le \gamma \le 1` (the rest is the truth) and :math:`\nu \ge 0`. Where the
    relaxation is not tight this bound may lie above the best M3N objective: it is a bound for the ``lp`` surrogate alone.

    Attributes
    ----------
    nodes : ndarray of int64, shape (n,)
        Nodes of the union of all examples that differ from the truth, ascending.
    node : ndarray, shape (n, K)
        Their marginals.
    edges : ndarray of int64, shape (m,)
        Edges whose table is given, ascending; every other edge has the product of its nodes' marginals.
    edge : ndarray, shape (m, K, K)
    gamma : float
    mu : ndarray
        Multipliers of ``cone.matrix``.
    """

    nodes: np.ndarray
    node: np.ndarray
    edges: np.ndarray
    edge: np.ndarray
    gamma: float
    mu: np.ndarray

    def lower_bound(self, objective: MarginObjective) -> float:
        """The bound, recomputed from features in plain numpy. Tables that miss the polytope by rounding are scaled into place.

        Raises
        ------
        CertificateError
            If the tables are not pseudo-marginals of these examples.
        """
        model = objective.model
        data = model.data
        self._check(model, objective.cone.matrix.shape[0])
        node = self.node / self.node.sum(axis=1, keepdims=True) if len(self.nodes) else self.node
        c = np.repeat(objective.c, np.diff(data.node_ptr))
        truth = objective.design.truth if model.labels is None else model.labels
        value = float(np.einsum("n,nk,nk", c[self.nodes], node, objective.loss_table[self.nodes]))
        full = np.zeros((len(data.n_states), model.n_labels))
        full[np.arange(len(full)), truth] = 1.0
        shift = full[self.nodes] - node
        full[self.nodes] = node
        total = _adjoint(model, self.nodes, c[self.nodes, None] * shift, None, None)
        changed = np.zeros(len(full), dtype=bool)
        changed[self.nodes] = True
        moved = np.flatnonzero(changed[data.edges].any(axis=1))
        given = np.full(len(data.edges), -1, dtype=np.int64)
        given[self.edges] = np.arange(len(self.edges))
        step = max(1, _CHUNK // model.n_labels**2)
        for start in range(0, len(moved), step):
            own = moved[start : start + step]
            a, b = data.edges[own].T
            table = full[a][:, :, None] * full[b][:, None, :]
            known = given[own] >= 0
            table[known] = _placed(self.edge[given[own[known]]], full[a[known]], full[b[known]], own[known])
            table *= -1.0
            table[np.arange(len(own)), truth[a], truth[b]] += 1.0
            total += _adjoint(model, None, None, own, c[a, None, None] * table)
        w = self.gamma * total + np.asarray(objective.cone.matrix.T @ self.mu).reshape(-1)
        return float(self.gamma * value - 0.5 * (w @ w))

    def _check(self, model: BoundModel, n_rows: int) -> None:
        size, data = model.n_labels, model.data
        if self.node.shape != (len(self.nodes), size) or self.edge.shape != (len(self.edges), size, size):
            raise CertificateError(
                f"the certificate has marginals of shapes {self.node.shape} and {self.edge.shape}, wanted "
                f"{(len(self.nodes), size)} and {(len(self.edges), size, size)}."
            )
        for name, index, limit in (("node", self.nodes, len(data.n_states)), ("edge", self.edges, len(data.edges))):
            if len(index) and (index[0] < 0 or index[-1] >= limit or (np.diff(index) <= 0).any()):
                raise CertificateError(f"the certificate's {name} numbers are not ascending in 0..{limit - 1}.")
        if not (np.isfinite(self.node).all() and np.isfinite(self.edge).all() and np.isfinite(self.mu).all()):
            raise CertificateError("the certificate holds numbers that are not finite.")
        if (self.node < 0).any() or (self.edge < 0).any() or (self.mu < 0).any() or not 0 <= self.gamma <= 1:
            raise CertificateError("a marginal or multiplier of the certificate is negative, or its share is not in 0..1.")
        if len(self.mu) != n_rows:
            raise CertificateError(f"the certificate has {len(self.mu)} cone multipliers, the cone {n_rows} rows.")
        off = np.abs(self.node.sum(axis=1) - 1.0)
        if (off > _ALLOWED).any():
            i = int(off.argmax())
            raise CertificateError(f"marginals of node {self.nodes[i]} sum to {self.node[i].sum()}, wanted 1.")
        outside = np.arange(size) >= data.n_states[self.nodes][:, None]
        if (self.node[outside] > 0).any():
            i = int((self.node * outside).max(axis=1).argmax())
            raise CertificateError(f"node {self.nodes[i]} has mass on a label that it does not have.")

    def verify(self, objective: MarginObjective, weights: np.ndarray, primal: float | None = None) -> LearningVerification:
        """Check everything: the cone, the primal value by an independent evaluation, the bound from pseudo-marginals.

        Parameters
        ----------
        objective : MarginObjective
            Of the ``lp`` surrogate.
        weights : ndarray, shape (n_weights,)
        primal : float, optional
            An upper bound on the objective from somewhere else, such as ``DualBound.evaluate`` at known messages.

        Raises
        ------
        CertificateError
            If the weights leave the cone, or the bound exceeds the objective.
        """
        if not objective.cone.contains(weights):
            raise CertificateError("the weights are outside the cone of the model.")
        value = objective.evaluate(weights) if primal is None else primal
        bound = self.lower_bound(objective)
        if bound > value + 1e-9 * (1.0 + abs(value)):
            raise CertificateError(f"the lower bound {bound} exceeds the objective {value}.")
        return LearningVerification(value, min(bound, value))


def _placed(tables: np.ndarray, rows: np.ndarray, columns: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Tables with exactly these marginals (up to an ulp or two); those that miss them by more than rounding are refused."""
    off = np.maximum(np.abs(tables.sum(axis=2) - rows).max(axis=1), np.abs(tables.sum(axis=1) - columns).max(axis=1))
    if (off > _ALLOWED).any():
        i = int(off.argmax())
        raise CertificateError(f"the marginals of edge {edges[i]} miss those of its nodes by {off[i]}.")
    total = tables.sum(axis=2)
    tables = tables * np.minimum(1.0, np.divide(rows, total, out=np.ones_like(total), where=total > 0))[:, :, None]
    total = tables.sum(axis=1)
    tables *= np.minimum(1.0, np.divide(columns, total, out=np.ones_like(total), where=total > 0))[:, None, :]
    lack, short = np.maximum(rows - tables.sum(axis=2), 0.0), np.maximum(columns - tables.sum(axis=1), 0.0)
    missing = lack.sum(axis=1)
    share = np.divide(lack, missing[:, None], out=np.zeros_like(lack), where=missing[:, None] > 0)
    return np.asarray(tables + share[:, :, None] * short[:, None, :])


def _adjoint(model: BoundModel, nodes: Any, node: Any, edges: Any, edge: Any) -> np.ndarray:
    """Features under tables of some nodes and edges of the union: ``feature_marginals`` for all examples, where they are not 0."""
    data, result = model.data, np.zeros(model.n_weights)
    for matrix, rows, table, index in ((data.x, nodes, node, model.node_index), (data.f, edges, edge, model.edge_index)):
        if rows is None or not len(rows):
            continue
        flat = table.reshape(len(rows), -1)
        if data.joint:
            width = flat.shape[1]
            part = matrix[(rows[:, None] * width + np.arange(width)).ravel()]
            value = np.asarray(part.T @ flat.ravel())
            index = index.reshape(len(index), -1)[:, 0]
        else:
            part = model.node_rows(rows) if rows is nodes else matrix[rows]
            value = np.asarray(part.T @ flat).reshape(index.shape)
        used = index >= 0
        np.add.at(result, index[used], value[used])
    return result
