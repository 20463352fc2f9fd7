"""Hidden states of classes: letters of several styles, digits that share a class, beside one linear score a class."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from maxsum import SequenceLabeler

from .bench_learning import letters
from .measure import NO_DATA, data_folder, verdict

TITLE = "Asked for: hidden states of classes"
DESCRIPTION = """
`n_hidden=` beside one state a class, all else the same, on held-out data. *Letters*: folds 1 to 4 (2812 words) to learn from, the other six to test, C = 0.1, to a relative gap of
2e-2. *Even or odd*: 300 made chains of 6 USPS digits of its training part (drawn at random, so that neighbours say nothing), 500 of its test part, C = 0.1, to 1e-2. *Prime or not*: the same
with counters (after k comes k + 1, or one time in five any digit), so that the next label depends on the digit, not on the class. Targets: a point of accuracy more than with one state, a latent objective that
never rises, the last convex problem to its tolerance.
"""
GAIN = 0.01
Lists = tuple[list[np.ndarray], list[np.ndarray]]


def rows(quick: bool = False) -> list[dict[str, Any]]:
    return _letters(quick) + _digits(quick)


def _letters(quick: bool) -> list[dict[str, Any]]:
    folds = [letters(fold) for fold in range(10)]
    if any(own is None for own in folds):
        return [{"data": "letters", "states a class": NO_DATA}]

    def joined(which: list[int]) -> Lists:
        parts = [folds[k] for k in which]
        X = [sample.X for part in parts if part is not None for sample in part[0]]
        return X, [labels for part in parts if part is not None for labels in part[1]]

    train, test = joined([1, 2, 3, 4]), joined([0, 5, 6, 7, 8, 9])
    if quick:
        train, test = (train[0][:40], train[1][:40]), (test[0][:40], test[1][:40])
    return _compared("letters", train, test, [2], tol=0.3 if quick else 2e-2)


def _digits(quick: bool) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None or not (folder / "usps" / "usps.npz").exists():
        return [{"data": "even or odd", "states a class": NO_DATA}]
    data = np.load(folder / "usps" / "usps.npz")
    n_train, n_test = (20, 20) if quick else (300, 500)
    found = []
    for name, classes, counts, stays in (
        ("even or odd", np.arange(10) % 2, [3, 5], 0.0),
        ("prime or not", np.isin(np.arange(10), (2, 3, 5, 7)).astype(int), [5, {0: 6, 1: 4}], 0.8),
    ):
        rng = np.random.default_rng(0)
        train, test = (
            chains(data[f"X_{part}"], data[f"y_{part}"], classes, n, stays, rng)
            for part, n in (("train", n_train), ("test", n_test))
        )
        found += _compared(name, train, test, counts, tol=0.3 if quick else 1e-2)
    return found


def chains(X: np.ndarray, y: np.ndarray, classes: np.ndarray, n: int, stays: float, rng: np.random.Generator) -> Lists:
    """Chains of six digits, the next one up by 1 with the probability ``stays``, else any; with the classes of digits as labels."""
    places, items, labels = [np.flatnonzero(y == k) for k in range(10)], [], []
    for _ in range(n):
        own = [int(rng.integers(10))]
        while len(own) < 6:
            own.append((own[-1] + 1) % 10 if rng.random() < stays else int(rng.integers(10)))
        items.append(X[[int(rng.choice(places[k])) for k in own]].astype(float))
        labels.append(classes[own])
    return items, labels


def _compared(name: str, train: Lists, test: Lists, counts: list[Any], tol: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for n in [1, *counts]:
        started = time.process_time()
        net = SequenceLabeler(C=0.1, tol=tol, bias=True, n_hidden=n).fit(*train)
        latent = net.result_.extra.get("latent")
        row: dict[str, Any] = {
            "data": name,
            "states a class": str(n),
            "CPU s": time.process_time() - started,
            "accuracy": net.score(*test),
            "training accuracy": net.score(*train),
        }
        if latent is not None:
            row |= {
                "rounds": len(latent) - 1,
                "latent objective, last / first": latent[-1] / latent[0],
                "never rises": verdict(bool((np.diff(latent) <= 0).all())),
                "gap of the last convex problem": net.result_.relative_gap,
                "a point above one state": verdict(row["accuracy"] >= found[0]["accuracy"] + GAIN),
            }
        found.append(row)
    return found
