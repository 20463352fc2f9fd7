"""Numbers that the check of a search decides by: evaluation of many boxes, in floats with their rounding, or in integers.

Arrays of boxes have the boxes last, (..., K, b).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...rows import row_max
from ..dual import own_labels
from ..exact import lowest_exponent, to_integers
from ..scale import edge_centres, table_centres
from .enumeration import enumerate_units, unit_bits
from .passes import CHUNK, HELD

if TYPE_CHECKING:
    from ...problem import Problem

_U = 2.0**-53  # unit of rounding: one operation is off by at most this share of its result
_MESSAGE_ROOM = 6  # binary digits by which messages may exceed the largest score before they are cut off


class Terms(NamedTuple):
    """Evaluation of some boxes. ``above`` is how far a box may lie above the labelling, ``by_label`` those of its labellings
    that have label ``k`` at ``v``; ``empty`` boxes hold no labelling. ``node`` and ``edge`` are the maxima that ``above`` is
    made of, ``value`` the node values that the maxima are taken over.
    """

    above: np.ndarray  # (b,)
    by_label: np.ndarray  # (N, K, b)
    empty: np.ndarray  # (b,)
    node: np.ndarray  # (N, b)
    edge: np.ndarray  # (E, b)
    value: np.ndarray  # (N, K, b)

    def pick(self, which: Any) -> Terms:
        """The evaluation of some of the boxes."""
        return Terms(*(part[..., which] for part in self))

    @staticmethod
    def join(some: list[Terms], order: np.ndarray) -> Terms:
        """One evaluation of several, their boxes in the given order."""
        return Terms(*(np.concatenate(field, axis=-1) for field in zip(*some, strict=True))).pick(order)


class Floats:
    """Evaluation in double precision, with what rounding could hide added to every maximum and taken from every value of the
    labelling. The errors are those of the numbers that matter: a huge term that is not a maximum costs nothing.
    """

    nothing = -np.inf
    low = -np.inf

    def __init__(self, problem: Problem, labels: np.ndarray | None):
        self.problem, self.labels = problem, labels
        self.n_edges, self.ends = problem.n_edges, ends_of(problem)
        top = row_max(np.where(own_labels(problem), problem.unary, -np.inf))
        self.centre = np.where(np.isneginf(top), 0.0, top)
        self.unary = np.where(own_labels(problem), problem.unary - self.centre[:, None], -np.inf)
        self.size = np.where(np.isneginf(self.unary), 0.0, np.abs(self.unary))
        self.degree = np.bincount(self.ends, minlength=problem.n_nodes)
        self.gather = Gather(self.ends, problem.n_nodes)
        self.table_centre = table_centres(problem)
        self.cached: np.ndarray | None = None

    def room(self, room: float) -> float:
        """The room that a box has, in these numbers."""
        return room

    def tables(self, part: slice) -> np.ndarray:
        """Centred tables of some edges, rounded up: the difference, the product and a sum each add half a unit."""
        if self.cached is None and self.n_edges * self.problem.n_labels**2 <= HELD:
            self.cached = self._tables(slice(0, self.n_edges))
        return self._tables(part) if self.cached is None else self.cached[part]

    def _tables(self, part: slice) -> np.ndarray:
        problem = self.problem
        table = problem.tables[problem.edge_table[part]] - self.table_centre[part, None, None]
        table = table * problem.edge_weight[part, None, None]
        with np.errstate(invalid="ignore"):
            return np.where(np.isfinite(table), table + 6 * _U * np.abs(table), -np.inf)

    def messages(self, messages: np.ndarray) -> np.ndarray:
        """Messages, rounded up."""
        return messages + 8 * _U * np.abs(messages)

    def terms(self, domain: np.ndarray, messages: np.ndarray) -> Terms:
        """Evaluate boxes: maxima are rounded up, values at the labelling down."""
        with np.errstate(invalid="ignore", over="ignore"):
            sizes = self.size[:, :, None] + self.gather(np.abs(messages))
            error = ((self.degree + 4) * _U)[:, None, None] * sizes
            plain = self.unary[:, :, None] - self.gather(messages)
            value = np.where(domain, plain + error, -np.inf)
            node = value.max(axis=1, initial=-np.inf)
            edge = edge_tops(self, domain, self.messages(messages))
            edge = _raised(edge)
            clique, clique_own = self.cliques(domain, messages)
            empty = np.isneginf(node).any(axis=0) | np.isneginf(edge).any(axis=0)
            parts = [node, edge, clique]
            if self.labels is not None:
                y, n = self.labels, np.arange(len(self.labels))
                parts[0] = node - (plain - error)[n, y]
                parts[1] = edge - self.edge_values(messages)
                parts[2] = clique - clique_own
            every = np.concatenate(parts)
            above = every.sum(axis=0) + (len(every) + 4) * _U * np.abs(every).sum(axis=0)
            above = np.where(np.isnan(above), np.inf, above)
            by_label = above - (node[:, None] - value)
            by_label = by_label + 4 * _U * (np.abs(by_label) + np.abs(above))
            by_label = np.where(np.isnan(by_label), np.inf, by_label)
        return Terms(above, by_label, empty, node, edge, value)

    def edge_values(self, messages: np.ndarray) -> np.ndarray:
        """Lower bounds (E, b) of the reparametrised edge scores at the labelling."""
        problem, y, e = self.problem, self.labels, np.arange(self.n_edges)
        assert y is not None
        u, v = y[problem.graph.edges[:, 0]], y[problem.graph.edges[:, 1]]
        table = (problem.tables[problem.edge_table, u, v] - self.table_centre) * problem.edge_weight
        first, second = messages[e, u], messages[self.n_edges + e, v]
        total = table[:, None] + first + second
        error = 6 * np.abs(table)[:, None] + 8 * np.abs(first) + 8 * np.abs(second) + 4 * np.abs(total)
        lower: np.ndarray = total - _U * error
        return lower

    def cliques(self, domain: np.ndarray, messages: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds of the maxima of the cliques, and lower bounds of their values at the labelling, (C, b)."""
        cliques, b = self.problem.cliques, domain.shape[2]
        if not len(cliques):
            return np.zeros((0, b)), np.zeros((0, b))
        mine = messages[2 * self.n_edges :]
        error = _clique_error(cliques, mine)
        top = clique_tops(cliques, np.where(domain[cliques.nodes], mine, -np.inf), cliques.weights)
        if self.labels is None:
            return top + error, np.zeros_like(top)
        own = np.add.reduceat(mine[np.arange(len(mine)), self.labels[cliques.nodes]], cliques.ptr[:-1], axis=0)
        return top + error, own + cliques.values(self.labels)[:, None] - error

    def bound(self, above: float) -> float:
        """The bound on scores that ``above`` means, rounded up; without a labelling it is ``above`` the centres."""
        if self.labels is not None or not np.isfinite(above):
            return above
        parts = (np.array([above, self.problem.offset]), self.centre, edge_centres(self.problem))
        total = sum(part.sum(dtype=np.longdouble) for part in parts)
        sizes = sum(np.abs(part).sum(dtype=np.longdouble) for part in parts)
        return float(np.nextafter(float(total + 4 * _U * sizes), np.inf))

    def enumerate(self, domain: np.ndarray, messages: np.ndarray, terms: Terms, room: float, limit: int) -> float:
        """How far the box may lie above the labelling when its labellings are tried, at most ``limit`` partial ones."""
        above = float(terms.above[0])
        if not np.isfinite(above):
            return above
        up = self.messages(messages)
        value, top = terms.value[..., 0], terms.node[:, 0]
        wanted = above - room
        bits = unit_bits(self.problem, wanted, room)
        unit = max(wanted / 2.0**bits, 5e-324) if room > -np.inf else 1.0  # denormal numbers: not 0

        def units(loss: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore", over="ignore"):
                counted = np.floor(loss * (1 - 16 * _U) / unit) if room > -np.inf else np.isposinf(loss).astype(float)
            most = 2.0**bits + 1 if room > -np.inf else 1.0
            return np.where(loss > 0, np.minimum(counted, most), 0.0).astype(np.int64)

        score = (up[: self.n_edges, :, None] + self.tables(slice(0, self.n_edges))) + up[self.n_edges :, None]
        edge = units(terms.edge[:, :1, None] - _raised(score))
        node = units(top[:, None] - np.where(domain, value, -np.inf))
        needed = (1 << bits) + 1 if room > -np.inf else 1
        least = enumerate_units(self.problem, domain, node, edge, needed, limit)
        if room == -np.inf:
            return -np.inf if least >= 1 else above
        return float(np.nextafter(above - least * unit + 4 * _U * abs(above), np.inf))


def _raised(total: np.ndarray) -> np.ndarray:
    """Upper bounds of sums, the last rounding included; ``-inf`` stays."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(total), total, total + 4 * _U * np.abs(total))


def ends_of(problem: Problem) -> np.ndarray:
    """Node of each message: first ends of the edges, second ends, members of cliques."""
    return np.concatenate([problem.graph.edges[:, 0], problem.graph.edges[:, 1], problem.cliques.nodes])


class Gather:
    """Sum of the messages at each node."""

    def __init__(self, ends: np.ndarray, n_nodes: int):
        self.order = np.argsort(ends, kind="stable")
        self.nodes, self.starts = np.unique(ends[self.order], return_index=True)
        self.n_nodes = n_nodes

    def __call__(self, messages: np.ndarray) -> np.ndarray:
        total = np.zeros((self.n_nodes, *messages.shape[1:]), dtype=messages.dtype)
        if len(self.nodes):
            total[self.nodes] = np.add.reduceat(messages[self.order], self.starts, axis=0)
        return total


def edge_tops(number: Any, domain: np.ndarray, messages: np.ndarray) -> np.ndarray:
    """Maximum (E, b) of each reparametrised table inside each box."""
    edges, n_edges, k, n_boxes = number.problem.graph.edges, number.n_edges, domain.shape[1], domain.shape[2]
    top = np.empty((n_edges, n_boxes), dtype=messages.dtype)
    n_at_once = max(1, CHUNK // max(1, k * k * n_boxes))
    for at in range(0, n_edges, n_at_once):
        part, back = slice(at, at + n_at_once), slice(n_edges + at, n_edges + min(at + n_at_once, n_edges))
        u, v = edges[part].T
        first = np.where(domain[u], messages[at : min(at + n_at_once, n_edges)], number.low)
        second = np.where(domain[v], messages[back], number.low)
        best = (first[:, :, None] + number.tables(slice(at, min(at + n_at_once, n_edges)))[..., None]).max(axis=1)
        top[part] = (best + second).max(axis=1)
    return top


def clique_tops(cliques: Any, psi: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Maximum of each clique: the larger of the best without the reward, and the best with it."""
    apart = np.add.reduceat(psi.max(axis=1), cliques.ptr[:-1], axis=0)
    together = (weights[:, :, None] + np.add.reduceat(psi, cliques.ptr[:-1], axis=0)).max(axis=1)
    return np.maximum(apart, together)


def _clique_error(cliques: Any, messages: np.ndarray) -> np.ndarray:
    sizes = (
        np.add.reduceat(np.abs(messages).max(axis=1), cliques.ptr[:-1], axis=0) + np.abs(cliques.weights).max(axis=1)[:, None]
    )
    error: np.ndarray = ((np.diff(cliques.ptr) + 4) * _U)[:, None] * sizes
    return error


class Integers:
    """Evaluation with integers, in units of a power of two of which every score is a multiple: nothing is rounded.

    They are machine integers where all sums fit, Python's otherwise. Messages, which may be any numbers, are rounded to the unit.
    """

    nothing = -np.inf

    def __init__(self, problem: Problem, labels: np.ndarray | None):
        self.problem, self.labels, self.n_edges, self.ends = problem, labels, problem.n_edges, ends_of(problem)
        self.gather = Gather(self.ends, problem.n_nodes)
        table_exponent, weight_exponent = lowest_exponent(problem.tables), lowest_exponent(problem.edge_weight)
        cliques = problem.cliques
        own = own_labels(problem)
        exponent = min(table_exponent + weight_exponent, lowest_exponent(problem.unary[own], cliques.weights))
        largest = max((_largest(a) for a in (problem.unary[own], cliques.weights)), default=0.0)
        largest = max(largest, _largest(problem.tables) * _largest(problem.edge_weight), 2.0**-900)
        degree = int(np.bincount(self.ends, minlength=1).max(initial=0))
        spare = 57 - (problem.n_nodes + self.n_edges + len(cliques) + degree).bit_length()
        # messages get the digits that the scores leave, and may be larger than those
        self.exponent = min(exponent, math.frexp(largest)[1] - spare + _MESSAGE_ROOM)
        self.most = 1 << spare
        fits = math.frexp(largest)[1] - self.exponent < spare and not len(cliques)
        self.dtype: Any = np.int64 if fits else object
        self.low = -(1 << 60) if fits else -(1 << (abs(self.exponent) + max(0, math.frexp(largest)[1]) + 4096))
        self.unary = self._array(np.where(own, problem.unary, -np.inf), self.exponent)
        # weight * table, exactly
        kinds = [to_integers(part, e) for part, e in ((problem.tables, table_exponent), (problem.edge_weight, weight_exponent))]
        shift = table_exponent + weight_exponent - self.exponent
        self.kinds, self.weights, self.shift = kinds[0], kinds[1], shift
        self.clique_weights = self._array(cliques.weights, self.exponent)
        self.cached: dict[int, np.ndarray] = {}
        self.all_tables: np.ndarray | None = None

    def _array(self, array: np.ndarray, exponent: int) -> np.ndarray:
        return self._sealed(to_integers(array, exponent))

    def _sealed(self, whole: np.ndarray) -> np.ndarray:
        out = np.empty(whole.shape, dtype=self.dtype)
        flat = [self.low if x is None else x for x in whole.ravel().tolist()]
        out.ravel()[:] = flat if self.dtype is object else np.array(flat, dtype=np.int64)
        return out

    def room(self, room: float) -> Any:
        """The room that a box has, in units, rounded down."""
        return room if np.isinf(room) else math.floor(Fraction(room) / Fraction(2) ** self.exponent)

    def _table(self, e: int) -> np.ndarray:
        if e not in self.cached:
            weight, kind = self.weights[e], self.kinds[self.problem.edge_table[e]]
            flat = [None if x is None else (x * weight) << self.shift for x in kind.ravel().tolist()]
            whole = np.empty(len(flat), dtype=object)
            whole[:] = flat
            self.cached[e] = self._sealed(whole.reshape(kind.shape))
        return self.cached[e]

    def tables(self, part: slice) -> np.ndarray:
        """Tables of some edges in units, exactly."""
        if part.stop - part.start == self.n_edges:
            if self.all_tables is None:
                self.all_tables = np.stack([self._table(e) for e in range(self.n_edges)])
            return self.all_tables
        return np.stack([self._table(e) for e in range(part.start, part.stop)])

    def messages(self, messages: np.ndarray) -> np.ndarray:
        """Messages in units: exactly, or rounded and cut off where units are int64."""
        if self.dtype is object:
            return self._sealed(to_integers(messages, self.exponent))
        with np.errstate(over="ignore"):
            scaled = np.rint(np.ldexp(messages, -self.exponent))
        return np.clip(scaled, -float(self.most), float(self.most)).astype(np.int64)

    def terms(self, domain: np.ndarray, messages: np.ndarray) -> Terms:
        """Evaluate boxes exactly."""
        whole = self.messages(messages)
        plain = self.unary[:, :, None] - self.gather(whole)
        value = np.where(domain, plain, self.low)
        node, nothing = value.max(axis=1), np.zeros((0, domain.shape[2]), dtype=self.dtype)
        edge = edge_tops(self, domain, whole) if self.n_edges else nothing
        clique = nothing
        mine, cliques = whole[2 * self.n_edges :], self.problem.cliques
        if len(cliques):
            clique = clique_tops(cliques, np.where(domain[cliques.nodes], mine, self.low), self.clique_weights)
        empty = ((node <= self.low // 2).any(axis=0) | (edge <= self.low // 2).any(axis=0)).astype(bool)
        above = node.sum(axis=0) + edge.sum(axis=0) + clique.sum(axis=0)
        if self.labels is not None:
            y, e = self.labels, np.arange(self.n_edges)
            above = above - plain[np.arange(len(y)), y].sum(axis=0)
            if self.n_edges:
                u, v = y[self.problem.graph.edges[:, 0]], y[self.problem.graph.edges[:, 1]]
                table = np.array([self._table(i)[u[i], v[i]] for i in range(self.n_edges)], dtype=self.dtype)
                above = above - (table[:, None] + whole[e, u] + whole[self.n_edges + e, v]).sum(axis=0)
            if len(cliques):
                own = mine[np.arange(len(mine)), y[cliques.nodes]].sum(axis=0)
                above = above - own - self._array(cliques.values(y), self.exponent).sum()
        by_label = above - (node[:, None] - value)
        return Terms(above, by_label, empty, node, edge, value)

    def bound(self, above: Any) -> float:
        """The bound on scores that ``above`` units mean: the next float that is not smaller."""
        if above == -np.inf:
            return -np.inf
        exact = Fraction(int(above)) * Fraction(2) ** self.exponent
        if self.labels is None:
            exact += Fraction(self.problem.offset)
        nearest = float(exact)
        return nearest if Fraction(nearest) >= exact else float(np.nextafter(nearest, np.inf))

    def enumerate(self, domain: np.ndarray, messages: np.ndarray, terms: Terms, room: float, limit: int) -> Any:
        """How far the box may lie above the labelling, in units, when at most ``limit`` partial labellings are tried."""
        above, whole = int(terms.above[0]), self.messages(messages)
        wanted = above - self.room(room) if room > -np.inf else 1
        shift = max(0, int(wanted).bit_length() - 60)  # their ratio alone counts: floats hold neither 2**1074 nor its inverse
        relative = room
        if room > -np.inf:
            relative = float(min(Fraction(room) / Fraction(2) ** (self.exponent + shift), Fraction(1 << 900)))
        bits = unit_bits(self.problem, float(wanted >> shift), relative)
        unit = max(1, wanted >> bits) if room > -np.inf else -self.low // 4
        needed = -(-wanted // unit)

        def units(loss: np.ndarray) -> np.ndarray:
            return np.clip(loss // unit, 0, needed).astype(np.int64)

        score = (whole[: self.n_edges, :, None] + self.tables(slice(0, self.n_edges))) + whole[self.n_edges :, None]
        edge = units(terms.edge[:, :1, None] - score)
        node = units(terms.node - np.where(domain, terms.value[..., 0], self.low))
        least = enumerate_units(self.problem, domain, node, edge, needed, limit)
        if room == -np.inf:
            return -np.inf if least >= 1 else above
        return above - least * unit


def _largest(array: np.ndarray) -> float:
    return float(np.abs(np.where(np.isfinite(array), array, 0.0)).max(initial=0.0))
