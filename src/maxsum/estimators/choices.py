"""What an estimator chooses, and why, in words; and what it learned, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidParameterError
from ..core.parameters import OneOf, check, check_value
from ..core.result import Termination
from ..inference.base import Clock
from ..learning import registry
from ..learning.driver import Learner
from ..learning.dual.associative import lp_learner
from ..learning.learners.perceptron import Perceptron
from ..learning.learners.quasi_newton import ProjectedQuasiNewton
from ..learning.learners.smoothed_lp import SmoothedLP
from ..learning.objectives.base import Objective
from ..learning.objectives.likelihood import LikelihoodObjective
from ..learning.objectives.lp import LPObjective
from ..learning.objectives.margin import MarginObjective
from ..learning.objectives.multilabel import SubsetOracle
from ..learning.oracles.bracket import BracketOracle
from ..learning.oracles.exact import ForestOracle
from ..learning.oracles.relaxed import RelaxedOracle
from ..learning.oracles.solver import SolverOracle
from ..learning.result import LearningResult
from ..losses import Hamming
from ..models.bound import BoundModel
from ..models.convex import ConvexBound
from ..models.trees import TreeLayout
from .convex import as_convex, convex_blocks, convex_objective, is_convex
from .solving import as_jobs

LEARNERS = tuple(name for name, entry in registry.LEARNERS.items() if entry.graphs)


def is_auto(value: Any) -> bool:
    """Whether a parameter is ``"auto"``; arrays may be given, which do not compare."""
    return isinstance(value, str) and value == "auto"


class Surrogate(NamedTuple):
    """A surrogate of `SURROGATES`: its default learner, and how its objective is made of estimator, model, weights and C."""

    learner: str
    objective: Callable[..., Any]


def loss_and_oracle(estimator: Any, bound: BoundModel, weight: np.ndarray) -> tuple[Any, Any]:
    """Loss and oracle of an estimator; None for the oracle that fits."""
    loss, oracle = estimator.loss, None if is_auto(estimator.oracle) else estimator.oracle
    if estimator.class_weight is not None:
        check_weighted(loss)
        loss = Hamming(loss == "normalised", class_weights(estimator.class_weight, bound, weight))
    return loss, oracle


def _margin(estimator: Any, bound: BoundModel, weight: np.ndarray, C: float) -> Objective:
    loss, oracle = loss_and_oracle(estimator, bound, weight)
    return MarginObjective(bound, C, loss, oracle, weight, estimator.n_jobs)


def _lp(estimator: Any, bound: BoundModel, weight: np.ndarray, C: float) -> Objective:
    loss, oracle = loss_and_oracle(estimator, bound, weight)
    return LPObjective(bound, C, loss, estimator.smoothing, oracle, weight, estimator.n_jobs)


def _trivial(estimator: Any, bound: BoundModel, weight: np.ndarray, C: float) -> Objective:
    from ..learning import TrivialObjective

    if estimator.class_weight is not None:
        raise InvalidParameterError("class_weight is for surrogate='margin'; the trivial surrogate has no loss to weight.")
    return TrivialObjective(bound, C=C, sample_weight=weight, n_jobs=estimator.n_jobs)


def _convex(surrogate: str) -> Callable[..., Any]:
    def make(estimator: Any, bound: BoundModel, weight: np.ndarray, C: float, operators: list[Any] | None = None) -> Any:
        spec: Any = as_convex(estimator, surrogate, ProjectedQuasiNewton())
        return convex_objective(
            surrogate, spec, bound, C, loss_and_oracle(estimator, bound, weight)[0], weight, estimator.n_jobs, operators
        )

    return make


def likelihood_objective(estimator: Any, bound: BoundModel, weight: np.ndarray, C: float) -> LikelihoodObjective:
    """The likelihood surrogate; refuses what it has no place for."""
    if estimator.class_weight is not None:
        raise InvalidParameterError(
            "class_weight is given beside surrogate='likelihood', wanted None: a likelihood has no loss to weight. Give sample_weight to "
            "fit, or use surrogate='margin'."
        )
    if not isinstance(estimator.loss, str) or estimator.loss != "hamming":
        raise InvalidParameterError(
            f"loss is {estimator.loss!r} beside surrogate='likelihood', wanted the default 'hamming', which it does not use: a likelihood "
            "has no loss. Losses go with surrogate='margin' or 'lp'."
        )
    learner = choose_learner(estimator, "MaximumLikelihood")
    if not isinstance(learner, ProjectedQuasiNewton) or isinstance(learner, SmoothedLP):
        raise InvalidParameterError(
            f"learner is {type(learner).__name__} beside surrogate='likelihood', wanted None, MaximumLikelihood or ProjectedQuasiNewton: the "
            "objective is smooth and has no planes."
        )
    return LikelihoodObjective(bound, C, weight, as_jobs(estimator.n_jobs, 1))


def check_likelihood(objective: Any, surrogate: Any) -> None:
    """Refuse probabilities of a model that was not trained for them."""
    if objective.surrogate != "likelihood":
        raise InvalidParameterError(
            f"predict_marginals needs a model trained with surrogate='likelihood', but this one was with surrogate={surrogate!r}, whose "
            "scores are no logarithms of probabilities. Set surrogate='likelihood' and fit again."
        )


SURROGATES = {
    "margin": Surrogate("BlockFrankWolfe", _margin),
    "lp": Surrogate("BlockFrankWolfe", _lp),
    "trivial": Surrogate("CuttingPlane", _trivial),
    "qp": Surrogate("ProjectedQuasiNewton", _convex("qp")),
    "logistic": Surrogate("ProjectedQuasiNewton", _convex("logistic")),
    "likelihood": Surrogate("MaximumLikelihood", likelihood_objective),
}


def default_learner(estimator: Any, surrogate: Surrogate) -> str:
    """The learner where nobody chose: that of the surrogate, or of its smooth version."""
    if estimator.smoothing > 0 and surrogate.objective is not _lp:
        raise InvalidParameterError(
            f"smoothing is {estimator.smoothing!r}, wanted 0: only surrogate='lp' has a smooth version."
        )
    return "SmoothedLP" if estimator.smoothing > 0 else surrogate.learner


def refuse_unused(estimator: Any, surrogate: str, learner: Learner) -> None:
    """Refuse parameters that are not at their defaults, but that this surrogate or learner would ignore.

    `as_convex` does so for convex energies, `likelihood_objective` for the loss of a likelihood, and learners that ask no oracle for oracles.
    """
    loss = estimator.loss
    weighted = not (isinstance(loss, str) and loss == "hamming")
    if surrogate == "trivial" and weighted:
        raise InvalidParameterError(
            f"loss is {loss!r} beside surrogate='trivial', wanted the default 'hamming', which it does not use: an inequality of a strictly trivial "
            "problem has a margin of 1. Losses go with surrogate='margin' or 'lp'."
        )
    if surrogate in ("trivial", "likelihood") and estimator.oracle is not None and not is_auto(estimator.oracle):
        raise InvalidParameterError(
            f"oracle is {estimator.oracle!r} beside surrogate={surrogate!r}, wanted None: training asks no max-sum solver. A solver of "
            "predictions is solver=..."
        )
    if isinstance(learner, Perceptron) and (weighted or estimator.class_weight is not None):
        raise InvalidParameterError(
            f"loss is {loss!r} and class_weight {estimator.class_weight!r} beside the learner Perceptron, wanted 'hamming' and None: it separates the "
            "examples, whatever a wrong label costs. Losses go with other learners."
        )


def as_surrogate(given: Any, known: Collection[str] = tuple(SURROGATES)) -> str:
    """The name of a surrogate; the first one for ``auto``."""
    if is_auto(given):
        return next(iter(known))
    check_value("surrogate", given, OneOf(*known, "auto"))
    return str(given)


def choose_learner(estimator: Any, default: str, names: Collection[str] = LEARNERS) -> Learner:
    """The learner that is given, or the one of that name (or the default) with the limits of the estimator."""
    name = estimator.learner
    if isinstance(name, Learner):
        return name
    if name is None or is_auto(name):
        name = default
    if not isinstance(name, str) or name not in names:
        raise InvalidParameterError(
            f"learner is {estimator.learner!r}, wanted None or a learner such as maxsum.learning.BlockFrankWolfe(), or one of the "
            f"names {', '.join(names)}."
        )
    own: Learner = registry.learner_class(name)(
        tol=estimator.tol,
        max_iter=estimator.max_iter,
        time_limit=estimator.time_limit,
        random_state=estimator.random_state,
        checkpoint=estimator.checkpoint,
        checkpoint_seconds=estimator.checkpoint_seconds,
    )
    return own


def fastest_learner(estimator: Any, learner: Learner, objective: Any) -> Learner:
    """The learner, or a faster one for the sizes of an ``lp`` objective where nobody chose any.

    The others ask no oracle and go on from nothing, so that the default stays with an oracle, a checkpoint or a warm start.
    """
    chosen = estimator.learner is not None and not is_auto(estimator.learner)
    asked = estimator.oracle is not None and not is_auto(estimator.oracle)
    if chosen or asked or estimator.checkpoint is not None or estimator.warm_start or type(objective) is not LPObjective:
        return learner
    return learner if objective.smoothing > 0 else choose_learner(estimator, lp_learner(objective))


def started(estimator: Any) -> Clock:
    """The clock of a fit, which starts now if its settings are legal."""
    check(estimator)
    return Clock(estimator.time_limit)


def within(estimator: Any, learner: Learner, clock: Clock) -> Learner:
    """The learner with what is left of the estimator's time after the data were read; one that was given keeps its own limit."""
    if learner is estimator.learner or clock.limit is None:
        return learner
    return replace(learner, time_limit=clock.left)


