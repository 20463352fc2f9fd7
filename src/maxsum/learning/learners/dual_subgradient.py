"""The plain subgradient algorithm of Franc & Laskov 2011 (section 5) on the dual bound, with normalised steps, and a bound from averages."""

from __future__ import annotations

import time

import numpy as np

from ..driver import Learner, Training
from ..objectives.dual_bound import DualBound
from ..objectives.margin import MarginObjective
from .block_frank_wolfe import feasible

_LOOK = 10


def descend(learner: Learner, objective: MarginObjective, training: Training, step: float | None) -> None:
    r"""Steps :math:`w \leftarrow \Pi(w - \eta_t F'_w / \|F'_w\|)` and :math:`\varphi \leftarrow \varphi - \eta_t F'_\varphi /
    \|F'_\varphi\|` with :math:`\eta_t = \eta_0/\sqrt{t}`, which sum to infinity and go to 0.

    The labellings that the subgradients come from are averaged, each with the length of the step in the messages, since the last
    power of two; moved into the local polytope the averages are a dual feasible point.

    Parameters
    ----------
    step : float, optional
        :math:`\eta_0`. By default a tenth of the radius :math:`\sqrt{2 F(0)}` in which the best weights lie, and, in the messages, a
        tenth of the norm that all messages would have if each was as large as the mean loss of a node.
    """
    bound = DualBound(objective)
    training.extra["bound"] = bound
    w, phi = np.zeros(objective.n_weights), bound.zeros()
    state = training.resume()
    count = 0
    if state is not None:
        w, phi, count = np.array(state["w"]), np.array(state["phi"]), int(state["count"][0])
        training.dual, training.extra["messages"] = -np.inf, np.array(state["messages"])
    training.state = lambda: {"w": w, "phi": phi, "count": np.array([count]), "messages": training.extra["messages"]}
    first = float(np.sqrt(2.0 * bound.primal(0.0 * w, bound.evaluate(0.0 * w, bound.zeros()).slack)))
    mean = float(objective.loss_table.max(axis=1).mean()) if len(objective.loss_table) else 0.0
    size_w = 0.1 * first if step is None else step
    size_phi = 0.1 * np.sqrt(phi.size) * mean if step is None else step
    tables, total, fresh = bound.empty_tables(), 0.0, 1
    weights = objective.c > 0
    while True:
        for _ in range(_LOOK):
            count += 1
            started = time.perf_counter()
            point = bound.evaluate(w, phi)
            objective.seconds += time.perf_counter() - started
            objective.n_calls += objective.n_examples
            if training.offer(w, bound.primal(w, point.slack), False):
                training.extra["messages"] = phi.copy()
            grad, turn = bound.subgradient(w, point.labels)
            length, width = float(np.linalg.norm(grad)), float(np.linalg.norm(turn))
            if count >= 2 * fresh:
                tables, total, fresh = bound.empty_tables(), 0.0, count
            share = 1.0 / (np.sqrt(count) * width) if width > 0 else 1.0 / np.sqrt(count)
            for j in np.flatnonzero(weights).tolist():
                bound.add(*tables, j, point.labels, share)
            total += share
            if length > 0:
                w = feasible(objective, w - size_w / np.sqrt(count) / length * grad)
            if width > 0:
                phi = phi - size_phi / np.sqrt(count) / width * turn
            if training.seconds_left <= 0:
                break
        found = bound.settled(tables[0] / total, tables[1] / total, np.where(weights, 0.0, 1.0))
        if found.dual > training.dual:
            training.bound(found.dual, found.certificate())  # type: ignore[arg-type]
        other = feasible(objective, found.weights)
        if training.offer(other, bound.primal(other, bound.evaluate(other, phi).slack), False):
            training.extra["messages"] = phi.copy()
        if training.step(training.n_iter + 1):
            return
