"""Toulbar2: an adapter to the exact solver toulbar2 (optional package pytoulbar2)."""

from __future__ import annotations

import importlib.util
import inspect
import json
import math
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.factors import AllDifferent
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels.records import Net
from ..base import Factored, Run, Solver, Support
from ..moves.icm import polish, start_labels
from ..prepare import measure, start


@dataclass(frozen=True)
class Tuning:
    """How toulbar2 is called and waited for."""

    most_cells: int = 2**20  # entries of a factor's table, 8 MB: more takes toulbar2 longer to read than to search

    largest_sum: float = 1e16  # costs that toulbar2 can add up: whole numbers of 64 bits, with a factor 100 to spare
    most_digits: int = 12  # decimals of a unit that are kept: more is below the rounding of the scores
    forever: int = 10**8  # seconds that stand for no limit, three years: toulbar2 wants a number
    # Measured for a pair of labels in handing over a problem, which is not begun where there is no time for it.
    cell_seconds: float = 2e-8
    edge_seconds: float = 3e-5  # the same for an edge
    grace: float = 0.1  # seconds that toulbar2 has after the limit to hand over what it found; less may lose its labelling
    grace_share: float = 0.04  # the same as a share of the limit, added to the seconds
    patience: float = 1.0  # the same after Ctrl-C, and the most of it


_TUNING = Tuning()


@dataclass(frozen=True)
class Toulbar2(Solver):
    """Branch and bound by toulbar2, with virtual arc consistency.

    Its labelling is offered; its dual bound is a claim of another program, so it stands in ``message`` only, while
    ``bound`` is what our certificate (the messages of ``init``, or zero messages) proves. toulbar2 works with whole
    multiples of a small unit; where that rounds scores by more than `Problem.resolution` in all, ``message`` says so.

    toulbar2 runs in a process of its own: it keeps global options, takes over ``Ctrl-C``, holds Python's lock, and its
    preprocessing looks at no limit. That process is told to stop at the limit or at ``Ctrl-C`` and is ended soon after.

    Parameters
    ----------
    time_limit : float, optional
        Seconds. A search that is stopped returns its best labelling, or one by `ICM` where that is better.
    """

    time_limit: float | None = None

    takes_factors = Factored.native
    does = "problems without cliques: exact search by toulbar2, its bound unproven here"

    def supports(self, problem: Problem) -> Support:
        if importlib.util.find_spec("pytoulbar2") is None:
            return Support(False, "needs pytoulbar2 (pip install maxsum[toulbar2])")
        if len(problem.cliques):
            return Support(False, f"takes no cliques; the problem has {len(problem.cliques)}", len(problem.cliques))
        for f, (nodes, function) in enumerate(problem.factors.items()):
            cells = math.prod(problem.n_states[nodes].tolist())
            if cells > _TUNING.most_cells and not isinstance(function, AllDifferent):
                most = f"gets factors as tables of at most {_TUNING.most_cells} entries"
                return Support(False, f"{most}; factor {f} ({function!r}) would have {cells}", nodes)
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        run.certify(measure(problem, messages), MessageCertificate(messages))
        if not problem.n_nodes:
            run.offer(np.zeros(0, dtype=np.int32))
            run.step(1)
            return
        if run.step(0):
            run.offer(polish(prepared.net, start_labels(prepared.net)))
            return
        if (
            run.seconds_left
            < _TUNING.cell_seconds * problem.n_edges * problem.n_labels**2 + _TUNING.edge_seconds * problem.n_edges
        ):
            run.offer(polish(prepared.net, start_labels(prepared.net)))
            run.termination = Termination.time_limit
            run.message = "toulbar2 was not begun: handing over the problem takes longer than there is time."
            return
        terms = _factor_terms(problem)
        network = _network(prepared.net, terms)
        answer = _solve(prepared.net, network, terms, run)
        if answer.labels is not None:
            run.offer(answer.labels)
            claim = prepared.constant + network.top - answer.dual_bound * network.scale
            what = "an optimal labelling, dual bound" if answer.complete else "the dual bound"
            stopped = "" if answer.complete else "was stopped and "
            run.message = f"toulbar2 {stopped}reports {what} {claim:.12g}; this is its claim, not proven by the certificate."
        elif answer.complete:
            run.message = "toulbar2 found no labelling; there is no certificate that none exists."
        else:
            run.message = f"toulbar2 {answer.end} before it had a labelling."
        if not answer.complete:
            run.offer(polish(prepared.net, start_labels(prepared.net)))
        if network.rounding > problem.resolution:
            run.message += f" It rounded scores by up to {network.rounding:.2g} in all."
        if answer.interrupted:
            raise KeyboardInterrupt
        if run.step(1) and answer.complete and run.termination == Termination.time_limit:
            run.termination = Termination.converged
        if not answer.complete and run.termination != Termination.stopped:
            run.termination = Termination.time_limit if answer.out_of_time else Termination.stalled


