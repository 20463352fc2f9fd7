r"""A primal-dual interior-point method for the local-polytope LP, with the work of one iteration kept near that of the graph.

With :math:`\Theta = x / s` (primal over dual slack), the multipliers of edge :math:`uv` (its messages) meet only each other and
the marginals of :math:`u` and :math:`v`. Eliminating them, a ``K x K`` system for each edge, leaves

.. math:: \Bigl(\Theta_V^{-1} + \sum_{uv} C_{uv}^\top (A_{uv} \Theta_{uv} A_{uv}^\top)^{-1} C_{uv}\Bigr)\, \Delta\mu_V = \text{rhs}

in the node marginals alone: ``N (K - 1)`` unknowns, as each node's marginals sum to 1, instead of the ``2 E K`` multipliers.
Predictor and corrector are Mehrotra's. Uniform marginals and spread-out messages are interior points of both programs, so (hard
constraints apart) every iterate is feasible up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...kernels.cholesky import cholesky, substitute
from .polytope import LocalPolytope


@dataclass(frozen=True)
class Tuning:
    """Steps of the interior point."""

    dense_rows: int = 2000  # rows up to which a matrix may be dense: 32 MB
    # Share of entries from which a dense factor is faster than a sparse one; 0.05 and 0.2 took the same time.
    dense_fill: float = 0.1
    # Share of the way to the border that a step goes; 0.9 took 3 more of 13 iterations, 0.995 and 0.999 as many as 0.99.
    stay: float = 0.99


_TUNING = Tuning()


class Point(NamedTuple):
    """Marginals ``node`` (N, K) and ``edge`` (E, K, K), messages (2, E, K), node heights (N,), and the slacks of both."""

    node: np.ndarray
    edge: np.ndarray
    messages: np.ndarray
    top: np.ndarray
    node_slack: np.ndarray
    edge_slack: np.ndarray


def iterate(lp: LocalPolytope, messages: np.ndarray) -> Iterator[Point]:
    """Points that converge to the optimum of both programs; ends when rounding lets no step be taken any more.

    Parameters
    ----------
    messages : ndarray, shape (2, E, K)
        Where the dual starts; 0 is a good choice.
    """
    point: Point | None = _start(lp, messages)
    while point is not None:
        yield point
        with np.errstate(all="ignore"):
            point = _advance(lp, point)


def _advance(lp: LocalPolytope, point: Point) -> Point | None:
    """The next point; None if there is none."""
    mean = _complementarity(point) / lp.n_variables
    if not mean > 0:
        return None
    try:
        step = _Newton(lp, point)
    except np.linalg.LinAlgError:
        return None
    probe = step.direction(-point.node * point.node_slack, -point.edge * point.edge_slack)
    ahead = _complementarity(_move(point, probe, 1.0)) / lp.n_variables
    centre = mean * min(1.0, max(0.0, ahead / mean)) ** 3
    move = step.direction(
        centre - point.node * point.node_slack - probe.node * probe.node_slack,
        centre - point.edge * point.edge_slack - probe.edge * probe.edge_slack,
    )
    return _move(point, move, _TUNING.stay) if all(np.isfinite(part).all() for part in move) else None


def _complementarity(point: Point) -> float:
    return float((point.node * point.node_slack).sum() + (point.edge * point.edge_slack).sum())


def _start(lp: LocalPolytope, messages: np.ndarray) -> Point:
    node = lp.alive / lp.alive.sum(axis=1, keepdims=True)
    edge = lp.pair / np.maximum(lp.pair.sum(axis=(1, 2), keepdims=True), 1)
    sizes = np.abs(lp.edge[lp.pair])
    margin = 2 * float(sizes.mean()) if len(sizes) and sizes.mean() > 0 else 1.0
    messages = messages.copy()
    table = np.where(lp.pair, lp.edge + messages[0][:, :, None] + messages[1][:, None, :], -np.inf)
    messages[0] -= (table.max(axis=(1, 2), initial=-np.inf) + margin)[:, None]
    theta = np.where(lp.alive, lp.node - lp.at_nodes(messages), -np.inf)
    top = theta.max(axis=1) + margin
    return Point(node, edge, messages, top, *_slacks(lp, messages, top))


def _slacks(lp: LocalPolytope, messages: np.ndarray, top: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What the constraints of the dual leave: ``top - (q - messages)`` and ``-(g + messages)``; 1 where nothing is."""
    node = np.where(lp.alive, top[:, None] - lp.node + lp.at_nodes(messages), 1.0)
    edge = np.where(lp.pair, -lp.edge - messages[0][:, :, None] - messages[1][:, None, :], 1.0)
    return node, edge


