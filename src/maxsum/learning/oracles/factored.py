"""FactorOracle: labellings of examples with factors, by elimination where that is exact and cheap, elsewhere within brackets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.problem import Problem
from ...core.result import Result
from ...executors.threads import thread_map
from ...inference.dispatch import solve
from ...inference.exact.junction import JunctionTree, has_small_width, keep_order
from ...inference.relaxations.trws import TRWS
from ...kernels.records import Design
from ...models.bound import BoundModel
from .base import Effort, Key, Oracle, augmented
from .exact import ForestOracle


@dataclass(frozen=True)
class Tuning:
    """Which examples are eliminated, and how long messages are passed for the others."""

    # Cells of all bags up to which an example is eliminated in every call: about 30 ms; a call of TRW-S for as many takes longer.
    cells: int = 2**20
    passes: int = 20  # of TRW-S for a plane or a first bracket: messages go on from the last call
    long_factor: int = 10  # times as many where brackets alone keep a gap open
    # Labellings of an example that are tried again at other weights: where messages end without one that the constraints allow, they are the
    # planes that the bound of the learner rests on.
    remembered: int = 20
    search_seconds: float = 10.0  # of an exact search for one example, as for graphs without factors


class FactorOracle:
    """Examples with factors, or with cycles and forbidden pairs of labels, by `JunctionTree` (of the problem, or of its form with nodes and edges alone), or by `TRWS` and a search; those
    without by the oracle that fits them.

    Parameters
    ----------
    model : BoundModel
    design : Design
    exact : bool
        Eliminate where that is cheap; otherwise brackets for all.
    """

    def __init__(self, model: BoundModel, design: Design, exact: bool = True, tuning: Tuning = Tuning()):  # noqa: B008
        from .bracket import BracketOracle
        from .choice import choose_oracle

        self.model, self.design, self.tuning = model, design, tuning
        self.has = np.array([model.has_forbidden and not graph.is_forest for graph in model.data.graphs], dtype=bool)
        if model.data.factors is not None:
            self.has |= np.array([len(own) > 0 for own in model.data.factors], dtype=bool)
        self.plain: Oracle | None = None
        if not self.has.all():  # kernels know nothing of factors, so that the examples that have some are not asked for there
            bare = replace(model, data=replace(model.data, factors=None))
            trees = ForestOracle(bare, design) if model.has_forbidden else None  # it is asked for forests alone then
            self.plain = trees or (choose_oracle(bare, design, None) if exact else BracketOracle(bare, design))
        self.templates = model.problems(np.zeros(model.n_weights))
        eliminate = JunctionTree(max_cells=tuning.cells)
        self.narrow = self.has.copy()
        for j, problem in enumerate(self.templates):
            small = exact and self.has[j] and has_small_width(problem, tuning.cells)
            self.narrow[j] = small and bool(
                eliminate.supports(problem)
            )  # which leaves orders and the lifted form with the template
        self.exact = bool(self.narrow[self.has].all()) and (self.plain is None or self.plain.exact)
        self.messages: dict[int, Any] = {}
        self.found: dict[int, list[np.ndarray]] = {}

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """Labellings that the factors allow, with gaps from certificates."""
        keys: list[Key] = [None] * len(examples)
        gaps = np.zeros(len(examples))
        rest = np.flatnonzero(~self.has[examples])
        if len(rest) and self.plain is not None:
            for i, key, gap in zip(rest.tolist(), *self.plain.answer(w, examples[rest], effort, n_jobs), strict=True):
                keys[i], gaps[i] = key, gap
        own = np.flatnonzero(self.has[examples])
        problems = augmented(self.model, self.design.loss, w, examples[own]) if len(own) else []
        items = list(zip(examples[own].tolist(), problems, strict=True))
        for i, (key, gap) in zip(
            own.tolist(), thread_map(lambda item: self._one(item[0], item[1], effort), items, n_jobs), strict=True
        ):
            keys[i], gaps[i] = key, gap
        return keys, gaps

    def _one(self, j: int, problem: Problem, effort: Effort) -> tuple[np.ndarray, float]:
        truth = self.model.truth(j)
        if self.narrow[j]:
            keep_order(self.templates[j], problem)
            return possible(problem, JunctionTree(max_cells=self.tuning.cells).solve(problem), truth)
        init = self.messages.get(j)
        if effort >= Effort.SEARCH:
            found = solve(problem, init=init, gap=0.0, time_limit=self.tuning.search_seconds)
        elif effort >= Effort.FULL:
            found = solve(problem, "TRWS", init=init)
        else:
            many = self.tuning.long_factor if effort == Effort.LONG else 1
            found = TRWS(max_iter=self.tuning.passes * many).solve(problem, init)
        if found.messages is not None:
            self.messages[j] = found.messages
        known = self.found.setdefault(j, [])
        labels, gap = possible(problem, found, truth, *known)
        if not any(np.array_equal(labels, other) for other in (truth, *known)):
            self.found[j] = [*known, labels][-self.tuning.remembered :]
        return labels, gap

    def state(self) -> dict[str, np.ndarray]:
        """Messages of the oracle of examples without factors, for a checkpoint; those of factors are made anew."""
        return self.plain.state() if self.plain is not None and hasattr(self.plain, "state") else {}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """The state that `state` gave."""
        self.messages, self.found = {}, {}
        if self.plain is not None and hasattr(self.plain, "restore") and state:
            self.plain.restore(state)


def possible(problem: Problem, result: Result, truth: np.ndarray, *known: np.ndarray) -> tuple[np.ndarray, float]:
    """Labels that the factors allow, and their gap: those of a result, or the truth or other known ones where they score more; the certificate
    says how far below the best score they are at most. The gap is infinite without a certificate."""
    if result.labels is not None and result.gap == 0:
        return result.labels, 0.0
    others = [np.asarray(labels, dtype=np.int32) for labels in (truth, *known)]
    best = max(others if result.labels is None else [result.labels, *others], key=problem.score)
    if result.certificate is None:
        return best, np.inf
    return best, result.gap if best is result.labels else float(result.certificate.evaluate(problem, best)[1])
