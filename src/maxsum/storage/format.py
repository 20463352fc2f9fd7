"""The format of model files: its container, and what of an estimator it holds.

A model file is a container (`maxsum.core.files.container`: a mark, a JSON header, arrays, SHA-256). The header has

- ``library``, ``saved``, ``estimator``, ``parameters``, ``left_out``, ``classes``, ``model``, ``facts``, ``kind``, ``notes``: what predictions need;
- ``columns``: names (or null) and edges of the columns of a table with classes of their own, else missing;
- ``objective``: ``surrogate``, ``kind`` (class of the objective), ``C``, ``n_examples``, ``n_nodes``, ``fingerprint`` of the training data and of
  all else that makes the objective, ``fingerprint_version`` (1 if it is missing);
- ``result``: what is claimed. ``objective``, ``lower_bound``, ``gap``, ``relative_gap``, ``guarantee``, and how the training went;
- ``certificate``: kind and number of planes of the proof; ``proof``: the proof itself, or null.

Where most weights of a likelihood are 0 the others are in ``weights_not_0``, at the places ``weights_at`` of ``n_weights`` (of the header). The arrays ``weights`` and ``more_weights`` (potentials of the trivial surrogate), one after the other, are what the claims are about. A
``DualCertificate`` in ``proof`` is ``{"record": ..., "fields": {"examples", "keys", "alpha", "mu"}}``, whose values are arrays by name
(``{"array": name}``), or, for more than 16 labellings, ``{"rows": [flat array, ends], "as": "tuple"}``. Numbers that JSON lacks are
``{"float": "inf"}``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelFileError
from ..core.files.container import Container, digest_arrays
from ..models.convex import ConvexBound
from ..shards.ascent import ShardedObjective
from ..shards.objectives import AggregatedObjective, ShardedSmooth

VERSION = 1
FILE = Container(
    "model file",
    b"maxsum model\0",
    VERSION,
    ModelFileError,
    "Write it again with maxsum.save_model, or read it with the maxsum that wrote it.",
)
NAMES = (
    "GraphLabeler",
    "GraphLabelerCV",
    "GridLabeler",
    "GridLabelerCV",
    "MultiLabelClassifier",
    "MultiLabelClassifierCV",
    "SequenceLabeler",
    "SequenceLabelerCV",
)
KINDS = ("multilabel", "multiclass", "binary", "columns")
DROPPED = ("callback", "checkpoint")
TRAINING = ("learner", "oracle", "loss", "class_weight", "cv", "Cs", "random_state")
LISTS = ("Cs", "class_weight", "classes", "cv", "forbidden", "label_graph", "loss", "tie", "offsets", "guide", "n_hidden")
FACTS = ("gamma_", "scaling_", "labels_form_", "C_", "Cs_", "scores_", "n_features_in_", "feature_names_in_", "n_iter_")
NUMBERS = ("objective", "lower_bound", "seconds", "oracle_seconds", "qp_seconds", "finished")
SHARDED = (AggregatedObjective, ShardedObjective, ShardedSmooth)
COUNTS = ("n_iter", "n_oracle_calls")
SPARSE = 3
"""How many times more weights than places of weights that are not 0 there have to be for these to be written in their stead: they take 16 bytes each."""


FINGERPRINT = (
    3  # 1 left out cliques, losses, cones, maps of features to weights, and what is not linear; up to 2 C weighed the mean
)


def sizes(objective: Any) -> tuple[int, int]:
    """Examples and nodes that an objective was made of."""
    if isinstance(objective, SHARDED):
        source: Any = objective.source
        return int(source.dataset.n_samples), int(source.dataset.n_nodes)
    return int(objective.model.n_examples), len(objective.model.data.n_states)


def fingerprint(objective: Any, version: int = FINGERPRINT) -> str:
    """SHA-256 of all that makes an objective: features, graphs, cliques, labels, losses, weights of examples (with C), which feature has
    which weight, the cone, and what else the surrogate needs. Two objectives that differ at some weights have different ones.

    ``version`` 1 is that of files written before 2026-11: samples, labels and weights of examples alone. 2 differs from 3 in what C is
    (see `StoredObjective.weighs_mean`), which changes the weights of examples, but not how they are hashed.
    """
    if version == 1:
        return _first_fingerprint(objective)
    if isinstance(objective, SHARDED):
        parts = [_text(type(objective).__name__), *objective.content(), np.array([objective.C])]
        return digest_arrays(parts).hex()
    model = objective.model
    base = model.base if isinstance(model, ConvexBound) else model
    data, labels, cone = base.data, base.labels, base.cone
    matrices = [data.x, data.f] + ([] if data.cliques is None else [data.cliques.h])
    members = [] if data.cliques is None else [data.cliques.ptr, data.cliques.member_ptr, data.cliques.member]
    maps = [base.node_index, base.edge_index] + ([] if base.clique_index is None else [base.clique_index])
    numbers = [base.n_labels, cone.n_weights, data.joint, data.cliques is not None, len(cone.tables)]
    parts = [
        _text(type(objective).__name__), _text(objective.surrogate), np.array(numbers, dtype=np.int64), objective.c,
        data.node_ptr, data.edge_ptr, data.edges, data.n_states, data.node_types, data.node_weights, *members, *maps, cone.nonneg,
        *cone.tables, np.zeros(0) if labels is None else labels, getattr(objective, "loss_table", np.zeros(0)),
        np.array([getattr(objective, "smoothing", 0.0), getattr(objective, "max_rounds", 0.0)], dtype=np.float64),
    ]  # fmt: skip
    parts += base.factor_arrays()
    if getattr(objective, "tighten", False):
        parts.append(_text("tightened"))
    for matrix in matrices:
        own = [matrix.indptr, matrix.indices, matrix.data] if hasattr(matrix, "indptr") else [matrix]
        parts += [np.array(matrix.shape, dtype=np.int64), *own]
    if isinstance(model, ConvexBound) or not hasattr(objective, "loss_table"):
        parts += list(objective.content())
    return digest_arrays([_wide(part) for part in parts]).hex()


def _first_fingerprint(objective: Any) -> str:
    if isinstance(objective, SHARDED):
        return digest_arrays([*objective.content(), np.array([objective.C])]).hex()
    model = objective.model
    data, labels = model.data, model.labels
    parts = [data.node_ptr, data.edges, data.n_states, data.node_types, data.node_weights, objective.c]
    for matrix in (data.x, data.f):
        parts += [matrix.indptr, matrix.indices, matrix.data] if hasattr(matrix, "indptr") else [matrix]
    return digest_arrays([*parts, np.zeros(0) if labels is None else labels]).hex()


def _text(words: str) -> np.ndarray:
    return np.frombuffer(words.encode(), dtype=np.uint8)


def _wide(array: Any) -> np.ndarray:
    """Whole numbers as int64, others as float64: the same on every machine."""
    own = np.asarray(array)
    return own.astype(np.int64 if own.dtype.kind in "iub" else np.float64, copy=False)
