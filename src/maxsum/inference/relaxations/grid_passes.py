"""Passes of TRW-S over one large grid in several threads, message for message the same as in one.

A forward pass visits the rows from the top, each from the left. Cut into strips of columns, the first strip waits for no other,
and each further one only for the strip before it, down to the row at hand: the strips follow one another a block of rows apart.
A backward pass is the same from the other corner.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import SimpleQueue

import numpy as np

from ...core.problem import Problem
from ...executors.threads import n_threads


@dataclass(frozen=True)
class Tuning:
    """How a grid is cut into strips for threads."""

    blocks: int = 8  # pieces of rows for two strips: more hand over earlier and wait less, fewer cost fewer hand-overs
    # Edges times labels from which a pass is cut: tens of milliseconds, against hand-overs of microseconds and one pool of
    # threads.
    least_work: int = 2**21


_TUNING = Tuning()


Strip = Callable[[np.ndarray, bool, int, int, int, int, int], float]
"""A pass over the rows ``first:last`` and columns ``first:last`` of a grid so many columns wide; returns its part of the bound."""


def strips(problem: Problem, n_jobs: int) -> int:
    """The number of strips that pay: 1 where the graph is no grid whose edges join neighbours in a row or a column."""
    graph = problem.graph
    pieces = n_threads(n_jobs)
    if pieces < 2 or graph.image_shape is None or problem.n_edges * problem.n_labels < _TUNING.least_work:
        return 1
    pieces = min(pieces, graph.image_shape[1], 8)
    row, column = np.divmod(graph.edges, graph.image_shape[1])
    return pieces if ((row[:, 0] == row[:, 1]) | (column[:, 0] == column[:, 1])).all() else 1


def strip_passes(one_pass: Strip, shape: tuple[int, int], n_strips: int) -> Callable[[np.ndarray, bool], float]:
    """A function of flat messages and direction that does one pass in ``n_strips`` threads and returns the bound."""
    rows = np.linspace(0, shape[0], min(_TUNING.blocks * n_strips // 2, shape[0]) + 1).astype(int).tolist()
    columns = np.linspace(0, shape[1], n_strips + 1).astype(int).tolist()
    pool = ThreadPoolExecutor(n_strips)

    def pass_over(messages: np.ndarray, forward: bool) -> float:
        done: list[SimpleQueue[bool]] = [SimpleQueue() for _ in range(n_strips)]

        def follow(strip: int) -> float:
            place = strip if forward else n_strips - 1 - strip
            bound, alive = 0.0, False
            try:
                for block in range(len(rows) - 1):
                    if strip and not done[strip - 1].get():
                        return bound
                    at = block if forward else len(rows) - 2 - block
                    bound += one_pass(messages, forward, rows[at], rows[at + 1], columns[place], columns[place + 1], shape[1])
                    done[strip].put(True)
                alive = True
            finally:
                if not alive:
                    done[strip].put(False)
            return bound

        return sum(pool.map(follow, range(n_strips)))

    return pass_over
