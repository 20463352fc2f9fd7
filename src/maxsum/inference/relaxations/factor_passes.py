"""Passes of messages over a problem with factors: the generalisation of TRW-S to terms of any size (Kolmogorov 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels import factor_decode, factor_moves
from ...kernels import factor_passes as kernels
from ...kernels.records import FactorNet
from ..base import Run
from ..factor_net import CARDINALITY, FactorProblem, factor_problem


@dataclass(frozen=True)
class Tuning:
    """What happens beside passes."""

    decode_every: int = 10  # passes between two labellings, as `TRWS` has it
    icm_rounds: int = 20  # of single moves after each of them; they end by themselves after a few
    stall_passes: int = 20  # over which progress is measured


_TUNING = Tuning()


def ascend_factors(problem: Problem, run: Run, init: Messages | None, max_iter: int, stall: float) -> None:
    """Passes until the gap is closed, the bound stalls or a limit is met; certificate and labelling go to the run."""
    form = factor_problem(problem)
    messages = problem.zero_messages() if init is None else problem.as_messages(init)
    if not form.feasible:
        run.certify(-np.inf, MessageCertificate(messages))
        return
    flat, alike = form.flat(problem, messages), interchangeable(form.net)
    run.certify(form.constant + _bound(form, flat), MessageCertificate(messages))
    if run.labels is None and problem.n_nodes:
        offer(form, run, form.net.unary.argmax(axis=1), alike)
    optimal = max(0.5 * problem.resolution, problem.step - 2 * problem.resolution)
    bounds: list[float] = []
    next_decode, settled = 1, False
    run.termination = Termination.iteration_limit
    for iteration in range(1, max_iter + 1):
        forward = iteration % 2 == 1
        if iteration >= next_decode or iteration == max_iter:
            labels = np.zeros(problem.n_nodes, dtype=np.int32)
            factor_decode.decode(form.net, forward, flat, labels)
            offer(form, run, labels, alike)
            next_decode = iteration + (1 if iteration < 3 else max(_TUNING.decode_every, iteration // 5) | 1)
        bound = kernels.sweep(form.net, forward, flat, settled)
        settled = True
        bounds.append(min(bound, bounds[-1]) if bounds else bound)
        if bound == -np.inf:
            break
        late = run.step(iteration, form.constant + bounds[-1])
        gap = form.constant + bounds[-1] - run.score
        if late or gap <= optimal:
            if gap <= optimal:
                run.termination = Termination.converged
            break
        if iteration > 2 * _TUNING.stall_passes:
            gained = bounds[-1 - _TUNING.stall_passes] - bounds[-1]
            if gained <= stall * (gap if np.isfinite(gap) else max(abs(bounds[-1]), 1.0)):
                run.termination = Termination.stalled
                break
    found = form.messages(problem, flat)
    run.certify(form.constant + _bound(form, flat), MessageCertificate(found))


def offer(form: FactorProblem, run: Run, labels: np.ndarray, alike: list[np.ndarray]) -> None:
    """A labelling, and what single moves and exchanges among nodes that are ``alike`` make of it."""
    better = np.array(labels, dtype=np.int32)
    run.offer(better)
    factor_moves.icm(form.net, better, _TUNING.icm_rounds)
    run.offer(better)
    if alike:
        exchange(form.net.unary, better, alike)
        run.offer(better)


def interchangeable(net: FactorNet) -> list[np.ndarray]:
    """Sets of two nodes or more that have their labels counted by the same factors in the same way, and no other factors."""
    is_count = net.kind == CARDINALITY
    if not is_count.any():
        return []
    owner = np.repeat(np.arange(len(net.kind)), np.diff(net.ptr))
    kinds = np.unique(np.column_stack([owner, net.counted]), axis=0, return_inverse=True)[1].reshape(-1)
    degree = np.diff(net.member_ptr)
    plain = np.bincount(net.nodes, weights=~is_count[owner], minlength=len(degree)) == 0
    found = []
    for size in np.unique(degree[plain]).tolist():
        nodes = np.flatnonzero(plain & (degree == size))
        if size == 0 or len(nodes) < 2:
            continue
        rows = np.sort(kinds[net.member[net.member_ptr[nodes][:, None] + np.arange(size)]], axis=1)
        which = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
        order = np.argsort(which, kind="stable")
        found += [part for part in np.split(nodes[order], np.flatnonzero(np.diff(which[order])) + 1) if len(part) > 1]
    return found


def exchange(unary: np.ndarray, labels: np.ndarray, alike: list[np.ndarray]) -> None:
    """Exchange labels among nodes that are alike, so that no exchange of two is better.

    Counts, and so the scores of all factors, stay as they are: of the ``m`` nodes with the second of two labels the best are those where it gains most.
    """
    for nodes in alike:
        present = np.unique(labels[nodes]).tolist()
        for first, second in combinations(present, 2):
            mine = nodes[(labels[nodes] == first) | (labels[nodes] == second)]
            own = unary[mine][:, [first, second]]
            mine, own = mine[np.isfinite(own).all(axis=1)], own[np.isfinite(own).all(axis=1)]
            count = int((labels[mine] == second).sum())
            order = np.argsort(own[:, 0] - own[:, 1], kind="stable")
            labels[mine[order[:count]]] = second
            labels[mine[order[count:]]] = first


def _bound(form: FactorProblem, flat: np.ndarray) -> float:
    """Bound of messages in the scores of the net: to compare, not to claim."""
    node, _, factor, _ = kernels.terms(form.net, flat, np.zeros(0, dtype=np.int32))
    return node + factor
