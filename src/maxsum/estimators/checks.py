"""Does an estimator of lists of structures keep the conventions of scikit-learn? Public, for estimators of users too."""

from __future__ import annotations

import pickle
import tempfile
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from ..core.errors import MaxsumError
from .targets import unmasked


class CheckFailedError(MaxsumError, AssertionError):
    """An estimator breaks a convention; the message names the check and what was found."""


def check_structured_estimator(estimator: Any, X: list[Any], y: list[Any]) -> list[str]:
    """Check that an estimator whose samples are lists of structures keeps the conventions of scikit-learn.

    Checked are: ``clone``, ``get_params`` and ``set_params``, the error of an unfitted estimator, that `fit` changes neither
    parameters nor data and repeats exactly, shapes and classes of predictions, `score`, pickling, read-only memory maps, labels
    that are strings, declared classes that the data lack, weights of samples (3 is as good as three times, 0 as good as without),
    and ``n_jobs``.

    Parameters
    ----------
    estimator : estimator
        Not fitted; it is cloned. After `fit` it has ``classes_``, and a ``result_`` with ``objective`` and ``lower_bound``, by
        which weights of samples are checked: minima that must be the same have proven intervals that overlap.
    X, y : list
        At least 4 samples and 2 classes, on which a fit takes little time.

    Returns
    -------
    list of str
        Names of the checks, in order.

    Raises
    ------
    CheckFailedError
        At the first check that fails.

    Examples
    --------
    >>> import maxsum as ms
    >>> from maxsum.estimators import check_structured_estimator
    >>> X = [[0, 1], [1, 0, 1], [1, 1], [0, 0]]
    >>> check_structured_estimator(ms.SequenceLabeler(), X, X)[:2]
    ['parameters', 'not_fitted']
    """
    if len(X) != len(y) or len(X) < 4:
        raise CheckFailedError(
            f"check_structured_estimator got {len(X)} samples and {len(y)} labellings, wanted at least 4 of each."
        )
    done = []
    for check in CHECKS:
        name = check.__name__.removeprefix("_check_")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            try:
                own = clone(estimator)
                if getattr(own, "warm_start", False):
                    own.set_params(warm_start=False)
                check(own, X, y)
            except CheckFailedError as error:
                raise CheckFailedError(f"{type(estimator).__name__} fails the check {name!r}: {error}") from error
            except Exception as error:
                raise CheckFailedError(
                    f"{type(estimator).__name__} fails the check {name!r}: it raised {type(error).__name__}: {error}"
                ) from error
        done.append(name)
    return done


def _check_parameters(estimator: Any, X: Any, y: Any) -> None:
    before = estimator.get_params(deep=False)
    again = clone(estimator).set_params(**before).get_params(deep=False)
    for name, value in before.items():
        _demand(again.get(name) is value, f"set_params(**get_params()) made {name} {again.get(name)!r}, wanted {value!r}")
    clone(estimator).set_params(**estimator.get_params(deep=True))
    copied = clone(estimator).get_params(deep=False)
    _demand(list(copied) == list(before), f"a clone has the parameters {list(copied)}, wanted {list(before)}")
    for name, value in before.items():
        _demand(_same(copied[name], value), f"a clone has {name}={copied[name]!r}, wanted {value!r}")
    _demand(
        isinstance(repr(estimator), str) and isinstance(estimator._repr_html_(), str),
        "it has no representation as text or HTML",
    )
    try:
        clone(estimator).set_params(no_such_parameter=1)
    except ValueError:
        return
    raise CheckFailedError("set_params(no_such_parameter=1) was accepted, wanted a ValueError")


def _check_not_fitted(estimator: Any, X: Any, y: Any) -> None:
    for name, arguments in (("predict", (X,)), ("score", (X, y))):
        try:
            getattr(estimator, name)(*arguments)
        except NotFittedError:
            continue
        raise CheckFailedError(f"{name} before fit did not raise sklearn's NotFittedError")


def _check_fit(estimator: Any, X: Any, y: Any) -> None:
    before = estimator.get_params(deep=False)
    kept = deepcopy((X, y))
    _demand(estimator.fit(X, y) is estimator, "fit did not return the estimator itself")
    for name, value in estimator.get_params(deep=False).items():
        _demand(value is before[name], f"fit changed the parameter {name} from {before[name]!r} to {value!r}")
    first = estimator.predict(X)
    _demand(_same((X, y), kept), "fit or predict changed the data they were given")
    state = _weights(estimator)
    estimator.fit(X, y)
    _demand(_same(estimator.predict(X), first) and _same(_weights(estimator), state), "a second fit on the same data differs")
    _demand(_same(_weights(clone(estimator).fit(X, y)), state), "a clone fitted on the same data differs")


