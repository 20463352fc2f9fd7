"""
A problem file: labelling, bound, checked proof
===============================================

A file of the UAI competitions goes in. The picture has what is proven at each moment: the best labelling found lies below the bound that nothing
exceeds, and where they meet the labelling is optimal. Then a program of one file, which imports nothing of this library, checks the answer.

Run: ``python examples/problem_file.py``
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import maxsum as ms
from maxsum.check import __file__ as checker
from maxsum.core.certificates.answers import save_answer


def main() -> None:
    folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(1)
    # A spin glass on a torus, which no minimum cut solves; any .uai, .wcsp, .cfn or .npz file will do.
    size = 10
    cell = np.arange(size * size).reshape(size, size)
    edges = np.concatenate(
        [np.stack([cell, np.roll(cell, -1, axis)], axis=2).reshape(-1, 2) for axis in (0, 1)]
    )
    couplings = rng.normal(size=(len(edges), 1, 1)) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    made = ms.Problem(
        ms.Graph.from_edges(edges, n_nodes=size * size),
        0.1 * rng.normal(size=(size * size, 2)),
        tables=couplings,
    )
    made.save(folder / "glass.uai")

    problem = ms.read_problem(folder / "glass.uai")
    steps: list[tuple[float, float]] = []
    result = ms.solve(
        problem, time_limit=20, callback=lambda point: steps.append((point.score, point.bound))
    )
    print(result.message)
    print(result.verify(problem))

    problem.save(folder / "glass.npz")
    save_answer(folder / "answer.npz", result)
    command = [
        sys.executable,
        "-I",
        str(Path(checker)),
        str(folder / "glass.npz"),
        str(folder / "answer.npz"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    print("the checker says:", done.stdout.strip())
    assert done.returncode == 0

    score, bound = np.array([*steps, (result.score, result.bound)]).T
    # the best of all solvers that took part so far
    score, bound = np.maximum.accumulate(score), np.minimum.accumulate(bound)
    _, (left, right) = plt.subplots(
        1, 2, figsize=(10, 3.4), layout="constrained", width_ratios=[1.6, 1]
    )
    left.step(range(len(bound)), bound, where="post", label="bound: no labelling exceeds it")
    left.step(
        range(len(score)),
        np.where(np.isfinite(score), score, np.nan),
        where="post",
        label="best labelling found",
    )
    left.set(
        xlabel="step",
        ylabel="score",
        title=f"{problem.n_nodes} nodes, {len(edges)} edges: {result.guarantee}",
    )
    left.legend()
    right.imshow(result.labels.reshape(size, size), cmap="coolwarm")
    right.set(title="the labelling", xticks=[], yticks=[])
    plt.savefig("problem_file.png", dpi=80)


if __name__ == "__main__":
    main()
