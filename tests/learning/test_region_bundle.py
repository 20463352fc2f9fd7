"""RegionBundle: regions keep marginals, models stay below the objective, bounds below the optimum."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, UnsupportedProblemError
from maxsum.core.result import Termination
from maxsum.kernels.records import Regions
from maxsum.kernels.regions import extend, marginals
from maxsum.learning import CompactQP, LPObjective, MarginObjective, RegionBundle
from maxsum.learning.dual.regions import RegionPlanes
from maxsum.models import GraphModel, GraphSample


def objective(n_labels=3, side=8, potentials="associative", C=0.5, seed=0, cliques=False, n_examples=1):
    random = np.random.default_rng(seed)
    graph = ms.Graph.grid(side, side)
    samples, labels = [], []
    for _ in range(n_examples):
        y = np.minimum(np.arange(side) * n_labels // side, n_labels - 1).repeat(side).reshape(side, side).ravel()
        y = np.where(random.random(side**2) < 0.1, random.integers(n_labels, size=side**2), y)
        x = np.eye(n_labels)[y] + random.standard_normal((side**2, n_labels))
        sets = [random.choice(side**2, 4, replace=False) for _ in range(10)] if cliques else None
        samples.append(GraphSample(x, graph, cliques=sets))
        labels.append(y)
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))
    return LPObjective(model, C=C)


def start(own):
    n = len(own.design.truth)
    none, ptr = np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64)
    return Regions(
        own.design.truth.astype(np.int32), np.full(n, -1), np.zeros(n, dtype=np.int64), ptr, none, ptr, ptr,
        np.zeros(0, dtype=np.int32), np.zeros(0), none,
    )  # fmt: skip


def tables(own, regions):
    """Marginals of all nodes and edges, by the independence of regions."""
    n_labels, edges = own.model.n_labels, own.model.data.edges
    node = np.eye(n_labels)[regions.base]
    inside = np.flatnonzero((regions.region[edges] >= 0).all(axis=1))
    part, edge = np.zeros((len(regions.node), n_labels)), np.zeros((len(inside), n_labels, n_labels))
    marginals(regions, part, edges[inside], edge)
    node[regions.node] = part
    every = node[edges[:, 0]][:, :, None] * node[edges[:, 1]][:, None, :]
    every[inside] = edge
    return node, every


def mixed(own, seed, n_labellings=6, memory=2):
    """Regions of random labellings that differ from the truth here and there, with random multipliers."""
    random, truth = np.random.default_rng(seed), own.design.truth
    regions, before = start(own), []
    for _ in range(n_labellings):
        y = np.where(random.random(len(truth)) < 0.25, random.integers(own.model.n_labels, size=len(truth)), truth)
        before.append(tables(own, regions))
        regions = Regions(*extend(own.design, regions, y.astype(np.int32), memory))
        before[-1] = (*before[-1], *tables(own, regions), y)
        for r in range(len(regions.atom_ptr) - 1):
            atoms = slice(regions.atom_ptr[r], regions.atom_ptr[r + 1])
            share = random.dirichlet(np.ones(atoms.stop - atoms.start)) * (random.random(atoms.stop - atoms.start) < 0.6)
            regions.alpha[atoms] = share / share.sum() if share.sum() > 0 else regions.alpha[atoms]
    return regions, before


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("memory", [0, 3])
def test_marginals_stay_when_a_labelling_comes(seed, memory):
    own = objective(cliques=seed == 1)
    regions, history = mixed(own, seed, memory=memory)
    for node, edge, new_node, new_edge, _ in history:
        assert new_node == pytest.approx(node, abs=1e-12)
        assert new_edge == pytest.approx(edge, abs=1e-12)
    assert len(regions.node_ptr) > (1 if memory or seed == 1 else 3)


def test_regions_have_no_links_and_know_the_new_labelling():
    own = objective(cliques=True)
    regions, history = mixed(own, 0)
    ends = regions.region[own.design.edges]
    assert ((ends[:, 0] == ends[:, 1]) | (ends.min(axis=1) < 0)).all()
    for c in range(len(own.design.member_ptr) - 1):
        near = regions.region[own.design.member[own.design.member_ptr[c] : own.design.member_ptr[c + 1]]]
        assert len(set(near[near >= 0].tolist())) <= 1
    y = history[-1][-1]
    for r in range(len(regions.node_ptr) - 1):
        nodes = regions.node[regions.node_ptr[r] : regions.node_ptr[r + 1]]
        stored = regions.label[regions.label_ptr[r] : regions.label_ptr[r + 1]].reshape(-1, len(nodes))
        assert (stored == y[nodes]).all(axis=1).any()
        assert len(np.unique(stored, axis=0)) == len(stored)
        assert regions.alpha[regions.atom_ptr[r] : regions.atom_ptr[r + 1]].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("cliques", [False, True])
@pytest.mark.parametrize("potentials", ["associative", "general"])
def test_vectors_are_those_of_whole_labellings(cliques, potentials):
    if cliques and potentials == "general":
        pytest.skip("cliques are for associative potentials")
    own = objective(cliques=cliques, potentials=potentials)
    regions, _ = mixed(own, 1)
    planes = RegionPlanes(own.design, np.ones(1))
    planes.set(regions, own.scratch)
    z, offset, (u, base) = planes.rows(own.n_weights).toarray(), planes.offset, planes.origin(own.scratch, own.n_weights)
    first = regions.base.copy()
    for r in range(len(regions.node_ptr) - 1):
        nodes = regions.node[regions.node_ptr[r] : regions.node_ptr[r + 1]]
        first[nodes] = regions.label[regions.label_ptr[r] : regions.label_ptr[r] + len(nodes)]
    random = np.random.default_rng(0)
    for _ in range(10):
        y, total_z, total_b = first.copy(), u.copy(), base
        for r in range(len(regions.node_ptr) - 1):
            nodes = regions.node[regions.node_ptr[r] : regions.node_ptr[r + 1]]
            a = random.integers(regions.atom_ptr[r + 1] - regions.atom_ptr[r])
            at = regions.label_ptr[r] + a * len(nodes)
            y[nodes] = regions.label[at : at + len(nodes)]
            total_z += z[regions.atom_ptr[r] + a]
            total_b += offset[regions.atom_ptr[r] + a]
        plane, dense = own.plane(0, y), np.zeros(own.n_weights)
        dense[plane.index] = plane.value
        assert total_z == pytest.approx(dense, abs=1e-9)
        assert total_b == pytest.approx(plane.offset)


@pytest.mark.parametrize(
    ("n_labels", "potentials", "cliques", "n_examples"),
    [(2, "associative", False, 1), (3, "associative", True, 1), (3, "potts", False, 3), (2, "associative", True, 2)],
)
def test_it_reaches_the_optimum_of_the_compact_programme(n_labels, potentials, cliques, n_examples):
    own = objective(n_labels, 10, potentials, cliques=cliques, n_examples=n_examples)
    best = CompactQP(tol=1e-7).fit(own)
    result = RegionBundle(tol=1e-3).fit(own)
    assert result.lower_bound <= best.objective * (1 + 1e-9)
    assert result.objective >= best.lower_bound * (1 - 1e-9)
    assert result.relative_gap <= 1e-3
    assert result.termination == Termination.converged
    verified = result.verify(own)
    assert verified.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    assert verified.objective <= result.objective * (1 + 1e-9)


def test_runs_repeat_and_go_on_from_a_checkpoint(tmp_path):
    one, two = (RegionBundle(tol=1e-4).fit(objective()) for _ in range(2))
    assert np.array_equal(one.weights, two.weights)
    own = objective()
    path = tmp_path / "state"
    RegionBundle(tol=1e-4, max_iter=6, checkpoint=path).fit(own)
    late = RegionBundle(tol=1e-4, checkpoint=path).fit(objective())
    assert late.n_iter > 6
    assert late.lower_bound == pytest.approx(one.lower_bound, rel=2e-3)
    assert late.objective == pytest.approx(one.objective, rel=2e-3)
    late.verify(own)


def test_limits_are_honest():
    own = objective()
    result = RegionBundle(tol=1e-9, max_iter=3).fit(own)
    assert result.termination == Termination.iteration_limit
    assert result.lower_bound <= result.objective
    result.verify(own)
    best = CompactQP(tol=1e-6).fit(own).objective
    assert result.lower_bound <= best <= result.objective


def test_what_it_refuses():
    own = objective()
    with pytest.raises(UnsupportedProblemError, match="HasRelaxation"):
        RegionBundle().fit(MarginObjective(own.model))
    with pytest.raises(UnsupportedProblemError, match="supermodular"):
        RegionBundle().fit(objective(potentials="supermodular"))
    with pytest.raises(UnsupportedProblemError, match="smoothing"):
        RegionBundle().fit(LPObjective(own.model, smoothing=0.1))
    with pytest.raises(InvalidParameterError, match="heaviness"):
        RegionBundle(heaviness=0.0).fit(own)
