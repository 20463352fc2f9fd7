"""From marginals of a relaxation to a labelling: the nearest one, and the rounding of Kleinberg & Tardos 1999 (Taskar, Chatalbashev & Koller
2004, appendix B)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .errors import InvalidProblemError, NotAssociativeError
from .parameters import WholeNumber, check_value
from .validation import as_float

if TYPE_CHECKING:
    from .problem import Problem

_TOLERANCE = 1e-4  # marginals that miss a distribution by more are not even what a solver with loose settings leaves
_WHOLE = 1e-9  # a marginal so near to 1 is a label: whole ones of solvers are off by their feasibility tolerance
_NOTHING = 1e-12  # smaller marginals are 0: they would only make phases that nearly never happen


def nearest(marginals: Any) -> np.ndarray:
    """The integral point nearest to the marginals: the largest of each node, the lowest label on ties."""
    mu = as_float(marginals, "marginals")
    if mu.ndim != 2 or (len(mu) and not mu.shape[1]):
        raise InvalidProblemError(f"marginals have shape {mu.shape}, wanted (n_nodes, n_labels).")
    if not np.isfinite(mu).all():
        raise InvalidProblemError(f"marginals hold {mu[~np.isfinite(mu)][0]}, wanted finite numbers.")
    return mu.argmax(axis=1).astype(np.int32) if len(mu) else np.zeros(0, dtype=np.int32)


def sample_rounding(problem: Problem, marginals: Any, random_state: Any = None, n_samples: int = 1) -> np.ndarray:
    r"""Randomised rounding of Kleinberg and Tardos (1999); the best of ``n_samples`` labellings.

    Phases: draw a label ``k`` and a threshold in (0, 1], both uniformly; nodes without a label and with
    :math:`\mu_v(k)` at or above the threshold take ``k``. Phases in which no node would take a label are skipped: ``k`` is
    drawn in proportion to the largest :math:`\mu_v(k)` left, and the threshold below that.

    A node takes ``k`` with probability :math:`\mu_v(k)`, and an associative clique (or edge) ``c`` is all ``k`` with
    probability at least :math:`\min_{v \in c} \mu_v(k) / |c|`. So for associative problems the expected score of one sample
    is at least that of the nodes in the relaxation plus ``1 / |c|`` of each clique's.

    Parameters
    ----------
    marginals : array-like, shape (n_nodes, K)
        Such as ``result.marginals`` of `LinearProgram`.
    random_state : int or numpy.random.Generator, optional
        Seed.
    n_samples : int
    """
    check_value("n_samples", n_samples, WholeNumber(1, wanted="1 or more"), "sample_rounding")
    mu = _distribution(problem, marginals)
    rng = np.random.default_rng(random_state)
    best, best_score = None, -np.inf
    for _ in range(n_samples):
        labels = _sample(mu, rng)
        score = problem.score(labels)
        if best is None or score > best_score:
            best, best_score = labels, score
    return best if best is not None else np.zeros(0, dtype=np.int32)


def _sample(mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    labels = np.zeros(len(mu), dtype=np.int32)
    left = np.arange(len(mu))
    while len(left):
        rest = mu[left]
        top = rest.max(axis=0)
        k = int(np.searchsorted(np.cumsum(top), rng.random() * top.sum(), side="right"))
        k = min(k, int(np.flatnonzero(top)[-1]))
        takes = rest[:, k] >= (1.0 - rng.random()) * top[k]
        labels[left[takes]] = k
        left = left[~takes]
    return labels


class _Group(NamedTuple):
    """Associative terms of one size: ``nodes`` (C, size), ``weights`` (C, K)."""

    nodes: np.ndarray
    weights: np.ndarray


def expected_rounding(problem: Problem, marginals: Any) -> np.ndarray:
    r"""Kleinberg-Tardos rounding derandomised by conditional expectations: deterministic, and as good as promised on average.

    The score of the answer, without the constants of the tables, is at least

    .. math:: \sum_v \sum_k \mu_v(k) q_v(k) + \sum_c \frac{1}{|c|} \sum_k w_c^k \min_{v \in c} \mu_v(k),

    edges being cliques of two. For associative problems only.

    Notes
    -----
    Let some nodes have labels already. The estimator :math:`\Phi` counts the scores of these, :math:`\sum_k \mu_v(k) q_v(k)`
    for any other, and for a clique whose labelled members agree (on ``k``, if there are any) :math:`w_c^k p_k / D` for ``k``
    (for every ``k``, if there are none), where :math:`p_k = \min \mu_v(k)` and :math:`D = \sum_j \max \mu_v(j)` over its
    members without label (``p/D`` being 1 without such members). One random phase does not lower it on average:

    - a node takes ``k`` with probability :math:`\mu_v(k) / K`, so its expectation stays;
    - all members left take ``k`` at once with probability :math:`p_k / K` (then its term is :math:`w_c^k`), none takes anything with
      probability :math:`1 - D / K` (its term stays), and what else may happen leaves a term >= 0: together at least
      :math:`p_k / K + (1 - D / K) p_k / D = p_k / D`.

    Phases in which nothing happens leave :math:`\Phi` as it is, so among those in which a node takes a label one does not
    lower it. A phase is a label and one of the finitely many distinct thresholds; each step takes the best of all. In the
    beginning :math:`D \le |c|`, which gives the bound above, and in the end :math:`\Phi` is the score. Nodes whose
    marginals are whole take their labels first: that lowers no ``p/D``.
    """
    mu = _distribution(problem, marginals)
    groups = _associative_terms(problem)
    labels = np.where(mu.max(axis=1, initial=0.0) >= 1 - _WHOLE, mu.argmax(axis=1), -1) if len(mu) else np.zeros(0, dtype=int)
    mean = (mu * np.where(mu > 0, problem.unary, 0.0)).sum(axis=1)
    while (labels < 0).any():
        groups = [_open(group, labels) for group in groups]
        best = (-np.inf, 0, 1.0)
        for k in range(problem.n_labels):
            free = np.flatnonzero((labels < 0) & (mu[:, k] > 0))
            if not len(free):
                continue
            at, rise = [mu[free, k]], [problem.unary[free, k] - mean[free]]
            for group in groups:
                for value, change in _changes(group, mu, labels, k):
                    at.append(value)
                    rise.append(change)
            where, inverse = np.unique(-np.concatenate(at), return_inverse=True)
            total = np.cumsum(np.bincount(inverse, weights=np.concatenate(rise), minlength=len(where)))
            total = np.where(where < 0, total, -np.inf)
            i = int(np.argmax(total))
            if total[i] > best[0]:
                best = (float(total[i]), k, float(-where[i]))
        labels[(labels < 0) & (mu[:, best[1]] >= best[2])] = best[1]
    return labels.astype(np.int32)


def guaranteed_score(problem: Problem, marginals: Any) -> float:
    """What `expected_rounding` reaches at least, and `sample_rounding` on average; see the former. Constants are added."""
    mu = _distribution(problem, marginals)
    total = problem.offset + float((mu * np.where(mu > 0, problem.unary, 0.0)).sum())
    for group in _associative_terms(problem):
        size = group.nodes.shape[1]
        total += float((mu[group.nodes].min(axis=1) * group.weights).sum()) / size
    return total + float(_edge_constants(problem).sum())


def _open(group: _Group, labels: np.ndarray) -> _Group:
    """The terms that the labels do not decide yet."""
    member = labels[group.nodes]
    top = member.max(axis=1, initial=-1)
    kept = (member < 0).any(axis=1) & ((member < 0) | (member == top[:, None])).all(axis=1)
    return _Group(group.nodes[kept], group.weights[kept])


def _changes(group: _Group, mu: np.ndarray, labels: np.ndarray, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """How the estimator of the terms changes when the threshold for ``k`` falls to the marginal of one more member."""
    nodes, weights = group
    if not len(nodes):
        return []
    member = labels[nodes]
    free = member < 0
    mine = np.where(free, mu[nodes, k], np.inf)
    order = np.argsort(-mine, axis=1, kind="stable")
    mine = np.take_along_axis(mine, order, axis=1)
    rest = np.where(free[:, :, None], mu[nodes], 0.0)
    rest = np.take_along_axis(rest, order[:, :, None], axis=1)
    spread = np.maximum.accumulate(rest[:, ::-1], axis=1)[:, ::-1].sum(axis=2)
    low = np.where(free[:, :, None], mu[nodes], np.inf).min(axis=1)
    common = member.max(axis=1)
    row = np.arange(len(low))
    every = np.where(common < 0, (low * weights).sum(axis=1), low[row, common] * weights[row, common])
    value = every / spread[:, 0]
    pays = np.where((common < 0) | (common == k), weights[:, k], 0.0)
    found = []
    for i in range(nodes.shape[1]):
        if i + 1 < nodes.shape[1]:
            then = pays * np.divide(mine[:, -1], spread[:, i + 1], out=np.zeros(len(nodes)), where=spread[:, i + 1] > 0)
        else:
            then = pays
        here = np.isfinite(mine[:, i])
        found.append((mine[here, i], (then - value)[here]))
        value = np.where(here, then, value)
    return found


def _distribution(problem: Problem, marginals: Any) -> np.ndarray:
    """Checked marginals, free of small errors: rows sum to 1, forbidden labels have none."""
    mu = as_float(marginals, "marginals")
    wanted = (problem.n_nodes, problem.n_labels)
    if mu.shape != wanted:
        raise InvalidProblemError(f"marginals have shape {mu.shape}, wanted {wanted}, one row per node.")
    if not np.isfinite(mu).all():
        raise InvalidProblemError(f"marginals hold {mu[~np.isfinite(mu)][0]}, wanted finite numbers.")
    clean = np.where(np.isneginf(problem.unary), 0.0, np.maximum(mu, 0.0))
    total = clean.sum(axis=1, keepdims=True)
    wrong = np.maximum(np.abs(mu - clean).max(axis=1, initial=0.0), np.abs(total[:, 0] - 1))
    if len(mu) and wrong.max() > _TOLERANCE:
        v = int(np.argmax(wrong))
        raise InvalidProblemError(
            f"marginals of node {v} are {mu[v]}, wanted numbers >= 0 that sum to 1, with 0 for forbidden labels."
        )
    clean[clean < _NOTHING] = 0.0
    return clean / clean.sum(axis=1, keepdims=True)


def _edge_constants(problem: Problem) -> np.ndarray:
    """The entry off the diagonal of each edge's table, weighted."""
    if not problem.n_edges or problem.n_labels < 2:
        return problem.tables[problem.edge_table, 0, 0] * problem.edge_weight if problem.n_edges else np.zeros(0)
    return problem.tables[problem.edge_table, 0, 1] * problem.edge_weight


