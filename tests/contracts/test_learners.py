"""What every learner of the registry promises, on every objective and every potential that it takes.

The optimum is that of programmes that are written out in full (`tests/reference`, cvxpy); bounds of every iteration hold, certificates
verify, a training goes on bit for bit after any step, and whatever a learner does not take is refused with the names of those that do.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learning.shard_data import MemorySource
from reference.lp_m3n import local_examples, solve_lp_m3n
from reference.structured_svm import enumerate_planes, labellings, solve_structured_svm
from reference.trivial_svm import all_inequalities

import maxsum as ms
from maxsum.core.errors import MaxsumError, UnsupportedProblemError
from maxsum.core.result import Guarantee
from maxsum.learning import LikelihoodObjective, LPObjective, MarginObjective, MultiLabelObjective, TrivialObjective, path
from maxsum.learning.checkpoint import FILE
from maxsum.learning.penalties.objective import PenalisedObjective
from maxsum.learning.registry import LEARNERS, able, learner_class
from maxsum.models import GraphModel, GraphSample
from maxsum.models.multilabel import MultiLabelModel
from maxsum.shards.ascent import ShardedObjective

C, SMOOTHING = 1.0, 0.5
POTENTIALS = ("general", "supermodular", "associative")
TAKES = {
    "SubsetAscent": ("sets",),
    "BlockFrankWolfe": ("margin", "cycles", "lp", "sets"),
    "CuttingPlane": ("margin", "cycles", "lp", "sets", "trivial"),
    "Subgradient": ("margin", "cycles", "lp", "sets", "trivial"),
    "Perceptron": ("margin", "cycles", "lp", "trivial"),
    "ProximalPoint": ("lp",),
    "CompactQP": ("lp",),
    "RegionBundle": ("lp",),
    "FactorAscent": ("lp",),
    "SmoothedLP": ("smoothed",),
    "ProjectedQuasiNewton": ("likelihood", "bound"),
    "MaximumLikelihood": ("likelihood", "bound"),
    "ProximalQuasiNewton": (),  # penalties of absolute values, which have other minima: tests/learning/test_penalties.py
    "PenalisedCuttingPlane": (),  # as well: tests/learning/test_penalised_hinge.py
    "ShardAscent": ("shards",),
}
REFUSED = {("RegionBundle", "supermodular"), ("FactorAscent", "supermodular")}
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "BlockFrankWolfe": [{}, {"cached_passes": 0}, {"max_planes": 1}],
    "CuttingPlane": [{}, {"stabilise": False}, {"slacks": "one"}],
    "ProximalPoint": [{}, {"slacks": "trees"}],
    "ShardAscent": [{"communication": 0.0}],
}
NEAR = {"Subgradient": 0.2, "ProximalPoint": 1e-2, "FactorAscent": 1e-3, "SmoothedLP": 1e-4, "ShardAscent": 1e-3}
STEPS = {"Subgradient": 60, "Perceptron": 100, "ShardAscent": 300, "CompactQP": 200}
BAD: dict[str, list[dict[str, Any]]] = {
    "BlockFrankWolfe": [],
    "CuttingPlane": [{"slacks": "two"}, {"absolute": -1.0}],
    "Subgradient": [{"batch": 0}, {"step_size": 0.0}],
    "Perceptron": [{"batch": 0}],
    "ProximalPoint": [{"a": 1.0}, {"lambda_0": 0.0}, {"form": "rings"}, {"inner": 0}, {"eps": -1.0}, {"slacks": "two"}],
    "CompactQP": [{"solver": "cplex"}, {"max_nonzeros": 0}],
    "RegionBundle": [{"heaviness": 0.0}],
    "FactorAscent": [{"penalty": 0.0}],
    "ProjectedQuasiNewton": [{"memory": 0}, {"inner": 0}, {"gradient_tol": -1.0}],
    "MaximumLikelihood": [{"memory": 0}],
    "SmoothedLP": [{"memory": 0}],
    "ProximalQuasiNewton": [{"memory": 0}],
    "PenalisedCuttingPlane": [],
    "ShardAscent": [{"width": 0}],
}
GRAPHS = {"chain": ms.Graph.chain(3), "triangle": ms.Graph.from_edges([(0, 1), (1, 2), (2, 0)])}
WHERE = {"cycles": "triangle", "lp": "triangle", "smoothed": "triangle", "bound": "triangle"}
"""Kinds of objectives on graphs with cycles."""


def samples(graph: str, n: int = 4, n_labels: int = 3) -> tuple[list[GraphSample], list[np.ndarray]]:
    """Labels that alternate or do not, under noise: inconsistent, and no cone is left without need."""
    random = np.random.default_rng(7)
    found, labels = [], []
    for j in range(n):
        net = GRAPHS[graph]
        y = (
            np.arange(net.n_nodes) * (j % 2) + random.integers(n_labels, size=net.n_nodes) * (random.random(net.n_nodes) < 0.5)
        ) % n_labels
        found.append(GraphSample(np.eye(n_labels)[y] + 0.8 * random.standard_normal((net.n_nodes, n_labels)), net))
        labels.append(y)
    return found, labels


def make(kind: str, potentials: str, C: float = C) -> Any:
    """A fresh objective."""
    if kind == "sets":
        random = np.random.default_rng(3)
        x = random.normal(size=(8, 2))
        y = (x @ random.normal(size=(2, 3)) + random.normal(size=(8, 3)) > 0).astype(int)
        return MultiLabelObjective(MultiLabelModel(ms.Graph.complete(3), potentials).bind(x, y), C)
    found, labels = samples(WHERE.get(kind, "chain"))
    if kind == "shards":
        return ShardedObjective(MemorySource(found, labels, 2, C, potentials, n_labels=3), C)
    model = GraphModel(potentials=potentials).bind(found, labels, np.arange(3))
    if kind in ("lp", "smoothed"):
        return LPObjective(model, C, smoothing=SMOOTHING if kind == "smoothed" else 0.0)
    if kind in ("likelihood", "bound"):
        return LikelihoodObjective(model, C, max_cells=0 if kind == "bound" else 1000)
    return (TrivialObjective if kind == "trivial" else MarginObjective)(model, C)


@functools.cache
def optimum(kind: str, potentials: str, C: float = C) -> float | None:
    """The best value of an objective by a programme that is written out; None where there is none."""
    objective = make(kind, potentials, C)
    if kind == "bound":
        return None
    model = objective.source.whole().model if kind == "shards" else objective.model
    rows = objective.cone.matrix.toarray()
    c = objective.c
    if kind == "trivial":
        return solve_structured_svm(all_inequalities(model), c, rows).value
    if kind == "lp":
        return solve_lp_m3n(local_examples(model), c, rows).value
    if kind == "smoothed":
        return soft_value(local_examples(model), c, rows)
    if kind == "likelihood":
        return likelihood_value(model, c, rows)
    planes = [
        enumerate_planes(model.truth(j), model.n_labels, lambda y, j=j: model.feature(j, y), lambda t, y: float((t != y).sum()))
        for j in range(model.n_examples)
    ]
    return solve_structured_svm(planes, c, rows).value


def solve(total: Any, w: Any, rows: np.ndarray, more: list[Any]) -> float:
    """The least value of a convex programme over the cone."""
    cvxpy = pytest.importorskip("cvxpy", reason="the reference needs cvxpy")
    limits = [*more, *([rows @ w >= 0] if len(rows) else [])]
    problem = cvxpy.Problem(cvxpy.Minimize(0.5 * cvxpy.sum_squares(w) + total), limits)
    return float(problem.solve(solver="CLARABEL"))


def likelihood_value(model: Any, c: np.ndarray, rows: np.ndarray) -> float:
    """The regularised negative log-likelihood with every labelling written out."""
    cvxpy = pytest.importorskip("cvxpy", reason="the reference needs cvxpy")
    w, total = cvxpy.Variable(model.n_weights), 0
    for j in range(model.n_examples):
        own = [np.array(y) for y in labellings(len(model.truth(j)), model.n_labels)]
        features = np.array([model.feature(j, y) for y in own])
        total += c[j] * (cvxpy.log_sum_exp(features @ w) - model.feature(j, model.truth(j)) @ w)
    return solve(total, w, rows, [])


def soft_value(examples: Any, c: np.ndarray, rows: np.ndarray) -> float:
    """LP-M3N with soft maxima over nodes and edges, jointly in weights and messages."""
    cvxpy = pytest.importorskip("cvxpy", reason="the reference needs cvxpy")
    w, total = cvxpy.Variable(examples[0].features.shape[1]), 0

    def soft(scores: Any) -> Any:
        return SMOOTHING * cvxpy.log_sum_exp(scores / SMOOTHING)

    for cj, example in zip(c, examples, strict=True):
        scores = example.loss + example.features @ w
        messages = [(cvxpy.Variable(t.shape[0]), cvxpy.Variable(t.shape[1])) for t in example.edge]
        for t, own in enumerate(example.node):
            leaving = sum(pair[i] for pair, ends in zip(messages, example.edges, strict=True) for i in (0, 1) if ends[i] == t)
            total += cj * soft(scores[own] - leaving)
        for table, (first, second) in zip(example.edge, messages, strict=True):
            total += cj * soft(cvxpy.hstack([scores[row] + first[k] + second for k, row in enumerate(table)]))
        total -= cj * (example.truth @ w)
    return solve(total, w, rows, [])


def learner_of(name: str, **options: Any) -> Any:
    return learner_class(name)(**{"tol": NEAR.get(name, 1e-5) / 3, "max_iter": STEPS.get(name, 1000), **options})


def cases(settings: bool = False) -> list[Any]:
    """Learner, options, objective and potentials that go together."""
    return [
        pytest.param(name, options, kind, potentials, id="-".join([name, *map(str, options.values()), kind, potentials]))
        for name, kinds in TAKES.items()
        for options in (SETTINGS.get(name, [{}]) if settings else [SETTINGS.get(name, [{}])[0]])
        for kind in kinds
        for potentials in (POTENTIALS if kind != "sets" else ("general",))
        if (name, potentials) not in REFUSED
    ]


def state_in(checkpoint: Path) -> dict[str, bytes]:
    """All that a checkpoint holds."""
    arrays = FILE.load(checkpoint / "driver" if checkpoint.is_dir() else checkpoint)[1]
    return {name: array.tobytes() for name, array in arrays.items()}


def test_the_registry_is_what_is_tested():
    assert set(TAKES) == set(LEARNERS)
    assert {learner_class(name).__name__ for name in LEARNERS} == set(LEARNERS)


@pytest.mark.parametrize("potentials", POTENTIALS)
@pytest.mark.parametrize("kind", sorted({kind for kinds in TAKES.values() for kind in kinds} - {"sets"}))
def test_others_are_refused_with_the_names_of_those_that_do(kind, potentials):
    objective = make(kind, potentials)
    wanted = [name for name, kinds in TAKES.items() if kind in kinds and (name, potentials) not in REFUSED]
    if kind == "shards":
        assert "ShardAscent" in able(objective)
        wanted = able(objective)
    assert able(objective) == wanted
    for name in set(LEARNERS) - set(wanted):
        with pytest.raises(UnsupportedProblemError, match=f"Learners that minimise it: {', '.join(wanted)}"):
            learner_of(name).fit(objective)


@pytest.mark.parametrize(("name", "options", "kind", "potentials"), cases(settings=True))
def test_the_optimum_is_reached_and_no_bound_is_false(name, options, kind, potentials):
    objective, best = make(kind, potentials), optimum(kind, potentials)
    result = learner_of(name, **options).fit(objective)
    contains = getattr(objective, "contains", None) or objective.cone.contains
    assert contains(result.weights)
    checked = result.verify(objective)
    assert checked.objective <= result.objective * (1 + 1e-6) and checked.lower_bound >= result.lower_bound - 1e-6 * abs(
        result.objective
    )
    if name == "Perceptron":  # minimises nothing
        assert result.lower_bound == -np.inf and result.guarantee == Guarantee.feasible
        assert best is None or result.objective >= best * (1 - 1e-6)
        return
    room = 1e-6 * abs(result.objective)
    for point in result.trace:
        assert point.lower_bound <= result.objective + room and point.objective >= result.lower_bound - room
        if best is not None:
            assert point.lower_bound <= best + room and point.objective >= best - room
    assert result.relative_gap <= NEAR.get(name, 1e-5)
    if best is not None:
        assert result.objective <= best * (1 + NEAR.get(name, 1e-5)) + room


@pytest.mark.parametrize(
    ("name", "options", "kind", "potentials"), [case for case in cases(settings=True) if case.values[3] != "associative"]
)
def test_a_training_goes_on_bit_for_bit_after_any_step(name, options, kind, potentials, tmp_path):
    learner = learner_of(name, **options, tol=1e-9, max_iter=200 if name == "CompactQP" else 7)
    first, finished = make(kind, potentials), tmp_path / "whole"
    whole = replace(learner, checkpoint=finished).fit(first)
    for stop in (1, 2, 4):
        saved = replace(learner, checkpoint=tmp_path / f"training-{stop}", checkpoint_seconds=0.0)
        part = saved.fit(make(kind, potentials), callback=lambda point, stop=stop: point.iteration >= stop)
        assert part.termination == "stopped" or part.n_iter == whole.n_iter
        rest = saved.fit(make(kind, potentials))
        assert rest.weights.tobytes() == whole.weights.tobytes(), stop
        assert (rest.objective, rest.lower_bound) == (whole.objective, whole.lower_bound), stop
        assert (rest.n_iter, rest.n_oracle_calls) == (whole.n_iter, whole.n_oracle_calls), stop
        assert state_in(saved.checkpoint) == state_in(finished), stop
        if whole.certificate is not None:
            assert rest.verify(make(kind, potentials)).lower_bound == whole.verify(first).lower_bound


@pytest.mark.parametrize(
    ("name", "options", "kind", "potentials"),
    [case for case in cases() if case.values[3] == "general" and case.values[0] != "Perceptron"],
)
def test_another_C_and_a_path_have_their_own_optimum(name, options, kind, potentials):
    objective, learner = make(kind, potentials), learner_of(name, **options)
    values = (C / 4, C, 2 * C)
    alone = []
    for value in values:
        objective.set_C(value)
        alone.append(learner.fit(objective))
        assert alone[-1].verify(objective)
    objective.set_C(C)
    shared = path(learner, objective, values)
    assert objective.C == C
    for value, one, two in zip(values, alone, shared, strict=True):
        best, near = optimum(kind, potentials, value), NEAR.get(name, 1e-5)
        objective.set_C(value)
        two.verify(objective)
        assert two.extra["C"] == value
        assert max(one.lower_bound, two.lower_bound) <= min(one.objective, two.objective) * (1 + 1e-6)
        for found in (one, two):
            assert found.relative_gap <= near
            if best is not None:
                assert found.lower_bound <= best * (1 + 1e-6) and found.objective >= best * (1 - 1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_bad_settings_are_refused(name):
    objective = make(TAKES[name][0], "general") if TAKES[name] else PenalisedObjective(make("likelihood", "general"))
    general = [{"tol": -1.0}, {"tol": "x"}, {"max_iter": 0}, {"max_iter": True}, {"random_state": -1}, {"time_limit": -1.0}]
    for options in [*general, *BAD.get(name, [])]:
        with pytest.raises(MaxsumError, match="wanted"):
            learner_class(name)(**options).fit(objective)
