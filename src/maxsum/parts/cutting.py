"""Cutting graphs: which node goes to which part, and writing a grid that comes in strips."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidGraphError, InvalidSampleError, UnsupportedProblemError
from ..core.graph import Graph
from ..core.parameters import WholeNumber, check_value
from ..core.problem import Problem
from ..models.sample import GraphSample
from .folder import Parts
from .writer import Cuts, PartsWriter, refuse


def tile_parts(shape: tuple[int, int], tile: tuple[int, int]) -> np.ndarray:
    """Part of each node of a grid that is cut into tiles.

    Parameters
    ----------
    shape : tuple of int
        Height and width of the grid.
    tile : tuple of int
        Height and width of a tile; the width of the grid makes strips.

    Returns
    -------
    ndarray of int64, shape (height * width,)
    """
    if min(tile) < 1 or min(shape) < 0:
        raise InvalidGraphError(f"tiles of {tile} of a grid of {shape}: wanted sizes >= 1.")
    row, column = (np.arange(size) // step for size, step in zip(shape, tile, strict=True))
    return np.asarray(row[:, None] * (-(-shape[1] // tile[1])) + column).reshape(-1).astype(np.int64)


def grow_parts(graph: Graph, size: int) -> np.ndarray:
    """Part of each node of any graph: runs of ``size`` nodes in an order (reverse Cuthill-McKee) that keeps neighbours close.

    Parameters
    ----------
    graph : Graph
    size : int
        Nodes of a part; the last may have fewer.

    Returns
    -------
    ndarray of int64, shape (n_nodes,)
    """
    from scipy.sparse import coo_array, csr_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    check_value("size", size, WholeNumber(1, wanted="a number of nodes >= 1"))
    u, v = graph.edges.T
    both = coo_array((np.ones(2 * graph.n_edges, dtype=np.int8), (np.r_[u, v], np.r_[v, u])), shape=(graph.n_nodes,) * 2)
    part = np.empty(graph.n_nodes, dtype=np.int64)
    order = reverse_cuthill_mckee(csr_array(both), symmetric_mode=True) if graph.n_nodes else np.zeros(0, dtype=np.int64)
    part[order] = np.arange(graph.n_nodes) // int(size)
    return part


def write_parts(content: Problem | GraphSample, part: Any, folder: str | Path, labels: Any = None) -> Parts:
    """Cut a problem or a sample that is in memory, and write its parts.

    Parameters
    ----------
    content : Problem or GraphSample
    part : array-like of int, shape (n_nodes,)
        Part of each node, from 0, each with at least one node: see `tile_parts` and `grow_parts`.
    folder : path
        New.
    labels : array-like of int, optional
        True labels of a sample, as numbers from 0.

    Returns
    -------
    Parts
    """
    graph, part = content.graph, np.asarray(part)
    if part.shape != (graph.n_nodes,) or part.dtype.kind not in "iu" or (part.size and part.min() < 0):
        raise InvalidGraphError(
            f"part has shape {part.shape} and dtype {part.dtype}, wanted a number >= 0 for each of {graph.n_nodes} nodes."
        )
    n_parts = int(part.max(initial=-1)) + 1
    counts = np.bincount(part, minlength=n_parts)
    if not n_parts or not counts.all():
        raise InvalidGraphError(
            f"part {int(counts.argmin()) if n_parts else 0} has no nodes; wanted parts 0..n - 1 with a node each."
        )
    if isinstance(content, Problem):
        refuse(content, "the problem")
    elif content.factors:
        raise UnsupportedProblemError(
            "the sample has factors; graphs in parts have nodes and edges only. Train on it in one piece."
        )
    elif content.kind == "dicts":
        raise InvalidSampleError("the sample holds dicts of features; wanted numbers. Vectorise them first.")
    if labels is not None and np.asarray(labels).size != graph.n_nodes:
        raise InvalidSampleError(f"labels have shape {np.shape(labels)}, wanted one for each of {graph.n_nodes} nodes.")
    order = np.argsort(part, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)])
    local = np.empty(graph.n_nodes, dtype=np.int64)
    local[order] = np.arange(graph.n_nodes) - starts[part[order]]
    ends = part[graph.edges] if graph.n_edges else np.zeros((0, 2), dtype=np.int64)
    across = ends[:, 0] != ends[:, 1]
    by_part = np.argsort(ends[:, 0], kind="stable")
    by_part = by_part[~across[by_part]]
    inner_ends = np.searchsorted(ends[by_part, 0], np.arange(n_parts + 1))
    cut = np.flatnonzero(across)
    touching = np.concatenate([cut, cut])
    owner = np.concatenate([ends[cut, 0], ends[cut, 1]])
    side = np.repeat([0, 1], len(cut))
    by_owner = np.lexsort((touching, owner))
    cut_ends = np.searchsorted(owner[by_owner], np.arange(n_parts + 1))
    shape = graph.shape if graph.shape is not None and len(graph.shape) == 2 else None
    given = None if labels is None else np.asarray(labels).reshape(-1)
    with PartsWriter(folder, None if shape is None else (shape[0], shape[1])) as writer:
        for p in range(n_parts):
            nodes = order[starts[p] : starts[p + 1]]
            inner = by_part[inner_ends[p] : inner_ends[p + 1]]
            mine = by_owner[cut_ends[p] : cut_ends[p + 1]]
            edges, which = touching[mine], side[mine]
            pair = graph.edges[edges]
            at = np.arange(len(edges))
            cuts = Cuts(local[pair[at, which]], ends[edges, 1 - which], local[pair[at, 1 - which]], which == 0)
            own, cuts = _part(content, nodes, local[graph.edges[inner]].reshape(-1, 2), inner, edges, cuts)
            writer.add(own, nodes, cuts, None if given is None else given[nodes])
        return writer.close()


def _part(
    content: Problem | GraphSample, nodes: np.ndarray, pairs: np.ndarray, inner: np.ndarray, edges: np.ndarray, cuts: Cuts
) -> tuple[Problem | GraphSample, Cuts]:
    """The part of a problem or sample on some nodes, with what belongs to its inner edges and to its cuts."""
    every = np.concatenate([inner, edges])
    kinds = content.graph.edge_type[inner]
    graph = Graph(len(nodes), pairs.astype(np.int32), kinds, n_edge_types=content.graph.n_edge_types)
    if isinstance(content, Problem):
        numbers, place = np.unique(content.edge_table[every], return_inverse=True)
        tables = content.tables[numbers] if len(numbers) else content.tables[:1]
        own = Problem._trusted(
            graph=graph, unary=content.unary[nodes], tables=tables, edge_table=place[: len(inner)].astype(np.int32),
            edge_weight=content.edge_weight[inner], n_states=content.n_states[nodes], cliques=content.cliques,
            offset=content.offset if len(nodes) and nodes[0] == 0 else 0.0,
        )  # fmt: skip
        return own, cuts._replace(kind=place[len(inner) :], weight=content.edge_weight[edges])
    features = content.edge_features
    sample = GraphSample(
        content.X[nodes],
        graph,
        None if features is None else features[inner],
        None if content.node_types is None else content.node_types[nodes],
        None if content.node_weights is None else content.node_weights[nodes],
        content.cliques,
    )
    return sample, cuts._replace(kind=content.graph.edge_type[edges], weight=None if features is None else features[edges])


def write_grid(
    strips: Iterable[Any], folder: str | Path, tables: Any = None, connectivity: int = 4, edge_types: str = "tied"
) -> Parts:
    """Write a grid that comes as strips of rows, from the top, one part a strip; two strips are in memory at a time.

    Parameters
    ----------
    strips : iterable of array-like
        With ``tables`` node scores (height, width, K). Without, observations (height, width, d), or codes (height, width), or pairs
        of observations and true labels (height, width). Heights may differ, the width not.
    folder : path
        New.
    tables : array-like, shape (K, K) or (T, K, K), optional
        Pairwise scores, one table for all edges, or one a direction (see ``edge_types``).
    connectivity : {4, 8}
    edge_types : {"tied", "directions"}
        As in `Graph.grid`.

    Returns
    -------
    Parts
    """
    with PartsWriter(folder) as writer:
        height, width = 0, -1
        for p, (item, upper, lower) in enumerate(_neighbours(strips)):
            x, labels = item if isinstance(item, tuple) else (item, None)
            x = np.asarray(x)
            if x.ndim not in (2, 3) or x.shape[0] < 1 or width not in (-1, x.shape[1]):
                raise InvalidSampleError(
                    f"strip {p} has shape {x.shape}, wanted (height, {'width' if width < 0 else width}, ...)."
                )
            width = x.shape[1]
            graph = Graph.grid(x.shape[0], width, connectivity, edge_types)
            cuts = _seams(p, x.shape[0], width, upper, lower, connectivity, edge_types)
            if tables is None:
                content: Problem | GraphSample = GraphSample(x, graph)
            else:
                kinds = graph.edge_type if np.ndim(tables) == 3 and len(tables) > 1 else np.zeros_like(graph.edge_type)
                content, cuts = Problem(graph, x, tables, kinds), cuts if kinds is graph.edge_type else cuts._replace(kind=None)
            nodes = np.arange(height * width, (height + x.shape[0]) * width)
            writer.add(content, nodes, cuts, labels)
            height += x.shape[0]
        writer.shape = (height, max(width, 0))
        return writer.close()


def _neighbours(strips: Iterable[Any]) -> Iterator[tuple[Any, int, bool]]:
    """Each strip, the height of the one above (0 without), and whether another follows."""
    before, held = 0, None
    for item in strips:
        if held is not None:
            yield held, before, True
            before = len(held[0] if isinstance(held, tuple) else held)
        held = item
    if held is not None:
        yield held, before, False


def _seams(p: int, height: int, width: int, upper: int, lower: bool, connectivity: int, edge_types: str) -> Cuts:
    """Edges of a strip to the strips above and below, which come from above as in `Graph.grid`."""
    column = np.arange(width)
    pairs = [(column, column, 1)]
    if connectivity == 8:
        pairs += [(column[:-1], column[1:], 2), (column[1:], column[:-1], 3)]
    rows: list[tuple[np.ndarray, ...]] = []
    for above, below, kind in pairs:
        kinds = np.full(len(above), kind if edge_types == "directions" else 0)
        if upper:
            rows.append(
                (below, np.full(len(above), p - 1), (upper - 1) * width + above, np.zeros(len(above), dtype=bool), kinds)
            )
        if lower:
            rows.append(
                ((height - 1) * width + above, np.full(len(above), p + 1), below, np.ones(len(above), dtype=bool), kinds)
            )
    if not rows:
        none = np.zeros(0, dtype=np.int64)
        return Cuts(none, none, none, none.astype(bool), none)
    return Cuts(*(np.concatenate(arrays) for arrays in zip(*rows, strict=True)))
