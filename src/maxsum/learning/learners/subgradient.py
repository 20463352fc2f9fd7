"""Subgradient: the stochastic baseline that everybody knows, with Pegasos steps, averaging, and a bound all the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import InvalidSampleError
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..objectives.dual_bound import check_relaxed
from ..objectives.margin import MarginObjective, Objective, refuse_oracle
from .block_frank_wolfe import _pack, _unpack, certain, feasible, is_exact
from .dual_subgradient import descend


@dataclass(frozen=True)
class Subgradient(Learner):
    r"""Stochastic subgradient descent with the steps :math:`1/t` of Pegasos.

    With these steps the weights are the average of all planes seen, :math:`w_t = \Pi(\frac1t\sum_s n\,c_{j_s} z_s)`, projected to
    the cone; after whole passes that average is a feasible dual point, so the baseline has a certificate too.

    Parameters
    ----------
    averaged : bool
        Return the average of the weights, the later ones counting more, where it is better.
    batch : int, optional
        Examples a step; by default a sixteenth of them.
    step : float, optional
        First step length for the ``lp`` surrogate, where the steps in weights and messages are normalised and go with
        :math:`1/\sqrt t`, as Franc & Laskov 2011 writes (see `dual_subgradient.descend`); ten of them an iteration.
    """

    averaged: bool = True
    batch: int | None = None
    step: float | None = None

    def _check(self, objective: Objective) -> None:
        super()._check(objective)
        if self.batch is not None and (isinstance(self.batch, bool) or self.batch < 1):
            raise InvalidSampleError(f"batch is {self.batch!r}, wanted a whole number >= 1.")
        if self.step is not None and not 0 < self.step < np.inf:
            raise InvalidSampleError(f"step is {self.step!r}, wanted a finite number > 0.")

    def _run(self, objective: Objective, training: Training, init: Any) -> None:
        if objective.relaxed and isinstance(objective, MarginObjective):
            check_relaxed(self, objective)
            refuse_oracle(self, objective)
            objective.model.refuse_cliques("Subgradient of the lp surrogate")
            descend(self, objective, training, self.step)
            return
        n = objective.n_examples
        size = self.batch or max(1, -(-n // 16))
        random = np.random.default_rng(self.random_state)
        total, mean = np.zeros(objective.n_weights), np.zeros(objective.n_weights)
        offset, seen, steps, best = 0.0, 0, 0, 0
        examples: list[int] = []
        keys: list[np.ndarray] = []
        state = training.resume()
        if state is not None:
            total, mean = np.array(state["total"]), np.array(state["mean"])
            offset, (seen, steps, best) = float(state["counts"][0]), (int(i) for i in state["counts"][1:])
            random.bit_generator.state = _unpack(state["random"])
            examples = state["examples"].tolist()
            keys = list(np.split(np.array(state["keys"]), np.cumsum(state["sizes"])[:-1])) if len(examples) else []
        training.state = lambda: {
            "total": total, "mean": mean, "counts": np.array([offset, seen, steps, best]),
            "random": _pack(random.bit_generator.state),
            "examples": np.array(examples, dtype=np.int64), "sizes": np.array([np.size(key) for key in keys], dtype=np.int64),
            "keys": np.concatenate([np.zeros(0, dtype=np.int64)] + [np.reshape(key, -1) for key in keys]),
        }  # fmt: skip

        def certificate(whole: int, u: np.ndarray | None = None) -> DualCertificate:
            at = np.array(examples[:whole], dtype=np.int64)
            if u is None:  # of a checkpoint
                u = np.zeros(objective.n_weights)
                for j, key in zip(at.tolist(), keys[:whole], strict=True):
                    plane = objective.plane(j, key)
                    u[plane.index] += objective.c[j] * n / max(whole, 1) * plane.value
            mu = objective.cone.multipliers(u)
            return DualCertificate(at, tuple(keys[:whole]), objective.c[at] * n / max(whole, 1), mu)

        if state is not None:
            training.certificate = partial(certificate, best)
            if training.step(training.n_iter + 1):
                return
        while True:
            order = random.permutation(n)
            for start in range(0, n, size):
                w = feasible(objective, total / max(seen, 1))
                part = np.sort(order[start : start + size])
                answer = objective.ask(w, part)
                for j, key in zip(part.tolist(), answer.keys, strict=True):
                    plane = objective.plane(j, key)
                    total[plane.index] += n * objective.c[j] * plane.value
                    offset += n * objective.c[j] * plane.offset
                    examples.append(j)
                    keys.append(key)
                seen += len(part)
                steps += 1
                mean += 2.0 / (steps + 1) * (feasible(objective, total / seen) - mean)
            last = feasible(objective, total / seen)
            dual = offset / seen - 0.5 * float(last @ last)
            if training.bound(dual, partial(certificate, seen, total / seen)):
                best = seen
            for w in (mean, last) if self.averaged else (last,):
                w = feasible(objective, w)
                answer = certain(objective, w, objective.ask(w), training.dual, self.tol, training.seconds_left)
                training.offer(w, objective.primal(w, np.maximum(answer.upper, 0.0)), is_exact(answer))
            if training.step(training.n_iter + 1):
                return
