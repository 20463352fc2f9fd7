"""The one way from data to predictions: read, bind, objective, learner, predict; a kind of estimator adds how its samples are read."""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..core.errors import InfeasibleError, InvalidParameterError, OracleError
from ..core.memory import check_room
from ..core.parameters import check
from ..core.problem import Problem
from ..core.result import Result, Termination
from ..executors.threads import thread_map
from ..inference.base import Clock, Solver
from ..inference.dispatch import is_easy, solve
from ..inference.exact.junction import has_small_width
from ..learning.driver import Learner
from ..learning.latent import Partial, concave_convex, train_completed
from ..learning.learners.cutting_plane import CuttingPlane
from ..learning.learners.subset_ascent import SubsetAscent
from ..learning.objectives.base import check_C
from ..learning.objectives.margin import MarginObjective
from ..learning.objectives.multilabel import is_small
from ..learning.objectives.partial import PartialObjective
from ..learning.objectives.qp import QPObjective
from ..learning.objectives.smooth import SmoothObjective
from ..learning.objectives.stored import StoredObjective
from ..learning.result import LearningPoint, LearningResult
from ..models.bound import BoundModel
from ..models.convex import ConvexBound
from ..models.multilabel import MultiLabelBound
from ..models.trees import TreeLayout
from ..progress import LearningLine, watched, write
from .answers.confidence import Answers
from .answers.inspection import Inspection
from .settings import NestedParameters, Settings, as_jobs, chosen
from .surrogates import SURROGATES, Choice, Surrogate, choose_learner, surrogate_of


@dataclass(frozen=True)
class Tuning:
    """When `SubsetAscent` is left for another learner, and when a prediction is doubtful."""

    patience: int = 100  # passes that it has in any case: gaps say little before
    # Relative gap above which another learner takes over then: features of very unequal scale, where its steps crawl.
    hopeless: float = 0.3
    # Relative gap from which on `predict` warns: ten times that at which solvers stop on large problems.
    loose: float = 1e-4


_TUNING = Tuning()
_QUICK_CELLS = 2**14  # cells of a junction tree up to which prediction is exact by default: about 0.1 ms a bag


class Data(NamedTuple):
    """Samples (a list, or the rows of a matrix), their labels, and their weights; in which form labels came (`targets.form_of`)."""

    items: Any
    labels: Any
    weight: np.ndarray
    form: str = ""

    def take(self, which: np.ndarray) -> Data:
        """Some of the samples, with labels and weights."""
        return Data(_some(self.items, which), _some(self.labels, which), self.weight[which], self.form)


def _some(given: Any, which: np.ndarray) -> Any:
    return [given[j] for j in which] if isinstance(given, list) else given[which]


class Bound(NamedTuple):
    """A model with its training data, and what follows from these.

    Attributes
    ----------
    model : BoundModel
        That is trained.
    weight : ndarray
        Weights of its samples.
    settings : Settings
        Those of the estimator, with what the data decide.
    facts : dict
        Attributes that `fit` sets at its end.
    full : BoundModel, optional
        The model that predicts, where the one that is trained leaves out what is unknown.
    operators : list, optional
        Operators of convex energies, for each sample.
    words : str
        Why the potentials are these.
    partial : Partial, optional
        What is known of labels that training infers.
    """

    model: BoundModel
    weight: np.ndarray
    settings: Settings
    facts: dict[str, Any]
    full: BoundModel | None = None
    operators: list[Any] | None = None
    words: str = ""
    partial: Partial | None = None


class Plan(NamedTuple):
    """A training that is ready to start; ``bound`` is the model that predicts, ``chosen`` a sentence on the choices."""

    settings: Settings
    learner: Learner
    objective: Any
    bound: Any
    facts: dict[str, Any]
    chosen: str
    partial: Partial | None = None


