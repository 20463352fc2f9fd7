"""LinearProgram: the local-polytope relaxation by HiGHS."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...core.rounding import expected_rounding, is_associative
from ...core.validation import LARGEST
from ...executors.clock import Clock
from ...kernels.records import Net
from ..base import Factored, Run, Solver, Support
from ..moves.icm import polish, start_labels
from ..prepare import measure, start

_TIE = 1e-9  # marginals that are so near to each other are equal: which one is larger is a matter of rounding
_FRACTIONAL = 1e-6  # a node whose largest marginal is so far below 1 is fractional; HiGHS leaves less than that in whole ones


@dataclass(frozen=True)
class Tuning:
    """Limits of HiGHS."""

    max_columns: int = 20_000_000  # of a program that is tried at all: a few GB in HiGHS
    tolerance: float = 1e-10  # feasibility of primal and dual: the tightest that HiGHS takes
    entry_seconds: float = 8e-7
    """What an entry of the matrix takes until HiGHS begins to iterate (it is built, passed on, presolved). More than it takes gives up programs
    that could just be begun, less overruns the limit by what HiGHS does without looking at the clock."""
    read_seconds: float = 1e-7  # what an entry takes until the answer is read
    grace: float = 0.05  # seconds after its limit in which HiGHS may end by itself, and again after it is told to


_TUNING = Tuning()


@dataclass(frozen=True)
class LinearProgram(Solver):
    r"""The linear relaxation over the local polytope, solved with HiGHS:

    .. math:: \max_\mu \sum_v q_v \cdot \mu_v + \sum_{uv} g_{uv} \cdot \mu_{uv} + \sum_c w_c \cdot \mu_c, \quad
              \sum_l \mu_{uv}(k, l) = \mu_u(k), \quad \sum_k \mu_{uv}(k, l) = \mu_v(l), \quad
              \mu_c(k) \le \mu_v(k)\ (v \in c),

    with :math:`\sum_k \mu_v(k) = 1` and :math:`\mu \ge 0`. The multipliers of the constraints are the messages of the
    certificate. Where :math:`\mu` is a labelling it is optimal; otherwise the best label of each node is improved by `ICM`, and so is, for
    associative problems, what the derandomised rounding of Kleinberg & Tardos 1999 makes of :math:`\mu`
    (`maxsum.core.rounding.expected_rounding`). The better one is the answer, so that there it has all of the score that the relaxation
    gives to nodes, and of that of a clique (or edge) ``c`` at least the part ``1 / |c|``.

    Parameters
    ----------
    time_limit : float, optional
        Seconds.
    """

    time_limit: float | None = None

    takes_factors = Factored.lifted
    does = "any problem of moderate size: the LP relaxation, its bound and its rounding"

    def supports(self, problem: Problem) -> Support:
        states = problem.n_states.astype(np.int64)
        u, v = problem.graph.edges.T
        count = int(states.sum() + (states[u] * states[v]).sum()) + problem.cliques.weights.size
        if count > _TUNING.max_columns:
            return Support(
                False, f"takes linear programs of at most {_TUNING.max_columns} variables; this one has {count}", count
            )
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        net = prepared.net
        run.certify(measure(problem, messages), MessageCertificate(messages))
        if not problem.n_nodes:
            run.offer(np.zeros(0, dtype=np.int32))
            run.step(1)
            return
        if run.step(0):
            run.offer(polish(net, start_labels(net)))
            return
        model, answer = relax(net, run)
        if model is not None and answer.dual is not None:
            found = model.messages(answer.dual, problem)
            run.certify(measure(problem, found), MessageCertificate(found))
        if model is not None and answer.primal is not None:
            marginals = model.marginals(answer.primal)
            labels = _round(marginals)
            if answer.termination == Termination.converged:
                run.marginals = marginals
        else:
            labels = start_labels(net)
        run.offer(labels)
        if run.marginals is None:
            run.offer(polish(net, labels))
        else:
            for near in roundings(problem, run.marginals):
                run.offer(near)
                run.offer(polish(net, near))
        run.step(answer.iterations)
        if run.termination != Termination.stopped:
            run.termination = answer.termination
        run.message = answer.message
        if answer.interrupted:
            raise KeyboardInterrupt


class LPModel(NamedTuple):
    """The linear program ``min cost @ x, lower <= A x <= 0 or 1, x >= 0`` and where its parts come from."""

    cost: np.ndarray
    matrix: Any
    lower: np.ndarray
    upper: np.ndarray
    scale: float
    alive: np.ndarray  # (N, K): the labels of the first columns, in order
    sides: tuple[np.ndarray, np.ndarray]  # (2, E, K) and (M, K) masks: messages of the rows after the first N, in order

    def messages(self, dual: np.ndarray, problem: Problem) -> Messages:
        """Messages from the multipliers: in ``cost - A' dual >= 0`` they stand as the messages do in the dual bound."""
        messages = problem.zero_messages()
        edge, clique = self.sides
        multipliers = dual[len(self.alive) :] * self.scale
        n_edge = int(edge.sum())
        messages.edge[edge] = multipliers[:n_edge]
        messages.clique[clique] = multipliers[n_edge:]
        return messages

    def marginals(self, primal: np.ndarray) -> np.ndarray:
        """Marginals of all nodes (N, K)."""
        values = np.zeros(self.alive.shape)
        values[self.alive] = np.clip(primal[: int(self.alive.sum())], 0.0, 1.0)
        return values


