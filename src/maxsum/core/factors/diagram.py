r"""Layered decision diagrams: functions that read the labels of their nodes one after the other and remember a state.

Before node i the diagram is in one of few states; label k leads to the next one (or to none: forbidden). The score belongs to the last state. Lists
of tuples (a trie) and sums of whole numbers (the partial sums) are of this form, and dynamic programming over the layers gives their maxima
and max-marginals exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .function import Integers, Lift, impossible, raised


class Diagram:
    """A layered decision diagram.

    Parameters
    ----------
    steps : sequence of ndarray of int32, shape (states before node i, labels of node i)
        State before the next node, -1 for none. There is one state before the first node.
    scores : ndarray, shape (states after the last node,)
    """

    def __init__(self, steps: Sequence[np.ndarray], scores: np.ndarray):
        self.steps, self.scores = list(steps), scores

    @property
    def n_transitions(self) -> int:
        """Possible pairs of state and label, in all layers."""
        return int(sum((step >= 0).sum() for step in self.steps))

    @property
    def largest_layer(self) -> int:
        """The most possible pairs of state and label of a layer."""
        return max(int((step >= 0).sum()) for step in self.steps)

    def values(self, labels: np.ndarray) -> np.ndarray:
        """Scores of rows of labels (m, n)."""
        state = np.zeros(len(labels), dtype=np.int64)
        for i, step in enumerate(self.steps):
            state = np.where(state >= 0, step[np.maximum(state, 0), labels[:, i]], -1)
        return np.where(state >= 0, self.scores[np.maximum(state, 0)], -np.inf)

    def _forward(self, psi: np.ndarray) -> list[np.ndarray]:
        best = [np.zeros(1)]
        for i, step in enumerate(self.steps):
            after = self.steps[i + 1].shape[0] if i + 1 < len(self.steps) else len(self.scores)
            state, label = np.nonzero(step >= 0)
            reach = np.full(after, -np.inf)
            np.maximum.at(reach, step[state, label], best[-1][state] + psi[i, label])
            best.append(reach)
        return best

    def maximum(self, psi: np.ndarray, scores: np.ndarray) -> float:
        """Best sum of messages and the given scores of the last states."""
        return float((self._forward(psi)[-1] + scores).max(initial=-np.inf))

    def max_marginals(self, psi: np.ndarray) -> np.ndarray:
        """See `Function.max_marginals`."""
        forward = self._forward(psi)
        backward = self.scores
        found = np.full(psi.shape, -np.inf)
        for i in range(len(self.steps) - 1, -1, -1):
            step = self.steps[i]
            through = np.where(step >= 0, backward[np.maximum(step, 0)], -np.inf) + psi[i, : step.shape[1]]
            found[i, : step.shape[1]] = (forward[i][:, None] + through).max(axis=0)
            backward = through.max(axis=1)
        return found

    def top(self, psi: np.ndarray, centre: float) -> float:
        """Raised maximum, see `Function.top`."""
        n = len(self.steps)
        return self.maximum(raised(psi, n), raised(self.scores - centre, n))

    def exact_top(self, psi: Integers, integer: Callable[[Any], np.ndarray]) -> Any:
        """The maximum in whole numbers, None if nothing is possible."""
        best: dict[int, Any] = {0: 0}
        for i, step in enumerate(self.steps):
            reach: dict[int, Any] = {}
            rows = step.tolist()
            for state, value in best.items():
                for label, after in enumerate(rows[state]):
                    if after >= 0 and psi[i][label] is not None:
                        sum_here = value + psi[i][label]
                        if after not in reach or reach[after] < sum_here:
                            reach[after] = sum_here
            best = reach
        scores = integer(self.scores).tolist()
        return max((value + scores[s] for s, value in best.items() if scores[s] is not None), default=None)

    def support(self, domain: np.ndarray) -> np.ndarray:
        """See `Function.support`."""
        with_scores = np.where(np.isneginf(self.scores), -np.inf, 0.0)
        plain = Diagram(self.steps, with_scores).max_marginals(np.where(domain, 0.0, -np.inf))
        return plain > -np.inf

    def lift(self) -> Lift:
        """An extra node a layer, whose labels are the possible pairs of state and label; neighbours agree on the state between them."""
        unary, to_member, between, numbers = [], [], [], []
        before: np.ndarray | None = None
        for i, step in enumerate(self.steps):
            state, label = np.nonzero(step >= 0)
            after = step[state, label]
            last = i + 1 == len(self.steps)
            if not len(state):  # nothing is possible, and a node needs a label
                return impossible([s.shape[1] for s in self.steps])
            unary.append(self.scores[after].copy() if last else np.zeros(len(state)))
            to_member.append((i, i, np.where(np.arange(step.shape[1])[:, None] == label, 0.0, -np.inf)))
            if before is not None:
                between.append((i - 1, i, np.where(before[:, None] == state, 0.0, -np.inf)))
            before = after
            number = np.full(step.shape, -1)
            number[state, label] = np.arange(len(state))
            numbers.append(number)

        def complete(labels: np.ndarray) -> list[int]:
            state, found = 0, []
            for i, label in enumerate(labels.tolist()):
                # a forbidden labelling has no labels here: any will do, its score is -inf on both sides
                number = int(numbers[i][state, label]) if state >= 0 else -1
                found.append(max(number, 0))
                state = int(self.steps[i][state, label]) if state >= 0 else -1
            return found

        return Lift(unary, to_member, between, complete)


def reduced(steps: Sequence[np.ndarray], scores: np.ndarray) -> Diagram:
    """The diagram with the states alone that labels lead to from the first one and that lead to a possible end, in their order.

    If nothing is possible every layer keeps a state, which leads nowhere.
    """
    keep = [~np.isneginf(scores)]
    for step in reversed(steps):
        keep.insert(0, ((step >= 0) & keep[0][step]).any(axis=1))
    if not keep[0].any():
        return Diagram([np.full((1, step.shape[1]), -1, dtype=np.int32) for step in steps], np.full(1, -np.inf))
    kept = []
    for i, step in enumerate(steps):
        own = step[keep[i]]
        reached = np.zeros(len(keep[i + 1]), dtype=bool)
        reached[own[own >= 0]] = True
        keep[i + 1] &= reached
        number = np.where(keep[i + 1], np.cumsum(keep[i + 1]) - 1, -1)
        kept.append(np.where(own >= 0, number[own], -1).astype(np.int32))
    return Diagram(kept, scores[keep[-1]])
