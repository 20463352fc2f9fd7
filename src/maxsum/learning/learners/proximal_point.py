"""ProximalPoint: Algorithm 1 of Franc & Laskov (2011), the generalised proximal point algorithm for LP-M3N, with the certificate that it lacked."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...core.parameters import POSITIVE, Flag, Maybe, OneOf, Real, WholeNumber, settings
from ...core.result import Termination
from ..driver import Learner, Training
from ..dual.bundle import Bundle
from ..dual.dual_bound import FORMS, BoundPoint, DualBound, check_relaxed
from ..dual.tree_bundle import TreeBundle
from ..objectives.base import Objective
from ..objectives.margin import MarginObjective, refuse_oracle
from ..oracles.base import Effort
from ..oracles.bracket import BracketOracle
from ..protocols import HasDesign, HasOracle, HasPlanes, HasRelaxation
from ..state import REBUILT


@dataclass(frozen=True)
class Tuning:
    """Numbers of the inner loop.

    Attributes
    ----------
    serious : float
        Part of the decrease that the model promises which has to be reached: then the proximal problem is solved well enough.
    few_nodes : int
        Up to so many copies of nodes a model for each example is the better one: its quadratic program is small.
    look : int
        Evaluations from one bound on LP-M3N to the next.
    largest : float
        The first lambda at most. On four images of 30 x 30 pixels with C = 0.01 to 5 objectives after a few seconds were 0.3 to 5 % lower with
        2 than with 8 to 800; with 0.2 they were lower or higher, by 5 % either way.
    """

    serious: float = 0.5
    few_nodes: int = 10_000
    look: int = 10
    largest: float = 2.0


_TUNING = Tuning()


@dataclass(frozen=True)
class ProximalPoint(Learner):
    r"""Algorithm 1 of Franc & Laskov (2011): minimise :math:`F(w, \varphi) = \tfrac12\|w\|^2 + \sum_j c_j R_j(w, \varphi)` by proximal steps in the
    messages,

    .. math:: (w_{t+1}, \varphi_{t+1}) = \arg\min_{w, \varphi} F(w, \varphi) + \tfrac{1}{\lambda_t}\|\varphi - \varphi_t\|^2, \qquad
              \lambda_t = \lambda_0 a^t,

    each by a `Bundle` to a part of what it gains. A step is taken only if it satisfies :math:`F(t) - F(t + 1) \ge
    \tfrac1{\lambda_t}\|\varphi_{t+1} - \varphi_t\|^2`, so the objective never rises. The multipliers of the bundle are pseudo-marginals;
    moved into the local polytope they prove a bound on LP-M3N itself, and the training stops by the gap.

    Parameters
    ----------
    lambda_0 : float, optional
        First :math:`\lambda`; by default 2 over the largest weight of an example, but at most 2: with small C larger ones make the first
        problems as hard as the whole.
    a : float
        Factor of :math:`\lambda`, above 1.
    eps : float
        Also stop by the rule (15) of Franc & Laskov (2011), :math:`\tfrac1{\lambda_t}\|\varphi_{t+1} - \varphi_t\|^2 \le` ``eps``; 0
        never does. It is about the minimiser :math:`\varphi_{t+1}` of the proximal problem, which the bundle finds up to a gap
        :math:`\delta`. As that problem is strongly convex in the messages, the minimiser has :math:`\tfrac1{\lambda_t}\|\varphi_{t+1} -
        \varphi_t\|^2 \le (\sqrt m + \sqrt\delta)^2` for a step of :math:`m`, and that is what is compared, after a step that was taken.
        The rule proves nothing: the gap of the result does.
    form : {"chains", "factors"}
        See `DualBound`.
    slacks : {None, "trees", "n", "one"}
        A model for each tree (`TreeBundle`), for each example, or one for all (`Bundle`; the last is what the paper does). By default one for each
        example where there are few nodes, and one for each tree else.
    inner : int
        Most evaluations of the bound in one proximal step. A :math:`\lambda` whose problem needs more is taken again around the best
        point found; it is divided by ``a`` if none was found, and always with a model for each tree.
    polish : bool
        Between two proximal steps, improve the messages at fixed weights by passes of TRW-S, as far as that lowers the objective. With
        False the algorithm is that of the paper.
    inner_tol : float, optional
        Relative gap to which each proximal problem is solved; by default to a part of what it gains, which takes fewer evaluations.
    certify : bool
        Prove a bound on the way. With False there is none, as in the paper: no gap, and the training ends by ``eps``, by ``max_iter``, by time,
        or by a callback at a known threshold.

    Notes
    -----
    ``result.extra["messages"]`` are the messages of the best point, ``extra["bound"]`` is the `DualBound` that they belong to;
    ``extra["steps"]`` has a row for each proximal step: the objective before and after, :math:`\tfrac1\lambda\|\varphi_{t+1} -
    \varphi_t\|^2`, :math:`\lambda`, evaluations.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign, HasOracle, HasRelaxation)

    lambda_0: float | None = None
    a: float = 2.0
    eps: float = 0.0
    form: str = "chains"
    slacks: str | None = None
    inner: int = 100
    polish: bool = True
    inner_tol: float | None = None
    certify: bool = True

    _parameters = settings(
        lambda_0=Maybe(POSITIVE, wanted="a finite number > 0, or None for one that fits C"),
        a=Real(above=1.0, below=np.inf, wanted="a finite number > 1: the sequence of lambda has to grow"),
        eps=Real(0.0, wanted="a number >= 0 for the stopping rule (15)"),
        form=OneOf(*FORMS),
        slacks=Maybe(OneOf("trees", "n", "one")),
        inner=WholeNumber(1),
        polish=Flag(),
        inner_tol=Maybe(POSITIVE, wanted="a relative gap > 0, or None for a part of what the step gains"),
        certify=Flag(),
    )

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        check_relaxed(self, objective)
        if not isinstance(getattr(objective, "oracle", None), BracketOracle):  # whose messages `polish` takes
            refuse_oracle(self, objective)
        objective.model.refuse_cliques("ProximalPoint")  # type: ignore[attr-defined]

    def init(self, objective: MarginObjective, training: Training, start: Any = None) -> ProximalState:
        scale = min(_TUNING.largest, 2.0 / float(objective.c.max())) if self.lambda_0 is None else float(self.lambda_0)
        w = np.zeros(objective.n_weights)
        if isinstance(start, ProximalState) and start.objective is objective and start.kind == (self.slacks, self.form):
            start.bundle.reweight()
            return ProximalState(self, objective, start.bundle, w, start.phi.copy(), scale)
        bound = DualBound(objective, self.form)
        kind = self.slacks or ("n" if len(bound.copies.owner) <= _TUNING.few_nodes else "trees")
        bundle = TreeBundle(bound, self.random_state) if kind == "trees" else Bundle(bound, kind)
        return ProximalState(self, objective, bundle, w, bound.zeros(), scale)

    def step(self, state: ProximalState, training: Training) -> None:
        """One proximal problem, and better messages at its solution."""
        training.extra |= {"planes": state, "bound": state.bound}
        moved = state.move(training)
        if self.polish:
            state.polish(training)
        training.extra |= {"messages": state.best_phi, "steps": state.steps}
        if moved is not None and moved <= self.eps and self.eps > 0:
            words = f"ProximalPoint: rule (15) holds with {moved:.3g}; the relative gap is {training.relative_gap:.2g}."
            training.end(Termination.stalled, words)


