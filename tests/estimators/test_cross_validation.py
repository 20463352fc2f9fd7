"""Estimators with C by cross-validation: what they choose, planes shared by all values, folds that lack a class."""

from __future__ import annotations

import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from factories.samples import linked_table, paired_sequences, striped_images
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score, jaccard_score
from sklearn.model_selection import GridSearchCV, KFold

import maxsum as ms
from maxsum.core.errors import InvalidSampleError
from maxsum.estimators import check_structured_estimator
from maxsum.estimators.cross.validation import VALUES
from maxsum.learning import BlockFrankWolfe, MarginObjective, path
from maxsum.metrics import chunk_f1
from maxsum.models import Codes, GraphModel

PAIRS = [
    (ms.GraphLabelerCV, ms.GraphLabeler),
    (ms.GridLabelerCV, ms.GridLabeler),
    (ms.SequenceLabelerCV, ms.SequenceLabeler),
    (ms.MultiLabelClassifierCV, ms.MultiLabelClassifier),
]


@pytest.mark.parametrize(("searching", "plain"), PAIRS)
def test_parameters_are_those_of_the_plain_estimator(searching: Any, plain: Any) -> None:
    theirs = dict(inspect.signature(plain).parameters)
    for own in ("C", "n_hidden"):  # hidden states are completed for one C at a time
        theirs.pop(own, None)
    ours = dict(inspect.signature(searching).parameters)
    first = ["Cs", "cv", "cv_tol", "scoring", *(["folds"] if searching is not ms.MultiLabelClassifierCV else [])]
    assert list(ours) == [*first, *theirs] and all(ours[name].default == own.default for name, own in theirs.items())
    assert [name for name in ours if f"    {name} : " not in searching.__doc__] == [] and "__init__" in vars(searching)
    net = searching([1.0, 2.0], 3, tol=0.1)
    assert (net.Cs, net.cv, net.cv_tol, net.tol) == ([1.0, 2.0], 3, 1e-2, 0.1) and not hasattr(net, "C")
    given = {name: object() for name in ours}
    assert searching(**given).get_params(deep=False) == given
    assert clone(net).get_params() == net.get_params() and "Cs=[1.0, 2.0]" in repr(net)
    assert searching.__name__ in net._repr_html_()
    with pytest.raises(TypeError, match="unexpected keyword argument 'C'"):
        searching(C=1.0)
    with pytest.raises(ValueError, match="Invalid parameter 'C'"):
        net.set_params(C=1.0)


def test_it_chooses_by_held_out_scores_and_trains_once_on_all() -> None:
    X, y = paired_sequences(16, longest=7)
    tag = ms.SequenceLabelerCV(Cs=[20.0, 1e-4, 2.0], cv=4, cv_tol=1e-3).fit(X, y)
    assert tag.Cs_.tolist() == [1e-4, 2.0, 20.0] and tag.scores_.shape == (3, 4)
    assert tag.C_ == tag.Cs_[tag.scores_.mean(axis=1).argmax()] > 1e-4
    plain = ms.SequenceLabeler(C=tag.C_).fit(X, y)
    assert tag.weights_.tobytes() == plain.weights_.tobytes() and tag.objective_.C == tag.C_
    assert tag.result_.certificate is not None
    assert tag.result_.verify(tag.objective_).gap <= 1.01e-3 * tag.result_.objective
    assert f"C = {tag.C_:g} by 4-fold cross-validation of 3 values" in tag.result_.message
    for k, (train, test) in enumerate(KFold(4, shuffle=True, random_state=0).split(X)):
        fold = ms.SequenceLabeler(C=20.0, tol=1e-5, classes=[0, 1, 2]).fit([X[j] for j in train], [y[j] for j in train])
        assert abs(fold.score([X[j] for j in test], [y[j] for j in test]) - tag.scores_[2, k]) <= 0.1
    again = pickle.loads(pickle.dumps(tag))
    assert again.C_ == tag.C_ and all((a == b).all() for a, b in zip(again.predict(X), tag.predict(X), strict=True))
    assert tag.score(X, y) == plain.score(X, y) and tag.classes_.tolist() == [0, 1, 2]


