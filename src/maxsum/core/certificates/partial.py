r"""Certificates of a partial search: messages and cycles outside a part of the nodes, an elimination inside.

Let :math:`P` be the part, and :math:`\theta` the terms that messages and cycles leave. Messages of edges inside :math:`P` cancel there, so every score is

.. math:: \sum_{v \notin P} \theta_v + \sum_{e \not\subset P} \theta_e + \sum_c h_c + F_P(y_P), \qquad
          F_P(y_P) = \sum_{v \in P} \Big(q_v - \sum_{e \ni v,\, e \not\subset P} \varphi_{ev}\Big) + \sum_{e \subset P} (g_e - \sum_{c \ni e} h_{c,e}),

and a bound of each summand gives one of all (after Savchynskyy, Kappes, Swoboda & Schnörr 2013). That of :math:`F_P`, a problem of nodes and edges, is
proven by an elimination.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..cliques import Cliques
from ..errors import CertificateError
from ..graph import Graph
from ..rows import row_max
from .base import Certificate, EliminationCertificate, Evaluation
from .cycles import CycleCertificate
from .dual import arc_consistent, raised_score, slack, sum_up, term_tops
from .exact import exact_maxima, exact_score
from .scale import UNIT, edge_centres

if TYPE_CHECKING:
    from ..problem import Messages, Problem

_WHOLE = 2.0**52
"""Whole numbers below this, and differences of two of them, are themselves in floating point."""


class Split(NamedTuple):
    """A problem cut in two: what is left after the cycles, the part as a problem of its own, which terms are outside of it, and by how much unaries and
    tables of the part may be off."""

    left: Problem
    part: Problem
    domain: np.ndarray
    outside: np.ndarray
    outside_edge: np.ndarray
    unary_off: np.ndarray
    table_off: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class PartialCertificate(Certificate):
    """``outer`` for the terms outside, and the elimination ``inner`` for the part: the nodes ``part``, in increasing order, and the edges between them."""

    outer: CycleCertificate
    part: np.ndarray
    inner: EliminationCertificate

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        cut = split(problem, self.outer, self.part)
        messages, tops = problem.as_messages(self.outer.left_messages), self.outer.tops(problem, cut.domain)
        node_top, edge_top = term_tops(cut.left, messages, cut.domain)
        out, out_edge = cut.outside, cut.outside_edge
        if np.isneginf(node_top[out]).any() or np.isneginf(edge_top[out_edge]).any() or np.isneginf(tops).any():
            return Evaluation(-np.inf, np.inf)
        if labels is None:
            most = self.inner.evaluate(cut.part, None).bound
            if not np.isfinite(most):
                return Evaluation(most, np.inf)
            best, centre = row_max(np.where(cut.domain, problem.unary, -np.inf)), edge_centres(cut.left)
            off = UNIT * float(np.abs(centre[out_edge & (np.abs(cut.left.edge_weight) != 1)]).sum())
            outer = (best[out], node_top[out], centre[out_edge], edge_top[out_edge], tops)
            return Evaluation(sum_up(*outer, np.array([problem.offset, off, most])), np.nan)
        terms, inside = slack(cut.left, messages, labels, cut.domain), self.inner.evaluate(cut.part, labels[self.part])
        if not np.isfinite(inside.gap) or not np.isfinite(terms.node[out]).all() or not np.isfinite(terms.edge[out_edge]).all():
            return Evaluation(-np.inf if np.isneginf(inside.bound) else np.inf, np.inf)
        value, error = self.outer.at(problem, labels)
        u, v = labels[problem.graph.edges[self.outer.edge]].T
        loose = 2 * cut.table_off[self.outer.place(problem)[self.outer.edge], u, v]
        part_off = 2 * cut.unary_off[np.arange(len(self.part)), labels[self.part]]
        gap = sum_up(terms.node[out], terms.edge[out_edge], tops - value, error, loose, part_off, np.array([inside.gap]))
        rounding = terms.rounding + inside.rounding + float(2 * error.sum() + loose.sum() + part_off.sum())
        return Evaluation(raised_score(problem, labels, gap), gap, rounding)

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        cut = split(problem, self.outer, self.part)
        found = exact_maxima(cut.left, problem.as_messages(self.outer.left_messages), cut.domain)
        tops = self.outer.tops(problem, cut.domain)
        if found is None or np.isneginf(tops).any():
            return float("-inf"), float("inf")
        inside, _ = self.inner.evaluate_exactly(cut.part, None)
        if not isinstance(inside, Fraction):
            return inside, float("inf")
        whole = sum(found.node[cut.outside].tolist()) + sum(found.edge[cut.outside_edge].tolist())
        bound = whole * found.terms.unit + Fraction(problem.offset) + inside
        bound += sum((Fraction(top) for top in tops.tolist()), Fraction(0))
        if labels is None:
            return bound, float("nan")
        if not np.isfinite(problem.score(labels)):
            return float("inf"), float("inf")
        return bound, bound - exact_score(problem, labels)


def split(problem: Problem, outer: CycleCertificate, part: np.ndarray) -> Split:
    """Cut a problem of nodes and edges at a part of its nodes. The part's problem is nowhere below the exact one."""
    if len(problem.cliques) or len(problem.factors):
        raise CertificateError("a partial search is for problems of nodes and edges alone; this one has cliques or factors.")
    if part.ndim != 1 or (np.diff(part) <= 0).any() or (len(part) and (part[0] < 0 or part[-1] >= problem.n_nodes)):
        raise CertificateError(
            f"the part of a partial search does not list nodes of 0..{problem.n_nodes - 1} in increasing order."
        )
    left, table_off = outer.problem_left(problem)
    messages, domain = problem.as_messages(outer.left_messages), arc_consistent(problem)
    own, inner, unary_off = cut_out(left, messages, domain, part)
    inside = np.zeros(problem.n_nodes, dtype=bool)
    inside[part] = True
    return Split(left, own, domain, ~inside, ~inner, unary_off, table_off)


