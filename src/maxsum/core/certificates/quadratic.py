"""The bound of the concave quadratic relaxation, proven at any point."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from ..errors import CertificateError
from ..rows import row_max
from .base import Certificate, Evaluation
from .dual import edge_scores, node_intervals, own_labels, raised_score, sum_up
from .exact import ExactTerms, lowest_exponent, to_integers
from .scale import UNIT, chunks, edge_centres

if TYPE_CHECKING:
    from ..problem import Messages, Problem


@dataclass(frozen=True, eq=False, repr=False)
class QPCertificate(Certificate):
    r"""A point :math:`\mu` at which the tangent of the concave quadratic relaxation bounds every score.

    With the reparametrised scores :math:`q^\varphi, g^\varphi` (see `Problem.bound`) and
    :math:`d_v(k) = \frac12 \sum_{uv} \sum_l |g^\varphi_{uv}(k, l)|`, the function

    .. math:: f(\mu) = c + \sum_v \langle q^\varphi_v, \mu_v \rangle + \sum_{uv} \mu_u' g^\varphi_{uv} \mu_v
              + \sum_v \sum_k d_v(k) (\mu_v(k) - \mu_v(k)^2)

    is concave, its Hessian being diagonally dominant, and equals :math:`F` at every labelling. So its tangent at any
    :math:`\mu` lies above :math:`F`: no labelling scores more than

    .. math:: f(\mu) - \langle \nabla f(\mu), \mu \rangle + \sum_v \max_k \nabla_v f(\mu)(k).

    The gap of a labelling ``y`` is :math:`\sum_v \max_k \nabla_v(k) - \nabla_v(y_v)` plus, with :math:`x = \mu - y`,
    :math:`\frac12 \sum_{uv} \sum_{kl} |g(k, l)| (x_u(k) - \mathrm{sgn}\, g(k, l)\, x_v(l))^2`: terms that are never negative,
    whatever :math:`\mu` and :math:`\varphi` are.

    Attributes
    ----------
    mu : ndarray, shape (n_nodes, K)
        Any finite numbers; they are clipped to 0..1, and forbidden labels count as 0.
    reparametrisation : Messages
        The messages :math:`\varphi`, for the centred scores of `core.certificates.dual`.
    """

    mu: np.ndarray
    reparametrisation: Messages

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> Evaluation:
        mu, domain, messages = self._read(problem)
        point = _from(mu, labels)
        score, off = node_intervals(problem, messages, domain)
        dominance, pull, size = np.zeros(mu.shape), np.zeros(mu.shape), np.zeros(mu.shape)
        bowl, mass = np.longdouble(0.0), np.longdouble(0.0)
        for part in chunks(np.arange(problem.n_edges), problem.n_labels):
            u, v = problem.graph.edges[part].T
            table = edge_scores(problem, messages, domain, part)
            table[np.isneginf(table)] = 0.0
            weight = np.abs(table)
            np.add.at(dominance, u, weight.sum(axis=2))
            np.add.at(dominance, v, weight.sum(axis=1))
            np.add.at(pull, u, np.einsum("ekl,el->ek", table, mu[v]))
            np.add.at(pull, v, np.einsum("ekl,ek->el", table, mu[u]))
            # sizes of what was added up: entries, and messages that cancel in them
            first, second = np.abs(messages.edge[0, part]), np.abs(messages.edge[1, part])
            both = weight + first[:, :, None] + second[:, None, :]
            np.add.at(size, u, both.sum(axis=2))
            np.add.at(size, v, both.sum(axis=1))
            mass += both.sum(dtype=np.longdouble)
            weight *= (point[u][:, :, None] - np.sign(table) * point[v][:, None, :]) ** 2
            bowl += weight.sum(dtype=np.longdouble)
        slope = score + 0.5 * dominance - (dominance * mu - pull)
        # an entry is off by 13 units of its size (core.certificates.dual); sums of n of them by n more; each enters the slope with a factor up to 3
        terms = problem.n_labels * (problem.graph.degrees[:, None] + 1) + 16
        off = off + UNIT * terms * (np.where(domain, np.abs(score), 0.0) + 3 * size)
        top = row_max(np.where(domain, slope + off, -np.inf))
        # a square is at most 4
        bowl = bowl / 2 + UNIT * (64 * mass + (16 + problem.n_edges) * bowl)
        if labels is None:
            best = row_max(np.where(domain, problem.unary, -np.inf))
            centre = edge_centres(problem)
            rest = np.array([problem.offset, float(bowl) * (1 + 4 * UNIT), UNIT * float(np.abs(centre).sum())])
            return Evaluation(sum_up(best, centre, top, rest), np.nan)
        at = np.arange(problem.n_nodes), labels
        gap = (top - (slope[at] - off[at])).sum(dtype=np.longdouble) + bowl
        gap = float(gap) * (1 + 4 * UNIT * (problem.n_nodes + 2))
        return Evaluation(raised_score(problem, labels, gap), gap, 2 * float(off[at].sum()) + 64 * UNIT * float(mass))

    def evaluate_exactly(self, problem: Problem, labels: np.ndarray | None) -> tuple[Fraction | float, Fraction | float]:
        mu, domain, messages = self._read(problem)
        if labels is not None and not np.isfinite(problem.score(labels)):
            return float("inf"), float("inf")
        terms, fine = ExactTerms(problem, *messages), lowest_exponent(mu)
        grain, one = to_integers(mu, fine), 1 << -fine
        point = grain.copy()
        if labels is not None:
            point[np.arange(problem.n_nodes), labels] -= one
        best = np.where(domain, problem.unary, -np.inf).argmax(axis=1) if mu.size else np.zeros(0, dtype=int)
        # q - max q - sum of messages, g - max g + messages: integers of the common unit
        score = terms.integers(np.where(domain, problem.unary, 0.0))
        top_unary = score[np.arange(problem.n_nodes), best]
        score = score - top_unary[:, None]
        np.subtract.at(score, problem.graph.edges[:, 0], terms.integers(messages.edge[0]))
        np.subtract.at(score, problem.graph.edges[:, 1], terms.integers(messages.edge[1]))
        label = np.arange(problem.n_labels)
        dominance, pull = np.zeros(mu.shape, dtype=object), np.zeros(mu.shape, dtype=object)
        bowl, centres = 0, 0
        for e, (u, v) in enumerate(problem.graph.edges.tolist()):
            k, m = (index.ravel() for index in np.meshgrid(label[domain[u]], label[domain[v]], indexing="ij"))
            every_k, every_m = (
                index.ravel()
                for index in np.meshgrid(label[: problem.n_states[u]], label[: problem.n_states[v]], indexing="ij")
            )
            centre = max(terms.edge(np.full(len(every_k), e), every_k, every_m).tolist())
            centres += centre
            first, second = terms.integers(messages.edge[0, e]), terms.integers(messages.edge[1, e])
            table = terms.edge(np.full(len(k), e), k, m) - centre + first[k] + second[m]
            size = np.abs(table)
            np.add.at(dominance[u], k, size)
            np.add.at(dominance[v], m, size)
            np.add.at(pull[u], k, table * grain[v, m])
            np.add.at(pull[v], m, table * grain[u, k])
            sign = np.where(table > 0, 1, np.where(table < 0, -1, 0)).astype(object)
            bowl += int((size * (point[u, k] - sign * point[v, m]) ** 2).sum())
        # twice the slope, in units of unit * 2**fine; the bowl in half units of unit * 4**fine
        slope = 2 * score * one + dominance * one - 2 * dominance * grain + 2 * pull
        tops = [max(row[own].tolist()) for row, own in zip(slope, domain, strict=True)]
        curved = Fraction(bowl, 2) * terms.unit * Fraction(2) ** (2 * fine)
        half = terms.unit * Fraction(2) ** fine / 2
        if labels is None:
            constant = int(terms.integers([problem.offset])[0]) + sum(top_unary.tolist()) + centres
            return constant * terms.unit + sum(tops) * half + curved, float("nan")
        at = slope[np.arange(problem.n_nodes), labels].tolist()
        gap = sum(top - own for top, own in zip(tops, at, strict=True)) * half + curved
        return terms.score(labels) + gap, gap

    def _read(self, problem: Problem) -> tuple[np.ndarray, np.ndarray, Messages]:
        """The point, the labels that count and the messages, once they are known to belong to the problem."""
        if len(problem.cliques):
            raise CertificateError(f"a QPCertificate is for problems without cliques; this one has {len(problem.cliques)}.")
        if len(problem.factors):
            raise CertificateError(f"a QPCertificate is for problems without factors; this one has {len(problem.factors)}.")
        if np.isneginf(problem.tables).any():
            raise CertificateError("a QPCertificate is for problems with finite tables; this one forbids pairs of labels.")
        domain = own_labels(problem)
        return np.where(domain, self._point(problem), 0.0), domain, problem.as_messages(self.reparametrisation)

    def _point(self, problem: Problem) -> np.ndarray:
        mu, wanted = np.asarray(self.mu), (problem.n_nodes, problem.n_labels)
        if mu.shape != wanted or mu.dtype.kind != "f" or not np.isfinite(mu).all():
            raise CertificateError(
                f"the point of the certificate has shape {mu.shape}, wanted finite numbers of shape {wanted}."
            )
        return np.clip(mu, 0.0, 1.0)


def _from(mu: np.ndarray, labels: np.ndarray | None) -> np.ndarray:
    """The point less the labelling, where there is one."""
    point = mu.copy()
    if labels is not None:
        point[np.arange(len(mu)), labels] -= 1.0
    return point
