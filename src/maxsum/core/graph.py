"""Graphs: which nodes are joined, in which orientation, with which edge type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, combinations, product
from math import comb, prod
from typing import Any, NamedTuple

import numpy as np

from .errors import InvalidGraphError
from .memory import check_room
from .ownership import own, owned

_FURTHEST = (
    3  # axes along which neighbours by ``connectivity`` differ at most: all 26 of a volume; further ones are given as offsets
)


class Incidence(NamedTuple):
    """Edges at each node: those of node ``v`` are ``edge[ptr[v]:ptr[v + 1]]``, and ``side`` says which end ``v`` is."""

    ptr: np.ndarray
    edge: np.ndarray
    side: np.ndarray


class Merge(NamedTuple):
    """How the edges that a caller gave were merged: given edge ``i`` became ``target[i]``, turned round if ``flip[i]``."""

    target: np.ndarray
    flip: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A simple undirected graph whose edges keep the orientation in which they were given.

    Build one with `grid`, `chain`, `complete`, `from_edges`, `from_edge_index`, `from_networkx`, `from_sparse` or `union`.

    Attributes
    ----------
    n_nodes : int
    edges : ndarray of int32, shape (n_edges, 2)
        The first axis of a pairwise table belongs to ``edges[:, 0]``, the second to ``edges[:, 1]``.
    edge_type : ndarray of int32, shape (n_edges,)
        Edges of one type share a table (in a problem) or weights (in a model).
    n_edge_types : int
    shape : tuple of int or None
        Sides of a grid, (height, width) of an image.
    parts : ndarray of int64 or None
        Node offsets of the graphs that a `union` joined, with the total at the end.
    merge : Merge or None
        Set by ``duplicates="merge"``: how the given edges map to ``edges``.
    """

    n_nodes: int
    edges: np.ndarray
    edge_type: np.ndarray
    n_edge_types: int = 1
    shape: tuple[int, ...] | None = None
    parts: np.ndarray | None = None
    merge: Merge | None = field(default=None)

    def __post_init__(self) -> None:
        for name in ("edges", "edge_type", "parts"):
            if (array := getattr(self, name)) is not None:
                object.__setattr__(self, name, owned(array))
        if self.merge is not None:
            object.__setattr__(self, "merge", Merge(*map(owned, self.merge)))

    @property
    def n_edges(self) -> int:
        return len(self.edges)

    def __repr__(self) -> str:
        grid = f", grid {'x'.join(map(str, self.shape))}" if self.shape else ""
        types = f", {self.n_edge_types} edge types" if self.n_edge_types > 1 else ""
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges{grid}{types})"

    @cached_property
    def incidence(self) -> Incidence:
        """Edges at each node, in the order of the edges."""
        ends = self.edges.ravel()
        order = np.argsort(ends, kind="stable")
        ptr = np.zeros(self.n_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(ends, minlength=self.n_nodes), out=ptr[1:])
        return Incidence(own(ptr), own((order >> 1).astype(np.int32)), own((order & 1).astype(np.int8)))

    @cached_property
    def degrees(self) -> np.ndarray:
        """Number of edges at each node."""
        return np.bincount(self.edges.ravel(), minlength=self.n_nodes)

    @cached_property
    def components(self) -> np.ndarray:
        """Component number of each node; components are numbered by their lowest node.

        Trees of pointers to lower nodes: each round hooks the root of an edge's higher end to that of its lower end, and
        then makes every node point to its root.
        """
        root = np.arange(self.n_nodes)
        u, v = self.edges.T
        while True:
            first, second = root[u], root[v]
            apart = first != second
            if not apart.any():
                break
            u, v, first, second = u[apart], v[apart], first[apart], second[apart]
            np.minimum.at(root, np.maximum(first, second), np.minimum(first, second))
            while True:
                above = root[root]
                if np.array_equal(above, root):
                    break
                root = above
        return np.cumsum(root == np.arange(self.n_nodes))[root] - 1

    @cached_property
    def image_shape(self) -> tuple[int, int] | None:
        """(height, width) of a grid of two dimensions in which all horizontal and vertical neighbours are joined; None for all other graphs."""
        if self.shape is None or len(self.shape) != 2:
            return None
        height, width = self.shape
        low, high = np.sort(self.edges.astype(np.int64), axis=1).T
        beside, below = (high - low == 1) & (high % max(1, width) != 0), (high - low == width) & (width > 1)
        joined = int(np.count_nonzero(beside | below)) + (int(np.count_nonzero(high - low == 1)) if width == 1 else 0)
        return (height, width) if joined == max(0, height * (width - 1)) + max(0, (height - 1) * width) else None

    @cached_property
    def is_forest(self) -> bool:
        """Whether the graph has no cycle."""
        if self.n_edges == 0:
            return True
        if self.n_edges >= self.n_nodes:
            return False
        return self.n_edges == self.n_nodes - (int(self.components.max()) + 1)

    # ---- constructors ------------------------------------------------------------------------------------------

    @classmethod
    def grid(
        cls,
        height: Any,
        width: int | None = None,
        connectivity: int | None = None,
        edge_types: str = "tied",
        offsets: Any = None,
    ) -> Graph:
        r"""Grid of any number of dimensions; in images node ``(row, column)`` has number ``row * width + column``.

        Nodes :math:`p` and :math:`p + o` are joined, as far as both exist, for each offset :math:`o`; the edge leads from :math:`p` to :math:`p + o`.

        Parameters
        ----------
        height, width : int
            Of an image; or one tuple of sides, ``Graph.grid((20, 30, 40))``, for a volume or any other number of dimensions. The last axis runs fastest.
        connectivity : int, optional
            Neighbours of an inner node: 4 (default) or 8 in images, 6 (default), 18 or 26 in volumes; those whose offsets have one entry other than 0, then
            two, and so on.
        edge_types : {"tied", "directions"}
            One type for all edges, or one per offset (in images horizontal 0, vertical 1, diagonals 2 and 3).
        offsets : array-like of int, shape (n_offsets, n_dimensions), optional
            Steps to neighbours in place of ``connectivity``; a step and its opposite are one.

        Examples
        --------
        >>> Graph.grid(2, 3).edges.tolist()
        [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
        >>> Graph.grid((4, 5, 6))
        Graph(120 nodes, 286 edges, grid 4x5x6)
        >>> Graph.grid(1, 5, offsets=[(0, 2)]).edges.tolist()
        [[0, 2], [1, 3], [2, 4]]
        """
        shape = _grid_shape(height, width)
        if edge_types not in ("tied", "directions"):
            raise InvalidGraphError(f'Graph.grid: edge_types is {edge_types!r}, wanted "tied" or "directions".')
        n_nodes = _check_size(prod(shape), "Graph.grid")
        steps = grid_offsets(len(shape), connectivity, offsets)
        _check_room(n_nodes * (12 * len(steps) + 4))
        pairs = _grid_edges(shape, steps)
        edges = np.concatenate([np.zeros((0, 2), dtype=np.int32), *pairs])
        if edge_types == "tied":
            return cls(n_nodes, own(edges), own(np.zeros(len(edges), dtype=np.int32)), shape=shape)
        kind = np.repeat(np.arange(len(pairs), dtype=np.int32), [len(pair) for pair in pairs])
        return cls(n_nodes, own(edges), own(kind), n_edge_types=max(1, len(pairs)), shape=shape)

    @classmethod
    def chain(cls, n_nodes: int) -> Graph:
        """A chain: each node but the last is joined to the next."""
        n_nodes = _check_size(_count(n_nodes, "chain length"), "Graph.chain")
        _check_room(24 * n_nodes)
        first = np.arange(max(n_nodes - 1, 0), dtype=np.int32)
        return cls(n_nodes, own(np.stack([first, first + 1], axis=1)), own(np.zeros(len(first), dtype=np.int32)))

    @classmethod
    def complete(cls, n_nodes: int) -> Graph:
        """All pairs ``(u, v)`` with ``u < v``."""
        n_nodes = _check_size(_count(n_nodes, "number of nodes"), "Graph.complete")
        _check_room(20 * n_nodes**2)
        u, v = np.triu_indices(n_nodes, 1)
        return cls(n_nodes, own(np.stack([u, v], axis=1).astype(np.int32)), own(np.zeros(len(u), dtype=np.int32)))

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        n_nodes: int | None = None,
        edge_type: Any = None,
        duplicates: str = "error",
    ) -> Graph:
        """Graph from an (n_edges, 2) array of node pairs.

        Parameters
        ----------
        edges : array-like of int, shape (n_edges, 2)
        n_nodes : int, optional
            Largest node number plus one by default; needed when the last nodes are isolated.
        edge_type : array-like of int, shape (n_edges,), optional
        duplicates : {"error", "merge"}
            What to do with a pair that occurs twice, in the same or the opposite orientation. ``"merge"`` keeps
            the first occurrence; a `Problem` on the graph still takes one table per *given* edge and sums them.
        """
        pairs = np.asarray(edges)
        if pairs.size == 0:
            pairs = pairs.reshape(0, 2).astype(np.int64)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            hint = " For a (2, n_edges) array use Graph.from_edge_index." if pairs.ndim == 2 and len(pairs) == 2 else ""
            raise InvalidGraphError(f"edges have shape {pairs.shape}, wanted (n_edges, 2).{hint}")
        if pairs.dtype.kind in "US" or (pairs.dtype.kind == "O" and any(isinstance(v, str) for v in pairs.flat)):
            raise InvalidGraphError(
                f"edges name nodes by strings such as {str(pairs.flat[0])!r}, wanted their numbers from 0: names, ends = np.unique(edges, "
                "return_inverse=True), then Graph.from_edges(ends.reshape(-1, 2), len(names)); names is the order of the nodes."
            )
        if pairs.dtype.kind not in "iu":
            raise InvalidGraphError(
                f"edges have dtype {pairs.dtype}, wanted integers; convert with edges.astype(int) if they are whole."
            )
        if n_nodes is None:
            n_nodes = int(pairs.max()) + 1 if len(pairs) else 0
        n_nodes = _check_size(_count(n_nodes, "n_nodes"), "Graph")
        _check_range(pairs, n_nodes)
        pairs = np.ascontiguousarray(pairs, dtype=np.int32)
        loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
        if len(loops):
            raise InvalidGraphError(
                f"edge {loops[0]} joins node {pairs[loops[0], 0]} to itself ({len(loops)} self-loops in all). "
                "Remove them; the score of a self-loop, the diagonal of its table, belongs into the unary."
            )
        kind, n_types = _edge_types(edge_type, len(pairs))
        if duplicates not in ("error", "merge"):
            raise InvalidGraphError(f'duplicates is {duplicates!r}, wanted "error" or "merge".')
        key = np.minimum(pairs[:, 0], pairs[:, 1]).astype(np.int64) * n_nodes + np.maximum(pairs[:, 0], pairs[:, 1])
        _, first, index = np.unique(key, return_index=True, return_inverse=True)
        if len(first) == len(pairs):
            fresh = not np.shares_memory(pairs, np.asarray(edges))
            return cls(n_nodes, own(pairs) if fresh else pairs, own(kind), n_edge_types=n_types)
        again = np.setdiff1d(np.arange(len(pairs)), first)
        if duplicates == "error":
            later = int(again[0])
            earlier = int(first[index[later]])
            u, v = pairs[later]
            how = "the same orientation" if pairs[earlier, 0] == u else "the opposite orientation"
            raise InvalidGraphError(
                f"edge {later} ({u}-{v}) repeats edge {earlier} in {how} ({len(again)} repeated edges in all). "
                'Pass duplicates="merge" to join them (a Problem then sums their tables), or remove them.'
            )
        kept = np.sort(first)
        index = np.searchsorted(kept, first[index])
        clash = np.flatnonzero(kind != kind[kept[index]])
        if len(clash):
            raise InvalidGraphError(
                f"edge {clash[0]} of type {kind[clash[0]]} repeats edge {kept[index[clash[0]]]} of type "
                f"{kind[kept[index[clash[0]]]]}: edges of different types cannot be merged."
            )
        flip = pairs[:, 0] != pairs[kept[index], 0]
        return cls(n_nodes, own(pairs[kept]), own(kind[kept]), n_edge_types=n_types, merge=Merge(own(index), own(flip)))

    @classmethod
    def from_edge_index(
        cls, edge_index: Any, n_nodes: int | None = None, edge_type: Any = None, duplicates: str = "error"
    ) -> Graph:
        """Graph from a (2, n_edges) array, as PyTorch Geometric has it.

        There each undirected edge usually stands twice, once per direction: pass ``duplicates="merge"``.
        """
        index = np.asarray(edge_index)
        if index.size == 0:
            index = index.reshape(2, 0).astype(np.int64)
        if index.ndim != 2 or index.shape[0] != 2:
            hint = " For an (n_edges, 2) array use Graph.from_edges." if index.ndim == 2 and index.shape[1] == 2 else ""
            raise InvalidGraphError(f"edge_index has shape {index.shape}, wanted (2, n_edges).{hint}")
        return cls.from_edges(index.T, n_nodes, edge_type, duplicates)

    @classmethod
    def from_networkx(
        cls, graph: Any, nodes: Sequence[Any] | None = None, edge_type: str | None = None, duplicates: str = "error"
    ) -> Graph:
        """Graph from a networkx graph (networkx itself is not imported).

        Parameters
        ----------
        nodes : sequence, optional
            Order of the nodes; ``list(graph.nodes)`` by default.
        edge_type : str, optional
            Edge attribute that holds an integer type.
        duplicates : {"error", "merge"}
            For directed graphs and multigraphs.
        """
        order = list(graph.nodes) if nodes is None else list(nodes)
        number = {node: i for i, node in enumerate(order)}
        if len(number) != len(order):
            raise InvalidGraphError("nodes lists a node twice.")
        pairs, kinds = [], []
        for u, v, data in graph.edges(data=True):
            if u not in number or v not in number:
                raise InvalidGraphError(f"edge {u!r}-{v!r} has an end that is not in nodes.")
            pairs.append((number[u], number[v]))
            if edge_type is not None:
                if edge_type not in data:
                    raise InvalidGraphError(f"edge {u!r}-{v!r} has no attribute {edge_type!r}.")
                kinds.append(data[edge_type])
        return cls.from_edges(pairs, len(order), kinds if edge_type is not None else None, duplicates)

    @classmethod
    def from_sparse(cls, adjacency: Any) -> Graph:
        """Graph from a square scipy sparse matrix: an edge for each non-zero entry.

        A pair stored in both triangles is one edge, oriented from the lower to the higher node; a pair stored
        once is oriented from its row to its column.
        """
        matrix = adjacency.tocoo()
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InvalidGraphError(f"the adjacency matrix has shape {matrix.shape}, wanted a square one.")
        row, col, data = np.asarray(matrix.row), np.asarray(matrix.col), np.asarray(matrix.data)
        keep = data != 0
        row, col = row[keep].astype(np.int64), col[keep].astype(np.int64)
        n = matrix.shape[0]
        stored = np.unique(row * n + col)
        row, col = stored // max(n, 1), stored % max(n, 1)
        both = np.isin(col * n + row, stored)
        once = ~both | (row <= col)
        return cls.from_edges(np.stack([row[once], col[once]], axis=1), n)

    @classmethod
    def union(cls, graphs: Iterable[Graph]) -> Graph:
        """Disjoint union: the nodes and edges of each graph follow those of the graphs before it."""
        graphs = list(graphs)
        parts = np.cumsum([0] + [g.n_nodes for g in graphs], dtype=np.int64)
        _check_size(int(parts[-1]), "Graph.union")
        edges = np.concatenate([np.zeros((0, 2), dtype=np.int32)] + [g.edges for g in graphs])
        edges += np.repeat(parts[:-1].astype(np.int32), [g.n_edges for g in graphs])[:, None]
        return cls(
            int(parts[-1]),
            own(edges),
            own(np.concatenate([g.edge_type for g in graphs]) if graphs else np.zeros(0, dtype=np.int32)),
            n_edge_types=max((g.n_edge_types for g in graphs), default=1),
            parts=own(parts),
        )


