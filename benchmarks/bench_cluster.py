"""Beyond one core: chunking on shards by one and two worker processes, and what a larger cluster would take."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.datasets import write_shards
from maxsum.learning import Processes, ShardAscent

from .bench_shards import C_SHARE, CORPUS, load, sentences, train
from .measure import NO_DATA, verdict

TITLE = "Beyond one machine: workers"
DESCRIPTION = """
The shards of CoNLL-2000 of the section before, with C = 0.01 a sentence. *Larger clusters*: 526 small shards with few features, to a
certified relative gap of 2 %, or 30 passes. *Rounds on W workers* are real (width W, run serially); their *seconds* come from the cost model
`(rounds + shards / W) * (seconds of a visit + seconds to send 8 d bytes and get as many back)`, both measured: a visit in the run on one
core, communication with one process of this machine.
"""
_PASSES = 30


def speed(corpus: list[Any], folder: Path, n: int, per_shard: int, passes: int) -> list[dict[str, Any]]:
    """One and two worker processes at the same rounds: speed-up, bytes, work beside communication."""
    data = write_shards(sentences(corpus, n), folder / "speed", samples=per_shard)
    rows: list[dict[str, Any]] = []
    walls: dict[int, float] = {}
    weights: dict[int, bytes] = {}
    for workers in (1, 2):
        with Processes(workers) as executor:
            executor.run(abs, range(workers))
            net = ms.SequenceLabeler(C=C_SHARE * n, learner=ShardAscent(tol=0.0, width=4, max_iter=passes, memory=2**30))
            wall = time.perf_counter()
            net.fit(data, executor=executor)
            walls[workers] = time.perf_counter() - wall
            moved = executor.bytes_sent + executor.bytes_received
            vector = np.zeros(len(net.weights_))
            executor.run(abs, [vector] * workers)
            start = time.perf_counter()
            executor.run(abs, [vector] * workers)
            sending = time.perf_counter() - start
        result, rounds = net.result_, net.result_.extra["rounds"]
        weights[workers] = net.weights_.tobytes()
        rows.append({
            "table": "Worker processes", "workers": workers, "rounds": rounds, "oracle s a round": result.oracle_seconds / rounds,
            "wall s": walls[workers], "speed-up": walls[1] / walls[workers],
            "bytes a round, worker and weight": moved / (rounds + data.n_shards / 4) / workers / len(vector),
            "work / communication": walls[workers] / rounds / sending, "same bits": weights[1] == weights[workers],
            "target": verdict(workers == 1 or walls[1] / walls[2] >= 1.7),
        })  # fmt: skip
    return rows


def light(rows: Iterable[tuple[list[dict[str, str]], list[str]]]) -> Iterator[tuple[list[dict[str, str]], list[str]]]:
    """Sentences with few features: parts of speech, the last two letters, and case."""
    for x, y in rows:
        yield [{name: token[name] for name in ("p-1", "p0", "p1", "e2", "c")} for token in x], y


def simulate(corpus: list[Any], folder: Path, n: int, per_shard: int, widths: tuple[int, ...]) -> list[dict[str, Any]]:
    """Rounds to the tolerance for W workers, by running width W serially, and seconds from the cost model."""
    data = write_shards(light(sentences(corpus, n)), folder / "model", samples=per_shard)
    rows: list[dict[str, Any]] = []
    vector = np.zeros(0)
    visit = sending = 0.0
    for width in widths:
        net, _, wall = train(data, width, max_iter=_PASSES)
        rounds = net.result_.extra["rounds"]
        if not visit:
            visit, vector = wall / (rounds * width + data.n_shards), net.weights_
            with Processes(1) as executor:
                executor.run(abs, [vector])
                start = time.perf_counter()
                executor.run(abs, [vector])
                sending = time.perf_counter() - start
        evaluations = -(-data.n_shards // width)
        measured = train(data, width, width, max_iter=_PASSES)[2] if width <= 2 else None
        rows.append({
            "table": "Larger clusters: rounds are real, seconds from the cost model", "workers": width, "rounds": rounds,
            "passes": net.result_.n_iter, "relative gap": net.result_.relative_gap, "s a visit": visit, "s of communication": sending,
            "predicted s": (rounds + evaluations) * (visit + sending), "measured s": measured,
        })  # fmt: skip
    return rows


def rows(quick: bool = False) -> list[dict[str, Any]]:
    corpus = load()
    if corpus is None:
        return [{"table": "Workers", "result": NO_DATA}]
    with tempfile.TemporaryDirectory(prefix="maxsum-bench-") as name:
        ms.SequenceLabeler(tol=0.5).fit(*zip(*sentences(corpus[:5], 5), strict=True))
        found = [] if quick else speed(corpus, Path(name), 4 * CORPUS, 4 * CORPUS // 8, 3)
        n, widths = (60, (1, 2)) if quick else (CORPUS, (1, 2, 4, 16, 64, 256))
        return found + simulate(corpus, Path(name), n, 10 if quick else 17, widths)