class MaxSumEstimator(Answers, Inspection, NestedParameters, ABC):
    """Base of all estimators; a kind of them adds the methods of the first part."""

    model_: Any
    objective_: Any
    weights_: np.ndarray
    result_: LearningResult
    C: float
    time_limit: float | None
    n_jobs: int | None
    solver: Any
    oracle: Any
    _doubted: Any = None

    # ---- what a kind of estimator adds ---------------------------------------------------------------------------

    @abstractmethod
    def _read(self, X: Any, y: Any, sample_weight: Any) -> Data:
        """The training set, refused where it is none."""

    @abstractmethod
    def _bind(self, settings: Settings, data: Data, C: float, **known: Any) -> Bound:
        """The model with the training set on its graphs; ``known`` is what `_fold` takes over from the whole."""

    @abstractmethod
    def _training_bytes(self, bound: Bound, learner: Learner) -> int:
        """Memory that objective, oracle and learner will need."""

    @abstractmethod
    def _samples(self, items: Any, facts: dict[str, Any] | None = None) -> Any:
        """Samples as the model encodes them; ``facts`` are those of the last fit by default."""

    @abstractmethod
    def _at_once(self, samples: Any) -> Sequence[np.ndarray] | np.ndarray | None:
        """Best labellings of all samples by one call, where there is such a way; else None."""

    @abstractmethod
    def _observed_labels(self, samples: Any, observed: Any) -> list[np.ndarray]:
        """Which labels (n_nodes, K) the nodes of each sample may have, of what was observed."""

    @abstractmethod
    def _fraction(self, samples: Any, labels: Any, weight: np.ndarray) -> float:
        """Fraction of right labels among those known; NaN where none is."""

    # ---- training ------------------------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check(self)
        clock = Clock(self.time_limit)
        plan = self._prepare(self._read(X, y, sample_weight), self.C)
        if plan.learner is not plan.settings.learner and clock.limit is not None:
            # A learner that was given keeps its own limit; ours has what is left after the data were read.
            plan = plan._replace(learner=replace(plan.learner, time_limit=clock.left))
        return self._train(plan)

    def _prepare(self, data: Data, C: float, **known: Any) -> Plan:
        """Model, objective and learner."""
        # Settings, and whether they go together.
        settings = Settings.of(self)
        check_C(C)
        surrogate = surrogate_of(settings)
        surrogate.check(settings, choose_learner(settings, surrogate.default))
        # Samples on their graphs, and the learner for them.
        bound = self._bind(settings, data, C, **known)
        settings = bound.settings
        choice = surrogate.choose(settings, bound.model)
        learner = choose_learner(settings, choice.learner)
        check_room(self._training_bytes(bound, learner), "this training")
        # What is minimised; its size may speak for another learner.
        objective = surrogate.objective(settings, bound.model, bound.weight, C, bound.operators)
        instead = surrogate.instead(settings, objective)
        if instead is not None:
            surrogate, settings = instead.surrogate, replace(settings, surrogate=instead.surrogate.name)
            objective = surrogate.objective(settings, bound.model, bound.weight, C, bound.operators)
            bound = bound._replace(words=f"{bound.words}{instead.why}; ")
        faster = None if settings.learner is not None else surrogate.faster(settings, objective)
        if faster is not None:
            choice, learner = faster, choose_learner(settings, faster.learner)
        model = surrogate.model(settings, objective, bound.full)
        words = sentence(settings, surrogate, objective, learner, choice, _energies(model) or bound.words)
        return Plan(settings, learner, objective, model, bound.facts, words, bound.partial)

    def _train(self, plan: Plan) -> Self:
        objective, start = self._warm(plan.settings, plan.objective)
        settings, learner = plan.settings, plan.learner
        line = LearningLine(learner.tol)
        with watched(settings.verbose, settings.callback, time_limit=learner.time_limit, describe=line) as callback:
            result = _minimise(replace(settings, callback=callback), objective, learner, start)
            if plan.partial is not None and result.termination != Termination.interrupted:
                result, objective = _infer(plan, replace(settings, callback=callback), objective, result)
        if settings.verbose:
            write(f"{settings.owner}: {result}")
        if result.termination == Termination.interrupted and _is_searched():
            raise KeyboardInterrupt("the search ends with the training that was interrupted")
        if not plan.settings.warm_start:
            result.extra.pop("planes", None)
        self._accept(plan._replace(objective=objective), result)
        self._warn(plan, result)
        return self

    def _warm(self, settings: Settings, objective: Any) -> tuple[Any, Any]:
        """The objective of the last fit and its planes, if they are of the same data; else the new one and no planes.

        Smooth objectives have no planes, but weights to start from, on other data too.
        """
        before: Any = getattr(self, "objective_", None)
        if settings.warm_start and isinstance(before, StoredObjective):
            before.refuse_warm_start()
        if not settings.warm_start or type(before) is not type(objective):
            return objective, None
        if isinstance(objective, SmoothObjective):
            return objective, warm_weights(before, objective, self.result_.weights)
        planes = self.result_.extra.get("planes")
        if planes is None or before.digest != objective.digest:
            return objective, None
        before.sample_weight, before.n_jobs = objective.sample_weight, objective.n_jobs
        if isinstance(objective, MarginObjective):
            before.oracle, before.exact = objective.oracle, objective.exact
        before.set_C(objective.C)
        return before, planes

    def _accept(self, plan: Plan, result: LearningResult) -> Self:
        """What was learned, as attributes."""
        self.model_, self.objective_ = plan.bound, plan.objective
        self.result_ = replace(result, message=f"{result.message.rstrip('.')}. {plan.chosen}")
        self.weights_, self.n_iter_ = result.weights[: plan.bound.n_weights], result.n_iter
        for name, value in plan.facts.items():
            setattr(self, name, value)
        return self

    def _warn(self, plan: Plan, result: LearningResult) -> None:
        found: list[tuple[str, type[Warning]]] = [(plan.settings.overruled(plan.learner), UserWarning)]
        if "checkpoint_error" in result.extra:
            found.append((f"the checkpoint was not written: {result.extra['checkpoint_error']}.", UserWarning))
        late = unfinished(result, plan.learner, plan.learner is plan.settings.learner)
        found.append((late, ConvergenceWarning))
        found += [(words, UserWarning) for words in self._doubts(plan, result, not late)]
        for words, kind in found:
            if words:
                warnings.warn(words, kind, stacklevel=_caller())

    def _doubts(self, plan: Plan, result: LearningResult, finished: bool) -> Iterable[str]:
        """What to warn of where the training itself went well."""
        return ()

    def _fold(self, data: Data, whole: Plan, C: float) -> Plan:
        """A training on a part of the data, with what must be that of the whole."""
        return self._prepare(data, C)

    def _splits(self, data: Data, folds: Any) -> Iterable[Any]:
        return folds.split(np.zeros(len(data.weight)))

    def _scorer(self, plan: Plan, data: Data) -> Callable[[LearningResult], float]:
        """The score of what a training gives, on other data; NaN where no label is known."""
        trial, samples = copy(self), self._samples(data.items, plan.facts)
        return lambda result: trial._accept(plan, result)._fraction(samples, data.labels, data.weight)

    # ---- prediction ----------------------------------------------------------------------------------------------

    @property
    def _surrogate(self) -> Surrogate:
        """That of the last fit."""
        return SURROGATES[self.objective_.surrogate]

    def _who(self, solver: Solver | str | None) -> Solver | str | None:
        return who_solves(self.model_, solver, self.solver, self.oracle)

    def predict_result(self, X: Any, solver: Solver | str | None = None, observed: Any = None) -> list[Result]:
        """Best labellings as numbers from 0 to ``K - 1``, one a node (or a label), each with a proof of how good it is.

        Parameters
        ----------
        X : list, or array-like of shape (n_samples, n_features)
            Samples, as in `fit`.
        solver : Solver or str, optional
            By default the exact one that fits the structure (forest, supermodular, small width), and `TRWS` elsewhere. An exact
            search, where TRWS leaves a gap: ``solver="BranchAndBound"``. With the surrogates ``qp`` and ``logistic`` the default is
            the rounding of what they learned to predict, with a bound and its proof (``marginals`` are the point that was rounded, or
            logistic probabilities); a solver maximises the scores of labellings instead.
        observed : sequence of array-like, optional
            Labels that are known, as in `predict`; the proof is then about ``problems(X, observed)``.
        """
        samples = self._new(X)
        if observed is not None:
            return self._given(samples, observed, solver)
        return self._results(samples, self._who(solver))

    def problems(self, X: Any, observed: Any = None) -> list[Problem]:
        """Max-sum problems that `predict` solves, for ``predict_result(X)[j].certificate.verify(problems(X)[j], ...)``; with observed labels
        those in which they can be no others."""
        samples = self._new(X)
        return self.model_.problems(self.weights_, samples) if observed is None else self._restricted(samples, observed)

    def _given(self, samples: Any, observed: Any, solver: Solver | str | None) -> list[Result]:
        """Best labellings among those that agree with what was observed."""
        who = self._who(solver)
        if who is None and self._surrogate.rounds:
            raise InvalidParameterError(
                f"observed labels beside surrogate={self._surrogate.name!r}, whose prediction rounds a relaxation; give a solver, such as 'TRWS'."
            )
        return thread_map(lambda problem: best(problem, who), self._restricted(samples, observed), as_jobs(self.n_jobs))

    def _restricted(self, samples: Any, observed: Any) -> list[Problem]:
        """Problems in which observed nodes have no other labels than those that were observed."""
        problems, found = self.model_.problems(self.weights_, samples), []
        for j, (problem, mask) in enumerate(zip(problems, self._observed_labels(samples, observed), strict=True)):
            try:
                found.append(problem.restrict(allowed=mask & (np.arange(problem.n_labels) < problem.n_states[:, None])))
            except InfeasibleError as error:
                raise InfeasibleError(f"sample {j}: {error}") from error
        return found

    def _results(self, samples: Any, who: Solver | str | None) -> list[Result]:
        if who is None and self._surrogate.rounds:
            return self._surrogate.results(self.model_, self.weights_, samples, as_jobs(self.n_jobs))
        problems = self.model_.problems(self.weights_, samples)
        return thread_map(lambda problem: best(problem, who), problems, as_jobs(self.n_jobs))

    def _labellings(
        self, samples: Any, solver: Solver | str | None = None, warn: bool = False
    ) -> Sequence[np.ndarray] | np.ndarray:
        """Best labellings as numbers; ``warn``: of those that are not proven to be the best."""
        who, jobs = self._who(solver), as_jobs(self.n_jobs)
        if who is None and self._surrogate.rounds:
            return [own.labels for own in self._surrogate.points(self.model_, self.weights_, samples, jobs)]
        found = self._at_once(samples) if who is None else None
        if found is not None:
            return found
        results = self._results(samples, who)
        if warn:
            self._doubt(results)
        return [labels_of(result, j) for j, result in enumerate(results)]

    def _doubt(self, results: list[Result]) -> None:
        """Warn of answers that are not proven to be the best, once for each training."""
        loose = [(result.gap, j) for j, result in enumerate(results) if result.relative_gap > _TUNING.loose]
        if not loose or self._doubted is self.result_:
            return
        self._doubted = self.result_
        gap, j = max(loose)
        warnings.warn(
            f"{len(loose)} of {len(results)} answers are not proven to be the best: the score of sample {j} may be {gap:.3g} below the best "
            f"one ({results[j].score:.6g} found). An exact search closes such gaps where it ends: predict(X, solver='BranchAndBound'); "
            "predict_result(X) has the gap of every answer. This is said once for each training.",
            UserWarning,
            stacklevel=_caller(),
        )


