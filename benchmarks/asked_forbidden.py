"""Chunking: tags that no text can have, counted."""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import Any
from unittest import mock

from maxsum import SequenceLabeler
from maxsum.core.transitions import forbidden_pairs, forbidden_starts
from maxsum.experiments import MissingDataError, chunking

from .measure import NO_DATA, data_folder

TITLE = "Asked for: forbidden neighbours"
DESCRIPTION = """
CoNLL-2000, 8936 sentences to learn from and 2012 to test, features of words and parts of speech in a window of 2, C = 0.1, to a certified relative
gap of 1e-2. *Broken* are tags that no BIO text has there: `I-X` after anything but `B-X` or `I-X`, or at the start of a sentence.
"""
C, TOL = 0.1, 1e-2
SETTINGS: dict[str, dict[str, Any]] = {"any pair": {}, "forbidden='bio'": {"forbidden": "bio"}}
"""Arguments of the estimator by the name of their row."""


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"model": NO_DATA}]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            data, test = chunking.load(30 if quick else None)
        except MissingDataError as error:
            return [{"model": f"skipped: {error}"}]
    return [_row(name, options, data, test) for name, options in SETTINGS.items()]


def _row(name: str, options: dict[str, Any], data: chunking.Sentences, test: chunking.Sentences) -> dict[str, Any]:
    net = SequenceLabeler(C=C, tol=TOL, **options)
    started = time.process_time()
    net.fit(data.X, data.y)
    seconds = time.process_time() - started
    predicted = [own.tolist() for own in net.predict(test.X)]
    return {
        "model": name,
        "F1": round(chunking.f1(test.y, predicted), 2),
        "broken tags of the prediction": broken(predicted, net.classes_.tolist()),
        "relative gap": net.result_.relative_gap,
        "CPU s of fit": seconds,
    }


def broken(sentences: list[list[str]], classes: list[str]) -> int:
    """Tags that BIO forbids after the one before them, or at the start."""
    pairs = {(classes[a], classes[b]) for a, b in forbidden_pairs("bio", classes)}
    starts = {classes[a] for a in forbidden_starts("bio", classes)}
    within = sum(pair in pairs for own in sentences for pair in pairwise(own))
    return within + sum(own[0] in starts for own in sentences if own)
