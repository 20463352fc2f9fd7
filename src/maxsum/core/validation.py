"""From what callers pass to the arrays that a `Problem` holds: shapes, dtypes, legal numbers, padding, merged edges.

And which labels were not given: None, NaN, pandas' NA, and what stands for them where strings are wanted, an empty one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import InfeasibleError, InvalidProblemError
from .graph import Graph
from .ownership import is_own
from .rows import row_max

LARGEST = 1e100
EXACT = 2**53
"""Up to this size float64 holds every whole number."""


def read_only(array: np.ndarray) -> np.ndarray:
    """The same array, which nobody can write to any more through this name."""
    array.flags.writeable = False
    return array


def as_float(values: Any, name: str) -> np.ndarray:
    """C-contiguous native float64 array that nobody else can write to."""
    given = _array(values, name)
    if given.dtype.kind not in "fiub":
        raise InvalidProblemError(f"{name} has dtype {given.dtype}, wanted real numbers.")
    _check_whole(values, given, name)
    array = np.asarray(given, dtype=np.float64, order="C")
    if array.size and max(np.fmax.reduce(array, axis=None), -np.fmin.reduce(array, axis=None)) > LARGEST:
        large = np.isfinite(array) & (np.abs(array) > LARGEST)
        if large.any():
            raise InvalidProblemError(
                f"{name} holds {array[large][0]}, wanted numbers of at most {LARGEST} in size: sums of larger ones overflow. Rescale."
            )
    if array is not given and array.base is None:
        return array
    return array if is_own(array) else array.copy()


def _array(values: Any, name: str) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InvalidProblemError(f"{name} cannot be made an array: {error}") from None


def _check_whole(values: Any, given: np.ndarray, name: str) -> None:
    """Refuse whole numbers that float64 would round: beyond 2**53 only some can be held."""
    if given.dtype.kind == "f":  # numpy made floats of a list that holds fractions as well
        if not isinstance(values, (list, tuple)) or not (np.abs(given) >= EXACT).any():
            return
        given = np.array([n for n in np.asarray(values, dtype=object).flat if isinstance(n, (int, np.integer))], dtype=object)
    elif given.dtype.itemsize < 8 or given.dtype.kind == "b":
        return
    for number in given[(given > EXACT) | (given < -EXACT)].flat:
        check_exact(int(number), name)


def check_exact(number: int, name: str) -> None:
    """Refuse a whole number that float64 would round."""
    if abs(number) > EXACT and abs(number) <= LARGEST and int(float(number)) != number:
        raise InvalidProblemError(
            f"{name} holds the whole number {number}, which a float64 would round to {int(float(number))}; wanted numbers up to 2**53, or "
            "larger ones that float64 can hold. Subtract a constant or divide by a common factor; or round them yourself (astype(float))."
        )


def states_and_unary(graph: Graph, unary: Any, n_states: Any) -> tuple[np.ndarray, np.ndarray]:
    """``n_states`` (N,) int32 and ``unary`` (N, K), padded with ``-inf`` past the states of each node."""
    if isinstance(unary, (list, tuple)) and len({np.size(row) for row in unary}) > 1:
        unary, own_states = _pad_rows(unary)
        n_states = own_states if n_states is None else n_states
    scores = as_float(unary, "unary")
    if graph.shape is not None and scores.ndim == len(graph.shape) + 1 and scores.shape[:-1] == graph.shape:
        scores = scores.reshape(-1, scores.shape[-1])
    if scores.ndim != 2 or len(scores) != graph.n_nodes:
        raise InvalidProblemError(
            f"unary has shape {scores.shape}, wanted ({graph.n_nodes}, n_labels): one row per node of the graph."
        )
    n_labels = scores.shape[1]
    if n_labels == 0 and graph.n_nodes:
        raise InvalidProblemError("unary has no columns, wanted at least one label.")
    states = _states(n_states, graph.n_nodes, n_labels)
    beyond = np.arange(n_labels) >= states[:, None] if len(states) and states.min() < n_labels else None
    if beyond is not None and not np.isneginf(scores[beyond]).all():
        scores = scores.copy()
        scores[beyond] = -np.inf
    _check_unary(scores)
    return states, scores


def _pad_rows(rows: Any) -> tuple[np.ndarray, np.ndarray]:
    vectors = [as_float(row, f"unary of node {v}") for v, row in enumerate(rows)]
    for v, vector in enumerate(vectors):
        if vector.ndim != 1 or len(vector) == 0:
            raise InvalidProblemError(f"unary of node {v} has shape {vector.shape}, wanted (n_states of the node,).")
    states = np.array([len(vector) for vector in vectors])
    padded = np.full((len(vectors), states.max()), -np.inf)
    for v, vector in enumerate(vectors):
        padded[v, : len(vector)] = vector
    return padded, states


def _states(n_states: Any, n_nodes: int, n_labels: int) -> np.ndarray:
    if n_states is None:
        return np.full(n_nodes, n_labels, dtype=np.int32)
    states = np.asarray(n_states)
    if states.ndim == 0:
        states = np.full(n_nodes, states)
    if states.shape != (n_nodes,) or states.dtype.kind not in "iu":
        raise InvalidProblemError(
            f"n_states has shape {states.shape} and dtype {states.dtype}, wanted {n_nodes} integers, one per node."
        )
    if n_nodes and (states.min() < 1 or states.max() > n_labels):
        v = int(np.flatnonzero((states < 1) | (states > n_labels))[0])
        raise InvalidProblemError(f"node {v} has n_states = {states[v]}, wanted 1..{n_labels} (the columns of unary).")
    return states.astype(np.int32)


def _check_unary(scores: np.ndarray) -> None:
    if not scores.size:
        return
    top = row_max(scores)
    if np.isnan(top).any() or np.isposinf(top).any():
        v = int(np.flatnonzero(np.isnan(top) | np.isposinf(top))[0])
        k = int(np.flatnonzero(np.isnan(scores[v]) | np.isposinf(scores[v]))[0])
        raise InvalidProblemError(
            f"unary of node {v}, label {k} is {scores[v, k]}; wanted a finite score, or -inf for a forbidden label."
        )
    if np.isneginf(top).any():
        v = int(np.flatnonzero(np.isneginf(top))[0])
        raise InfeasibleError(f"node {v} has every label forbidden (unary -inf); allow at least one.")


def tables_and_edges(
    graph: Graph, n_states: np.ndarray, n_labels: int, tables: Any, edge_table: Any, edge_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Table bank (T, K, K), table number of each edge (E,) and weight of each edge (E,)."""
    ends = graph.edges if graph.merge is None else _given_edges(graph)
    n_given = len(ends)
    bank = _bank(tables, n_labels, ends, n_states)
    number = _table_numbers(graph, bank, edge_table, n_given)
    weight = np.ones(n_given) if edge_weight is None else as_float(edge_weight, "edge_weight")
    if weight.ndim == 0:
        weight = np.full(n_given, float(weight))
    if weight.shape != (n_given,):
        raise InvalidProblemError(f"edge_weight has shape {weight.shape}, wanted ({n_given},), one per edge.")
    if not np.isfinite(weight).all():
        e = int(np.flatnonzero(~np.isfinite(weight))[0])
        raise InvalidProblemError(f"edge_weight of edge {e} is {weight[e]}, wanted a finite number.")
    bank = _check_bank(bank, number, weight, ends, n_states)
    if graph.merge is not None:
        bank, number, weight = _merge_tables(graph, bank, number, weight)
    return bank, number, weight


