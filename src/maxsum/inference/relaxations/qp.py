"""QPRelaxation: the concave quadratic relaxation of Ravikumar and Lafferty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.dual import own_labels
from ...core.certificates.quadratic import QPCertificate
from ...core.certificates.scale import edge_centres
from ...core.parameters import Flag, Real, WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...core.rows import row_max
from ...kernels import qp
from ...qp.block_form import BlockForm, block_rows
from ...qp.simplex import QPPoint, minimise_simplex_qp
from ..base import Run, Solver, Support
from ..moves.icm import polish, start_labels
from ..prepare import measure, prepare

_POLISH_ROUNDS = 4  # rounds of median polish; 2 left the bound of two problems 2e-4 and 1e-3 higher, 8 gained nothing
# Measured for an entry of a table in setting up the relaxation (mostly medians), which does not look at the clock.
_CELL_SECONDS = 7e-8


@dataclass(frozen=True)
class QPRelaxation(Solver):
    r"""Concave quadratic relaxation, solved to its optimum; the labelling is the nearest integral point, polished by `ICM`.

    Maximises over the product of simplices

    .. math:: f(\mu) = c + \sum_v \langle q_v, \mu_v \rangle + \sum_{uv} \mu_u' g_{uv} \mu_v
              + \sum_v \sum_k d_v(k) (\mu_v(k) - \mu_v(k)^2),

    which equals the score at every labelling and is concave for :math:`d_v(k) = \frac12 \sum_{uv} \sum_l |g_{uv}(k, l)|`. Row
    and column medians are first moved from the tables to the nodes, which changes ``f`` by nothing but a smaller ``d``. The
    bound is proven by a `QPCertificate`; it is mostly weaker than that of the linear relaxation, but takes a few dozen products
    to reach. Where the messages of ``init``, or no messages at all, prove more, their certificate is kept instead.

    Parameters
    ----------
    tol : float
        Relative gap of the relaxation's value at which to stop: its Frank-Wolfe gap by the value. ``solve(problem, gap=...)``
        stops at that relative gap of the labelling, if it comes first.
    max_iter : int
    time_limit : float, optional
        Seconds.
    plain : bool
        Leave the tables as they are, which is (8) of Jancsary, Nowozin & Rother 2013 (Ravikumar & Lafferty 2006): more is added to the diagonal, and
        bounds are weaker; a constant added to a table changes them.
    """

    tol: float = 1e-6
    max_iter: int = 1000
    time_limit: float | None = None
    plain: bool = False

    solves_relaxation = True
    does = "finite tables, no cliques: bound and labelling by a concave quadratic relaxation"

    _parameters = settings(
        tol=Real(0.0, below=np.inf, wanted="a relative gap >= 0"),
        max_iter=WholeNumber(0, wanted="0 or more iterations"),
        plain=Flag(),
    )

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            return Support(False, f"takes no cliques; the problem has {len(problem.cliques)}")
        hard = np.asarray(np.isneginf(problem.tables).any(axis=(1, 2)))[problem.edge_table]
        if hard.any():
            e = int(np.flatnonzero(hard)[0])
            u, v = problem.graph.edges[e]
            return Support(False, f"needs finite tables; that of edge {e} (nodes {u}-{v}) forbids a pair of labels", e)
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        net = prepare(problem).net
        known = run.certificate
        start = known.mu if isinstance(known, QPCertificate) and known.mu.shape == problem.unary.shape else None
        messages = problem.zero_messages() if init is None else init
        run.certify(measure(problem, messages), MessageCertificate(messages))
        run.offer(start_labels(net))
        if run.seconds_left < _CELL_SECONDS * problem.tables.size:
            run.offer(polish(net, start_labels(net)))
            run.termination = Termination.time_limit
            run.message = (
                "QPRelaxation: there was no time to set up the relaxation; the labelling is by ICM, the bound that of messages."
            )
            return
        relaxed = relax(problem, self.plain)

        def report(point: QPPoint) -> bool:
            bound = relaxed.constant - point.value + point.gap
            if bound < run.bound:
                run.certify(bound, QPCertificate(point.mu.copy(), relaxed.messages))
            return run.step(point.iteration)

        found = minimise_simplex_qp(
            relaxed.theta, relaxed.form, init=start, tol=self.tol, max_iter=self.max_iter, callback=report
        )
        if found.termination != Termination.stopped and run.termination == Termination.converged:
            run.termination = found.termination
        run.n_iter, run.marginals = found.n_iter, found.mu
        run.offer(found.labels)
        run.offer(polish(net, found.labels))
        proof = "its certificate" if isinstance(run.certificate, QPCertificate) else "messages, which prove more"
        run.message = (
            f"QPRelaxation: the QP relaxation has the value {relaxed.constant - found.value:.10g} up to {found.gap:.3g}, after "
            f"{found.n_products} products ({found.termination.replace('_', ' ')}); the bound is that of {proof}."
        )


class Convexified(NamedTuple):
    """The relaxation as a minimisation: ``f(mu) == constant - E(mu)``; ``messages`` are those of its `QPCertificate`."""

    theta: np.ndarray
    form: BlockForm
    constant: float
    messages: Messages


def relax(problem: Problem, plain: bool = False) -> Convexified:
    """Convexify a problem without cliques whose tables are finite; ``plain``: without moving medians to the nodes first."""
    alive, weight = own_labels(problem), problem.edge_weight
    kind, source, shapes = _kinds(problem)
    bank, first, second, high, low = _flatten(problem.tables[source], shapes, 0 if plain else _POLISH_ROUNDS)
    if plain:  # the certificate's tables have their maxima taken off: messages put these back
        label = np.arange(problem.n_labels)
        bank += np.where(
            (label[:, None] < shapes[:, 0, None, None]) & (label < shapes[:, 1, None, None]), high[:, None, None], 0.0
        )
        first = first + high[:, None]
    messages = problem.zero_messages()
    messages.edge[0] = first[kind] * weight[:, None] + np.where(weight < 0, weight * (low - high)[kind], 0.0)[:, None]
    messages.edge[1] = second[kind] * weight[:, None]
    best = row_max(np.where(alive, problem.unary, -np.inf))
    score = np.where(alive, problem.unary, 0.0) - best[:, None]
    u, v = problem.graph.edges.T.astype(np.int64)
    np.subtract.at(score, u, messages.edge[0])
    np.subtract.at(score, v, messages.edge[1])

    entries = (np.concatenate([v, u]), np.concatenate([u, v]), np.concatenate([kind, kind + len(bank)]))
    bank = np.concatenate([bank, bank.transpose(0, 2, 1)])
    zero = np.zeros(score.shape)
    rows = block_rows(problem.n_states, *entries, -np.tile(weight, 2), bank, zero)
    dominance = np.zeros(score.shape)
    sizes = rows._replace(weight=np.abs(rows.weight), bank=np.abs(rows.bank))
    qp.multiply(sizes, alive.astype(np.float64), dominance, 0, problem.n_nodes)
    theta = np.where(alive, -(score + 0.5 * dominance), np.inf)
    terms = best.sum(dtype=np.longdouble) + edge_centres(problem).sum(dtype=np.longdouble)
    form = BlockForm._from_rows(rows._replace(diagonal=dominance))
    return Convexified(theta, form, float(np.longdouble(problem.offset) + terms), messages)


def _kinds(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Edges with the same table and the same numbers of states: kind (E,), and table and states (n, 2) of each kind."""
    n = problem.n_labels
    states = problem.n_states[problem.graph.edges].astype(np.int64)
    code = (problem.edge_table.astype(np.int64) * (n + 1) + states[:, 0]) * (n + 1) + states[:, 1]
    _, first, kind = np.unique(code, return_index=True, return_inverse=True)
    return kind.reshape(-1), problem.edge_table[first], states[first]


