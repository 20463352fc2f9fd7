r"""Certificates of a search of cores: messages for the whole, and a search of its own for each of some disjoint sets of nodes.

Let :math:`P_1, P_2, \dots` be the cores, disjoint sets of nodes, and :math:`\theta` the terms that messages leave. Messages of edges inside a core cancel there, so
every score is

.. math:: c + \sum_{v \text{ in no core}} \theta_v + \sum_{e \text{ inside no core}} \theta_e + \sum_i F_i(y_{P_i}), \qquad
          F_i(y) = \sum_{v \in P_i} \Big(q_v - \sum_{e \ni v,\, e \not\subset P_i} \varphi_{ev}\Big) + \sum_{e \subset P_i} g_e,

and a bound of each summand gives one of all. That of :math:`F_i` is proven by a search, whose boxes are closed against a labelling of the core that is stored with
it: the labelling of the whole may be another one. If all scores of a core are whole numbers, its bound is rounded down by itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import CertificateError, InvalidProblemError
from ..rows import row_max
from .base import Certificate, Evaluation, Verification
from .dual import arc_consistent, raised_score, slack, sum_up, term_tops
from .exact import exact_maxima, exact_score, to_float_up
from .partial import cut_out
from .scale import UNIT, edge_centres, vanishing
from .search.certificate import SearchCertificate

if TYPE_CHECKING:
    from ..problem import Messages, Problem


class Core(NamedTuple):
    """Nodes in increasing order, a labelling of them, and a search that proves how good it is."""

    nodes: np.ndarray
    labels: np.ndarray
    proof: SearchCertificate


# How a certificate cuts a problem, and what its searches leave open above their labellings, where this process knows it: see `CoresCertificate.remember`.
_evaluated: WeakKeyDictionary[CoresCertificate, tuple[Cut, list[float]]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False, repr=False)
class CoresCertificate(Certificate):
    """``messages`` for the terms outside, and the ``cores``."""

    messages: Messages
    cores: tuple[Core, ...]

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        cut, gaps = self._judged(problem)
        scores = self._scores(cut)
        domain, out, out_edge = cut.domain, cut.outside, cut.outside_edge
        if labels is None:
            node_top, edge_top = term_tops(problem, cut.messages, domain)
            if np.isneginf(node_top[out]).any() or np.isneginf(edge_top[out_edge]).any():
                return Evaluation(-np.inf, np.inf)
            best, centre = row_max(np.where(domain, problem.unary, -np.inf)), edge_centres(problem)
            off = UNIT * float(np.abs(centre[out_edge & (np.abs(problem.edge_weight) != 1)]).sum())
            most = [
                to_float_up(score + Fraction(gap)) if np.isfinite(gap) else gap for score, gap in zip(scores, gaps, strict=True)
            ]
            outer = (best[out], node_top[out], centre[out_edge], edge_top[out_edge])
            return Evaluation(sum_up(*outer, np.array([problem.offset, off, *most])), np.nan)
        terms = slack(problem, cut.messages, labels, domain)
        parts = [terms.node[out], terms.edge[out_edge]]
        if np.isneginf(terms.bound):
            return Evaluation(-np.inf, np.inf)
        if not all(np.isfinite(own).all() for own in (*parts, gaps)) or not np.isfinite(problem.score(labels)):
            return Evaluation(np.inf, np.inf)
        loose = np.zeros(0)
        for core, own, score, gap, raised in zip(self.cores, cut.problems, scores, gaps, cut.unary_off, strict=True):
            here = labels[core.nodes]
            above = gap if np.array_equal(here, core.labels) else to_float_up(score + Fraction(gap) - exact_score(own, here))
            parts.append(np.array([above]))
            loose = np.append(loose, 2 * raised[np.arange(len(here)), here])
        total = max(0.0, sum_up(*parts, loose, np.array([4 * vanishing(problem)])))
        return Evaluation(raised_score(problem, labels, total), total, terms.rounding + float(loose.sum()))

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        cut, _ = self._judged(problem)
        found = exact_maxima(problem, cut.messages, cut.domain)
        if found is None:
            return float("-inf"), float("inf")
        whole = sum(found.node[cut.outside].tolist()) + sum(found.edge[cut.outside_edge].tolist())
        bound = whole * found.terms.unit + Fraction(problem.offset)
        for core, own, score in zip(self.cores, cut.problems, self._scores(cut), strict=True):
            gap = core.proof.evaluate_exactly(own, core.labels)[1]
            if not math.isfinite(gap):
                return float("inf"), float("inf")
            bound += score + (math.floor(gap) if own.step else Fraction(gap))
        if labels is None:
            return bound, float("nan")
        if not np.isfinite(problem.score(labels)):
            return float("inf"), float("inf")
        return bound, bound - exact_score(problem, labels)

    def remember(self, cut: Cut, gaps: list[float]) -> None:
        """Keep what the searches of the cores were found to leave open, so that they are not replayed. `verify` computes it anew."""
        _evaluated[self] = cut, list(gaps)

    def verify(self, *args: Any, **claims: Any) -> Verification:
        _evaluated.pop(self, None)  # a check computes everything anew
        return super().verify(*args, **claims)

    def _scores(self, cut: Cut) -> list[Fraction]:
        """Score of each core at its own labelling."""
        scores = []
        for i, (core, own) in enumerate(zip(self.cores, cut.problems, strict=True)):
            try:
                score = own.score(core.labels)
            except InvalidProblemError as error:
                raise CertificateError(f"the labelling of core {i} is none: {error}") from None
            if not np.isfinite(score):
                raise CertificateError(f"the labelling of core {i} uses something forbidden; wanted one of finite score.")
            scores.append(exact_score(own, core.labels))
        return scores

    def _judged(self, problem: Problem) -> tuple[Cut, list[float]]:
        """The problem cut into cores and the rest, and what the search of each core leaves open above its labelling."""
        known = _evaluated.get(self)
        if known is not None and known[0].problem is problem:
            return known
        cut = Cut(problem, self.messages, [core.nodes for core in self.cores])
        self._scores(cut)  # labellings are sound
        gaps = [core.proof.evaluate(own, core.labels).gap for core, own in zip(self.cores, cut.problems, strict=True)]
        gaps = [float(np.floor(gap)) if own.step else gap for gap, own in zip(gaps, cut.problems, strict=True)]
        _evaluated[self] = cut, gaps
        return cut, gaps


class Cut:
    """A problem cut into disjoint cores, each a problem of its own, and the rest."""

    def __init__(self, problem: Problem, messages: Messages, cores: list[np.ndarray]):
        if len(problem.cliques) or len(problem.factors):
            raise CertificateError(
                "a search of cores is for problems of nodes and edges alone; this one has cliques or factors."
            )
        messages, self.problem, self.domain = problem.as_messages(messages), problem, arc_consistent(problem)
        self.outside = np.ones(problem.n_nodes, dtype=bool)
        self.cores = cores
        for nodes in cores:
            in_order = nodes.ndim == 1 and len(nodes) > 0 and bool((np.diff(nodes) > 0).all())
            if not in_order or nodes[0] < 0 or nodes[-1] >= problem.n_nodes or not self.outside[nodes].all():
                raise CertificateError(
                    f"a core does not list some nodes of 0..{problem.n_nodes - 1}, in increasing order and in no other core."
                )
            self.outside[nodes] = False
        parts = [cut_out(problem, messages, self.domain, nodes) for nodes in cores]
        self.problems = [own for own, _, _ in parts]  # of the cores, nowhere below the exact ones
        self.unary_off = [off for _, _, off in parts]  # by how much their unaries may have been off
        self.outside_edge = (
            ~np.logical_or.reduce([inner for _, inner, _ in parts], initial=False, axis=0)
            if parts
            else np.ones(problem.n_edges, dtype=bool)
        )
        # messages inside cores cancel
        self.messages = type(messages)(np.where(self.outside_edge[None, :, None], messages.edge, 0.0), messages.clique)
