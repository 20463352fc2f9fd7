"""Small data for a first try: nothing to download, the same for everybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..core.parameters import OneOf, Real, WholeNumber, check_value
from .made.generate import make_noisy_blocks, make_shapes
from .sudoku import read_sudoku

SUBSETS = ("train", "test")
_SUDOKU = Path(__file__).with_name("sudoku.csv")

Images = tuple[list[np.ndarray], list[np.ndarray]]


def check_subset(subset: str, known: tuple[str, ...] = SUBSETS) -> int:
    """The number of a subset among those that exist."""
    check_value("subset", subset, OneOf(*known, wanted=f"one of {', '.join(map(repr, known))}"))
    return known.index(subset)


def load_noisy_blocks(subset: str = "train") -> Images:
    """Images of blocks under noise, for `GridLabeler`: 12 to train, 8 to test, 24 x 24 pixels, 3 labels.

    Parameters
    ----------
    subset : {"train", "test"}

    Returns
    -------
    X : list of ndarray, shape (24, 24, 3)
    y : list of ndarray of int64, shape (24, 24)

    See Also
    --------
    make_noisy_blocks : Others of the kind.
    """
    return make_noisy_blocks((12, 8)[check_subset(subset)], random_state=check_subset(subset))


def load_shapes(subset: str = "train") -> Images:
    """Coloured shapes on a carpet, for `GridLabeler`: 8 images to train, 4 to test, 50 x 50 codes of colours, 6 labels.

    Parameters
    ----------
    subset : {"train", "test"}

    Returns
    -------
    X : list of ndarray of int64, shape (50, 50)
    y : list of ndarray of int64, shape (50, 50)

    See Also
    --------
    make_shapes : Others of the kind.
    """
    return make_shapes((8, 4)[check_subset(subset)], random_state=check_subset(subset))


def load_sudoku(subset: str = "easy") -> Images:
    """Sudoku puzzles with one solution each, made with `make_sudoku`.

    Parameters
    ----------
    subset : {"easy", "hard"}
        25 puzzles with 36 digits, or 25 from which no digit can be taken away, 21 to 27 of them.

    Returns
    -------
    X : list of ndarray of int64, shape (81,)
        Given digits, 0 for a blank.
    y : list of ndarray of int64, shape (81,)
        Digits of the solution, 1 to 9.

    See Also
    --------
    read_sudoku : Puzzles of a file.
    fetch_sudoku : Norvig's puzzles.
    """
    check_subset(subset, ("easy", "hard"))
    return read_sudoku(_SUDOKU, subset)


def load_digits(subset: str = "train", *, length: int = 8, follow: float = 0.8) -> Images:
    r"""Handwritten digits in sequences, for `SequenceLabeler`: the 8 x 8 images that come with scikit-learn.

    Each next digit is that before it plus one (after 9 comes 0) with probability ``follow``, any digit otherwise; images of the
    first 1200 digits are for training, others for tests.

    Parameters
    ----------
    subset : {"train", "test"}
    length : int
        Digits of a sequence.
    follow : float
        0 for digits in no order, 1 for counting.

    Returns
    -------
    X : list of ndarray, shape (length, 64)
        Grey values in [0, 1]; 150 sequences to train, 75 to test.
    y : list of ndarray of int64, shape (length,)
        Digits.
    """
    from sklearn import datasets as theirs

    part = check_subset(subset)
    check_value("length", length, WholeNumber(1, wanted="a whole number, 1 or more"))
    check_value("follow", follow, Real(0.0, at_most=1.0, wanted="a probability"))
    images, digits = theirs.load_digits(return_X_y=True)
    own: Any = slice(None, 1200) if part == 0 else slice(1200, None)
    images, digits = images[own] / 16.0, digits[own]
    random = np.random.default_rng(part)
    by_digit = [np.flatnonzero(digits == digit) for digit in range(10)]
    X, y = [], []
    for _ in range((150, 75)[part]):
        labels = random.integers(10, size=length)
        for i in range(1, length):
            if random.random() < follow:
                labels[i] = (labels[i - 1] + 1) % 10
        X.append(images[[random.choice(by_digit[label]) for label in labels]])
        y.append(labels.astype(np.int64))
    return X, y
