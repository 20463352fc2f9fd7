"""PlaneStore: the labellings that a learner keeps of each example, in arrays that kernels read, with room to grow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ...kernels.block_ascent import cached_passes, rebuild
from ...kernels.planes import copy_planes, drop, entries, insert_all, insert_vector
from ...kernels.records import Design, Planes, Scratch, Weights
from ...kernels.vectors import inner
from ...models.cone import Cone
from ..certificate import DualCertificate
from ..oracles.base import Key
from ..oracles.relaxed import Relaxed
from .model import Columns, DualModel

if TYPE_CHECKING:
    from ..objectives.margin import MarginObjective

_VECTOR_BYTES = 2**29  # memory for planes as vectors where labellings would do
_RELAXED_BYTES = 2**30  # the same where the relaxation may need pseudo-marginals, which are kept as vectors only
_OLD = 10  # visits without weight after which a plane may be dropped for a new one
_NEVER = 2**62  # more visits than there are
_MOST_LABELS = 40  # of a node, that a labelling costs more for: more are rarely looked at


class PlaneStore(DualModel):
    """Planes of a `MarginObjective` as labellings, with their multipliers.

    Pseudo-marginals (`Relaxed`) are kept beside the labellings, where vectors of all weights can be stored (``explicit``): the
    labels of such a plane begin with ``-1 - number``.

    Parameters
    ----------
    objective : MarginObjective
        Or what has its ``design``, ``c``, ``cone`` and ``new_scratch``.
    max_planes : int
        Planes without weight are dropped when an example has more than this; planes with weight are never dropped, so the
        dual never falls.

    Attributes
    ----------
    keeps : bool
        While it is True no plane is dropped at all, so that slots keep their meaning.
    """

    def __init__(self, objective: Any, max_planes: int = 40):
        self.objective, self.max_planes, self.keeps = objective, max_planes, False
        n = objective.n_examples
        self.sizes = np.diff(objective.design.node_ptr)
        self.capacity = np.full(n, max(2, min(8, max_planes + 1)), dtype=np.int64)
        self.explicit = few_weights(objective)
        self.planes = self._allocate(self.capacity)
        self.planes.used[:] = 1
        self.planes.pool[ranges(self.planes.pool_ptr[:-1], self.sizes)] = objective.design.truth
        self.planes.alpha[self.planes.slot_ptr[:-1]] = objective.c
        self.weights = new_weights(objective.cone)
        self.scratch = objective.new_scratch(int(self.capacity.max(initial=1)))
        self.relaxed: dict[int, Relaxed] = {}

    def _allocate(self, capacity: np.ndarray) -> Planes:
        slot = np.concatenate([[0], np.cumsum(capacity)]).astype(np.int64)
        pool = np.concatenate([[0], np.cumsum(capacity * self.sizes)]).astype(np.int64)
        gram = np.concatenate([[0], np.cumsum(capacity**2)]).astype(np.int64)
        return Planes(
            slot,
            np.zeros(len(capacity), dtype=np.int64),
            np.zeros(slot[-1]),
            np.zeros(slot[-1]),
            np.zeros(slot[-1], dtype=np.int64),
            pool,
            np.zeros(pool[-1], dtype=np.int32),
            gram,
            np.zeros(gram[-1]),
            np.zeros((slot[-1], self.objective.n_weights) if self.explicit else (0, 0)),
        )

    @property
    def n_planes(self) -> int:
        """Planes of all examples."""
        return int(self.planes.used.sum())

    def add(self, examples: np.ndarray, keys: list[Key], max_steps: int, gaps: np.ndarray) -> tuple[float, float]:
        """Store an answer of each example and improve its block; returns (gain of the dual, entries touched)."""
        soft = [isinstance(key, Relaxed) for key in keys]
        left = examples
        if any(soft):
            for j, key in zip(examples.tolist(), keys, strict=True):
                if isinstance(key, Relaxed) and self.explicit:
                    self.add_relaxed(j, key)
            left = examples[~np.array(soft)]
            keys = [key for key, is_soft in zip(keys, soft, strict=True) if not is_soft]
        if len(left):
            self.insert(left, np.concatenate(keys), 0 if self.max_planes < 8 else _OLD)
        return self.ascend(examples.copy(), 1, max_steps, 0.0, 0.0, 0.0, 1e-300, gaps)

    def insert(self, examples: np.ndarray, labels: np.ndarray, oldest: int) -> None:
        """Store a labelling of each example, one after the other in ``labels``, unless it has it; planes of these examples that had no
        weight in ``oldest`` visits are dropped."""
        while len(examples):
            ptr = np.concatenate([[0], np.cumsum(self.sizes[examples])])
            full = np.zeros(len(examples), dtype=np.bool_)
            labels = labels.astype(np.int32, copy=False)
            oldest = _NEVER if self.keeps else oldest
            insert_all(self.objective.design, self.planes, examples, ptr, labels, oldest, self.scratch, full)
            self._add_gains(examples)
            if not full.any():
                return
            self.make_room(examples[full])
            examples, labels = examples[full], labels[np.repeat(full, np.diff(ptr))]

    def _add_gains(self, examples: np.ndarray) -> None:
        """What factors (or a loss that is no sum over nodes) add to the offset of the newest plane of each example, which the kernel has set to
        the loss of its labels."""
        if not getattr(self.objective, "has_gains", False):
            return
        planes, loss = self.planes, self.objective.design.loss
        for j in np.unique(examples).tolist():
            last, n = int(planes.used[j]) - 1, int(self.sizes[j])
            if last > 0:  # set anew from its labels: it may be an old one, where the labels were known
                start = int(planes.pool_ptr[j]) + last * n
                labels, first = planes.pool[start : start + n], int(self.objective.design.node_ptr[j])
                own = float(loss[np.arange(first, first + n), labels].sum())
                planes.offset[planes.slot_ptr[j] + last] = own + float(self.objective.gains(np.array([j]), [labels])[0])

    def add_relaxed(self, j: int, key: Relaxed) -> None:
        """Store pseudo-marginals of example ``j`` by their vector."""
        plane, z = self.objective.plane(j, key), np.zeros(self.objective.n_weights)
        z[plane.index] = plane.value
        number = max(self.relaxed, default=-1) + 1
        while insert_vector(self.planes, j, self.sizes[j], z, plane.offset, -1 - number) == -2:
            self.make_room(np.array([j]))
        self.relaxed[number] = key
        if len(self.relaxed) > 2 * self.n_planes:
            kept = {-1 - int(self.planes.pool[start]) for _, _, start in self._slots() if self.planes.pool[start] < 0}
            self.relaxed = {number: key for number, key in self.relaxed.items() if number in kept}

    def _slots(self) -> Iterator[tuple[int, int, int]]:
        """Of each plane but the truth: its example, its slot, where its labels start."""
        planes = self.planes
        for j in range(len(planes.used)):
            for i in range(1, int(planes.used[j])):
                yield j, int(planes.slot_ptr[j]) + i, int(planes.pool_ptr[j]) + i * int(self.sizes[j])

    def ascend(
        self,
        order: np.ndarray,
        n_passes: int,
        max_steps: int,
        active: float,
        least: float,
        gain: float,
        work: float,
        gaps: np.ndarray,
    ) -> tuple[float, float]:
        """`cached_passes`; returns gain and work in all, ``gain`` and ``work`` so far included."""
        _, gain, work = cached_passes(
            self.objective.design,
            self.planes,
            self.weights,
            order,
            n_passes,
            max_steps,
            active,
            least,
            gain,
            work,
            gaps,
            self.scratch,
        )
        return gain, work

    def make_room(self, examples: np.ndarray) -> None:
        """Room for one more plane of each example: drop what has no weight where the limit is reached, and double the room elsewhere."""
        grow = []
        for j in examples:
            if not self.keeps and self.capacity[j] > self.max_planes and drop(self.objective.design, self.planes, j, 0) > 0:
                continue
            grow.append(j)
        if not grow:
            return
        capacity, old = self.capacity.copy(), self.planes
        near = np.flatnonzero((old.used >= self.capacity - 2) & (self.capacity <= self.max_planes))
        capacity[np.union1d(grow, near)] *= 2
        new = self._allocate(capacity)
        copy_planes(self.sizes, old, self.capacity, new, capacity)
        self.capacity, self.planes = capacity, new
        self.scratch = self.objective.new_scratch(int(capacity.max()))

    def refresh(self) -> float:
        """Weights recomputed from the planes; returns the dual value."""
        total = rebuild(self.objective.design, self.planes, self.weights, self.scratch)
        return float(total - 0.5 * inner(self.weights.value, self.weights.value))

    @property
    def value(self) -> float:
        """The dual from multipliers and weights as they are, with the rounding of many steps; `refresh` makes the weights anew."""
        slots, w = ranges(self.planes.slot_ptr[:-1], self.planes.used), self.weights.value
        return float(self.planes.alpha[slots] @ self.planes.offset[slots] - 0.5 * (w @ w))

    def columns(self) -> Columns:
        planes = self.planes
        slots, block = (
            ranges(planes.slot_ptr[:-1] + 1, planes.used - 1),
            np.repeat(np.arange(len(planes.used)), planes.used - 1),
        )
        n_weights = self.objective.n_weights
        if self.explicit:
            rows: Any = planes.vector[slots]
        else:
            ptr, column, value = entries(self.objective.design, planes, self.scratch)
            rows = sparse.csr_array((value, column, ptr), shape=(len(slots), n_weights))
        return Columns(rows, planes.offset[slots], block, planes.alpha[slots], self.objective.c, np.zeros(n_weights))

    def assign(self, alpha: np.ndarray) -> None:
        planes, first = self.planes, self.planes.slot_ptr[:-1]
        slots, block = ranges(first + 1, planes.used - 1), np.repeat(np.arange(len(planes.used)), planes.used - 1)
        planes.alpha[slots] = alpha
        planes.alpha[first] = np.maximum(self.objective.c - np.bincount(block, alpha, len(first)), 0.0)
        planes.age[slots] = np.where(alpha > 0, 0, planes.age[slots] + 1)

    def rescale(self, c: np.ndarray) -> None:
        """Move the multipliers to another regularisation: each example's keep their proportions."""
        before = float(
            sum(self.planes.alpha[a : a + n].sum() for a, n in zip(self.planes.slot_ptr[:-1], self.planes.used, strict=True))
        )
        self.weights.mu[:] *= float(c.sum()) / before if before > 0 else 0.0
        for j, total in enumerate(c):
            first = self.planes.slot_ptr[j]
            own = self.planes.alpha[first : first + self.planes.used[j]]
            sum_before = own.sum()
            own *= total / sum_before if sum_before > 0 else 0.0
            own[0] += max(0.0, total - own.sum())

    def certificate(self) -> DualCertificate:
        """Planes with weight, as a proof of the dual value."""
        examples: list[int] = []
        keys: list[Key] = []
        alpha: list[float] = []
        planes = self.planes
        for j, slot, start in self._slots():
            if planes.alpha[slot] > 0:
                labels = planes.pool[start : start + self.sizes[j]]
                examples.append(j)
                keys.append(self.relaxed[-1 - int(labels[0])] if len(labels) and labels[0] < 0 else labels.astype(np.int32))
                alpha.append(planes.alpha[slot])
        return DualCertificate(np.array(examples, dtype=np.int64), tuple(keys), np.array(alpha), self.cone_multipliers)

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint."""
        arrays = {f"planes_{name}": value for name, value in self.planes._asdict().items()}
        packed = [key.pack() for key in self.relaxed.values()]
        return {
            **arrays,
            "relaxed_number": np.array(list(self.relaxed), dtype=np.int64),
            "relaxed_ptr": np.cumsum([0] + [len(row) for row in packed]),
            "relaxed": np.concatenate([np.zeros(0), *packed]),
            "capacity": self.capacity,
            "plain": self.weights.plain,
            "mu": self.weights.mu,
            "value": self.weights.value,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """The state that `state` gave."""
        self.capacity = np.array(state["capacity"])
        self.planes = Planes(*(np.array(state[f"planes_{name}"]) for name in Planes._fields))
        for name in ("plain", "mu", "value"):
            getattr(self.weights, name)[:] = state[name]
        self.scratch = self.objective.new_scratch(int(self.capacity.max(initial=1)))
        rows = np.split(state["relaxed"], state["relaxed_ptr"][1:-1]) if len(state["relaxed_number"]) else []
        self.relaxed = {int(i): Relaxed.unpack(row) for i, row in zip(state["relaxed_number"], rows, strict=True)}


def few_weights(objective: MarginObjective) -> bool:
    """Whether vectors of all weights are cheaper to keep than to make from labellings."""
    design, n = objective.design, max(1, objective.n_examples)
    if len(design.clique_ptr):
        return True
    if objective.relaxed and not objective.exact:
        return 20 * n * objective.n_weights * 8 <= _RELAXED_BYTES
    n_labels = min(design.loss.shape[1], _MOST_LABELS)
    labelling = (len(design.truth) + len(design.edges) + len(design.x_val) * n_labels / 8) / n
    return objective.n_weights / 4 < labelling and 20 * n * objective.n_weights * 8 <= _VECTOR_BYTES


def new_weights(cone: Cone) -> Weights:
    """Zero weights of a cone, for kernels."""
    rows = cone.rows
    plain = np.zeros(cone.n_weights)
    signed = bool(cone.nonneg.any())
    return Weights(
        plain,
        np.zeros(cone.n_weights) if signed else plain,
        cone.nonneg.astype(np.uint8) if signed else np.zeros(0, dtype=np.uint8),
        rows.indptr.astype(np.int64),
        rows.indices.astype(np.int32),
        rows.data.astype(np.float64),
        np.asarray(rows.multiply(rows).sum(axis=1)).ravel().astype(np.float64),
        np.zeros(rows.shape[0]),
    )


def ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """``start .. start + length - 1`` of each range, one after the other."""
    lengths = np.asarray(lengths, dtype=np.int64)
    ends = np.cumsum(lengths)
    return np.repeat(np.asarray(starts, dtype=np.int64) - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)


def scratch_for(design: Design, size: int, n_weights: int, capacity: int) -> Scratch:
    """Work space of kernels for ``capacity`` planes an example; ``size`` is `largest_difference` of the design."""
    nodes, n_labels, room = int(np.diff(design.node_ptr).max(initial=1)), design.loss.shape[1], max(1, capacity)
    return Scratch(
        np.zeros(size, dtype=np.int32),
        np.zeros(size),
        np.zeros(n_weights),
        np.zeros(room),
        np.zeros(room),
        np.zeros(room, dtype=np.int64),
        np.zeros(nodes, dtype=np.uint8),
        np.zeros((nodes, n_labels)),
        np.zeros(n_labels),
        np.zeros(n_labels, dtype=np.uint8),
        np.zeros(n_labels + 1, dtype=np.int64),
    )
