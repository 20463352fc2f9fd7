"""PartialSearch: parts that are eliminated, an outside that agrees, and proofs that are refused when they are changed."""

from dataclasses import replace

import numpy as np
import pytest
from factories.problems import dense_problem, spin_glass
from reference.seeds import seeds, share

import maxsum as ms
from maxsum import check
from maxsum.core.certificates.answers import read_answer, save_answer
from maxsum.core.certificates.cycles import CycleCertificate
from maxsum.core.certificates.partial import PartialCertificate, split
from maxsum.core.errors import CertificateError
from maxsum.inference import TRWS, Exhaustive, JunctionTree, PartialSearch, TightenedTRWS
from maxsum.inference.base import Run
from maxsum.inference.exact import partial


def no_cycles(problem, messages):
    k = problem.n_labels
    empty = np.zeros(0, dtype=np.int32)
    return CycleCertificate(messages, np.zeros(1, dtype=np.int64), empty, empty.astype(np.int8), np.zeros((0, k, k)))


@pytest.mark.parametrize("hard", [False, True])
def test_any_part_with_any_messages_gives_a_bound(hard):
    """Certificates made of random messages, cycles of a run and random parts: never below the optimum, in floats and exactly."""
    rng = np.random.default_rng(0)
    for seed in seeds(20):
        problem = dense_problem(seed, hard)
        known = Exhaustive().solve(problem)
        if known.labels is None:
            continue
        tight = TightenedTRWS().solve(problem).certificate
        zero = problem.zero_messages()
        random = ms.core.problem.Messages(rng.normal(size=zero.edge.shape), zero.clique)
        outer = tight if isinstance(tight, CycleCertificate) else no_cycles(problem, random)
        part = np.flatnonzero(rng.random(problem.n_nodes) < 0.5)
        inner = JunctionTree().solve(split(problem, outer, part).part).certificate
        proof = PartialCertificate(outer, part, inner)
        room = 1e-9 * max(1.0, abs(known.score))
        assert proof.bound(problem) >= known.score - room
        found, exact = proof.verify(problem, known.labels), proof.verify(problem, known.labels, exact=True)
        assert found.bound >= known.score - room
        assert exact.bound >= known.score - room
        assert exact.gap <= found.gap + room


def test_the_part_of_all_nodes_is_the_elimination_and_no_part_the_messages():
    problem = spin_glass(4, 0)
    outer = no_cycles(problem, problem.zero_messages())
    optimum = JunctionTree().solve(problem)
    everything = np.arange(problem.n_nodes)
    inner = JunctionTree().solve(split(problem, outer, everything).part).certificate
    assert PartialCertificate(outer, everything, inner).verify(problem, optimum.labels).optimal
    nothing = np.zeros(0, dtype=np.int64)
    inner = JunctionTree().solve(split(problem, outer, nothing).part).certificate
    assert PartialCertificate(outer, nothing, inner).bound(problem) == pytest.approx(problem.bound(problem.zero_messages()))


def proven_by_parts(seed=0):
    """A Potts grid after a single round over its cycles, which leaves a part open."""
    rng = np.random.default_rng(seed)
    problem = ms.Problem(ms.Graph.grid(12, 12), rng.normal(size=(144, 3)), 0.7 * np.eye(3))
    result = PartialSearch(max_iter=1).solve(problem)
    assert isinstance(result.certificate, PartialCertificate)
    return problem, result


