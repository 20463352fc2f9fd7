"""The bound of the concave quadratic relaxation, proven at any point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .certificate import Certificate
from .dual import edge_centres, edge_scores, node_scores, own_labels, rounding
from .errors import CertificateError
from .rows import row_max

if TYPE_CHECKING:
    from .problem import Messages, Problem

_CHUNK = 1 << 20


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
        The messages :math:`\varphi`, for the centred scores of `core.dual`.
    """

    mu: np.ndarray
    reparametrisation: Messages

    def evaluate(self, problem: Problem, labels: np.ndarray | None) -> tuple[float, float]:
        if len(problem.cliques):
            raise CertificateError(f"a QPCertificate is for problems without cliques; this one has {len(problem.cliques)}.")
        if np.isneginf(problem.tables).any():
            raise CertificateError("a QPCertificate is for problems with finite tables; this one forbids pairs of labels.")
        mu, domain = self._point(problem), own_labels(problem)
        messages = problem.as_messages(self.reparametrisation)
        mu = np.where(domain, mu, 0.0)
        point = mu.copy()
        if labels is not None:
            point[np.arange(problem.n_nodes), labels] -= 1.0
        score = node_scores(problem, messages, domain)
        dominance, pull, bowl = np.zeros(mu.shape), np.zeros(mu.shape), np.longdouble(0.0)
        size = max(1, _CHUNK // max(1, problem.n_labels**2))
        for start in range(0, problem.n_edges, size):
            part = np.arange(start, min(start + size, problem.n_edges))
            u, v = problem.graph.edges[part].T
            table = edge_scores(problem, messages, domain, part)
            table[np.isneginf(table)] = 0.0
            weight = np.abs(table)
            np.add.at(dominance, u, weight.sum(axis=2))
            np.add.at(dominance, v, weight.sum(axis=1))
            np.add.at(pull, u, np.einsum("ekl,el->ek", table, mu[v]))
            np.add.at(pull, v, np.einsum("ekl,ek->el", table, mu[u]))
            weight *= (point[u][:, :, None] - np.sign(table) * point[v][:, None, :]) ** 2
            bowl += weight.sum(dtype=np.longdouble)
        slope = score + 0.5 * dominance - (dominance * mu - pull)
        top = row_max(slope)
        scale = np.where(domain, np.abs(np.where(domain, score, 0.0)) + 4 * dominance, 0.0)
        error = 4 * float(np.finfo(float).eps) * float(row_max(scale).sum()) * (2 + problem.n_labels)
        error = (error if error > problem.resolution else 0.0) + rounding(problem, messages)
        if labels is None:
            best = row_max(np.where(domain, problem.unary, -np.inf))
            terms = (best, edge_centres(problem), top)
            total = np.longdouble(problem.offset) + sum(term.sum(dtype=np.longdouble) for term in terms)
            return float(total + bowl / 2 + error), np.nan
        gap = float((top - slope[np.arange(problem.n_nodes), labels]).sum() + bowl / 2) + error
        return (problem.score(labels) + gap if np.isfinite(gap) else np.inf), gap

    def _point(self, problem: Problem) -> np.ndarray:
        mu, wanted = np.asarray(self.mu), (problem.n_nodes, problem.n_labels)
        if mu.shape != wanted or mu.dtype.kind != "f" or not np.isfinite(mu).all():
            raise CertificateError(
                f"the point of the certificate has shape {mu.shape}, wanted finite numbers of shape {wanted}."
            )
        return np.clip(mu, 0.0, 1.0)
