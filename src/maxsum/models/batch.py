"""Batch: samples that are stored together, so that nothing is copied one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.graph import Graph
from .sample import GraphSample


class Batch(list[GraphSample]):
    """A list of samples whose observations are the rows of one matrix ``x``; the samples themselves have none.

    Parameters
    ----------
    x : array or csr_array
        Codes (n_nodes,), or features (n_nodes, d), of all samples one after the other.
    graphs : sequence of Graph
    """

    def __init__(self, x: Any, graphs: Sequence[Graph]):
        super().__init__(_bare(graph) for graph in graphs)
        self.x = x

    def union(self) -> list[GraphSample]:
        """One sample with all rows, for what reads observations."""
        n_nodes = int(self.x.shape[0])
        whole = _bare(Graph(n_nodes, np.zeros((0, 2), dtype=np.int32), np.zeros(0, dtype=np.int32)))
        object.__setattr__(whole, "X", self.x)
        return [whole]


def _bare(graph: Graph) -> GraphSample:
    """A sample without observations, and without checks."""
    sample = object.__new__(GraphSample)
    vars(sample).update(
        X=None, graph=graph, edge_features=None, node_types=None, node_weights=None, cliques=(), clique_features=None,
        clique_types=_NO_TYPES, factors=(),
    )  # fmt: skip
    return sample


_NO_TYPES = np.zeros(0, dtype=np.int64)
