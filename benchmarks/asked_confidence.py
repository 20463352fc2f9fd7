"""Sets of labels with guaranteed coverage: how often they hold the truth, and how large they are, beside those of a classifier without edges."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from maxsum import Graph, GraphLabeler, GraphSample, SequenceLabeler
from maxsum.calibration import threshold
from maxsum.experiments import MissingDataError, chunking, letters

from .measure import NO_DATA, data_folder, verdict

TITLE = "Asked for: sets of labels with guaranteed coverage"
DESCRIPTION = """
Letters: fold 0 to learn from (626 words), the other 6251 split at random, half to take the threshold and half to measure. CoNLL-2000: all 8936 training
sentences, the test set split likewise. 20 splits (seed 0); both models have C = 0.1 and the margin as loss, *without edges* is the same estimator on graphs
without edges. The loss of a label is what the best score falls by if the node must have it (`predict_max_marginals`). *Coverage* is the mean over the splits, *furthest*
the split furthest from what is stated. *Labels a node* is the mean size of a set. Wanted: the stated coverage within 1 %, and sets at least 20 % smaller than without edges.
"""
N_SPLITS = 20
C = 0.1


class Losses(NamedTuple):
    """Losses of all labels of each sample's nodes, and the numbers of the true labels (-2: no class of the model)."""

    tables: list[np.ndarray]
    truth: list[np.ndarray]


def rows(quick: bool = False) -> list[dict[str, Any]]:
    folder = data_folder()
    if folder is None:
        return [{"data": NO_DATA}]
    with mock.patch.dict(os.environ, MAXSUM_DATA=str(folder)):
        try:
            words = letters.load()
            sentences = chunking.load(30 if quick else None)
        except MissingDataError as error:
            return [{"data": f"skipped: {error}"}]
    train, test = words.of(words.folds == 0), words.of(words.folds != 0)
    if quick:
        train, test = ([own[:40] for own in part] for part in (train, test))
    found = compare("letters", train, test, [(0.9, "node"), (0.95, "node"), (0.9, "labelling")], 2 if quick else N_SPLITS)
    tag, new = sentences
    if quick:
        new = chunking.Sentences(new.X[:40], new.y[:40])
    settings = [(0.98, "node"), (0.99, "node")]
    return found + compare("CoNLL-2000", (tag.X, tag.y), (new.X, new.y), settings, 2 if quick else N_SPLITS)


def compare(name: str, train: Any, test: Any, settings: Sequence[tuple[float, str]], n_splits: int) -> list[dict[str, Any]]:
    started = time.process_time()
    net = SequenceLabeler(C=C, tol=1e-2).fit(*train)
    own = losses(net, *test)
    classes, features = net.classes_.tolist(), net.model_.layout.model.features
    flat = GraphLabeler(C=C, tol=1e-2, features=features, classes=classes).fit(without_edges(train[0]), train[1])
    other = losses(flat, without_edges(test[0]), test[1])
    seconds = time.process_time() - started
    found = []
    for coverage, unit in settings:
        with_edges, plain = (measured(each, coverage, unit, n_splits) for each in (own, other))
        smaller = 1.0 - with_edges["size"] / plain["size"]
        found.append(
            {
                "data": name,
                "stated": f"{coverage:.0%} of {'nodes' if unit == 'node' else 'samples'}",
                "coverage": f"{with_edges['mean']:.2%}",
                "furthest": f"{with_edges['furthest']:.2%}",
                "labels a node": with_edges["size"],
                "without edges": plain["size"],
                "smaller by": f"{smaller:.0%}",
                "target": f"within 1 %: {verdict(abs(with_edges['mean'] - coverage) <= 0.01)}; 20 % smaller: {verdict(smaller >= 0.2)}",
                "CPU s": seconds,
            }
        )
    return found


def without_edges(X: Sequence[Any]) -> list[GraphSample]:
    return [GraphSample(own, Graph.from_edges([], n_nodes=own.shape[0] if hasattr(own, "shape") else len(own))) for own in X]


def losses(net: Any, X: Any, y: Any) -> Losses:
    return Losses([own.upper for own in net.predict_max_marginals(X)], net.label_numbers(X, y))


def measured(found: Losses, coverage: float, unit: str, n_splits: int) -> dict[str, float]:
    """Coverage and size over random halves; a label that is no class of the model is never covered."""
    rng = np.random.default_rng(0)
    true = [
        np.where(own < 0, np.inf, table[np.arange(len(own)), np.maximum(own, 0)])
        for table, own in zip(found.tables, found.truth, strict=True)
    ]
    covered, sizes = [], []
    for _ in range(n_splits):
        order = rng.permutation(len(true))
        half = len(order) // 2
        q = threshold([true[j] for j in order[:half]], coverage, unit)
        inside = [true[j] <= q for j in order[half:]]
        covered.append(np.mean([own.mean() if unit == "node" else own.all() for own in inside]))
        sizes.append(np.concatenate([(found.tables[j] <= q).sum(axis=1) for j in order[half:]]).mean())
    far = int(np.argmax(np.abs(np.array(covered) - coverage)))
    return {"mean": float(np.mean(covered)), "furthest": float(covered[far]), "size": float(np.mean(sizes))}
