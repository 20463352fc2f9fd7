"""DualDecomposition: trees that share the nodes of a graph, and multipliers that make them agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.parameters import JOBS, OneOf, Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...executors.threads import split, thread_map
from ...kernels import decomposition as kernels
from ...kernels import tree
from ...kernels.net import adjacency
from ...kernels.records import Net
from ..base import Run, Solver, Support
from ..moves.icm import polish
from ..prepare import start
from .bundle import ColumnBundle
from .polytope import Bracket


@dataclass(frozen=True)
class Tuning:
    """Steps and rests of `DualDecomposition`."""

    bundle_bytes: int = 1 << 28  # memory of the columns of all trees, which are 10 to 150 in number accordingly
    label_every: int = 10  # steps between two labellings; 5 found a better one on a grid of 256 nodes, 20 the same as 10
    # Edges of a tree for the bundle on graphs without a grid; 2, 4 and 8 took 0.21, 0.17 and 0.16 s on a complete graph.
    largest_tree: int = 4
    # How far a subgradient turns from the last one (Camerini, Fratta & Maffioli 1975 prove convergence below 2); 0.75 to 2
    # differ by 1e-3 of the bound.
    deflection: float = 1.5
    # Steps without progress before the level is halved; 30 stops early and higher by 0.4 %, 120 is slower on grids.
    patience: int = 60
    # Steps in a row that promise nothing before a bundle has stalled; 10 and 40 ended no run earlier or later.
    idle: int = 20


_TUNING = Tuning()


@dataclass(frozen=True)
class DualDecomposition(Solver):
    r"""Dual decomposition into trees: (6) of Franc and Laskov (2011), for any graph.

    The edges are divided among forests, a grid's into its rows and its columns, others greedily into edge-disjoint forests
    of small trees (of four nodes: the model of a small tree is soon exact, while large ones need many labellings). Each tree ``c`` gets a share :math:`u_c` of the scores of its nodes, and

    .. math:: U(u) = \sum_c \max_y \Bigl[\sum_{v \in c} u_{cv}(y_v) + \sum_{vw \in c} g_{vw}(y_v, y_w)\Bigr], \qquad
              \sum_{c \ni v} u_{cv} = q_v,

    is an upper bound whose minimum over the shares is the value of the local-polytope LP. Dynamic programming maximises each tree;
    its messages, put together, are messages of the whole problem whose bound is :math:`U(u)` or better, as every edge lies in
    one tree and the shares of a node add up to its score.

    Parameters
    ----------
    steps : {"bundle", "subgradient"}
        Proximal bundle, which converges to the LP value and proves it by pseudo-marginals, or the cheaper subgradient steps.
    max_iter : int
        Evaluations of the dual.
    tol : float
        Relative gap of the LP value at which to stop (the value is counted from the sum of the best node scores).
        ``solve(problem, gap=...)`` stops at that relative gap of the labelling, if it comes first.
    time_limit : float, optional
        Seconds.
    n_jobs : int
        Threads over the trees; -1 for all cores.
    """

    steps: str = "bundle"
    max_iter: int = 1000
    tol: float = 1e-6
    time_limit: float | None = None
    n_jobs: int = 1

    solves_relaxation = True
    does = "graphs without cliques: the LP bound by trees that share nodes, and a labelling"

    _parameters = settings(
        steps=OneOf("bundle", "subgradient"),
        max_iter=WholeNumber(1, wanted="1 or more"),
        tol=Real(0.0, wanted="0 or more"),
        n_jobs=JOBS,
    )

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            return Support(False, f"takes no cliques; the problem has {len(problem.cliques)}", len(problem.cliques))
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        descend(Bracket(problem, prepared, run, self.tol), messages, self.steps, self.max_iter, self.n_jobs)


class Trees:
    """The decomposition of a problem, and its dual function.

    Attributes
    ----------
    net : Net
        All trees as one forest on the copies of the nodes; edges keep their numbers.
    starts, copy_node, copy_forest : ndarray
        Copies of each tree; node and forest of each copy.
    tree, count : ndarray
        Tree of each edge; number of copies of each node.
    """

    def __init__(self, problem: Problem, net: Net, n_jobs: int, largest: int):
        self.problem, self.whole, self.n_jobs = problem, net, n_jobs
        forest = _forests(problem, largest)
        self.n_forests = int(forest.max(initial=-1)) + 1
        key = forest[:, None].astype(np.int64) * problem.n_nodes + problem.graph.edges
        found, place = np.unique(key, return_inverse=True)
        n_copies = len(found)
        edges = place.reshape(-1, 2).astype(np.int32)
        order, parent_edge, parent_side, self.starts = tree.forest_order(n_copies, edges, *adjacency(n_copies, edges))
        rank = np.empty(n_copies, dtype=np.int32)
        rank[order] = np.arange(n_copies, dtype=np.int32)
        edges = np.ascontiguousarray(rank[edges])
        found = found[order]
        self.copy_node = (found % max(problem.n_nodes, 1)).astype(np.int32)
        self.copy_forest = (found // max(problem.n_nodes, 1)).astype(np.int32)
        self._walk = np.arange(n_copies, dtype=np.int32), parent_edge[order], parent_side[order]
        self.tree = np.searchsorted(self.starts, edges[:, 0], side="right") - 1
        self.count = np.bincount(self.copy_node, minlength=problem.n_nodes)
        self.net = net._replace(n_states=net.n_states[self.copy_node], edges=edges)
        self._hard = problem.has_hard_constraints or bool((problem.n_states < problem.n_labels).any())
        self._parts = split(self.starts, n_jobs)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.starts) - 1

    def shares(self, messages: Messages) -> np.ndarray:
        """Shares (copies, K) that give a bound at least as good as the messages: theirs, and an equal part of what is left."""
        net = self.whole
        held = np.zeros((len(self.copy_node), net.unary.shape[1]))
        theta = net.unary.copy()
        for side in range(2):
            np.add.at(held, self.net.edges[:, side], messages.edge[side])
            np.subtract.at(theta, net.edges[:, side], messages.edge[side])
        held += theta[self.copy_node] / self.count[self.copy_node][:, None]
        return np.where(net.unary[self.copy_node] > -np.inf, held, -np.inf)

    def maximise(self, shares: np.ndarray) -> tuple[float, np.ndarray, np.ndarray, Messages]:
        """Value of the dual (without constants), labels of the copies, score of each tree's edges, messages."""
        messages = self.problem.zero_messages()
        labels = np.zeros(len(self.copy_node), dtype=np.int32)
        net = self.net._replace(unary=shares)
        thread_map(
            lambda part: tree.solve_forest(net, *self._walk, self.starts, part[0], part[1], self._hard, messages.edge, labels),
            self._parts,
            self.n_jobs,
        )
        u, v = labels[net.edges[:, 0]], labels[net.edges[:, 1]]
        score = net.tables[net.edge_table, u, v] * net.edge_weight
        each = np.bincount(self.tree, weights=score, minlength=self.n_trees)
        node = shares[np.arange(len(labels)), labels]
        return float(node.sum(dtype=np.longdouble) + each.sum(dtype=np.longdouble)), labels, each, messages

    def labellings(self, copies: np.ndarray, mean: np.ndarray) -> list[np.ndarray]:
        """Labellings of all nodes: the most frequent labels, and those of each forest (a few), completed with them."""
        common = np.where(self.whole.unary > -np.inf, mean, -1.0).argmax(axis=1).astype(np.int32)
        alone = self.count == 0
        common[alone] = self.whole.unary[alone].argmax(axis=1)
        found = [common]
        for forest in range(min(self.n_forests, 4)):
            labels, part = common.copy(), self.copy_forest == forest
            labels[self.copy_node[part]] = copies[part]
            found.append(labels)
        return found


