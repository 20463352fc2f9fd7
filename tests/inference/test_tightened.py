"""TightenedTRWS and cycle certificates: bounds against enumeration, rounds that never worsen, proofs that are refused when they are changed."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from factories.problems import dense_problem, spin_glass
from reference.seeds import seeds

import maxsum as ms
from maxsum import check
from maxsum.core.certificates.answers import read_answer, save_answer
from maxsum.core.certificates.cycles import CycleCertificate
from maxsum.core.errors import CertificateError
from maxsum.inference import TRWS, Exhaustive, JunctionTree, TightenedTRWS
from maxsum.inference.prepare import prepare
from maxsum.kernels import cycle_search, cycles


@pytest.mark.parametrize(("hard", "whole"), [(False, False), (True, False), (False, True), (True, True)])
def test_bounds_and_labellings_against_enumeration(hard, whole):
    proven = found = 0
    for seed in seeds(25):
        problem = dense_problem(seed, hard, whole)
        known, result = Exhaustive().solve(problem), TightenedTRWS().solve(problem)
        if known.labels is None:
            assert result.labels is None
            continue
        found += 1
        room = 1e-9 * max(1.0, abs(known.score))
        assert result.bound >= known.score - room
        if result.guarantee == "optimal":
            proven += 1
            assert result.score == pytest.approx(known.score, rel=1e-9, abs=1e-9)
        assert result.certificate.verify(problem, result.labels, exact=True).bound >= known.score - room
    assert proven > 0.7 * found, "cycles close most of such small graphs"


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_never_worsens_and_beats_message_passing(seed):
    problem = spin_glass(8, seed)
    plain, result = TRWS().solve(problem), TightenedTRWS().solve(problem)
    bounds = [point.bound for point in result.trace]
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(bounds))
    exact = JunctionTree().solve(problem)
    assert exact.score - 1e-9 <= result.bound < plain.bound
    assert result.bound - exact.score <= 0.1 * (plain.bound - exact.score)


def test_a_frustrated_triangle_is_closed():
    odd = ms.Problem(ms.Graph.complete(3), [[0, 0.1], [0, 0], [0, 0]], -np.eye(2))
    result = TightenedTRWS().solve(odd)
    assert result.guarantee == "optimal" and isinstance(result.certificate, CycleCertificate)


def test_a_long_frustrated_cycle_is_found():
    """One cycle of seven edges, which is neither a triangle nor a square, with an odd number of edges that want different labels."""
    n = 7
    graph = ms.Graph.from_edges([(i, i + 1) for i in range(n - 1)] + [(0, n - 1)], n)
    problem = ms.Problem(graph, np.zeros((n, 2)), np.eye(2), edge_weight=[1.0] * (n - 1) + [-1.0])
    result = TightenedTRWS().solve(problem)
    assert TRWS().solve(problem).bound > n - 1 - 1e-9
    assert result.guarantee == "optimal" and result.score == pytest.approx(n - 2)


def closed_walks(tables, ends, domain):
    """The best closed walk by trying all labels of the cycle's nodes."""
    n = len(tables)
    labels = np.stack(np.meshgrid(*[np.flatnonzero(domain[v]) for v in ends], indexing="ij"), axis=-1).reshape(-1, n)
    return max(sum(tables[i][y[i], y[(i + 1) % n]] for i in range(n)) for y in labels)


@pytest.mark.parametrize("n_labels", [2, 3, 4, 5, 6, 7, 8])
def test_kernels_of_cycles_against_trying_all_labels(n_labels):
    rng = np.random.default_rng(n_labels)
    for n in (3, 4, 5):
        if n_labels**n > 5000:
            continue
        graph = ms.Graph.from_edges([(i, i + 1) for i in range(n - 1)] + [(0, n - 1)], n)
        unary = np.where(rng.random((n, n_labels)) < 0.2, -np.inf, rng.normal(size=(n, n_labels)))
        unary[:, 0] = 0.0
        problem = ms.Problem(graph, unary, rng.normal(size=(n, n_labels, n_labels)))
        net, messages = prepare(problem).net, problem.zero_messages()
        domain = np.isfinite(unary)
        ptr, edge = np.array([0, n]), np.arange(n, dtype=np.int32)
        turned = np.array([0] * (n - 1) + [1], dtype=np.int8)
        lookup = {tuple(pair): e for e, pair in enumerate(graph.edges.tolist())}
        edge = np.array([lookup[min(i, (i + 1) % n), max(i, (i + 1) % n)] for i in range(n)], dtype=np.int32)
        tables = [problem.tables[e].T if back else problem.tables[e] for e, back in zip(edge, turned, strict=True)]
        best = closed_walks(tables, range(n), domain)
        apart = sum(t[np.ix_(domain[i], domain[(i + 1) % n])].max() for i, t in enumerate(tables))
        assert cycles.gains(net, messages.edge, ptr, edge, turned)[0] == pytest.approx(apart - best)
        held = problem.tables[edge]
        assert cycles.tops(net, ptr, edge, turned, held) == pytest.approx(best)
        certificate = CycleCertificate(messages, ptr, edge, turned, held)
        assert certificate.tops(problem, domain)[0] == pytest.approx(best)
        assert certificate.bound(problem) == pytest.approx(best + np.where(domain, unary, -np.inf).max(axis=1).sum())