def grid_offsets(n_dimensions: int, connectivity: int | None = None, offsets: Any = None) -> list[tuple[int, ...]]:
    """Steps to neighbours, as `Graph.grid` takes them: those that were given, or one of each two opposite ones, the nearest first."""
    if offsets is None:
        counts = [comb(n_dimensions, k) * 2**k for k in range(1, n_dimensions + 1)]
        allowed = list(accumulate(counts))[:_FURTHEST]
        wanted = allowed[0] if connectivity is None else connectivity
        if isinstance(wanted, bool) or wanted not in allowed:
            where = "" if n_dimensions == 2 else f" in {n_dimensions} dimensions"
            raise InvalidGraphError(
                f"Graph.grid: connectivity is {connectivity!r}, wanted {' or '.join(map(str, allowed))}{where}."
            )
        return [step for k in range(allowed.index(wanted) + 1) for step in _steps_along(n_dimensions, k + 1)]
    if connectivity is not None:
        raise InvalidGraphError(f"Graph.grid: connectivity is {connectivity!r} beside offsets, wanted one of them.")
    steps = np.asarray(offsets)
    steps = steps.reshape(0, n_dimensions).astype(np.int64) if steps.size == 0 else steps
    if steps.ndim != 2 or steps.shape[1] != n_dimensions or steps.dtype.kind not in "iu":
        raise InvalidGraphError(
            f"Graph.grid: offsets have shape {steps.shape} and dtype {steps.dtype}, wanted whole numbers (n_offsets, {n_dimensions}), a step along each axis."
        )
    found: dict[tuple[int, ...], int] = {}
    for number, step in enumerate(map(tuple, steps.tolist())):
        opposite = tuple(-s for s in step)
        if not any(step):
            raise InvalidGraphError(f"Graph.grid: offset {number} is {step}, which joins nodes to themselves. Remove it.")
        if step in found or opposite in found:
            first = found.get(step, found.get(opposite))
            raise InvalidGraphError(
                f"Graph.grid: offset {number}, {step}, joins the same pairs as offset {first}. Remove one of them."
            )
        found[step] = number
    return list(found)


