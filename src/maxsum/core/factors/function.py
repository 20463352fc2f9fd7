r"""What a function of the labels of several nodes has to know.

``psi`` (n, K) are messages to the n nodes of a factor; ``-inf`` stands for labels that a node cannot have. The reparametrised factor is
:math:`f(y_1, .., y_n) + \sum_i \psi_i(y_i)`. Sums in proofs are taken of centred scores :math:`f - c`, where :math:`c` is the largest finite
score (`Function.centre`), so that a constant in a table costs no digits.

Rounding: a sum of n + 1 numbers, added in any order, is off by at most n units of the sum of their sizes. So if every number is first raised by
``raise_share(n)`` of its size, the computed sum is not below the exact one, and neither is a maximum of such sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import InvalidProblemError

UNIT = 2.0**-53
"""Unit of rounding: one operation is off by at most this share of its result."""

Integers = list[list[Any]]
"""Messages as whole numbers of a common unit, a list for each node; None where a label is not possible."""


def raise_share(n: int) -> float:
    """Share of their sizes by which n + 1 numbers are raised so that rounding cannot put their computed sum below the exact one."""
    return UNIT * (2 * n + 8)


def raised(values: np.ndarray, n: int) -> np.ndarray:
    """Numbers raised by that share; infinite ones stay."""
    return values + raise_share(n) * np.abs(np.where(np.isfinite(values), values, 0.0))


@dataclass(frozen=True)
class Lift:
    """A factor written with extra nodes and edges: for every labelling of its nodes, the best labels of the extra nodes give its score.

    Attributes
    ----------
    unary : list of ndarray
        Scores of the extra nodes.
    to_member : list of (int, int, ndarray)
        Member, extra node, and table [label of the member, label of the extra node] of an edge.
    between : list of (int, int, ndarray)
        The same between two extra nodes.
    among : list of (int, int, ndarray)
        The same between two members.
    complete : callable
        Labels of the members to labels of the extra nodes.
    """

    unary: list[np.ndarray]
    to_member: list[tuple[int, int, np.ndarray]]
    between: list[tuple[int, int, np.ndarray]]
    complete: Callable[[np.ndarray], list[int]]
    among: list[tuple[int, int, np.ndarray]] = field(default_factory=list)


def impossible(shape: Sequence[int]) -> Lift:
    """The lift of a factor that forbids everything: an extra node of one label, which agrees with nothing."""
    links = [(i, 0, np.full((states, 1), -np.inf)) for i, states in enumerate(shape)]
    return Lift([np.zeros(1)], links, [], lambda labels: [0])


class Function(ABC):
    """A score of the labels of n nodes; frozen, and shared by all factors that have it."""

    @abstractmethod
    def check(self, shape: tuple[int, ...], name: str) -> None:
        """Refuse nodes with these numbers of labels if the function cannot be theirs; ``name`` names the factor."""

    @property
    @abstractmethod
    def numbers(self) -> np.ndarray:
        """All finite scores that the function may take."""

    @property
    @abstractmethod
    def is_hard(self) -> bool:
        """Whether it forbids something."""

    @abstractmethod
    def values(self, labels: np.ndarray) -> np.ndarray:
        """Scores of rows of labels (m, n)."""

    @abstractmethod
    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        r"""Best reparametrised score with label k at node i, :math:`\max_{y: y_i = k} f(y) + \sum_j \psi_j(y_j)`, for all i and k (n, K)."""

    @abstractmethod
    def top(self, psi: np.ndarray) -> float:
        """Upper bound on the best centred reparametrised score, with all that rounding could hide; ``-inf`` if nothing is possible."""

    @abstractmethod
    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        """The best reparametrised score (not centred) in whole numbers, None if nothing is possible. ``integer`` turns scores into them."""

    @abstractmethod
    def support(self, domain: np.ndarray) -> np.ndarray:
        """Mask (n, K) of the labels that occur in a possible labelling inside ``domain`` (generalised arc consistency)."""

    @abstractmethod
    def lift(self, shape: tuple[int, ...]) -> Lift:
        """The same function with extra nodes and edges."""

    @abstractmethod
    def lift_cells(self, shape: tuple[int, ...]) -> float:
        """Largest number of labels of an extra node of `lift`."""

    @abstractmethod
    def encode(self) -> tuple[np.ndarray, np.ndarray]:
        """Everything as whole numbers and scores, for files."""

    @classmethod
    @abstractmethod
    def decode(cls, numbers: np.ndarray, scores: np.ndarray) -> Function:
        """The function of what `encode` gave; `InvalidProblemError` or `ValueError` if the numbers make none."""

    def dense(self, shape: tuple[int, ...]) -> np.ndarray:
        """The table of all scores; the caller knows that there are few."""
        grid = np.indices(shape).reshape(len(shape), -1).T
        return self.values(grid).reshape(shape)

    @property
    def centre(self) -> float:
        """The largest finite score; 0 if there is none."""
        return float(self.numbers.max(initial=-np.inf)) if self.numbers.size else 0.0

    def tops(self, psi: np.ndarray) -> np.ndarray:
        """`top` of many factors (m, n, K)."""
        return np.array([self.top(one) for one in psi])


def check_shape(shape: tuple[int, ...], wanted: Sequence[int], name: str, what: str) -> None:
    """Refuse a function of other numbers of labels."""
    if tuple(shape) != tuple(wanted):
        raise InvalidProblemError(
            f"{name} has {what} of shape {tuple(wanted)}, but its nodes have {', '.join(map(str, shape))} labels; "
            f"wanted the shape {tuple(shape)}, one axis a node in their order."
        )
