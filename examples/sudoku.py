"""
Solve a Sudoku
==============

Hard constraints are scores of -inf.

Run: ``python examples/sudoku.py``
"""

from __future__ import annotations

import matplotlib.pyplot as plt
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
    edges = sorted(
        {
            (min(u, v), max(u, v))
            for unit in units
            for u in unit.tolist()
            for v in unit.tolist()
            if u != v
        }
    )

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
    for unit in units:
        assert sorted(solution.ravel()[unit]) == list(range(1, 10))
    print(f"{(given > 0).sum()} clues. {result.message}")
    if result.certificate is not None:
        print(result.verify(problem))

    _, ax = plt.subplots(figsize=(4, 4), layout="constrained")
    ax.set(
        xlim=(0, 9),
        ylim=(9, 0),
        xticks=[],
        yticks=[],
        aspect="equal",
        title="given digits are black",
    )
    for i in range(10):
        ax.axhline(i, color="0.3", linewidth=1.5 if i % 3 == 0 else 0.4)
        ax.axvline(i, color="0.3", linewidth=1.5 if i % 3 == 0 else 0.4)
    for (row, column), digit in np.ndenumerate(solution):
        colour = "black" if given[row, column] else "tab:blue"
        ax.text(
            column + 0.5,
            row + 0.55,
            str(digit),
            ha="center",
            va="center",
            color=colour,
            fontsize="large",
        )
    plt.savefig("sudoku.png", dpi=80)


if __name__ == "__main__":
    main()
