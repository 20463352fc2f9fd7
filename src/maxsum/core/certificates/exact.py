"""Certificates in rational arithmetic: no rounding, so no rounding term.

A floating point number is a whole number times a power of two. With one power :math:`2^e` for all numbers of a problem and its
proof, every sum is a sum of Python integers. Integers are slow, so floating point finds the candidates first: an entry that lies
below a maximum by more than both can be off is never it, and one or two entries a term are left.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .dual import node_intervals
from .scale import UNIT, chunks, table_centres

if TYPE_CHECKING:
    from ..problem import Messages, Problem

_DIGITS = 53  # binary digits of a float's mantissa


def lowest_exponent(*arrays: Any) -> int:
    """The largest ``e <= 0`` for which every finite number is a whole multiple of ``2**e``."""
    lowest = 0
    for array in arrays:
        values = np.asarray(array, dtype=np.float64)
        values = values[np.isfinite(values) & (values != 0)]
        if values.size:
            mantissa, power = np.frexp(values)
            whole = np.abs(np.ldexp(mantissa, _DIGITS)).astype(np.int64)
            zeros = np.frexp((whole & -whole).astype(np.float64))[1] - 1  # at the end of the mantissa
            lowest = min(lowest, int((power - _DIGITS + zeros).min()))
    return lowest


def to_integers(values: Any, exponent: int) -> np.ndarray:
    """Object array of the integers ``values / 2**exponent``, rounded down; None for what is not finite."""
    array = np.asarray(values, dtype=np.float64)
    finite = np.isfinite(array)
    mantissa, power = np.frexp(array if finite.all() else np.where(finite, array, 0.0))
    shift = power.astype(np.int64) - _DIGITS - exponent
    whole = np.ldexp(mantissa, _DIGITS).astype(np.int64).astype(object) << np.maximum(shift, 0).astype(object)
    if (shift < 0).any():
        whole = whole >> np.maximum(-shift, 0).astype(object)
    if not finite.all():
        whole[~finite] = None
    return np.asarray(whole, dtype=object)


def to_float_up(value: Fraction) -> float:
    """The least floating point number that is not smaller."""
    near = float(value)
    return near if Fraction(near) >= value else float(np.nextafter(near, np.inf))


class ExactTerms:
    """The numbers of a problem, and of what its proof adds, as integers times one power of two.

    Parameters
    ----------
    problem : Problem
    more : arrays
        Numbers of the proof.
    """

    def __init__(self, problem: Problem, *more: Any):
        self.problem = problem
        self.weight_exponent = lowest_exponent(problem.edge_weight)
        self.table_exponent = lowest_exponent(problem.tables)
        others = lowest_exponent(problem.unary, problem.cliques.weights, problem.factors.numbers, problem.offset, *more)
        self.exponent = min(self.weight_exponent + self.table_exponent, others)
        self.unit = Fraction(2) ** self.exponent

    def integers(self, values: Any) -> np.ndarray:
        """Finite numbers as integers of the common unit."""
        return to_integers(values, self.exponent)

    def edge(self, edges: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Exact weighted table entries ``[first, second]`` of some edges; they are finite."""
        problem = self.problem
        table = to_integers(problem.tables[problem.edge_table[edges], first, second], self.table_exponent)
        weight = to_integers(problem.edge_weight[edges], self.weight_exponent)
        shift = self.weight_exponent + self.table_exponent - self.exponent
        return (table * weight) << shift

    def score(self, labels: np.ndarray) -> Fraction:
        """Exact score of a labelling; it is finite."""
        problem = self.problem
        u, v = labels[problem.graph.edges].T
        total = int(self.integers([problem.offset])[0])
        total += _sum(self.integers(problem.unary[np.arange(problem.n_nodes), labels]))
        total += _sum(self.edge(np.arange(problem.n_edges), u, v))
        total += _sum(self.integers(problem.cliques.values(labels)))
        total += _sum(self.integers(problem.factors.values(labels)))
        return total * self.unit


def exact_score(problem: Problem, labels: np.ndarray) -> Fraction:
    """Score of a labelling without rounding; its floating point score is finite."""
    return ExactTerms(problem).score(labels)


def exact_height(
    problem: Problem, messages: Messages, domain: np.ndarray, labels: np.ndarray | None
) -> tuple[Fraction | float, Fraction | float]:
    """The bound of messages over the labels of ``domain``, and the gap to a labelling (``nan`` without one), exactly.

    ``-inf`` if a node or an edge has nothing left; a gap of ``inf`` if the labelling lies outside.
    """
    found = exact_maxima(problem, messages, domain)
    if found is None:
        return float("-inf"), float("inf")
    terms, node, edge, clique, factor = found
    top = int(terms.integers([problem.offset])[0]) + _sum(node) + _sum(edge) + _sum(clique) + sum(factor)
    if labels is None:
        return top * terms.unit, float("nan")
    if not np.isfinite(problem.score(labels)) or not domain[np.arange(problem.n_nodes), labels].all():
        return float("inf"), float("inf")
    return top * terms.unit, top * terms.unit - terms.score(labels)


