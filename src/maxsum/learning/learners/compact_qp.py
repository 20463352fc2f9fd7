"""CompactQP: LP-M3N as one sparse quadratic programme for an interior point solver."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...core.errors import InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from ...core.parameters import OneOf, WholeNumber, settings
from ...core.result import Termination
from ..driver import Learner, Training
from ..dual.associative import associative_bound
from ..dual.pseudo_marginals import PseudoMarginals
from ..objectives.dual_bound import check_relaxed
from ..objectives.margin import MarginObjective, refuse_oracle
from .compact_program import Program, edge_tables, n_nonzeros

SOLVERS = ("piqp", "clarabel")
_ATTEMPTS = 3
_FINEST = 1e-11
_ASKED = 0.1
_CHUNK = 2**20


@dataclass(frozen=True)
class CompactQP(Learner):
    """The whole LP-M3N problem in one call of an interior point solver: the reference, and the choice for small data.

    Weights come with messages for which the objective is what it claims to be, and with pseudo-marginals that prove the bound.

    Parameters
    ----------
    tol : float
        Relative gap; the solver is called again with finer settings until it is reached.
    time_limit : float, optional
        Seconds. PIQP cannot be stopped: its first iteration is timed, and as many are done as fit.
    max_iter : int
        Iterations of the solver.
    solver : {"piqp", "clarabel"}
        The second is not installed by default.
    max_nonzeros : int
        Larger programmes are refused; they would take hours, and gigabytes in the factorisation.
    """

    tol: float = 1e-6
    max_iter: int = 200
    solver: str = "piqp"
    max_nonzeros: int = 5_000_000

    _parameters = settings(solver=OneOf(*SOLVERS), max_nonzeros=WholeNumber(1))

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        refuse_oracle(self, objective)
        check_relaxed(self, objective)
        check_lp(objective, "CompactQP")
        size = n_nonzeros(objective)
        if size > self.max_nonzeros:
            raise UnsupportedProblemError(
                f"the quadratic programme of CompactQP would have {size} nonzeros, more than max_nonzeros={self.max_nonzeros}. "
                "Use the default learner of the lp surrogate, or force it with a larger max_nonzeros."
            )

    def _run(self, objective: Any, training: Training, init: Any) -> None:
        w = objective.cone.repair(np.zeros(objective.n_weights))
        size = objective.model.n_labels
        messages = np.zeros((2, len(objective.design.edges), size)), np.zeros((len(objective.design.member), size))
        self._report(objective, training, w, messages)
        program = Program.of(objective)
        training.extra |= program.size()
        eps = _ASKED * max(self.tol, _FINEST)
        for attempt in range(_ATTEMPTS):
            if training.seconds_left <= 0:
                training.termination = Termination.time_limit
                return
            started = time.perf_counter()
            found = _SOLVE[self.solver](program, max(eps, _FINEST), self.max_iter, training.seconds_left)
            training.qp_seconds += time.perf_counter() - started
            if found is not None and np.isfinite(found.x).all():
                training.extra |= {
                    "status": found.status, "primal_residual": found.primal_residual, "dual_residual": found.dual_residual,
                    "qp_iterations": found.n_iter,
                }  # fmt: skip
                w = objective.cone.repair(found.x[: objective.n_weights])
                messages = program.messages(objective, w, found.x), program.clique_messages(found.x)
                self._report(objective, training, w, messages, *program.marginals(objective, found.z))
            if training.step(attempt + 1) or eps <= _FINEST:
                break
            eps *= 0.01
        if training.termination == Termination.iteration_limit and training.relative_gap > self.tol:
            training.termination = Termination.stalled

    @staticmethod
    def _report(
        objective: Any,
        training: Training,
        w: np.ndarray,
        messages: tuple[np.ndarray, np.ndarray],
        node: np.ndarray | None = None,
        edge: np.ndarray | None = None,
    ) -> None:
        slack = np.maximum(slacks(objective, w, messages[0], clique_messages=messages[1]), 0.0)
        if training.offer(w, objective.primal(w, slack), False):
            training.extra |= {"messages": messages[0], "clique_messages": messages[1], "slack": slack}
        found: Any
        if objective.model.data.cliques is not None:
            dual, found = associative_bound(objective, node)
        else:
            point = PseudoMarginals(objective, node, edge, objective.n_jobs, copy=False)
            node, dual, found = point.node, point.dual, point.certificate()
        if dual >= training.dual and training.bound(dual, found) and node is not None:
            training.extra["marginals"] = node


def check_lp(objective: Any, name: str) -> None:
    """Refuse objectives without a dual bound whose messages are all finite."""
    if not isinstance(objective, MarginObjective):
        raise InvalidSampleError(
            f"{name} got a {type(objective).__name__}, wanted the lp surrogate: an objective of a model with node and edge features."
        )
    if objective.model.labels is None:
        raise InvalidSampleError("the model was bound without labels; give them to bind().")
    if objective.model.has_forbidden:
        raise InvalidSampleError(
            f"{name}: the model forbids pairs of labels (-inf), where the linear relaxation has no finite messages to learn with; "
            'wanted finite tables. Train with surrogate="margin".'
        )


def slacks(
    objective: Any, w: np.ndarray, messages: np.ndarray, heat: float = 0.0, clique_messages: np.ndarray | None = None
) -> np.ndarray:
    r"""Slack of each example under messages (2, E, K), and (M, K) of members of cliques, in plain numpy: the sum over all terms of

    .. math:: \max_k \theta(k) - \theta(y),

    with :math:`\theta` the loss-augmented and reparametrised scores and :math:`y` the truth. With ``heat`` > 0 every maximum is a
    soft one, :math:`\epsilon\log\sum_k e^{\theta(k)/\epsilon}`.
    """
    model = objective.model
    data, size = model.data, model.n_labels
    labels, (u, v) = objective.design.truth, data.edges.T
    unary = model.unary(w) + objective.loss_table
    np.subtract.at(unary, u, messages[0])
    np.subtract.at(unary, v, messages[1])
    psi = np.zeros((len(objective.design.member), size)) if clique_messages is None else clique_messages
    np.subtract.at(unary, objective.design.member, psi)
    example = np.repeat(np.arange(data.n_examples), np.diff(data.node_ptr))
    total = np.bincount(example, _height(unary, heat) - unary[np.arange(len(unary)), labels], data.n_examples)
    tables, k, step = model.tables(w), np.arange(size), max(1, _CHUNK // size**2)
    for start in range(0, len(u), step):
        own = slice(start, min(start + step, len(u)))
        one, two = u[own], v[own]
        table = edge_tables(tables, own) + messages[0, own, :, None] + messages[1, own, None, :]
        at_truth = table[np.arange(len(table)), labels[one], labels[two]]
        if (data.n_states < size).any():
            inside = (k < data.n_states[one][:, None])[:, :, None] & (k < data.n_states[two][:, None])[:, None, :]
            table = np.where(inside, table, -np.inf)
        total += np.bincount(example[one], _height(table.reshape(len(table), -1), heat) - at_truth, data.n_examples)
    if data.cliques is not None:
        total += _clique_slacks(objective, w, psi, example)
    return total


def _clique_slacks(objective: Any, w: np.ndarray, psi: np.ndarray, example: np.ndarray) -> np.ndarray:
    """The same of the cliques: without the reward every member takes its best, with it all take one label."""
    model, (_, ptr, member, _) = objective.model, objective.model.data.cliques
    states, labels = model.data.n_states[member], objective.design.truth[member]
    own = np.where(np.arange(model.n_labels) < states[:, None], psi, -np.inf)
    apart = np.add.reduceat(own.max(axis=1), ptr[:-1])
    reward = model.clique_weights(w)
    top = np.maximum(apart, (np.add.reduceat(own, ptr[:-1], axis=0) + reward).max(axis=1))
    low = np.minimum.reduceat(labels, ptr[:-1])
    agree = low == np.maximum.reduceat(labels, ptr[:-1])
    at_truth = np.add.reduceat(psi[np.arange(len(psi)), labels], ptr[:-1])
    at_truth += np.where(agree, reward[np.arange(len(low)), low], 0.0)
    return np.bincount(example[member[ptr[:-1]]], top - at_truth, model.data.n_examples)


def _height(scores: np.ndarray, heat: float) -> np.ndarray:
    top = scores.max(axis=1, initial=-np.inf)
    if not heat:
        return top
    return np.asarray(top + heat * np.log(np.exp((scores - top[:, None]) / heat).sum(axis=1)))


class _Solved(NamedTuple):
    x: np.ndarray
    z: np.ndarray
    status: str
    primal_residual: float
    dual_residual: float
    n_iter: int


def _quadratic(program: Program) -> Any:
    n, size = len(program.linear), program.n_weights
    diagonal = np.arange(size)
    return sparse.csc_matrix((np.full(size, program.scale), (diagonal, diagonal)), shape=(n, n))


def _piqp(program: Program, eps: float, max_iter: int, seconds: float) -> _Solved | None:
    import piqp

    solver = piqp.SparseSolver()
    settings = solver.settings
    settings.eps_abs = settings.eps_rel = settings.eps_duality_gap_abs = settings.eps_duality_gap_rel = eps
    started = time.perf_counter()
    solver.setup(_quadratic(program), program.linear, None, None, program.matrix, None, program.limit, program.lower, None)
    if seconds < np.inf:
        before = time.perf_counter()
        settings.max_iter = 1
        solver.solve()
        now = time.perf_counter()
        max_iter = min(max_iter, int((seconds - (now - started)) / max(now - before, 1e-9)))
    if max_iter > 1:
        settings.max_iter = max_iter
        solver.solve()
    result = solver.result
    info = result.info
    return _Solved(
        np.array(result.x), np.array(result.z_u), info.status.name.removeprefix("PIQP_").lower(), float(info.primal_res),
        float(info.dual_res), int(info.iter),
    )  # fmt: skip


def _clarabel(program: Program, eps: float, max_iter: int, seconds: float) -> _Solved | None:
    try:
        clarabel = importlib.import_module("clarabel")
    except ImportError as error:
        raise InvalidParameterError(
            "solver='clarabel' of CompactQP needs the package clarabel; install it, or use 'piqp'."
        ) from error
    bounded = np.flatnonzero(np.isfinite(program.lower))
    signs = sparse.csc_matrix(
        (-np.ones(len(bounded)), (np.arange(len(bounded)), bounded)), shape=(len(bounded), len(program.linear))
    )
    rows = sparse.csc_matrix(sparse.vstack([program.matrix, signs], format="csc"))
    limit = np.concatenate([program.limit, -program.lower[bounded]])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = max_iter
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = eps
    if seconds < np.inf:
        settings.time_limit = seconds
    cones = [clarabel.NonnegativeConeT(len(limit))]
    answer = clarabel.DefaultSolver(_quadratic(program), program.linear, rows, limit, cones, settings).solve()
    return _Solved(
        np.array(answer.x), np.array(answer.z)[: len(program.limit)], str(answer.status).lower(), float(answer.r_prim),
        float(answer.r_dual), int(answer.iterations),
    )  # fmt: skip


_SOLVE = {"piqp": _piqp, "clarabel": _clarabel}