def _steps_along(n_dimensions: int, n_axes: int) -> list[tuple[int, ...]]:
    """Steps of one place along each of so many axes, the last axes first; forwards along the first of them."""
    found = []
    for axes in sorted(combinations(range(n_dimensions), n_axes), key=lambda own: tuple(i in own for i in range(n_dimensions))):
        for signs in product((1, -1), repeat=n_axes - 1):
            by_axis = dict(zip(axes, (1, *signs), strict=True))
            found.append(tuple(by_axis.get(axis, 0) for axis in range(n_dimensions)))
    return found


def _grid_shape(height: Any, width: Any) -> tuple[int, ...]:
    if isinstance(height, (tuple, list, np.ndarray)):
        if width is not None:
            raise InvalidGraphError(
                f"Graph.grid: width is {width!r} beside all sides {tuple(height)}, wanted None; give connectivity by name."
            )
        if not len(height):
            raise InvalidGraphError("Graph.grid: there are no sides, wanted one or more, as (20, 30, 40).")
        return tuple(_count(side, f"side {axis} of the grid") for axis, side in enumerate(height))
    if width is None:
        raise InvalidGraphError(
            f"Graph.grid: width is missing beside height {height!r}; wanted Graph.grid(height, width) or a tuple of all sides."
        )
    return _count(height, "grid height"), _count(width, "grid width")