def test_checks_of_structured_estimators() -> None:
    done = check_structured_estimator(ms.SequenceLabelerCV(Cs=[2.0], cv=2), *paired_sequences(6, longest=7))
    assert "sample_weight" in done


def test_images_with_contrast_of_each_fold() -> None:
    X, y = striped_images(6)
    seg = ms.GridLabelerCV(Cs=[1e-5, 5.0], cv=3, potentials="supermodular", edge_features="contrast").fit(X, y)
    assert seg.C_ == 5.0 and seg.scores_[1].mean() > seg.scores_[0].mean()
    plain = ms.GridLabeler("supermodular", C=5.0, edge_features="contrast").fit(X, y)
    assert seg.gamma_ == plain.gamma_ and seg.weights_.tobytes() == plain.weights_.tobytes()
    train, test = next(KFold(3, shuffle=True, random_state=0).split(X))
    fold = ms.GridLabeler("supermodular", C=5.0, tol=1e-4, edge_features="contrast").fit(
        [X[j] for j in train], [y[j] for j in train]
    )
    assert fold.gamma_ != seg.gamma_
    assert abs(fold.score([X[j] for j in test], [y[j] for j in test]) - seg.scores_[1, 0]) <= 0.1


def test_folds_that_lack_classes_and_codes() -> None:
    codes = [np.array([0, 1, 1, 0]) for _ in range(9)] + [np.array([3, 2, 1])]
    words = [np.array(["a", "b", "b", "a"])] * 9 + [np.array(["d", "c", "b"])]
    tag = ms.SequenceLabelerCV(Cs=[0.1, 10.0], cv=10).fit(codes, words)
    assert tag.classes_.tolist() == ["a", "b", "c", "d"] and tag.scores_.shape == (2, 10) and np.isfinite(tag.scores_).all()
    assert tag.n_features_in_ == 4 and tag.predict([codes[0]])[0].tolist() == words[0].tolist()
    named = ms.SequenceLabelerCV(Cs=[10.0], cv=10, classes=["d", "c", "b", "a", "e"], features=Codes(6)).fit(codes, words)
    assert named.classes_.tolist() == ["d", "c", "b", "a", "e"] and named.n_features_in_ == 6
    pairs = ms.SequenceLabelerCV(Cs=[10.0], cv=5).fit(codes, [[(label, 1) for label in own] for own in words])
    assert pairs.classes_.tolist() == [("a", 1), ("b", 1), ("c", 1), ("d", 1)]


def test_graphs_with_unknown_labels_and_weights() -> None:
    X, y = paired_sequences(8, longest=7)
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X]
    y = [*y[:7], np.full(len(y[7]), -1)]
    net = ms.GraphLabelerCV(Cs=[1.0, 5.0], cv=8).fit(samples, y)
    assert np.isnan(net.scores_).sum() == 2 and np.isfinite(net.scores_).any(axis=0).sum() == 7 and net.C_ in (1.0, 5.0)
    weight = np.where(np.arange(8) < 4, 1.0, 0.0)
    some = ms.GraphLabelerCV(Cs=[1.0, 5.0], cv=[(np.arange(2), np.arange(2, 8)), (np.arange(2, 8), np.arange(2))])
    some.fit(samples, y, sample_weight=weight)
    same = ms.GraphLabelerCV(Cs=[1.0, 5.0], cv=[([0, 1], [2, 3]), ([2, 3], [0, 1])]).fit(samples[:4], y[:4])
    np.testing.assert_array_equal(some.scores_, same.scores_)
    assert some.weights_.tobytes() == same.weights_.tobytes()
    with pytest.raises(InvalidSampleError, match="no fold has a known label"):
        ms.GraphLabelerCV(Cs=[1.0], cv=[(np.arange(7), [7])]).fit(samples, y)


