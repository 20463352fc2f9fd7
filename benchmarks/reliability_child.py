"""What `bench_reliability` does in processes of its own: ``python -m benchmarks.reliability_child WHAT ...``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.learning import BlockFrankWolfe, MarginObjective
from maxsum.models import GraphModel

PASSES = 400


def objective() -> MarginObjective:
    """A small training that takes many passes."""
    rng = np.random.default_rng(0)
    samples, labels = [], []
    for i in range(12):
        y = rng.integers(3, size=3 + i % 4)
        samples.append(ms.GraphSample(np.eye(3)[y] + rng.normal(size=(len(y), 3)), ms.Graph.chain(len(y))))
        labels.append(y)
    return MarginObjective(GraphModel().bind(samples, labels, [0, 1, 2]), C=30.0)


def train(checkpoint: str | Path | None, passes: int = PASSES) -> np.ndarray:
    """Weights after all passes; the state is written after each."""
    learner = BlockFrankWolfe(tol=0.0, max_iter=passes, checkpoint=checkpoint, checkpoint_seconds=0.0)
    return learner.fit(objective()).weights


def two_models() -> list[Any]:
    """Different models of one kind."""
    X = [[{"word": word} for word in text.split()] for text in ("the dog barks", "a cat sleeps now")]
    y = [["D", "N", "V"], ["D", "N", "V", "A"]]
    return [ms.SequenceLabeler(C=C).fit(X, y) for C in (0.5, 50.0)]


def share(path: str, known: str, rounds: int, turn: int) -> None:
    """Write and read one model file that another process writes and reads too; every model read must be one of the known."""
    models = [ms.load_model(Path(known) / f"{i}") for i in (0, 1)]
    whole = [net.weights_.tobytes() for net in models]
    X = [[{"word": "dog"}, {"word": "sleeps"}]]
    labels = [net.predict(X)[0].tolist() for net in models]
    faults = 0
    for i in range(rounds):
        ms.save_model(models[(i + turn) % 2], path)
        net = ms.load_model(path)
        which = whole.index(net.weights_.tobytes()) if net.weights_.tobytes() in whole else None
        faults += which is None or net.predict(X)[0].tolist() != labels[which]
    problem = ms.Problem(ms.Graph.chain(3), np.arange(6.0).reshape(3, 2), np.eye(2))
    score = ms.solve(problem, "TreeDP").score
    print(json.dumps([rounds, faults, score]))


def crowd(left: int) -> None:
    """Things that do not fit into ``left`` bytes of address space: what they say, and by how much the process grew."""
    import resource

    X, y = [[{"a": 1.0}, {"b": 1.0}]], [["x", "y"]]
    ms.SequenceLabeler(max_iter=1, tol=1.0).fit(X, y)
    ms.solve(ms.Problem(ms.Graph.grid(3, 3), np.zeros((3, 3, 2)), np.eye(2)))
    small = ms.GridLabeler(max_iter=1, tol=1.0).fit([np.zeros((2, 2, 1))], [[[0, 1], [1, 0]]])

    def huge(*shape: int) -> np.ndarray:
        return np.broadcast_to(np.zeros((1,) * len(shape)), shape)

    def grown() -> int:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()

    resource.setrlimit(resource.RLIMIT_AS, (grown() + left, resource.RLIM_INFINITY))
    graph = ms.Graph.chain(1000)
    cases = {
        "training on images": lambda: ms.GridLabeler().fit([huge(20_000, 20_000, 3)], [[[0]]]),
        "training on sequences": lambda: ms.SequenceLabeler().fit([huge(10**8, 10)], [[0]]),
        "training on a table": lambda: ms.MultiLabelClassifier().fit(huge(10**6, 10**4), huge(10**6, 5).astype(np.int8)),
        "prediction": lambda: small.predict([huge(30_000, 30_000, 1)]),
        "grid graph": lambda: ms.Graph.grid(20_000, 20_000),
        "complete graph": lambda: ms.Graph.complete(100_000),
        "problem": lambda: ms.Problem(graph, np.zeros((1000, 500)), huge(999, 500, 500)),
        "messages": lambda: ms.solve(
            ms.Problem(ms.Graph.chain(400_000), np.zeros((400_000, 24), dtype=np.float32), np.eye(24)), "TRWS"
        ),
    }
    found = []
    for name, attempt in cases.items():
        before = grown()
        try:
            attempt()
            words = "it fitted"
        except MemoryError as error:
            words = str(error)
        found.append([name, words, grown() - before])
    print(json.dumps(found))


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "train":
        train(rest[0])
    elif what == "share":
        share(rest[0], rest[1], int(rest[2]), int(rest[3]))
    elif what == "crowd":
        crowd(int(rest[0]))
