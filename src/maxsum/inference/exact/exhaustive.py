"""Exhaustive: enumeration of all labellings; the reference for everything else."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...core.certificates.base import EliminationCertificate
from ...core.certificates.scale import table_centres
from ...core.parameters import WholeNumber, settings
from ...core.problem import Messages, Problem
from ..base import Factored, Run, Solver, Support
from .junction import MAX_AXES


@dataclass(frozen=True)
class Exhaustive(Solver):
    """The best of all labellings, the lexicographically lowest on ties.

    Parameters
    ----------
    max_labellings : int
        Problems with more labellings are refused.
    """

    max_labellings: int = 2**22

    takes_factors = Factored.native
    does = "tiny problems: optimal by enumeration"
    _copies = 1
    _parameters = settings(max_labellings=WholeNumber(1))

    def supports(self, problem: Problem) -> Support:
        count = math.prod(problem.n_states.tolist())
        if count > self.max_labellings:
            number = str(count) if count < 10**9 else f"10**{math.log10(count):.1f}"
            return Support(False, f"enumerates at most {self.max_labellings} labellings; the problem has {number}", count)
        if problem.n_nodes > MAX_AXES:
            return Support(False, f"enumerates at most {MAX_AXES} nodes; the problem has {problem.n_nodes}", problem.n_nodes)
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        n = problem.n_nodes
        by_first = _terms(problem)
        scores, rest, tables = np.zeros(problem.n_states), np.zeros(problem.n_states), []
        for terms in by_first:
            for term in terms:
                scores = scores + term
        for v in range(n):
            for term in by_first[v]:
                rest = rest + term.reshape(term.shape[v:])
            rest = rest.max(axis=0)
            tables.append(rest)
        later = tuple(tuple(range(v + 1, n)) for v in range(n))
        certificate = EliminationCertificate(tuple(range(n)), later, tuple(tables))
        if np.isneginf(scores.max()):
            run.certify(-np.inf, certificate)
            return
        run.offer(np.array(np.unravel_index(int(scores.argmax()), scores.shape), dtype=np.int32).reshape(n))
        run.certify(run.score, certificate)
        run.step(1)


def _terms(problem: Problem) -> list[list[np.ndarray]]:
    """Centred terms by their lowest node, each with one axis per node of the problem."""
    n, states = problem.n_nodes, problem.n_states.tolist()
    terms: list[list[np.ndarray]] = [[] for _ in range(n)]
    for v in range(n):
        row = problem.unary[v, : states[v]]
        shape = [1] * n
        shape[v] = states[v]
        terms[v].append((row - row.max()).reshape(shape))
    centre = table_centres(problem)
    for e, (u, v) in enumerate(problem.graph.edges.tolist()):
        table = problem.tables[problem.edge_table[e], : states[u], : states[v]]
        table = (table - centre[e]) * problem.edge_weight[e]
        shape = [1] * n
        shape[u], shape[v] = states[u], states[v]
        terms[min(u, v)].append((table if u < v else table.T).reshape(shape))
    for c in range(len(problem.cliques)):
        members = problem.cliques.members(c).tolist()
        table = np.zeros([states[v] if v in members else 1 for v in range(n)])
        for k in range(min(states[v] for v in members)):
            table[tuple(k if v in members else 0 for v in range(n))] = problem.cliques.weights[c, k]
        terms[min(members)].append(table)
    for nodes, function in problem.factors.items():
        scope = nodes.tolist()
        table = function.dense(tuple(states[v] for v in scope)) - function.centre
        table = table.transpose(sorted(range(len(scope)), key=scope.__getitem__))
        terms[min(scope)].append(table.reshape([states[v] if v in scope else 1 for v in range(n)]))
    return terms