def _forests(problem: Problem, largest: int) -> np.ndarray:
    """Forest of each edge: by direction on a grid, greedily otherwise (in a fixed random order, which keeps forests few)."""
    graph = problem.graph
    if graph.image_shape is not None and graph.n_edges:
        width = graph.image_shape[1]
        row, column = np.divmod(graph.edges.astype(np.int64), width)
        step = (row[:, 1] - row[:, 0]) * 2 * width + (column[:, 1] - column[:, 0])
        return np.unique(step, return_inverse=True)[1].reshape(-1).astype(np.int32)
    if graph.is_forest:
        return np.zeros(graph.n_edges, dtype=np.int32)
    order = np.random.default_rng(0).permutation(graph.n_edges).astype(np.int32)
    return kernels.split_forests(graph.n_nodes, graph.edges, order, largest)


def descend(bracket: Bracket, messages: Messages, steps: str, max_iter: int, n_jobs: int) -> None:
    """Minimise the dual from ``messages``; what is found goes to ``bracket`` and its run."""
    problem, run = bracket.problem, bracket.run
    trees = Trees(problem, bracket.prepared.net, n_jobs, _TUNING.largest_tree if steps == "bundle" else problem.n_nodes)
    if not trees.n_trees:
        run.offer(trees.labellings(np.zeros(0, dtype=np.int32), trees.whole.unary)[0])
        run.certify(run.score, MessageCertificate(problem.zero_messages()))
        run.step(run.n_iter + 1)
        return
    walk = _bundle if steps == "bundle" else _subgradient
    disagreement = walk(trees, bracket, trees.shares(messages), max_iter)
    run.message = (
        f"{run.solver}: {bracket}; {trees.n_trees} trees in {trees.n_forests} forests disagree by {disagreement:.3g} "
        f"({run.termination.replace('_', ' ')})."
    )


def _look(trees: Trees, bracket: Bracket, copies: np.ndarray, mean: np.ndarray) -> None:
    """Try labellings, one at least."""
    for labels in trees.labellings(copies, mean):
        bracket.run.offer(polish(trees.whole, labels, 10))
        if bracket.run.seconds_left <= 0:
            break