def sentence(
    settings: Settings, surrogate: Surrogate, objective: Any, learner: Learner, choice: Choice, potentials: str = ""
) -> str:
    """Which potentials (if they were open), learner and oracle worked, and why."""
    name = type(learner).__name__
    why = (
        choice.why
        if settings.learner is None
        else "as given, with its own limits"
        if learner is settings.learner
        else "as given"
    )
    return f"Chosen: {potentials}learner {name}, {why}; {surrogate.describe(settings, objective, name)}."


def _energies(model: BoundModel | ConvexBound) -> str:
    if not isinstance(model, ConvexBound):
        return ""
    more = " with operators" if model.spec.n_operators else ""
    more += " in the leaves of trees" if isinstance(model.layout, TreeLayout) else ""
    return f"convex energies of the form {model.spec.form!r}{more}; "


def unfinished(result: LearningResult, learner: Learner, given: bool) -> str:
    """What to warn of where a training ended too early; nothing elsewhere. The limits that count are those of a learner that was given."""
    if result.termination == Termination.converged or result.relative_gap <= 1e-9:
        return ""
    advice = f"Raise max_iter or time_limit, or tol{', of the learner that was given' if given else ''}."
    found = f"{result.learner} ended ({result.termination.replace('_', ' ')}) after {result.n_iter} passes with the objective "
    if np.isneginf(result.lower_bound):
        return f"{found}{result.objective:.6g}, and no lower bound. {advice}"
    return (
        f"{found}{result.objective:.6g} and the lower bound {result.lower_bound:.6g}: a relative gap of {result.relative_gap:.2g}, "
        f"wanted {learner.tol:g}. {advice}"
    )


