"""Rounds of moves on random subgraphs of small width, for the local search."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...kernels.local_search import total_score
from ...kernels.records import Net
from ...kernels.subgraph import grow_subgraph, subgraph_move, take_better_parts


@dataclass(frozen=True)
class Tuning:
    """Moves on subgraphs."""

    # Cells of a bag: of eight nodes with two labels (six and ten of them were slower on three grids of 1600 nodes), of three with many.
    most_cells: int = 2**8
    power: int = 3  # with 4, rounds on a grid of 100 by 100 nodes with 6 labels did not end in 2 s
    all_cells: int = 2**25  # of one move at most, some 0.1 s
    # Temperatures of the moves that begin rounds, in median spreads of a term; alone, 0.1 and 0.3 took longer on three grids of 1600 nodes.
    heats: tuple[float, ...] = (1.0, 0.5, 0.25, 0.12)
    cell_work: float = 0.33  # of a cell, where a label of a node or an edge in a move of a forest is 1: 3.6 ns beside 11
    call_work: float = 4000.0  # of a call: 40 microseconds
    quiet: int = 6  # moves in a row without success after which a round ends
    least_share: float = 0.6  # of all nodes in a subgraph, below which forests with noise are better


_TUNING = Tuning()


class SubgraphRounds:
    """Rounds on one net: a move with noise, moves without until several in a row gain nothing, and then the better parts of what they made."""

    def __init__(self, net: Net, scale: float, seed: np.ndarray, gumbel: np.ndarray):
        self.net, self.scale, self.seed, self.gumbel = net, scale, seed, gumbel
        n, k = net.unary.shape
        cells = max(_TUNING.most_cells, k**_TUNING.power)
        self.cells = cells if n * cells <= _TUNING.all_cells else max(_TUNING.most_cells, k * k)
        self.work, self.n_rounds = 0.0, 0

    @cached_property
    def pays(self) -> bool:
        """Whether subgraphs hold most of the nodes, and a move is not too long."""
        n = len(self.net.n_states)
        if not n or n * self.cells > _TUNING.all_cells:
            return False
        inside = grow_subgraph(self.net, self.cells, self.seed.copy())
        return len(inside) >= _TUNING.least_share * n

    def one_round(self, best: np.ndarray) -> Iterator[None]:
        """Improve ``best``; yields after every move."""
        labels = best.copy()
        if self.n_rounds:
            self._move(labels, self.scale * _TUNING.heats[(self.n_rounds - 1) % len(_TUNING.heats)])
            yield
        self.n_rounds += 1
        level, quiet = total_score(self.net, labels), 0
        while quiet < _TUNING.quiet:
            self._move(labels, 0.0)
            reached = total_score(self.net, labels)
            quiet = 0 if reached > level else quiet + 1
            level = reached
            take_better_parts(self.net, best, labels)
            yield

    def _move(self, labels: np.ndarray, temperature: float) -> None:
        _, cells = subgraph_move(self.net, self.cells, temperature, self.gumbel, self.seed, labels)
        self.work += _TUNING.cell_work * cells + _TUNING.call_work
