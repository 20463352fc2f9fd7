"""Attacks on the claims of the library: hostile numbers, certificates, warm starts, limits and interrupts.

The last part holds the faults that were found once and mended.
"""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
from contracts.common import ALL, EXACT, solver_of
from factories.problems import random_problem
from reference.enumeration import Raw
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.certificates.base import Certificate, EliminationCertificate, MessageCertificate, SearchCertificate
from maxsum.core.certificates.elimination_order import elimination_order
from maxsum.core.errors import MaxsumError
from maxsum.core.problem import Messages
from maxsum.inference import TRWS, BranchAndBound, Exhaustive, JunctionTree, TreeDP

DENSE: dict[str, Any] = dict(density=1.0)

FUZZED = [name for name in ALL if name != "Toulbar2"]


# ---- fuzzing ---------------------------------------------------------------------------------------------------------


def draw(rng: np.random.Generator, shape: Any, kind: str, scale: float) -> np.ndarray:
    if kind == "int":
        return rng.integers(-4, 5, size=shape).astype(float)
    if kind == "even":
        return 2.0 * rng.integers(-3, 4, size=shape)
    if kind == "ties":
        return rng.integers(0, 2, size=shape) * scale
    return rng.normal(size=shape) * scale


def wild_case(rng: np.random.Generator) -> tuple[ms.Problem, Raw]:
    """Unequal labels, weights of any sign, hard constraints, cliques, merged and reversed edges, whole numbers, scales."""
    n = int(rng.integers(1, 6))
    states = rng.integers(1, 4, size=n)
    kind, scale = str(rng.choice(["normal", "int", "even", "ties"])), 10.0 ** int(rng.choice([-12, -3, 0, 0, 0, 6, 12]))
    unary = [draw(rng, s, kind, scale) for s in states]
    pairs = [pair[:: int(rng.choice([-1, 1]))] for pair in itertools.combinations(range(n), 2) if rng.random() < 0.6]
    if pairs and rng.random() < 0.3:
        pairs.append(pairs[0][::-1])
    tables = [draw(rng, (states[u], states[v]), kind, scale) for u, v in pairs]
    weights = rng.choice([-1.0, 0.0, 0.5, 1.0, 2.0], size=len(pairs)) if rng.random() < 0.4 else np.ones(len(pairs))
    if rng.random() < 0.4:
        for table, weight in zip(tables, weights, strict=True):
            if weight > 0:
                table[rng.random(table.shape) < 0.35] = -np.inf
    cliques = []
    if rng.random() < 0.3:
        nodes = rng.permutation(n)[: int(rng.integers(1, n + 1))]
        reward = np.abs(draw(rng, int(states.max()), kind, scale))
        cliques.append((tuple(nodes.tolist()), np.where(np.arange(len(reward)) < states[nodes].min(), reward, 0.0)))
    offset = float(rng.integers(-9, 9)) * scale if rng.random() < 0.3 else 0.0
    graph = ms.Graph.from_edges(np.array(pairs, dtype=int).reshape(-1, 2), n, duplicates="merge")
    problem = ms.Problem(graph, unary, tables or None, edge_weight=weights, cliques=cliques or None, offset=offset)
    return problem, Raw(unary, pairs, tables, weights.tolist(), cliques, offset)


@cache
def enumerated(stream: int, seed: int) -> tuple[ms.Problem, Raw]:
    """A wild case, made and enumerated once for all solvers."""
    return wild_case(np.random.default_rng([stream, seed]))


def assert_true_claims(problem: ms.Problem, raw: Raw, result: ms.Result, exact: bool = False) -> None:
    slip = 1.001 * problem.resolution + raw.fuzz
    regret = raw.regret(result.labels.tolist()) if result.labels is not None else math.inf
    assert result.gap >= 0 and result.bound >= raw.best - slip - raw.noise
    assert result.gap >= regret - slip
    assert result.guarantee != "optimal" or regret <= slip
    assert result.guarantee != "infeasible" or not raw.feasible
    if result.certificate is not None:
        found = result.certificate.verify(problem, result.labels, bound=result.bound)
        assert found.infeasible == (result.guarantee == "infeasible")
        assert found.optimal or result.guarantee != "optimal"
        check_proof(problem, raw, result.certificate, result.labels)
    else:
        assert result.guarantee in ("feasible", "none")
    if exact:
        assert result.guarantee == ("optimal" if raw.feasible else "infeasible")


