"""From the tensors of a network to a batch of structures: chains (B, T, K), grids (B, K, H, W), graphs (N, K).

A batch knows the nodes and edges of the union of its examples, how tensors of the caller's shape become rows of nodes, and back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch

from ..core.errors import InvalidGraphError, InvalidParameterError, InvalidSampleError
from ..core.graph import Graph

UNKNOWN = -100
"""Label of a node whose label is not known, as the losses of PyTorch have it; also what `decode` gives where there is no node."""
FORMS = ("chain", "grid", "graph")

Offsets = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Batch:
    """Examples of one form.

    Attributes
    ----------
    form : {"chain", "grid", "graph"}
    sizes : tuple of int
        Leading and trailing sizes of the scores: (B, T), (B, H, W) or (N,).
    n_labels : int
    n_examples : int
    build : callable
        Makes ``(graphs, edge_rows)`` when something other than the kernels of chains asks for them.
    lengths : ndarray of int64, shape (B,), or None
        Of chains.
    exists : ndarray of bool, shape (N,), or None
        Nodes that the mask keeps, in the order of the rows, for grids and graphs; None for all.
    edge_sizes : tuple of int
        Shape of a tensor with a number for each edge, as the caller counts them.
    """

    form: str
    sizes: tuple[int, ...]
    n_labels: int
    n_examples: int
    build: Callable[[], tuple[tuple[Graph, ...], np.ndarray]]
    lengths: np.ndarray | None = None
    exists: np.ndarray | None = None
    edge_sizes: tuple[int, ...] = ()

    @cached_property
    def _built(self) -> tuple[tuple[Graph, ...], np.ndarray]:
        return self.build()

    @property
    def graphs(self) -> tuple[Graph, ...]:
        """One for each example: chains of their lengths; nodes that a mask leaves out are isolated ones in grids and graphs."""
        return self._built[0]

    @property
    def edge_rows(self) -> np.ndarray:
        """Place of each edge among the edges that the caller counts, for tensors of edges."""
        return self._built[1]

    @cached_property
    def node_ptr(self) -> np.ndarray:
        """First node of each example, and the number of all of them."""
        return np.cumsum([0] + [graph.n_nodes for graph in self.graphs], dtype=np.int64)

    @cached_property
    def edge_ptr(self) -> np.ndarray:
        """First edge of each example, and the number of all of them."""
        return np.cumsum([0] + [graph.n_edges for graph in self.graphs], dtype=np.int64)

    @cached_property
    def owner(self) -> np.ndarray:
        """Example of each node."""
        return np.repeat(np.arange(self.n_examples), np.diff(self.node_ptr))

    @cached_property
    def edge_owner(self) -> np.ndarray:
        """Example of each edge."""
        return np.repeat(np.arange(self.n_examples), np.diff(self.edge_ptr))

    @cached_property
    def edges(self) -> np.ndarray:
        """Edges in node numbers of the union, shape (E, 2)."""
        parts = [graph.edges + np.int32(first) for graph, first in zip(self.graphs, self.node_ptr, strict=False)]
        return np.ascontiguousarray(np.concatenate([np.zeros((0, 2), dtype=np.int32), *parts]), dtype=np.int32)

    @cached_property
    def edge_type(self) -> np.ndarray:
        """Type of each edge."""
        return np.concatenate([np.zeros(0, dtype=np.int32)] + [graph.edge_type for graph in self.graphs]).astype(np.int32)

    @cached_property
    def is_in_chain(self) -> np.ndarray:
        """Which positions of (B, T) are nodes of a chain."""
        assert self.lengths is not None
        return np.arange(self.sizes[1]) < self.lengths[:, None]

    def rows(self, values: torch.Tensor) -> torch.Tensor:
        """A tensor of the shape of the scores (or of labels, without the axis of labels) as rows of nodes."""
        if self.form == "chain":
            return values[torch.from_numpy(self.is_in_chain).to(values.device)]
        if self.form == "grid":
            if values.ndim == 4:
                values = values.permute(0, 2, 3, 1)
                return values.reshape(-1, values.shape[-1])
            return values.reshape(-1)
        return values

    def shaped(self, rows: torch.Tensor, fill: float) -> torch.Tensor:
        """The reverse of `rows`; positions without a node have ``fill``."""
        if self.form == "chain":
            place = torch.from_numpy(self.is_in_chain).to(rows.device)
            out = rows.new_full((*self.sizes, *rows.shape[1:]), fill)
            return out.masked_scatter(place.reshape(place.shape + (1,) * (rows.ndim - 1)), rows)
        if self.exists is not None:
            gone = torch.from_numpy(~self.exists).to(rows.device)
            rows = rows.masked_fill(gone.reshape((-1,) + (1,) * (rows.ndim - 1)), fill)
        if self.form == "grid":
            rows = rows.reshape(*self.sizes, *rows.shape[1:])
            return rows.permute(0, 3, 1, 2) if rows.ndim == 4 else rows
        return rows

    def edge_values(self, values: torch.Tensor, width: int, name: str) -> torch.Tensor:
        """A tensor with numbers (``width`` 0) or tables of edges, in the order of the batch's edges."""
        wanted = self.edge_sizes + (self.n_labels,) * width
        if tuple(values.shape) != wanted:
            raise InvalidSampleError(
                f"{name} has shape {tuple(values.shape)}, wanted {wanted}: {_EDGE_WORDS[self.form]}"
                f"{', then a (K, K) table each' if width else ''}."
            )
        flat = values.reshape(-1, *values.shape[len(self.edge_sizes) :])
        return flat[torch.from_numpy(self.edge_rows).to(values.device)]


