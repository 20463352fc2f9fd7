"""What all labelers share: parameters and training; a labeler adds how its input becomes graph samples."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..core.errors import InvalidParameterError, InvalidSampleError
from ..core.parameters import Elsewhere, Flag, OneOf, settings
from ..learning.driver import Learner
from ..learning.objectives.margin import MarginObjective
from ..learning.objectives.smooth import SmoothObjective
from ..learning.objectives.stored import StoredObjective
from ..learning.result import LearningResult
from ..models.bound import BoundModel
from ..models.features import Codes
from ..models.graph_model import GraphModel
from ..models.labels import read_labels
from ..models.sample import GraphSample
from ..shards.dataset import ShardedDataset
from .choices import (
    SURROGATES,
    as_surrogate,
    choose_learner,
    coefficients,
    default_learner,
    fastest_learner,
    is_auto,
    refuse_unused,
    sentence,
    started,
    unfinished,
    within,
)
from .convex import CONVEX, as_convex, sample_operators, tree_model, warm_weights
from .memory import Size, chain_size, check_room, data_bytes, model_bytes, total
from .params import NestedParameters
from .prediction import Prediction, as_labels
from .targets import Coding


class Data(NamedTuple):
    """Samples, their labels, and their weights."""

    items: list[Any]
    labels: list[Any]
    weight: np.ndarray

    def take(self, which: np.ndarray) -> Data:
        """Some of the samples, with labels and weights."""
        return Data([self.items[j] for j in which], [self.labels[j] for j in which], self.weight[which])


class TrainingPlan(NamedTuple):
    """A training that is ready to start."""

    learner: Learner
    objective: Any
    bound: Any
    coding: Coding
    facts: dict[str, Any]
    n_features: int


class Labeler(NestedParameters, Prediction, ABC):
    """Base of the labelers; subclasses have an ``__init__`` of their own and `_samples`."""

    potentials: str
    surrogate: str
    smoothing: float
    solver: Any
    learner: Any
    loss: Any
    features: Any
    oracle: Any
    C: float
    tol: float
    max_iter: int
    time_limit: float | None
    random_state: int
    n_jobs: int
    callback: Callable[[Any], Any] | None
    bias: bool
    symmetric: bool
    classes: Any
    checkpoint: str | Path | None
    checkpoint_seconds: float
    class_weight: Any
    warm_start: bool
    homogeneous: bool = True
    tie: Any = None

    _parameters = settings(
        surrogate=OneOf(*SURROGATES, "auto"),
        features=Elsewhere("'auto' or NodeFeatures, as `GraphModel` takes them"),
        symmetric=Flag(),
        classes=Elsewhere("None, or all labels that exist, as `bind` takes them"),
    )

    def _keep(self, given: dict[str, Any]) -> None:
        """Arguments of ``__init__`` as attributes."""
        for name in self._get_param_names():
            setattr(self, name, given[name])

    # ---- what a labeler adds -----------------------------------------------------------------------------------

    @abstractmethod
    def _list(self, X: Any) -> list[Any]:
        """The input as a list with one item a sample."""

    def _facts(self, items: list[Any], weight: np.ndarray) -> dict[str, Any]:
        """What the training set says about features, as attributes that `fit` sets at its end."""
        return {}

    @abstractmethod
    def _samples(self, items: list[Any], facts: dict[str, Any] | None = None) -> list[GraphSample]:
        """The samples; ``facts`` are those of the last fit by default."""

    def _size(self, item: Any) -> Size:
        """Nodes, edges and features of one item, before anything is made of it."""
        return chain_size(item)

    def _new(self, X: Any) -> list[GraphSample]:
        """Samples to predict."""
        check_is_fitted(self, "model_")
        items = self._list(X)
        check_room(data_bytes(total(self._size(item) for item in items), self.model_.n_labels), "this prediction")
        return self._samples(items)

    def _edge_names(self) -> tuple[list[str], list[str]]:
        """Names of edge types and of edge features; empty for numbers."""
        return [], []

    # ---- parameters --------------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        return tags

    # ---- training ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, executor: Any = None) -> Self:
        """Learn weights. An earlier fit is forgotten, unless ``warm_start`` is on and the data are the same.

        Parameters
        ----------
        X : list or ShardedDataset
            Samples, or a folder of shards with samples and labels; for these the surrogates ``margin``, ``lp`` and ``qp``.
        y : list of array-like
            A label for each node of each sample; -1, None or masked where unknown. Nodes of unknown label, and their edges, are
            left out of training.
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks; a weight of 2 is as good as the sample twice, 0 as good as without it.
        executor : None, str, Executor or dask.distributed.Client
            Who works on shards: ``"serial"``, ``"threads"``, ``"processes"`` or a Dask cluster; weights do not depend on it.
        """
        if isinstance(X, ShardedDataset):
            if y is not None or sample_weight is not None:
                raise InvalidSampleError("y or sample_weight is given beside shards, wanted None: shards hold their labels.")
            from .sharded import fit_shards

            return fit_shards(self, X, executor)  # type: ignore[no-any-return]
        if executor is not None:
            raise InvalidParameterError(
                f"executor is {executor!r}, but X is in memory; wanted n_jobs=... for threads, or X=ShardedDataset(folder)."
            )
        clock = started(self)
        prepared = self._prepare(self._read(X, y, sample_weight), self.C)
        return self._train(prepared._replace(learner=within(self, prepared.learner, clock)))

    def predict_shards(self, X: ShardedDataset, folder: str | Path, executor: Any = None) -> ShardedDataset:
        """Predict shard by shard, into a new folder of shards that hold labels alone.

        Parameters
        ----------
        X : ShardedDataset
        folder : path
        executor : None, str, Executor or dask.distributed.Client
            As in `fit`.
        """
        check_is_fitted(self, "model_")
        from .sharded import predict_shards

        return predict_shards(self, X, folder, executor)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> Data:
        items = self._list(X)
        return Data(items, as_labels(y), _weights(sample_weight, len(items)))

    def _prepare(self, data: Data, C: float, classes: Any = None, features: Any = None) -> TrainingPlan:
        """Learner and objective; ``classes`` and ``features`` in the place of those of the estimator, if they are given."""
        name = as_surrogate(self.surrogate)
        surrogate = SURROGATES[name]
        learner = choose_learner(self, default_learner(self, surrogate))
        spec = as_convex(self, name, learner)
        refuse_unused(self, name, learner)
        known = self.classes if classes is None else classes
        items, labels, weight = data
        n_labels = len(known) if isinstance(known, (list, tuple, np.ndarray)) else 2
        check_room(data_bytes(total(self._size(item) for item in items), n_labels), "this training set")
        facts = self._facts(items, weight)
        samples = self._samples(items, facts)
        coding = Coding.read(samples, labels, known)
        targets, declared = coding.targets, coding.declared
        if not weight.all():
            read_labels(samples, targets, declared)
            kept = np.flatnonzero(weight)
            samples, targets, weight = [samples[j] for j in kept], [targets[j] for j in kept], weight[kept]
        coder = self.features if features is None else features
        if spec is None or spec.trees is None:
            bound = self._bind(samples, targets, declared, coder)
        else:
            bound = tree_model(self, self._model(coder), samples, targets, declared, weight, C)
        bound = coding.named(bound)
        check_room(model_bytes(bound), "this training")
        operators = sample_operators(spec, samples, targets, declared)
        objective = self._objective(surrogate, bound, weight, C, *([] if operators is None else [operators]))
        bound, learner = objective.model, fastest_learner(self, learner, objective)
        return TrainingPlan(learner, objective, bound, coding, facts, _n_features_in(samples, bound))

    def _objective(self, surrogate: Any, bound: BoundModel, weight: np.ndarray, C: float, *operators: Any) -> Any:
        """What is minimised; its ``model`` is the one that the estimator keeps."""
        return surrogate.objective(self, bound, weight, C, *operators)

    def _train(self, prepared: TrainingPlan) -> Self:
        objective, planes = self._warm(prepared.objective)
        result = prepared.learner.fit(objective, self.callback, planes)
        self._accept(prepared._replace(objective=objective), result)
        self._warn(result, prepared.learner)
        return self

    def _fold(self, data: Data, whole: TrainingPlan, C: float) -> TrainingPlan:
        """A training on a part of the data, with the classes and codes of the whole."""
        classes, features = whole.bound.classes, _features(whole.bound)
        declared: Any = classes[0] if all(own is classes[0] for own in classes) else list(classes)
        return self._prepare(data, C, declared, features if isinstance(features, Codes) else None)

    def _splits(self, data: Data, folds: Any) -> Iterable[Any]:
        return folds.split(np.zeros(len(data.items)))

    def _scorer(self, prepared: TrainingPlan, data: Data) -> Callable[[LearningResult], float]:
        """The score of what a training gives, on other data; NaN where no label is known."""
        trial, samples = copy(self), self._samples(data.items, prepared.facts)
        return lambda result: trial._accept(prepared, result)._fraction(samples, data.labels, data.weight)

    def _accept(self, prepared: TrainingPlan, result: LearningResult) -> Self:
        """What was learned, as attributes."""
        learner, objective, bound = prepared[:3]
        same = all(own is bound.classes[0] for own in bound.classes)
        self.classes_ = bound.classes[0] if same else list(bound.classes)
        self.model_, self.objective_, self._coding = bound, objective, prepared.coding.rule
        self.result_ = replace(result, message=f"{result.message.rstrip('.')}. {sentence(self, bound, objective, learner)}")
        self.weights_ = result.weights[: bound.n_weights]
        for name, value in prepared.facts.items():
            setattr(self, name, value)
        self.n_features_in_ = prepared.n_features
        return self

    def _bind(self, samples: list[GraphSample], targets: list[Any], classes: Any, features: Any) -> BoundModel:
        model = self._model(features)
        bound = model.bind(samples, targets, classes)
        auto = is_auto(self.potentials) and as_surrogate(self.surrogate) not in CONVEX
        if auto and bound.n_labels == 2 and not bound.is_forest and bound.data.f.min() >= 0:
            return replace(model, potentials="supermodular").bind(samples, targets, classes)
        return bound

    def _model(self, features: Any) -> GraphModel:
        """Node features and tables as the parameters say; general ones where that is open, or does not matter."""
        is_open = is_auto(self.potentials) or as_surrogate(self.surrogate) in CONVEX
        potentials = "general" if is_open else self.potentials
        return GraphModel(features, potentials, self.bias, self.homogeneous, self.symmetric, self.tie)

    def _warm(self, objective: Any) -> tuple[Any, Any]:
        """The objective of the last fit and its planes, if they are of the same data; else the new one and no planes.

        Smooth objectives have no planes, but weights to start from, on other data too.
        """
        before: Any = getattr(self, "objective_", None)
        if self.warm_start and isinstance(before, StoredObjective):
            before.refuse_warm_start()
        if not self.warm_start or type(before) is not type(objective):
            return objective, None
        if isinstance(objective, SmoothObjective):
            return objective, warm_weights(before, objective, self.result_.weights)
        if before.digest != objective.digest:
            return objective, None
        old: Any = before
        old.sample_weight, old.n_jobs = objective.sample_weight, objective.n_jobs
        if isinstance(objective, MarginObjective):
            old.oracle, old.exact = objective.oracle, objective.exact
        old.set_C(objective.C)
        return old, self.result_.extra.get("planes")

    def _warn(self, result: LearningResult, learner: Learner) -> None:
        if "checkpoint_error" in result.extra:
            warnings.warn(f"the checkpoint was not written: {result.extra['checkpoint_error']}.", UserWarning, stacklevel=3)
        words = unfinished(result, learner)
        if words:
            warnings.warn(words, ConvergenceWarning, stacklevel=3)

    # ---- what was learned --------------------------------------------------------------------------------------

    @property
    def weight_names_(self) -> list[str]:
        """Names of the weights, in the order of ``weights_``."""
        check_is_fitted(self, "model_")
        return self.model_.names

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        """Weights by name: ``nodes`` (d, K), ``bias`` (K,) and ``edges`` (K, K), one for each type and edge feature."""
        check_is_fitted(self, "model_")
        return coefficients(self.model_, self.weights_, *self._edge_names())


def _weights(given: Any, n_samples: int) -> np.ndarray:
    weight = np.ones(n_samples) if given is None else np.asarray(given, dtype=np.float64)
    good = weight.shape == (n_samples,) and bool((np.isfinite(weight) & (weight >= 0)).all())
    if not good or (n_samples and not weight.any()):
        raise InvalidSampleError(f"sample_weight is {given!r}, wanted {n_samples} finite numbers >= 0 that are not all 0.")
    return weight


def _n_features_in(samples: Sequence[GraphSample], bound: BoundModel) -> int:
    """Columns of the observations; the number of codes, or of features in dicts, where they have none."""
    for sample in samples:
        if sample.n_nodes and sample.kind in ("dense", "sparse"):
            return int(sample.X.shape[1])
    return int(_features(bound).n_features)


def _features(bound: BoundModel) -> Any:
    return bound.layout.model.features
