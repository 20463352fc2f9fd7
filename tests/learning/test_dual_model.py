"""DualModel.correct: the exact optimum over all kept planes, whatever they are stored as."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning.dual import model as dual_model
from maxsum.learning.dual.planes import PlaneStore
from maxsum.learning.dual.regions import RegionStore
from maxsum.learning.objectives.lp import LPObjective
from maxsum.learning.objectives.margin import MarginObjective
from maxsum.models import GraphModel, GraphSample

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
    assert store.correct(1e-10) >= dual


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


def test_correct_stops_when_time_is_up():
    objective = MarginObjective(bound_model(), C=3.0)
    store = PlaneStore(objective)
    filled(objective, store)
    before, alpha = store.refresh(), store.planes.alpha.copy()
    assert store.correct(1e-9, 0.0) == before
    assert np.array_equal(store.planes.alpha, alpha)
