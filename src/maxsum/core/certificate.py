"""Certificates: proofs of a bound that can be checked without trusting the solver.

Four forms, all valid *whatever their numbers are* (a wrong number only loosens the bound):

- `MessageCertificate`: edge and clique messages; the bound is the height of the reparametrised problem.
- `EliminationCertificate`: separator tables of a junction tree.
- `SearchCertificate`: a branching tree with messages at its boxes.
- `core.qp_certificate.QPCertificate`: a point of the concave quadratic relaxation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .dual import arc_consistent, edge_centres, excess, height, own_labels, slack, table_centres
from .errors import CertificateError, MaxsumError
from .validation import as_labels

if TYPE_CHECKING:
    from .problem import Messages, Problem


@dataclass(frozen=True)
class Verification:
    """What a certificate proves, recomputed.

    Attributes
    ----------
    score : float
        Score of the labelling; ``-inf`` if none was given.
    bound : float
        Proven upper bound; ``-inf`` proves infeasibility.
    gap : float
        Proven distance of the labelling from the optimum.
    optimal, infeasible : bool
    """

    score: float
    bound: float
    gap: float
    optimal: bool
    infeasible: bool

    def __str__(self) -> str:
        if self.infeasible:
            return "verified: the problem is infeasible"
        proof = "optimal" if self.optimal else f"within {self.gap:.6g} of the optimum"
        return f"verified: score {self.score:.10g}, bound {self.bound:.10g}, {proof}"


class Certificate(ABC):
    """Proof of an upper bound."""

    @abstractmethod
    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> tuple[float, float]:
        """Bound, and gap to the labelling (``nan`` without one), recomputed in plain numpy."""

    def bound(self, problem: Problem) -> float:
        """The upper bound that the certificate proves."""
        return self.evaluate(problem, None)[0]

    def verify(
        self, problem: Problem, labels: Any = None, score: float | None = None, bound: float | None = None
    ) -> Verification:
        """Recompute what is proven, and compare it with what was claimed.

        Parameters
        ----------
        labels : array-like of int, optional
            The labelling to judge.
        score, bound : float, optional
            Claims; `CertificateError` is raised if they do not hold (up to 1e-9, relative to the numbers, plus
            `Problem.resolution`).

        Notes
        -----
        If all scores are whole numbers (`Problem.step`), bound and gap are rounded down accordingly.
        """
        y = None if labels is None else as_labels(labels, problem.n_states)
        found = -np.inf if y is None else problem.score(y)
        try:
            upper, gap = self.evaluate(problem, y)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError) as error:
            if isinstance(error, MaxsumError):
                raise
            raise CertificateError(f"the certificate is malformed: {error}.") from error
        infeasible = bool(np.isneginf(upper))
        if infeasible and np.isfinite(found):
            raise CertificateError(f"the certificate says infeasible, but the labelling has the score {found}.")
        if np.isfinite(found):
            if gap < -problem.resolution:
                raise CertificateError(f"the bound {upper} lies below the score {found} of the labelling.")
            gap = max(problem.round_gap(gap), 0.0)
            upper = min(upper, found + gap)
        elif problem.step and np.isfinite(upper):
            upper = float(np.floor(upper + problem.resolution))
        room = problem.resolution + 1e-9 * max((abs(x) for x in (found, upper) if np.isfinite(x)), default=0.0)
        if score is not None and not _agree(score, found, room):
            raise CertificateError(f"the claimed score is {score}, but the labelling has {found}.")
        if bound is not None and not upper <= bound + room:
            raise CertificateError(f"the claimed bound is {bound}, but the certificate proves only {upper}.")
        optimal = bool(np.isfinite(found) and gap <= problem.resolution)
        return Verification(found, upper, gap if np.isfinite(found) else np.inf, optimal, infeasible)


def _agree(a: float, b: float, room: float) -> bool:
    return a == b or abs(a - b) <= room


@dataclass(frozen=True, eq=False, repr=False)
class MessageCertificate(Certificate):
    """Messages whose height (`Problem.bound`) is the bound."""

    messages: Messages

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> tuple[float, float]:
        messages = problem.as_messages(self.messages)
        if labels is None:
            return height(problem, messages), np.nan
        terms = slack(problem, messages, labels)
        return terms.bound, terms.gap


@dataclass(frozen=True, eq=False, repr=False)
class EliminationCertificate(Certificate):
    """Separator tables of a junction tree.

    Bag ``i`` is node ``nodes[i]`` with its separator ``separators[i]``, nodes that come later in the order. It holds every
    term whose first eliminated node is ``nodes[i]``, gains the tables of the bags that were sent to it, and loses its own
    ``tables[i]`` (over the separator), which goes to the bag of the separator's first eliminated node; the table of an empty
    separator goes nowhere and is not used. The bound is the sum of the maxima of all bags.

    A table may hold ``-inf`` where its bag is impossible. Elsewhere ``-inf`` would be a lie; it makes the bound ``inf``.
    """

    nodes: tuple[int, ...]
    separators: tuple[tuple[int, ...], ...]
    tables: tuple[np.ndarray, ...]

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> tuple[float, float]:
        rank = self._ranks(problem)
        inbox: list[list[tuple[tuple[int, ...], np.ndarray]]] = [[] for _ in self.nodes]
        for scope, table in _centred_terms(problem):
            inbox[min(rank[v] for v in scope)].append((scope, table))
        total, gap, error = np.longdouble(0.0), 0.0, 0.0
        for i, v in enumerate(self.nodes):
            bag = (v, *self.separators[i])
            values = self._bag(problem, bag, inbox[i])
            error += _rounding([table for _, table in inbox[i]] + [np.asarray(self.tables[i], dtype=float)] * (len(bag) > 1))
            if len(bag) > 1:
                own = _separator_table(self.tables[i], values.shape[1:], v)
                inbox[min(rank[w] for w in bag[1:])].append((bag[1:], own))
                impossible = np.isneginf(values)
                with np.errstate(invalid="ignore", over="ignore"):
                    values = np.where(impossible, -np.inf, values - own[None])
                if np.isneginf(values[~impossible]).any():
                    return np.inf, np.inf
            best = values.max()
            if np.isposinf(best):
                return np.inf, np.inf
            if np.isneginf(best):
                return -np.inf, np.inf
            total += best
            if labels is not None:
                gap += float(best - values[tuple(labels[w] for w in bag)])
        if error > problem.resolution:
            total, gap = total + error, gap + error
        if labels is not None:
            return (problem.score(labels) + gap if np.isfinite(gap) else np.inf), gap
        centre = np.where(own_labels(problem), problem.unary, -np.inf).max(axis=1, initial=-np.inf)
        total += centre.sum(dtype=np.longdouble) + edge_centres(problem).sum(dtype=np.longdouble)
        return float(total + np.longdouble(problem.offset)), np.nan

    def _ranks(self, problem: Problem) -> dict[int, int]:
        """Position of each node in the order, once the order and the separators are known to be sound."""
        n = problem.n_nodes
        if sorted(self.nodes) != list(range(n)) or len(self.separators) != n or len(self.tables) != n:
            raise CertificateError("the elimination order does not list every node once, with a separator and a table.")
        rank = {v: i for i, v in enumerate(self.nodes)}
        for i, separator in enumerate(self.separators):
            if len(set(separator)) != len(separator) or any(rank.get(w, -1) <= i for w in separator):
                at = f"the separator {separator} of node {self.nodes[i]}"
                raise CertificateError(f"{at} does not list nodes that come later, each once.")
        return rank

    @staticmethod
    def _bag(problem: Problem, bag: tuple[int, ...], inbox: list[tuple[tuple[int, ...], np.ndarray]]) -> np.ndarray:
        """Sum of the terms and tables of a bag, one axis per node."""
        values = np.zeros([int(problem.n_states[w]) for w in bag])
        for scope, table in inbox:
            if not set(scope) <= set(bag):
                raise CertificateError(f"the bag of node {bag[0]} does not hold the term on nodes {scope}.")
            values += _spread_axes(table, scope, bag)
        return values


def _rounding(tables: list[np.ndarray]) -> float:
    """Error of the sum of some tables: at most as many units as there are of the sum of their sizes."""
    sizes = [float(np.abs(table[np.isfinite(table)]).max(initial=0.0)) for table in tables]
    return float(np.finfo(float).eps) * len(sizes) * sum(sizes)


def _separator_table(table: Any, shape: tuple[int, ...], v: int) -> np.ndarray:
    own = np.asarray(table)
    if own.shape != shape or own.dtype.kind != "f" or np.isnan(own).any() or np.isposinf(own).any():
        raise CertificateError(f"the separator table of node {v} is not a table of shape {shape} of numbers below inf.")
    return own


def _centred_terms(problem: Problem) -> list[tuple[tuple[int, ...], np.ndarray]]:
    """Scope and table of every term, centred as in `core.dual`."""
    states = problem.n_states
    terms: list[tuple[tuple[int, ...], np.ndarray]] = []
    for v in range(problem.n_nodes):
        row = problem.unary[v, : states[v]]
        terms.append(((v,), row - row.max()))
    centre = table_centres(problem)
    for e, (u, v) in enumerate(problem.graph.edges.tolist()):
        table = problem.tables[problem.edge_table[e], : states[u], : states[v]] - centre[e]
        terms.append(((u, v), table * problem.edge_weight[e]))
    for c in range(len(problem.cliques)):
        scope = tuple(problem.cliques.members(c).tolist())
        table = np.zeros([states[v] for v in scope])
        for k in range(min(table.shape)):
            table[(k,) * len(scope)] = problem.cliques.weights[c, k]
        terms.append((scope, table))
    return terms


def _spread_axes(table: np.ndarray, scope: tuple[int, ...], bag: tuple[int, ...]) -> np.ndarray:
    """View of a table over ``scope`` that broadcasts against tables over ``bag``."""
    order = sorted(range(len(scope)), key=lambda i: bag.index(scope[i]))
    shape = [1] * len(bag)
    for i in order:
        shape[bag.index(scope[i])] = table.shape[i]
    return table.transpose(order).reshape(shape)


@dataclass(frozen=True, eq=False, repr=False)
class SearchCertificate(Certificate):
    """A branching tree. Every box is closed by its own messages, by propagation, or by its children.

    Box 0 is the whole problem. Box ``i > 0`` is its parent's box, restricted to labels ``y`` of ``node[i]`` for which
    ``y != label[i]``, ``y == label[i]``, ``y < label[i]`` or ``y >= label[i]``, as ``relation[i]`` is 0, 1, 2 or 3.
    ``message_set[i]`` is the number of its messages. Before a box is judged, labels that cannot beat the known labelling,
    by arc consistency or by the box's messages, are removed from it again and again.

    Message set ``s`` is stored sparsely: entry ``index[j]`` of the edge messages and, after them, the clique messages,
    all laid out flat, is ``value[j]`` for ``ptr[s] <= j < ptr[s + 1]``; the others are 0.
    """

    parent: np.ndarray
    node: np.ndarray
    label: np.ndarray
    relation: np.ndarray
    message_set: np.ndarray
    ptr: np.ndarray
    index: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.parent)

    def _children(self, problem: Problem) -> list[list[int]]:
        """Children of each box, once all numbers are known to be in range."""
        n_boxes, n_sets = len(self), len(self.ptr) - 1
        sizes = {len(a) for a in (self.node, self.label, self.relation, self.message_set)}
        n_entries = 2 * problem.n_edges * problem.n_labels + problem.cliques.n_members * problem.n_labels
        inside = (
            n_boxes > 0
            and sizes == {n_boxes}
            and _within(self.node[1:], 0, problem.n_nodes)
            and _within(self.relation, 0, 4)
            and _within(self.message_set, 0, n_sets)
            and _within(self.index, 0, n_entries)
            and len(self.index) == len(self.value)
            and n_sets >= 0
            and bool((np.diff(self.ptr) >= 0).all())
            and self.ptr[0] >= 0
            and self.ptr[-1] <= len(self.index)
        )
        if not inside:
            raise CertificateError("the search record has no boxes, or numbers out of range.")
        children: list[list[int]] = [[] for _ in range(n_boxes)]
        for i in range(1, n_boxes):
            if not 0 <= self.parent[i] < i:
                raise CertificateError(f"box {i} of the search comes before its parent {self.parent[i]}.")
            children[self.parent[i]].append(i)
        return children

    def kept(self, box: int, n_labels: int) -> np.ndarray:
        """Mask of the labels that the box leaves to its node."""
        y, label = np.arange(n_labels), self.label[box]
        return (y != label, y == label, y < label, y >= label)[int(self.relation[box])]

    def unpack(self, problem: Problem, number: int) -> Messages:
        """Messages of one set."""
        edge, clique = problem.zero_messages()
        flat = np.zeros(edge.size + clique.size)
        part = slice(self.ptr[number], self.ptr[number + 1])
        flat[self.index[part]] = self.value[part]
        return problem.as_messages((flat[: edge.size].reshape(edge.shape), flat[edge.size :].reshape(clique.shape)))

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> tuple[float, float]:
        children = self._children(problem)
        known = labels if labels is not None and np.isfinite(problem.score(labels)) else None
        score = -np.inf if known is None else problem.score(known)
        stack = [(0, own_labels(problem))]
        gap, upper = 0.0, -np.inf
        while stack:
            i, domain = stack.pop()
            messages = self.unpack(problem, int(self.message_set[i]))
            domain, above = _propagate(problem, messages, domain, known)
            if above is None:
                continue
            if _covers(self, children[i], domain):
                for child in children[i]:
                    allowed = domain.copy()
                    allowed[self.node[child]] &= self.kept(child, problem.n_labels)
                    stack.append((child, allowed))
            elif known is None:
                upper = max(upper, height(problem, messages, domain))
            else:
                gap = max(gap, above)
        if known is None:
            return upper, np.nan if labels is None else np.inf
        return score + gap, gap


def _within(numbers: np.ndarray, low: int, high: int) -> bool:
    return bool(((numbers >= low) & (numbers < high)).all())


def _propagate(
    problem: Problem, messages: Messages, domain: np.ndarray, known: np.ndarray | None
) -> tuple[np.ndarray, float | None]:
    """Shrink a box; returns it with the excess over the known labelling, None if the box is closed."""
    while True:
        domain = arc_consistent(problem, domain)
        if not domain.any(axis=1).all():
            return domain, None
        if known is None:
            return domain, np.inf
        above, loss = excess(problem, messages, domain, known)
        room = max(problem.resolution, problem.step - 2 * problem.resolution)
        if above <= room:
            return domain, None
        worse = domain & (above - loss <= room)
        if not worse.any():
            return domain, above
        domain = domain & ~worse


def _covers(tree: SearchCertificate, children: list[int], domain: np.ndarray) -> bool:
    """Whether the children, all branching on one node, leave out no label of the box."""
    if not children:
        return False
    v = tree.node[children[0]]
    if any(tree.node[c] != v for c in children):
        return False
    met = np.any([tree.kept(c, domain.shape[1]) for c in children], axis=0)
    return bool((met | ~domain[v]).all())