_EDGE_WORDS = {
    "chain": "(B, T - 1), the edge from each position to the next",
    "grid": "(B, n_offsets, H, W), the edge from each pixel by each offset",
    "graph": "(E,), the edges in their order",
}


def chains(scores: torch.Tensor, lengths: Any, mask: Any) -> Batch:
    """A batch of chains from scores (B, T, K)."""
    if scores.ndim != 3:
        raise InvalidSampleError(f"scores of chains have shape {tuple(scores.shape)}, wanted (batch, length, n_labels).")
    count, steps, n_labels = scores.shape
    if lengths is not None and mask is not None:
        raise InvalidSampleError("lengths and mask are both given, wanted one of them: a mask of a chain says its length.")
    if mask is not None:
        found = _numpy(mask).astype(bool)
        if found.shape != (count, steps):
            raise InvalidSampleError(f"mask has shape {found.shape}, wanted {(count, steps)}.")
        own = found.sum(axis=1).astype(np.int64)
        wrong = (found != (np.arange(steps) < own[:, None])).any(axis=1)
        if wrong.any():
            raise InvalidSampleError(
                f"mask of chain {int(wrong.argmax())} has a hole, wanted True up to the length and False after it. For a position of unknown "
                f"label give the label {UNKNOWN}."
            )
    elif lengths is not None:
        own = np.ascontiguousarray(_numpy(lengths), dtype=np.int64)
        if own.shape != (count,) or (own < 0).any() or (own > steps).any():
            raise InvalidSampleError(f"lengths are {own.tolist()}, wanted {count} whole numbers from 0 to {steps}.")
    else:
        own = np.full(count, steps, dtype=np.int64)

    def build() -> tuple[tuple[Graph, ...], np.ndarray]:
        inside = np.arange(max(steps - 1, 0)) < np.maximum(own - 1, 0)[:, None]
        return tuple(_chain(int(n)) for n in own), np.flatnonzero(inside)

    return Batch("chain", (count, steps), n_labels, count, build, own, edge_sizes=(count, max(steps - 1, 0)))


@lru_cache(maxsize=512)
def _chain(length: int) -> Graph:
    return Graph.chain(length)


def offsets_of(neighbours: Any) -> Offsets:
    """Offsets (down, right) of a pixel's later neighbours: 4 or 8 neighbours, or the offsets themselves."""
    if isinstance(neighbours, (int, np.integer)) and neighbours in (4, 8):
        return ((0, 1), (1, 0)) + (((1, 1), (1, -1)) if neighbours == 8 else ())
    try:
        found = tuple((int(down), int(right)) for down, right in neighbours)
    except (TypeError, ValueError):
        found = ()
    doubled = len({max(own, (-own[0], -own[1])) for own in found}) < len(found)
    if not found or (0, 0) in found or doubled:
        raise InvalidParameterError(
            f"neighbours is {neighbours!r}, wanted 4, 8, or offsets (down, right) such as [(0, 1), (1, 0)], each once and not (0, 0)."
        )
    return found


