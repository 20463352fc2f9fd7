"""The format of model files: its container, and what of an estimator it holds."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.errors import ModelFileError
from ..core.files.container import Container, digest_arrays

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
KINDS = ("multilabel", "multiclass", "binary")
DROPPED = ("callback", "checkpoint")
TRAINING = ("learner", "oracle", "loss", "class_weight", "cv", "Cs")
LISTS = ("Cs", "class_weight", "classes", "cv", "label_graph", "loss", "tie")
FACTS = ("gamma_", "C_", "Cs_", "scores_", "n_features_in_", "feature_names_in_", "n_iter_")
NUMBERS = ("objective", "lower_bound", "seconds", "oracle_seconds", "qp_seconds", "finished")
COUNTS = ("n_iter", "n_oracle_calls")


def fingerprint(objective: Any) -> str:
    """SHA-256 of samples, labels, and weights of examples (with C) of an objective."""
    model = objective.model
    data, labels = model.data, model.labels
    parts = [data.node_ptr, data.edges, data.n_states, data.node_types, data.node_weights, objective.c]
    for matrix in (data.x, data.f):
        parts += [matrix.indptr, matrix.indices, matrix.data] if hasattr(matrix, "indptr") else [matrix]
    return digest_arrays([*parts, np.zeros(0) if labels is None else labels]).hex()
