"""GraphLabeler: the conventions of scikit-learn, and each parameter with an effect."""

from __future__ import annotations

import inspect
import itertools
import pickle
import warnings

import numpy as np
import pytest
from factories.samples import smooth_sequences
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.inference import MaxFlow
from maxsum.learning import BlockFrankWolfe
from maxsum.losses import Hamming
from maxsum.models import Codes, Kernel

NAMES = np.array(["blue", "green", "red"])


def chains(n=20, seed=0, noise=0.8):
    X, y = smooth_sequences(n, seed, noise)
    return [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X], [NAMES[own] for own in y]


def grids(n=6, seed=0):
    random = np.random.default_rng(seed)
    samples, labels = [], []
    for _ in range(n):
        y = np.repeat(np.repeat(random.integers(2, size=(2, 2)), 2, axis=0), 3, axis=1)
        x = y + 0.7 * random.normal(size=y.shape)
        samples.append(ms.GraphSample(np.stack([x, np.ones_like(x)], axis=2), ms.Graph.grid(4, 6)))
        labels.append(y)
    return samples, labels


@pytest.fixture(scope="module")
def fitted():
    return ms.GraphLabeler(C=20.0).fit(*chains())


def test_it_learns_and_predicts_in_the_classes_given(fitted):
    samples, labels = chains(seed=1)
    predicted = fitted.predict(samples)
    assert fitted.classes_.tolist() == NAMES.tolist()
    assert [len(p) for p in predicted] == [s.n_nodes for s in samples]
    assert set(np.concatenate(predicted)) <= set(NAMES)
    right = sum((p == y).sum() for p, y in zip(predicted, labels, strict=True))
    assert fitted.score(samples, labels) == right / sum(len(y) for y in labels) > 0.7
    no_edges = [ms.GraphSample(s.X, ms.Graph.from_edges([], n_nodes=s.n_nodes)) for s in chains()[0]]
    alone = ms.GraphLabeler(C=20.0).fit(no_edges, chains()[1])
    assert alone.score(
        [ms.GraphSample(s.X, ms.Graph.from_edges([], n_nodes=s.n_nodes)) for s in samples], labels
    ) < fitted.score(samples, labels)


def test_what_is_proven_holds(fitted):
    result = fitted.result_
    assert result.termination == "converged" and result.relative_gap <= 1e-3
    checked = result.verify(fitted.objective_)
    assert checked.objective == pytest.approx(result.objective, rel=1e-9)
    assert checked.lower_bound == pytest.approx(result.lower_bound, rel=1e-9)
    samples, _ = chains(seed=1)
    for sample, found in zip(samples, fitted.predict_result(samples), strict=True):
        problem = fitted.model_.problems(fitted.weights_, [sample])[0]
        assert found.guarantee == "optimal" and found.certificate.verify(problem, found.labels).optimal


def test_weights_have_names(fitted):
    assert len(fitted.weight_names_) == len(fitted.weights_) == 9 + 9
    assert fitted.weight_names_[0] == "q(x0, blue)" and fitted.weight_names_[-1] == "g(red, red)"
    strongest = fitted.weight_names_[int(np.argmax(fitted.weights_[:3]))]
    assert strongest == "q(x0, blue)"


def test_grids_keep_their_shape():
    samples, labels = grids()
    net = ms.GraphLabeler(potentials="supermodular", C=10.0).fit(samples, labels)
    predicted = net.predict(samples)
    assert all(p.shape == (4, 6) for p in predicted) and net.score(samples, labels) > 0.85
    assert all(r.solver == "MaxFlow" for r in net.predict_result(samples))
    flat = ms.GraphLabeler(potentials="supermodular", C=10.0).fit(samples, [y.ravel() for y in labels])
    assert flat.weights_.tobytes() == net.weights_.tobytes()
    with pytest.raises(InvalidSampleError, match=r"labels of sample 0 have shape \(6, 4\)"):
        net.fit(samples, [y.T for y in labels])