def check_proof(problem: ms.Problem, raw: Raw, certificate: Certificate, labels: np.ndarray | None) -> None:
    """Whatever the certificate holds, what it proves is true; it may refuse, with an error of ours."""
    slip = 1.001 * problem.resolution + raw.fuzz
    for known in (labels, None):
        try:
            found = certificate.verify(problem, known)
        except MaxsumError as error:
            if any(words in str(error) for words in ("lies below", "says infeasible")):
                raise
            continue
        assert found.bound >= raw.best - slip - raw.noise and found.gap >= 0
        assert not (found.infeasible and raw.feasible)
        assert not found.optimal or raw.regret(known.tolist()) <= slip


@pytest.mark.parametrize("name", FUZZED)
def test_random_problems(name: str) -> None:
    solver = solver_of(name)
    for seed in seeds(250):
        problem, raw = enumerated(1, seed)
        if solver.supports(problem):
            assert_true_claims(problem, raw, solver.solve(problem), name in EXACT)


@pytest.mark.parametrize("name", FUZZED)
def test_interrupts_and_wild_messages(name: str) -> None:
    solver = solver_of(name)
    for seed in seeds(120):
        rng = np.random.default_rng([2, seed])
        problem, raw = wild_case(rng)
        if not solver.supports(problem):
            continue
        countdown = itertools.count(-int(rng.integers(4)))

        def interrupt(_: Any, countdown: Any = countdown) -> None:
            if next(countdown) >= 0:
                raise KeyboardInterrupt

        assert_true_claims(problem, raw, solver.solve(problem, callback=interrupt))
        size = 10.0 ** int(rng.integers(-6, 30))
        edge, clique, _ = problem.zero_messages()
        init = Messages(rng.normal(size=edge.shape) * size, np.zeros_like(clique))
        assert_true_claims(problem, raw, solver.solve(problem, init=init))


def test_limits_of_the_search() -> None:
    for seed in seeds(250):
        rng = np.random.default_rng([3, seed])
        problem, raw = wild_case(rng)
        solver = BranchAndBound(
            max_nodes=int(rng.integers(0, 12)),
            root_iter=int(rng.choice([1, 3, 400])),
            certificate_bytes=int(rng.choice([300, 2**29])),
        )
        assert_true_claims(problem, raw, solver.solve(problem))


def random_certificate(rng: np.random.Generator, problem: ms.Problem) -> Certificate:
    def wild(shape: Any) -> np.ndarray:
        values = np.asarray(rng.normal(size=shape) * 10.0 ** int(rng.choice([0, 0, 3, 12, 40, 99])))
        if values.size and rng.random() < 0.1:
            values.flat[rng.integers(values.size)] = rng.choice([np.nan, np.inf, -np.inf, 1e308])
        return values

    edge, clique, _ = problem.zero_messages()
    kind = rng.integers(3)
    if kind == 0:
        return MessageCertificate(Messages(wild(edge.shape), wild(clique.shape)))
    if kind == 1:
        order = elimination_order(problem)
        tables = [wild([int(problem.n_states[w]) for w in separator]) for separator in order.separators]
        tables = [np.where(rng.random(t.shape) < 0.2, -np.inf, t) if rng.random() < 0.3 else t for t in tables]
        return EliminationCertificate(order.nodes, order.separators, tuple(tables))
    n, size = int(rng.integers(1, 10)), edge.size + clique.size
    parent = np.array([0, *(int(rng.integers(i)) for i in range(1, n))])
    node, label = rng.integers(problem.n_nodes, size=n), rng.integers(-1, problem.n_labels + 1, size=n)
    relation = rng.integers(4, size=n)
    for i, j in itertools.combinations(range(1, n), 2):
        if parent[i] == parent[j] and rng.random() < 0.8:
            node[j], label[j], relation[j] = node[i], label[i], relation[i] ^ int(rng.random() < 0.8)
    count = int(rng.integers(size + 1))
    index = rng.integers(max(1, size), size=count)
    return SearchCertificate(
        parent, node, label, relation, np.zeros(n, dtype=int), np.array([0, count]), index, wild(count).reshape(count)
    )


def test_random_certificates_prove_nothing_false() -> None:
    for seed in seeds(1000):
        rng = np.random.default_rng([4, seed])
        problem, raw = wild_case(rng)
        labels = raw.labellings[rng.integers(len(raw.labellings))]
        check_proof(problem, raw, random_certificate(rng, problem), labels)


