r"""LP-M3N with soft maxima: differentiable, solved by convex belief propagation inside a quasi-Newton method.

.. math:: F_\epsilon(w, \varphi) = \tfrac12\|w\|^2 + \sum_j c_j\Big[\sum_t \epsilon\log\sum_k e^{\theta_t(k)/\epsilon}
          + \sum_e \epsilon\log\sum_{k,l} e^{\theta_e(k, l)/\epsilon} - \langle w, \Psi(x_j, y_j)\rangle\Big]

with the loss-augmented scores :math:`\theta` reparametrised by the messages, as in the bound (3) of Franc & Laskov 2011 (Hazan & Urtasun 2010 with
counting numbers 1). It is jointly convex, and :math:`F_0 \le F_\epsilon \le F_0 + \epsilon\sum_j c_j(\sum_t\log K_t + \sum_{uv}\log
K_u K_v)`. With the best messages the slack of an example is :math:`\max_\mu \langle\theta, \mu\rangle + \epsilon H(\mu)` over the
local polytope, with :math:`H` the entropies of all nodes and edges, so that every point of the polytope proves a tangent from below.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...core.errors import CertificateError
from ...core.parameters import Real, WholeNumber, check_value
from ...executors.threads import fixed_split, thread_map
from ...kernels import smoothed as kernels
from ...kernels.local_polytope import expected_difference
from ...kernels.net import adjacency
from ...kernels.records import Soft
from ..certificate import Check, Proven, multipliers
from ..proofs.evaluation import Slacks, total
from ..proofs.feature_sums import EPS, PAIRWISE, FeatureSum
from ..proofs.forests import scores_of
from ..proofs.message_slacks import message_slacks
from ..proofs.tangents import marginal_tangent
from .lp import check_lp
from .smooth import Evaluation, GradientCertificate, SmoothObjective


class SmoothedObjective(SmoothObjective):
    r""":math:`\min_\varphi F_\epsilon(w, \varphi)` as a function of the weights, strongly convex with modulus 1.

    The messages are kept from one evaluation to the next, and are improved by sweeps of closed-form updates, one node at a time
    and with momentum, until beliefs that are moved into the local polytope prove that no messages would lower the objective by
    more than is allowed. That difference is the ``error`` of the evaluation.

    Parameters
    ----------
    objective : MarginObjective
        Or an objective with the same attributes; its oracle is not used.
    smoothing : float
        :math:`\epsilon > 0`, in units of the loss.
    max_rounds : int
        Most rounds of sweeps, forwards and backwards, over an example in one evaluation.

    Attributes
    ----------
    messages : ndarray, shape (2, n_edges, K)
        The best messages for the weights that were asked for last.
    slack : ndarray, shape (n_examples,)
        Their slacks without smoothing.
    n_rounds : int
        Rounds over single examples so far.
    """

    modulus = 1.0
    convex = True
    inexact = True

    def __init__(self, objective: Any, smoothing: Any, max_rounds: int = 1000):
        self.smoothing, self.objective = check_smoothing(smoothing), objective
        check_value("max_rounds", max_rounds, WholeNumber(1))
        check_lp(objective, "SmoothedObjective")
        objective.model.refuse_cliques("SmoothedLP")
        self.max_rounds = int(max_rounds)
        model, design = objective.model, objective.design
        self.model, self.design, self.cone, self.n_jobs = model, design, objective.cone, objective.n_jobs
        self.n_weights, self.n_examples = objective.n_weights, objective.n_examples
        self.free = self.cone.is_free
        n_nodes, n_edges, size = len(design.truth), len(design.edges), model.n_labels
        self.messages = np.zeros((2, n_edges, size))
        self._before = np.zeros((2, 2, n_edges, size))
        self.slack = np.zeros(self.n_examples)
        self.n_rounds = 0
        self.node, self.edge = np.zeros((n_nodes, size)), np.zeros((n_edges, size, size))
        self._adjacency = adjacency(n_nodes, design.edges)
        self._parts = fixed_split(design.node_ptr + design.edge_ptr)
        self._shares = np.diff(design.node_ptr + design.edge_ptr) / max(1, n_nodes + n_edges)
        self._banks()
        self.allowed = -1.0

    @property
    def c(self) -> np.ndarray:  # type: ignore[override]
        """Weights of the examples."""
        return self.objective.c

    @property
    def C(self) -> float:  # type: ignore[override]
        """The regularisation of the objective that is smoothed."""
        return self.objective.C

    def set_C(self, C: float) -> None:
        """Change the regularisation of the objective that is smoothed; accuracy is asked for anew."""
        self.objective.set_C(C)
        self.allowed = -1.0

    def _banks(self) -> None:
        """Which table and which factor make up the tables of the edges; those that are the same are computed once."""
        found = self.model.tables(np.zeros(self.n_weights))
        kind = np.stack([found.edge_table.astype(np.float64), found.edge_weight], axis=1)
        different, place = np.unique(kind, axis=0, return_inverse=True)
        self._table, self._factor = different[:, 0].astype(np.int64), np.ascontiguousarray(different[:, 1])
        self._table_of = np.ascontiguousarray(place.reshape(-1), dtype=np.int32)

    def soft(self, w: np.ndarray) -> Soft:
        """The scores at ``w`` for the kernels."""
        model, design = self.model, self.design
        tables = model.tables(w).bank[self._table] * self._factor[:, None, None]
        peaks = tables.max(axis=(1, 2), initial=-np.inf)
        below = (tables - peaks[:, None, None]) / self.smoothing
        bank = np.where(below > kernels.ZERO, np.exp(np.maximum(below, kernels.ZERO)), 0.0)
        ptr, adj_edge, adj_side = self._adjacency
        return Soft(
            design.node_ptr, design.edge_ptr, model.data.n_states, design.edges, ptr, adj_edge, adj_side, design.truth,
            np.ascontiguousarray(model.unary(w) + self.objective.loss_table), self._table_of, tables, peaks, bank,
            np.ascontiguousarray(bank.transpose(0, 2, 1)),
        )  # fmt: skip

    def value_and_gradient(self, w: np.ndarray) -> Evaluation:
        """Value and gradient at ``w`` with messages as good as was asked for (see `tighten`)."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        soft, found = self.soft(w), np.empty((4, self.n_examples))
        if self.allowed < 0:
            self._relax(soft, np.zeros(self.n_examples), 2, found)
            self.allowed = self.accuracy.first * float(0.5 * (w @ w) + self.c @ found[0])
        self._relax(soft, self.allowed * self._shares, self.max_rounds, found)
        self.slack = found[2]
        upper, error = float(0.5 * (w @ w) + self.c @ found[0]), float(self.c @ found[1])
        return Evaluation(upper - error, w - self._moved(), error)

    def _relax(self, soft: Soft, allowed: np.ndarray, n_rounds: int, found: np.ndarray) -> None:
        def run(part: tuple[int, int]) -> None:
            kernels.relax(
                soft, self.messages, self.smoothing, self.c, allowed, n_rounds, *part, self._before, self.node, self.edge, found
            )

        thread_map(run, self._parts, self.n_jobs)
        self.n_rounds += int(found[3].sum())

    def _moved(self) -> np.ndarray:
        r""":math:`\sum_j c_j (\Psi(x_j, y_j) - \Psi(x_j, \mu_j))` for the marginals at hand."""
        sums = [np.zeros(self.n_weights) for _ in self._parts]

        def run(i: int) -> None:
            expected_difference(self.design, self.c, self.node, self.edge, *self._parts[i], sums[i])

        thread_map(run, range(len(self._parts)), self.n_jobs)
        return np.sum(sums, axis=0)

    def joint_value_and_gradient(self, w: np.ndarray, messages: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        r""":math:`F_\epsilon(w, \varphi)` and its derivatives by the weights and by the messages (2, E, K)."""
        w, messages = np.ascontiguousarray(w, dtype=np.float64), np.ascontiguousarray(messages, dtype=np.float64)
        soft, turn = self.soft(w), np.zeros(messages.shape)

        def run(part: tuple[int, int]) -> float:
            return float(kernels.message_gradient(soft, messages, self.smoothing, self.c, *part, self.node, self.edge, turn))

        value = 0.5 * float(w @ w) + sum(thread_map(run, self._parts, self.n_jobs))
        return value, w - self._moved(), turn

    def project(self, w: np.ndarray) -> np.ndarray:
        return w if self.free else self.cone.project(w).weights

    def least_error(self) -> float:
        return self.accuracy.last * (1.0 + float(self.c.sum()) * len(self.design.truth))

    def tangent(self, w: np.ndarray, check: Check) -> FeatureSum:
        with restored(self):
            return self._tangent(w, check)

    def _tangent(self, w: np.ndarray, check: Check) -> FeatureSum:
        self._settle(w)
        own = np.arange(self.n_examples)
        return marginal_tangent(
            self.model, self.objective.loss_table, self.c, own, self.node, self.edge, (1.0, 0.0), self.smoothing, check
        )

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """The bound at the messages of a fresh run, and from below what its beliefs prove: both in plain numpy."""
        if check.exact:
            raise CertificateError(
                "a smoothed objective has sums of exponentials, which cannot be checked in rational arithmetic; leave exact=True out, or "
                "train without smoothing."
            )
        with restored(self):
            tangent, messages = self._tangent(w, check), self.messages.copy()
        found = message_slacks(self.objective, w, messages, self.smoothing)
        data, size = self.model.data, self.model.n_labels
        terms = np.diff(data.node_ptr) + np.diff(data.edge_ptr)
        large = float(np.abs(messages).max(initial=0.0)) * (
            1 + int(np.bincount(data.edges.ravel(), minlength=1).max(initial=0))
        )
        error = 2 * scores_of(self.model, w, self.objective.loss_table).error
        error += 8 * EPS * terms * (size**2 * self.smoothing + large)
        half, product = 0.5 * float((w * w).sum()), float((tangent.vector * w).sum())
        slip = (
            tangent.value_error
            + float(tangent.error @ np.abs(w))
            + PAIRWISE * (half + float(np.abs(tangent.vector) @ np.abs(w)))
        )
        above = total(self.c, w, Slacks(found, found + error, 2 * error, "soft maxima at given messages"))
        return above._replace(low=half + tangent.value - product - slip)

    def _settle(self, w: np.ndarray) -> None:
        """Messages and beliefs for ``w`` that are good enough for a proof; nobody has to trust them."""
        w = np.ascontiguousarray(w, dtype=np.float64)
        soft, found = self.soft(w), np.empty((4, self.n_examples))
        self.messages[:], self._before[:] = 0.0, 0.0  # from nothing, so that whoever checks finds the same
        self._relax(soft, np.zeros(self.n_examples), 2, found)
        rest = self.accuracy.proof * float(0.5 * (w @ w) + self.c @ found[0])
        self._relax(soft, rest * self._shares, self.max_rounds, found)

    def evaluate(self, w: np.ndarray) -> float:
        """The objective at ``w`` with the messages of a fresh evaluation, computed in plain numpy; never from below."""
        self.ask(w)
        return self.objective.primal(w, message_slacks(self.objective, w, self.messages, self.smoothing))

    def smoothing_error(self) -> float:
        """The most by which smoothing lifts the objective."""
        logs = np.log(self.model.data.n_states)
        nodes = np.add.reduceat(np.append(logs, 0.0), self.design.node_ptr[:-1]) * (np.diff(self.design.node_ptr) > 0)
        both = np.append(logs[self.design.edges].sum(axis=1), 0.0)
        edges = np.add.reduceat(both, self.design.edge_ptr[:-1]) * (np.diff(self.design.edge_ptr) > 0)
        return float(self.smoothing * (self.c @ (nodes + edges)))

    def content(self) -> Iterable[np.ndarray]:
        return (*self.objective.content(), np.array([self.smoothing]))

    def state(self) -> dict[str, np.ndarray]:
        return {"smooth_messages": self.messages, "smooth_allowed": np.array([self.allowed])}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        self.messages[:] = state["smooth_messages"]
        self.allowed = float(state["smooth_allowed"][0])


@dataclass(frozen=True, eq=False)
class SmoothedCertificate(GradientCertificate):
    """Tangents of the smoothed objective that prove a bound on it; an objective without smoothing is smoothed first."""

    smoothing: float = 1.0

    def _smooth(self, objective: Any) -> SmoothedObjective:
        smoothing = float(multipliers(self.smoothing, (), "the smoothing of the certificate"))
        own = getattr(objective, "smoothing", 0.0)
        if own != smoothing:
            raise CertificateError(
                f"the certificate is one of the smoothing {smoothing}, the objective has {own}; it proves nothing about another."
            )
        return objective if isinstance(objective, SmoothedObjective) else SmoothedObjective(objective, smoothing)

    objectives: ClassVar[tuple[str, ...]] = ("LPObjective", "SmoothedObjective")

    def _bound(self, objective: Any, check: Check) -> Proven:
        return super()._bound(self._smooth(objective), check)

    def _value(self, objective: Any, w: np.ndarray, check: Check, goal: float | None) -> Proven:
        return super()._value(self._smooth(objective), w, check, goal)


@contextlib.contextmanager
def restored(smooth: SmoothedObjective) -> Iterator[None]:
    """An objective whose messages are afterwards what they were, whatever happens."""
    before = {name: value.copy() for name, value in smooth.state().items()}
    try:
        yield
    finally:
        smooth.restore(before)


def check_smoothing(smoothing: Any) -> float:
    """Refuse what is not a positive number."""
    wanted = "a finite number > 0 in units of the loss; leave it out for the lp surrogate itself"
    check_value("smoothing", smoothing, Real(above=0.0, below=np.inf, wanted=wanted))
    return float(smoothing)
