"""
Learn the rules of Sudoku
=========================

One puzzle and its solution, and who is next to whom: no rules. The surrogate ``"trivial"`` (Franc & Savchynskyy 2008, §7.2) needs no solver in
training, because it asks for weights whose best labelling can be read off node by node and edge by edge after a reparametrisation. What it learns is
that equal digits next to each other are the worst; with that alone new puzzles are solved, and each answer is proven.

Run: ``python examples/learn_sudoku.py``
"""

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms
from maxsum.datasets.sudoku import Puzzle
from maxsum.experiments.sudoku import board, learn, playing_problem


def main() -> None:
    puzzles, solutions = ms.datasets.load_sudoku("easy")
    learned = learn(Puzzle(puzzles[0], solutions[0]))
    print(
        f"{board().n_edges} pairs of cells, {learned.updates} updates of Algorithm 3; the rules were found: {learned.rules}"
    )

    given, truth = puzzles[7], solutions[7]
    problem = playing_problem(learned.q, learned.g, given)
    assert problem is not None
    result = ms.solve(problem)
    print(result.verify(problem))
    found = result.labels + 1
    print(f"cells of a new puzzle that are right: {(found == truth).sum()} of 81")

    _, (left, middle, right) = plt.subplots(
        1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=[1, 1, 1.2]
    )
    for ax, digits, title in (
        (left, given, "a new puzzle"),
        (middle, found, "solved by the learned rules"),
    ):
        ax.set(xlim=(0, 9), ylim=(9, 0), xticks=[], yticks=[], title=title, aspect="equal")
        for i in range(10):
            ax.axhline(i, color="0.3", linewidth=1.5 if i % 3 == 0 else 0.4)
            ax.axvline(i, color="0.3", linewidth=1.5 if i % 3 == 0 else 0.4)
        for cell in np.flatnonzero(digits):
            ax.text(
                cell % 9 + 0.5, cell // 9 + 0.55, str(digits[cell]), ha="center", va="center",
                color="black" if given[cell] else "tab:blue",
            )  # fmt: skip
    shown = right.imshow(
        learned.g,
        cmap="RdBu",
        vmin=-abs(learned.g).max(),
        vmax=abs(learned.g).max(),
        extent=(0.5, 9.5, 9.5, 0.5),
    )
    right.set(title="learned table of two neighbours", xticks=range(1, 10), yticks=range(1, 10))
    plt.colorbar(shown, ax=right)
    plt.savefig("learn_sudoku.png", dpi=80)


if __name__ == "__main__":
    main()