def _caller() -> int:
    """The ``stacklevel`` of whoever called this package, counted from the function that warns."""
    level, frame = 0, sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(f"{__package__}."):
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    return level + 1


def _is_searched() -> bool:
    """Whether scikit-learn's searches or cross-validation called: whoever interrupts one of their trainings means all of them."""
    frame: Any = sys._getframe(1)
    while frame is not None and not frame.f_globals.get("__name__", "").startswith("sklearn.model_selection"):
        frame = frame.f_back
    return frame is not None


def _minimise(settings: Settings, objective: Any, learner: Learner, start: Any) -> LearningResult:
    """The learner; `CuttingPlane` takes over where nobody chose, and `SubsetAscent` on ill-conditioned features gets nowhere."""
    if settings.learner is not None or not isinstance(learner, SubsetAscent):
        return learner.fit(objective, settings.callback, start)
    slow, clock = [], Clock(learner.time_limit)

    def watch(point: LearningPoint) -> Any:
        if point.iteration >= _TUNING.patience and point.relative_gap > _TUNING.hopeless:
            slow.append(point)
        return slow or (settings.callback is not None and settings.callback(point))

    result = learner.fit(objective, watch, start)
    if not slow or learner.max_iter <= _TUNING.patience:
        return result
    second = CuttingPlane(
        tol=learner.tol,
        max_iter=learner.max_iter - _TUNING.patience,
        time_limit=None if learner.time_limit is None else clock.left,
        random_state=learner.random_state,
        checkpoint=None if learner.checkpoint is None else f"{learner.checkpoint}.second",
        checkpoint_seconds=learner.checkpoint_seconds,
    )
    other = second.fit(objective, settings.callback)
    if other.relative_gap >= result.relative_gap:
        return result
    return replace(
        other,
        message=f"{other.message} SubsetAscent was left at a gap of {slow[0].relative_gap:.2g} after {_TUNING.patience} passes: are "
        "features of very different size, or far from 0?",
        n_iter=result.n_iter + other.n_iter,
        n_oracle_calls=result.n_oracle_calls + other.n_oracle_calls,
        seconds=result.seconds + other.seconds,
    )


