"""TreeBundle: the proximal problems of Algorithm 1 with a model for every tree, by dual block-coordinate ascent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...kernels.dual_bound import add_tree_labellings
from ...kernels.planes import largest_difference
from ...kernels.records import Design, Scratch
from ...models.cone import Cone
from .dual_bound import BoundPoint, DualBound
from .planes import PlaneStore, scratch_for
from .pseudo_marginals import PseudoMarginals


@dataclass(frozen=True)
class Tuning:
    """Constants of `TreeBundle`."""

    steps: int = 10  # pairwise steps in a visit of a tree
    passes: int = 3  # over all trees between two evaluations: as much work as finding new labellings takes
    most_passes: int = 1000  # where trees have all labellings that were found, passes are all that is left
    active: float = 1.0  # trees with less than this times the mean gap are left out of short runs of passes
    oldest: int = 5  # visits without weight after which a labelling goes
    planes: int = 40  # of a tree; more only while all have weight


TUNING = Tuning()


class _Shapes:
    """What a `PlaneStore` asks of a model."""

    def __init__(self, starts: np.ndarray, truth: np.ndarray, n_labels: int):
        self._starts, self._truth, self.n_labels = starts, truth, n_labels

    def truth(self, c: int) -> np.ndarray:
        return self._truth[self._starts[c] : self._starts[c + 1]]


class TreeProblem:
    r"""A proximal problem as a large-margin problem of its own: its examples are the trees of a `DualBound`, its weights those of
    the model, then :math:`\psi` with :math:`\varphi = \hat\varphi + \sqrt{\lambda/2}\,\psi`, so that

    .. math:: F(w, \varphi) + \tfrac1\lambda\|\varphi - \hat\varphi\|^2
              = \tfrac12\|(w, \psi)\|^2 + \sum_c c_{j(c)}\,\xi_c(w, \psi);

    the centre is a part of the losses. It has what a `PlaneStore` asks for; trees are asked together, by `DualBound.evaluate`.
    """

    exact, relaxed = True, False

    def __init__(self, bound: DualBound, centre: np.ndarray, scale: float):
        objective, copies, design = bound.objective, bound.copies, bound.design
        size, n_rows = bound.model.n_labels, bound.n_messages
        nonneg = np.concatenate([objective.cone.nonneg, np.zeros(n_rows * size, dtype=bool)])
        self.c = np.repeat(objective.c, np.diff(copies.tree_ptr))
        self.n_examples, self.n_weights = len(self.c), len(nonneg)
        self.cone = Cone(len(nonneg), nonneg, objective.cone.tables)
        self.root = float(np.sqrt(0.5 * scale))
        truth = design.truth[copies.owner]
        self.model = _Shapes(copies.starts, truth, size)
        shift = np.zeros((len(truth), size))
        np.add.at(shift, copies.free, centre)
        np.subtract.at(shift, copies.last, centre)
        loss = copies.share[:, None] * design.loss[copies.owner] + shift - shift[np.arange(len(truth)), truth][:, None]
        tree = np.searchsorted(copies.starts, copies.edges[:, 0], side="right") - 1
        self.order = np.argsort(tree, kind="stable")
        f = sparse.csr_array((design.f_val, design.f_col, design.f_ptr), shape=(len(design.f_ptr) - 1, len(design.edge_index)))
        f = f[_rows(self.order, design.edge_step, size * size)]
        x, node_index, node_base = _with_messages(bound, self.root)
        self.design = Design(
            copies.starts,
            np.searchsorted(tree[self.order], np.arange(len(copies.starts))).astype(np.int64),
            np.ascontiguousarray(copies.edges[self.order]),
            x.indptr.astype(np.int64),
            x.indices.astype(np.int32),
            x.data,
            node_index,
            node_base,
            design.node_step,
            f.indptr.astype(np.int64),
            f.indices.astype(np.int32),
            f.data,
            design.edge_index,
            design.edge_step,
            truth,
            np.ascontiguousarray(loss),
        )
        self.size = int(largest_difference(self.design))

    def new_scratch(self, capacity: int) -> Scratch:
        """Work space for kernels."""
        return scratch_for(self.design, self.size, self.n_weights, capacity)


def _rows(items: np.ndarray, step: np.ndarray, width: int) -> np.ndarray:
    """Rows of a design that belong to nodes or edges: one each, or one for each of their labels."""
    return (items[:, None] * width + np.arange(width)).ravel() if step[1] else items


def _with_messages(bound: DualBound, root: float) -> tuple[Any, np.ndarray, np.ndarray]:
    """Features of the copies: a share of their node's, and the messages; with `node_index` and `node_base`."""
    design, copies, size = bound.design, bound.copies, bound.model.n_labels
    n_copies, n_rows, n_model = len(copies.owner), bound.n_messages, bound.objective.n_weights
    x = sparse.csr_array((design.x_val, design.x_col, design.x_ptr), shape=(len(design.x_ptr) - 1, len(design.node_index)))
    joint = bool(design.node_step[1])
    own = sparse.csr_array(x[_rows(copies.owner, design.node_step, size)])
    own = sparse.csr_array(sparse.diags_array(np.repeat(copies.share, size if joint else 1)) @ own)
    ends, rows = np.concatenate([copies.free, copies.last]), np.tile(np.arange(n_rows), 2)
    sign = np.repeat([root, -root], n_rows)
    index = n_model + np.arange(n_rows * size).reshape(n_rows, size)
    if joint:
        ends, rows = (ends[:, None] * size + np.arange(size)).ravel(), (rows[:, None] * size + np.arange(size)).ravel()
        sign, index = np.repeat(sign, size), np.repeat(n_model + np.arange(n_rows * size)[:, None], size, axis=1)
        n_copies *= size
    extra = sparse.csr_array((sign, (ends, rows)), shape=(n_copies, len(index)))
    whole = sparse.csr_array(sparse.hstack([own, extra], format="csr"))
    node_index = np.ascontiguousarray(np.concatenate([design.node_index, index]).astype(np.int32))
    base = np.concatenate([design.node_base, np.full(len(index), -1) if joint else index[:, 0]]).astype(np.int32)
    return whole, node_index, base


