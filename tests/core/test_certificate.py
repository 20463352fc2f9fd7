"""Certificates: valid whatever their numbers are, and false claims are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from factories.problems import random_messages
from reference.families import FAMILIES, Case, make
from reference.seeds import seeds

from maxsum import CertificateError, Graph, InvalidProblemError, Messages, Problem
from maxsum.core.certificates.base import EliminationCertificate, MessageCertificate, SearchCertificate
from maxsum.core.certificates.elimination_order import elimination_order

families = pytest.mark.parametrize("family", FAMILIES)


def frustrated_triangle() -> Problem:
    """Each edge pays 1 if its ends differ: the optimum is 2, the relaxation 3."""
    return Problem(Graph.complete(3), np.zeros((3, 2)), tables=1.0 - np.eye(2))


# ---- messages --------------------------------------------------------------------------------------------------


@families
def test_messages_prove_no_more_than_the_truth(family: str) -> None:
    for seed in range(5):
        case, rng = make(family, seed), np.random.default_rng(seed)
        certificate = MessageCertificate(random_messages(case.problem, rng, float(case.raw.spreads.max(initial=0.0))))
        room = case.raw.resolution + 4 * case.raw.fuzz
        assert certificate.bound(case.problem) >= case.raw.best - room - case.raw.noise
        if case.raw.feasible:
            y = case.raw.labellings[np.isfinite(case.raw.scores.astype(float))][0]
            found = certificate.verify(case.problem, y)
            assert found.gap >= case.raw.regret(y) - room
            assert not found.optimal or case.raw.regret(y) <= room
            assert found.score == case.problem.score(y) and not found.infeasible


def test_false_claims_are_refused() -> None:
    problem = Problem(Graph.chain(3), [[0, 1], [0, 0], [2, 0]], tables=np.eye(2))
    certificate, y = MessageCertificate(problem.zero_messages()), [1, 1, 0]
    found = certificate.verify(problem, y, score=4.0, bound=5.0)
    assert (found.score, found.bound, found.gap, found.optimal) == (4.0, 5.0, 1.0, False)
    assert "within 1 of the optimum" in str(found)
    with pytest.raises(CertificateError, match=r"claimed score is 4\.5, but the labelling has 4\.0"):
        certificate.verify(problem, y, score=4.5)
    with pytest.raises(CertificateError, match=r"claimed bound is 4\.0, but the certificate proves only 5\.0"):
        certificate.verify(problem, y, bound=4.0)
    certificate.verify(problem, y, bound=6.0)
    with pytest.raises(InvalidProblemError, match=r"label of node 1 is 2, wanted 0\.\.1"):
        certificate.verify(problem, [0, 2, 0])
    with pytest.raises(InvalidProblemError, match=r"messages have shape .* wanted \(2, 2, 2\)"):
        MessageCertificate(Messages(np.zeros((2, 1, 2)), np.zeros((0, 2)))).verify(problem, y)


def test_infeasibility_by_arc_consistency_is_verified() -> None:
    forbid = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    problem = Problem(Graph.chain(2), [[0, -np.inf], [0, -np.inf]], tables=forbid)
    found = MessageCertificate(problem.zero_messages()).verify(problem, bound=-np.inf)
    assert found.infeasible and found.bound == -np.inf and "infeasible" in str(found)


def test_a_bound_alone_can_be_verified() -> None:
    problem = frustrated_triangle()
    found = MessageCertificate(problem.zero_messages()).verify(problem, bound=3.0)
    assert found.score == -np.inf and found.bound == 3.0 and found.gap == np.inf and not found.optimal
    with pytest.raises(CertificateError, match="proves only 3"):
        MessageCertificate(problem.zero_messages()).verify(problem, bound=2.5)


@pytest.mark.parametrize("size", [1.7e308, 1e200])
def test_messages_that_would_overflow_prove_nothing(size: float) -> None:
    """Sums that run to infinity would "prove" infeasibility."""
    problem = frustrated_triangle()
    messages = problem.zero_messages()
    messages.edge[:] = size
    with pytest.raises(InvalidProblemError, match="at most 1e"):
        MessageCertificate(messages).verify(problem, [0, 0, 0])
    index = np.arange(messages.edge.size)
    tree = one_box(ptr=np.array([0, len(index)]), index=index, value=np.full(len(index), size))
    with pytest.raises(InvalidProblemError, match="at most 1e"):
        tree.verify(problem, [0, 0, 0])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_non_finite_messages_are_refused(value: float) -> None:
    problem = frustrated_triangle()
    messages = problem.zero_messages()
    messages.edge[1, 2, 0] = value
    with pytest.raises(InvalidProblemError, match=f"messages hold {value}, wanted finite numbers"):
        MessageCertificate(messages).verify(problem, [0, 0, 1])


# ---- elimination -----------------------------------------------------------------------------------------------


def eliminate(case: Case) -> EliminationCertificate:
    """Bucket elimination over dictionaries, written for this test alone."""
    raw, states = case.raw, [len(row) for row in case.raw.unary]
    order = elimination_order(case.problem)
    assert order is not None
    buckets: list = [(((v,), {(k,): float(q) for k, q in enumerate(row)})) for v, row in enumerate(raw.unary)]
    for (u, v), table, w in zip(raw.edges, raw.tables, raw.weights, strict=True):
        buckets.append(((u, v), {i: float(x) * w for i, x in np.ndenumerate(table)}))
    for nodes, weights in raw.cliques:
        cells = np.ndindex(*[states[v] for v in nodes])
        buckets.append((nodes, {i: float(weights[i[0]]) if len(set(i)) == 1 else 0.0 for i in cells}))
    buckets += [(nodes, {i: float(x) for i, x in np.ndenumerate(table)}) for nodes, table, _ in raw.factors]
    tables = []
    for v, separator in zip(order.nodes, order.separators, strict=True):
        mine = [b for b in buckets if v in b[0]]
        buckets = [b for b in buckets if v not in b[0]]
        message = np.full([states[w] for w in separator], -np.inf)
        for cell in np.ndindex(*[states[w] for w in (v, *separator)]):
            at = dict(zip((v, *separator), cell, strict=True))
            value = sum(table[tuple(at[w] for w in scope)] for scope, table in mine)
            message[cell[1:]] = max(message[cell[1:]], value)
        top = message.max() if np.isfinite(message.max()) else 0.0
        tables.append(message - top)
        buckets.append((separator, dict(np.ndenumerate(message - top))))
    return EliminationCertificate(order.nodes, order.separators, tuple(tables))


@pytest.mark.parametrize("family", [f for f in FAMILIES if f not in ("scale_1e12", "one_huge_edge", "constant_1e9_in_tables")])
def test_elimination_tables_prove_the_optimum(family: str) -> None:
    for seed in range(6):
        case = make(family, seed)
        certificate = eliminate(case)
        if not case.raw.feasible:
            assert certificate.verify(case.problem).infeasible, case
            continue
        found = certificate.verify(case.problem, case.raw.optima[0])
        assert found.gap <= case.raw.resolution + 4 * case.raw.noise, case
        assert certificate.bound(case.problem) == pytest.approx(case.raw.best, abs=case.raw.resolution + 4 * case.raw.noise), (
            case
        )


@families
def test_random_elimination_tables_still_give_a_valid_bound(family: str) -> None:
    for seed in range(6):
        case, rng = make(family, seed), np.random.default_rng(seed)
        certificate = eliminate(case)
        scale = float(case.raw.spreads.max(initial=0.0))
        for share in (0.0, 0.3):
            tables = []
            for table in certificate.tables:
                noise = scale * rng.normal(size=table.shape)
                tables.append(np.where(rng.random(table.shape) < share, -np.inf, noise))
            wild = dataclasses.replace(certificate, tables=tuple(tables))
            assert wild.bound(case.problem) >= case.raw.best - 8 * case.raw.noise, (case, share)
            if case.raw.feasible:
                y = case.raw.labellings[np.isfinite(case.raw.scores.astype(float))][0]
                found = wild.verify(case.problem, y)
                assert not found.optimal or case.raw.regret(y) <= case.raw.resolution + 4 * case.raw.fuzz
                assert not found.infeasible


@pytest.mark.parametrize("family", ["chain", "complete", "cliques_three_labels"])
def test_broken_elimination_orders_are_refused(family: str) -> None:
    case = make(family, 2)
    good = eliminate(case)
    nodes, separators, tables = list(good.nodes), list(good.separators), list(good.tables)
    with pytest.raises(CertificateError, match="does not list every node once"):
        dataclasses.replace(good, nodes=(nodes[0], *nodes[:-1])).verify(case.problem)
    with pytest.raises(CertificateError, match="does not list every node once"):
        dataclasses.replace(good, nodes=(*nodes[:-1], 99)).verify(case.problem)
    with pytest.raises(CertificateError, match="does not list every node once"):
        dataclasses.replace(good, tables=tuple(tables[:-1])).verify(case.problem)
    with pytest.raises(CertificateError, match="separator table of node"):
        dataclasses.replace(good, tables=(np.zeros((7, 7)), *tables[1:])).verify(case.problem)
    with pytest.raises(CertificateError, match="separator table of node"):
        dataclasses.replace(good, tables=(np.full(tables[0].shape, np.nan), *tables[1:])).verify(case.problem)
    with pytest.raises(CertificateError):
        dataclasses.replace(good, separators=((), *separators[1:]), tables=(np.zeros(()), *tables[1:])).verify(case.problem)


def test_a_table_sent_backwards_is_refused() -> None:
    """It would be subtracted and never added: a bound below the truth."""
    problem = Problem(Graph.chain(2), [[0.0, 1.0], [0.0, 2.0]], tables=np.zeros((2, 2)))
    lie = EliminationCertificate((0, 1), ((1,), (0,)), (np.zeros(2), np.full(2, 1e6)))
    with pytest.raises(CertificateError, match="come later"):
        lie.verify(problem)


def test_a_forbidden_separator_is_no_proof_of_infeasibility() -> None:
    problem = Problem(Graph.chain(2), [[0.0, 1.0], [0.0, 2.0]], tables=np.zeros((2, 2)))
    lie = EliminationCertificate((0, 1), ((1,), ()), (np.full(2, -np.inf), np.zeros(())))
    assert lie.bound(problem) == np.inf
    found = lie.verify(problem, [0, 0])
    assert not found.infeasible and not found.optimal


# ---- search ----------------------------------------------------------------------------------------------------


def one_box(**changes: np.ndarray) -> SearchCertificate:
    zero, none = np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64)
    empty = dict(ptr=np.array([0, 0]), index=none, value=np.zeros(0))
    return SearchCertificate(zero, zero, zero, zero, zero, **{**empty, **changes})


def search(parent: list[int], node: list[int], label: list[int], relation: list[int], sets: list[dict]) -> SearchCertificate:
    """A tree with one sparse message set per box, given as {flat index: value}."""
    ptr = np.cumsum([0] + [len(s) for s in sets])
    index = np.array([i for s in sets for i in s], dtype=np.int64)
    value = np.array([x for s in sets for x in s.values()], dtype=float)
    number = np.arange(len(parent))
    return SearchCertificate(np.array(parent), np.array(node), np.array(label), np.array(relation), number, ptr, index, value)


def triangle_tree(**changes: list) -> SearchCertificate:
    """Branch on node 0; in each branch messages move what edges 0-1 and 0-2 pay at nodes 1 and 2 to edge 1-2.

    In the branch ``y0 = k`` an edge 0-v pays 1 for label 1-k of v; edge 1-2 pays 1 if they differ. Moving half of the
    reward of label 1-k from each of the two edges to edge 1-2 makes every maximum agree with the optimum, 2.
    """

    def branch(k: int) -> dict:
        # flat index of messages.edge[side, edge, label] for 3 edges (01, 02, 12) and 2 labels
        def at(side: int, edge: int, label: int) -> int:
            return (side * 3 + edge) * 2 + label

        return {at(1, 0, 1 - k): -1.0, at(1, 1, 1 - k): -1.0, at(0, 2, 1 - k): 0.5, at(1, 2, 1 - k): 0.5}

    given = dict(
        parent=[-1, 0, 0], node=[-1, 0, 0], label=[-1, 0, 1], relation=[False, True, True], sets=[{}, branch(0), branch(1)]
    )
    return search(**{**given, **changes})


def test_search_tree_closes_the_frustrated_triangle() -> None:
    problem = frustrated_triangle()
    found = triangle_tree().verify(problem, [0, 0, 1], score=2.0, bound=2.0)
    assert found.optimal and found.bound == 2.0
    assert one_box().verify(problem, [0, 0, 1]).gap == 1.0
    worse = triangle_tree().verify(problem, [0, 0, 0])
    assert not worse.optimal and worse.gap >= 2.0


@pytest.mark.parametrize(
    "changes",
    [
        dict(parent=[-1, 0], node=[-1, 0], label=[-1, 0], relation=[False, True], sets=[{}, {}]),
        dict(label=[-1, 0, 0]),
        dict(node=[-1, 0, 1]),
    ],
    ids=["missing child", "one label twice", "two nodes"],
)
def test_branches_that_do_not_cover_prove_nothing(changes: dict) -> None:
    problem = frustrated_triangle()
    found = triangle_tree(**changes).verify(problem, [0, 0, 1])
    assert found.gap == 1.0 and not found.optimal
    with pytest.raises(CertificateError, match=r"claimed bound is 2\.0, but the certificate proves only 3"):
        triangle_tree(**changes).verify(problem, [0, 0, 1], bound=2.0)


@pytest.mark.parametrize(
    ("label", "relation", "covers"),
    [
        ([-1, 0, 0], [0, 1, 0], True),
        ([-1, 1, 1], [0, 2, 3], True),
        ([-1, 0, 1], [0, 2, 3], False),
        ([-1, 1, 1], [0, 3, 3], False),
        ([-1, 1, 1], [0, 2, 0], False),
    ],
)
def test_branches_by_comparison(label: list[int], relation: list[int], covers: bool) -> None:
    """Relations 0, 1, 2, 3 are !=, ==, <, >=."""
    found = triangle_tree(label=label, relation=relation).verify(frustrated_triangle_with_odd_scores(), [0, 0, 1])
    assert found.optimal == covers


def frustrated_triangle_with_odd_scores() -> Problem:
    """The same optimum, but not all scores are whole numbers."""
    return Problem(Graph.complete(3), np.zeros((3, 2)), tables=1.0 - np.eye(2), offset=0.5)


def test_unknown_relations_are_refused() -> None:
    for relation in (-1, 4):
        with pytest.raises(CertificateError, match="out of range"):
            triangle_tree(relation=[0, relation, 1]).verify(frustrated_triangle_with_odd_scores(), [0, 0, 1])


@pytest.mark.parametrize("parent", [[-1, 2, 0], [-1, 0, 2], [-1, -1, 0], [-1, 0, 7]])
def test_tampered_parents_are_refused(parent: list[int]) -> None:
    with pytest.raises(CertificateError, match="comes before its parent"):
        triangle_tree(parent=parent).verify(frustrated_triangle(), [0, 0, 1])


def test_random_messages_in_a_search_tree_still_give_a_valid_bound() -> None:
    rng = np.random.default_rng(4)
    for family in ("complete", "hard_random", "cliques_three_labels", "unequal_label_counts", "hard_feasible"):
        for seed in seeds(10):
            case = make(family, seed)
            size = sum(part.size for part in case.problem.zero_messages())
            branch = int(rng.integers(case.problem.n_nodes))
            sets = [dict(enumerate(rng.normal(size=size))) for _ in range(3)]
            tree = search([-1, 0, 0], [-1, branch, branch], [-1, 0, 0], [0, 1, 0], sets)
            assert tree.bound(case.problem) >= case.raw.best - case.raw.fuzz
            if case.raw.feasible:
                feasible = case.raw.labellings[np.isfinite(case.raw.scores.astype(float))]
                for y in (feasible[0], case.raw.optima[0]):
                    assert tree.verify(case.problem, y).gap >= case.raw.regret(y) - case.raw.resolution - 4 * case.raw.fuzz


def test_search_proves_infeasibility_by_propagation() -> None:
    """Two colours for a triangle: no box is arc inconsistent until a node is fixed."""
    problem = Problem(Graph.complete(3), np.zeros((3, 2)), tables=np.where(np.eye(2, dtype=bool), -np.inf, 0.0))
    tree = triangle_tree(sets=[{}, {}, {}])
    assert tree.verify(problem, bound=-np.inf).infeasible
    assert not one_box().verify(problem).infeasible
