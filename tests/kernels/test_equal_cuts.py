"""Flows, cuts and expansion moves: the compiled kernels give the same bits as numba's."""

from __future__ import annotations

import numpy as np
import pytest
from watching import both, clone, same, watched

from maxsum import Graph, Problem
from maxsum.inference.exact.maxflow import MaxFlow, _Binary, _Layers
from maxsum.inference.moves.expansion import AlphaExpansion, Expander
from maxsum.inference.prepare import prepare
from maxsum.kernels import _compiled_v3, expansion, maxflow

FLOWS = ("maxflow", "inference.exact.maxflow", "inference.moves.expansion")


def random_graph(rng: np.random.Generator, n_nodes: int) -> Graph:
    pairs = np.array([(u, v) for u in range(n_nodes) for v in range(u + 1, n_nodes)]).reshape(-1, 2)
    chosen = pairs[rng.random(len(pairs)) < 3 / max(n_nodes, 1)]
    return Graph.from_edges(chosen[rng.permutation(len(chosen))], n_nodes)


def binary(seed: int, n_nodes: int) -> Problem:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n_nodes)
    unary = rng.normal(size=(n_nodes, 2)) if seed % 2 else rng.integers(-2, 3, size=(n_nodes, 2)).astype(float)
    tables = rng.normal(size=(3, 2, 2))
    tables[:, 0, 0] = tables[:, 0, 1] + tables[:, 1, 0] - tables[:, 1, 1] + 2 * rng.random(3)
    return Problem(
        graph, unary, tables=tables, edge_table=rng.integers(0, 3, graph.n_edges), edge_weight=rng.random(graph.n_edges)
    )


def layered(seed: int, n_nodes: int, n_labels: int = 4, hard: bool = True) -> Problem:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n_nodes)
    k = np.arange(n_labels)
    distance = np.abs(k[:, None] - k)
    tables = np.stack([-1.0 * distance, -0.5 * distance**2, np.where(distance <= 2, -(distance**2.0), -np.inf)])[
        : 3 if hard else 2
    ]
    n_states = rng.integers(max(n_labels - 2, 1), n_labels + 1, n_nodes)
    n_states[: n_nodes if hard else 1] = n_labels
    unary = rng.normal(size=(n_nodes, n_labels)) * 2
    if hard and n_labels > 2:
        unary[rng.random(unary.shape) < 0.1] = -np.inf
        unary[:, 1] = 0.0
    scores = [unary[v, : n_states[v]] for v in range(n_nodes)]
    return Problem(
        graph,
        scores if len(set(n_states)) > 1 else unary,
        tables=tables,
        edge_table=rng.integers(0, len(tables), graph.n_edges),
    )


def with_cliques(seed: int, n_labels: int) -> Problem:
    rng = np.random.default_rng(seed)
    graph = Graph.grid(5, 6)
    weights = rng.random((8, n_labels)) * (rng.random((8, n_labels)) < 0.8)
    cliques = [(np.sort(rng.choice(30, size=rng.integers(3, 7), replace=False)), weights[c]) for c in range(8)]
    unary = rng.normal(size=(30, n_labels))
    if seed % 2:
        unary[:5, 0] = -np.inf
    return Problem(graph, unary, tables=0.3 * np.eye(n_labels), cliques=cliques)


def potts(seed: int, n_nodes: int, n_labels: int = 4, hard: bool = False) -> Problem:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n_nodes)
    k = np.arange(n_labels)
    tables = np.stack([np.eye(n_labels), -np.minimum(np.abs(k[:, None] - k), 2.0)])
    if hard:
        tables = np.concatenate(
            [tables, np.where(np.abs(k[:, None] - k) < 3, 0.0, -np.inf)[None] if n_labels > 3 else tables[:1]]
        )
        tables = np.where(np.eye(n_labels, dtype=bool), np.maximum(tables, 0.0), tables)
    unary = rng.normal(size=(n_nodes, n_labels))
    if hard:
        unary[rng.random(unary.shape) < 0.05] = -np.inf
        unary[:, 1] = 0.0
    return Problem(graph, unary, tables=tables, edge_table=rng.integers(0, 2, graph.n_edges))