def relax(net: Net, run: Run) -> tuple[LPModel | None, _Answer]:
    """The linear program and the answer of HiGHS, which is none where there is not even time to set it up."""
    ends = net.n_states[net.edges].astype(np.int64)
    entries = 2 * int(ends.prod(axis=1).sum())
    if _TUNING.entry_seconds * entries > run.seconds_left:
        late = f"an LP with {entries} entries would take longer to set up than there is time."
        return None, _Answer(None, None, Termination.time_limit, late, 0, False)
    model = lp_model(net)
    return model, _highs(model, run.seconds_left, _TUNING.read_seconds * entries)


def lp_model(net: Net) -> LPModel:
    """The linear program of a net."""
    from scipy.sparse import coo_array

    alive = net.unary > -np.inf
    n_nodes, n_labels = alive.shape
    column = np.full(alive.shape, -1, dtype=np.int64)
    column[alive] = np.arange(alive.sum())
    n_node = int(alive.sum())
    u, v = net.edges[:, 0], net.edges[:, 1]

    pair = np.isfinite(net.tables)[net.edge_table] & alive[u][:, :, None] & alive[v][:, None, :]
    edge, first, second = np.nonzero(pair)
    pair_score = net.tables[net.edge_table[edge], first, second] * net.edge_weight[edge]
    top = np.full(len(net.edges), -np.inf)
    np.maximum.at(top, edge, pair_score)
    pair_score -= top[edge]

    together = np.ones((len(net.clique_weights), n_labels), dtype=bool)
    np.logical_and.at(together, net.member_clique, alive[net.clique_nodes])
    together &= net.clique_weights > 0
    reward_column = np.full(together.shape, -1, dtype=np.int64)
    reward_column[together] = n_node + len(edge) + np.arange(together.sum())

    edge_side = np.stack([alive[u], alive[v]])
    clique_side = together[net.member_clique]
    row = np.full(edge_side.shape, -1, dtype=np.int64)
    row[edge_side] = n_nodes + np.arange(edge_side.sum())
    member, label = np.nonzero(clique_side)
    member_row = n_nodes + int(edge_side.sum()) + np.arange(len(member))
    side, side_edge, side_label = np.nonzero(edge_side)

    pairs = n_node + np.arange(len(edge))
    node_of, _ = np.nonzero(alive)
    blocks = [
        (node_of, column[alive], 1.0),
        (row[0, edge, first], pairs, 1.0),
        (row[1, edge, second], pairs, 1.0),
        (row[edge_side], column[net.edges[side_edge, side], side_label], -1.0),
        (member_row, reward_column[net.member_clique[member], label], 1.0),
        (member_row, column[net.clique_nodes[member], label], -1.0),
    ]
    score = np.concatenate([net.unary[alive], pair_score, net.clique_weights[together]])
    n_rows = n_nodes + int(edge_side.sum()) + len(member)
    matrix = coo_array(
        (
            np.concatenate([np.full(len(rows), value) for rows, _, value in blocks]),
            (np.concatenate([b[0] for b in blocks]), np.concatenate([b[1] for b in blocks])),
        ),
        shape=(n_rows, len(score)),
    ).tocsc()
    size = np.abs(score[score != 0])
    # The median, unless the largest numbers would overflow beside it: then the smallest ones are as good as 0.
    scale = max(float(np.median(size)), float(size.max()) / LARGEST) if len(size) else 1.0
    lower, upper = np.zeros(n_rows), np.zeros(n_rows)
    lower[:n_nodes] = upper[:n_nodes] = 1.0
    lower[n_rows - len(member) :] = -np.inf
    return LPModel(-score / scale, matrix, lower, upper, scale, alive, (edge_side, clique_side))


class _Answer(NamedTuple):
    primal: np.ndarray | None
    dual: np.ndarray | None
    termination: Termination
    message: str
    iterations: int
    interrupted: bool


