"""Every learner goes on from a checkpoint exactly as if it had never stopped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning import BlockFrankWolfe, CuttingPlane, MarginObjective, Perceptron, Subgradient, TrivialObjective
from maxsum.models import GraphModel, GraphSample

LEARNERS = [
    BlockFrankWolfe(tol=1e-9, max_iter=12),
    CuttingPlane(tol=1e-9, max_iter=12),
    CuttingPlane(tol=1e-9, max_iter=12, slacks="one"),
    CuttingPlane(tol=1e-9, max_iter=12, stabilise=False),
    Subgradient(tol=1e-9, max_iter=6),
    Perceptron(max_iter=8),
]


def objective(kind, potentials):
    random = np.random.default_rng(0)
    samples, labels = [], []
    for _ in range(6):
        y = random.integers(3, size=4)
        samples.append(GraphSample(np.eye(3)[y] + random.standard_normal((4, 3)), ms.Graph.chain(4)))
        labels.append(y)
    return kind(GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(3)), C=8.0)


@pytest.mark.parametrize("stop", [1, 3, 5])
@pytest.mark.parametrize("potentials", ["general", "supermodular"])
@pytest.mark.parametrize(
    ("learner", "kind"),
    [(learner, MarginObjective) for learner in LEARNERS] + [(LEARNERS[1], TrivialObjective)],
    ids=lambda value: (
        getattr(value, "__name__", None)
        or f"{type(value).__name__}-{getattr(value, 'slacks', '')}-{getattr(value, 'stabilise', '')}"
    ),
)
def test_a_resumed_training_ends_as_an_unbroken_one(learner, kind, potentials, stop, tmp_path):
    whole = learner.fit(objective(kind, potentials))
    saved = replace(learner, checkpoint=tmp_path / "training", checkpoint_seconds=0.0)
    part = saved.fit(objective(kind, potentials), callback=lambda point: point.iteration >= stop)
    assert part.termination == "stopped" or part.n_iter == whole.n_iter
    rest = saved.fit(objective(kind, potentials))
    assert rest.weights.tobytes() == whole.weights.tobytes()
    assert (rest.objective, rest.lower_bound, rest.n_iter) == (whole.objective, whole.lower_bound, whole.n_iter)
    if whole.certificate is not None:
        task = objective(kind, potentials)
        assert rest.certificate.lower_bound(task) == pytest.approx(whole.lower_bound, rel=1e-9, abs=1e-12)
