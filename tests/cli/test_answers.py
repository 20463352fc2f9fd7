"""Answer files: every certificate survives the trip, and nothing in a file is trusted."""

from __future__ import annotations

import io
import itertools
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.certificates.answers import read_answer, save_answer
from maxsum.core.certificates.base import EliminationCertificate, MessageCertificate, SearchCertificate
from maxsum.core.problem import Messages
from maxsum.core.result import Guarantee, Result, Termination


def best(problem):
    labellings = itertools.product(*(range(k) for k in problem.n_states))
    return max((np.array(y, dtype=np.int32) for y in labellings), key=problem.score)


@pytest.fixture
def problem():
    random = np.random.default_rng(3)
    graph = ms.Graph.from_edges([[0, 1], [2, 1], [0, 2], [2, 3]])
    unary = [random.normal(size=k) for k in (2, 3, 3, 2)]
    tables = [random.normal(size=(len(unary[u]), len(unary[v]))) for u, v in graph.edges]
    return ms.Problem(graph, unary, tables, cliques=[([0, 1, 2], [0.5, 1.0])])


def result_of(problem, labels, bound, certificate):
    score = -np.inf if labels is None else problem.score(labels)
    return Result(labels, score, bound, bound - score, Termination.converged, Guarantee.within_gap, "", certificate, "Test")


def message_result(problem):
    random = np.random.default_rng(5)
    messages = Messages(*(0.1 * random.normal(size=part.shape) for part in problem.zero_messages()))
    return result_of(problem, best(problem), problem.bound(messages), MessageCertificate(messages))


def elimination_result(problem):
    random = np.random.default_rng(6)
    nodes, separators = (3, 0, 1, 2), ((2,), (1, 2), (2,), ())
    tables = tuple(random.normal(size=[problem.n_states[v] for v in s]) for s in separators)
    certificate = EliminationCertificate(nodes, separators, tables)
    return result_of(problem, best(problem), certificate.bound(problem), certificate)


def search_result(problem):
    edge, clique, _ = message_result(problem).certificate.messages
    flat = np.concatenate([edge.ravel(), clique.ravel()])
    certificate = SearchCertificate(
        parent=np.array([-1, 0, 0], dtype=np.int32),
        node=np.array([-1, 1, 1], dtype=np.int32),
        label=np.array([-1, 0, 0], dtype=np.int32),
        relation=np.array([True, True, False]),
        message_set=np.array([0, 1, 0], dtype=np.int32),
        ptr=np.array([0, 0, len(flat)]),
        index=np.arange(len(flat)),
        value=flat,
    )
    labels = best(problem)
    return result_of(problem, labels, certificate.evaluate(problem, labels)[0], certificate)


BOXES = ("parent", "node", "label", "relation", "message_set", "passes", "effort")
RESULTS = {"messages": message_result, "elimination": elimination_result, "search": search_result}


@pytest.mark.parametrize("form", RESULTS)
def test_round_trip_proves_the_same(problem, tmp_path, form):
    result = RESULTS[form](problem)
    save_answer(tmp_path / "a.npz", result)
    answer = read_answer(tmp_path / "a.npz", problem)
    assert type(answer.certificate) is type(result.certificate)
    assert answer.solver == "Test"
    np.testing.assert_array_equal(answer.labels, result.labels)
    proven = answer.verify(problem)
    assert proven.score == result.score
    assert proven.bound == pytest.approx(result.certificate.evaluate(problem, result.labels).bound, rel=1e-12)
    assert answer.verify(problem, exact=True).bound <= proven.bound
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_answers_without_labels_or_certificate(problem, tmp_path):
    path = tmp_path / "a.npz"
    bare = dict(labels=None, score=-np.inf)
    save_answer(path, replace(message_result(problem), **bare, guarantee=Guarantee.upper_bound))
    assert np.isfinite(read_answer(path, problem).verify(problem).bound)
    save_answer(path, replace(message_result(problem), certificate=None, bound=np.inf, guarantee=Guarantee.feasible))
    proven = read_answer(path, problem).verify(problem)
    assert np.isfinite(proven.score) and not proven.optimal and proven.bound == np.inf
    for change in (dict(bound=1e9), dict(bound=-np.inf), dict(bound=np.inf, score=1e3)):
        save_answer(path, replace(message_result(problem), certificate=None, **change))
        with pytest.raises(ms.CertificateError, match="claimed"):
            read_answer(path, problem).verify(problem)
    for word in (Guarantee.optimal, Guarantee.within_gap, Guarantee.infeasible):
        for change in (dict(certificate=None, bound=np.inf), bare):
            save_answer(path, replace(message_result(problem), **change, guarantee=word))
            with pytest.raises(ms.CertificateError, match=f"claim is '{word}'"):
                read_answer(path, problem).verify(problem)


