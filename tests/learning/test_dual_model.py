"""DualModel.correct: the exact optimum over all kept planes, whatever they are stored as."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning.dual import model as dual_model
from maxsum.learning.dual.planes import PlaneStore
from maxsum.learning.dual.regions import RegionStore
from maxsum.learning.learners.cutting_plane import CuttingPlane
from maxsum.learning.learners.subset_ascent import SubsetAscent
from maxsum.learning.objectives.lp import LPObjective
from maxsum.learning.objectives.margin import MarginObjective
from maxsum.learning.objectives.multilabel import MultiLabelObjective
from maxsum.models import GraphModel, GraphSample
from maxsum.models.multilabel import MultiLabelModel

cp = pytest.importorskip("cvxpy", reason="the dense reference needs cvxpy")


def bound_model(potentials="general", graph=None, n_examples=4, n_features=2):
    random, graph = np.random.default_rng(0), graph or ms.Graph.chain(6)
    samples = [GraphSample(random.standard_normal((graph.n_nodes, n_features)), graph) for _ in range(n_examples)]
    labels = [random.integers(3, size=graph.n_nodes) for _ in samples]
    return GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(3))


def filled(objective, store, rounds=12):
    """A store with planes at random weights of the cone, and hardly any step on their multipliers; also all labellings by example."""
    random, n = np.random.default_rng(1), objective.n_examples
    known = [[] for _ in range(n)]
    store.keeps = True
    for _ in range(rounds):
        keys = objective.ask(objective.cone.repair(random.standard_normal(objective.n_weights))).keys
        store.add(np.arange(n), keys, 1, np.zeros(n))
        for own, key in zip(known, keys, strict=True):
            own.append(key)
    return known


def reduced_optimum(objective, known):
    """Minimum of the reduced primal problem by a dense quadratic program over features."""
    w, slack = cp.Variable(objective.n_weights), cp.Variable(objective.n_examples, nonneg=True)
    wanted = []
    for j, keys in enumerate(known):
        truth = objective.model.truth(j)
        for key in np.unique(np.array(keys), axis=0):
            z = objective.model.feature(j, truth) - objective.model.feature(j, key)
            wanted.append(slack[j] >= objective.loss.value(truth, key, objective.model.n_labels) - z @ w)
    if objective.cone.matrix.shape[0]:
        wanted.append(objective.cone.matrix.toarray() @ w >= 0)
    return cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + objective.c @ slack), wanted).solve(solver="CLARABEL")


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("potentials", ["general", "associative", "supermodular"])
def test_correct_reaches_the_optimum_over_the_kept_planes(explicit, potentials, monkeypatch):
    monkeypatch.setattr("maxsum.learning.dual.planes.few_weights", lambda objective: explicit)
    objective = MarginObjective(bound_model(potentials), C=3.0)
    store = PlaneStore(objective)
    best, before = reduced_optimum(objective, filled(objective, store)), store.refresh()
    assert before < best * (1 - 1e-3), "nothing is left to correct"
    dual = store.correct(1e-10, 30.0)
    assert dual == pytest.approx(best, rel=1e-6)
    assert store.refresh() == dual
    sums = [store.planes.alpha[a : a + n].sum() for a, n in zip(store.planes.slot_ptr[:-1], store.planes.used, strict=True)]
    np.testing.assert_allclose(sums, objective.c, rtol=1e-12)
    assert store.certificate().lower_bound(objective) == pytest.approx(dual, rel=1e-9)
    gain, _ = store.ascend(np.arange(4), 1, 10, 0.0, 0.0, 0.0, 1e-300, np.zeros(4))
    assert 0 <= gain <= 1e-6 * dual
    assert store.correct(1e-10) >= dual * (1 - 1e-12)


@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_correct_of_regions_leaves_block_steps_nothing_to_do(potentials):
    objective = LPObjective(bound_model(potentials, ms.Graph.grid(10, 12), 2), C=0.1)
    store = RegionStore(objective)
    filled(objective, store, 6)
    before = store.refresh()
    dual = store.correct(1e-9)
    assert dual > before * (1 + 1e-4)
    assert store.certificate().lower_bound(objective) == pytest.approx(dual, rel=1e-9)
    gaps = np.full(2, np.inf)
    gain, _ = store.ascend(np.arange(2), 1, 100, 0.0, 0.0, 0.0, 1e-300, gaps)
    assert gain <= 1e-6 * dual and gaps.sum() <= 1e-6 * dual


def test_correct_with_few_planes_never_lowers_the_dual(monkeypatch):
    objective = MarginObjective(bound_model(), C=3.0)
    whole, part = PlaneStore(objective), PlaneStore(objective)
    known = filled(objective, whole)
    filled(objective, part)
    before, best = part.refresh(), reduced_optimum(objective, known)
    n_used = int((part.columns().alpha > 0).sum())
    monkeypatch.setattr(dual_model, "TUNING", dual_model.Tuning(largest=n_used + 2))
    dual = part.correct(1e-9)
    assert before < dual <= best * (1 + 1e-9)
    monkeypatch.setattr(dual_model, "TUNING", dual_model.Tuning(largest=1))
    assert part.correct(1e-9) == dual


def stores():
    """A model of every kind of storage, with planes, and the objective of each."""
    margin = MarginObjective(bound_model("supermodular"), C=3.0)
    lp = LPObjective(bound_model("associative", ms.Graph.grid(10, 12), 2), C=0.1)
    random = np.random.default_rng(2)
    X, Y = random.standard_normal((12, 3)), random.integers(2, size=(12, 4))
    labels = MultiLabelObjective(MultiLabelModel(ms.Graph.chain(4)).bind(X, Y), C=20.0)
    yield "planes", PlaneStore(margin), margin
    yield "regions", RegionStore(lp), lp
    for one in ("n", "one"):
        master = CuttingPlane(tol=1e-2, slacks=one, max_iter=12, stabilise=False).fit(margin).extra["planes"]
        yield f"vectors, {one} slack", master, margin
    yield "subsets", SubsetAscent(max_iter=2).fit(labels).extra["planes"].model, labels


def test_columns_make_the_weights_and_the_dual_of_every_model():
    for name, store, objective in stores():
        if name in ("planes", "regions"):
            filled(objective, store, 6)
        dual, found, cone = store.refresh(), store.columns(), objective.cone
        w = found.origin + found.rows.T @ found.alpha + cone.matrix.T @ store.cone_multipliers
        np.testing.assert_allclose(w, store.weights.value, atol=1e-9, err_msg=name)
        assert store.certificate().lower_bound(objective) == pytest.approx(dual, rel=1e-9), name
        assert (np.bincount(found.block, found.alpha, len(found.limit)) <= found.limit * (1 + 1e-9)).all(), name
        store.assign(0.5 * found.alpha)
        assert store.refresh() < dual, name
        np.testing.assert_allclose(store.columns().alpha[: len(found.alpha)], 0.5 * found.alpha, atol=1e-12, err_msg=name)
        store.assign(found.alpha)
        assert store.refresh() == pytest.approx(dual, rel=1e-9), name
        corrected = store.correct(1e-10)
        assert corrected >= dual * (1 - 1e-12), name
        assert store.certificate().lower_bound(objective) == pytest.approx(corrected, rel=1e-9), name


def test_correct_stops_when_time_is_up():
    objective = MarginObjective(bound_model(), C=3.0)
    store = PlaneStore(objective)
    filled(objective, store)
    before, alpha = store.refresh(), store.planes.alpha.copy()
    assert store.correct(1e-9, 0.0) == before
    assert np.array_equal(store.planes.alpha, alpha)
