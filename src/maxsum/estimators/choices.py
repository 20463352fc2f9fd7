"""What an estimator chose, in words, and what it learned, in blocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError
from ..learning.driver import Learner
from ..learning.objective import MarginObjective, Objective
from ..learning.oracles import BracketOracle, ForestOracle, SolverOracle
from ..models.bound import BoundModel

LEARNERS = ("BlockFrankWolfe", "CuttingPlane", "Subgradient", "Perceptron")


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def sentence(estimator: Any, bound: BoundModel, objective: Objective, learner: Learner) -> str:
    """Which potentials (if they were open), learner and oracle worked, and why."""
    name = type(learner).__name__
    open_choice = estimator.learner is None or is_auto(estimator.learner)
    surrogate = "margin" if isinstance(objective, MarginObjective) else "trivial"
    why = f"learner {name}, {f'the default of the {surrogate} surrogate' if open_choice else 'as given'}"
    return f"Chosen: {_potentials(estimator, bound)}{why}; {_oracle(estimator, objective)}."


def _potentials(estimator: Any, bound: BoundModel) -> str:
    if not is_auto(estimator.potentials):
        return ""
    layout: Any = bound.encode.__self__  # type: ignore[attr-defined]
    if layout.model.potentials == "supermodular":
        return "supermodular potentials, as two labels on graphs with cycles are then solved exactly; "
    return f"general potentials, as {'no graph has a cycle' if bound.is_forest else 'no smaller class is known to fit'}; "


def _oracle(estimator: Any, objective: Objective) -> str:
    if not isinstance(objective, MarginObjective):
        return "no oracle, as the surrogate needs no max-sum solver"
    oracle: Any = objective.oracle
    if estimator.oracle is not None and not is_auto(estimator.oracle):
        given = estimator.oracle if isinstance(estimator.oracle, str) else type(estimator.oracle).__name__
        return f"oracle {given}, as given"
    if isinstance(oracle, ForestOracle):
        return "oracle dynamic programming, as no training graph has a cycle"
    if isinstance(oracle, SolverOracle):
        return "oracle an exact solver by structure, as the graphs have cycles and solve() knows one for each"
    if isinstance(oracle, BracketOracle):
        return "oracle TRW-S with brackets, as the graphs have cycles and no fast exact solver fits them all"
    return f"oracle {type(oracle).__name__}"


def class_weights(given: Any, bound: BoundModel, sample_weight: np.ndarray) -> np.ndarray:
    r"""Weight of each class in the Hamming loss; ``balanced`` is :math:`\sum_l n_l / (K n_k)`, with nodes counted by the weights
    of their samples, and 1 for a class without nodes."""
    if any(own is not bound.classes[0] for own in bound.classes):
        raise InvalidSampleError("class_weight needs one list of classes for all node types; use a loss instead.")
    classes, size = bound.classes[0].tolist(), bound.n_labels
    if isinstance(given, str):
        if given != "balanced":
            raise InvalidSampleError(f"class_weight is {given!r}, wanted 'balanced', a dict, or one number for each class.")
        labels = bound.labels if bound.labels is not None else np.zeros(0, dtype=np.int32)
        count = np.bincount(labels, weights=np.repeat(sample_weight, np.diff(bound.data.node_ptr)), minlength=size)
        present = count > 0
        return np.where(present, count.sum() / (present.sum() * np.where(present, count, 1.0)), 1.0)
    if isinstance(given, Mapping):
        number = {label: k for k, label in enumerate(classes)}
        weight = np.ones(size)
        for label, value in given.items():
            if label not in number:
                raise InvalidSampleError(
                    f"class_weight names {label!r}, wanted some of the classes {classes[:12]}. Declare classes=[...] that a fold lacks."
                )
            weight[number[label]] = value
    else:
        weight = np.asarray(given, dtype=np.float64)
    if weight.shape != (size,) or not (np.isfinite(weight) & (weight >= 0)).all():
        raise InvalidSampleError(f"class_weight is {given!r}, wanted {size} finite numbers >= 0, in the order of the classes.")
    return weight


def coefficients(
    bound: BoundModel, weights: np.ndarray, type_names: list[str], feature_names: list[str]
) -> dict[str, np.ndarray]:
    """Weights as arrays by name, 0 where a table has no weight; without homogeneity a first axis runs over nodes or edges."""
    layout: Any = bound.encode.__self__  # type: ignore[attr-defined]
    model, width = layout.model, layout.width
    n_nodes, n_edges = (1, 1) if model.homogeneous else layout.graph_size

    def take(index: np.ndarray) -> np.ndarray:
        return np.where(index >= 0, weights[np.maximum(index, 0)], 0.0) if len(weights) else np.zeros(index.shape)

    blocks: dict[str, np.ndarray] = {}
    nodes = take(bound.node_index).reshape(layout.n_node_types, n_nodes, width, bound.n_labels)
    for t, own in enumerate(nodes):
        where = f"[type {t}]" if len(nodes) > 1 else ""
        own = own[:, :, : layout.n_classes[t]]
        own = own[0] if model.homogeneous else own
        blocks[f"nodes{where}"] = own[..., : width - model.bias, :]
        if model.bias:
            blocks[f"bias{where}"] = own[..., -1, :]
    n_types, n_features = layout.n_edge_types if model.homogeneous else 1, layout.n_edge_features
    edges = take(bound.edge_index).reshape(n_types, n_edges, n_features, bound.n_labels, bound.n_labels)
    for t in range(n_types):
        for f in range(n_features):
            parts = [_name(type_names, t, "type")] if n_types > 1 else []
            parts += [_name(feature_names, f, "feature")] if n_features > 1 else []
            own = edges[t, :, f]
            blocks["edges" + (f"[{', '.join(parts)}]" if parts else "")] = own[0] if model.homogeneous else own
    return blocks


def _name(names: list[str], number: int, kind: str) -> str:
    return names[number] if names else f"{kind} {number}"