def check_weighted(loss: Any) -> None:
    """Refuse class weights beside a loss that has its own."""
    if not isinstance(loss, str) or loss not in ("hamming", "normalised"):
        raise InvalidParameterError(
            f"class_weight is given beside loss={loss!r}, wanted loss='hamming' or 'normalised' with it; "
            "a table of costs can hold the weights itself."
        )


def sentence(estimator: Any, bound: BoundModel | ConvexBound, objective: Any, learner: Learner) -> str:
    """Which potentials (if they were open), learner and oracle worked, and why."""
    name = type(learner).__name__
    open_choice = estimator.learner is None or is_auto(estimator.learner)
    surrogate = as_surrogate(estimator.surrogate)
    usual = name == default_learner(estimator, SURROGATES[surrogate])
    why = f"the default of the {surrogate} surrogate" if usual else f"the fastest of the {surrogate} surrogate for these sizes"
    why = f"learner {name}, {why if open_choice else 'as given'}"
    return f"Chosen: {_potentials(estimator, bound)}{why}; {oracle_words(estimator.oracle, objective, name)}."


def _potentials(estimator: Any, bound: BoundModel | ConvexBound) -> str:
    if isinstance(bound, ConvexBound):
        more = " with operators" if bound.spec.n_operators else ""
        more += " in the leaves of trees" if isinstance(bound.layout, TreeLayout) else ""
        return f"convex energies of the form {bound.spec.form!r}{more}; "
    if not is_auto(estimator.potentials):
        return ""
    if bound.layout.model.potentials == "supermodular":
        return "supermodular potentials, as two labels on graphs with cycles are then solved exactly; "
    return f"general potentials, as {'no graph has a cycle' if bound.is_forest else 'no smaller class is known to fit'}; "