def test_limits_checkpoints_and_warnings(tmp_path: Any) -> None:
    X, y = paired_sequences(12, longest=7)
    with pytest.warns(ConvergenceWarning) as caught:
        tag = ms.SequenceLabelerCV(Cs=[5.0, 50.0], cv=2, tol=1e-9, cv_tol=1e-8, max_iter=1).fit(X, y)
    words = [str(warning.message) for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    assert len(words) == 2 and words[0].startswith("4 of 4 trainings in folds ended before the gap that was wanted")
    assert "BlockFrankWolfe ended (iteration limit)" in words[1] and tag.result_.n_iter == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = ms.SequenceLabelerCV(Cs=[1.0, 5.0], cv=2, checkpoint=tmp_path / "state").fit(X, y)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("state", "state.fold0.0", "state.fold0.1", "state.fold1.0", "state.fold1.1")
    ]
    np.testing.assert_array_equal(kept.scores_, ms.SequenceLabelerCV(Cs=[1.0, 5.0], cv=2).fit(X, y).scores_)
    named = ms.SequenceLabelerCV(Cs=[1.0], cv=2, learner=BlockFrankWolfe(tol=0.3))
    search = GridSearchCV(named, {"learner__tol": [0.3, 0.1]}, cv=2, error_score="raise").fit(X, y)
    assert search.best_estimator_.result_.relative_gap <= search.best_params_["learner__tol"]


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (dict(Cs=[]), "Cs is empty"),
        (dict(Cs=3.0), "Cs is 3.0, wanted a list"),
        (dict(Cs=["a"]), "Cs is .*, wanted a list"),
        (dict(Cs=[1.0, 0.0]), "C is .*0.0.*, wanted a finite number > 0"),
        (dict(Cs=[1.0, np.nan]), "C is .*nan"),
        (dict(cv=1), "cv is 1, wanted 2 folds or more"),
        (
            dict(cv=99),
            "cv is 99, but there are 6 samples; wanted at most as many folds[.]|cv is 99, but 5 samples have \\d+ known nodes",
        ),
        (dict(scoring="r2"), "scoring is 'r2', wanted None, a function, or one of 'accuracy', 'subset_accuracy'"),
        (dict(scoring=3), "scoring is 3, wanted"),
        (dict(cv_tol=-1.0), "cv_tol is -1.0"),
        (dict(cv_tol=None), "cv_tol is None"),
    ],
)
@pytest.mark.parametrize("searching", [ms.SequenceLabelerCV, ms.MultiLabelClassifierCV])
def test_bad_parameters(searching: Any, parameters: dict[str, Any], words: str) -> None:
    X, y = paired_sequences(5, longest=7)
    given = (X, y) if searching is ms.SequenceLabelerCV else (np.eye(6, 3), np.tile([[0, 1], [1, 0]], (3, 1)))
    net = searching(**parameters)
    with pytest.raises(ValueError, match=words):
        net.fit(*given)
    assert not hasattr(net, "weights_")


def test_sequences_of_second_order() -> None:
    X, y = paired_sequences(10, longest=7)
    tag = ms.SequenceLabelerCV(Cs=[1e-3, 5.0], cv=2, order=2).fit(X, y)
    assert tag.scores_.shape == (2, 2) and tag.classes_.tolist() == [0, 1, 2]
    assert tag.weights_.tobytes() == ms.SequenceLabeler(C=tag.C_, order=2).fit(X, y).weights_.tobytes()


def test_errors_name_the_sample_of_the_whole_list() -> None:
    X, y = paired_sequences(12, longest=7)
    X[10] = X[10].copy()
    X[10][1, 2] = np.nan
    with pytest.raises(InvalidSampleError, match="sample 10: X has nan at node 1, feature 2"):
        ms.SequenceLabelerCV(cv=2).fit(X, y)