@pytest.mark.parametrize("form", RESULTS)
def test_false_claims_are_refuted(problem, tmp_path, form):
    result, path = RESULTS[form](problem), tmp_path / "a.npz"
    worse = result.labels.copy()
    worse[3] = 1 - worse[3]
    changes = [dict(labels=worse), dict(score=result.score + 1e-3), dict(bound=result.score - 1e-3)]
    if result.bound - result.score > 1e-3:
        changes.append(dict(bound=(result.score + result.bound) / 2))
    for change in changes:
        save_answer(path, replace(result, **change))
        with pytest.raises(ms.CertificateError):
            read_answer(path, problem).verify(problem)


def test_rounding_proves_nothing(tmp_path):
    """Messages of 1e16 that cancel are valid on paper; in floating point their height lies below the optimum."""
    random, path = np.random.default_rng(0), tmp_path / "a.npz"
    too_low = 0
    for _ in range(20):
        problem = ms.Problem(ms.Graph.chain(4), random.normal(size=(4, 3)), tables=random.normal(size=(3, 3)))
        optimum = problem.score(best(problem))
        shift = 1e16 * random.random((3, 1))
        messages = Messages(np.stack([np.zeros(3) + shift, np.zeros(3) - shift]), np.zeros((0, 3)))
        naive = problem.reparametrize(messages)
        too_low += naive.unary.max(axis=1).sum() + naive.tables.max(axis=(1, 2)).sum() < optimum - 0.1
        certificate = MessageCertificate(messages)
        assert certificate.bound(problem) >= optimum
        save_answer(path, result_of(problem, None, optimum, certificate))
        with pytest.raises(ms.CertificateError):
            read_answer(path, problem).verify(problem)
    assert too_low > 0


def test_a_failed_write_leaves_the_old_file(problem, tmp_path, monkeypatch):
    path = tmp_path / "a.npz"
    save_answer(path, message_result(problem))
    before = path.read_bytes()

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space"):
        save_answer(path, elimination_result(problem))
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.npz"]


# ---- hostile files ---------------------------------------------------------------------------------------------


