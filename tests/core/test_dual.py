"""The dual bound: valid for any messages, term by term, with hard constraints and cliques."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from factories.problems import random_messages
from reference.families import FAMILIES, Case, make
from reference.seeds import seeds

from maxsum import Graph, Problem
from maxsum.core.certificates.dual import arc_consistent, excess, height, own_labels, slack
from maxsum.core.certificates.scale import edge_centres, typical_spread

SEEDS = seeds(6)
families = pytest.mark.parametrize("family", FAMILIES)


def scale_of(case: Case) -> float:
    return max(float(case.raw.spreads.max(initial=0.0)), 1e-12)


def rounding(case: Case, scale: float = 1.0) -> float:
    """Of a gap, with messages of ``scale`` times the largest spread."""
    return 16 * np.finfo(float).eps * (1 + scale) * scale_of(case) * (1 + len(case.raw.spreads))


@families
def test_bound_is_above_every_score_for_any_messages(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        for scale in (0.0, 1.0, 100.0):
            messages = random_messages(case.problem, rng, scale * scale_of(case))
            room = case.raw.noise + rounding(case, scale)
            assert case.problem.bound(messages) >= case.raw.best - room, (case, scale)


@families
def test_slack_terms_are_never_negative_and_sum_to_the_gap(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        problem = case.problem
        messages = random_messages(problem, rng, scale_of(case))
        for y in case.raw.labellings[rng.integers(len(case.raw.labellings), size=5)]:
            found = slack(problem, messages, y)
            if not np.isfinite(case.raw.score(y)):
                assert found.bound in (-np.inf, np.inf) and found.gap == np.inf
                continue
            parts = (found.node, found.edge, found.clique, found.factor)
            for part in parts:
                assert (part >= 0).all()
            assert found.gap == pytest.approx(sum(p.sum() for p in parts))
            assert found.bound == pytest.approx(case.raw.score(y) + found.gap, rel=1e-14, abs=case.raw.noise)
            assert found.bound == pytest.approx(height(problem, messages), abs=case.raw.noise + rounding(case))
            assert found.gap >= case.raw.regret(y) - rounding(case)


def naive_arc_consistency(case: Case) -> np.ndarray:
    raw, problem = case.raw, case.problem
    domain = [{k for k, q in enumerate(row) if q > -np.inf} for row in raw.unary]
    while True:
        kept = [set(d) for d in domain]
        for (u, v), table in zip(raw.edges, raw.tables, strict=True):
            kept[u] &= {k for k in domain[u] if any(table[k, m] > -np.inf for m in domain[v])}
            kept[v] &= {m for m in domain[v] if any(table[k, m] > -np.inf for k in domain[u])}
        for nodes, table, _ in raw.factors:
            for i, v in enumerate(nodes):
                possible = itertools.product(*(domain[w] for w in nodes))
                kept[v] &= {y[i] for y in possible if table[y] > -np.inf}
        if kept == domain:
            break
        domain = kept
    mask = np.zeros((problem.n_nodes, problem.n_labels), dtype=bool)
    for v, labels in enumerate(domain):
        mask[v, sorted(labels)] = True
    return mask


@pytest.mark.parametrize(
    "family",
    ["hard_feasible", "hard_random", "hard_tree", "infeasible_colouring", "cliques_hard", "chain", "factor_tables"]
    + ["factors_mixed", "factor_counts", "factors_all_different"],
)
def test_arc_consistency_equals_a_naive_fixpoint(family: str) -> None:
    for seed in seeds(40):
        case = make(family, seed)
        found, wanted = arc_consistent(case.problem), naive_arc_consistency(case)
        if wanted.any(axis=1).all():
            assert np.array_equal(found, wanted), case
        else:
            assert not found.any(axis=1).all(), case
            assert case.problem.bound() == -np.inf


def test_arc_consistency_starts_from_a_given_domain_and_leaves_it_alone() -> None:
    equal = np.where(np.eye(3, dtype=bool), 0.0, -np.inf)
    problem = Problem(Graph.chain(3), np.zeros((3, 3)), tables=equal)
    domain = own_labels(problem)
    domain[0, 1:] = False
    before = domain.copy()
    assert arc_consistent(problem, domain).tolist() == [[True, False, False]] * 3
    assert np.array_equal(domain, before)


@families
def test_excess_bounds_every_labelling_of_a_box(family: str) -> None:
    for seed in SEEDS:
        case, rng = make(family, seed), np.random.default_rng(seed)
        if not case.raw.feasible:
            continue
        problem, raw = case.problem, case.raw
        messages = random_messages(problem, rng, scale_of(case))
        domain = own_labels(problem) & (rng.random((problem.n_nodes, problem.n_labels)) < 0.7)
        feasible = raw.labellings[np.isfinite(raw.scores.astype(float))]
        known = feasible[rng.integers(len(feasible))]
        above, loss = excess(problem, messages, domain, known)
        inside = feasible[domain[np.arange(problem.n_nodes), feasible].all(axis=1)]
        for y in inside[:30]:
            gained = raw.difference(y, known)
            assert gained <= above + rounding(case), case
            lost = loss[np.arange(problem.n_nodes), y].max(initial=0.0)
            assert gained <= above - lost + rounding(case), case
        assert (loss >= 0).all() or not domain.any(axis=1).all()


@families
def test_resolution_is_a_fact_about_the_scores_alone(family: str) -> None:
    """Padding of unequal label counts, constants and the form of the tables must not move it."""
    for seed in seeds(20):
        case = make(family, seed)
        assert case.problem.resolution == pytest.approx(case.raw.resolution, rel=1e-6, abs=1e-300), case


def test_typical_spread_counts_the_terms_that_vary() -> None:
    problem = Problem(Graph.chain(3), [[0, 1], [0, 3], [5, 5]], tables=np.eye(2), edge_weight=[2.0, -4.0])
    assert typical_spread(problem) == np.quantile([1, 3, 2, 4], 0.1) * 4
    assert typical_spread(Problem(Graph.chain(2), np.zeros((2, 2)), tables=np.zeros((2, 2)))) == 0.0
    hard = Problem(Graph.chain(2), [[0, 2, -np.inf], [0, 0, 2]], tables=np.where(np.eye(3, dtype=bool), -np.inf, 0.0))
    assert typical_spread(hard) == 4.0


def test_padding_does_not_move_the_centre_of_a_table() -> None:
    rng = np.random.default_rng(0)
    table = -1e9 + rng.normal(size=(2, 3))
    problem = Problem(Graph.chain(2), [np.zeros(2), np.zeros(3)], tables=[table])
    assert edge_centres(problem).tolist() == [table.max()]
    assert typical_spread(problem) == pytest.approx(np.ptp(table))


def test_edge_centres_follow_the_sign_of_the_weight() -> None:
    problem = Problem(Graph.chain(3), np.zeros((3, 2)), tables=[[1.0, 2.0], [3.0, 4.0]], edge_weight=[2.0, -1.0])
    assert edge_centres(problem).tolist() == [8.0, -1.0]


def test_a_large_constant_does_not_drown_the_gap() -> None:
    rng = np.random.default_rng(1)
    unary, tables = rng.normal(size=(5, 3)), rng.normal(size=(4, 3, 3))
    graph = Graph.chain(5)
    shifted = unary + 1e9
    plain, high = Problem(graph, shifted - 1e9, tables=tables), Problem(graph, shifted, tables=tables)
    y = np.array([0, 1, 2, 0, 1], dtype=np.int32)
    a, b = slack(plain, plain.zero_messages(), y), slack(high, high.zero_messages(), y)
    assert a.gap == pytest.approx(b.gap, abs=1e-12)


def test_an_unreachable_gap_is_infinite_only_for_forbidden_labellings() -> None:
    problem = Problem(Graph.chain(2), [[0, -np.inf], [0, 1]], tables=np.zeros((2, 2)))
    assert slack(problem, problem.zero_messages(), np.array([1, 0])).gap == np.inf
    assert slack(problem, problem.zero_messages(), np.array([0, 0])).gap == pytest.approx(1.0, rel=1e-14)


@families
def test_step_is_one_only_where_all_scores_are_whole(family: str) -> None:
    for seed in seeds(10):
        case = make(family, seed)
        if case.problem.step:
            assert case.problem.step == 1.0
            scores = case.raw.scores[np.isfinite(case.raw.scores.astype(float))]
            assert (scores == np.floor(scores)).all(), case


def test_step_sees_every_part_of_a_problem() -> None:
    graph = Graph.chain(2)
    whole = dict(unary=np.ones((2, 2)), tables=np.eye(2))
    assert Problem(graph, **whole).step == 1.0
    assert Problem(graph, **whole, edge_weight=[2.0], offset=-3.0, cliques=[([0, 1], 2.0)]).step == 1.0
    for odd in (dict(edge_weight=[0.5]), dict(offset=0.5), dict(cliques=[([0, 1], 0.5)])):
        assert Problem(graph, **whole, **odd).step == 0.0, odd
    assert Problem(graph, np.full((2, 2), 0.5), tables=np.eye(2)).step == 0.0
    assert Problem(graph, np.full((2, 2), 2.0**52), tables=np.eye(2)).step == 1.0
    long = np.zeros((100, 2))
    long[99, 1] = 0.25
    assert Problem(Graph.chain(100), long, tables=np.eye(2)).step == 0.0
