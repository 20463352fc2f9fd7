"""TrivialObjective: examples must have strictly trivial equivalents; no max-sum solver is needed to learn that."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from ...core.errors import CertificateError, InvalidSampleError
from ...executors.threads import n_threads, thread_map
from ...kernels.net import adjacency
from ...kernels.perceptron import trivial_check, trivial_sweeps
from ...models.bound import FORBIDDEN, BoundModel
from ...models.cone import Cone
from ..certificate import Check, Proven
from ..oracles.base import Effort
from ..proofs.feature_sums import FeatureSum, absolute
from ..proofs.forests import widest
from .base import Answer, Plane, PlaneObjective

_NONE = np.full(3, -1, dtype=np.int64)
_MOST_NODES = 2000  # of a Gram matrix of node features (32 MB), which saves products of features in sweeps
_LEAST_FEATURES = 32  # with fewer features a node the products cost less than looking them up


class TrivialObjective(PlaneObjective):
    r"""Problem 6 of Franc & Savchynskyy 2008: weights of the model and potentials of each example, such that the reparametrised problem of each
    example is strictly trivial with the true labelling, by a margin of 1:

    .. math::
        \tfrac12\|w\|^2 + \tfrac12\sum_j\|\varphi_j\|^2 + \sum_j c_j \xi_j, \qquad
        \xi_j = \max\Big(0,\; \max_{t,\,k \ne y_t} 1 - q^\varphi_t(y_t) + q^\varphi_t(k),\;
        \max_{tt',\,(k,l) \ne (y_t, y_{t'})} 1 - g^\varphi_{tt'}(y_t, y_{t'}) + g^\varphi_{tt'}(k, l)\Big)

    A slack below 1 proves that the example is predicted without error, and that the linear relaxation is tight there, so
    :math:`\sum_j \xi_j` bounds the number of wrong examples (0/1 loss).

    The weights of the objective are those of the model, then the potentials, :math:`2 E_j K` an example; see `model_weights`
    and `potentials`. The key of a plane is (node, label, -1) or (edge, label, label), in numbers of its example; (-1, -1, -1) is
    the plane :math:`\xi_j \ge 0`.

    Parameters
    ----------
    model : BoundModel
        With labels.
    C : float
    sample_weight : array-like, optional
    n_jobs : int
        Threads over examples.
    """

    surrogate = "trivial"

    def __init__(self, model: BoundModel, C: float = 1.0, sample_weight: Any = None, n_jobs: int = 1):
        model.refuse_cliques("the trivial surrogate")
        model.refuse_factors("the trivial surrogate")
        data, size = model.data, model.n_labels
        n_all = model.n_weights + 2 * len(data.edges) * size
        nonneg = np.zeros(n_all, dtype=bool)
        nonneg[: model.n_weights] = model.cone.nonneg
        super().__init__(model.n_examples, Cone(n_all, nonneg, model.cone.tables), C, sample_weight, n_jobs)
        self.model = model
        self.design = model.design(np.zeros((len(data.n_states), size)))
        self.incidence = adjacency(len(data.n_states), data.edges)

    def model_weights(self, w: Any) -> np.ndarray:
        """The weights of the classifier among all weights."""
        return self._checked(w)[: self.model.n_weights].copy()

    def potentials(self, w: Any, j: int) -> np.ndarray:
        r"""Potentials :math:`\varphi_j` as messages (2, E, K) of ``model.problem(model_weights(w), j)``."""
        first, last = self.model.data.edge_ptr[j], self.model.data.edge_ptr[j + 1]
        return np.ascontiguousarray(self._phi(self._checked(w))[first:last].transpose(1, 0, 2))

    def _phi(self, w: np.ndarray) -> np.ndarray:
        return w[self.model.n_weights :].reshape(len(self.design.edges), 2, self.model.n_labels)

    def _checked(self, w: Any) -> np.ndarray:
        array = np.ascontiguousarray(w, dtype=np.float64)
        if array.shape != (self.n_weights,) or not np.isfinite(array).all():
            raise InvalidSampleError(
                f"weights have shape {array.shape}, wanted {self.n_weights} finite numbers: {self.model.n_weights} weights of the "
                "model, then the potentials."
            )
        return array

    def check(self, w: np.ndarray, examples: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""For each example: the smallest :math:`\langle z, w\rangle` of its inequalities, their keys, how many are :math:`\le 0`."""
        examples = np.arange(self.n_examples) if examples is None else examples
        least, keys = np.empty(len(examples)), np.empty((len(examples), 3), dtype=np.int64)
        violated = np.empty(len(examples), dtype=np.int64)
        phi = self._phi(w)

        ptr, edge, side = self.incidence

        def run(part: slice) -> None:
            row, found = np.empty(self.model.n_labels), (least[part], keys[part], violated[part])
            trivial_check(
                self.design,
                ptr,
                edge,
                side,
                self.model.data.n_states,
                examples[part],
                w,
                phi,
                row,
                found[0],
                found[1],
                found[2],
            )

        cuts = np.linspace(0, len(examples), n_threads(self.n_jobs) + 1).astype(int)
        thread_map(run, [slice(a, b) for a, b in pairwise(cuts.tolist()) if b > a], self.n_jobs)
        return least, keys, violated

    def sweeps(self, w: np.ndarray, examples: np.ndarray, max_sweeps: int, total: np.ndarray) -> tuple[int, int, int]:
        """Algorithm 3 on ``w`` in place, see `trivial_sweeps`: (sweeps, updates, updates of the last sweep)."""
        design, size = self.design, self.model.n_labels
        sums, bank = np.empty((len(design.truth), size)), np.empty((len(design.edge_index), size * size))
        ptr, edge, side = self.incidence
        states, phi = self.model.data.n_states, self._phi(w)
        gram = np.zeros((0, 0)) if len(total) else self._gram
        found = trivial_sweeps(
            design, ptr, edge, side, states, examples, max_sweeps, self._shared, gram, w, phi, sums, bank, total
        )
        return int(found[0]), int(found[1]), int(found[2])

    @cached_property
    def _shared(self) -> int:
        """How `trivial_sweeps` may read tables: see there."""
        if self.design.edge_step[1] or not (np.diff(self.design.f_ptr) == 1).all():
            return 0
        rows = [row[row >= 0] for row in self.design.edge_index.reshape(len(self.design.edge_index), -1)]
        once = [np.unique(row) for row in rows]
        if len(np.unique(np.concatenate(once))) < sum(map(len, once)):
            return 0
        return 2 if sum(map(len, once)) == sum(map(len, rows)) else 1

    @cached_property
    def _gram(self) -> np.ndarray:
        """Products of the features of all nodes for `trivial_sweeps`, or nothing where they are many or each node has few."""
        design, n = self.design, len(self.design.truth)
        index = design.node_index
        dense = len(design.x_val) >= _LEAST_FEATURES * n and n <= _MOST_NODES
        if not dense or design.node_step[1] or (index < 0).any() or len(np.unique(index)) < index.size:
            return np.zeros((0, 0))
        x = sparse.csr_array((design.x_val, design.x_col, design.x_ptr), shape=(n, len(index))).toarray()
        return np.ascontiguousarray(x @ x.T)

    def _ask(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> Answer:
        least, keys, _ = self.check(np.ascontiguousarray(w, dtype=np.float64), examples)
        value = np.maximum(1.0 - least, 0.0)
        chosen = [key if slack > 0 else _NONE for key, slack in zip(keys, value, strict=True)]
        return Answer(examples, chosen, value, value.copy())

    def check_key(self, j: int, key: Any) -> None:
        """Refuse keys that name no inequality of the example: another number of entries, an item or label that is not there, or the true
        label, whose inequality would be 0 >= 1."""
        given = np.asarray(key)
        if given.shape != (3,) or given.dtype.kind not in "iu":
            raise CertificateError(
                f"a plane of example {j} has a key of {given.dtype} and shape {given.shape}, wanted three whole numbers."
            )
        item, k, m = given.tolist()
        if (item, k, m) == (-1, -1, -1):
            return
        data, truth = self.model.data, self.design.truth
        if m == -1:
            sound = 0 <= item < data.node_ptr[j + 1] - data.node_ptr[j]
            v = int(data.node_ptr[j]) + item if sound else 0
            sound = sound and 0 <= k < data.n_states[v] and k != truth[v]
        else:
            sound = 0 <= item < data.edge_ptr[j + 1] - data.edge_ptr[j]
            e = int(data.edge_ptr[j]) + item if sound else 0
            sound = sound and all(0 <= own < data.n_states[v] for own, v in zip((k, m), data.edges[e], strict=True))
            sound = sound and (k, m) != tuple(truth[data.edges[e]].tolist()) and not self._is_forbidden(e, k, m)
        if not sound:
            raise CertificateError(
                f"a plane of example {j} has the key {(item, k, m)}, wanted a node or edge of it with labels that it has, other than the true "
                "ones."
            )

    def _is_forbidden(self, e: int, k: int, m: int) -> bool:
        design = self.design
        row = int(e * design.edge_step[0] + (k * self.model.n_labels + m) * design.edge_step[1])
        return bool((design.edge_index[design.f_col[design.f_ptr[row] : design.f_ptr[row + 1]], k, m] == FORBIDDEN).any())

    def sum_planes(self, examples: np.ndarray, keys: Sequence[Any], alpha: np.ndarray, check: Check) -> FeatureSum:
        for j, key in zip(examples.tolist(), keys, strict=True):
            self.check_key(j, key)
        return super().sum_planes(examples, keys, alpha, check)

    def exact_planes(self, examples: np.ndarray, keys: Sequence[Any], alpha: np.ndarray) -> tuple[Any, Any]:
        from ..proofs.exact_sums import Dyadic, add_up, scaled

        total, offsets = Dyadic.none(), []
        places, values, shares = [np.zeros(0, dtype=np.int64)], [np.zeros(0)], [np.zeros(0)]
        for j, key, share in zip(examples.tolist(), keys, alpha.tolist(), strict=True):
            self.check_key(j, key)
            if key[0] >= 0:
                place, value = self._terms(j, key)
                places.append(place)
                values.append(value)
                shares.append(np.full(len(place), share))
                offsets.append(share)
        (numbers, power), (counts, unit) = scaled(np.concatenate(values)), scaled(np.concatenate(shares))
        total = Dyadic(*add_up(np.concatenate(places), numbers * counts), power + unit)
        return total, Dyadic.of(np.array(offsets))

    def plane(self, j: int, key: np.ndarray) -> Plane:
        if int(key[0]) < 0:
            return Plane(j, 0.0, np.zeros(0, dtype=np.int64), np.zeros(0), np.asarray(key))
        places, values = self._terms(j, key)
        unique, inverse = np.unique(places, return_inverse=True)
        total = np.bincount(inverse.ravel(), weights=values, minlength=len(unique))
        return Plane(j, 1.0, unique[total != 0].astype(np.int64), total[total != 0], np.asarray(key))

    def _terms(self, j: int, key: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Weights and features of an inequality, one after another."""
        item, k, m = (int(i) for i in key)
        design, size, first = self.design, self.model.n_labels, self.model.n_weights
        index: list[np.ndarray] = []
        value: list[np.ndarray] = []

        def features(ptr: np.ndarray, col: np.ndarray, val: np.ndarray, row: int, weights: np.ndarray, sign: float) -> None:
            own = slice(ptr[row], ptr[row + 1])
            index.append(weights[col[own]])
            value.append(sign * val[own])

        def potential(edge: int, side: int, label: int, sign: float) -> None:
            index.append(np.array([first + (2 * edge + side) * size + label]))
            value.append(np.array([sign]))

        if m < 0:
            v = int(design.node_ptr[j]) + item
            for label, sign in ((int(design.truth[v]), 1.0), (k, -1.0)):
                row = int(v * design.node_step[0] + label * design.node_step[1])
                features(design.x_ptr, design.x_col, design.x_val, row, design.node_index[:, label], sign)
                ptr, edge, side = self.incidence
                for i in range(ptr[v], ptr[v + 1]):
                    potential(int(edge[i]), int(side[i]), label, -sign)
        else:
            e = int(design.edge_ptr[j]) + item
            s, t = (int(design.truth[v]) for v in design.edges[e])
            for (a, b), sign in (((s, t), 1.0), ((k, m), -1.0)):
                row = int(e * design.edge_step[0] + (a * size + b) * design.edge_step[1])
                features(design.f_ptr, design.f_col, design.f_val, row, design.edge_index[:, a, b], sign)
                potential(e, 0, a, sign)
                potential(e, 1, b, sign)
        places, values = np.concatenate(index), np.concatenate(value)
        return places[places >= 0].astype(np.int64), values[places >= 0]

    def evaluate(self, w: np.ndarray) -> float:
        return self.prove(self._checked(w), Check()).high

    def prove(self, w: np.ndarray, check: Check, goal: float | None = None) -> Proven:
        """Slacks from the reparametrised problems, made from features without the kernels."""
        from ..proofs.evaluation import Slacks, total
        from ..proofs.feature_sums import EPS

        own = self.model_weights(w)
        slack, error = np.zeros(self.n_examples), np.zeros(self.n_examples)
        check.expect(self.n_examples)
        sizes = absolute(self.model)
        width = max(widest(self.model.data.x), widest(self.model.data.f))
        for j in range(self.n_examples):
            problem = self.model.problem(own, j)
            if (problem.n_states > 1).any():
                phi = self.potentials(w, j)
                slack[j] = _slack(problem.reparametrize(phi), self.model.truth(j))
                large = sizes.problem(np.abs(own), j)
                finite = [np.where(np.isfinite(part), part, 0.0) for part in (large.unary, large.edge_scores())]
                most = max(float(np.abs(part).max(initial=0.0)) for part in finite)
                degree = int(problem.graph.degrees.max(initial=0)) + 2
                error[j] = 8 * EPS * (width + degree) * (most + degree * float(np.abs(phi).max(initial=0.0)) + 1.0)
            check.step()
        if check.exact:
            return self._exactly(w, own, slack - error)
        low, high = np.maximum(slack - error, 0.0), np.where(slack > 0, slack + error, 0.0)
        return total(self.c, w, Slacks(low, np.maximum(high, error), 2 * error, "margins of the reparametrised problems"))

    def _exactly(self, w: np.ndarray, own: np.ndarray, least: np.ndarray) -> Proven:
        """The objective in rational arithmetic: inequalities that float64 shows to be below ``least`` of their example are left out."""
        from ..proofs.exact_sums import Dyadic, power_of, rounded, scaled

        value = Dyadic.of(w).square() / 2
        for j in range(self.n_examples):
            problem, best = self.model.problem(own, j), Fraction(0)
            if not (problem.n_states > 1).any():
                continue
            node, edge = _violations(problem.reparametrize(self.potentials(w, j)), self.model.truth(j))
            keys = [(v, k, -1) for v, k in np.argwhere(node >= least[j]).tolist()] + np.argwhere(edge >= least[j]).tolist()
            for key in keys:
                place, feature = self._terms(j, np.array(key))
                (left, one), (right, two) = scaled(feature), scaled(w[place])
                best = max(best, 1 - power_of(one + two) * int((left * right).sum()))
            value += Fraction(float(self.c[j])) * best
        words = "objective by the inequalities of each example, in rational arithmetic"
        return Proven(rounded(value, up=False), rounded(value, up=True), 0.0, words)


def _slack(problem: Any, truth: np.ndarray) -> float:
    """Largest of 0 and of 1 minus the margins of a reparametrised problem, by plain numpy."""
    node, edge = _violations(problem, truth)
    return float(max(node.max(initial=0.0), edge.max(initial=0.0)))


def _violations(problem: Any, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 minus the margin of each label (n, K) and of each pair of labels (E, K, K); ``-inf`` where there is no inequality."""
    nodes = np.arange(problem.n_nodes)
    shown = np.arange(problem.n_labels) < problem.n_states[:, None]
    others = shown.copy()
    others[nodes, truth] = False
    node = np.where(others, 1.0 - (problem.unary[nodes, truth][:, None] - problem.unary), -np.inf)
    if not problem.n_edges:
        return node, np.zeros((0, problem.n_labels, problem.n_labels))
    u, v = problem.graph.edges.T
    tables, edges = problem.edge_scores(), np.arange(problem.n_edges)
    allowed = shown[u][:, :, None] & shown[v][:, None, :]
    allowed[edges, truth[u], truth[v]] = False
    margins = tables[edges, truth[u], truth[v]][:, None, None] - tables
    return node, np.where(allowed, 1.0 - margins, -np.inf)
