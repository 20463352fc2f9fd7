"""Parts of one graph, such as those to train and to test."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ..core.errors import InvalidGraphError, InvalidSampleError
from ..core.parameters import OneOf, check_value
from ..models.labels import induced
from ..models.sample import GraphSample


def split(sample: GraphSample, part: Any, crossing: str = "warn") -> dict[Any, GraphSample]:
    """Samples of the parts of a graph.

    Parameters
    ----------
    sample : GraphSample
    part : array-like, shape (n_nodes,)
        The part of each node: numbers, strings or truth values.
    crossing : {"warn", "drop", "error"}
        What to do with edges between nodes of different parts. Their features belong to no part, so they are always left out; an edge
        between training and test is often an accident.

    Returns
    -------
    dict
        The subgraph of each part, nodes in their order: ``labels[part == name]`` are its labels.
    """
    names = np.asarray(part)
    if names.shape != (sample.n_nodes,):
        raise InvalidSampleError(f"part has shape {names.shape}, but the sample has {sample.n_nodes} nodes; wanted one a node.")
    check_value("crossing", crossing, OneOf("warn", "drop", "error"))
    ends = names[sample.graph.edges]
    across = np.flatnonzero(ends[:, 0] != ends[:, 1])
    if len(across) and crossing != "drop":
        u, v = sample.graph.edges[across[0]]
        words = (
            f"{len(across)} of {sample.graph.n_edges} edges join different parts, the first is edge {across[0]} ({u}-{v}, parts "
            f'{names[u]!s} and {names[v]!s}). Build edges within parts, or pass crossing="drop" if they may be left out.'
        )
        if crossing == "error":
            raise InvalidGraphError(words)
        warnings.warn(words, UserWarning, stacklevel=2)
    return {name: induced([sample], [np.where(names == name, 0, -1)], classes=[0])[0][0] for name in np.unique(names).tolist()}
