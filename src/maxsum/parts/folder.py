"""The folder of a graph in parts: a manifest, a file a part, and a file of the cut edges between parts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import ParseError
from ..core.files.arrays import file_digest, map_arrays
from ..core.graph import Graph
from ..core.problem import Messages, Problem

FORMAT = "maxsum-parts"  # magic words of the manifest
VERSION = 1  # of the format
MANIFEST = "manifest.json"  # the file that names all others
_KEYS = {"format", "version", "kind", "n_labels", "n_edge_types", "shape", "cuts", "parts"}
_ENTRY = {"file", "sha256", "bytes", "nodes", "edges", "cuts", "offset"}


class CutEdges(NamedTuple):
    """Edges between parts. Cut ``c`` joins entry ``slot[c, 0]`` of the cuts of part ``part[c, 0]`` (which has the edge's first node) to
    entry ``slot[c, 1]`` of those of part ``part[c, 1]``."""

    part: np.ndarray  # int32 (C, 2)
    slot: np.ndarray  # int32 (C, 2)


@dataclass(frozen=True, eq=False, repr=False)
class Parts:
    """A graph in parts on disk, opened by `open_parts`.

    A part has its own nodes, the edges between them, and its ends of the edges to other parts (*cuts*).

    Attributes
    ----------
    folder : Path
    manifest : dict
    digest : str
        SHA-256 of the manifest, which holds those of all files: it tells this graph from any other.
    """

    folder: Path
    manifest: dict[str, Any]
    digest: str

    def __repr__(self) -> str:
        return (
            f"Parts({self.kind}: {self.n_parts} parts, {self.n_nodes} nodes, {self.n_edges} edges, {self.n_cuts} of them cut)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what was read so far: a worker needs the manifest alone."""
        return Parts, (self.folder, self.manifest, self.digest)

    @property
    def kind(self) -> str:
        """``problem`` (scores) or ``sample`` (features)."""
        return str(self.manifest["kind"])

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.manifest["parts"])

    @property
    def n_labels(self) -> int | None:
        """Number of labels of a problem; None for a sample."""
        return self.manifest["n_labels"]  # type: ignore[no-any-return]

    @property
    def shape(self) -> tuple[int, int] | None:
        """(height, width) of a grid."""
        shape = self.manifest["shape"]
        return None if shape is None else (shape[0], shape[1])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of nodes of each part."""
        return np.array([entry["nodes"] for entry in self.manifest["parts"]], dtype=np.int64)

    @property
    def n_nodes(self) -> int:
        """Number of nodes of the graph."""
        return int(self.sizes.sum())

    @property
    def n_cuts(self) -> int:
        """Number of cut edges, which join nodes of two parts."""
        return len(self.cuts.part)

    @property
    def n_edges(self) -> int:
        """All edges, cuts included."""
        return sum(entry["edges"] for entry in self.manifest["parts"]) + self.n_cuts

    def path(self, p: int) -> Path:
        """The file of part ``p``."""
        return self.folder / self.manifest["parts"][p]["file"]

    def arrays(self, p: int) -> dict[str, np.ndarray]:
        """The arrays of part ``p``, mapped into memory; indices are checked."""
        arrays, entry, path = mapped(self.path(p)), self.manifest["parts"][p], str(self.path(p))
        need = {"nodes", "edges", "cut_node", "cut_first", "cut_part"}
        if not need <= set(arrays):
            raise ParseError(f"is not a part: it lacks {', '.join(sorted(need - set(arrays)))}.", path)
        sizes = (len(arrays["nodes"]), len(arrays["edges"]), len(arrays["cut_node"]))
        if sizes != (entry["nodes"], entry["edges"], entry["cuts"]):
            raise ParseError(f"has {sizes} nodes, edges and cuts, the manifest says otherwise.", path)
        for name, limit in (("edges", sizes[0]), ("cut_node", sizes[0]), ("cut_part", self.n_parts)):
            array = arrays[name]
            if array.size and not (array.min() >= 0 and array.max() < limit):
                raise ParseError(f"{name} has numbers outside 0..{limit - 1}.", path)
        return arrays

    def nodes(self, p: int) -> np.ndarray:
        """Numbers of the nodes of part ``p`` in the whole graph."""
        nodes = self.arrays(p)["nodes"]
        if nodes.size and not (nodes.min() >= 0 and nodes.max() < self.n_nodes):
            raise ParseError(f"has node numbers outside 0..{self.n_nodes - 1} of the whole graph.", str(self.path(p)))
        return nodes

    def gather(self, values: Callable[[int], np.ndarray]) -> np.ndarray:
        """Numbers >= 0 of all nodes, in the order of the whole graph, from those of each part."""
        found = np.full(self.n_nodes, -1, dtype=np.int32)
        for p in range(self.n_parts):
            found[self.nodes(p)] = values(p)
        missing = np.flatnonzero(found < 0)
        if len(missing):
            raise ParseError(f"no part has node {missing[0]} of the whole graph; some other is in two.", str(self.folder))
        return found

    @cached_property
    def cuts(self) -> CutEdges:
        """All cut edges; they, and what belongs to them, are all that is in memory of the whole graph."""
        path = self.folder / self.manifest["cuts"]["file"]
        arrays = mapped(path)
        if set(arrays) != {"part", "slot"} or arrays["part"].shape != arrays["slot"].shape or arrays["part"].ndim != 2:
            raise ParseError("is not the file of cut edges.", str(path))
        part, slot = arrays["part"], arrays["slot"]
        if part.size and not (part.min() >= 0 and part.max() < self.n_parts and slot.min() >= 0):
            raise ParseError(f"names parts outside 0..{self.n_parts - 1}.", str(path))
        counts = np.array([entry["cuts"] for entry in self.manifest["parts"]])
        if part.size and (slot >= counts[part]).any():
            raise ParseError("names a cut that its part does not have.", str(path))
        return CutEdges(part, slot)

    @cached_property
    def cuts_of(self) -> list[np.ndarray]:
        """For each part the numbers of its cuts, in the order of its file."""
        cuts, found = self.cuts, []
        owner, slot = cuts.part.ravel(), cuts.slot.ravel()
        order = np.lexsort((slot, owner))
        ends = np.searchsorted(owner[order], np.arange(self.n_parts + 1))
        for p in range(self.n_parts):
            found.append((order[ends[p] : ends[p + 1]] // 2).astype(np.int64))
        return found

    def check(self) -> None:
        """Compare all files with the manifest.

        Raises
        ------
        ParseError
            That names the first file that is missing, damaged or of another graph.
        """
        for entry in (self.manifest["cuts"], *self.manifest["parts"]):
            path = self.folder / entry["file"]
            try:
                size, sha256 = path.stat().st_size, file_digest(path)
            except OSError as error:
                raise ParseError(f"cannot be read: {error.strerror or error}.", str(path)) from error
            if (sha256, size) != (entry["sha256"], entry["bytes"]):
                raise ParseError(
                    f"is damaged, or a file of another graph: {size} bytes with SHA-256 {sha256[:12]}, wanted "
                    f"{entry['bytes']} with {entry['sha256'][:12]}. Write the parts again.",
                    str(path),
                )

    def problem(self) -> Problem:
        """The whole problem, in memory: nodes by their numbers in the whole graph, edges part by part, cuts at the end."""
        return _whole(self)


def mapped(path: Path) -> dict[str, np.ndarray]:
    """`map_arrays`, with an error that names the file also where it is missing."""
    try:
        return map_arrays(path)
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror or error}.", str(path)) from error


def open_parts(folder: str | Path | Parts, check: bool = True) -> Parts:
    """Open a graph in parts.

    Parameters
    ----------
    folder : path
        As written by `write_parts`, `write_grid` or `PartsWriter`.
    check : bool
        Compare every file with its hash first. That reads all of them once.

    Returns
    -------
    Parts

    Raises
    ------
    ParseError
        If the manifest or a file is missing, damaged or foreign; it names the file.
    """
    if isinstance(folder, Parts):
        return folder
    path = Path(folder) / MANIFEST
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror or error}. Was the folder written to its end?", str(path)) from error
    parts = Parts(Path(folder), _manifest(raw, path), hashlib.sha256(raw).hexdigest())
    if check:
        parts.check()
    return parts


def _manifest(raw: bytes, path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ParseError(f"is not JSON ({error}).", str(path)) from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ParseError(f'does not say "format": "{FORMAT}".', str(path))
    if manifest.get("version") != VERSION:
        raise ParseError(f"has version {manifest.get('version')!r}, this maxsum reads {VERSION}.", str(path))
    if set(manifest) != _KEYS or manifest["kind"] not in ("problem", "sample") or not isinstance(manifest["parts"], list):
        raise ParseError("lacks entries, or has strange ones.", str(path))
    for entry in manifest["parts"]:
        if not isinstance(entry, dict) or set(entry) != _ENTRY:
            raise ParseError("has a part with strange entries.", str(path))
        if not all(type(entry[name]) is int and entry[name] >= 0 for name in ("bytes", "nodes", "edges", "cuts")):
            raise ParseError("has a part with strange counts.", str(path))
    for entry in (manifest["cuts"], *manifest["parts"]):
        if not isinstance(entry["file"], str) or Path(entry["file"]).name != entry["file"]:
            raise ParseError(f"names the file {str(entry['file'])[:100]!r}, wanted one of its own folder.", str(path))
    return manifest


def _whole(parts: Parts) -> Problem:
    n, size = parts.n_nodes, int(parts.n_labels or 0)
    if parts.kind != "problem":
        raise ParseError("holds features, not scores; wanted the parts of a problem.", str(parts.folder))
    unary, edges, ends = np.zeros((n, size)), [], np.zeros((parts.n_cuts, 2), dtype=np.int64)
    banks, numbers, weights = [], [], []
    cut_table, cut_weight = np.zeros(parts.n_cuts, dtype=np.int64), np.zeros(parts.n_cuts)
    start = 0
    for p in range(parts.n_parts):
        own = parts.arrays(p)
        nodes, inner, ids = parts.nodes(p), len(own["edges"]), parts.cuts_of[p]
        unary[nodes] = own["unary"]
        edges.append(nodes[own["edges"]].reshape(-1, 2))
        numbers.append(own["edge_table"][:inner].astype(np.int64) + start)
        weights.append(own["edge_weight"][:inner])
        side = np.where(own["cut_first"] != 0, 0, 1)
        ends[ids, side] = nodes[own["cut_node"]]
        mine = own["cut_part"] > p
        cut_table[ids[mine]] = own["edge_table"][inner:][mine].astype(np.int64) + start
        cut_weight[ids[mine]] = own["edge_weight"][inner:][mine]
        banks.append(own["tables"])
        start += len(own["tables"])
    every = np.concatenate([*edges, ends]).astype(np.int64)
    graph = Graph.from_edges(every, n)
    return Problem(
        graph,
        unary,
        np.concatenate(banks) if banks else None,
        edge_table=np.concatenate([*numbers, cut_table]).astype(np.int32),
        edge_weight=np.concatenate([*weights, cut_weight]),
        offset=sum(float(entry["offset"]) for entry in parts.manifest["parts"]),
    )


def whole_messages(parts: Parts, inner: list[np.ndarray], cut: np.ndarray) -> Messages:
    """Messages of the parts as messages of `Parts.problem`."""
    return Messages(np.concatenate([*inner, cut], axis=1), np.zeros((0, cut.shape[2])))
