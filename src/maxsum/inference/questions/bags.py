r"""The one dynamic programme behind all exact answers: up the bags of an elimination order, and down again.

Bag ``i`` holds the node that is eliminated in step ``i``, :math:`v`, with its separator :math:`S`, and :math:`B_v` is the sum of all its
terms and of the messages that reach it (`BagSums` sums it up, terms of every kind). Upwards

.. math:: M_v(y_S) = \bigoplus_{y_v} B_v(y_v, y_S),\qquad \bigoplus = \max \text{ or } \log\sum\exp,

and :math:`C_v = B_v - M_v(y_S) \le 0` is what remains at the bag. The score is the sum of all :math:`C_v` and a constant, so that
downwards the best score with given labels in a bag is :math:`C_v` plus that of its separator in the bag above (for sums: the
probability is :math:`e^{C_v}` times that of the separator). A label, or a sample, of ``v`` is chosen from :math:`C_v` once those of
the separator are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.certificates.base import EliminationCertificate
from ...core.certificates.elimination_order import EliminationOrder
from ...core.certificates.scale import edge_centres, table_centres
from ...core.errors import InfeasibleError, UnsupportedProblemError
from ...core.factors.lifting import lift, unliftable
from ...core.problem import Problem
from ..exact.junction import narrow_order


@dataclass(frozen=True)
class Tuning:
    """Where exact answers end."""

    # Table entries of all bags together, 128 MB, of which two or three copies are kept: a 10 by 200 grid with two labels has
    # a quarter of it and takes a second; double the limit would double the worst time and memory.
    max_cells: int = 2**24


_TUNING = Tuning()

Reduce = Callable[[np.ndarray], np.ndarray]
"""From a bag to the message of its separator: over the first axis."""


def best(bag: np.ndarray) -> np.ndarray:
    """The maximum over the eliminated node."""
    return np.asarray(np.maximum.reduce(bag, axis=0))


def log_sum(bag: np.ndarray) -> np.ndarray:
    r""":math:`\log\sum\exp` over the eliminated node."""
    top = np.maximum.reduce(bag, axis=0)
    safe = np.where(top > -np.inf, top, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(safe + np.log(np.add.reduce(np.exp(bag - safe), axis=0)))


def exact_order(problem: Problem) -> EliminationOrder | None:
    """The order of exact answers, None where they would take too long: on forests and graphs of small width there is one."""
    return narrow_order(problem, _TUNING.max_cells)


def without_factors(problem: Problem) -> Problem:
    """The problem, or where it has factors that no order takes, the one with extra nodes in their place: it has the same sum over all
    labellings, as the labels of the extra nodes follow from those of the others, which come first."""
    if not len(problem.factors) or exact_order(problem) is not None:
        return problem
    if reason := unliftable(problem):
        raise UnsupportedProblemError(
            f"sums over labellings need small width, or factors that nodes and edges can express: this one {reason}. "
            "Condition on nodes of the factor, or split it."
        )
    try:
        return lift(problem).problem
    except InfeasibleError:
        raise InfeasibleError(
            "no labelling satisfies the hard constraints of the problem: arc consistency leaves a node without labels."
        ) from None


class BagSums:
    """For each bag the terms whose first eliminated node it has, then the messages that reach it, and their sum as an array of numpy."""

    def __init__(self, problem: Problem, order: EliminationOrder):
        self.problem, self.order = problem, order
        self.rank = np.empty(problem.n_nodes, dtype=np.int64)
        self.rank[list(order.nodes)] = np.arange(problem.n_nodes)
        top = problem.unary.max(axis=1, initial=-np.inf)
        self.unary = problem.unary - top[:, None]
        self.edges = self._edges()
        self.inbox: list[list[tuple[tuple[int, ...], np.ndarray]]] = [[] for _ in order.nodes]
        self.cliques: list[list[int]] = [[] for _ in order.nodes] if len(problem.cliques) else []
        for c in range(len(problem.cliques)):
            self.cliques[int(self.rank[problem.cliques.members(c)].min())].append(c)
        for nodes, function in problem.factors.items():  # as if another bag had sent it
            scope = tuple(nodes.tolist())
            table = function.dense(tuple(problem.n_states[nodes].tolist())) - function.centre
            order_of = sorted(range(len(scope)), key=scope.__getitem__)  # messages have their nodes in rising order
            self.inbox[int(self.rank[nodes].min())].append((tuple(sorted(scope)), table.transpose(order_of)))

    def _edges(self) -> list[list[tuple[int, int, bool]]]:
        """For each position of the order: edge, its other node, and whether the eliminated node is the second one."""
        edges = self.problem.graph.edges
        first, second = self.rank[edges[:, 0]], self.rank[edges[:, 1]]
        flip = second < first
        at, other = np.where(flip, second, first), np.where(flip, edges[:, 0], edges[:, 1])
        lists: list[list[tuple[int, int, bool]]] = [[] for _ in self.order.nodes]
        for e, (i, w, turned) in enumerate(zip(at.tolist(), other.tolist(), flip.tolist(), strict=True)):
            lists[i].append((e, w, turned))
        return lists

    def _bag(self, i: int, states: list[int], centre: list[float]) -> np.ndarray:
        """Sum of all that the ``i``-th bag holds, with the eliminated node's axis first; small terms first."""
        problem, v, separator = self.problem, self.order.nodes[i], self.order.separators[i]
        n, width = states[v], len(separator)
        ones = [1] * width
        values = self.unary[v, :n].reshape([n, *ones])
        for e, w, turned in self.edges[i]:
            shape = [n, *ones]
            shape[1 + separator.index(w)] = states[w]
            values = values + self._edge_table(e, turned, n, states[w], centre[e]).reshape(shape)
        for scope, message in self.inbox[i]:
            axis = scope.index(v)
            if axis:
                message = message.transpose([axis, *range(axis), *range(axis + 1, len(scope))])
            if len(scope) <= width:
                held = set(scope)
                message = message.reshape([n, *[states[w] if w in held else 1 for w in separator]])
            values = values + message
        if self.cliques and self.cliques[i]:
            values = np.array(np.broadcast_to(values, [n, *[states[w] for w in separator]]))
            for c in self.cliques[i]:
                members = set(problem.cliques.members(c).tolist())
                for k in range(min(states[w] for w in members)):
                    agree = tuple(k if w in members else slice(None) for w in separator)
                    values[(k, *agree)] += problem.cliques.weights[c, k]
        return values

    def _edge_table(self, e: int, turned: bool, n: int, n_other: int, centre: float) -> np.ndarray:
        problem = self.problem
        table = problem.tables[problem.edge_table[e]]
        table = table[:n_other, :n].T if turned else table[:n, :n_other]
        return (table - centre) * problem.edge_weight[e]


