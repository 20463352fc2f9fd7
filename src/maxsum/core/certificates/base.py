"""Certificates: proofs of a bound that can be checked without trusting the solver.

Forms, all valid *whatever their numbers are* (a wrong number only loosens the bound):

- `MessageCertificate`: messages of edges, cliques and factors; the bound is the height of the reparametrised problem.
- `core.certificates.cycles.CycleCertificate`: messages, and cycles of edges as clusters.
- `EliminationCertificate`: separator tables of a junction tree.
- `core.certificates.search.SearchCertificate`: a branching tree.
- `core.certificates.quadratic.QPCertificate`: a point of the concave quadratic relaxation.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import CertificateError, MaxsumError
from ..result import Guarantee
from ..validation import LARGEST, as_labels
from .dual import arc_consistent, height, own_labels, raised_score, slack, sum_up, up
from .exact import ExactTerms, exact_height, to_float_up
from .scale import UNIT, chunks, edge_centres, score_rounding, table_centres, tolerance

if TYPE_CHECKING:
    from ..problem import Messages, Problem


_WHOLE = 2**53
"""Whole numbers below this are themselves in floating point, and so are their sums."""

_MOST_CELLS = 2**27
"""Entries of a factor that an elimination may write as a table: 1 GB."""


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
        Proven distance of the labelling from the optimum, with all that rounding could hide.
    optimal, infeasible : bool
    exact : bool
        Whether rational arithmetic was needed, or asked for.
    """

    score: float
    bound: float
    gap: float
    optimal: bool
    infeasible: bool
    exact: bool = False

    @property
    def guarantee(self) -> Guarantee:
        """The strongest word that the proof allows."""
        if self.infeasible:
            return Guarantee.infeasible
        if np.isneginf(self.score):
            return Guarantee.upper_bound if np.isfinite(self.bound) else Guarantee.none
        if self.optimal:
            return Guarantee.optimal
        return Guarantee.within_gap if np.isfinite(self.gap) else Guarantee.feasible

    def __str__(self) -> str:
        if self.infeasible:
            return "verified: the problem is infeasible"
        proof = "optimal" if self.optimal else f"within {self.gap:.6g} of the optimum"
        arithmetic = " (exact arithmetic)" if self.exact else ""
        return f"verified: score {self.score:.10g}, bound {self.bound:.10g}, {proof}{arithmetic}"


class Evaluation(NamedTuple):
    """What a certificate proves: a bound, the gap to a labelling (``nan`` without one), and the part of the gap that may be
    nothing but rounding. All that rounding could hide is in ``bound`` and ``gap`` already."""

    bound: float
    gap: float
    rounding: float = 0.0


