"""DualBound: the LP relaxation inside learning, as a function of the weights and of messages; (3), (6), (10) and (11) of Franc & Laskov 2011."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...core.errors import InvalidSampleError, UnsupportedProblemError
from ...core.graph import Graph
from ...core.parameters import OneOf, check_value
from ...core.problem import Problem
from ...executors.threads import split, thread_map
from ...inference.dispatch import solve
from ...kernels import dual_bound as kernels
from ...kernels.decomposition import split_forests
from ...kernels.design import augmented_scores
from ...kernels.net import adjacency
from ...kernels.records import Copies
from ...kernels.tree import forest_order
from .pseudo_marginals import PseudoMarginals

if TYPE_CHECKING:
    from ..objectives.margin import MarginObjective

FORMS = ("chains", "factors")


@dataclass(frozen=True)
class Tuning:
    """When nodes and edges are better blocks than examples; found on ``python -m benchmarks panel``."""

    large: int = 100  # nodes of an example, on average: smaller ones are many, and good blocks themselves
    weights_a_node: float = (
        1.0  # with few weights all nodes pull at the same ones: 40 for 2000 nodes left 36 % after 6 s, not 1 % after 0.5
    )


TUNING = Tuning()


class BoundPoint(NamedTuple):
    r"""The bound at one point: slacks :math:`R_j(w, \varphi)`, and the best labels of all copies, from which a subgradient comes."""

    slack: np.ndarray
    labels: np.ndarray


class Cut(NamedTuple):
    r"""A linear lower bound on the slack of an example, :math:`R_j(w,\varphi) \ge b - \langle w, z\rangle + \langle\varphi, s\rangle`,
    where :math:`s` is +1 at (row, plus) and -1 at (row, minus)."""

    example: int
    offset: float
    z: np.ndarray
    row: np.ndarray
    plus: np.ndarray
    minus: np.ndarray


class DualBound:
    r"""Upper bound on the slack of every example, jointly convex in the weights and the messages:

    .. math:: R_j(w, \varphi) = \sum_c \max_y \Big[\sum_{i \in c} \big(s_i\,(q_i(y_i; w) + L_i(y_i)) + \varphi_i(y_i)\big)
              + \sum_{ii' \in c} g_{ii'}(y_i, y_{i'}; w)\Big] - \langle w, \Psi(x_j, y_j)\rangle

    where the trees ``c`` cover the graph, every edge once, and the shares :math:`s_i` of the copies of a node sum to 1, their messages
    to 0. Its minimum over :math:`\varphi` is the slack with the linear relaxation inside, whatever the trees are.

    Parameters
    ----------
    objective : MarginObjective
        Or an objective with the same attributes.
    form : {"chains", "factors"}
        Rows and columns of a grid, and edge-disjoint forests of other graphs, with equal shares: (6). Or a tree for each node, which has
        all of its scores, and one for each edge: (3).
    n_jobs : int, optional
        Threads over examples; by default those of the objective.

    Attributes
    ----------
    copies : Copies
    n_messages : int
        Messages have shape (n_messages, K). In the form ``chains`` the copies of a node but its last have one each, and the last has
        minus their sum; in ``factors`` the ends of the edges have one each, and the node has minus their sum.
    n_calls : int
        Evaluations, one an example.
    """

    def __init__(self, objective: MarginObjective, form: str = "chains", n_jobs: int | None = None):
        check_value("form", form, OneOf(*FORMS, wanted="'chains' (forests that share nodes) or 'factors' (nodes and edges)"))
        _check_finite(objective)
        self.objective, self.form = objective, form
        self.model, self.design = objective.model, objective.design
        self.n_jobs = objective.n_jobs if n_jobs is None else n_jobs
        self.copies, self.forest = _cover(objective, form)
        size, n_copies = self.model.n_labels, len(self.copies.owner)
        self.label_type = np.int8 if size < 128 else np.int32
        self._best = kernels.best_labellings
        self._theta = np.empty((n_copies, size))
        self._scores = np.zeros((len(self.design.truth), size))
        self._parts = split(self.copies.starts[self.copies.tree_ptr], self.n_jobs)
        self.n_calls = 0

    @property
    def n_messages(self) -> int:
        return len(self.copies.free)

    def zeros(self) -> np.ndarray:
        """Messages that are all zero."""
        return np.zeros((self.n_messages, self.model.n_labels))

    def evaluate(self, w: np.ndarray, phi: np.ndarray) -> BoundPoint:
        """Slacks of all examples and the labellings that reach them, by dynamic programming."""
        copies, design, size = self.copies, self.design, self.model.n_labels
        phi = self._checked(phi)
        w = np.ascontiguousarray(w, dtype=np.float64)
        bank, edge_table, edge_weight, _ = self.model.tables(w)
        bank = np.ascontiguousarray(bank)
        flat, turned = bank.ravel(), np.ascontiguousarray(bank.transpose(0, 2, 1)).ravel()
        edge_table = np.ascontiguousarray(edge_table, dtype=np.int32)
        n = self.model.n_examples
        truth, value = np.empty(n), np.empty(len(copies.starts) - 1)
        labels = np.empty(len(copies.owner), dtype=self.label_type)
        edges, theta = copies.edges.ravel(), self._theta.ravel()

        def run(part: tuple[int, int]) -> None:
            first, last = part
            augmented_scores(design, np.arange(first, last), w, self._scores)
            kernels.share_scores(copies, self._scores, phi, first, last, self._theta)
            kernels.truth_scores(design, self._scores, edge_table, edge_weight, bank, first, last, truth)
            self._best(
                copies.starts, copies.n_states, edges, copies.parent_edge, copies.parent_side, edge_table, edge_weight, flat,
                turned, size, copies.tree_ptr[first], copies.tree_ptr[last], theta, labels, value,
            )  # fmt: skip

        thread_map(run, self._parts, self.n_jobs)
        self.n_calls += n
        total = np.concatenate([[0.0], np.cumsum(value)])
        return BoundPoint(total[copies.tree_ptr[1:]] - total[copies.tree_ptr[:-1]] - truth, labels)

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        r""":math:`F = \tfrac12\|w\|^2 + \sum_j c_j R_j`; slacks are never negative but for rounding."""
        return float(0.5 * (w @ w) + self.objective.c @ np.maximum(slack, 0.0))

    def cut(self, j: int, labels: np.ndarray) -> Cut:
        """The plane that a labelling of the copies is, for example ``j``."""
        z = np.zeros(self.objective.n_weights)
        offset = float(kernels.shared_difference(self.design, self.copies, j, labels, z))
        room = int(self.copies.row_ptr[j + 1] - self.copies.row_ptr[j])
        row = np.empty(room, dtype=np.int32)
        plus, minus = np.empty(room, dtype=self.label_type), np.empty(room, dtype=self.label_type)
        n = int(kernels.disagreements(self.copies, j, labels, row, plus, minus))
        return Cut(j, offset, z, row[:n].copy(), plus[:n].copy(), minus[:n].copy())

    def subgradient(self, w: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""A subgradient of :math:`F(w, \varphi)` from the labels of an evaluation: its parts in ``w`` and in the messages."""
        grad, turn = np.array(w, dtype=np.float64), self.zeros()
        for j in range(self.model.n_examples):
            cut = self.cut(j, labels)
            grad -= self.objective.c[j] * cut.z
            turn[cut.row, cut.plus] += self.objective.c[j]
            turn[cut.row, cut.minus] -= self.objective.c[j]
        return grad, turn

    def marginals(self, labellings: list[np.ndarray], weights: np.ndarray) -> PseudoMarginals:
        """Mixture of labellings of all copies, moved into the local polytope.

        Parameters
        ----------
        labellings : list of ndarray, shape (n_copies,)
        weights : ndarray, shape (n, n_examples)
            Weight of each labelling in each example; what is missing to 1 is the truth.
        """
        node, edge = self.empty_tables()
        for labels, share in zip(labellings, weights, strict=True):
            for j in np.flatnonzero(share):
                self.add(node, edge, int(j), labels, float(share[j]))
        return self.settled(node, edge, 1.0 - weights.sum(axis=0))

    def empty_tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Node and edge tables of zeros, to `add` labellings to."""
        size = self.model.n_labels
        return np.zeros((len(self.design.truth), size)), np.zeros((len(self.design.edges), size, size))

    def add(self, node: np.ndarray, edge: np.ndarray, j: int, labels: np.ndarray, weight: float) -> None:
        """Add a labelling of the copies of example ``j``."""
        kernels.add_labelling(self.copies, self.design, weight, j, labels, node, edge)

    def settled(self, node: np.ndarray, edge: np.ndarray, rest: np.ndarray) -> PseudoMarginals:
        """Tables that labellings were added to, with ``rest`` of each example for the truth, in the local polytope."""
        truth, ends = self.design.truth, self.design.edges
        rest = np.maximum(rest, 0.0)
        own = np.repeat(rest, np.diff(self.design.node_ptr))
        node[np.arange(len(truth)), truth] += own * np.bincount(self.copies.owner, minlength=len(truth))
        edge[np.arange(len(ends)), truth[ends[:, 0]], truth[ends[:, 1]]] += np.repeat(rest, np.diff(self.design.edge_ptr))
        return PseudoMarginals(self.objective, node, edge, self.n_jobs, copy=False)

    def from_edges(self, rho: np.ndarray) -> np.ndarray:
        r"""Messages of this form that are at least as good as messages :math:`\rho` (2, E, K) on the edges of the union, whose bound is

        .. math:: \sum_t \max_k \Big[q_t(k) + L_t(k) - \sum_{e \ni t}\rho_{et}(k)\Big]
                  + \sum_e \max_{kl} [g_e(k, l) + \rho_{eu}(k) + \rho_{ev}(l)] :

        a copy gets its share of what is left at its node, and the messages of its own edges.
        """
        copies, ends = self.copies, self.design.edges
        node = np.zeros((len(self.design.truth), self.model.n_labels))
        own = np.zeros((len(copies.owner), self.model.n_labels))
        for side in range(2):
            np.subtract.at(node, ends[:, side], rho[side])
            np.add.at(own, copies.edges[:, side], rho[side])
        return (own + copies.share[:, None] * node[copies.owner])[copies.free]

    def check(self, w: np.ndarray, phi: np.ndarray) -> float:
        r""":math:`F(w, \varphi)` once more, without the kernels of this module: a `Problem` for each forest, and its certificate."""
        phi = self._checked(phi)
        model, copies = self.model, self.copies
        extra = np.zeros((len(copies.owner), model.n_labels))
        np.add.at(extra, copies.free, phi)
        np.subtract.at(extra, copies.last, phi)
        forest_of = np.zeros(len(copies.owner), dtype=np.int64)
        forest_of[copies.edges[:, 0]] = forest_of[copies.edges[:, 1]] = self.forest
        slack = np.zeros(model.n_examples)
        for j in range(model.n_examples):
            problem = self.objective.loss_problem(w, j)
            slack[j] = -problem.score(model.truth(j))
            own = np.arange(copies.starts[copies.tree_ptr[j]], copies.starts[copies.tree_ptr[j + 1]])
            place = np.empty(len(copies.owner), dtype=np.int64)
            place[own] = np.arange(len(own))
            edges = slice(int(self.design.edge_ptr[j]), int(self.design.edge_ptr[j + 1]))
            node = copies.owner[own] - self.design.node_ptr[j]
            share = np.where(
                np.isneginf(problem.unary[node]), -np.inf, copies.share[own, None] * np.nan_to_num(problem.unary[node])
            )
            whole = Problem(
                Graph.from_edges(place[copies.edges[edges]], n_nodes=len(own)),
                share + extra[own],
                problem.tables,
                problem.edge_table,
                problem.edge_weight,
                problem.n_states[node],
            )
            result = solve(whole)
            if result.certificate is None:
                raise RuntimeError("a forest was solved without a certificate")
            slack[j] += result.certificate.bound(whole)
        return self.primal(w, slack)

    def _checked(self, phi: Any) -> np.ndarray:
        array = np.ascontiguousarray(phi, dtype=np.float64)
        shape = (self.n_messages, self.model.n_labels)
        if array.shape != shape or not np.isfinite(array).all():
            raise InvalidSampleError(f"messages have shape {array.shape}, wanted finite numbers of shape {shape}.")
        return array


def check_relaxed(learner: Any, objective: Any) -> None:
    """Refuse objectives whose best value the bounds of this module are not about."""
    name = type(learner).__name__
    if getattr(objective, "tighten", False):
        raise UnsupportedProblemError(
            f"{name} minimises the linear relaxation itself; tighten is True, wanted False. Learners that tighten it: BlockFrankWolfe, CuttingPlane."
        )
    if not getattr(objective, "relaxed", False):
        raise UnsupportedProblemError(
            f"{name} minimises an LPObjective, not a {type(objective).__name__}. Learners that do: CuttingPlane, Subgradient."
        )
    if getattr(objective, "smoothing", 0.0) > 0:
        raise UnsupportedProblemError(
            f"{name} minimises the linear relaxation itself; smoothing is {objective.smoothing}, wanted 0. Else use SmoothedLP."
        )


def unsuited_for_factors(objective: Any) -> str:
    """Why the best masses of a node or an edge, all else fixed, are not known in closed form (see `FactorAscent`); nothing if they are."""
    design, rows = objective.design, objective.cone.rows.shape[0]
    if len(design.clique_ptr):
        return "it has cliques, wanted nodes and edges alone"
    if rows:
        return f"its cone has {rows} supermodular rows, wanted free or non-negative weights"
    if design.node_step[1] or design.edge_step[1]:
        return "its features depend on nodes and labels together, wanted features of nodes and edges"
    return ""


def many_blocks(objective: Any) -> bool:
    """Whether nodes and edges are better blocks than examples: large graphs with cycles, and many weights."""
    n_nodes, n_examples = len(objective.design.truth), objective.n_examples
    large = n_nodes >= TUNING.large * n_examples and objective.n_weights >= TUNING.weights_a_node * n_nodes
    if not large or objective.model.is_forest or objective.model.has_forbidden or unsuited_for_factors(objective):
        return False
    design = objective.design
    return all(bool(np.isfinite(own).all()) for own in (design.x_val, design.f_val, design.loss))


def _check_finite(objective: MarginObjective) -> None:
    if getattr(objective.model, "has_forbidden", False):
        raise InvalidSampleError(
            "the model forbids pairs of labels (-inf), where the dual bound has no finite messages; wanted finite tables. "
            'Train with surrogate="margin".'
        )
    for name, values in (("node features", objective.design.x_val), ("edge features", objective.design.f_val)):
        if not np.isfinite(values).all():
            raise InvalidSampleError(
                f"{name} hold {values[~np.isfinite(values)][0]}; wanted finite numbers. A forbidden label (-inf) has no subgradient: "
                "take the label out of the node's classes, or give its pair a large loss."
            )
    if not np.isfinite(objective.design.loss).all():
        raise InvalidSampleError("the loss is not finite everywhere; wanted finite numbers >= 0.")


def _cover(objective: MarginObjective, form: str) -> tuple[Copies, np.ndarray]:
    """Copies of all nodes, and the forest of each edge."""
    data, design = objective.model.data, objective.design
    n_nodes, n_edges, n = len(data.n_states), len(data.edges), data.n_examples
    example = np.repeat(np.arange(n), np.diff(data.node_ptr))
    edge_example = np.repeat(np.arange(n), np.diff(data.edge_ptr))
    if form == "factors":
        forest = np.arange(n_edges, dtype=np.int64) - design.edge_ptr[edge_example]
        keys = forest[:, None] * n_nodes + data.edges
    else:
        parts = [_forests(graph) for graph in data.graphs]
        forest = np.concatenate([np.zeros(0, dtype=np.int64)] + parts)
        keys = forest[:, None] * n_nodes + data.edges
    span = int(forest.max(initial=0)) + 2
    keys = keys + edge_example[:, None] * span * n_nodes
    covered = np.zeros(n_nodes, dtype=bool)
    covered[data.edges.ravel()] = True
    alone = np.arange(n_nodes) if form == "factors" else np.flatnonzero(~covered)
    single = (example[alone] * span + span - 1) * n_nodes + alone
    found, place = np.unique(np.concatenate([keys.ravel(), single]), return_inverse=True)
    edges = place[: 2 * n_edges].reshape(-1, 2).astype(np.int32)
    order, parent_edge, parent_side, starts = forest_order(len(found), edges, *adjacency(len(found), edges))
    rank = np.empty(len(found), dtype=np.int32)
    rank[order] = np.arange(len(found), dtype=np.int32)
    edges, found = np.ascontiguousarray(rank[edges]), found[order]
    owner = (found % max(n_nodes, 1)).astype(np.int32)
    is_single = found // max(n_nodes, 1) % span == span - 1
    count = np.bincount(owner, minlength=n_nodes)
    share = is_single.astype(np.float64) if form == "factors" else 1.0 / count[owner]
    by_node = np.argsort(owner, kind="stable")
    final = np.zeros(len(owner), dtype=bool)
    if len(owner):
        final[by_node[np.cumsum(count[count > 0]) - 1]] = True
    last_of = np.zeros(n_nodes, dtype=np.int64)
    last_of[owner[final]] = np.flatnonzero(final)
    free = by_node[~final[by_node]]
    tree_example = example[owner[starts[:-1]]] if len(owner) else np.zeros(0, dtype=np.int64)
    return Copies(
        starts,
        np.searchsorted(tree_example, np.arange(n + 1)).astype(np.int64),
        owner,
        share,
        data.n_states[owner],
        edges,
        parent_edge[order],
        parent_side[order],
        np.searchsorted(example[owner[free]], np.arange(n + 1)).astype(np.int64),
        free.astype(np.int32),
        last_of[owner[free]].astype(np.int32),
    ), forest


def _forests(graph: Graph) -> np.ndarray:
    """Forest of each edge: rows and columns of a grid with 4 neighbours, otherwise edge-disjoint forests, greedily."""
    edges = np.asarray(graph.edges)
    if graph.image_shape is not None:
        row, column = np.divmod(edges, graph.image_shape[1])
        beside, below = row[:, 0] == row[:, 1], column[:, 0] == column[:, 1]
        straight = np.abs(row[:, 1] - row[:, 0]) + np.abs(column[:, 1] - column[:, 0]) == 1
        if (straight & (beside | below)).all():
            return np.where(beside, 0, 1).astype(np.int64)
    order = np.arange(len(edges), dtype=np.int64)
    return split_forests(graph.n_nodes, np.ascontiguousarray(edges), order, graph.n_nodes).astype(np.int64)
