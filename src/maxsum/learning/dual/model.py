r"""DualModel: planes with multipliers in blocks, the weights that they make, and the lower bound that they prove.

.. math:: \max_{\alpha, \mu}\; \sum_i \alpha_i b_i - \tfrac12\|w\|^2,\quad w = w_0 + \sum_i \alpha_i z_i + A^\top\mu,\quad
          \sum_{i \in j}\alpha_i \le c_j,\ \alpha \ge 0,\ \mu \ge 0

A block is an example, a region of one, a tree, or all of them (one slack); its first plane is :math:`b = 0, z = 0`, which has what the others
leave of :math:`c_j`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ...executors.clock import Clock
from ...kernels.records import Weights
from ...models.cone import Cone
from ...qp.reduced import ReducedQP


@dataclass(frozen=True)
class Tuning:
    """Constants of `DualModel.correct`."""

    largest: int = (
        3000  # planes in one quadratic program; its products take 8 * largest**2 bytes, and PIQP takes no more than 4000
    )
    # Binary digits of products times squares of limits (a C of 1e300, say): beyond, steps in units of the limits overflow float64.
    most_bits: float = 1000.0
    rounds: int = 8  # of adding violated sign constraints; each adds all of them, so two or three are usual


TUNING = Tuning()


class Columns(NamedTuple):
    """All planes but the first of each block, as columns of one quadratic program."""

    rows: Any  # float64 (n, P), or csr: z
    offset: np.ndarray  # float64 (n,): b
    block: np.ndarray  # int64 (n,)
    alpha: np.ndarray  # float64 (n,)
    limit: np.ndarray  # float64 (blocks,): c
    origin: np.ndarray  # float64 (P,): the part of the weights that no multiplier changes


class DualModel(ABC):
    """Planes of an objective in blocks, with multipliers. How planes are stored is what subclasses differ in.

    Attributes
    ----------
    objective : MarginObjective
        Or what has its ``n_weights``, ``c`` and ``cone``.
    weights : Weights
        ``plain``: what planes and multipliers of rows make; ``value``: with negative entries cut off where the cone says so.
    """

    objective: Any
    weights: Weights

    @abstractmethod
    def columns(self) -> Columns:
        """The planes as they are now."""

    @abstractmethod
    def assign(self, alpha: np.ndarray) -> None:
        """Set the multipliers of all `columns`; the first plane of each block takes the rest. Weights follow with `refresh`."""

    @abstractmethod
    def refresh(self) -> float:
        """Weights recomputed from the planes, without the rounding of many small steps; returns the dual value."""

    @property
    def cone_multipliers(self) -> np.ndarray:
        """Multipliers of ``cone.matrix``: what is cut off of negative weights, then those of rows."""
        return np.concatenate([np.maximum(-self.weights.plain[self.objective.cone.nonneg], 0.0), self.weights.mu])

    def correct(self, tol: float, seconds: float | None = None) -> float:
        """Solve the quadratic program over all kept planes and the cone, so that block steps have nothing left to do: returns the new dual
        value, never below the old one.

        Where there are more planes than `Tuning.largest`, those without weight that are farthest from the best of their block are left out;
        where more than that have weight, nothing changes.

        Parameters
        ----------
        tol : float
            Gap of the quadratic program, relative to the dual value.
        seconds : float, optional
            Looked at between steps.
        """
        clock, before, found = Clock(seconds), self.refresh(), self.columns()
        alpha, mu = found.alpha.copy(), self.weights.mu.copy()
        chosen = self._chosen(found)
        if not len(chosen) or not clock.left > 0:
            return before
        program = _Program(self.objective.cone, found, chosen, np.maximum(-self.weights.plain, 0.0), mu)
        sizes = np.array([np.abs(program.gram).max(initial=0.0), found.limit.max(initial=0.0)])
        if not np.log2(np.maximum(sizes, 1e-300)) @ [1.0, 2.0] < TUNING.most_bits:
            return before
        for _ in range(TUNING.rounds):
            program.solve(tol, tol * abs(before), clock.left)
            if not program.add_violated() or not clock.left > 0:
                break
        better = np.zeros_like(alpha)
        better[chosen] = program.alpha
        self.assign(better)
        self.weights.mu[:] = program.mu
        after = self.refresh()
        if after >= before:
            return after
        self.assign(alpha)
        self.weights.mu[:] = mu
        return self.refresh()

    def _chosen(self, found: Columns) -> np.ndarray:
        """Which columns take part: all, or those with weight and the nearest of the others."""
        n, used = len(found.alpha), found.alpha > 0
        if n <= TUNING.largest:
            return np.arange(n)
        if int(used.sum()) > TUNING.largest:
            return np.zeros(0, dtype=np.int64)
        gradient = found.offset - np.asarray(found.rows @ self.weights.value).reshape(-1)
        top = np.zeros(len(found.limit))
        np.maximum.at(top, found.block, gradient)
        distance = np.where(used, -1.0, found.limit[found.block] * (top[found.block] - gradient))
        return np.sort(np.argpartition(distance, TUNING.largest)[: TUNING.largest])


class _Program:
    """The quadratic program of `DualModel.correct`: some columns, all rows of the cone, and the signs that would be violated."""

    def __init__(self, cone: Cone, found: Columns, chosen: np.ndarray, below: np.ndarray, mu: np.ndarray):
        self.cone, self.found, self.mu = cone, found, mu.copy()
        every = len(chosen) == len(found.alpha)
        self.rows = found.rows if every else found.rows[chosen]
        self.block, self.alpha = found.block[chosen], found.alpha[chosen]
        self.offset = found.offset[chosen] - np.asarray(self.rows @ found.origin).reshape(-1)
        self.gram = dense(self.rows @ self.rows.T)
        self.signed = np.flatnonzero(cone.nonneg & (below > 0))
        self.below = below[self.signed]

    def solve(self, tol: float, absolute: float, seconds: float) -> None:
        """Improve multipliers of planes, signs and rows together."""
        n, found, cone = len(self.alpha), self.found, self.cone
        place = np.arange(len(self.signed)), self.signed
        signs = sparse.csr_array((np.ones(len(self.signed)), place), shape=(len(self.signed), cone.n_weights))
        hard = sparse.csr_array(sparse.vstack([signs, cone.rows], format="csr"))
        mixed = dense(hard @ self.rows.T)
        gram = np.block([[self.gram, mixed.T], [mixed, dense(hard @ hard.T)]])
        qp = ReducedQP(found.limit, loose=True)
        block = np.concatenate([self.block, np.full(hard.shape[0], -1, dtype=np.int64)])
        qp.extend(gram, np.concatenate([self.offset, -np.asarray(hard @ found.origin).reshape(-1)]), block)
        qp.warm(np.concatenate([self.alpha, self.below, self.mu]))
        qp.crawled = True  # block steps were tried before this: straight to the interior point
        qp.solve(1e-12 if found.origin.any() else tol, seconds, absolute=absolute)
        self.alpha, self.below, self.mu = np.split(qp.alpha.copy(), [n, n + len(self.signed)])

    def add_violated(self) -> bool:
        """Take in signs that the solution violates; False if there are none."""
        u = (
            self.found.origin
            + np.asarray(self.rows.T @ self.alpha).reshape(-1)
            + np.asarray(self.cone.rows.T @ self.mu).reshape(-1)
        )
        known = np.zeros(len(u), dtype=bool)
        known[self.signed] = True
        new = np.flatnonzero(self.cone.nonneg & ~known & (u < -1e-12 * np.abs(u).max(initial=0.0)))
        self.signed, self.below = np.concatenate([self.signed, new]), np.concatenate([self.below, np.zeros(len(new))])
        return len(new) > 0


def dense(matrix: Any) -> np.ndarray:
    """A matrix that may be sparse, as an array."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix)
