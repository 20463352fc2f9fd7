"""How `MultiLabelClassifier` trains: model, objective and learner for the data, and a sentence on why they are these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError
from ..core.graph import Graph
from ..core.memory import check_room
from ..kernels.clock import Clock
from ..learning import registry
from ..learning.driver import Learner
from ..learning.learners.cutting_plane import CuttingPlane
from ..learning.learners.subset_ascent import SubsetAscent, unsuited
from ..learning.objectives.base import check_C
from ..learning.objectives.lp import LPObjective
from ..learning.objectives.margin import MarginObjective
from ..learning.objectives.multilabel import MOST_ENUMERATED, MultiLabelObjective
from ..learning.result import LearningPoint, LearningResult
from ..losses import Hamming
from ..models.bound import BoundModel
from ..models.multilabel import MultiLabelModel, label_graph, multiclass
from .choices import SURROGATES as CHOICES
from .choices import (
    as_surrogate,
    check_weighted,
    choose_learner,
    default_learner,
    is_auto,
    likelihood_objective,
    oracle_words,
    refuse_unused,
)
from .convex import CONVEX, as_convex, convex_objective
from .memory import multilabel_bytes
from .multilabel_data import Data, Target, class_costs, for_graph, merged, partly_known, weighted
from .solving import as_jobs, default_solver


@dataclass(frozen=True)
class Tuning:
    """When `SubsetAscent` is left for another learner."""

    patience: int = 100  # passes that it has in any case: gaps say little before
    # Relative gap above which another learner takes over then: features of very unequal scale, where its steps crawl.
    hopeless: float = 0.3


_TUNING = Tuning()


LEARNERS = tuple(name for name, entry in registry.LEARNERS.items() if entry.sets)
SURROGATES = ("margin", "lp", *CONVEX, "likelihood")


class LabelSetPlan(NamedTuple):
    """A training that is ready to start; ``model`` predicts (it has all labels, where ``objective`` may leave out unknown ones)."""

    learner: Learner
    objective: Any
    model: Any
    target: Target
    chosen: str


def prepare(estimator: Any, data: Data, C: float) -> LabelSetPlan:
    """The learner, the objective, and a sentence on why they are these."""
    check_C(C)
    surrogate = as_surrogate(estimator.surrogate, SURROGATES)
    relaxed = surrogate == "lp"
    standard = default_learner(estimator, CHOICES[surrogate])
    chosen_learner = choose_learner(estimator, standard, LEARNERS)
    as_convex(estimator, surrogate, chosen_learner)
    refuse_unused(estimator, surrogate, chosen_learner)
    jobs, oracle = as_jobs(estimator.n_jobs, 1), None if is_auto(estimator.oracle) else estimator.oracle
    target, loss = data.target, estimator.loss
    costs = None
    if estimator.class_weight is not None:
        check_weighted(loss)
        costs, loss = class_costs(estimator.class_weight, target, data.weight), Hamming(loss == "normalised")
    X, labels, weight = merged(data.X, target.labels, data.weight)
    if target.kind == "multiclass":
        plain = multiclass(X, labels, target.classes)
        if costs is not None:
            plain = weighted(plain, costs, np.zeros(len(labels), dtype=np.int64))
        if surrogate in CONVEX:
            return _convex(estimator, plain, plain, target, C, loss, weight, jobs)
        if surrogate == "likelihood":
            return _likelihood(estimator, plain, plain, target, C, weight)
        if estimator.smoothing > 0:
            raise InvalidParameterError(
                f"smoothing is {estimator.smoothing!r} for classes that exclude each other, wanted 0: a single node has no relaxation to smooth."
            )
        single = MarginObjective(plain, C, loss, oracle, weight, jobs)
        learner = choose_learner(estimator, "BlockFrankWolfe", LEARNERS)
        return LabelSetPlan(learner, single, plain, target, "BlockFrankWolfe: one node with several classes.")
    graph = label_graph(estimator.label_graph, *for_graph(target.labels, data.weight))
    potentials, words = estimator.potentials, ""
    if surrogate in CONVEX:
        potentials = "general"
    elif is_auto(potentials):
        potentials, words = _potentials(graph)
    full = MultiLabelModel(graph, potentials).bind(X, labels)
    if oracle is None and surrogate == "margin" and default_solver(full) is not None:
        oracle = "bracket"
        words = f" {graph.n_nodes} labels on this graph are too many for quick exact solvers; supermodular potentials have one."
    known = (labels >= 0).all()
    why = unsuited(full) if known else "takes samples without unknown labels"
    why = why or ("asks no oracle, and one is given" if oracle is not None else "")
    name = "SubsetAscent" if surrogate == "margin" and not why else standard
    learner = choose_learner(estimator, name, LEARNERS)
    check_room(multilabel_bytes(X, labels, design=not isinstance(learner, SubsetAscent)), "this training")
    if known:
        own: Any = full if costs is None else weighted(full, costs, np.tile(np.arange(graph.n_nodes), len(labels)))
    else:
        part, place = partly_known(full, X, labels)
        own = part if costs is None else weighted(part, costs, place)
    if surrogate in CONVEX:
        return _convex(estimator, own, full, target, C, loss, weight, jobs)
    if surrogate == "likelihood":
        return _likelihood(estimator, own, full, target, C, weight)
    if relaxed:
        objective: MarginObjective = LPObjective(own, C, loss, estimator.smoothing, oracle, weight, jobs)
    else:
        objective = (MultiLabelObjective if known else MarginObjective)(own, C, loss, oracle, weight, jobs)
    reason = f"SubsetAscent {why}" if why else "all subsets of so few labels are scored"
    reason = f"the default of the {surrogate} surrogate" if relaxed else reason
    chosen = f"{name}, as {reason}; " if is_open(estimator) else ""
    return LabelSetPlan(
        learner, objective, full, target, f"{chosen}{oracle_words(estimator.oracle, objective, type(learner).__name__)}.{words}"
    )


def _convex(
    estimator: Any, own: BoundModel, full: BoundModel, target: Target, C: float, loss: Any, weight: np.ndarray, jobs: int
) -> LabelSetPlan:
    """The training of a convex energy on ``own``; ``full`` predicts."""
    surrogate = as_surrogate(estimator.surrogate, SURROGATES)
    learner = choose_learner(estimator, CHOICES[surrogate].learner, LEARNERS)
    spec: Any = as_convex(estimator, surrogate, learner)
    objective = convex_objective(surrogate, spec, own, C, loss, weight, jobs)
    model = objective.model if full is own else spec.bind(full)
    chosen = f"{type(learner).__name__}, as the default of the {surrogate} surrogate; " if is_open(estimator) else ""
    words = f"{oracle_words(None, objective)}. The energies are convex, of the form {spec.form!r}."
    return LabelSetPlan(learner, objective, model, target, f"{chosen}{words}")


def _likelihood(
    estimator: Any, own: BoundModel, full: BoundModel, target: Target, C: float, weight: np.ndarray
) -> LabelSetPlan:
    """The training of a conditional random field on ``own``; ``full`` predicts."""
    objective = likelihood_objective(estimator, own, weight, C)
    learner = choose_learner(estimator, "MaximumLikelihood", LEARNERS)
    chosen = f"{type(learner).__name__}, as the default of the likelihood surrogate; " if is_open(estimator) else ""
    return LabelSetPlan(learner, objective, full, target, f"{chosen}{oracle_words(None, objective)}.")


def _potentials(graph: Graph) -> tuple[str, str]:
    """Tables of the choice "auto", and a sentence on it."""
    if graph.is_forest or graph.n_nodes <= MOST_ENUMERATED:
        return "general", " Potentials are general, as the best labels are found exactly all the same."
    return "supermodular", f" Potentials are supermodular, as {graph.n_nodes} labels with cycles are then solved exactly."


def is_open(estimator: Any) -> bool:
    """Whether the learner is ours to choose."""
    return estimator.learner is None or is_auto(estimator.learner)


def minimise(estimator: Any, objective: Any, learner: Learner, planes: Any) -> LearningResult:
    """The learner; `CuttingPlane` takes over where nobody chose, and ascent on ill-conditioned features gets nowhere."""
    if not is_open(estimator) or not isinstance(learner, SubsetAscent):
        return learner.fit(objective, estimator.callback, planes)
    slow, clock = [], Clock(learner.time_limit)

    def watch(point: LearningPoint) -> Any:
        if point.iteration >= _TUNING.patience and point.relative_gap > _TUNING.hopeless:
            slow.append(point)
        return slow or (estimator.callback is not None and estimator.callback(point))

    result = learner.fit(objective, watch, planes)
    if not slow or learner.max_iter <= _TUNING.patience:
        return result
    second = CuttingPlane(
        tol=learner.tol,
        max_iter=learner.max_iter - _TUNING.patience,
        time_limit=None if learner.time_limit is None else clock.left,
        random_state=learner.random_state,
        checkpoint=None if learner.checkpoint is None else f"{learner.checkpoint}.second",
        checkpoint_seconds=learner.checkpoint_seconds,
    )
    other = second.fit(objective, estimator.callback)
    if other.relative_gap >= result.relative_gap:
        return result
    return replace(
        other,
        message=f"{other.message} SubsetAscent was left at a gap of {slow[0].relative_gap:.2g} after {_TUNING.patience} passes: are "
        "features of very different size, or far from 0?",
        n_iter=result.n_iter + other.n_iter,
        n_oracle_calls=result.n_oracle_calls + other.n_oracle_calls,
        seconds=result.seconds + other.seconds,
    )
