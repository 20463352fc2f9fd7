"""Certificates: proofs of a bound that can be checked without trusting the solver.

Four forms, all valid *whatever their numbers are* (a wrong number only loosens the bound):

- `MessageCertificate`: edge and clique messages; the bound is the height of the reparametrised problem.
- `EliminationCertificate`: separator tables of a junction tree.
- `core.search_certificate.SearchCertificate`: a branching tree.
- `core.qp_certificate.QPCertificate`: a point of the concave quadratic relaxation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .dual import edge_centres, height, own_labels, slack, table_centres
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


def __getattr__(name: str) -> Any:
    if name == "SearchCertificate":  # it lives in a file of its own, which needs the base class from here
        from .search_certificate import SearchCertificate

        return SearchCertificate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
