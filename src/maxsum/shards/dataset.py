"""ShardedDataset: a training set as a folder of files, checked against its manifest and read one file at a time."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..core.errors import InvalidParameterError, InvalidSampleError, ParseError
from ..core.files.arrays import file_digest, map_arrays
from ..core.graph import Graph
from ..models.batch import Batch
from ..models.features import Codes, Dense, Dicts, Hashed, NodeFeatures, Sparse
from ..models.sample import GraphSample

FORMAT = "maxsum-shards"  # magic words of the manifest
VERSION = 1  # of the format
MANIFEST = "manifest.json"
KINDS = ("sequence", "image", "graph")
_checked: dict[str, tuple[int, ...]] = {}


class ShardedDataset:
    """Samples, and mostly labels, in a folder that `maxsum.datasets.write_shards` wrote.

    Parameters
    ----------
    folder : path
        All workers must see it under this name.

    Attributes
    ----------
    kind : str
        ``sequence``, ``image`` or ``graph``: what an item is.
    n_samples, n_shards, n_nodes : int
    sizes : ndarray of int64
        Samples of each shard.
    classes : ndarray or None
        Labels in order; None without labels.
    digest : str
        SHA-256 of the manifest, which holds those of all shards.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        path = self.folder / MANIFEST
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise ParseError(
                f"there is no {MANIFEST}: not a folder of shards, or writing it was not finished. Write it again.", str(folder)
            ) from None
        self.digest = hashlib.sha256(content).hexdigest()
        self.manifest = _manifest(content, str(path))
        self.kind: str = self.manifest["kind"]
        self.rows: list[dict[str, Any]] = self.manifest["shards"]
        self.sizes = np.array([row["samples"] for row in self.rows], dtype=np.int64)
        self.n_samples, self.n_shards = int(self.sizes.sum()), len(self.rows)
        self.n_nodes = sum(int(row["nodes"]) for row in self.rows)
        for row in self.rows:
            self._stat(row)

    def __repr__(self) -> str:
        return f"ShardedDataset({self.n_samples} samples of kind {self.kind} in {self.n_shards} shards, {self.folder})"

    def __len__(self) -> int:
        return self.n_samples

    @property
    def labelled(self) -> bool:
        """Whether samples have labels."""
        return bool(self.manifest["labelled"])

    @cached_property
    def classes(self) -> np.ndarray | None:
        if not self.labelled:
            return None
        own = np.array(self.manifest["classes"])
        return own if self.manifest["declared"] else np.sort(own)

    @cached_property
    def order(self) -> np.ndarray:
        """Number in `classes` of each label number in the files, and -1 for -1."""
        stored = np.array(self.manifest["classes"])
        place = {label: i for i, label in enumerate((self.classes if self.classes is not None else stored).tolist())}
        return np.array([place[label] for label in stored.tolist()] + [-1], dtype=np.int32)

    @property
    def features(self) -> NodeFeatures:
        """Node features as they are in the files: of dicts, their columns."""
        own = self.manifest["features"]
        kind, width = own["kind"], int(own["width"])
        return Codes(width) if kind == "codes" else Dense(width) if kind == "dense" else Sparse(width)

    @cached_property
    def input_features(self) -> NodeFeatures:
        """Node features as new samples have them: dicts, where the files were made of dicts."""
        own = self.manifest["features"]
        if own["kind"] != "dicts":
            return self.features
        if own["hashed"]:
            return Hashed(int(own["width"]))
        row = self.manifest["vocabulary"]
        path = self.folder / row["file"]
        self._check(row)
        return Dicts(tuple(json.loads(path.read_text(encoding="utf-8"))))

    def check(self) -> None:
        """Read every file and compare it with the manifest.

        Raises
        ------
        ParseError
            That names the first shard which is missing, damaged, or of another set.
        """
        for row in self.rows:
            self._check(row, again=True)

    def shard(self, k: int) -> Shard:
        """One shard, its arrays mapped into memory; it is compared with the manifest when it is new to this process, or changed.

        Raises
        ------
        ParseError
            If the shard is missing, damaged, or of another set.
        """
        self.check_shard(k)
        return Shard(self, map_arrays(self.folder / self.rows[k]["file"]), k)

    def check_shard(self, k: int) -> None:
        """Compare one shard with the manifest: its size and times, and its content if these are new to this process.

        Raises
        ------
        ParseError
            If the shard is missing, damaged, or of another set.
        """
        if not 0 <= k < self.n_shards:
            raise InvalidParameterError(f"shard is {k}, wanted 0..{self.n_shards - 1}.")
        self._check(self.rows[k])

    def __iter__(self) -> Iterator[Shard]:
        return (self.shard(k) for k in range(self.n_shards))

    def _stat(self, row: dict[str, Any]) -> os.stat_result:
        path = self.folder / row["file"]
        try:
            found = path.stat()
        except OSError as error:
            raise ParseError(
                f"shard {row['file']} cannot be read: {error.strerror}. Bring it back, or write the shards again.",
                str(self.folder),
            ) from error
        if found.st_size != row["bytes"]:
            raise ParseError(
                f"shard {row['file']} has {found.st_size} bytes, the manifest says {row['bytes']}: truncated, or of another set. Write the "
                "shards again.",
                str(self.folder),
            )
        return found

    def _check(self, row: dict[str, Any], again: bool = False) -> None:
        found = self._stat(row)
        path = str(self.folder / row["file"])
        mark = (found.st_mtime_ns, found.st_size, found.st_ino)
        if not again and _checked.get(path + row["sha256"]) == mark:
            return
        digest = file_digest(path)
        if digest != row["sha256"]:
            raise ParseError(
                f"shard {row['file']} is damaged, changed, or of another set: its SHA-256 is {digest[:12]}..., the manifest says "
                f"{row['sha256'][:12]}.... Bring it back, or write the shards again.",
                str(self.folder),
            )
        _checked[path + row["sha256"]] = mark