# ---- faults: claims --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [28, 212])
def test_search_with_a_large_offset_makes_no_false_claim(seed: int) -> None:
    plain = random_problem(seed, 4, **DENSE)
    problem = ms.Problem(plain.graph, plain.unary, plain.tables, offset=1e15)
    result = BranchAndBound().solve(problem)
    regret = Exhaustive().solve(plain).score - plain.score(result.labels)
    assert regret <= result.gap + problem.resolution


@pytest.mark.parametrize("solver", [BranchAndBound(), JunctionTree()], ids=lambda s: s.name)
def test_exact_solvers_are_exact_with_a_large_offset(solver: Any) -> None:
    for seed in seeds(20):
        problem = random_problem(seed, 4, scale=1e-3, offset=2.0**49, **DENSE)
        assert solver.solve(problem).guarantee == "optimal"


def test_elimination_certificate_with_rounding_that_adds_up() -> None:
    n = 1000
    graph = ms.Graph.from_edges([(leaf, n) for leaf in range(n)], n + 1)
    problem = ms.Problem(graph, np.tile([0.0, 0.25], (n + 1, 1)), np.array([[0.0, 0.1], [0.1, 0.0]]))
    huge = np.full(2, 2.0**52 + 255)
    order, separators = tuple(range(n + 1)), (*((n,) for _ in range(n)), ())
    certificate = EliminationCertificate(order, separators, (*(huge for _ in range(n)), np.zeros(())))
    assert certificate.verify(problem).bound >= problem.score(np.ones(n + 1, dtype=int))


@pytest.mark.parametrize("penalty", [1e9, 1e12])
def test_large_penalties_do_not_hide_the_other_scores(penalty: float) -> None:
    for seed in seeds(20):
        unary = np.random.default_rng(seed).normal(size=(6, 3))
        problem = ms.Problem(ms.Graph.grid(2, 3), unary, np.where(np.eye(3) > 0, -penalty, 0.0))
        best = Exhaustive().solve(problem)
        result = TRWS().solve(problem)
        assert result.guarantee != "optimal" or best.score - result.score < 1e-3


def test_a_union_does_not_hide_its_small_part() -> None:
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        large, small = random_problem(rng, 5, scale=1e9, **DENSE), random_problem(rng, 4, **DENSE)
        result = BranchAndBound().solve(ms.Problem.union([large, small]))
        assert Exhaustive().solve(small).score - small.score(result.labels[5:]) < 1e-3


def test_large_whole_numbers_leave_no_gap() -> None:
    problem = ms.Problem(ms.Graph.chain(2), [[0, 10**10], [10**10, 0]], 10**10 * np.eye(2))
    assert problem.step == 1
    assert ms.solve(problem).gap == 0


# ---- faults: results that their own certificate does not confirm -----------------------------------------------------


def test_verify_confirms_weighted_tables_with_a_large_constant() -> None:
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        problem = ms.Problem(
            ms.Graph.chain(3), rng.normal(size=(3, 2)), 1e9 + rng.normal(size=(2, 2, 2)), edge_weight=[0.3, 0.7]
        )
        result = TreeDP().solve(problem)
        assert result.guarantee != "optimal" or result.certificate.verify(problem, result.labels).optimal


def test_unfinished_search_proves_its_bound_after_a_warm_start() -> None:
    for seed in seeds(20):
        rng = np.random.default_rng(seed)
        problem, noise = (random_problem(rng, 5, **DENSE) for _ in range(2))
        similar = ms.Problem(problem.graph, problem.unary + 0.05 * noise.unary, problem.tables + 0.05 * noise.tables)
        init = JunctionTree().solve(similar)
        for max_nodes in (0, 1, 4):
            result = BranchAndBound(max_nodes=max_nodes, root_iter=3).solve(problem, init)
            assert result.certificate.verify(problem, result.labels, bound=result.bound).gap >= 0


def test_large_clique_messages_verify() -> None:
    for seed in seeds(40):
        rng = np.random.default_rng(seed)
        problem = random_problem(rng, 4, cliques=(3, 3), **DENSE)
        edge, clique, _ = problem.zero_messages()
        init = Messages(rng.normal(size=edge.shape) * 1e15, rng.normal(size=clique.shape) * 1e15)
        result = TRWS().solve(problem, init)
        assert result.certificate.verify(problem, result.labels, bound=result.bound).gap >= 0