def _given_edges(graph: Graph) -> np.ndarray:
    assert graph.merge is not None
    ends = graph.edges[graph.merge.target]
    return np.where(graph.merge.flip[:, None], ends[:, ::-1], ends)


def _bank(tables: Any, n_labels: int, ends: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    if tables is None:
        if len(ends):
            raise InvalidProblemError(f"the graph has {len(ends)} edges, but no tables were given.")
        return np.zeros((1, n_labels, n_labels))
    if isinstance(tables, (list, tuple)) and {np.ndim(table) for table in tables} == {2}:
        shapes = {np.shape(table) for table in tables}
        if shapes != {(n_labels, n_labels)}:
            return _pad_tables(tables, n_labels, ends, n_states)
    bank = as_float(tables, "tables")
    if bank.ndim == 2:
        bank = bank[None]
    if bank.ndim != 3 or bank.shape[1:] != (n_labels, n_labels) or len(bank) == 0:
        raise InvalidProblemError(
            f"tables have shape {np.shape(tables)}, wanted ({n_labels}, {n_labels}) for one shared table, "
            f"(n_tables, {n_labels}, {n_labels}) for a bank, or a list with one (n_states, n_states) array per edge."
        )
    return bank


def _pad_tables(tables: Any, n_labels: int, ends: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    if len(tables) != len(ends):
        raise InvalidProblemError(f"{len(tables)} tables of different shapes for {len(ends)} edges; wanted one table per edge.")
    bank = np.zeros((len(tables), n_labels, n_labels))
    for e, table in enumerate(tables):
        array = as_float(table, f"table of edge {e}")
        u, v = ends[e]
        wanted = (int(n_states[u]), int(n_states[v]))
        if array.shape != wanted:
            hint = " It looks transposed: its first axis is the label of the edge's first node."
            raise InvalidProblemError(
                f"table of edge {e} (nodes {u}-{v}) has shape {array.shape}, wanted {wanted}."
                + (hint if array.shape == wanted[::-1] else "")
            )
        bank[e, : wanted[0], : wanted[1]] = array
    return bank


def _table_numbers(graph: Graph, bank: np.ndarray, edge_table: Any, n_given: int) -> np.ndarray:
    if edge_table is not None:
        number = np.asarray(edge_table)
        number = number.astype(np.int64) if number.size == 0 else number
        if number.shape != (n_given,) or number.dtype.kind not in "iu":
            raise InvalidProblemError(
                f"edge_table has shape {number.shape} and dtype {number.dtype}, wanted {n_given} integers, one per edge."
            )
        if n_given and (number.min() < 0 or number.max() >= len(bank)):
            e = int(np.flatnonzero((number < 0) | (number >= len(bank)))[0])
            raise InvalidProblemError(
                f"edge_table of edge {e} is {number[e]}, but there are {len(bank)} tables (0..{len(bank) - 1})."
            )
        return number.astype(np.int32)
    if len(bank) == 1:
        return np.zeros(n_given, dtype=np.int32)
    by_type = graph.edge_type if graph.merge is None else graph.edge_type[graph.merge.target]
    per_edge = np.arange(n_given, dtype=np.int32)
    fits_types, fits_edges = len(bank) == graph.n_edge_types, len(bank) == n_given
    if fits_types and fits_edges and not np.array_equal(by_type, per_edge):
        raise InvalidProblemError(f"{len(bank)} tables could be one per edge or one per edge type; say which with edge_table.")
    if fits_types:
        return by_type
    if fits_edges:
        return per_edge
    raise InvalidProblemError(
        f"{len(bank)} tables for {n_given} edges of {graph.n_edge_types} types: wanted 1 table, one per edge, one per "
        "edge type, or edge_table to say which table each edge has."
    )


def _check_bank(bank: np.ndarray, number: np.ndarray, weight: np.ndarray, ends: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    """Refuse NaN, +inf and weighted -inf; entries that no edge can use take a value of their table, which changes no extreme."""
    if np.isfinite(bank).all() and (not len(n_states) or n_states.min() == bank.shape[1]):
        return bank
    rows, cols = np.zeros(len(bank), dtype=np.int64), np.zeros(len(bank), dtype=np.int64)
    np.maximum.at(rows, number, n_states[ends[:, 0]])
    np.maximum.at(cols, number, n_states[ends[:, 1]])
    label = np.arange(bank.shape[1])
    used = (label[None, :, None] < rows[:, None, None]) & (label[None, None, :] < cols[:, None, None])
    bad = used & (np.isnan(bank) | np.isposinf(bank))
    if bad.any():
        t, k, m = (int(i[0]) for i in np.nonzero(bad))
        e = int(np.flatnonzero(number == t)[0])
        raise InvalidProblemError(
            f"table {t} (first used by edge {e}, nodes {ends[e, 0]}-{ends[e, 1]}) is {bank[t, k, m]} at labels "
            f"({k}, {m}); wanted a finite score, or -inf for a forbidden pair."
        )
    top = np.where(used & np.isfinite(bank), bank, -np.inf).max(axis=(1, 2), keepdims=True)
    bank = np.where(used, bank, np.where(np.isneginf(top), 0.0, top))
    hard = np.logical_or.reduce(np.isneginf(bank), axis=(1, 2))
    wrong = np.flatnonzero(hard[number] & (weight <= 0))
    if len(wrong):
        e = int(wrong[0])
        raise InvalidProblemError(
            f"edge {e} has weight {weight[e]} on table {number[e]}, which holds -inf; hard constraints need a "
            "positive weight. Drop the edge, or give it a table without -inf."
        )
    return bank


def _merge_tables(
    graph: Graph, bank: np.ndarray, number: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Sum the tables of merged edges; edges that were given once keep their shared table."""
    assert graph.merge is not None
    index, flip = graph.merge
    count = np.bincount(index, minlength=graph.n_edges)
    merged_number = np.zeros(graph.n_edges, dtype=np.int32)
    merged_weight = np.ones(graph.n_edges)
    single = count[index] == 1
    merged_number[index[single]] = number[single]
    merged_weight[index[single]] = weight[single]
    sums: dict[int, np.ndarray] = {}
    for i in np.flatnonzero(~single):
        table = weight[i] * bank[number[i]]
        sums[int(index[i])] = sums.get(int(index[i]), 0.0) + (table.T if flip[i] else table)
    for position, e in enumerate(sums):
        merged_number[e] = len(bank) + position
    extra = np.stack(list(sums.values())) if sums else np.zeros((0, *bank.shape[1:]))
    return np.concatenate([bank, extra]), merged_number, merged_weight


def as_labels(labels: Any, n_states: np.ndarray) -> np.ndarray:
    """Labelling as int32 (N,), checked; a labelling of a grid may have the grid's shape."""
    given = _array(labels, "labels")
    if given.size == 0:
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu":
        raise InvalidProblemError(
            f"labels have dtype {given.dtype}, wanted whole numbers 0..n_states-1; convert with labels.astype(int)."
        )
    flat = given.ravel()
    if flat.shape != n_states.shape:
        raise InvalidProblemError(f"labels have shape {given.shape}, wanted ({len(n_states)},), one per node.")
    bad = (flat < 0) | (flat >= n_states)
    if bad.any():
        v = int(np.flatnonzero(bad)[0])
        raise InvalidProblemError(f"label of node {v} is {flat[v]}, wanted 0..{n_states[v] - 1}.")
    return flat.astype(np.int32)


# ---- labels that were not given ---------------------------------------------------------------------------------------------


def is_missing(label: Any) -> bool:
    """Whether it is None, NaN or pandas' NA, which is known by the name of its type: pandas need not be there."""
    return label is None or _is_nan(label) or type(label).__name__ == "NAType"


def _is_nan(label: Any) -> bool:
    return isinstance(label, (float, np.floating)) and bool(label != label)


def missing(labels: Iterable[Any]) -> np.ndarray:
    """`is_missing` of each label; at once False where no type among them can be missing."""
    items = list(labels)
    if not any(_may_be_missing(kind) for kind in set(map(type, items))):
        return np.zeros(len(items), dtype=bool)
    return np.fromiter((is_missing(label) for label in items), dtype=bool, count=len(items))


def _may_be_missing(kind: type) -> bool:
    return kind is type(None) or issubclass(kind, (float, np.floating)) or kind.__name__ == "NAType"


def label_array(given: Any) -> np.ndarray:
    """Labels as an array, of objects where strings stand beside others: numpy alone would make the string ``"nan"`` of a NaN."""
    array = np.asarray(given)
    if array.dtype.kind not in "US" or isinstance(given, np.ndarray):
        return array
    objects = np.array(given, dtype=object)
    return array if all(issubclass(kind, (str, bytes)) for kind in set(map(type, objects.flat))) else objects


def blank(labels: np.ndarray) -> np.ndarray:
    """Where an array of strings has empty ones."""
    return labels == np.array("", dtype=labels.dtype)  # type: ignore[no-any-return]
