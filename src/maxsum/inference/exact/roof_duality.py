"""RoofDuality: two labels with any tables, by a minimum cut over twice as many nodes; what it labels is in every best labelling."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.persistency import fixed_nodes, persistent_nodes
from ...core.graph import Graph
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ..base import Run, Solver, Support
from ..moves.icm import polish
from ..prepare import measure, prepare
from .maxflow import cut


@dataclass(frozen=True)
class Tuning:
    """How persistent nodes are found after the cut."""

    # Rounds that spread what the flow left over nodes and edges: on grids and sparse graphs of 100 to 3600 nodes 32 showed all nodes that the cut labelled,
    # 8 most of them (3486 of 3499 on a grid of 60 by 60), none 60 to 90 %; more take as long as the cut.
    rounds: int = 32


_TUNING = Tuning()


@dataclass(frozen=True)
class RoofDuality(Solver):
    r"""The bound of the linear relaxation for two labels and any tables, and nodes whose label every best labelling has.

    Each node gets a twin that has the other label, and each edge becomes two halves: between nodes and between twins where its table is supermodular,
    from node to twin where it is not (Hammer, Hansen & Simeone 1984; Boros & Hammer 2002). The halves are supermodular, so a minimum cut solves them; the flow gives
    the messages of the certificate, whose bound is that of the linear relaxation. Where node and twin agree, the labels can be kept whatever the rest has;
    `Result.fixed` marks those for which `core.certificates.persistency.persistent_nodes` shows that every best labelling has them. The rest is labelled by the
    cut and `ICM`.

    Parameters
    ----------
    time_limit : float, optional
        Seconds.
    """

    time_limit: float | None = None

    does = "two labels, any finite tables: the LP bound by minimum cut, and nodes whose label every best labelling has"
    solves_relaxation = True

    def supports(self, problem: Problem) -> Support:
        if len(problem.cliques):
            return Support(False, "takes nodes and edges only; this problem has clique terms", problem.cliques.members(0))
        other = np.flatnonzero(problem.n_states != 2)
        if len(other) or problem.n_labels != 2:
            v = int(other[0]) if len(other) else 0
            return Support(False, f"takes two labels a node; node {v} has {problem.n_states[v]}", v)
        if problem.has_hard_constraints or not np.isfinite(problem.unary).all():
            return Support(False, "takes finite scores only; this problem has hard constraints (-inf)")
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        twins = _twins(problem)
        steps = itertools.count(1)
        done, doubled, labels = cut(twins.problem, lambda: run.step(next(steps)))
        messages = _joined(problem, twins, doubled)
        net, n = prepare(problem).net, problem.n_nodes
        run.offer(polish(net, np.ascontiguousarray(labels[:n]), 10))
        if done:
            _spread(problem, messages)
        run.certify(measure(problem, messages), MessageCertificate(messages))
        if done and not run.step(next(steps)):
            run.termination = Termination.converged
            self._fix(problem, run, messages, labels)

    def _fix(self, problem: Problem, run: Run, messages: Messages, labels: np.ndarray) -> None:
        """Give persistent nodes their label, and mark them."""
        n = problem.n_nodes
        wanted = np.where(labels[:n] != labels[n:], labels[:n], _best(problem, messages)).astype(np.int32)
        persistent = persistent_nodes(problem, messages, wanted)
        assert run.labels is not None
        run.offer(polish(prepare(problem).net, np.where(persistent, wanted, run.labels).astype(np.int32), 10))
        run.fixed = (persistent & (run.labels == wanted)) | fixed_nodes(problem, messages, run.labels)


class _Twins(NamedTuple):
    """The problem of nodes ``v`` and twins ``N + v``; which edges are supermodular. Edge ``e`` has its halves at ``e`` and ``E + e``."""

    problem: Problem
    plain: np.ndarray


def _twins(problem: Problem) -> _Twins:
    n, tables, (u, v) = problem.n_nodes, 0.5 * problem.tables, problem.graph.edges.T
    bend = (tables[:, 0, 0] + tables[:, 1, 1]) - (tables[:, 0, 1] + tables[:, 1, 0])
    plain = bend[problem.edge_table] * problem.edge_weight >= 0
    edges = np.concatenate(
        [np.stack([u, np.where(plain, v, n + v)], axis=1), np.stack([n + u, np.where(plain, n + v, v)], axis=1)]
    )
    bank = np.concatenate([tables, tables[:, ::-1, ::-1], tables[:, :, ::-1], tables[:, ::-1, :]])
    one, t = len(tables), problem.edge_table
    number = np.concatenate([np.where(plain, t, 2 * one + t), np.where(plain, one + t, 3 * one + t)])
    graph = Graph.from_edges(edges, n_nodes=2 * n)
    assert np.array_equal(graph.edges, edges)
    unary = 0.5 * np.concatenate([problem.unary, problem.unary[:, ::-1]])
    weight = np.concatenate([problem.edge_weight, problem.edge_weight])
    return _Twins(Problem(graph, unary, bank if problem.n_edges else None, number, weight), plain)


def _joined(problem: Problem, twins: _Twins, doubled: Messages) -> Messages:
    """Messages of the given problem: those of both halves of each edge, with the labels of twins turned. Its bound is not above that of the twins."""
    e, messages = problem.n_edges, problem.zero_messages()
    first, second = doubled.edge[:, :e], doubled.edge[:, e:]
    messages.edge[0] = first[0] + second[0][:, ::-1]
    plain = twins.plain[:, None]
    messages.edge[1] = np.where(plain, first[1], first[1][:, ::-1]) + np.where(plain, second[1][:, ::-1], second[1])
    return messages


def _spread(problem: Problem, messages: Messages) -> None:
    """Diffusion: every edge gives half of its max-marginals to each end, and every node an equal share to each edge, which never raises the bound.

    A flow leaves what labels lose anywhere along its ways; after this they lose it at their nodes, and edges are consistent with them.
    """
    edges, table = problem.graph.edges, problem.tables[problem.edge_table] * problem.edge_weight[:, None, None]
    parts = 1.0 / (1.0 + problem.graph.degrees[:, None])
    for _ in range(_TUNING.rounds if problem.n_edges else 0):
        left = table + messages.edge[0][:, :, None] + messages.edge[1][:, None, :]
        for side, axis in ((0, 2), (1, 1)):
            best = left.max(axis=axis)
            messages.edge[side] -= 0.5 * (best - best.max(axis=1, keepdims=True))
        theta = _theta(problem, messages)
        share = parts * (theta - theta.max(axis=1, keepdims=True))
        for side in (0, 1):
            messages.edge[side] += share[edges[:, side]]


def _theta(problem: Problem, messages: Messages) -> np.ndarray:
    """Scores of nodes under messages."""
    theta = problem.unary.copy()
    for side in (0, 1):
        for label in (0, 1):
            theta[:, label] -= np.bincount(problem.graph.edges[:, side], messages.edge[side, :, label], problem.n_nodes)
    return theta


def _best(problem: Problem, messages: Messages) -> np.ndarray:
    """The best label of each node under messages."""
    return _theta(problem, messages).argmax(axis=1)