def oracle_words(given: Any, objective: Any, learner: str = "") -> str:
    """Which oracle works, and why; ``given`` is what the user said."""
    if is_convex(objective):
        how = "projected gradients minimise the convex energies" if objective.convex else "scores solve linear systems"
        return f"no oracle, as {how}"
    if isinstance(objective, LikelihoodObjective):
        return f"no oracle, as {objective.words()}"
    if hasattr(objective, "source"):
        return f"oracles where the shards are, by {type(objective.executor).__name__}"
    if not isinstance(objective, MarginObjective) or learner in ("ProximalPoint", "CompactQP", "SmoothedLP", "FactorAscent"):
        return "no oracle, as the surrogate needs no max-sum solver"
    oracle: Any = objective.oracle
    if given is not None and not is_auto(given):
        return f"oracle {given if isinstance(given, str) else type(given).__name__}, as given"
    if isinstance(oracle, SubsetOracle):
        return "oracle enumeration, as all sets of so few labels can be tried"
    if isinstance(oracle, ForestOracle):
        return "oracle dynamic programming, as no training graph has a cycle"
    if isinstance(oracle, SolverOracle):
        return "oracle an exact solver by structure, as the graphs have cycles and solve() knows one for each"
    if isinstance(oracle, RelaxedOracle):
        return "oracle TRW-S, then the linear program where that leaves a gap, as the graphs have cycles"
    if isinstance(oracle, BracketOracle):
        return "oracle TRW-S with brackets, as the graphs have cycles and no fast exact solver fits them all"
    return f"oracle {type(oracle).__name__}"


def unfinished(result: LearningResult, learner: Learner) -> str:
    """What to warn of where a training ended too early; nothing elsewhere."""
    if result.termination == Termination.converged or result.relative_gap <= 1e-9:
        return ""
    found = f"{result.learner} ended ({result.termination.replace('_', ' ')}) after {result.n_iter} passes with the objective "
    if np.isneginf(result.lower_bound):
        return f"{found}{result.objective:.6g}, and no lower bound. Raise max_iter or time_limit, or tol."
    return (
        f"{found}{result.objective:.6g} and the lower bound {result.lower_bound:.6g}: a relative gap of {result.relative_gap:.2g}, "
        f"wanted {learner.tol:g}. Raise max_iter or time_limit, or tol."
    )