def test_short_cycles_are_the_triangles_and_the_squares_without_a_diagonal():
    rng = np.random.default_rng(1)
    for _ in range(20):
        n = 8
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n) if rng.random() < 0.45]
        problem = ms.Problem(ms.Graph.from_edges(pairs, n), np.zeros((n, 2)), np.eye(2))
        ptr, edge, turned = cycle_search.short_cycles(prepare(problem).net, np.ones(n, dtype=np.uint8), 10**6)
        ends = problem.graph.edges[edge]
        begin = np.where(turned == 1, ends[:, 1], ends[:, 0])
        found = sorted(tuple(sorted(begin[a:b].tolist())) for a, b in pairwise(ptr.tolist()))
        linked = {frozenset(pair) for pair in pairs}
        wanted = []
        for a in range(n):
            for b in range(a + 1, n):
                for c in range(b + 1, n):
                    if all(frozenset(p) in linked for p in ((a, b), (b, c), (a, c))):
                        wanted.append((a, b, c))
                    for d in range(c + 1, n):
                        inside = [p for p in ((a, b), (a, c), (a, d), (b, c), (b, d), (c, d)) if frozenset(p) in linked]
                        if len(inside) == 4 and all(sum(v in p for p in inside) == 2 for v in (a, b, c, d)):
                            wanted.append((a, b, c, d))
        assert found == sorted(wanted)


def proven_by_cycles():
    problem = spin_glass(5, 3)
    result = TightenedTRWS().solve(problem)
    assert isinstance(result.certificate, CycleCertificate)
    return problem, result


def test_answers_are_written_read_and_checked_by_the_one_file_checker(tmp_path):
    problem, result = proven_by_cycles()
    problem.save(tmp_path / "p.npz")
    save_answer(tmp_path / "a.npz", result)
    found = read_answer(tmp_path / "a.npz", problem).verify(problem, exact=True)
    assert found.guarantee == result.guarantee
    assert all(claim.holds for claim in check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz")))


@pytest.mark.parametrize("change", ["held", "edge", "turned", "messages", "nan"])
def test_changed_proofs_are_refused_or_prove_less(change, tmp_path):
    problem, result = proven_by_cycles()
    proof = result.certificate
    held, edge, turned = proof.held.copy(), proof.edge.copy(), proof.turned.copy()
    left = proof.left_messages
    if change == "held":
        held[0] -= 1.0  # taken from the cycle, but given to the edge again: nothing is won
        held[1] += 3.0 * np.eye(2)
    elif change == "nan":
        held[0, 0, 0] = np.nan
    elif change == "edge":
        edge[0] = (edge[0] + 1) % problem.n_edges
    elif change == "turned":
        turned[0] = 1 - turned[0]
    else:
        left = ms.core.problem.Messages(left.edge + np.random.default_rng(0).normal(size=left.edge.shape), left.clique)
    changed = replace(proof, held=held, edge=edge, turned=turned, left_messages=left)
    with pytest.raises(CertificateError):
        changed.verify(problem, result.labels, bound=result.bound, guarantee=result.guarantee)
    optimum = JunctionTree().solve(problem).score
    if change in ("held", "messages"):
        assert changed.bound(problem) >= optimum - 1e-9
        problem.save(tmp_path / "p.npz")
        save_answer(tmp_path / "a.npz", replace(result, certificate=changed))
        assert not all(claim.holds for claim in check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz")))


def test_solve_takes_cycles_before_it_searches():
    rng = np.random.default_rng(0)
    graph = ms.Graph.grid(12, 12)
    problem = ms.Problem(graph, rng.normal(size=(144, 4)), rng.normal(size=(graph.n_edges, 4, 4)))
    result = ms.solve(problem)
    assert result.guarantee == "optimal" and result.solver == "PartialSearch"
    assert "cycles" in result.message


def test_limits_are_kept():
    problem = spin_glass(30, 0)
    short = TightenedTRWS(time_limit=0.05).solve(problem)
    assert short.bound < np.inf and short.labels is not None
    few = TightenedTRWS(max_iter=3).solve(problem)
    assert few.termination in ("iteration_limit", "converged")
    assert TightenedTRWS(tol=0.2).solve(problem).relative_gap <= 0.2
