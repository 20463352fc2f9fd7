"""Pseudo-marginals are moved into the local polytope, and what they prove is true."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference.message_qp import solve_message_qp

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidSampleError
from maxsum.kernels.local_polytope import settle_edges, settle_nodes
from maxsum.learning import LPObjective
from maxsum.learning.dual.pseudo_marginals import MarginalCertificate, PseudoMarginals
from maxsum.models import GraphModel, GraphSample

GRAPHS = {
    "cycle": ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)]),
    "grid": ms.Graph.grid(2, 3),
    "lonely": ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)], n_nodes=4),
}


def objective(graph="cycle", n_labels=3, potentials="general", repulsive=True, C=5.0 / 3, seed=0, n_examples=3):
    random = np.random.default_rng(seed)
    net = GRAPHS[graph]
    samples, labels = [], []
    for _ in range(n_examples):
        y = (np.arange(net.n_nodes) * repulsive + random.integers(n_labels, size=net.n_nodes) // 2) % n_labels
        samples.append(GraphSample(np.eye(n_labels)[y] + random.standard_normal((net.n_nodes, n_labels)), net))
        labels.append(y)
    return LPObjective(GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels)), C=C)


def noise(obj, seed=0):
    random = np.random.default_rng(seed)
    n, m, size = len(obj.design.truth), len(obj.design.edges), obj.model.n_labels
    node = random.random((n, size)) ** 4
    return node, random.random((m, size, size)) ** 4 * (random.random((m, size, size)) < 0.5)


@pytest.mark.parametrize("n_labels", [2, 3, 5])
def test_any_tables_become_consistent(n_labels):
    random = np.random.default_rng(n_labels)
    edges = random.integers(20, size=(40, 2)).astype(np.int32)
    states = random.integers(1, n_labels + 1, 20).astype(np.int32)
    node = random.standard_normal((20, n_labels))
    edge = random.standard_normal((40, n_labels, n_labels)) * (random.random((40, 1, 1)) < 0.8)
    settle_nodes(states, node, 0, 20)
    settle_edges(edges, node, edge, 0, 40)
    assert (node >= 0).all() and (edge >= 0).all()
    assert np.abs(node.sum(axis=1) - 1).max() < 1e-15 * 4
    assert (node[np.arange(n_labels) >= states[:, None]] == 0).all()
    assert np.abs(edge.sum(axis=2) - node[edges[:, 0]]).max() < 1e-15
    assert np.abs(edge.sum(axis=1) - node[edges[:, 1]]).max() < 1e-15


def test_consistent_tables_stay_as_they_are():
    random = np.random.default_rng(0)
    edge = random.random((5, 3, 3))
    edge /= edge.sum(axis=(1, 2), keepdims=True)
    node = np.concatenate([edge.sum(axis=2), edge.sum(axis=1)])
    edges = np.stack([np.arange(5), np.arange(5) + 5], axis=1).astype(np.int32)
    moved = edge.copy()
    settle_edges(edges, node, moved, 0, 5)
    assert np.allclose(moved, edge, atol=1e-15, rtol=0)


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative", "potts"])
@pytest.mark.parametrize("graph", list(GRAPHS))
def test_every_point_bounds_the_optimum_from_below(graph, potentials):
    obj = objective(graph, potentials=potentials)
    best = solve_message_qp(obj)
    found = PseudoMarginals(obj, best.node, best.edge)
    assert found.dual == pytest.approx(best.value, rel=1e-6)
    assert found.weights == pytest.approx(best.weights, abs=1e-3)
    assert found.dual <= best.value * (1 + 1e-9)
    certificate = found.certificate()
    assert certificate.lower_bound(obj) == pytest.approx(found.dual, rel=1e-12)
    for seed in range(5):
        node, edge = noise(obj, seed)
        for tables in ((node, edge), (None, edge), (node, None)):
            other = PseudoMarginals(obj, *tables)
            assert 0 <= other.dual <= best.value * (1 + 1e-9)
            assert other.certificate().lower_bound(obj) == pytest.approx(other.dual, rel=1e-11, abs=1e-12)
            low = max(other.dual, found.dual)
            assert other.mix(found).dual >= low * (1 - 1e-9)
            assert other.certificate().lower_bound(obj) == pytest.approx(other.dual, rel=1e-11, abs=1e-12)


def test_features_are_those_of_the_model():
    obj = objective("grid")
    node, edge = noise(obj)
    found = PseudoMarginals(obj, node, edge, n_jobs=2)
    expected = np.zeros(obj.n_weights)
    data = obj.model.data
    for j in range(obj.n_examples):
        rows, edges = slice(*data.node_ptr[j : j + 2]), slice(*data.edge_ptr[j : j + 2])
        own = obj.model.feature_marginals(j, found.node[rows], found.edge[edges])
        expected += obj.c[j] * (obj.model.feature(j, obj.model.truth(j)) - own)
    assert found.u == pytest.approx(expected, abs=1e-12)


def test_the_truth_proves_zero_and_is_stored_as_nothing():
    obj = objective()
    found = PseudoMarginals(obj)
    certificate = found.certificate()
    assert found.dual == 0.0 and certificate.lower_bound(obj) == 0.0
    assert len(certificate.nodes) == len(certificate.edges) == 0
    assert certificate.verify(obj, np.zeros(obj.n_weights)).lower_bound == 0.0


def test_only_what_differs_from_the_truth_is_stored():
    obj = objective("grid")
    node = np.eye(3)[obj.design.truth]
    node[1] = 1 / 3
    certificate = PseudoMarginals(obj, node).certificate()
    assert certificate.nodes.tolist() == [1] and len(certificate.edges) == 0
    assert certificate.lower_bound(obj) == pytest.approx(PseudoMarginals(obj, node).dual, rel=1e-12)


def test_joint_features():
    from maxsum.models.joint_model import JointModel

    random = np.random.default_rng(0)
    graph = GRAPHS["cycle"]
    samples = [GraphSample(random.standard_normal((3, 2)), graph) for _ in range(2)]
    labels = [np.array([0, 1, 0]), np.array([1, 1, 0])]

    def node(sample):
        x = np.asarray(sample.X)
        return np.concatenate([np.kron(np.eye(2), row) for row in x]) @ np.eye(4, 7)

    def edge(sample):
        cells = np.array([[k == 0 and m == 0, k != m, k == 1 and m == 1] for k in range(2) for m in range(2)], dtype=float)
        return np.tile(cells, (sample.graph.n_edges, 1)) @ np.eye(7)[4:]

    model = JointModel(node, edge, 7).bind(samples, labels)
    obj = LPObjective(model, C=3.0)
    best = solve_message_qp(obj)
    found = PseudoMarginals(obj, best.node, best.edge)
    assert found.certificate().lower_bound(obj) == pytest.approx(best.value, rel=1e-6)


def test_a_broken_certificate_is_refused():
    obj = objective("grid", potentials="associative")
    good = PseudoMarginals(obj, *noise(obj)).certificate()
    good.lower_bound(obj)
    node, edge = good.node.copy(), good.edge.copy()
    node[0] *= 1.001
    for changes, word in [
        (dict(node=node), "sum to"),
        (dict(node=-good.node), "negative"),
        (dict(gamma=1.5), "share"),
        (dict(mu=good.mu[:-1]), "multipliers"),
        (dict(mu=-1 - good.mu), "negative"),
        (dict(node=good.node[:-1]), "shapes"),
        (dict(nodes=good.nodes[::-1]), "ascending"),
        (dict(edge=edge * 1.001), "miss"),
        (dict(node=good.node * np.nan), "finite"),
    ]:
        with pytest.raises(CertificateError, match=word):
            replace(good, **changes).lower_bound(obj)
    with pytest.raises(CertificateError, match="outside"):
        good.verify(obj, -np.ones(obj.n_weights))
    assert isinstance(good, MarginalCertificate)


def test_tables_of_another_shape_are_refused():
    obj = objective()
    with pytest.raises(InvalidSampleError, match="node marginals"):
        PseudoMarginals(obj, np.zeros((2, 3)))
    with pytest.raises(InvalidSampleError, match="edge marginals"):
        PseudoMarginals(obj, None, np.full((9, 3, 3), np.nan))
