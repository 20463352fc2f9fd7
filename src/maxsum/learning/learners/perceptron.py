"""Perceptron: weights that satisfy every inequality of a consistent training set, and a count of what is left otherwise."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ...core.errors import InvalidSampleError, UnsupportedProblemError
from ...core.parameters import Flag, Maybe, WholeNumber, settings
from ...core.result import Termination
from ...kernels.perceptron import enter_cone, margin_pass, products
from ...models.bound import BoundModel
from ..driver import Learner, Training
from ..objectives.base import Objective, PlaneObjective
from ..objectives.margin import MarginObjective
from ..objectives.trivial import TrivialObjective
from ..oracles.base import Effort, Oracle
from ..oracles.bracket import BracketOracle
from ..oracles.enumeration import EnumerationOracle
from ..oracles.exact import ForestOracle
from ..oracles.solver import SolverOracle
from ..protocols import HasDesign, HasInequalities, HasOracle, HasPlanes, has, missing
from ..state import REBUILT


@dataclass(frozen=True)
class Tuning:
    """Numbers of the passes.

    Attributes
    ----------
    margin : float
        Bonus of all wrong nodes together, in mean squares of the features: ties have to count as violated, and it has to stay so small
        that the weights of a consistent set grow past it.
    checks : float
        Inequalities that are checked between two looks at the clock, about a tenth of a second.
    batch, batches : int
        Examples asked at the same weights: fewer learn faster, more use more threads. At least ``batch``, or one of ``batches`` parts.
    hopeless : int
        Passes or sweeps after which training ends where examples contradict each other, so that no weights satisfy all.
    """

    margin: float = 0.1
    checks: float = 2e7
    batch: int = 8
    batches: int = 8
    hopeless: int = 1000


_TUNING = Tuning()


class Left(NamedTuple):
    """What is violated at some weights: examples, inequalities (-1: not counted), examples that the oracle did not decide."""

    examples: int
    inequalities: int
    undecided: int

    def __str__(self) -> str:
        if not self.examples + self.undecided:
            return "all inequalities hold"
        counted = f"{self.inequalities} inequalities of " if self.inequalities >= 0 else ""
        parts = [f"{counted}{self.examples} examples are violated"] if self.examples else []
        if self.undecided:
            parts.append(f"for {self.undecided} examples the oracle did not tell")
        return " and ".join(parts)


@dataclass(frozen=True)
class Perceptron(Learner):
    r"""Perceptron for a consistent training set: Algorithms 1, 2 and 3 of Franc & Savchynskyy (2008).

    It looks for weights with :math:`\langle w, z\rangle > 0` for every :math:`z` of the training set, and adds to :math:`w` those
    that are violated (:math:`\le 0`); if such weights exist, it ends after finitely many updates (Novikoff).

    - `MarginObjective`, :math:`z = \Psi(x_j, y_j) - \Psi(x_j, y)` for all :math:`y \ne y_j`: the oracle, without the loss, finds
      the violated ones (Algorithm 1). Where the model is supermodular its tables are made strictly so before each call of the
      oracle (Algorithm 2). So that ties count as violated, wrong nodes get a small bonus: at most a tenth of the mean square
      of the features in all.
    - `TrivialObjective`: sweeps over all inequalities (20), nodes first; no solver is called (Algorithm 3).

    An iteration is a pass over the examples, or a sweep. The regularisation plays no role: ``objective`` of the result is the
    objective evaluated at the weights, ``lower_bound`` is ``-inf`` and the guarantee ``feasible``. If training ends before all
    inequalities hold, because no weights satisfy them or time did not suffice, ``termination`` is not ``converged``, and the
    message says how many examples are left and names examples that contradict each other.

    ``extra`` of the result has ``algorithm``, ``n_updates``, ``cone_updates``, ``violated`` (examples),
    ``violated_inequalities``, ``undecided`` and ``conflicts`` (pairs of examples).

    Parameters
    ----------
    averaged : bool
        Return the average of the weights over all examples seen (Algorithms 1, 2) or after all sweeps (Algorithm 3); what is
        left is counted at the average.
    batch : int, optional
        Examples that the oracle answers at the same weights; by default an eighth of them, at least 8.
    """

    requires: ClassVar[tuple[Any, ...]] = (HasPlanes, HasDesign)

    averaged: bool = False
    batch: int | None = None

    _parameters = settings(averaged=Flag(), batch=Maybe(WholeNumber(1)))

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if has(objective, HasOracle):
            objective.model.refuse_cliques("Perceptron")
            objective.model.refuse_factors("Perceptron")
            _without_loss(objective, 0.0)
        elif lacking := missing(objective, (HasInequalities,)):
            raise UnsupportedProblemError(
                f"Perceptron cannot minimise a {type(objective).__name__}, which lacks HasOracle and {lacking[0]}."
            )

    def init(self, objective: Any, training: Training, start: Any = None) -> _Sweeps | _Passes:
        state = _Passes(self, objective) if has(objective, HasOracle) else _Sweeps(self, objective)
        if start is not None:
            state.w[:] = _start(start, objective)
            state.fixes += state.cone.enter(state.w)
        return state

    def step(self, state: _Sweeps | _Passes, training: Training) -> None:
        """A pass over the examples, or some sweeps over all inequalities."""
        objective = state.objective
        if training.n_iter == 0 or "conflicts" not in training.extra:
            training.extra["conflicts"] = conflicts(objective, np.flatnonzero(objective.c > 0))
        training.exact = objective.exact
        training.passes, state.done = state.advance(training, self.max_iter - training.n_iter)
        training.weights = state.average() if self.averaged else objective.cone.repair(state.w)
        training.extra.update(state.counts())
        note = _note(training.extra["conflicts"])
        training.message = f"Perceptron: stopped after {state.updates} updates, before all inequalities held{note}."
        if state.done:
            training.end(Termination.converged)
        elif training.extra["conflicts"] and training.n_iter + training.passes >= _TUNING.hopeless:
            training.end(Termination.stalled)

    def finish(self, state: _Sweeps | _Passes, training: Training) -> None:
        """What is left is counted, and said."""
        if state.done:
            training.termination = Termination.converged
        left = state.left(training.weights)
        training.extra.update(violated=left.examples, violated_inequalities=left.inequalities, undecided=left.undecided)
        sentence = f"{left}{' at the averaged weights' if self.averaged else ''} after {state.updates} updates"
        if state.done and left.examples + left.undecided:
            sentence += "; all inequalities hold at the last weights"
        training.message = f"Perceptron: {sentence}{_note(training.extra.get('conflicts', []))}."


@dataclass(eq=False)
class _Sweeps:
    """Algorithm 3.

    Attributes
    ----------
    w : ndarray
        Weights; ``total`` is their sum over all sweeps, where the average is wanted.
    fixes : int
        Updates for inequalities of the model, beside the ``updates`` for those of the data.
    """

    learner: Perceptron = field(metadata=REBUILT)
    objective: TrivialObjective = field(metadata=REBUILT)
    w: np.ndarray = field(init=False)
    total: np.ndarray = field(init=False)
    updates: int = 0
    fixes: int = 0
    sweeps: int = 0
    done: bool = False

    def __post_init__(self) -> None:
        objective = self.objective
        self.examples = np.flatnonzero(objective.c > 0)
        self.w = np.zeros(objective.n_weights)
        self.total = np.zeros(objective.n_weights if self.learner.averaged else 0)
        size = objective.model.n_labels
        checks = (len(objective.design.edges) * size + len(objective.design.truth)) * size
        self.chunk = max(1, int(_TUNING.checks / max(1, checks)))
        self.cone = _Cone(objective, objective.model)

    def advance(self, training: Training, room: int) -> tuple[int, bool]:
        """Sweeps, at most ``room``: how many, and whether all inequalities hold."""
        free = self.objective.cone.is_free
        limit = max(1, min(room, self.chunk if free else 1))
        sweeps, updates, last = self.objective.sweeps(self.w, self.examples, limit, self.total)
        fixes = 0 if free else self.cone.enter(self.w)
        self.updates, self.fixes, self.sweeps = self.updates + int(updates), self.fixes + fixes, self.sweeps + int(sweeps)
        return int(sweeps), bool(last + fixes == 0)

    def average(self) -> np.ndarray:
        return self.objective.cone.repair(self.total / max(1, self.sweeps))

    def counts(self) -> dict[str, Any]:
        return {"algorithm": 3, "n_updates": self.updates, "cone_updates": self.fixes}

    def left(self, w: np.ndarray) -> Left:
        violated = self.objective.check(w, self.examples)[2]
        return Left(int((violated > 0).sum()), int(violated.sum()), 0)


class _Found(NamedTuple):
    """Labellings, where they are as good as the true one, and where it is proven to be the only best one."""

    keys: list[np.ndarray]
    violated: np.ndarray
    settled: np.ndarray


@dataclass(eq=False)
class _Passes:
    """Algorithms 1 and 2.

    Attributes
    ----------
    w : ndarray
        Weights; ``drift`` is what is taken off them for their average over the ``seen`` examples.
    fixes : int
        Updates for inequalities of the model, beside the ``updates`` for those of the data.
    """

    learner: Perceptron = field(metadata=REBUILT)
    objective: MarginObjective = field(metadata=REBUILT)
    w: np.ndarray = field(init=False)
    drift: np.ndarray = field(init=False)
    updates: int = 0
    fixes: int = 0
    seen: int = 0
    done: bool = False

    def __post_init__(self) -> None:
        objective = self.objective
        self.examples = np.flatnonzero(objective.c > 0)
        self.batch = self.learner.batch or max(_TUNING.batch, -(-len(self.examples) // _TUNING.batches))
        sizes = np.diff(objective.design.node_ptr)
        self.cone = _Cone(objective, objective.model)
        self.margin = _TUNING.margin * self.cone.step**2 / max(1, int(sizes.max(initial=1)))
        self.oracle = _without_loss(objective, self.margin)
        self.index, self.value = np.zeros(objective.size, dtype=np.int32), np.zeros(objective.size)
        self.w, self.drift = np.zeros(objective.n_weights), np.zeros(objective.n_weights)
        self.fixes = self.cone.enter(self.w)

    def advance(self, training: Training, room: int) -> tuple[int, bool]:
        """One pass: whether it found all inequalities to hold."""
        order = np.random.default_rng([self.learner.random_state, training.n_iter]).permutation(self.examples)
        clear = True
        for start in range(0, len(order), self.batch):
            part = np.sort(order[start : start + self.batch])
            found = self.ask(self.w, part)
            clear &= bool(found.settled.all())
            self._update(part, found.keys)
            if training.seconds_left <= 0:
                return 1, False
        return 1, clear

    def ask(self, w: np.ndarray, examples: np.ndarray) -> _Found:
        """Labellings of examples; those that decide nothing are asked for again with more effort."""
        w = w if self.objective.cone.is_free else self.objective.cone.repair(w)
        found = self._judge(w, examples, *self._answer(w, examples, Effort.NORMAL))
        for effort in (Effort.LONG, Effort.FULL, Effort.SEARCH):
            again = np.flatnonzero(~found.violated & ~found.settled)
            if self.objective.exact or not len(again):
                break
            better = self._judge(w, examples[again], *self._answer(w, examples[again], effort))
            for i, key in zip(again, better.keys, strict=True):
                found.keys[i] = key
            found.violated[again], found.settled[again] = better.violated, better.settled
        return found

    def _answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort) -> tuple[list[np.ndarray], np.ndarray]:
        started = time.perf_counter()
        answer = self.oracle.answer(w, examples, effort, self.objective.n_jobs)
        self.objective.seconds += time.perf_counter() - started
        self.objective.n_calls += len(examples)
        return answer

    def _judge(self, w: np.ndarray, examples: np.ndarray, keys: list[np.ndarray], gaps: np.ndarray) -> _Found:
        """A labelling that is as good as the true one would have a bonus of ``margin`` at least."""
        product, wrong = np.zeros(len(keys)), np.zeros(len(keys), dtype=np.int64)
        products(self.objective.design, examples, *_flat(keys), self.index, self.value, w, product, wrong)
        above = self.margin * wrong - product + gaps
        return _Found(keys, (wrong > 0) & (product <= 0), above < self.margin / 2)

    def _update(self, examples: np.ndarray, keys: list[np.ndarray]) -> None:
        objective = self.objective
        updates, fixes = margin_pass(
            objective.design, examples, *_flat(keys), self.margin, self.cone.nonneg, self.cone.quads, self.cone.step, self.seen,
            self.index, self.value, self.w, self.drift,
        )  # fmt: skip
        self.seen += len(examples)
        self.updates, self.fixes = self.updates + int(updates), self.fixes + int(fixes)

    def average(self) -> np.ndarray:
        return self.objective.cone.repair(self.w - self.drift / max(1, self.seen))

    def counts(self) -> dict[str, Any]:
        algorithm = 1 if self.objective.cone.is_free or self.objective.cone.nonneg.any() else 2
        return {"algorithm": algorithm, "n_updates": self.updates, "cone_updates": self.fixes}

    def left(self, w: np.ndarray) -> Left:
        found = self.ask(w, self.examples)
        return Left(int(found.violated.sum()), -1, int((~found.violated & ~found.settled).sum()))


class _Cone:
    """The inequalities of the model for kernels, and the length of a step: the root mean square of the features."""

    def __init__(self, objective: PlaneObjective, model: BoundModel):
        rows = objective.cone.rows
        self.nonneg = objective.cone.nonneg.astype(np.uint8)
        self.quads = np.ascontiguousarray(objective.cone._quads)
        values = np.concatenate([np.asarray(getattr(m, "data", m), dtype=np.float64).ravel() for m in _features(model)])
        values = values[values != 0]
        self.step = float(np.sqrt((values**2).mean())) if len(values) else 1.0
        self._none = np.zeros(rows.shape[1])

    def enter(self, w: np.ndarray) -> int:
        """Make tables strictly supermodular and signs right, in place; returns the number of updates."""
        return int(enter_cone(self.nonneg, self.quads, self.step, 0.0, w, self._none))


def _without_loss(objective: MarginObjective, bonus: float) -> Oracle:
    """The oracle of the objective, with a bonus for each wrong node in place of the loss."""
    model, oracle = objective.model, objective.oracle
    wrong = np.arange(model.n_labels) != objective.design.truth[:, None]
    design = objective.design._replace(loss=bonus * wrong)
    if isinstance(oracle, SolverOracle):
        return SolverOracle(model, design, oracle.solver, oracle.exact)
    if isinstance(oracle, (ForestOracle, EnumerationOracle)):
        return type(oracle)(model, design)
    if isinstance(oracle, BracketOracle):
        return BracketOracle(model, design, oracle.tuning, oracle.time_limit)
    raise UnsupportedProblemError(
        f"Perceptron asks the oracle without the loss, which it does not know how to do for a {type(oracle).__name__}. Wanted a "
        "solver, its name, or a function of a Problem."
    )


def _note(pairs: list[tuple[int, int]]) -> str:
    """Examples that contradict each other, in words."""
    if not pairs:
        return ""
    more = f" ({len(pairs)} such pairs)" if len(pairs) > 1 else ""
    return f"; examples {pairs[0][0]} and {pairs[0][1]} have the same observations and different labels{more}"


def _features(model: BoundModel) -> list[Any]:
    x = model.data.x
    return [x if isinstance(x, np.ndarray) else x.data, model.data.f.data]


def _flat(keys: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    ptr = np.cumsum([0] + [len(key) for key in keys], dtype=np.int64)
    return ptr, np.concatenate([np.zeros(0, dtype=np.int32), *keys]).astype(np.int32)


def _start(init: Any, objective: Objective) -> np.ndarray:
    w = np.asarray(getattr(init, "weights", init), dtype=np.float64)
    if w.shape != (objective.n_weights,) or not np.isfinite(w).all():
        raise InvalidSampleError(f"init has shape {w.shape}, wanted {objective.n_weights} finite weights, or a LearningResult.")
    return w


def conflicts(objective: MarginObjective | TrivialObjective, examples: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of examples with the same graph and observations and different labels, each with the first of its kind."""
    seen: dict[tuple[bytes, ...], int] = {}
    pairs = []
    model, design = objective.model, objective.design
    for j in examples.tolist():
        nodes = slice(int(design.node_ptr[j]), int(design.node_ptr[j + 1]))
        edges = slice(int(design.edge_ptr[j]), int(design.edge_ptr[j + 1]))
        parts = [(design.edges[edges] - nodes.start).tobytes(), model.data.n_states[nodes].tobytes()]
        for ptr, col, val, rows, step in (
            (design.x_ptr, design.x_col, design.x_val, nodes, design.node_step[0]),
            (design.f_ptr, design.f_col, design.f_val, edges, design.edge_step[0]),
        ):
            start, stop = int(rows.start * step), int(rows.stop * step)
            own = slice(int(ptr[start]), int(ptr[stop]))
            parts += [np.diff(ptr[start : stop + 1]).tobytes(), col[own].tobytes(), val[own].tobytes()]
        first = seen.setdefault(tuple(parts), j)
        if first != j and not np.array_equal(model.truth(first), model.truth(j)):
            pairs.append((first, j))
    return pairs
