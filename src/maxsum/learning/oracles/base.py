"""What all oracles share: how hard they try, what they answer, and the problems that they solve."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Protocol

import numpy as np

from ...core.problem import Problem
from ...models.bound import BoundModel

Key = Any
"""Where a plane comes from: a labelling, or a `Relaxed` answer."""

_WORTH_THREADS = 2e6  # operations of dynamic programming, about a millisecond: with fewer, starting threads costs what it saves


class Effort(IntEnum):
    """How hard an oracle tries. Exact oracles have one way, and take every effort for it.

    The numbers are part of certificates of shards (`AggregatedObjective`), so they stay.
    """

    EXPAND = -3
    """`GLANCE`, and expansion moves where weights of the cone make tables that like equal labels."""
    GLANCE = -2
    """Half the passes of `QUICK`: for many rounds with small changes of the weights."""
    QUICK = -1
    """As many passes as `NORMAL`, but one labelling is read off, and rounding is not added to its gap: for planes, not for proofs."""
    NORMAL = 0
    """A few passes of message passing; the better of two labellings, with a gap that is proven."""
    LONG = 1
    """Ten times the passes of `NORMAL`."""
    FULL = 2
    """`TRWS` to its end."""
    SEARCH = 3
    """Finisher and exact search after that; with the linear relaxation inside, its linear program."""

    @property
    def is_proof(self) -> bool:
        """Whether gaps hold to the last bit."""
        return self >= Effort.NORMAL


class Oracle(Protocol):
    """Answers for examples: labellings, and proven gaps: no labelling scores more than the one given plus its gap."""

    exact: bool

    def answer(self, w: np.ndarray, examples: np.ndarray, effort: Effort, n_jobs: int) -> tuple[list[Key], np.ndarray]:
        """A labelling for each example at the weights ``w``, and the gap that is proven for it."""
        ...


def worthwhile(n_jobs: int, operations: float) -> int:
    """``n_jobs``, or 1 where starting threads would take longer than the work."""
    return n_jobs if operations > _WORTH_THREADS else 1


def augmented(model: BoundModel, loss: np.ndarray, w: np.ndarray, examples: Sequence[int] | np.ndarray) -> list[Problem]:
    """Loss-augmented problems of some examples."""
    found = []
    for j, problem in zip(examples, model._problems(w, model.data, list(examples)), strict=True):
        rows = slice(model.data.node_ptr[j], model.data.node_ptr[j + 1])
        arrays = {
            name: getattr(problem, name)
            for name in ("graph", "tables", "edge_table", "edge_weight", "n_states", "cliques", "offset", "factors")
        }
        found.append(Problem._trusted(unary=problem.unary + loss[rows], **arrays))
    return found
