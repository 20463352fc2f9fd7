"""Oracles: the best labelling of the loss-augmented problem of each example, with a proof of how far it is from the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ...core.errors import CertificateError, OracleError
from ...core.problem import Messages, Problem
from ...core.result import Result
from ...core.rows import row_max
from ...executors.threads import n_threads, thread_map
from ...inference.base import Solver
from ...inference.dispatch import solve
from ...inference.expansion import Expander, expansion_witness
from ...inference.icm import polish
from ...inference.prepare import net_score, prepare
from ...inference.trws import passes
from ...kernels import tree
from ...kernels.design import Design, augmented_scores
from ...kernels.height import clique_terms, edge_terms, node_terms
from ...kernels.net import Net, adjacency, memberships
from ...kernels.trws import decode
from ...models.bound import BoundModel, Tables

_WORTH_THREADS = 2e6
_CYCLES = 2

Key = Any
"""Where a plane comes from: a labelling, or a `Relaxed` answer."""


class Oracle(Protocol):
    """Answers for examples: labellings, and proven gaps: no labelling scores more than the one given plus its gap."""

    exact: bool

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: int, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Keys of the examples' best labellings at the weights, and their proven gaps; more ``effort`` makes these smaller."""


class ForestOracle:
    """Dynamic programming over the forests of many examples in one kernel call a thread."""

    exact = True

    def __init__(self, model: BoundModel, design: Design):
        self.model, self.design = model, design
        data = model.data
        n_nodes, size = len(data.n_states), model.n_labels
        ptr, adj_edge, adj_side = adjacency(n_nodes, data.edges)
        member_ptr, member = memberships(n_nodes, np.zeros(0, dtype=np.int32))
        tables = model.tables(np.zeros(model.n_weights))
        empty = np.zeros(0, dtype=np.int32)
        self.unary = np.zeros((n_nodes, size))
        self.net = Net(
            data.n_states, self.unary, data.edges, tables.edge_table, np.ascontiguousarray(tables.edge_weight), tables.bank, ptr,
            adj_edge, adj_side, np.zeros(1, dtype=np.int64), empty, np.zeros((0, size)), member_ptr, member, empty, tables.bank,
        )  # fmt: skip
        self.order = tree.forest_order(n_nodes, data.edges, ptr, adj_edge, adj_side)
        self.hard = bool((data.n_states < size).any())
        roots = np.concatenate([self.order[0][self.order[3][:-1]], [n_nodes]]) if n_nodes else np.zeros(1, dtype=np.int64)
        self.first = np.searchsorted(roots, data.node_ptr)
        self.messages = np.zeros((2, len(data.edges), size))
        self.labels = np.zeros(n_nodes, dtype=np.int32)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: int, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Best labellings by dynamic programming; gaps are 0."""
        node_ptr = self.model.data.node_ptr
        tables = self.model.tables(w)
        bank = tables.bank if len(tables.bank) else np.zeros((1, self.model.n_labels, self.model.n_labels))
        turned = np.ascontiguousarray(bank.transpose(0, 2, 1))
        net = self.net._replace(tables=np.ascontiguousarray(bank), turned=turned)
        order, parent_edge, parent_side, starts = self.order

        def run(part: np.ndarray) -> None:
            augmented_scores(self.design, part, w, self.unary)
            ranges = np.stack([self.first[part], self.first[part + 1]], axis=1)
            tree.solve_forests(net, order, parent_edge, parent_side, starts, ranges, self.hard, self.messages, self.labels)

        work = len(examples) * len(self.design.truth) * self.model.n_labels**2 / max(1, self.model.n_examples)
        n_jobs = n_jobs if work > _WORTH_THREADS else 1
        pieces = [piece for piece in np.array_split(examples, n_threads(n_jobs)) if len(piece)]
        thread_map(run, pieces, n_jobs)
        labels, ends = self.labels.copy(), node_ptr.tolist()
        return [labels[ends[j] : ends[j + 1]] for j in examples.tolist()], np.zeros(len(examples))


class SolverOracle:
    """One call of a solver, or of a function of the user, an example.

    Labels that come without a bound get one from a `BracketOracle`, with the effort that the learner asks for, and are replaced by its
    labels where those score more: without a bound nothing would be proven about the weights, and training would end far from the best.
    """

    def __init__(self, model: BoundModel, design: Design, solver: Solver | str | Callable[[Problem], Any] | None, exact: bool):
        self.model, self.design, self.solver, self.exact = model, design, solver, exact
        self.bracket: BracketOracle | None = None

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: int, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Labellings of the solver, with gaps from its certificates."""
        problems = augmented(self.model, self.design.loss, w, examples)
        found = thread_map(self._ask, list(zip(examples.tolist(), problems, strict=True)), n_jobs)
        keys, gaps = [labels for labels, _ in found], np.array([gap for _, gap in found])
        left = np.flatnonzero(np.isinf(gaps))
        if len(left):
            if self.bracket is None:
                self.bracket = BracketOracle(self.model, self.design)
            for i, key, gap in zip(left.tolist(), *self.bracket.answer(w, examples[left], effort, n_jobs), strict=True):
                ahead = problems[i].score(key) - problems[i].score(keys[i])
                keys[i], gaps[i] = (key, gap) if ahead > 0 else (keys[i], gap - ahead)
        return keys, gaps

    def state(self) -> dict[str, np.ndarray]:
        """Messages behind the bounds, for a checkpoint."""
        return {} if self.bracket is None else self.bracket.state()

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The state that `state` gave."""
        self.bracket = BracketOracle(self.model, self.design) if "oracle_messages" in state else None
        if self.bracket is not None:
            self.bracket.restore(state)

    def _ask(self, item: tuple[int, Problem]) -> tuple[np.ndarray, float]:
        """Labels, and the gap that is proven for them; infinite without a proof."""
        j, problem = item
        if self.solver is None or isinstance(self.solver, (str, Solver)):
            result = solve(problem, self.solver)
            if result.labels is None:
                raise OracleError(f"example {j}: {result.solver} returned no labelling ({result.message})")
            return result.labels, result.gap if result.certificate is not None else np.inf
        try:
            given = self.solver(problem)
        except Exception as error:
            raise OracleError(f"example {j}: the oracle raised {type(error).__name__}: {error}") from error
        return _checked(j, problem, given, self.model.truth(j))


class BracketOracle:
    """TRW-S that goes on from its own last messages: labellings from below, dual bounds from above.

    ``effort`` 0 does ``sweeps`` passes, 1 ten times as many, 2 runs `TRWS` to its end, 3 adds finisher and exact search. With
    -1 there are as many passes as with 0, but a single labelling is read off, and its gap is free of errors only up to the
    rounding of a long sum: enough for a new plane, not for a proof; -2 is the same with half of the passes, and -3 adds expansion
    moves to that, where weights of the cone make tables that like equal labels.
    """

    exact = False

    def __init__(self, model: BoundModel, design: Design, sweeps: int = 8, time_limit: float = 10.0):
        self.model, self.design, self.sweeps, self.time_limit = model, design, sweeps, time_limit
        self.unary = np.zeros((len(model.data.n_states), model.n_labels))
        self.missing = np.arange(model.n_labels) >= model.data.n_states[:, None]
        self.templates = model.problems(np.zeros(model.n_weights))
        self.nets = [prepare(problem).net for problem in self.templates]
        self.messages = [problem.zero_messages() for problem in self.templates]
        some = model.problems(model.cone.nonneg.astype(np.float64))[:1]
        self.expands = model.cone.nonneg.any() and all(expansion_witness(problem) is None for problem in some)

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: int, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Labellings and gaps from message passing, by the solvers of `solve` where the effort is high."""
        if effort >= 2:
            problems = augmented(self.model, self.design.loss, w, examples)
            items = list(zip(examples.tolist(), problems, strict=True))
            found = thread_map(lambda item: self._solve(item[0], item[1], effort), items, n_jobs)
        else:
            tables, rewards = self.model.tables(w), self.model.clique_weights(w)
            found = thread_map(lambda j: self._sweep(j, w, tables, rewards, effort), examples.tolist(), n_jobs)
        return [labels for labels, _ in found], np.array([gap for _, gap in found])

    def _sweep(self, j: int, w: np.ndarray, tables: Tables, rewards: np.ndarray, effort: int) -> tuple[np.ndarray, float]:
        """Passes over one example; its messages are improved in place."""
        data, messages = self.model.data, self.messages[j]
        rows = slice(int(data.node_ptr[j]), int(data.node_ptr[j + 1]))
        augmented_scores(self.design, np.array([j]), w, self.unary)
        unary = np.where(self.missing[rows], -np.inf, self.unary[rows])
        unary -= row_max(unary)[:, None]
        bank, edge_table, edge_weight = tables.of(int(data.edge_ptr[j]), int(data.edge_ptr[j + 1]))
        net = self.nets[j]._replace(
            unary=unary,
            tables=np.ascontiguousarray(bank),
            turned=np.ascontiguousarray(bank.transpose(0, 2, 1)),
            edge_table=edge_table,
            edge_weight=np.ascontiguousarray(edge_weight),
            clique_weights=self.model._cliques(data, j, rewards).weights,
        )
        one_pass, bound = passes(self.templates[j], net), np.inf
        for i in range(self.sweeps * 10 if effort == 1 else self.sweeps // 2 if effort <= -2 else self.sweeps):
            bound = one_pass(messages, i % 2 == 0)
        labels = np.zeros(len(unary), dtype=np.int32)
        if effort < 0:
            decode(net, True, messages.edge, messages.clique, labels)
            if effort == -3 and self.expands:
                Expander(net, messages).cycle(labels, _CYCLES)
            return labels, max(0.0, bound - net_score(net, labels))
        best, least = labels, np.inf
        for forward in (True, False):
            decode(net, forward, messages.edge, messages.clique, labels)
            better = polish(net, labels, 10)
            gap = node_terms(net, messages.edge, messages.clique, better)[1]
            gap += edge_terms(net, messages.edge, better, 0, len(net.edges))[1] + clique_terms(net, messages.clique, better)[1]
            if gap < least:
                best, least = better, gap
        return best, least + _rounding(net, messages)

    def _solve(self, j: int, problem: Problem, effort: int) -> tuple[Key, float]:
        if effort > 2:
            return self._search(j, problem)
        return self._labelled(j, solve(problem, "TRWS", init=self.messages[j]))

    def _search(self, j: int, problem: Problem) -> tuple[Key, float]:
        return self._labelled(j, solve(problem, init=self.messages[j], time_limit=self.time_limit))

    def _labelled(self, j: int, result: Result) -> tuple[np.ndarray, float]:
        if result.messages is not None:
            self.messages[j] = Messages(result.messages.edge.copy(), result.messages.clique.copy())
        if result.labels is None:
            raise OracleError(f"example {j}: no labelling was found ({result.message})")
        return result.labels, result.gap

    def state(self) -> dict[str, np.ndarray]:
        """Messages of all examples, for a checkpoint."""
        none = np.zeros((2, 0, self.model.n_labels))
        return {
            "oracle_messages": np.concatenate([none] + [messages.edge for messages in self.messages], axis=1),
            "oracle_clique_messages": np.concatenate([none[0]] + [messages.clique for messages in self.messages]),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The state that `state` gave."""
        for own, kept in zip(
            self.messages, np.split(state["oracle_messages"], self.model.data.edge_ptr[1:-1], axis=1), strict=True
        ):
            own.edge[:] = kept
        sizes = np.cumsum([len(own.clique) for own in self.messages])[:-1]
        for own, kept in zip(self.messages, np.split(state["oracle_clique_messages"], sizes), strict=True):
            own.clique[:] = kept


def _rounding(net: Net, messages: Messages) -> float:
    """What rounding can hide in a gap: a few ulps of the largest numbers that meet in a term, for every term."""
    if not len(net.edges) and not len(net.clique_nodes):
        return 0.0
    finite = np.where(np.isneginf(net.unary), 0.0, net.unary)
    degree = int((np.diff(net.ptr) + np.diff(net.member_ptr)).max()) + int(np.diff(net.clique_ptr).max(initial=0))
    message = max(float(np.abs(messages.edge).max(initial=0.0)), float(np.abs(messages.clique).max(initial=0.0)))
    largest = float(np.abs(finite).max()) + (degree + 2) * message
    largest += float(np.abs(net.tables).max(initial=0.0) * np.abs(net.edge_weight).max(initial=0.0))
    largest += float(np.abs(net.clique_weights).max(initial=0.0))
    n_terms = len(net.edges) + len(net.unary) + len(net.clique_nodes)
    return 4 * float(np.finfo(float).eps) * (degree + 4) * n_terms * largest


def augmented(model: BoundModel, loss: np.ndarray, w: np.ndarray, examples: Sequence[int] | np.ndarray) -> list[Problem]:
    """Loss-augmented problems of some examples."""
    found = []
    for j, problem in zip(examples, model._problems(w, model.data, list(examples)), strict=True):
        rows = slice(model.data.node_ptr[j], model.data.node_ptr[j + 1])
        arrays = {
            name: getattr(problem, name)
            for name in ("graph", "tables", "edge_table", "edge_weight", "n_states", "cliques", "offset")
        }
        found.append(Problem._trusted(unary=problem.unary + loss[rows], **arrays))
    return found


def _checked(j: int, problem: Problem, given: Any, truth: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels and gap of what a user's oracle returned: labels (the gap is then infinite), (labels, bound), or a `Result`.

    A bound is compared with labellings that are easy to have: the one returned, the same improved node by node, the truth.
    """
    bound: Any = None
    if isinstance(given, Result):
        given, bound = given.labels, given.bound
    elif isinstance(given, tuple) and len(given) == 2:
        given, bound = given
    labels = np.asarray(given)
    if labels.dtype.kind not in "iu" or labels.shape != (problem.n_nodes,):
        raise OracleError(
            f"example {j}: the oracle returned shape {labels.shape}, dtype {labels.dtype}; wanted {problem.n_nodes} label numbers."
        )
    if labels.size and (labels.min() < 0 or (labels >= problem.n_states).any()):
        node = int(np.flatnonzero((labels < 0) | (labels >= problem.n_states))[0])
        raise OracleError(
            f"example {j}: the oracle returned label {labels[node]} at node {node}, wanted 0..{problem.n_states[node] - 1}."
        )
    if bound is not None and (not isinstance(bound, (int, float, np.number)) or not float(bound) > -np.inf):
        raise OracleError(f"example {j}: the oracle returned the bound {bound!r}, wanted a number, or labels alone.")
    labels, score = labels.astype(np.int32), problem.score(labels)
    if bound is None or bound == np.inf:
        return labels, np.inf
    known = max(score, problem.score(polish(prepare(problem).net, labels.copy(), 10)), problem.score(truth))
    if bound < known - 1e-9 * (1.0 + abs(known)):
        raise CertificateError(f"example {j}: the oracle's bound {bound} is below {known}, the score of a known labelling.")
    return labels, max(0.0, float(bound) - score)
