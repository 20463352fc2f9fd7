"""ProximalPoint: Algorithm 1 of Franc & Laskov 2011, the generalised proximal point algorithm for LP-M3N, with the certificate that it lacked."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InvalidSampleError
from ...core.result import Termination
from ..driver import Learner, Training
from ..objectives.dual_bound import FORMS, BoundPoint, DualBound, check_relaxed
from ..objectives.margin import MarginObjective, Objective, refuse_oracle
from ..oracles.exact import BracketOracle
from .bundle import Bundle
from .tree_bundle import TreeBundle

_SERIOUS = 0.5
_FEW = 10_000
_LOOK = 10


@dataclass(frozen=True)
class ProximalPoint(Learner):
    r"""Algorithm 1 of Franc & Laskov 2011: minimise :math:`F(w, \varphi) = \tfrac12\|w\|^2 + \sum_j c_j R_j(w, \varphi)` by proximal steps in the
    messages,

    .. math:: (w_{t+1}, \varphi_{t+1}) = \arg\min_{w, \varphi} F(w, \varphi) + \tfrac{1}{\lambda_t}\|\varphi - \varphi_t\|^2, \qquad
              \lambda_t = \lambda_0 a^t,

    each by a `Bundle` to a part of what it gains. A step is taken only if it satisfies :math:`F(t) - F(t + 1) \ge
    \tfrac1{\lambda_t}\|\varphi_{t+1} - \varphi_t\|^2`, so the objective never rises. The multipliers of the bundle are pseudo-marginals;
    moved into the local polytope they prove a bound on LP-M3N itself, and the training stops by the gap.

    Parameters
    ----------
    lambda_0 : float, optional
        First :math:`\lambda`; by default 2 over the largest weight of an example.
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
        A model for each tree (`TreeBundle`), for each example, or one for all (`Bundle`; the last is what Franc & Laskov 2011 does). By default one for each
        example where there are few nodes, and one for each tree else.
    inner : int
        Most evaluations of the bound in one proximal step. A :math:`\lambda` whose problem needs more is taken again around the best
        point found; it is divided by ``a`` if none was found, and always with a model for each tree.
    polish : bool
        Between two proximal steps, improve the messages at fixed weights by passes of TRW-S, as far as that lowers the objective. With
        False the algorithm is that of Franc & Laskov 2011.

    Notes
    -----
    ``result.extra["messages"]`` are the messages of the best point, ``extra["bound"]`` is the `DualBound` that they belong to;
    ``extra["steps"]`` has a row for each proximal step: the objective before and after, :math:`\tfrac1\lambda\|\varphi_{t+1} -
    \varphi_t\|^2`, :math:`\lambda`, evaluations.
    """

    lambda_0: float | None = None
    a: float = 2.0
    eps: float = 0.0
    form: str = "chains"
    slacks: str | None = None
    inner: int = 100
    polish: bool = True

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        check_relaxed(self, objective)
        if not isinstance(getattr(objective, "oracle", None), BracketOracle):  # whose messages `polish` takes
            refuse_oracle(self, objective)
        objective.model.refuse_cliques("ProximalPoint")  # type: ignore[attr-defined]
        if self.lambda_0 is not None and not (_is_number(self.lambda_0) and 0 < self.lambda_0 < np.inf):
            raise InvalidSampleError(f"lambda_0 is {self.lambda_0!r}, wanted a finite number > 0, or None for one that fits C.")
        if not (_is_number(self.a) and 1 < self.a < np.inf):
            raise InvalidSampleError(f"a is {self.a!r}, wanted a finite number > 1: the sequence of lambda has to grow.")
        if not (_is_number(self.eps) and self.eps >= 0):
            raise InvalidSampleError(f"eps is {self.eps!r}, wanted a number >= 0 for the stopping rule (15).")
        if self.form not in FORMS:
            raise InvalidSampleError(f"form is {self.form!r}, wanted one of {FORMS}.")
        if self.slacks not in (None, "trees", "n", "one"):
            raise InvalidSampleError(f"slacks is {self.slacks!r}, wanted 'trees', 'n' or 'one'.")
        if not (_is_number(self.inner) and self.inner >= 1):
            raise InvalidSampleError(f"inner is {self.inner!r}, wanted a whole number >= 1.")

    def _run(self, objective: MarginObjective, training: Training, init: Any) -> None:  # type: ignore[override]
        steps = _Steps(self, objective, training, init)
        while True:
            moved = steps.step()
            if self.polish:
                steps.polish()
            if training.step(training.n_iter + 1):
                return
            if moved is not None and moved <= self.eps and self.eps > 0:
                training.termination = Termination.stalled
                training.message = (
                    f"ProximalPoint: rule (15) holds with {moved:.3g}; the relative gap is {training.relative_gap:.2g}."
                )
                return


class _Memory(NamedTuple):
    """What a training leaves for the next, of another C: its planes, and its messages."""

    bundle: Bundle | TreeBundle
    phi: np.ndarray
    slacks: str | None


class _Steps:
    """One training: the present point, the bundle, lambda."""

    def __init__(self, learner: ProximalPoint, objective: MarginObjective, training: Training, init: Any):
        self.learner, self.objective, self.training = learner, objective, training
        largest = float(objective.c.max())
        self.scale = 2.0 / largest if learner.lambda_0 is None else float(learner.lambda_0)
        phi: np.ndarray
        if isinstance(init, _Memory) and init.bundle.objective is objective and init.slacks == learner.slacks:
            self.bundle, phi = init.bundle, init.phi
            self.bound = self.bundle.bound
            self.bundle.reweight()
        else:
            self.bound = DualBound(objective, learner.form)
            kind = learner.slacks or ("n" if len(self.bound.copies.owner) <= _FEW else "trees")
            self.bundle = TreeBundle(self.bound, learner.random_state) if kind == "trees" else Bundle(self.bound, kind)
            phi = self.bound.zeros()
        self.w, self.phi = np.zeros(objective.n_weights), phi.copy()
        state = training.resume()
        if state is not None:
            self.w, self.phi, self.scale = np.array(state["w"]), np.array(state["phi"]), float(state["scale"][0])
            training.dual, training.extra["messages"] = -np.inf, np.array(state["messages"])
        training.state = self.state
        training.extra["planes"], training.extra["bound"] = _Memory(self.bundle, self.phi, learner.slacks), self.bound
        self.point = self._evaluate(self.w, self.phi)
        self.value = self.bound.primal(self.w, self.point.slack)
        training.extra["steps"] = []

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint; planes, and with them the lower bound, are found anew."""
        best = self.training.extra["messages"]
        return {"w": self.w, "phi": self.phi, "scale": np.array([self.scale]), "messages": best}

    def _evaluate(self, w: np.ndarray, phi: np.ndarray) -> BoundPoint:
        started = time.perf_counter()
        point = self.bound.evaluate(w, phi)
        self.objective.seconds += time.perf_counter() - started
        self.objective.n_calls += self.objective.n_examples
        if self.training.offer(w, self.bound.primal(w, point.slack), False):
            self.training.extra["messages"] = phi.copy()
        return point

    def step(self) -> float | None:
        r"""One proximal problem; returns what :math:`\tfrac1\lambda\|\varphi_{t+1} - \varphi_t\|^2` is at most for its minimiser, or None if
        no step was taken."""
        training, bundle, tol, met = self.training, self.bundle, self.learner.tol, False
        bundle.recentre(self.phi, self.scale)
        bundle.add(self.point, self.w, self.phi, 0.0)
        best, found = self.value, (self.w, self.phi, self.value, 0.0, self.point)
        count, gap = 0, np.inf
        while count < self.learner.inner:
            count += 1
            began, started = training.clock.used, time.perf_counter()
            w, phi, low = bundle.solve(max(1e-10, 0.05 * tol))
            training.qp_seconds += time.perf_counter() - started
            point = self._evaluate(w, phi)
            value = self.bound.primal(w, point.slack)
            turn = phi - self.phi
            moved = float(np.vdot(turn, turn)) / self.scale
            if value + moved < best:
                best, found = value + moved, (w, phi, value, moved, point)
            gap = best - low
            if gap <= max(0.1 * tol * abs(best), (1 - _SERIOUS) * (self.value - low)):
                met = True
                break
            if training.seconds_left <= training.clock.used - began:  # another one would end too late
                met = True
                break
            if count % _LOOK == 0 and self._certify() <= tol:
                break
            if not bundle.add(point, w, phi, 0.01 * gap):
                met = True
                break
        self._certify()
        training.extra["steps"].append((self.value, found[2], found[3], self.scale, count))
        taken = found[4] is not self.point
        self.w, self.phi, self.value, moved, self.point = found
        training.extra["planes"] = training.extra["planes"]._replace(phi=self.phi)
        if met:
            self.scale *= self.learner.a
        elif not taken or isinstance(bundle, TreeBundle):
            self.scale /= self.learner.a
        return float(np.sqrt(moved) + np.sqrt(max(gap, 0.0))) ** 2 if taken else None

    def _certify(self) -> float:
        """The bound that the multipliers prove, for LP-M3N itself; returns the relative gap."""
        marginals = self.bundle.marginals()
        if marginals.dual >= self.training.dual:
            self.training.bound(marginals.dual, marginals.certificate())  # type: ignore[arg-type]
        return self.training.relative_gap

    def polish(self) -> None:
        """Messages improved at fixed weights, by the passes of the objective's oracle."""
        oracle, bound = self.objective.oracle, self.bound
        messages = getattr(oracle, "messages", None)
        if not isinstance(messages, list) or not bound.n_messages or self.training.seconds_left <= 0:
            return
        self.objective.ask(self.w, effort=1)
        phi = bound.from_edges(np.concatenate([own.edge for own in messages], axis=1))
        point = self._evaluate(self.w, phi)
        value = bound.primal(self.w, point.slack)
        if value < self.value:
            self.phi, self.value, self.point = phi, value, point
            self.training.extra["planes"] = self.training.extra["planes"]._replace(phi=phi)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
