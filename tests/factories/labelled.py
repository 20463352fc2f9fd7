"""Models of made samples whose labels follow from their features, but for noise."""

from __future__ import annotations

from typing import Any

import numpy as np

import maxsum as ms
from maxsum.models import GraphModel

LOOP = ms.Graph.from_edges([(0, 1), (1, 2), (0, 2), (2, 3)])
"""A triangle and an edge that leaves it: the smallest graph with a cycle and a leaf."""


def labelled_model(graph: ms.Graph, seed: int = 0, n: int = 8, d: int = 4, k: int = 3) -> Any:
    """``n`` samples on one graph with ``d`` normal features a node, the first ``k`` of which decide the label under noise."""
    rng = np.random.default_rng(seed)
    x = [rng.standard_normal((graph.n_nodes, d)) for _ in range(n)]
    y = [np.argmax(own[:, :k] + 0.7 * rng.standard_normal((graph.n_nodes, k)), axis=1) for own in x]
    return GraphModel().bind([ms.GraphSample(own, graph) for own in x], y)
