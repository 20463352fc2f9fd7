"""Structure: supermodularity with a witness, associativity, hard constraints, width."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from reference.families import FAMILIES, Case, make
from reference.seeds import seeds

from maxsum import Graph, Problem

SUPERMODULAR = np.array([[1.0, 0.0], [0.0, 1.0]])


def naive_supermodular(case: Case) -> bool:
    """All label quadruples of all edges."""
    for table, weight in zip(case.raw.tables, case.raw.weights, strict=True):
        g = table * weight
        room = 1e-12 * np.abs(g[np.isfinite(g)]).max(initial=0.0)
        for k, k2 in itertools.combinations(range(g.shape[0]), 2):
            for m, m2 in itertools.combinations(range(g.shape[1]), 2):
                if g[k, m] + g[k2, m2] < g[k, m2] + g[k2, m] - room:
                    return False
    return True


@pytest.mark.parametrize("family", [f for f in FAMILIES if not f.startswith("constant_1e9_in_t")])
def test_supermodularity_equals_the_definition(family: str) -> None:
    for seed in seeds(20):
        case = make(family, seed)
        found = case.problem.structure()
        assert found.supermodular == naive_supermodular(case), case
        assert (found.witness is None) == found.supermodular
        if found.witness is not None:
            w = found.witness
            k, m, k2, m2 = w.labels
            g = case.raw.tables[w.edge] * case.raw.weights[w.edge]
            assert k < k2 and m < m2 and w.nodes == case.raw.edges[w.edge] and w.value < 0
            value = g[k, m] + g[k2, m2] - g[k, m2] - g[k2, m]
            assert w.value == pytest.approx(value), case


def test_witness_names_the_first_bad_edge() -> None:
    tables = np.stack([SUPERMODULAR, SUPERMODULAR, -0.21 * SUPERMODULAR])
    problem = Problem(Graph.from_edges([(0, 1), (3, 2), (1, 3)]), np.zeros((4, 2)), tables=tables)
    witness = problem.structure().witness
    assert witness is not None and (witness.edge, witness.nodes, witness.table) == (2, (1, 3), 2)
    assert str(witness) == "edge 2 (nodes 1-3, table 2) has g(0,0) + g(1,1) - g(0,1) - g(1,0) = -0.42"


def test_negative_weight_turns_supermodularity_round() -> None:
    def kind(weights: list[float], table: np.ndarray) -> bool:
        return Problem(Graph.chain(3), np.zeros((3, 2)), tables=table, edge_weight=weights).structure().supermodular

    assert kind([1, 2], SUPERMODULAR) and not kind([1, -1], SUPERMODULAR)
    assert kind([-1, -2], -SUPERMODULAR) and kind([0, -2], -SUPERMODULAR)


def test_rounding_of_a_modular_table_is_forgiven() -> None:
    a, b = np.array([0.1, 0.7]), np.array([0.3, 1e6 / 3])
    assert Problem(Graph.chain(2), np.zeros((2, 2)), tables=a[:, None] + b).structure().supermodular
    slightly = np.array([[0.0, 1e-9], [0.0, 0.0]])
    assert not Problem(Graph.chain(2), np.zeros((2, 2)), tables=slightly).structure().supermodular


def test_forbidden_pairs_need_a_lattice() -> None:
    def supermodular(table: list) -> bool:
        n = len(table)
        return Problem(Graph.chain(2), np.zeros((2, n)), tables=np.array(table)).structure().supermodular

    no = -np.inf
    assert supermodular([[0, no], [0, 0]]) and supermodular([[0, no], [no, 0]])
    assert not supermodular([[no, 0], [0, no]]) and not supermodular([[no, 0], [0, 0]])
    assert supermodular([[0, -1, no], [-1, 0, -1], [no, -1, 0]])
    # neighbours are fine, but the corners 0 and 2 are not
    assert not supermodular([[no, no, 0], [no, no, no], [0, no, no]])


@pytest.mark.parametrize(
    ("table", "associative", "potts"),
    [
        (np.eye(3), True, True),
        (5 + 2 * np.eye(3), True, True),
        (np.diag([1.0, 2.0, 0.0]), True, False),
        (-np.eye(3), False, False),
        (np.zeros((3, 3)), True, True),
        (np.arange(9.0).reshape(3, 3), False, False),
        (np.where(np.eye(3, dtype=bool), 0.0, -np.inf), False, False),
    ],
)
def test_associative_and_potts(table: np.ndarray, associative: bool, potts: bool) -> None:
    found = Problem(Graph.chain(2), np.zeros((2, 3)), tables=table).structure()
    assert (found.associative, found.potts) == (associative, potts)
    turned = (
        Problem(Graph.chain(2), np.zeros((2, 3)), tables=-table + 0.0, edge_weight=[-1.0]) if np.isfinite(table).all() else None
    )
    if turned is not None:
        assert (turned.structure().associative, turned.structure().potts) == (associative, potts)


def test_simple_facts() -> None:
    problem = Problem(
        Graph.from_edges([(0, 1)], 3), [[0, 1], [0, -np.inf], [0, 0]], tables=np.eye(2), cliques=[([0, 1, 2], 1.0)]
    )
    found = problem.structure()
    assert (found.n_nodes, found.n_edges, found.n_labels, found.n_cliques, found.n_components) == (3, 1, 2, 1, 2)
    assert found.forest and found.binary and found.hard and found.width == 2
    assert problem.structure() is found
    empty = Problem(Graph.chain(0), np.zeros((0, 2))).structure()
    assert empty.forest and empty.n_components == 0 and empty.width == 0 and empty.supermodular


def test_padding_is_no_hard_constraint() -> None:
    problem = Problem(Graph.chain(2), [[0.0, 1.0], [0.0, 1.0, 2.0]], tables=[np.ones((2, 3))])
    assert not problem.has_hard_constraints and not problem.structure().hard and not problem.structure().binary


@pytest.mark.parametrize("seed", range(6))
def test_strictly_supermodular_is_every_second_difference_above_0(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = np.zeros((3, 4))
    steps[1:, 1:] = rng.random((2, 3)) + 0.01
    table = steps.cumsum(axis=0).cumsum(axis=1) + rng.normal(size=(3, 1)) + rng.normal(size=4)
    unary = [np.zeros(3), np.zeros(4), np.zeros(3)]
    graph = Graph.from_edges([(0, 1), (2, 1)], 3)

    def facts(own: np.ndarray, weight: tuple[float, float] = (1.0, 2.0)) -> tuple[bool, bool]:
        found = Problem(graph, unary, tables=[own, own], edge_weight=weight).structure()
        return found.supermodular, found.strictly_supermodular

    assert facts(table) == (True, True)
    assert facts(table, (1.0, 0.0)) == (True, False)
    assert facts(table, (1.0, -1.0)) == (False, False)
    flat = table.copy()
    flat[2] = flat[1] + 1.0
    assert facts(flat) == (True, False)
    assert facts(-table) == (False, False)


def test_strictly_supermodular_without_edges_and_with_forbidden_pairs() -> None:
    assert Problem(Graph.chain(1), np.zeros((1, 3))).structure().strictly_supermodular
    forbidden = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
    found = Problem(Graph.chain(2), np.zeros((2, 2)), tables=forbidden).structure()
    assert found.supermodular and not found.strictly_supermodular
