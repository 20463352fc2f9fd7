"""
The five best answers, and a checker that knows nothing of us
=============================================================

Cells of a small map get one of four channels; neighbours with close channels disturb each other. The five best plans come in order, with a proof
that none was left out. Problem and answer go to files, and the checker of one file, which imports nothing of this library, checks them.

Run: ``python examples/five_best.py``
"""

import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms
from maxsum.check import __file__ as checker
from maxsum.core.certificates.answers import save_answer

SIDE, CHANNELS = 5, 4


def main() -> None:
    rng = np.random.default_rng(4)
    apart = np.abs(np.subtract.outer(np.arange(CHANNELS), np.arange(CHANNELS)))
    costs = rng.integers(0, 60, size=(SIDE * SIDE, CHANNELS)).astype(float)
    problem = ms.Problem.from_costs(
        ms.Graph.grid(SIDE, SIDE),
        costs,
        tables=np.select([apart == 0, apart == 1], [90.0, 30.0], 0.0),
    )
    ranked = ms.k_best(problem, 5)
    print("costs of the five best:", (-ranked.scores).tolist(), "proven positions:", ranked.proven)
    ranked.verify(problem)

    _, axes = plt.subplots(1, 5, figsize=(12, 2.6), layout="constrained")
    for ax, labels, score in zip(axes, ranked.labels, ranked.scores, strict=True):
        ax.imshow(labels.reshape(SIDE, SIDE), cmap="viridis", vmin=0, vmax=CHANNELS - 1)
        for cell in np.flatnonzero(labels != ranked.labels[0]):
            ax.add_patch(
                plt.Rectangle(
                    (cell % SIDE - 0.5, cell // SIDE - 0.5),
                    1,
                    1,
                    fill=False,
                    color="red",
                    linewidth=2,
                )
            )
        ax.set_title(f"cost {-score:g}", fontsize="medium")
        ax.set_axis_off()
    plt.savefig("five_best.png", dpi=80)

    result = ms.solve(problem)
    problem.save("plan.npz")
    save_answer("answer.npz", result)
    done = subprocess.run(
        [sys.executable, "-I", str(Path(checker)), "plan.npz", "answer.npz"],
        capture_output=True,
        text=True,
    )
    print(done.stdout)
    assert done.returncode == 0
    print(result.verify(problem))


if __name__ == "__main__":
    main()
