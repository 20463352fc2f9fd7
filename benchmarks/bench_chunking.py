"""Sparse features: chunking of CoNLL-2000 to a certified gap of 1 %, beside CRFsuite on the same features."""

from __future__ import annotations

import os
from typing import Any
from unittest import mock

from maxsum import SequenceLabeler
from maxsum.experiments import MissingDataError, chunking

from .measure import NO_DATA, data_folder, verdict

TITLE = "Sparse features: chunking"
DESCRIPTION = """
CoNLL-2000, 8936 sentences, 335 675 binary features (words and parts of speech in a window of 2, their pairs and triples), 22 tags,
`½‖w‖² + C·Σ ξ` with C = 0.1 (chosen by cross-validation in `maxsum reproduce chunking`), to a certified relative gap of
1e-2, beside python-crfsuite with its defaults (averaged perceptron: 100 passes; L-BFGS: c2 = 1, its own stopping rule), trained in the
same run. CPU seconds are of the training alone; features are read from dicts by both, which the last column includes. Targets: F1 not
below, time not above that of CRFsuite.
"""
C = 0.1


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    table = "Chunking: F1 and seconds"
    if folder is None:
        return [{"table": table, "model": NO_DATA}]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            data, test = chunking.load(30 if quick else None)
        except MissingDataError as error:
            return [{"table": table, "model": f"skipped: {error}"}]
    SequenceLabeler(tol=0.5).fit(data.X[:5], data.y[:5])
    runs: dict[str, chunking.Run] = {}
    for name, min_count, n_jobs in (
        ("chain", 1, 1),
        ("chain, 2 threads", 1, 2),
        ("chain, features of 2 words or more", 2, 1),
    ):
        runs[name] = chunking.train(data, test, C, min_count, n_jobs)
    for name, (algorithm, params) in chunking.PEERS.items():
        peer = chunking.train_peer(data, test, algorithm, params | chunking.QUICK_PEER if quick else params)
        if peer is not None:
            runs[name] = peer
    found = [
        {
            "table": table,
            "model": name,
            "weights": None if run.model is None else len(run.model.weights_),
            "not 0": None if run.model is None else int((run.model.weights_ != 0).sum()),
            "F1": round(run.f1, 2),
            "relative gap": None if run.model is None else run.model.result_.relative_gap,
            "CPU s": run.cpu,
            "wall s": run.wall,
            "CPU s with features": run.all_cpu,
        }
        for name, run in runs.items()
    ]
    own = runs["chain"]
    for name in chunking.PEERS:
        if name in runs:
            peer = runs[name]
            met = verdict(own.f1 >= peer.f1 and own.cpu <= peer.cpu)
            found.append(
                {"table": "Chunking: targets", "beside": name, "our CPU s / theirs": own.cpu / peer.cpu, "F1 and time": met}
            )
        else:
            found.append(
                {"table": "Chunking: targets", "beside": name, "F1 and time": "skipped: python-crfsuite is not installed"}
            )
    return found