def test_all_values_cost_at_most_3_times_the_most_expensive() -> None:
    values = np.array(VALUES)
    X, y = paired_sequences(60, longest=7)
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X]
    model, learner = GraphModel().bind(samples, y), BlockFrankWolfe(tol=1e-2)
    whole = sum(result.n_oracle_calls for result in path(learner, MarginObjective(model), values))
    dearest = learner.fit(MarginObjective(model, C=values[-1])).n_oracle_calls
    assert len(values) == 10 and whole <= 3 * dearest


# ---- measures --------------------------------------------------------------------------------------------------


def by_hand(X: list[Any], y: list[Any], C: float, train: Any, test: Any) -> tuple[list[Any], list[Any]]:
    net = ms.SequenceLabeler(C=C, tol=1e-6, classes=np.unique(np.concatenate(y)).tolist())
    net.fit([X[j] for j in train], [y[j] for j in train])
    return [y[j] for j in test], net.predict([X[j] for j in test])


def tags() -> tuple[list[Any], list[Any]]:
    X, y = paired_sequences(18, longest=7)
    return X, [np.array(["O", "B-X", "I-X"])[own] for own in y]


MEASURES = {
    None: lambda t, p: np.mean(np.concatenate(t) == np.concatenate(p)),
    "accuracy": lambda t, p: np.mean(np.concatenate(t) == np.concatenate(p)),
    "subset_accuracy": lambda t, p: np.mean([(a == b).all() for a, b in zip(t, p, strict=True)]),
    "macro_f1": lambda t, p: f1_score(np.concatenate(t), np.concatenate(p), average="macro"),
    "iou": lambda t, p: jaccard_score(np.concatenate(t), np.concatenate(p), average="macro"),
    "chunk_f1": lambda t, p: chunk_f1(t, p).f1 / 100,
}


def test_measures_against_fits_by_hand() -> None:
    X, y = tags()
    values = [0.05, 1.0]
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    pairs = [[by_hand(X, y, C, *fold) for fold in folds] for C in values]
    seen: list[Any] = []
    for name, measure in MEASURES.items():
        wanted = np.array([[measure(*pair) for pair in row] for row in pairs])
        net = ms.SequenceLabelerCV(values, 3, cv_tol=1e-6, tol=1e-6, scoring=name).fit(X, y)
        np.testing.assert_allclose(net.scores_, wanted)
        own = ms.SequenceLabelerCV(values, 3, cv_tol=1e-6, tol=1e-6, scoring=measure).fit(X, y)
        np.testing.assert_allclose(own.scores_, wanted)
        assert net.C_ == values[int(wanted.mean(axis=1).argmax())] == own.C_
        seen.append(net.scores_)
    assert all((a != b).any() for i, a in enumerate(seen) for b in seen[i + 1 :] if i > 0)


def test_a_measure_can_change_the_choice() -> None:
    X, y = tags()
    best = ms.SequenceLabelerCV([0.05, 1.0], 3).fit(X, y)
    worst = ms.SequenceLabelerCV([0.05, 1.0], 3, scoring=lambda t, p: -MEASURES["accuracy"](t, p)).fit(X, y)
    assert best.C_ != worst.C_


def test_a_function_sees_labels_as_given_and_none_where_unknown() -> None:
    X, y = tags()
    some = [np.where(np.arange(len(own)) % 3 == 1, "", own) for own in y]
    calls: list[tuple[Any, Any]] = []

    def measure(truth: list[Any], predicted: list[Any]) -> float:
        calls.append((truth, predicted))
        return 0.5

    weight = np.ones(len(X))
    weight[::2] = 0.0
    net = ms.SequenceLabelerCV([1.0], 3, scoring=measure).fit(X, some, sample_weight=weight)
    assert len(calls) == 3 and (net.scores_ == 0.5).all()
    assert sum(len(truth) for truth, _ in calls) == len(X) // 2
    for truth, predicted in calls:
        for own, guess in zip(truth, predicted, strict=True):
            assert own.shape == guess.shape and [tag is None for tag in own] == (np.arange(len(own)) % 3 == 1).tolist()
            assert set(guess) <= {"O", "B-X", "I-X"}
    pairs = [[(tag, 1) for tag in own] for own in y]
    calls.clear()
    ms.SequenceLabelerCV([1.0], 3, scoring=measure).fit(X, pairs)
    assert {label for truth, _ in calls for own in truth for label in own} == {("O", 1), ("B-X", 1), ("I-X", 1)}
    named = ms.SequenceLabelerCV([0.05, 1.0], 3, scoring="macro_f1").fit(X, pairs).scores_
    np.testing.assert_array_equal(named, ms.SequenceLabelerCV([0.05, 1.0], 3, scoring="macro_f1").fit(X, y).scores_)


