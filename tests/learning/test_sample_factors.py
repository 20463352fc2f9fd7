"""Samples with factors: objective, optimum, proofs and predictions against every labelling written out."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference.structured_svm import Planes, enumerate_planes, primal_value, solve_structured_svm

import maxsum as ms
from maxsum.core.errors import CertificateError, InvalidSampleError, OracleError, UnsupportedProblemError
from maxsum.core.factors.lifting import lift
from maxsum.estimators import surrogates
from maxsum.learning import BlockFrankWolfe, CuttingPlane, MarginObjective, Perceptron, Subgradient
from maxsum.learning.oracles.base import augmented
from maxsum.learning.oracles.factored import FactorOracle
from maxsum.models import GraphModel
from maxsum.models.second_order import second_order
from maxsum.storage.format import fingerprint
from maxsum.storage.training import save_training

C, SIZE = 0.7, 3


class Case:
    """Small samples with a count, a soft table and, one of them, no factor; ``h`` is their score, written by hand."""

    def __init__(self, n_samples: int = 5, seed: int = 0):
        rng = np.random.default_rng(seed)
        self.samples, self.labels, self.counts, self.tables = [], [], [], []
        for j in range(n_samples):
            graph = ms.Graph.chain(4) if j % 2 else ms.Graph.from_edges([(0, 1), (1, 2), (2, 3), (3, 0)], n_nodes=4)
            y = rng.integers(0, SIZE, 4)
            y[rng.integers(4)] = 1
            count, table = None if j == 3 else int((y == 1).sum()), rng.normal(size=(SIZE, SIZE))
            factors = [] if count is None else [ms.factors.exactly(np.arange(4), count, labels=1), ([2, 0], table)]
            self.samples.append(ms.GraphSample(rng.normal(size=(4, 2)), graph, factors=factors))
            self.labels.append(y)
            self.counts.append(count)
            self.tables.append(table)
        self.model = GraphModel().bind(self.samples, self.labels, classes=list(range(SIZE)))

    def h(self, j: int, y: np.ndarray) -> float:
        if self.counts[j] is None:
            return 0.0
        return float(self.tables[j][y[2], y[0]]) if sum(1 for k in y if k == 1) == self.counts[j] else -np.inf

    def planes(self) -> list[Planes]:
        found = []
        for j, truth in enumerate(self.labels):
            own = enumerate_planes(
                truth,
                SIZE,
                lambda y, j=j: self.model.feature(j, y),
                lambda t, y, j=j: float((t != y).sum()) + self.h(j, y) - self.h(j, t),
            )
            kept = np.isfinite(own.offset)
            found.append(Planes(own.offset[kept], own.vectors[kept]))
        return found


@pytest.fixture(scope="module")
def case() -> Case:
    return Case()


@pytest.fixture(scope="module")
def optimum(case: Case):
    return solve_structured_svm(case.planes(), [C] * 5)


def everything(n: int = 4) -> list[np.ndarray]:
    return [np.array(y) for y in itertools.product(range(SIZE), repeat=n)]


def test_features_and_factors_together_are_the_score(case: Case) -> None:
    w = np.random.default_rng(1).normal(size=case.model.n_weights)
    for j in range(5):
        problem = case.model.problem(w, j)
        for y in everything():
            assert case.model.factor_score(j, y) == case.h(j, y)
            assert problem.score(y) == pytest.approx(w @ case.model.feature(j, y) + case.h(j, y), abs=1e-12)


@pytest.mark.parametrize("oracle", [None, "bracket", "Exhaustive", "JunctionTree", lambda problem: ms.solve(problem).labels])
@pytest.mark.parametrize("learner", [BlockFrankWolfe(tol=1e-6), CuttingPlane(tol=1e-6)])
def test_the_optimum_is_that_of_all_labellings(case: Case, optimum, learner, oracle) -> None:
    objective = MarginObjective(case.model, C, oracle=oracle)
    result = learner.fit(objective)
    assert result.lower_bound <= optimum.value * (1 + 1e-9)
    assert optimum.value * (1 - 1e-9) <= result.objective <= optimum.value * (1 + 2e-6)
    assert primal_value(case.planes(), [C] * 5, result.weights) <= result.objective * (1 + 1e-9)
    for exact in (False, True):
        found = result.verify(objective, exact=exact)
        assert found.lower_bound == pytest.approx(optimum.value, rel=2e-6)
        assert found.objective == pytest.approx(
            primal_value(case.planes(), [C] * 5, result.weights), rel=1e-9 if exact else 1e-6
        )


@pytest.mark.parametrize(
    "learner", [Subgradient(max_iter=10), CuttingPlane(slacks="one", max_iter=10), BlockFrankWolfe(max_iter=2)]
)
@pytest.mark.parametrize("oracle", [None, "bracket"])
def test_brackets_of_trainings_that_ended_early(case: Case, optimum, learner, oracle) -> None:
    result = learner.fit(objective := MarginObjective(case.model, C, oracle=oracle))
    assert result.lower_bound <= optimum.value * (1 + 1e-12) and optimum.value <= result.objective * (1 + 1e-12)
    result.verify(objective)


@pytest.mark.parametrize("effort", list(ms.learning.oracles.base.Effort))
@pytest.mark.parametrize("exact", [True, False])
def test_slacks_are_bracketed_at_any_weights(case: Case, effort, exact: bool) -> None:
    objective = MarginObjective(case.model, C, oracle=None if exact else "bracket")
    assert isinstance(objective.oracle, FactorOracle) and objective.exact == exact
    planes = case.planes()
    for seed in range(3):
        w = np.random.default_rng(seed).normal(size=case.model.n_weights)
        slack = np.array([(own.offset - own.vectors @ w).max() for own in planes])
        answer = objective.ask(w, None, effort)
        assert (answer.value <= slack + 1e-9).all()
        if effort.is_proof:
            assert (slack <= answer.upper + 1e-9).all()
        if exact:
            assert answer.value == pytest.approx(slack, abs=1e-9)
        low, high, *_ = objective.prove(w, ms.learning.certificate.Check())
        value = primal_value(planes, [C] * 5, w)
        assert low <= value * (1 + 1e-12) and value <= high * (1 + 1e-12)


def test_certificates_refuse_what_is_not_theirs(case: Case) -> None:
    objective = MarginObjective(case.model, C)
    result = CuttingPlane(tol=1e-6).fit(objective)
    proof = result.certificate
    # a labelling that the count forbids is no plane
    forbidden = np.full(4, 1, dtype=np.int32) if case.counts[0] != 4 else np.zeros(4, dtype=np.int32)
    at = int(np.flatnonzero(proof.examples == 0)[0])
    forged = replace(proof, keys=(*proof.keys[:at], forbidden, *proof.keys[at + 1 :]))
    for exact in (False, True):
        with pytest.raises(CertificateError, match=r"example 0 has labels that its factor 0 forbids"):
            forged.verify(objective, result.weights, exact=exact)
    # more than is proven
    with pytest.raises(CertificateError, match="lower bound"):
        proof.verify(objective, result.weights, claimed=replace(result, lower_bound=result.objective * 1.01))
    # the same data without, or with other, factors
    bare = GraphModel().bind([replace(own, factors=None) for own in case.samples], case.labels, classes=list(range(SIZE)))
    other = Case()
    count, (nodes, table) = other.samples[0].factors
    samples = [replace(other.samples[0], factors=[count, (nodes, 1.5 * table.scores)]), *other.samples[1:]]
    changed = GraphModel().bind(samples, other.labels, classes=list(range(SIZE)))
    for model in (bare, changed):
        different = MarginObjective(model, C)
        assert different.digest != objective.digest
        assert fingerprint(different) != fingerprint(objective)
        with pytest.raises(CertificateError):
            result.verify(different)


def test_predictions_are_the_best_of_all_labellings() -> None:
    case = Case(12, seed=3)
    names = np.array(["a", "b", "c"])
    net = ms.GraphLabeler(C=C).fit(case.samples, [names[y] for y in case.labels])
    assert net.result_.learner == "BlockFrankWolfe" and "elimination, as samples have factors" in net.result_.message
    found, plain = net.predict(case.samples), ms.GraphLabeler(C=C).fit(case.samples, [names[y] for y in case.labels])
    for j, (labels, problem) in enumerate(zip(found, net.problems(case.samples), strict=True)):
        best = max(everything(), key=lambda y, p=problem, j=j: p.score(y) if np.isfinite(case.h(j, y)) else -np.inf)
        assert problem.score(np.searchsorted(names, labels)) == pytest.approx(problem.score(best), abs=1e-9)
        assert case.counts[j] is None or (labels == "b").sum() == case.counts[j]
        result = net.predict_result(case.samples)[j]
        assert result.guarantee == "optimal"
        result.certificate.verify(problem, result.labels)
    assert plain.weights_.tolist() == net.weights_.tolist()
    # known labels of some nodes, and the constraint on the rest
    observed = [[None, *names[y[1:]]] for y in case.labels]
    for j, labels in enumerate(net.predict(case.samples, observed=observed)):
        assert labels[1:].tolist() == names[case.labels[j]][1:].tolist()
        assert case.counts[j] is None or (labels == "b").sum() == case.counts[j]


def test_other_surrogates_predict_with_factors_but_do_not_train_with_them(case: Case) -> None:
    bare = [replace(sample, factors=None) for sample in case.samples]
    for name in ("lp", "trivial", "qp", "logistic", "likelihood"):
        with pytest.raises(
            UnsupportedProblemError, match=r"takes no factors, and sample 0 has 2\. Train with surrogate='margin'"
        ):
            ms.GraphLabeler(surrogate=name).fit(case.samples, case.labels)
        net = ms.GraphLabeler(surrogate=name, tol=0.1).fit(bare, case.labels)
        solver = "JunctionTree" if name in ("qp", "logistic") else None
        for labels, count in zip(net.predict(case.samples, solver=solver), case.counts, strict=True):
            assert count is None or (labels == 1).sum() == count
        if solver:
            for method in (net.predict, net.predict_result):
                with pytest.raises(UnsupportedProblemError, match="the rounded prediction of convex energies takes no factors"):
                    method(case.samples)
    with pytest.raises(UnsupportedProblemError, match="predict_marginals takes no factors"):
        net.predict_marginals(case.samples)
    with pytest.raises(UnsupportedProblemError, match="Perceptron takes no factors"):
        Perceptron().fit(MarginObjective(case.model, C))
    with pytest.raises(UnsupportedProblemError, match=r"pairs of labels \(order=2\) takes no factors"):
        second_order(case.model)


def test_auto_is_margin_and_general_where_samples_have_factors(monkeypatch) -> None:
    monkeypatch.setattr(surrogates, "many_blocks", lambda objective: True)
    rng = np.random.default_rng(0)
    y = np.array([0, 1, 1, 0])
    for factors, wanted in (([ms.factors.exactly(np.arange(4), 2)], "margin"), (None, "lp")):
        sample = ms.GraphSample(rng.normal(size=(4, 2)), ms.Graph.grid(2, 2), factors=factors)
        net = ms.GraphLabeler().fit([sample], [y])
        assert net.objective_.surrogate == wanted
        assert ("general potentials, as samples have factors" in net.result_.message) == (factors is not None)


def test_a_truth_that_breaks_its_own_constraint_is_refused() -> None:
    sample = ms.GraphSample(np.eye(3), ms.Graph.chain(3), factors=[([0, 1], np.zeros((2, 2))), ms.factors.exactly([0, 2], 1)])
    with pytest.raises(
        InvalidSampleError, match=r"factor 1 of sample 1 .* forbids the training labels \['b', 'b'\] of its nodes \[0, 2\]"
    ):
        ms.GraphLabeler().fit([sample, sample], [["a", "b", "b"], ["b", "a", "b"]])


def test_factors_are_checked_as_those_of_problems() -> None:
    graph = ms.Graph.chain(3)
    with pytest.raises(InvalidSampleError, match="names node 7"):
        ms.GraphSample(np.eye(3), graph, factors=[([0, 7], np.zeros((2, 2)))])
    with pytest.raises(InvalidSampleError, match="factor 0 is 5, wanted a pair"):
        ms.GraphSample(np.eye(3), graph, factors=[5])
    with pytest.raises(InvalidSampleError, match="nan"):
        ms.GraphSample(np.eye(3), graph, factors=[([0, 1], np.full((2, 2), np.nan))])
    wide = ms.GraphSample(np.eye(3), graph, factors=[([0, 1], np.zeros((3, 3)))])
    with pytest.raises(
        InvalidSampleError, match="sample 0: factor 0 has a table of shape .*numbers of classes, in their order"
    ):
        ms.GraphLabeler().fit([wide], [[0, 1, 1]])
    assert "1 factors" in repr(wide)


def test_unknown_labels_beside_known_ones_are_refused_and_alone_go_with_their_nodes() -> None:
    rng = np.random.default_rng(0)
    x, graph = rng.normal(size=(5, 2)), ms.Graph.chain(5)
    inside, outside = ms.factors.exactly([0, 1, 2], 2), ms.factors.at_most([3, 4], 1)
    y = [0, 1, 1, -1, -1]
    net = ms.GraphLabeler(C=C, tol=1e-6).fit([ms.GraphSample(x, graph, factors=[inside, outside])], [y])
    kept = ms.GraphSample(x[:3], ms.Graph.chain(3), factors=[inside])
    small = ms.GraphLabeler(C=C, tol=1e-6).fit([kept], [y[:3]])
    assert net.weights_ == pytest.approx(small.weights_, abs=1e-12)
    with pytest.raises(InvalidSampleError, match=r"factor 0 of sample 0 .* joins node 3, whose label is unknown"):
        ms.GraphLabeler().fit([ms.GraphSample(x, graph, factors=[ms.factors.exactly([2, 3], 1)])], [y])


def test_nothing_is_lost_on_the_way_to_files(case: Case, tmp_path) -> None:
    sample = case.samples[0]
    with pytest.raises(InvalidSampleError, match="2 factors, which shards do not keep"):
        ms.datasets.write_shards([(sample, case.labels[0])], tmp_path / "shards")
    with pytest.raises(UnsupportedProblemError, match="factors; graphs in parts"):
        ms.parts.write_parts(sample, [0, 0, 1, 1], tmp_path / "parts")
    with pytest.raises(UnsupportedProblemError, match="factors; graphs in parts"):
        ms.parts.write_parts(case.model.problem(np.zeros(case.model.n_weights), 0), [0, 0, 1, 1], tmp_path / "problem")
    net = ms.GraphLabeler(C=C).fit(case.samples, case.labels)
    with pytest.raises(ms.ModelFileError, match="cliques and factors"):
        save_training(tmp_path / "data.npz", net)
    ms.save_model(net, tmp_path / "net.maxsum", certificate=True)
    loaded = ms.load_model(tmp_path / "net.maxsum")
    for one, other in zip(loaded.predict(case.samples), net.predict(case.samples), strict=True):
        assert one.tolist() == other.tolist()


def test_an_oracle_that_breaks_constraints_is_refused(case: Case) -> None:
    objective = MarginObjective(case.model, C, oracle=lambda problem: np.full(4, 1))
    with pytest.raises(OracleError, match="labels that the factors of the sample forbid"):
        objective.ask(np.zeros(case.model.n_weights))
    with pytest.raises(UnsupportedProblemError, match="takes no factors"):
        MarginObjective(case.model, C, oracle="TreeDP").ask(np.zeros(case.model.n_weights))


def test_a_training_goes_on_from_its_checkpoint(case: Case, tmp_path) -> None:
    path = tmp_path / "state"
    whole = BlockFrankWolfe(tol=1e-7).fit(MarginObjective(case.model, C))
    stopped = BlockFrankWolfe(tol=1e-7, checkpoint=path, checkpoint_seconds=0.0)
    stopped.fit(MarginObjective(case.model, C), lambda point: point.iteration >= 2)
    again = BlockFrankWolfe(tol=1e-7, checkpoint=path).fit(MarginObjective(case.model, C))
    assert again.weights.tolist() == whole.weights.tolist()


def test_counts_along_chains_are_eliminated_exactly() -> None:
    """A count over 14 nodes has a bag of 4**14 cells as it is, and small ones with partial counts as nodes."""
    n, size, rng = 14, 4, np.random.default_rng(0)
    unary, table, wanted = rng.normal(size=(n, size)), rng.normal(size=(size, size)), 3
    problem = ms.Problem(ms.Graph.chain(n), unary, tables=table, factors=[ms.factors.exactly(np.arange(n), wanted, labels=2)])
    # dynamic programming over (label, count), by hand
    best = {(k, int(k == 2)): unary[0, k] for k in range(size)}
    for v in range(1, n):
        new: dict[tuple[int, int], float] = {}
        for (k, count), value in best.items():
            for m in range(size):
                key = m, count + int(m == 2)
                new[key] = max(new.get(key, -np.inf), value + table[k, m] + unary[v, m])
        best = new
    highest = max(value for (_, count), value in best.items() if count == wanted)
    for result in (ms.solve(problem), ms.solve(problem, "JunctionTree")):
        assert result.guarantee == "optimal" and result.solver == "JunctionTree"
        assert result.score == pytest.approx(highest, abs=1e-9)
        assert result.certificate.verify(problem, result.labels).bound == pytest.approx(highest, abs=1e-6)
        result.certificate.verify(problem, result.labels, exact=True)


def test_lifted_forms_with_other_scores(case: Case) -> None:
    design = MarginObjective(case.model, C).design
    rng = np.random.default_rng(5)
    before, after = (augmented(case.model, design.loss, rng.normal(size=case.model.n_weights), range(5)) for _ in range(2))
    for old, new in zip(before, after, strict=True):
        changed, fresh = lift(old).with_scores(new), lift(new)
        for y in everything():
            assert (
                changed.problem.score(changed.labels(y)) == fresh.problem.score(fresh.labels(y)) == pytest.approx(new.score(y))
            )
