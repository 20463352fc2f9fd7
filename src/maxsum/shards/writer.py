"""Training sets that do not fit into memory: written shard by shard, read by `ShardedDataset`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.files.arrays import file_digest, write_arrays
from ..core.files.store import write_bytes
from ..core.graph import Graph
from ..core.parameters import Maybe, WholeNumber, check_value
from ..models.features import Dicts, Hashed, dict_matrix
from ..models.labels import read_labels
from ..models.sample import GraphSample, names_features
from .dataset import FORMAT, KINDS, MANIFEST, VERSION, ShardedDataset

__all__ = ["ShardedDataset", "write_shards"]

# Of a shard by default: a worker holds one or two, and shards are enough in number for many workers.
_SHARD_BYTES = 32 * 2**20


def write_shards(
    data: Iterable[Any],
    folder: str | Path,
    *,
    samples: int | None = None,
    bytes: int | None = None,
    kind: str = "auto",
    labelled: bool = True,
    classes: Any = None,
    features: Any = None,
) -> ShardedDataset:
    """Write samples to a folder of shards, in the memory of one shard (and of the names of features in dicts).

    The manifest comes last, so a folder that was not finished is never taken for a whole one.

    Parameters
    ----------
    data : iterable
        Pairs (X, y) of what `fit` of a labeler takes: a sequence (array, sparse matrix, codes, list of dicts), an image, or a
        `GraphSample`, with the label of each node. Without labels (``labelled=False``) X alone.
    folder : path
        A new one, or one where writing was not finished.
    samples : int, optional
        Samples of a shard.
    bytes : int, optional
        Size of a shard, about; 32 MiB by default.
    kind : {"auto", "sequence", "image", "graph"}
        What X is. By default a two-dimensional array is an image if its labels have two dimensions, else a sequence.
    labelled : bool
    classes : list, optional
        The labels that exist, in order; by default those that occur, sorted.
    features : Dicts or Hashed, optional
        For dicts: names that count, ``Dicts(vocabulary)``, or a number of columns, ``Hashed(width)``. By default all names get columns, in
        the order in which they first occur; how often they do is known only at the end, so there is no ``min_count``.

    Returns
    -------
    ShardedDataset

    Raises
    ------
    InvalidParameterError
        If the folder holds shards already.
    InvalidSampleError
        If samples do not fit together; the message names the sample.
    """
    folder = Path(folder)
    if (folder / MANIFEST).exists():
        raise InvalidParameterError(f"folder {folder} holds shards already; wanted a new one, or remove its {MANIFEST} first.")
    for name, value in (("samples", samples), ("bytes", bytes)):
        check_value(name, value, Maybe(WholeNumber(1), wanted="a whole number >= 1"))
    folder.mkdir(parents=True, exist_ok=True)
    writer = _Writer(folder, kind, labelled, classes, features)
    limit = (_SHARD_BYTES if samples is None else np.inf) if bytes is None else bytes
    for j, item in enumerate(data):
        try:
            writer.add(item)
        except InvalidSampleError as error:
            raise InvalidSampleError(f"sample {j}: {error}") from error
        if writer.size >= limit or len(writer.samples) == samples:
            writer.flush()
    return writer.close()


class _Writer:
    """The samples of the shard that is filled, and what all samples say together."""

    def __init__(self, folder: Path, kind: str, labelled: bool, classes: Any, features: Any):
        if kind not in ("auto", *KINDS):
            raise InvalidParameterError(f"kind is {kind!r}, wanted auto, {', '.join(KINDS)}.")
        if features is not None and not isinstance(features, (Dicts, Hashed)):
            raise InvalidParameterError(
                f"features is {features!r}, wanted None, Dicts(vocabulary) or Hashed(width), for dicts."
            )
        if isinstance(features, Dicts) and features.vocabulary is None:
            raise InvalidParameterError(
                "features is Dicts without a vocabulary, wanted Dicts((name, ...)), or None to collect the names."
            )
        self.folder, self.kind, self.labelled, self.features = folder, kind, labelled, features
        self.declared = None if classes is None else list(classes)
        self.classes: dict[Any, int] = {} if classes is None else {label: i for i, label in enumerate(classes)}
        self.names: dict[str, int] = {}
        self.observed, self.width = "", 0
        self.facts = {"n_edge_types": 1, "edge_features": 0, "n_node_types": 1, "clique_types": 0, "clique_features": 0}
        self.graph_size: list[int] | None = None
        self.least_edge_feature, self.unknown, self.forest = 0.0, 0, True
        self.rows: list[dict[str, Any]] = []
        self.chains: dict[int, Graph] = {}
        self._clear()

    def _clear(self) -> None:
        self.samples: list[GraphSample] = []
        self.labels: list[np.ndarray] = []
        self.shapes: list[tuple[int, int]] = []
        self.size = 0

    def add(self, item: Any) -> None:
        """Take in a sample."""
        x, y = _pair(item) if self.labelled else (item, None)
        if self.kind == "auto":
            self.kind = _kind(x, y)
        shape = (-1, -1)
        if self.kind == "image":
            x = np.asarray(x)
            if x.ndim not in (2, 3):
                raise InvalidSampleError(f"an image has shape {x.shape}, wanted (height, width, d) or (height, width) codes.")
            shape = (int(x.shape[0]), int(x.shape[1]))
            x = x.astype(np.int64) if x.dtype.kind == "b" else x
            sample = GraphSample(x.reshape(-1, *x.shape[2:]), self._chain(shape[0] * shape[1]))
            y = None if y is None else np.asarray(y).reshape(-1)
        elif self.kind == "graph":
            if not isinstance(x, GraphSample):
                raise InvalidSampleError(f"it is a {type(x).__name__}, wanted a GraphSample as those before.")
            sample = x
            sides = x.graph.shape
            shape = (sides[0], sides[1]) if sides is not None and len(sides) == 2 else (-1, -1)
            y = None if y is None else np.asarray(y).reshape(-1) if x.graph.shape is not None else y
        else:
            if isinstance(x, GraphSample):
                raise InvalidSampleError("it is a GraphSample, wanted a sequence as those before.")
            sample = GraphSample(x, self._chain(int(x.shape[0]) if hasattr(x, "shape") else len(x)))
        self._check(sample)
        if y is not None:
            self.labels.append(self._codes(sample, y))
        self.samples.append(sample)
        self.shapes.append(shape)
        self.size += 4 * sample.n_nodes + (24 * sample.graph.n_edges if self.kind == "graph" else 0) + _bytes(sample.X)

    def _chain(self, length: int) -> Graph:
        if length not in self.chains:
            if len(self.chains) > 10_000:
                self.chains.clear()
            self.chains[length] = Graph.chain(length)
        return self.chains[length]

    def _check(self, sample: GraphSample) -> None:
        """Compare with the samples before, and note what it adds."""
        if sample.n_nodes:
            if self.observed and sample.kind != self.observed:
                raise InvalidSampleError(f"it has {sample.kind} observations, those before have {self.observed} ones.")
            self.observed = sample.kind
            if sample.kind == "codes":
                self.width = max(self.width, 1 + int(sample.X.max()))
            elif sample.kind != "dicts":
                if self.width and sample.X.shape[1] != self.width:
                    raise InvalidSampleError(f"it has {sample.X.shape[1]} features a node, those before have {self.width}.")
                self.width = int(sample.X.shape[1])
        facts = self.facts
        facts["n_edge_types"] = max(facts["n_edge_types"], sample.graph.n_edge_types)
        if sample.node_types is not None and sample.n_nodes:
            raise InvalidSampleError("it has node_types, which shards do not keep; wanted nodes of one type.")
        if sample.factors:
            raise InvalidSampleError(
                f"it has {len(sample.factors)} factors, which shards do not keep; wanted samples without factors. Train on a list in memory."
            )
        self.forest = self.forest and (self.kind != "graph" or (sample.graph.is_forest and not sample.cliques))
        for name, given in (("edge_features", sample.edge_features), ("clique_features", sample.clique_features)):
            if given is not None and len(given):
                if facts[name] not in (0, given.shape[1]):
                    raise InvalidSampleError(f"it has {given.shape[1]} {name} each, those before have {facts[name]}.")
                facts[name] = int(given.shape[1])
                if name == "edge_features":
                    self.least_edge_feature = min(self.least_edge_feature, float(given.min()))
        if sample.cliques:
            facts["clique_types"] = max(facts["clique_types"], 1 + int(sample.clique_types.max()))
        own = [sample.n_nodes, sample.graph.n_edges]
        self.graph_size = own if not self.rows and not self.samples else self.graph_size if own == self.graph_size else None

    def _codes(self, sample: GraphSample, y: Any) -> np.ndarray:
        given = [None if label is np.ma.masked else label for label in y] if isinstance(y, np.ma.MaskedArray) else y
        ((labels, known),) = read_labels([sample], [given], self.declared)
        codes = np.full(len(labels), -1, dtype=np.int32)
        found, inverse = np.unique(labels[known], return_inverse=True)
        numbers = np.empty(len(found), dtype=np.int32)
        for i, label in enumerate(found.tolist()):
            if label not in self.classes:
                if self.declared is not None:
                    raise InvalidSampleError(f"it has the label {label!r}, wanted one of the classes {self.declared[:12]}.")
                other = next(iter(self.classes), label)
                if isinstance(label, bytes) or isinstance(label, str) is not isinstance(other, str):
                    raise InvalidSampleError(f"it has the label {label!r} beside {other!r}, wanted all numbers or all strings.")
                self.classes[label] = len(self.classes)
            numbers[i] = self.classes[label]
        codes[known] = numbers[inverse.reshape(-1)]
        self.unknown += int((~known).sum())
        return codes

    def flush(self) -> None:
        """Write the shard that is filled."""
        if not self.samples:
            return
        arrays = {"nodes": np.array([sample.n_nodes for sample in self.samples], dtype=np.int32), **self._observations()}
        if self.labelled:
            codes = np.concatenate(self.labels)
            arrays["labels"] = codes.astype(np.int16 if len(self.classes) < 2**15 else np.int32)
        if self.kind != "sequence":
            arrays["shape"] = np.array(self.shapes, dtype=np.int32)
        if self.kind == "graph":
            arrays |= _graph_arrays(self.samples)
        name = f"shard-{len(self.rows):06d}.arrays"
        size, digest = write_arrays(self.folder / name, arrays)
        self.rows.append({
            "file": name, "samples": len(self.samples), "nodes": int(arrays["nodes"].sum()), "bytes": size, "sha256": digest,
        })  # fmt: skip
        self._clear()

    def _observations(self) -> dict[str, np.ndarray]:
        own = [sample for sample in self.samples if sample.n_nodes]
        if self.observed in ("codes", "dense"):
            x = np.concatenate([sample.X for sample in own])
            kinds = (np.uint8, np.int32, np.int64) if self.observed == "codes" else (np.float32, np.float64)
            return {"x": next(x.astype(kind) for kind in kinds if (x.astype(kind) == x).all())}
        if self.observed == "sparse":
            from scipy import sparse

            matrix = sparse.csr_array(sparse.vstack([sample.X for sample in own], format="csr"))
            matrix.eliminate_zeros()
        elif isinstance(self.features, (Dicts, Hashed)):
            matrix = self.features.encode(own)
        else:
            matrix = dict_matrix(own, lambda name: self.names.setdefault(name, len(self.names)))
        matrix.sort_indices()
        arrays = {"x_len": np.diff(matrix.indptr).astype(np.int32), "x_col": matrix.indices.astype(np.int32)}
        if not (matrix.data == 1.0).all():
            exact = (matrix.data.astype(np.float32) == matrix.data).all()
            arrays["x_val"] = matrix.data.astype(np.float32 if exact else np.float64)
        return arrays

    def close(self) -> ShardedDataset:
        """The last shard, the vocabulary and the manifest."""
        self.flush()
        if not self.rows:
            raise InvalidSampleError("there are no samples; wanted at least one.")
        vocabulary = None
        if self.observed == "dicts":
            names = list(self.names) if self.features is None else getattr(self.features, "vocabulary", None)
            self.width = self.features.n_features if self.features is not None else len(self.names)
            if names is not None:
                text = json.dumps(list(names), ensure_ascii=False).encode()
                path = self.folder / "vocabulary.json"
                write_bytes(path, text)
                vocabulary = {"file": path.name, "bytes": len(text), "samples": 0, "sha256": file_digest(path)}
        manifest = {
            "format": FORMAT, "version": VERSION, "kind": self.kind, "labelled": self.labelled,
            "features": {"kind": self.observed or "dense", "width": self.width, "hashed": isinstance(self.features, Hashed)},
            "classes": list(self.classes), "declared": self.declared is not None, "unknown": self.unknown, "vocabulary": vocabulary,
            "graph": {**self.facts, "size": self.graph_size, "forest": self.forest, "least_edge_feature": self.least_edge_feature},
            "shards": self.rows,
        }  # fmt: skip
        content = json.dumps(manifest, indent=1, default=lambda value: value.item()).encode()
        write_bytes(self.folder / MANIFEST, content)
        return ShardedDataset(self.folder)


def _pair(item: Any) -> tuple[Any, Any]:
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise InvalidSampleError(f"it is a {type(item).__name__}, wanted a pair (X, y); for X alone give labelled=False.")
    return item[0], item[1]


def _kind(x: Any, y: Any) -> str:
    if isinstance(x, GraphSample):
        return "graph"
    if hasattr(x, "tocsr") or names_features(x):
        return "sequence"
    n_dims = np.ndim(x)
    return "image" if n_dims == 3 or (n_dims == 2 and np.ndim(y) == 2) else "sequence"


def _bytes(x: Any) -> int:
    if isinstance(x, list):
        return 8 * sum(len(row) for row in x if hasattr(row, "__len__"))
    return int(8 * x.nnz) if hasattr(x, "nnz") else int(x.nbytes)


def _graph_arrays(samples: list[GraphSample]) -> dict[str, np.ndarray]:
    """Everything of graphs but their nodes."""
    graphs = [sample.graph for sample in samples]
    arrays = {
        "n_edges": np.array([graph.n_edges for graph in graphs], dtype=np.int32),
        "n_edge_types": np.array([graph.n_edge_types for graph in graphs], dtype=np.int32),
        "edges": np.concatenate([graph.edges for graph in graphs]).astype(np.int32),
        "edge_type": np.concatenate([graph.edge_type for graph in graphs]).astype(np.int32),
    }
    if any(sample.edge_features is not None for sample in samples):
        width = next(sample.edge_features.shape[1] for sample in samples if sample.edge_features is not None)
        if width > 1 and any(sample.edge_features is None and sample.graph.n_edges for sample in samples):
            raise InvalidSampleError("some samples have several edge_features and some none; wanted them for all.")
        arrays["edge_features"] = np.concatenate(
            [np.ones((s.graph.n_edges, width)) if s.edge_features is None else s.edge_features for s in samples]
        )
    if any(sample.node_weights is not None for sample in samples):
        arrays["node_weights"] = np.concatenate(
            [np.ones(s.n_nodes) if s.node_weights is None else s.node_weights for s in samples]
        )
    if any(sample.cliques for sample in samples):
        members = [nodes for sample in samples for nodes in sample.cliques]
        width = next((s.clique_features.shape[1] for s in samples if s.clique_features is not None and len(s.cliques)), 1)
        arrays |= {
            "n_cliques": np.array([len(sample.cliques) for sample in samples], dtype=np.int32),
            "n_members": np.array([sum(map(len, sample.cliques)) for sample in samples], dtype=np.int32),
            "clique_sizes": np.array([len(nodes) for nodes in members], dtype=np.int32),
            "members": np.concatenate(members).astype(np.int32),
            "clique_types": np.concatenate([sample.clique_types for sample in samples]),
            "clique_features": np.concatenate(
                [np.ones((len(s.cliques), width)) if s.clique_features is None else s.clique_features for s in samples]
            ),
        }
    return arrays