class Certificate(ABC):
    """Proof of an upper bound."""

    @abstractmethod
    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        """Bound, and gap to the labelling, recomputed in plain numpy and rounded up."""

    @abstractmethod
    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        """The same without rounding, in rational numbers; infinite ones are floats."""

    def bound(self, problem: Problem) -> float:
        """The upper bound that the certificate proves."""
        return self.evaluate(problem, None).bound

    def judge(self, problem: Problem, labels: np.ndarray | None, exact: bool | None = None) -> Verification:
        """What is proven about a labelling, without any claim to compare: see `verify`.

        Floating point comes first. Rational arithmetic decides if ``exact`` is True, or if it is None and nothing but rounding
        stands between the gap and the word "optimal".
        """
        score = -np.inf if labels is None else problem.score(labels)
        if not exact:
            proof = self.evaluate(problem, labels)
            found = verdict(problem, labels, score, proof)
            if exact is False or found.optimal or not in_doubt(problem, labels, proof):
                return found
        return verdict(problem, labels, score, self.evaluate_exactly(problem, labels), exact=True)

    def verify(
        self,
        problem: Problem,
        labels: Any = None,
        score: float | None = None,
        bound: float | None = None,
        guarantee: str | None = None,
        *,
        exact: bool = False,
    ) -> Verification:
        """Recompute what is proven, and compare it with what was claimed.

        Parameters
        ----------
        labels : array-like of int, optional
            The labelling to judge.
        score, bound : float, optional
            Claims; `CertificateError` is raised if they do not hold. A score may differ from the recomputed one by the rounding of
            the sum of the values that it adds up (`core.certificates.scale.score_rounding`), a bound by as much.
        guarantee : str, optional
            The claimed `Guarantee`; refused if less is proven.
        exact : bool
            Recompute in rational arithmetic, without any rounding. It is used anyway where floating point cannot confirm a claim.

        Notes
        -----
        If all scores are whole numbers (`Problem.step`), bound and gap are rounded down accordingly.
        """
        y = None if labels is None else as_labels(labels, problem.n_states)
        try:
            found = self.judge(problem, y, exact or None)
            if not found.exact and _refuted(found, problem, y, score, bound, guarantee):
                found = self.judge(problem, y, True)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, OverflowError) as error:
            if isinstance(error, MaxsumError):
                raise
            raise CertificateError(f"the certificate is malformed: {error}.") from error
        if found.infeasible and np.isfinite(found.score):
            raise CertificateError(f"the certificate says infeasible, but the labelling has the score {found.score}.")
        if fault := _refuted(found, problem, y, score, bound, guarantee):
            raise CertificateError(fault)
        return found


def verdict(
    problem: Problem, labels: np.ndarray | None, score: float, proof: tuple[Any, ...], exact: bool = False
) -> Verification:
    """The verdict on a bound and a gap, floats or fractions; those of whole-number problems are rounded down."""
    bound, gap = proof[:2]
    infeasible = bound == -np.inf
    if labels is None or not np.isfinite(score):
        if problem.step and math.isfinite(bound):
            bound = Fraction(math.floor(bound))
        return Verification(score, _float_up(bound), np.inf, False, infeasible, exact)
    if gap < 0:
        raise CertificateError(f"the bound {float(bound)} lies below the score {score} of the labelling.")
    if problem.step and math.isfinite(gap):
        gap = Fraction(math.floor(gap))
        bound = Fraction(math.floor(bound))
        if abs(score) + gap < _WHOLE:
            bound = min(bound, Fraction(score) + gap)
    optimal = math.isfinite(gap) and (gap == 0 or bool(gap <= tolerance(problem, labels)))
    return Verification(score, _float_up(bound), _float_up(gap), optimal, infeasible, exact)


def _float_up(value: Any) -> float:
    return to_float_up(value) if isinstance(value, Fraction) else float(value)


def in_doubt(problem: Problem, labels: np.ndarray | None, proof: Evaluation) -> bool:
    """Whether a gap that is too large may be so by rounding alone (four times the estimate, which looks at few labels)."""
    if labels is None or not np.isfinite(proof.gap):
        return False
    least = max(proof.gap - 4 * proof.rounding, 0.0)
    return least < 1 if problem.step else least <= tolerance(problem, labels)


def _refuted(
    found: Verification,
    problem: Problem,
    labels: np.ndarray | None,
    score: float | None,
    bound: float | None,
    guarantee: str | None,
) -> str:
    """The first claim that does not hold, in words; empty if all do."""
    finite = labels is not None and np.isfinite(found.score)
    room = score_rounding(problem, labels) if labels is not None and finite else UNIT * abs(problem.offset)
    if score is not None and score != found.score and not abs(score - found.score) <= room:
        return f"the claimed score is {score}, but the labelling has {found.score}."
    if bound is not None and not found.bound <= bound + room:
        return f"the claimed bound is {bound}, but the certificate proves only {found.bound}."
    if guarantee is not None and not _allows(found, guarantee):
        return f"the claim is {str(guarantee)!r}, but the certificate proves only {str(found.guarantee)!r}."
    return ""


