"""Tables of labels whose columns have classes of their own: text, or more than two values. A sample is a graph with a node for each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import minimum_spanning_tree

from ...core.errors import InvalidParameterError, InvalidSampleError
from ...core.graph import Graph
from ...core.transitions import Neighbours
from ...core.validation import is_missing
from ...models.bound import FORBIDDEN, BoundModel
from ...models.graph_model import GraphModel
from ...models.labels import induced
from ...models.multilabel import label_graph
from ...models.sample import GraphSample
from ..costs import balanced, check_balanced, costs_of_classes
from ..targets import UNKNOWN, UNSEEN, unmasked

_FEW = 2  # values of a column of numbers up to which a table may be one of 0 and 1 gone wrong, which is refused


@dataclass(frozen=True, eq=False)
class Columns:
    """What is known of the columns of a table.

    Attributes
    ----------
    classes : tuple of ndarray
        Of each column, in order.
    names : tuple of str or None
        Of the columns of a DataFrame.
    """

    classes: tuple[np.ndarray, ...]
    names: tuple[str, ...] | None = None

    def encode(self, table: list[list[Any]]) -> np.ndarray:
        """Cells, column by column, as numbers of classes (n, L): -1 where unknown, -2 for what is no class."""
        found = np.full((len(table[0]), len(self.classes)), UNKNOWN, dtype=np.int32)
        for m, (cells, classes) in enumerate(zip(table, self.classes, strict=True)):
            number = {label: k for k, label in enumerate(classes.tolist())}
            unknown = _unknown(cells)
            found[:, m] = [UNKNOWN if gone else number.get(cell, UNSEEN) for cell, gone in zip(cells, unknown, strict=True)]
        return found

    def decode(self, numbers: np.ndarray) -> Any:
        """Numbers (n, L) as classes: one array, or a DataFrame where one was learned from."""
        columns = [own[numbers[:, m]] for m, own in enumerate(self.classes)]
        if self.names is not None:
            import pandas as pd

            return pd.DataFrame(dict(zip(self.names, columns, strict=True)))
        if len({own.dtype.kind for own in columns}) == 1 and columns[0].dtype.kind != "O":
            return np.stack(columns, axis=1)
        found = np.empty(numbers.shape, dtype=object)
        for m, own in enumerate(columns):
            found[:, m] = own
        return found

    def number(self, column: Any) -> int:
        """The number of a column that is given by its number or name."""
        names = self.names or ()
        if isinstance(column, str) and column in names:
            return names.index(column)
        if isinstance(column, str) and not names and column.isdecimal():  # as `called` gives it
            column = int(column)
        if isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < len(self.classes):
            return int(column)
        known = f"0..{len(self.classes) - 1}" + (f" or {', '.join(names)}" if names else "")
        raise InvalidParameterError(f"there is no column {column!r}, wanted one of {known}.")

    def called(self, m: int) -> str:
        """The name of a column, or its number."""
        return self.names[m] if self.names else str(m)

    def neighbours(self, forbidden: Any, graph: Graph) -> Neighbours | None:
        """Pairs ``((column, value), (column, value))`` that exclude each other, as rules for the edges of the graph of columns."""
        if forbidden is None:
            return None
        size = max(len(own) for own in self.classes)
        pairs = np.zeros((graph.n_edges, size, size), dtype=bool)
        place = {(u, v): e for e, (u, v) in enumerate(graph.edges.tolist())}
        for pair in forbidden:
            (a, k), (b, m) = self._ends(pair)
            if (a, b) not in place and (b, a) not in place:
                raise InvalidParameterError(
                    f"forbidden has the pair {pair!r}, but label_graph has no edge between the columns {self.called(a)} and {self.called(b)}; wanted one."
                )
            if (a, b) in place:
                pairs[place[a, b], k, m] = True
            else:
                pairs[place[b, a], m, k] = True
        ends = np.zeros((graph.n_edges, size), dtype=bool)
        return Neighbours(pairs, ends, ends)

    def _ends(self, pair: Any) -> list[tuple[int, int]]:
        try:
            (a, k), (b, m) = pair
        except (TypeError, ValueError):
            raise InvalidParameterError(
                f"forbidden has {pair!r}, wanted pairs ((column, value), (column, value)) of values of two columns that exclude each other."
            ) from None
        found = []
        for column, value in ((a, k), (b, m)):
            own = self.number(column)
            known = self.classes[own].tolist()
            if value not in known:
                raise InvalidParameterError(
                    f"forbidden has the value {value!r} of column {column!r}, wanted one of {known[:12]}."
                )
            found.append((own, known.index(value)))
        if found[0][0] == found[1][0]:
            raise InvalidParameterError(f"forbidden has the pair {pair!r} of one column, wanted two different ones.")
        return found


class Read(NamedTuple):
    """A table as numbers (n, L), -1 where unknown, and its columns."""

    labels: np.ndarray
    columns: Columns


def read_columns(y: Any, forced: bool) -> Read | None:
    """A table of labels with classes of their own; None for anything else, tables of 0 and 1 among them unless ``forced``."""
    table, names = _cells(y)
    if table is None or len(table) < _FEW:
        if forced:
            raise InvalidSampleError("forbidden is given, and y is no table of at least two columns, whose values it is about.")
        return None
    classes: list[np.ndarray] = []
    plain = True
    for m, cells in enumerate(table):
        known = [cell for cell, gone in zip(cells, _unknown(cells), strict=True) if not gone]
        if any(isinstance(cell, (float, np.floating)) and not float(cell).is_integer() for cell in known):
            return None  # continuous, or not finite: refused as such
        if not known:
            if plain and not forced:
                classes.append(np.zeros(1, dtype=np.int64))
                continue
            raise InvalidSampleError(f"column {m if names is None else names[m]} of y has no known label, wanted some.")
        classes.append(_classes(known))
        plain &= classes[-1].dtype.kind in "bif" and len(classes[-1]) <= _FEW
    if plain and not forced:
        return None
    for m, own in enumerate(classes):
        if all(gone for gone in _unknown(table[m])):
            raise InvalidSampleError(f"column {m if names is None else names[m]} of y has no known label, wanted some.")
        if forced and own.dtype.kind in "bif" and len(own) <= _FEW and set(own.tolist()) <= {0, 1}:
            classes[m] = np.arange(2)  # a table of 0 and 1, one of which a fold may lack
    columns = Columns(tuple(classes), names)
    return Read(columns.encode(table), columns)


def cells_of(y: Any, n_columns: int) -> list[list[Any]]:
    """The cells of a table, column by column, refused where it is none of so many columns."""
    table, _ = _cells(y)
    if table is None or len(table) != n_columns:
        raise InvalidSampleError(
            f"labels have {'no' if table is None else len(table)} columns, wanted a table of {n_columns}, those of the training set."
        )
    return table


def _cells(y: Any) -> tuple[list[list[Any]] | None, tuple[str, ...] | None]:
    if hasattr(y, "iloc") and hasattr(y, "columns"):
        table = [np.asarray(y.iloc[:, m], dtype=object).tolist() for m in range(y.shape[1])]
        names = list(y.columns)
        return table, tuple(names) if all(isinstance(own, str) for own in names) and len(set(names)) == len(names) else None
    if sparse.issparse(y):
        return y.toarray().T.tolist(), None
    own = unmasked(y)
    if isinstance(own, np.ndarray):
        return (own.T.tolist(), None) if own.ndim == 2 else (None, None)
    rows = list(own) if isinstance(own, (list, tuple)) else []
    if not rows or not all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        return None, None
    if len({len(row) for row in rows}) != 1:
        return None, None
    return [
        list(cells) for cells in zip(*(row.tolist() if isinstance(row, np.ndarray) else row for row in rows), strict=True)
    ], None


def _unknown(cells: list[Any]) -> list[bool]:
    """Missing cells, -1, and the empty string."""
    return [is_missing(cell) or (not isinstance(cell, bool) and cell in (UNKNOWN, "")) for cell in cells]


def _classes(known: list[Any]) -> np.ndarray:
    numbers = all(isinstance(cell, (bool, int, float, np.number, np.bool_)) for cell in known)
    if numbers:
        found = np.unique(np.array(known))
        return found.astype(np.int64) if found.dtype.kind == "f" else found
    if all(isinstance(cell, str) for cell in known):
        return np.unique(np.array(known, dtype=str))
    raise InvalidSampleError(
        f"a column of y holds {known[0]!r} beside {next(own for own in known if type(own) is not type(known[0]))!r}, wanted text or numbers alone."
        if len(set(map(type, known))) > 1
        else f"a column of y holds {known[0]!r}, wanted text or numbers."
    )


def samples_of(X: Any, graph: Graph) -> list[GraphSample]:
    """A graph with a node for each column, of its own type, and the same features at all nodes, for each row."""
    size, types = graph.n_nodes, np.arange(graph.n_nodes, dtype=np.int64)
    if sparse.issparse(X):
        rows = sparse.csr_array(X)
        return [
            GraphSample(sparse.csr_array(sparse.vstack([rows[[j]]] * size)), graph, node_types=types)
            for j in range(rows.shape[0])
        ]
    return [GraphSample(np.repeat(row[None], size, axis=0), graph, node_types=types) for row in X]


def columns_graph(given: Any, labels: np.ndarray, columns: Columns, weight: np.ndarray) -> Graph:
    """The graph of the columns, whose edges have a type each; see `label_graph`."""
    size = labels.shape[1]
    if isinstance(given, str) and given == "tree":
        plain = Graph.from_edges(_information_tree(labels, columns, weight), size)
    else:
        plain = label_graph(given, labels, weight)
    return typed(plain)


def typed(graph: Graph) -> Graph:
    """The graph with a type for each of its edges."""
    return replace(graph, edge_type=np.arange(graph.n_edges, dtype=np.int32), n_edge_types=max(1, graph.n_edges))


def _information_tree(labels: np.ndarray, columns: Columns, weight: np.ndarray) -> np.ndarray:
    """Edges of a maximum spanning tree of the mutual information of pairs of columns, over the rows where both are known."""
    size = labels.shape[1]
    cost = np.zeros((size, size))
    for u in range(size):
        for v in range(u + 1, size):
            both = (labels[:, u] >= 0) & (labels[:, v] >= 0)
            joint = np.zeros((len(columns.classes[u]), len(columns.classes[v])))
            np.add.at(joint, (labels[both, u], labels[both, v]), weight[both])
            joint /= max(joint.sum(), np.finfo(float).tiny)
            product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)
            some = joint > 0
            cost[u, v] = (
                1.0 + np.log(size * joint.size) - float((joint[some] * np.log(joint[some] / product[some])).sum())
            )  # > 0
    tree = minimum_spanning_tree(sparse.csr_matrix(cost)).tocoo()
    return np.stack([tree.row, tree.col], axis=1).astype(np.int32).reshape(-1, 2)


def column_costs(given: Any, labels: np.ndarray, columns: Columns, weight: np.ndarray) -> np.ndarray:
    """Cost of missing each class of each column, (L, K): "balanced", a list of dicts, or a dict of these by column."""
    size = max(len(own) for own in columns.classes)
    found = np.ones((labels.shape[1], size))
    if isinstance(given, str):
        check_balanced(given)
        for m in range(labels.shape[1]):
            known = labels[:, m] >= 0
            found[m] = balanced(np.bincount(labels[known, m], weights=weight[known], minlength=size))
        return found
    rows: dict[int, Any] = {}
    if isinstance(given, Mapping):
        rows = {columns.number(name): own for name, own in given.items()}
    elif isinstance(given, Sequence) and len(given) == labels.shape[1]:
        rows = dict(enumerate(given))
    if not rows or not all(isinstance(own, Mapping) for own in rows.values()):
        raise InvalidParameterError(
            f"class_weight is {given!r}, wanted 'balanced', a list of dicts, one for each of {labels.shape[1]} columns, or a dict of dicts by column."
        )
    for m, own in rows.items():
        known = columns.classes[m].tolist()
        found[m, : len(known)] = costs_of_classes(own, known)
    return found


def bound_columns(
    X: Any, labels: np.ndarray, columns: Columns, graph: Graph, potentials: str, forbidden: Any
) -> tuple[BoundModel, BoundModel]:
    """The model on samples without the nodes of unknown labels, and without data, for predictions."""
    samples, rules = samples_of(X, graph), columns.neighbours(forbidden, graph)
    numbers = [np.arange(len(own)) for own in columns.classes]
    if rules is not None:
        _check_rules(labels, columns, graph, rules)
    kept, known = induced(samples, [row.astype(np.int64) for row in labels], numbers)
    layout = GraphModel(potentials=potentials).bind(samples[:1], None, numbers).layout
    layout = replace(layout, model=replace(layout.model, forbidden=rules))
    coded = np.concatenate([np.zeros(0, dtype=np.int64), *known]).astype(np.int32)
    return layout.bound(columns.classes, layout.encode(kept), coded), layout.bound(columns.classes)


def _check_rules(labels: np.ndarray, columns: Columns, graph: Graph, rules: Neighbours) -> None:
    for e, (u, v) in enumerate(graph.edges.tolist()):
        wrong = (labels[:, u] >= 0) & (labels[:, v] >= 0) & rules.pairs[e, labels[:, u], labels[:, v]]
        if wrong.any():
            j = int(wrong.argmax())
            a, b = (columns.classes[m].tolist()[labels[j, m]] for m in (u, v))
            raise InvalidSampleError(
                f"a sample of y has {a!r} in column {columns.called(u)} and {b!r} in column {columns.called(v)}, a pair that forbidden excludes; wanted a "
                "table that keeps the rule. Correct the label, hide it (None), or leave the pair out."
            )


def column_blocks(model: BoundModel, weights: np.ndarray, columns: Columns, graph: Graph, d: int) -> dict[str, np.ndarray]:
    """Weights by the names of columns: ``nodes[a]`` (K, d), ``bias[a]`` (K,) and ``edges[a-b]`` (K, K); -inf for what is forbidden."""
    blocks: dict[str, np.ndarray] = {}
    known = np.append(weights, [0.0, -np.inf])  # behind them the scores of -1, no weight, and of what is forbidden
    place = np.where(model.node_index >= 0, model.node_index, len(weights))
    for m, own in enumerate(np.split(known[place], len(columns.classes))):
        own = own[:, : len(columns.classes[m])].T
        blocks[f"nodes[{columns.called(m)}]"] = own[:, :d].copy()
        if own.shape[1] > d:
            blocks[f"bias[{columns.called(m)}]"] = own[:, d].copy()
    place = np.where(model.edge_index >= 0, model.edge_index, len(weights))
    place = np.where(model.edge_index == FORBIDDEN, len(weights) + 1, place)
    for (u, v), table in zip(graph.edges.tolist(), known[place], strict=False):
        size = len(columns.classes[u]), len(columns.classes[v])
        blocks[f"edges[{columns.called(u)}-{columns.called(v)}]"] = table[: size[0], : size[1]].copy()
    return blocks