class TreeBundle:
    r"""As `Bundle`, with a model for each tree, which keeps the labellings that it has had; the dual

    .. math:: \max_{\alpha, \nu}\; \sum_{c,i} \alpha_{ci} b_{ci} - \tfrac12\|w\|^2 - \tfrac\lambda4\|S\alpha\|^2, \qquad
              \textstyle\sum_i \alpha_{ci} = c_{j(c)},

    is improved tree by tree with closed-form steps, so it takes no quadratic program, and a tree's plane says more than that of a
    whole example.

    Parameters
    ----------
    bound : DualBound
    random_state : int
        For the order of the trees.
    """

    def __init__(self, bound: DualBound, random_state: int = 0):
        self.bound, self.objective = bound, bound.objective
        self.random = np.random.default_rng(random_state)
        self.store: PlaneStore | None = None
        self.passes = TUNING.passes
        self.recentre(bound.zeros(), 1.0)

    @property
    def tree_store(self) -> PlaneStore:
        """The planes of the trees; there are some after the first answer."""
        assert self.store is not None
        return self.store

    def reweight(self) -> None:
        """Take the weights of the examples as they are now."""
        self.recentre(self.centre, self.scale)

    def recentre(self, centre: np.ndarray, scale: float) -> None:
        r"""Make the proximal problem around ``centre`` with :math:`\lambda` = ``scale``; labellings and multipliers stay."""
        self.centre, self.scale = centre.copy(), scale
        before = self.store
        self.trees = TreeProblem(self.bound, centre, scale)
        self.store = PlaneStore(self.trees, TUNING.planes)  # type: ignore[arg-type]
        self.gaps = np.zeros(self.trees.n_examples)
        if before is not None:
            self._move(before)
        self.dual = self.tree_store.refresh()

    def _move(self, before: PlaneStore) -> None:
        """Labellings with weight from another store, with their share of the weight."""
        old, store, starts = before.planes, self.tree_store, self.bound.copies.starts
        taken: list[tuple[np.ndarray, np.ndarray]] = []
        for slot in range(1, int(old.used.max(initial=1))):
            own = np.flatnonzero(old.used > slot)
            own = own[old.alpha[old.slot_ptr[own] + slot] > 0]
            if len(own):
                flat = [
                    old.pool[p + slot * n : p + (slot + 1) * n]
                    for p, n in zip(old.pool_ptr[own], before.sizes[own], strict=True)
                ]
                store.insert(own, np.concatenate(flat), TUNING.oldest)
                taken.append((own, old.alpha[old.slot_ptr[own] + slot]))
        new, filled = store.planes, np.ones(len(starts) - 1, dtype=np.int64)
        total = before.objective.c
        ratio = np.divide(self.trees.c, total, out=np.zeros_like(total), where=total > 0)
        new.alpha[new.slot_ptr[:-1]] = old.alpha[old.slot_ptr[:-1]] * ratio
        for own, alpha in taken:
            new.alpha[new.slot_ptr[own] + filled[own]] = alpha * ratio[own]
            filled[own] += 1
        store.weights.mu[:] = before.weights.mu * float(ratio.max(initial=0.0))

    def solve(self, tol: float) -> tuple[np.ndarray, np.ndarray, float]:
        """Passes over the stored labellings; the weights (in the cone), the messages, and the lower bound."""
        store, order = self.tree_store, self.random.permutation(self.trees.n_examples)
        gain, work = store.ascend(order, 1, TUNING.steps, 0.0, 0.0, 0.0, 1e-300, self.gaps)
        active, gain = (TUNING.active, gain) if self.passes <= TUNING.passes else (0.0, 0.0)
        store.ascend(order, self.passes, TUNING.steps, active, 1e-12 * abs(self.dual), gain, 3.0 * work, self.gaps)
        self.dual = store.value
        n, value = self.objective.n_weights, store.weights.value
        turn = value[n:].reshape(self.centre.shape)
        return self.objective.repair(value[:n]), self.centre + self.trees.root * turn, self.dual

    def add(self, point: BoundPoint, w: np.ndarray, phi: np.ndarray, least: float) -> int:
        """A labelling for each tree that does not have it; returns how many. If all have it, the next solution takes more passes."""
        before = int(self.tree_store.planes.used.sum())
        self.tree_store.insert(np.arange(self.trees.n_examples), point.labels, TUNING.oldest)
        new = int(self.tree_store.planes.used.sum()) - before
        self.passes = TUNING.passes if new > 0 else min(4 * self.passes, TUNING.most_passes)
        return max(1, new)

    def marginals(self) -> PseudoMarginals:
        """The mixture of labellings that the multipliers are, moved into the local polytope."""
        node, edge = self.bound.empty_tables()
        copies, planes = self.bound.copies, self.tree_store.planes
        add_tree_labellings(copies, planes, self.trees.c, node, edge)
        rest = np.where(self.objective.c > 0, 0.0, 1.0)
        return self.bound.settled(node, edge, rest)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        own = {"random": self.random, "passes": self.passes, "centre": self.centre, "scale": self.scale}
        return own | {"store": self.tree_store.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """What `state` gave."""
        self.random, self.passes, self.store = state["random"], state["passes"], None
        self.recentre(state["centre"], state["scale"])
        self.tree_store.restore(state["store"])