def members(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def forged(problem, tmp_path, which, changes) -> Path:
    """An honest answer with some members replaced (None removes one)."""
    path = tmp_path / "forged.npz"
    save_answer(path, RESULTS[which](problem))
    content = members(path) | changes
    np.savez(path, **{name: value for name, value in content.items() if value is not None})
    return path


class Canary:
    fired = False

    def __reduce__(self):
        return (setattr, (Canary, "fired", True))


F, I = np.float64, np.int32  # noqa: E741


@pytest.mark.parametrize(
    ("form", "changes", "fault"),
    [
        ("messages", dict(answer=np.int64(3)), "version 3.*Upgrade"),
        ("messages", dict(guarantee=np.frombuffer(b"perfect", dtype=np.uint8)), "'perfect', wanted one of"),
        ("messages", dict(answer=np.int64(0)), "version 0"),
        ("messages", dict(answer=None), "no member 'answer'"),
        ("messages", dict(answer=np.array([1])), "shape"),
        ("messages", dict(score=None), "lacks the member 'score'"),
        ("messages", dict(extra=np.zeros(1)), "unknown member 'extra'"),
        ("messages", dict(form=np.frombuffer(b"magic", dtype=np.uint8)), "'magic'"),
        ("messages", dict(form=np.frombuffer(b"none", dtype=np.uint8)), "unknown member"),
        ("messages", dict(solver=np.zeros(1000, dtype=np.uint8)), "1000 characters"),
        ("messages", dict(solver=np.frombuffer(b"a\x1b[2J", dtype=np.uint8)), "printed"),
        ("messages", dict(score=F(np.nan)), "wanted numbers"),
        ("messages", dict(bound=F(np.nan)), "wanted numbers"),
        ("messages", dict(labels=np.zeros(3, dtype=I)), "shape"),
        ("messages", dict(labels=np.zeros(4)), "type float64"),
        ("messages", dict(labels=np.array([0, 0, 0, 2], dtype=I)), "label of node 3 is 2"),
        ("messages", dict(labels=np.array([0, -1, 0, 0], dtype=I)), "label of node 1 is -1"),
        ("messages", dict(labels=np.array([Canary()] * 4)), "type object"),
        ("messages", dict(edge=np.zeros((2, 5, 3))), "shape"),
        ("messages", dict(edge=np.full((2, 4, 3), np.nan)), "nan"),
        ("messages", dict(edge=np.asfortranarray(np.ones((2, 4, 3)))), "C order"),
        ("messages", dict(edge=np.full((2, 4, 3), 1e308)), "1e.308"),
        ("elimination", dict(nodes=np.array([0, 0, 1, 2], dtype=I)), "every node once"),
        ("elimination", dict(nodes=np.array([2, 3, 0, 1], dtype=I)), "eliminated before"),
        ("elimination", dict(separators=np.array([2, 1, 2, 9], dtype=I)), "outside"),
        ("elimination", dict(separators=np.array([3, 1, 2, 2], dtype=I)), "repeats a node"),
        ("elimination", dict(separator_ptr=np.array([0, 1, 9, 4, 4])), "separator_ptr"),
        ("elimination", dict(tables=np.zeros(5)), "cut short"),
        ("elimination", dict(tables=np.zeros(100)), "100 numbers"),
        ("elimination", dict(tables=np.full(16, np.inf)), "nan, inf"),
        ("elimination", dict(tables=np.full(16, -1e308)), "above 1e"),
        ("search", dict(parent=np.array([-1, 1, 0], dtype=I)), "before its parent"),
        ("search", dict(node=np.array([-1, 1, 4], dtype=I)), "does not have"),
        ("search", dict(label=np.array([-1, 0, 3], dtype=I)), "does not have"),
        ("search", dict(relation=np.array([1, 4, 0], dtype=I)), "relation"),
        ("search", dict(message_set=np.array([0, 2, 0], dtype=I)), "message set"),
        ("search", dict(ptr=np.zeros(1, dtype=np.int64)), "no messages"),
        ("search", dict(ptr=np.array([0, 50, 10])), "ptr does not cut"),
        ("search", dict(index=np.full(33, 33)), "index out of range"),
        ("search", dict(index=np.full(33, -1)), "index out of range"),
        ("search", dict(value=np.full(33, np.nan)), "not a number"),
        ("search", dict(value=np.full(33, 1e308)), "not a number"),
        ("search", {name: np.zeros(0, dtype=I) for name in BOXES}, "no boxes"),
        ("search", dict(passes=np.array([0, 256, 0])), "passes"),
        ("search", dict(effort=np.array([0, 0, 27])), "effort"),
        ("search", dict(level=np.float64(np.nan)), "level"),
        ("search", dict(message_set=np.array([0, -2, 0], dtype=I)), "message set"),
    ],
)
def test_forged_members_are_refused(problem, tmp_path, form, changes, fault):
    path = forged(problem, tmp_path, form, changes)
    with pytest.raises(ms.ParseError, match=fault) as caught:
        read_answer(path, problem)
    assert "forged.npz" in str(caught.value)
    assert not Canary.fired


def test_broken_archives_are_refused(problem, tmp_path):
    path = tmp_path / "a.npz"
    save_answer(path, message_result(problem))
    whole = path.read_bytes()
    start = whole.index(b"edge.npy") + 200
    flipped = bytearray(whole)
    flipped[start] ^= 0xFF
    for broken in (b"", b"not a zip", whole[:100], whole[:-30], bytes(flipped)):
        path.write_bytes(broken)
        with pytest.raises(ms.ParseError):
            read_answer(path, problem)


def test_compressed_oversized_and_foreign_members_are_refused(problem, tmp_path):
    path = tmp_path / "a.npz"
    save_answer(path, message_result(problem))
    content = members(path)
    np.savez_compressed(path, **content)
    assert read_answer(path, problem).verify(problem).score == message_result(problem).score
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("answer.npy", b"x")
    with pytest.raises(ms.ParseError, match="another way than by deflating"):
        read_answer(path, problem)
    np.savez_compressed(path, **{**content, "solver": np.zeros(2**25 + 1, dtype=np.uint8)})
    assert path.stat().st_size < 10**6
    with pytest.raises(ms.ParseError, match="would be inflated to 33554433 bytes"):
        read_answer(path, problem)

    for name in ("../edge.npy", "edge.txt", "score.npy"):
        np.savez(path, **content)
        with (
            zipfile.ZipFile(path, "a") as archive,
            pytest.warns(UserWarning, match="Duplicate name") if name == "score.npy" else _nothing(),
        ):
            archive.writestr(name, b"x")
        with pytest.raises(ms.ParseError):
            read_answer(path, problem)

    np.savez(path, **{name: value for name, value in content.items() if name != "solver"})
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|u1", "fortran_order": False, "shape": (10**12,)})
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("solver.npy", header.getvalue())
    with pytest.raises(ms.ParseError, match="cut short"):
        read_answer(path, problem)


class _nothing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def test_random_damage_never_raises_anything_else(problem, tmp_path):
    random, path = np.random.default_rng(0), tmp_path / "a.npz"
    for form, make in RESULTS.items():
        save_answer(path, make(problem))
        whole = np.frombuffer(path.read_bytes(), dtype=np.uint8)
        refused = 0
        for _ in seeds(150):
            damaged = whole.copy()
            at = random.integers(0, len(damaged), size=random.integers(1, 4))
            damaged[at] = random.integers(0, 256, size=len(at))
            path.write_bytes(damaged.tobytes())
            try:
                read_answer(path, problem).verify(problem)
            except (ms.ParseError, ms.CertificateError):
                refused += 1
        assert refused > share(50), form