def test_measures_of_tables() -> None:
    X, Y = linked_table(n=40)
    hidden = np.random.default_rng(0).random(Y.shape) < 0.1
    folds = list(KFold(2, shuffle=True, random_state=0).split(X))
    for given in (Y, np.where(hidden, -1, Y)):
        tables = []
        for train, test in folds:
            tables.append((given[test], ms.MultiLabelClassifier(C=0.3, tol=1e-6).fit(X[train], given[train]).predict(X[test])))
        for name in ("accuracy", "subset_accuracy", "macro_f1", "iou"):
            net = ms.MultiLabelClassifierCV([0.3], 2, cv_tol=1e-6, tol=1e-6, scoring=name).fit(X, given)
            for k, (t, p) in enumerate(tables):
                known = t >= 0
                wanted = {
                    "accuracy": (t == p)[known].mean(),
                    "subset_accuracy": ((t == p) | ~known).all(axis=1)[known.any(axis=1)].mean(),
                    "macro_f1": np.mean([f1_score(t[o, m], p[o, m]) for m, o in enumerate(known.T)]),
                    "iou": np.mean([jaccard_score(t[o, m], p[o, m]) for m, o in enumerate(known.T)]),
                }[name]
                assert net.scores_[0, k] == pytest.approx(wanted)
        own = ms.MultiLabelClassifierCV([0.3], 2, cv_tol=1e-6, tol=1e-6, scoring=lambda t, p: (t == p)[t >= 0].mean()).fit(
            X, given
        )
        np.testing.assert_allclose(own.scores_[0], [(t == p)[t >= 0].mean() for t, p in tables])
    words = np.array(["a", "b", "c"])[Y[:, 0] + Y[:, 1]]
    seen: list[Any] = []
    ms.MultiLabelClassifierCV([0.3], 2, scoring=lambda t, p: seen.append((t, p)) or 1.0).fit(X, words)
    assert all(set(own) <= {"a", "b", "c"} for pair in seen for own in pair) and sum(len(t) for t, _ in seen) == len(words)
    macro = ms.MultiLabelClassifierCV([0.3], 2, scoring="macro_f1").fit(X, words).scores_
    np.testing.assert_allclose(macro[0], [f1_score(t, p, average="macro") for t, p in seen])
    with pytest.raises(ms.InvalidParameterError, match="scoring is 'chunk_f1', wanted"):
        ms.MultiLabelClassifierCV([0.3], 2, scoring="chunk_f1").fit(X, Y)


