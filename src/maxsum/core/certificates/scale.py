"""How large "nothing" is: the spread of terms, whole-number problems, and the gap at which an answer counts as optimal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..rows import row_max, row_min

if TYPE_CHECKING:
    from ..problem import Problem

UNIT = 2.0**-53
"""Unit of rounding: one operation is off by at most this share of its result."""

RELATIVE = 1e-9
"""Share of the score's own variation that a gap may have in an answer that is called optimal (the project's design page, section 5)."""

_SMALLEST = 5e-324  # the smallest number above 0
_NORMAL = 2.3e-308  # the smallest that has all its digits
# Terms of a kind that are looked at for `variation`: a quantile needs no more, and large tables are read no further.
_SAMPLE = 512
_ALL_BELOW = 100  # terms up to which their least distance counts
_SHARE = 0.05  # of more terms, the part that may lie closer: accidental near-ties
# A term counts at most so many times the low distance: large terms do not, and ten thousand terms stay below the low distance
# itself.
_MOST = 100.0
_CHUNK = 1 << 21  # entries of tables that are worked on at once: 16 MB
_CACHED = 1 << 15  # the same where copies of them are made: 256 KB, which took a third less time than 4 MB


def table_centres(problem: Problem) -> np.ndarray:
    """Entry of each edge's table that its weight makes the best (0 where all are forbidden)."""
    high, low = table_extremes(problem)
    return np.where(problem.edge_weight >= 0, high, low)


def edge_centres(problem: Problem) -> np.ndarray:
    """Best finite score of each edge (0 where all are forbidden)."""
    return table_centres(problem) * problem.edge_weight


