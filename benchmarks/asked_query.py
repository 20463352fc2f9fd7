"""Which words to label next: accuracy by the share of labelled words, asked for by `query` or drawn at random."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxsum import SequenceLabeler

from .bench_learning import letters
from .measure import NO_DATA, verdict

TITLE = "Asked for: what to label next"
DESCRIPTION = """
Fold 1 of the letters (704 words) is labelled bit by bit: 5 % of the words at random, then 5 % a round, the words (or single letters, the others of their words being unknown) that
`query` names, or as many words at random. After each round a new `SequenceLabeler(C=0.1, tol=1e-2)` learns from all labels so far. *Accuracy* is that on the other nine folds, the mean
of three first draws; *letters* the share of all letters that are labelled then: long words raise more doubts than short ones. Target: the accuracy of all labels by at most 40 % of the words.
"""
SHARES = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
SHOWN = (0.1, 0.2, 0.3, 0.4)
DRAWS = 3


def rows(quick: bool = False) -> list[dict[str, Any]]:
    data = letters(1)
    if data is None:
        return [{"asked": NO_DATA}]
    n = 40 if quick else len(data[0])
    X, y = [own.X for own in data[0][:n]], data[1][:n]
    tests = [letters(fold) for fold in ([0] if quick else [0, *range(2, 10)])]
    new = [own.X for fold in tests if fold is not None for own in fold[0]]
    truth = [own for fold in tests if fold is not None for own in fold[1]]
    every = _learn(X, y, quick).score(new, truth)
    found: list[dict[str, Any]] = [{"asked": "all labels", "words": 1.0, "letters": 1.0, "accuracy": every}]
    for how in ("at random", "words by query", "letters by query"):
        started = time.process_time()
        runs = [_run(how, X, y, new, truth, seed, quick) for seed in range(1 if quick else DRAWS)]
        seconds = (time.process_time() - started) / len(runs)
        for share in SHARES[:2] if quick else SHOWN:
            score, known = np.mean([run[share] for run in runs], axis=0)
            found.append({"asked": how, "words": share, "letters": float(known), "accuracy": float(score)})
            if share == SHOWN[-1]:
                found[-1] |= {"CPU s of all rounds": seconds, "as good as all": verdict(bool(score >= every))}
    return found


def _learn(X: list[Any], y: list[Any], quick: bool) -> SequenceLabeler:
    return SequenceLabeler(C=0.1, tol=0.3 if quick else 1e-2, classes=np.arange(26)).fit(X, y)


def _run(
    how: str, X: list[Any], y: list[Any], new: list[Any], truth: list[Any], seed: int, quick: bool
) -> dict[float, tuple[float, float]]:
    """Accuracy, and the share of labelled letters, by the share of words."""
    order, n_letters = np.random.default_rng(seed).permutation(len(X)), sum(map(len, y))
    known = [np.zeros(len(own), dtype=bool) for own in y]
    found: dict[float, tuple[float, float]] = {}
    net: Any = None
    for share in SHARES[:2] if quick else SHARES:
        n = round(share * len(X)) - round((share - SHARES[0]) * len(X))
        if net is None or how == "at random":
            for j in order[: round(share * len(X))]:
                known[j][:] = True
        elif how == "words by query":
            left = [j for j in range(len(X)) if not known[j].any()]
            for k in net.query([X[j] for j in left], n):
                known[left[k]][:] = True
        else:
            budget = round(n * n_letters / len(X))  # letters of as many words
            for j, v in net.query(X, n_letters, unit="node"):
                if budget and not known[j][v]:
                    known[j][v], budget = True, budget - 1
        some = [j for j in range(len(X)) if known[j].any()]
        net = _learn([X[j] for j in some], [np.where(known[j], y[j], None) for j in some], quick)
        found[share] = net.score(new, truth), sum(int(own.sum()) for own in known) / n_letters
    return found
