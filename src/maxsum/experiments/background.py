r"""Photographs cut into sky, tree, road, grass, water, building, mountain and object: Jancsary, Nowozin & Rother 2013, §5.4, Table 7.

A random forest scores each pixel; a convex energy with the matting Laplacian :math:`L` of the photograph (form 4) smooths the scores,

.. math:: E(\mu) = -w_p\sum_v \langle p_v, \mu_v\rangle + \tfrac{w_q}2\langle\mu, L\mu\rangle + \tfrac\varepsilon2\|\mu\|^2,

where :math:`p_v` are the forest's probabilities of pixel :math:`v`; the two weights :math:`w_p` and :math:`w_q \ge 0` are learned.
The paper has photographs of the Stanford background dataset; here are those of the MSRC database, with its classes joined to the eight
of that dataset. Their licence forbids to pass them on with this package; `picture` shows them to those who have the data.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import InvalidSampleError, ParseError
from ..core.graph import Graph
from ..estimators.graph import GraphLabeler
from ..models.convex import Convex
from ..models.matting import Matting
from ..models.sample import GraphSample
from . import Claim, Plot, Progress, Report, data_folder
from .images.segmentation import FILE, SOURCE, draw

LABELS = ("sky", "tree", "road", "grass", "water", "building", "mountain", "object")
FIELDS = ("ids", "size", "image", "label", "class_names", "split")
PUBLISHED = {"forest": 30.62, 2: 28.90, 4: 28.70, 16: 28.42}
PUBLISHED_LOGISTIC = {2: 29.11, 4: 29.23, 16: 30.69}
PUBLISHED_SECONDS = {2: 1.3, 4: 1.2, 16: 0.9}
RADII = (2, 4, 16)
NAMES = {"qp": "QP-M3N", "logistic": "LRF"}
STEP = 1  # every pixel
QUICK_STEP = 3  # every third row and column in a quick run
N_FOLDS = 5  # as in the paper
N_TRAIN = 8  # photographs of a fold for the energies
N_TEST = 20  # photographs of the test of a fold
SECONDS = 20.0  # of a training, the same for QP-M3N and LRF
N_QUICK = 6  # photographs of each kind in a quick run
N_TREES = 50  # trees of the forest
N_PIXELS = 200  # pixels of a photograph that it learns from
C = 1.0 / N_TRAIN
TOL = 1e-2  # relative gap of a training
MAX_ITER = 30  # and its iterations at most
QUICK_ITER = 2  # the same of the random field in a quick run, whose linear systems take long
RIDGE = 1e-2  # curvature that every node has
EPSILON = 1e-3  # regularisation inside the matting Laplacian
MAX_RATIO = 1.1  # of inference times at radius 16 and 2 that still counts as no growth
_VOID = 255  # label of pixels without a class
_SCALES = (5, 15, 31)  # widths of the windows that features are averaged over
_COLOURS = np.array(
    [
        (150, 200, 240),
        (40, 110, 50),
        (120, 120, 120),
        (120, 190, 90),
        (50, 90, 180),
        (170, 80, 70),
        (140, 110, 80),
        (240, 180, 50),
    ],
    dtype=np.uint8,
)
_WORDS = ("light blue", "dark green", "grey", "light green", "blue", "red", "brown", "orange")


class Photograph(NamedTuple):
    """Colours (height, width, 3) in [0, 1], and the numbers in `LABELS` of the pixels, -1 for void."""

    name: str
    x: np.ndarray
    y: np.ndarray


class Scored(NamedTuple):
    """A photograph with the forest's probabilities (height, width, 8)."""

    one: Photograph
    scores: np.ndarray


class Tested(NamedTuple):
    """One training: wrong pixels in percent, seconds of training, CPU seconds of inference an image, and what was said."""

    error: float
    train: float
    seconds: float
    gap: float
    labels: list[np.ndarray]


def load(step: int = STEP) -> tuple[list[Photograph], list[Photograph]]:
    """Photographs to train and to test, every ``step``-th pixel, from the folder that ``MAXSUM_DATA`` names."""
    path = data_folder("msrc_v2", (FILE,), SOURCE) / FILE
    with np.load(path) as file:
        missing = [name for name in FIELDS if name not in file]
        if missing:
            raise ParseError(f"{missing[0]} is missing, wanted {', '.join(FIELDS)}.", str(path))
        ids, size, pixels, labels, names, split = (np.asarray(file[name]) for name in FIELDS)
    number = np.full(256, LABELS.index("object"))
    for i, name in enumerate(names.tolist()):
        if name in LABELS:
            number[i] = LABELS.index(name)
    number[_VOID] = -1
    ptr = np.concatenate([[0], np.cumsum(size[:, 0].astype(np.int64) * size[:, 1])])
    found: tuple[list[Photograph], list[Photograph]] = ([], [])
    for i, (height, width) in enumerate(size.tolist()):
        y = number[labels[ptr[i] : ptr[i + 1]].reshape(height, width)[::step, ::step]]
        x = pixels[3 * ptr[i] : 3 * ptr[i + 1]].reshape(height, width, 3)[::step, ::step] / 255.0
        if (y >= 0).any():
            found[int(split[i])].append(Photograph(str(ids[i]), x, y))
    return found