def table_extremes(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Largest and smallest finite entry of each edge's table (0 where none); padding past the nodes' labels does not count."""
    memo = problem.__dict__.get("_table_extremes")
    if memo is None:
        memo = problem.__dict__["_table_extremes"] = _table_extremes(problem)
    high, low, kind = memo
    return high[kind], low[kind]


def _table_extremes(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n, kind = problem.n_labels, problem.edge_table
    shapes = np.full((len(problem.tables), 2), n)
    source = np.arange(len(problem.tables))
    if problem.n_nodes and problem.n_states.min() < n:
        states = problem.n_states[problem.graph.edges].astype(np.int64)
        code = (kind.astype(np.int64) * (n + 1) + states[:, 0]) * (n + 1) + states[:, 1]
        _, first, kind = np.unique(code, return_index=True, return_inverse=True)
        shapes, source = states[first], problem.edge_table[first]
    high, low, label = np.zeros(len(source)), np.zeros(len(source)), np.arange(n)
    for part in chunks(np.arange(len(source)), n):
        table = problem.tables[source[part]]
        own = (label[:, None] < shapes[part, 0, None, None]) & (label < shapes[part, 1, None, None]) & np.isfinite(table)
        some = own.any(axis=(1, 2))
        high[part] = np.where(some, np.where(own, table, -np.inf).max(axis=(1, 2)), 0.0)
        low[part] = np.where(some, np.where(own, table, np.inf).min(axis=(1, 2)), 0.0)
    return high, low, kind


def chunks(edges: np.ndarray, n_labels: int) -> list[np.ndarray]:
    """Edges in pieces whose tables fit in the cache of the processor, more or less."""
    size = max(1, _CHUNK // max(1, n_labels * n_labels))
    return [edges[start : start + size] for start in range(0, len(edges), size)]


def spreads(problem: Problem) -> np.ndarray:
    """Largest minus smallest finite value of each term that is not constant."""
    full = not problem.has_hard_constraints and not (problem.n_states < problem.n_labels).any()
    finite = problem.unary if full else np.where(np.isneginf(problem.unary), np.inf, problem.unary)
    node = row_max(problem.unary) - row_min(finite)
    high, low = table_extremes(problem)
    edge = (high - low) * np.abs(problem.edge_weight)
    every = np.concatenate([node, edge, row_max(problem.cliques.weights), problem.factors.spreads])
    return every[every > 0]


def typical_spread(problem: Problem) -> float:
    """A low spread of a term (the tenth percentile of those that vary), times the number of terms that vary.

    Large terms, such as soft constraints of 1e9 on most edges, do not move it.
    """
    each = spreads(problem)
    return float(np.quantile(each, 0.1) * len(each)) if len(each) else 0.0


def resolution(problem: Problem) -> float:
    """Gap at which solvers need not go on, 1e-9 of the typical spread: a wish, not a verdict, which is `tolerance`'s."""
    problem = problem.__dict__.get("_given", problem)  # a lifted problem stands for the given one
    return RELATIVE * typical_spread(problem)


def tolerance(problem: Problem, labels: np.ndarray) -> float:
    """Gap up to which a labelling counts as optimal: 1e-9 of `variation`; none if all scores are whole numbers.

    That of a lifted problem (`core.factors.lifting`) is the one of the problem it stands for.
    """
    problem = problem.__dict__.get("_given", problem)
    labels = labels[: problem.n_nodes]
    if problem.step:
        return 0.0
    known = problem.__dict__.get("_variation")  # of the last labelling: searches and their certificates ask again and again
    if known is None or not np.array_equal(known[0], labels):
        known = problem.__dict__["_variation"] = labels.copy(), variation(problem, labels)
    return RELATIVE * float(known[1])


def variation(problem: Problem, labels: np.ndarray) -> float:
    r"""How much the score varies at a labelling, from what the labelling touches.

    For a term :math:`t` let :math:`d_t` be the distance of its value at the labelling from the nearest other finite value that the
    term has (of many, a twentieth may lie closer). With :math:`d` a low one of all :math:`d_t` (the least of 100 terms; of more, the twentieth
    part may be lower), taken for nodes, edges, cliques and factors apart and then the least, the variation is :math:`\sum_t \min(d_t, 100 d)`; or the same of the
    changes of the score when one node takes another label, if that is less (large terms may cancel). So a soft constraint of 1e14 that the labelling obeys, or a reward that it cannot reach, does not count as
    long as some terms distinguish labels by less: the size of such terms never excuses a gap.
    """
    nodes, edges = _sample(problem.n_nodes), _sample(problem.n_edges)
    u, v = labels[problem.graph.edges[edges]].T
    table, states = problem.edge_table[edges], problem.n_states[problem.graph.edges[edges]]
    label, near = np.arange(problem.n_labels), []
    for part in chunks(np.arange(len(edges)), problem.n_labels):
        own = (label[:, None] < states[part, 0, None, None]) & (label < states[part, 1, None, None])
        values = np.where(own, problem.tables[table[part]], np.inf).reshape(len(part), -1)
        near.append(_nearest(problem.tables[table[part], u[part], v[part]], values))
    weight = np.abs(problem.edge_weight[edges])
    at_edge = np.where(weight > 0, np.concatenate([*near, np.zeros(0)]), 0.0) * weight
    at_node = _nearest(problem.unary[nodes, labels[nodes]], problem.unary[nodes])
    weights = problem.cliques.weights
    at_clique = _nearest(problem.cliques.values(labels), np.hstack([weights, np.zeros((len(weights), 1))]))
    moves = [(_nearest(np.zeros(len(nodes)), _moves(problem, labels, nodes)), problem.n_nodes)]
    terms = [(at_node, problem.n_nodes), (at_edge, problem.n_edges), (at_clique, len(weights))]
    terms.append((_at_factors(problem, labels), len(problem.factors)))
    by_terms, by_moves = _sum_of_low(terms), _sum_of_low(moves)
    return min(by_terms, by_moves) if by_moves > 0 else by_terms  # hard constraints may forbid every move


def _at_factors(problem: Problem, labels: np.ndarray) -> np.ndarray:
    """Distance of the value of each factor, of a sample of them, from the nearest other score of its function."""
    factors = problem.factors
    if not len(factors):
        return np.zeros(0)
    some = _sample(len(factors))
    at = factors.values(labels)[some]
    found = np.zeros(len(some))
    number, alone = factors.number[some], np.ones(len(some), dtype=bool)
    for tables, numbers in factors.stacks:
        row = np.full(len(factors.functions), -1)
        row[numbers] = np.arange(len(numbers))
        mine = np.flatnonzero(row[number] >= 0)
        alone[mine] = False
        for part in np.array_split(mine, max(1, len(mine) * tables[0].size // _CACHED)):
            found[part] = _nearest(at[part], _once(tables[row[number[part]]].reshape(len(part), -1)))
    for own in np.unique(number[alone]).tolist():
        mine = np.flatnonzero(number == own)
        scores = np.unique(factors.functions[own].numbers)
        found[mine] = _nearest(at[mine], np.broadcast_to(scores, (len(mine), len(scores))))
    return found


def _once(values: np.ndarray) -> np.ndarray:
    """Rows in order, with inf in place of what is there before."""
    ordered = np.sort(values, axis=1)
    again = ordered[:, 1:] == ordered[:, :-1]
    if again.any():
        ordered[:, 1:][again] = np.inf
    return ordered


def _moves(problem: Problem, labels: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Change of the score (len(nodes), K) when one of the nodes takes another label, cliques left out: terms that cancel do so here."""
    change = problem.unary[nodes] - problem.unary[nodes, labels[nodes]][:, None]
    place = np.full(problem.n_nodes, -1)
    place[nodes] = np.arange(len(nodes))
    with np.errstate(invalid="ignore"):
        for side in (0, 1):
            some = np.flatnonzero(place[problem.graph.edges[:, side]] >= 0)
            own, other = problem.graph.edges[some, side], labels[problem.graph.edges[some, 1 - side]]
            tables = problem.tables.transpose(0, 2, 1) if side else problem.tables
            values = tables[problem.edge_table[some], :, other]
            at = values[np.arange(len(some)), labels[own]]
            np.add.at(change, place[own], (values - at[:, None]) * problem.edge_weight[some, None])
        if len(problem.factors):
            wanted = place >= 0
            change += problem.factors.moves(labels, problem.n_labels, problem.n_states, wanted=wanted)[nodes]
    return change


def _sum_of_low(kinds: list[tuple[np.ndarray, int]]) -> float:
    """Sum of all distances, none of them more than a hundred times a low one."""
    low, varying = np.inf, []
    for distance, count in kinds:
        some = distance[np.isfinite(distance) & (distance > 0)]
        if len(some):
            rank = int(_SHARE * max(0, len(some) - _ALL_BELOW))
            low = min(low, float(np.partition(some, rank)[rank]))
            varying.append((some, count / len(distance)))
    return float(sum(share * np.minimum(some, _MOST * low).sum() for some, share in varying))


def _sample(count: int) -> np.ndarray:
    """Evenly spaced numbers of at most `_SAMPLE` terms of ``count``."""
    return np.arange(count) if count <= _SAMPLE else np.linspace(0, count - 1, _SAMPLE).astype(np.int64)


def _nearest(at: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Distance of each ``at`` from the nearest finite number of its row of ``values`` that is another one, a twentieth of them left
    out; inf if there is none."""
    if not values.size:
        return np.full(len(at), np.inf)
    with np.errstate(invalid="ignore"):
        apart = np.abs(values - at[:, None])
    apart = np.where(apart > 0, apart, np.inf)
    left_out = (np.isfinite(apart).sum(axis=1) * _SHARE).astype(np.int64)
    if not left_out.any():
        return apart.min(axis=1)
    apart.partition(np.unique(left_out), axis=1)
    found: np.ndarray = apart[np.arange(len(apart)), left_out]
    return found


def vanishing(problem: Problem) -> float:
    """What products of a weight and a table entry lose below the smallest numbers, in all: 0 unless such products are that small."""
    memo = problem.__dict__.get("_vanishing")
    if memo is None:
        least = [
            np.abs(part[np.isfinite(part) & (part != 0)]).min(initial=1.0) for part in (problem.edge_weight, problem.tables)
        ]
        memo = _SMALLEST * problem.n_edges if least[0] * least[1] < _NORMAL / UNIT else 0.0
        problem.__dict__["_vanishing"] = memo
    return float(memo)


def step(problem: Problem) -> float:
    """1 if every score of the problem is a whole number (so that two labellings differ by 0 or at least 1), else 0.

    That of a lifted problem is the one of the problem it stands for: both have the same scores.
    """
    problem = problem.__dict__.get("_given", problem)
    if not _whole(problem.unary[:64]) or not _whole(problem.tables[:64]):
        return 0.0  # as most have it; all numbers are looked at only where a few say nothing
    arrays = (
        problem.edge_weight,
        problem.cliques.weights,
        problem.factors.numbers,
        problem.tables,
        problem.unary,
        np.array([problem.offset]),
    )
    return 1.0 if all(_whole(values) for values in arrays) else 0.0


def _whole(values: np.ndarray) -> bool:
    return bool((np.isneginf(values) | (values == np.floor(values))).all())


def score_rounding(problem: Problem, labels: np.ndarray) -> float:
    """By how much two ways to add up the score of a labelling may differ: a few units of the sum of the sizes it touches."""
    u, v = labels[problem.graph.edges].T
    node = problem.unary[np.arange(problem.n_nodes), labels]
    edge = problem.tables[problem.edge_table, u, v] * problem.edge_weight
    parts = (node, edge, problem.cliques.values(labels), problem.factors.values(labels))
    size = abs(problem.offset) + sum(float(np.abs(part).sum()) for part in parts)
    return UNIT * (8 + np.log2(2 + len(node) + len(edge) + len(problem.factors))) * size if np.isfinite(size) else 0.0