@dataclass(eq=False)
class ProximalState:
    """The present point, the planes of the bundle, lambda.

    Attributes
    ----------
    w, phi : ndarray
        Weights and messages, with the objective ``value`` there; ``best_phi`` are the messages of the best weights so far.
    scale : float
        The present lambda.
    steps : list
        A row for each proximal step, see `ProximalPoint`.
    """

    learner: ProximalPoint = field(metadata=REBUILT)
    objective: MarginObjective = field(metadata=REBUILT)
    bundle: Bundle | TreeBundle
    w: np.ndarray
    phi: np.ndarray
    scale: float
    best_phi: np.ndarray = field(init=False)
    value: float = np.inf
    point: BoundPoint | None = None
    steps: list[tuple[float, float, float, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.best_phi = self.phi

    @property
    def bound(self) -> DualBound:
        """The dual bound that is minimised over weights and messages."""
        return self.bundle.bound

    @property
    def kind(self) -> tuple[str | None, str]:
        """Which trainings can take its planes over."""
        return self.learner.slacks, self.learner.form

    def _evaluate(self, training: Training, w: np.ndarray, phi: np.ndarray) -> BoundPoint:
        started = time.perf_counter()
        point = self.bound.evaluate(w, phi)
        self.objective.seconds += time.perf_counter() - started
        self.objective.n_calls += self.objective.n_examples
        if training.offer(w, self.bound.primal(w, point.slack), False):
            self.best_phi = training.extra["messages"] = phi.copy()
        return point

    def move(self, training: Training) -> float | None:
        r"""One proximal problem; returns what :math:`\tfrac1\lambda\|\varphi_{t+1} - \varphi_t\|^2` is at most for its minimiser, or None if
        no step was taken."""
        bundle, tol, met = self.bundle, self.learner.tol, False
        if self.point is None:
            self.point = self._evaluate(training, self.w, self.phi)
            self.value = self.bound.primal(self.w, self.point.slack)
        bundle.recentre(self.phi, self.scale)
        bundle.add(self.point, self.w, self.phi, 0.0)
        best, found = self.value, (self.w, self.phi, self.value, 0.0, self.point)
        count, gap = 0, np.inf
        while count < self.learner.inner:
            count += 1
            began, started = training.clock.seconds, time.perf_counter()
            w, phi, low = bundle.solve(max(1e-10, 0.05 * tol))
            training.qp_seconds += time.perf_counter() - started
            point = self._evaluate(training, w, phi)
            value = self.bound.primal(w, point.slack)
            turn = phi - self.phi
            moved = float(np.vdot(turn, turn)) / self.scale
            if value + moved < best:
                best, found = value + moved, (w, phi, value, moved, point)
            gap = best - low
            allowed = max(0.1 * tol * abs(best), (1 - _TUNING.serious) * (self.value - low))
            if gap <= (allowed if self.learner.inner_tol is None else self.learner.inner_tol * abs(best)):
                met = True
                break
            if training.seconds_left <= training.clock.seconds - began:  # another one would end too late
                met = True
                break
            if count % _TUNING.look == 0 and self._certify(training) <= tol:
                break
            if not bundle.add(point, w, phi, 0.01 * gap):
                met = True
                break
        self._certify(training)
        self.steps.append((self.value, found[2], found[3], self.scale, count))
        taken = found[4] is not self.point
        self.w, self.phi, self.value, moved, self.point = found
        if met:
            self.scale *= self.learner.a
        elif not taken or isinstance(bundle, TreeBundle):
            self.scale /= self.learner.a
        return float(np.sqrt(moved) + np.sqrt(max(gap, 0.0))) ** 2 if taken else None

    def _certify(self, training: Training) -> float:
        """The bound that the multipliers prove, for LP-M3N itself; returns the relative gap."""
        if not self.learner.certify:
            return np.inf
        marginals = self.bundle.marginals()
        if marginals.dual >= training.dual:
            training.bound(marginals.dual, marginals.certificate())  # type: ignore[arg-type]
        return training.relative_gap

    def polish(self, training: Training) -> None:
        """Messages improved at fixed weights, by the passes of the objective's oracle."""
        oracle, bound = self.objective.oracle, self.bound
        messages = getattr(oracle, "messages", None)
        if not isinstance(messages, list) or not bound.n_messages or training.seconds_left <= 0:
            return
        self.objective.ask(self.w, effort=Effort.LONG)
        phi = bound.from_edges(np.concatenate([own.edge for own in messages], axis=1))
        point = self._evaluate(training, self.w, phi)
        value = bound.primal(self.w, point.slack)
        if value < self.value:
            self.phi, self.value, self.point = phi, value, point
