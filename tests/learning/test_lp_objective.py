"""LP-M3N by block-coordinate ascent: the optimum of the dense reference, proven, with pseudo-marginals where labellings end."""

from __future__ import annotations

import numpy as np
import pytest
from reference.lp_m3n import local_examples, solve_lp_m3n

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError
from maxsum.core.result import Termination
from maxsum.learning import BlockFrankWolfe, CuttingPlane, LPObjective, MarginObjective, path
from maxsum.learning.oracles.relaxed import Relaxed
from maxsum.models import GraphModel, GraphSample

TIGHT = BlockFrankWolfe(tol=1e-6, max_iter=400)


def bound_model(seed, n_labels, potentials="general", n_examples=3, tree=False):
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n_examples):
        n = int(random.integers(4, 7))
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if (j == i + 1 if tree else random.random() < 0.7)]
        samples.append(GraphSample(random.standard_normal((n, 2)), ms.Graph.from_edges(np.array(pairs).reshape(-1, 2), n)))
        labels.append(random.integers(n_labels, size=n))
    return GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(n_labels))


def reference(objective):
    return solve_lp_m3n(local_examples(objective.model), objective.c, objective.cone.matrix.toarray())


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative"])
@pytest.mark.parametrize(("seed", "n_labels"), [(0, 2), (1, 3), (2, 3), (0, 4), (1, 5)])
def test_the_optimum_is_that_of_the_dense_program(seed, n_labels, potentials):
    objective = LPObjective(bound_model(seed, n_labels, potentials), C=3.0)
    result = TIGHT.fit(objective)
    expected = reference(objective)
    assert result.termination == Termination.converged
    assert result.objective == pytest.approx(expected.value, rel=1e-5)
    assert result.lower_bound <= expected.value * (1 + 1e-7)
    verified = result.verify(objective)
    assert verified.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    assert verified.objective <= result.objective * (1 + 1e-6)


def test_labellings_alone_prove_less_than_pseudo_marginals():
    model = bound_model(2, 4)
    lp, margin = TIGHT.fit(LPObjective(model, C=3.0)), TIGHT.fit(MarginObjective(model, C=3.0))
    assert any(isinstance(key, Relaxed) for key in lp.certificate.keys)
    assert lp.lower_bound > margin.objective * 1.02


def test_on_trees_it_is_the_exact_margin():
    model = bound_model(3, 3, tree=True)
    lp, margin = TIGHT.fit(LPObjective(model, C=2.0)), TIGHT.fit(MarginObjective(model, C=2.0))
    assert lp.objective == pytest.approx(margin.objective, rel=3e-6)
    assert lp.oracle_guarantee == "optimal"


def test_the_cutting_plane_learner_reaches_the_same_optimum():
    objective = LPObjective(bound_model(1, 3), C=3.0)
    result = CuttingPlane(tol=1e-6, max_iter=500).fit(objective)
    assert result.objective == pytest.approx(reference(objective).value, rel=1e-5)


def test_a_path_over_C_keeps_the_pseudo_marginals():
    objective = LPObjective(bound_model(2, 3))
    for C, result in zip((0.5, 4.0), path(TIGHT, objective, (0.5, 4.0)), strict=True):
        objective.set_C(C)
        assert result.objective == pytest.approx(reference(objective).value, rel=1e-5)


def test_a_checkpoint_goes_on_with_its_pseudo_marginals(tmp_path):
    model = bound_model(2, 4)
    whole = TIGHT.fit(LPObjective(model, C=3.0))
    file = tmp_path / "state.npz"
    first = BlockFrankWolfe(tol=1e-6, max_iter=whole.n_iter - 5, checkpoint=file)
    first.fit(LPObjective(model, C=3.0))
    second = BlockFrankWolfe(tol=1e-6, max_iter=400, checkpoint=file).fit(LPObjective(model, C=3.0))
    assert second.objective == pytest.approx(whole.objective, rel=1e-6)
    assert second.certificate.lower_bound(LPObjective(model, C=3.0)) == pytest.approx(second.lower_bound, rel=1e-9)


def test_packed_pseudo_marginals_come_back():
    ends = np.array([[0, 1], [1, 2]])
    node = np.array([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]])
    edge = np.stack([[[0.25, 0.25], [0.0, 0.5]], np.outer(node[1], node[2])])
    key = Relaxed.unpack(Relaxed.of(ends, node, edge).pack())
    found = key.marginals(ends)
    assert len(key.edges) == 1
    np.testing.assert_allclose(found[0], node)
    np.testing.assert_allclose(found[1], edge)


def test_pseudo_marginals_off_the_polytope_are_refused():
    objective = LPObjective(bound_model(2, 4), C=3.0)
    certificate = TIGHT.fit(objective).certificate
    key = next(key for key in certificate.keys if isinstance(key, Relaxed))
    key.edge[0] *= 1.1
    with pytest.raises(CertificateError, match="local polytope"):
        certificate.lower_bound(objective)


def test_tightness_is_reported():
    tree = LPObjective(bound_model(3, 3, tree=True))
    assert tree.tightness(np.ones(tree.n_weights)) == {"tight": 1.0, "undecided": 0.0}
    loopy = LPObjective(bound_model(2, 4))
    found = loopy.tightness(-5.0 * np.ones(loopy.n_weights) * np.random.default_rng(0).random(loopy.n_weights))
    assert 0 <= found["tight"] <= 1
    assert 0 <= found["undecided"] <= 1


@pytest.mark.parametrize("smoothing", [-1.0, np.nan, np.inf, "much", True])
def test_smoothing_is_a_temperature(smoothing):
    with pytest.raises(InvalidParameterError, match="smoothing"):
        LPObjective(bound_model(0, 2), smoothing=smoothing)


def test_isolated_nodes_no_edges_and_very_different_sizes():
    random = np.random.default_rng(0)
    sizes = (1, 2, 40)
    graphs = [ms.Graph.complete(1), ms.Graph.from_edges(np.zeros((0, 2), dtype=int), 2), ms.Graph.grid(5, 8)]
    samples = [GraphSample(random.standard_normal((n, 2)), g) for n, g in zip(sizes, graphs, strict=True)]
    model = GraphModel().bind(samples, [random.integers(3, size=n) for n in sizes], classes=np.arange(3))
    objective = LPObjective(model, C=1.0)
    result = BlockFrankWolfe(tol=1e-4).fit(objective)
    assert result.relative_gap <= 1e-4
    result.verify(objective)


def test_a_time_limit_returns_the_best_with_its_bound():
    random = np.random.default_rng(0)
    samples = [GraphSample(random.standard_normal((100, 2)), ms.Graph.grid(10, 10)) for _ in range(4)]
    model = GraphModel().bind(samples, [random.integers(4, size=100) for _ in range(4)], classes=np.arange(4))
    objective = LPObjective(model, C=10.0)
    result = BlockFrankWolfe(tol=0, time_limit=0.3).fit(objective)
    assert result.termination == Termination.time_limit
    assert result.lower_bound <= result.objective < np.inf
