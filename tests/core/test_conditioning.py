"""Known labels: what is left of a problem has the scores of the whole, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from reference.families import FAMILIES, make
from reference.seeds import seeds

import maxsum as ms

SEEDS = seeds(40)


def same(a: float, b: float, room: float) -> bool:
    return a == b or abs(a - b) <= room


@pytest.mark.parametrize("name", FAMILIES)
def test_a_conditioned_problem_scores_as_the_whole(name: str) -> None:
    for seed in SEEDS:
        case = make(name, seed)
        p, rng = case.problem, np.random.default_rng(seed)
        n = p.n_nodes
        some = rng.choice(n, size=int(rng.integers(n + 1)), replace=False) if n else []
        fixed = {int(v): int(rng.integers(p.n_states[v])) for v in some}
        y, scores = case.raw.labellings, case.raw.scores
        inside = (
            np.logical_and.reduce([y[:, v] == k for v, k in fixed.items()], axis=0) if fixed else np.ones(len(y), dtype=bool)
        )
        try:
            part = p.condition(fixed)
        except ms.InfeasibleError:
            assert np.isneginf(scores[inside]).all(), (case, fixed)
            continue
        kept = p.kept_nodes(fixed)
        assert kept.tolist() == [v for v in range(n) if v not in fixed]
        for labels, score in zip(y[inside], scores[inside], strict=True):
            assert same(part.score(labels[kept]), float(score), case.raw.noise), (case, fixed, labels)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_restricted_problem_forbids_the_rest_and_changes_nothing_else(name: str) -> None:
    for seed in SEEDS:
        case = make(name, seed)
        p, rng = case.problem, np.random.default_rng(seed)
        if not p.n_nodes:
            continue
        v = int(rng.integers(p.n_nodes))
        fixed = {v: int(rng.integers(p.n_states[v]))}
        mask = rng.random(p.unary.shape) < 0.7
        y = case.raw.labellings
        inside = (y[:, v] == fixed[v]) & mask[np.arange(p.n_nodes), y].all(axis=1)
        try:
            part = p.restrict(fixed, mask)
        except ms.InfeasibleError:
            assert np.isneginf(case.raw.scores[inside]).all()
            continue
        for labels, score, fine in zip(y, case.raw.scores, inside, strict=True):
            assert same(part.score(labels), float(score) if fine else -np.inf, case.raw.noise)


@pytest.mark.parametrize("name", FAMILIES)
def test_solve_with_fixed_and_allowed_labels(name: str) -> None:
    for seed in range(6):
        case = make(name, seed)
        p, rng = case.problem, np.random.default_rng(seed)
        if not p.n_nodes:
            continue
        v, w = (int(i) for i in rng.integers(p.n_nodes, size=2))
        fixed, allowed = {v: int(rng.integers(p.n_states[v]))}, {w: [0, int(p.n_states[w]) - 1]}
        y = case.raw.labellings
        inside = (y[:, v] == fixed[v]) & np.isin(y[:, w], allowed[w])
        best = case.raw.scores[inside].max(initial=-np.inf)
        try:
            result = ms.solve(p, fixed=fixed, allowed=allowed)
        except ms.InfeasibleError:
            assert np.isneginf(best)
            continue
        if np.isneginf(best):
            assert result.guarantee == "infeasible"
            continue
        assert result.labels[v] == fixed[v] and result.labels[w] in allowed[w]
        assert same(result.score, float(best), case.raw.noise + 1e-9 * abs(float(best)))
        assert "problem.restrict(fixed, allowed)" in result.message
        result.verify(p.restrict(fixed, allowed))


def test_a_clique_with_a_fixed_member_pays_for_that_label_alone() -> None:
    p = ms.Problem(ms.Graph.from_edges([], 4), np.zeros((4, 2)), cliques=[((0, 1, 2), [3.0, 5.0]), ((2, 3), [1.0, 2.0])])
    part = p.condition({0: 1})
    assert [part.score(y) for y in ([0, 0, 0], [1, 1, 0], [1, 1, 1])] == [1.0, 5.0, 7.0]
    both = p.condition({0: 1, 1: 0})
    assert len(both.cliques) == 1 and both.score([1, 1]) == 2.0


def test_what_is_wrong_is_named() -> None:
    p = ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), tables=[[-np.inf, 0], [0, 0]])
    with pytest.raises(ms.InfeasibleError, match="edge 0 forbids labels 0 and 0"):
        p.condition({0: 0, 1: 0})
    with pytest.raises(ms.InvalidProblemError, match="node 2"):
        p.condition({2: 0})
    with pytest.raises(ms.InvalidProblemError, match="label 2"):
        p.restrict({0: 2})
    with pytest.raises(ms.InvalidProblemError, match="mask of bool"):
        p.restrict(allowed=np.ones((2, 3), dtype=bool))
    with pytest.raises(ms.InfeasibleError, match="node 1 has no label left"):
        p.restrict(allowed={1: []})