def _check_predictions(estimator: Any, X: Any, y: Any) -> None:
    estimator.fit(X, y)
    predicted = estimator.predict(X)
    _demand(isinstance(predicted, list), f"predict returned a {type(predicted).__name__}, wanted a list")
    _demand(len(predicted) == len(X), f"predict returned {len(predicted)} labellings for {len(X)} samples")
    classes = _classes(estimator)
    for j, (own, given) in enumerate(zip(predicted, y, strict=True)):
        if isinstance(given, np.ndarray):
            _demand(own.shape == given.shape, f"the prediction of sample {j} has shape {own.shape}, wanted {given.shape}")
        _demand(
            own.size == len(_flat(given)), f"the prediction of sample {j} has {own.size} labels, wanted {len(_flat(given))}"
        )
        strange = set(own.ravel().tolist()) - set(classes)
        _demand(not strange, f"the prediction of sample {j} has the label {next(iter(strange), None)!r}, which is no class")
    _demand(_same(estimator.predict(X[1:2])[0], predicted[1]), "the prediction of a sample depends on the others")
    _demand(estimator.predict([]) == [], "predict([]) is not []")
    _demand(estimator.score(X, predicted) == 1.0, "the score of its own predictions is not 1")
    _demand(0.0 <= estimator.score(X, y) <= 1.0, "the score is not between 0 and 1")


def _check_pickling(estimator: Any, X: Any, y: Any) -> None:
    estimator.fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    _demand(_same(again.predict(X), estimator.predict(X)), "predictions after pickling differ")


def _check_memory_maps(estimator: Any, X: Any, y: Any) -> None:
    expected = clone(estimator).fit(X, y).predict(X)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        mapped = [_mapped(own, Path(folder) / f"x{j}.npy") for j, own in enumerate(X)]
        labels = [_mapped(own, Path(folder) / f"y{j}.npy") for j, own in enumerate(y)]
        found = estimator.fit(mapped, labels).predict(mapped)
        _demand(_same(found, expected), "predictions from read-only memory maps differ")
        del mapped, labels, found


def _check_string_labels(estimator: Any, X: Any, y: Any) -> None:
    estimator.fit(X, y)
    classes, expected = _classes(estimator), estimator.predict(X)
    if classes and isinstance(estimator.classes_, list):
        return
    names = {label: f"c{k:03}" for k, label in enumerate(classes)}
    renamed = [_mapped_labels(own, z.shape, names) for own, z in zip(y, expected, strict=True)]
    other = clone(estimator)
    parameters = other.get_params(deep=False)
    if parameters.get("classes") is not None:
        other.set_params(classes=list(names.values()))
    if isinstance(parameters.get("class_weight"), Mapping):
        other.set_params(class_weight={names[label]: weight for label, weight in parameters["class_weight"].items()})
    found = other.fit(X, renamed).predict(X)
    wanted = [_mapped_labels(own, own.shape, names) for own in expected]
    _demand(
        _same([own.tolist() for own in found], [own.tolist() for own in wanted]),
        "other names of the classes change predictions",
    )


def _check_missing_class(estimator: Any, X: Any, y: Any) -> None:
    estimator.fit(X, y)
    classes, shapes = _classes(estimator), [own.shape for own in estimator.predict(X)]
    if len(classes) < 2 or isinstance(estimator.classes_, list) or "classes" not in estimator.get_params(deep=False):
        return
    names: dict[Any, Any] = {**dict(zip(classes, classes, strict=True)), classes[-1]: classes[0]}
    without = [_mapped_labels(own, shape, names) for own, shape in zip(y, shapes, strict=True)]
    net = clone(estimator).set_params(classes=list(classes)).fit(X, without)
    _demand(
        _classes(net) == classes, f"classes_ is {_classes(net)} with a class missing in the data, wanted the declared {classes}"
    )
    _demand([own.shape for own in net.predict(X)] == shapes, "shapes of predictions change where a declared class is missing")


