"""PlaneStore: the labellings that a learner keeps of each example, in arrays that kernels read, with room to grow."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.block_ascent import cached_passes, rebuild
from ..kernels.planes import Planes, Weights, copy_planes, drop, insert_all
from ..models.cone import Cone
from .certificate import DualCertificate
from .objective import MarginObjective

_VECTOR_BYTES = 2**29
_OLD = 10


class PlaneStore:
    """Planes of a `MarginObjective` as labellings, with their multipliers.

    Parameters
    ----------
    objective : MarginObjective
    max_planes : int
        Planes without weight are dropped when an example has more than this; planes with weight are never dropped, so the
        dual never falls.
    """

    def __init__(self, objective: MarginObjective, max_planes: int = 40):
        self.objective, self.max_planes = objective, max_planes
        n = objective.n_examples
        self.sizes = np.diff(objective.design.node_ptr)
        self.capacity = np.full(n, max(2, min(8, max_planes + 1)), dtype=np.int64)
        self.explicit = few_weights(objective)
        self.planes = self._allocate(self.capacity)
        self.planes.used[:] = 1
        for j in range(n):
            start = self.planes.pool_ptr[j]
            self.planes.pool[start : start + self.sizes[j]] = objective.model.truth(j)
        self.planes.alpha[self.planes.slot_ptr[:-1]] = objective.c
        self.weights = new_weights(objective.cone)
        self.scratch = objective.new_scratch(int(self.capacity.max(initial=1)))

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
        return int(self.planes.used.sum())

    def add(self, examples: np.ndarray, keys: list[np.ndarray], max_steps: int, gaps: np.ndarray) -> tuple[float, float]:
        """Store a labelling of each example and improve its block; returns (gain of the dual, entries touched)."""
        design, left = self.objective.design, examples
        while len(left):
            ptr = np.concatenate([[0], np.cumsum(self.sizes[left])])
            full = np.zeros(len(left), dtype=np.bool_)
            flat = np.concatenate(keys).astype(np.int32, copy=False)
            insert_all(design, self.planes, left, ptr, flat, 0 if self.max_planes < 8 else _OLD, self.scratch, full)
            if not full.any():
                break
            self._make_room(left[full])
            left, keys = left[full], [key for key, again in zip(keys, full, strict=True) if again]
        return self.ascend(examples.copy(), 1, max_steps, 0.0, 0.0, 0.0, 1e-300, gaps)

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

    def _make_room(self, examples: np.ndarray) -> None:
        """Drop what has no weight where the limit is reached, and double the room elsewhere."""
        grow = []
        for j in examples:
            if self.capacity[j] > self.max_planes and drop(self.objective.design, self.planes, j, 0) > 0:
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
        return float(total - 0.5 * (self.weights.value @ self.weights.value))

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
        examples, keys, alpha = [], [], []
        planes = self.planes
        for j in range(len(planes.used)):
            first, size = int(planes.slot_ptr[j]), int(self.sizes[j])
            for i in range(1, int(planes.used[j])):
                if planes.alpha[first + i] > 0:
                    start = int(planes.pool_ptr[j]) + i * size
                    examples.append(j)
                    keys.append(planes.pool[start : start + size].astype(np.int32))
                    alpha.append(planes.alpha[first + i])
        nonneg = self.objective.cone.nonneg
        below = np.maximum(-self.weights.plain[nonneg], 0.0)
        return DualCertificate(
            np.array(examples, dtype=np.int64), tuple(keys), np.array(alpha), np.concatenate([below, self.weights.mu])
        )

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint."""
        arrays = {f"planes_{name}": value for name, value in self.planes._asdict().items()}
        return {
            **arrays,
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


def few_weights(objective: MarginObjective) -> bool:
    """Whether vectors of all weights are cheaper to keep than to make from labellings."""
    design, n = objective.design, max(1, objective.n_examples)
    labelling = (len(design.truth) + len(design.edges) + len(design.x_val) * design.loss.shape[1] / 8) / n
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
