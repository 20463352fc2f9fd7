r"""Certificates with cycles of edges as clusters: a sum of maxima, each over a node, an edge or a cycle.

Every cycle takes a part :math:`h_{c,e}` of the tables of its edges. The bound is that of messages (`core.certificates.dual`) for the tables that are left,
:math:`g_e - \sum_{c \ni e} h_{c,e}`, plus for every cycle its best closed walk
:math:`\max_y \sum_{e=uv \in c} h_{c,e}(y_u, y_v)`, whatever the parts are. It is found by max-plus products of the cycle's tables, which is the dynamic
program on the cycle: a cycle as cluster is as strong as all its triangulations (Sontag, Choe & Li 2012; Komodakis & Paragios 2008).

Rounding: tables that are left are rounded up, entry by entry, by what their subtraction may be off, and parts likewise before they are summed, so that every
maximum is that of a problem which is nowhere below the exact one. Rational arithmetic is then applied to that problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ..errors import CertificateError
from ..validation import LARGEST
from .base import Certificate, Evaluation
from .dual import arc_consistent, height, raised_score, slack, sum_up
from .exact import exact_height, exact_score
from .scale import UNIT

if TYPE_CHECKING:
    from ..problem import Messages, Problem

_CHUNK = 1 << 18
"""Numbers of a max-plus product that numpy handles at a time."""


@dataclass(frozen=True, eq=False, repr=False)
class CycleCertificate(Certificate):
    """Messages, and cycles with the parts of their edges' tables.

    ``left_messages`` are those for the tables that are left. The edges of cycle ``c`` are ``edge[ptr[c]:ptr[c + 1]]`` in turn, each gone through from its first node to its second, or the other way if ``turned``. The
    part that the cycle has of the edge at place ``i`` is ``held[i]`` (K, K), finite, with the edge's first node first.
    """

    left_messages: Messages
    ptr: np.ndarray
    edge: np.ndarray
    turned: np.ndarray
    held: np.ndarray

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        left, off = self.problem_left(problem)
        messages, domain = problem.as_messages(self.left_messages), arc_consistent(problem)
        tops = self.tops(problem, domain)
        if labels is None:
            return Evaluation(sum_up(np.array([height(left, messages, domain)]), tops), np.nan)
        terms = slack(left, messages, labels, domain)
        value, error = self.at(problem, labels)
        u, v = labels[problem.graph.edges[self.edge]].T
        more = (
            2 * off[self.place(problem)[self.edge], u, v]
        )  # once for every place of an edge, which is once or more for the edge
        gap = sum_up(np.array([terms.gap]), tops - value, error, more)
        if not np.isfinite(gap) or not np.isfinite(terms.bound):
            return Evaluation(terms.bound if np.isneginf(terms.bound) else np.inf, np.inf)
        return Evaluation(raised_score(problem, labels, gap), gap, terms.rounding + float(2 * error.sum() + more.sum()))

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        left, _ = self.problem_left(problem)
        domain = arc_consistent(problem)
        bound, _ = exact_height(left, problem.as_messages(self.left_messages), domain, None)
        if not isinstance(bound, Fraction):
            return bound, float("inf")
        bound += sum((Fraction(top) for top in self.tops(problem, domain).tolist()), Fraction(0))
        if labels is None:
            return bound, float("nan")
        if not np.isfinite(problem.score(labels)):
            return float("inf"), float("inf")
        return bound, bound - exact_score(problem, labels)

    def place(self, problem: Problem) -> np.ndarray:
        """Number of the table of each edge among those that cycles take from; -1 for the other edges."""
        number = np.full(problem.n_edges, -1)
        used = np.unique(self.edge)
        number[used] = np.arange(len(used))
        return number

    def problem_left(self, problem: Problem) -> tuple[Problem, np.ndarray]:
        """The problem without what cycles hold, its tables rounded up, and by how much tables of cycles may have been off."""
        self.check(problem)
        used, place = np.unique(self.edge), self.place(problem)
        table = problem.tables[problem.edge_table[used]] * problem.edge_weight[used, None, None]
        size = np.where(np.isfinite(table), np.abs(table), 0.0)
        count = np.bincount(place[self.edge], minlength=len(used))
        np.subtract.at(table, place[self.edge], self.held)
        np.add.at(size, place[self.edge], np.abs(self.held))
        # a product, and as many differences as there are parts, each of numbers below the sum of all sizes
        off = UNIT * (count[:, None, None] + 3) * size
        edge_table, weight = problem.edge_table.copy(), problem.edge_weight.copy()
        edge_table[used], weight[used] = len(problem.tables) + np.arange(len(used)), 1.0
        from ..problem import Problem as Made

        left = Made._trusted(
            graph=problem.graph,
            unary=problem.unary,
            tables=np.concatenate([problem.tables, table + off]),
            edge_table=edge_table,
            edge_weight=weight,
            n_states=problem.n_states,
            cliques=problem.cliques,
            offset=problem.offset,
            factors=problem.factors,
        )
        return left, off

    def tops(self, problem: Problem, domain: np.ndarray) -> np.ndarray:
        """The best closed walk of each cycle inside the domain, rounded up."""
        length, k = np.diff(self.ptr), problem.n_labels
        tops = np.zeros(len(length))
        for n in np.unique(length).tolist():
            mine = np.flatnonzero(length == n)
            for some in np.array_split(mine, max(1, len(mine) * k**3 // _CHUNK)):
                tables = (self._along(problem, domain, self.ptr[some] + i, n) for i in range(n))
                walk = next(tables)
                for table in tables:
                    walk = _product(walk, table)
                tops[some] = walk.diagonal(axis1=1, axis2=2).max(axis=1)
        return tops

    def _along(self, problem: Problem, domain: np.ndarray, at: np.ndarray, n: int) -> np.ndarray:
        """Parts at some places in the direction of their cycles, rounded up for sums of ``n`` of them, ``-inf`` outside the domain."""
        held = self.held[at]
        held = held + 2 * (n + 1) * UNIT * np.abs(held)
        u, v = problem.graph.edges[self.edge[at]].T
        held = np.where(domain[u][:, :, None] & domain[v][:, None, :], held, -np.inf)
        return np.where(self.turned[at].astype(bool)[:, None, None], held.transpose(0, 2, 1), held)

    def at(self, problem: Problem, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Value of each cycle at a labelling, and by how much it may be off."""
        u, v = labels[problem.graph.edges[self.edge]].T
        own = self.held[np.arange(len(self.edge)), u, v]
        if not len(own):
            return np.zeros(0), np.zeros(0)
        value, size = np.add.reduceat(own, self.ptr[:-1]), np.add.reduceat(np.abs(own), self.ptr[:-1])
        return value, UNIT * (np.diff(self.ptr) + 2) * size

    def check(self, problem: Problem) -> None:
        """That the places are cycles of the problem's edges, and the parts numbers."""
        n, k = len(self.edge), problem.n_labels
        shapes = self.turned.shape == (n,) and self.held.shape == (n, k, k) and self.edge.ndim == self.ptr.ndim == 1
        if not shapes or not len(self.ptr) or self.ptr[0] != 0 or self.ptr[-1] != n or (np.diff(self.ptr) < 2).any():
            raise CertificateError(
                "the cycles of the certificate are not lists of at least two edges, each with a table of all labels."
            )
        if n and (self.edge.min() < 0 or self.edge.max() >= problem.n_edges or not np.isin(self.turned, (0, 1)).all()):
            raise CertificateError(
                f"a cycle names an edge outside 0..{problem.n_edges - 1}, or a direction other than 0 and 1."
            )
        if not (np.abs(self.held) <= LARGEST).all():
            raise CertificateError(f"a cycle holds nan, inf or numbers above {LARGEST} in size.")
        if n == 0:
            return
        ends = problem.graph.edges[self.edge]
        side = self.turned.astype(np.int64)
        begin, end = ends[np.arange(n), side], ends[np.arange(n), 1 - side]
        following = np.arange(1, n + 1)
        following[self.ptr[1:] - 1] = self.ptr[:-1]
        wrong = np.flatnonzero(end != begin[following])
        if len(wrong):
            cycle = int(np.searchsorted(self.ptr, wrong[0], side="right")) - 1
            raise CertificateError(f"cycle {cycle} of the certificate is broken after edge {self.edge[wrong[0]]}.")


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Max-plus products of tables (n, K, K)."""
    best: np.ndarray = (first[:, :, :, None] + second[:, None, :, :]).max(axis=2)
    return best
