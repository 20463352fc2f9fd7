"""The branching tree of an exact search as it grows, and the proofs that are cut from it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

import numpy as np

from ...core.certificates.search.certificate import SearchCertificate
from ...core.certificates.search.passes import single
from ...core.problem import Messages, Problem

_BOX_BYTES = 12  # that a box is counted with in a proof
_ENTRY_BYTES = 8  # that an entry of a message is counted with: where it is and how much, 4 bytes each


@dataclass(frozen=True)
class Tuning:
    """What a search keeps for its proof."""

    # Binary digits of effort (partial labellings) that the checker gets beside those of the search: its messages differ in the
    # last digits.
    spare_effort: int = 4
    least_effort: int = 10  # and at least so many: a thousand labellings cost less than a pass
    most_effort: int = 24  # and at most so many, a few seconds: a forged proof must not keep a checker busy for long
    # The record may be so many times larger than the proof that is cut from it, which leaves closed parts out.
    record_share: int = 4


_TUNING = Tuning()


class Record:
    """The branching tree as it grows, and the proofs that are cut from it.

    Messages are kept for the root and where the checker cannot make them itself. Once the record is ``full`` it grows no
    more; ``frozen`` is then the largest height of a box whose parts are missing.
    """

    def __init__(self, problem: Problem, limit: int):
        self.problem, self.limit, self.frozen = problem, limit, -np.inf
        self.parent, self.node, self.label, self.message_set = (array("i") for _ in range(4))
        self.relation, self.passes, self.effort, self.height = array("b"), array("B"), array("B"), array("d")
        self.sets: list[tuple[np.ndarray, np.ndarray]] = []
        self.set_entries = 0

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def full(self) -> bool:
        return _BOX_BYTES * len(self) + _ENTRY_BYTES * self.set_entries > _TUNING.record_share * self.limit

    def add_box(
        self, parent: int, node: int, label: int, relation: int, height: float, messages: Messages | None = None
    ) -> int:
        """Number of the new box; without messages it has those that its parent ended with."""
        self.parent.append(parent)
        self.node.append(node)
        self.label.append(label)
        self.relation.append(relation)
        self.message_set.append(-1 if messages is None else len(self.sets))
        self.passes.append(0)
        self.effort.append(0)
        self.height.append(height)
        if messages is not None:
            flat = np.concatenate([part.ravel() for part in messages])
            index = np.flatnonzero(flat)
            self.sets.append((index.astype(np.int32 if flat.size < 2**31 else np.int64), single(flat[index])))
            self.set_entries += len(index)
        return len(self) - 1

    def note(self, number: int, height: float, passes: int = 0, opened: int = 0) -> None:
        """What a visit has found; a closed box may be enumerated by the checker, with some effort to spare."""
        if number >= 0:
            self.height[number], self.passes[number] = height, passes
            if height == -np.inf:
                self.effort[number] = min(
                    max(opened.bit_length() + _TUNING.spare_effort, _TUNING.least_effort), _TUNING.most_effort
                )

    def certificate(self, closed: float, score: float, target: float) -> SearchCertificate | None:
        """The part of the tree that proves the height ``closed``, or the least height above it whose proof fits."""
        parent, height = np.array(self.parent), np.array(self.height)
        above = np.full(len(self), np.inf)  # least height on the way to a box: below it the box is not needed
        for i in range(1, len(self)):
            above[i] = min(above[self.parent[i]], self.height[self.parent[i]])
        sizes = np.array([0] + [len(index) for index, _ in self.sets])
        order = np.argsort(-above, kind="stable")
        spent = np.cumsum(_BOX_BYTES + _ENTRY_BYTES * sizes[np.array(self.message_set) + 1][order])
        n_fitting = int(np.searchsorted(spent, self.limit, side="right"))
        if n_fitting == 0 or closed == np.inf:
            return None
        if n_fitting < len(self):
            closed = max(closed, above[order[n_fitting]])
        kept = np.flatnonzero(above > closed)
        number = np.full(len(self), -1)
        number[kept] = np.arange(len(kept))
        effort = np.where(height[kept] == -np.inf, np.array(self.effort)[kept], 0).astype(np.uint8)
        sets = np.array(self.message_set)[kept]
        used = sets[sets >= 0]
        chosen = [self.sets[i] for i in used]
        message_set = np.full(len(kept), -1, dtype=np.int32)
        message_set[sets >= 0] = np.arange(len(used))
        ptr = np.cumsum([0] + [len(index) for index, _ in chosen])
        index = np.concatenate([np.zeros(0, dtype=np.int32), *(index for index, _ in chosen)])
        value = np.concatenate([np.zeros(0, dtype=np.float32), *(value for _, value in chosen)])
        level = closed - score if np.isfinite(closed - score) and closed > target else 0.0
        return SearchCertificate(
            parent=np.where(kept > 0, number[parent[kept]], -1),
            node=np.array(self.node)[kept],
            label=np.array(self.label)[kept],
            relation=np.array(self.relation)[kept],
            message_set=message_set,
            ptr=ptr,
            index=index,
            value=value,
            passes=np.array(self.passes)[kept],
            effort=effort,
            level=level,
        )