@pytest.mark.parametrize("n_nodes", [0, 1, 2, 7, 60, 300])
@pytest.mark.parametrize("seed", range(4))
def test_binary(seed: int, n_nodes: int) -> None:
    with watched(*FLOWS) as flows, watched("maxflow_build", "inference.exact.maxflow") as builds:
        MaxFlow().solve(binary(seed, n_nodes))
    assert flows["sweep"] == 4 and flows["start"] == 1 and flows["advance"] >= 1
    assert builds["fill_binary"] == 1 and builds["read_binary"] == 1


@pytest.mark.parametrize("n_nodes", [1, 2, 7, 40])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_layers(seed: int, hard: bool, n_nodes: int) -> None:
    with watched(*FLOWS) as flows, watched("maxflow_build", "inference.exact.maxflow") as builds:
        MaxFlow().solve(layered(seed, n_nodes, 5, hard))
    if builds:
        assert builds["list_arcs"] == 2 and builds["link_arcs"] == 1 and builds["read_layers"] == 1 and flows["advance"] >= 1


@pytest.mark.parametrize("seed", range(6))
def test_layers_with_cliques(seed: int) -> None:
    with watched(*FLOWS), watched("maxflow_build", "inference.exact.maxflow") as builds:
        MaxFlow().solve(with_cliques(seed, 2))
    assert builds["list_arcs"] == 2


@pytest.mark.parametrize("budget", [1, 7, 1000])
def test_small_budgets(budget: int) -> None:
    """A search that is left and taken up again, at any place."""
    problem = layered(1, 60, 4, hard=False)
    network = _Layers(prepare(problem).net)
    ours = clone(network.flow)
    maxflow.start(network.flow)
    _compiled_v3.maxflow.start(ours)
    done = False
    while not done:
        done = maxflow.advance(network.flow, budget)
        assert done == _compiled_v3.maxflow.advance(ours, budget)
        same(network.flow, ours)


@pytest.mark.parametrize("n_nodes", [0, 1, 2, 7, 60, 300])
def test_start_from_sources(n_nodes: int) -> None:
    both(expansion.start_from_sources, _compiled_v3.expansion.start_from_sources, _Binary(prepare(binary(2, n_nodes)).net).flow)


def test_last_time() -> None:
    """Time stamps that are used up are set back."""
    flow = _Binary(prepare(binary(1, 200)).net).flow
    maxflow.start(flow)
    flow.state[2] = 2**31 - 5
    both(maxflow.advance, _compiled_v3.maxflow.advance, flow, 1 << 20)


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("n_nodes", [1, 5, 50, 200])
@pytest.mark.parametrize("seed", range(3))
def test_expansion(seed: int, n_nodes: int, hard: bool, bound: bool) -> None:
    with watched(*FLOWS), watched("expansion", "inference.moves.expansion") as moves:
        AlphaExpansion(bound=bound).solve(potts(seed, n_nodes, 4, hard))
    if moves["fill"]:
        assert moves["link"] == 1 and moves["choose_active"]
    assert n_nodes < 50 or bound or (moves["fill"] and moves["keep"] and moves["gain"] and moves["first_conflict"] == 1)


@pytest.mark.parametrize("seed", range(6))
def test_expansion_with_cliques(seed: int) -> None:
    with watched(*FLOWS), watched("expansion", "inference.moves.expansion") as moves:
        AlphaExpansion(bound=seed % 2 == 0).solve(with_cliques(seed, 3))
    assert moves["fill"] or seed % 2 == 0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("seed", range(3))
def test_labels_of_both_kinds(seed: int, dtype: type) -> None:
    problem = potts(seed, 80, 5)
    labels = np.random.default_rng(seed).integers(0, 5, 80).astype(dtype)
    with watched(*FLOWS), watched("expansion", "inference.moves.expansion") as moves:
        Expander(prepare(problem).net, problem.zero_messages()).cycle(labels, 5)
    assert moves["take"] and moves["shares_of_messages"]


@pytest.mark.parametrize("seed", range(10))
def test_first_conflict(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tables = rng.normal(size=(6, 4, 4)) + 5 * np.eye(4)
    tables[3:][rng.random((3, 4, 4)) < 0.1] = -np.inf
    number = rng.integers(0, 6, 9).astype(np.int32)
    counts = (rng.integers(-1, 2, 9), rng.integers(1, 5, 9), rng.integers(1, 5, 9))
    counts = (np.where(number >= 3, np.abs(counts[0]), counts[0]), *counts[1:])
    for last in range(10):
        both(
            expansion.first_conflict,
            _compiled_v3.expansion.first_conflict,
            tables,
            number[:last],
            *(c[:last] for c in counts),
            1e-15,
        )
