"""The checker of one file on problems with factors: every form of proof, honest and tampered with, and the lifted form itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from factories.factors import factor_case, factor_problem
from reference.seeds import seeds, share

import maxsum as ms
from check.judging import answer_faults
from check.tampering import Case
from maxsum import check
from maxsum.core.certificates import scale
from maxsum.core.certificates.answers import read_answer, save_answer
from maxsum.core.factors.lifting import lift
from maxsum.inference import BranchAndBound, JunctionTree, LinearProgram

Paths = tuple[Path, Path]


def ternary(seed: int = 0) -> ms.Problem:
    """Tables of three nodes on a cycle, a count and an edge: relaxations leave a gap."""
    rng = np.random.default_rng(seed)
    factors: list[Any] = [([v, (v + 1) % 6, (v + 2) % 6], rng.normal(size=(2, 2, 2))) for v in range(6)]
    factors.append((range(6), ms.factors.Cardinality(rng.normal(size=7))))
    return ms.Problem(ms.Graph.from_edges([(0, 3)], 6), rng.normal(size=(6, 2)), rng.normal(size=(2, 2)), factors=factors)


def assignment(seed: int = 0) -> ms.Problem:
    rng = np.random.default_rng(seed)
    graph = ms.Graph.from_edges([(0, 1), (2, 3)], 4)
    return ms.Problem(
        graph, rng.normal(size=(4, 5)), rng.normal(size=(2, 5, 5)), factors=[(range(4), ms.factors.AllDifferent())]
    )


def count(seed: int = 0) -> ms.Problem:
    """Twelve nodes: narrower with partial counts than with a table of all of them. Two limits leave the first node one label."""
    rng = np.random.default_rng(seed)
    factors = [ms.factors.exactly(range(12), 5), ms.factors.at_least([0, 1], 2), ms.factors.at_most([1, 2], 1)]
    return ms.Problem(ms.Graph.chain(12), rng.normal(size=(12, 2)), rng.normal(size=(2, 2)), factors=factors)


FORMS: dict[str, Callable[[], tuple[ms.Problem, ms.Result]]] = {
    "messages": lambda: (ternary(), ms.solve(ternary(), "TRWS")),
    "elimination": lambda: (ternary(), JunctionTree().solve(ternary())),
    "lifted-messages": lambda: (assignment(), LinearProgram().solve(assignment())),
    "lifted-elimination": lambda: (count(), JunctionTree().solve(count())),
    "lifted-search": lambda: (ternary(3), BranchAndBound().solve(ternary(3))),
}
forms = pytest.mark.parametrize("form", FORMS)


def written(form: str, folder: Path) -> tuple[ms.Problem, ms.Result, Paths, dict[str, np.ndarray]]:
    """A problem and an answer with a proof of this form, in files, with the members of the answer."""
    (problem, result), paths = FORMS[form](), (folder / "p.npz", folder / "a.npz")
    problem.save(paths[0])
    save_answer(paths[1], result)
    with np.load(paths[1]) as archive:
        members = {name: archive[name] for name in archive.files}
    assert members["form"].tobytes().decode() == form
    return problem, result, paths, members


def verdicts(paths: Paths) -> tuple[int, bool]:
    """The exit code of the checker, and whether `verify` accepts."""
    problem = ms.read_problem(paths[0])
    try:
        read_answer(paths[1], problem).verify(problem)
    except ms.MaxsumError:
        return check.main([str(path) for path in paths]), False
    return check.main([str(path) for path in paths]), True


@forms
def test_honest_answers_of_every_form_are_accepted(form: str, tmp_path: Path) -> None:
    problem, result, paths, _ = written(form, tmp_path)
    assert verdicts(paths) == (0, True)
    exact = read_answer(paths[1], problem)
    exact.certificate.verify(problem, result.labels, result.score, result.bound, result.guarantee, exact=True)
    claims = {claim.name: claim for claim in check.check_answer(*map(str, paths))}
    assert float(claims["score"].found) == pytest.approx(result.score) and float(claims["bound"].found) <= result.bound


@forms
def test_another_labelling_a_smaller_bound_or_a_larger_word_are_refused(form: str, tmp_path: Path) -> None:
    problem, result, paths, members = written(form, tmp_path)
    labels = np.array(result.labels)
    labels[0] = (labels[0] + 1) % problem.n_states[0]
    for change in (
        {"labels": labels},
        {"bound": np.float64(result.bound - 1e-3)},
        {"score": np.float64(result.score + 1e-3)},
        {"guarantee": np.frombuffer(b"infeasible", dtype=np.uint8)},
    ):
        np.savez(paths[1].open("wb"), **{**members, **change})
        code, accepted = verdicts(paths)
        assert code == 1 and not accepted, change


@pytest.mark.parametrize(("form", "part"), [("messages", "factor"), ("messages", "edge"), ("lifted-messages", "edge"), ("elimination", "tables")])  # fmt: skip
def test_messages_that_were_raised_prove_less_than_is_claimed(form: str, part: str, tmp_path: Path) -> None:
    """One number more: the bound that follows is another one, and still none that is violated."""
    problem, _, paths, members = written(form, tmp_path)
    best, refused = ms.solve(problem).score, 0
    places = range(0, members[part].size, 4)
    for place in places:
        changed = members[part].copy()
        changed.reshape(-1)[place] += 3.0
        np.savez(paths[1].open("wb"), **{**members, part: changed})
        code, accepted = verdicts(paths)
        assert (code == 0) == accepted
        refused += code == 1
        assert float(check.check_answer(*map(str, paths))[1].found) >= best - 1e-9
    assert refused > len(places) / 3


@forms
def test_a_changed_factor_in_the_problem_is_seen(form: str, tmp_path: Path) -> None:
    """The best labelling becomes worse, or another one better: what was proven of the old problem is not of the new one."""
    problem, result, paths, _ = written(form, tmp_path)
    nodes, labels = problem.factors.members(0), result.labels
    paid = np.zeros([int(problem.n_states[v]) for v in nodes])
    for sign, where in ((-1.0, labels[nodes]), (1.0, (labels[nodes] + 1) % problem.n_states[nodes])):
        if paid.ndim > 6:
            changed: Any = ms.factors.exactly(range(paid.ndim), 4 if sign < 0 else 6)[1]
        else:
            own = paid.copy()
            own[tuple(where)] = 50.0 * sign
            changed = np.maximum(problem.factors.functions[problem.factors.number[0]].dense(own.shape), -1e3) + own
        factors = [(nodes, changed), *list(problem.factors.items())[1:]]
        ms.Problem(problem.graph, problem.unary, problem.tables, problem.edge_table, problem.edge_weight, factors=factors).save(
            paths[0]
        )
        code, accepted = verdicts(paths)
        assert code in (1, 2) and not accepted


def test_the_lifted_form_forbids_what_arc_consistency_excludes(tmp_path: Path) -> None:
    """Two nodes share two labels, so the third cannot have these; edges alone do not see that, and prove less."""
    unary = np.array([[0.0, 1.0, -np.inf], [0.5, 0.0, -np.inf], [9.0, 8.0, 0.0]])
    problem = ms.Problem(ms.Graph.from_edges([], 3), unary, factors=[([2, 0, 1], ms.factors.AllDifferent())])
    assert np.isneginf(lift(problem).problem.unary[2]).tolist() == [True, True, False]
    result = LinearProgram().solve(problem)
    paths = tmp_path / "p.npz", tmp_path / "a.npz"
    problem.save(paths[0])
    common = dict(
        answer=np.int64(2),
        labels=np.array([1, 0, 2], dtype=np.int32),
        score=1.5,
        edge=np.zeros((2, 3, 3)),
        clique=np.zeros((0, 3)),
    )
    words = {"form": "lifted-messages", "solver": "nobody", "guarantee": "optimal"}
    np.savez(
        paths[1], **common, bound=1.5, **{name: np.frombuffer(own.encode(), dtype=np.uint8) for name, own in words.items()}
    )
    assert result.score == 1.5 and verdicts(paths) == (0, True)


def test_a_problem_that_arc_consistency_refutes_has_no_lifted_form(tmp_path: Path) -> None:
    problem = ms.Problem(ms.Graph.from_edges([], 3), np.zeros((3, 2)), factors=[(range(3), ms.factors.AllDifferent())])
    paths = tmp_path / "p.npz", tmp_path / "a.npz"
    problem.save(paths[0])
    save_answer(paths[1], BranchAndBound().solve(problem))
    assert verdicts(paths) == (0, True)
    with np.load(paths[1]) as archive:
        members = {name: archive[name] for name in archive.files if name != "factor"}
    np.savez(paths[1].open("wb"), **{**members, "form": np.frombuffer(b"lifted-messages", dtype=np.uint8)})
    assert verdicts(paths) == (2, False)
    with pytest.raises(ms.ParseError, match="cannot have"):
        read_answer(paths[1], problem)


def test_honest_answers_of_random_problems_are_accepted(tmp_path: Path) -> None:
    paths, seen = (tmp_path / "p.npz", tmp_path / "a.npz"), set()
    for seed in seeds(14):
        problem, _ = factor_case(seed, kind=(2, 2, None, 3)[seed % 4], forbidden=0.4, hard=0.3, n_nodes=(3, 7), n_labels=(2, 4))
        problem.save(paths[0])
        for solver in ("LinearProgram", "JunctionTree", "BranchAndBound", "TRWS"):
            save_answer(paths[1], ms.solve(problem, solver))
            assert answer_faults(Case(paths, False, f"{solver}, seed {seed}")) == []
            seen.add(read_answer(paths[1], problem).certificate.__class__.__name__)
    assert seen == {"MessageCertificate", "EliminationCertificate", "LiftedCertificate"}


def test_the_variation_of_factors_is_that_of_the_library(tmp_path: Path) -> None:
    rng, n = np.random.default_rng(0), 0
    for seed in seeds(60):
        problem = factor_problem(seed, hard=0.0)
        labels = np.array([rng.integers(k) for k in problem.n_states], dtype=np.int32)
        if np.isfinite(problem.score(labels)):
            problem.save(tmp_path / "p.npz")
            found = check.Problem(str(tmp_path / "p.npz")).variation(labels)
            assert found == pytest.approx(scale.variation(problem, labels), rel=1e-12)
            n += 1
    assert n > share(25)


def test_lifted_problems_are_those_of_the_library(tmp_path: Path) -> None:
    """Same nodes, edges and scores, so that messages and boxes mean the same."""
    for seed in seeds(40):
        problem = factor_problem(seed)
        problem.save(tmp_path / "p.npz")
        given = check.Problem(str(tmp_path / "p.npz"))
        try:
            wanted = lift(problem).problem
        except ms.InfeasibleError:
            with pytest.raises(check.Unreadable, match="without labels"):
                check.Lifted(given)
            continue
        found = check.Lifted(given)
        assert found.edges.tolist() == wanted.graph.edges.tolist() and found.states.tolist() == wanted.n_states.tolist()
        np.testing.assert_array_equal(found.unary, np.where(found.has, wanted.unary, -np.inf))
        for e, (u, v) in enumerate(wanted.graph.edges.tolist()):
            k, m = wanted.n_states[[u, v]]
            own = wanted.tables[wanted.edge_table[e], :k, :m] * wanted.edge_weight[e]
            np.testing.assert_array_equal(found.edge(e)[1][0, :k, :m] * found.edge(e)[2][0], own)