class Shard:
    """One file of a `ShardedDataset`.

    Attributes
    ----------
    n_samples : int
    arrays : dict of ndarray
        As they are in the file.
    """

    def __init__(self, dataset: ShardedDataset, arrays: dict[str, np.ndarray], number: int):
        self.dataset, self.arrays, self.number = dataset, arrays, number
        self.n_samples = len(arrays["nodes"])
        self.node_ptr = np.concatenate([[0], np.cumsum(arrays["nodes"], dtype=np.int64)])

    @cached_property
    def x(self) -> Any:
        """Observations of all nodes: codes, dense rows, or a CSR matrix."""
        if "x_col" not in self.arrays:
            return self.arrays["x"]
        columns = self.arrays["x_col"]
        ptr = np.concatenate([[0], np.cumsum(self.arrays["x_len"], dtype=np.int64)])
        values = np.ones(len(columns)) if "x_val" not in self.arrays else self.arrays["x_val"].astype(np.float64)
        width = int(self.dataset.manifest["features"]["width"])
        matrix = sparse.csr_array((values, columns, ptr), shape=(len(ptr) - 1, width))
        matrix.has_canonical_format = True
        return matrix

    @cached_property
    def codes(self) -> np.ndarray:
        """Labels of all nodes as numbers of ``dataset.classes``, -1 where unknown."""
        if "labels" not in self.arrays:
            raise InvalidSampleError(f"{self.dataset!r} has no labels; wanted some to learn from or to compare with.")
        return self.dataset.order[self.arrays["labels"]]

    def labels(self) -> list[np.ndarray]:
        """Labels of each sample, as they were given; None where unknown."""
        classes = self.dataset.classes
        assert classes is not None
        known = self.codes >= 0
        flat = classes[np.maximum(self.codes, 0)]
        if not known.all():
            flat = np.where(known, flat.astype(object), None)
        parts = np.split(flat, self.node_ptr[1:-1])
        shapes = self.arrays.get("shape")
        return (
            parts
            if shapes is None or self.dataset.kind != "image"
            else [own.reshape(s) for own, s in zip(parts, shapes, strict=True)]
        )

    def items(self) -> list[Any]:
        """The samples as a labeler takes them: arrays or matrices of sequences, images, or `GraphSample`."""
        if self.dataset.manifest["features"]["kind"] == "none":
            raise InvalidSampleError(f"{self.dataset!r} holds labels alone; wanted the shards that were predicted.")
        ptr = self.node_ptr.tolist()
        parts = [self.x[a:b] for a, b in pairwise(ptr)]
        if self.dataset.kind == "sequence":
            return parts
        if self.dataset.kind == "image":
            shapes = self.arrays["shape"]
            return [own.reshape(*shape, *own.shape[1:]) for own, shape in zip(parts, shapes.tolist(), strict=True)]
        return [self._graph_sample(j, own) for j, own in enumerate(parts)]

    def batch(self, graphs: Sequence[Graph]) -> Batch:
        """The samples on these graphs, with their observations left where they are."""
        return Batch(self.x, graphs)

    def _graph_sample(self, j: int, x: Any) -> GraphSample:
        own = {name: self.part(name, j) for name in ("edges", "edge_type", "edge_features", "node_types", "node_weights")}
        shape = self.arrays["shape"][j].tolist()
        graph = Graph(
            int(self.arrays["nodes"][j]), own["edges"], own["edge_type"], int(self.arrays["n_edge_types"][j]),
            None if shape[0] < 0 else (shape[0], shape[1]),
        )  # fmt: skip
        cliques = None
        if "members" in self.arrays:
            sizes, members = self.part("clique_sizes", j), self.part("members", j)
            cliques = np.split(members, np.cumsum(sizes)[:-1]) if len(sizes) else None
        return GraphSample(
            x, graph, own["edge_features"], own["node_types"], own["node_weights"], cliques,
            self.part("clique_features", j) if cliques else None, self.part("clique_types", j) if cliques else None,
        )  # fmt: skip

    def part(self, name: str, j: int) -> Any:
        """The rows of sample ``j`` of an array; None if there is no such array."""
        if name not in self.arrays:
            return None
        counts = self._ends[_COUNTED[name]]
        return self.arrays[name][counts[j] : counts[j + 1]]

    @cached_property
    def _ends(self) -> dict[str, np.ndarray]:
        names = [name for name in set(_COUNTED.values()) if name in self.arrays]
        return {name: np.concatenate([[0], np.cumsum(self.arrays[name], dtype=np.int64)]) for name in names}


_COUNTED = {
    "edges": "n_edges",
    "edge_type": "n_edges",
    "edge_features": "n_edges",
    "node_types": "nodes",
    "node_weights": "nodes",
    "clique_sizes": "n_cliques",
    "clique_features": "n_cliques",
    "clique_types": "n_cliques",
    "members": "n_members",
}


def _manifest(content: bytes, path: str) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the manifest is not JSON ({error}).", path) from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ParseError(f'the manifest does not say "format": "{FORMAT}": another kind of file?', path)
    if found.get("version") != VERSION:
        raise ParseError(f"the manifest has version {found.get('version')!r}, this maxsum reads {VERSION}.", path)
    try:
        good = found["kind"] in KINDS and found["features"]["kind"] in ("codes", "dense", "sparse", "dicts", "none")
        for row in [*found["shards"], *([found["vocabulary"]] if found["vocabulary"] else [])]:
            name = row["file"]
            good &= isinstance(name, str) and Path(name).name == name and len(row["sha256"]) == 64
            good &= type(row["bytes"]) is int and type(row["samples"]) is int
        good &= bool(found["shards"]) and isinstance(found["classes"], list)
    except (KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise ParseError("the manifest lacks entries, or has strange ones. Write the shards again.", path)
    return found
