r"""Pseudo-marginals: dual feasible points of LP-M3N, and the proof that the paper lacks.

The dual of the learning problem with the linear relaxation inside is, for :math:`\mu_j` in the local polytope of example
:math:`j` and multipliers :math:`\nu \ge 0` of the cone :math:`A w \ge 0`,

.. math:: D(\mu, \nu) = \sum_j c_j \langle L_j, \mu_j\rangle - \tfrac12\|u + A^\top\nu\|^2, \qquad
          u = \sum_j c_j\,(\Psi(y_j) - \Psi(\mu_j)) .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.errors import CertificateError, InvalidSampleError
from ...executors.threads import fixed_split, split, thread_map
from ...kernels.local_polytope import add_edge_marginals, expected_difference, settle_edges, settle_nodes
from ..certificate import Check, LearningCertificate, Proven, multipliers, whole_numbers

if TYPE_CHECKING:
    from ..objectives.margin import MarginObjective


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
        parts = fixed_split(design.edge_ptr + design.node_ptr)
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
class MarginalCertificate(LearningCertificate):
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
    messages : ndarray, shape (2, E, K), optional
        Messages that prove the objective of the weights.
    """

    nodes: np.ndarray
    node: np.ndarray
    edges: np.ndarray
    edge: np.ndarray
    gamma: float
    mu: np.ndarray
    messages: np.ndarray | None = None

    objectives: ClassVar[tuple[str, ...]] = ("LPObjective",)

    def _bound(self, objective: Any, check: Check) -> Proven:
        """From features in plain numpy; tables that miss the polytope by rounding are moved into it."""
        from ..proofs.exact_marginals import exact_marginal_sum
        from ..proofs.feature_sums import EPS, dual_bound, feature_sum, marginal_moves

        model = objective.model
        size, matrix = model.n_labels, objective.cone.matrix
        nodes, edges = (
            whole_numbers(index, (None,), limit, f"{name} of the certificate")
            for name, index, limit in (
                ("nodes", self.nodes, len(model.data.n_states)),
                ("edges", self.edges, len(model.data.edges)),
            )
        )
        if (np.diff(nodes) <= 0).any() or (np.diff(edges) <= 0).any():
            raise CertificateError("nodes or edges of the certificate are not ascending, wanted each of them once.")
        node = multipliers(self.node, (len(nodes), size), "the marginals of nodes: shapes of the certificate")
        edge = multipliers(self.edge, (len(edges), size, size), "the marginals of edges: shapes of the certificate")
        mu = multipliers(self.mu, (matrix.shape[0],), "the cone multipliers of the certificate")
        gamma = float(multipliers(self.gamma, (), "the share of the certificate"))
        if gamma > 1.0:
            raise CertificateError(f"the share of the certificate is {gamma}, wanted at most 1.")
        if check.exact:
            return dual_bound(matrix, mu, *exact_marginal_sum(objective, nodes, node, edges, edge, gamma))
        moves = marginal_moves(model, nodes, node, edges, edge, gamma * objective.c)
        check.step(0)
        total = feature_sum(model, objective.loss_table, moves)
        rounded = EPS * np.abs(total.vector), EPS * abs(total.value)  # of the products gamma * c, and of scaling
        total = total._replace(error=total.error + rounded[0], value_error=total.value_error + rounded[1])
        return dual_bound(matrix, mu, total)
