"""CoreSearch: exact searches of the small sets of nodes that hold what a problem loses, messages for the rest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.cores import Core, CoresCertificate, Cut
from ...core.certificates.dual import arc_consistent, slack
from ...core.certificates.partial import cut_out
from ...core.certificates.search.certificate import SearchCertificate, target_gap
from ...core.parameters import settings
from ...core.problem import Messages, Problem
from ...core.result import Guarantee, Result, Termination
from ...core.rows import row_max
from ..base import Factored, Run, Solver, Support, without_cliques
from ..moves.local_search import ForestSearch
from ..prepare import start
from ..relaxations.trws import TRWS, ascend
from .search import BranchAndBound


@dataclass(frozen=True)
class Tuning:
    """How cores are found, tried on the frequency assignment *scen06* (100 nodes, 44 labels) and on graphs with a planted core."""

    passes: int = 100  # of TRW-S first: where they do not stall there is nothing to do
    n_starts: int = 6  # of the local search for a labelling of all nodes: single ones end up to 5 % above the best of six
    first_moves: int = 30_000  # of each, 0.5 s for 100 nodes
    most_peels: int = 5  # of nodes: again where the core has a better labelling than it was found with
    few_moves: int = 2000  # in which a set of nodes must be found to lose less to need the nodes that it is without
    order_moves: int = 300  # the same where many nodes are compared, one of which is left out
    most_share: float = 0.5  # of the nodes in cores: with more there is nothing outside them
    find_share: float = 0.2  # of the time that is left for finding the cores
    least_chain: int = 9  # nodes of the smallest set inside a core that is searched before it: less than a second
    chain_step: int = 3  # nodes that are added from one such set to the next, whose search takes two to five times as long
    most_rounds: int = 20  # growths of the cores
    rest_passes: int = 200  # of TRW-S over what is in no core
    spare: float = 1e-9  # of a loss that counts as none


_TUNING = Tuning()


@dataclass(frozen=True)
class CoreSearch(Solver):
    r"""Where most terms can be at their best together, what is lost is lost in a few places: cores, each of which `BranchAndBound` solves exactly.

    A local search finds a labelling. Nodes are left out as long as none is found that loses less on the others: these are the *core*, and it falls into pieces
    wherever the edges between them cost nothing. Each piece is searched by itself, larger ones from the inside out, so that something is proven early. Terms
    outside are bounded by messages; terms that the answer does not take at their best then join the cores, until there are none and all is
    optimal. The certificate is a `core.certificates.cores.CoresCertificate`.

    Parameters
    ----------
    tol : float
        Relative gap at which to stop; with 0, when the labelling is optimal.
    time_limit : float, optional
        Seconds.
    """

    tol: float = 0.0
    time_limit: float | None = None

    takes_factors = Factored.refused
    does = "nodes and edges: optimal where a few nodes hold all that the problem loses"
    _parameters = settings()

    def supports(self, problem: Problem) -> Support:
        return without_cliques(problem)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        started = start(problem, run, init)
        if started is None:
            return
        prepared, messages = started
        if ascend(problem, prepared, messages, run, _TUNING.passes, 1e-2) or run.halted or run.labels is None:
            return
        run.termination = Termination.stalled
        if problem.n_edges and problem.resolution > 0 and np.isfinite(run.score):
            _Cores(problem, run).explore()
        if run.closed:
            run.termination = Termination.converged


class _Piece(NamedTuple):
    """Some nodes, in increasing order, and what their search has found."""

    nodes: np.ndarray
    found: Result


class _Cores:
    """The cores of one run, which grow."""

    def __init__(self, problem: Problem, run: Run):
        self.problem, self.run, self.domain = problem, run, arc_consistent(problem)
        self.zero, self.edges = problem.zero_messages(), problem.graph.edges
        self.node_top = row_max(np.where(self.domain, problem.unary, -np.inf))
        u, v = self.edges.T
        self.edge_top = np.empty(problem.n_edges)
        for e in range(problem.n_edges):
            table = problem.tables[problem.edge_table[e]][np.ix_(self.domain[u[e]], self.domain[v[e]])]
            self.edge_top[e] = (table * problem.edge_weight[e]).max()
        self.room = max(0.5 * problem.step, _TUNING.spare * self.loss(np.arange(problem.n_nodes), self.labels))
        self.pieces: list[_Piece] = []

    # ---- losses ------------------------------------------------------------------------------------------------

    def losses(self, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What nodes and edges have less than their best at a labelling."""
        u, v = labels[self.edges].T
        edge = self.problem.tables[self.problem.edge_table, u, v] * self.problem.edge_weight
        return self.node_top - self.problem.unary[np.arange(len(labels)), labels], self.edge_top - edge

    def inner(self, nodes: np.ndarray) -> np.ndarray:
        """Mask of the edges between some nodes."""
        inside = np.zeros(self.problem.n_nodes, dtype=bool)
        inside[nodes] = True
        mask: np.ndarray = inside[self.edges].all(axis=1)
        return mask

    def loss(self, nodes: np.ndarray, labels: np.ndarray) -> float:
        """What the terms of some nodes alone have less than their best at a labelling of all nodes."""
        node, edge = self.losses(labels)
        return float(node[nodes].sum() + edge[self.inner(nodes)].sum())

    def improve(
        self, nodes: np.ndarray, labels: np.ndarray | None, moves: int, below: float = -np.inf, seed: int = 0
    ) -> tuple[float, np.ndarray]:
        """The least loss that a local search finds for some nodes alone, and the labelling of all nodes with these changed.

        It begins with some labels, or none, and ends ``below`` a loss.
        """
        part = cut_out(self.problem, self.zero, self.domain, nodes)[0]
        run, best = Run("LocalSearch", part), self.node_top[nodes].sum() + self.edge_top[self.inner(nodes)].sum()
        if labels is not None:
            run.offer(labels[nodes])
        for n_moves in ForestSearch(part, run, seed).moves():
            if n_moves >= moves or best - run.score < below or self.run.seconds_left == 0:
                break
        assert run.labels is not None
        labels = self.labels if labels is None else labels.copy()
        labels[nodes] = run.labels
        return float(best - run.score), labels

    def best_of_starts(self, nodes: np.ndarray) -> np.ndarray:
        """The best of local searches from the present labels and from none, for some nodes alone."""
        until = self.run.seconds + 0.5 * _TUNING.find_share * self.run.seconds_left
        best, labels = self.improve(nodes, self.labels, _TUNING.first_moves)
        for seed in range(1, _TUNING.n_starts):
            if self.run.seconds < until:
                loss, found = self.improve(nodes, None, _TUNING.first_moves, seed=seed)
                best, labels = min((best, labels), (loss, found), key=lambda one: one[0])
        return labels

    # ---- finding cores -----------------------------------------------------------------------------------------

    def explore(self) -> None:
        """Find cores, search them, and let them grow, until nothing outside disagrees, or time is up."""
        run, everything = self.run, np.arange(self.problem.n_nodes)
        run.offer(self.best_of_starts(everything))
        if run.step(run.n_iter + 1):
            return
        whole, labels = everything, self.labels
        for _ in range(_TUNING.most_peels):
            fewer = self.peel(whole, labels)
            if fewer is None or run.step(run.n_iter + 1):
                return
            before, labels = self.loss(whole, labels), self.best_of_starts(fewer)
            whole = fewer
            self.extend(whole, labels)
            if self.loss(whole, labels) >= before - self.room:  # else it was the core of a labelling that is not the best
                break
        cores = self.split(whole, labels)
        for _ in range(_TUNING.most_rounds):
            if sum(map(len, cores)) > _TUNING.most_share * self.problem.n_nodes or not self.search(cores, labels):
                return
            labels = self.extend(np.concatenate(cores), self.compose())
            for seed in range(_TUNING.n_starts):
                if not run.closed:
                    run.offer(self.improve(everything, labels, _TUNING.first_moves, seed=seed)[1])
            if run.closed or (grown := self.grow(cores, labels)) is None or run.step(run.n_iter + 1):
                return
            cores = grown

    @property
    def labels(self) -> np.ndarray:
        assert self.run.labels is not None
        return np.array(self.run.labels)

    def peel(self, nodes: np.ndarray, labels: np.ndarray) -> np.ndarray | None:
        """Those of some nodes without which less is lost; None if they are too many. Nodes at their best are tried in ever larger or smaller blocks."""
        left = np.zeros(self.problem.n_nodes, dtype=bool)
        left[nodes] = True
        node, edge = self.losses(labels)
        inner = self.inner(nodes)
        for side in (0, 1):
            np.add.at(node, self.edges[inner, side], edge[inner])
        target, free = self.loss(nodes, labels), nodes[node[nodes] <= 0]
        most = _TUNING.most_share * self.problem.n_nodes
        if len(nodes) - len(free) > most:
            return None
        free = free[np.argsort(self.problem.graph.degrees[free], kind="stable")]
        until = self.run.seconds + _TUNING.find_share * self.run.seconds_left
        at, size = 0, max(1, len(free) // 2)
        while at < len(free) and self.run.seconds < until:
            rest = left.copy()
            rest[free[at : at + size]] = False
            if self.improve(np.flatnonzero(rest), labels, _TUNING.few_moves, target - self.room)[0] >= target - self.room:
                left, at, size = rest, at + size, 2 * size
            elif size == 1:
                at += 1
            else:
                size = max(1, size // 4)
        return np.flatnonzero(left) if left.sum() <= most else None

    def split(self, whole: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        """Pieces of a core: what loses anything together, and what must join so that the pieces by themselves lose as much as the core."""
        inner = np.flatnonzero(self.inner(whole))
        target, lost = self.loss(whole, labels), self.losses(labels)
        pieces = joined([np.array([v]) for v in whole], self.edges[inner[lost[1][inner] > 0]])
        known: dict[bytes, tuple[float, np.ndarray]] = {}
        while len(pieces) > 1:
            total, apart = 0.0, labels.copy()
            for piece in pieces:
                key = piece.tobytes()
                if key not in known:
                    known[key] = self.improve(piece, labels, _TUNING.few_moves)
                total, apart[piece] = total + known[key][0], known[key][1][piece]
            number = np.full(self.problem.n_nodes, -1)
            for i, piece in enumerate(pieces):
                number[piece] = i
            size = np.bincount(number[whole])
            between = inner[(number[self.edges[inner]][:, 0] != number[self.edges[inner]][:, 1])]
            between = between[self.losses(apart)[1][between] > 0]
            if total >= target - self.room or not len(between):
                break
            first = between[np.argmin(size[number[self.edges[between]]].sum(axis=1))]
            pieces = joined(pieces, self.edges[[first]])
        return [piece for piece in pieces if len(piece) > 1 or lost[0][piece[0]] > 0]

    def chain(self, piece: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
        """Sets of nodes inside a piece, each inside the next, that lose much: made by leaving out the node without which the others lose most."""
        sets, nodes = [piece], piece
        sizes = range(len(piece) - _TUNING.chain_step, _TUNING.least_chain - 1, -_TUNING.chain_step)
        while len(nodes) > _TUNING.least_chain and len(sizes):
            tried = [self.improve(np.delete(nodes, i), labels, _TUNING.order_moves)[0] for i in range(len(nodes))]
            nodes = np.delete(nodes, int(np.argmax(tried)))
            labels = self.improve(nodes, labels, _TUNING.few_moves)[1]
            if len(nodes) in sizes:
                sets.append(nodes)
        return sets[::-1]

    # ---- searching and proving ---------------------------------------------------------------------------------

    def search(self, cores: list[np.ndarray], labels: np.ndarray) -> bool:
        """Search all cores, the smallest first; False if time is up or one is not solved."""
        before = self.pieces
        known = {piece.nodes.tobytes(): piece for piece in before if piece.found.guarantee == Guarantee.optimal}
        self.pieces = [known[core.tobytes()] for core in cores if core.tobytes() in known]
        for core in sorted((core for core in cores if core.tobytes() not in known), key=len):
            done = list(self.pieces)
            is_grown = any(np.isin(piece.nodes, core).all() for piece in before)
            for nodes in [core] if is_grown else self.chain(core, labels):
                part = cut_out(self.problem, self.zero, self.domain, nodes)[0]
                begin = Run("LocalSearch", part)
                begin.offer(self.improve(nodes, labels, _TUNING.first_moves // 10)[1][nodes])
                limit = None if self.run.time_limit is None else self.run.seconds_left
                found = BranchAndBound(time_limit=limit).solve(part, begin.result())
                if tree_of(found) is not None and found.labels is not None and np.isfinite(found.gap):
                    self.pieces = [*done, _Piece(nodes, found)]
                    self.prove()
                if self.run.step(self.run.n_iter + found.n_iter) or self.run.closed or found.guarantee != Guarantee.optimal:
                    return False
        return True

    def prove(self) -> None:
        """Certify what the searches so far prove, with messages for what is in no core."""
        problem, pieces = self.problem, self.pieces
        messages, parts, gaps = self.outer([piece.nodes for piece in pieces]), [], []
        cut = Cut(problem, messages, [piece.nodes for piece in pieces])
        for own, (nodes, found) in zip(cut.problems, pieces, strict=True):
            tree = tree_of(found)
            assert tree is not None and found.labels is not None
            # a checker takes the level as it is
            tree = replace(tree, level=max(tree.level, target_gap(own, found.labels)))
            parts.append(Core(nodes, found.labels, tree))
            gaps.append(found.gap if len(tree) > 1 else tree.evaluate(own, found.labels).gap)
        certificate = CoresCertificate(messages, tuple(parts))
        certificate.remember(cut, gaps)
        self.run.certify(certificate.evaluate(problem, self.run.labels).bound, certificate)

    def outer(self, cores: list[np.ndarray]) -> Messages:
        """Messages for the nodes in no core, whose scores get the best of their edges to cores; those at cores are 0."""
        problem, messages = self.problem, self.problem.zero_messages()
        rest = np.setdiff1d(np.arange(problem.n_nodes), np.concatenate(cores))
        free = np.zeros(problem.n_nodes, dtype=bool)
        free[rest] = True
        ends = free[self.edges]
        for side in (0, 1):
            for e in np.flatnonzero(ends[:, side] & ~ends[:, 1 - side]).tolist():
                table = problem.tables[problem.edge_table[e]] * problem.edge_weight[e]
                own, other = self.domain[self.edges[e, side]], self.domain[self.edges[e, 1 - side]]
                best = (table if side == 0 else table.T)[:, other].max(axis=1)
                messages.edge[side, e] = np.where(own & np.isfinite(best), -best, 0.0)
        part, inner, _ = cut_out(problem, messages, self.domain, rest)
        if part.n_edges:
            found = TRWS(max_iter=_TUNING.rest_passes, time_limit=self.seconds).solve(part)
            sent = None if found.messages is None else part.as_messages(found.messages)
            if sent is not None and part.bound(sent) < part.bound(part.zero_messages()):
                messages.edge[:, inner] = sent.edge
        return messages

    @property
    def seconds(self) -> float | None:
        return None if self.run.time_limit is None else self.run.seconds_left

    def compose(self) -> np.ndarray:
        """The labelling of all nodes that the searches want in their cores."""
        labels = self.labels
        for nodes, found in self.pieces:
            labels[nodes] = found.labels
        return labels

    def extend(self, core: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Offer the best labelling of the rest that local searches find beside that of the core, and return it."""
        problem = self.problem
        labels, rest = labels.copy(), np.setdiff1d(np.arange(problem.n_nodes), core)
        if len(rest):
            fixed, (u, v) = problem.zero_messages(), self.edges.T
            at = np.arange(problem.n_edges)
            table, weight = problem.tables[problem.edge_table], problem.edge_weight[:, None]
            fixed.edge[0], fixed.edge[1] = -table[at, :, labels[v]] * weight, -table[at, labels[u]] * weight
            fixed.edge[np.isinf(fixed.edge)] = 0.0  # left to the score of the answer
            part = cut_out(problem, fixed, self.domain, rest)[0]
            run = Run("LocalSearch", part)
            run.offer(labels[rest])
            for seed in range(_TUNING.n_starts):
                for n_moves in ForestSearch(part, run, seed).moves():
                    if n_moves >= _TUNING.few_moves or self.run.seconds_left == 0:
                        break
            assert run.labels is not None
            labels[rest] = run.labels
        self.run.offer(labels)
        return labels

    def grow(self, cores: list[np.ndarray], labels: np.ndarray) -> list[np.ndarray] | None:
        """Cores with the nodes of terms outside that lose anything at a labelling that is best in the cores; None if there are no such terms.

        A node joins the smallest core that it loses anything with; only where there are no such nodes are two cores joined.
        """
        problem = self.problem
        assert isinstance(self.run.certificate, CoresCertificate)
        terms = slack(problem, self.run.certificate.messages, labels, self.domain)
        number = np.full(problem.n_nodes, -1)
        for i, core in enumerate(cores):
            number[core] = i
        first, second = number[self.edges].T
        spare = self.room / (2.0 * (problem.n_nodes + problem.n_edges))
        apart = np.flatnonzero((terms.edge > spare) & ((first != second) | (first < 0)))
        fresh = np.zeros(problem.n_nodes, dtype=bool)
        fresh[self.edges[apart]] = True
        fresh |= terms.node > spare
        fresh &= number < 0
        if not fresh.any():
            return joined(cores, self.edges[apart]) if len(apart) else None
        size = np.array([len(core) for core in cores])
        pairs = []
        for v in np.flatnonzero(fresh).tolist():
            mine = self.edges[apart[(self.edges[apart] == v).any(axis=1)]]
            other = np.where(mine[:, 0] == v, mine[:, 1], mine[:, 0])
            known = other[number[other] >= 0]
            pairs += [(v, w) for w in other[number[other] < 0].tolist()]
            if len(known):
                pairs.append((v, int(known[np.argmin(size[number[known]])])))
        return joined([*cores, *(np.array([v]) for v in np.flatnonzero(fresh))], np.array(pairs, dtype=int).reshape(-1, 2))


def tree_of(found: Result) -> SearchCertificate | None:
    """The proof of a search; of one that passes have ended, with their messages in a single box."""
    if isinstance(found.certificate, MessageCertificate):
        return SearchCertificate.of_messages(found.certificate.messages)
    return found.certificate if isinstance(found.certificate, SearchCertificate) else None


def joined(parts: Iterable[np.ndarray], pairs: np.ndarray) -> list[np.ndarray]:
    """Disjoint sets of nodes, united wherever a pair of nodes links two of them; each in increasing order."""
    sets = {int(v): set(part.tolist()) for part in parts for v in part}
    for part in list(sets.values()):
        for v in part:
            sets[v] = part
    for u, v in pairs.tolist():
        if sets[u] is not sets[v]:
            sets[u] |= sets[v]
            for w in sets[v]:
                sets[w] = sets[u]
    unique = {id(part): part for part in sets.values()}
    return [np.array(sorted(part)) for part in unique.values()]
