"""Beyond memory: chunking on shards, under a limit of memory and beside the serial learner."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.datasets import ShardedDataset, write_shards
from maxsum.executors.base import Processes, Serial
from maxsum.learning import ShardAscent

from .measure import NO_DATA, data_folder, verdict

TITLE = "Beyond one machine: shards"
DESCRIPTION = """
CoNLL-2000 repeated, with a tenth of the words replaced by others of the same part of speech in every copy; binary features of words, parts
of speech and endings in a window of 2; C = 0.01 (a tenth of what cross-validation chose for the corpus alone; the larger it is, the
more passes shards need), to a certified relative gap of 2 %. *Memory*: the largest resident set of this
process, or of the one that wrote the shards; with workers the sum of all. 3.3 million sentences are three
times the limit on disk; `MAXSUM_SHARD_SENTENCES` and `MAXSUM_SHARD_WORKERS` set another size of the first table. `cluster` is about workers.
"""
C, TOL, REPLACED = 0.01, 0.02, 0.1
LIMIT, FULL, SENTENCES, CORPUS = 2 * 2**30, 1_000_000, 3_300_000, 8936


def load() -> list[Any] | None:
    """Sentences of CoNLL-2000 to train with, if they are there."""
    folder = data_folder()
    return folder and ms.datasets.read_conll(next(iter(sorted((folder / "conll2000").glob("train*")))))


def lean(words: list[str], kinds: list[str]) -> list[dict[str, str]]:
    """Features of a sentence: words, parts of speech and endings around each token."""
    n = len(words)
    w, p = ["_", "_", *words, "_", "_"], ["_", "_", *kinds, "_", "_"]
    found = []
    for i in range(2, n + 2):
        own = {f"w{d}": w[i + d] for d in (-1, 0, 1)} | {f"p{d}": p[i + d] for d in (-2, -1, 0, 1, 2)}
        own |= {f"e{k}": w[i][-k:] for k in (2, 3)} | {"b": w[i][:1], "w|p": f"{w[i]}|{p[i]}"}
        own |= {"pp": f"{p[i - 1]}|{p[i]}", "pn": f"{p[i]}|{p[i + 1]}", "ppp": f"{p[i - 1]}|{p[i]}|{p[i + 1]}"}
        own |= {"e-": w[i - 1][-3:], "e+": w[i + 1][-3:], "c": "1" if w[i][:1].isupper() else "0"}
        found.append(own)
    return found


def sentences(corpus: list[Any], n: int, seed: int = 0) -> Iterator[tuple[list[dict[str, str]], list[str]]]:
    """Sentences and tags: the corpus as it is, then copies with other words."""
    rng = np.random.default_rng(seed)
    known: dict[str, list[str]] = {}
    for sentence in corpus:
        for word, kind, _ in sentence:
            known.setdefault(kind, []).append(word)
    for i in range(n):
        words, kinds, tags = (list(column) for column in zip(*corpus[i % len(corpus)], strict=True))
        if i >= len(corpus):
            for j in np.flatnonzero(rng.random(len(words)) < REPLACED):
                words[j] = known[kinds[j]][int(rng.integers(len(known[kinds[j]])))]
        yield lean(words, kinds), tags


def train(data: ShardedDataset, width: int, n_workers: int = 0, tol: float = TOL, **options: Any) -> tuple[Any, float, float]:
    """A labeler, and CPU (of the driver) and wall seconds of its training; without workers all is done here."""
    net = ms.SequenceLabeler(C=C, learner=ShardAscent(tol=tol, width=width, **options))
    with Processes(n_workers) if n_workers else Serial() as executor:
        executor.run(ready, range(n_workers))
        wall, cpu = time.perf_counter(), time.process_time()
        net.fit(data, executor=executor)
        return net, time.process_time() - cpu, time.perf_counter() - wall


def ready(_: int) -> None:
    """Load and compile what a worker needs."""
    ms.SequenceLabeler(tol=0.5).fit([[{"w": "a"}, {"w": "b"}]] * 8, [["x", "y"]] * 8)


def write(folder: Path, n: int, per_shard: int) -> None:
    """Shards of ``n`` sentences, written by a process of its own, which takes the corpus with it when it ends."""
    write_shards(sentences(load() or [], n), folder, samples=per_shard)


def large(folder: Path, n: int, per_shard: int, n_workers: int) -> dict[str, Any]:
    """Sentences far beyond memory, in this process or on the workers of one machine."""
    start = time.perf_counter()
    writer = get_context("spawn").Process(target=write, args=(folder / "large", n, per_shard))
    writer.start()
    writer.join()
    written, data = time.perf_counter() - start, ShardedDataset(folder / "large")
    net, cpu, wall = train(data, 4, n_workers, memory=2**27)
    own, child = (1024 * resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    result, memory = net.result_, max(own, child) if n_workers == 0 else own + n_workers * child
    size = sum(row["bytes"] for row in data.rows)
    return {
        "table": f"At most {LIMIT / 2**30:.0f} GB of memory", "sentences": n, "shards": data.n_shards,
        "weights": len(net.weights_), "bytes on disk": size, "bytes of memory": memory, "disk / memory": round(size / memory, 2),
        "relative gap": result.relative_gap, "passes": result.n_iter, "rounds": result.extra["rounds"], "write s": written,
        "driver CPU s": cpu, "wall s": wall, "workers": n_workers, "target": f"2 %, 2 GB: {verdict(result.relative_gap <= TOL and memory <= LIMIT)}{'' if n >= FULL else '; for a million sentences not run'}",
    }  # fmt: skip


def same(corpus: list[Any], folder: Path, n: int, per_shard: int) -> list[dict[str, Any]]:
    """Shards beside the serial learner, on data that fit."""
    data = write_shards(sentences(corpus, n), folder / "same", samples=per_shard)
    own = list(sentences(corpus, n))
    start = time.process_time()
    serial = ms.SequenceLabeler(C=C, tol=TOL).fit([x for x, _ in own], [y for _, y in own])
    found = [{"learner": "BlockFrankWolfe, in memory", "CPU s": time.process_time() - start, "result": serial.result_}]
    for width in (1, 4):
        net, cpu, _ = train(data, width)
        found.append({"learner": f"ShardAscent, width {width}", "CPU s": cpu, "result": net.result_})
    rows = []
    for row in found:
        result = row.pop("result")
        within = abs(result.objective - serial.result_.objective) <= result.gap + serial.result_.gap
        rows.append({
            "table": "The objective of the serial learner", **row, "objective": result.objective, "lower bound": result.lower_bound,
            "relative gap": result.relative_gap, "oracle calls a sentence": result.n_oracle_calls / n, "target": verdict(within),
        })  # fmt: skip
    return rows


def rows(quick: bool = False) -> list[dict[str, Any]]:
    if data_folder() is None:
        return [{"table": "Shards", "result": NO_DATA}]
    n = int(os.environ.get("MAXSUM_SHARD_SENTENCES", 400 if quick else SENTENCES))
    place = Path(tempfile.mkdtemp(prefix="maxsum-bench-", dir=os.environ.get("MAXSUM_SHARD_FOLDER")))
    try:
        found = [large(place, n, 50 if quick else 4000, int(os.environ.get("MAXSUM_SHARD_WORKERS", 0)))]
        shutil.rmtree(place / "large")
        corpus = load() or []
        small = 100 if quick else CORPUS
        found += same(corpus, place, small, small // 16)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return found