def describe(x: np.ndarray) -> np.ndarray:
    """What the forest sees of each pixel: colour, place, and means, spreads and gradients of windows around it."""
    from scipy import ndimage

    height, width = x.shape[:2]
    row, column = np.mgrid[:height, :width]
    found = [x, row[..., None] / height, np.abs(column[..., None] / width - 0.5)]
    grey = x.mean(axis=2)
    across, down = ndimage.sobel(grey, 1), ndimage.sobel(grey, 0)
    edges = np.stack([np.hypot(across, down), np.abs(across), np.abs(down)], axis=2)
    for size in _SCALES:
        mean, square, steep = (ndimage.uniform_filter(a, (size, size, 1), mode="nearest") for a in (x, x**2, edges))
        found += [mean, np.sqrt(np.maximum(square - mean**2, 0.0)), steep]
    return np.concatenate(found, axis=2).astype(np.float32)


def forest(photographs: Sequence[Photograph], n_trees: int = N_TREES) -> Any:
    """A random forest on some labelled pixels of each photograph."""
    from sklearn.ensemble import RandomForestClassifier

    random = np.random.default_rng(0)
    x, y = [], []
    for one in photographs:
        known = np.flatnonzero(one.y.ravel() >= 0)
        some = random.choice(known, min(len(known), N_PIXELS), replace=False)
        x.append(describe(one.x).reshape(one.y.size, -1)[some])
        y.append(one.y.ravel()[some])
    trees = RandomForestClassifier(n_trees, min_samples_leaf=5, n_jobs=-1, random_state=0)
    return trees.fit(np.concatenate(x), np.concatenate(y))


def score(trees: Any, photographs: Sequence[Photograph]) -> list[Scored]:
    """Probabilities of all labels."""
    found = []
    for one in photographs:
        scores = np.zeros((one.y.size, len(LABELS)))
        scores[:, trees.classes_] = trees.predict_proba(describe(one.x).reshape(one.y.size, -1))
        found.append(Scored(one, scores.reshape(*one.y.shape, -1)))
    return found


def filled(y: np.ndarray) -> np.ndarray:
    """Labels with those of the nearest pixel where there are none."""
    from scipy import ndimage

    nearest = ndimage.distance_transform_edt(y < 0, return_distances=False, return_indices=True)
    return np.asarray(y[tuple(nearest)])


def error(labels: Sequence[np.ndarray], photographs: Sequence[Photograph]) -> float:
    """Wrong pixels of a photograph in percent of those that have a label, mean over photographs."""
    wrong = [(own != one.y)[one.y >= 0].mean() for own, one in zip(labels, photographs, strict=True)]
    return 100 * float(np.mean(wrong))


def classifier(radius: int, surrogate: str = "qp", max_iter: int = MAX_ITER) -> GraphLabeler:
    """An untrained classifier of scores and colours, with one weight for all scores and none for the colours."""
    n = len(LABELS)
    tie = np.full((n + 3, n), -1)
    np.fill_diagonal(tie, 0)
    potentials: Any = Convex("none", ridge=RIDGE, linear=False, operators=Matting(radius, EPSILON, n + np.arange(3)))
    return GraphLabeler(
        potentials, surrogate, C=C, tol=TOL, max_iter=max_iter, time_limit=SECONDS, classes=np.arange(n), tie=tie, n_jobs=-1
    )


def inputs(scored: Sequence[Scored]) -> list[GraphSample]:
    """Scores and colours on the pixels; void ones have no loss."""
    found = []
    for own in scored:
        shape = own.one.y.shape
        graph = Graph(own.one.y.size, np.zeros((0, 2), dtype=np.int32), np.zeros(0, dtype=np.int32), shape=shape)
        known = (own.one.y >= 0).ravel().astype(np.float64)
        found.append(GraphSample(np.concatenate([own.scores, own.one.x], axis=2), graph, node_weights=known))
    return found


def measure(radius: int, surrogate: str, train: Sequence[Scored], tests: Sequence[Scored], max_iter: int = MAX_ITER) -> Tested:
    """Train at a radius, and label the test photographs one by one on one thread."""
    net, started = classifier(radius, surrogate, max_iter), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net.fit(inputs(train), [filled(own.one.y) for own in train])
    taken, given = time.perf_counter() - started, inputs(tests)
    net.set_params(n_jobs=1)
    labels, started = [], time.process_time()
    for sample in given:
        labels += net.predict([sample])
    seconds = (time.process_time() - started) / len(given)
    return Tested(error(labels, [own.one for own in tests]), taken, seconds, net.result_.relative_gap, labels)


