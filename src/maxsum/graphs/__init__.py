"""Graphs to learn on, built from what data have: texts, links, matrices, objects of other libraries.

============================== ==================================================================
`tf_idf`                       weighted words of documents
`nearest_neighbours`           each row joined to the most similar ones, by cosine
`shared_neighbours`            pages joined that are linked from, or link to, the same page
`from_adjacency`               a sparse matrix, its values as weights
`from_networkx`, `from_pyg`    samples and labels from objects of networkx and PyTorch Geometric, which are not imported
`superpixels`                  regions of an image, joined at their borders
`split`                        parts of a sample, such as those to train and to test; warns of edges between them
============================== ==================================================================

Weights of edges stay beside the graph: ``GraphSample(X, found.graph, edge_features=found.weights)``.
"""

from __future__ import annotations

from .edges import from_adjacency
from .foreign import from_networkx, from_pyg
from .neighbours import nearest_neighbours, tf_idf
from .parts import split
from .shared import shared_neighbours
from .superpixels import Superpixels, superpixels

__all__ = [
    "Superpixels",
    "from_adjacency",
    "from_networkx",
    "from_pyg",
    "nearest_neighbours",
    "shared_neighbours",
    "split",
    "superpixels",
    "tf_idf",
]
