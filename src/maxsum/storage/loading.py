"""Reading model files: nothing in them is executed, and what is not sound is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .. import estimators
from ..core.errors import CertificateError, MaxsumError, ModelFileError
from ..core.graph import Graph
from ..core.memory import check_room
from ..core.result import Guarantee, Termination
from ..estimators.cross.validation import CrossValidated
from ..estimators.latent.states import States
from ..estimators.multilabel import MultiLabelClassifier
from ..estimators.surrogates import SURROGATES
from ..estimators.tables.columns import Columns, typed
from ..estimators.targets import Rule
from ..learning.certificate import LearningVerification, Progress
from ..learning.objectives.stored import StoredObjective
from ..learning.result import LearningPoint, LearningResult
from ..models.convex import ConvexBound
from ..models.graph_model import Layout
from ..models.multilabel import MultiLabelBound, MultiLabelModel, SingleNodes
from ..models.scaling import Scaling
from .format import COUNTS, FACTS, FILE, FINGERPRINT, KINDS, LISTS, NAMES, NUMBERS, fingerprint, sizes
from .saving import summary
from .structure import rebuild
from .values import Reader


def load_model(path: str | Path) -> Any:
    """Read an estimator from a file that `save_model` wrote; nothing in the file is executed.

    The estimator predicts bit for bit what the saved one did, and has its card, ``result_``, ``classes_``, ``coef_blocks_`` and
    ``weight_names_``. It has no training data: ``objective_`` knows sizes, ``C`` and a fingerprint, and refuses the rest.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    estimator
        Of the class that was saved, fitted.

    Raises
    ------
    ModelFileError
        If the file is damaged, truncated, hostile, of a newer version, or no model file at all.
    """
    header, arrays = FILE.load(path)
    try:
        return _build(header, arrays, str(path))
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
        MaxsumError,
    ) as error:
        raise FILE.fault(path, f"describes no model ({type(error).__name__}: {str(error)[:300]})") from None


def read_header(path: str | Path) -> dict[str, Any]:
    """What a model file says about itself, without its arrays: estimator, parameters, versions, result, certificate summary.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    dict
        Of plain JSON values; ``arrays`` lists name, type and shape of each array, and ``library`` is the maxsum that wrote it.

    Raises
    ------
    ModelFileError
        As `load_model`, for what can be seen without the arrays.
    """
    header = FILE.header(path)
    if not isinstance(header, dict):
        raise FILE.fault(path, "has a broken header (no object)")
    missing = {"estimator", "result", "objective", "parameters"} - set(header)
    if missing or header["estimator"] not in NAMES:
        raise FILE.fault(path, f"describes no model (without {sorted(missing)}, for {header.get('estimator')!r:.60})")
    return header


def verify_model(
    model: Any,
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    exact: bool = False,
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> LearningVerification:
    """Check the proof that was saved with a model, and every claim of the file, on the training data.

    Parameters
    ----------
    model : estimator or path
        Of `load_model`, or the file; saved with ``certificate=True``.
    X, y, sample_weight
        As in the `fit` that was saved.
    exact : bool
        Use rational arithmetic.
    progress : callable, optional
        Called with (parts done, parts in all).
    time_limit : float, optional
        Seconds.

    Returns
    -------
    LearningVerification
        Objective and lower bound, recomputed.

    Raises
    ------
    ModelFileError
        If the file holds no proof, or the data are others.
    CertificateError
        If the proof or a claim does not hold.
    CheckTimeout
        If the time limit passes first.
    """
    net = load_model(model) if isinstance(model, (str, Path)) else model
    stored, result = net.objective_, net.result_
    if result.certificate is None:
        raise ModelFileError(
            "the model has no certificate to check: save it with certificate=True, from a training that proves a bound."
        )
    prepared = net._prepare(net._read(X, y, sample_weight), float(stored.C))
    if prepared.partial is not None:
        raise ModelFileError(
            "the model inferred labels in training (unknown='infer', or hidden states): its proof is about the problem with these labels, which a file does not "
            "hold. Check it with result_.verify(objective_) where the training ran."
        )
    objective = prepared.objective
    if isinstance(stored, StoredObjective):
        if stored.weighs_mean:
            objective.c = objective.c / objective.sample_weight.sum()
        found, wanted = fingerprint(objective, stored.fingerprint_version), stored.fingerprint
    else:
        found, wanted = fingerprint(objective), fingerprint(stored)
    if found != wanted:
        raise ModelFileError(
            f"the data have the fingerprint {found[:12]}, wanted {wanted[:12]}: the model was trained on others, or with other sample weights."
        )
    if isinstance(stored, StoredObjective):
        own = (objective.surrogate, type(objective).__name__, *sizes(objective))
        told = (stored.surrogate, stored.kind, stored.n_examples, stored.n_nodes)
        if own != told:
            raise CertificateError(f"the file tells of the objective {told}, but its settings and these data make {own}.")
    _compare_header(result)
    return result.verify(objective, exact=exact, progress=progress, time_limit=time_limit)  # type: ignore[no-any-return]


def _compare_header(result: LearningResult) -> None:
    """Whether what the header says beside objective and bound, which the proof is compared with, follows from them."""
    told = result.extra.get("header", {})
    for name in ("gap", "relative_gap"):
        own, given = getattr(result, name), told.get(name)
        if given is not None and own != given and not (np.isfinite(own) and abs(own - given) <= 1e-9 * own):
            raise CertificateError(f"the file claims a {name} of {given}, but its objective and lower bound leave {own}.")
    if told.get("guarantee") not in (None, str(result.guarantee)):
        raise CertificateError(
            f"the file claims {told['guarantee']!r:.60}, but its objective and lower bound say {str(result.guarantee)!r}."
        )
    if told.get("certificate") not in (None, summary(result.certificate)):
        raise CertificateError(
            f"the file tells of the proof {told['certificate']!r:.120}, but holds {summary(result.certificate)}."
        )


def _read_weights(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The weights, of which zeros may have been left out."""
    if "weights" in arrays:
        return np.ascontiguousarray(arrays["weights"], dtype=np.float64)
    places, values, size = arrays["weights_at"], arrays["weights_not_0"], header["n_weights"]
    if type(size) is not int or size < 0 or places.dtype.kind not in "iu" or places.shape != values.shape or places.ndim != 1:
        raise ValueError(f"there are {len(values)} weights at {len(places)} places of {size!r:.40}")
    if len(places) and (places[0] < 0 or places[-1] >= size or (np.diff(places) <= 0).any()):
        raise ValueError(f"places of weights are not in order, or not in 0 .. {size - 1}")
    check_room(8 * size, "this model")
    weights = np.zeros(size)
    weights[places] = values
    return weights


