"""CompactQP: LP-M3N as one sparse quadratic programme for an interior point solver."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import sparse

from ...core.errors import InvalidParameterError, UnsupportedProblemError
from ...core.parameters import OneOf, WholeNumber, settings
from ...core.result import Termination
from ..driver import Learner, Training
from ..dual.associative import associative_bound
from ..dual.compact_program import Program, n_nonzeros
from ..dual.dual_bound import check_relaxed
from ..dual.pseudo_marginals import PseudoMarginals
from ..objectives.lp import check_lp
from ..objectives.margin import refuse_oracle
from ..proofs.message_slacks import message_slacks
from ..protocols import HasDesign, HasOracle, HasPlanes, HasRelaxation
from ..state import REBUILT

SOLVERS = ("piqp", "clarabel")


@dataclass(frozen=True)
class Tuning:
    """How the solver is asked.

    Attributes
    ----------
    attempts : int
        Most calls of the solver.
    finest : float
        Its smallest tolerance: below, interior points of programs in double precision get no better.
    asked : float
        Its first tolerance, in units of that of the learner; the gap is wider than what the solver reports, as its answer is repaired.
    finer : float
        What a tolerance that did not suffice is multiplied with.
    speed : float
        Operations a second of PIQP's factorisation, at most: one that cannot end within the time limit is not begun.
    """

    attempts: int = 3
    finest: float = 1e-11
    asked: float = 0.1
    finer: float = 0.01
    speed: float = 4e9


_TUNING = Tuning()


@dataclass(frozen=True)
class CompactQP(Learner):
    """The whole LP-M3N problem in one call of an interior point solver: the reference, and the choice for small data.

    Weights come with messages for which the objective is what it claims to be, and with pseudo-marginals that prove the bound.

    Parameters
    ----------
    tol : float
        Relative gap; the solver is called again with finer settings until it is reached.
    time_limit : float, optional
        Seconds. PIQP cannot be stopped: its first iteration is timed, and as many are done as fit. None is begun where the
        weights alone, which data couple all with each other, take longer to factorise (:math:`P^3 / 3` operations).
    max_iter : int
        Iterations of the solver.
    solver : {"piqp", "clarabel"}
        The second is not installed by default.
    max_nonzeros : int
        Larger programmes are refused; they would take hours, and gigabytes in the factorisation.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign, HasOracle, HasRelaxation)

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

    def init(self, objective: Any, training: Training, start: Any = None) -> CompactState:
        return CompactState(objective, _TUNING.asked * max(self.tol, _TUNING.finest))

    def step(self, state: CompactState, training: Training) -> None:
        """One call of the solver, each with finer settings than the one before."""
        objective = state.objective
        if not np.isfinite(training.primal):
            size = objective.model.n_labels
            messages = np.zeros((2, len(objective.design.edges), size)), np.zeros((len(objective.design.member), size))
            state.report(training, objective.cone.repair(np.zeros(objective.n_weights)), messages)
        program = state.program = state.program or Program.of(objective)
        training.extra |= program.size()
        least = objective.n_weights**3 / 3.0 / _TUNING.speed if self.solver == "piqp" else 0.0
        if training.seconds_left <= least:
            training.end(Termination.time_limit)
            return
        started = time.perf_counter()
        found = _SOLVE[self.solver](program, max(state.eps, _TUNING.finest), self.max_iter, training.seconds_left)
        training.qp_seconds += time.perf_counter() - started
        if found is not None and np.isfinite(found.x).all():
            training.extra |= {
                "status": found.status, "primal_residual": found.primal_residual, "dual_residual": found.dual_residual,
                "qp_iterations": found.n_iter,
            }  # fmt: skip
            w = objective.cone.repair(found.x[: objective.n_weights])
            messages = program.messages(objective, w, found.x), program.clique_messages(found.x)
            # A solver that was stopped early may leave multipliers that are no numbers: then they bound nothing.
            usable = np.isfinite(found.z).all()
            state.report(training, w, messages, *(program.marginals(objective, found.z) if usable else ()))
        state.attempt += 1
        if state.attempt >= _TUNING.attempts or state.eps <= _TUNING.finest:
            training.end(Termination.stalled)
        state.eps *= _TUNING.finer

    def finish(self, state: CompactState, training: Training) -> None:
        training.extra |= state.best


@dataclass(eq=False)
class CompactState:
    """How exactly the solver is asked, and what belongs to the best weights and to the best bound.

    Attributes
    ----------
    eps : float
        Tolerance of the next call.
    best : dict of ndarray
        ``messages``, ``clique_messages`` and ``slack`` of the weights, ``marginals`` of the bound.
    """

    objective: Any = field(metadata=REBUILT)
    eps: float
    attempt: int = 0
    best: dict[str, np.ndarray] = field(default_factory=dict)
    program: Program | None = field(default=None, metadata=REBUILT)

    def report(
        self,
        training: Training,
        w: np.ndarray,
        messages: tuple[np.ndarray, np.ndarray],
        node: np.ndarray | None = None,
        edge: np.ndarray | None = None,
    ) -> None:
        """Offer weights with their messages, and the bound of pseudo-marginals."""
        objective = self.objective
        slack = np.maximum(message_slacks(objective, w, messages[0], clique_messages=messages[1]), 0.0)
        if training.offer(w, objective.primal(w, slack), False):
            self.best |= {"messages": messages[0], "clique_messages": messages[1], "slack": slack}
            training.extra |= self.best
        found: Any
        if objective.model.data.cliques is not None:
            dual, found = associative_bound(objective, node)
        else:
            point = PseudoMarginals(objective, node, edge, objective.n_jobs, copy=False)
            node, dual, found = point.node, point.dual, point.certificate()
        if dual >= training.dual and training.bound(dual, found) and node is not None:
            self.best["marginals"] = node


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
