"""Training on a graph in parts: the same objective, planes and optimum as in one piece; prediction of trained labelers."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms
from maxsum.learning import CuttingPlane, LPObjective
from maxsum.learning.oracles.base import Effort
from maxsum.losses import Hamming
from maxsum.models import GraphModel
from maxsum.parts import PartsObjective, grow_parts, predict_parts, write_grid, write_parts

K = 3


def image(h=12, w=10, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.kron(rng.integers(0, K, (h // 2, w // 2)), np.ones((2, 2), dtype=int))
    return np.eye(K)[labels] + 0.8 * rng.normal(size=(h, w, K)), labels


def strips(folder, step=4):
    x, y = image()
    return write_grid([(x[i : i + step], y[i : i + step]) for i in range(0, len(x), step)], folder)


def whole(potentials="general", C=0.1):
    x, y = image()
    bound = GraphModel(potentials=potentials).bind(
        [ms.GraphSample(x, ms.Graph.grid(12, 10))], [y.ravel()], classes=list(range(K))
    )
    return LPObjective(bound, C=C)


def in_parts(tmp_path, potentials="general", C=0.1, **options):
    return PartsObjective(strips(tmp_path / "a"), tmp_path / "w", GraphModel(potentials=potentials), range(K), C=C, **options)


def test_features_planes_and_slacks_are_those_of_the_whole(tmp_path):
    parts, one = in_parts(tmp_path), whole()
    np.testing.assert_allclose(parts.truth, one.model.feature(0, one.model.truth(0)), atol=1e-9)
    rng = np.random.default_rng(0)
    for effort in (Effort.NORMAL, Effort.LONG, Effort.FULL):
        w = rng.normal(size=parts.n_weights)
        answer = parts.ask(w, effort=effort)
        generation = int(answer.keys[0][0])
        labels = np.concatenate([np.load(tmp_path / "w" / f"labels-{generation:05d}-{p:05d}.npy") for p in range(3)])
        wanted = one.plane(0, labels)
        for plane in (parts.plane(0, answer.keys[0]), parts.plane(0, answer.keys[0])):  # as found, then from files
            np.testing.assert_array_equal(plane.index, wanted.index)
            np.testing.assert_allclose(plane.value, wanted.value, atol=1e-9)
            assert plane.offset == pytest.approx(wanted.offset)
        assert answer.value[0] == pytest.approx(wanted.offset - w[wanted.index] @ wanted.value)
        best = one.spend(w, one.ask(w), 0.0, (Effort.FULL, Effort.SEARCH))
        assert answer.upper[0] >= best.value[0] - 1e-7
        assert parts.evaluate(w) >= one.primal(w, best.value) - 1e-7


@pytest.mark.parametrize("potentials", ["general", "potts"])
def test_the_optimum_is_that_of_the_whole(tmp_path, potentials):
    parts, one = in_parts(tmp_path, potentials), whole(potentials)
    learner = CuttingPlane(tol=0.02, max_iter=100)
    found, wanted = learner.fit(parts), CuttingPlane(tol=0.005).fit(one)
    assert found.gap <= 0.02 * found.objective
    assert found.lower_bound <= wanted.objective + 1e-7
    assert wanted.lower_bound <= found.objective + 1e-7
    assert found.objective == pytest.approx(wanted.objective, rel=0.03)
    check = found.verify(parts)
    assert check.lower_bound == pytest.approx(found.lower_bound)
    assert check.gap <= 0.03 * found.objective
    if potentials == "potts":
        assert found.weights[-1] >= 0


def test_an_interrupted_training_goes_on(tmp_path):
    parts = in_parts(tmp_path)
    first = CuttingPlane(tol=0.05, max_iter=4, checkpoint=tmp_path / "c").fit(parts)
    again = PartsObjective(parts.parts, tmp_path / "w", GraphModel(), range(K), C=0.1)
    second = CuttingPlane(tol=0.05, max_iter=100, checkpoint=tmp_path / "c").fit(again)
    assert second.n_iter > first.n_iter
    assert second.lower_bound >= first.lower_bound
    assert second.gap <= 0.05 * second.objective
    assert second.verify(again).lower_bound == pytest.approx(second.lower_bound)


def test_typed_edges_with_features_and_codes(tmp_path):
    rng = np.random.default_rng(0)
    edges = [(i, j) for i in range(20) for j in range(i + 1, 20) if rng.random() < 0.15]
    graph = ms.Graph.from_edges(edges, 20, edge_type=rng.integers(0, 2, len(edges)))
    weights = rng.uniform(0, 2, 20)
    sample = ms.GraphSample(rng.integers(0, 4, 20), graph, rng.normal(size=(len(edges), 2)), node_weights=weights)
    labels = rng.integers(0, K, 20)
    model = GraphModel(bias=True).bind([sample], [labels], classes=list(range(K)))
    folder = write_parts(sample, grow_parts(graph, 6), tmp_path / "a", labels)
    parts = PartsObjective(folder, tmp_path / "w", model, C=0.1)
    np.testing.assert_allclose(parts.truth, model.feature(0, labels), atol=1e-9)
    one = LPObjective(model, C=0.1)
    w = rng.normal(size=model.n_weights)
    found = parts.ask(w)
    by_node = np.empty(20, dtype=np.int64)
    for p in range(folder.n_parts):
        by_node[folder.nodes(p)] = np.load(tmp_path / "w" / f"labels-{int(found.keys[0][0]):05d}-{p:05d}.npy")
    assert found.value[0] == pytest.approx(float(one.values(w, np.array([0]), [by_node])[0]))
    assert found.upper[0] >= one.ask(w).value[0] - 1e-9


def test_labelers_predict_in_parts(tmp_path):
    x, y = image()
    net = ms.GridLabeler(potentials="potts", C=0.1, learner=CuttingPlane(tol=0.1)).fit([x], [y])
    parts = write_grid([x[i : i + 5] for i in range(0, 12, 5)], tmp_path / "a")
    result = predict_parts(net, parts, tmp_path / "out", tol=1e-6)
    (whole_result,) = net.predict_result([x])
    (problem,) = net.problems([x])
    assert result.labels().shape == (12, 10)
    assert problem.score(result.labels()) == pytest.approx(result.score)
    assert result.bound >= whole_result.score - 1e-7
    assert whole_result.bound >= result.score - 1e-7
    assert (net.classes_[result.labels()] == net.predict([x])[0]).mean() > 0.95
    assert result.certificate.verify(result.score, result.bound).gap == result.gap
    again = predict_parts(net.model_, parts, tmp_path / "again", weights=net.weights_, tol=1e-6, executor="threads")
    assert again.score == result.score


def test_sparse_features(tmp_path):
    from scipy import sparse

    x, y = image()
    sample = ms.GraphSample(sparse.csr_array(np.maximum(x.reshape(-1, K), 0.0)), ms.Graph.grid(12, 10))
    net = ms.GraphLabeler(potentials="potts", C=0.1, learner=CuttingPlane(tol=0.1)).fit([sample], [y.ravel()])
    parts = write_parts(sample, np.arange(120) // 50, tmp_path / "a")
    result = predict_parts(net, parts, tmp_path / "out")
    (problem,) = net.problems([sample])
    assert problem.score(result.labels().reshape(-1)) == pytest.approx(result.score)


def test_bad_input(tmp_path):
    x, y = image()
    bare = write_grid([x[:6], x[6:]], tmp_path / "bare")
    model = GraphModel()
    with pytest.raises(ms.InvalidSampleError, match="holds no labels"):
        PartsObjective(bare, tmp_path / "w", model, range(K))
    with pytest.raises(ms.InvalidParameterError, match="classes are not given"):
        PartsObjective(bare, tmp_path / "w", model)
    with pytest.raises(ms.InvalidParameterError, match="homogeneous"):
        PartsObjective(bare, tmp_path / "w", GraphModel(homogeneous=False), range(K))
    with pytest.raises(ms.InvalidParameterError, match="normalised"):
        PartsObjective(bare, tmp_path / "w", model, range(K), loss=Hamming(normalised=True))
    few = write_grid([(x[:6], y[:6]), (x[6:], y[6:] + 1)], tmp_path / "few")
    with pytest.raises(ms.InvalidSampleError, match=r"holds label 3, wanted 0\.\.2"):
        PartsObjective(few, tmp_path / "w2", model, range(K))
    wide = write_grid([(x[:6], y[:6]), (np.concatenate([x, x], axis=2)[6:], y[6:])], tmp_path / "wide")
    with pytest.raises(ms.InvalidSampleError, match=r"part-00001\.arrays"):
        PartsObjective(wide, tmp_path / "w3", model, range(K))
    with pytest.raises(ms.InvalidSampleError, match="labels of part 0"):
        write_grid([(x, y.astype(float))], tmp_path / "float")
    with pytest.raises(ms.InvalidSampleError, match="See predict_parts"):
        ms.parts.solve_parts(bare, tmp_path / "out")
    with pytest.raises(ms.InvalidSampleError, match="finite weights"):
        predict_parts(model.bind([ms.GraphSample(x, ms.Graph.grid(12, 10))], classes=[0, 1, 2]), bare, tmp_path / "out")
    with pytest.raises(ValueError, match="trained"):
        predict_parts(ms.GridLabeler(), bare, tmp_path / "out")
    scores = write_grid([x], tmp_path / "scores", tables=np.eye(K))
    net = ms.GridLabeler(potentials="potts", C=0.1, learner=CuttingPlane(tol=0.1)).fit([x], [y])
    with pytest.raises(ms.InvalidSampleError, match="holds scores"):
        predict_parts(net, scores, tmp_path / "out")
    hidden = ms.GraphSample([{"a": 1.0}], ms.Graph.chain(1))
    with pytest.raises(ms.InvalidSampleError, match="Vectorise"):
        write_parts(hidden, [0], tmp_path / "dicts")