def _allows(found: Verification, guarantee: str) -> bool:
    """Whether what is proven is as much as what is claimed."""
    labelled, bounded = np.isfinite(found.score), np.isfinite(found.bound)
    return {
        "optimal": found.optimal,
        "within_gap": labelled and np.isfinite(found.gap),
        "upper_bound": bounded,
        "feasible": labelled,
        "infeasible": found.infeasible,
        "none": True,
    }.get(str(guarantee), False)


@dataclass(frozen=True, eq=False, repr=False)
class MessageCertificate(Certificate):
    """Messages whose height (`Problem.bound`) is the bound."""

    messages: Messages

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        messages = problem.as_messages(self.messages)
        if labels is None:
            return Evaluation(height(problem, messages), np.nan)
        terms = slack(problem, messages, labels)
        return Evaluation(terms.bound, terms.gap, terms.rounding)

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        return exact_height(problem, problem.as_messages(self.messages), arc_consistent(problem), labels)


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
    separators: Sequence[tuple[int, ...]]
    tables: Sequence[np.ndarray]

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        total, gap, error = np.longdouble(0.0), np.longdouble(0.0), 0.0
        for bag in self._bags(problem):
            if bag is None:
                return Evaluation(np.inf, np.inf)
            top = bag.top()
            if np.isneginf(top):
                return Evaluation(-np.inf, np.inf)
            if not np.isfinite(top):  # tables so large that their sums overflow
                return Evaluation(np.inf, np.inf)
            total += top
            if labels is not None:
                at = tuple(labels[w] for w in bag.nodes)
                value, off = bag.value[at], float(bag.off(at))
                gap += np.longdouble(top) - (value - off)
                error += 2 * off
        share = 4 * UNIT * (problem.n_nodes + 2)
        if not np.isfinite(gap) or not np.isfinite(total):
            return Evaluation(np.inf, np.inf)
        if labels is not None:
            above = up(float(gap) * (1 + share)) if gap > 0 else 0.0
            return Evaluation(raised_score(problem, labels, above), above, error)
        centre = np.where(own_labels(problem), problem.unary, -np.inf).max(axis=1, initial=-np.inf)
        off = UNIT * float(np.abs(edge_centres(problem)).sum()) + share * abs(float(total))
        constants = (centre, edge_centres(problem), problem.factors.centres)
        return Evaluation(sum_up(*constants, np.array([problem.offset, float(total), off])), np.nan)

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        terms = ExactTerms(problem, *self.tables)
        total = int(terms.integers([problem.offset])[0])
        whole = min(terms.weight_exponent, terms.table_exponent, terms.exponent) >= 0
        for bag in self._bags(problem):
            if bag is None:
                return float("inf"), float("inf")
            # one row for each entry that may be the maximum: one in all where sums of whole numbers are exact
            if whole and bag.is_exact:
                at: Any = np.unravel_index([bag.value.argmax()], bag.value.shape)
                if np.isneginf(bag.value[at][0]):
                    return float("-inf"), float("inf")
            else:
                off = bag.off(())
                low = (bag.value - off).max()
                if np.isneginf(low):
                    return float("-inf"), float("inf")
                at = np.nonzero(bag.value + off >= low)
            where = dict(zip(bag.nodes, at, strict=True))
            total += max(self._exact_values(problem, terms, bag, where).tolist())
        if labels is None:
            return total * terms.unit, float("nan")
        if not np.isfinite(problem.score(labels)):
            return float("inf"), float("inf")
        return total * terms.unit, total * terms.unit - terms.score(labels)

    def _bags(self, problem: Problem) -> Iterator[_Bag | None]:
        """The bags in the order of elimination; None, and no more, if a table claims ``-inf`` where its bag is possible, or is too large."""
        rank, states = self._ranks(problem), problem.n_states.tolist()
        inbox: list[list[_Held]] = [[] for _ in self.nodes]
        for term in _centred_terms(problem):
            inbox[min(rank[v] for v in term[0])].append(term)
        for i, v in enumerate(self.nodes):
            nodes = (v, *self.separators[i])
            held, inbox[i] = inbox[i], []
            values, raised = self._sum(nodes, held), sum(above for *_, above in held)
            unit, size = UNIT * (len(held) + 6), np.zeros(())
            if len(nodes) > 1:
                shape = tuple(states[w] for w in nodes[1:])
                own, above = _separator_table(self.tables[i], shape, v)
                inbox[min(rank[w] for w in nodes[1:])].append((nodes[1:], own, ~i, above))
                if max(above, -float(np.min(own, where=np.isfinite(own), initial=0.0))) > LARGEST:  # sums could overflow
                    yield None
                    return
                if own.size and own.min() == -np.inf:
                    possible = np.isfinite(np.broadcast_to(values, (states[v], *shape)))
                    if np.isneginf(np.broadcast_to(own, possible.shape)[possible]).any():
                        yield None
                        return
                    own = np.where(np.isneginf(own), 0.0, own)
                values = values - own
                size = np.abs(own)
            yield _Bag(i, nodes, held, values, unit, size, raised)

    def _exact_values(self, problem: Problem, terms: ExactTerms, bag: _Bag, labels: dict[int, np.ndarray]) -> np.ndarray:
        """Exact sums of a bag for some labels of its nodes, constants of the terms included."""
        total: Any = 0
        first = problem.n_nodes + problem.n_edges + len(problem.cliques)  # number of the first factor
        for scope, _, source, _ in bag.held:
            at = tuple(labels[w] for w in scope)
            if source < 0:
                value = terms.integers(np.asarray(self.tables[~source])[at])
            elif source < problem.n_nodes:
                value = terms.integers(problem.unary[source, at[0]])
            elif source < problem.n_nodes + problem.n_edges:
                edge = np.full(len(at[0]), source - problem.n_nodes)
                value = terms.edge(edge, *at)
            elif source >= first:
                function = problem.factors.functions[problem.factors.number[source - first]]
                value = terms.integers(function.values(np.stack(at, axis=1)))
            else:
                weights = problem.cliques.weights[source - problem.n_nodes - problem.n_edges]
                agree = np.logical_and.reduce([label == at[0] for label in at])
                value = terms.integers(np.where(agree, weights[at[0]], 0.0))
            total = total + value
        if len(bag.nodes) > 1:
            total = total - terms.integers(np.asarray(self.tables[bag.number])[tuple(labels[w] for w in bag.nodes[1:])])
        return total

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
    def _sum(bag: tuple[int, ...], held: list[_Held]) -> np.ndarray:
        """Sum of the terms and tables of a bag, one axis per node (of length 1 where none depends on it); small ones first."""
        place = {w: i for i, w in enumerate(bag)}
        values: Any = 0.0
        for scope, table, *_ in sorted(held, key=lambda own: own[1].size):
            if not place.keys() >= set(scope):
                raise CertificateError(f"the bag of node {bag[0]} does not hold the term on nodes {scope}.")
            axes = [place[w] for w in scope]
            if len(axes) > 1 and axes != sorted(axes):
                order = sorted(range(len(axes)), key=axes.__getitem__)
                table, axes = table.transpose(order), sorted(axes)
            shape = [1] * len(bag)
            for axis, extent in zip(axes, table.shape, strict=True):
                shape[axis] = extent
            values = values + table.reshape(shape)
        return np.asarray(values)


