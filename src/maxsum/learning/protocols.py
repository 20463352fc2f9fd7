"""What learners ask of an objective: small protocols, which each learner names in `Learner.requires`.

An objective has a protocol if it has its members; no class has to be inherited. `missing` says what an objective lacks.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import get_annotations
from typing import Any, Protocol

import numpy as np

from ..kernels.records import Design
from ..models.cone import Cone


class HasExamples(Protocol):
    """Examples with weights, of a function of weights."""

    n_examples: int
    n_weights: int
    c: np.ndarray


class HasPlanes(HasExamples, Protocol):
    """Slacks with planes below them, which an oracle finds: `CuttingPlane` needs no more."""

    cone: Cone
    exact: bool
    relaxed: bool

    def ask(self, w: np.ndarray) -> Any:
        """The most violated planes of all examples at some weights."""

    def plane(self, j: int, key: Any) -> Any:
        """The plane of an example that a key stands for."""

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        """The objective of weights with given slacks."""

    def repair(self, w: np.ndarray) -> np.ndarray:
        """The nearest weights that satisfy the cone exactly."""

    def tighten_brackets(self, w: np.ndarray, answer: Any, dual: float, tol: float) -> Any:
        """An answer with its open brackets closed as far as a tolerance needs it."""


class HasDesign(Protocol):
    """Features of the examples as arrays for kernels, which make the planes of labellings themselves."""

    design: Design
    model: Any


class HasOracle(Protocol):
    """Labellings as planes, from an oracle of loss-augmented problems, and work space to make them."""

    oracle: Any
    size: int
    loss_table: np.ndarray

    def new_scratch(self, capacity: int) -> Any:
        """Work space for planes."""


class HasInequalities(Protocol):
    """A list of inequalities that can be swept over without an oracle."""

    def sweeps(self, w: np.ndarray, examples: np.ndarray, max_sweeps: int, total: np.ndarray) -> Any:
        """Sweeps over the inequalities of some examples."""

    def check(self, w: np.ndarray, examples: np.ndarray) -> Any:
        """How many inequalities are violated."""


class HasRelaxation(Protocol):
    """The linear relaxation inside the slack, or its smoothed version."""

    smoothing: float


class HasSubsets(Protocol):
    """Sets of labels whose scores are all at hand, and what each label adds to the loss."""

    loss_gain: np.ndarray


class HasGradient(HasExamples, Protocol):
    """Values and gradients, and the projection onto the allowed weights."""

    convex: bool
    modulus: float
    free: bool

    def value_and_gradient(self, w: np.ndarray) -> Any:
        """Value and gradient at some weights."""

    def project(self, w: np.ndarray) -> np.ndarray:
        """The nearest allowed weights."""

    def tighten(self, allowed: float) -> bool:
        """Make values more exact; False if they are as exact as they get."""


class HasPenalty(HasExamples, Protocol):
    """A smooth loss beside a penalty of absolute values and squares."""

    l1: float
    l2: float

    def loss(self, w: np.ndarray) -> Any:
        """Value and gradient of the loss alone."""

    def penalty(self, w: np.ndarray) -> float:
        """The penalty alone."""

    def lowest(self, tangent: Any) -> float:
        """What a tangent of the loss proves about the minimum."""


class HasPenalisedPlanes(HasExamples, Protocol):
    """Slacks with planes below them, beside a penalty of absolute values and squares."""

    l1: float
    l2: float

    def ask(self, w: np.ndarray) -> Any:
        """The most violated planes of all examples at some weights."""

    def plane(self, j: int, key: Any) -> Any:
        """The plane of an example that a key stands for."""

    def tighten(self, w: np.ndarray, answer: Any, dual: float, tol: float, seconds: float) -> Any:
        """An answer with its open brackets closed as far as a tolerance needs it."""

    def primal(self, w: np.ndarray, slack: np.ndarray) -> float:
        """The objective of weights with given slacks."""

    def lowest(self, tangent: Any) -> float:
        """What a sum of planes proves about the minimum."""


class HasSums(Protocol):
    """Sums over all labellings: those of a likelihood."""

    partition: Any


class HasShards(Protocol):
    """Examples in shards, which somebody works on."""

    source: Any
    executor: Any
    n_shards: int


def has(objective: Any, protocol: Any) -> bool:
    """Whether an objective has all members of a protocol."""
    return not missing(objective, (protocol,))


def missing(objective: Any, protocols: Iterable[Any]) -> list[str]:
    """What an objective lacks: ``"HasGradient (value_and_gradient, tighten)"``."""
    found = []
    for protocol in protocols:
        lacking = [name for name in _members(protocol) if not _has(objective, name)]
        if lacking:
            found.append(f"{protocol.__name__} ({', '.join(lacking)})")
    return found


def _members(protocol: Any) -> list[str]:
    classes = [kind for kind in protocol.__mro__ if kind is not Protocol and getattr(kind, "_is_protocol", False)]
    names = [name for kind in reversed(classes) for name in (*get_annotations(kind), *vars(kind))]
    return list(dict.fromkeys(name for name in names if not name.startswith("_")))


def _has(objective: Any, name: str) -> bool:
    """Without asking for the value: what is made when it is asked for stays unmade."""
    return hasattr(type(objective), name) or name in getattr(objective, "__dict__", {})
