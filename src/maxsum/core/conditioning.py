"""Problems in which labels of some nodes are known: taken out (`condition`), or forbidden in place (`restrict`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .cliques import Cliques
from .errors import InfeasibleError, InvalidProblemError
from .factors import AllDifferent, Cardinality, Factors, Linear, SparseTable
from .graph import Graph

if TYPE_CHECKING:
    from .problem import Problem


def as_fixed(problem: Problem, fixed: Mapping[Any, Any] | None) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and labels of ``{node: label}``, in the order of the nodes, checked."""
    if fixed is None:
        fixed = {}
    if not isinstance(fixed, Mapping):
        raise InvalidProblemError(f"fixed is a {type(fixed).__name__}, wanted a dictionary {{node: label}}.")
    for node, label in fixed.items():
        if not _whole(node) or not 0 <= node < problem.n_nodes:
            raise InvalidProblemError(f"fixed names node {node!r}, but the problem has the nodes 0..{problem.n_nodes - 1}.")
        if not _whole(label) or not 0 <= label < problem.n_states[node]:
            raise InvalidProblemError(
                f"fixed gives node {node} the label {label!r}, wanted 0..{problem.n_states[node] - 1}, the labels that it has."
            )
    nodes = np.array(sorted(int(node) for node in fixed), dtype=np.int64)
    by_number = {int(node): int(label) for node, label in fixed.items()}
    return nodes, np.array([by_number[v] for v in nodes.tolist()], dtype=np.int64)


def as_allowed(problem: Problem, allowed: Any) -> np.ndarray:
    """Mask (N, K) of a mask, or of ``{node: labels}``, checked; nodes that are not named keep all their labels."""
    own: np.ndarray = np.arange(problem.n_labels) < problem.n_states[:, None]
    if allowed is None:
        return own
    if not isinstance(allowed, Mapping):
        mask = np.asarray(allowed)
        if mask.dtype != bool or mask.shape != own.shape:
            raise InvalidProblemError(
                f"allowed has shape {mask.shape} and dtype {mask.dtype}, wanted a mask of bool of shape {own.shape}, or {{node: labels}}."
            )
        return mask & own
    mask = own.copy()
    for node, labels in allowed.items():
        if not _whole(node) or not 0 <= node < problem.n_nodes:
            raise InvalidProblemError(f"allowed names node {node!r}, but the problem has the nodes 0..{problem.n_nodes - 1}.")
        some = [labels] if _whole(labels) else list(labels)
        for label in some:
            if not _whole(label) or not 0 <= label < problem.n_states[node]:
                raise InvalidProblemError(
                    f"allowed gives node {node} the label {label!r}, wanted 0..{problem.n_states[node] - 1}, the labels that it has."
                )
        mask[node] = False
        mask[node, [int(label) for label in some]] = True
    return mask


def _whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_))


def kept_nodes(problem: Problem, fixed: Mapping[Any, Any]) -> np.ndarray:
    """Numbers, in ``problem``, of the nodes of `condition`: its node ``i`` is node ``kept_nodes[i]`` here."""
    nodes, _ = as_fixed(problem, fixed)
    return np.setdiff1d(np.arange(problem.n_nodes), nodes)


def restrict(problem: Problem, fixed: Mapping[Any, Any] | None = None, allowed: Any = None) -> Problem:
    """The same graph and scores with ``-inf`` in the unaries of all labels that are not allowed; see `Problem.restrict`."""
    nodes, labels = as_fixed(problem, fixed)
    mask = as_allowed(problem, allowed)
    if len(nodes):
        only = np.zeros((len(nodes), problem.n_labels), dtype=bool)
        only[np.arange(len(nodes)), labels] = True
        mask[nodes] &= only
    return within(problem, mask)


def within(problem: Problem, mask: np.ndarray) -> Problem:
    """The problem with all labels outside a mask (N, K) forbidden, every other score as it is (internal: the mask is not checked)."""
    unary = np.where(mask, problem.unary, -np.inf)
    empty = np.flatnonzero(np.isneginf(unary).all(axis=1)) if unary.size else np.zeros(0, dtype=np.int64)
    if len(empty):
        raise InfeasibleError(
            f"node {empty[0]} has no label left: what is fixed or allowed is forbidden by its scores (-inf), or leaves it none."
        )
    fields = {name: getattr(problem, name) for name in type(problem).__annotations__}
    changed: Problem = type(problem)._trusted(**{**fields, "unary": unary})
    for memo in ("_table_extremes", "_vanishing"):  # facts of the tables, which are the same
        if memo in problem.__dict__:
            changed.__dict__[memo] = problem.__dict__[memo]
    return changed


