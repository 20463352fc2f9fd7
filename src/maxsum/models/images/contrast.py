r"""Contrast of neighbours in an image: :math:`e^{-\gamma\|x_u - x_v\|^2}`, near 0 across the borders that the image shows (Boykov & Jolly 2001)."""

from __future__ import annotations

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.graph import Graph


def squared_steps(image: np.ndarray, graph: Graph, j: int = 0) -> np.ndarray:
    """Squared distance of the features at both ends of each edge of sample ``j``; features are the last axis."""
    x = image.reshape(graph.n_nodes, -1).astype(np.float64)
    bad = np.argwhere(~np.isfinite(x))
    if len(bad):
        node, feature = bad[0]
        raise InvalidSampleError(
            f"sample {j}: X has {x[node, feature]} at node {node}, feature {feature}; wanted finite numbers. Impute or drop it first."
        )
    difference = x[graph.edges[:, 0]] - x[graph.edges[:, 1]]
    return np.einsum("ef,ef->e", difference, difference)
