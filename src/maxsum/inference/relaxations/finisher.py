"""LPFinisher: the true value of the LP relaxation, where message passing stalls above it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.scale import spreads
from ...core.parameters import OneOf, Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ..base import Run, Solver, Support
from ..moves.icm import polish
from ..prepare import measure, prepare
from .convex_bp import ConvexBP
from .decomposition import descend
from .interior import iterate
from .linear_program import relax
from .polytope import Bracket
from .trws import ascend


@dataclass(frozen=True)
class Tuning:
    """Which method `LPFinisher` tries, and for how long."""

    # TRW-S passes before: 50 and 200 gave the same bound, and 10 to 12 interior iterations either way.
    first_passes: int = 100
    # Interior iterations that do not shrink the bracket by a tenth before it has stalled; 3 and 12 ended at the same point.
    patience: int = 6
    most_pairs: int = 1 << 22  # pairs of labels on all edges that an interior point keeps, in a dozen copies: 400 MB
    # Node marginals up to which the interior point is tried first, its matrices being dense; at 2304, trying it first was as
    # fast.
    dense_rows: int = 2000
    # The same for sparse factors of banded matrices, whose cost grows with the rows and not with their cube.
    sparse_rows: int = 20_000
    # Half width of the band up to which such factors stay sparse; 250 and 1000 made no difference on a grid of 24 x 24.
    band: int = 500
    # Bundle steps before the interior point takes over; on a grid of 576 nodes 80 were enough to end in 0.07 s instead of 0.19
    # s.
    bundle_try: int = 40
    # Last temperature of smoothing before the bundle, in spreads of a term; half and double ended at the same bound.
    cold: float = 2.5e-3
    smooth_iter: int = 300  # iterations of it; 150 and 600 ended at the same bound
    # Most of the time left that it may take: the bundle needs the rest to prove the value from both sides.
    smooth_share: float = 0.3


_TUNING = Tuning()


@dataclass(frozen=True)
class LPFinisher(Solver):
    r"""The local-polytope LP solved to a proven tolerance, with primal and dual: ``LP value in [primal, dual]``.

    TRW-S gives a labelling and messages to start from; then come, until the bracket is closed:

    - without hard constraints and up to 2000 node marginals: an interior-point method whose linear systems are in the node
      marginals only (`maxsum.inference.relaxations.interior`), and HiGHS (small problems) or the bundle where rounding stops it;
    - on larger graphs that are narrow, like grids: 40 steps of the proximal bundle of `DualDecomposition`, the interior point
      with sparse factors, the bundle again;
    - with cliques, or hard constraints in small problems: HiGHS;
    - in all other cases `ConvexBP`, whose messages are a far better start than those of TRW-S, and the bundle.

    Messages prove the upper end, whatever numbers they hold; feasible pseudo-marginals prove the lower one. The LP value itself
    bounds the optimum from above, and no messages give a better bound.

    Parameters
    ----------
    tol : float
        Relative gap of the LP value at which to stop: the width of the bracket by the value, which is counted from the sum of
        the best node scores. ``solve(problem, gap=...)`` stops at that relative gap of the labelling, if it comes first.
    max_iter : int
        Iterations of the bundle, where it comes to that.
    time_limit : float, optional
        Seconds.
    small : int
        Most variables of an LP that is given to HiGHS.
    method : {"auto", "interior", "highs", "bundle"}
        ``"auto"`` chooses as above.
    """

    tol: float = 1e-6
    max_iter: int = 2000
    time_limit: float | None = None
    small: int = 50_000
    method: str = "auto"

    solves_relaxation = True
    does = "any problem of moderate size: the value of the LP relaxation, proven from both sides"

    _parameters = settings(
        tol=Real(0.0, wanted="0 or more"),
        max_iter=WholeNumber(1, wanted="1 or more"),
        small=WholeNumber(0),
        method=OneOf("auto", "interior", "highs", "bundle"),
    )

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            if self.method in ("interior", "bundle"):
                return Support(False, f'takes no cliques with method="{self.method}"; the problem has {len(problem.cliques)}')
            if _columns(problem) > self.small and self.method == "auto":
                reason = f"takes cliques only in linear programs of at most {self.small} variables (small)"
                return Support(False, f"{reason}; this one has {_columns(problem)}", _columns(problem))
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        prepared = prepare(problem)
        start = problem.zero_messages() if init is None else Messages(init.edge.copy(), init.clique.copy())
        if not prepared.feasible:
            run.certify(-np.inf, MessageCertificate(start))
            return
        ascend(problem, prepared, start, run, _TUNING.first_passes, 1e-3)
        bracket = Bracket(problem, prepared, run, self.tol)
        if run.labels is not None and run.bound - run.score <= problem.resolution:
            run.marginals = np.eye(problem.n_labels)[run.labels]
        if bracket.halted or bracket.closed:
            return
        methods = self._methods(problem)
        if self.method == "auto" and methods == ["bundle"]:
            _smooth(bracket)
        known = getattr(run.certificate, "messages", start)
        for method in methods:
            if bracket.halted or bracket.closed:
                break
            run.termination = Termination.converged
            if method == "interior":
                _interior(bracket, known)
            elif method == "highs":
                _simplex(bracket)
            else:
                known = getattr(run.certificate, "messages", known)
                descend(bracket, known, "bundle", _TUNING.bundle_try if method == "try" else self.max_iter, 1)
            if bracket.solved or bracket.closed or bracket.halted:
                break
        run.message = f"{self.name}: {bracket} by {_NAMES[method]} after TRW-S ({run.termination.replace('_', ' ')})."

    def _methods(self, problem: Problem) -> list[str]:
        """Methods in the order in which they are tried until one closes the bracket."""
        if self.method != "auto":
            return [self.method]
        few = _columns(problem) <= self.small
        if len(problem.cliques):
            return ["highs"]
        if problem.has_hard_constraints:
            return ["highs"] if few else ["bundle"]
        if problem.n_nodes * problem.n_labels <= _TUNING.dense_rows:
            return ["interior", "highs" if few else "bundle"]
        return ["try", "interior", "bundle"] if _narrow(problem) else ["bundle"]


_NAMES = {"interior": "the interior point", "highs": "HiGHS", "bundle": "the proximal bundle", "try": "the proximal bundle"}


def _columns(problem: Problem) -> int:
    """Variables of the linear program."""
    states = problem.n_states.astype(np.int64)
    u, v = problem.graph.edges.T
    return int(states.sum() + (states[u] * states[v]).sum()) + problem.cliques.weights.size


def _narrow(problem: Problem) -> bool:
    """Whether the nodes can be ordered so that edges join near ones: then the systems of the interior point stay sparse."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    n_nodes, n_labels = problem.n_nodes, problem.n_labels
    if n_nodes * n_labels > _TUNING.sparse_rows or problem.n_edges * n_labels**2 > _TUNING.most_pairs:
        return False
    ends = problem.graph.edges
    both = np.concatenate([ends, ends[:, ::-1]])
    pattern = coo_array((np.ones(len(both), dtype=np.int8), (both[:, 0], both[:, 1])), shape=(n_nodes, n_nodes)).tocsr()
    rank = np.empty(n_nodes, dtype=np.int64)
    rank[reverse_cuthill_mckee(pattern, symmetric_mode=True)] = np.arange(n_nodes)
    return bool(np.abs(rank[ends[:, 0]] - rank[ends[:, 1]]).max(initial=0) * n_labels <= _TUNING.band)


