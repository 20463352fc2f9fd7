"""Defaults: ten data sets by the default model, and by the same model with C chosen by cross-validation."""

from __future__ import annotations

import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from scipy import sparse

from maxsum import GraphLabeler, GraphSample, GridLabeler, MultiLabelClassifier, SequenceLabeler, estimators
from maxsum.datasets import make_noisy_blocks, make_shapes
from maxsum.experiments import MissingDataError, chunking, handwritten_sudoku, letters, multilabel, webkb
from maxsum.experiments.images import segmentation

from .bench_learning import images
from .measure import NO_DATA, data_folder, verdict

TITLE = "Defaults"
DESCRIPTION = """
What a user gets who sets nothing, on ten data sets. *Default*: the estimator as it is made, `C` included. *Chosen*: the same with `C` by cross-validation
among 0.01, 0.03, 0.1, 0.3, 1 and 3 on the training part (*folds*; 1 is one held-out third, where more would take long), trainings in folds to a
relative gap of 1e-2. Errors are wrong labels of the test part in percent; *trivial* is the most frequent class of the training part (each label's more
frequent value, for label sets). *Classes* are those that the default model predicts on the test part, of those that are there. A training ends at the
default gap of 1e-3, or after 100 s. Targets: error of the default at most 1.15 times that of the chosen one on 8 of 10, and never the trivial answer.
`C` weighs the sum of the slacks, and the loss is summed over the nodes of an example.

*Validation errors by C* are of the held-out folds; a default is chosen by these, not by test errors. *Potentials*: test errors at the default `C` on graphs
with cycles (of the first split), to a gap of 1e-2 or for 60 s; *auto is* what `potentials="auto"` takes. Two data sets run at a time.
"""
VALUES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
QUICK_VALUES = (0.1, 1.0)
MOST, WANTED = 1.15, 8
N_QUICK = 20
SECONDS = 100.0
KIND_SECONDS = 60.0
QUICK_SECONDS = 0.2
FOLD_GAP = 1e-2


