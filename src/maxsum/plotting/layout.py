"""Places of nodes, for pictures of graphs."""

from __future__ import annotations

import numpy as np

from ..core.graph import Graph

_LARGEST = 600  # nodes of a part up to which all distances are relaxed: they are quadratic in number
_OBLIQUE = 0.35  # of a pixel: how far the layers of a volume stand to the right of and above each other


def layout(graph: Graph) -> np.ndarray:
    r"""Places (n_nodes, 2): pixels of a grid (layers of a volume stand obliquely behind each other), rows of a chain, and for other components a minimum of

    .. math:: \sum_{u < v} d_{uv}^{-2} \left(\|p_u - p_v\| - d_{uv}\right)^2

    with :math:`d_{uv}` edges on a shortest path, from the spectral layout; that layout itself beyond 600 nodes. Components stand
    side by side.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    if graph.shape is not None:
        *depth, rows, columns = np.unravel_index(np.arange(graph.n_nodes), (1, *graph.shape))
        behind = np.zeros(graph.n_nodes)
        for axis, own in enumerate(reversed(depth)):
            behind += _OBLIQUE * 0.5**axis * own
        return np.stack([columns + behind, behind - rows], axis=1).astype(np.float64)
    size = graph.n_nodes
    ends = graph.edges.astype(np.int64)
    matrix = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size)).tocsr()
    matrix = matrix + matrix.T
    count, member = connected_components(matrix, directed=False)
    pieces = [np.flatnonzero(member == c) for c in range(count)] if count < size else [np.array([v]) for v in range(size)]
    return _packed([(nodes, _component(matrix[nodes][:, nodes])) for nodes in pieces], size)


def _component(matrix: object) -> np.ndarray:
    from scipy.sparse.csgraph import shortest_path

    size = matrix.shape[0]  # type: ignore[attr-defined]
    if size == 1:
        return np.zeros((1, 2))
    degree = np.diff(matrix.indptr)  # type: ignore[attr-defined]
    if degree.max() <= 2 and matrix.nnz == 2 * (size - 1):  # type: ignore[attr-defined]
        return _rows(shortest_path(matrix, unweighted=True, indices=int((degree == 1).argmax())))
    places = _spectral(matrix, degree)
    return _relaxed(places, shortest_path(matrix, unweighted=True)) if size <= _LARGEST else places * np.sqrt(size)


def _rows(order: np.ndarray) -> np.ndarray:
    """A path, from left to right and back, in rows of up to 12 or as many as make a wide rectangle."""
    width = max(12, int(np.ceil(np.sqrt(3 * len(order)))))
    row, column = np.divmod(order.astype(np.int64), width)
    column = np.where(row % 2, width - 1 - column, column)
    return np.stack([column, -row], axis=1).astype(np.float64)


def _spectral(matrix: object, degree: np.ndarray) -> np.ndarray:
    """The two smoothest vectors of the normalised Laplacian beside the constant."""
    from scipy.sparse import diags_array
    from scipy.sparse.linalg import eigsh

    root = 1 / np.sqrt(degree)
    scaled = diags_array(root) @ matrix @ diags_array(root)
    size = len(degree)
    if size <= _LARGEST:
        vectors = np.linalg.eigh(scaled.toarray())[1][:, ::-1]
    else:
        values, vectors = eigsh(scaled, k=3, which="LA", v0=np.ones(size), tol=1e-4)
        vectors = vectors[:, np.argsort(-values)]
    places = np.zeros((size, 2))
    found = vectors[:, 1:3]
    places[:, : found.shape[1]] = found * root[:, None]
    places *= np.where(places[np.abs(places).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    spread = np.abs(places).max(axis=0)
    return places / np.where(spread > 0, spread, 1.0)


def _relaxed(places: np.ndarray, distance: np.ndarray, n_iter: int = 80) -> np.ndarray:
    """Stress majorisation: each step solves for the minimum of a quadratic that lies above the stress."""
    size = len(places)
    weight = np.where(distance > 0, 1 / np.maximum(distance, 1) ** 2, 0.0)
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.inv(laplacian + 1 / size)
    angle = np.arange(size) * 2.399963
    scale = distance.max() / 2
    places = scale * places + 0.05 * scale * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    for _ in range(n_iter):
        difference = places[:, None] - places[None]
        length = np.sqrt((difference**2).sum(axis=2))
        ratio = np.divide(weight * distance, length, out=np.zeros_like(length), where=length > 1e-9)
        places = inverse @ (ratio.sum(axis=1)[:, None] * places - ratio @ places)
    centred = places - places.mean(axis=0)
    turned: np.ndarray = centred @ np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    return turned


def _packed(pieces: list[tuple[np.ndarray, np.ndarray]], size: int) -> np.ndarray:
    """Components from large to small in rows, of the width that the whole needs."""
    boxes = [(nodes, own - own.min(axis=0), np.ptp(own, axis=0) + 1.2) for nodes, own in pieces]
    boxes.sort(key=lambda box: (-len(box[0]), int(box[0][0])))
    width = max([np.sqrt(1.6 * sum(float(box[2].prod()) for box in boxes)), *(float(box[2][0]) for box in boxes)], default=1.0)
    places = np.zeros((size, 2))
    x = y = height = 0.0
    for nodes, own, extent in boxes:
        if x > 0 and x + extent[0] > width + 1e-9:
            x, y, height = 0.0, y - height, 0.0
        places[nodes] = own * [1, 1] + [x, y - extent[1]]
        x, height = x + extent[0], max(height, float(extent[1]))
    return places
