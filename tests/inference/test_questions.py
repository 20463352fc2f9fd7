"""Sums, probabilities, max-marginals and samples, against enumeration; bounds where the graph is taken to be too wide."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from reference.families import FAMILIES, make
from reference.seeds import THOROUGH, seeds

import maxsum as ms
from maxsum.core.factors.lifting import lift
from maxsum.inference.questions.log_partition import loopy_sums

SEEDS = seeds(40)


def log_z(case) -> float:
    scores = case.raw.scores
    top = scores.max()
    return float(top + np.log(np.exp(scores - top).sum())) if np.isfinite(top) else -np.inf


def chances(case) -> np.ndarray:
    scores = case.raw.scores
    weight = np.exp(scores - scores.max()).astype(float)
    return weight / weight.sum()


def true_marginals(case) -> np.ndarray:
    found, p = np.zeros(case.problem.unary.shape), chances(case)
    for v in range(case.problem.n_nodes):
        np.add.at(found[v], case.raw.labellings[:, v], p)
    return found


def true_max_marginals(case) -> np.ndarray:
    found = np.full(case.problem.unary.shape, -np.inf)
    for v in range(case.problem.n_nodes):
        np.maximum.at(found[v], case.raw.labellings[:, v], case.raw.scores.astype(float))
    return found


@pytest.fixture
def wide(monkeypatch):
    """Every graph is too wide for exact answers."""
    for name in ("bags", "log_partition", "marginals", "max_marginals", "sample", "k_best"):
        monkeypatch.setattr(sys.modules[f"maxsum.inference.questions.{name}"], "exact_order", lambda problem: None)


@pytest.mark.parametrize("name", FAMILIES)
def test_log_partition_is_exact(name: str) -> None:
    for seed in SEEDS:
        case = make(name, seed)
        found, true = ms.log_partition(case.problem), log_z(case)
        assert found.exact and found.lower == found.upper
        assert found.upper == true or abs(found.upper - true) <= case.raw.noise + 1e-12, case


@pytest.mark.parametrize("name", FAMILIES)
def test_bounds_of_log_partition_hold(name: str) -> None:
    for seed in SEEDS[:15] if name.startswith("factor") else SEEDS:
        case = make(name, seed)
        try:
            problem = lift(case.problem).problem if len(case.problem.factors) else case.problem
        except ms.InfeasibleError:
            assert not case.raw.feasible
            continue
        for rounds in (0, 3, 100):
            found = loopy_sums(problem, rounds).bracket
            assert found.lower <= log_z(case) <= found.upper, (case, rounds, found)


@pytest.mark.parametrize("name", FAMILIES)
def test_marginals_are_exact(name: str) -> None:
    for seed in SEEDS:
        case = make(name, seed)
        if not case.raw.feasible:
            with pytest.raises(ms.InfeasibleError, match="no labelling"):
                ms.marginals(case.problem)
            continue
        found = ms.marginals(case.problem, bracket=True)
        room = 1e-9 + 4 * case.raw.noise
        assert found.exact and np.abs(found.node - true_marginals(case)).max(initial=0.0) <= room, case
        assert np.array_equal(found.lower, found.node)
        pairs, p, y = np.zeros(found.edges().shape), chances(case), case.raw.labellings
        for e, (u, v) in enumerate(case.problem.graph.edges.tolist()):
            np.add.at(pairs[e], (y[:, u], y[:, v]), p)
        assert np.abs(found.edges() - pairs).max(initial=0.0) <= room, case


@pytest.mark.parametrize(
    "name",
    ["grid8", "complete", "hard_feasible", "cliques_three_labels", "unequal_label_counts", "factor_tables", "factors_mixed"],
)
def test_estimates_say_so_and_their_brackets_hold(name: str, wide: None) -> None:
    for seed in range(8):
        case = make(name, seed)
        if not case.raw.feasible:
            with pytest.raises(ms.InfeasibleError, match="no labelling"):
                ms.marginals(case.problem, bracket=True)
            continue
        found = ms.marginals(case.problem, bracket=True)
        assert not found.exact and "estimate" in found.message
        own = np.arange(case.problem.n_labels) < case.problem.n_states[:, None]
        assert np.allclose(found.node.sum(axis=1), 1) and np.allclose(found.edges().sum(axis=(1, 2)), 1)
        true = true_marginals(case)
        assert (found.lower <= true + 1e-12).all() and (true <= found.upper + 1e-12).all() and (found.node[~own] == 0).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_max_marginals_are_exact(name: str) -> None:
    for seed in SEEDS:
        case = make(name, seed)
        found, true = ms.max_marginals(case.problem), true_max_marginals(case)
        assert found.exact
        assert np.array_equal(np.isneginf(found.values), np.isneginf(true)), case
        fine = np.isfinite(true)
        assert np.abs(found.values[fine] - true[fine]).max(initial=0.0) <= case.raw.noise, case


@pytest.mark.parametrize("name", FAMILIES)
def test_bounds_of_max_marginals_hold(name: str, wide: None) -> None:
    for seed in SEEDS:
        case = make(name, seed)
        found, true = ms.max_marginals(case.problem), true_max_marginals(case)
        fine = np.isfinite(true)
        assert (found.upper >= true).all(), case
        assert (found.lower[fine] <= true[fine] + case.raw.noise).all() and np.isneginf(found.lower[~fine]).all(), case
        if not found.exact:
            with pytest.raises(ms.UnsupportedProblemError, match=r"lower and \.upper"):
                _ = found.values


@pytest.mark.parametrize(
    "name", ["tree", "grid8", "hard_feasible", "cliques_hard", "unequal_label_counts", "factors_mixed", "factors_all_different"]
)
@pytest.mark.parametrize("method", ["exact", "gibbs"])
def test_samples_have_their_probabilities(name: str, method: str) -> None:
    n = 4000
    for seed in range(3 if THOROUGH or method == "exact" else 1):
        case = make(name, seed)
        if method == "gibbs" and len(case.problem.factors):
            with pytest.raises(ms.UnsupportedProblemError, match="has factors"):
                ms.sample(case.problem, 2, method=method)
            continue
        if not case.raw.feasible:
            with pytest.raises(ms.InfeasibleError, match="no labelling"):
                ms.sample(case.problem, 2, method=method)
            continue
        if method == "gibbs" and case.problem.has_hard_constraints:
            continue  # chains may not get from one island of labellings to another, which is why they are not called exact
        found = ms.sample(case.problem, n, method=method, random_state=seed)
        assert found.exact == (method == "exact") and found.labels.shape == (n, case.problem.n_nodes)
        p, shape = chances(case), case.problem.n_states
        code = np.ravel_multi_index(found.labels.T, shape)
        seen = np.bincount(code, minlength=len(p))
        assert seen[p == 0].sum() == 0
        statistic = ((seen - n * p)[p > 0] ** 2 / (n * p[p > 0])).sum()
        # chi-squared of so many degrees has this mean and variance; five deviations are met by chance once in a million
        degrees = (p > 0).sum() - 1
        rare = 1 / p[p > 0].min() / n  # labellings that are seen less than once widen the tail
        assert statistic <= degrees + 5 * np.sqrt(2 * degrees + rare) + 5 + 20 * rare, (case, statistic, degrees)


def test_gibbs_estimates_have_honest_errors() -> None:
    case = make("grid8", 1)
    found = ms.marginals(case.problem, method="gibbs", n_sweeps=4000, random_state=0)
    assert not found.exact and found.standard_error is not None
    assert (np.abs(found.node - true_marginals(case)) <= 6 * found.standard_error + 1e-3).all()
    assert np.allclose(found.edges().sum(axis=(1, 2)), 1)


@pytest.mark.parametrize("name", ["factor_tables", "factors_mixed", "factor_counts", "factors_all_different"])
def test_bounds_of_log_partition_hold_where_factors_are_written_with_nodes(name: str, wide: None) -> None:
    for seed in range(8):
        case = make(name, seed)
        found, true = ms.log_partition(case.problem), log_z(case)
        assert found.lower <= true + 1e-9 and true <= found.upper + 1e-9, (case, found)
        assert not found.exact or np.isneginf(true)


def test_sums_of_a_wide_count_are_exact() -> None:
    """A table of all nodes has no room; partial counts have, and the sum is a polynomial's coefficient."""
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(24, 2))
    p = ms.Problem(ms.Graph.from_edges([], 24), unary, factors=[ms.factors.exactly(range(24), 13)])
    ways = np.array([1.0])
    for a, b in np.exp(unary):
        ways = np.convolve(ways, [a, b])
    assert ms.log_partition(p).exact and ms.log_partition(p).upper == pytest.approx(np.log(ways[13]), abs=1e-10)
    found = ms.marginals(p)
    assert found.exact and found.node[:, 1].sum() == pytest.approx(13, abs=1e-9)
    drawn = ms.sample(p, 50, random_state=0)
    assert drawn.exact and drawn.labels.shape == (50, 24) and (drawn.labels.sum(axis=1) == 13).all()
    best = ms.k_best(p, 3, time_limit=20)
    gain = np.sort(unary[:, 1] - unary[:, 0])[::-1]
    top = unary[:, 0].sum() + gain[:13].sum()
    swaps = np.sort((gain[None, 13:] - gain[:13, None]).ravel())[::-1]
    np.testing.assert_allclose(best.scores, [top, top + swaps[0], top + swaps[1]])
    assert best.proven == 3 and best.verify(p).proven == 3


