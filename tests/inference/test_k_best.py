"""The k best labellings, against enumeration: their scores, the bound of the rest, the proof, and forged lists."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from reference.families import FAMILIES, make
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.certificates.ranking import branch_bounds


@pytest.fixture(params=["bags", "boxes"])
def way(request, monkeypatch):
    """Dynamic programming, and Lawler's partition for graphs that are too wide for it."""
    if request.param == "boxes":
        monkeypatch.setattr(sys.modules["maxsum.inference.questions.k_best"], "exact_order", lambda problem: None)
    return request.param


def in_order(case) -> np.ndarray:
    scores = case.raw.scores[np.isfinite(case.raw.scores)]
    return np.sort(scores)[::-1]


@pytest.mark.parametrize("name", FAMILIES)
def test_the_best_are_found_in_order_and_proven(name: str, way: str) -> None:
    for seed in range(6 if way == "boxes" else 15 if name.startswith("factor") else 30):
        case = make(name, seed)
        k = int(np.random.default_rng(seed).integers(1, 12))
        found, every = ms.k_best(case.problem, k), in_order(case)
        assert len(found) == min(k, len(every)), case
        assert np.abs(found.scores - every[:k].astype(float)).max(initial=0.0) <= case.raw.noise, case
        assert len({tuple(y) for y in found.labels.tolist()}) == len(found)
        assert found.bound >= every[k:].max(initial=-np.inf), case
        if way == "bags" or name not in ("constant_1e9_in_unaries", "one_huge_edge"):  # rounding hides the order there
            assert found.proven == len(found), (case, found)
        checked = found.verify(case.problem)
        assert checked.bound <= found.bound and checked.proven >= found.proven


@pytest.mark.parametrize("name", ["tree", "grid8", "ties", "cliques_three_labels", "hard_feasible", "factors_mixed"])
def test_diverse_ones_are_the_best_that_differ_enough(name: str, way: str) -> None:
    for seed in range(5):
        case = make(name, seed)
        found = ms.k_best(case.problem, 3, diverse=2)
        y, scores = case.raw.labellings, case.raw.scores
        left = np.isfinite(scores)
        for labels, score in zip(found.labels, found.scores, strict=True):
            assert abs(float(scores[left].max()) - score) <= case.raw.noise
            left &= (y != labels).sum(axis=1) >= 2
        assert len(found) == 3 or not left.any()
        assert found.proven == len(found)
        found.verify(case.problem)


@pytest.mark.parametrize(("name", "seed"), [("grid4", 3), ("factor_counts", 8), ("factor_tables", 4), ("factors_mixed", 10)])
def test_forged_lists_are_refused(way: str, name: str, seed: int) -> None:
    case = make(name, seed)
    assert (case.raw.scores > -np.inf).sum() > 8
    p, found = case.problem, ms.k_best(case.problem, 4)
    every = in_order(case)
    worse = case.raw.labellings[np.argsort(-case.raw.scores.astype(float))[7]].astype(np.int32)
    left_out = np.concatenate([found.labels[:1], found.labels[2:], worse[None]])
    forged = (
        replace(found, bound=float(every[4]) - 0.01),
        replace(found, scores=found.scores + np.array([0.1, 0, 0, 0])),
        replace(found, labels=found.labels[::-1], scores=found.scores[::-1]),
        replace(found, labels=left_out, scores=np.array([p.score(y) for y in left_out])),
        replace(found, labels=np.repeat(found.labels[:1], 4, axis=0), scores=np.repeat(found.scores[:1], 4)),
        replace(found, _proof=None),
    )
    for lie in forged:
        with pytest.raises(ms.CertificateError):
            lie.verify(p)


@pytest.mark.parametrize("name", FAMILIES)
def test_messages_bound_all_branches_of_a_labelling(name: str) -> None:
    """Whatever the messages are: against the best of each box, by enumeration."""
    for seed in seeds(10):
        case = make(name, seed)
        p, rng = case.problem, np.random.default_rng(seed)
        if not p.n_nodes:
            continue
        scale = max(1.0, float(case.raw.spreads.max(initial=0.0)))
        zero = p.zero_messages()
        messages = type(zero)(*(scale * rng.normal(size=part.shape) for part in zero))
        order, labels = rng.permutation(p.n_nodes), case.raw.labellings[rng.integers(len(case.raw.labellings))]
        used = np.zeros(p.unary.shape, dtype=bool)
        used[np.arange(p.n_nodes), labels[order]] = True
        found = branch_bounds(p, messages, order, labels, used)
        y = case.raw.labellings
        for depth in range(p.n_nodes):
            inside = (y[:, order[:depth]] == labels[order[:depth]]).all(axis=1) & (y[:, order[depth]] != labels[order[depth]])
            assert found[depth] >= case.raw.scores[inside].max(initial=-np.inf), (case, depth)


def test_supermodular_grids_by_cuts_and_large_chains() -> None:
    rng = np.random.default_rng(0)
    grid = ms.Problem(ms.Graph.grid(30, 30), rng.normal(size=(900, 2)), tables=0.7 * np.eye(2))
    found = ms.k_best(grid, 4)
    assert "partition" in found.message and found.proven == 4 and found.verify(grid).proven == 4
    # the second best differs from the best by the best move of any set of nodes, so no single change beats it
    flipped = np.repeat(found.labels[:1], 900, axis=0)
    flipped[np.arange(900), np.arange(900)] ^= 1
    assert max(grid.score(y) for y in flipped) <= found.scores[1] + 1e-9
    chain = ms.Problem(ms.Graph.chain(10_000), rng.normal(size=(10_000, 5)), tables=rng.normal(size=(5, 5)))
    found = ms.k_best(chain, 5)
    assert found.proven == 5 and found.verify(chain).proven == 5


def test_when_time_is_up_the_list_is_shorter_or_less_is_proven() -> None:
    rng = np.random.default_rng(0)
    p = ms.Problem(ms.Graph.grid(24, 24), rng.normal(size=(576, 3)), tables=rng.normal(size=(3, 3)))
    found = ms.k_best(p, 3, time_limit=0.1)
    assert found.proven < 3
    # list and rest are everything, so the best of both is not below any score
    assert max(found.bound, found.scores.max(initial=-np.inf)) >= ms.solve(p).score
    assert found.verify(p).proven >= found.proven


def test_settings_are_checked() -> None:
    p = make("chain", 0).problem
    for arguments in (dict(k=0), dict(k=1.5), dict(k=1, diverse=0), dict(k=1, gap=-1.0), dict(k=1, time_limit=-1)):
        with pytest.raises(ms.InvalidParameterError):
            ms.k_best(p, **arguments)