@lru_cache(maxsize=64)
def _grid(height: int, width: int, offsets: Offsets, by_offset: bool) -> tuple[Graph, np.ndarray]:
    """The graph of one image, and the place of each edge in an array (n_offsets, H, W)."""
    node = np.arange(height * width).reshape(height, width)
    edges, kinds, places = [], [], []
    for number, (down, right) in enumerate(offsets):
        rows, columns = slice(max(0, -down), min(height, height - down)), slice(max(0, -right), min(width, width - right))
        first = node[rows, columns].ravel() if abs(down) < height and abs(right) < width else np.zeros(0, dtype=np.int64)
        edges.append(np.stack([first, first + down * width + right], axis=1))
        kinds.append(np.full(len(first), number if by_offset else 0))
        places.append(first + number * height * width)
    n_types = len(offsets) if by_offset else 1
    kind = np.concatenate(kinds).astype(np.int32)
    shape = (height, width)
    plain = offsets == ((0, 1), (1, 0))
    graph = Graph(height * width, np.concatenate(edges).astype(np.int32), kind, n_types, shape if plain else None)
    return graph, np.concatenate(places)


def grids(scores: torch.Tensor, mask: Any, offsets: Offsets, by_offset: bool) -> Batch:
    """A batch of grids from scores (B, K, H, W)."""
    if scores.ndim != 4:
        raise InvalidSampleError(f"scores of grids have shape {tuple(scores.shape)}, wanted (batch, n_labels, height, width).")
    count, n_labels, height, width = scores.shape
    graph, places = _grid(height, width, offsets, by_offset)
    stride = len(offsets) * height * width
    graphs: tuple[Graph, ...] = (graph,) * count
    rows = (np.arange(count)[:, None] * stride + places).ravel()
    exists = None
    if mask is not None:
        found = _numpy(mask).astype(bool)
        if found.shape != (count, height, width):
            raise InvalidSampleError(f"mask has shape {found.shape}, wanted {(count, height, width)}.")
        exists = found.reshape(-1)
        pieces = [_induced(graph, own) for own in found.reshape(count, -1)]
        graphs = tuple(own for own, _ in pieces)
        rows = np.concatenate([b * stride + places[kept] for b, (_, kept) in enumerate(pieces)] or [rows[:0]])
    sizes = (count, height, width)
    return Batch("grid", sizes, n_labels, count, lambda: (graphs, rows), None, exists, (count, len(offsets), height, width))


def graphs_of(
    scores: torch.Tensor,
    graphs: Sequence[Graph] | None,
    edge_index: Any,
    batch: Any,
    edge_type: Any,
    mask: Any,
    n_edge_types: int,
) -> Batch:
    """A batch of graphs from scores (N, K), with a list of graphs, or with packed edges as PyTorch Geometric has them."""
    if scores.ndim != 2:
        raise InvalidSampleError(
            f"scores of graphs have shape {tuple(scores.shape)}, wanted (n_nodes of all graphs, n_labels)."
        )
    n_nodes, n_labels = scores.shape
    if (graphs is None) == (edge_index is None):
        raise InvalidSampleError(
            "graphs and edge_index are " + ("both" if graphs is not None else "neither") + " given, wanted one of them."
        )
    if graphs is not None:
        found = (graphs,) if isinstance(graphs, Graph) else tuple(graphs)
        for j, graph in enumerate(found):
            if not isinstance(graph, Graph):
                raise InvalidSampleError(f"graph {j} is a {type(graph).__name__}, wanted maxsum.Graph.")
        rows = np.arange(sum(graph.n_edges for graph in found))
        if any(graph.n_edge_types > n_edge_types for graph in found):
            raise InvalidSampleError(
                f"a graph has {max(g.n_edge_types for g in found)} edge types, wanted {n_edge_types} as the layer's n_edge_types."
            )
    else:
        found, rows = _packed(n_nodes, edge_index, batch, edge_type, n_edge_types)
    given, sizes = len(rows), [graph.n_nodes for graph in found]
    if sum(sizes) != n_nodes:
        raise InvalidSampleError(
            f"scores have {n_nodes} rows, but the graphs have {sum(sizes)} nodes, wanted a row for each node, graph after graph."
        )
    exists = None
    if mask is not None:
        exists = _numpy(mask).astype(bool)
        if exists.shape != (n_nodes,):
            raise InvalidSampleError(f"mask has shape {exists.shape}, wanted {(n_nodes,)}.")
        first, cuts = np.cumsum([0] + [graph.n_edges for graph in found]), np.cumsum(sizes)[:-1]
        pieces = [_induced(graph, own) for graph, own in zip(found, np.split(exists, cuts), strict=True)]
        rows = np.concatenate([rows[:0]] + [rows[first[j] + kept] for j, (_, kept) in enumerate(pieces)])
        found = tuple(own for own, _ in pieces)
    made = tuple(found)
    return Batch("graph", (n_nodes,), n_labels, len(made), lambda: (made, rows), None, exists, (given,))