def highs_solver(model: LPModel) -> Any:
    """HiGHS with the program, not yet run."""
    import highspy

    solver = highspy.Highs()
    for option, value in (
        ("output_flag", False),
        ("primal_feasibility_tolerance", _TUNING.tolerance),
        ("dual_feasibility_tolerance", _TUNING.tolerance),
        ("threads", 1),
    ):
        solver.setOptionValue(option, value)
    n_columns, n_rows = len(model.cost), len(model.lower)
    solver.passModel(
        n_columns, n_rows, model.matrix.nnz, int(highspy.MatrixFormat.kColwise), int(highspy.ObjSense.kMinimize), 0.0,
        model.cost, np.zeros(n_columns), np.full(n_columns, np.inf), model.lower, model.upper,
        model.matrix.indptr.astype(np.int32), model.matrix.indices.astype(np.int32), model.matrix.data,
        np.zeros(n_columns, dtype=np.int32),
    )  # fmt: skip
    return solver


def _highs(model: LPModel, seconds: float, reserve: float = 0.0) -> _Answer:
    """Run HiGHS until ``reserve`` seconds before the limit; whatever it has at the end is returned, finite or not at all."""
    import highspy

    clock = Clock(seconds)
    solver = highs_solver(model)
    seconds = max(0.0, clock.left - reserve)
    if np.isfinite(seconds):
        solver.setOptionValue("time_limit", float(seconds))
    interrupted, ended = run_interruptibly(solver, seconds)
    if not ended:
        message = "HiGHS was " + ("interrupted" if interrupted else "out of time") + " before it had begun to solve the LP."
        return _Answer(None, None, Termination.time_limit, message, 0, interrupted)
    status = solver.getModelStatus()
    solution, info = solver.getSolution(), solver.getInfo()
    primal = _finite(solution.col_value, len(model.cost)) if solution.value_valid else None
    dual = _finite(solution.row_dual, len(model.lower)) if solution.dual_valid else None
    name = highspy.HighsModelStatus
    termination, message = Termination.stalled, f"HiGHS stopped: {solver.modelStatusToString(status)}."
    if status == name.kOptimal:
        termination, message = Termination.converged, ""
    elif status == name.kTimeLimit or (status == name.kInterrupt and not interrupted):
        termination, message = Termination.time_limit, "HiGHS reached the time limit before the LP was solved."
    elif status == name.kInfeasible:
        primal = dual = None
        termination = Termination.converged
        message = "HiGHS found the LP infeasible, so no labelling should exist; there is no certificate for that."
    if interrupted:
        message = "HiGHS was interrupted before the LP was solved."
    return _Answer(primal, dual, termination, message, max(0, info.simplex_iteration_count), interrupted)


def run_interruptibly(solver: Any, seconds: float) -> tuple[bool, bool]:
    """Run in a thread, so that Ctrl-C and the limit stop HiGHS and keep what it has: whether Ctrl-C did, and whether HiGHS has ended.

    Its presolve looks neither at its time limit nor at a call to stop: then it is left alone soon after the limit, and ends by itself,
    unheard, when it looks up (a process that ends waits for it: HiGHS cannot be torn down while it runs).
    """
    solver.HandleUserInterrupt = True
    worker = threading.Thread(target=solver.run)
    clock = Clock(min(seconds, threading.TIMEOUT_MAX - _TUNING.grace))
    interrupted = started = False
    while not started or worker.is_alive():
        try:
            if not started:
                started = True
                worker.start()
            worker.join(clock.left + _TUNING.grace)
            if worker.is_alive():
                solver.cancelSolve()
                worker.join(_TUNING.grace)
                break
        except KeyboardInterrupt:
            interrupted = True
            solver.cancelSolve()
    return interrupted, not worker.is_alive()


def _finite(values: Any, length: int) -> np.ndarray | None:
    array = np.asarray(values, dtype=np.float64)
    return array if array.shape == (length,) and np.isfinite(array).all() else None


def roundings(problem: Problem, marginals: np.ndarray) -> list[np.ndarray]:
    """Labellings near fractional marginals: the nearest one, and the derandomised one where it has a guarantee; none near whole ones."""
    if marginals.shape != (problem.n_nodes, problem.n_labels) or not marginals.size:
        return []
    if marginals.max(axis=1).min() >= 1 - _FRACTIONAL:
        return []
    return [_round(marginals), *([expected_rounding(problem, marginals)] if is_associative(problem) else [])]


def _round(marginals: np.ndarray) -> np.ndarray:
    """Label of the largest marginal, the lowest of those within `_TIE` of it."""
    near = marginals >= marginals.max(axis=1, keepdims=True) - _TIE
    return near.argmax(axis=1).astype(np.int32)
