"""Segmentation of made images: Franc & Savchynskyy 2008, §7.1, Table 1, in the place of its rows Shape-Sorter and Landscape.

Their photographs are not public; `make_shape_sorter` and `make_landscape` make images like them, of the same sizes and split as they were.
The classifiers, their features (red, green, blue) and the choice of C by validation are those of `segmentation`.
"""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np

from ...datasets.made.landscape import make_landscape
from ...datasets.made.shape_sorter import make_shape_sorter
from .. import Claim, Plot, Progress, Report
from .segmentation import KINDS, NAMES, PUBLISHED, TOL, Image, Trained, choose, classifier, test

SETS = {"Shape-Sorter": 6, "Landscape": 3}
"""Data sets of the paper, and their numbers of labels."""
WINDOW = (70, 120)  # size of a part of the landscape
N_WINDOWS = (5, 4, 11)  # parts that train, validate and test
PIECES = ((14, 100), (4, 200), (4, 200))  # images and sides of those that train, validate and test
QUICK_STEP = 5  # every fifth row and column in a quick run
C_VALUES = (1e-3, 0.01, 0.1, 1.0, 10.0)
QUICK_C = (0.01, 0.1)
MAX_SECONDS = 60.0  # of a training

Split = tuple[list[Image], list[Image], list[Image]]


def load(name: str, quick: bool) -> Split:
    """Images that train, validate and test."""
    if name == "Shape-Sorter":
        made = [make_shape_sorter(n, side, side, i) for i, (n, side) in enumerate(PIECES)]
    else:
        made = windows(*make_landscape(random_state=0))
    step = QUICK_STEP if quick else 1
    parts = [[Image(name, x[::step, ::step] / 255.0, y[::step, ::step]) for x, y in zip(*one, strict=True)] for one in made]
    return parts[0], parts[1], parts[2]


def windows(image: np.ndarray, labels: np.ndarray) -> list[tuple[list[np.ndarray], list[np.ndarray]]]:
    """Parts of an image that do not overlap, drawn at random (seed 0) to train, validate and test."""
    (height, width), size = WINDOW, labels.shape
    places = [
        (slice(i, i + height), slice(j, j + width))
        for i in range(0, size[0] - height + 1, height)
        for j in range(0, size[1] - width + 1, width)
    ]
    order = np.random.default_rng(0).permutation(len(places))
    ends = np.cumsum((0, *N_WINDOWS))
    return [([image[places[k]] for k in order[a:b]], [labels[places[k]] for k in order[a:b]]) for a, b in pairwise(ends)]


def run(quick: bool, progress: Progress) -> Report:
    """Two data sets, three classifiers, C by validation."""
    started = time.perf_counter()
    values = QUICK_C if quick else C_VALUES
    claims, rows, curves = list[Claim](), list[tuple[str, ...]](), {}
    for data, n_labels in SETS.items():
        train, validation, left = load(data, quick)
        errors = {}
        for kind in KINDS:
            best, every = choose(classifier(kind, n_labels, MAX_SECONDS), kind, train, validation, values)
            found = test(best.model, kind, left)
            errors[kind] = found.error
            curves[f"{data}, {NAMES[kind]}"] = (sorted(values), [one.error for one in every])
            rows += [(data, NAMES[kind], *_words(one)) for one in every if one is not best]
            rows.append((data, NAMES[kind], *_words(best)[:-2], f"{found.error:.2f}", f"{found.optimal} of {len(left)}"))
            claims.append(Claim(f"{data} (made), wrong pixels, {NAMES[kind]}", "", f"{found.error:.2f} %"))
            progress(f"{data}, {NAMES[kind]}: C = {best.C:g}, {found.error:.2f} %")
        better = max(errors["general"], errors["supermodular"]) < errors["svm"]
        claims.append(
            Claim(
                f"{data} (made): general and supermodular below the SVM",
                "",
                "yes" if better else "no",
                None if quick else better,
                "as in the paper's Table 1",
            )
        )
    claims.append(Claim("time of all", "", f"{time.perf_counter() - started:.0f} s"))
    return Report(
        "made-images",
        "Franc & Savchynskyy 2008, section 7.1, Table 1 (in the place of Shape-Sorter and Landscape)",
        "Made images of a puzzle and of a landscape, cut by colours and neighbours",
        tuple(claims),
        ("data", "classifier", "C", "gap", "seconds", "validation %", "test %", "optimal"),
        tuple(rows),
        (
            "Shape-Sorter: seeds 0, 1, 2 train (14 images of 100 x 100), validate and test (4 of 200 x 200 each). Landscape: one image of 280 x 600 (seed 0), "
            "cut into 20 windows of 70 x 120, drawn at random (seed 0) to train (5), validate (4) and test (11). C by validation; the test images "
            "label once, with the chosen C: rows with a test error.",
            "Colours are in [0, 1] and there is no bias, as in the paper; labels of the puzzle are carpet and five pieces, of the landscape sky, border "
            "line, ground, in these orders.",
            f"A training ends at the gap of {TOL:g} or after {MAX_SECONDS:g} s.",
        ),
        "made images. The paper has photographs that are not public, and "
        + "; ".join(f"{data}: {', '.join(f'{NAMES[kind]} {PUBLISHED[kind][data]} %' for kind in KINDS)}" for data in SETS)
        + " of pixels wrong. Errors can be compared with each other, not with the published ones.",
        (Plot("Wrong pixels of validation images", "C", "%", curves),),
    )


def _words(one: Trained) -> tuple[str, ...]:
    return f"{one.C:g}", f"{one.gap:.1e}", f"{one.seconds:.0f}", f"{one.error:.2f}", "", ""