def _packed(
    n_nodes: int, edge_index: Any, batch: Any, edge_type: Any, n_edge_types: int
) -> tuple[tuple[Graph, ...], np.ndarray]:
    """Graphs of packed edges, and the place of each of their edges among the given ones; of edges given both ways the first is kept."""
    index = _numpy(edge_index)
    if index.ndim != 2 or index.shape[0] != 2:
        raise InvalidGraphError(f"edge_index has shape {index.shape}, wanted (2, n_edges). Pairs in rows? Transpose it.")
    owner = np.zeros(n_nodes, dtype=np.int64) if batch is None else _numpy(batch).astype(np.int64)
    if owner.shape != (n_nodes,) or (np.diff(owner) < 0).any() or (n_nodes and owner[0] < 0):
        raise InvalidGraphError(
            f"batch has shape {owner.shape}, wanted {n_nodes} numbers of graphs that do not fall, as PyTorch Geometric packs them."
        )
    count = int(owner[-1]) + 1 if n_nodes else 0
    outside = (index < 0) | (index >= n_nodes)
    if outside.any():
        raise InvalidGraphError(
            f"edge {int(outside.any(axis=0).argmax())} of edge_index names node {int(index[outside][0])}, but there are {n_nodes} nodes (0..{n_nodes - 1})."
        )
    kind = np.zeros(index.shape[1], dtype=np.int32) if edge_type is None else _numpy(edge_type).astype(np.int32)
    if kind.shape != (index.shape[1],) or (kind.size and (kind.min() < 0 or kind.max() >= n_edge_types)):
        raise InvalidGraphError(
            f"edge_type has shape {kind.shape}, wanted {index.shape[1]} numbers from 0 to {n_edge_types - 1} (n_edge_types of the layer)."
        )
    if (owner[index[0]] != owner[index[1]]).any() or (index[0] == index[1]).any():
        bad = int(((owner[index[0]] != owner[index[1]]) | (index[0] == index[1])).argmax())
        raise InvalidGraphError(f"edge {bad} joins the nodes {index[:, bad].tolist()}, wanted two nodes of one graph.")
    low, high = index.min(axis=0), index.max(axis=0)
    _, kept = np.unique(low * max(n_nodes, 1) + high, return_index=True)
    kept = kept[np.argsort(owner[index[0][kept]] * (index.shape[1] + 1) + kept)]
    first = np.searchsorted(owner, np.arange(count + 1))
    cuts = np.searchsorted(owner[index[0][kept]], np.arange(count + 1))
    made = []
    for j in range(count):
        own = kept[cuts[j] : cuts[j + 1]]
        edges = (index[:, own].T - first[j]).astype(np.int32)
        made.append(Graph(int(first[j + 1] - first[j]), edges, kind[own], n_edge_types))
    return tuple(made), kept


def _induced(graph: Graph, exists: np.ndarray) -> tuple[Graph, np.ndarray]:
    """The graph without edges of nodes that do not exist, and which edges were kept."""
    kept = np.flatnonzero(exists[graph.edges].all(axis=1))
    if len(kept) == graph.n_edges:
        return graph, kept
    return Graph(graph.n_nodes, graph.edges[kept], graph.edge_type[kept], graph.n_edge_types), kept


def _numpy(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