def test_conventions_of_scikit_learn(fitted):
    samples, labels = chains(n=6)
    net = ms.GraphLabeler(C=5.0, potentials="potts")
    before = net.get_params()
    assert set(before) == set(inspect.signature(ms.GraphLabeler).parameters)
    assert net.fit(samples, labels) is net and net.get_params() == before
    copy = clone(net)
    assert copy.get_params() == before and not hasattr(copy, "weights_")
    assert copy.fit(samples, labels).weights_.tobytes() == net.weights_.tobytes()
    with pytest.raises(NotFittedError):
        ms.GraphLabeler().predict(samples)
    with pytest.raises(NotFittedError):
        ms.GraphLabeler().weight_names_  # noqa: B018
    with pytest.raises(ValueError, match="Invalid parameter 'Q'"):
        net.set_params(Q=1)
    assert "potentials='potts'" in repr(net)


def test_a_second_fit_starts_from_nothing():
    samples, labels = chains(n=8)
    net = ms.GraphLabeler(C=5.0).fit(*chains(n=5, seed=3))
    first = clone(net).fit(samples, labels)
    assert net.fit(samples, labels).weights_.tobytes() == first.weights_.tobytes()
    assert net.result_.n_oracle_calls == first.result_.n_oracle_calls


def test_cross_validation_and_grid_search():
    samples, labels = chains(n=12)
    scores = cross_val_score(ms.GraphLabeler(C=5.0, classes=NAMES), samples, labels, cv=3)
    assert scores.shape == (3,) and (scores > 0.5).all()
    search = GridSearchCV(ms.GraphLabeler(classes=NAMES), {"C": [1e-9, 10.0], "potentials": ["general", "potts"]}, cv=2)
    assert set(search.fit(samples, labels).best_params_) == {"C", "potentials"}
    assert (
        search.best_score_ == max(search.cv_results_["mean_test_score"]) > 0.5
        and search.predict(samples)[0].shape == labels[0].shape
    )


def test_a_fitted_labeler_survives_pickling(fitted):
    samples, _ = chains(n=3, seed=5)
    again = pickle.loads(pickle.dumps(clone(fitted).set_params(**fitted.get_params())))
    assert again.get_params() == fitted.get_params()
    for a, b in zip(pickle.loads(pickle.dumps(fitted)).predict(samples), fitted.predict(samples), strict=True):
        np.testing.assert_array_equal(a, b)


# ---- every parameter has an effect ----------------------------------------------------------------------------