def _grid_edges(shape: tuple[int, ...], steps: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Edges along each step, in the order of their first nodes."""
    node, found = np.arange(prod(shape), dtype=np.int32).reshape(shape), []
    for step in steps:
        first = tuple(slice(max(0, -s), max(0, n - max(0, s))) for s, n in zip(step, shape, strict=True))
        second = tuple(slice(max(0, s), max(0, n - max(0, -s))) for s, n in zip(step, shape, strict=True))
        found.append(np.stack([node[first].ravel(), node[second].ravel()], axis=1))
    return found


def _count(value: Any, name: str) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise InvalidGraphError(f"{name} is {value!r}, wanted a whole number.")
    if value < 0:
        raise InvalidGraphError(f"{name} is {value}, wanted 0 or more.")
    return int(value)


def _check_size(n_nodes: int, what: str) -> int:
    if n_nodes > 2**31 - 1:
        raise InvalidGraphError(f"{what}: {n_nodes} nodes; at most 2**31 - 1 can be numbered.")
    return n_nodes


def _check_range(pairs: np.ndarray, n_nodes: int) -> None:
    bad = (pairs < 0) | (pairs >= n_nodes)
    if not bad.any():
        return
    edge = int(np.flatnonzero(bad.any(axis=1))[0])
    node = int(pairs[edge][bad[edge]][0])
    hint = " 1-based edges? Subtract 1." if pairs.min() >= 1 and pairs.max() == n_nodes else ""
    valid = f"0..{n_nodes - 1}" if n_nodes else "none"
    raise InvalidGraphError(f"edge {edge} names node {node}, but the graph has {n_nodes} nodes ({valid}).{hint}")


def _edge_types(edge_type: Any, n_edges: int) -> tuple[np.ndarray, int]:
    if edge_type is None:
        return np.zeros(n_edges, dtype=np.int32), 1
    kind = np.asarray(edge_type)
    if kind.size == 0:
        kind = kind.astype(np.int64)
    if kind.shape != (n_edges,) or kind.dtype.kind not in "iu":
        raise InvalidGraphError(
            f"edge_type has shape {kind.shape} and dtype {kind.dtype}, wanted {n_edges} integers, one per edge."
        )
    if len(kind) and (kind.min() < 0 or kind.max() >= 2**31 - 1):
        raise InvalidGraphError(f"edge_type ranges from {kind.min()} to {kind.max()}, wanted 0 or more.")
    return kind.astype(np.int32), int(kind.max()) + 1 if len(kind) else 1


def _check_room(need: int) -> None:
    check_room(need, "this graph", "Take fewer nodes or edges")