def cut_out(
    problem: Problem, messages: Messages, domain: np.ndarray, part: np.ndarray
) -> tuple[Problem, np.ndarray, np.ndarray]:
    """The problem of some nodes, in increasing order, and of the edges between them, given the messages of all other edges at these nodes.

    Returns it, the mask of its edges, and by how much its unaries may have been off: they are raised by that. Whole numbers are not, so the part of a
    whole-number problem with whole messages at its border is one too.
    """
    inside = np.zeros(problem.n_nodes, dtype=bool)
    inside[part] = True
    edges = problem.graph.edges
    inner = inside[edges].all(axis=1)
    number = np.full(problem.n_nodes, -1)
    number[part] = np.arange(len(part))
    unary = np.where(domain[part], problem.unary[part], -np.inf)
    size, count = np.where(domain[part], np.abs(problem.unary[part]), 0.0), np.full(len(part), 3)
    broken = size != np.floor(size)  # entries that rounding may have touched
    for side in (0, 1):
        border = np.flatnonzero(~inner & inside[edges[:, side]])
        at, sent = number[edges[border, side]], messages.edge[side, border]
        np.subtract.at(unary, at, sent)
        np.add.at(size, at, np.abs(sent))
        np.add.at(count, at, 1)
        np.logical_or.at(broken, at, sent != np.floor(sent))
    unary_off = np.where(domain[part] & (broken | (size >= _WHOLE)), UNIT * count[:, None] * size, 0.0)
    graph = Graph.from_edges(number[edges[inner]], n_nodes=len(part))
    if not np.array_equal(graph.edges, number[edges[inner]]):
        raise CertificateError("the edges of the part were put in another order.")
    used, table = np.unique(problem.edge_table[inner], return_inverse=True)
    own = type(problem)._trusted(
        graph=graph,
        unary=unary + unary_off,
        tables=problem.tables[used] if len(used) else np.zeros((1, problem.n_labels, problem.n_labels)),
        edge_table=table.reshape(-1).astype(np.int32),
        edge_weight=problem.edge_weight[inner],
        n_states=problem.n_states[part],
        cliques=Cliques.build(None, problem.n_states[part], problem.n_labels),
        offset=0.0,
    )
    return own, inner, unary_off