class _Bag(NamedTuple):
    r"""A bag of an elimination: its number, its nodes (the eliminated one first), the terms and tables that it holds (scope, table,
    source), and their sum less its own table, ``value``.

    A value :math:`r = s - m` is off by :math:`u (n + 6)(|s| + 2P + |r|)` at most, with ``n`` tables held, :math:`P` the sum of their
    largest entries above 0, and :math:`|s| \le |r| + |m|`: so by ``unit * (2 |r| + size + 2 raised)``.
    """

    number: int
    nodes: tuple[int, ...]
    held: list[_Held]
    value: np.ndarray
    unit: float
    size: np.ndarray
    raised: float

    @property
    def is_exact(self) -> bool:
        """Whether sums and differences are exact if all numbers are whole: so it is if their sizes together are small enough."""
        sizes = (np.abs(np.where(np.isfinite(table), table, 0.0)).max(initial=0.0) for _, table, *_ in self.held)
        return float(sum(sizes)) + float(self.size.max(initial=0.0)) < _WHOLE

    def top(self) -> float:
        """The largest value, rounded up: as ``r + 2 unit |r|`` grows with ``r``, only the maximum needs it."""
        top = float((self.value + self.unit * self.size).max() if self.size.any() else self.value.max())
        return top + self.unit * (2 * abs(top) + 2 * self.raised) if np.isfinite(top) else top

    def off(self, at: Any) -> Any:
        """By how much values may be off: all of them for ``()``, or that at a labelling of the nodes."""
        size = self.size[at[1:]] if at else self.size
        value = self.value[at] if at else np.where(np.isfinite(self.value), self.value, 0.0)
        return self.unit * (2 * np.abs(value) + size + 2 * self.raised)