def class_weights(given: Any, bound: BoundModel, sample_weight: np.ndarray) -> np.ndarray:
    r"""Weight of each class in the Hamming loss; ``balanced`` is :math:`\sum_l n_l / (K n_k)`, with nodes counted by the weights
    of their samples, and 1 for a class without nodes."""
    if any(own is not bound.classes[0] for own in bound.classes):
        raise InvalidParameterError("class_weight needs one list of classes for all node types; use a loss instead.")
    classes, size = bound.classes[0].tolist(), bound.n_labels
    if isinstance(given, str):
        if given != "balanced":
            raise InvalidParameterError(f"class_weight is {given!r}, wanted 'balanced', a dict, or one number for each class.")
        labels = bound.labels if bound.labels is not None else np.zeros(0, dtype=np.int32)
        count = np.bincount(labels, weights=np.repeat(sample_weight, np.diff(bound.data.node_ptr)), minlength=size)
        return balanced(count)
    if isinstance(given, Mapping):
        number = {label: k for k, label in enumerate(classes)}
        weight = np.ones(size)
        for label, value in given.items():
            if label not in number:
                raise InvalidParameterError(
                    f"class_weight names {label!r}, wanted some of the classes {classes[:12]}. Declare classes=[...] that a fold lacks."
                )
            weight[number[label]] = value
    else:
        weight = np.asarray(given, dtype=np.float64)
    if weight.shape != (size,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise InvalidParameterError(
            f"class_weight is {given!r}, wanted {size} finite numbers >= 0, in the order of the classes."
        )
    return weight


def balanced(count: np.ndarray) -> np.ndarray:
    r""":math:`\sum_l n_l / (K n_k)` over the classes that are present, 1 for others."""
    present = count > 0
    return np.where(present, count.sum() / (max(1, present.sum()) * np.where(present, count, 1.0)), 1.0)


def coefficients(
    bound: BoundModel | ConvexBound, weights: np.ndarray, type_names: list[str], feature_names: list[str]
) -> dict[str, np.ndarray]:
    """Weights as arrays by name, 0 where a table has no weight; without homogeneity a first axis runs over nodes or edges.

    Convex energies have matrices and linear terms in the place of tables, without homogeneity one for each edge by name.
    """
    layout = bound.layout
    if isinstance(bound, ConvexBound):
        nodes, terms, matrices = convex_blocks(bound, weights)
        blocks = _node_blocks(bound.base, layout, nodes)
        if isinstance(layout, TreeLayout):
            type_names = layout.trees.leaf_names(type_names)
        for where, term, matrix in zip(_places(layout, type_names, feature_names), terms, matrices, strict=True):
            blocks |= {f"linear{where}": term, f"matrices{where}": matrix}
        return blocks | ({"operators": weights[bound.slices[3]]} if bound.spec.n_operators else {})
    blocks = _node_blocks(bound, layout, weights)
    n_edges = 1 if layout.model.homogeneous else layout.graph_size[1]
    n_types, n_features = layout.n_edge_types if layout.model.homogeneous else 1, layout.n_edge_features
    edges = _take(weights, bound.edge_index).reshape(n_types, n_edges, n_features, bound.n_labels, bound.n_labels)
    names = _places(layout, type_names, feature_names)
    for t in range(n_types):
        for f in range(n_features):
            own = edges[t, :, f]
            if layout.model.homogeneous:
                blocks[f"edges{names[t * n_features + f]}"] = own[0]
            else:
                blocks["edges" + (f"[{_name(feature_names, f, 'feature')}]" if n_features > 1 else "")] = own
    return blocks


def _take(weights: np.ndarray, index: np.ndarray) -> np.ndarray:
    return np.where(index >= 0, weights[np.maximum(index, 0)], 0.0) if len(weights) else np.zeros(index.shape)


def _node_blocks(bound: BoundModel, layout: Any, weights: np.ndarray) -> dict[str, np.ndarray]:
    model, width = layout.model, layout.width
    n_nodes = 1 if model.homogeneous else layout.graph_size[0]
    blocks: dict[str, np.ndarray] = {}
    nodes = _take(weights, bound.node_index).reshape(layout.n_node_types, n_nodes, width, bound.n_labels)
    for t, own in enumerate(nodes):
        where = f"[type {t}]" if len(nodes) > 1 else ""
        own = own[:, :, : layout.n_classes[t]]
        own = own[0] if model.homogeneous else own
        blocks[f"nodes{where}"] = own[..., : width - model.bias, :]
        if model.bias:
            blocks[f"bias{where}"] = own[..., -1, :]
    return blocks


def _places(layout: Any, type_names: list[str], feature_names: list[str]) -> list[str]:
    """Type (or edge, without homogeneity) and feature of each table, in brackets where there are several."""
    one = layout.model.homogeneous
    n_blocks, n_features = layout.n_edge_types if one else layout.graph_size[1], layout.n_edge_features
    found = []
    for t in range(n_blocks):
        for f in range(n_features):
            parts = [_name(type_names if one else [], t, "type" if one else "edge")] if n_blocks > 1 else []
            parts += [_name(feature_names, f, "feature")] if n_features > 1 else []
            found.append(f"[{', '.join(parts)}]" if parts else "")
    return found


def _name(names: list[str], number: int, kind: str) -> str:
    return names[number] if names else f"{kind} {number}"