def test_the_table_of_C_against_score() -> None:
    X, y = paired_sequences(8, longest=7)
    net = ms.SequenceLabelerCV([0.01, 1.0, 5.0], 4)
    assert "C against score" not in net._repr_html_()
    net.fit(X, [*y[:7], np.full(len(y[7]), -1)])
    results = net.cv_results_
    assert list(results) == [
        "C",
        *(f"split{k}_test_score" for k in range(4)),
        "mean_test_score",
        "std_test_score",
        "rank_test_score",
    ]
    np.testing.assert_array_equal(results["C"], net.Cs_)
    np.testing.assert_array_equal(np.array([results[f"split{k}_test_score"] for k in range(4)]).T, net.scores_)
    np.testing.assert_allclose(results["mean_test_score"], net.scores_.mean(axis=1))
    np.testing.assert_allclose(results["std_test_score"], net.scores_.std(axis=1))
    assert results["rank_test_score"].min() == 1 and net.Cs_[results["rank_test_score"] == 1][0] == net.C_
    lines = net.cv_table().splitlines()
    assert lines[0].split() == ["C", "mean", "std", *(word for k in range(4) for word in ("fold", str(k)))]
    chosen = [line for line in lines if line.startswith("*")]
    assert len(lines) == 4 and len(chosen) == 1 and chosen[0].split()[1] == f"{net.C_:g}"
    assert "C against score" in net._repr_html_() and chosen[0].split()[2] in net._repr_html_()
    assert "C against score" in net._repr_mimebundle_()["text/html"]


# ---- folds of nodes --------------------------------------------------------------------------------------------


def one_graph(n_nodes: int = 40, seed: int = 0) -> tuple[Any, np.ndarray]:
    """A graph with cycles, 3 classes that neighbours share, and a quarter of the labels unknown."""
    random = np.random.default_rng(seed)
    labels = np.arange(n_nodes) * 3 // n_nodes
    X = np.eye(3)[labels] + 1.2 * random.standard_normal((n_nodes, 3))
    edges = [(i, i + 1) for i in range(n_nodes - 1)] + [(i, i + 5) for i in range(0, n_nodes - 5, 4)]
    return ms.GraphSample(X, ms.Graph.from_edges(edges, n_nodes)), np.where(random.random(n_nodes) < 0.25, -1, labels)


@pytest.mark.parametrize("names", [None, ["a", "b", "c"], [-1, 5, 7], [("a", 0), ("b", 0), ("c", 0)]], ids=str)
@pytest.mark.parametrize("potentials", ["general", "associative"])
def test_folds_of_nodes_against_a_loop_of_fits(names: Any, potentials: str) -> None:
    sample, coded = one_graph()
    known = np.flatnonzero(coded >= 0)
    y = coded.astype(object)
    if names is not None:
        y[known] = [names[k] for k in coded[known]]
    y[coded < 0] = None
    classes = list(range(3)) if names is None else names
    values = [0.01, 0.1, 1.0]
    wanted = np.zeros((3, 4))
    for k, (_, test) in enumerate(KFold(4, shuffle=True, random_state=0).split(known)):
        hidden, held_out = y.copy(), known[test]
        hidden[held_out] = None
        for i, C in enumerate(values):
            net = ms.GraphLabeler(potentials, C=C, tol=1e-6, classes=classes).fit([sample], [hidden])
            guess = net.predict([sample])[0]
            wanted[i, k] = np.mean([guess[v] == y[v] for v in held_out])
    net = ms.GraphLabelerCV(values, 4, cv_tol=1e-6, tol=1e-6, potentials=potentials, classes=classes).fit([sample], [y])
    np.testing.assert_allclose(net.scores_, wanted)
    assert len(np.unique(wanted)) > 2 and values[int(wanted.mean(axis=1).argmax())] == net.C_
    plain = ms.GraphLabeler(potentials, C=net.C_, tol=1e-6, classes=classes).fit([sample], [y])
    assert net.weights_.tobytes() == plain.weights_.tobytes()