@pytest.mark.parametrize("seed", [0, 2, 3, 9])
def test_parts_close_what_cycles_leave_open_and_are_checked(seed, tmp_path):
    problem, result = proven_by_parts(seed)
    assert TightenedTRWS(max_iter=1).solve(problem).guarantee != "optimal" == result.guarantee
    assert result.score == pytest.approx(JunctionTree().solve(problem).score, abs=1e-9)
    assert 0 < len(result.certificate.part) < problem.n_nodes
    assert result.verify(problem).optimal
    assert result.certificate.verify(problem, result.labels, exact=True).optimal
    problem.save(tmp_path / "p.npz")
    save_answer(tmp_path / "a.npz", result)
    assert read_answer(tmp_path / "a.npz", problem).verify(problem).optimal
    assert all(claim.holds for claim in check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz")))


def test_changed_parts_are_refused_or_prove_less(tmp_path):
    problem, result = proven_by_parts()
    proof = result.certificate
    fewer = replace(proof, part=proof.part[:-1])
    tables = tuple(np.asarray(table) - 0.5 for table in proof.inner.tables)
    lower = replace(proof, inner=replace(proof.inner, tables=tables))
    messages = proof.outer.left_messages
    moved = ms.core.problem.Messages(messages.edge + np.random.default_rng(0).normal(size=messages.edge.shape), messages.clique)
    other = replace(proof, outer=replace(proof.outer, left_messages=moved))
    backwards = replace(proof, part=proof.part[::-1])
    for changed in (fewer, backwards):
        with pytest.raises(CertificateError):
            changed.verify(problem, result.labels, bound=result.bound, guarantee="optimal")
    problem.save(tmp_path / "p.npz")
    for changed in (lower, other):
        assert changed.bound(problem) >= result.score - 1e-9
    with pytest.raises(CertificateError):
        other.verify(problem, result.labels, bound=result.bound, guarantee="optimal")
    save_answer(tmp_path / "a.npz", replace(result, certificate=other))
    assert not all(claim.holds for claim in check.check_answer(str(tmp_path / "p.npz"), str(tmp_path / "a.npz")))


def test_problems_with_cliques_are_refused_by_name():
    problem = ms.Problem(ms.Graph.complete(4), np.zeros((4, 2)), np.eye(2), cliques=[([0, 1, 2], [1.0, 1.0])])
    assert not PartialSearch().supports(problem)
    with pytest.raises(ms.core.errors.UnsupportedProblemError, match="clique"):
        PartialSearch().solve(problem)


def mostly_decided(seed, side=24):
    rng = np.random.default_rng(seed)
    return ms.Problem(ms.Graph.grid(side, side), rng.normal(size=(side * side, 4)), 0.7 * np.eye(4))


@pytest.mark.parametrize("seed", [3, 5, 20])
def test_cycles_near_what_is_undecided_come_first(seed, monkeypatch):
    """With those alone and the elimination, the optimum that the whole search has, and a proof that numpy and integers accept."""
    problem = mostly_decided(seed)
    taken = []
    ascend = partial.Tightening.ascend
    monkeypatch.setattr(partial.Tightening, "ascend", lambda self, *given: taken.append((self, given)) or ascend(self, *given))
    result = PartialSearch().solve(problem)
    tight, (_, _, near) = taken[0]
    assert 0 < near.sum() < problem.n_nodes / 2 and len(tight.cycles[0]) < 23 * 23
    assert len(taken) == 1 and result.guarantee == "optimal"
    assert result.verify(problem, exact=True).guarantee == "optimal"
    monkeypatch.setattr(partial.Tightening, "undecided", lambda self: None)
    assert PartialSearch().solve(problem).score == pytest.approx(result.score, abs=1e-9)


def test_labels_that_lose_too_much_are_left_out_of_the_part_and_none_that_is_best():
    """Parts of random nodes, with the messages of few passes: the best labelling of all labels, from fewer."""
    fewer, sizes, order = 0, [], partial.affordable_order

    def recorded(part, seconds):
        sizes.append(part.n_states.sum())
        return order(part, seconds)

    for seed in seeds(12):
        problem = mostly_decided(seed, 8)
        start = TRWS(max_iter=6).solve(problem)
        run = Run("PartialSearch", problem)
        messages = run.warm_start(start)
        parts = partial._Parts(problem, run, no_cycles(problem, messages))
        parts.inside = np.random.default_rng(seed).random(problem.n_nodes) < 0.6
        cut = split(problem, parts.outer, np.flatnonzero(parts.inside)).part
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(partial, "affordable_order", recorded)
            assert parts.solve_part()
        fewer += sizes[-1] < cut.n_states.sum()
        found = cut.score(parts.labels[parts.inside])
        assert found == pytest.approx(JunctionTree().solve(cut).score, abs=1e-9)
    assert fewer >= share(6)
