"""Regions and their planes: the compiled kernels give the same bits as numba's."""

from __future__ import annotations

import numpy as np
import pytest
from watching import both, watched

import maxsum as ms
from maxsum.kernels import _compiled_v3, regions
from maxsum.learning import BlockFrankWolfe, LPObjective, RegionBundle
from maxsum.learning.dual.regions import RegionPlanes, no_regions
from maxsum.models import GraphModel, GraphSample

CALLERS = ("learning.dual.regions", "learning.learners.region_bundle")


def objective(
    n_labels: int, potentials: str, seed: int, cliques: bool = False, n_examples: int = 2, side: int = 6
) -> LPObjective:
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for i in range(n_examples):
        n = side * (side + i)
        y = np.arange(n) * n_labels // n
        y = np.where(random.random(n) < 0.2, random.integers(n_labels, size=n), y)
        x = np.eye(n_labels)[y] + random.standard_normal((n, n_labels))
        sets = [random.choice(n, 4, replace=False) for _ in range(10)] if cliques else None
        samples.append(GraphSample(x, ms.Graph.grid(side, side + i), cliques=sets))
        labels.append(y)
    return LPObjective(GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels)), C=0.5)


@pytest.mark.parametrize("cliques", [False, True])
@pytest.mark.parametrize("potentials", ["associative", "potts", "general"])
@pytest.mark.parametrize("n_labels", [2, 3])
def test_bundle(n_labels: int, potentials: str, cliques: bool) -> None:
    with watched("regions", *CALLERS) as some, watched("region_planes", *CALLERS) as planes:
        RegionBundle(tol=1e-3, max_iter=12).fit(objective(n_labels, potentials, n_labels, cliques and potentials != "general"))
    assert some["extend"] and planes["sparse_vectors"] and planes["base_plane"] and planes["sparse_ascend"]


@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_store(potentials: str) -> None:
    with watched("regions", *CALLERS) as some, watched("region_planes", *CALLERS) as planes:
        BlockFrankWolfe(tol=1e-3, max_iter=20).fit(objective(3, potentials, 0, side=10))
    assert some["extend"] and some["marginals"] and planes["region_passes"]


@pytest.mark.parametrize("memory", [0, 3])
@pytest.mark.parametrize("cliques", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_random_multipliers(seed: int, cliques: bool, memory: int) -> None:
    """Regions that grow together, fall apart and keep labellings without weight."""
    own = objective(3, "associative", seed, cliques, side=5)
    random, truth = np.random.default_rng(seed), own.design.truth
    found = no_regions(truth)
    edges = own.model.data.edges
    planes = RegionPlanes(own.design, np.ones(2))
    n_weights = own.n_weights
    for turn in range(8):
        y = np.where(random.random(len(truth)) < 0.2, random.integers(3, size=len(truth)), truth)
        found = regions.Regions(
            *both(regions.extend, _compiled_v3.regions.extend, own.design, found, y.astype(np.int32), memory)
        )
        for r in range(len(found.atom_ptr) - 1):
            atoms = slice(found.atom_ptr[r], found.atom_ptr[r + 1])
            share = random.dirichlet(np.ones(atoms.stop - atoms.start)) * (random.random(atoms.stop - atoms.start) < 0.6)
            found.alpha[atoms] = share / share.sum() if share.sum() > 0 else 1.0 + 1e-9 if turn % 2 else found.alpha[atoms]
        inside = edges[(found.region[edges] >= 0).all(axis=1)]
        both(
            regions.marginals, _compiled_v3.regions.marginals, found, np.zeros((len(found.node), 3)), inside,
            np.zeros((len(inside), 3, 3)),
        )  # fmt: skip
        with watched("region_planes", *CALLERS) as calls:
            scratch = type("Scratch", (), {})()
            scratch.dense, scratch.index, scratch.value = np.zeros(n_weights), np.zeros(10**5, dtype=np.int32), np.zeros(10**5)
            planes.set(found, scratch)
            planes.origin(scratch, n_weights)
        assert calls["sparse_vectors"] == 1 and calls["base_plane"] == 1
