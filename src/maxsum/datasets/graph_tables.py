"""Graphs in files: a table of nodes beside a list of edges, or GraphML."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

import numpy as np

from ..core.errors import InvalidGraphError, InvalidParameterError, ParseError
from ..core.files.store import atomic
from ..core.files.text import Limits, opened, shown
from ..core.parameters import OneOf, check_value
from .tables import Table, compression_of, read_table

_LIMITS = Limits(bytes=1 << 29, cells=50_000_000)
_SPACE = "http://graphml.graphdrawing.org/xmlns"


class GraphTables(NamedTuple):
    """Nodes, and edges between rows of them.

    Attributes
    ----------
    nodes : Table
    edges : ndarray of int64, shape (n_edges, 2)
        Rows of ``nodes``, in the orientation of the file.
    edge_table : Table
        What is known about each edge, a row an edge.
    """

    nodes: Table
    edges: np.ndarray
    edge_table: Table


def read_graph_tables(
    nodes: str | os.PathLike[str],
    edges: str | os.PathLike[str],
    *,
    id: str | None = None,
    ends: Sequence[str] | None = None,
    self_loops: str = "error",
) -> GraphTables:
    """Read a table of nodes and a list of edges.

    Parameters
    ----------
    nodes, edges : path-like
        CSV or Parquet, see `read_table`.
    id : str, optional
        Column that names the nodes; the first by default.
    ends : pair of str, optional
        Columns with the names of both ends of an edge; the first two by default.
    self_loops : {"error", "drop"}
        What to do with an edge from a node to itself.

    Returns
    -------
    GraphTables
        A pair of nodes that stands twice, in either order, is one edge, with the row of its first occurrence.

    Raises
    ------
    ParseError
        A name stands twice, or an edge names a node that does not exist, with the line.
    """
    own, links = read_table(nodes), read_table(edges)
    if ends is None:
        if len(links.names) < 2:
            raise ParseError(f"there is {len(links.names)} column, wanted two with the ends of each edge.", links.path)
        ends = links.names[:2]
    if len(ends) != 2:
        raise InvalidParameterError(f"ends is {ends!r}, wanted the names of two columns.")
    name = own.names[0] if id is None else id
    return joined(own, own.texts(name), links, (links.texts(ends[0]), links.texts(ends[1])), self_loops)


def joined(
    nodes: Table, names: Sequence[str | None], links: Table, ends: tuple[Sequence[Any], Sequence[Any]], self_loops: str
) -> GraphTables:
    """Edges as rows of the node table, each pair once."""
    check_value("self_loops", self_loops, OneOf("error", "drop"))
    row_of: dict[str, int] = {}
    for row, name in enumerate(names):
        if name is None:
            nodes.fail(row, "the node has no name.")
        if name in row_of:
            nodes.fail(row, f"the node {shown(name)} stands twice.")
        row_of[name] = row
    kept: dict[tuple[int, int], int] = {}
    pairs: list[tuple[int, int]] = []
    for row, (first, second) in enumerate(zip(*ends, strict=True)):
        for name in (first, second):
            if name not in row_of:
                links.fail(row, f"the edge names the node {shown(str(name))}, which is not in {nodes.path}.")
        u, v = row_of[first], row_of[second]
        if u == v:
            if self_loops == "error":
                links.fail(row, f"the edge joins {shown(first)} to itself. Remove it, or set self_loops to drop.")
            continue
        key = (min(u, v), max(u, v))
        if key not in kept:
            kept[key] = row
            pairs.append((u, v))
    edges = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return GraphTables(nodes, edges, links.take(list(kept.values())) if len(kept) < links.n_rows else links)


# ---- GraphML ---------------------------------------------------------------------------------------------------


def read_graphml(path: str | os.PathLike[str], *, self_loops: str = "error") -> GraphTables:
    """Read a GraphML file.

    Parameters
    ----------
    path : path-like
        UTF-8, perhaps compressed. Document types and entities are refused, so nothing is expanded or fetched.
    self_loops : {"error", "drop"}
        As in `read_graph_tables`.

    Returns
    -------
    GraphTables
        Columns are ``id`` and the attributes by their names; ``graph`` tells graphs apart where there are several.

    Raises
    ------
    ParseError
        The file is broken, too large, nested or hostile, with the line.
    """
    reader = _GraphML(str(path))
    with opened(Path(path), compression_of(Path(path)), _LIMITS) as stream:
        reader.read(stream)
    return reader.tables(self_loops)


class _GraphML:
    def __init__(self, path: str):
        self._path = path
        self._parser = expat.ParserCreate(namespace_separator=" ")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._doctype
        self._keys: dict[str, tuple[str, str]] = {}
        self._names = {"node": ["id"], "edge": ["source", "target"]}
        self._defaults: dict[str, str] = {}
        self._rows: dict[str, list[dict[str, str]]] = {"node": [], "edge": []}
        self._lines: dict[str, list[int]] = {"node": [], "edge": []}
        self._n_graphs, self._depth, self._cells = 0, 0, 0
        self._open: tuple[str, dict[str, str]] | None = None
        self._data: list[str] | None = None
        self._key = ""

    def _fail(self, message: str) -> Any:
        raise ParseError(message, self._path, self._parser.CurrentLineNumber)

    def read(self, stream: Any) -> None:
        try:
            while part := stream.read():
                self._parser.Parse(part, False)
            self._parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise ParseError(f"broken XML: {expat.errors.messages[error.code]}.", self._path, error.lineno) from None

    def _doctype(self, *_: Any) -> None:
        self._fail("the file has a document type, which may hold entities; refused. Remove the <!DOCTYPE ...>.")

    def _start(self, tag: str, given: dict[str, str]) -> None:
        tag = tag.rpartition(" ")[2]
        if self._depth == 0 and tag != "graphml":
            self._fail(f"the file starts with <{shown(tag)}>, wanted <graphml>.")
        self._depth += 1
        if tag == "key":
            self._declare(given)
        elif tag == "graph":
            if self._open is not None:
                self._fail("a node holds a graph of its own; nested graphs are not taken.")
            self._n_graphs += 1
        elif tag in ("node", "edge"):
            wanted = self._names[tag][:1] if tag == "node" else ["source", "target"]
            for name in wanted:
                if name not in given:
                    self._fail(f"<{tag}> has no {name}.")
            self._open = (tag, {name: given[name] for name in wanted})
            self._open[1]["graph"] = str(self._n_graphs)
        elif tag in ("hyperedge", "port"):
            self._fail(f"<{tag}> is not taken; edges have two ends here.")
        elif tag == "data" and self._open is not None:
            self._key, self._data = given.get("key", ""), []
            if self._key not in self._keys:
                self._fail(f"<data> has the key {shown(self._key)}, which is not declared.")
        elif tag == "default":
            self._data = []

    def _declare(self, given: dict[str, str]) -> None:
        kind, key = given.get("for", "all"), given.get("id", "")
        name = given.get("attr.name", key)
        self._keys[key], self._key = (kind, name), key
        for tag in ("node", "edge"):
            if kind in (tag, "all"):
                if name in self._names[tag] or name == "graph":
                    self._fail(f"two attributes of <{tag}> are named {shown(name)}.")
                self._names[tag].append(name)

    def _text(self, text: str) -> None:
        if self._data is not None:
            self._data.append(text)

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(" ")[2]
        self._depth -= 1
        if tag == "data" and self._open is not None and self._data is not None:
            self._open[1][self._keys[self._key][1]] = "".join(self._data).strip()
            self._data = None
        elif tag == "default" and self._data is not None:
            self._defaults[self._keys[self._key][1]] = "".join(self._data).strip()
            self._data = None
        elif tag in ("node", "edge") and self._open is not None:
            self._cells += len(self._names[tag]) + 1
            if self._cells > _LIMITS.cells:
                self._fail(f"there are more than {_LIMITS.cells} attributes of nodes and edges; refused.")
            self._rows[tag].append(self._open[1])
            self._lines[tag].append(self._parser.CurrentLineNumber)
            self._open = None

    def tables(self, self_loops: str) -> GraphTables:
        found = {}
        for tag, names in self._names.items():
            several = ["graph"] if self._n_graphs > 1 and tag == "node" else []
            columns = {
                name: [row.get(name, self._defaults.get(name, "")) for row in self._rows[tag]] for name in [*names, *several]
            }
            found[tag] = Table(self._path, columns, self._lines[tag])
        names = [f"{row['graph']}\0{row['id']}" for row in self._rows["node"]]
        ends = [[f"{row['graph']}\0{row[end]}" for row in self._rows["edge"]] for end in ("source", "target")]
        return joined(found["node"], names, found["edge"], (ends[0], ends[1]), self_loops)


def write_graphml(path: str | os.PathLike[str], tables: GraphTables) -> None:
    """Write nodes and edges with all their columns, whole or not at all.

    Parameters
    ----------
    path : path-like
    tables : GraphTables
        The column ``id`` names nodes (their rows do if there is none), ``graph`` tells graphs apart.
    """
    nodes, links = tables.nodes, tables.edge_table
    ids = [str(cell) for cell in nodes.columns["id"]] if "id" in nodes.columns else [str(i) for i in range(nodes.n_rows)]
    graphs = [str(cell) for cell in nodes.columns["graph"]] if "graph" in nodes.columns else ["1"] * nodes.n_rows
    own = {
        "node": [name for name in nodes.names if name not in ("id", "graph")],
        "edge": [name for name in links.names if name not in ("source", "target")],
    }
    keys = {(tag, name): f"{tag[0]}{i}" for tag, names in own.items() for i, name in enumerate(names)}
    text = ['<?xml version="1.0" encoding="UTF-8"?>', f'<graphml xmlns="{_SPACE}">']
    table_of = {"node": nodes, "edge": links}
    for (tag, name), key in keys.items():
        kind = "double" if table_of[tag].is_numeric(name) else "string"
        text.append(f'  <key id="{key}" for="{tag}" attr.name={quoteattr(name)} attr.type="{kind}"/>')
    for graph in dict.fromkeys(graphs):
        text.append(f'  <graph id={quoteattr(f"g{graph}")} edgedefault="undirected">')
        for row in range(nodes.n_rows):
            if graphs[row] == graph:
                text.append(f"    <node id={quoteattr(ids[row])}>{_data(nodes, 'node', own['node'], keys, row)}</node>")
        for row, (u, v) in enumerate(tables.edges.tolist()):
            if graphs[u] != graphs[v]:
                raise InvalidGraphError(f"edge {row} joins nodes of the graphs {graphs[u]} and {graphs[v]}.")
            if graphs[u] == graph:
                pair = f"source={quoteattr(ids[u])} target={quoteattr(ids[v])}"
                text.append(f"    <edge {pair}>{_data(links, 'edge', own['edge'], keys, row)}</edge>")
        text.append("  </graph>")
    content = "\n".join([*text, "</graphml>", ""]).encode("utf-8")

    def write(file: BinaryIO) -> None:
        file.write(content)

    atomic(Path(path), compression_of(Path(path)), write)


def _data(table: Table, tag: str, names: list[str], keys: dict[tuple[str, str], str], row: int) -> str:
    cells = ((name, table.columns[name][row]) for name in names)
    return "".join(
        f'<data key="{keys[tag, name]}">{escape(str(cell))}</data>' for name, cell in cells if cell not in (None, "")
    )
