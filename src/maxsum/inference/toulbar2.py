"""Toulbar2: an adapter to the exact solver toulbar2 (optional package pytoulbar2)."""

from __future__ import annotations

import importlib.util
import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.certificate import MessageCertificate
from ..core.problem import Messages, Problem
from ..core.result import Termination
from ..kernels.net import Net
from .base import Run, Solver, Support
from .icm import polish, start_labels
from .prepare import measure, prepare

_LARGEST_SUM = 1e16
_MAX_DIGITS = 12
_FOREVER = 10**8
_lock = threading.Lock()
_thread = threading.local()  # toulbar2 keeps its options per thread, and sets them in the importing thread only


@dataclass(frozen=True)
class Toulbar2(Solver):
    """Branch and bound by toulbar2, with virtual arc consistency.

    Its labelling is offered; its dual bound is a claim of another program, so it stands in ``message`` only, while
    ``bound`` is what our certificate (the messages of ``init``, or zero messages) proves. toulbar2 works with whole
    multiples of a small unit; where that rounds scores by more than `Problem.resolution` in all, ``message`` says so.

    Parameters
    ----------
    time_limit : float, optional
        Seconds, rounded up to whole ones; toulbar2 may take a little longer.
    """

    time_limit: float | None = None

    does = "problems without cliques: exact search by toulbar2, its bound unproven here"

    def supports(self, problem: Problem) -> Support:
        if importlib.util.find_spec("pytoulbar2") is None:
            return Support(False, "needs pytoulbar2 (pip install maxsum[toulbar2])")
        if len(problem.cliques):
            return Support(False, f"takes no cliques; the problem has {len(problem.cliques)}", len(problem.cliques))
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        prepared = prepare(problem)
        messages = problem.zero_messages() if init is None else init
        if not prepared.feasible:
            run.certify(-np.inf, MessageCertificate(messages))
            return
        run.certify(measure(problem, messages, None)[0], MessageCertificate(messages))
        if not problem.n_nodes:
            run.offer(np.zeros(0, dtype=np.int32))
            run.step(1)
            return
        if run.step(0):
            run.offer(polish(prepared.net, start_labels(prepared.net)))
            return
        network = _network(prepared.net)
        with _lock:
            answer = _solve(prepared.net, network, run.seconds_left)
        if answer.labels is not None:
            run.offer(answer.labels)
            claim = prepared.constant + network.top - answer.dual_bound * network.scale
            if answer.complete:
                run.message = f"toulbar2 reports an optimal labelling, dual bound {claim:.12g}"
            else:
                run.message = f"toulbar2 was stopped and reports the dual bound {claim:.12g}"
            run.message += "; this is its claim, not proven by the certificate."
        else:
            run.message = "toulbar2 found no labelling; there is no certificate that none exists."
        if run.step(1) and answer.complete and run.termination == Termination.time_limit:
            run.termination = Termination.converged
        if not answer.complete:
            out_of_time = self.time_limit is not None and run.seconds >= 0.9 * self.time_limit
            run.termination = Termination.time_limit if out_of_time else Termination.interrupted
        if network.rounding > problem.resolution:
            run.message += f" It rounded scores by up to {network.rounding:.2g} in all."


class _Network(NamedTuple):
    """Costs in units of ``scale``, rounded to ``digits`` decimals: ``score == top - scale * cost``, up to ``rounding``."""

    node: np.ndarray  # (N, K)
    edge_top: np.ndarray  # (E,)
    top: float
    scale: float
    digits: int
    rounding: float


def _network(net: Net) -> _Network:
    alive = net.unary > -np.inf
    n_edges = len(net.edges)
    top, spread = np.zeros(n_edges), np.zeros(n_edges)
    for e in range(n_edges):
        table = _table(net, e, alive)
        finite = table[np.isfinite(table)]
        top[e], spread[e] = finite.max(), np.ptp(finite)
    node_spread = -np.where(alive, net.unary, 0.0).min(axis=1)
    spreads = np.concatenate([node_spread, spread])
    used = spreads[spreads > 0]
    scale = float(np.median(used)) if len(used) else 1.0
    total = float(spreads.sum()) / scale + 1.0
    if total > _LARGEST_SUM:
        scale, total = scale * total / _LARGEST_SUM, _LARGEST_SUM
    digits = min(_MAX_DIGITS, int(math.log10(_LARGEST_SUM / total)))
    rounding = 0.5 * 10.0**-digits * scale * len(used)
    return _Network(-net.unary / scale, top, float(top.sum()), scale, digits, rounding)


def _table(net: Net, e: int, alive: np.ndarray) -> np.ndarray:
    """Weighted table of an edge, ``-inf`` at labels that cannot be used."""
    u, v = net.edges[e]
    table = net.tables[net.edge_table[e], : net.n_states[u], : net.n_states[v]] * net.edge_weight[e]
    usable = alive[u, : net.n_states[u], None] & alive[v, : net.n_states[v]]
    return np.where(usable, table, -np.inf)


class _Answer(NamedTuple):
    labels: np.ndarray | None
    dual_bound: float
    complete: bool


def _solve(net: Net, network: _Network, seconds: float) -> _Answer:
    import pytoulbar2
    from pytoulbar2 import pytb2

    if not getattr(_thread, "ready", False):
        pytb2.init()
        _thread.ready = True
    alive = net.unary > -np.inf
    limit = math.ceil(min(seconds, _FOREVER))
    with _signals():
        model = pytoulbar2.CFN(resolution=network.digits, vac=1)
        for v, n in enumerate(net.n_states.tolist()):
            model.AddVariable(f"x{v}", range(n))
        for v, n in enumerate(net.n_states.tolist()):
            model.AddFunction([v], network.node[v, :n].tolist())
        for e, (u, v) in enumerate(net.edges.tolist()):
            costs = (network.edge_top[e] - _table(net, e, alive)) / network.scale
            model.AddFunction([u, v], costs.ravel().tolist())
        start = time.process_time()
        answer = model.Solve(timeLimit=limit)
        stopped = time.process_time() - start >= limit
        dual = float(model.GetDDualBound())
    if answer is None:
        return _Answer(None, dual, not stopped)
    complete = dual >= answer[1] - 0.5 * 10.0**-network.digits
    return _Answer(np.array(answer[0], dtype=np.int32), dual, complete)


@contextmanager
def _signals() -> Iterator[None]:
    """toulbar2 puts its own handler on Ctrl-C (it stops the search) and leaves it there; put Python's back."""
    import ctypes

    get, put = ctypes.pythonapi.PyOS_getsig, ctypes.pythonapi.PyOS_setsig
    get.restype = put.restype = ctypes.c_void_p
    get.argtypes, put.argtypes = [ctypes.c_int], [ctypes.c_int, ctypes.c_void_p]
    before = get(signal.SIGINT)
    try:
        yield
    finally:
        put(signal.SIGINT, before)
