r"""Lower bounds on smooth objectives that hold whatever their numbers are, in plain numpy.

Each smooth surrogate is a maximum over points :math:`\mu` (of simplices, or of the local polytope) of functions that are linear in the
weights, so that *any* point proves

.. math:: F(v) \ge \tfrac12\|v\|^2 + b - \langle z, v\rangle \qquad\text{for all allowed } v,

with :math:`z = \sum_j c_j(\Psi(y_j) - \Psi(\mu_j))` and :math:`b = \sum_j c_j(\langle L_j, \mu_j\rangle + H(\mu_j))`, where :math:`H` is

- for the likelihood on forests the entropy :math:`\sum_v H(\mu_v) - \sum_e I(\mu_e)` (Wainwright & Jordan 2008, section 4.2), elsewhere
  the tree-reweighted one, :math:`\sum_v H(\mu_v) - \sum_e\rho_e I(\mu_e)` (Wainwright, Jaakkola & Willsky 2005);
- for the smoothed LP-M3N :math:`\epsilon(\sum_v H(\mu_v) + \sum_e H(\mu_e))` (Hazan & Urtasun 2010, Meshi et al. 2010);
- for the convex energies of ``qp`` :math:`\tfrac\varepsilon2(\|y\|^2 - \|\mu\|^2)` (Jancsary, Nowozin & Rother 2013).

The learners' own evaluations may propose the points; what the points prove is worked out here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ...models.bound import BoundModel
from ...models.convex import ConvexBound
from ...models.matrices import Definite
from ..certificate import Check, Proven
from .feature_sums import EPS, PAIRWISE, FeatureSum, adjoint, feature_sum, marginal_moves

_CELLS = 2**22  # entries of the tables of edges that are worked on at once
_LOGS = 64.0  # more than the logarithm of any number that rounding leaves above 0: what an error of it costs an entropy
_EIGENVALUES = (
    16.0  # eigenvalues of symmetric matrices are off by a few times n roundings of the norm (Anderson et al. 1999, LAPACK)
)


def marginal_tangent(
    model: BoundModel,
    loss: np.ndarray,
    c: np.ndarray,
    examples: np.ndarray,
    node: np.ndarray,
    edge: np.ndarray,
    counting: tuple[Any, Any],
    heat: float,
    check: Check,
) -> FeatureSum:
    r""":math:`z` and :math:`b` of pseudo-marginals of some examples, with the entropies ``heat`` :math:`\cdot
    (\sum_v H_v + \sum_e a_e H_e - b_e (H_u + H_v))`, where ``counting`` is :math:`(a, b)`: numbers, or one for each edge of the union."""
    data, size = model.data, model.n_labels
    total = FeatureSum(np.zeros(model.n_weights), np.zeros(model.n_weights), 0.0, 0.0)
    sizes = np.diff(data.edge_ptr)[examples] * size**2 + np.diff(data.node_ptr)[examples] * size
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // _CELLS, prepend=0)) if len(sizes) else sizes
    for own in np.split(examples, cuts):
        nodes, edges = _rows(data.node_ptr, own), _rows(data.edge_ptr, own)
        share = np.zeros(model.n_examples)
        share[own] = c[own]
        moves = marginal_moves(model, nodes, node[nodes], edges, edge[edges], share, None, own)
        total = total + feature_sum(model, loss, moves)
        total = total + _entropies(model, c, nodes, node, edges, edge, counting, heat)
        check.step(0)
    return total


def _entropies(
    model: BoundModel,
    c: np.ndarray,
    nodes: np.ndarray,
    node: np.ndarray,
    edges: np.ndarray,
    edge: np.ndarray,
    counting: tuple[Any, Any],
    heat: float,
) -> FeatureSum:
    data, size = model.data, model.n_labels
    owner = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
    weight = np.zeros(len(owner))
    weight[nodes] = c[owner[nodes]]
    own, (a, b) = _entropy(node[nodes]), counting
    ends = data.edges[edges]
    there, back = (np.broadcast_to(np.asarray(each, dtype=np.float64), (len(data.edges),))[edges] for each in (a, b))
    both = _entropy(edge[edges].reshape(len(edges), size**2))
    factor = weight.copy()
    for side in range(2):
        np.subtract.at(factor, ends[:, side], weight[ends[:, side]] * back)
    terms = np.concatenate([factor[nodes] * own, weight[ends[:, 0]] * there * both])
    value = heat * float(terms.sum())
    most = float((np.abs(factor[nodes])).sum()) * size + float((weight[ends[:, 0]] * there).sum()) * size**2
    error = heat * (PAIRWISE * float(np.abs(terms).sum()) + 16 * size * EPS * _LOGS * most)
    none = np.zeros(model.n_weights)
    return FeatureSum(none, none, value, error)


def _entropy(rows: np.ndarray) -> np.ndarray:
    return np.asarray(-(rows * np.log(np.where(rows > 0, rows, 1.0))).sum(axis=1))


def _rows(ptr: np.ndarray, examples: np.ndarray) -> np.ndarray:
    sizes = ptr[examples + 1] - ptr[examples]
    starts = np.repeat(ptr[examples] - (np.cumsum(sizes) - sizes), sizes)
    return np.asarray(starts + np.arange(int(sizes.sum())))


# ---- convex energies -----------------------------------------------------------------------------------------------


class PlainEnergies:
    r"""The energies :math:`E_j(\mu) = \langle\theta_j, \mu\rangle + \tfrac12\langle\mu, \Theta_j\mu\rangle` of a `ConvexBound`, term by term from
    its formula (see `maxsum.models.convex.Convex`).

    Parameters
    ----------
    model : ConvexBound
    operators : list of lists, optional
        Operators of form 4 of each example.
    """

    def __init__(self, model: ConvexBound, operators: Any):
        self.model, self.operators, self.data = model, operators, model.data
        self.columns = sparse.csc_array(self.data.f)

    def terms(self, w: np.ndarray, size: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Linear costs, matrices and weights of operators; their sizes if ``size``."""
        model, data = self.model, self.data
        own = model.base
        if size:
            w = np.abs(w)
        node = np.zeros(max(own.n_weights, model.slices[0].stop))
        node[: model.slices[0].stop] = w[model.slices[0]]
        if size:
            from .feature_sums import absolute

            own = absolute(own)
        scores = own.unary(node)
        theta = np.where(np.isneginf(scores), 0.0, scores if size else -scores)
        if model.spec.linear and len(data.edges):
            linear = np.asarray(data.f @ w[model.slices[1]].reshape(-1, 2 * model.n_labels))
            for side in range(2):
                half = linear[:, side * model.n_labels : (side + 1) * model.n_labels]
                np.add.at(theta, data.edges[:, side], half)
            theta[np.arange(model.n_labels) >= data.n_states[:, None]] = 0.0
        bank = model.family.bank(w[model.slices[2]])
        return theta, np.abs(bank) if size else bank, w[model.slices[3]]

    def multiply(self, bank: np.ndarray, operators: np.ndarray, x: np.ndarray) -> np.ndarray:
        r""":math:`\Theta x`."""
        data, size = self.data, self.model.n_labels
        out = self.model.spec.ridge * x
        both = x[data.edges].reshape(len(data.edges), 2 * size)
        turned = np.zeros_like(both)
        ptr, rows, amount = self.columns.indptr, self.columns.indices, self.columns.data
        for p, matrix in enumerate(bank):
            some = slice(ptr[p], ptr[p + 1])
            turned[rows[some]] += amount[some, None] * (both[rows[some]] @ matrix)
        for side in range(2):
            np.add.at(out, data.edges[:, side], turned[:, side * size : (side + 1) * size])
        for j, own in enumerate(self.operators or ()):
            at = slice(int(data.node_ptr[j]), int(data.node_ptr[j + 1]))
            for weight, operator in zip(operators.tolist(), own, strict=True):
                out[at] += weight * operator.apply(x[at])
        return out

    def moments(self, mu: np.ndarray, c: np.ndarray, size: bool = False) -> np.ndarray:
        r""":math:`\sum_j c_j\Phi_j(\mu)`, where :math:`E_j(\mu) = \langle w, \Phi_j(\mu)\rangle + \tfrac\varepsilon2\|\mu\|^2`."""
        model, data = self.model, self.data
        owner = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
        weighted, out = mu * c[owner][:, None], np.zeros(model.n_weights)
        base = model.base
        if size:
            from .feature_sums import absolute

            base = absolute(base)
        none = sparse.csr_array((len(data.edges), model.n_labels**2))
        features = adjoint(base, sparse.csr_array(weighted), none, sparse.csr_array((0, model.n_labels)))[
            : model.slices[0].stop
        ]
        out[model.slices[0]] = features if size else -features
        both = mu[data.edges].reshape(len(data.edges), 2 * model.n_labels)
        edge_c = c[owner[data.edges[:, 0]]] if len(data.edges) else np.zeros(0)
        if model.spec.linear:
            out[model.slices[1]] = np.asarray(data.f.T @ (both * edge_c[:, None])).reshape(-1)
        pairs, ptr = np.zeros(model.family.size), self.columns.indptr
        for p in range(len(pairs)):
            rows, amount = (own[ptr[p] : ptr[p + 1]] for own in (self.columns.indices, self.columns.data))
            pairs[p] = 0.5 * both[rows].T @ (both[rows] * (edge_c[rows] * amount)[:, None])
        adjoint_ = model.family.adjoint(pairs)
        out[model.slices[2]] = np.abs(adjoint_) if size else adjoint_
        for j, own in enumerate(self.operators or ()):
            at = slice(int(data.node_ptr[j]), int(data.node_ptr[j + 1]))
            for s, operator in enumerate(own):
                out[model.slices[3].start + s] += 0.5 * c[j] * float((mu[at] * operator.apply(mu[at])).sum())
        return out

    def tangent(self, loss: np.ndarray, c: np.ndarray, truth: np.ndarray, mu: np.ndarray) -> FeatureSum:
        """What points of the simplices prove."""
        mu = _settled(mu, self.data.n_states)
        owner = np.repeat(np.arange(self.data.n_examples), np.diff(self.data.node_ptr))
        vector = self.moments(mu, c) - self.moments(truth, c)
        sizes = self.moments(mu, c, True) + self.moments(truth, c, True)
        count = len(owner) + len(self.data.edges) + 8
        each = (mu * loss).sum(axis=1) + 0.5 * self.model.spec.ridge * ((truth - mu) * (truth + mu)).sum(axis=1)
        value, most = float((c[owner] * each).sum()), float((c[owner] * (np.abs(each) + self.model.spec.ridge)).sum())
        return FeatureSum(vector, count * EPS * sizes, value, (PAIRWISE + 8 * mu.shape[1] * EPS) * most)

    def slacks(
        self, w: np.ndarray, loss: np.ndarray, truth: np.ndarray, mu: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        r"""Brackets of :math:`\xi_j = E_j(y_j) - \min_\mu [E_j(\mu) - \langle\mu, L_j\rangle]` from any points, and their rounding: the tangent of
        the convex function at a point bounds it from below."""
        data = self.data
        mu = _settled(mu, data.n_states)
        inside = np.arange(mu.shape[1]) < data.n_states[:, None]
        owner = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
        theta, bank, operators = self.terms(w)
        turn, own = self.multiply(bank, operators, mu), self.multiply(bank, operators, truth)
        slope = theta - loss + turn
        value = (mu * (theta - loss + 0.5 * turn)).sum(axis=1)
        at_truth = (truth * (theta + 0.5 * own)).sum(axis=1)
        gap = (mu * slope).sum(axis=1) - np.where(inside, slope, np.inf).min(axis=1, initial=np.inf)
        large, wide, heavy = self.terms(w, True)
        operator_size = np.abs(turn - self.multiply(bank, 0 * operators, mu)) if self.operators else 0.0
        size = (large + loss + self.multiply(wide, 0 * heavy, np.where(inside, 1.0, 0.0)) + operator_size).max(axis=1)
        features = max(
            int(np.diff(own.indptr).max(initial=0)) if sparse.issparse(own) else own.shape[1] for own in (data.x, data.f)
        )
        degree = int(np.bincount(data.edges.ravel(), minlength=1).max(initial=0)) if len(data.edges) else 0
        n = data.n_examples
        counts = features + degree + 4 * mu.shape[1] + np.diff(data.node_ptr) + 8
        error = 8 * EPS * counts * np.bincount(owner, size, n)
        low, gaps = np.bincount(owner, at_truth - value, n), np.bincount(owner, np.maximum(gap, 0.0), n)
        return np.maximum(low - error, 0.0), np.maximum(low + gaps + error, 0.0), 2 * error


def _settled(mu: np.ndarray, n_states: np.ndarray) -> np.ndarray:
    """Points of the simplices near ``mu``."""
    inside = np.arange(mu.shape[1]) < n_states[:, None]
    mu = np.where(inside, np.maximum(mu, 0.0), 0.0)
    total = mu.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total > 0, mu / np.maximum(total, 1e-300), inside / np.maximum(n_states[:, None], 1)))


