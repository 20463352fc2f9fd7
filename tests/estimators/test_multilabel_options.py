"""MultiLabelClassifier: unknown labels, costs of classes, losses, warm starts, nested parameters, many labels."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from factories.samples import linked_table
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

import maxsum as ms
from maxsum import MultiLabelClassifier, MultiLabelClassifierCV
from maxsum.core.errors import InvalidParameterError, InvalidSampleError
from maxsum.inference import TRWS
from maxsum.learning import BlockFrankWolfe
from maxsum.learning.learners.subset_ascent import SubsetAscent
from maxsum.losses import Hamming

# ---- unknown labels --------------------------------------------------------------------------------------------


def partly(seed: int = 0, share: float = 0.25, **sizes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, Y = linked_table(**sizes)
    return X, Y, np.random.default_rng(seed).random(Y.shape) < share


@pytest.mark.parametrize("graph", ["complete", "none", "tree", [[0, 1], [2, 3]]])
@pytest.mark.parametrize("potentials", ["general", "potts"])
def test_unknown_labels_are_left_out_as_in_graph_labeler(graph: Any, potentials: str) -> None:
    """The same training as a GraphLabeler with a node type for each label and an edge type for each pair."""
    X, Y, hide = partly(n=15)
    net = MultiLabelClassifier(potentials, label_graph=graph, C=5.0, tol=1e-5, bias=False).fit(X, np.where(hide, -1, Y))
    assert net.graph_ is not None
    own = ms.Graph.from_edges(net.graph_.edges, 4, edge_type=np.arange(net.graph_.n_edges, dtype=np.int32))
    samples = [ms.GraphSample(np.tile(x, (4, 1)), own, node_types=np.arange(4)) for x in X]
    tie = np.stack([np.full(5, -1), np.arange(5)], axis=1)
    other = ms.GraphLabeler(potentials, C=5.0, tol=1e-5, tie=tie, classes=[0, 1]).fit(samples, list(np.where(hide, -1, Y)))
    assert net.result_.lower_bound <= other.result_.objective and other.result_.lower_bound <= net.result_.objective
    assert net.result_.objective == pytest.approx(other.result_.objective, rel=2e-5)
    assert np.abs(net.weights_ - other.weights_[: len(net.weights_)]).max() < 0.02
    assert net.result_.certificate is not None
    checked = net.result_.verify(net.objective_)
    assert checked.gap <= 1.1e-5 * checked.objective
    assert (net.predict(X) == Y).mean() > 0.7 and "unknown labels" in net.result_.message


def test_all_ways_to_say_unknown() -> None:
    X, Y, hide = partly(n=12)
    nets = [
        MultiLabelClassifier(C=5.0, tol=0.05).fit(X, own)
        for own in (
            np.where(hide, -1, Y),
            np.ma.MaskedArray(Y, hide),
            np.where(hide, None, Y),
            np.where(hide, None, Y).tolist(),
            np.where(hide, -1.0, Y),
            sparse.csr_matrix(np.where(hide, -1, Y)),
        )
    ]
    assert len({net.weights_.tobytes() for net in nets}) == 1
    assert nets[0].weights_.tobytes() != MultiLabelClassifier(C=5.0, tol=0.05).fit(X, Y).weights_.tobytes()
    known = MultiLabelClassifier(C=5.0).fit(X, np.ma.MaskedArray(Y, False))
    assert known.weights_.tobytes() == MultiLabelClassifier(C=5.0).fit(X, Y).weights_.tobytes()
    rows = MultiLabelClassifier(C=5.0, tol=0.05).fit(sparse.csr_matrix(X), np.where(hide, -1, Y))
    assert np.allclose(rows.weights_, nets[0].weights_, atol=0.1)


def test_samples_and_labels_that_are_all_unknown() -> None:
    X, Y, hide = partly()
    hide[3], hide[:, 2] = True, True
    net = MultiLabelClassifier(C=5.0).fit(X, np.where(hide, -1, Y))
    assert not net.coef_blocks_["nodes"][2].any() and net.predict(X).shape == Y.shape
    y = np.array(["a", "b", "c"])[Y[:, 0] + Y[:, 1]]
    masked = MultiLabelClassifier(C=5.0).fit(X, np.ma.MaskedArray(y, np.arange(len(y)) < 5))
    assert masked.weights_.tobytes() == MultiLabelClassifier(C=5.0).fit(X[5:], y[5:]).weights_.tobytes()
    assert MultiLabelClassifier().fit(X, 2 * Y[:, 0] - 1).classes_.tolist() == [-1, 1]


def test_minus_one_for_absent_is_refused() -> None:
    X, Y = linked_table()
    with pytest.raises(InvalidSampleError, match="holds -1 and 1, but no 0"):
        MultiLabelClassifier().fit(X, 2 * Y - 1)


def test_cross_validation_with_unknown_labels() -> None:
    X, Y, hide = partly(n=30)
    net = MultiLabelClassifierCV(Cs=[1e-3, 10.0], cv=2).fit(X, np.where(hide, -1, Y))
    assert net.C_ == 10.0 and net.scores_.shape == (2, 2) and net.scores_[1].mean() > net.scores_[0].mean()


# ---- costs of classes and losses -------------------------------------------------------------------------------


def test_class_weight() -> None:
    X, Y = linked_table()
    plain = MultiLabelClassifier(C=0.02).fit(X, Y)
    ones = MultiLabelClassifier(C=0.02, class_weight={0: 1.0, 1: 1.0}).fit(X, Y)
    assert ones.weights_.tobytes() == plain.weights_.tobytes()
    more = MultiLabelClassifier(C=0.02, class_weight={1: 20.0}).fit(X, Y)
    array = MultiLabelClassifier(C=0.02, class_weight=[1.0, 20.0]).fit(X, Y)
    assert more.weights_.tobytes() == array.weights_.tobytes() and more.predict(X).mean() > plain.predict(X).mean()
    one = MultiLabelClassifier(label_graph="none", C=1.5, class_weight=[{1: 20.0}, {}, {}, {}]).fit(X, Y)
    none = MultiLabelClassifier(label_graph="none", C=1.5).fit(X, Y)
    share = one.predict(X).mean(axis=0) - none.predict(X).mean(axis=0)
    assert share[0] > 0 and (share[1:] == 0).all()
    count = np.array([np.bincount(Y[:, m], minlength=2) for m in range(4)])
    by_hand = [dict(enumerate(len(Y) / (2 * own))) for own in count]
    balanced = MultiLabelClassifier(C=0.02, class_weight="balanced").fit(X, Y)
    given = MultiLabelClassifier(C=0.02, class_weight=by_hand).fit(X, Y)
    assert balanced.weights_.tobytes() == given.weights_.tobytes() != plain.weights_.tobytes()
    assert balanced.result_.certificate is not None
    checked = balanced.result_.verify(balanced.objective_)
    assert checked.objective == pytest.approx(balanced.result_.objective)


def test_class_weight_with_unknown_labels_and_one_dimension() -> None:
    X, Y, hide = partly()
    some = np.where(hide, -1, Y)
    balanced = MultiLabelClassifier(C=0.02, class_weight="balanced").fit(X, some)
    count = [np.bincount(some[~hide[:, m], m], minlength=2) for m in range(4)]
    given = MultiLabelClassifier(C=0.02, class_weight=[dict(enumerate(c.sum() / (2 * c))) for c in count]).fit(X, some)
    assert balanced.weights_.tobytes() == given.weights_.tobytes()
    for y in (np.array(["n", "y"])[Y[:, 0]], np.array(["a", "b", "c"])[Y[:, 0] + Y[:, 1]]):
        last = np.unique(y)[-1]
        more = MultiLabelClassifier(C=1.5, class_weight={last: 50.0}).fit(X, y)
        assert (more.predict(X) == last).mean() > (MultiLabelClassifier(C=1.5).fit(X, y).predict(X) == last).mean()
        names, numbers = np.unique(y, return_counts=True)
        by_hand = dict(zip(names, len(y) / (len(names) * numbers), strict=True))
        a, b = (MultiLabelClassifier(class_weight=own).fit(X, y).weights_ for own in ("balanced", by_hand))
        assert a.tobytes() == b.tobytes()


def test_losses() -> None:
    X, Y = linked_table()
    plain = MultiLabelClassifier(C=3.0).fit(X, Y)
    part = MultiLabelClassifier(C=12.0, loss="normalised").fit(X, Y)
    assert part.result_.objective < plain.result_.objective * 4
    table = MultiLabelClassifier(C=3.0, loss=[[0.0, 1.0], [1.0, 0.0]]).fit(X, Y)
    assert table.weights_.tobytes() == plain.weights_.tobytes()
    missed = MultiLabelClassifier(C=3.0, loss=np.array([[0.0, 1.0], [9.0, 0.0]])).fit(X, Y)
    same = MultiLabelClassifier(C=3.0, class_weight={1: 9.0}).fit(X, Y)
    assert missed.weights_.tobytes() == same.weights_.tobytes()
    assert MultiLabelClassifier(C=3.0, loss=Hamming(), tol=1e-4).fit(X, Y).result_.objective == pytest.approx(
        plain.result_.objective, rel=2e-3
    )


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            dict(surrogate="trivial"),
            "surrogate is 'trivial', wanted one of margin, lp, qp, logistic, likelihood, pseudolikelihood, auto",
        ),
        (dict(surrogate=3), "surrogate is 3"),
        (dict(loss="hinge"), "loss is 'hinge'"),
        (dict(class_weight="even"), "class_weight is 'even', wanted 'balanced'"),
        (dict(class_weight={2: 1.0}), r"class_weight names 2, wanted some of the classes \[0, 1\]"),
        (dict(class_weight=[1.0, 2.0, 3.0]), "class_weight is .*wanted 2 finite numbers >= 0, in the order of the classes"),
        (dict(class_weight={1: -1.0}), "class_weight is .*finite numbers >= 0"),
        (dict(class_weight=[{1: 2.0}]), "class_weight has 1 dicts, wanted one for each of 4 labels"),
        (dict(class_weight={1: 2.0}, loss=np.eye(2)), "class_weight is given beside loss="),
        (dict(oracle=3), "oracle is 3"),
        (dict(learner=BlockFrankWolfe), "learner is .*, wanted None or a learner"),
    ],
)
def test_bad_options(parameters: dict[str, Any], words: str) -> None:
    net = MultiLabelClassifier(**parameters)
    with pytest.raises(InvalidParameterError, match=words):
        net.fit(*linked_table())
    assert not hasattr(net, "weights_")


# ---- warm starts and nested parameters -------------------------------------------------------------------------


@pytest.mark.parametrize("learner", ["SubsetAscent", "BlockFrankWolfe", "CuttingPlane"])
def test_warm_start(learner: str) -> None:
    X, Y = linked_table(n=60)
    net = MultiLabelClassifier(C=20.0, tol=1e-2, learner=learner, warm_start=True).fit(X, Y)
    cold = MultiLabelClassifier(C=25.0, tol=1e-3, learner=learner).fit(X, Y)
    net.set_params(C=25.0, tol=1e-3).fit(X, Y)
    assert net.result_.relative_gap <= 1e-3 and net.result_.n_oracle_calls < cold.result_.n_oracle_calls
    assert max(net.result_.lower_bound, cold.result_.lower_bound) <= min(net.result_.objective, cold.result_.objective)
    assert net.result_.certificate is not None
    checked = net.result_.verify(net.objective_)
    assert checked.lower_bound == pytest.approx(net.result_.lower_bound, rel=1e-9)
    assert (net.set_params(warm_start=False).fit(X, Y).weights_ == cold.weights_).all()
    net.set_params(warm_start=True).fit(X, Y)
    other = linked_table(n=60, seed=3)
    assert (net.fit(*other).weights_ == cold.fit(*other).weights_).all()


def test_a_warm_start_in_pieces_and_through_pickles() -> None:
    X, Y = linked_table(n=60)
    net = MultiLabelClassifier(C=3.0, tol=1e-7, max_iter=2, warm_start=True, callback=lambda point: False)
    gaps = []
    for _ in range(4):
        with pytest.warns(ConvergenceWarning, match="iteration limit"):
            gaps.append(net.fit(X, Y).result_.relative_gap)
    assert gaps[-1] < 0.5 * gaps[0]
    net.callback = None
    again = pickle.loads(pickle.dumps(net))
    assert (again.predict(X) == net.predict(X)).all()
    assert again.set_params(max_iter=1000, tol=1e-2).fit(X, Y).result_.relative_gap <= 1e-2


def test_nested_parameters() -> None:
    X, Y = linked_table()
    net = MultiLabelClassifier(learner=SubsetAscent(tol=0.1), oracle=TRWS(max_iter=50))
    assert net.get_params()["learner__tol"] == 0.1 and net.get_params()["oracle__max_iter"] == 50
    other = clone(net).set_params(learner__tol=0.2, oracle__max_iter=7)
    assert (other.learner.tol, other.oracle.max_iter, net.learner.tol) == (0.2, 7, 0.1)
    with pytest.raises(ValueError, match="Invalid parameter 'speed' of learner"):
        net.set_params(learner__speed=1)
    with pytest.raises(ValueError, match="give an object as learner first"):
        MultiLabelClassifier().set_params(learner__tol=1)
    search = GridSearchCV(
        MultiLabelClassifier(learner=SubsetAscent()), {"learner__tol": [0.5, 1e-3], "C": [1.0, 10.0]}, cv=2, error_score="raise"
    ).fit(X, Y)
    assert set(search.best_params_) == {"learner__tol", "C"}
    assert search.best_estimator_.result_.relative_gap <= search.best_params_["learner__tol"]


# ---- many labels -----------------------------------------------------------------------------------------------


def test_many_labels_on_a_complete_graph() -> None:
    X, Y = linked_table(n=12, n_labels=20)
    net = MultiLabelClassifier("general", C=5.0, tol=0.1).fit(X, Y)
    assert net.result_.relative_gap <= 0.1
    assert "oracle TRW-S with brackets" in net.result_.message and "20 labels on this graph are too many" in net.result_.message
    assert {result.solver for result in net.predict_result(X[:3])} == {"TRWS"}
    assert (net.predict(X) == Y).mean() > 0.8
    auto = MultiLabelClassifier(C=5.0, tol=0.02, potentials="auto").fit(X, Y)
    assert "supermodular potentials, as 20 labels" in auto.result_.message and auto.result_.relative_gap <= 0.02
    assert {result.guarantee for result in auto.predict_result(X)} == {"optimal"}
    few = MultiLabelClassifier(C=5.0, potentials="auto").fit(*linked_table())
    assert "general potentials" in few.result_.message
    assert few.weights_.tobytes() == MultiLabelClassifier(C=5.0).fit(*linked_table()).weights_.tobytes()


def test_the_oracle_predicts_too() -> None:
    X, Y = linked_table()
    net = MultiLabelClassifier(C=5.0, oracle="JunctionTree", learner="BlockFrankWolfe").fit(X, Y)
    assert "oracle JunctionTree, as given" in net.result_.message
    assert {result.solver for result in net.predict_result(X[:3])} == {"JunctionTree"}
    assert (net.predict(X) == MultiLabelClassifier(C=5.0, tol=1e-3).fit(X, Y).predict(X)).mean() > 0.95
    assert "oracle enumeration" in MultiLabelClassifier(C=5.0, oracle="auto", learner="auto").fit(X, Y).result_.message
