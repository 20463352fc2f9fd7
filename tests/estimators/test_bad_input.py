"""Bad and unusual input through all four estimators: one test per entry of the list of faults, messages that name the sample."""

from __future__ import annotations

import itertools
import multiprocessing
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import maxsum as ms
from maxsum.core.errors import InvalidParameterError, InvalidSampleError


class Case(NamedTuple):
    """An estimator with small data; ``change(x)`` of arrays makes other samples of the same kind."""

    net: Any
    arrays: list[np.ndarray]
    y: list[Any]
    sample: Callable[[Any], Any] = lambda x: x

    def X(self, change: Callable[[np.ndarray], Any] = lambda x: x) -> Any:
        found = [self.sample(change(x)) for x in self.arrays]
        return found if not isinstance(self.net, ms.MultiLabelClassifier) else np.concatenate(self.arrays)

    def fit(self, X: Any = None, y: Any = None, **parameters: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return clone(self.net).set_params(**parameters).fit(self.X() if X is None else X, self.y if y is None else y)


def chain(x: Any) -> ms.GraphSample:
    return ms.GraphSample(x, ms.Graph.chain(x.shape[0]))


def make(name: str) -> Case:
    random = np.random.default_rng(0)
    if name == "grid":
        y = [np.repeat(random.integers(2, size=(3, 2)), 2, axis=1)[:, : 3 + j % 2] for j in range(5)]
        x = [np.stack([t + 0.5 * random.normal(size=t.shape), random.normal(size=t.shape)], axis=2) for t in y]
        return Case(ms.GridLabeler("supermodular", C=5.0), x, y)
    if name == "multilabel":
        x = [random.normal(size=(1, 3)) for _ in range(30)]
        rows = np.concatenate(x)
        return Case(ms.MultiLabelClassifier(C=5.0), x, list((rows + 0.5 * random.normal(size=rows.shape) > 0).astype(int)))
    y = [np.repeat(random.integers(3, size=4), 2)[: int(random.integers(3, 8))] for _ in range(8)]
    x = [np.eye(3)[t] + 0.8 * random.normal(size=(len(t), 3)) for t in y]
    return Case(ms.GraphLabeler(C=5.0), x, y, chain) if name == "graph" else Case(ms.SequenceLabeler(C=5.0), x, y)


LISTS = ["graph", "grid", "sequence"]
ALL = [*LISTS, "multilabel"]
every = pytest.mark.parametrize("name", ALL)


@every
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_fault_01_02_features_that_are_not_finite(name: str, value: float) -> None:
    case = make(name)
    bad = [x.copy() for x in case.arrays]
    bad[2].reshape(-1, bad[2].shape[-1])[0, 1] = value
    words = rf"X has {value} at node 0, feature 1"
    if name != "graph":
        words = rf"sample 2 has {value} at feature 1" if name == "multilabel" else "sample 2: " + words
    fitted = case.fit()
    before = fitted.weights_.copy()
    for use in (lambda X: fitted.fit(X, case.y), fitted.predict):
        with pytest.raises(InvalidSampleError, match=words):
            use(np.concatenate(bad) if name == "multilabel" else [case.sample(x) for x in bad])
    assert (fitted.weights_ == before).all()
    if name == "sequence":
        with pytest.raises(InvalidSampleError, match=words):
            fitted.fit([sparse.csr_matrix(x) for x in bad], case.y)
        dicts = [[dict(zip("abc", row, strict=True)) for row in x] for x in bad]
        with pytest.raises(InvalidSampleError, match=rf"sample 2.*{value}"):
            fitted.fit(dicts, case.y)
    if name == "multilabel":
        with pytest.raises(InvalidSampleError, match=words):
            fitted.fit(sparse.csr_matrix(np.concatenate(bad)), case.y)


@pytest.mark.parametrize("name", LISTS)
def test_fault_17_labels(name: str) -> None:
    case = make(name)
    y = case.y

    def other(value: Any, dtype: Any = None) -> list[Any]:
        changed = [np.array(own, dtype=dtype or own.dtype) for own in y]
        changed[1].reshape(-1)[2] = value
        return changed

    for given, words in (
        (y[:-1], f"there are {len(y)} samples, but {len(y) - 1} labellings"),
        ([*y[:3], y[3][:-1], *y[4:]], "labels of sample 3 have shape"),
        (other(0.5, float), "label of sample 1, node 2 is 0.5"),
        (other(np.inf, float), "label of sample 1, node 2 is inf"),
        (None, "y is None"),
    ):
        with pytest.raises(InvalidSampleError, match=words):
            clone(case.net).fit(case.X(), given)
    with pytest.raises(InvalidSampleError, match=r"label of sample 1, node 2 is .*7.*, wanted one of the classes"):
        case.fit(y=other(7), classes=[0, 1, 2])
    with pytest.raises(InvalidSampleError, match=r"sample 1.*dtype|label of sample 1, node 2 is 'x'"):
        case.fit(y=other("x", object), classes=[0, 1, 2])
    with pytest.raises(InvalidSampleError, match=r"no node has a label|no classes"):
        case.fit(y=[np.full(own.shape, -1) for own in y])
    plain = case.fit()
    floats = case.fit(y=[own.astype(float) for own in y])
    assert floats.weights_.tobytes() == plain.weights_.tobytes() and floats.classes_.dtype.kind == "i"
    assert case.fit(y=other(-1)).classes_.tolist() == plain.classes_.tolist()


def test_fault_17_tables_of_labels() -> None:
    case = make("multilabel")
    X, Y = case.X(), np.array(case.y)
    for given, words in (
        (Y[:-1], "inconsistent numbers of samples"),
        (2 * Y, r"y of sample \d+ has 2 for label \d, wanted 0 or 1"),
        (Y + np.arange(3), "multiclass-multioutput"),
        (Y + 0.5, "continuous"),
        (np.where(Y, np.inf, 0.0), "infinity"),
        (np.full(Y.shape, np.nan), "y has 90 labels, but none is known"),
        (2 * Y - 1, "y holds -1 and 1, but no 0"),
        (np.full(Y.shape, -1), "y has 90 labels, but none is known"),
        (np.ma.MaskedArray(Y, True), "y has 90 labels, but none is known"),
        (np.ma.MaskedArray(Y[:, 0], True), "y has 30 labels, but none is known"),
        (None, "requires y to be passed"),
    ):
        with pytest.raises(ValueError, match=words):
            clone(case.net).fit(X, given)
    assert (
        case.fit(y=Y.astype(float)).weights_.tobytes() == case.fit().weights_.tobytes() == case.fit(y=Y > 0).weights_.tobytes()
    )


@every
def test_fault_18_a_class_that_training_has_not_seen(name: str) -> None:
    case = make(name)
    if name == "multilabel":
        net = case.fit(y=np.array(case.y) * [1, 0, 1])
        assert (net.predict(case.X())[:, 1] == 0).all()
    else:
        seen = sorted({int(k) for own in case.y for k in own.ravel()})
        net = case.fit(classes=[*seen, 9])
        assert net.classes_.tolist() == [*seen, 9]
        assert np.isfinite(net.score(case.X(), case.y))
        one = case.fit(y=[np.zeros_like(own) for own in case.y], classes=[0, 1])
        assert all((own == 0).all() for own in one.predict(case.X()))
    assert np.isfinite(net.weights_).all() and np.isfinite(net.result_.gap)


def test_fault_19_nodes_with_different_numbers_of_labels() -> None:
    random = np.random.default_rng(0)
    graph = ms.Graph.from_edges([[0, 1], [1, 2], [2, 0]])
    samples = [ms.GraphSample(random.normal(size=(3, 2)), graph, node_types=[0, 1, 2]) for _ in range(8)]
    names = [["a", "b"], ["p", "q", "r"], ["w", "x", "y", "z"]]
    labels = [[own[random.integers(len(own))] for own in names] for _ in samples]
    net = ms.GraphLabeler(C=5.0, tol=0.01, classes=names).fit(samples, labels)
    for result, predicted, problem in zip(
        net.predict_result(samples), net.predict(samples), net.problems(samples), strict=True
    ):
        best = max(itertools.product(range(2), range(3), range(4)), key=lambda y: problem.score(np.array(y)))
        assert result.score == pytest.approx(problem.score(np.array(best)), abs=1e-9)
        assert all(label in own for label, own in zip(predicted.tolist(), names, strict=True))


CHANGES: dict[str, Callable[[np.ndarray], Any]] = {
    "float32": lambda x: x.astype(np.float32),
    "fortran": np.asfortranarray,
    "big-endian": lambda x: x.astype(">f8"),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: np.flip(np.flip(x, axis=0).copy(), axis=0),
    "read-only": lambda x: np.lib.stride_tricks.as_strided(x, writeable=False),
}


@every
@pytest.mark.parametrize("change", CHANGES)
def test_fault_20_any_memory_layout(name: str, change: str, tmp_path: Any) -> None:
    case = make(name)
    case = case._replace(arrays=[x.astype(np.float32).astype(np.float64) for x in case.arrays])
    expected = case.fit().weights_
    given = [CHANGES[change](x) for x in ([case.X()] if name == "multilabel" else case.arrays)]
    kept = [x.copy() for x in given]
    labels = [np.asfortranarray(np.asarray(own).astype(np.int8)) for own in case.y]
    found = case.fit(given[0] if name == "multilabel" else [case.sample(x) for x in given], labels)
    assert found.weights_.tobytes() == expected.tobytes()
    assert all((a == b).all() for a, b in zip(given, kept, strict=True))


@every
def test_fault_20_read_only_memory_maps(name: str, tmp_path: Any) -> None:
    case = make(name)
    whole = np.concatenate([x.reshape(-1, x.shape[-1]) for x in case.arrays])
    np.save(tmp_path / "x.npy", whole)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    parts = np.split(mapped, np.cumsum([x[..., 0].size for x in case.arrays])[:-1])
    X: Any = mapped
    if name != "multilabel":
        X = [case.sample(part.reshape(x.shape)) for part, x in zip(parts, case.arrays, strict=True)]
    assert case.fit(X).weights_.tobytes() == case.fit().weights_.tobytes()


def untidy(x: np.ndarray) -> Any:
    """Rows with explicit zeros and unsorted columns."""
    order = np.arange(x.shape[1])[::-1]
    columns = np.tile(order, len(x))
    return sparse.csr_matrix((x[:, order].ravel(), columns, np.arange(0, x.size + 1, x.shape[1])), shape=x.shape)


@pytest.mark.parametrize("name", ["graph", "sequence", "multilabel"])
def test_fault_21_sparse_rows_in_any_form(name: str) -> None:
    case = make(name)
    case = case._replace(arrays=[np.where(np.abs(x) < 0.4, 0.0, x) for x in case.arrays])
    case.arrays[0][0] = 0.0
    for form in (sparse.csr_matrix, untidy, sparse.csc_matrix, sparse.coo_array):
        X: Any = form(case.X()) if name == "multilabel" else [case.sample(form(x)) for x in case.arrays]
        found, tidy = case.fit(X, tol=1e-6, max_iter=5000), case.fit(tol=1e-6, max_iter=5000)
        np.testing.assert_allclose(found.weights_, tidy.weights_, atol=0.02)
        assert all((np.asarray(a) == b).all() for a, b in zip(found.predict(X), tidy.predict(case.X()), strict=True))


@every
def test_fault_22_other_features_at_prediction(name: str) -> None:
    case = make(name)
    net = case.fit()
    d = case.arrays[0].shape[-1]
    wider = [np.concatenate([x, x[..., :1]], axis=-1) for x in case.arrays]
    X = np.concatenate(wider) if name == "multilabel" else [case.sample(x) for x in wider]
    words = (
        rf"X has {d + 1} features, but .* expecting {d}"
        if name == "multilabel"
        else rf"sample 0 has {d + 1} features a node, but the model has {d}"
    )
    for use in (net.predict, net.predict_result, lambda X: net.score(X, case.y)):
        with pytest.raises(ValueError, match=words):
            use(X)
    if name != "multilabel":
        mixed = [*case.X()[:2], X[2], *case.X()[3:]]
        with pytest.raises(InvalidSampleError, match=rf"sample 2 has {d + 1} features"):
            clone(case.net).fit(mixed, case.y)


@every
@pytest.mark.parametrize("C", [0.0, -1.0, np.nan, np.inf, None, "1", True])
def test_fault_25_values_of_C_that_are_none(name: str, C: Any) -> None:
    case = make(name)
    net = clone(case.net).set_params(C=C)
    with pytest.raises(InvalidParameterError, match=r"C is .*, wanted a finite number > 0"):
        net.fit(case.X(), case.y)
    assert not hasattr(net, "weights_")


@every
@pytest.mark.parametrize("C", [1e-300, 1e-12, 1e12, 1e300])
def test_fault_25_extreme_values_of_C_end_honestly(name: str, C: float) -> None:
    case = make(name)
    result = case.fit(C=C, max_iter=3, time_limit=2.0).result_
    assert np.isfinite(result.weights).all() and result.lower_bound <= result.objective * (1 + 1e-9) + 1e-300
    assert result.termination in ("converged", "iteration_limit", "time_limit", "stalled")
    assert (result.termination == "converged") == (result.relative_gap <= 1e-3)


@every
def test_fault_51_threads_change_nothing(name: str) -> None:
    case = make(name)
    nets = [case.fit(n_jobs=n) for n in (1, 2, 8)]
    assert len({net.weights_.tobytes() for net in nets}) == 1
    labels = [[own.tolist() for own in net.predict(case.X())] for net in nets]
    assert labels[0] == labels[1] == labels[2]
    for n in (0, 1.5, "2", -3, True):
        with pytest.raises(InvalidParameterError, match="n_jobs is"):
            case.fit(n_jobs=n)


def _weights(name: str) -> bytes:
    return bytes(make(name).fit().weights_.tobytes())


def test_fault_52_forked_workers() -> None:
    """After kernels have run here: the same weights, no hang. Workers of joblib are in tests/experiments, new ones in tests/faults."""
    expected = [_weights(name) for name in ALL]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_weights, ALL).get(timeout=120) == expected


