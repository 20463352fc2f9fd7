"""Writing a graph in parts, one part at a time: memory for a part and for the ends of the cut edges, not for the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from ..core.errors import InvalidGraphError, InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from ..core.files.arrays import write_arrays
from ..core.files.store import atomic
from ..core.problem import Problem
from ..models.sample import GraphSample
from .folder import FORMAT, MANIFEST, VERSION, Parts, open_parts


class Cuts(NamedTuple):
    """The ends, in one part, of its edges to other parts. Each such edge is given twice, once with either part.

    Attributes
    ----------
    node : array-like of int
        The node of this part, counted from 0 within it.
    part, other : array-like of int
        The other part, and the node within that.
    first : array-like of bool
        Whether the node of this part is the edge's first one: tables are [first, second].
    kind : array-like of int
        The edge's table in the bank of this part's problem; for a sample its edge type. 0 by default.
    weight : array-like
        Factor of the table; for a sample the edge's features, (n,) or (n, d). 1 by default.
    """

    node: Any
    part: Any
    other: Any
    first: Any
    kind: Any = None
    weight: Any = None


class PartsWriter:
    """Write a graph part by part; use it in a ``with``, whose end writes the manifest.

    Parts are numbered in the order of `add`. Without a manifest (after an error, or a kill) the folder is not readable as a graph.

    Parameters
    ----------
    folder : path
        Made if needed; must not hold a manifest yet.
    shape : tuple of int, optional
        (height, width), if the nodes are those of a grid, row by row.
    """

    def __init__(self, folder: str | Path, shape: tuple[int, int] | None = None):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        if (self.folder / MANIFEST).exists():
            raise InvalidParameterError(
                f"{self.folder} holds a graph in parts already; wanted a new folder. Delete that one first."
            )
        self.shape = shape
        self.kind: str | None = None
        self.n_labels: int | None = None
        self.n_edge_types = 1
        self.entries: list[dict[str, Any]] = []
        self._ends: list[tuple[np.ndarray, ...]] = []
        self._n_nodes = 0

    def add(self, content: Problem | GraphSample, nodes: Any = None, cuts: Cuts | None = None, labels: Any = None) -> int:
        """Write the next part, and return its number.

        Parameters
        ----------
        content : Problem or GraphSample
            The part's own nodes and the edges between them.
        nodes : array-like of int, optional
            Numbers of the nodes in the whole graph; by default they follow those of the parts before.
        cuts : Cuts, optional
        labels : array-like of int, optional
            True labels of a sample, as numbers from 0.

        Returns
        -------
        int
        """
        p, kind = len(self.entries), "problem" if isinstance(content, Problem) else "sample"
        if not isinstance(content, (Problem, GraphSample)):
            raise InvalidSampleError(f"part {p} is a {type(content).__name__}, wanted a Problem or a GraphSample.")
        if self.kind not in (None, kind):
            raise InvalidSampleError(f"part {p} is a {kind}, the parts before are {self.kind}s; wanted one kind.")
        self.kind, graph = kind, content.graph
        ends = _ends(p, graph.n_nodes, cuts)
        where = np.arange(self._n_nodes, self._n_nodes + graph.n_nodes) if nodes is None else np.asarray(nodes, dtype=np.int64)
        if where.shape != (graph.n_nodes,):
            raise InvalidGraphError(f"nodes of part {p} have shape {where.shape}, wanted {graph.n_nodes} numbers.")
        arrays = {
            "nodes": where.astype(np.int64),
            "edges": graph.edges,
            "cut_node": ends[0].astype(np.int32),
            "cut_first": ends[3].astype(np.int8),
            "cut_part": ends[1].astype(np.int32),
        }
        if isinstance(content, Problem):
            arrays |= self._problem(p, content, cuts, len(ends[0]))
        else:
            arrays |= self._sample(p, content, cuts, len(ends[0]), labels)
        name = f"part-{p:05d}.arrays"
        size, sha256 = write_arrays(self.folder / name, arrays)
        offset = content.offset if isinstance(content, Problem) else 0.0
        sizes = {"nodes": graph.n_nodes, "edges": graph.n_edges, "cuts": len(ends[0]), "offset": offset}
        self.entries.append({"file": name, "sha256": sha256, "bytes": size, **sizes})
        self._ends.append(ends)
        self._n_nodes += graph.n_nodes
        return p

    def _problem(self, p: int, problem: Problem, cuts: Cuts | None, n_cuts: int) -> dict[str, np.ndarray]:
        refuse(problem, f"part {p}")
        if self.n_labels not in (None, problem.n_labels):
            raise InvalidSampleError(f"part {p} has {problem.n_labels} labels, the parts before {self.n_labels}.")
        self.n_labels = problem.n_labels
        kind = np.zeros(n_cuts, dtype=np.int32) if cuts is None or cuts.kind is None else np.asarray(cuts.kind)
        weight = np.ones(n_cuts) if cuts is None or cuts.weight is None else np.asarray(cuts.weight, dtype=np.float64)
        if kind.shape != (n_cuts,) or weight.shape != (n_cuts,) or not np.isfinite(weight).all():
            raise InvalidGraphError(
                f"cuts of part {p}: kind and weight have shapes {kind.shape} and {weight.shape}, wanted {n_cuts}."
            )
        if n_cuts and not (kind.min() >= 0 and kind.max() < len(problem.tables)):
            raise InvalidGraphError(f"cuts of part {p} name table {kind.max()}, the bank has {len(problem.tables)}.")
        return {
            "unary": problem.unary,
            "tables": problem.tables,
            "edge_table": np.concatenate([problem.edge_table, kind.astype(np.int32)]),
            "edge_weight": np.concatenate([problem.edge_weight, weight]),
        }

    def _sample(self, p: int, sample: GraphSample, cuts: Cuts | None, n_cuts: int, labels: Any) -> dict[str, np.ndarray]:
        if sample.kind == "dicts":
            raise InvalidSampleError(f"part {p} holds dicts of features; wanted numbers. Vectorise them first.")
        if sample.factors:
            raise UnsupportedProblemError(f"part {p} has factors; graphs in parts have nodes and edges only.")
        if sample.cliques:
            raise UnsupportedProblemError(f"part {p} has cliques; graphs in parts have nodes and edges only.")
        kind = np.zeros(n_cuts, dtype=np.int64) if cuts is None or cuts.kind is None else np.asarray(cuts.kind)
        if kind.shape != (n_cuts,) or (n_cuts and kind.min() < 0):
            raise InvalidGraphError(f"cuts of part {p}: kind has shape {kind.shape}, wanted {n_cuts} edge types >= 0.")
        self.n_edge_types = max(self.n_edge_types, sample.graph.n_edge_types, int(kind.max(initial=0)) + 1)
        arrays = {"edge_type": np.concatenate([sample.graph.edge_type, kind]).astype(np.int32)}
        if sample.kind == "sparse":
            matrix = sample.X
            arrays |= {"x_data": matrix.data, "x_indices": matrix.indices.astype(np.int64)}
            arrays |= {"x_ptr": matrix.indptr.astype(np.int64), "x_shape": np.array(matrix.shape, dtype=np.int64)}
        else:
            arrays["x"] = sample.X
        if sample.edge_features is not None or (cuts is not None and cuts.weight is not None):
            own = np.ones((sample.graph.n_edges, 1)) if sample.edge_features is None else sample.edge_features
            more = (
                np.ones((n_cuts, own.shape[1])) if cuts is None or cuts.weight is None else np.asarray(cuts.weight, dtype=float)
            )
            if len(own) == 0 and more.ndim == 2:
                own = np.zeros((0, more.shape[1]))
            more = more.reshape(n_cuts, -1) if n_cuts else np.zeros((0, own.shape[1]))
            if more.shape[1] != own.shape[1] or not np.isfinite(more).all():
                raise InvalidSampleError(
                    f"cuts of part {p} have {more.shape[1]} finite features an edge, wanted {own.shape[1]}."
                )
            arrays["edge_features"] = np.concatenate([own, more])
        for name in ("node_types", "node_weights"):
            if getattr(sample, name) is not None:
                arrays[name] = getattr(sample, name)
        if labels is not None:
            own_labels = np.asarray(labels).reshape(-1)
            if own_labels.shape != (sample.n_nodes,) or own_labels.dtype.kind not in "iu" or own_labels.min(initial=0) < 0:
                raise InvalidSampleError(
                    f"labels of part {p} have shape {own_labels.shape} and dtype {own_labels.dtype}, wanted a number >= 0 for each of "
                    f"{sample.n_nodes} nodes."
                )
            arrays["labels"] = own_labels.astype(np.int32)
        return arrays

    def close(self) -> Parts:
        """Match the ends of the cut edges, write them and the manifest, and open the folder."""
        if not self.entries:
            raise InvalidSampleError(f"{self.folder}: there are no parts; wanted at least one.")
        part, slot = self._match()
        size, sha256 = write_arrays(self.folder / "cuts.arrays", {"part": part, "slot": slot})
        if self.shape is not None and self.shape[0] * self.shape[1] != self._n_nodes:
            raise InvalidGraphError(f"the parts have {self._n_nodes} nodes, but the grid {self.shape}.")
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "n_labels": self.n_labels,
            "n_edge_types": self.n_edge_types,
            "shape": None if self.shape is None else [int(size) for size in self.shape],
            "cuts": {"file": "cuts.arrays", "sha256": sha256, "bytes": size},
            "parts": self.entries,
        }
        text = json.dumps(manifest, indent=1).encode()

        def write(file: BinaryIO) -> None:
            file.write(text)

        atomic(self.folder / MANIFEST, None, write)
        return open_parts(self.folder, check=False)

    def _match(self) -> tuple[np.ndarray, np.ndarray]:
        """Parts and slots of both ends of every cut edge."""
        starts = np.cumsum([0] + [entry["nodes"] for entry in self.entries])
        counts = [len(ends[0]) for ends in self._ends]
        owner = np.repeat(np.arange(len(counts)), counts)
        slot = np.concatenate([np.arange(count) for count in counts])
        node, part, other, first = (np.concatenate([ends[i] for ends in self._ends]) for i in range(4))
        bad = np.flatnonzero((part < 0) | (part >= len(counts)) | (part == owner))
        if not len(bad):
            bad = np.flatnonzero((other < 0) | (other >= np.diff(starts)[part]))
        if len(bad):
            raise InvalidGraphError(
                f"a cut of part {owner[bad[0]]} leads to node {other[bad[0]]} of part {part[bad[0]]}, which does not exist or is its own."
            )
        here, there = starts[owner] + node, starts[part] + other
        u, v = np.where(first, here, there), np.where(first, there, here)
        order = np.lexsort((~first, v, u))
        u, v, first, owner, slot = (array[order] for array in (u, v, first, owner, slot))
        one, two = slice(0, None, 2), slice(1, None, 2)
        even = len(u) % 2 == 0
        paired = even and bool(((u[one] == u[two]) & (v[one] == v[two]) & first[one] & ~first[two]).all())
        low, high = np.minimum(u, v)[one], np.maximum(u, v)[one]
        if not paired or len(np.unique(low * starts[-1] + high)) != len(low):
            raise InvalidGraphError(
                "an edge between parts was not given exactly once with either part, in one orientation. Each part lists all of its "
                "edges to other parts, and says in `first` whether its own node is the edge's first."
            )
        return (
            np.stack([owner[one], owner[two]], axis=1).astype(np.int32).reshape(-1, 2),
            np.stack([slot[one], slot[two]], axis=1).astype(np.int32).reshape(-1, 2),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and not (self.folder / MANIFEST).exists():
            self.close()


def refuse(problem: Problem, what: str) -> None:
    """Say what graphs in parts cannot have."""
    if len(problem.factors):
        raise UnsupportedProblemError(
            f"{what} has factors; graphs in parts have nodes and edges only. Solve the problem in one piece."
        )
    if len(problem.cliques):
        raise UnsupportedProblemError(f"{what} has cliques; graphs in parts have nodes and edges only.")
    if problem.has_hard_constraints or bool((problem.n_states < problem.n_labels).any()):
        raise UnsupportedProblemError(
            f"{what} forbids labels or pairs of labels (-inf), or has nodes with fewer labels than others; graphs in parts take finite "
            "scores and one number of labels. Give what is forbidden a large negative score, or solve the problem in one piece."
        )


def _ends(p: int, n_nodes: int, cuts: Cuts | None) -> tuple[np.ndarray, ...]:
    """Node, part, other node and orientation of the cuts of part ``p``."""
    if cuts is None:
        none = np.zeros(0, dtype=np.int64)
        return none, none, none, none.astype(bool)
    ends = [np.asarray(array) for array in cuts[:3]]
    first = np.asarray(cuts.first, dtype=bool)
    if any(array.dtype.kind not in "iu" and array.size for array in ends) or len({a.shape for a in (*ends, first)}) != 1:
        raise InvalidGraphError(f"cuts of part {p}: node, part, other and first need one whole number each, a cut.")
    node = ends[0].astype(np.int64)
    if node.ndim != 1 or (len(node) and not (node.min() >= 0 and node.max() < n_nodes)):
        raise InvalidGraphError(f"cuts of part {p} name a node outside 0..{n_nodes - 1}.")
    return node, ends[1].astype(np.int64), ends[2].astype(np.int64), first