def test_what_folds_hold_out() -> None:
    X, y = paired_sequences(6, longest=7)
    samples = [ms.GraphSample(x, ms.Graph.chain(len(x))) for x in X]

    def scores(cv: Any, folds: str) -> np.ndarray:
        return ms.GraphLabelerCV([0.05, 1.0], cv, folds=folds).fit(samples, y).scores_  # type: ignore[no-any-return]

    np.testing.assert_array_equal(scores(6, "auto"), scores(6, "samples"))
    np.testing.assert_array_equal(scores(7, "auto"), scores(7, "nodes"))
    assert (scores(6, "samples") != scores(6, "nodes")).any() and scores(7, "auto").shape == (2, 7)
    assert scores(KFold(3), "auto").shape == (2, 3) and (scores(KFold(3), "auto") == scores(KFold(3), "samples")).all()
    np.testing.assert_array_equal(ms.GraphLabelerCV([0.05, 1.0], None).fit(samples[:4], y[:4]).scores_.shape, (2, 5))
    with pytest.raises(ValueError, match="cv is 7, but there are 6 samples; wanted at most as many folds; folds='nodes'"):
        scores(7, "samples")
    with pytest.raises(ms.InvalidParameterError, match="folds is 'edges', wanted"):
        scores(2, "edges")
    n_nodes = sum(map(len, y))
    given = [(np.arange(3, n_nodes), np.arange(3)), (np.arange(3), np.arange(3, n_nodes))]
    hidden = [own.copy() for own in y]
    hidden[0][:3] = -1
    seen: list[Any] = []
    ms.GraphLabelerCV([1.0], given, folds="nodes", scoring=lambda t, p: seen.append(t) or 0.0).fit(samples, y)
    assert len(seen[0]) == 1 and seen[0][0].tolist() == [*y[0][:3].tolist(), *[None] * (len(y[0]) - 3)]
    first = ms.GraphLabelerCV([1.0], given, folds="nodes", cv_tol=1e-6).fit(samples, y).scores_[0, 0]
    net = ms.GraphLabeler(C=1.0, tol=1e-6).fit(samples, hidden)
    assert first == np.mean(net.predict(samples)[0][:3] == y[0][:3])


def test_samples_of_weight_0_have_no_nodes_in_folds() -> None:
    X, y = paired_sequences(4, longest=7)
    seen: list[Any] = []
    net = ms.SequenceLabelerCV([1.0], 5, scoring=lambda t, p: seen.extend(t) or 0.0)
    net.fit(X, y, sample_weight=[1.0, 0.0, 1.0, 0.0])
    assert sum(sum(label is not None for label in own) for own in seen) == len(y[0]) + len(y[2])


def test_one_image_and_one_sequence() -> None:
    X, y = striped_images(1)
    seg = ms.GridLabelerCV([1e-4, 1.0], 3, potentials="supermodular", edge_features="contrast").fit(X, y)
    assert seg.scores_.shape == (2, 3) and seg.C_ == 1.0 and seg.predict(X)[0].shape == y[0].shape
    assert seg.scores_[1].mean() > seg.scores_[0].mean()
    plain = ms.GridLabeler("supermodular", C=1.0, edge_features="contrast").fit(X, y)
    assert seg.weights_.tobytes() == plain.weights_.tobytes() and seg.gamma_ == plain.gamma_
    X, y = paired_sequences(40, longest=7)
    long, labels = np.concatenate(X), np.concatenate(y)
    tag = ms.SequenceLabelerCV([1e-4, 0.5], 4, scoring="macro_f1").fit([long], [labels])
    assert tag.scores_.shape == (2, 4) and tag.C_ == 0.5 and tag.score([long], [labels]) > 0.5
    with pytest.raises(ms.InvalidParameterError, match="cv is 50, but 1 samples have 3 known nodes"):
        ms.SequenceLabelerCV([1.0], 50).fit([long], [np.where(np.arange(len(labels)) < 3, labels, -1)])


def test_ctrl_c_in_one_training_of_a_search_ends_the_search():
    from sklearn.model_selection import GridSearchCV

    rng, calls = np.random.default_rng(0), []
    X, y = [rng.normal(size=(4, 2)) for _ in range(12)], [rng.integers(0, 2, 4) for _ in range(12)]

    def press(point):
        calls.append(point)
        raise KeyboardInterrupt

    search = GridSearchCV(ms.SequenceLabeler(callback=press), {"C": [0.1, 1.0, 10.0]}, cv=3)
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, y)
    assert len(calls) == 1
    alone = ms.SequenceLabeler(callback=press).fit(X, y)
    assert alone.result_.termination == "interrupted"
