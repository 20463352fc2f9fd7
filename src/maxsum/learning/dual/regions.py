"""RegionStore: the labellings that a learner keeps of each region of each example, with multipliers of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from ...kernels.net import adjacency, memberships
from ...kernels.records import Design, Regions
from ...kernels.region_planes import base_plane, region_passes, sparse_vectors
from ...kernels.regions import extend, marginals
from ...kernels.vectors import inner
from ..certificate import DualCertificate
from ..oracles.base import Key
from ..oracles.relaxed import Relaxed
from .model import Columns, DualModel
from .planes import PlaneStore, new_weights

if TYPE_CHECKING:
    from ..objectives.margin import MarginObjective

_MEMORY = 0  # visits for which a labelling without weight is kept: more of them make a better model, of fewer regions
_NODES = 100  # of an example: in smaller ones labellings differ everywhere, so there is one region
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


class RegionPlanes:
    """Regions of one example, or of several together, the vectors of their labellings, their last known gaps.

    Parameters
    ----------
    design : Design
    c : ndarray
        Weight of each example of the design.
    """

    def __init__(self, design: Design, c: np.ndarray):
        self.design, self.c, n = design, c.copy(), len(design.truth)
        ptr, adj_edge, _ = adjacency(n, design.edges)
        member_ptr, member = memberships(n, design.member)
        owner = np.repeat(np.arange(len(design.member_ptr) - 1), np.diff(design.member_ptr))
        self.links = ptr, adj_edge, member_ptr, owner[member].astype(np.int32)
        self.regions = no_regions(design.truth)
        self.z = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), np.zeros(0)
        self.offset, self.gaps = np.zeros(0), np.zeros(0)

    def set(self, regions: Regions, scratch: Any) -> None:
        """Other regions; their vectors are made anew."""
        self.regions, self.offset = regions, np.empty(len(regions.alpha))
        self.z = sparse_vectors(self.design, regions, *self.links, scratch.dense, scratch.index, self.offset)
        self.gaps = np.full(len(regions.node_ptr) - 1, np.inf)

    @property
    def limit(self) -> np.ndarray:
        """``c`` of each region."""
        first = self.regions.node[self.regions.node_ptr[:-1]]
        return np.asarray(self.c[np.searchsorted(self.design.node_ptr, first, side="right") - 1])

    def origin(self, scratch: Any, n_weights: int) -> tuple[np.ndarray, float]:
        """Vector and loss, weighted, of the labelling where every region has its first one, from which those of others are counted."""
        u = np.zeros(n_weights)
        return u, float(base_plane(self.design, self.regions, self.c, scratch.index, scratch.value, u))

    def mean(self, scratch: Any, n_weights: int) -> tuple[np.ndarray, float]:
        """Vector and loss, weighted, of the mixture of the regions."""
        (u, loss), (z_ptr, column, value) = self.origin(scratch, n_weights), self.z
        weight = np.repeat(self.limit, np.diff(self.regions.atom_ptr)) * self.regions.alpha
        u += np.bincount(column, np.repeat(weight, np.diff(z_ptr)) * value, n_weights)
        return u, float(loss + weight @ self.offset)

    def rows(self, n_weights: int) -> Any:
        """Vectors of all labellings, (atoms, P)."""
        z_ptr, column, value = self.z
        return sparse.csr_array((value, column, z_ptr), shape=(len(self.offset), n_weights))


class RegionStore(DualModel):
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
    apart : bool
        Keep the regions of each example by themselves, so that examples can be visited one at a time.

    Attributes
    ----------
    examples : list of RegionPlanes
        One for each example, or a single one for all.
    """

    explicit = True

    def __init__(self, objective: MarginObjective, apart: bool = True):
        self.objective, self.c = objective, objective.c.copy()
        if apart:
            n = objective.n_examples
            self.examples = [RegionPlanes(own_design(objective.design, j), self.c[j : j + 1]) for j in range(n)]
        else:
            self.examples = [RegionPlanes(objective.design, self.c)]
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
                own.set(Regions(*extend(own.design, own.regions, key.astype(np.int32, copy=False), _MEMORY)), self.scratch)
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
            c = np.concatenate([own.limit for own in chosen])
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
        for own in self.examples:
            z, loss = own.mean(self.scratch, len(u))
            u += z
            total += loss
        self.weights.plain[:] = u
        if self.weights.value is not self.weights.plain:
            self.weights.value[:] = np.where(self.nonneg, np.maximum(u, 0.0), u)
        return float(total - 0.5 * inner(self.weights.value, self.weights.value))

    def columns(self) -> Columns:
        """The labellings of all regions but the first of each, from which their vectors are counted; the first ones make the origin."""
        n_weights, origin = self.objective.n_weights, np.zeros(self.objective.n_weights)
        for own in self.examples:
            origin += own.origin(self.scratch, n_weights)[0]
        limit, kept = np.concatenate([own.limit for own in self.examples]), self._later()
        block = np.repeat(np.arange(len(limit)), np.concatenate([np.diff(own.regions.atom_ptr) for own in self.examples]))
        rows = [own.rows(n_weights) for own in self.examples]
        offset = np.concatenate([own.offset for own in self.examples])[kept]
        alpha = np.concatenate([own.regions.alpha for own in self.examples])[kept] * limit[block[kept]]
        return Columns(sparse.csr_array(sparse.vstack(rows, format="csr"))[kept], offset, block[kept], alpha, limit, origin)

    def _later(self) -> np.ndarray:
        """Which labellings of all regions of all examples are not the first of theirs."""
        ends = np.cumsum([0, *(len(own.offset) for own in self.examples)])
        first = np.concatenate([own.regions.atom_ptr[:-1] + start for own, start in zip(self.examples, ends[:-1], strict=True)])
        mask = np.ones(int(ends[-1]), dtype=bool)
        mask[first] = False
        return np.flatnonzero(mask)

    def assign(self, alpha: np.ndarray) -> None:
        kept = self._later()
        every = np.zeros(self.n_planes)
        every[kept] = alpha
        start = 0
        for own in self.examples:
            regions, stop = own.regions, start + len(own.offset)
            c = np.repeat(own.limit, np.diff(regions.atom_ptr))
            share, start = np.divide(every[start:stop], c, out=np.zeros_like(c), where=c > 0), stop
            if len(share):
                share[regions.atom_ptr[:-1]] = np.maximum(1.0 - np.add.reduceat(share, regions.atom_ptr[:-1]), 0.0)
            regions.alpha[:] = share

    def rescale(self, c: np.ndarray) -> None:
        """Move the multipliers to another regularisation: each example's keep their proportions."""
        self.c = c.copy()
        ends = np.cumsum([0, *(len(own.c) for own in self.examples)])
        for own, first, last in zip(self.examples, ends[:-1], ends[1:], strict=True):
            own.c = self.c[first:last].copy()

    def keys(self) -> list[Relaxed]:
        """The marginals of each example."""
        n_labels, keys = self.objective.model.n_labels, []
        for own in self.examples:
            design = own.design
            keys += relaxed_keys(own.regions, design.node_ptr, design.edge_ptr, design.edges, n_labels)
        return keys

    def certificate(self) -> DualCertificate:
        """Marginals of each example, as a proof of the dual value.

        Cliques take the largest share that marginals of their nodes allow, which may be more than the mixture has, so the multipliers of signs
        are those of the planes of the marginals.
        """
        keys, u = self.keys(), np.zeros(self.objective.n_weights)
        for j, key in enumerate(keys):
            plane = self.objective.plane(j, key)
            u[plane.index] += self.c[j] * plane.value
        below = np.maximum(-u[self.objective.cone.nonneg], 0.0)
        return DualCertificate(np.arange(len(keys)), tuple(keys), self.c.copy(), below)

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
