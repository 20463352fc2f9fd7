"""Bad input and hard numerics in learning: behaviour and message, the entries of docs/faults.md."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from faults.learning_samples import close, data, fit
from reference.seeds import seeds
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

import maxsum as ms
from maxsum.core.errors import CertificateError
from maxsum.inference import MaxFlow

CHAIN = ms.Graph.chain(3)
X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_fault_01_02_features_that_are_not_finite(value):
    bad = X.copy()
    bad[2, 1] = value
    with pytest.raises(ValueError, match=rf"{value} at node 2, feature 1; wanted finite numbers"):
        ms.GraphSample(bad, CHAIN)
    with pytest.raises(ValueError, match=rf"{value} at node 2, feature 1"):
        ms.GraphSample(sparse.csr_array(bad), CHAIN)
    with pytest.raises(ValueError, match=rf"{value} at edge 1, feature 0"):
        ms.GraphSample(X, CHAIN, edge_features=[0.0, value])
    samples = [ms.GraphSample([{"a": 1}, {"b": 2}, {"c": 1}], CHAIN), ms.GraphSample([{"a": 1}, {"b": value}, {}], CHAIN)]
    net = ms.GraphLabeler()
    with pytest.raises(ValueError, match="sample 1, node 1, feature 'b'"):
        net.fit(samples, [[0, 1, 0]] * 2)
    assert not hasattr(net, "weights_")


def test_fault_07_no_samples():
    with pytest.raises(ValueError, match="there are no samples"):
        ms.GraphLabeler().fit([], [])
    with pytest.raises(ValueError, match="2 samples, but 1 labellings"):
        ms.GraphLabeler().fit([ms.GraphSample(X, CHAIN)] * 2, [[0, 1, 0]])
    with pytest.raises(ValueError, match="one GraphSample, wanted a list"):
        ms.GraphLabeler().fit(ms.GraphSample(X, CHAIN), [0, 1, 0])
    with pytest.raises(ValueError, match="sample 0 is a ndarray"):
        ms.GraphLabeler().fit([X], [[0, 1, 0]])


def test_fault_08_samples_without_nodes():
    empty = ms.GraphSample(np.zeros((0, 2)), ms.Graph.chain(0))
    net = fit([empty, ms.GraphSample(X, CHAIN)], [[], [0, 1, 0]])
    assert [len(y) for y in net.predict([empty, ms.GraphSample(X, CHAIN), empty])] == [0, 3, 0]
    with pytest.raises(ValueError, match="no node has a label"):
        ms.GraphLabeler().fit([empty], [[]])
    declared = fit([empty, empty], [[], []], classes=[0, 1])
    assert declared.result_.objective == 0.0 and not declared.weights_.any()


@pytest.mark.parametrize("n_labels", [2, 3])
def test_fault_09_single_nodes_are_a_multiclass_svm(n_labels):
    random = np.random.default_rng(1)
    x, y = random.normal(size=(60, 4)), random.integers(n_labels, size=60)
    x[:, :n_labels] += np.eye(n_labels)[y]
    samples = [ms.GraphSample(row[None], ms.Graph.chain(1)) for row in x]
    net = fit(samples, y[:, None], C=0.5, tol=1e-5)
    if n_labels == 3:
        svm = LinearSVC(C=0.5, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=10**6).fit(x, y)
        w = svm.coef_
    else:
        svm = LinearSVC(C=1.0, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=10**6).fit(x, y)
        w = np.concatenate([-svm.coef_, svm.coef_]) / 2
    score = x @ w.T
    hinge = np.maximum(0.0, (score + (np.arange(n_labels) != y[:, None])).max(axis=1) - score[np.arange(60), y])
    expected = 0.5 * (w**2).sum() + 0.5 * hinge.sum()
    if n_labels == 2:
        expected = 0.25 * (svm.coef_**2).sum() + 0.5 * np.maximum(0.0, 1 - (2 * y - 1) * (x @ svm.coef_[0])).sum()
    assert net.result_.objective == pytest.approx(expected, rel=1e-3)
    assert net.result_.lower_bound <= expected * (1 + 1e-9)
    np.testing.assert_array_equal(
        np.concatenate(net.predict(samples)), (x @ net.weights_[: 4 * n_labels].reshape(4, -1)).argmax(axis=1)
    )


@pytest.mark.parametrize("potentials", ["general", "supermodular", "associative", "potts"])
def test_fault_10_a_single_label(potentials):
    samples, _ = data(4)
    net = ms.GraphLabeler(potentials=potentials).fit(samples, [np.full(s.n_nodes, 7) for s in samples])
    assert net.result_.objective == 0.0 and net.result_.guarantee == "optimal" and net.result_.n_iter <= 1
    assert all((y == 7).all() for y in net.predict(samples))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 1], r"labels of sample 0 have shape \(2,\), but it has 3 nodes"),
        ([[0, 1, 0]], "labels of sample 0 have shape"),
        ([0, 1.5, 0], "label of sample 0, node 1 is 1.5"),
        ([0, 1, 3], r"label of sample 0, node 2 is .*3.*, wanted one of the classes \[0, 1, 2\]"),
        ([0, 1, -2], "label of sample 0, node 2 is .*-2"),
        (["a", "b", "a"], "labels of sample 0 have dtype <U1, but the classes have int64"),
        ([0j, 1, 0], "labels of sample 0 have dtype complex128"),
        (np.array([{}, {}, {}], dtype=object), "labels of sample 0 are not numbers or strings"),
    ],
)
def test_fault_17_labels_that_do_not_fit(labels, words):
    net = ms.GraphLabeler(classes=[0, 1, 2])
    with pytest.raises(ValueError, match=words):
        net.fit([ms.GraphSample(X, CHAIN)], [labels])
    assert not hasattr(net, "weights_")


def test_fault_17_labels_that_do():
    sample = ms.GraphSample(X, CHAIN)
    whole = fit([sample], [[0, 1, 0]])
    for same in ([0.0, 1.0, 0.0], np.array([0, 1, 0], dtype=np.uint8), [False, True, False]):
        assert fit([sample], [same]).weights_.tobytes() == whole.weights_.tobytes()
    assert fit([sample], [["no", "yes", "no"]]).predict([sample])[0].dtype.kind == "U"
    with pytest.raises(ValueError, match="no node has a label"):
        ms.GraphLabeler().fit([sample], [[-1, -1, -1]])


def test_fault_18_a_class_that_training_has_not_seen():
    samples, labels = data()
    net = fit(samples, labels, classes=[0, 1, 2, 3])
    assert np.isfinite(net.weights_).all() and net.classes_.tolist() == [0, 1, 2, 3]
    assert (np.concatenate(net.predict(samples)) == 3).mean() < 0.1
    assert net.result_.objective > fit(samples, labels).result_.lower_bound


def test_fault_21_sparse_features_are_dense_ones():
    samples, labels = data(noise=0.5)
    masks = [np.abs(s.X) > 0.4 for s in samples]
    dense = [ms.GraphSample(s.X * m, s.graph) for s, m in zip(samples, masks, strict=True)]

    def odd(sample):
        """Explicit zeros, unsorted indices."""
        n, d = sample.X.shape
        indices = np.tile(np.arange(d)[::-1], n)
        return sparse.csr_matrix((sample.X[:, ::-1].ravel(), indices, np.arange(0, n * d + 1, d)), shape=(n, d))

    expected = fit(dense, labels)
    for form in (sparse.csr_array, sparse.csc_matrix, odd):
        given = [ms.GraphSample(form(s.X) if form is not odd else odd(s), s.graph) for s in dense]
        found = fit(given, labels)
        np.testing.assert_allclose(found.weights_, expected.weights_, atol=1e-9)


def test_fault_22_other_features_at_prediction():
    net = fit(*data())
    with pytest.raises(ValueError, match="sample 1 has 2 features a node, but the model has 3"):
        net.predict([data(1)[0][0], ms.GraphSample(X, CHAIN)])
    with pytest.raises(ValueError, match="codes observations, but the model was given dense ones"):
        net.predict([ms.GraphSample([0, 1, 2], CHAIN)])
    with pytest.raises(ValueError, match="2 features an edge, but the model has 1"):
        net.predict([ms.GraphSample(np.zeros((3, 3)), CHAIN, edge_features=np.ones((2, 2)))])


@pytest.mark.parametrize("potentials", ["associative", "potts"])
def test_fault_24_repulsive_data_leave_associative_weights_at_zero(potentials):
    random = np.random.default_rng(0)
    samples, labels = [], []
    for _ in range(10):
        y = (np.arange(6) + random.integers(2)) % 2
        samples.append(ms.GraphSample(np.eye(2)[y] + random.normal(size=(6, 2)), ms.Graph.chain(6)))
        labels.append(y)
    net = fit(samples, labels, potentials=potentials, tol=1e-4)
    assert (net.weights_[4:] >= 0).all() and net.weights_[4:].max() < 1e-3
    assert net.result_.verify(net.objective_).lower_bound == pytest.approx(net.result_.lower_bound)
    general = fit(samples, labels, tol=1e-4)
    assert general.result_.objective < net.result_.lower_bound


@pytest.mark.parametrize("C", [0, -1.0, np.nan, np.inf, "1", None, True])
def test_fault_25_values_of_C_that_are_none(C):
    with pytest.raises(ValueError, match=r"C is .*, wanted a finite number > 0"):
        ms.GraphLabeler(C=C).fit(*data())


@pytest.mark.parametrize("C", [1e-300, 1e-9, 1e9, 1e300])
def test_fault_25_extreme_values_of_C_end_honestly(C):
    net = fit(*data(4), C=C, max_iter=30)
    result = net.result_
    assert np.isfinite(net.weights_).all() and np.isfinite(result.objective)
    assert 0 <= result.lower_bound <= result.objective
    assert result.termination in ("converged", "iteration_limit")
    if result.termination == "converged":
        assert result.relative_gap <= 1e-3


def test_fault_26_no_tolerance_runs_to_the_end():
    with pytest.warns(ConvergenceWarning, match="relative gap of"):
        net = ms.GraphLabeler(C=10.0, tol=0, max_iter=7).fit(*data())
    assert net.result_.termination == "iteration_limit" and net.result_.n_iter == 7 and net.result_.gap > 0


POTENTIALS = ("general", "supermodular", "associative", "potts")


@pytest.mark.parametrize("seed", seeds(24))
def test_fault_34_35_gaps_are_not_negative_and_certificates_agree(seed):
    random = np.random.default_rng(seed)
    scale = 10.0 ** random.integers(-3, 4)
    samples, labels = data(int(random.integers(1, 8)), seed, int(random.integers(2, 4)), grid=bool(seed % 3 == 0))
    samples = [ms.GraphSample(scale * s.X, s.graph) for s in samples]
    net = fit(
        samples, labels, potentials=POTENTIALS[seed % 4], C=10.0 ** random.integers(-3, 3), max_iter=int(random.integers(1, 60))
    )
    result, objective = net.result_, net.objective_
    for point in result.trace:
        assert point.gap >= -1e-9 * abs(point.objective)
    lower = [point.lower_bound for point in result.trace]
    assert all(a <= b for a, b in itertools.pairwise(lower))
    checked = result.verify(objective)
    assert checked.lower_bound == pytest.approx(result.lower_bound, rel=1e-9, abs=1e-12)
    assert checked.objective == pytest.approx(result.objective, rel=1e-9 if objective.exact else 1e-4)


def test_fault_35_false_certificates_are_refused():
    net = fit(*data())
    certificate = net.result_.certificate
    with pytest.raises(CertificateError, match="negative"):
        replace(certificate, alpha=-certificate.alpha).verify(net.objective_, net.weights_)
    with pytest.raises(CertificateError, match="more than its"):
        replace(certificate, alpha=3 * certificate.alpha).verify(net.objective_, net.weights_)
    with pytest.raises(CertificateError, match="not finite"):
        replace(certificate, alpha=np.nan * certificate.alpha).verify(net.objective_, net.weights_)
    cone = fit(*data(), potentials="associative")
    with pytest.raises(CertificateError, match="outside the cone"):
        cone.result_.certificate.verify(cone.objective_, cone.weights_ - 100.0)


def test_fault_37_permutations_change_nothing():
    samples, labels = data()
    net = fit(samples, labels, tol=1e-5)
    order = np.random.default_rng(0).permutation(len(samples))
    assert close(fit([samples[j] for j in order], [labels[j] for j in order], tol=1e-5), net, 1e-8)
    shuffled, moved = [], []
    random = np.random.default_rng(1)
    for sample, y in zip(samples, labels, strict=True):
        new = random.permutation(sample.n_nodes)
        where = np.argsort(new)
        edges = where[sample.graph.edges]
        shuffled.append(ms.GraphSample(sample.X[new], ms.Graph.from_edges(edges, n_nodes=sample.n_nodes)))
        moved.append(y[new])
    assert close(fit(shuffled, moved, tol=1e-5), net, 1e-8)
    turned = fit(samples, labels, tol=1e-5, classes=[2, 0, 1])
    assert close(turned, net, 1e-8)


def test_fault_39_weights_of_samples_are_repetitions():
    samples, labels = data()
    net = fit(samples, labels, tol=1e-5)
    twice = fit(samples * 2, labels * 2, tol=1e-5)
    double = fit(samples, labels, [2.0] * len(samples), tol=1e-5)
    assert close(twice, double) and np.abs(twice.weights_ - double.weights_).max() < 0.05 * np.abs(double.weights_).max()
    heavy = fit(samples, labels, [2.0] + [1.0] * (len(samples) - 1), tol=1e-5)
    assert close(heavy, fit([samples[0], *samples], [labels[0], *labels], tol=1e-5))
    assert not close(heavy, net)
    none = fit(samples, labels, [0.0] + [1.0] * (len(samples) - 1), tol=1e-5)
    assert close(none, fit(samples[1:], labels[1:], tol=1e-5))
    for wrong in ([1.0], [-1.0] + [1.0] * 7, [np.nan] * 8, [0.0] * 8, [np.inf] * 8):
        with pytest.raises(ValueError, match=r"sample_weight is .*, wanted 8 finite numbers >= 0"):
            fit(samples, labels, wrong)


@pytest.mark.parametrize("symmetric", [False, True])
def test_fault_40_supermodular_weights_are_so_exactly(symmetric):
    samples, labels = data(grid=True)
    net = fit(samples, labels, potentials="supermodular", symmetric=symmetric, max_iter=20)
    assert net.model_.cone.contains(net.weights_) and (net.model_.cone.rows @ net.weights_).min() >= -1e-12
    assert all(MaxFlow().supports(problem) for problem in net.model_.problems(net.weights_, samples))


def test_a_graph_that_does_not_fit_its_features():
    with pytest.raises(ValueError, match="X has 3 rows, but the graph has 4 nodes"):
        ms.GraphSample(X, ms.Graph.chain(4))
    with pytest.raises(ValueError, match=r"edge_features has shape \(3,\).* the graph has 2 edges"):
        ms.GraphSample(X, CHAIN, edge_features=np.ones(3))


def test_examples_that_contradict_each_other_are_learned_as_well_as_may_be():
    sample = ms.GraphSample(X, CHAIN)
    net = fit([sample, sample], [[0, 1, 0], [1, 0, 1]], tol=1e-6)
    assert net.result_.termination == "converged" and net.result_.lower_bound > 0
