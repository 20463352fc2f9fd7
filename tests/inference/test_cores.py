"""CoreSearch: cores that are found and searched by themselves, and proofs that are refused, or prove less, when they are changed."""

from dataclasses import replace

import numpy as np
import pytest
from factories.cores import proof_by_cores, result_by_cores
from factories.problems import dense_problem
from reference.seeds import seeds

import maxsum as ms
from maxsum import check
from maxsum.core.certificates.answers import read_answer, save_answer
from maxsum.core.certificates.cores import Core, CoresCertificate, Cut
from maxsum.core.errors import CertificateError
from maxsum.core.problem import Messages
from maxsum.inference import BranchAndBound, CoreSearch, Exhaustive
from maxsum.inference.exact.cores import joined, tree_of


def planted(seed, n_nodes=40, n_core=8, n_labels=4):
    """A sparse problem whose edges cost nothing at many labellings, but for those between a few nodes: whole costs, most of them 0."""
    rng = np.random.default_rng(seed)
    core = np.sort(rng.choice(n_nodes, n_core, replace=False))
    inside = {(int(u), int(v)) for i, u in enumerate(core) for v in core[i + 1 :]}
    pairs = sorted(inside | {tuple(sorted(rng.choice(n_nodes, 2, replace=False).tolist())) for _ in range(2 * n_nodes)})
    costs = np.where(
        rng.random((len(pairs), n_labels, n_labels)) < 0.15, rng.integers(1, 30, (len(pairs), n_labels, n_labels)), 0
    )
    for e, pair in enumerate(pairs):
        if pair in inside:
            costs[e] = rng.integers(1, 40, (n_labels, n_labels)) * (rng.random((n_labels, n_labels)) < 0.8)
    graph = ms.Graph.from_edges(pairs, n_nodes=n_nodes)
    return ms.Problem(graph, np.zeros((n_nodes, n_labels)), -costs.astype(float)), core


@pytest.mark.parametrize("hard", [False, True])
def test_any_cores_with_any_messages_give_a_bound(hard):
    """Random cores, random messages, searches that ended or did not: never below the optimum, in floats, exactly, and by the checker of one file."""
    rng, n_tried = np.random.default_rng(0), 0
    for seed in seeds(20):
        problem = dense_problem(seed, hard)
        if seed % 3 == 0 and not hard:
            problem = ms.Problem(problem.graph, np.round(3 * problem.unary), np.round(3 * problem.tables), problem.edge_table)
        known = Exhaustive().solve(problem)
        proof = None if known.labels is None else proof_by_cores(rng, problem, max_nodes=int(rng.integers(1, 60)))
        if proof is None:
            continue
        n_tried += 1
        room = 1e-9 * max(1.0, abs(known.score))
        other = np.array([rng.integers(n) for n in problem.n_states], dtype=np.int32)
        assert proof.bound(problem) >= known.score - room
        for labels in (known.labels, other):
            found, exact = proof.verify(problem, labels), proof.verify(problem, labels, exact=True)
            assert found.bound >= known.score - room
            assert exact.bound >= known.score - room
            if np.isfinite(found.gap):
                assert exact.gap <= found.gap + room
    assert 2 * n_tried >= len(seeds(20))


