"""RegionBundle: the proximal bundle method with a model that is taken apart by regions, for few large graphs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...core.errors import UnsupportedProblemError
from ...core.result import Termination
from ...kernels.net import adjacency, memberships
from ...kernels.region_planes import ascend, base_plane, sparse_ascend, sparse_vectors, vectors
from ...kernels.regions import Regions, extend
from ..certificate import DualCertificate
from ..driver import Learner, Training
from ..dual.regions import no_regions, relaxed_keys
from ..objectives.lp import LPObjective
from ..objectives.margin import Answer
from ..oracles.relaxed import Relaxed
from .block_frank_wolfe import certain, feasible, is_exact
from .cutting_plane import CuttingPlane, Master

_PASSES, _STEPS, _PRECISION, _EARLY = 200, 3, 0.02, 0.1
_SERIOUS, _LIGHTER, _HEAVIER, _HEAVIEST = 0.3, 0.5, 1.5, 1e4
_LOOSE = 0.3
_QUICK, _EXPAND, _AGAIN = -2, -3, 8
_OFTEN = 25
_STUCK, _OPEN = 60, 8
_DENSE = 200


@dataclass(frozen=True)
class RegionBundle(Learner):
    r"""Proximal bundle method whose model has a maximum of its own for each *region* of a graph.

    Labellings that the oracle gave agree on most nodes once the weights are roughly right. The nodes where they do not fall apart
    into regions without links between them. Scores and features are sums over regions, so all mixtures of the labellings of
    each region, chosen independently, are distributions of labellings, and the model is

    .. math:: F_{model}(w) = \tfrac12\|w\|^2 + \sum_r c_r \max_{a \in r}\,(b_a - \langle w, z_a\rangle) + \text{const}
              \;\le\; F(w) .

    One call of the oracle gives as many planes as there are regions, also where there is a single example. The next point minimises
    :math:`F_{model}(w) + \tfrac\tau2\|w - \hat w\|^2` by pairwise steps in its dual, with the weights cut off at 0 where the cone
    says so (their multipliers are the negative parts). The lower bound is the dual at :math:`\tau = 0`,

    .. math:: D(\alpha) = \sum_r c_r\,\alpha_r^\top b - \tfrac12\Big\|\Big[\sum_r c_r\,\alpha_r^\top z\Big]_+\Big\|^2 .

    Its planes are labellings. Where nothing but the linear relaxation keeps the gap open (or the model fails to get better),
    `CuttingPlane` goes on with pseudo-marginals, from the mixture that is known by then; a training with checkpoints stops instead.

    Parameters
    ----------
    heaviness : float
        The first :math:`\tau`.
    memory : int
        For how many calls of the oracle a labelling without weight is kept. More of them make a better model, of fewer regions.
    """

    heaviness: float = 10.0
    memory: int = 0

    def _check(self, objective: Any) -> None:
        super()._check(objective)
        if not isinstance(objective, LPObjective) or objective.smoothing > 0:
            raise UnsupportedProblemError(
                f"RegionBundle minimises an LPObjective without smoothing, not a {type(objective).__name__}. For two labels and "
                "associative potentials it equals the margin; learners of others: BlockFrankWolfe, CuttingPlane."
            )
        if objective.cone.rows.shape[0]:
            raise UnsupportedProblemError(
                f"RegionBundle takes free and non-negative weights; the cone has {objective.cone.rows.shape[0]} supermodular rows. "
                "Use BlockFrankWolfe."
            )
        if not self.heaviness > 0:
            raise UnsupportedProblemError(f"heaviness is {self.heaviness!r}, wanted a number > 0.")

    def _run(self, objective: Any, training: Training, init: Any) -> None:
        search = _Search(self, objective, training)
        training.state = search.state
        while not training.step(training.n_iter + 1):
            if not search.iterate():
                search.prove()
                if self.checkpoint is None:
                    search.finish()
                    return
                training.termination = Termination.stalled
                training.message = "RegionBundle: labellings do not close the gap of the linear relaxation any further."
                break
        if search.centre is not training.weights:
            search.prove()


class _Search:
    """One training: centre, regions, the best lower bound."""

    def __init__(self, learner: RegionBundle, objective: LPObjective, training: Training):
        self.learner, self.objective, self.training = learner, objective, training
        design = objective.design
        n_nodes = len(design.truth)
        self.c = np.repeat(objective.c, np.diff(design.node_ptr))
        self.ptr, self.adj_edge, _ = adjacency(n_nodes, design.edges)
        self.member_ptr, member = memberships(n_nodes, design.member)
        owner = np.repeat(np.arange(len(design.member_ptr) - 1), np.diff(design.member_ptr))
        self.member_clique = owner[member].astype(np.int32)
        self.nonneg = objective.cone.nonneg.astype(np.uint8)
        self.stuck = self.loose = 0
        self.reached = np.inf
        self.proven = np.inf
        state = training.resume()
        if state is not None:
            self.regions = Regions(*(np.array(state[f"regions_{name}"]) for name in Regions._fields))
            self.best = Regions(*(np.array(state[f"best_{name}"]) for name in Regions._fields))
            self.centre = np.array(state["centre"])
            self.heaviness, self.value, self.model, self.dual = (float(v) for v in state["ruling"])
            self.w = np.array(state["query"])
            training.certificate = self.certificate
            return
        self.regions = no_regions(design.truth)
        self.best, self.dual = self.regions, 0.0
        self.centre = self.w = objective.cone.repair(np.zeros(objective.n_weights))
        self.heaviness, self.value, self.model = learner.heaviness, np.inf, 0.0
        training.bound(0.0, self.certificate)

    def state(self) -> dict[str, np.ndarray]:
        """Arrays for a checkpoint."""
        arrays = {f"regions_{name}": value for name, value in self.regions._asdict().items()}
        arrays |= {f"best_{name}": value for name, value in self.best._asdict().items()}
        ruling = np.array([self.heaviness, self.value, self.model, self.dual])
        return {**arrays, "centre": self.centre, "query": self.w, "ruling": ruling}

    def ask(self) -> tuple[Answer, float, float]:
        """The oracle at the query point, again while nothing but its bracket is in the way; and the objective there, from above, and
        with the slacks of the labellings alone."""
        objective, w = self.objective, self.w
        answer = objective.ask(w, effort=_QUICK)
        upper = answer.upper
        for _ in range(_AGAIN):
            high = objective.primal(w, np.maximum(upper, 0.0))
            low = objective.primal(w, np.maximum(answer.value, 0.0))
            target = self.value if high > self.value else high
            if objective.exact or high - low <= _LOOSE * max(target - self.dual, 0.0) or low >= self.value:
                break
            again = objective.ask(w, effort=_EXPAND)
            upper = np.minimum(upper, again.upper)
            better = again.value > answer.value
            keys = [new if use else old for new, old, use in zip(again.keys, answer.keys, better, strict=True)]
            answer = Answer(answer.examples, keys, np.maximum(answer.value, again.value), upper)
        found = (objective.primal(w, np.maximum(slack, 0.0)) for slack in (upper, answer.value))
        return (answer, *found)  # type: ignore[return-value]

    def iterate(self) -> bool:
        """One call of the oracle, one model; False if nothing moves any more."""
        answer, value, reached = self.ask()
        before = (self.value, self.dual)
        if value < self.value:
            if self.value - value >= _SERIOUS * (self.value - self.model):
                self.heaviness *= _LIGHTER
            self.value, self.centre, self.reached = value, self.w, reached
        else:
            self.heaviness = min(_HEAVIEST, _HEAVIER * self.heaviness)
        self.improve(np.concatenate(answer.keys).astype(np.int32, copy=False))
        tol, last = self.learner.tol, self.training.n_iter + 1 == self.learner.max_iter
        if self.value - self.dual <= tol * abs(self.value) or last or self.training.n_iter % _OFTEN == 0:
            self.prove()
        moved = before[0] - self.value + self.dual - before[1]
        self.stuck = 0 if moved > 1e-3 * (self.value - self.dual) or not np.isfinite(moved) else self.stuck + 1
        tight = self.reached - self.dual <= self.value - self.reached and not self.objective.exact
        self.loose = self.loose + 1 if tight else 0
        return self.stuck < _STUCK and self.loose < _OPEN

    def finish(self) -> None:
        """Go on with one plane an example for what is known, and pseudo-marginals as new ones."""
        objective, learner = self.objective, self.learner
        master, known = Master(objective, False), self.certificate()
        master.append_planes([objective.plane(j, key) for j, key in zip(known.examples.tolist(), known.keys, strict=True)])
        CuttingPlane(learner.tol, learner.max_iter, learner.time_limit)._run(objective, self.training, master)

    def improve(self, labels: np.ndarray) -> None:
        """Take a labelling in, and move to the minimiser of the model."""
        objective, started = self.objective, time.perf_counter()
        design = objective.design
        self.regions = regions = extend(design, self.regions, labels, self.learner.memory)
        n_atoms = len(regions.alpha)
        u = np.zeros(objective.n_weights)
        z, offset = self.vectors()
        loss = base_plane(design, regions, objective.c, objective.scratch.index, objective.scratch.value, u)
        c = self.c[regions.node[regions.node_ptr[:-1]]] if n_atoms else np.zeros(0)
        each, base = np.repeat(c, np.diff(regions.atom_ptr)), u.copy()
        u += z.T @ (each * regions.alpha)
        enough = _PRECISION * max(self.learner.tol * abs(self.value), _EARLY * (self.value - self.dual))
        rest = (
            offset,
            regions.alpha,
            regions.atom_ptr,
            c,
            u,
            self.nonneg,
            self.heaviness,
            self.centre,
            _PASSES,
            _STEPS,
            enough,
        )
        w = sparse_ascend(z.indptr, z.indices, z.data, *rest) if sparse.issparse(z) else ascend(z, *rest)
        self.w = feasible(objective, w)
        u = base + z.T @ (each * regions.alpha)
        cut = np.where(objective.cone.nonneg, np.maximum(u, 0.0), u)
        dual = loss + float((each * regions.alpha) @ offset) - 0.5 * float(cut @ cut)
        if dual > self.dual:
            self.dual, self.best = dual, regions
            self.training.bound(dual, self.certificate)
        slack = offset - z @ self.w
        height = float(c @ np.maximum.reduceat(slack, regions.atom_ptr[:-1])) if n_atoms else 0.0
        self.model = 0.5 * float(self.w @ self.w) + loss - float(base @ self.w) + height
        self.training.qp_seconds += time.perf_counter() - started

    def vectors(self) -> tuple[Any, np.ndarray]:
        """Vectors of all labellings of regions, as rows, and their losses."""
        objective, regions = self.objective, self.regions
        n_atoms, n_weights = len(regions.alpha), objective.n_weights
        offset = np.empty(n_atoms)
        given = (objective.design, regions, self.ptr, self.adj_edge, self.member_ptr, self.member_clique)
        if n_weights <= _DENSE:
            z = np.empty((n_atoms, n_weights))
            vectors(*given, z, offset)
            return z, offset
        scratch = objective.scratch
        z_ptr, column, value = sparse_vectors(*given, scratch.dense, scratch.index, offset)
        return sparse.csr_array((value, column, z_ptr), shape=(n_atoms, n_weights)), offset

    def prove(self) -> None:
        """The objective at the centre with a proven slack."""
        objective, training = self.objective, self.training
        w, learner = self.centre, self.learner
        if np.array_equal(w, training.weights) and np.isfinite(training.primal) and self.proven <= self.value:
            return
        answer = certain(objective, w, objective.ask(w), self.dual, learner.tol, training.seconds_left)
        self.proven = self.value = objective.primal(w, np.maximum(answer.upper, 0.0))
        if training.offer(w, self.value, is_exact(answer)):
            self.centre = training.weights
        if not any(isinstance(key, Relaxed) for key in answer.keys):
            self.improve(np.concatenate(answer.keys).astype(np.int32, copy=False))

    def certificate(self) -> DualCertificate:
        """The marginals of the regions, one plane an example."""
        objective, data = self.objective, self.objective.model.data
        keys = relaxed_keys(self.best, data.node_ptr, data.edge_ptr, data.edges, objective.model.n_labels)
        u = np.zeros(objective.n_weights)
        for j, key in enumerate(keys):
            plane = objective.plane(j, key)
            u[plane.index] += objective.c[j] * plane.value
        below = np.maximum(-u[objective.cone.nonneg], 0.0)
        return DualCertificate(np.arange(objective.n_examples), tuple(keys), objective.c.copy(), below)
