"""Graphs: a table of nodes with a list of edges, or GraphML."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.graph import Graph
from ...datasets.columns import ColumnCoder
from ...datasets.graph_tables import GraphTables, read_graph_tables, read_graphml, write_graphml
from ...datasets.tables import TABLES, Table, suffix_of, write_table
from .base import Content, Form, as_names, counted, need_labels, predicted_name


class Source(NamedTuple):
    """What was read, and the rows of the node table that each sample has."""

    tables: GraphTables
    rows: list[np.ndarray]
    is_graphml: bool


class GraphForm(Form):
    """Nodes with features, some with labels, and edges. Out goes the node table (or the GraphML file) with all labels; where true ones would be lost, in a column of their own."""

    task, estimator = "graph", "GraphLabeler"

    keeps_known = False
    """Whether predictions repeat the labels that the data have."""

    def read(self, path: Path, training: bool) -> Content:
        kept = self.settings
        loops = kept.setdefault("self_loops", "error")
        is_graphml = suffix_of(path) in (".graphml", ".xml")
        if is_graphml:
            tables = read_graphml(path, self_loops=loops)
        else:
            nodes, edges = self._files(path)
            ends = as_names(kept.get("ends")) or None
            tables = read_graph_tables(nodes, edges, id=kept.get("id"), ends=ends, self_loops=loops)
        if training:
            self._learn(path, tables, is_graphml)
        label = kept["label"]
        texts = tables.nodes.texts(label) if label in tables.nodes.columns else None
        rows = self._graphs(tables)
        X = ColumnCoder(kept["columns"]).matrix(tables.nodes)
        y = None
        if texts is not None and any(text is not None for text in texts):
            y = [[texts[i] for i in own] for own in rows]
        if training:
            need_labels(y is not None, path, f"the column {label!r} is empty.")
        n_known = 0 if texts is None else sum(text is not None for text in texts)
        words = f"{counted(len(rows), 'graph')}, {len(X)} nodes ({n_known} with a label), {len(tables.edges)} edges"
        names = [f"graph {i + 1}" for i in range(len(rows))]
        return Content(self._samples(tables, X, rows), y, names, Source(tables, rows, is_graphml), words)

    def _files(self, path: Path) -> tuple[Path, Path]:
        if path.is_dir():
            found = node_and_edge_files(path)
            if found is None:
                raise InvalidSampleError(
                    f"{path} has no table of nodes and list of edges; wanted nodes.csv and edges.csv, or .parquet."
                )
            return found
        given = self.settings.get("edges")
        if given is None:
            raise InvalidParameterError(f"{path} is a table of nodes; say where its edges are: --edges FILE.")
        return path, Path(str(given))

    def _learn(self, path: Path, tables: GraphTables, is_graphml: bool) -> None:
        kept, names = self.settings, tables.nodes.names
        kept["id"] = "id" if is_graphml else kept.get("id") or names[0]
        label = kept.get("label") or next((name for name in names if name.lower() in ("label", "class", "y")), names[-1])
        tables.nodes.column(label)
        kept["label"] = label
        graph = kept.get("graph") or ("graph" if "graph" in names else None)
        kept["graph"] = graph
        ignored = {kept["id"], label, graph, *self._list("ignore")}
        features = [name for name in names if name not in ignored]
        if not features:
            raise InvalidSampleError(
                f"{path} has no column of features: {kept['id']!r} names the nodes and {label!r} is the label."
            )
        kept["columns"] = ColumnCoder.learn(tables.nodes, features, bool(kept.get("standardise", True))).columns
        kept["edge_columns"] = self._list("edge_columns")
        kind = kept.get("edge_type")
        if kind is not None:
            kept["edge_kinds"] = sorted({text for text in tables.edge_table.texts(kind) if text is not None})

    def _graphs(self, tables: GraphTables) -> list[np.ndarray]:
        """Rows of the nodes of each graph."""
        name = self.settings["graph"]
        if name is None or name not in tables.nodes.columns:
            return [np.arange(tables.nodes.n_rows)]
        groups: dict[Any, list[int]] = {}
        for row, cell in enumerate(tables.nodes.texts(name)):
            groups.setdefault(cell, []).append(row)
        return [np.array(own) for own in groups.values()]

    def _samples(self, tables: GraphTables, X: np.ndarray, rows: list[np.ndarray]) -> list[Any]:
        from ...models.sample import GraphSample

        kept, links = self.settings, tables.edge_table
        weights = [np.ones(len(tables.edges)), *(links.numbers(name) for name in kept["edge_columns"])]
        features = np.stack(weights, axis=1) if kept["edge_columns"] else None
        types = self._edge_types(links)
        owner, place = np.zeros(len(X), dtype=np.int64), np.zeros(len(X), dtype=np.int64)
        for g, own in enumerate(rows):
            owner[own], place[own] = g, np.arange(len(own))
        across = np.flatnonzero(owner[tables.edges[:, 0]] != owner[tables.edges[:, 1]])
        if len(across):
            links.fail(int(across[0]), f"the edge joins nodes of two graphs (column {kept['graph']!r}).")
        samples = []
        for g, own in enumerate(rows):
            here = np.flatnonzero(owner[tables.edges[:, 0]] == g)
            graph = Graph.from_edges(place[tables.edges[here]], len(own), None if types is None else types[here])
            samples.append(GraphSample(X[own], graph, None if features is None else features[here]))
        return samples

    def _edge_types(self, links: Table) -> np.ndarray | None:
        name = self.settings.get("edge_type")
        if name is None:
            return None
        number = {kind: i for i, kind in enumerate(self.settings["edge_kinds"])}
        found = []
        for row, kind in enumerate(links.texts(name)):
            if kind not in number:
                links.fail(row, f"the edge has the type {kind!r}, wanted one of {', '.join(number)}.")
            found.append(number[kind])
        return np.array(found, dtype=np.int64)

    def write(self, out: Path, content: Content, labels: Any) -> None:
        source: Source = content.source
        column: list[Any] = [""] * source.tables.nodes.n_rows
        for rows, own in zip(source.rows, labels, strict=True):
            for row, label in zip(rows.tolist(), own.tolist(), strict=True):
                column[row] = label
        name, table = self.settings["label"], source.tables.nodes
        # Known labels stay: where predictions keep them the column is completed, else there is one more.
        known = content.y is not None and not self.keeps_known
        nodes = table.replaced({predicted_name(name, known, table.columns): column})
        if source.is_graphml:
            write_graphml(out, source.tables._replace(nodes=nodes))
        else:
            write_table(out, nodes)

    def inputs(self, data: Path) -> list[Path]:
        return [data] if suffix_of(data) in (".graphml", ".xml") else [data, *self._files(data)]


def node_and_edge_files(folder: Path) -> tuple[Path, Path] | None:
    """The files ``nodes.*`` and ``edges.*`` of a folder."""
    found = []
    for stem in ("nodes", "edges"):
        own = [path for path in sorted(folder.iterdir()) if path.name.split(".")[0] == stem and suffix_of(path) in TABLES]
        if not own:
            return None
        found.append(own[0])
    return found[0], found[1]