@pytest.mark.parametrize(("power", "guarantee"), [(1, "optimal"), (3, "within_gap")])
def test_heavy_tails_are_proven_as_far_as_numbers_reach(power: int, guarantee: str) -> None:
    """Messages of 1e9 leave their last digits behind; where labels differ by 1e-6, these are too few to say more."""
    rng = np.random.default_rng(0)
    unary = rng.standard_cauchy(size=(1000, 3)) ** power
    problem = ms.Problem(ms.Graph.chain(1000), unary, rng.normal(size=(999, 3, 3)) ** (3 * power))
    result = TreeDP().solve(problem)
    assert result.guarantee == guarantee and result.relative_gap < 1e-12


# ---- faults: errors and crashes --------------------------------------------------------------------------------------


def test_search_with_a_full_record_and_ties() -> None:
    problem = ms.Problem(ms.Graph.complete(6), np.zeros((6, 3)), -1.1 * np.eye(3))
    result = BranchAndBound(certificate_bytes=0, root_iter=2).solve(problem)
    assert result.score == Exhaustive().solve(problem).score


Q = ms.Problem(ms.Graph.chain(3), [[0.0, 1.0], [0.0, 0.0], [2.0, 0.0]], np.eye(2))
ORDER = ((0, 1, 2), ((1,), (2,), ()), (np.zeros(2), np.zeros(2), np.zeros(())))
ROOT = ([0, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0], [], [])


@pytest.mark.parametrize(
    "certificate",
    [
        MessageCertificate((np.zeros((2, 2, 2)),)),  # type: ignore[arg-type]
        MessageCertificate([np.zeros((2, 2, 2)), np.zeros((0, 2))]),  # type: ignore[arg-type]
        EliminationCertificate(("a", 0, 1), *ORDER[1:]),  # type: ignore[arg-type]
        EliminationCertificate((0.0, 1.0, 2.0), *ORDER[1:]),  # type: ignore[arg-type]
        EliminationCertificate(*ORDER[:2], ([[1], [1, 2]],) * 3),  # type: ignore[arg-type]
        EliminationCertificate(ORDER[0], [[[1]], [], []], ORDER[2]),  # type: ignore[arg-type]
        SearchCertificate(*ROOT),  # type: ignore[arg-type]
        SearchCertificate(*(np.array(a, dtype=float) for a in ROOT)),
        SearchCertificate(*([None] * 8)),  # type: ignore[arg-type]
    ],
    ids=["tuple", "ragged", "names", "floats", "ragged_table", "nested", "lists", "float_arrays", "none"],
)
def test_malformed_certificates_are_refused_properly(certificate: Certificate) -> None:
    with pytest.raises(MaxsumError):
        certificate.verify(Q, [0, 0, 0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: TRWS().solve(Q, (np.zeros((2, 2, 2)),)),
        lambda: TRWS().solve(Q, [np.zeros((2, 2, 2)), np.zeros((0, 2))]),
        lambda: Q.score([[0], [1, 2]]),
        lambda: ms.solve(Q, TRWS),  # type: ignore[arg-type]
        lambda: ms.solve(Q, 3),  # type: ignore[arg-type]
        lambda: ms.solve(None),  # type: ignore[arg-type]
        lambda: ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), np.eye(2), offset="1"),  # type: ignore[arg-type]
        lambda: ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), [[1, 2], [3]]),
    ],
    ids=["init_tuple", "init_ragged", "labels_ragged", "solver_class", "solver_int", "no_problem", "offset", "tables_ragged"],
)
def test_sloppy_arguments_give_an_error_of_ours(call: Any) -> None:
    with pytest.raises(MaxsumError):
        call()


@pytest.mark.parametrize("limit", [-1.0, math.nan, "1"])
def test_bad_time_limit_is_refused(limit: Any) -> None:
    with pytest.raises(MaxsumError):
        ms.solve(Q, time_limit=limit)


def test_no_iterations_still_give_a_bound() -> None:
    assert np.isfinite(TRWS(max_iter=0).solve(Q).bound)


def test_ctrl_c_at_the_start_of_highs() -> None:
    code = """
import threading, numpy as np, maxsum as ms
rng = np.random.default_rng(1)
p = ms.Problem(ms.Graph.complete(25), rng.normal(size=(25, 5)), rng.normal(size=(300, 5, 5)))
start = threading.Thread.start
def interrupted(thread):
    start(thread)
    if getattr(thread._target, "__name__", "") == "run":
        raise KeyboardInterrupt
threading.Thread.start = interrupted
ms.inference.LinearProgram().solve(p)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