def _build(header: dict[str, Any], arrays: dict[str, np.ndarray], source: str) -> Any:
    reader, name = Reader(arrays), header["estimator"]
    if name not in NAMES:
        raise ValueError(f"the estimator {name!r:.60} is none of {', '.join(NAMES)}")
    parameters = {str(key): reader.value(own) for key, own in header["parameters"].items()}
    wrong = [key for key, own in parameters.items() if key not in LISTS and isinstance(own, (list, tuple, dict, np.ndarray))]
    if wrong:
        raise ValueError(f"the parameter {wrong[0]!r:.40} is a list")
    estimator = getattr(estimators, name)(**parameters)
    classes = _read_classes(header["classes"], reader)
    weights, more = _read_weights(header, arrays), arrays["more_weights"].astype(np.float64)
    model = rebuild(header["model"], classes, weights, reader)
    facts = header["facts"]
    if not set(facts) <= set(FACTS):
        raise ValueError(f"facts {sorted(set(facts) - set(FACTS))} are unknown")
    for key, own in facts.items():
        setattr(estimator, key, reader.value(own))
    if not isinstance(getattr(estimator, "scaling_", Scaling()), Scaling):
        raise ValueError(f"the scaling is a {type(estimator.scaling_).__name__}")
    if not isinstance(getattr(estimator, "labels_form_", ""), str):
        raise ValueError(f"the form of labels is a {type(estimator.labels_form_).__name__}")
    if type(estimator.n_features_in_) is not int or estimator.n_features_in_ < 0:
        raise ValueError(f"n_features_in_ is {estimator.n_features_in_!r:.40}")
    if isinstance(estimator, CrossValidated) and not isinstance(getattr(estimator, "C_", None), float):
        raise ValueError("the value of C that was chosen is missing")
    stored = _read_objective(header["objective"], source)
    if stored.weighs_mean:
        _weigh_sum(estimator, stored.n_examples)
    estimator.model_, estimator.objective_, estimator.weights_ = model, stored, weights
    proof = reader.value(header["proof"])
    estimator.result_ = _read_result(header["result"], arrays["trace"], np.concatenate([weights, more]), proof)
    estimator.result_.extra["header"] |= {"certificate": header.get("certificate") if proof is not None else None}
    convex = isinstance(model, ConvexBound)
    if convex != (stored.surrogate in ("qp", "logistic")):
        raise ValueError(f"a model of the surrogate {stored.surrogate!r} that is {'' if convex else 'not '}convex")
    if isinstance(estimator, MultiLabelClassifier):
        if header["kind"] == "columns":
            return _columns(estimator, model, classes, header["columns"])
        return _multilabel(estimator, model, classes, header["kind"])
    coded, known = header["classes"]["coded"] is True, classes
    if header["classes"].get("hidden") is True:  # files of before there were hidden states lack it
        estimator._states = _read_states(classes, coded)
        known = (estimator._states.classes,) * len(classes)
    if coded:
        estimator._coding = Rule(known[0], {label: i for i, label in enumerate(known[0].tolist())})
    else:
        estimator._coding = None
    if hasattr(estimator, "edge_features"):
        gamma = getattr(estimator, "gamma_", None)
        if (gamma is None) != (estimator.edge_features is None) or (gamma is not None and not 0 <= gamma < np.inf):
            raise ValueError(f"the contrast parameter is {gamma!r:.40}")
    if isinstance(model.layout, (SingleNodes, MultiLabelModel)):
        raise ValueError(f"a {name} with a model of several labels")
    estimator.classes_ = known[0] if all(own is known[0] for own in known) else list(known)
    return estimator