def allowed_bound(model: ConvexBound, total: FeatureSum) -> Proven:
    r""":math:`b + \min_v \tfrac12\|v\|^2 - \langle z, v\rangle` over the weights that convex energies allow, with rounding taken off.

    The minimum is separable: over free weights it is :math:`-\tfrac12 z^2`, over :math:`v \ge f` that or :math:`\tfrac12 f^2 - fz`, and
    over matrices :math:`W \succeq f` the sum of these over the eigenvalues of :math:`Z`.
    """
    z, spec = total.vector, model.spec
    floor = np.full(len(z), -np.inf)
    floor[model.slices[3]] = 0.0
    family = model.family
    definite = isinstance(family, Definite)
    if family.n_weights and not definite:
        floor[model.slices[2]] = spec.floor
    value, error = 0.0, 0.0
    plain = np.ones(len(z), dtype=bool)
    if definite:
        plain[model.slices[2]] = False
        blur = float(np.sqrt((total.error[model.slices[2]] ** 2).sum())) * (1 + PAIRWISE)
        bank = family.bank(z[model.slices[2]])
        for p, place in enumerate(family.places):
            matrix = bank[p][np.ix_(place, place)]
            if not len(place):
                continue
            found, norm = np.linalg.eigvalsh(matrix), float(np.sqrt((matrix * matrix).sum()))
            value += float(_least(found, spec.floor).sum())
            off = _EIGENVALUES * len(place) * EPS * norm + blur
            error += len(place) * off * (norm + spec.floor + off)
    least = _least(z[plain], floor[plain])
    most = np.maximum(np.abs(z[plain]), np.where(np.isfinite(floor[plain]), floor[plain], 0.0)) + total.error[plain]
    value += float(least.sum())
    error += float((most * total.error[plain]).sum()) + PAIRWISE * float(np.abs(least).sum())
    high = total.value + value
    low = high - error - total.value_error - 8 * EPS * (abs(total.value) + abs(value))
    return Proven(low, high, high - low)


def _least(z: np.ndarray, floor: Any) -> np.ndarray:
    r""":math:`\min_{v \ge f} \tfrac12 v^2 - zv`."""
    below = z < floor
    flat = np.where(below, floor, 0.0)
    return np.asarray(np.where(below, flat * (0.5 * flat - z), -0.5 * z * z))
