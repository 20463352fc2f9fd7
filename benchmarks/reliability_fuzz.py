"""Mutated files of every format that is read: crashes and hangs are counted, refusals are what is wanted."""

from __future__ import annotations

import random
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import maxsum as ms
from maxsum.core.files import read_problem
from maxsum.datasets import read_conll
from maxsum.learning import BlockFrankWolfe
from maxsum.learning.checkpoint import FILE as CHECKPOINT
from maxsum.learning.checkpoint import load_checkpoint
from maxsum.storage.format import FILE as MODEL
from tests.files.file_samples import CFN, UAI, WCSP
from tests.reference.mutations import NUMBERS, SIGNS, mutate, mutate_container

from .reliability_child import objective, train, two_models

CONLL = "He PRP B-NP\nran VBD B-VP\n\nHome NN B-NP\n"
HANG = 5


class Hang(BaseException):
    """A file took longer than `HANG` seconds."""


def run(folder: Path, count: int) -> list[dict[str, Any]]:
    """Rows of counts, one a format; ``count`` files each."""
    rows = []
    for name, (good, change, read) in _formats(folder).items():
        rng, path = random.Random(name), folder / f"fuzzed.{name.split()[0]}"
        tally = dict.fromkeys(("read", "refused", "crashes", "hangs"), 0)
        peak = 0.0
        for i in range(count):
            data = change(rng, good)
            path.write_bytes(data)
            watched = i % 50 == 0
            if watched:
                tracemalloc.start()
            tally[_outcome(lambda read=read, path=path: read(path))] += 1
            if watched:
                peak = max(peak, tracemalloc.get_traced_memory()[1] / (2**21 + 40 * len(data)))
                tracemalloc.stop()
        bad = tally["crashes"] + tally["hangs"]
        rows.append(
            {
                "format": name,
                "files": count,
                "read": tally["read"],
                "refused": tally["refused"],
                "crashes": tally["crashes"],
                "hangs": tally["hangs"],
                "largest memory / (2 MB + 40 x file)": peak,
                "target": bad == 0 and peak <= 1,
            }
        )
    return rows


def _formats(folder: Path) -> dict[str, tuple[bytes, Callable[..., bytes], Callable[[Path], Any]]]:
    def problem(path: Path) -> None:
        found = read_problem(path)
        assert not np.isnan(found.score(np.zeros(found.n_nodes, dtype=int)))

    def words(rng: random.Random, data: bytes) -> bytes:
        return mutate(rng, data, (*NUMBERS, *SIGNS))

    ms.save_model(two_models()[0], folder / "model", certificate=True)
    train(folder / "checkpoint", passes=3)
    task, learner = objective(), BlockFrankWolfe()
    return {
        "uai": (UAI.encode(), mutate, problem),
        "wcsp": (WCSP.encode(), mutate, problem),
        "cfn": (CFN.encode(), mutate, problem),
        "CoNLL": (CONLL.encode(), words, read_conll),
        "model file": (
            (folder / "model").read_bytes(),
            lambda rng, data: mutate_container(rng, data, MODEL),
            ms.load_model,
        ),
        "checkpoint": (
            (folder / "checkpoint").read_bytes(),
            lambda rng, data: mutate_container(rng, data, CHECKPOINT),
            lambda path: load_checkpoint(path, learner, task),
        ),
    }


def _outcome(read: Callable[[], Any]) -> str:
    try:
        with _deadline():
            read()
    except ms.MaxsumError:
        return "refused"
    except Hang:
        return "hangs"
    except Exception:
        return "crashes"
    return "read"


@contextmanager
def _deadline() -> Iterator[None]:
    """`Hang` after too long a time."""

    def late(number: int, frame: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, HANG)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