def _read_states(classes: tuple[np.ndarray, ...], coded: bool) -> States:
    names = classes[0].tolist()
    if any(own is not classes[0] for own in classes) or not all(isinstance(own, tuple) and len(own) == 2 for own in names):
        raise ValueError("hidden states that are no pairs of a class and a number")
    return States.named(names, coded)


def _weigh_sum(estimator: Any, n_examples: int) -> None:
    """Settings of a file in which C weighed the mean of the slacks, so that another `fit` on such data minimises the same."""
    for name in ("C", "C_", "Cs", "Cs_"):
        given = getattr(estimator, name, None)
        if given is not None:
            setattr(estimator, name, float(given) / n_examples if np.ndim(given) == 0 else np.asarray(given) / n_examples)


def _multilabel(estimator: Any, model: Any, classes: tuple[np.ndarray, ...], kind: Any) -> Any:
    base: Any = model.base if isinstance(model, ConvexBound) else model
    if kind not in KINDS or (kind == "multiclass") == isinstance(base, MultiLabelBound):
        raise ValueError(f"labels of the kind {kind!r:.40} with a {type(base).__name__}")
    several = isinstance(base, MultiLabelBound)
    width = len(base.node_index) // max(1, base.graph.n_nodes) if several else len(base.node_index)
    if width != estimator.n_features_in_ + bool(estimator.bias):
        raise ValueError(f"{width} weights a label for {estimator.n_features_in_} features")
    wanted = {"multilabel": base.graph.n_nodes if several else 0, "binary": 2, "multiclass": base.n_labels}[kind]
    if len(classes[0]) != wanted or (kind == "binary" and base.graph.n_nodes != 1):
        raise ValueError(f"{len(classes[0])} classes, wanted {wanted}")
    estimator.classes_, estimator._kind, estimator.columns_ = classes[0], kind, None
    estimator.graph_ = base.graph if several else None
    return estimator


