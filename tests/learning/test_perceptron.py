"""Perceptron: Algorithms 1, 2 and 3 on separable data, and what it says about data that are not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference.seeds import seeds

from maxsum import Graph, Guarantee, InvalidParameterError, MaxsumError, Termination, UnsupportedProblemError
from maxsum.core.consistency import is_strictly_trivial
from maxsum.core.errors import InvalidSampleError
from maxsum.inference import TRWS, MaxFlow, solve
from maxsum.kernels.perceptron import enter_cone
from maxsum.learning import MarginObjective, Perceptron, TrivialObjective
from maxsum.models import Codes, GraphModel, GraphSample
from maxsum.models.bound import BoundModel

CHAIN, GRID = Graph.chain(4), Graph.grid(2, 3)


def separable(
    potentials: str = "general", graph: Graph = CHAIN, n_labels: int = 3, n: int = 6, seed: int = 0, d: int = 0
) -> BoundModel:
    """Samples labelled by random weights of the cone; ``d`` edge features."""
    random = np.random.default_rng(seed)
    model = GraphModel(potentials=potentials)
    features = [random.uniform(0.5, 1.5, size=(graph.n_edges, d)) if d else None for _ in range(n)]
    samples = [GraphSample(random.standard_normal((graph.n_nodes, 3)), graph, f) for f in features]
    teacher = model.bind(samples, classes=np.arange(n_labels))
    w = teacher.cone.repair(random.standard_normal(teacher.n_weights))
    return model.bind(samples, [solve(p).labels for p in teacher.problems(w)], classes=np.arange(n_labels))


def strictly_best(model: BoundModel, w: np.ndarray) -> list[bool]:
    """By enumeration: whether the true labelling beats all others."""
    found = []
    for j in range(model.n_examples):
        problem, truth = model.problem(w, j), tuple(model.truth(j).tolist())
        others = itertools.product(*(range(k) for k in problem.n_states))
        found.append(all(problem.score(y) < problem.score(truth) for y in others if y != truth))
    return found


def conflicting() -> BoundModel:
    """Examples 0 and 2 have the same observations and different labels."""
    codes = [[0, 1], [1, 1], [0, 1]]
    samples = [GraphSample(np.array(c), Graph.chain(2)) for c in codes]
    return GraphModel(features=Codes(2)).bind(samples, [[0, 1], [1, 1], [0, 0]], classes=[0, 1])


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative", "potts"])
@pytest.mark.parametrize("graph", [CHAIN, GRID], ids=["chain", "grid"])
def test_separable_data_are_separated(potentials: str, graph: Graph) -> None:
    model = separable(potentials, graph)
    objective = MarginObjective(model)
    result = Perceptron(max_iter=3000).fit(objective)
    assert result.termination == Termination.converged and "all inequalities hold" in result.message
    assert all(strictly_best(model, result.weights))
    assert objective.cone.contains(result.weights)
    assert result.extra["violated"] == 0 and result.extra["n_updates"] > 0 and not result.extra["conflicts"]
    assert result.lower_bound == -np.inf and result.guarantee == Guarantee.feasible
    assert result.objective == pytest.approx(objective.evaluate(result.weights))
    assert result.n_oracle_calls >= model.n_examples


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative", "potts"])
@pytest.mark.parametrize("d", [0, 2], ids=["shared tables", "edge features"])
def test_strictly_trivial_equivalents(potentials: str, d: int) -> None:
    model = separable(potentials, CHAIN, d=d)
    objective = TrivialObjective(model)
    result = Perceptron(max_iter=20_000).fit(objective)
    assert result.termination == Termination.converged and result.extra["algorithm"] == 3
    w = objective.model_weights(result.weights)
    assert all(strictly_best(model, w)) and model.cone.contains(w)
    for j in range(model.n_examples):
        assert is_strictly_trivial(model.problem(w, j), objective.potentials(result.weights, j))
    assert result.n_oracle_calls == 0
    assert (objective.check(result.weights)[2] == 0).all()


@pytest.mark.parametrize("potentials", ["general", "supermodular"])
def test_kept_scores_give_the_same_updates(potentials: str) -> None:
    """Many features: scores kept by products of features, against scores read from the weights each time."""
    random = np.random.default_rng(0)
    samples = [GraphSample(random.standard_normal((4, 40)), CHAIN) for _ in range(20)]
    labels = [random.integers(3, size=4) for _ in samples]
    model = GraphModel(potentials=potentials).bind(samples, labels, classes=np.arange(3))
    objective, plain = TrivialObjective(model), TrivialObjective(model)
    vars(plain)["_gram"] = np.zeros((0, 0))
    assert objective._gram.shape == (80, 80)
    kept, read = (Perceptron(max_iter=20_000).fit(own) for own in (objective, plain))
    assert kept.termination == read.termination == Termination.converged
    assert kept.extra["n_updates"] == read.extra["n_updates"] > 100 and kept.n_iter in (read.n_iter, read.n_iter + 1)
    np.testing.assert_allclose(kept.weights, read.weights, atol=1e-9)
    assert (plain.check(kept.weights)[2] == 0).all() and all(strictly_best(model, objective.model_weights(kept.weights)))
    for limit in (1, 3, 7):
        few = [Perceptron(max_iter=limit).fit(own).weights for own in (objective, plain)]
        np.testing.assert_allclose(*few, atol=1e-9)
    tied = GraphModel(tie=np.zeros((40, 3), dtype=int) + np.arange(3)).bind(samples, labels, classes=np.arange(3))
    assert not len(TrivialObjective(tied)._gram)


def test_symmetric_tables_are_tied() -> None:
    samples = [GraphSample(np.array([0, 1, 2]), Graph.chain(3)), GraphSample(np.array([2, 1, 1]), Graph.chain(3))]
    model = GraphModel(features=Codes(3), symmetric=True).bind(samples, [[0, 1, 2], [2, 1, 1]])
    result = Perceptron().fit(TrivialObjective(model))
    assert result.termination == Termination.converged
    assert all(strictly_best(model, result.weights[: model.n_weights]))


def test_the_supermodular_result_is_strict_and_max_flow_takes_it() -> None:
    model = separable("supermodular", GRID)
    result = Perceptron(max_iter=3000).fit(MarginObjective(model))
    assert result.extra["algorithm"] == 2 and result.extra["cone_updates"] > 0
    assert (model.cone.rows @ result.weights > 0).all()
    flat = Perceptron(max_iter=3000).fit(MarginObjective(model), init=np.zeros(model.n_weights))
    assert (model.cone.rows @ flat.weights > 0).all()
    for j in range(model.n_examples):
        assert (MaxFlow().solve(model.problem(result.weights, j)).labels == model.truth(j)).all()


def test_ties_are_violations() -> None:
    """Zero weights predict label 0 everywhere, which is right here, but no better than the rest."""
    model = GraphModel().bind([GraphSample(np.ones((3, 1)), CHAIN_3)], [[0, 0, 0]], classes=[0, 1])
    for objective in (MarginObjective(model), TrivialObjective(model)):
        result = Perceptron().fit(objective)
        assert result.extra["n_updates"] > 0 and all(strictly_best(model, result.weights[: model.n_weights]))


CHAIN_3 = Graph.chain(3)


@pytest.mark.parametrize("objective", [MarginObjective, TrivialObjective])
def test_conflicting_examples_are_named(objective: type) -> None:
    result = Perceptron(max_iter=50).fit(objective(conflicting()))
    assert result.termination == Termination.iteration_limit and result.n_iter == 50
    assert result.extra["conflicts"] == [(0, 2)] and 1 <= result.extra["violated"] <= 3
    assert "examples 0 and 2 have the same observations and different labels" in result.message
    assert "violated" in result.message


@pytest.mark.parametrize("objective", [MarginObjective, TrivialObjective])
def test_examples_without_weight_are_left_out(objective: type) -> None:
    result = Perceptron(max_iter=500).fit(objective(conflicting(), sample_weight=[1, 1, 0]))
    assert result.termination == Termination.converged and result.extra["conflicts"] == []


def test_what_cannot_be_separated_without_a_conflict() -> None:
    """One code, so one score for all nodes, but the labels differ: exclusive or."""
    samples = [GraphSample(np.array([a, b]), Graph.from_edges([], n_nodes=2)) for a, b in ((0, 0),)]
    model = GraphModel(features=Codes(1)).bind(samples, [[0, 1]], classes=[0, 1])
    result = Perceptron(max_iter=20).fit(MarginObjective(model))
    assert result.termination == Termination.iteration_limit and result.extra["conflicts"] == []
    assert result.extra["violated"] == 1 and "1 examples are violated" in result.message
    result = Perceptron(max_iter=20).fit(TrivialObjective(model))
    assert result.extra["violated_inequalities"] >= 1 and "inequalities of 1 examples are violated" in result.message


@pytest.mark.parametrize("objective", [MarginObjective, TrivialObjective])
def test_averaged_weights(objective: type) -> None:
    model = separable("supermodular", n=10)
    last, average = (Perceptron(max_iter=3000, averaged=a).fit(objective(model)) for a in (False, True))
    assert not np.allclose(last.weights, average.weights)
    assert last.extra["n_updates"] == average.extra["n_updates"]
    assert objective(model).cone.contains(average.weights)
    right = strictly_best(model, average.weights[: model.n_weights])
    assert ("averaged" in average.message) and (average.extra["violated"] > 0 or all(right))


def test_the_average_is_over_all_examples_seen() -> None:
    """Two one-node examples: the weights after each of them, added up by hand."""
    samples = [GraphSample(np.array([[1.0]]), Graph.chain(1)), GraphSample(np.array([[-1.0]]), Graph.chain(1))]
    model = GraphModel().bind(samples, [[0], [1]], classes=[0, 1])
    result = Perceptron(averaged=True).fit(MarginObjective(model))
    assert result.extra["n_updates"] == 1 and result.n_iter == 2
    np.testing.assert_allclose(result.weights[:2], [1.0, -1.0])
    late = Perceptron(averaged=True, batch=1).fit(MarginObjective(separable(n=8)))
    batched = Perceptron(averaged=True, batch=8).fit(MarginObjective(separable(n=8)))
    assert not np.array_equal(late.weights, batched.weights)


@pytest.mark.parametrize("objective", [MarginObjective, TrivialObjective])
def test_one_label_and_one_node(objective: type) -> None:
    one = GraphModel().bind([GraphSample(np.ones((3, 1)), CHAIN_3)], [[5, 5, 5]], classes=[5])
    result = Perceptron().fit(objective(one))
    assert result.termination == Termination.converged and result.extra["n_updates"] == 0
    x = np.array([[1.0, 0.2], [0.1, 1.0], [-1.0, -1.0]])
    nodes = GraphModel().bind([GraphSample(row[None], Graph.chain(1)) for row in x], [[0], [1], [2]], classes=[0, 1, 2])
    result = Perceptron().fit(objective(nodes))
    assert result.termination == Termination.converged and all(strictly_best(nodes, result.weights))


def test_a_relaxed_oracle_never_claims_what_it_cannot_prove() -> None:
    model = separable(graph=Graph.complete(4), n=4)
    result = Perceptron(max_iter=300).fit(MarginObjective(model, oracle="bracket"))
    assert result.termination == Termination.converged and all(strictly_best(model, result.weights))
    frustrated = Perceptron(max_iter=30).fit(MarginObjective(model, oracle=TRWS(max_iter=1)))
    assert frustrated.termination == Termination.converged or frustrated.extra["violated"] + frustrated.extra["undecided"] > 0
    silent = Perceptron(max_iter=3).fit(MarginObjective(model, oracle=lambda p: solve(p).labels))
    assert silent.termination == Termination.iteration_limit and silent.extra["violated"] + silent.extra["undecided"] > 0


def test_scale_of_the_features_does_not_matter() -> None:
    model = separable("supermodular", n=4)
    tiny = [GraphSample(1e-6 * np.asarray(model.data.x[4 * j : 4 * j + 4]), CHAIN, np.full(3, 1e-6)) for j in range(4)]
    scaled = GraphModel(potentials="supermodular").bind(tiny, [model.truth(j) for j in range(4)], classes=[0, 1, 2])
    big, small = (Perceptron(max_iter=3000).fit(MarginObjective(m)) for m in (model, scaled))
    assert small.termination == Termination.converged and all(strictly_best(scaled, small.weights))
    assert small.n_iter <= 2 * big.n_iter + 10


def test_limits_callback_start_and_seed() -> None:
    model = separable(n=10)
    objective = MarginObjective(model)
    done = Perceptron().fit(objective)
    assert Perceptron().fit(objective, init=done).extra["n_updates"] == 0
    assert Perceptron().fit(objective, init=done.weights).n_iter == 1
    assert Perceptron(max_iter=1).fit(objective).termination == Termination.iteration_limit
    assert Perceptron(time_limit=0.0).fit(objective).termination == Termination.time_limit
    stopped = Perceptron().fit(objective, callback=lambda point: point.iteration >= 2)
    assert stopped.termination == Termination.stopped and stopped.n_iter == 2 and "violated" in stopped.message
    seeds = [Perceptron(random_state=s, batch=1).fit(objective) for s in (0, 0, 1)]
    np.testing.assert_array_equal(seeds[0].weights, seeds[1].weights)
    assert not np.array_equal(seeds[0].weights, seeds[2].weights)


def test_interrupted_training_says_so() -> None:
    def interrupt(point: object) -> None:
        raise KeyboardInterrupt

    result = Perceptron().fit(TrivialObjective(separable(n=10), n_jobs=2), callback=interrupt)
    assert result.termination == Termination.interrupted and np.isfinite(result.objective)
    assert result.extra["n_updates"] > 0 and "before all inequalities held" in result.message


def test_checkpoint_goes_on_identically(tmp_path) -> None:  # type: ignore[no-untyped-def]
    model = separable("supermodular", n=10)
    for objective in (MarginObjective, TrivialObjective):
        whole = Perceptron(averaged=True).fit(objective(model))
        file = tmp_path / f"{objective.__name__}.npz"
        part = Perceptron(averaged=True, checkpoint=file, checkpoint_seconds=0.0)
        part.fit(objective(model), callback=lambda point: point.iteration >= 2)
        again = part.fit(objective(model))
        np.testing.assert_array_equal(again.weights, whole.weights)
        assert again.n_iter == whole.n_iter and again.extra["n_updates"] == whole.extra["n_updates"]


def test_wrong_use_is_refused() -> None:
    objective = MarginObjective(separable(n=2))
    with pytest.raises(InvalidParameterError, match="batch is 0"):
        Perceptron(batch=0).fit(objective)
    with pytest.raises(InvalidSampleError, match="init has shape"):
        Perceptron().fit(objective, init=np.zeros(2))
    with pytest.raises(UnsupportedProblemError, match="cannot minimise a Other"):
        Perceptron().fit(type("Other", (), {"n_weights": 1})())

    class Own:
        exact = True

        def answer(self, *args: object) -> None: ...

    with pytest.raises(MaxsumError, match="does not know how to do for a Own"):
        Perceptron().fit(MarginObjective(separable(n=2), oracle=Own()))


@pytest.mark.parametrize("surrogate", [MarginObjective, TrivialObjective])
def test_tables_are_strict_by_more_than_rounding(surrogate: type) -> None:
    """The inequalities (9): every quadruple is a good part of a step above 0, also where steps of one size meet features of any."""
    for seed in seeds(12):
        model = separable("supermodular", CHAIN, n=5, seed=seed)
        result = Perceptron(max_iter=2000, random_state=seed).fit(surrogate(model))
        assert result.termination == Termination.converged
        features = np.concatenate([np.ravel(model.data.x), model.data.f.data])
        step = np.sqrt((features[features != 0] ** 2).mean())
        assert (model.cone.matrix @ result.weights[: model.n_weights]).min() >= 0.99e-6 * step


def test_an_inequality_that_holds_by_rounding_only_is_violated() -> None:
    quads, step = np.array([[0, 3, 1, 2]]), 0.3
    w = np.array([0.1 + 0.2, 0.4, 0.3, 0.4])  # 0.1 + 0.2 is above 0.3 in float64, by 5.6e-17
    assert w[0] + w[3] - w[1] - w[2] >= 0 and abs(w[0] + w[3] - w[1] - w[2]) < 1e-15
    w[3] = np.nextafter(w[3], 1.0)
    assert w[0] + w[3] - w[1] - w[2] > 0
    assert enter_cone(np.zeros(4, dtype=np.uint8), quads, step, 0.0, w, np.zeros(4)) == 1
    assert w[0] + w[3] - w[1] - w[2] == pytest.approx(4 * step)
