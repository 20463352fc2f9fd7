"""Every parameter of every estimator does something that can be seen; a new one without an entry here fails."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxsum as ms
from maxsum.models import KernelMap

pytestmark = pytest.mark.filterwarnings("ignore")
RNG = np.random.default_rng(0)
Y = np.sort(RNG.integers(0, 3, size=(6, 3, 4)), axis=2)
X = Y[..., None] + 0.5 * RNG.standard_normal((*Y.shape, 2))
LABELS = RNG.integers(0, 2, size=(30, 4))
ROWS = LABELS @ RNG.standard_normal((4, 3)) + 0.5 * RNG.standard_normal((30, 3))


def data(kind: str) -> tuple[Any, Any]:
    if kind == "MultiLabelClassifier":
        return ROWS, LABELS
    if kind == "GridLabeler":
        return X, Y
    if kind == "SequenceLabeler":
        return X.reshape(6, 12, 2), Y.reshape(6, 12)
    return [ms.GraphSample(x.reshape(12, 2), ms.Graph.grid(3, 4)) for x in X], [y.ravel() for y in Y]


class Counter:
    """A callback that counts."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, point: Any) -> None:
        self.calls += 1


def weights(net: Any, X: Any) -> Any:
    return net.weights_.tobytes()


def size(net: Any, X: Any) -> Any:
    return len(net.weights_)


# Parameter: what both have, the value beside the default, and what differs then.
EFFECTS: dict[str, tuple[dict[str, Any], Any, Any]] = {
    "potentials": ({}, "potts", size),
    "surrogate": ({"learner": "CuttingPlane"}, "lp", lambda net, X: net.objective_.surrogate),
    "learner": ({}, "CuttingPlane", lambda net, X: net.result_.learner),
    "loss": ({}, "normalised", weights),
    "features": ({}, KernelMap("rbf"), size),
    "oracle": ({}, "JunctionTree", lambda net, X: net.result_.message),
    "C": ({}, 0.01, weights),
    "tol": ({}, 0.5, lambda net, X: net.result_.relative_gap > 1e-3),
    "max_iter": ({}, 1, lambda net, X: net.n_iter_),
    "time_limit": ({}, 0.0, lambda net, X: net.result_.termination),
    "random_state": ({"tol": 0.05, "learner": "BlockFrankWolfe"}, 7, weights),
    "n_jobs": ({}, 2, lambda net, X: net.objective_.n_jobs),
    "bias": ({}, None, size),  # the other value of the two
    "scale": ({}, "standard", weights),
    "homogeneous": ({}, False, size),
    "symmetric": ({"potentials": "general"}, True, size),
    "tie": ({}, np.arange(6).reshape(2, 3) % 3, size),
    "classes": ({}, [0, 1, 2, 9], lambda net, X: len(net.classes_)),
    "class_weight": ({}, "balanced", weights),
    "forbidden": ({"classes": [0, 1, 2, 9]}, [(0, 9), (9, 0)], lambda net, X: np.isneginf(net.coef_blocks_["edges"]).sum()),
    "smoothing": ({"surrogate": "lp"}, 0.5, lambda net, X: net.result_.learner),
    "penalty": ({"surrogate": "likelihood"}, "l1", weights),
    "tighten": ({"surrogate": "lp"}, True, lambda net, X: net.result_.message),
    "solver": ({}, "ICM", lambda net, X: net.predict_result(X)[0].solver),
    "connectivity": ({}, 8, lambda net, X: len(net.model_.data.edges)),
    "offsets": ({}, [(0, 1), (1, 0), (0, 2)], lambda net, X: len(net.model_.data.edges)),
    "edge_types": ({"potentials": "general"}, "directions", size),
    "edge_features": ({"potentials": "general"}, "contrast", size),
    "guide": ({"potentials": "general", "edge_features": "contrast"}, [1], lambda net, X: net.n_features_in_),
    "gamma": ({"edge_features": "contrast"}, 0.3, lambda net, X: net.gamma_),
    "n_hidden": ({}, 2, size),
    "order": ({}, 2, size),
    "label_graph": ({}, "none", size),
    "Cs": ({}, [0.1, 1.0, 5.0], lambda net, X: np.shape(net.Cs_)),
    "cv": ({}, 4, lambda net, X: np.shape(net.cv_results_["split0_test_score"]) + (sum("split" in own for own in net.cv_results_),)),
    "cv_tol": ({"max_iter": 50}, 1e-9, lambda net, X: net.callback.calls),
    "scoring": ({"Cs": [0.001, 0.01]}, "macro_f1", lambda net, X: np.asarray(net.scores_).tobytes()),
    "folds": ({}, "nodes", lambda net, X: np.asarray(net.scores_).tobytes()),
}  # fmt: skip
SEEN_ELSEWHERE = {
    "callback",
    "verbose",
    "checkpoint",
    "checkpoint_seconds",
    "dimensions",
    "unknown",  # test_partial_labels.py
    "warm_start",
}  # below; dimensions in test_grid_dimensions
# On label sets the default learner has no order to draw, and pairs of labels in general tables are what is learned.
OTHERWISE: dict[tuple[str, str], tuple[dict[str, Any], Any, Any]] = {
    ("MultiLabelClassifier", "oracle"): ({"learner": "BlockFrankWolfe"}, "Exhaustive", lambda net, X: net.result_.message),
    ("MultiLabelClassifier", "forbidden"): ({}, [], lambda net, X: len(net.weights_)),  # pairs: test_columns.py
    ("MultiLabelClassifier", "loss"): ({}, [[0.0, 5.0], [1.0, 0.0]], weights),
    ("MultiLabelClassifier", "solver"): ({}, "ICM", lambda net, X: net.predict_result(X)[0].solver),
}
KINDS = ("GraphLabeler", "GridLabeler", "SequenceLabeler", "MultiLabelClassifier")