class Part(NamedTuple):
    """What an estimator is given, and the labels."""

    X: Any
    y: Any

    def take(self, which: np.ndarray) -> Part:
        """Some of the samples."""
        if isinstance(self.X, list):
            return Part([self.X[i] for i in which], [self.y[i] for i in which])
        return Part(self.X[which], self.y[which])

    def every(self, limit: int) -> Part:
        """About ``limit`` samples at equal distances."""
        return self.take(np.arange(0, len(self.y), max(1, len(self.y) // limit)))

    @property
    def labels(self) -> np.ndarray:
        """Labels of all nodes, one after the other; of label sets a row each."""
        return np.concatenate([np.ravel(own) for own in self.y]) if isinstance(self.y, list) else self.y


@dataclass(frozen=True)
class Task:
    """A data set: pairs of training and test part (several for several splits), and the estimator with what it must be told."""

    name: str
    what: str
    estimator: type
    splits: list[tuple[Part, Part]]
    n_folds: int = 3
    options: dict[str, Any] = field(default_factory=dict)

    def folds(self, train: Part) -> Any:
        """What an estimator with cross-validation takes as ``cv``."""
        if self.n_folds > 1:
            return self.n_folds
        order = np.random.default_rng(0).permutation(len(train.y))
        cut = max(1, len(order) // 3)
        return [(np.sort(order[cut:]), np.sort(order[:cut]))]


class Row(NamedTuple):
    """What was measured on one data set, means over its splits."""

    name: str
    what: str
    n_folds: int
    C: float
    chosen: list[float]
    error: float
    chosen_error: float
    trivial: float
    n_classes: tuple[int, int]
    gap: float
    validation: np.ndarray
    seconds: float


def error(predicted: Any, part: Part) -> float:
    """Wrong labels in percent."""
    return float(100 * (Part(None, predicted).labels != part.labels).mean())


def trivial(train: Part, test: Part) -> np.ndarray:
    """The most frequent class for each test label, or each label's more frequent value."""
    known, new = train.labels, test.labels
    if known.ndim == 2:
        return np.broadcast_to(known.mean(axis=0) > 0.5, new.shape)
    values, counts = np.unique(known, return_counts=True)
    return np.full(new.shape, values[counts.argmax()])


def _letters(quick: bool) -> Task:
    words = letters.load()
    train, test = Part(*words.of(words.folds == 1)), Part(*words.of(words.folds != 1))
    if quick:
        train, test = train.every(N_QUICK), test.every(N_QUICK)
    return Task("letters", f"{len(train.y)} words, {len(test.y)} to test", SequenceLabeler, [(train, test)])


def _chunking(quick: bool) -> Task:
    train, test = (Part(own.X, own.y) for own in chunking.load(N_QUICK if quick else 4000))
    return Task("CoNLL-2000", f"the first {len(train.y)} sentences, {len(test.y)} to test", SequenceLabeler, [(train, test)], 1)


def _label_sets(name: str) -> Callable[[bool], Task]:
    def load(quick: bool) -> Task:
        data = multilabel.load(name)
        train, test = Part(data.X_train, data.y_train), Part(data.X_test, data.y_test)
        if quick:
            train, test = train.every(N_QUICK), test.every(N_QUICK)
        what = f"{len(train.y)} samples, {len(test.y)} to test, {train.y.shape[1]} labels"
        return Task(name.capitalize(), what, MultiLabelClassifier, [(train, test)], 3 if name == "scene" else 1)

    return load


def _digits(quick: bool) -> Task:
    folder = handwritten_sudoku.data_folder("usps", (handwritten_sudoku.FILE,), handwritten_sudoku.SOURCE)
    with np.load(folder / handwritten_sudoku.FILE) as file:
        parts = [
            Part(np.asarray(file[f"X_{own}"], dtype=np.float64), np.asarray(file[f"y_{own}"])) for own in ("train", "test")
        ]
    train, test = parts[0].every(N_QUICK if quick else 2000), parts[1]
    return Task("USPS digits", f"every third, {len(train.y)}, {len(test.y)} to test", MultiLabelClassifier, [(train, test)])


def _schools(quick: bool) -> Task:
    schools = [(own.samples["links"], own.y) for own in webkb.load(("links",)).values()]
    schools = [(GraphSample(sparse.csr_array(x.X), x.graph, x.edge_features), y) for x, y in schools]
    splits = []
    for i, test in enumerate(schools):
        rest = schools[:i] + schools[i + 1 :]
        splits.append((Part([own[0] for own in rest], [own[1] for own in rest]), Part([test[0]], [test[1]])))
    options = {"classes": np.unique(np.concatenate([y for _, y in schools])).tolist()}
    what = "three schools, words scaled to length one, links; the other to test, four times"
    return Task("WebKB", what, GraphLabeler, splits[: 1 if quick else 4], 1, options)


def _photographs(potentials: str) -> Callable[[bool], Task]:
    def load(quick: bool) -> Task:
        step = 8 if quick else 2
        parts = segmentation.split_images(segmentation.load(), 0, False)
        first, second, test = (Part([o.x[::step, ::step] for o in own], [o.y[::step, ::step] for o in own]) for own in parts)
        train = Part(first.X + second.X, first.y + second.y).take(np.arange(4 if quick else 19))
        height, width = train.y[0].shape
        what = f"{len(train.y)} images of {height}×{width} (every second row and column), {len(test.y)} to test"
        return Task(f"MSRC, {potentials}", what, GridLabeler, [(train, test)], 1, {"potentials": potentials})

    return load


def _shapes(quick: bool) -> Task:
    n, side = (3, 12) if quick else (10, 50)
    train, test = (Part(*make_shapes(n, side, side, random_state=seed)) for seed in (0, 1))
    return Task("made shapes", f"{n} images of {side}×{side}, {n} to test", GridLabeler, [(train, test)])


def _grids(quick: bool) -> Task:
    n = 3 if quick else 40
    train, test = (Part(*images(n, seed)) for seed in (0, 1))
    return Task("noisy grids", f"{n} images of 16×24, {n} to test", GraphLabeler, [(train, test)])


def _cows(quick: bool) -> Task:
    task = _photographs("general")(quick)
    pairs = [tuple(Part(part.X, [(own == 0).astype(int) for own in part.y]) for part in pair) for pair in task.splits]
    return Task("MSRC, cow or not", task.what, GridLabeler, [(train, test) for train, test in pairs])


def _blocks(quick: bool) -> Task:
    n = 3 if quick else 12
    train, test = (Part(*make_noisy_blocks(n, n_labels=2, random_state=seed)) for seed in (0, 1))
    return Task("noisy blocks, 2 labels", f"{n} images of 24×24, {n} to test", GridLabeler, [(train, test)])


Load = Callable[[bool], Task]
TASKS: dict[str, Load] = {
    "letters": _letters,
    "chunking": _chunking,
    "scene": _label_sets("scene"),
    "yeast": _label_sets("yeast"),
    "digits": _digits,
    "schools": _schools,
    "general": _photographs("general"),
    "supermodular": _photographs("supermodular"),
    "shapes": _shapes,
    "grids": _grids,
}
LOOPY: dict[str, Load] = {"cows": _cows, "blocks": _blocks} | {
    name: TASKS[name] for name in ("scene", "schools", "general", "shapes", "grids")
}
KINDS = ("general", "supermodular", "associative")
FIRST = "The default model beside that of a chosen C"


def measure(task: Task, quick: bool) -> Row:
    """The default and the chosen model on all splits of a data set."""
    limit = QUICK_SECONDS if quick else SECONDS
    values = QUICK_VALUES if quick else VALUES
    folded: Any = getattr(estimators, f"{task.estimator.__name__}CV")
    found, started = [], time.perf_counter()
    for train, test in task.splits:
        plain = task.estimator(time_limit=limit, **task.options).fit(train.X, train.y)
        chosen = folded(Cs=values, cv=task.folds(train), cv_tol=FOLD_GAP, time_limit=limit, **task.options).fit(
            train.X, train.y
        )
        said = plain.predict(test.X)
        classes = tuple(len(np.unique(own, axis=0)) for own in (Part(None, said).labels, test.labels))
        found.append(
            (
                error(said, test),
                error(chosen.predict(test.X), test),
                float(100 * (trivial(train, test) != test.labels).mean()),
                plain.result_.relative_gap,
                100 * (1 - np.nanmean(chosen.scores_, axis=1)),
                chosen.C_,
                classes,
            )
        )
    errors, chosen_errors, trivials, gaps, validation, Cs, classes = zip(*found, strict=True)
    return Row(
        task.name,
        task.what,
        task.n_folds,
        plain.C,
        sorted(set(Cs)),
        float(np.mean(errors)),
        float(np.mean(chosen_errors)),
        float(np.mean(trivials)),
        min(classes),
        max(gaps),
        np.mean(validation, axis=0),
        time.perf_counter() - started,
    )


def potentials(task: Task, quick: bool) -> dict[str, Any]:
    """Test errors of allowed tables at the default C, and which of them auto takes."""
    found: dict[str, Any] = {"table": "Potentials: test error in percent at the default C", "data": task.name}
    limit = QUICK_SECONDS if quick else KIND_SECONDS
    train, test = task.splits[0]
    kinds, gaps = {}, []
    for name in KINDS:
        options = {**task.options, "potentials": name, "tol": FOLD_GAP, "time_limit": limit}
        net = task.estimator(**options).fit(train.X, train.y)
        found[name], kinds[_cone(net)] = error(net.predict(test.X), test), name
        gaps.append(net.result_.relative_gap)
    options = {**task.options, "potentials": "auto", "max_iter": 1}
    found["auto is"] = kinds[_cone(task.estimator(**options).fit(train.X, train.y))]
    return found | {"largest gap": max(gaps)}


def _cone(net: Any) -> tuple[int, int, int]:
    """What tells kinds of potentials apart: numbers of weights, of those that are not negative, and of supermodular tables."""
    cone = net.model_.cone
    return cone.n_weights, int(cone.nonneg.sum()), len(cone.tables)


def run(job: tuple[str, str, bool]) -> Any:
    """One row of a table, or why there is none."""
    what, name, quick = job
    warnings.simplefilter("ignore")
    try:
        task = (TASKS | LOOPY)[name](quick)
    except MissingDataError as fault:
        return f"skipped: {fault}"
    return measure(task, quick) if what == "C" else potentials(task, quick)


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"table": FIRST, "data": NO_DATA}]
    loopy = ("blocks", "scene") if quick else LOOPY
    jobs = [("C", name, quick) for name in TASKS] + [("potentials", name, quick) for name in loopy]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)), warnings.catch_warnings():
        if quick:
            results = list(map(run, jobs))
        else:
            with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
                results = list(pool.map(run, jobs))
    skipped = [{"table": FIRST, "data": own} for own in results if isinstance(own, str)]
    found = [own for own in results if isinstance(own, Row)]
    tables = [own for own in results if isinstance(own, dict)]
    return [*map(_shown, found), *skipped, *_targets(found), *(_by_C(row, quick) for row in found), *tables]


