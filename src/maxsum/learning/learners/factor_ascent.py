"""FactorAscent: the dual of LP-M3N taken apart into nodes and edges, for few large graphs with many weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UnsupportedProblemError
from ...core.parameters import Maybe, Real, settings
from ...kernels.factor_ascent import agree, factor_passes, message_bounds
from ...kernels.net import adjacency
from ...kernels.records import Factors
from ..driver import Learner, Training
from ..dual.dual_bound import check_relaxed, unsuited_for_factors
from ..dual.pseudo_marginals import MarginalCertificate, PseudoMarginals
from ..objectives.margin import refuse_oracle
from ..protocols import HasDesign, HasPlanes, HasRelaxation
from ..state import REBUILT


@dataclass(frozen=True)
class Tuning:
    """Constants of `FactorAscent`, found on a citation graph of 1708 known nodes with 10 080 weights, C from 0.001 to 10."""

    rounds: int = 20  # of a pass and a step of the multipliers, after which marginals are made and the bound is taken
    passes: int = 1  # over all blocks in a round; 3 took 1.6 to 3.5 times as long
    steps: int = 5  # pairwise steps in a visit of an edge; most need one or two
    stiffness: float = 4.0  # the first penalty, in mean squared norms of the features of a node; with 3 passes, 0.6 took up to 6 times and 20 up to twice as long as 6
    balance: float = 30.0  # how many times more the one part of the gap may be than the other before the penalty is changed,
    turn: float = 1.5  # and the factor by which it is
    pull: float = 0.3  # of the way from the best point to the present one: a second point that is tried where the present one is no better


TUNING = Tuning()


@dataclass(frozen=True)
class FactorAscent(Learner):
    r"""Dual block-coordinate ascent where every node and every edge of a graph is a block.

    The dual of LP-M3N is a concave quadratic over the local polytopes of the graphs. Without the condition that the table of an edge has the
    marginals of its nodes it is one over thousands of small simplices, on which block steps are as fast as on as many examples. The
    condition is met by multipliers, the messages of the bound, and a quadratic penalty (the augmented Lagrangian):

    .. math:: \max_\nu\; \langle L, \nu\rangle - \tfrac12\|w(\nu)\|^2 - \langle\varphi, d(\nu)\rangle - \tfrac\rho2\|d(\nu)\|^2,
              \qquad \varphi \leftarrow \varphi + \rho\,d(\nu).

    Weights and messages give the objective as they are; masses, moved into the local polytope, the lower bound. Large graphs need no oracle so, and a
    single one is as good as many. With few weights all blocks pull at the same ones, and `BlockFrankWolfe` is faster.

    Parameters
    ----------
    penalty : float, optional
        The first :math:`\rho`; by default one that fits the features. It is changed as the two parts of the gap (that of the blocks, and what
        moving the masses costs) ask for it.

    Notes
    -----
    ``result.extra["messages"]`` are those (2, E, K) that prove the objective of the result.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign, HasRelaxation)

    penalty: float | None = None

    _parameters = settings(
        penalty=Maybe(Real(above=0.0, below=np.inf), wanted="a finite number > 0, or None for one that fits the features")
    )

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        check_relaxed(self, objective)
        refuse_oracle(self, objective)
        why = unsuited_for_factors(objective)
        if why:
            raise UnsupportedProblemError(f"FactorAscent takes no such objective: {why}. Use BlockFrankWolfe.")

    def init(self, objective: Any, training: Training, start: Any = None) -> FactorState:
        before = start if isinstance(start, FactorState) and start.objective is objective else None
        return FactorState.begin(self, objective, before)

    def step(self, state: FactorState, training: Training) -> None:
        """Rounds of passes and of the multipliers, then a lower bound."""
        training.extra["planes"] = state
        marginals = state.advance(training)
        training.extra["messages"] = state.best_messages
        if marginals.dual >= training.dual:
            training.bound(marginals.dual, marginals.certificate())  # type: ignore[arg-type]

    def finish(self, state: FactorState, training: Training) -> None:
        if isinstance(training.certificate, MarginalCertificate):
            training.certificate = replace(training.certificate, messages=state.best_messages)