class BagTree(BagSums):
    """The dynamic programme of a problem along an order, after one pass upwards.

    Parameters
    ----------
    problem : Problem
    order : EliminationOrder
    reduce : callable
        `best` or `log_sum`.

    Attributes
    ----------
    total : numpy.longdouble
        The best score, or the logarithm of the sum of all exponentiated scores; ``-inf`` if every labelling is forbidden.
    rest : list of ndarray
        :math:`C_v` of each bag, axes as in ``axes``; what is impossible is ``-inf``. Not complete if ``total`` is ``-inf``.
    sent : list of ndarray
        :math:`M_v` of each bag, less its maximum.
    """

    def __init__(self, problem: Problem, order: EliminationOrder, reduce: Reduce):
        super().__init__(problem, order)
        states, centre = problem.n_states.tolist(), table_centres(problem).tolist()
        rank = self.rank.tolist()
        self.axes = [(v, *separator) for v, separator in zip(order.nodes, order.separators, strict=True)]
        self.above = [min((rank[w] for w in separator), default=-1) for separator in order.separators]
        self.rest: list[np.ndarray] = []
        self.sent: list[np.ndarray] = []
        top_of_nodes = problem.unary.max(axis=1, initial=-np.inf)
        self.total = np.longdouble(problem.offset) + top_of_nodes.sum(dtype=np.longdouble)
        self.total += edge_centres(problem).sum(dtype=np.longdouble) + problem.factors.centres.sum(dtype=np.longdouble)
        with np.errstate(invalid="ignore"):
            for i, separator in enumerate(order.separators):
                bag = self._bag(i, states, centre)
                message = reduce(bag)
                top = message.max()
                self.total += top
                if top == -np.inf:
                    return
                self.rest.append(bag - np.where(message > -np.inf, message, 0.0))
                message = message - top
                self.sent.append(message)
                if separator:
                    self.inbox[self.above[i]].append((separator, message))

    @property
    def feasible(self) -> bool:
        """Whether some labelling has a finite score."""
        return len(self.rest) == len(self.axes)

    def certificate(self) -> EliminationCertificate:
        """The proof of the best score, after a pass with `best`."""
        states = self.problem.n_states.tolist()
        missing = self.order.separators[len(self.sent) :]
        zeros = [np.broadcast_to(0.0, [states[w] for w in separator]) for separator in missing]
        return EliminationCertificate(self.order.nodes, self.order.separators, (*self.sent, *zeros))

    # ---- downwards ---------------------------------------------------------------------------------------------

    def max_beliefs(self) -> list[np.ndarray]:
        """For each bag the best score with given labels in it, less the best of all; after a pass with `best`."""
        found: list[np.ndarray] = list(self.rest)
        for i in range(len(found) - 1, -1, -1):
            if self.above[i] >= 0:
                found[i] = found[i] + self._to_separator(i, found[self.above[i]], np.maximum)
        return found

    def probabilities(self) -> list[np.ndarray]:
        """For each bag the probability of given labels in it; after a pass with `log_sum`."""
        found: list[np.ndarray] = [np.exp(bag) for bag in self.rest]
        for i in range(len(found) - 1, -1, -1):
            if self.above[i] >= 0:
                found[i] *= self._to_separator(i, found[self.above[i]], np.add)
        return found

    def _to_separator(self, i: int, table: np.ndarray, ufunc: np.ufunc) -> np.ndarray:
        """The table of the bag above, reduced to the separator of bag ``i``, whose axes are sorted by node."""
        axes, separator = self.axes[self.above[i]], self.order.separators[i]
        if len(separator) < len(axes):
            held = set(separator)
            table = ufunc.reduce(table, axis=tuple(place for place, w in enumerate(axes) if w not in held))
        first = separator.index(axes[0])
        return np.moveaxis(table, 0, first) if first else table

    def to_nodes(self, tables: list[np.ndarray], ufunc: np.ufunc, empty: float) -> np.ndarray:
        """Tables of all bags reduced to their nodes, shape (n_nodes, K), ``empty`` past the labels of a node."""
        found = np.full(self.problem.unary.shape, empty)
        for i, table in enumerate(tables):
            at = table if table.ndim == 1 else ufunc.reduce(table, axis=tuple(range(1, table.ndim)))
            found[self.axes[i][0], : len(at)] = at
        return found

    def to_edges(self, tables: list[np.ndarray], ufunc: np.ufunc, empty: float) -> np.ndarray:
        """Tables of all bags reduced to edges, shape (n_edges, K, K), ``empty`` past the labels of their nodes."""
        n_labels = self.problem.n_labels
        found = np.full((self.problem.n_edges, n_labels, n_labels), empty)
        for i, table in enumerate(tables):
            axes = self.axes[i]
            for e, w, turned in self.edges[i]:
                other = axes.index(w)
                kept = tuple(place for place in range(1, len(axes)) if place != other)
                at = ufunc.reduce(table, axis=kept) if kept else table
                at = at.T if turned else at
                found[e, : at.shape[0], : at.shape[1]] = at
        return found

    # ---- one labelling, or many, from the last node to the first ---------------------------------------------------

    def remaining(self, i: int, labels: np.ndarray) -> np.ndarray:
        """:math:`C_v` of bag ``i`` for the labels of its separator in each of several labellings (S, n_nodes), shape (n_states, S)."""
        separator = self.order.separators[i]
        if not separator:
            return np.broadcast_to(self.rest[i][:, None], (len(self.rest[i]), len(labels)))
        at: tuple[Any, ...] = (slice(None), *(labels[:, w] for w in separator))
        return self.rest[i][at]

    def draw(self, n_samples: int, random: np.random.Generator) -> np.ndarray:
        """Independent samples (n_samples, n_nodes), each with its probability; after a pass with `log_sum`."""
        labels = np.zeros((n_samples, self.problem.n_nodes), dtype=np.int32)
        for i in range(len(self.axes) - 1, -1, -1):
            chance = np.exp(self.remaining(i, labels))
            heap = np.add.accumulate(chance, axis=0)
            # The sum is 1 up to rounding; a draw that reaches it would be a label that is not there, or forbidden.
            threshold = np.minimum(random.random(n_samples) * heap[-1], np.nextafter(heap[-1], 0.0))
            labels[:, self.axes[i][0]] = np.add.reduce(heap <= threshold, axis=0)
        return labels
