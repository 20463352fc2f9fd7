r"""FreeTrivialObjective: strictly trivial equivalents whose potentials cost nothing, by fractional programmes in the weights alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import CertificateError
from ...core.problem import Problem
from ...executors.threads import thread_map
from ...inference.dispatch import solve
from ...models.bound import BoundModel
from ..certificate import Check, Proven
from ..objectives.base import Answer, Plane, PlaneObjective
from ..objectives.trivial import _slack
from ..oracles.base import Effort, Key
from ..proofs.feature_sums import EPS, FeatureSum, absolute
from ..proofs.forests import scores_of, widest

_MOST_STEPS = 50  # of the method for one example: each at least doubles the number of digits, so that 6 are enough mostly
_HALVINGS = 12  # of a bracket that the linear relaxation leaves open
_CLOSED = 1e-12  # of a slack, and of its scores: what rounding leaves


class _Bracket(NamedTuple):
    """The slack of one example between two numbers, with the labelling and the messages that show them."""

    low: float
    high: float
    labels: np.ndarray
    messages: np.ndarray


class FreeTrivialObjective(PlaneObjective):
    r"""Problem 6 of Franc & Savchynskyy 2008 without the term :math:`\tfrac12\sum_j\|\varphi_j\|^2`: potentials of the examples are free.

    .. math:: \tfrac12\|w\|^2 + \sum_j c_j\,\xi_j(w),\qquad \xi_j(w) = \min_\varphi \xi_j(w, \varphi),

    with :math:`\xi_j(w, \varphi)` of `TrivialObjective`. The dual of the linear programme in :math:`\varphi` is one over multipliers of the
    inequalities in which the potentials cancel: up to a factor, pseudo-marginals :math:`\mu` of the local polytope. So

    .. math:: \xi_j(w) = \max\Big\{0,\; \max_{\mu \ne y_j} 1 - \frac{\langle w, \Psi(x_j, y_j) - \Psi(x_j, \mu)\rangle}{h_j(\mu)}\Big\},
              \qquad h_j(\mu) = \sum_t 1 - \mu_t(y_t) + \sum_{tt'} 1 - \mu_{tt'}(y_t, y_{t'}):

    the hinge of the linear relaxation *for each wrong term*, where LP-M3N has :math:`\max_\mu h_j(\mu) - \langle w, \cdot\rangle`. It is 0 for the
    same weights, and it is the smallest :math:`\xi` at which LP-M3N with :math:`1 - \xi` times the loss of nodes and edges has no slack, which is how
    it is found (the method of Dinkelbach 1967, one max-sum problem a step). Planes are labellings. On forests the relaxation is tight and slacks are
    exact; on graphs with cycles they are bracketed, from below by labellings and from above by messages.

    Parameters
    ----------
    model : BoundModel
        With labels, without cliques, factors and forbidden pairs.
    C, sample_weight, n_jobs
        As of `TrivialObjective`.
    """

    surrogate = "trivial"

    def __init__(self, model: BoundModel, C: float = 1.0, sample_weight: Any = None, n_jobs: int = 1):
        model.refuse_cliques("the trivial surrogate")
        model.refuse_factors("the trivial surrogate")
        super().__init__(model.n_examples, model.cone, C, sample_weight, n_jobs)
        self.model, self.exact = model, model.is_forest
        self.design = model.design(np.zeros((len(model.data.n_states), model.n_labels)))

    def wrong_terms(self, j: int, labels: np.ndarray) -> int:
        """Nodes and edges of example ``j`` where a labelling is not the true one."""
        wrong = np.asarray(labels) != self.model.truth(j)
        return int(wrong.sum()) + int(wrong[self.model.data.graphs[j].edges].any(axis=1).sum())

    def plane(self, j: int, key: Key) -> Plane:
        labels = np.asarray(key)
        truth, states = self.model.truth(j), self.model.data.n_states[slice(*self.model.data.node_ptr[j : j + 2])]
        if labels.shape != truth.shape or labels.dtype.kind not in "iu" or (labels < 0).any() or (labels >= states).any():
            raise CertificateError(
                f"a plane of example {j} has the key {labels!r}, wanted a labelling of its {len(truth)} nodes."
            )
        n = self.wrong_terms(j, labels)
        if not n:
            return Plane(j, 0.0, np.zeros(0, dtype=np.int64), np.zeros(0), labels)
        index, value = self.model.difference(j, labels)
        return Plane(j, 1.0, index, value / n, labels)

    def potentials(self, w: np.ndarray, j: int) -> np.ndarray:
        r"""Potentials :math:`\varphi_j` as messages (2, E, K), the best that were found."""
        return self._bracket(self.model.problem(np.asarray(w, dtype=np.float64), j), self.model.truth(j), Effort.FULL).messages

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
        problems = [self.model.problem(w, int(j)) for j in examples]
        items = list(zip(problems, (self.model.truth(int(j)) for j in examples), strict=True))
        found = thread_map(lambda item: self._bracket(item[0], item[1], effort), items, self.n_jobs)
        low = np.array([own.low for own in found])
        high = np.array([own.high for own in found])
        return Answer(examples, [own.labels for own in found], low, np.maximum(low, high))

    def _bracket(self, problem: Problem, truth: np.ndarray, effort: Effort) -> _Bracket:
        """The slack of one example: labellings that raise it from below, and messages that bound it from above."""
        best, low = np.array(truth, dtype=np.int32), 0.0
        messages = problem.zero_messages().edge
        high = _slack(problem, truth) if (problem.n_states > 1).any() else 0.0

        def at(margin: float) -> np.ndarray | None:
            nonlocal messages, high
            result = solve(_charged(problem, truth, margin), None if problem.graph.is_forest else "TRWS")
            if result.messages is not None:
                above = _slack(problem.reparametrize(result.messages.edge), truth)
                if above < high:
                    messages, high = result.messages.edge, above
            return result.labels

        for _ in range(_MOST_STEPS):
            labels = at(1.0 - low)
            if labels is None or np.array_equal(labels, truth):
                break
            wrong = labels != truth
            n = int(wrong.sum()) + int(wrong[problem.graph.edges].any(axis=1).sum())
            ratio = 1.0 - (problem.score(truth) - problem.score(labels)) / n
            if ratio <= low + _CLOSED * (1.0 + abs(low)):
                break
            best, low = np.asarray(labels, dtype=np.int32), ratio
        bottom = low
        for _ in range(_HALVINGS if effort >= Effort.FULL and not problem.graph.is_forest else 0):
            if high - bottom <= _CLOSED * (1.0 + high):
                break
            middle, before = 0.5 * (bottom + high), high
            at(1.0 - middle)
            bottom = middle if high == before else bottom
        return _Bracket(low, max(low, high), best, messages)

    def evaluate(self, w: np.ndarray) -> float:
        return self.prove(np.asarray(w, dtype=np.float64), Check()).high

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """Slacks from above by the inequalities under messages, which may be any numbers, from below by labellings, in plain numpy."""
        from ..proofs.evaluation import Slacks, total

        if check.exact:
            raise CertificateError("free potentials are not checked in rational arithmetic; leave exact=True out.")
        n = self.n_examples
        low, high, error = np.zeros(n), np.zeros(n), np.zeros(n)
        sizes, rounding = absolute(self.model), scores_of(self.model, w).error
        width = max(widest(self.model.data.x), widest(self.model.data.f))
        check.expect(n)
        for j in range(n):
            problem, truth = self.model.problem(w, j), self.model.truth(j)
            if (problem.n_states > 1).any():
                found = self._bracket(problem, truth, Effort.FULL)
                high[j] = _slack(problem.reparametrize(found.messages), truth)
                low[j] = found.low - rounding[j]
                large = sizes.problem(np.abs(w), j)
                finite = [np.where(np.isfinite(part), part, 0.0) for part in (large.unary, large.edge_scores())]
                most = max(float(np.abs(part).max(initial=0.0)) for part in finite)
                degree = int(problem.graph.degrees.max(initial=0)) + 2
                size = float(np.abs(found.messages).max(initial=0.0))
                error[j] = 8 * EPS * (width + degree) * (most + degree * size + 1.0)
            check.step()
        return total(self.c, w, Slacks(np.maximum(low, 0.0), high + error, 2 * error, "margins under free potentials"))

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Key], alpha: np.ndarray, check: Check) -> FeatureSum:
        found = super().sum_planes(examples, keys, alpha, check)
        return found._replace(error=2 * found.error, value_error=2 * found.value_error)  # quotients round once more


def _charged(problem: Problem, truth: np.ndarray, margin: float) -> Problem:
    """The problem with ``margin`` added to every label, and every pair of labels of an edge, that is not the true one."""
    unary, tables = problem.unary + margin, problem.edge_scores() + margin
    u, v = problem.graph.edges.T
    unary[np.arange(problem.n_nodes), truth] -= margin
    tables[np.arange(problem.n_edges), truth[u], truth[v]] -= margin
    return (
        Problem(problem.graph, unary, tables, np.arange(problem.n_edges), n_states=problem.n_states)
        if problem.n_edges
        else Problem(problem.graph, unary, n_states=problem.n_states)
    )