def _move(point: Point, step: Point, stay: float) -> Point:
    """A step in primal and dual, each as long as stays inside (times ``stay``), at most 1."""
    primal = min(1.0, stay * min(_room(point.node, step.node), _room(point.edge, step.edge)))
    dual = min(1.0, stay * min(_room(point.node_slack, step.node_slack), _room(point.edge_slack, step.edge_slack)))
    return Point(*(p + (primal if i < 2 else dual) * d for i, (p, d) in enumerate(zip(point, step, strict=True))))


def _room(values: np.ndarray, change: np.ndarray) -> float:
    falling = change < 0
    return float((values[falling] / -change[falling]).min(initial=np.inf))


class _Newton:
    """The linear systems of one iteration, factored once."""

    def __init__(self, lp: LocalPolytope, point: Point):
        self.lp, self.point = lp, point
        n_nodes, n_labels = lp.alive.shape
        self.nodes, label = np.arange(n_nodes), np.arange(n_labels)
        self.theta = np.where(lp.pair, point.edge / point.edge_slack, 0.0)
        row = self.theta.sum(axis=2)
        self.row = np.where(row > 0, row, 1.0)
        self.alive_first = lp.alive[lp.first] & (row > 0)
        self.share = self.theta / self.row[:, :, None]
        self._edge_inverse(n_labels)
        corner = self.share @ self.inverse
        upper = corner @ self.share.transpose(0, 2, 1)
        upper[:, label, label] += np.where(self.alive_first, 1 / self.row, 0.0)
        self.rest = _residual(lp, point)
        diagonal = np.zeros((n_nodes, n_labels, n_labels))
        np.add.at(diagonal, lp.first, upper)
        np.add.at(diagonal, lp.second, self.inverse)
        diagonal[:, label, label] += np.where(lp.alive, point.node_slack / np.where(lp.alive, point.node, 1.0), 1.0)
        self.blocks = diagonal, -corner
        self.base = point.node.argmax(axis=1)
        self.idle = ~lp.alive
        self.idle[self.nodes, self.base] = True
        self.solve = self._factor(n_labels)

    def _edge_inverse(self, n_labels: int) -> None:
        """Inverse of the Schur complement of each edge: a grounded graph Laplacian, formed without cancellation."""
        lp, label, edges = self.lp, np.arange(n_labels), np.arange(len(self.lp.first))
        schur = -(self.share.transpose(0, 2, 1) @ self.theta)
        schur[:, label, label] = 0.0
        schur[:, label, label] = -schur.sum(axis=2)
        ground = ~lp.alive[lp.second]
        ground[edges, self.point.node[lp.second].argmax(axis=1)] = True
        schur[ground] = 0.0
        schur.transpose(0, 2, 1)[ground] = 0.0
        edge, at = np.nonzero(ground)
        schur[edge, at, at] = 1.0
        weak = schur[:, label, label]
        schur[:, label, label] = np.where(weak > 0, weak, 1.0)
        self.inverse = np.linalg.inv(schur)
        self.inverse[edge, at, at] = 0.0

    def _factor(self, n_labels: int) -> Callable[[np.ndarray], np.ndarray]:
        """Solver in the marginals of all labels but each node's base label, which takes up what the others change."""
        lp, size = self.lp, self.lp.alive.size
        diagonal, cross = self.blocks
        at, first, second = self.base, self.base[lp.first], self.base[lp.second]
        diagonal, cross = _relative(diagonal, at, at), _relative(cross, first, second)
        diagonal[self.idle] = 0.0
        diagonal.transpose(0, 2, 1)[self.idle] = 0.0
        node, label = np.nonzero(self.idle)
        diagonal[node, label, label] = 1.0
        cross[self.idle[lp.first]] = 0.0
        cross.transpose(0, 2, 1)[self.idle[lp.second]] = 0.0
        if size <= _TUNING.dense_rows and (2 * len(cross) + len(at)) > _TUNING.dense_fill * len(at) ** 2:
            matrix = np.zeros((len(at), n_labels, len(at), n_labels))
            matrix[self.nodes, :, self.nodes] = diagonal
            matrix[lp.first, :, lp.second] = cross
            matrix[lp.second, :, lp.first] = cross.transpose(0, 2, 1)
            factor = matrix.reshape(size, size)
            if not cholesky(factor):
                raise np.linalg.LinAlgError("the matrix is not positive definite")
            return lambda right: substitute(factor, right)
        return _sparse_factor(lp, diagonal, cross)

    def _apply(self, node: np.ndarray) -> np.ndarray:
        """The matrix of the node marginals times a vector."""
        lp = self.lp
        diagonal, cross = self.blocks
        across = np.stack([np.einsum("ekl,el->ek", cross, node[lp.second]), np.einsum("ekl,ek->el", cross, node[lp.first])])
        return np.einsum("vkl,vl->vk", diagonal, node) + lp.at_nodes(across)

    def _edge_solve(self, right: np.ndarray) -> np.ndarray:
        second = np.einsum("elm,em->el", self.inverse, right[1] - np.einsum("ekl,ek->el", self.share, right[0]))
        first = np.where(self.alive_first, right[0] / self.row, 0.0) - np.einsum("ekl,el->ek", self.share, second)
        return np.stack([first, second])

    def direction(self, node_target: np.ndarray, edge_target: np.ndarray) -> Point:
        """Newton step towards ``x * s`` changed by the targets, feasible in both programs."""
        lp, p, (sum_rest, edge_rest) = self.lp, self.point, self.rest
        edge_push = np.where(lp.pair, edge_target / p.edge_slack, 0.0)
        edge_right = edge_rest - np.stack([edge_push.sum(axis=2), edge_push.sum(axis=1)])
        f = np.where(lp.alive, node_target / np.where(lp.alive, p.node, 1.0), 0.0)
        f -= lp.at_nodes(self._edge_solve(edge_right))
        node = np.zeros_like(p.node)
        node[self.nodes, self.base] = sum_rest
        right = f - self._apply(node)
        right = np.where(self.idle, 0.0, right - right[self.nodes, self.base][:, None])
        change = self.solve(right.ravel()).reshape(right.shape)
        node += change
        node[self.nodes, self.base] -= change.sum(axis=1)
        top = -(self._apply(node) - f)[self.nodes, self.base]
        wanted = edge_right + np.stack([node[lp.first], node[lp.second]])
        messages = self._edge_solve(wanted)
        edge = edge_push + self.theta * (messages[0][:, :, None] + messages[1][:, None, :])
        missing = wanted + np.stack([edge_push.sum(axis=2) - edge.sum(axis=2), edge_push.sum(axis=1) - edge.sum(axis=1)])
        more = self._edge_solve(missing)
        edge += self.theta * (more[0][:, :, None] + more[1][:, None, :])
        node_slack = np.where(lp.alive, top[:, None] + lp.at_nodes(messages), 0.0)
        edge_slack = np.where(lp.pair, -messages[0][:, :, None] - messages[1][:, None, :], 0.0)
        return Point(node, edge, messages, top, node_slack, edge_slack)


