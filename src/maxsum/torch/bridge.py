"""Between layers and estimators: a model file that predicts without PyTorch, and layers that start from learned weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from ..core.errors import InvalidParameterError, UnsupportedProblemError
from ..core.graph import Graph
from ..core.result import Guarantee, Termination
from ..estimators.base import Labeler
from ..estimators.graph import GraphLabeler
from ..estimators.grid import GridLabeler
from ..estimators.sequence import SequenceLabeler
from ..learning.result import LearningResult
from ..models.bound import BoundModel
from ..models.features import Dense, Sparse
from ..models.sample import GraphSample
from .losses import StructuredHinge, StructuredLoss
from .modules import StructuredModule


def to_estimator(layer: StructuredModule) -> Labeler:
    """An estimator whose features are the scores of the network, with the pairwise weights of a layer: it predicts what `decode` does.

    Save it with `maxsum.save_model`; whoever loads it needs no PyTorch. Its ``result_`` has no bound: nothing is proven about weights that another
    optimizer found.

    Parameters
    ----------
    layer : StructuredHinge or another loss, or MaxSumLayer

    Returns
    -------
    SequenceLabeler, GridLabeler or GraphLabeler
        Fitted; ``predict`` takes lists of (T, K) or (H, W, K) scores, or of ``GraphSample(scores, graph)``.
    """
    own, size = layer.pairwise, layer.n_labels
    potentials = "general" if own.potentials == "none" else own.potentials
    settings: dict[str, Any] = {"potentials": potentials, "surrogate": "margin", "scale": False, "classes": list(own.classes)}
    rows = np.zeros((2, size))
    if layer.graph == "chain":
        estimator: Any = SequenceLabeler(**settings)
        X: list[Any] = [rows]
    elif layer.graph == "grid":
        known = {((0, 1), (1, 0)): 4, ((0, 1), (1, 0), (1, 1), (1, -1)): 8}.get(layer.offsets)
        estimator = GridLabeler(
            connectivity=known,
            offsets=None if known else list(layer.offsets),
            edge_types=layer.edge_types,
            **settings,
        )
        X = [np.zeros((2, 2, size))]
    else:
        estimator = GraphLabeler(**settings)
        n_types = own.n_edge_types
        edges = np.stack([np.arange(n_types), np.arange(1, n_types + 1)], axis=1)
        X = [GraphSample(np.zeros((n_types + 1, size)), Graph.from_edges(edges, n_types + 1, edge_type=np.arange(n_types)))]
    if own.is_hard or bool(own.starts.any()) or bool(own.ends.any()):
        raise UnsupportedProblemError(
            "the layer forbids pairs of labels, which have no weights in an estimator; wanted a layer without forbidden=. Predict with decode, or train "
            "the layer without and forbid in the estimator."
        )
    count = 4 if layer.graph == "grid" else 2 if layer.graph == "chain" else own.n_edge_types + 1
    labels = np.full(count, 0) if layer.graph != "grid" else np.zeros((2, 2), dtype=int)
    plan = estimator._prepare(estimator._read(X, [np.asarray(own.classes)[labels]], None), 1.0)
    model, tables = plan.bound, own.free_tables().detach().double().cpu().numpy()
    weights = np.zeros(model.n_weights)
    weights[model.node_index[np.arange(size), np.arange(size)]] = 1.0
    used = model.edge_index >= 0
    if model.edge_index.shape != tables.shape:
        raise UnsupportedProblemError(f"the layer has tables of shape {tables.shape}, the estimator {model.edge_index.shape}.")
    weights[model.edge_index[used]] = tables[used]
    weights = model.cone.project(weights).weights if not model.cone.is_free else weights
    result = LearningResult(
        weights=weights,
        objective=float("inf"),
        lower_bound=float("-inf"),
        termination=Termination.stopped,
        oracle_guarantee=Guarantee.none,
        certificate=None,
        learner=f"maxsum.torch.{type(layer).__name__}",
        message="The weights are those of a layer of PyTorch, about which nothing is proven.",
    )
    fitted: Labeler = estimator._accept(plan, result)
    return fitted


def from_estimator(
    labeler: Labeler, layer: type[StructuredLoss] = StructuredHinge, **settings: Any
) -> tuple[nn.Linear, StructuredLoss]:
    """A linear scorer and a layer that start from the weights of a fitted estimator, to be trained on, or under a network.

    Parameters
    ----------
    labeler : SequenceLabeler, GridLabeler or GraphLabeler
        Fitted on arrays of numbers.
    layer : class of a loss
    settings
        Of the layer, beside what the estimator says.

    Returns
    -------
    scorer : torch.nn.Linear
        From the features of a node to its scores; scaling of the estimator (``scale="standard"``) is not part of it.
    layer : StructuredLoss
    """
    model = getattr(labeler, "model_", None)
    if model is None:
        raise InvalidParameterError(f"this {type(labeler).__name__} is not fitted, wanted a fitted one.")
    forms = {SequenceLabeler: "chain", GridLabeler: "grid", GraphLabeler: "graph"}
    form = next((own for kind, own in forms.items() if isinstance(labeler, kind)), None)
    features = getattr(getattr(model.layout, "model", None), "features", None)
    if form is None or type(model) is not BoundModel or not isinstance(features, (Dense, Sparse)) or len(model.classes) != 1:
        raise UnsupportedProblemError(
            f"this {type(labeler).__name__} has a {type(model).__name__} on {type(features).__name__} features, wanted a plain model on arrays of numbers."
        )
    node, edge, w = model.node_index, model.edge_index, labeler.weights_
    bias, size = bool(model.layout.model.bias), model.n_labels
    if model.layout.n_edge_features != 1 or not model.layout.model.homogeneous:
        raise UnsupportedProblemError(
            f"the model has {model.layout.n_edge_features} edge features, wanted one table for each type of edges."
        )
    weight = np.where(node >= 0, w[np.maximum(node, 0)], 0.0)
    scorer = nn.Linear(len(node) - bias, size, dtype=torch.float64)
    with torch.no_grad():
        scorer.weight.copy_(torch.from_numpy(weight[: len(node) - bias].T.copy()))
        scorer.bias.copy_(torch.from_numpy(weight[-1] if bias else np.zeros(size)))
    tables = np.where(edge >= 0, w[np.maximum(edge, 0)], 0.0)
    more: dict[str, Any] = {"classes": model.classes[0].tolist(), "potentials": model.layout.model.potentials}
    if form == "grid":
        if labeler.dimensions != 2:
            raise UnsupportedProblemError(
                f"the model labels grids of {labeler.dimensions} dimensions, wanted images: layers have two."
            )
        more |= {"neighbours": labeler._steps(), "edge_types": labeler.edge_types}
    elif form == "graph":
        more |= {"n_edge_types": len(tables)}
    made = layer(size, form, **(more | settings)).double()
    if made.pairwise.potentials != "none":
        made.pairwise.set_tables(tables)
    return scorer, made
