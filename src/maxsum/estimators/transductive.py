"""Observed labels in prediction: the rest of a graph is labelled given what is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.problem import Problem
from ..models.bound import BoundModel
from ..models.labels import encode_labels, read_labels
from ..models.sample import GraphSample


def given_labels(model: BoundModel, samples: Sequence[GraphSample], observed: Any) -> list[np.ndarray]:
    """Observed labels as numbers, -1 where a node has none."""
    read = read_labels(samples, observed, list(model.classes) if len(model.classes) > 1 else model.classes[0])
    found = []
    for sample, (labels, known) in zip(samples, read, strict=True):
        types = np.zeros(sample.n_nodes, dtype=np.int64) if sample.node_types is None else sample.node_types
        filler = np.array([model.classes[t][0] for t in types])
        coded = encode_labels([np.where(known, labels, filler) if len(labels) else labels], [sample], model.classes)
        found.append(np.where(known, coded, -1))
    return found


def conditioned(problem: Problem, labels: np.ndarray) -> Problem:
    """The problem in which nodes with a label >= 0 can have no other."""
    fixed = np.flatnonzero(labels >= 0)
    unary = np.array(problem.unary)
    kept = unary[fixed, labels[fixed]]
    unary[fixed] = -np.inf
    unary[fixed, labels[fixed]] = kept
    return Problem(
        problem.graph,
        unary,
        problem.tables,
        problem.edge_table,
        problem.edge_weight,
        problem.n_states,
        problem.cliques,
        problem.offset,
    )
