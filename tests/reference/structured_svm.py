r"""The structured SVM with every labelling written out, as one dense quadratic programme.

.. math:: \min_{w, \xi} \tfrac12 \|w\|^2 + \sum_j c_j \xi_j \quad \text{s.t.}\quad \xi_j \ge b_i - w^T z_i \ (i \in j),\quad A w \ge 0

Independent of the package: numpy, scipy and Clarabel only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.sparse import csc_matrix


class Planes(NamedTuple):
    """All planes of one example: ``xi >= offset[i] - w @ vectors[i]``."""

    offset: np.ndarray
    vectors: np.ndarray


class SVMSolution(NamedTuple):
    """Optimal weights, value, a dual value that is not above it, the slacks, and the multipliers of planes and cone."""

    weights: np.ndarray
    value: float
    dual: float
    slacks: np.ndarray
    alpha: list[np.ndarray]
    mu: np.ndarray


def labellings(n_nodes: int, n_labels: int | Sequence[int]) -> list[tuple[int, ...]]:
    """Every labelling, for one number of labels or one for each node."""
    states = [n_labels] * n_nodes if isinstance(n_labels, int) else list(n_labels)
    return list(itertools.product(*(range(k) for k in states)))


def enumerate_planes(
    truth: Sequence[int],
    n_labels: int | Sequence[int],
    feature: Callable[[np.ndarray], np.ndarray],
    loss: Callable[[np.ndarray, np.ndarray], float],
) -> Planes:
    """Planes ``b = loss(truth, y)``, ``z = feature(truth) - feature(y)`` of every labelling ``y``."""
    own = np.asarray(truth)
    best = np.asarray(feature(own), dtype=float)
    all_labels = [np.array(labels, dtype=own.dtype) for labels in labellings(len(own), n_labels)]
    offset = np.array([float(loss(own, labels)) for labels in all_labels])
    return Planes(offset, np.array([best - np.asarray(feature(labels), dtype=float) for labels in all_labels]))


def hinge(planes: Planes, weights: np.ndarray) -> float:
    """``max_i b_i - w z_i``."""
    return float((planes.offset - planes.vectors @ weights).max())


def primal_value(examples: Sequence[Planes], c: np.ndarray, weights: np.ndarray) -> float:
    """The objective at ``weights``, with the smallest slacks."""
    return float(0.5 * weights @ weights + sum(cj * hinge(p, weights) for cj, p in zip(c, examples, strict=True)))


def dual_value(examples: Sequence[Planes], alpha: Sequence[np.ndarray], rows: np.ndarray, mu: np.ndarray) -> float:
    """``sum alpha b - ||sum alpha z + A' mu||^2 / 2``."""
    w = rows.T @ mu + sum(a @ p.vectors for a, p in zip(alpha, examples, strict=True))
    return float(sum(a @ p.offset for a, p in zip(alpha, examples, strict=True)) - 0.5 * w @ w)


def solve_structured_svm(
    examples: Sequence[Planes], c: Sequence[float], rows: np.ndarray | None = None, gap: float = 1e-9
) -> SVMSolution:
    """Solve by Clarabel; skips the test where that is not installed. Raises if the relative gap is above ``gap``."""
    clarabel = pytest.importorskip("clarabel", reason="the dense reference of the structured SVM needs clarabel")
    c = np.asarray(c, dtype=float)
    n = examples[0].vectors.shape[1]
    cone = np.zeros((0, n)) if rows is None else np.asarray(rows, dtype=float)
    live = np.flatnonzero(c > 0)
    blocks, right = [], []
    for position, j in enumerate(live):
        planes = examples[j]
        block = np.zeros((len(planes.offset), n + len(live)))
        block[:, :n] = -planes.vectors
        block[:, n + position] = -1.0 / c[j]
        blocks.append(block)
        right.append(-planes.offset)
    blocks.append(np.hstack([-cone, np.zeros((len(cone), len(live)))]))
    right.append(np.zeros(len(cone)))
    matrix, limit = np.vstack(blocks), np.concatenate(right)
    quadratic = np.zeros((n + len(live), n + len(live)))
    quadratic[:n, :n] = np.eye(n)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_iter = 500
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    settings.tol_ktratio = 1e-10
    linear = np.concatenate([np.zeros(n), np.ones(len(live))])
    cones = [clarabel.NonnegativeConeT(len(limit))]
    answer = clarabel.DefaultSolver(csc_matrix(quadratic), linear, csc_matrix(matrix), limit, cones, settings).solve()
    weights, duals = np.array(answer.x)[:n], np.maximum(np.array(answer.z), 0.0)
    alpha, start = [np.zeros(len(p.offset)) for p in examples], 0
    for j in live:
        part = duals[start : start + len(examples[j].offset)]
        alpha[j] = c[j] * part / part.sum()
        start += len(part)
    mu = duals[start:]
    value, dual = primal_value(examples, c, weights), dual_value(examples, alpha, cone, mu)
    scale = max(1.0, abs(value), abs(dual))
    worst = float(-(cone @ weights).min(initial=0.0))
    if not (abs(value - dual) <= gap * scale and worst <= gap * max(1.0, float(np.abs(weights).max(initial=0.0)))):
        raise RuntimeError(f"reference: {answer.status}, primal {value}, dual {dual}, cone violated by {worst}")
    return SVMSolution(weights, value, dual, np.array([hinge(p, weights) for p in examples]), alpha, mu)


def solve_margin_model(model: Any, c: Sequence[float], gap: float = 1e-9) -> SVMSolution:
    """The enumerated M3N of a bound model with its cone, for the Hamming loss."""
    planes = [
        enumerate_planes(model.truth(j), model.n_labels, lambda y, j=j: model.feature(j, y), lambda t, y: float((t != y).sum()))
        for j in range(model.n_examples)
    ]
    return solve_structured_svm(planes, c, model.cone.matrix.toarray(), gap)
