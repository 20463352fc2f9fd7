"""Elimination orders: widths of known graphs, and that every term fits into a bag."""

from __future__ import annotations

import numpy as np
import pytest
from reference.families import FAMILIES, make, tree_edges

from maxsum import Graph, Problem
from maxsum.core.certificates.elimination_order import elimination_order


def zero_problem(graph: Graph, states: int = 2, **options) -> Problem:
    return Problem(graph, np.zeros((graph.n_nodes, states)), tables=np.zeros((states, states)), **options)


def cycle(n: int) -> Graph:
    return Graph.from_edges([(v, (v + 1) % n) for v in range(n)])


@pytest.mark.parametrize(
    ("graph", "width"),
    [
        (Graph.chain(9), 1),
        (Graph.from_edges(tree_edges(np.random.default_rng(0), 40)), 1),
        (Graph.from_edges([(0, v) for v in range(1, 30)]), 1),
        (cycle(3), 2),
        (cycle(11), 2),
        (Graph.grid(2, 7), 2),
        (Graph.grid(3, 3), 3),
        (Graph.grid(4, 4), 4),
        (Graph.grid(5, 5), 5),
        (Graph.complete(6), 5),
        (Graph.from_edges([], 4), 0),
        (Graph.chain(0), 0),
    ],
    ids=str,
)
def test_width_of_known_graphs(graph: Graph, width: int) -> None:
    order = elimination_order(zero_problem(graph))
    assert order is not None and order.width == width
    assert zero_problem(graph).structure().width == width


@pytest.mark.parametrize("family", FAMILIES)
def test_every_term_has_a_bag(family: str) -> None:
    for seed in range(5):
        problem = make(family, seed).problem
        order = elimination_order(problem)
        assert order is not None and sorted(order.nodes) == list(range(problem.n_nodes))
        rank = {v: i for i, v in enumerate(order.nodes)}
        bags = [{v, *s} for v, s in zip(order.nodes, order.separators, strict=True)]
        assert all(rank[w] > rank[v] for v, s in zip(order.nodes, order.separators, strict=True) for w in s)
        scopes = [set(e) for e in problem.graph.edges.tolist()]
        scopes += [set(problem.cliques.members(c).tolist()) for c in range(len(problem.cliques))]
        for scope in scopes:
            assert scope <= bags[min(rank[v] for v in scope)]
        for separator in order.separators:  # the running intersection: a separator fits into the bag that it goes to
            if separator:
                assert set(separator) <= bags[min(rank[w] for w in separator)]
        assert order.width == max((len(s) for s in order.separators), default=0)
        assert order.cells == sum(int(np.prod([problem.n_states[w] for w in bag])) for bag in bags)


def test_limits_give_none() -> None:
    problem = zero_problem(Graph.grid(5, 5))
    assert elimination_order(problem, max_width=4) is None and elimination_order(problem, max_width=5) is not None
    assert elimination_order(problem, max_cells=10) is None
    big = zero_problem(Graph.from_edges([], 60), cliques=[(range(60), 1.0)])
    assert elimination_order(big, max_width=40) is None and big.structure().width is None
    assert elimination_order(big).width == 59


def test_a_clique_counts_as_a_clique() -> None:
    problem = zero_problem(Graph.chain(5), cliques=[([0, 2, 4], 1.0)])
    assert elimination_order(problem).width == 2