def fit(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return ms.GraphLabeler(**{"C": 5.0, **parameters}).fit(*chains(n=8))


def test_potentials_bias_symmetric_homogeneous_tie():
    sizes = {p: len(fit(potentials=p).weights_) for p in ("general", "supermodular", "associative", "potts")}
    assert sizes == {"general": 18, "supermodular": 18, "associative": 12, "potts": 10}
    assert len(fit(bias=True).weights_) == 21 and len(fit(symmetric=True).weights_) == 15
    assert len(fit(tie=1 - np.eye(3, dtype=int)).weights_) == 2 + 9
    assert (fit(potentials="associative").weights_[9:] >= 0).all()
    samples, labels = chains(n=8)
    cut = [ms.GraphSample(s.X[:3], ms.Graph.chain(3)) for s in samples]
    assert len(ms.GraphLabeler(homogeneous=False).fit(cut, [y[:3] for y in labels]).weights_) == 3 * 9 + 2 * 9


def test_C_and_loss_and_features():
    assert np.linalg.norm(fit(C=50.0).weights_) > np.linalg.norm(fit(C=0.05).weights_)
    assert fit(loss="normalised").result_.objective < fit().result_.objective
    assert fit(loss=Hamming(class_weight=[0.0, 0.0, 1.0])).result_.objective < fit().result_.objective
    assert fit(loss=2.0 * (1 - np.eye(3))).result_.objective > fit().result_.objective
    assert len(fit(features=Kernel("rbf", basis=5)).weights_) == 15 + 9


def test_tol_max_iter_time_limit_and_the_warning():
    assert fit(tol=1e-5).result_.relative_gap <= 1e-5 < fit(tol=0.1).result_.relative_gap
    with pytest.warns(ConvergenceWarning, match=r"iteration limit.* after 1 passes .* relative gap of .*, wanted 1e-09"):
        net = ms.GraphLabeler(C=5.0, tol=1e-9, max_iter=1).fit(*chains(n=8))
    assert net.result_.termination == "iteration_limit" and net.result_.n_iter == 1
    with pytest.warns(ConvergenceWarning, match="time limit"):
        net = ms.GraphLabeler(C=5.0, time_limit=0.0).fit(*chains(n=8))
    assert np.isfinite(net.result_.objective) and net.result_.gap >= 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.GraphLabeler(C=5.0).fit(*chains(n=8))


def test_callback_stops():
    seen = []
    with pytest.warns(ConvergenceWarning, match="stopped"):
        net = ms.GraphLabeler(C=50.0, tol=1e-6, callback=lambda p: seen.append(p) or p.iteration == 3).fit(*chains(n=8))
    assert net.result_.termination == "stopped" and [p.iteration for p in seen] == [1, 2, 3]


def test_random_state_and_n_jobs():
    assert fit(random_state=0, tol=1e-5).weights_.tobytes() == fit(random_state=0, tol=1e-5).weights_.tobytes()
    assert fit(random_state=1, tol=1e-5).weights_.tobytes() != fit(random_state=0, tol=1e-5).weights_.tobytes()
    assert fit(n_jobs=2).weights_.tobytes() == fit().weights_.tobytes() == fit(n_jobs=-1).weights_.tobytes()
    samples, _ = chains(n=5)
    two, one = fit(n_jobs=2).predict(samples), fit().predict(samples)
    assert all((a == b).all() for a, b in zip(two, one, strict=True))


def test_learner_is_taken_as_it_is():
    net = fit(learner=BlockFrankWolfe(tol=0.2), tol=1e-9)
    assert net.result_.termination == "converged" and 1e-6 < net.result_.relative_gap <= 0.2
    assert fit(learner=BlockFrankWolfe(corrective=False, tol=0.05)).result_.learner == "BlockFrankWolfe"


def test_oracle_predicts_too():
    samples, labels = grids()
    net = ms.GraphLabeler(potentials="supermodular", C=5.0, oracle="MaxFlow").fit(samples, labels)
    assert {r.solver for r in net.predict_result(samples)} == {"MaxFlow"}
    assert {r.solver for r in net.predict_result(samples, solver="TRWS")} == {"TRWS"}
    assert {r.solver for r in net.predict_result(samples, solver=MaxFlow())} == {"MaxFlow"}
    bracket = ms.GraphLabeler(C=5.0, oracle="bracket", tol=0.02).fit(samples, labels)
    assert bracket.result_.lower_bound <= bracket.result_.objective
    assert bracket.score(samples, labels) > 0.7


def test_classes_are_declared():
    net = ms.GraphLabeler(C=5.0, classes=["red", "green", "blue", "black"]).fit(*chains(n=8))
    assert net.classes_.tolist() == ["red", "green", "blue", "black"] and np.isfinite(net.weights_).all()
    with pytest.raises(InvalidSampleError, match=r"'green'.*wanted one of the classes"):
        ms.GraphLabeler(classes=["red", "blue"]).fit(*chains(n=8))


def test_checkpoint(tmp_path):
    whole = fit(tol=1e-5)
    state = tmp_path / "state"
    part = fit(tol=1e-5, checkpoint=state, callback=lambda p: p.iteration == 3)
    assert part.result_.n_iter == 3 and state.exists()
    assert fit(tol=1e-5, checkpoint=state).weights_.tobytes() == whole.weights_.tobytes()
    with pytest.warns(UserWarning, match="checkpoint was not written"):
        ms.GraphLabeler(C=5.0, checkpoint=tmp_path / "no" / "state").fit(*chains(n=8))


def test_trivial_surrogate():
    learning = pytest.importorskip("maxsum.learning.learners.cutting_plane")
    assert learning is not None
    samples, labels = chains(n=6, noise=0.1)
    net = ms.GraphLabeler(surrogate="trivial", C=100.0, tol=0.05).fit(samples, labels)
    assert net.result_.learner == "CuttingPlane" and len(net.weights_) == 18
    assert net.score(samples, labels) == 1.0


# ---- types, masks, weights ------------------------------------------------------------------------------------


def test_node_types_with_labels_of_their_own():
    graph = ms.Graph.chain(4)
    samples = [
        ms.GraphSample([0, 1, 0, 1], graph, node_types=[0, 1, 0, 1]),
        ms.GraphSample([1, 0, 1, 0], graph, node_types=[0, 1, 0, 1]),
    ]
    labels = [["a", "x", "a", "y"], ["b", "z", "b", "z"]]
    net = ms.GraphLabeler(C=100.0).fit(samples, labels)
    assert [c.tolist() for c in net.classes_] == [["a", "b"], ["x", "y", "z"]]
    predicted = net.predict(samples)
    assert predicted[1].tolist() == labels[1] and set(predicted[0][[0, 2]]) <= {"a", "b"}
    mixed = ms.GraphLabeler(C=100.0).fit(
        samples, [np.array(["a", 5, "a", 6], dtype=object), np.array(["b", 7, "b", 7], dtype=object)]
    )
    assert mixed.predict(samples)[1].tolist() == ["b", "7", "b", "7"]


def test_unknown_labels_count_nothing():
    samples, labels = chains(n=8)
    masked = [np.array([*y[:-1], None], dtype=object) for y in labels]
    net = ms.GraphLabeler(C=5.0).fit(samples, masked)
    cut = [ms.GraphSample(s.X[:-1], ms.Graph.chain(s.n_nodes - 1)) for s in samples]
    expected = ms.GraphLabeler(C=5.0).fit(cut, [y[:-1] for y in labels])
    assert net.weights_.tobytes() == expected.weights_.tobytes()
    right = [(p[:-1] == y[:-1]).sum() for p, y in zip(net.predict(samples), labels, strict=True)]
    assert net.score(samples, masked) == sum(right) / sum(len(y) - 1 for y in labels)
    with pytest.raises(InvalidSampleError, match="nothing to score"):
        net.score(samples[:1], [[None] * samples[0].n_nodes])


def test_score_counts_unseen_labels_as_wrong_and_takes_weights(fitted):
    samples, _ = chains(n=2, seed=1)
    truth = fitted.predict(samples)
    other = [truth[0], np.full(len(truth[1]), "black")]
    assert fitted.score(samples, truth) == 1.0
    assert fitted.score(samples, other) == len(truth[0]) / sum(map(len, truth))
    assert fitted.score(samples, other, sample_weight=[1.0, 0.0]) == 1.0


def test_samples_without_nodes():
    samples, labels = chains(n=6)
    empty = ms.GraphSample(np.zeros((0, 3)), ms.Graph.chain(0))
    net = ms.GraphLabeler(C=1.0).fit(samples, labels)
    with_empty = ms.GraphLabeler(C=1.0, tol=1e-4).fit([samples[0], empty, *samples[1:]], [labels[0], [], *labels[1:]])
    assert with_empty.result_.objective == pytest.approx(net.result_.objective, rel=2e-3)
    predicted = net.predict([empty, samples[0], ms.GraphSample(np.zeros((0, 4, 3)), ms.Graph.grid(0, 4))])
    assert predicted[0].shape == (0,) and predicted[2].shape == (0, 4) and predicted[0].dtype == NAMES.dtype
    assert net.predict([]) == []


def test_codes_that_training_has_not_seen():
    graph = ms.Graph.chain(2)
    train, new = [ms.GraphSample([0, 1], graph)], [ms.GraphSample([2, 0], graph)]
    with pytest.raises(InvalidSampleError, match=r"sample 0 has code 2 at node 0; known are 0\.\.1. Declare"):
        ms.GraphLabeler().fit(train, [[0, 1]]).predict(new)
    assert ms.GraphLabeler(C=10.0, features=Codes(3)).fit(train, [[0, 1]]).predict(new)[0].shape == (2,)


def test_blocks_of_weights(fitted):
    blocks = fitted.coef_blocks_
    assert {name: own.shape for name, own in blocks.items()} == {"nodes": (3, 3), "edges": (3, 3)}
    np.testing.assert_array_equal(np.concatenate([own.ravel() for own in blocks.values()]), fitted.weights_)
    assert fitted.n_features_in_ == 3
    samples, labels = chains(n=8)
    x, y = samples[0].X[:4], labels[0][:4]
    problem = fitted.problems([ms.GraphSample(x, ms.Graph.chain(4))])[0]
    number = np.searchsorted(NAMES, y)
    by_hand = sum(x[i] @ blocks["nodes"][:, k] for i, k in enumerate(number))
    by_hand += sum(blocks["edges"][k, m] for k, m in itertools.pairwise(number))
    assert problem.score(number) == pytest.approx(by_hand)
    cut = [ms.GraphSample(s.X[:3], ms.Graph.chain(3)) for s in samples]
    own = ms.GraphLabeler(homogeneous=False, bias=True, tol=0.05).fit(cut, [y[:3] for y in labels]).coef_blocks_
    assert {name: block.shape for name, block in own.items()} == {"nodes": (3, 3, 3), "bias": (3, 3), "edges": (2, 3, 3)}
    graph = ms.Graph.from_edges([[0, 1], [1, 2]], edge_type=[0, 1])
    typed = ms.GraphLabeler(C=10.0).fit([ms.GraphSample([0, 1, 0], graph, node_types=[0, 1, 0])], [["a", "x", "b"]])
    assert {name: block.shape for name, block in typed.coef_blocks_.items()} == {
        "nodes[type 0]": (2, 2),
        "nodes[type 1]": (2, 1),
        "edges[type 0]": (2, 2),
        "edges[type 1]": (2, 2),
    }


def test_auto_chooses_and_says_why(fitted):
    auto = dict(potentials="auto", surrogate="auto", learner="auto", oracle="auto")
    chain = ms.GraphLabeler(C=20.0, **auto).fit(*chains())
    assert chain.weights_.tobytes() == fitted.weights_.tobytes()
    assert "general potentials, as no graph has a cycle" in chain.result_.message
    samples, labels = grids()
    net = ms.GraphLabeler(C=10.0, **auto).fit(samples, labels)
    assert "supermodular potentials, as two labels on graphs with cycles" in net.result_.message
    assert {r.solver for r in net.predict_result(samples)} == {"MaxFlow"}
    same = ms.GraphLabeler(C=10.0, potentials="supermodular").fit(samples, labels)
    assert net.weights_.tobytes() == same.weights_.tobytes() and "potentials" not in same.result_.message
    three = ms.GraphLabeler(C=1.0, tol=0.1, classes=[0, 1, 2], **auto).fit(samples, labels)
    assert "general potentials, as no smaller class" in three.result_.message
    trivial = ms.GraphLabeler(surrogate="trivial", C=100.0, tol=0.05).fit(*chains(n=4, noise=0.1))
    assert "CuttingPlane, the default of the trivial surrogate; no oracle" in trivial.result_.message


def test_masked_arrays_hide_labels():
    samples, labels = chains(n=8)
    hidden = [np.arange(len(y)) == 1 for y in labels]
    masked = ms.GraphLabeler(C=5.0).fit(samples, [np.ma.MaskedArray(y, m) for y, m in zip(labels, hidden, strict=True)])
    none = ms.GraphLabeler(C=5.0).fit(samples, [np.where(m, None, y) for y, m in zip(labels, hidden, strict=True)])
    assert (
        masked.weights_.tobytes() == none.weights_.tobytes() != ms.GraphLabeler(C=5.0).fit(samples, labels).weights_.tobytes()
    )


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(surrogate="probit"), "surrogate is 'probit', wanted one of margin, lp, trivial, qp, logistic"),
        (dict(potentials="convex"), "potentials is 'convex'"),
        (dict(learner="Newton"), "learner is 'Newton', wanted None or a learner"),
        (dict(learner=BlockFrankWolfe), "wanted None or a learner"),
        (dict(n_jobs=0), "n_jobs is 0"),
        (dict(n_jobs=1.5), "n_jobs is 1.5"),
        (dict(loss="hinge"), "loss is 'hinge'"),
        (dict(oracle=3), "oracle is 3"),
        (dict(tol=-1.0), "tol is -1.0"),
        (dict(tol=np.nan), "tol is nan"),
        (dict(max_iter=0), "max_iter is 0"),
        (dict(max_iter=2.5), "max_iter is 2.5"),
        (dict(time_limit=-1), "time_limit is -1"),
        (dict(classes=[]), "classes is"),
        (dict(classes=["a", "a"]), "classes is"),
        (dict(classes=3), "classes is 3"),
        (dict(random_state="x"), "random_state is 'x'"),
    ],
)
def test_bad_parameters(parameters, words):
    net = ms.GraphLabeler(**parameters)
    with pytest.raises(ValueError, match=words):
        net.fit(*chains(n=3))
    assert not hasattr(net, "weights_")