def _check_sample_weight(estimator: Any, X: Any, y: Any) -> None:
    if "tol" in estimator.get_params(deep=False):
        estimator.set_params(tol=min(1e-4, estimator.tol))
    half = len(X) // 2
    classes = _classes(clone(estimator).fit(X, y))
    if "classes" in estimator.get_params(deep=False) and not isinstance(classes[0], np.ndarray):
        estimator.set_params(classes=list(classes))
    ones = clone(estimator).fit(X, y, sample_weight=np.ones(len(X)))
    _agree(ones, clone(estimator).fit(X, y), "sample_weight of ones", "none")
    weight = np.where(np.arange(len(X)) < half, 3.0, 1.0)
    often = clone(estimator).fit(list(X) + 2 * list(X[:half]), list(y) + 2 * list(y[:half]))
    _agree(clone(estimator).fit(X, y, sample_weight=weight), often, "sample_weight 3", "samples given three times")
    zero = clone(estimator).fit(X, y, sample_weight=(weight == 1.0).astype(float))
    _agree(zero, clone(estimator).fit(list(X[half:]), list(y[half:])), "sample_weight 0", "samples left out")


def _check_n_jobs(estimator: Any, X: Any, y: Any) -> None:
    if "n_jobs" not in estimator.get_params(deep=False):
        return
    one, two = (clone(estimator).set_params(n_jobs=n).fit(X, y) for n in (1, 2))
    _demand(_same(_weights(one), _weights(two)), "n_jobs=2 learns other weights than n_jobs=1")
    _demand(_same(one.predict(X), two.predict(X)), "n_jobs=2 predicts other labels than n_jobs=1")


CHECKS = (
    _check_parameters,
    _check_not_fitted,
    _check_fit,
    _check_predictions,
    _check_pickling,
    _check_memory_maps,
    _check_string_labels,
    _check_missing_class,
    _check_sample_weight,
    _check_n_jobs,
)


def _demand(condition: bool, fault: str) -> None:
    if not condition:
        raise CheckFailedError(fault + ".")


def _agree(a: Any, b: Any, name: str, other: str) -> None:
    """The proven intervals of two minima that must be the same overlap."""
    one, two = a.result_, b.result_
    slack = 1e-9 * max(abs(one.objective), abs(two.objective))
    _demand(
        max(one.lower_bound, two.lower_bound) <= min(one.objective, two.objective) + slack,
        f"{name} minimises another objective than {other}: [{one.lower_bound:.8g}, {one.objective:.8g}] against "
        f"[{two.lower_bound:.8g}, {two.objective:.8g}]",
    )


def _weights(estimator: Any) -> Any:
    return getattr(estimator, "weights_", None)


def _classes(estimator: Any) -> list[Any]:
    classes = estimator.classes_
    return [label for own in classes for label in own.tolist()] if isinstance(classes, list) else classes.tolist()


def _flat(labels: Any) -> list[Any]:
    if isinstance(labels, np.ndarray):
        return unmasked(labels).ravel().tolist()
    nested = len(labels) > 0 and all(isinstance(row, (list, np.ndarray)) for row in labels)
    return [label for row in labels for label in row] if nested else list(labels)


def _mapped_labels(labels: Any, shape: tuple[int, ...], names: Mapping[Any, Any]) -> np.ndarray:
    """Labels under other names; None where they are unknown."""
    out = np.empty(len(_flat(labels)), dtype=object)
    out[:] = [names.get(label) for label in _flat(labels)]
    return out.reshape(shape)


def _mapped(item: Any, path: Path) -> Any:
    """Arrays of numbers as read-only memory maps."""
    if is_dataclass(item) and not isinstance(item, type) and isinstance(getattr(item, "X", None), np.ndarray):
        return replace(item, X=_mapped(item.X, path))  # type: ignore[attr-defined]
    if not isinstance(item, np.ndarray) or item.dtype.kind == "O" or not item.size or np.ma.isMaskedArray(item):
        return item
    np.save(path, item)
    return np.load(path, mmap_mode="r")


def _same(a: Any, b: Any) -> bool:
    """Equal in all parts."""
    if a is b:
        return True
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.shape(a) == np.shape(b) and bool(np.array_equal(a, b))
    if hasattr(a, "tocsr"):
        return hasattr(b, "tocsr") and a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(_same(x, y) for x, y in zip(a, b, strict=True))
    if is_dataclass(a) and not isinstance(a, type):
        return type(a) is type(b) and all(_same(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return type(a) is type(b) and (bool(a == b) or type(a).__eq__ is object.__eq__)  # type: ignore[comparison-overlap]