@dataclass(eq=False)
class FactorState:
    """Masses, messages, weights.

    Attributes
    ----------
    node, edge : ndarray, shapes (N, K) and (E, K * K)
        Masses; those of a block add up to the weight of its example.
    messages : ndarray, shape (2, E, K)
        With the penalty in them; ``best_messages`` are those of the best weights so far.
    plain, value : ndarray
        What the masses make, and the same within the cone.
    limit : ndarray
        Weights of the examples that the masses add up to.
    """

    learner: FactorAscent = field(metadata=REBUILT)
    objective: Any = field(metadata=REBUILT)
    node: np.ndarray
    edge: np.ndarray
    messages: np.ndarray
    best_messages: np.ndarray
    plain: np.ndarray
    value: np.ndarray
    limit: np.ndarray
    penalty: float
    random: np.random.Generator
    factors: Factors = field(init=False, metadata=REBUILT)
    blocks: np.ndarray = field(init=False, metadata=REBUILT)

    def __post_init__(self) -> None:
        self.restored()

    @classmethod
    def begin(cls, learner: FactorAscent, objective: Any, before: FactorState | None) -> FactorState:
        """The truth with all the mass; or masses of a training with another C, the truth with what is left or cut down in proportion."""
        design, size, limit = objective.design, objective.model.n_labels, objective.c.copy()
        (u, v), truth = design.edges.T, design.truth
        counts = np.diff(design.node_ptr), np.diff(design.edge_ptr)
        node, edge = (np.zeros((int(own.sum()), width)) for own, width in zip(counts, (size, size**2), strict=True))
        messages, plain, penalty = np.zeros((2, len(u), size)), np.zeros(objective.n_weights), learner.penalty
        if before is not None:
            kept = np.divide(limit, before.limit, out=np.zeros_like(limit), where=before.limit > 0)
            kept = np.minimum(kept, 1.0)
            node, edge = (own * np.repeat(kept, n)[:, None] for own, n in zip((before.node, before.edge), counts, strict=True))
            messages, penalty = before.messages.copy(), penalty or before.penalty
        for mass, n, own in zip((node, edge), counts, (truth, truth[u] * size + truth[v]), strict=True):
            rows = np.arange(len(mass))
            mass[rows, own] = 0.0
            mass[rows, own] = np.maximum(np.repeat(limit, n) - mass.sum(axis=1), 0.0)
        state = cls(
            learner, objective, node, edge, messages, messages.copy(), plain, plain.copy(), limit, penalty or 1.0,
            np.random.default_rng(learner.random_state),
        )  # fmt: skip
        if before is not None:
            plain[:] = state.marginals().u
            state.value[:] = np.where(objective.cone.nonneg, np.maximum(plain, 0.0), plain)
        if not penalty:
            state.penalty = TUNING.stiffness * float(state.factors.node_curve.mean() if len(truth) else 0.0) or 1.0
        return state

    def restored(self) -> None:
        """What follows from the fields."""
        objective, design = self.objective, self.objective.design
        counts = np.diff(design.node_ptr), np.diff(design.edge_ptr)
        node_limit, edge_limit = (np.repeat(self.limit, n) for n in counts)
        square = np.concatenate([[0.0], np.cumsum(design.x_val**2)])
        curve = _repeats(design.node_index.ravel()) * (square[design.x_ptr[1:]] - square[design.x_ptr[:-1]])
        by_feature = [np.unique(own[own >= 0]) for own in design.edge_index.reshape(len(design.edge_index), -1)]
        shared = float(_repeats(np.concatenate([np.zeros(0, dtype=np.int64), *by_feature])))
        self.factors = Factors(
            self.node, self.edge, self.messages, self.plain, self.value, objective.cone.nonneg.astype(np.uint8), node_limit, edge_limit,
            curve, shared,
            objective.model.data.n_states, *adjacency(len(design.truth), design.edges),
        )  # fmt: skip
        self.blocks = np.flatnonzero(np.concatenate([node_limit, edge_limit]) > 0)

    def advance(self, training: Training) -> PseudoMarginals:
        """Rounds of passes and of the multipliers, each of which offers weights; returns marginals, whose ``dual`` is a lower bound of LP-M3N."""
        gap = value = 0.0
        for _ in range(TUNING.rounds):
            gap = self.ascend()
            value = self.offer(training)
            agree(self.objective.design, self.factors, self.penalty)
            if training.seconds_left <= 0:
                break
        marginals = self.marginals()
        self.adapt(gap, value - marginals.dual - gap)
        return marginals

    def ascend(self) -> float:
        """Passes over all blocks in random order; returns the sum of their gaps."""
        order = self.random.permutation(self.blocks)
        return float(factor_passes(self.objective.design, self.factors, self.penalty, order, TUNING.passes, TUNING.steps))

    def offer(self, training: Training) -> float:
        """The objective of the present weights and messages, and of a point between them and the best ones; returns the first."""
        value = self._offer(training, self.value, self.messages)
        if value > training.primal:
            best, messages = training.weights, self.best_messages
            self._offer(training, best + TUNING.pull * (self.value - best), messages + TUNING.pull * (self.messages - messages))
        return value

    def _offer(self, training: Training, w: np.ndarray, messages: np.ndarray) -> float:
        slack = np.empty(self.objective.n_examples)
        message_bounds(self.objective.design, self.factors, w, messages, slack)
        value = self.objective.primal(w, np.maximum(slack, 0.0))
        if training.offer(w, value, False):
            self.best_messages = messages.copy()
        return float(value)

    def marginals(self) -> PseudoMarginals:
        """The masses as a point of the local polytopes."""
        size = self.objective.model.n_labels
        node, edge = (
            mass / np.where(limit > 0, limit, 1.0)[:, None]
            for mass, limit in ((self.node, self.factors.node_limit), (self.edge, self.factors.edge_limit))
        )
        return PseudoMarginals(self.objective, node, edge.reshape(-1, size, size), self.objective.n_jobs, copy=False)

    def adapt(self, blocks: float, agreement: float) -> None:
        """A stronger penalty where what is left of the gap is that masses do not agree, a weaker one where it is the blocks."""
        if blocks > TUNING.balance * agreement:
            self.penalty /= TUNING.turn
        elif agreement > TUNING.balance * blocks:
            self.penalty *= TUNING.turn


def _repeats(index: np.ndarray) -> int:
    """How often the most frequent weight stands in an index."""
    return int(np.bincount(index[index >= 0]).max(initial=1))
