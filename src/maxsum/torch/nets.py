"""Graphs of any kind: exact oracles where there is one, brackets by message passing and the bounds of relaxations elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.cliques import Cliques
from ..core.errors import InvalidSampleError, UnsupportedProblemError
from ..core.factors.collection import Factors
from ..core.graph import Graph
from ..core.problem import Messages, Problem
from ..core.result import Guarantee, Result
from ..executors.threads import thread_map
from ..inference.dispatch import solve
from ..inference.exact.junction import JunctionTree, has_small_width
from ..inference.exact.maxflow import MaxFlow
from ..inference.exact.tree import TreeDP
from ..inference.moves.icm import polish
from ..inference.prepare import evaluate, prepare
from ..inference.relaxations.trws import passes
from ..inference.sums.log_partition import LogPartition
from ..kernels.local_polytope import add_edge_marginals, settle_edges, settle_nodes
from ..kernels.trws import decode
from .answers import Answer, EdgeLabels, EdgeTables
from .batches import Batch


@dataclass(frozen=True)
class Tuning:
    """How much of each way to an answer one call buys."""

    # Table entries of all bags of an elimination up to which it is the exact oracle: a millisecond or so for each example. Larger ones make a step of
    # training slower than the passes whose bracket they would close.
    cells: int = 2**14
    polish_sweeps: int = 10  # of local search on a labelling that is read off; it ends by itself after two or three mostly
    factor_seconds: float = 10.0  # for one example with factors, whose answer may need a search
    # Relative to the gap of a node or edge: temperature at which relaxed marginals are read off messages. 0.3 and 3 gave lower values on grids.
    warmth: float = 1.0
    # Share of the bound below which a gap counts as closed, and the labelling as gradient: smaller than any step of training sees.
    closed: float = 1e-6


_TUNING = Tuning()


@dataclass(frozen=True, eq=False)
class Found:
    """Answer for one example: a labelling, or relaxed marginals with a higher value; whether the labelling is proven optimal."""

    labels: np.ndarray
    score: float
    bound: float
    optimal: bool
    node: np.ndarray | None = None
    edge: np.ndarray | None = None
    result: Result | None = None


class Nets:
    """A batch of graphs, with tables that edges share or have for themselves.

    Parameters
    ----------
    batch : Batch
    slot : ndarray of int32, shape (E,)
        Table of each edge.
    n_jobs : int
        Threads over the examples.
    n_passes : int
        Passes of TRW-S, or rounds of tree-reweighted messages, over an example without an exact method.
    tol : float
        Width of the brackets of log-partitions, for each node, at which rounds end.
    cache : dict, optional
        Messages of earlier calls by sample id; ``ids`` are those of this batch.
    factors : list, optional
        For each example, terms ``(nodes, function)`` over any number of its nodes.
    """

    def __init__(
        self,
        batch: Batch,
        slot: np.ndarray,
        n_jobs: int = 1,
        n_passes: int = 16,
        tol: float = 1e-4,
        cache: MutableMapping[Any, np.ndarray] | None = None,
        ids: Sequence[Any] | None = None,
        factors: Sequence[Any] | None = None,
    ):
        self.batch, self.slot, self.n_jobs, self.n_passes, self.tol = batch, slot, n_jobs, n_passes, tol
        self.cache, self.ids = cache, None if cache is None else ids
        self.factors = factors
        if factors is not None and len(factors) != batch.n_examples:
            raise InvalidSampleError(
                f"factors are given for {len(factors)} examples, wanted a list of terms for each of {batch.n_examples}."
            )

    # ---- problems ------------------------------------------------------------------------------------------------

    def problem(self, j: int, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None) -> Problem:
        """Example ``j`` as a problem."""
        batch = self.batch
        nodes, edges = slice(*batch.node_ptr[j : j + 2].tolist()), slice(*batch.edge_ptr[j : j + 2].tolist())
        slot = self.slot[edges]
        if len(tables) > 1 and len(slot) and len(tables) == len(self.slot):  # every edge has its own
            tables, slot = tables[edges], slot - self.slot[edges.start]
        share = np.ones(len(slot)) if weight is None else weight[edges]
        return self._problem(
            batch.graphs[j], unary[nodes], tables, slot, share, None if self.factors is None else self.factors[j]
        )

    def _problem(
        self, graph: Graph, unary: np.ndarray, tables: np.ndarray, slot: np.ndarray, share: np.ndarray, factors: Any
    ) -> Problem:
        size = self.batch.n_labels
        states = np.full(graph.n_nodes, size, dtype=np.int32)
        terms = Factors.build(factors, states) if factors is not None else Factors.empty()
        bank = np.array(tables) if len(tables) else np.zeros((1, size, size))
        return Problem._trusted(
            graph=graph,
            unary=np.array(unary),
            tables=bank,
            edge_table=np.array(slot, dtype=np.int32),
            edge_weight=np.array(share),
            n_states=states,
            cliques=Cliques.build(None, states, size),
            offset=0.0,
            factors=terms,
        )

    def score(self, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None, labels: np.ndarray) -> np.ndarray:
        """Scores of a labelling of all nodes, for each example."""
        batch, n = self.batch, self.batch.n_examples
        ends = labels[batch.edges]
        edges = tables[self.slot, ends[:, 0], ends[:, 1]] if len(self.slot) else np.zeros(0)
        edges = edges if weight is None else edges * weight
        nodes = unary[np.arange(len(labels)), labels]
        total = np.bincount(batch.owner, nodes, minlength=n) + np.bincount(batch.edge_owner, edges, minlength=n)
        for j, terms in enumerate(self.factors or ()):
            own = labels[batch.node_ptr[j] : batch.node_ptr[j + 1]]
            total[j] += Factors.build(terms, np.full(len(own), batch.n_labels, dtype=np.int32)).values(own).sum()
        return total

    # ---- the best labelling --------------------------------------------------------------------------------------

    def best(self, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None = None, relaxed: bool = True) -> Answer:
        """Best labellings, exactly or within a bracket; the gradient of a bracket are relaxed marginals where these score more and are ``relaxed``."""
        found = self.found(unary, tables, weight)
        batch, size = self.batch, self.batch.n_labels
        labels = np.concatenate([np.zeros(0, dtype=np.int32)] + [own.labels for own in found])
        lower, upper = np.array([own.score for own in found]), np.array([own.bound for own in found])
        value = np.where([own.optimal for own in found], lower, upper)
        node = np.zeros((len(labels), size))
        node[np.arange(len(labels)), labels] = 1.0
        edges: Any = EdgeLabels(batch, self.slot, labels)
        soft = [j for j, own in enumerate(found) if relaxed and own.node is not None]
        if soft:
            edge = np.zeros((len(self.slot), size, size))
            ends = labels[batch.edges]
            edge[np.arange(len(edge)), ends[:, 0], ends[:, 1]] = 1.0
            for j in soft:
                node[batch.node_ptr[j] : batch.node_ptr[j + 1]] = found[j].node
                edge[batch.edge_ptr[j] : batch.edge_ptr[j + 1]] = found[j].edge
            edges = EdgeTables(batch, self.slot, edge)
        return Answer(value, lower, upper, node, ((1.0, edges),))

    def found(
        self, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None = None, limits: Mapping[str, Any] | None = None
    ) -> list[Found]:
        """Answers of all examples; with ``limits``, its arguments, those without an exact method are left to all that `maxsum.solve` knows."""
        batch = self.batch
        _check_weights(tables, weight)
        forest = [j for j, graph in enumerate(batch.graphs) if graph.is_forest and self.factors is None]
        answers: dict[int, Found] = dict(zip(forest, self._forests(forest, unary, tables, weight), strict=True))
        rest = [j for j in range(batch.n_examples) if j not in answers]

        def run(j: int) -> Found:
            return self._one(j, self.problem(j, unary, tables, weight), limits)

        answers.update(zip(rest, thread_map(run, rest, self.n_jobs), strict=True))
        for j in range(batch.n_examples):
            if not answers[j].score > -np.inf:
                raise InvalidSampleError(
                    f"example {j}: no labelling was found that is not forbidden (-inf in scores, tables or factors)."
                )
        return [answers[j] for j in range(batch.n_examples)]

    def _forests(self, which: list[int], unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None) -> list[Found]:
        """Forests by dynamic programming, all at once."""
        if not which:
            return []
        batch = self.batch
        if len(which) == batch.n_examples:
            rows, edge_rows = np.arange(len(unary)), np.arange(len(self.slot))
        else:
            rows = np.concatenate([np.arange(*batch.node_ptr[j : j + 2]) for j in which])
            edge_rows = np.concatenate([np.arange(*batch.edge_ptr[j : j + 2]) for j in which])
        graph = Graph.union([batch.graphs[j] for j in which])
        share = np.ones(len(edge_rows)) if weight is None else weight[edge_rows]
        union = self._problem(graph, unary[rows], tables, self.slot[edge_rows], share, None)
        result = TreeDP(n_jobs=self.n_jobs).solve(union)
        if result.labels is None:
            blame = next(j for j in which if TreeDP().solve(self.problem(j, unary, tables, weight)).labels is None)
            raise InvalidSampleError(f"example {blame}: every labelling is forbidden (-inf in scores or tables).")
        first = np.cumsum([0] + [batch.graphs[j].n_nodes for j in which])
        ends = result.labels[union.graph.edges]
        values = union.unary[np.arange(len(rows)), result.labels]
        pairs = union.tables[union.edge_table, ends[:, 0], ends[:, 1]] * union.edge_weight
        owner = np.repeat(np.arange(len(which)), np.diff(first))
        edge_owner = owner[union.graph.edges[:, 0]] if len(edge_rows) else np.zeros(0, dtype=np.int64)
        score = np.bincount(owner, values, minlength=len(which)) + np.bincount(edge_owner, pairs, minlength=len(which))
        parts = np.split(result.labels, first[1:-1])
        optimal = result.guarantee == Guarantee.optimal
        # The gap of the union bounds that of every part.
        return [Found(parts[i], float(score[i]), float(score[i]) + result.gap, optimal) for i in range(len(which))]

    def _one(self, j: int, problem: Problem, limits: Mapping[str, Any] | None) -> Found:
        """One example with cycles or factors."""
        kept = None if self.ids is None or self.cache is None else self.cache.get(self.ids[j])
        init = None
        if kept is not None and kept.shape == (2, problem.n_edges, problem.n_labels):
            init = kept
        if len(problem.factors):
            result = solve(problem, init=init, **{"time_limit": _TUNING.factor_seconds, **(limits or {})})
        elif MaxFlow().supports(problem).ok:
            result = MaxFlow().solve(problem)
        elif has_small_width(problem, _TUNING.cells):
            result = JunctionTree().solve(problem)
        elif limits is not None:
            result = solve(problem, init=init, **limits)
        else:
            return self._bracket(j, problem, init)
        if result.labels is None:
            return Found(np.zeros(problem.n_nodes, dtype=np.int32), -np.inf, result.bound, False, result=result)
        return Found(result.labels, result.score, result.bound, result.guarantee == Guarantee.optimal, result=result)

    def _bracket(self, j: int, problem: Problem, init: np.ndarray | None) -> Found:
        """Passes of TRW-S, the better of two labellings that are read off, and relaxed marginals where these score more."""
        prepared = prepare(problem)
        if not prepared.feasible:
            return Found(np.zeros(problem.n_nodes, dtype=np.int32), -np.inf, -np.inf, False)
        messages = problem.zero_messages() if init is None else Messages(init.copy(), problem.zero_messages().clique)
        one_pass = passes(problem, prepared.net)
        for i in range(self.n_passes):
            one_pass(messages, i % 2 == 0)
        if self.ids is not None and self.cache is not None:
            self.cache[self.ids[j]] = messages.edge
        labels, best, best_score = np.zeros(problem.n_nodes, dtype=np.int32), None, -np.inf
        for forward in (True, False):
            decode(prepared.net, forward, messages.edge, messages.clique, labels)
            better = polish(prepared.net, labels, _TUNING.polish_sweeps)
            score = problem.score(better)
            if best is None or score > best_score:
                best, best_score = better.copy(), score
        assert best is not None
        proven = evaluate(problem, messages, best)
        bound = max(best_score, proven.bound)
        gap = bound - best_score
        if gap <= _TUNING.closed * max(1.0, abs(bound)) or problem.has_hard_constraints:
            return Found(best, best_score, bound, gap <= problem.resolution)
        node, edge, value = _relaxed(problem, messages, _TUNING.warmth * gap / (problem.n_nodes + problem.n_edges))
        if value > best_score:
            return Found(best, best_score, bound, False, node, edge)
        return Found(best, best_score, bound, False)

    # ---- sums ----------------------------------------------------------------------------------------------------

    def log_sum(self, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None = None) -> Answer:
        """Sums over all labellings: exact on forests and on graphs of small width, the tree-reweighted bound elsewhere."""
        batch, size = self.batch, self.batch.n_labels
        if self.factors is not None:
            raise UnsupportedProblemError(
                "factors are given to a loss with sums over labellings, which are not bounded with factors; wanted StructuredHinge, or no factors."
            )
        _check_weights(tables, weight)
        share = np.ones(len(self.slot)) if weight is None else weight
        states = np.full(len(unary), size, dtype=np.int32)
        sums = LogPartition(
            batch.graphs,
            batch.node_ptr,
            batch.edge_ptr,
            batch.edges,
            states,
            self.slot,
            share,
            size,
            each=True,
            n_jobs=self.n_jobs,
        )
        own = sums.reweighted
        if own is not None and not (np.isfinite(unary).all() and np.isfinite(tables).all()):
            raise UnsupportedProblemError(
                "scores or tables hold -inf on a graph with cycles of large width, where sums are bounded by messages, which would be infinite; wanted "
                "finite scores, known labels or none, or StructuredHinge."
            )
        loopy = np.flatnonzero(~sums.exact)
        if own is not None and self.ids is not None and self.cache is not None:
            for i, j in enumerate(loopy.tolist()):
                kept, place = self.cache.get(self.ids[j]), slice(*own.edge_ptr[i : i + 2].tolist())
                if kept is not None and kept.shape == own.messages[:, place].shape:
                    own.messages[:, place] = kept
        allowed = self.tol * np.maximum(1, np.diff(batch.node_ptr)).astype(np.float64)
        found = sums(unary, tables, None, allowed, self.n_passes if len(loopy) else 1)
        if own is not None and self.ids is not None and self.cache is not None:
            for i, j in enumerate(loopy.tolist()):
                self.cache[self.ids[j]] = own.messages[:, own.edge_ptr[i] : own.edge_ptr[i + 1]].copy()
        return Answer(found.upper, found.lower, found.upper, found.node, ((1.0, EdgeTables(batch, self.slot, found.edge)),))

    def less_truth(
        self, answer: Answer, unary: np.ndarray, tables: np.ndarray, weight: np.ndarray | None, labels: np.ndarray
    ) -> tuple[Answer, np.ndarray]:
        """The answer minus the scores of a labelling of all nodes, and these scores."""
        score = self.score(unary, tables, weight, labels)
        answer.node[np.arange(len(labels)), labels] -= 1.0
        edges = (*answer.edges, (-1.0, EdgeLabels(self.batch, self.slot, labels)))
        return Answer(answer.value - score, answer.lower - score, answer.upper - score, answer.node, edges), score


def _check_weights(tables: np.ndarray, weight: np.ndarray | None) -> None:
    """Refuse weights that would turn a forbidden pair round."""
    if weight is not None and len(weight) and np.isneginf(tables).any() and not (weight > 0).all():
        raise InvalidSampleError(
            f"edge_weight holds {weight.min()} beside tables with forbidden pairs (-inf), wanted weights > 0."
        )


def _relaxed(problem: Problem, messages: Messages, temperature: float) -> tuple[np.ndarray, np.ndarray, float]:
    r"""A point :math:`\mu` of the local polytope near the maxima of all terms that messages make, and its value :math:`\langle\theta, \mu\rangle`."""
    graph, scores = problem.graph, problem.edge_scores()
    pairs = scores + messages.edge[0][:, :, None] + messages.edge[1][:, None, :]
    edge = np.exp((pairs - pairs.max(axis=(1, 2), keepdims=True)) / temperature)
    edge /= edge.sum(axis=(1, 2), keepdims=True)
    node = np.zeros(problem.unary.shape)
    add_edge_marginals(graph.edges, edge, node)
    alone = np.flatnonzero(graph.degrees == 0)
    node[alone, problem.unary[alone].argmax(axis=1)] = 1.0
    settle_nodes(problem.n_states, node, 0, len(node))
    settle_edges(graph.edges, node, edge, 0, len(edge))
    return node, edge, float((problem.unary * node).sum() + (scores * edge).sum())
