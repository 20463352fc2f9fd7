"""Made-up results and small fitted estimators, shared by the tests of pictures, cards and reports."""

from __future__ import annotations

import numpy as np
from factories.samples import label_table

import maxsum as ms
from maxsum.core.result import Guarantee, Result, Termination, TracePoint
from maxsum.learning.result import LearningPoint, LearningResult


def learning_result(**changes):
    trace = (
        LearningPoint(1, 0.5, 12.0, -np.inf, 4),
        LearningPoint(2, 1.0, 10.0, 2.0, 8),
        LearningPoint(3, 1.5, 8.0, 7.0, 12),
        LearningPoint(4, 2.0, 8.0, 7.5, 16),
    )
    values = {
        "weights": np.zeros(3),
        "objective": 8.0,
        "lower_bound": 7.5,
        "termination": Termination.converged,
        "oracle_guarantee": Guarantee.optimal,
        "certificate": None,
        "learner": "BlockFrankWolfe",
        "n_iter": 4,
        "n_oracle_calls": 16,
        "seconds": 2.1,
        "oracle_seconds": 1.2,
        "message": "done",
        "trace": trace,
    }
    return LearningResult(**{**values, **changes})


def result(n_nodes=6, **changes):
    values = {
        "labels": np.arange(n_nodes, dtype=np.int32) % 2,
        "score": 10.0,
        "bound": 10.5,
        "gap": 0.5,
        "termination": Termination.iteration_limit,
        "guarantee": Guarantee.within_gap,
        "message": "half of it",
        "certificate": None,
        "solver": "TRWS",
        "n_iter": 7,
        "seconds": 0.25,
        "trace": (TracePoint(1, 0.1, -np.inf, 20.0), TracePoint(2, 0.2, 9.0, 11.0)),
    }
    return Result(**{**values, **changes})


def sentences():
    """Tags that words almost decide, with a few slips, so that something is wrong."""
    random = np.random.default_rng(0)
    tags = {"the": "DET", "dog": "NOUN", "cat": "NOUN", "sees": "VERB", "<b>": "X&Y"}
    words = [random.choice(list(tags), size=5).tolist() for _ in range(12)]
    labels = [[tags[word] for word in line] for line in words]
    labels[3][0] = labels[5][2] = "NOUN"
    return [[{"word": word} for word in line] for line in words], labels


def tagger():
    X, y = sentences()
    return ms.SequenceLabeler(C=1.6).fit(X, y), X, y


def pixels():
    random = np.random.default_rng(1)
    y = [np.array([["sky", "ground"][r >= 2] for r in range(4)], dtype=object).repeat(5).reshape(4, 5) for _ in range(3)]
    X = [np.stack([own == "sky", own == "ground"], axis=2) + 0.8 * random.standard_normal((4, 5, 2)) for own in y]
    return X, [own.astype(str) for own in y]


def segmenter():
    X, y = pixels()
    return ms.GridLabeler(potentials="supermodular", C=0.2, edge_types="directions", tol=1e-2).fit(X, y), X, y


def classifier():
    X, Y = label_table(30, 3, 4, noise=0.5, seed=2)
    return ms.MultiLabelClassifier(C=5.0).fit(X, Y), X, Y
