"""The lp surrogate with clusters: it ends at the exact M3N where the linear relaxation does not, and proves it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learning.lp_data import lp_objective

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from maxsum.learning import BlockFrankWolfe, CompactQP, CuttingPlane, LPObjective, MarginObjective, ProximalPoint, Subgradient
from maxsum.learning.oracles.base import Effort
from maxsum.learning.oracles.clusters import ClusterOracle
from maxsum.learning.oracles.enumeration import EnumerationOracle
from maxsum.models import GraphModel, GraphSample

LEARNER = BlockFrankWolfe(tol=1e-6, max_iter=400)
RING = ms.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)])


def pair(graphs, n_labels=3, n_examples=4, **options):
    """The tightened objective, and the exact margin of the same data, by enumeration."""
    tight = lp_objective(graphs, n_labels=n_labels, n_examples=n_examples, tighten=True, **options)
    exact = MarginObjective(tight.model, C=tight.C)
    assert isinstance(tight.oracle, ClusterOracle) and isinstance(exact.oracle, EnumerationOracle)
    return tight, exact


@pytest.mark.parametrize("learner", [LEARNER, CuttingPlane(tol=1e-6, max_iter=400)])
@pytest.mark.parametrize("graphs", ["triangle", "complete", "grid", "lonely", RING, ["triangle", "grid"]])
def test_it_ends_at_the_exact_margin(graphs, learner):
    tight, exact = pair(graphs)
    found, wanted = learner.fit(tight), LEARNER.fit(exact)
    assert found.relative_gap <= 1e-6
    assert found.objective == pytest.approx(wanted.objective, rel=3e-6) and found.lower_bound <= wanted.objective * (1 + 1e-9)
    assert all(isinstance(key, np.ndarray) for key in found.certificate.keys)


def test_the_linear_relaxation_is_above():
    tight, _ = pair("complete")
    relaxed = LEARNER.fit(LPObjective(tight.model, C=tight.C))
    assert relaxed.lower_bound > 1.01 * LEARNER.fit(tight).objective


@pytest.mark.parametrize("effort", list(Effort))
@pytest.mark.parametrize("graphs", ["complete", "grid", RING])
def test_brackets_hold_the_exact_slack(graphs, effort):
    tight, exact = pair(graphs, n_labels=3, seed=2)
    random, examples = np.random.default_rng(1), np.arange(tight.n_examples)
    width = []
    for _ in range(6):
        w = random.standard_normal(tight.n_weights)
        answer, truth = tight.ask(w, examples, effort), exact.ask(w, examples)
        low = 1e-9 if effort.is_proof else 1e-7
        assert (answer.value <= truth.value + 1e-9).all() and (answer.upper >= truth.upper - low).all()
        width.append(answer.upper - np.maximum(answer.value, 0.0))
    if effort >= Effort.FULL:
        assert np.max(width) < 1e-8


def test_cycles_are_shared_by_examples_on_one_graph():
    tight, _ = pair([RING, "triangle"], n_labels=2, n_examples=6)
    oracle = tight.oracle
    assert len(oracle.shapes) == 2
    tight.ask(np.random.default_rng(0).standard_normal(tight.n_weights))
    rings = [own for own, shape in zip(oracle.clusters, oracle.shape_of, strict=True) if shape is oracle.shape_of[0]]
    assert [len(own.known) for own in rings] == [0] * 3  # a ring of five is neither a triangle nor a square
    w = np.concatenate(
        [np.zeros(tight.n_weights - 4), [-3.0, 3.0, 3.0, -3.0]]
    )  # neighbours differ, which in a ring of five not all can
    tight.ask(w, np.array([0]), Effort.FULL)
    assert len(rings[0].known) == 1
    tight.ask(w)
    assert [len(own.known) for own in rings] == [1] * 3


def test_the_certificate_is_checked():
    tight, _ = pair("complete")
    result = LEARNER.fit(tight)
    for exact in (False, True):
        verified = result.verify(tight, exact=exact)
        assert verified.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
        assert verified.objective <= result.objective * (1 + 1e-6)
    forged = replace(result, lower_bound=result.lower_bound * 1.01, objective=result.objective * 1.02)
    with pytest.raises(CertificateError, match="bound"):
        forged.verify(tight)
    with pytest.raises(CertificateError, match="objective"):
        replace(result, objective=result.objective * 0.99, lower_bound=result.lower_bound * 0.98).verify(tight)


def test_threads_and_checkpoints_change_no_bit(tmp_path):
    tight, _ = pair(["grid", RING])
    whole = LEARNER.fit(tight)
    assert whole.n_iter > 11
    both = LEARNER.fit(LPObjective(tight.model, C=tight.C, n_jobs=2, tighten=True))
    file = tmp_path / "state.npz"
    # the objective is evaluated in this round anyway, so that stopping there changes nothing
    replace(LEARNER, max_iter=11, checkpoint=file).fit(LPObjective(tight.model, C=tight.C, tighten=True))
    resumed = replace(LEARNER, checkpoint=file).fit(LPObjective(tight.model, C=tight.C, tighten=True))
    assert whole.weights.tobytes() == both.weights.tobytes() == resumed.weights.tobytes()
    assert whole.lower_bound == resumed.lower_bound


def test_forests_have_nothing_to_tighten():
    tree = lp_objective("tree", tighten=True)
    assert tree.exact and LEARNER.fit(tree).relative_gap <= 1e-6


def test_what_does_not_go_with_clusters_is_refused():
    model = lp_objective("triangle").model
    with pytest.raises(InvalidParameterError, match="smoothing"):
        LPObjective(model, smoothing=0.1, tighten=True)
    with pytest.raises(InvalidParameterError, match="oracle"):
        LPObjective(model, oracle="TRWS", tighten=True)
    for learner in (ProximalPoint(), CompactQP()):
        with pytest.raises(UnsupportedProblemError, match="tighten"):
            learner.fit(LPObjective(model, tighten=True))
    assert Subgradient(max_iter=5).fit(LPObjective(model, tighten=True)).lower_bound >= 0
    sample = GraphSample(np.eye(3), ms.Graph.chain(3), cliques=[[0, 1, 2]])
    cliques = GraphModel(potentials="associative").bind([sample], [np.array([0, 1, 2])])
    with pytest.raises(InvalidSampleError, match="cliques"):
        LPObjective(cliques, tighten=True)
    X, y = [np.eye(3)[own] for own in np.eye(3, dtype=int)[None]], [np.eye(3, dtype=int)]
    with pytest.raises(InvalidParameterError, match="tighten"):
        ms.GridLabeler(surrogate="margin", tighten=True).fit(X, y)
    assert "clusters" in ms.GridLabeler(surrogate="lp", tighten=True).fit(X, y).result_.message