def _infer(plan: Plan, settings: Settings, dropped: Any, start: LearningResult) -> tuple[LearningResult, Any]:
    """The training goes on with the labels that are unknown, or known in part, inferred."""
    partial, learner = plan.partial, plan.learner
    assert partial is not None

    def objective(model: BoundModel, allowed: np.ndarray) -> PartialObjective:
        return PartialObjective(model, allowed, dropped.C, dropped.loss, settings.oracle, partial.weight, settings.n_jobs)

    def minimise(convex: MarginObjective, seconds: float) -> LearningResult:
        limited = learner if np.isinf(seconds) else replace(learner, time_limit=seconds)
        return _minimise(settings, convex, limited, None)

    who = who_solves(partial.model, settings.solver, settings.oracle)
    clock = Clock(None if learner.time_limit is None else max(0.0, learner.time_limit - start.seconds))

    def solver(problem: Problem) -> Result:
        return best(problem, who)

    result, convex = concave_convex(partial, start, objective, minimise, solver, time_limit=clock.limit)
    if settings.unknown != "complete" or result.termination == Termination.interrupted:
        return result, convex

    def plain(model: BoundModel) -> MarginObjective:
        return MarginObjective(model, dropped.C, dropped.loss, settings.oracle, partial.weight, settings.n_jobs)

    return train_completed(partial, result, plain, lambda own: minimise(own, clock.left), solver)


