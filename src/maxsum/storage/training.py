"""Training data as numbers: all that an objective sees of them, in a file that anyone can check a model against."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.errors import ModelFileError
from ..core.files.container import digest_arrays, portable
from ..core.files.store import atomic
from ..inference.dispatch import TABLE, solve
from ..inference.relaxations.finisher import LPFinisher

FORMAT = "maxsum-training"  # magic words of the file
VERSION = 1  # of the format
_SECONDS = 20.0  # for all messages of a model: what saving may take longer, in exchange for a check that needs no solver
_CLOSED = 1e-7  # relative gap of an example below which better messages are not looked for
_SURROGATES = ("margin", "lp")
_DESIGN = (
    "node_ptr",
    "edge_ptr",
    "edges",
    "x_ptr",
    "x_col",
    "x_val",
    "node_index",
    "f_ptr",
    "f_col",
    "f_val",
    "edge_index",
    "truth",
    "loss",
)


def training_arrays(objective: Any) -> dict[str, np.ndarray] | None:
    """The arrays of a training file, in their order; None for objectives that such a file does not describe."""
    design: Any = getattr(objective, "design", None)
    plain = getattr(objective, "surrogate", None) in _SURROGATES and not getattr(objective, "smoothing", 0.0)
    plain = plain and not getattr(objective, "tighten", False)  # the checker knows the margin and the linear relaxation itself
    if not plain or not hasattr(design, "loss") or len(design.clique_ptr) or design.node_step[1]:
        return None
    if (
        objective.has_gains
    ):  # the file, and its checker, know scores that weights make alone, and losses that are sums over nodes
        return None
    rows, n_states = objective.cone.rows, objective.model.data.n_states
    header = {
        "format": FORMAT,
        "version": VERSION,
        "surrogate": objective.surrogate,
        "C": float(objective.C),
        "n_examples": int(objective.n_examples),
        "n_nodes": len(n_states),
        "n_weights": int(objective.n_weights),
    }
    own = {
        "header": np.frombuffer(json.dumps(header, sort_keys=True).encode("ascii"), dtype=np.uint8),
        **{name: getattr(design, name) for name in _DESIGN},
        "n_states": n_states,
        "c": objective.c,
        "nonneg": np.flatnonzero(objective.cone.nonneg),
        "row_ptr": rows.indptr.astype(np.int64),
        "row_col": rows.indices.astype(np.int64),
        "row_val": rows.data,
    }
    return {name: portable(value, "training file") for name, value in own.items()}


def training_digest(objective: Any) -> str:
    """SHA-256 of the arrays of a training file; empty for objectives that have none."""
    arrays = training_arrays(objective)
    return "" if arrays is None else digest_arrays(arrays.values()).hex()


def save_training(path: str | Path, objective: Any) -> None:
    """Write all numbers that an objective of learning sees: features, labels, losses, weights of examples, the cone.

    With a model of ``save_model(..., certificate=True)`` the file is what ``python -m maxsum.check MODEL DATA`` needs to check the proof
    without maxsum; see the page on certificates. Features are numbers here: nothing tells from which words or pixels they came.

    Parameters
    ----------
    path : str or Path
        Written whole or not at all: an uncompressed ``.npz`` archive, without pickle.
    objective : estimator or objective
        Of the surrogate margin or lp, without smoothing, cliques and factors, on data in memory.

    Raises
    ------
    ModelFileError
        If the objective is another one, or its data are shards or gone.
    """
    own = getattr(objective, "objective_", objective)
    arrays = training_arrays(own)
    if arrays is None:
        raise ModelFileError(
            f"a training file describes the surrogates {' and '.join(_SURROGATES)}, without smoothing, cliques and factors, on data in memory, not "
            f"this {type(own).__name__}; check its proof with `maxsum verify MODEL DATA`."
        )

    def write(file: BinaryIO) -> None:
        np.savez(file, **arrays)  # type: ignore[arg-type]

    atomic(Path(path), None, write)


def slack_messages(objective: Any, weights: np.ndarray) -> np.ndarray | None:
    """Messages that bound the slacks of graphs with cycles, shape (2 * n_edges, K): the first ends of all edges, then the second.

    None where the checker needs none (forests), knows no such objective, or they would be larger than the data.
    """
    arrays = training_arrays(objective)
    if arrays is None or objective.model.is_forest:
        return None
    n_edges, size = len(arrays["edges"]), arrays["loss"].shape[1]
    if 16 * n_edges * size > sum(array.nbytes for array in arrays.values()):
        return None
    messages, ends = np.zeros((2, n_edges, size)), time.perf_counter() + _SECONDS
    for j in range(objective.n_examples):
        left = ends - time.perf_counter()
        if left <= 0:
            break
        problem = objective.loss_problem(weights, j)
        result = solve(problem, None if any(row.fits(problem) for row in TABLE) else "TRWS", time_limit=left)
        if result.messages is None:
            result = solve(problem, "TRWS", time_limit=left)
        finisher = LPFinisher(time_limit=left)
        if result.gap > _CLOSED * (1.0 + abs(result.bound)) and finisher.supports(problem).ok:
            better = finisher.solve(problem, init=result)
            result = better if better.messages is not None and better.bound < result.bound else result
        messages[:, arrays["edge_ptr"][j] : arrays["edge_ptr"][j + 1]] = result.messages.edge
    return messages.reshape(2 * n_edges, size)