def _smooth(bracket: Bracket) -> None:
    """Messages and a labelling from the smoothed dual, for a part of the time that is left."""
    problem, run = bracket.problem, bracket.run
    seconds = None if np.isinf(run.seconds_left) else _TUNING.smooth_share * run.seconds_left
    spread = float(np.median(spreads(problem)))
    epsilon = _TUNING.cold * spread if spread > 0 else None
    found = ConvexBP(epsilon=epsilon, max_iter=_TUNING.smooth_iter, time_limit=seconds).solve(problem, gap=run.gap)
    if found.labels is not None:
        run.offer(found.labels)
    if found.messages is not None:
        bracket.bound(measure(problem, found.messages) - bracket.constant, found.messages)
    if found.termination == Termination.interrupted:
        raise KeyboardInterrupt
    run.step(run.n_iter + found.n_iter)


def _interior(bracket: Bracket, messages: Messages) -> None:
    """Interior-point iterations until the LP is solved or the bracket shrinks no more."""
    problem, run, polytope = bracket.problem, bracket.run, bracket.polytope
    if polytope is None:
        return
    before, width, idle = run.n_iter, np.inf, 0
    for iteration, point in enumerate(iterate(polytope, messages.edge), 1):
        found = Messages(point.messages, problem.zero_messages().clique)
        bracket.bound(measure(problem, found) - bracket.constant, found)
        bracket.marginals(point.node, point.edge)
        if iteration % 3 == 0 or bracket.solved:
            labels = np.where(polytope.alive, point.node, -1.0).argmax(axis=1)
            run.offer(polish(bracket.prepared.net, labels))
        if run.step(before + iteration) or bracket.solved or bracket.closed:
            return
        width, idle = (bracket.high - bracket.low, 0) if bracket.high - bracket.low < 0.9 * width else (width, idle + 1)
        if idle >= _TUNING.patience:
            break
    run.termination = Termination.stalled


def _simplex(bracket: Bracket) -> None:
    """HiGHS, with the bracket from its answer."""
    problem, run, net = bracket.problem, bracket.run, bracket.prepared.net
    model, answer = relax(net, run)
    if model is not None and answer.dual is not None:
        found = model.messages(answer.dual, problem)
        bracket.bound(measure(problem, found) - bracket.constant, found)
    if model is not None and answer.primal is not None:
        node = model.marginals(answer.primal)
        if bracket.polytope is not None and answer.termination == Termination.converged:
            edge = np.zeros(bracket.polytope.pair.shape)
            n_node = int(bracket.polytope.alive.sum())
            edge[bracket.polytope.pair] = answer.primal[n_node : n_node + int(bracket.polytope.pair.sum())]
            bracket.marginals(node, edge)
        labels = np.where(net.unary > -np.inf, node, -1.0).argmax(axis=1)
        run.offer(labels.astype(np.int32))
        run.offer(polish(net, labels))
    if not run.step(run.n_iter + answer.iterations):
        run.termination = answer.termination
    if answer.interrupted:
        raise KeyboardInterrupt