def condition(problem: Problem, fixed: Mapping[Any, Any]) -> Problem:
    """The problem on the remaining nodes; see `Problem.condition`."""
    nodes, labels = as_fixed(problem, fixed)
    known = np.full(problem.n_nodes, -1, dtype=np.int64)
    known[nodes] = labels
    kept = np.flatnonzero(known < 0)
    place = np.full(problem.n_nodes, -1, dtype=np.int64)
    place[kept] = np.arange(len(kept))
    unary, constant = problem.unary.copy(), np.longdouble(problem.offset)
    for v, value in zip(nodes.tolist(), problem.unary[nodes, labels].tolist(), strict=True):
        if value == -np.inf:
            raise InfeasibleError(f"label {known[v]} of node {v} is forbidden (-inf), but fixed gives it to the node.")
        constant += value
    u, v = problem.graph.edges.T.astype(np.int64)
    table, weight = problem.edge_table, problem.edge_weight
    # Edges with both ends fixed are constants, with one end a vector for the other.
    both = np.flatnonzero((known[u] >= 0) & (known[v] >= 0))
    value = problem.tables[table[both], known[u[both]], known[v[both]]] * weight[both]
    if np.isneginf(value).any():
        e = int(both[np.isneginf(value)][0])
        raise InfeasibleError(
            f"edge {e} forbids labels {known[u[e]]} and {known[v[e]]} of nodes {u[e]} and {v[e]} together (-inf), but fixed gives them."
        )
    constant += value.sum(dtype=np.longdouble)
    first = np.flatnonzero((known[u] >= 0) & (known[v] < 0))
    second = np.flatnonzero((known[u] < 0) & (known[v] >= 0))
    np.add.at(unary, v[first], problem.tables[table[first], known[u[first]], :] * weight[first, None])
    np.add.at(unary, u[second], problem.tables[table[second], :, known[v[second]]] * weight[second, None])
    rest = np.flatnonzero((known[u] < 0) & (known[v] < 0))
    cliques, gained = _condition_cliques(problem, known, place, unary)
    factors, paid = _condition_factors(problem, known, place, unary)
    gained += paid
    unary = unary[kept]
    dead = np.flatnonzero(np.isneginf(unary).all(axis=1)) if unary.size else np.zeros(0, dtype=np.int64)
    if len(dead):
        raise InfeasibleError(f"what is fixed forbids every label of node {kept[dead[0]]} (-inf).")
    graph = Graph.from_edges(np.stack([place[u[rest]], place[v[rest]]], axis=1).reshape(-1, 2), len(kept))
    return type(problem)._trusted(
        graph=graph,
        unary=unary,
        tables=problem.tables,
        edge_table=table[rest],
        edge_weight=weight[rest],
        n_states=problem.n_states[kept],
        cliques=cliques,
        offset=float(constant + gained),
        factors=Factors.build(factors, problem.n_states[kept]),
    )


def _condition_factors(
    problem: Problem, known: np.ndarray, place: np.ndarray, unary: np.ndarray
) -> tuple[list[tuple[np.ndarray, Any]], np.longdouble]:
    """What is left of the factors, and the constant that whole ones pay; what all-different takes from a node goes to its unary."""
    left, constant = [], np.longdouble(0.0)
    for f, (nodes, function) in enumerate(problem.factors.items()):
        label = known[nodes]
        free, fixed = np.flatnonzero(label < 0), np.flatnonzero(label >= 0)
        if not len(fixed):
            left.append((place[nodes], function))
            continue
        if not len(free):
            value = float(function.values(label[None])[0])
            if value == -np.inf:
                raise InfeasibleError(f"factor {f} forbids labels {label.tolist()} of nodes {nodes.tolist()} together (-inf).")
            constant += value
            continue
        rest = _slice(problem, f, nodes, function, label, free, fixed, unary)
        if rest is not None:
            left.append((place[nodes[free]], rest))
    return left, constant


def _slice(
    problem: Problem,
    f: int,
    nodes: np.ndarray,
    function: Any,
    label: np.ndarray,
    free: np.ndarray,
    fixed: np.ndarray,
    unary: np.ndarray,
) -> Any:
    """A function with some labels given, as one of the others; None where nothing is left of it."""
    shape = tuple(problem.n_states[nodes].tolist())
    if isinstance(function, AllDifferent):
        taken = label[fixed]
        if len(np.unique(taken)) < len(taken):
            raise InfeasibleError(f"factor {f} wants different labels, but fixed gives a label to two of its nodes.")
        unary[np.ix_(nodes[free], taken)] = -np.inf
        return function if len(free) > 1 else None
    if isinstance(function, Cardinality):
        counted = int(np.isin(label[fixed], function.labels).sum())
        return Cardinality(function.scores[counted : counted + len(free) + 1], list(function.labels))
    if isinstance(function, Linear):
        spent = int(sum(int(function.weights[i][label[i]]) for i in fixed.tolist()))
        return Linear([function.weights[i] for i in free.tolist()], function.low - spent, function.high - spent)
    if isinstance(function, SparseTable):
        same = (function.tuples[:, fixed] == label[fixed]).all(axis=1)
        return SparseTable(
            [shape[i] for i in free.tolist()], function.tuples[same][:, free], function.scores[same], function.default
        )
    return function.dense(shape)[tuple(slice(None) if k < 0 else int(k) for k in label)]


def _condition_cliques(
    problem: Problem, known: np.ndarray, place: np.ndarray, unary: np.ndarray
) -> tuple[Cliques, np.longdouble]:
    """What is left of the cliques, and the constant that whole ones pay.

    A clique with members fixed to one label ``k`` pays ``w[k]`` if all others have ``k`` too: a clique of the others with no other
    weight, or a score of the last one. With members fixed to different labels it pays nothing any more.
    """
    pairs, constant = [], np.longdouble(0.0)
    for c in range(len(problem.cliques)):
        members, weights = problem.cliques.members(c), problem.cliques.weights[c]
        free, fixed = members[known[members] < 0], np.unique(known[members][known[members] >= 0])
        if len(fixed) > 1:
            continue
        if not len(fixed):
            pairs.append((place[free], weights))
            continue
        k = int(fixed[0])
        if not len(free):
            constant += weights[k]
        elif len(free) == 1:
            unary[free[0], k] += weights[k]
        elif weights[k]:
            only = np.zeros(len(weights))
            only[k] = weights[k]
            pairs.append((place[free], only))
    if not pairs:
        return Cliques.empty(problem.n_labels), constant
    ptr = np.concatenate([[0], np.cumsum([len(members) for members, _ in pairs])]).astype(np.int64)
    nodes = np.concatenate([members for members, _ in pairs]).astype(np.int32)
    return Cliques(ptr, nodes, np.stack([weights for _, weights in pairs])), constant
