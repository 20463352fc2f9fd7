"""RegionStore: the labellings that a learner keeps of each region of each example, with multipliers of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels.design import Design
from ...kernels.net import adjacency
from ...kernels.region_planes import base_plane, region_passes, sparse_vectors
from ...kernels.regions import Regions, extend, marginals
from ...kernels.vectors import inner
from ..certificate import DualCertificate
from ..oracles.base import Key
from ..oracles.relaxed import Relaxed
from .planes import PlaneStore, new_weights

if TYPE_CHECKING:
    from ..objectives.margin import MarginObjective

_MEMORY = 0
_NODES = 100
_NONE, _NO_CLIQUES = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)


def no_regions(truth: np.ndarray) -> Regions:
    """Every node has its true label."""
    n, ptr = len(truth), np.zeros(1, dtype=np.int64)
    none = np.full(n, -1), np.zeros(n, dtype=np.int64)
    return Regions(truth.astype(np.int32), *none, ptr, _NONE, ptr, ptr, _NO_CLIQUES, np.zeros(0), _NONE)


def relaxed_keys(
    regions: Regions, node_ptr: np.ndarray, edge_ptr: np.ndarray, edges: np.ndarray, n_labels: int
) -> list[Relaxed]:
    """The marginals of each example when every region mixes its labellings by itself."""
    node = np.zeros((len(regions.node), n_labels))
    inside = np.flatnonzero((regions.region[edges[:, 0]] >= 0) & (regions.region[edges[:, 1]] >= 0))
    edge = np.zeros((len(inside), n_labels, n_labels))
    marginals(regions, node, edges[inside], edge)
    node /= node.sum(axis=1, keepdims=True)
    labels = regions.base.copy()
    labels[regions.node] = node.argmax(axis=1)
    order = np.argsort(regions.node, kind="stable")
    nodes, node = regions.node[order], node[order]
    keys = []
    for j in range(len(node_ptr) - 1):
        first, last = (int(i) for i in node_ptr[j : j + 2])
        own = slice(*np.searchsorted(nodes, [first, last]).tolist())
        ours = slice(*np.searchsorted(inside, edge_ptr[j : j + 2]).tolist())
        keys.append(Relaxed(labels[first:last], nodes[own] - first, node[own], inside[ours] - int(edge_ptr[j]), edge[ours]))
    return keys


def fits(objective: Any) -> bool:
    """Whether regions are worth their while: the linear relaxation on large graphs with cycles, with pairwise terms alone."""
    design = objective.design
    if not objective.relaxed or objective.exact or len(design.clique_ptr) or objective.cone.rows.shape[0]:
        return False
    return len(design.truth) >= _NODES * objective.n_examples


def own_design(design: Design, j: int) -> Design:
    """The design of one example by itself, its features as views."""
    first, last = int(design.node_ptr[j]), int(design.node_ptr[j + 1])
    low, high = int(design.edge_ptr[j]), int(design.edge_ptr[j + 1])
    x, f = int(design.node_step[0]), int(design.edge_step[0])
    return design._replace(
        node_ptr=np.array([0, last - first]),
        edge_ptr=np.array([0, high - low]),
        edges=design.edges[low:high] - np.int32(first),
        x_ptr=design.x_ptr[first * x : last * x + 1],
        f_ptr=design.f_ptr[low * f : high * f + 1],
        truth=design.truth[first:last],
        loss=design.loss[first:last],
    )


class _Example:
    """Regions of one example, the vectors of their labellings, their last known gaps."""

    def __init__(self, design: Design):
        self.design, n = design, len(design.truth)
        ptr, adj_edge, _ = adjacency(n, design.edges)
        self.links = ptr, adj_edge, np.zeros(n + 1, dtype=np.int64), _NO_CLIQUES
        self.regions = no_regions(design.truth)
        self.z = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0)
        self.offset, self.gaps = np.zeros(0), np.zeros(0)

    def set(self, regions: Regions, scratch: Any) -> None:
        self.regions, self.offset = regions, np.empty(len(regions.alpha))
        self.z = sparse_vectors(self.design, regions, *self.links, scratch.dense, scratch.index, self.offset)
        self.gaps = np.full(len(regions.node_ptr) - 1, np.inf)

    def mean(self, scratch: Any, n_weights: int) -> tuple[np.ndarray, float]:
        """Vector and loss of the mixture of the regions."""
        u, regions = np.zeros(n_weights), self.regions
        loss = base_plane(self.design, regions, np.ones(1), scratch.index, scratch.value, u)
        z_ptr, column, value = self.z
        u += np.bincount(column, np.repeat(regions.alpha, np.diff(z_ptr)) * value, n_weights)
        return u, float(loss + regions.alpha @ self.offset)


class RegionStore:
    r"""Planes of an `LPObjective`, kept region by region; the dual is

    .. math:: \max_\alpha \sum_r c_r\,\alpha_r^\top b_r - \tfrac12\Big\|\sum_r c_r\,\alpha_r^\top z_r\Big\|^2,\quad
              \alpha_r \ge 0,\ \mathbf 1^\top\alpha_r = 1 .

    Labellings of an example agree on most nodes; the others fall apart into regions without links between them, and every choice of a
    labelling for each region is a labelling (see `kernels.regions`). So one call of the oracle gives as many planes as there are
    regions, where `PlaneStore` has one. Pseudo-marginals of the oracle are left out: where they are needed, go on with `as_planes`.

    Parameters
    ----------
    objective : LPObjective
        One that `fits`.
    """

    explicit = True

    def __init__(self, objective: MarginObjective):
        self.objective = objective
        self.examples = [_Example(own_design(objective.design, j)) for j in range(objective.n_examples)]
        self.c = objective.c.copy()
        self.weights = new_weights(objective.cone)
        self.nonneg = objective.cone.nonneg.astype(np.uint8)
        self.scratch = objective.new_scratch(1)

    @property
    def n_planes(self) -> int:
        """Planes of all regions of all examples."""
        return sum(len(own.offset) for own in self.examples)

    def add(self, examples: np.ndarray, keys: Sequence[Key], max_steps: int, gaps: np.ndarray) -> tuple[float, float]:
        """Store an answer of each example and improve its regions; returns (gain of the dual, entries touched)."""
        for j, key in zip(examples.tolist(), keys, strict=True):
            own = self.examples[j]
            if not isinstance(key, Relaxed):
                own.set(extend(own.design, own.regions, key.astype(np.int32, copy=False), _MEMORY), self.scratch)
        return self.ascend(examples, 1, max_steps, 0.0, 0.0, 0.0, 1e-300, gaps)

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
        """Passes over the regions of some examples while they pay (`region_passes`); returns gain and work in all, those so far included."""
        chosen, weights = [self.examples[j] for j in order.tolist()], self.weights
        atoms, entries, n_regions = (
            np.cumsum([0, *(size(own) for own in chosen)])
            for size in (lambda own: len(own.offset), lambda own: len(own.z[1]), lambda own: len(own.gaps))
        )
        z_ptr, atom_ptr = (
            np.concatenate(
                [np.zeros(1, dtype=np.int64), *(rows[1:] + start for rows, start in zip(each, starts[:-1], strict=True))]
            )
            for each, starts in (([own.z[0] for own in chosen], entries), ([own.regions.atom_ptr for own in chosen], atoms))
        )
        column, value, offset, alpha, gap = (
            np.concatenate(rows)
            for rows in zip(*((*own.z[1:], own.offset, own.regions.alpha, own.gaps) for own in chosen), strict=True)
        )
        if len(gap):
            c = np.repeat(self.c[order], np.diff(n_regions))
            gain, work = region_passes(
                z_ptr, column, value, offset, alpha, atom_ptr, c, weights.plain, weights.value, self.nonneg, n_passes, max_steps, least,
                gain, float(work), self.scratch.dense, gap,
            )  # fmt: skip
        for i, (j, own) in enumerate(zip(order.tolist(), chosen, strict=True)):
            own.regions.alpha[:] = alpha[atoms[i] : atoms[i + 1]]
            own.gaps[:] = gap[n_regions[i] : n_regions[i + 1]]
            gaps[j] = own.gaps.sum()
        return gain, work

    def refresh(self) -> float:
        """Weights recomputed from the planes; returns the dual value."""
        u, total = np.zeros(self.objective.n_weights), 0.0
        for own, c in zip(self.examples, self.c, strict=True):
            z, loss = own.mean(self.scratch, len(u))
            u += c * z
            total += c * loss
        self.weights.plain[:] = u
        if self.weights.value is not self.weights.plain:
            self.weights.value[:] = np.where(self.nonneg, np.maximum(u, 0.0), u)
        return float(total - 0.5 * inner(self.weights.value, self.weights.value))

    def rescale(self, c: np.ndarray) -> None:
        """Move the multipliers to another regularisation: each example's keep their proportions."""
        self.c = c.copy()

    def keys(self) -> list[Relaxed]:
        """The marginals of each example."""
        n_labels = self.objective.model.n_labels
        designs = [own.design for own in self.examples]
        return [
            relaxed_keys(own.regions, design.node_ptr, design.edge_ptr, design.edges, n_labels)[0]
            for own, design in zip(self.examples, designs, strict=True)
        ]

    def certificate(self) -> DualCertificate:
        """Marginals of each example, as a proof of the dual value."""
        below = np.maximum(-self.weights.plain[self.objective.cone.nonneg], 0.0)
        return DualCertificate(np.arange(self.objective.n_examples), tuple(self.keys()), self.c.copy(), below)

    def as_planes(self, max_planes: int) -> PlaneStore:
        """The same dual point, with one plane an example: its marginals."""
        store = PlaneStore(self.objective, max_planes)
        for j, key in enumerate(self.keys()):
            store.add_relaxed(j, key)
        first = store.planes.slot_ptr[:-1]
        store.planes.alpha[first], store.planes.alpha[first + 1] = 0.0, self.c
        store.refresh()
        return store

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint."""
        found: dict[str, np.ndarray] = {"plain": self.weights.plain, "value": self.weights.value}
        for name in Regions._fields:
            rows = [getattr(own.regions, name) for own in self.examples]
            found[f"regions_{name}"], found[f"regions_{name}_size"] = np.concatenate(rows), np.array([len(row) for row in rows])
        return found | {"region_gaps": np.concatenate([own.gaps for own in self.examples])}

    def restore(self, state: Mapping[str, Any]) -> None:
        """The state that `state` gave."""
        fields = [_split(state[f"regions_{name}"], state[f"regions_{name}_size"]) for name in Regions._fields]
        for own, *rows in zip(self.examples, *fields, strict=True):
            own.set(Regions(*rows), self.scratch)
        sizes = np.array([len(own.gaps) for own in self.examples])
        for own, gaps in zip(self.examples, _split(state["region_gaps"], sizes), strict=True):
            own.gaps = gaps
        for name in ("plain", "value"):
            getattr(self.weights, name)[:] = state[name]


def _split(rows: np.ndarray, sizes: np.ndarray) -> list[np.ndarray]:
    ends = np.cumsum(sizes).tolist()
    return [np.array(rows[end - size : end]) for size, end in zip(np.asarray(sizes).tolist(), ends, strict=True)]
