"""Prediction of a trained labeler on a sample in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidSampleError, NotFittedError
from ..inference.base import Callback
from ..models.bound import BoundModel
from .folder import Parts, open_parts
from .solve import PartsResult, run
from .sources import as_source


def predict_parts(
    net: Any,
    parts: str | Path | Parts,
    out: str | Path,
    weights: Any = None,
    tol: float = 1e-3,
    max_iter: int = 500,
    time_limit: float | None = None,
    executor: Any = None,
    callback: Callback | None = None,
) -> PartsResult:
    """Labels of a sample in parts, by a trained `GraphLabeler` or `GridLabeler`, or by a model and its weights.

    Scores are made from features at each visit of a part, so nothing but messages and labels is written.

    Parameters
    ----------
    net : estimator or BoundModel
        Trained; or a model (``PartsObjective.model``) with ``weights``.
    parts : path or Parts
        A sample in parts: its observations, edge types and edge features as in training.
    out : path
        Folder of the run.
    weights : array-like, optional
        Of a model.
    tol : float
        Stop at this relative gap.
    max_iter : int
        Rounds.
    time_limit : float, optional
        Seconds.
    executor : optional
        As in `solve_parts`.
    callback : callable, optional
        As in `solve_parts`.

    Returns
    -------
    PartsResult
        Labels are numbers; ``net.classes_[labels]`` are the classes.
    """
    parts = open_parts(parts)
    if isinstance(net, BoundModel):
        model, w = net, weights
    elif hasattr(net, "model_") and hasattr(net, "weights_"):
        model, w = net.model_, net.weights_
    else:
        raise NotFittedError(
            f"{type(net).__name__} has no model_ and weights_; wanted a trained labeler, or a model with weights."
        )
    if not isinstance(model, BoundModel) or w is None or np.shape(w) != (model.n_weights,) or not np.isfinite(w).all():
        raise InvalidSampleError(
            f"weights have shape {np.shape(w)}, wanted finite weights of a linear model of nodes and edges."
        )
    return run(as_source(model, parts, w), out, tol, max_iter, time_limit, executor, callback)