def _columns(estimator: Any, model: Any, classes: tuple[np.ndarray, ...], given: Any) -> Any:
    names, edges = given["names"], given["edges"]
    if names is not None and (len(set(names)) != len(classes) or not all(isinstance(own, str) for own in names)):
        raise ValueError(f"{len(names)} names of {len(classes)} columns")
    graph = Graph.from_edges(edges, len(classes))
    layout = model.layout
    if not isinstance(layout, Layout) or max(1, graph.n_edges) != layout.n_edge_types:
        raise ValueError(f"{graph.n_edges} edges between columns, which have tables of their own each")
    if layout.width != estimator.n_features_in_ + bool(estimator.bias):
        raise ValueError(f"{layout.width} weights a class for {estimator.n_features_in_} features")
    estimator.classes_, estimator._kind = list(classes), "columns"
    estimator.columns_ = Columns(classes, None if names is None else tuple(names))
    estimator.graph_ = typed(graph)
    return estimator


def _read_classes(given: Any, reader: Reader) -> tuple[np.ndarray, ...]:
    own = [reader.value(one) for one in given["of_types"]]
    if not own or not all(isinstance(one, np.ndarray) and one.ndim == 1 for one in own):
        raise ValueError("classes that are no lists")
    n_types = given["n_types"]
    if type(n_types) is not int or not (n_types == len(own) or (len(own) == 1 and 1 <= n_types <= 2**16)):
        raise ValueError(f"{len(own)} lists of classes for {n_types!r:.40} node types")
    return tuple(own) if len(own) == n_types else (own[0],) * n_types


def _read_objective(given: Any, source: str) -> StoredObjective:
    found = StoredObjective(
        given["surrogate"], given["kind"], given["C"], given["n_examples"], given["n_nodes"], given["fingerprint"], source,
        given.get("fingerprint_version", 1),
    )  # fmt: skip
    if found.surrogate not in SURROGATES:
        raise ValueError(f"the surrogate {found.surrogate!r:.40} is none of {', '.join(SURROGATES)}")
    if found.fingerprint_version not in range(1, FINGERPRINT + 1):
        raise ValueError(f"a fingerprint of version {found.fingerprint_version!r:.40}")
    if not isinstance(found.C, (int, float)) or not all(isinstance(n, int) for n in (found.n_examples, found.n_nodes)):
        raise ValueError("the objective has no sound description")
    if not all(isinstance(text, str) for text in (found.surrogate, found.kind, found.fingerprint)):
        raise ValueError("the objective has no sound description")
    return found


def _read_result(given: Any, trace: np.ndarray, weights: np.ndarray, certificate: Any) -> LearningResult:
    reader = Reader({})
    numbers: dict[str, Any] = {name: float(reader.value(given[name])) for name in NUMBERS}
    times = [numbers[name] for name in ("seconds", "oracle_seconds", "qp_seconds", "finished")]
    if not all(0 <= own < 1e12 for own in times) or not numbers["lower_bound"] <= numbers["objective"] + 1e-6 * abs(
        numbers["objective"]
    ):
        raise ValueError("the result has no sound numbers")
    told = {name: None if given.get(name) is None else float(reader.value(given[name])) for name in ("gap", "relative_gap")}
    numbers |= {name: int(given[name]) for name in COUNTS}
    if trace.shape != (len(trace), 5) or not np.isfinite(trace[:, [0, 4]]).all():
        raise ValueError(f"a trace of shape {trace.shape}")
    points = tuple(LearningPoint(int(row[0]), row[1], row[2], row[3], int(row[4])) for row in trace.tolist())
    return LearningResult(
        weights=weights,
        termination=Termination(given["termination"]),
        oracle_guarantee=Guarantee(given["oracle_guarantee"]),
        certificate=certificate,
        learner=str(given["learner"]),
        message=str(given["message"]),
        trace=points,
        extra={"header": {"guarantee": given.get("guarantee")} | told},
        **numbers,
    )