@every
def test_fault_53_fits_in_threads_do_not_meet(name: str) -> None:
    case = make(name)
    values = [1.0, 2.0, 5.0, 9.0]
    alone = [case.fit(C=C).weights_.tobytes() for C in values]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda C: case.fit(C=C).weights_.tobytes(), values)) == alone


@every
def test_fault_62_standard_exceptions(name: str) -> None:
    case = make(name)
    net = clone(case.net)
    for use in (net.predict, net.predict_result, lambda X: net.score(X, case.y)):
        with pytest.raises(NotFittedError):
            use(case.X())
    with pytest.raises(NotFittedError):
        net.coef_blocks_  # noqa: B018
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        net.set_params(speed=1)
    with pytest.raises(ValueError, match="Invalid parameter"):
        net.set_params(learner__tol=1)
    pipe = make_pipeline(FunctionTransformer(), net)
    y: Any = np.array(case.y) if name == "multilabel" else case.y
    search = GridSearchCV(pipe, {f"{type(net).__name__.lower()}__C": [0.1, 5.0]}, cv=2, error_score="raise").fit(case.X(), y)
    assert 0 < search.best_score_ <= 1 and len(search.predict(case.X())) == len(case.y)
    assert clone(search.best_estimator_[-1]).get_params().keys() == net.get_params().keys()
    assert case.fit().fit(case.X(), case.y).weights_.tobytes() == case.fit().weights_.tobytes()


@pytest.mark.parametrize("name", LISTS)
def test_nothing_to_train_on(name: str) -> None:
    case = make(name)
    for X, y in (([], []), ([], None)):
        with pytest.raises(ValueError, match=r"no samples|y is None"):
            clone(case.net).fit(X, y)
    with pytest.raises(InvalidSampleError, match="sample_weight is"):
        clone(case.net).fit(case.X(), case.y, sample_weight=np.zeros(len(case.y)))
    assert case.fit().predict([]) == []