def _separator_table(table: Any, shape: tuple[int, ...], v: int) -> tuple[np.ndarray, float]:
    """A separator table, once it is known to be one, and its largest entry above 0."""
    own = np.asarray(table)
    top = float(own.max(initial=-np.inf)) if own.dtype.kind == "f" else np.nan
    if own.shape != shape or not top < np.inf:
        raise CertificateError(f"the separator table of node {v} is not a table of shape {shape} of numbers below inf.")
    return own, max(0.0, top)


_Held = tuple[tuple[int, ...], np.ndarray, int, float]
"""What a bag holds: scope, table, the number of the term (``~i`` for the separator table of bag ``i``), its largest entry above 0."""


def _centred_terms(problem: Problem) -> Iterator[_Held]:
    """Every term, centred as in `core.certificates.dual` so that none is above 0 but cliques: nodes, edges, cliques, factors."""
    states = problem.n_states.tolist()
    centred = problem.unary - problem.unary.max(axis=1, initial=-np.inf)[:, None]
    for v in range(problem.n_nodes):
        yield (v,), centred[v, : states[v]], v, 0.0
    for part in chunks(np.arange(problem.n_edges), problem.n_labels):
        tables = problem.tables[problem.edge_table[part]] - table_centres(problem)[part, None, None]
        tables *= problem.edge_weight[part, None, None]
        for e, (u, v), table in zip(part.tolist(), problem.graph.edges[part].tolist(), tables, strict=True):
            yield (u, v), table[: states[u], : states[v]], problem.n_nodes + e, 0.0
    for c in range(len(problem.cliques)):
        scope = tuple(problem.cliques.members(c).tolist())
        table = np.zeros([states[v] for v in scope])
        for k in range(min(table.shape)):
            table[(k,) * len(scope)] = problem.cliques.weights[c, k]
        yield scope, table, problem.n_nodes + problem.n_edges + c, float(table.max(initial=0.0))
    first = problem.n_nodes + problem.n_edges + len(problem.cliques)
    for f, (nodes, function) in enumerate(problem.factors.items()):
        scope = tuple(nodes.tolist())
        shape = tuple(states[v] for v in scope)
        if math.prod(shape) > _MOST_CELLS:
            raise CertificateError(
                f"an elimination needs factor {f} as a table of {math.prod(shape)} entries; at most {_MOST_CELLS} are made."
            )
        yield scope, function.dense(shape) - function.centre, first + f, 0.0


def __getattr__(name: str) -> Any:
    if name == "SearchCertificate":  # it lives in a file of its own, which needs the base class from here
        from .search.certificate import SearchCertificate

        return SearchCertificate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
