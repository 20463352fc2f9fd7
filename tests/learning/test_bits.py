"""The same bits for any ``n_jobs``: weights, objective and lower bound of every learner with every surrogate that it takes."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning import (
    BlockFrankWolfe,
    CompactQP,
    CuttingPlane,
    FactorAscent,
    LikelihoodObjective,
    LogisticObjective,
    LPObjective,
    MarginObjective,
    MaximumLikelihood,
    Perceptron,
    ProjectedQuasiNewton,
    ProximalPoint,
    QPObjective,
    RegionBundle,
    SmoothedLP,
    Subgradient,
    TrivialObjective,
)
from maxsum.models import Convex, GraphModel, GraphSample

GRAPHS = {"chains": (24, ms.Graph.chain(11)), "grids": (5, ms.Graph.grid(4, 5))}
PLANES = [
    BlockFrankWolfe(max_iter=6),
    CuttingPlane(max_iter=6),
    CuttingPlane(max_iter=6, slacks="one"),
    Subgradient(max_iter=3),
]
CASES = [
    *[(MarginObjective, learner) for learner in (*PLANES, Perceptron(max_iter=3))],
    *[(TrivialObjective, learner) for learner in (PLANES[1], Perceptron(max_iter=3))],
    *[
        (LPObjective, learner)
        for learner in (*PLANES, CompactQP(max_iter=5), RegionBundle(max_iter=5), FactorAscent(max_iter=5))
    ],
    *[(LPObjective, ProximalPoint(max_iter=3, inner=10, slacks=slacks)) for slacks in ("n", "one", "trees")],
    (lambda model, n_jobs: LPObjective(model, smoothing=0.5, n_jobs=n_jobs), SmoothedLP(max_iter=6)),
    (lambda model, n_jobs: QPObjective(Convex().bind(model), n_jobs=n_jobs), ProjectedQuasiNewton(max_iter=6)),
    (lambda model, n_jobs: LogisticObjective(Convex().bind(model), n_jobs=n_jobs), ProjectedQuasiNewton(max_iter=6)),
    (LikelihoodObjective, MaximumLikelihood(max_iter=6)),
]


def model_of(kind):
    rng, (n, graph) = np.random.default_rng(0), GRAPHS[kind]
    labels = [np.cumsum(rng.integers(0, 2, graph.n_nodes)) % 3 for _ in range(n)]
    samples = [GraphSample(np.eye(3)[y] + 0.8 * rng.normal(size=(graph.n_nodes, 3)), graph) for y in labels]
    return GraphModel().bind(samples, labels, [0, 1, 2])


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(
    "case", range(len(CASES)), ids=lambda i: f"{getattr(CASES[i][0], 'surrogate', 'smooth')}-{type(CASES[i][1]).__name__}-{i}"
)
def test_bits_do_not_depend_on_n_jobs(case, kind):
    make, learner = CASES[case]
    found = [learner.fit(make(model_of(kind), n_jobs=n_jobs)) for n_jobs in (1, 2, 3)]
    assert len({(own.weights.tobytes(), own.objective, own.lower_bound, own.n_iter) for own in found}) == 1


def test_bits_of_a_multilabel_classifier_do_not_depend_on_n_jobs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 5)) + 0.5 * rng.normal(size=(60, 5)) > 0).astype(int)
    for options in ({}, {"surrogate": "likelihood"}, {"surrogate": "qp"}, {"label_graph": "tree"}):
        nets = [ms.MultiLabelClassifier(C=20.0, n_jobs=n_jobs, **options).fit(X, Y) for n_jobs in (1, 2, 3)]
        assert len({(net.weights_.tobytes(), net.result_.lower_bound) for net in nets}) == 1