def made(name: str, **options: Any) -> Any:
    quick = {"Cs": [0.1, 1.0], "cv": 2, "callback": Counter()} if name.endswith("CV") else {}
    return getattr(ms, name)(**{**quick, **options})


CASES = [
    (f"{kind}{end}", parameter)
    for kind in KINDS
    for end in ("", "CV")
    for parameter in inspect.signature(getattr(ms, f"{kind}{end}")).parameters
    if parameter not in SEEN_ELSEWHERE and not (end and parameter in inspect.signature(getattr(ms, kind)).parameters)
]  # what both have, the plain estimator shows: cross-validation trains by it


_FITTED: dict[tuple[str, str], Any] = {}


def fitted(name: str, base: dict[str, Any]) -> Any:
    """What the changed ones are compared with, trained once for all parameters that start from it."""
    key = name, repr(base)
    if key not in _FITTED:
        _FITTED[key] = made(name, **base).fit(*data(name.removesuffix("CV")))
    return _FITTED[key]


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_it_has_an_effect(name: str, parameter: str) -> None:
    kind = name.removesuffix("CV")
    base, other, seen = OTHERWISE.get((kind, parameter), EFFECTS.get(parameter, (None, None, None)))
    assert base is not None, f"{parameter} has no entry: what does it do?"
    default = inspect.signature(getattr(ms, name)).parameters[parameter].default
    if parameter == "bias":
        other = not default
    X, y = data(kind)
    plain = fitted(name, base)
    changed = made(name, **base, **{parameter: other}).fit(X, y)
    assert seen(plain, X) != seen(changed, X)


@pytest.mark.parametrize("name", [f"{kind}{end}" for kind in KINDS for end in ("", "CV")])
def test_callbacks_checkpoints_and_warm_starts(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = data(name.removesuffix("CV"))
    points: list[Any] = []
    made(name, callback=lambda point: points.append(point)).fit(X, y)
    assert points and not capsys.readouterr().err
    made(name, verbose=1).fit(X, y)
    shown = capsys.readouterr().err
    assert "pass 1 " in shown and "objective" in shown and "gap" in shown.splitlines()[-1]
    assert ("fold 2" in shown) == name.endswith("CV")
    if name.endswith("CV"):
        return
    state = tmp_path / "state"
    written: list[bool] = []
    made(name, checkpoint=state, checkpoint_seconds=0.0, tol=1e-6, callback=lambda point: written.append(state.exists())).fit(
        X, y
    )
    often = any(written) or any(tmp_path.iterdir())
    other = tmp_path / "other"
    other.mkdir()
    seen: list[bool] = []
    made(
        name,
        checkpoint=other / "state",
        checkpoint_seconds=1e9,
        tol=1e-6,
        callback=lambda point: seen.append(any(other.iterdir())),
    ).fit(X, y)
    assert often and sum(seen) <= sum(written)
    net = made(name, warm_start=True, learner="BlockFrankWolfe").fit(X, y)
    first = net.n_iter_
    assert net.fit(X, y).n_iter_ < first or first == 1


@pytest.mark.parametrize(
    "name", [name for name in ms.__all__ if inspect.isclass(getattr(ms, name)) and hasattr(getattr(ms, name), "get_params")]
)
def test_its_page_has_it(name: str) -> None:
    """The docstring of each estimator has all of its parameters, those that it shares with others too, and no others."""
    kind = getattr(ms, name)
    part = inspect.cleandoc(kind.__doc__).split("Parameters\n----------\n")[1].split("\n\nAttributes")[0]
    told = [word.strip() for line in re.findall(r"^(\S[^:\n]*?) :", part, flags=re.M) for word in line.split(",")]
    assert sorted(told) == sorted(inspect.signature(kind).parameters)