def _first_step(trees: Trees) -> float:
    """A quarter of the mean spread of the tables: multipliers are of the size of the messages."""
    flat = trees.net.tables.reshape(len(trees.net.tables), -1)
    finite = np.isfinite(flat)
    high = np.where(finite, flat, -np.inf).max(axis=1, initial=-np.inf)
    low = np.where(finite, flat, np.inf).min(axis=1, initial=np.inf)
    with np.errstate(invalid="ignore"):
        spread = np.where(high > low, high - low, 0.0)[trees.net.edge_table] * np.abs(trees.net.edge_weight)
    size = float(np.median(spread[spread > 0])) if (spread > 0).any() else 1.0
    return 0.25 * size


def _bundle(trees: Trees, bracket: Bracket, centre: np.ndarray, max_iter: int) -> float:
    run, before = bracket.run, bracket.run.n_iter
    n_nodes, n_labels = trees.whole.unary.shape
    room = int(np.clip(_TUNING.bundle_bytes // (4 * len(trees.copy_node) + 800 * trees.n_trees), 10, 150))
    bundle = ColumnBundle(trees.starts, trees.copy_node, n_nodes, n_labels, _first_step(trees), room)
    value, labels, each, messages = trees.maximise(centre)
    bundle.add(labels, each)
    bracket.bound(value, messages)
    edge = np.zeros((trees.problem.n_edges, n_labels, n_labels)) if bracket.polytope is not None else None
    alone = np.flatnonzero(trees.count == 0)
    promised, idle = np.inf, 0
    for iteration in range(1, max_iter + 1):
        aim = max(min(promised, value - bracket.low, abs(value)), bracket.room)
        trial, promised = bundle.propose(centre, value, 0.1 * aim)
        if iteration % _TUNING.label_every == 1 or promised <= 2 * bracket.room:
            _look(trees, bracket, labels, bundle.mean)
            if edge is not None:
                state = (bundle.filled, bundle.columns, bundle.weights)
                kernels.edge_means(trees.tree, trees.net.edges, *state, edge)
                mean = bundle.mean.copy()
                mean[alone, trees.whole.unary[alone].argmax(axis=1)] = 1.0
                bracket.marginals(mean, edge)
        if bracket.solved or bracket.closed:
            run.step(before + iteration)
            return bundle.disagreement
        found, labels, each, messages = trees.maximise(trial)
        bundle.add(labels, each)
        if bundle.judge(value, found, promised):
            centre, value = trial, found
        bracket.bound(found, messages)
        if run.step(before + iteration):
            return bundle.disagreement
        idle = idle + 1 if promised <= 0.1 * bracket.room else 0
        if idle >= _TUNING.idle:
            run.termination = Termination.stalled
            return bundle.disagreement
    run.termination = Termination.iteration_limit
    return bundle.disagreement


def _subgradient(trees: Trees, bracket: Bracket, shares: np.ndarray, max_iter: int) -> float:
    r"""Steps of length :math:`(U - U_{target}) / \|g\|^2`; the target is the best value less a level, which grows when it is
    reached and is halved when it is not for long.
    """
    run, before = bracket.run, bracket.run.n_iter
    each = np.arange(len(trees.copy_node))
    shape = trees.whole.unary.shape
    best, level, since, norm = np.inf, np.inf, 0, np.inf
    average, centre, direction = np.zeros(shape), shares, np.zeros((len(each), shape[1]))
    for iteration in range(1, max_iter + 1):
        value, labels, _, messages = trees.maximise(shares)
        if not np.isfinite(level):
            level = 0.05 * max(abs(value), _first_step(trees))
        reached = value <= best - 0.5 * level
        level, since = (1.5 * level, 0) if reached else (level, since + 1)
        if value < best:
            bracket.bound(value, messages)
            best, centre = value, shares
        x, mean = np.zeros((len(each), shape[1])), np.zeros(shape)
        x[each, labels] = 1.0
        np.add.at(mean, trees.copy_node, x)
        mean /= np.maximum(trees.count, 1)[:, None]
        x -= mean[trees.copy_node]
        norm = float(np.linalg.norm(x))
        average += 0.05 * (mean - average)
        if iteration <= 3 or iteration % _TUNING.label_every == 0 or norm == 0:
            _look(trees, bracket, labels, average)
        if run.step(before + iteration) or bracket.closed or norm == 0:
            return norm
        turn = -_TUNING.deflection * float((x * direction).sum()) / max(float((direction * direction).sum()), 1e-300)
        direction = x + max(0.0, turn) * direction
        if since > _TUNING.patience:
            level, since, shares, direction = 0.5 * level, 0, centre, np.zeros_like(x)
            if level <= 0.1 * bracket.room:
                run.termination = Termination.stalled
                return norm
            continue
        shares = shares - (value - (best - level)) / float((direction * direction).sum()) * direction
    run.termination = Termination.iteration_limit
    return norm
