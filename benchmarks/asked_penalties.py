"""Penalties of absolute values: how few weights chunking needs, with a certified gap, beside CRFsuite with c1."""

from __future__ import annotations

import importlib
import os
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from maxsum import SequenceLabeler, load_model, save_model
from maxsum.experiments import MissingDataError, chunking

from .measure import NO_DATA, data_folder

TITLE = "Asked for: sparse models"
DESCRIPTION = """
CoNLL-2000, every fourth of 8936 sentences to learn from (so that the run takes minutes) and 2012 to test, conditional random fields on the features of CRFsuite's example. `penalty="l1"` minimises
`|w|_1 + C * (negative log-likelihood)`, the objective of CRFsuite with `c1 = 1/C` and `c2 = 0`; `penalty="l2"` with C = 0.5 that of `c2 = 1`. *Weights* are those
that are not exactly 0. Wanted: at most 5 % of the weights of the L2 model, and an F1 at most 0.3 lower.
"""
TOL = 1e-2
EVERY = 4  # of the sentences to learn from
OURS: dict[str, dict[str, Any]] = {
    'penalty="l2", C = 0.5': {"penalty": "l2", "C": 0.5},
    'penalty="l1", C = 1': {"penalty": "l1", "C": 1.0},
}
PEERS: dict[str, dict[str, Any]] = {"CRFsuite, c1 = 1": {"c1": 1.0, "c2": 0.0}}


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"model": NO_DATA}]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            data, test = chunking.load(30 if quick else None)
        except MissingDataError as error:
            return [{"model": f"skipped: {error}"}]
    data = chunking.Sentences(data.X[::EVERY], data.y[::EVERY])
    found = [_ours(name, options, data, test) for name, options in OURS.items()]
    found += [_peer(name, options, data, test) for name, options in PEERS.items()]
    return beside_first(found)


def beside_first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their share of the weights of the first one, and what their F1 is below its."""
    for row in found[1:]:
        if row.get("weights"):
            row["share of the L2 model"] = round(row["weights"] / found[0]["weights"], 5)
            row["F1 below the L2 model"] = round(found[0]["F1"] - row["F1"], 2)
    return found


def _ours(name: str, options: dict[str, Any], data: chunking.Sentences, test: chunking.Sentences) -> dict[str, Any]:
    started = time.process_time()
    net = SequenceLabeler(surrogate="likelihood", tol=TOL, **options).fit(data.X, data.y)
    seconds = time.process_time() - started
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        save_model(net, path)
        size = path.stat().st_size
        same = np.array_equal(load_model(path).weights_, net.weights_)
    return {
        "model": name,
        "F1": round(chunking.f1(test.y, [own.tolist() for own in net.predict(test.X)]), 2),
        "weights": int(np.count_nonzero(net.weights_)),
        "certified relative gap": net.result_.relative_gap,
        "MB of the file": round(size / 2**20, 1),
        "same after loading": same,
        "CPU s of fit": seconds,
    }


def _peer(name: str, params: dict[str, Any], data: chunking.Sentences, test: chunking.Sentences) -> dict[str, Any]:
    try:
        crf: Any = importlib.import_module("pycrfsuite")
    except ImportError:
        return {"model": f"{name}: skipped, python-crfsuite is not installed"}
    trainer = crf.Trainer("lbfgs", params, verbose=False)
    for x, tags in zip(data.X, data.y, strict=True):
        trainer.append(chunking.strings(x), tags)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.crfsuite")
        started = time.process_time()
        trainer.train(path)
        seconds = time.process_time() - started
        tagger = crf.Tagger()
        tagger.open(path)
        found = [tagger.tag(chunking.strings(x)) for x in test.X]
        info = tagger.info()
        weights = len(info.transitions) + len(info.state_features)
        size = Path(path).stat().st_size
        tagger.close()
    return {
        "model": name,
        "F1": round(chunking.f1(test.y, found), 2),
        "weights": weights,
        "MB of the file": round(size / 2**20, 1),
        "CPU s of fit": seconds,
    }