class _Network(NamedTuple):
    """Costs in units of ``scale``, rounded to ``digits`` decimals: ``score == top - scale * cost``, up to ``rounding``."""

    node: np.ndarray  # (N, K)
    edge_top: np.ndarray  # (E,)
    factor_top: np.ndarray
    top: float
    scale: float
    digits: int
    rounding: float


def _factor_terms(problem: Problem) -> list[tuple[list[int], np.ndarray]]:
    """Nodes and table of every factor; all-different as a table for every two nodes, if it would be too large."""
    found = []
    for nodes, function in problem.factors.items():
        shape = tuple(problem.n_states[nodes].tolist())
        if math.prod(shape) <= _TUNING.most_cells:
            found.append((nodes.tolist(), function.dense(shape)))
        else:
            found += [([int(nodes[i]), int(nodes[j])], table) for i, j, table in function.lift(shape).among]
    return found


def _network(net: Net, terms: list[tuple[list[int], np.ndarray]]) -> _Network:
    alive = net.unary > -np.inf
    n_edges = len(net.edges)
    top, spread = np.zeros(n_edges), np.zeros(n_edges)
    for e in range(n_edges):
        table = _table(net, e, alive)
        finite = table[np.isfinite(table)]
        top[e], spread[e] = finite.max(), np.ptp(finite)
    finite_parts = [table[np.isfinite(table)] for _, table in terms]
    factor_top = np.array([part.max(initial=-np.inf) if part.size else 0.0 for part in finite_parts])
    factor_spread = np.array([float(np.ptp(part)) if part.size else 0.0 for part in finite_parts])
    node_spread = -np.where(alive, net.unary, 0.0).min(axis=1)
    spreads = np.concatenate([node_spread, spread, factor_spread])
    used = spreads[spreads > 0]
    scale = float(np.median(used)) if len(used) else 1.0
    total = float(spreads.sum()) / scale + 1.0
    if total > _TUNING.largest_sum:
        scale, total = scale * total / _TUNING.largest_sum, _TUNING.largest_sum
    digits = min(_TUNING.most_digits, int(math.log10(_TUNING.largest_sum / total)))
    rounding = 0.5 * 10.0**-digits * scale * len(used)
    return _Network(-net.unary / scale, top, factor_top, float(top.sum() + factor_top.sum()), scale, digits, rounding)


def _table(net: Net, e: int, alive: np.ndarray) -> np.ndarray:
    """Weighted table of an edge, ``-inf`` at labels that cannot be used."""
    u, v = net.edges[e]
    table = net.tables[net.edge_table[e], : net.n_states[u], : net.n_states[v]] * net.edge_weight[e]
    usable = alive[u, : net.n_states[u], None] & alive[v, : net.n_states[v]]
    return np.where(usable, table, -np.inf)


class _Answer(NamedTuple):
    labels: np.ndarray | None = None
    dual_bound: float = 0.0
    complete: bool = False
    out_of_time: bool = False
    interrupted: bool = False
    end: str = "was stopped"