def _is_good(row: Row) -> bool:
    return row.error <= MOST * row.chosen_error


def _is_trivial(row: Row) -> bool:
    return row.n_classes[0] < 2 or row.error >= row.trivial


def _shown(row: Row) -> dict[str, Any]:
    return {
        "table": FIRST,
        "data": row.name,
        "samples": row.what,
        "C": row.C,
        "chosen C": ", ".join(f"{own:g}" for own in row.chosen),
        "folds": row.n_folds,
        "error": row.error,
        "chosen": row.chosen_error,
        "ratio": row.error / row.chosen_error if row.chosen_error else None,
        "trivial": row.trivial,
        "classes": f"{row.n_classes[0]} of {row.n_classes[1]}",
        "gap": row.gap,
        "s": row.seconds,
        "verdict": verdict(_is_good(row) and not _is_trivial(row)),
    }


def _targets(found: list[Row]) -> list[dict[str, Any]]:
    good, bare = sum(map(_is_good, found)), [row.name for row in found if _is_trivial(row)]
    table = "Targets"
    return [
        {"table": table, "target": f"error at most {MOST:g} times that of the chosen C", "wanted": f"{WANTED} of 10",
         "found": f"{good} of {len(found)}", "verdict": verdict(good >= WANTED)},
        {"table": table, "target": "the trivial answer", "wanted": "never", "found": ", ".join(bare) or "never", "verdict": verdict(not bare)},
    ]  # fmt: skip


def _by_C(row: Row, quick: bool) -> dict[str, Any]:
    errors = {f"C = {C:g}": float(own) for C, own in zip(QUICK_VALUES if quick else VALUES, row.validation, strict=True)}
    return {"table": "Validation errors by C, in percent", "data": row.name, **errors}