def _residual(lp: LocalPolytope, point: Point) -> tuple[np.ndarray, np.ndarray]:
    """What the primal constraints miss."""
    first = np.where(lp.alive[lp.first], point.node[lp.first] - point.edge.sum(axis=2), 0.0)
    second = np.where(lp.alive[lp.second], point.node[lp.second] - point.edge.sum(axis=1), 0.0)
    return 1.0 - point.node.sum(axis=1), np.stack([first, second])


def _relative(blocks: np.ndarray, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """``b[k, l] - b[row, l] - b[k, column] + b[row, column]`` for each block."""
    each = np.arange(len(blocks))
    less = blocks - blocks[each, row][:, None, :]
    return less - less[each, :, column][:, :, None]


def _sparse_factor(lp: LocalPolytope, diagonal: np.ndarray, cross: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    from scipy.sparse import coo_array
    from scipy.sparse.linalg import splu

    n_nodes, n_labels = lp.alive.shape
    label, node = np.arange(n_labels), np.arange(n_nodes)
    rows, columns, values = [], [], []
    for u, v, block in ((node, node, diagonal), (lp.first, lp.second, cross), (lp.second, lp.first, cross.transpose(0, 2, 1))):
        rows.append(np.broadcast_to((u[:, None] * n_labels + label)[:, :, None], block.shape).ravel())
        columns.append(np.broadcast_to((v[:, None] * n_labels + label)[:, None, :], block.shape).ravel())
        values.append(block.ravel())
    size = n_nodes * n_labels
    matrix = coo_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(size, size)).tocsc()
    matrix.eliminate_zeros()
    try:
        factor = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError as error:
        raise np.linalg.LinAlgError(str(error)) from error
    return factor.solve
