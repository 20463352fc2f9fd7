"""Convex quadratics over a product of simplices: spectral projected gradient against other first-order methods."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxsum import Graph
from maxsum.kernels import qp
from maxsum.kernels.simplex import project
from maxsum.qp.block_form import BlockForm
from maxsum.qp.simplex import minimise_simplex_qp

from .measure import alternating, verdict

TITLE = "QP relaxation"
DESCRIPTION = """
Minimise `<theta, mu> + 1/2 <mu, Theta mu>` over one simplex per node of a grid, to a relative Frank-Wolfe gap of 1e-6. `theta`
is `scale` N(0, 1), scale 0.3, 1 or 3; every edge has a positive definite block `B = A A' / 2K + floor I` over both its ends,
where `A` is (2K, r) of N(0, 1): r = 2K and floor 0.1, or (*ill-conditioned*) r = K/2 and floor 0.01. *Shared*: one block for
all edges, *own*: one for each. *Build* makes the `BlockForm`, the check of definiteness included, once for any number of
solves; *solve* is `minimise_simplex_qp` from a cold start; medians of five runs. The peers use the same compiled product and
projection: accelerated projected gradient with adaptive restart (its Lipschitz constant found beforehand by 30 power steps,
not counted), and Frank-Wolfe with exact line search; both are stopped after 300 products (the relative gap that they reached
is in brackets). Targets: at most 30 products, and 0.5 s. The ill-conditioned rows show where the method slows down.
"""
TARGET_PRODUCTS, TARGET_SECONDS, TOL = 30, 0.5, 1e-6


class Case(NamedTuple):
    form: BlockForm
    theta: np.ndarray
    build: float


def case(side: int, n_labels: int, shared: bool, ill: bool, scale: float, repeats: int = 1) -> Case:
    rng = np.random.default_rng(0)
    graph = Graph.grid(side, side)
    rank, floor = (n_labels // 2, 0.01) if ill else (2 * n_labels, 0.1)
    root = rng.normal(size=(1 if shared else graph.n_edges, 2 * n_labels, rank))
    blocks = root @ root.transpose(0, 2, 1) / (2 * n_labels) + floor * np.eye(2 * n_labels)
    theta = scale * rng.normal(size=(graph.n_nodes, n_labels))
    seconds = alternating({"build": lambda: BlockForm(graph, n_labels, blocks)}, repeats)["build"]
    return Case(BlockForm(graph, n_labels, blocks), theta, seconds)


class _Oracle:
    """Product, projection, and the test of the gap, with a count of the products."""

    def __init__(self, form: BlockForm, theta: np.ndarray):
        self.rows, self.theta, self.n_products = form.rows, theta, 0

    def product(self, x: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x)
        qp.multiply(self.rows, x, out, 0, len(x))
        self.n_products += 1
        return out

    def project(self, x: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x)
        project(x, self.rows.n_states, out)
        return out

    def gap(self, mu: np.ndarray, turned: np.ndarray) -> float:
        """Relative Frank-Wolfe gap of ``mu``, whose product is known."""
        grad = self.theta + turned
        gap = float((mu * (grad - grad.min(axis=1, keepdims=True))).sum())
        value = float((mu * (self.theta + 0.5 * turned)).sum())
        return gap / max(abs(value), abs(value - gap))


def accelerated(form: BlockForm, theta: np.ndarray, limit: int) -> tuple[int, float, float]:
    """FISTA, restarted where the momentum points uphill: products, seconds, relative gap."""
    finder = _Oracle(form, theta)
    x = np.random.default_rng(0).normal(size=theta.shape)
    for _ in range(30):
        x = finder.product(x / np.linalg.norm(x))
    lipschitz = 1.02 * float(np.linalg.norm(x))
    oracle, start = _Oracle(form, theta), time.perf_counter()
    mu = np.full(theta.shape, 1.0 / theta.shape[1])
    turned = oracle.product(mu)
    ahead, ahead_turned, t, gap = mu, turned, 1.0, np.inf
    while oracle.n_products < limit:
        new = oracle.project(ahead - (theta + ahead_turned) / lipschitz)
        new_turned = oracle.product(new)
        gap = oracle.gap(new, new_turned)
        if gap <= TOL:
            break
        if ((ahead - new) * (new - mu)).sum() > 0:
            t = 1.0
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        beta = (t - 1) / after
        ahead, ahead_turned = new + beta * (new - mu), new_turned + beta * (new_turned - turned)
        mu, turned, t = new, new_turned, after
    return oracle.n_products, time.perf_counter() - start, gap


def frank_wolfe(form: BlockForm, theta: np.ndarray, limit: int) -> tuple[int, float, float]:
    """Frank-Wolfe with exact line search: products, seconds, relative gap."""
    oracle, start = _Oracle(form, theta), time.perf_counter()
    mu = np.full(theta.shape, 1.0 / theta.shape[1])
    turned = oracle.product(mu)
    gap = oracle.gap(mu, turned)
    while gap > TOL and oracle.n_products < limit:
        grad = theta + turned
        step = -mu
        step[np.arange(len(mu)), grad.argmin(axis=1)] += 1.0
        turn = oracle.product(step)
        length = min(1.0, -float((grad * step).sum()) / max(float((step * turn).sum()), 1e-300))
        mu, turned = mu + length * step, turned + length * turn
        gap = oracle.gap(mu, turned)
    return oracle.n_products, time.perf_counter() - start, gap


def rows(quick: bool = False) -> list[dict[str, Any]]:
    side, n_labels, repeats, limit = (5, 4, 1, 40) if quick else (60, 20, 5, 300)
    warm = case(3, n_labels, True, False, 1.0)
    for method in (accelerated, frank_wolfe):
        method(warm.form, warm.theta, 3)
    minimise_simplex_qp(warm.theta, warm.form)
    found = []
    for ill in (False, True):
        for shared in (True, False):
            for scale in (0.3, 1.0, 3.0):
                found.append(_row(side, n_labels, shared, ill, scale, repeats, limit))
    return found


def _row(side: int, n_labels: int, shared: bool, ill: bool, scale: float, repeats: int, limit: int) -> dict[str, Any]:
    this = case(side, n_labels, shared, ill, scale, repeats)
    results = [minimise_simplex_qp(this.theta, this.form, tol=TOL, max_iter=5000) for _ in range(repeats)]
    seconds, result = statistics.median(r.seconds for r in results), results[0]
    if result.termination != "converged":
        raise RuntimeError(f"the solver ended as {result.termination} with the relative gap {result.relative_gap}")
    peers: dict[str, Callable[..., tuple[int, float, float]]] = {"accelerated": accelerated, "Frank-Wolfe": frank_wolfe}
    answers = {name: method(this.form, this.theta, limit) for name, method in peers.items()}
    name = f"{side}x{side}, K={n_labels}, {'shared block' if shared else 'own blocks'}, scale {scale:g}"
    row: dict[str, Any] = {
        "table": "Ill-conditioned blocks" if ill else "Blocks of the target",
        "problem": name,
        "products": result.n_products,
        "build s": this.build,
        "solve s": seconds,
        "relative gap": result.relative_gap,
    }
    if not ill:
        row["30 products"] = verdict(result.n_products <= TARGET_PRODUCTS)
        row["0.5 s (build and solve)"] = verdict(this.build + seconds <= TARGET_SECONDS)
    for peer, (products, spent, gap) in answers.items():
        row[f"{peer} products"] = str(products) if gap <= TOL else f"{products} (gap {gap:.1e})"
        row[f"{peer} s"] = spent
        row[f"{peer}: products / ours"] = products / result.n_products
    return row