def prepare(quick: bool, progress: Progress, fold: int | None = None) -> tuple[list[Scored], list[Scored]]:
    """Photographs with scores: to train those of a forest that has not seen them, to test those of a forest of all others.

    Parameters
    ----------
    quick : bool
    progress : callable
    fold : int, optional
        Which fold of all photographs is the test; by default the database's own test half.
    """
    train, tests = load(QUICK_STEP if quick else STEP)
    random, size = np.random.default_rng(0), 2 * max(RADII) + 1
    if fold is not None:
        every = [*train, *tests]
        parts = np.array_split(random.permutation(len(every)), N_FOLDS)
        tests = [every[i] for i in parts[fold]]
        train = [every[i] for which, part in enumerate(parts) if which != fold for i in part]
    n_forest, n_train, n_test = (4 * N_QUICK, N_QUICK, N_QUICK) if quick else (len(train), N_TRAIN, N_TEST)
    if len(train) < 2 * N_QUICK or not tests:
        raise InvalidSampleError(
            f"there are {len(train)} photographs to train, wanted {2 * N_QUICK} or more, and some to test."
        )
    order = [train[i] for i in random.permutation(len(train))[:n_forest]]
    left = [tests[i] for i in random.permutation(len(tests)) if min(tests[i].y.shape) >= size][:n_test]
    own = [one for one in order if min(one.y.shape) >= size][:n_train]
    names = {one.name for one in own}
    apart = forest([one for one in order if one.name not in names], 10 if quick else N_TREES)
    whole = forest(order, 10 if quick else N_TREES)
    progress(f"forests trained on {len(order) - len(own)} and {len(order)} photographs")
    return score(apart, own), score(whole, left)


class Row(NamedTuple):
    """A model at a radius over the folds: wrong pixels and the forest's wrong pixels in each, and the trainings."""

    errors: np.ndarray
    base: np.ndarray
    runs: list[Tested]

    @property
    def gain(self) -> str:
        """Points below the forest: the mean, with the standard error over folds where there are several."""
        own = self.base - self.errors
        return f"{own.mean():+.2f}" + (f" +- {own.std(ddof=1) / np.sqrt(len(own)):.2f}" if len(own) > 1 else "")


def run(quick: bool, progress: Progress) -> Report:
    """The forest, and the QP relaxation and the logistic random field at each radius, on each fold; quick: one, smaller."""
    started = time.perf_counter()
    keys = [(surrogate, radius) for surrogate in NAMES for radius in RADII]
    runs: dict[tuple[str, int], list[Tested]] = {key: [] for key in keys}
    base: list[float] = []
    for fold in [None] if quick else range(N_FOLDS):
        train, tests = prepare(quick, progress, fold)
        left = [own.one for own in tests]
        base.append(error([own.scores.argmax(axis=2) for own in tests], left))
        for surrogate, radius in keys:
            most = QUICK_ITER if quick and surrogate != "qp" else MAX_ITER
            own = measure(radius, surrogate, train, tests, most)
            runs[surrogate, radius].append(own)
            progress(
                f"{NAMES[surrogate]}, r = {radius}: {own.error:.2f} % (forest {base[-1]:.2f} %), {own.train:.0f} s, {own.seconds:.2f} s/image"
            )
    cells = {key: Row(np.array([own.error for own in found]), np.array(base), found) for key, found in runs.items()}
    return _report(cells, quick, (len(train), len(tests)), left[0].y.shape, time.perf_counter() - started)


