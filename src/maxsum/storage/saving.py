"""Writing model files: a fitted estimator in one file, whole or not at all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from .. import estimators
from ..core.errors import ModelFileError
from ..estimators.base import Labeler
from ..inference.base import Solver
from ..learning.objectives.stored import StoredObjective
from ..learning.result import LearningResult
from .format import COUNTS, DROPPED, FACTS, FILE, FINGERPRINT, NAMES, NUMBERS, SPARSE, TRAINING, fingerprint, sizes
from .structure import describe
from .values import LeftOut, Writer, described, noted


def save_model(estimator: Any, path: str | Path, *, certificate: bool = False, notes: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator to one file, whole or not at all.

    The file holds weights, classes, features, parameters and what is proven about the weights, but no training data and no code: see
    `load_model`. ``callback`` and ``checkpoint`` are left out. So are parameters of the training that a file cannot express, such as
    an oracle that is a function; what is left out is named in the header, and training with the loaded estimator is then refused.

    Parameters
    ----------
    estimator : GraphLabeler, GridLabeler, SequenceLabeler, MultiLabelClassifier, or one of their ``...CV`` versions
        Fitted.
    path : str or Path
    certificate : bool
        Also keep the proof of the lower bound, for `verify_model`; it can be larger than the weights.
    notes : dict, optional
        What else to keep in the header, for `read_header`: text, finite numbers, None, lists and dicts of them.

    Raises
    ------
    ModelFileError
        If the estimator is not fitted, or has something that predictions need and a file cannot hold: a kernel function, or classes
        other than text, numbers, None and tuples of them.

    Examples
    --------
    >>> import tempfile, maxsum as ms
    >>> net = ms.SequenceLabeler().fit([[{"word": "dog"}, {"word": "barks"}]], [["N", "V"]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ms.save_model(net, f"{folder}/tagger.maxsum")
    ...     ms.load_model(f"{folder}/tagger.maxsum").predict([[{"word": "dog"}]])[0].tolist()
    ['N']
    """
    name = type(estimator).__name__
    if name not in NAMES or type(estimator) is not getattr(estimators, name):
        raise ModelFileError(
            f"the estimator is a {name}, wanted one of {', '.join(NAMES)}. Of a pipeline save the last step; keep others with pickle."
        )
    if not hasattr(estimator, "result_"):
        raise ModelFileError(f"this {name} is not fitted, so there is nothing to save. Call fit first.")
    from .. import __version__

    writer, left_out = Writer(), {}
    parameters = {}
    for key, value in estimator.get_params(deep=False).items():
        if key in DROPPED:
            value = None
        elif key in TRAINING and not (key == "oracle" and isinstance(value, Solver)):
            value = _expressible(value)
            if isinstance(value, LeftOut):
                left_out[key] = value.kind
        parameters[key] = writer.value(value, f"parameter.{key}")
    model, objective, result = estimator.model_, estimator.objective_, estimator.result_
    header: dict[str, Any] = {
        "library": __version__,
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "estimator": name,
        "parameters": parameters,
        "left_out": left_out,
        "classes": _classes(estimator, writer),
        "model": describe(model, writer),
        "objective": _objective(model, objective),
        "result": _result(result),
        "certificate": summary(result.certificate),
        "proof": writer.value(result.certificate, "certificate") if certificate else None,
        "facts": {key: writer.value(getattr(estimator, key), key) for key in FACTS if hasattr(estimator, key)},
        "kind": getattr(estimator, "_kind", None),
        "notes": noted(notes),
    }
    columns = getattr(estimator, "columns_", None)
    if columns is not None:
        header["columns"] = {
            "names": None if columns.names is None else list(columns.names),
            "edges": estimator.graph_.edges.tolist(),
        }
    if certificate and not isinstance(objective, StoredObjective):
        from .training import slack_messages, training_digest

        header["objective"]["training"] = training_digest(objective)
        header["messages"] = writer.value(slack_messages(objective, result.weights), "messages")
    trace = [[p.iteration, p.seconds, p.objective, p.lower_bound, p.n_oracle_calls] for p in result.trace]
    header["n_weights"] = len(estimator.weights_)
    arrays = {
        **_weights(estimator.weights_, objective.surrogate == "likelihood" or header["objective"]["kind"] == "PenalisedHinge"),
        "more_weights": result.weights[len(estimator.weights_) :],
        "trace": np.array(trace, dtype=np.float64).reshape(-1, 5),
        **writer.arrays,
    }
    FILE.save(path, header, arrays)


def _weights(weights: np.ndarray, penalised: bool) -> dict[str, np.ndarray]:
    """The weights; where a penalty left most of them at 0 the others and their places."""
    places = np.flatnonzero(weights)
    if not penalised or SPARSE * len(places) >= len(weights):
        return {"weights": weights}
    return {"weights_at": places.astype(np.int64), "weights_not_0": weights[places]}


def _expressible(value: Any) -> Any:
    """A training parameter, or what stands for it where a file cannot hold it."""
    try:
        Writer().value(value, "")
    except ModelFileError:
        return described(value)
    return value


def _classes(estimator: Any, writer: Writer) -> dict[str, Any]:
    """Arrays of classes, one for each node type; one alone if they share it."""
    several = isinstance(estimator, Labeler) or getattr(estimator, "columns_", None) is not None
    own = list(estimator.model_.classes) if several else [estimator.classes_]
    shared = all(one is own[0] for one in own)
    return {
        "of_types": [writer.value(one, f"classes.{t}") for t, one in enumerate(own[:1] if shared else own)],
        "n_types": len(own),
        "coded": getattr(estimator, "_coding", None) is not None,
        "hidden": getattr(estimator, "_states", None) is not None,
    }


def _objective(model: Any, objective: Any) -> dict[str, Any]:
    if isinstance(objective, StoredObjective):
        return {name: value for name, value in vars(objective).items() if name != "source"}
    n_examples, n_nodes = sizes(objective)
    return {
        "surrogate": objective.surrogate,
        "kind": type(objective).__name__,
        "C": float(objective.C),
        "n_examples": n_examples,
        "n_nodes": n_nodes,
        "fingerprint": fingerprint(objective),
        "fingerprint_version": FINGERPRINT,
    }


def _result(result: LearningResult) -> dict[str, Any]:
    writer = Writer()
    return {
        "learner": result.learner,
        "message": result.message,
        "termination": str(result.termination),
        "guarantee": str(result.guarantee),
        "oracle_guarantee": str(result.oracle_guarantee),
        "gap": writer.value(result.gap, "gap"),
        "relative_gap": writer.value(result.relative_gap, "relative_gap"),
        **{name: writer.value(float(getattr(result, name)), name) for name in NUMBERS},
        **{name: int(getattr(result, name)) for name in COUNTS},
    }


def summary(certificate: Any) -> dict[str, Any] | None:
    """Kind and size of a proof."""
    if certificate is None:
        return None
    alpha = getattr(certificate, "alpha", None)
    return {
        "kind": type(certificate).__name__,
        "n_planes": len(alpha) if isinstance(alpha, np.ndarray) and alpha.ndim else None,
    }