def test_one_core_of_all_nodes_is_the_search_and_cores_of_a_disconnected_problem_add_up():
    rng = np.random.default_rng(1)
    graph = ms.Graph.from_edges([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)], n_nodes=6)
    problem = ms.Problem(graph, rng.normal(size=(6, 3)), rng.normal(size=(6, 3, 3)))
    best, zero = Exhaustive().solve(problem), problem.zero_messages()
    for sets in ([np.arange(6)], [np.arange(3), np.arange(3, 6)]):
        found = [BranchAndBound().solve(part) for part in Cut(problem, zero, sets).problems]
        parts = [Core(nodes, own.labels, tree_of(own)) for nodes, own in zip(sets, found, strict=True)]
        assert CoresCertificate(zero, tuple(parts)).verify(problem, best.labels).optimal
    assert CoresCertificate(zero, ()).bound(problem) == pytest.approx(problem.bound(zero))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_planted_cores_are_found_and_proven(seed, tmp_path):
    problem, core = planted(seed)
    result = CoreSearch().solve(problem)
    assert result.guarantee == "optimal" and isinstance(result.certificate, CoresCertificate), result
    assert result.score == pytest.approx(BranchAndBound().solve(problem).score)
    inside = np.concatenate([own.nodes for own in result.certificate.cores])
    assert len(inside) < problem.n_nodes / 2
    assert len(np.intersect1d(inside, core)) >= len(core) / 2
    assert result.verify(problem, exact=True).optimal
    problem.save(tmp_path / "p.npz")
    save_answer(tmp_path / "a.npz", result)
    assert read_answer(tmp_path / "a.npz", problem).verify(problem).optimal
    assert all(claim.holds for claim in check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz")))


def test_answers_of_real_numbers_are_confirmed_by_the_checker(tmp_path):
    rng, n_optimal = np.random.default_rng(3), 0
    for seed in seeds(8):
        problem = dense_problem(seed, False)
        result = result_by_cores(rng, problem)
        problem.save(tmp_path / "p.npz")
        save_answer(tmp_path / "a.npz", result)
        assert all(claim.holds for claim in check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz")))
        assert read_answer(tmp_path / "a.npz", problem).verify(problem).guarantee == result.guarantee
        n_optimal += result.guarantee == "optimal"
    assert n_optimal < 8  # random messages leave something open


def test_changed_cores_are_refused_or_prove_less(tmp_path):
    problem, _ = planted(0)
    result = CoreSearch().solve(problem)
    proof, first = result.certificate, result.certificate.cores[0]
    claims = dict(score=result.score, bound=result.bound, guarantee="optimal")

    def with_first(**changed):
        return replace(proof, cores=(first._replace(**changed), *proof.cores[1:]))

    tree, shared = first.proof, np.sort(np.append(first.nodes[:-1], np.setdiff1d(np.arange(problem.n_nodes), first.nodes)[0]))
    cut_short = replace(tree, parent=tree.parent[:-1], node=tree.node[:-1], label=tree.label[:-1], relation=tree.relation[:-1],
                        message_set=tree.message_set[:-1], passes=tree.passes[:-1], effort=tree.effort[:-1])  # fmt: skip
    moved = np.random.default_rng(0).normal(size=proof.messages.edge.shape)
    forged = {
        "a core twice": replace(proof, cores=(first, *proof.cores)),
        "nodes backwards": with_first(nodes=first.nodes[::-1], labels=first.labels[::-1]),
        "other nodes": with_first(nodes=shared),
        "a node less": with_first(nodes=first.nodes[:-1], labels=first.labels[:-1]),
        "a node that is not there": with_first(nodes=np.append(first.nodes[:-1], problem.n_nodes)),
        "a label that is not there": with_first(labels=first.labels + problem.n_labels),
        "no core": replace(proof, cores=()),
        "no search": with_first(proof=replace(cut_short, parent=tree.parent[:1], node=tree.node[:1], label=tree.label[:1],
                                              relation=tree.relation[:1], message_set=tree.message_set[:1],
                                              passes=tree.passes[:1] * 0, effort=tree.effort[:1] * 0)),
        "a level": with_first(proof=replace(tree, level=1e9)),
        "other messages": replace(proof, messages=Messages(moved, proof.messages.clique)),
    }  # fmt: skip
    problem.save(tmp_path / "p.npz")
    for what, changed in forged.items():
        with pytest.raises(CertificateError):
            changed.verify(problem, result.labels, **claims)
        save_answer(tmp_path / "a.npz", replace(result, certificate=changed))
        try:
            told = check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz"))
        except check.Unreadable:
            continue
        assert not all(claim.holds for claim in told), what


def test_what_is_remembered_is_not_what_verify_says():
    """A certificate that was told a false gap repeats it to its own run, and not to `verify`."""
    problem, _ = planted(1)
    proof = CoreSearch().solve(problem).certificate
    worst = replace(proof, cores=tuple(core._replace(proof=replace(core.proof, level=1e9)) for core in proof.cores))
    cut = Cut(problem, proof.messages, [core.nodes for core in proof.cores])
    best = BranchAndBound().solve(problem)
    worst.remember(cut, [0.0] * len(cut.cores))
    assert worst.evaluate(problem, best.labels).gap < 1
    assert worst.verify(problem, best.labels).gap >= 1


def test_without_a_core_or_with_cliques_it_says_so():
    rng = np.random.default_rng(0)
    graph = ms.Graph.complete(12)
    spread = ms.Problem(graph, rng.normal(size=(12, 3)), rng.normal(size=(graph.n_edges, 3, 3)))
    result = CoreSearch().solve(spread)
    assert result.termination == "stalled" and result.guarantee == "within_gap"
    problem = ms.Problem(ms.Graph.complete(4), np.zeros((4, 2)), np.eye(2), cliques=[([0, 1, 2], [1.0, 1.0])])
    with pytest.raises(ms.core.errors.UnsupportedProblemError, match="clique"):
        CoreSearch().solve(problem)


def test_sets_are_joined_along_pairs():
    parts = joined([np.array([0, 2]), np.array([1]), np.array([3]), np.array([5, 4])], np.array([[2, 3], [4, 1]]))
    assert sorted(part.tolist() for part in parts) == [[0, 2, 3], [1, 4, 5]]
