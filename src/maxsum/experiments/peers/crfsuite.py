"""CRFsuite (package python-crfsuite), where it is installed, beside our chains in one run."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Attributes = Sequence[Sequence[str]]


class Peer(NamedTuple):
    """Tags of the test sequences, CPU and wall seconds of the training without reading features, and CPU seconds with it."""

    tags: list[list[str]]
    cpu: float
    wall: float
    all_cpu: float


def train_crfsuite(
    X: Iterable[Attributes], y: Iterable[Sequence[str]], test: Iterable[Attributes], algorithm: str, params: dict[str, Any]
) -> Peer | None:
    """Train CRFsuite on sequences of lists of attributes and tag others; None where it is not installed."""
    try:
        crf: Any = importlib.import_module("pycrfsuite")
    except ImportError:
        return None
    began = time.process_time()
    trainer = crf.Trainer(algorithm, params, verbose=False)
    for x, tags in zip(X, y, strict=True):
        trainer.append(x, tags)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        wall, cpu = time.perf_counter(), time.process_time()
        trainer.train(path)
        ended = time.process_time()
        wall = time.perf_counter() - wall
        tagger = crf.Tagger()
        tagger.open(path)
        found = [tagger.tag(x) for x in test]
        tagger.close()
    return Peer(found, ended - cpu, wall, ended - began)
