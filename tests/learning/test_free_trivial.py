"""Strictly trivial equivalents with free potentials: slacks and optimum against programmes with every inequality and potential written out."""

from __future__ import annotations

import numpy as np
import pytest
from reference.trivial_svm import all_inequalities

from maxsum import Graph
from maxsum.core.errors import CertificateError, UnsupportedProblemError
from maxsum.learning import BlockFrankWolfe, CuttingPlane, FreeTrivialObjective, TrivialObjective
from maxsum.models import GraphModel, GraphSample
from maxsum.models.bound import BoundModel

GRAPHS = {"chain": Graph.chain(3), "tree": Graph.from_edges([(1, 0), (1, 2), (1, 3)], n_nodes=5), "nodes": Graph.chain(1)}
TRIANGLE = Graph.from_edges([(0, 1), (1, 2), (2, 0)])


def bound(graph: Graph, potentials: str = "general", n: int = 3) -> BoundModel:
    random = np.random.default_rng(1)
    labels = [random.integers(3, size=graph.n_nodes) for _ in range(n)]
    samples = [GraphSample(np.eye(3)[y] + 0.6 * random.normal(size=(graph.n_nodes, 3)), graph) for y in labels]
    return GraphModel(potentials=potentials).bind(samples, labels, np.arange(3))


def slack(model: BoundModel, j: int, w: np.ndarray) -> float:
    """The least slack over all potentials, by a linear programme."""
    linprog = pytest.importorskip("scipy.optimize").linprog
    rows = all_inequalities(model)[j]
    own, rest = rows.vectors[:, : model.n_weights], rows.vectors[:, model.n_weights :]
    limits = np.hstack([-rest, -np.ones((len(rest), 1))])
    cost = np.zeros(limits.shape[1])
    cost[-1] = 1.0
    ways = [(None, None)] * rest.shape[1] + [(0, None)]
    return float(linprog(cost, limits, own @ w - rows.offset, bounds=ways).fun)


@pytest.mark.parametrize("name", GRAPHS)
def test_slacks_are_the_least_over_all_potentials(name: str) -> None:
    model = bound(GRAPHS[name])
    objective, random = FreeTrivialObjective(model), np.random.default_rng(0)
    for scale in (0.0, 0.5, 3.0):
        w = scale * random.normal(size=model.n_weights)
        answer, wanted = objective.ask(w), [slack(model, j, w) for j in range(3)]
        np.testing.assert_allclose(answer.value, wanted, atol=1e-7)
        np.testing.assert_allclose(answer.upper, wanted, atol=1e-7)
        for j, key, value in zip(answer.examples.tolist(), answer.keys, answer.value, strict=True):
            plane = objective.plane(j, key)
            assert plane.offset - plane.value @ w[plane.index] == pytest.approx(value, abs=1e-12)
        plain = TrivialObjective(model)
        phi = np.concatenate([objective.potentials(w, j).transpose(1, 0, 2).ravel() for j in range(3)])
        np.testing.assert_allclose(plain.ask(np.concatenate([w, phi])).value, wanted, atol=1e-7)  # its potentials reach them


def test_brackets_hold_on_cycles() -> None:
    model = bound(TRIANGLE)
    objective, random = FreeTrivialObjective(model), np.random.default_rng(5)
    assert not objective.exact
    for _ in range(4):
        w = 2 * random.normal(size=model.n_weights)
        wanted = np.array([slack(model, j, w) for j in range(3)])
        answer = objective.ask(w)
        assert (answer.value <= wanted + 1e-7).all() and (wanted <= answer.upper + 1e-7).all()
        assert objective.evaluate(w) >= 0.5 * w @ w + wanted.sum() - 1e-6


@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_the_optimum_is_that_of_the_programme_without_the_squares_of_potentials(potentials: str) -> None:
    cvxpy = pytest.importorskip("cvxpy")
    model = bound(GRAPHS["chain"], potentials)
    objective = FreeTrivialObjective(model, 3.0)
    rows, w = all_inequalities(model), cvxpy.Variable(TrivialObjective(model).n_weights)
    own, cone = w[: model.n_weights], model.cone.matrix.toarray()
    total = 0.5 * cvxpy.sum_squares(own) + sum(3.0 * cvxpy.pos(cvxpy.max(r.offset - r.vectors @ w)) for r in rows)
    limits = [cone @ own >= 0] if len(cone) else []
    optimum = float(cvxpy.Problem(cvxpy.Minimize(total), limits).solve(solver="CLARABEL"))
    result = CuttingPlane(tol=1e-5).fit(objective)
    assert result.lower_bound <= optimum * (1 + 1e-6) and optimum * (1 - 1e-6) <= result.objective <= optimum * (1 + 3e-5)
    assert result.certificate.verify(objective, result.weights, claimed=result).relative_gap <= 2e-5
    with_squares = CuttingPlane(tol=1e-5).fit(TrivialObjective(model, 3.0))
    assert result.objective <= with_squares.objective * (1 + 1e-5)  # whose potentials cost something
    with pytest.raises(CertificateError, match="rational"):
        result.certificate.verify(objective, result.weights, exact=True)


def test_what_is_refused() -> None:
    objective = FreeTrivialObjective(bound(GRAPHS["chain"]))
    with pytest.raises(UnsupportedProblemError, match="CuttingPlane"):
        BlockFrankWolfe().fit(objective)
    for key in ([0, 1], [0, 1, 3], [0.0, 1.0, 2.0]):
        with pytest.raises(CertificateError):
            objective.plane(0, np.array(key))