def _flatten(
    tables: np.ndarray, shapes: np.ndarray, rounds: int = _POLISH_ROUNDS
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Tables with small entries: each less its maximum, then row and column medians in turn (Tukey's median polish).

    Returns the tables, zero past their shapes, what was added to rows and to columns, and the largest and smallest entry. No
    step increases the sum of the sizes of the entries, so none increases the sum of the diagonal terms.
    """
    label = np.arange(tables.shape[-1])
    inside = (label[:, None] < shapes[:, 0, None, None]) & (label < shapes[:, 1, None, None])
    high = np.where(inside, tables, -np.inf).max(axis=(1, 2), initial=-np.inf)
    low = np.where(inside, tables, np.inf).min(axis=(1, 2), initial=np.inf)
    table = np.where(inside, tables - high[:, None, None], np.nan)
    moved = [np.zeros((len(tables), len(label))) for _ in range(2)]
    for _ in range(rounds):
        for side, axis in ((0, 2), (1, 1)):
            middle = _medians(table, axis, shapes[:, 1 - side])
            moved[side] -= middle
            table -= np.expand_dims(middle, axis)
    return np.where(inside, table, 0.0), moved[0], moved[1], high, low


def _medians(table: np.ndarray, axis: int, count: np.ndarray) -> np.ndarray:
    """Lower medians along an axis of which the first ``count`` entries are numbers; 0 where there are none."""
    at = ((count - 1) // 2).reshape(-1, 1, 1)
    middle = np.take_along_axis(np.sort(table, axis=axis), at, axis=axis).squeeze(axis)
    return np.where(np.isnan(middle), 0.0, middle)
