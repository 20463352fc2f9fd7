r"""The quadratic programme of LP-M3N, sparse: variables, rows, and the way from a solution back to messages and marginals.

.. math:: \min\ \tfrac12\|w\|^2 + \sum_j c_j\Big[\sum_t a_t - \langle w, \Psi(x_j, y_j)\rangle\Big],\qquad w \in \text{cone},
.. math:: a_t \ge q_t(k) + L_t(k) - \sum_{e \ni t}\varphi_{et}(k), \qquad 0 \ge g_e(k, l) + \varphi_{eu}(k) + \varphi_{ev}(l) .

Heights of edges are left out: messages are free, so they can be 0. The multipliers of the rows are pseudo-marginals times a
multiple of :math:`c_j`. Where :math:`g_e(k, l) = 0` for :math:`k \ne l` and :math:`g_e(k, k) \ge 0`, the best edge marginals are
:math:`\min(\mu_u(k), \mu_v(k))` and one variable :math:`0 \le z_e(k) \le g_e(k, k)` an edge and label is enough, (10) of Taskar, Chatalbashev & Koller 2004:
:math:`\varphi_{eu} = -z_e` and :math:`\varphi_{ev} = z_e - g_e`. A clique has a variable :math:`z_{cv}(k) \ge 0` a member and label, with
:math:`\sum_{v \in c} z_{cv}(k) \ge r_c(k)`, the dual of (2).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..proofs.message_slacks import edge_tables


def is_associative(objective: Any) -> bool:
    """Whether every table is 0 off its diagonal and, for weights of the cone, not negative on it."""
    design = objective.design
    index, k = design.edge_index, np.arange(design.edge_index.shape[1])
    if design.edge_step[1] or (design.f_val < 0).any() or not (len(design.edges) or len(design.clique_ptr)):
        return False
    own = index[:, k, k]
    apart = index.copy()
    apart[:, k, k] = -1
    return bool((apart < 0).all() and objective.cone.nonneg[own[own >= 0]].all())


def n_nonzeros(objective: Any) -> int:
    """Nonzeros of the rows of the programme, counted without making them (nodes with fewer labels are counted as full)."""
    design, size = objective.design, objective.model.n_labels
    n_edges, joint = len(design.edges), design.node_step[1] > 0
    count = len(design.x_val) * (1 if joint else size) + len(design.truth) * size + 2 * n_edges * size
    count += (len(design.h_val) + 2 * len(design.member)) * size
    if is_associative(objective):
        return int(count + 2 * len(design.f_val) * size + n_edges * size)
    return int(count + len(design.f_val) * (1 if design.edge_step[1] else size**2) + 2 * n_edges * size**2)


class Program(NamedTuple):
    r"""The quadratic programme :math:`\min \tfrac12 s\,\|x_{:P}\|^2 + \langle b, x\rangle,\ G x \le h,\ x \ge l`, with the
    objective divided by the largest :math:`c_j = 1/s`.

    Variables are the weights, the heights of the nodes, and the messages. Rows are those of (node, label), then those of the edges,
    then those of the cone; examples without weight are left out.
    """

    n_weights: int
    scale: float
    linear: np.ndarray
    matrix: Any
    limit: np.ndarray
    lower: np.ndarray
    node_rows: np.ndarray  # int64: v * K + k of each row
    edge_rows: np.ndarray  # int64: (e * K + k) * K + l of each row; e * K + k if associative
    columns: np.ndarray  # int64 (2, E, K), or (1, E, K) if associative: variable of each message, or -1
    associative: bool
    members: np.ndarray  # int64 (M, K): variable of each member of a clique, or -1

    @classmethod
    def of(cls, objective: Any) -> Program:
        """The programme of an objective."""
        model, design = objective.model, objective.design
        data, size, n_weights = model.data, model.n_labels, model.n_weights
        n_nodes, n_edges, k = len(data.n_states), len(data.edges), np.arange(size)
        node_c = np.repeat(objective.c, np.diff(data.node_ptr))
        u, v = data.edges.T.astype(np.int64)
        alive = node_c > 0
        node_rows = np.flatnonzero((k < data.n_states[:, None]) & alive[:, None])
        height = n_weights + np.cumsum(alive) - 1
        first = n_weights + int(alive.sum())
        node_features = _rows(
            design.x_ptr, design.x_col, design.x_val, design.node_index, bool(design.node_step[1]), (n_nodes * size, n_weights)
        )
        edge_features = _rows(
            design.f_ptr,
            design.f_col,
            design.f_val,
            design.edge_index,
            bool(design.edge_step[1]),
            (n_edges * size**2, n_weights),
        )
        truth = node_features.T @ _pick(np.arange(n_nodes) * size + design.truth, node_c, n_nodes * size)
        truth += edge_features.T @ _pick(
            (np.arange(n_edges) * size + design.truth[u]) * size + design.truth[v], node_c[u], n_edges * size**2
        )
        rewards = _rows(
            design.h_ptr,
            design.h_col,
            design.h_val,
            design.clique_index,
            False,
            ((len(design.member_ptr) - 1) * size, n_weights),
        )
        clique = np.repeat(np.arange(len(design.member_ptr) - 1), np.diff(design.member_ptr))
        common = np.ones((len(design.member_ptr) - 1, size), dtype=bool)
        np.logical_and.at(common, clique, design.truth[design.member][:, None] == k)
        at_once = np.zeros(common.shape)
        at_once[clique] = node_c[design.member][:, None]
        truth += rewards.T @ np.where(common, at_once, 0.0).ravel()
        associative = is_associative(objective)
        states, there = data.n_states[data.edges], alive[u][:, None]
        if associative:
            own = np.stack([there & (k < states.min(axis=1)[:, None])])
        else:
            own = np.stack([there & (k < states[:, :1]), there & (k < states[:, 1:]) & (k > 0)])
        columns = np.where(own, first + np.cumsum(own.ravel()).reshape(own.shape) - 1, -1)
        usable = (k < data.n_states[design.member][:, None]) & alive[design.member][:, None]
        members = np.where(usable, first + int(own.sum()) + np.cumsum(usable.ravel()).reshape(usable.shape) - 1, -1)
        n_columns = first + int(own.sum() + usable.sum())
        ends = np.stack([u, v])[:, :, None] * size + k
        if associative:
            diagonal = edge_features[np.flatnonzero(np.eye(size, dtype=bool)[None].repeat(n_edges, axis=0))]
            z = columns[0].ravel()
            edge_rows = np.flatnonzero(z >= 0)
            moved = _matrix(ends[1].ravel()[edge_rows], edge_rows, 1.0, (n_nodes * size, n_edges * size))
            node_features = node_features + moved @ diagonal
            at = [(ends[0].ravel()[edge_rows], z[edge_rows], 1.0), (ends[1].ravel()[edge_rows], z[edge_rows], -1.0)]
            edge_part = [(np.arange(len(edge_rows)), z[edge_rows], 1.0)]
            edge_weights = -diagonal[edge_rows]
        else:
            at = [(ends[columns >= 0], columns[columns >= 0], -1.0)]
            pairs = there[:, :, None] & (k < states[:, :1])[:, :, None] & (k < states[:, 1:])[:, None, :]
            edge_rows = np.flatnonzero(pairs)
            e, left, right = np.unravel_index(edge_rows, (n_edges, size, size))
            one, two = columns[0, e, left], columns[1, e, right]
            edge_part = [(np.flatnonzero(c >= 0), c[c >= 0], 1.0) for c in (one, two)]
            edge_weights = edge_features[edge_rows]
        at.append((node_rows, height[node_rows // size], -1.0))
        at.append(((design.member.astype(np.int64)[:, None] * size + k)[usable], members[usable], 1.0))
        row = (clique[:, None] * size + k)[usable]
        clique_rows = np.unique(row)
        held = _matrix(row, members[usable], -1.0, (rewards.shape[0], n_columns))[clique_rows]
        node_part = sum(_matrix(*entries, (n_nodes * size, n_columns)) for entries in at)
        other = sum(_matrix(*entries, (len(edge_rows), n_columns)) for entries in edge_part)
        cone = -objective.cone.rows
        blocks = [
            _wide(node_features[node_rows], n_columns) + node_part[node_rows],
            _wide(edge_weights, n_columns) + other,
            _wide(rewards[clique_rows], n_columns) + held,
            _wide(cone, n_columns),
        ]
        limit = np.concatenate(
            [-objective.loss_table.ravel()[node_rows], np.zeros(len(edge_rows) + len(clique_rows) + cone.shape[0])]
        )
        lower = np.full(n_columns, -np.inf)
        lower[:n_weights][objective.cone.nonneg] = 0.0
        if associative:
            lower[first:] = 0.0
        scale = 1.0 / float(objective.c.max())
        linear = scale * np.concatenate([-truth, node_c[alive], np.zeros(n_columns - first)])
        matrix = sparse.csc_matrix(sparse.vstack(blocks, format="csc"))
        matrix.eliminate_zeros()
        return cls(n_weights, scale, linear, matrix, limit, lower, node_rows, edge_rows, columns, associative, members)

    def size(self) -> dict[str, Any]:
        """What it takes, for the report."""
        return {
            "n_variables": len(self.linear), "n_rows": len(self.limit), "n_nonzeros": int(self.matrix.nnz),
            "relaxation": "associative" if self.associative else "general",
        }  # fmt: skip

    def messages(self, objective: Any, w: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Messages (2, E, K) of a solution; any numbers are allowed, so that none of its residuals matters."""
        found = np.where(self.columns >= 0, x[np.maximum(self.columns, 0)], 0.0)
        if not self.associative:
            return found
        k = np.arange(found.shape[2])
        every = slice(0, found.shape[1])
        reward = np.where(self.columns[0] >= 0, edge_tables(objective.model.tables(w), every)[:, k, k], 0.0)
        z = np.clip(found[0], 0.0, reward)
        return np.stack([-z, z - reward])

    def clique_messages(self, x: np.ndarray) -> np.ndarray:
        """Messages (M, K) of the members of cliques."""
        return np.where(self.members >= 0, -np.maximum(x[np.maximum(self.members, 0)], 0.0), 0.0)

    def marginals(self, objective: Any, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Node and edge tables near the local polytope, from the multipliers of the rows."""
        model, design = objective.model, objective.design
        data, size = model.data, model.n_labels
        u, v = data.edges.T
        z = np.maximum(z, 0.0)
        node = _pick(self.node_rows, z[: len(self.node_rows)], len(data.n_states) * size).reshape(-1, size)
        alone = ~(node.sum(axis=1) > 0)
        node[alone, design.truth[alone]] = 1.0
        node /= node.sum(axis=1, keepdims=True)
        if self.associative:
            edge = np.zeros((len(u), size, size))
            k = np.arange(size)
            edge[:, k, k] = np.minimum(node[u], node[v])
            return node, edge
        share = z[len(self.node_rows) : len(self.node_rows) + len(self.edge_rows)]
        edge = _pick(self.edge_rows, share, len(u) * size**2).reshape(-1, size, size)
        total = edge.sum(axis=(1, 2))
        edge /= np.where(total > 0, total, 1.0)[:, None, None]
        return node, edge


def _pick(index: np.ndarray, value: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros(n)
    out[index] = value
    return out


def _matrix(row: np.ndarray, column: np.ndarray, value: float, shape: tuple[int, int]) -> Any:
    return sparse.csr_array(sparse.coo_array((np.full(len(row), value), (row, column)), shape=shape))


def _wide(matrix: Any, n_columns: int) -> Any:
    """The matrix with columns of zeros behind."""
    matrix = sparse.csr_array(matrix)
    return sparse.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], n_columns))


def _rows(
    ptr: np.ndarray, column: np.ndarray, value: np.ndarray, index: np.ndarray, joint: bool, shape: tuple[int, int]
) -> Any:
    """Feature vectors, a row an entry (node, label) or (edge, label, label), from the features of a design and their weights."""
    row, index = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), index.reshape(len(index), int(np.prod(index.shape[1:])))
    if joint:
        place = index[column, 0]
    else:
        width = index.shape[1]
        row = (row[:, None] * width + np.arange(width)).ravel()
        place, value = index[column].ravel(), np.repeat(value, width)
    used = place >= 0
    return sparse.csr_array(sparse.coo_array((value[used], (row[used], place[used])), shape=shape))