class Maxima(NamedTuple):
    """Exact maxima of all terms, as integers in the unit of ``terms``."""

    terms: ExactTerms
    node: np.ndarray
    edge: np.ndarray
    clique: np.ndarray
    factor: Any


def exact_maxima(problem: Problem, messages: Messages, domain: np.ndarray) -> Maxima | None:
    """The maximum of every term over the labels of ``domain``; None if a term has nothing left."""
    terms = ExactTerms(problem, *messages)
    if problem.n_nodes and not domain.any(axis=1).all():
        return None
    node = _node_maxima(terms, messages, domain)
    edge = _edge_maxima(terms, messages, domain)
    factor = problem.factors.exact_tops(messages.factor, domain, terms.integers)
    if edge is None or factor is None:
        return None
    return Maxima(terms, node, edge, _clique_maxima(terms, messages, domain), factor)


def _sum(values: np.ndarray) -> int:
    return int(sum(values.tolist()))


def _node_maxima(terms: ExactTerms, messages: Messages, domain: np.ndarray) -> np.ndarray:
    """Exact best reparametrised score of each node."""
    problem = terms.problem
    theta, error = node_intervals(problem, messages, domain)
    if not theta.size:
        return np.zeros(0, dtype=object)
    low = (theta - error).max(axis=1)
    node, label = np.nonzero(domain & (theta + error >= low[:, None]))
    value = terms.integers(problem.unary[node, label])
    # every message of a node belongs to each candidate of that node
    first = np.searchsorted(node, np.arange(problem.n_nodes + 1))
    ends = [problem.graph.edges[:, 0], problem.graph.edges[:, 1], problem.cliques.nodes, problem.factors.nodes]
    for at, part in zip(ends, (*messages.edge, messages.clique, messages.factor), strict=True):
        count = first[at + 1] - first[at]
        row = np.repeat(np.arange(len(at)), count)
        candidate = np.repeat(first[at], count) + (np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count))
        np.subtract.at(value, candidate, terms.integers(part[row, label[candidate]]))
    return np.maximum.reduceat(value, first[:-1])


def _edge_maxima(terms: ExactTerms, messages: Messages, domain: np.ndarray) -> np.ndarray | None:
    """Exact best reparametrised score of each edge; None if an edge has no pair of labels left."""
    problem = terms.problem
    found = []
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        u, v = problem.graph.edges[part].T
        first = np.where(domain[u], messages.edge[0, part], -np.inf)
        second = np.where(domain[v], messages.edge[1, part], -np.inf)
        table = problem.tables[problem.edge_table[part]] - table_centres(problem)[part, None, None]
        value = table * problem.edge_weight[part, None, None] + first[:, :, None] + second[:, None, :]
        value = value.reshape(len(part), -1)
        top = value.max(axis=1)
        if np.isneginf(top).any():
            return None
        size = np.abs(top) + sum(np.where(np.isfinite(m), np.abs(m), 0.0).max(axis=1) for m in (first, second))
        # an entry and the maximum are each off by at most 8 units of these sizes (see core.certificates.dual), and 1e-300 where numbers vanish
        edge, pair = np.nonzero(value >= (top - 32 * UNIT * size - 1e-300)[:, None])
        k, m = np.divmod(pair, problem.n_labels)
        exact = terms.edge(part[edge], k, m) + terms.integers(first[edge, k]) + terms.integers(second[edge, m])
        found.append(np.maximum.reduceat(exact, np.searchsorted(edge, np.arange(len(part)))))
    return np.concatenate(found) if found else np.zeros(0, dtype=object)


def _clique_maxima(terms: ExactTerms, messages: Messages, domain: np.ndarray) -> np.ndarray:
    """Exact best reparametrised score of each clique: without its reward, or with that of a label that all members have."""
    cliques = terms.problem.cliques
    best = np.zeros(len(cliques), dtype=object)
    for c in range(len(cliques)):
        rows = np.arange(cliques.ptr[c], cliques.ptr[c + 1])
        inside = domain[cliques.nodes[rows]]
        psi, weight = terms.integers(messages.clique[rows]), terms.integers(cliques.weights[c])
        apart = sum(max(row[own].tolist()) for row, own in zip(psi, inside, strict=True))
        together = [weight[k] + _sum(psi[:, k]) for k in np.flatnonzero(inside.all(axis=0))]
        best[c] = max([apart, *together])
    return best