def _solve(net: Net, network: _Network, terms: list[tuple[list[int], np.ndarray]], run: Run) -> _Answer:
    """Run `_work` in a new interpreter, and end it soon after the limit or ``Ctrl-C``."""
    alive = net.unary > -np.inf
    pieces = [network.node[v, :n].tobytes() for v, n in enumerate(net.n_states.tolist())]
    for e in range(len(net.edges)):
        pieces.append(((network.edge_top[e] - _table(net, e, alive)) / network.scale).tobytes())
    for best, (_, table) in zip(network.factor_top, terms, strict=True):
        pieces.append(((best - table) / network.scale).tobytes())
    header = {
        "path": sys.path,
        "digits": network.digits,
        "seconds": math.ceil(min(run.seconds_left, _TUNING.forever)) + 1,
        "states": net.n_states.tolist(),
        "scopes": net.edges.tolist() + [nodes for nodes, _ in terms],
    }
    given: bytes | None = b"".join([json.dumps(header).encode(), b"\n", *pieces])
    command = [sys.executable, "-I", "-c", f"{inspect.getsource(_work)}\n_work()"]
    quiet = subprocess.DEVNULL
    out_of_time = interrupted = False
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet) as process:
        wait = None if np.isinf(run.seconds_left) else run.seconds_left
        output = None
        try:
            while output is None:
                try:
                    output = process.communicate(given, wait)[0]
                    continue
                except subprocess.TimeoutExpired:
                    asked = out_of_time or interrupted
                    out_of_time = not interrupted
                except KeyboardInterrupt:
                    asked, interrupted = interrupted, True
                given = None
                wait = (
                    _TUNING.patience
                    if run.time_limit is None
                    else min(_TUNING.patience, _TUNING.grace + _TUNING.grace_share * run.time_limit)
                )
                if asked or sys.platform == "win32":
                    process.kill()
                else:
                    process.send_signal(signal.SIGINT)
        finally:
            process.kill()
    answer = _Answer(out_of_time=out_of_time, interrupted=interrupted)
    if not output:
        return answer if out_of_time or interrupted else answer._replace(end=f"ended with code {process.returncode}")
    labels, cost, dual = json.loads(output)
    if labels is None:
        return answer._replace(dual_bound=dual, complete=not (out_of_time or interrupted))
    complete = dual >= cost - 0.5 * 10.0**-network.digits
    return answer._replace(labels=np.array(labels, dtype=np.int32), dual_bound=dual, complete=complete)


def _work() -> None:
    """The other process: a line of JSON and all costs as float64 on stdin; labels, cost and dual bound as JSON on stdout.

    Its source is run by itself, so it uses nothing of this module.
    """
    import array
    import json
    import os
    import signal
    import sys

    answer_to = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    header = json.loads(sys.stdin.buffer.readline())
    costs = array.array("d")
    costs.frombytes(sys.stdin.buffer.read())
    sys.path[:] = header["path"]
    import pytoulbar2

    states, start, most = header["states"], 0, 1.0
    model = pytoulbar2.CFN(resolution=header["digits"], vac=1)
    for v, n in enumerate(states):
        model.AddVariable(f"x{v}", range(n))
    for scope in [[v] for v in range(len(states))] + header["scopes"]:
        size = 1
        for v in scope:
            size *= states[v]
        own = costs[start : start + size].tolist()
        most += max((cost for cost in own if cost < float("inf")), default=0.0)
        model.AddFunction(scope, own)
        start += size
    model.SetUB(
        most
    )  # more than any labelling costs: without it version 1.4.0 ended by a segmentation fault on networks with ternary tables
    answer = model.Solve(timeLimit=header["seconds"])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    labels, cost = (None, 0.0) if answer is None else (list(answer[0]), float(answer[1]))
    json.dump([labels, cost, float(model.GetDDualBound())], answer_to)
    answer_to.close()
    os._exit(0)
