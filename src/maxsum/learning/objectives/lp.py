r"""LPObjective: the hinge with the dual bound of the linear relaxation inside (LP-M3N, Franc & Laskov 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.parameters import Real, check_value
from ...core.problem import Problem
from ...core.result import Result
from ...inference.dispatch import solve
from ...inference.relaxations.finisher import LPFinisher
from ...inference.relaxations.tightened import TightenedTRWS
from ...losses import Loss
from ...models.bound import BoundModel
from ..certificate import Check, Proven
from ..oracles.base import Key, Oracle
from ..oracles.clusters import ClusterOracle
from ..oracles.exact import ForestOracle
from ..oracles.relaxed import Relaxed, RelaxedOracle
from .base import Plane
from .margin import MarginObjective

if TYPE_CHECKING:
    from ..proofs.feature_sums import FeatureSum

_LP_ENTRIES = 200_000  # of edge tables, up to which a check solves the linear program of an example: seconds
_LP_SECONDS = 10.0  # for it
_LP_TOLERANCE = 1e-8  # its relative gap, below what claims about brackets are held to (`maxsum.learning.certificate.LOOSE`)


class LPObjective(MarginObjective):
    r"""LP-M3N: the slack is the value of the linear relaxation of the loss-augmented problem, from its dual,

    .. math::
        F(w, \varphi) = \tfrac12\|w\|^2 + \sum_j c_j R_j(w, \varphi_j),\qquad
        R_j = \sum_t \max_k q^{\varphi}_t(k) + L_t(k) + \sum_{tt'} \max_{kl} g^{\varphi}_{tt'}(k, l)
              - \langle w, \Psi(x_j, y_j)\rangle,

    jointly convex in the weights and the messages :math:`\varphi_j` of every example; never below the M3N objective, and equal to
    it where the relaxation is tight, on forests always. As a function of ``w`` alone,
    :math:`\xi_j(w) = \min_\varphi R_j = \max_\mu \langle L_j, \mu\rangle - \langle w, \Psi(y_j) - \Psi(\mu)\rangle` over the
    local polytope: a plane is a labelling, or pseudo-marginals (`Relaxed`) where labellings are not enough.

    Parameters
    ----------
    model : BoundModel
        With labels.
    C : float
    loss : Loss or str
    smoothing : float
        Temperature of the entropy-smoothed bound; 0 for the bound itself. Learners: `SmoothedLP` above 0, any other at 0.
    tighten : bool
        Take cycles of edges as clusters into the relaxation (`TightenedTRWS`), for all examples on the same graph: the slack lies between
        that of the exact hinge and that of the linear relaxation, and meets the first where the clusters are tight. Planes are labellings,
        so that ``lower_bound`` is one on the exact M3N objective, and ``objective``, with the tightened bounds as slacks, is above it.
    oracle : object, optional
        With a method ``answer`` as those of `maxsum.learning.oracles`.
    sample_weight : array-like, optional
    n_jobs : int
        Threads over examples.
    """

    surrogate = "lp"

    relaxed = True

    def __init__(
        self,
        model: BoundModel,
        C: float = 1.0,
        loss: Loss | str = "hamming",
        smoothing: float = 0.0,
        oracle: Any = None,
        sample_weight: Any = None,
        n_jobs: int = 1,
        tighten: bool = False,
    ):
        wanted = "a temperature >= 0; 0 for the linear relaxation itself"
        check_value("smoothing", smoothing, Real(0.0, below=np.inf, wanted=wanted))
        model.refuse_factors("the lp surrogate")
        if model.has_forbidden:
            raise InvalidSampleError(
                "the model forbids pairs of labels (-inf), where the linear relaxation has no finite messages to learn with; "
                'train with surrogate="margin".'
            )
        self.tighten, self.relaxed = bool(tighten), not tighten
        if tighten:
            _check_tighten(model, smoothing, oracle)
        super().__init__(model, C, loss, oracle, sample_weight, n_jobs)
        self.smoothing = float(smoothing)

    def _choose(self, oracle: Any) -> Oracle:
        if oracle is not None:
            return super()._choose(oracle)
        if self.model.is_forest:
            return ForestOracle(self.model, self.design)
        return (ClusterOracle if self.tighten else RelaxedOracle)(self.model, self.design)

    def values(self, w: np.ndarray, examples: np.ndarray, keys: Sequence[Key]) -> np.ndarray:
        soft = np.array([isinstance(key, Relaxed) for key in keys], dtype=bool)
        if not soft.any():
            return super().values(w, examples, keys)
        out = np.empty(len(examples))
        if not soft.all():
            out[~soft] = super().values(w, examples[~soft], [key for key in keys if not isinstance(key, Relaxed)])
        for i in np.flatnonzero(soft).tolist():
            plane = self.plane(int(examples[i]), keys[i])
            out[i] = plane.offset - w[plane.index] @ plane.value
        return out

    def plane(self, j: int, key: Key) -> Plane:
        if not isinstance(key, Relaxed):
            return super().plane(j, key)
        model = self.model
        node, edge = key.marginals(model.data.graphs[j].edges)
        rows = slice(int(model.data.node_ptr[j]), int(model.data.node_ptr[j + 1]))
        z = model.feature(j, model.truth(j)) - model.feature_marginals(j, node, edge)
        index = np.flatnonzero(z)
        return Plane(j, float((self.loss_table[rows] * node).sum()), index.astype(np.int64), z[index], key)

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        from ..proofs.feature_sums import feature_sum, relaxed_moves

        soft = np.array([isinstance(key, Relaxed) for key in keys], dtype=bool)
        hard = np.flatnonzero(~soft)
        total = super().sum_planes(examples[hard], [keys[i] for i in hard.tolist()], alpha[hard], check)
        if soft.any():
            own: list[Relaxed] = [key for key in keys if isinstance(key, Relaxed)]
            total += feature_sum(self.model, self.loss_table, relaxed_moves(self.model, examples[soft], own, alpha[soft]))
            check.step(0)
        return total

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray) -> tuple[Any, Any]:
        from ..proofs.exact_marginals import exact_relaxed_sum

        soft = np.array([isinstance(key, Relaxed) for key in keys], dtype=bool)
        hard = np.flatnonzero(~soft)
        total, value = super().exact_planes(examples[hard], [keys[i] for i in hard.tolist()], alpha[hard])
        for i in np.flatnonzero(soft).tolist():
            more = exact_relaxed_sum(self.model, self.loss_table, int(examples[i]), keys[i], float(alpha[i]))
            total, value = total + more[0], value + more[1]
        return total, value

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """Slacks from messages of fresh solves, checked in plain numpy: relaxations, never searches unless clusters are allowed."""
        from ..proofs.evaluation import hinge

        def relax(problem: Problem, known: Result, seconds: float) -> Result | None:
            finisher = LPFinisher(tol=_LP_TOLERANCE, time_limit=min(_LP_SECONDS, seconds))
            small = problem.n_edges * problem.n_labels**2 <= _LP_ENTRIES and finisher.supports(problem).ok
            return finisher.solve(problem, init=known) if small else None

        def tightened(problem: Problem, known: Result, seconds: float) -> Result | None:
            found = TightenedTRWS(time_limit=min(_LP_SECONDS, seconds)).solve(problem, init=known)
            return found if found.gap <= problem.resolution else solve(problem, init=found, gap=0.0, time_limit=seconds)

        return hinge(self, w, check, goal, tightened if self.tighten else relax)

    def tightness(self, w: np.ndarray) -> dict[str, float]:
        """How tight the relaxation is for the training problems (without the loss) under ``w``.

        Returns
        -------
        dict
            ``tight``: share of examples whose labelling reaches the bound of the relaxation; ``undecided``: share of nodes
            whose label the relaxation does not prove.
        """
        tight, undecided = 0, 0
        for problem in self.model.problems(w):
            result = solve(problem, "TreeDP" if self.model.is_forest else "TRWS")
            closed = result.gap <= problem.resolution
            tight += closed
            fixed = 0 if result.fixed is None else int(result.fixed.sum())
            undecided += 0 if closed else problem.n_nodes - fixed
        n_nodes = max(1, len(self.design.truth))
        return {"tight": tight / max(1, self.n_examples), "undecided": undecided / n_nodes}


def _check_tighten(model: BoundModel, smoothing: float, oracle: Any) -> None:
    """Refuse what clusters do not go with."""
    if smoothing > 0:
        raise InvalidParameterError(
            f"tighten is True with smoothing={smoothing!r}, wanted smoothing=0: clusters tighten the bound itself, which is not smoothed."
        )
    if oracle is not None:
        raise InvalidParameterError(
            f"tighten is True with oracle={oracle!r}, wanted oracle=None: clusters have an oracle of their own."
        )
    if model.data.cliques is not None:
        raise InvalidSampleError(
            "tighten is True for samples with cliques, wanted nodes and edges alone; write cliques of two nodes as edges, or leave tighten out."
        )


def check_lp(objective: Any, name: str) -> None:
    """Refuse objectives without a dual bound whose messages are all finite."""
    if not isinstance(objective, MarginObjective):
        raise InvalidSampleError(
            f"{name} got a {type(objective).__name__}, wanted the lp surrogate: an objective of a model with node and edge features."
        )
    if objective.model.labels is None:
        raise InvalidSampleError("the model was bound without labels; give them to bind().")
    if objective.model.has_forbidden:
        raise InvalidSampleError(
            f"{name}: the model forbids pairs of labels (-inf), where the linear relaxation has no finite messages to learn with; "
            'wanted finite tables. Train with surrogate="margin".'
        )
