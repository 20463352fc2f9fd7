"""Which oracle fits the graphs and the cone of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import InvalidParameterError
from ...inference.base import Solver
from ...inference.dispatch import is_easy
from ...kernels.records import Design
from ...models.bound import BoundModel
from .base import Oracle, augmented
from .bracket import BracketOracle
from .enumeration import EnumerationOracle, is_small
from .exact import ForestOracle
from .factored import FactorOracle
from .solver import SolverOracle

_PROBED = 8  # examples whose problems are looked at: all of a training set would take as long as an oracle call
_EXACT_SOLVERS = ("TreeDP", "MaxFlow", "JunctionTree", "Exhaustive")


def choose_oracle(model: BoundModel, design: Design, oracle: Any) -> Oracle:
    """The oracle that fits the graphs and the cone: see `MarginObjective`."""
    hard = model.data.factors is not None or (model.has_forbidden and not model.is_forest)
    if oracle is not None:
        if isinstance(oracle, (str, Solver)) or callable(oracle):
            name = oracle if isinstance(oracle, str) else type(oracle).__name__
            if name == "bracket":
                return FactorOracle(model, design, exact=False) if hard else BracketOracle(model, design)
            return SolverOracle(model, design, oracle, exact=name in _EXACT_SOLVERS)
        if hasattr(oracle, "answer"):
            return oracle
        raise InvalidParameterError(f"oracle is {oracle!r}, wanted None, a solver, its name, or a function of a Problem.")
    if hard:
        return FactorOracle(model, design)
    if model.is_forest:
        return ForestOracle(model, design)
    if is_small(model):
        return EnumerationOracle(model, design)
    random = np.random.default_rng(0).standard_normal(model.n_weights)
    for probe in (random, -random):
        w = model.cone.repair(model.cone.project(probe).weights)
        for problem in augmented(model, design.loss, w, range(min(model.n_examples, _PROBED))):
            if not is_easy(problem):
                return BracketOracle(model, design)
    return SolverOracle(model, design, None, True)