def _associative_terms(problem: Problem) -> list[_Group]:
    """Edges and cliques as terms that pay a weight >= 0 where all nodes have the same label, grouped by size."""
    groups = []
    if problem.n_edges and problem.n_labels > 1:
        fault = _fault(problem)
        if fault:
            raise NotAssociativeError(f"{fault}; sample_rounding takes any problem, without a promise.")
        diagonal = np.diagonal(problem.tables, axis1=1, axis2=2) - problem.tables[:, :1, 1]
        weights = diagonal[problem.edge_table] * problem.edge_weight[:, None]
        groups.append(_Group(problem.graph.edges, weights))
    sizes = np.diff(problem.cliques.ptr)
    for size in np.unique(sizes):
        which = np.flatnonzero(sizes == size)
        nodes = problem.cliques.nodes[problem.cliques.ptr[which][:, None] + np.arange(size)]
        groups.append(_Group(nodes, problem.cliques.weights[which]))
    return groups


def is_associative(problem: Problem) -> bool:
    """Whether `expected_rounding` takes the problem: all tables are a constant plus a diagonal >= 0."""
    return not _fault(problem)


def _fault(problem: Problem) -> str:
    """Why a problem is not associative; empty if it is."""
    n = problem.n_labels
    if not problem.n_edges or n < 2:
        return ""
    if problem.n_states.min() < n:
        v = int(np.argmin(problem.n_states))
        return f"node {v} has {problem.n_states[v]} labels, wanted {n} at every node of an edge"
    off = problem.tables[:, ~np.eye(n, dtype=bool)]
    constant = np.isfinite(problem.tables).all(axis=(1, 2)) & (off == off[:, :1]).all(axis=1)
    finite = np.where(constant[:, None, None], problem.tables, 0.0)
    diagonal = np.diagonal(finite, axis1=1, axis2=2) - finite[:, :1, 1]
    weight = problem.edge_weight[:, None] * diagonal[problem.edge_table]
    wrong = np.flatnonzero(~constant[problem.edge_table] | (weight < 0).any(axis=1))
    if not len(wrong):
        return ""
    e = int(wrong[0])
    u, v = problem.graph.edges[e]
    return f"edge {e} (nodes {u}-{v}, table {problem.edge_table[e]}) is not associative; wanted a constant plus a diagonal >= 0"
