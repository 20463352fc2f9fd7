r"""A proximal bundle for a sum of polyhedral functions that are coupled at the nodes of a graph.

Minimised is :math:`D(u) = \sum_c \max_y [\sum_{i \in c} u_i(y_i) + G_c(y)]` over shares :math:`u` of the node scores, one for each
copy of a node, that sum to a given total at each node. Each tree ``c`` has its own model, the maximum over the labellings
(columns) seen so far. The master problem, with centre :math:`\hat u`,

.. math:: \min_u \sum_c \max_{j} [\langle u_c, y_{cj} \rangle + G_{cj}] + \tfrac{1}{2 t} \|u - \hat u\|^2,

is solved in its dual, over weights :math:`\lambda` of the columns: :math:`u = \hat u - t (x - \bar x)`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...kernels import decomposition as kernels


@dataclass(frozen=True)
class Tuning:
    """When a trial point of the bundle becomes its centre."""

    # Share of the promised decrease that moves the centre; 0.05 and 0.2 took 0.6 to 1.6 times the steps, without a winner.
    serious: float = 0.1
    # Share from which the step grows; 0.25 took 4 times the steps on a grid of 256 nodes, 1.0 a third more on a complete graph.
    bold: float = 0.5


_TUNING = Tuning()


class ColumnBundle:
    """Columns, their weights and the step of a proximal bundle.

    Parameters
    ----------
    starts : ndarray, shape (n_trees + 1,)
        Copies of each tree.
    copy_node : ndarray, shape (n_copies,)
        Node of each copy.
    n_nodes, n_labels : int
    step : float
        First step length ``t``.
    room : int
        Most columns of a tree.
    """

    def __init__(self, starts: np.ndarray, copy_node: np.ndarray, n_nodes: int, n_labels: int, step: float, room: int):
        n_trees = len(starts) - 1
        count = np.bincount(copy_node, minlength=n_nodes)
        self.starts, self.copy_node, self.step = starts, copy_node, step
        self.node_share = 1.0 / np.maximum(count, 1)
        self._copy_weight = 1.0 - self.node_share[copy_node]
        self.filled = np.zeros(n_trees, dtype=np.int64)
        self.columns = np.zeros((room, len(copy_node)), dtype=np.int32)
        self.weights = np.zeros((n_trees, room))
        self._constant, self._linear = np.zeros((n_trees, room)), np.zeros((n_trees, room))
        self._idle = np.zeros((n_trees, room), dtype=np.int64)
        self._gram = np.zeros((n_trees, room, room))
        self.x, self.mean = np.zeros((len(copy_node), n_labels)), np.zeros((n_nodes, n_labels))
        self._rejected = 0

    def add(self, labels: np.ndarray, value: np.ndarray) -> int:
        """Add a labelling of each tree, with the score of its edges; returns how many were not known."""
        return int(
            kernels.add_columns(
                self.starts,
                self._copy_weight,
                labels,
                value,
                self.filled,
                self.columns,
                self._constant,
                self.weights,
                self._idle,
                self._gram,
            )
        )

    @property
    def disagreement(self) -> float:
        """Norm of the aggregate subgradient: how far the trees are from one labelling."""
        return float(np.linalg.norm(self.x - self.mean[self.copy_node]))

    def propose(self, centre: np.ndarray, value: float, tol: float, max_sweeps: int = 8) -> tuple[np.ndarray, float]:
        """Shares to try next, and the decrease from ``value`` that the model promises there."""
        state = (self.filled, self.columns)
        kernels.column_scores(self.starts, *state, self._constant, centre, self._linear)
        kernels.spread_weights(self.starts, self.copy_node, self.node_share, *state, self.weights, self.x, self.mean)
        level, _ = kernels.master(
            self.starts,
            self.copy_node,
            self.node_share,
            *state,
            self._linear,
            self._gram,
            self.weights,
            self._idle,
            self.x,
            self.mean,
            self.step,
            tol,
            max_sweeps,
        )
        apart = self.x - self.mean[self.copy_node]
        return centre - self.step * apart, max(0.0, value - level) + self.step * float((apart * apart).sum())

    def judge(self, value: float, found: float, promised: float) -> bool:
        """Whether the trial point, of value ``found``, becomes the centre; the step length follows."""
        gain = value - found
        if gain >= _TUNING.serious * promised:
            if gain >= _TUNING.bold * promised:
                self.step *= 1.5
            self._rejected = 0
            return True
        self._rejected += 1
        if gain < -promised and self._rejected >= 2:
            self.step *= 0.7
            self._rejected = 0
        return False
