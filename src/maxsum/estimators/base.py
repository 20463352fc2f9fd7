"""What all labelers share: training, prediction, score, parameters; a labeler adds how its input becomes graph samples."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ..core.cliques import Cliques
from ..core.errors import InvalidSampleError, OracleError
from ..core.graph import Graph
from ..core.problem import Problem
from ..core.result import Result, Termination
from ..inference.base import Solver
from ..inference.dispatch import TABLE, solve
from ..inference.parallel import thread_map
from ..learning.driver import Learner
from ..learning.objective import MarginObjective, Objective
from ..learning.result import LearningResult
from ..losses import Hamming
from ..models.bound import BoundModel
from ..models.graph_model import GraphModel
from ..models.labels import read_labels
from ..models.sample import GraphSample
from .choices import LEARNERS, class_weights, coefficients, is_auto, sentence
from .targets import Coding, unmasked

SURROGATES = ("margin", "trivial", "auto")


class Labeler(BaseEstimator, ABC):
    """Base of the labelers; subclasses have an ``__init__`` of their own and `_samples`."""

    potentials: str
    surrogate: str
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
    class_weight: Any
    warm_start: bool
    homogeneous: bool = True
    tie: Any = None

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

    def _edge_names(self) -> tuple[list[str], list[str]]:
        """Names of edge types and of edge features; empty for numbers."""
        return [], []

    # ---- parameters --------------------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters; with ``deep`` also those of learner, loss, features and oracle, as ``learner__tol``."""
        found = {name: getattr(self, name) for name in self._get_param_names()}
        if deep:
            for name, value in list(found.items()):
                if _is_record(value):
                    found |= {f"{name}__{field.name}": getattr(value, field.name) for field in fields(value) if field.init}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``learner__tol=1e-4`` replaces the learner by one with that tolerance."""
        inner: dict[str, dict[str, Any]] = {}
        for name in list(params):
            outer, _, own = name.partition("__")
            if own and outer in self._get_param_names():
                inner.setdefault(outer, {})[own] = params.pop(name)
        super().set_params(**params)
        for outer, own_params in inner.items():
            value = getattr(self, outer)
            known = [field.name for field in fields(value) if field.init] if _is_record(value) else []
            for own in own_params:
                if own not in known:
                    raise ValueError(
                        f"Invalid parameter {own!r} of {outer}={value!r}; "
                        + (f"wanted one of {', '.join(known)}." if known else f"give an object as {outer} first.")
                    )
            setattr(self, outer, replace(value, **own_params))
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        return tags

    # ---- training ----------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn weights. An earlier fit is forgotten, unless ``warm_start`` is on and the data are the same.

        Parameters
        ----------
        X : list
            Samples.
        y : list of array-like
            A label for each node of each sample; -1, None or masked where unknown. Nodes of unknown label, and their edges, are
            left out of training.
        sample_weight : array-like, shape (n_samples,), optional
            Weights >= 0 of the slacks; a weight of 2 is as good as the sample twice, 0 as good as without it.
        """
        learner = self._learner()
        items = self._list(X)
        weight = _weights(sample_weight, len(items))
        facts = self._facts(items, weight)
        samples = self._samples(items, facts)
        coding = Coding.read(samples, _labels(y), self.classes)
        targets, classes = coding.targets, coding.declared
        if not weight.all():
            read_labels(samples, targets, classes)
            kept = np.flatnonzero(weight)
            samples, targets, weight = [samples[j] for j in kept], [targets[j] for j in kept], weight[kept]
        bound = coding.named(self._bind(samples, targets, classes))
        objective, planes = self._warm(self._objective(bound, weight))
        result = learner.fit(objective, self.callback, planes)
        same = all(own is bound.classes[0] for own in bound.classes)
        self.classes_ = bound.classes[0] if same else list(bound.classes)
        self.model_, self.objective_, self._coding = bound, objective, coding.rule
        self.result_ = replace(result, message=f"{result.message.rstrip('.')}. {sentence(self, bound, objective, learner)}")
        self.weights_ = result.weights[: bound.n_weights]
        for name, value in facts.items():
            setattr(self, name, value)
        self.n_features_in_ = _n_features_in(samples, bound)
        self._warn(result, learner)
        return self

    def _bind(self, samples: list[GraphSample], targets: list[Any], classes: Any) -> BoundModel:
        auto = is_auto(self.potentials)
        potentials = "general" if auto else self.potentials
        model = GraphModel(self.features, potentials, self.bias, self.homogeneous, self.symmetric, self.tie)
        bound = model.bind(samples, targets, classes)
        if auto and bound.n_labels == 2 and not bound.is_forest and bound.data.f.min() >= 0:
            return replace(model, potentials="supermodular").bind(samples, targets, classes)
        return bound

    def _learner(self) -> Learner:
        check_jobs(self.n_jobs)
        if self.surrogate not in SURROGATES:
            raise InvalidSampleError(f"surrogate is {self.surrogate!r}, wanted one of {', '.join(SURROGATES)}.")
        if isinstance(self.learner, Learner):
            return self.learner
        name = self.learner
        if name is None or is_auto(name):
            name = "CuttingPlane" if self.surrogate == "trivial" else "BlockFrankWolfe"
        if not isinstance(name, str) or name not in LEARNERS:
            raise InvalidSampleError(
                f"learner is {self.learner!r}, wanted None or a learner such as maxsum.learning.BlockFrankWolfe(), or one of the "
                f"names {', '.join(LEARNERS)}."
            )
        from .. import learning

        own: Learner = getattr(learning, name)(
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            random_state=self.random_state,
            checkpoint=self.checkpoint,
        )
        return own

    def _objective(self, bound: BoundModel, weight: np.ndarray) -> Objective:
        if self.surrogate != "trivial":
            loss, oracle = self.loss, None if is_auto(self.oracle) else self.oracle
            if self.class_weight is not None:
                if not isinstance(loss, str) or loss not in ("hamming", "normalised"):
                    raise InvalidSampleError(
                        f"class_weight is given beside loss={loss!r}, wanted loss='hamming' or 'normalised' with it; "
                        "a table of costs can hold the weights itself."
                    )
                loss = Hamming(loss == "normalised", class_weights(self.class_weight, bound, weight))
            return MarginObjective(bound, self.C, loss, oracle, weight, self.n_jobs)
        from ..learning import TrivialObjective

        if self.class_weight is not None:
            raise InvalidSampleError("class_weight is for surrogate='margin'; the trivial surrogate has no loss to weight.")
        return TrivialObjective(bound, C=self.C, sample_weight=weight, n_jobs=self.n_jobs)

    def _warm(self, objective: Objective) -> tuple[Objective, Any]:
        """The objective of the last fit and its planes, if they are of the same data; else the new one and no planes."""
        before: Any = getattr(self, "objective_", None)
        if not self.warm_start or type(before) is not type(objective) or before.digest != objective.digest:
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
        if result.termination != Termination.converged and result.relative_gap > 1e-9:
            warnings.warn(
                f"{result.learner} ended ({result.termination.replace('_', ' ')}) after {result.n_iter} passes with the objective "
                f"{result.objective:.6g} and the lower bound {result.lower_bound:.6g}: a relative gap of {result.relative_gap:.2g}, "
                f"wanted {learner.tol:g}. Raise max_iter or time_limit, or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    # ---- what was learned --------------------------------------------------------------------------------------

    @property
    def weight_names_(self) -> list[str]:
        check_is_fitted(self, "model_")
        return self.model_.names

    @property
    def coef_blocks_(self) -> dict[str, np.ndarray]:
        """Weights by name: ``nodes`` (d, K), ``bias`` (K,) and ``edges`` (K, K), one for each type and edge feature."""
        check_is_fitted(self, "model_")
        return coefficients(self.model_, self.weights_, *self._edge_names())

    # ---- prediction --------------------------------------------------------------------------------------------

    def predict_result(self, X: Any, solver: Solver | str | None = None) -> list[Result]:
        """Best labellings as numbers ``0 .. K - 1``, one a node, each with a proof of how good it is.

        Parameters
        ----------
        X : list
            Samples.
        solver : Solver or str, optional
            By default the exact one that fits the structure (forest, supermodular, small width), and `TRWS` elsewhere. An exact
            search, where TRWS leaves a gap: ``solver="BranchAndBound"``.
        """
        check_is_fitted(self, "model_")
        return self._solve(self._samples(self._list(X)), solver)

    def _solve(self, samples: list[GraphSample], solver: Solver | str | None) -> list[Result]:
        check_jobs(self.n_jobs)
        if solver is None and isinstance(self.oracle, (Solver, str)) and self.oracle not in ("bracket", "auto"):
            solver = self.oracle
        problems = self.model_.problems(self.weights_, samples)
        return thread_map(lambda problem: _best(problem, solver), problems, self.n_jobs)

    def predict(self, X: Any, solver: Solver | str | None = None) -> list[np.ndarray]:
        """Labels of the nodes of each sample, (height, width) for grids; ``solver`` as in `predict_result`."""
        check_is_fitted(self, "model_")
        return self._predict(self._samples(self._list(X)), solver)

    def problems(self, X: Any) -> list[Problem]:
        """Max-sum problems that `predict` solves, for ``predict_result(X)[j].certificate.verify(problems(X)[j], ...)``."""
        check_is_fitted(self, "model_")
        return self.model_.problems(self.weights_, self._samples(self._list(X)))

    def _predict(self, samples: list[GraphSample], solver: Solver | str | None = None) -> list[np.ndarray]:
        labellings = None if solver is not None else self._forest_labels(samples)
        if labellings is None:
            labellings = []
            for j, result in enumerate(self._solve(samples, solver)):
                if result.labels is None:
                    raise OracleError(f"sample {j}: {result.solver} found no labelling ({result.message}). Try another solver.")
                labellings.append(result.labels)
        found = []
        for sample, own in zip(samples, labellings, strict=True):
            labels = self._outside(sample, own)
            found.append(labels if sample.graph.shape is None else labels.reshape(sample.graph.shape))
        return found

    def _forest_labels(self, samples: list[GraphSample]) -> list[np.ndarray] | None:
        """Labellings of many small forests by one call for their union; None where that does not apply."""
        if not (self.oracle is None or is_auto(self.oracle)) or len(samples) < 2:
            return None
        if not all(sample.graph.is_forest for sample in samples):
            return None
        check_jobs(self.n_jobs)
        model, data = self.model_, self.model_.encode(samples)
        bank, edge_table, edge_weight = model.tables(self.weights_, data).of(0, len(data.edges))
        problem = Problem._trusted(
            graph=Graph.union(data.graphs),
            unary=model.unary(self.weights_, data),
            tables=bank,
            edge_table=edge_table,
            edge_weight=edge_weight,
            n_states=data.n_states,
            cliques=Cliques.build(None, data.n_states, model.n_labels),
            offset=0.0,
        )
        labels = _best(problem, None).labels
        return None if labels is None else np.split(labels, data.node_ptr[1:-1])

    def _outside(self, sample: GraphSample, labels: np.ndarray) -> np.ndarray:
        """Numbers of labels as classes."""
        classes = self.model_.classes
        if sample.node_types is None or all(own is classes[0] for own in classes):
            return classes[0][labels]
        kinds = {own.dtype.kind for own in classes}
        numbers = kinds <= set("iuf")
        out = np.empty(len(labels), dtype=np.result_type(*classes) if len(kinds) == 1 or numbers else object)
        for t, own in enumerate(classes):
            here = sample.node_types == t
            out[here] = own[labels[here]]
        return out

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Fraction of right labels among all nodes whose label is known."""
        check_is_fitted(self, "model_")
        samples = self._samples(self._list(X))
        predicted = self._predict(samples)
        given = _labels(y)
        if self._coding is None:
            targets, own = read_labels(samples, given, self.classes), predicted
        else:
            targets = read_labels(samples, self._coding.encode(samples, given), None)
            own = self._coding.encode(samples, predicted)
        weight = np.ones(len(own)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != (len(own),):
            raise InvalidSampleError(
                f"sample_weight has shape {weight.shape}, wanted one number for each of {len(own)} samples."
            )
        right = np.array(
            [np.count_nonzero(z.reshape(-1)[known] == t[known]) for z, (t, known) in zip(own, targets, strict=True)]
        )
        total = np.array([np.count_nonzero(known) for _, known in targets])
        if not weight @ total > 0:
            raise InvalidSampleError("no node has a known label, so there is nothing to score; wanted at least one.")
        return float(weight @ right / (weight @ total))


def _is_record(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _labels(y: Any) -> list[Any]:
    if y is None:
        raise InvalidSampleError("y is None, wanted a list with the labels of each sample.")
    return [unmasked(own) for own in y]


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
    layout: Any = bound.encode.__self__  # type: ignore[attr-defined]
    return int(layout.model.features.n_features)


def _best(problem: Problem, solver: Solver | str | None) -> Result:
    if solver is not None:
        return solve(problem, solver)
    exact = not problem.n_edges or any(row.fits(problem) for row in TABLE)
    return solve(problem, None if exact else "TRWS")


def check_jobs(n_jobs: Any) -> None:
    """Refuse what is no number of threads."""
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, (int, np.integer)) or n_jobs == 0 or n_jobs < -1:
        raise InvalidSampleError(f"n_jobs is {n_jobs!r}, wanted a number of threads >= 1, or -1 for one a core.")