def warm_weights(before: Any, new: Any, weights: np.ndarray) -> np.ndarray | None:
    """Weights to start from: those of an earlier training, if they mean the same; on the same data its minimisers and accuracy are
    taken over as well."""
    if before.digest != new.digest:
        return weights if len(weights) == new.n_weights and before.model.names == new.model.names else None
    new.restore(before.state())
    if isinstance(new, QPObjective):
        new.allowed *= new.C / before.C
    return weights


def who_solves(model: Any, *wishes: Any) -> Solver | str | None:
    """Who predicts: the first wish that is a solver or the name of one (of the call, of the estimator, the oracle of its training).

    Without any it is `TRWS` where many labels with general tables are too entangled for exact solvers to be quick, else None: for each
    problem the exact solver that fits it, and `TRWS` where none does (see `best`).
    """
    for wish in wishes:
        own = chosen(wish)
        if isinstance(own, Solver) or (isinstance(own, str) and own != "bracket"):
            return own
    if not isinstance(model, MultiLabelBound) or is_small(model) or model.graph.is_forest or not model.cone.is_free:
        return None
    any_sample: Any = np.zeros((1, len(model.node_index) // model.graph.n_nodes))
    quick = has_small_width(model.problems(np.zeros(model.n_weights), any_sample)[0], _QUICK_CELLS)
    return None if quick else "TRWS"


def best(problem: Problem, solver: Solver | str | None = None) -> Result:
    """The answer of a solver; by default the exact one that fits the structure, and `TRWS` elsewhere."""
    if solver is not None:
        return solve(problem, solver)
    if is_easy(problem):
        return solve(problem)
    found = solve(problem, "TRWS")
    # Message passing may end without a labelling that keeps the constraints of factors: these want a search.
    return solve(problem, init=found) if len(problem.factors) and not np.isfinite(found.score) else found


def labels_of(result: Result, j: int) -> np.ndarray:
    """The labelling of sample ``j``, or an error that names it."""
    if result.labels is None:
        raise OracleError(f"sample {j}: {result.solver} found no labelling ({result.message}). Try another solver.")
    return result.labels


def label_gains(problem: Problem, solver: Solver | str | None = None) -> np.ndarray:
    """What each label 1 gains over label 0, with the best labels elsewhere."""
    first = best(problem, solver)
    labels = labels_of(first, 0)
    out = np.zeros(len(labels))
    for m, label in enumerate(labels):
        unary = problem.unary.copy()
        unary[m, label] = -np.inf
        other = Problem(
            problem.graph, unary, problem.tables, problem.edge_table, problem.edge_weight, problem.n_states, problem.cliques,
            problem.offset, problem.factors,
        )  # fmt: skip
        out[m] = (first.score - best(other, solver).score) * (1 if label else -1)
    return out
