"""
Solve a Sudoku
==============

Hard constraints are scores of -inf.

Run: ``python examples/sudoku.py``
"""

from __future__ import annotations

import numpy as np

import maxsum as ms

PUZZLE = """
7.....4..
..6.2....
1....5..8
....9.6.7
.......4.
..5762..1
91...6..3
8...1..6.
6.2.7...4
"""


def main() -> None:
    given = np.array([[int(c) if c.isdigit() else 0 for c in line] for line in PUZZLE.split()])
    cell = np.arange(81).reshape(9, 9)
    boxes = [cell[r : r + 3, c : c + 3].ravel() for r in (0, 3, 6) for c in (0, 3, 6)]
    units = [*cell, *cell.T, *boxes]
    edges = sorted({(min(u, v), max(u, v)) for unit in units for u in unit.tolist() for v in unit.tolist() if u != v})

    unary = np.zeros((81, 9))
    for v, digit in enumerate(given.ravel()):
        if digit:
            unary[v] = -np.inf
            unary[v, digit - 1] = 0.0
    different = np.where(np.eye(9, dtype=bool), -np.inf, 0.0)
    problem = ms.Problem(ms.Graph.from_edges(edges, n_nodes=81), unary, tables=different)

    result = ms.solve(problem, time_limit=30)
    if result.labels is None:
        print(result.message)
        return
    solution = result.labels.reshape(9, 9) + 1
    for clues, line in zip(given, solution, strict=True):
        print(" ".join(str(digit or ".") for digit in clues), "  ", " ".join(map(str, line)))
    for unit in units:
        assert sorted(solution.ravel()[unit]) == list(range(1, 10))
    print(f"{(given > 0).sum()} clues. {result.message}")
    if result.certificate is not None:
        print(result.verify(problem))


if __name__ == "__main__":
    main()
