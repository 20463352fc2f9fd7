"""Beyond one core: chunking on shards by one and two worker processes, and what a larger cluster would take."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.datasets import ShardedDataset, write_shards
from maxsum.executors.base import Processes
from maxsum.learning import ShardAscent

from .bench_shards import CORPUS, C, load, ready, sentences, train
from .measure import NO_DATA, verdict

TITLE = "Beyond one machine: workers"
DESCRIPTION = """
The shards of CoNLL-2000 of the section before, with C = 0.01. *Worker processes* have loaded maxsum before the clock starts; the better of two
trainings each. *S a round* and *speed-up* are those of the passes after the first, in which workers open their shards; *all* counts the whole
training. *Side by side* is what two trainings in two processes gain that have nothing to do with each other: the limit of this machine. *Larger clusters*: many
small shards with few features, to a certified relative gap of 2 %, or 30 passes. *Rounds on W workers* are real (width W, run serially);
their *seconds* come from the cost model `(rounds + shards / W) (v + a + b W)`: `v` seconds of a visit, measured in the run on one core, `a + b
W` of a round with no work in it, measured with one and two processes of this machine, in which the driver sends the weights, gets W
directions back, and adds them up.
"""
_PASSES, _EMPTY = 30, 30
_ROOM, _WIDTH = 2**33, 4


def fitted(data: ShardedDataset, passes: int, executor: Any) -> tuple[Any, float, float]:
    """A labeler, wall seconds of its training, and those of its passes after the first, in which shards are opened."""
    marks: list[float] = []
    net = ms.SequenceLabeler(
        C=C,
        learner=ShardAscent(tol=0.0, width=_WIDTH, max_iter=passes + 1, memory=_ROOM),
        callback=lambda _: marks.append(time.perf_counter()),
    )
    start = time.perf_counter()
    net.fit(data, executor=executor)
    return net, time.perf_counter() - start, marks[passes] - marks[1]


def alone(item: tuple[str, int]) -> float:
    """Seconds of the later passes of a training in one process, which no one shares."""
    return fitted(ShardedDataset(item[0]), item[1], None)[2]


def side_by_side(folder: Path, passes: int) -> float:
    """What two processes gain on this machine where they need nothing of each other."""
    with Processes(2) as executor:
        executor.run(alone, [(str(folder), 1)] * 2)
        one = executor.run(alone, [(str(folder), passes)])[0]
        return 2.0 * one / max(executor.run(alone, [(str(folder), passes)] * 2))


def speed(corpus: list[Any], folder: Path, n: int, per_shard: int, passes: int) -> list[dict[str, Any]]:
    """One and two worker processes at the same rounds, each twice: speed-up, bytes, work beside communication."""
    data = write_shards(sentences(corpus, n), folder / "speed", samples=per_shard)
    limit = side_by_side(folder / "speed", passes)
    walls: dict[int, list[float]] = {1: [], 2: []}
    later: dict[int, list[float]] = {1: [], 2: []}
    facts: dict[int, dict[str, Any]] = {}
    weights = set()
    for workers in (1, 2, 1, 2):
        with Processes(workers) as executor:
            executor.run(ready, range(workers))
            moved = executor.bytes_sent + executor.bytes_received
            net, wall, own = fitted(data, passes, executor)
            moved = executor.bytes_sent + executor.bytes_received - moved
            empty = empty_round(executor, len(net.weights_))
        walls[workers].append(wall)
        later[workers].append(own)
        weights.add(net.weights_.tobytes())
        rounds = net.result_.extra["rounds"]
        vectors = (rounds + data.n_shards / _WIDTH) * workers * len(net.weights_)
        facts[workers] = {
            "weights": len(net.weights_), "rounds": rounds, "oracle s a round": net.result_.oracle_seconds / rounds,
            "bytes a round, worker and weight": moved / vectors, "s of an empty round": empty,
        }  # fmt: skip
    rows = []
    for workers in (1, 2):
        whole, own, fact = min(walls[workers]), min(later[workers]), facts[workers]
        a_round = own / ((passes - 1) * -(-data.n_shards // _WIDTH))
        gain = min(later[1]) / own
        enough = "" if fact["oracle s a round"] >= 1.0 else ", for an oracle of less than 1 s"
        rows.append({
            "table": "Worker processes", "workers": workers, **fact, "wall s": whole, "speed-up, all": min(walls[1]) / whole,
            "s a round": a_round, "speed-up": gain, "side by side": limit if workers == 2 else None,
            "work / communication": a_round / fact["s of an empty round"] - 1.0, "same bits": len(weights) == 1,
            "target": verdict(workers == 1 or gain >= 1.7) + enough,
        })  # fmt: skip
    return rows


def echo(_: int, vector: np.ndarray) -> np.ndarray:
    """The way of the weights to a worker and back."""
    return vector


def empty_round(executor: Processes, n_weights: int) -> float:
    """Seconds in which weights go to all workers, and as many come back from each and are added up."""
    vector, seconds = np.ones(n_weights), []
    for _ in range(_EMPTY):
        start = time.perf_counter()
        total = sum(executor.run(echo, range(executor.n_workers), shared=vector))
        vector = vector + 0.0 * total
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def light(rows: Iterable[tuple[list[dict[str, str]], list[str]]]) -> Iterator[tuple[list[dict[str, str]], list[str]]]:
    """Sentences with few features: parts of speech, the last two letters, and case."""
    for x, y in rows:
        yield [{name: token[name] for name in ("p-1", "p0", "p1", "e2", "c")} for token in x], y


def simulate(
    corpus: list[Any], folder: Path, n: int, per_shard: int, widths: tuple[int, ...], passes: int
) -> list[dict[str, Any]]:
    """Rounds to the tolerance for W workers, by running width W serially, and seconds from the cost model."""
    data = write_shards(light(sentences(corpus, n)), folder / "model", samples=per_shard)
    rows: list[dict[str, Any]] = []
    visit, empty = 0.0, [0.0, 0.0]
    for width in widths:
        net, _, wall = train(data, width, max_iter=passes)
        rounds = net.result_.extra["rounds"]
        if not visit:
            visit = wall / (rounds * width + data.n_shards)
            for k in range(2):
                with Processes(k + 1) as executor:
                    executor.run(ready, range(k + 1))
                    empty[k] = empty_round(executor, len(net.weights_))
        moving = max(0.0, empty[1] - empty[0])
        predicted = (rounds + -(-data.n_shards // width)) * (visit + empty[0] + (width - 1) * moving)
        measured = train(data, width, width, max_iter=passes)[2] if width <= 2 else None
        rows.append({
            "table": "Larger clusters: rounds are real, seconds from the cost model", "workers": width, "weights": len(net.weights_),
            "rounds": rounds, "passes": net.result_.n_iter, "relative gap": net.result_.relative_gap, "s a visit": visit,
            "s of an empty round": empty[0] + (width - 1) * moving, "predicted s": predicted, "measured s": measured,
            "measured / predicted": measured / predicted if measured is not None else None,
        })  # fmt: skip
    return rows


def rows(quick: bool = False) -> list[dict[str, Any]]:
    corpus = load()
    if corpus is None:
        return [{"table": "Workers", "result": NO_DATA}]
    with tempfile.TemporaryDirectory(prefix="maxsum-bench-") as name:
        ready(0)
        found = [] if quick else speed(corpus, Path(name), 16 * CORPUS, 2 * CORPUS, 6)
        n, widths, passes = (60, (1, 2), 3) if quick else (CORPUS, (1, 2, 4, 16, 64, 256), _PASSES)
        return found + simulate(corpus, Path(name), n, 10 if quick else 17, widths, passes)
