"""Learning from chunks that are forgotten: the objective of all data after one pass and after two, beside training on all at once."""

from __future__ import annotations

import os
import time
from typing import Any
from unittest import mock

import numpy as np

from maxsum import SequenceLabeler
from maxsum.experiments import MissingDataError, chunking
from maxsum.models import Hashed

from .measure import NO_DATA, data_folder, verdict

TITLE = "Asked for: data in chunks"
DESCRIPTION = """
CoNLL-2000, every fourth of 8936 sentences, in ten chunks of `partial_fit`; features hashed to 2^17 columns, C = 0.1, each chunk to 1e-3. Two passes, so sentences weigh 0.5 in each (a chunk that
comes twice counts twice). *Objective* is that of all sentences at the weights so far, computed from all data, which the learner does not have; *lower bound* is what its one plane of the past proves about
it; *above the batch* is the objective over the lower bound of `fit` on all at once to 1e-3. Target: at most 1 % above after one more pass.
"""
C, N_CHUNKS, PASSES = 0.1, 10, 2


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"learned": NO_DATA}]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            data, test = chunking.load(40 if quick else None)
        except MissingDataError as error:
            return [{"learned": f"skipped: {error}"}]
    X, y = data.X[::4], data.y[::4]
    tol, classes = 0.1 if quick else 1e-3, sorted({tag for own in data.y for tag in own})
    options: dict[str, Any] = dict(C=C, classes=classes, features=Hashed(2**10 if quick else 2**17), surrogate="margin")
    started = time.process_time()
    batch = SequenceLabeler(tol=tol, **options).fit(X, y)
    whole, least = batch.objective_, batch.result_.lower_bound
    found = [
        {
            "learned": "fit on all at once",
            "objective": batch.result_.objective,
            "lower bound": least,
            "above the batch": batch.result_.objective / least - 1,
            "F1": chunking.f1(test.y, batch.predict(test.X)),
            "CPU s": time.process_time() - started,
        }
    ]
    net, seconds = SequenceLabeler(tol=tol, **options), 0.0
    for number in range(PASSES):
        for part in np.array_split(np.arange(len(X)), 3 if quick else N_CHUNKS):
            started = time.process_time()
            net.partial_fit([X[j] for j in part], [y[j] for j in part], sample_weight=np.full(len(part), 1 / PASSES))
            seconds += time.process_time() - started
        value = whole.evaluate(net.weights_)
        row = {
            "learned": f"chunks, {number + 1} of {PASSES} passes",
            "objective": value,
            "lower bound": net.stream_.lower_bound,
            "above the batch": value / least - 1,
            "F1": chunking.f1(test.y, net.predict(test.X)),
            "CPU s": seconds,
        }
        found.append(row | ({"at most 1 %": verdict(value <= 1.01 * least)} if number + 1 == PASSES else {}))
    return found
