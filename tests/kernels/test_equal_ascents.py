"""Dual decomposition, block ascents and factor ascent: the compiled kernels give the same bits as numba's."""

from __future__ import annotations

import numpy as np
import pytest
from watching import both, clone, watched

import maxsum as ms
from maxsum.datasets import make_citations
from maxsum.inference.relaxations.bundle import ColumnBundle
from maxsum.inference.relaxations.decomposition import DualDecomposition
from maxsum.kernels import _compiled_v3, decomposition, factor_ascent
from maxsum.learning import FactorAscent, LPObjective
from maxsum.learning.learners import factor_ascent as learner
from maxsum.models import GraphModel, GraphSample
from maxsum.qp.reduced import ReducedQP


def problem(seed: int, n_labels: int, unequal: bool) -> ms.Problem:
    rng = np.random.default_rng(seed)
    graph = ms.Graph.grid(5, 6) if seed % 2 else ms.Graph.complete(9)
    n_states = rng.integers(1, n_labels + 1, graph.n_nodes) if unequal else np.full(graph.n_nodes, n_labels)
    n_states[0] = n_labels
    unary, tables = rng.normal(size=(graph.n_nodes, n_labels)), rng.normal(size=(4, n_labels, n_labels))
    number = rng.integers(0, 4, graph.n_edges)
    return ms.Problem(graph, unary, tables=tables, edge_table=number, n_states=n_states)


@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_decomposition(seed: int, n_labels: int, unequal: bool) -> None:
    with watched("decomposition", "inference.relaxations.decomposition", "inference.relaxations.bundle") as calls:
        DualDecomposition("bundle", max_iter=30).solve(problem(seed, n_labels, unequal))
    assert seed % 2 or calls["split_forests"]
    assert calls["add_columns"] and calls["column_scores"] and calls["spread_weights"] and calls["master"]


def test_marginals_of_a_decomposition() -> None:
    with watched("decomposition", "inference.relaxations.decomposition", "inference.relaxations.bundle") as calls:
        for seed in range(4):
            DualDecomposition("bundle", max_iter=300).solve(problem(seed, 3, False))
    assert calls["edge_means"]


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_full_bundles(seed: int, room: int) -> None:
    rng = np.random.default_rng(seed)
    starts, nodes = np.array([0, 3, 3, 6]), np.array([0, 1, 2, 0, 1, 2], dtype=np.int32)
    bundle = ColumnBundle(starts, nodes, 3, 2, 1.0, room)
    with watched("decomposition", "inference.relaxations.decomposition", "inference.relaxations.bundle") as calls:
        for _ in range(12):
            bundle.add(rng.integers(0, 2, 6).astype(np.int32), rng.normal(size=3))
            bundle.propose(rng.normal(size=(6, 2)), 0.0, 1e-12)
    assert calls["add_columns"] == 12 and calls["master"] == 12


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n_nodes", [1, 2, 9, 20])
def test_forests(n_nodes: int, dtype: type) -> None:
    edges = ms.Graph.complete(n_nodes).edges
    for largest in (2, 3, n_nodes):
        order = np.random.default_rng(largest).permutation(len(edges)).astype(dtype)
        both(decomposition.split_forests, _compiled_v3.decomposition.split_forests, n_nodes, edges, order, largest)


@pytest.mark.parametrize("loose", [False, True])
@pytest.mark.parametrize("n_orthant", [0, 6])
@pytest.mark.parametrize(("n", "n_blocks", "dim"), [(1, 1, 1), (12, 1, 5), (60, 10, 12), (80, 80, 10), (150, 30, 10)])
def test_blocks(n: int, n_blocks: int, dim: int, n_orthant: int, loose: bool) -> None:
    rng = np.random.default_rng(n + dim)
    vectors = rng.normal(size=(n + n_orthant, dim)) * np.logspace(0, -2, dim) + 0.5 * rng.normal(size=dim)
    vectors[n:] = np.abs(rng.normal(size=(n_orthant, dim)))
    offset = np.concatenate([rng.uniform(0, 5, size=n), np.zeros(n_orthant)])
    block = np.concatenate([np.arange(n_blocks), rng.integers(0, n_blocks, n - n_blocks), np.full(n_orthant, -1)])
    program = ReducedQP(rng.uniform(0.5, 2, size=n_blocks), loose=loose)
    program.extend(vectors @ vectors.T, offset, block)
    with watched("simplex_blocks", "qp.reduced") as calls:
        program.solve(1e-6)
    assert calls["ascend"]


@pytest.mark.parametrize("potentials", ["general", "associative", "potts"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_factors(potentials: str, C: float) -> None:
    papers = make_citations(80, 160, 60, 4, 0, random_state=1)
    own = LPObjective(GraphModel(potentials=potentials).bind([papers.sample], [papers.y]), C)
    with watched("factor_ascent", "learning.learners.factor_ascent") as calls:
        FactorAscent(tol=1e-3, max_iter=12).fit(own)
    assert calls["factor_passes"] and calls["agree"] and calls["message_bounds"]


@pytest.mark.parametrize("seed", range(3))
def test_factors_of_grids(seed: int) -> None:
    """Several examples, edges with features."""
    rng = np.random.default_rng(seed)
    samples, labels = [], []
    for side in (3, 5):
        graph = ms.Graph.grid(side, side)
        y = rng.integers(0, 3, side**2)
        x = np.eye(3)[y] + rng.normal(size=(side**2, 3))
        samples.append(GraphSample(x, graph, edge_features=rng.random((graph.n_edges, 2))))
        labels.append(y)
    own = LPObjective(GraphModel(potentials="general").bind(samples, labels, classes=np.arange(3)), 0.3)
    with watched("factor_ascent", "learning.learners.factor_ascent") as calls:
        FactorAscent(tol=1e-3, max_iter=10).fit(own)
    assert calls["factor_passes"] and calls["message_bounds"]


@pytest.mark.parametrize("seed", range(3))
def test_factors_with_unequal_label_counts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks whose last labels do not exist."""
    rng, taken = np.random.default_rng(seed), []

    def spy(*arguments):  # type: ignore[no-untyped-def]
        taken.append(clone(arguments))
        return factor_ascent.factor_passes(*arguments)

    monkeypatch.setattr(learner, "factor_passes", spy)
    papers = make_citations(80, 160, 60, 4, 0, random_state=1)
    FactorAscent(tol=1e-3, max_iter=2).fit(LPObjective(GraphModel(potentials="general").bind([papers.sample], [papers.y]), 1.0))
    design, factors, rho, order, _, n_steps = taken[-1]
    factors = factors._replace(n_states=rng.integers(1, 5, 80).astype(np.int32))
    exists = np.arange(4) < factors.n_states[:, None]
    pairs = (exists[design.edges[:, 0]][:, :, None] & exists[design.edges[:, 1]][:, None, :]).reshape(-1, 16)
    factors.node[:] = exists / exists.sum(axis=1, keepdims=True) * factors.node_limit[:, None]
    factors.edge[:] = pairs / pairs.sum(axis=1, keepdims=True) * factors.edge_limit[:, None]
    both(factor_ascent.factor_passes, _compiled_v3.factor_ascent.factor_passes, design, factors, rho, order, 5, n_steps)
    both(factor_ascent.agree, _compiled_v3.factor_ascent.agree, design, factors, rho)
    given = design, factors, factors.value, factors.messages, np.zeros(1)
    both(factor_ascent.message_bounds, _compiled_v3.factor_ascent.message_bounds, *given)
