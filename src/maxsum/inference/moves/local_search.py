"""LocalSearch: moves that relabel a random forest, or a subgraph of small width, at once; good labellings of hard problems, no bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.certificates.base import MessageCertificate
from ...core.certificates.scale import spreads
from ...core.parameters import WholeNumber, settings
from ...core.problem import Messages, Problem
from ...core.result import Termination
from ...kernels.local_search import forest_moves, total_score
from ...kernels.records import Net
from ...kernels.subgraph import take_better_parts
from ..base import Factored, Run, Solver, Support
from ..prepare import measure, prepare
from .icm import polish, start_labels
from .subgraphs import SubgraphRounds


@dataclass(frozen=True)
class Tuning:
    """Rounds of `LocalSearch`."""

    # Moves of the first rounds, doubled after every three; 8 and 32 gave scores within 0.5 % after as many moves.
    first_round: int = 16
    # First temperatures of three rounds, in median spreads of a term: from moves that forget the labelling to small repairs.
    heats: tuple[float, ...] = (1.0, 0.3, 0.1)
    # Last temperature of a round as a share of its first; 0.003 and 0.03 differ by 1e-4 on a grid, by 1 % either way on a
    # complete graph.
    cooling: float = 0.01
    # Work of forest moves as a share of that on subgraphs, where these pay: on three grids they alone were as good.
    forest_share: float = 0.25
    look_seconds: float = 0.02  # seconds between two looks at the clock; half and double take the same moves


_TUNING = Tuning()


_GUMBEL = -np.log(-np.log((np.arange(4096) + 0.5) / 4096))


@dataclass(frozen=True)
class LocalSearch(Solver):
    """Simulated annealing with large moves, for any problem.

    A move takes a random set of nodes without a cycle among them (on sparse graphs about half of all nodes) and gives it the
    best labelling while all others keep theirs, by dynamic programming, under scores perturbed by Gumbel noise times a
    temperature. Rounds of moves follow one another, each from the best labelling so far, three of each length with different
    first temperatures, then three of twice that length. The first round has no noise.

    Where subgraphs of small width hold most of the nodes, as on grids, four fifths of the work go to rounds on these: a move with noise on a
    random subgraph, exact by dynamic programming over bags of up to 256 cells (or of three nodes), then moves without noise until six in a row
    gain nothing (Hamze and de Freitas 2004; Selby 2014). Of what a round ends with, each connected part that differs from the best
    labelling is taken by itself if it is better.

    The start is the labelling of ``init``, if that is a result with one, or the best label of each node alone. Forbidden terms
    (``-inf``) count as a penalty that no other terms around a node outweigh. The bound is that of ``init``, if any.

    Parameters
    ----------
    max_iter : int
        Moves of forests; one on a subgraph counts as the number of them that take as long.
    tol : float
        Relative gap at which to stop, where ``init`` brings a bound; with 0, when the labelling is optimal.
    time_limit : float, optional
        Seconds.
    random_state : int
        Seed: equal seeds and equal ``max_iter`` give equal answers, unless the time limit cuts them short.
    """

    max_iter: int = 10_000
    tol: float = 0.0
    time_limit: float | None = None
    random_state: int = 0

    takes_factors = Factored.lifted
    does = "any problem: a good labelling by annealing with forest moves, no bound"
    _copies = 1

    _parameters = settings(
        max_iter=WholeNumber(0, wanted="0 or more moves"),
        random_state=WholeNumber(0, wanted="an integer >= 0"),
    )

    def supports(self, problem: Problem) -> Support:
        return Support(True)

    def _run(self, problem: Problem, run: Run, init: Messages | None) -> None:
        prepared = prepare(problem)
        if init is not None or not prepared.feasible:
            messages = problem.zero_messages() if init is None else init
            run.certify(measure(problem, messages), MessageCertificate(messages))
        if not prepared.feasible:
            return
        search = ForestSearch(problem, run, self.random_state)
        run.termination = Termination.iteration_limit
        while search.n_moves < self.max_iter and not run.closed:
            for n_moves in search.one_round(self.max_iter - search.n_moves):
                if run.step(n_moves):
                    return
        if run.closed:
            run.termination = Termination.converged


class ForestSearch:
    """The state of a local search, one round of moves at a time; it starts from the best labelling of ``run`` and offers its own."""

    def __init__(self, problem: Problem, run: Run, random_state: int = 0):
        self.problem, self.run, self.original = problem, run, prepare(problem).net
        each = spreads(problem)
        terms = int(problem.graph.degrees.max(initial=0)) + len(problem.cliques) + 1
        penalty = 2.0 * float(each.max()) * terms if len(each) else 1.0
        self.scale = float(np.median(each)) if len(each) else penalty
        self.net = _finite(self.original, penalty)
        self.seed = np.array([np.random.SeedSequence(random_state).generate_state(1, np.uint64)[0] | np.uint64(1)])
        self.best = polish(self.original, start_labels(self.original) if run.labels is None else run.labels)
        self.level = np.array([total_score(self.net, self.best)])
        n, k = self.net.unary.shape
        self.work: Any = (*np.zeros((4, n), dtype=np.int32), np.zeros(n, dtype=np.int64), np.zeros((n, k)), np.zeros(k))
        self.n_moves, self.n_rounds, self.improved_at, self.pace = 0, 0, 0, 0.0
        self.subgraphs = SubgraphRounds(self.net, self.scale, self.seed, _GUMBEL)
        self.forest_work, self.move_work = 0.0, float(self.net.unary.size + problem.n_edges * k)
        self.run.offer(self.best)

    def moves(self) -> Iterator[int]:
        """Rounds without end; yields the number of all moves every few hundredths of a second."""
        while True:
            yield from self.one_round()

    def one_round(self, max_moves: int = 2**62) -> Iterator[int]:
        """The next round; yields like `moves`."""
        self._adopt()
        is_late = self.forest_work > _TUNING.forest_share * self.subgraphs.work
        yield from self._on_subgraphs(max_moves) if is_late and self.subgraphs.pays else self._on_forests(max_moves)
        improved = polish(self.original, self.best)
        self.run.offer(improved)
        self.best, self.level[0] = improved, total_score(self.net, improved)

    def _on_subgraphs(self, left: int) -> Iterator[int]:
        """A round on subgraphs; each of its moves counts as the forests that take as long."""
        looked, longest, worked = self.run.clock.seconds, self.n_moves + left, self.subgraphs.work
        for _ in self.subgraphs.one_round(self.best):
            self.n_moves += max(1, round((self.subgraphs.work - worked) / self.move_work))
            self.n_moves, worked = min(self.n_moves, longest), self.subgraphs.work
            if self.n_moves == longest:
                break
            if self.run.clock.seconds - looked > _TUNING.look_seconds:
                self._offer()
                yield self.n_moves
                looked = self.run.clock.seconds
        self._offer()
        yield self.n_moves

    def _on_forests(self, left: int) -> Iterator[int]:
        number, heat = divmod(self.n_rounds - 1, len(_TUNING.heats))
        length = _TUNING.first_round << max(number, 0)
        temperature = self.scale * _TUNING.heats[heat] if self.n_rounds else 0.0
        factor = _TUNING.cooling ** (1.0 / length)
        labels, left = self.best.copy(), min(length, left)
        while left > 0:
            chunk = min(left, max(1, int(_TUNING.look_seconds / self.pace)) if self.pace else 1)
            started = self.run.clock.seconds
            temperature = forest_moves(
                self.net, chunk, temperature, factor, _GUMBEL, self.seed, labels, self.best, self.level, self.work
            )
            self.pace = (self.run.clock.seconds - started) / chunk
            left -= chunk
            self.n_moves += chunk
            self.forest_work += chunk * self.move_work
            self._offer()
            yield self.n_moves
        self.n_rounds += 1
        take_better_parts(self.net, self.best, labels)

    def _offer(self) -> None:
        if self.run.offer(self.best):
            self.improved_at = self.n_moves

    def _adopt(self) -> None:
        """Go on from the labelling of the run where that has become better."""
        if self.run.labels is not None:
            level = total_score(self.net, self.run.labels)
            if level > self.level[0]:
                self.best, self.level[0] = self.run.labels.astype(np.int32), level


def _finite(net: Net, penalty: float) -> Net:
    """The net with ``-penalty`` in place of every ``-inf`` (past the labels of a node too, where nobody looks)."""

    def tamed(values: np.ndarray) -> np.ndarray:
        forbidden = np.isneginf(values)
        if not forbidden.any():
            return values
        return np.where(forbidden, -penalty, values)

    return net._replace(unary=tamed(net.unary), tables=tamed(net.tables), turned=tamed(net.turned))