def test_wide_graphs_are_refused_or_bounded(wide: None) -> None:
    case = make("grid4", 0)
    with pytest.raises(ms.UnsupportedProblemError, match='method="gibbs"'):
        ms.sample(case.problem)
    assert not ms.log_partition(case.problem).exact


def test_no_problem_and_no_method_are_refused() -> None:
    p = make("chain", 0).problem
    for question in (ms.log_partition, ms.marginals, ms.max_marginals, ms.sample):
        with pytest.raises(ms.InvalidProblemError, match=r"wanted a maxsum\.Problem"):
            question(3)
    with pytest.raises(ms.InvalidParameterError, match="'auto' or 'gibbs'"):
        ms.marginals(p, method="exactly")
    with pytest.raises(ms.InvalidParameterError, match="'exact' or 'gibbs'"):
        ms.sample(p, method="auto")


def test_large_chains_and_grids_take_no_time_worth_mentioning() -> None:
    """10 000 nodes in a row, and 10 by 200 with two labels: a loop over all labellings of a bag in Python would take minutes."""
    import time

    rng = np.random.default_rng(0)
    for p in (
        ms.Problem(ms.Graph.chain(10_000), rng.normal(size=(10_000, 3)), tables=rng.normal(size=(3, 3))),
        ms.Problem(ms.Graph.grid(10, 200), rng.normal(size=(2000, 2)), tables=rng.normal(size=(2, 2))),
    ):
        begun = time.perf_counter()
        best = ms.max_marginals(p).values.max(axis=1)
        assert np.allclose(best, ms.solve(p, "TreeDP" if p.graph.is_forest else "JunctionTree").score)
        assert np.allclose(ms.marginals(p).node.sum(axis=1), 1)
        assert time.perf_counter() - begun < 30  # about 2 s on a quiet machine


def test_a_change_is_solved_again_from_kept_messages() -> None:
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(900, 3))
    before = ms.Problem(ms.Graph.grid(30, 30), unary, tables=0.6 * np.eye(3))
    known = ms.solve(before, "TRWS")
    unary[5, 0] += 0.3
    after = ms.Problem(before.graph, unary, tables=0.6 * np.eye(3))
    cold, warm = ms.solve(after, "TRWS"), ms.solve(after, "TRWS", init=known)
    assert warm.n_iter < cold.n_iter / 2 and warm.bound <= cold.bound + 1e-2
    assert f"bound {after.bound(known.messages):.10g} at the start; {warm.n_iter} passes followed" in warm.message
    assert "Kept from init" not in cold.message
    assert "Kept from init" in ms.solve(after, init=known, gap=1e-3).message