def _report(
    cells: dict[tuple[str, int], Row], quick: bool, sizes: tuple[int, int], shape: tuple[int, ...], whole: float
) -> Report:
    forest_error = float(next(iter(cells.values())).base.mean())
    seconds = {key: float(np.mean([own.seconds for own in row.runs])) for key, row in cells.items()}
    ratio = seconds["qp", 16] / seconds["qp", 2]
    claims = [Claim("wrong pixels, random forest", "", f"{forest_error:.2f} %")]
    for (surrogate, radius), row in cells.items():
        judged, wrong = surrogate == "qp", float(row.errors.mean())
        claims.append(
            Claim(
                f"wrong pixels, {NAMES[surrogate]}, r = {radius}",
                "",
                f"{wrong:.2f} %",
                wrong < forest_error if judged and not quick else None,
                "below the forest" if judged else "",
            )
        )
    for surrogate, name in NAMES.items():
        gains = ", ".join(f"{cells[surrogate, radius].gain}" for radius in RADII)
        claims.append(Claim(f"points below the forest, {name}, r = {', '.join(map(str, RADII))}", "", gains))
    claims += [
        Claim("time of inference, r = 16 over r = 2", "", f"{ratio:.2f}", None if quick else ratio <= MAX_RATIO, f"at most {MAX_RATIO}"),
        Claim("time of a training", "", f"{max(own.train for row in cells.values() for own in row.runs):.0f} s at most"),
        Claim("time of all", "", f"{whole:.0f} s"),
    ]  # fmt: skip
    rows = []
    for (surrogate, radius), row in cells.items():
        gap = max(own.gap for own in row.runs)
        rows.append(
            (
                NAMES[surrogate], radius, f"{row.errors.mean():.2f}", row.gain, f"{np.mean([own.train for own in row.runs]):.0f}",
                f"{seconds[surrogate, radius]:.3f}", f"{gap:.1e}" if np.isfinite(gap) else "not convex",
            )
        )  # fmt: skip
    height, width = shape
    n_train, n_test = sizes
    split = (
        "One split, the database's own halves, drawn from with seed 0."
        if quick
        else f"{N_FOLDS} folds of all photographs of the database (permuted with seed 0); of each {n_test} photographs are tested, with a forest of "
        "all others, the same for all models."
    )
    return Report(
        "background",
        "Jancsary, Nowozin & Rother 2013, section 5.4, Table 7",
        "Photographs cut into backgrounds and objects: forest scores smoothed by the matting Laplacian",
        tuple(claims),
        ("model", "r", "wrong pixels %", "points below the forest", "seconds of training", "CPU s/image", "gap"),
        tuple(rows),
        (
            split + " Gains are means and standard errors over folds; whether they grow with r is to be read from them.",
            "Scores of training photographs come from a forest that has not seen them. Void pixels have the label of the nearest "
            "pixel that has one in training, where their loss is 0, and are not counted in the test.",
            f"Equal budgets: training stops at a relative gap of {TOL:g}, after {MAX_ITER} iterations or {SECONDS:g} s; C = {C:.3g}. The LRF is not convex "
            "and has no gap. The gap is the largest of the folds. CPU seconds an image are those of the energies; the forest's scores are made before.",
        ),
        f"photographs of the MSRC database, its classes joined to the eight of the paper, {height} x {width} pixels, {n_train} to train the "
        f"energies and {n_test} to test in a fold. The paper has 715 photographs of the Stanford background dataset, 320 x 240, five folds: forest "
        f"{PUBLISHED['forest']} %, QP-M3N {', '.join(f'{PUBLISHED[r]} % (r = {r})' for r in RADII)}, LRF "
        f"{', '.join(f'{PUBLISHED_LOGISTIC[r]} %' for r in RADII)}, seconds an image {', '.join(str(PUBLISHED_SECONDS[r]) for r in RADII)}, 2 h for a "
        "training; there the gain of QP-M3N grows with r. Errors can be compared with each other, not with the published ones.",
        (
            Plot(
                "Points below the forest by the radius of the matting Laplacian", "r", "points",
                {
                    name: (list(RADII), [float((cells[surrogate, r].base - cells[surrogate, r].errors).mean()) for r in RADII])
                    for surrogate, name in NAMES.items()
                },
            ),
        ),
    )  # fmt: skip


def picture(path: str | os.PathLike[str], photographs: bool = False, quick: bool = False, n_images: int = 4) -> None:
    """Draw what forest and energies at two radii say of test photographs.

    Parameters
    ----------
    path : path-like
        Where to write it, ``.png``.
    photographs : bool
        Draw photographs and true labels too; their licence forbids to pass them on with this package.
    quick : bool
        Fewer and smaller photographs.
    n_images : int
        How many of them: those of most different labels.
    """
    train, tests = prepare(quick, lambda line: None)
    tests = sorted(tests, key=lambda own: -len(np.unique(own.one.y)))[:n_images]
    found = {radius: measure(radius, "qp", train, tests).labels for radius in (RADII[0], RADII[-1])}
    rows = []
    for i, own in enumerate(tests):
        one, base = own.one, own.scores.argmax(axis=2)
        truth = np.where(one.y[..., None] < 0, 255, _COLOURS[one.y]).astype(np.uint8)
        row: list[Any] = [("image", one.x), ("truth", truth)] if photographs else []
        row.append((f"forest: {error([base], [one]):.1f} %", _COLOURS[base]))
        row += [(f"QP, r = {radius}: {error([own[i]], [one]):.1f} %", _COLOURS[own[i]]) for radius, own in found.items()]
        rows.append(row)
    share = np.bincount(np.concatenate([own.scores.argmax(axis=2).ravel() for own in tests]), minlength=len(LABELS))
    shown = np.flatnonzero(share > 0.01 * share.sum())
    draw(path, rows, ", ".join(f"{LABELS[k]} {_WORDS[k]}" for k in shown))
