"""Search certificates: what they prove is true at every scale, exactly too, whatever is done to them."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.certificates.answers import read_answer, save_answer
from maxsum.core.certificates.exact import lowest_exponent, to_integers
from maxsum.core.certificates.search.certificate import SearchCertificate
from maxsum.core.errors import MaxsumError
from maxsum.inference import BranchAndBound

FIELDS = ("parent", "node", "label", "relation", "message_set", "ptr", "index", "value", "passes", "effort", "level")


def exact_score(problem, labels):
    """Score in fractions; None if something forbidden is used."""
    terms = [problem.offset] + [problem.unary[v, k] for v, k in enumerate(labels)]
    total = sum((Fraction(float(t)) for t in terms if np.isfinite(t)), Fraction(0))
    if not np.isfinite(terms).all():
        return None
    for e, (u, v) in enumerate(problem.graph.edges.tolist()):
        entry = problem.tables[problem.edge_table[e], labels[u], labels[v]]
        if not np.isfinite(entry):
            return None
        total += Fraction(float(entry)) * Fraction(float(problem.edge_weight[e]))
    return total


def case(seed, whole=False):
    """A small problem whose terms have sizes from 1e-9 to 1e12, and all its scores as fractions."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(3, 6)), int(rng.integers(2, 4))
    edges = [pair if rng.random() < 0.5 else pair[::-1] for pair in itertools.combinations(range(n), 2) if rng.random() < 0.9]
    edges = edges or [(0, 1)]
    states = rng.integers(1, k + 1, size=n)
    states[0] = k

    def scale(*shape):
        return 10.0 ** rng.choice([-9, -3, 0, 0, 0, 3, 12], size=shape) if not whole else 1.0

    unary, tables = rng.normal(size=(n, k)) * scale(n, 1), rng.normal(size=(len(edges), k, k)) * scale(len(edges), 1, 1)
    if whole:
        unary, tables = np.rint(5 * unary), np.rint(5 * tables)
    if rng.random() < 0.4:
        tables[rng.random(tables.shape) < 0.15] = -np.inf
    weight = np.ones(len(edges)) if whole else rng.normal(size=len(edges))
    weight = np.where(np.isneginf(tables).any(axis=(1, 2)), np.abs(weight), weight)
    problem = ms.Problem(ms.Graph.from_edges(edges, n), unary, tables, None, weight, states, offset=float(rng.choice([0, 1e9])))
    scores = {y: exact_score(problem, y) for y in np.ndindex(*states.tolist())}
    return problem, {y: score for y, score in scores.items() if score is not None}


def bounded(value):
    """A float as a fraction; inf as a very large one."""
    return Fraction(value) if math.isfinite(value) else Fraction(10) ** 400


def assert_true(certificate, problem, scores, labellings):
    best = max(scores.values(), default=None)
    for evaluate in (certificate.evaluate, certificate.evaluate_exactly):
        bound = evaluate(problem, None)[0]
        assert best is None or bounded(bound) >= best
        for y in labellings:
            labels = np.array(y, dtype=np.int32)
            bound, gap = evaluate(problem, labels)[:2]
            assert bounded(gap) >= best - scores[y] and gap >= 0


@pytest.mark.parametrize("whole", [False, True])
def test_bounds_and_gaps_are_true_at_mixed_scales(whole):
    n_optimal = 0
    for seed in seeds(120):
        problem, scores = case(seed, whole)
        result = BranchAndBound(root_iter=2).solve(problem)
        if not scores:
            assert result.guarantee == "infeasible" and result.certificate.verify(problem).infeasible
            continue
        n_optimal += result.guarantee == "optimal"
        certificate = result.certificate
        if isinstance(certificate, SearchCertificate):
            rng = np.random.default_rng(seed)
            some = [list(scores)[i] for i in rng.integers(len(scores), size=2)]
            assert_true(certificate, problem, scores, [tuple(result.labels.tolist()), *some])
    # with scales of 1e-9 to 1e12 in one problem, the last digits of the large numbers hide what the small ones decide
    assert n_optimal > share(80 if whole else 15)


def tampered(certificate, rng):
    name = str(rng.choice(FIELDS))
    if name == "level":
        return replace(certificate, level=float(rng.choice([0.0, 1e-9, 1.0, 1e12, np.inf, np.nan, -1.0]))), name
    array = np.array(getattr(certificate, name))
    kind = rng.integers(4)
    if kind == 0 and array.size:
        array = array.astype(float if name == "value" else np.int64)
        for _ in range(int(rng.integers(1, 4))):
            values = [1e30, -1e30, 1e300, np.nan, np.inf, 0.0, -1.0] if name == "value" else [-2, -1, 0, 1, 2, 3, 5, 20, 40]
            array.flat[rng.integers(array.size)] = rng.choice(values)
    elif kind == 1:
        array = array[: int(rng.integers(len(array) + 1))]
    elif kind == 2:
        array = rng.permutation(array)
    else:
        array = np.concatenate([array, array])
    return replace(certificate, **{name: array}), name


@pytest.mark.parametrize("whole", [False, True])
def test_tampered_certificates_prove_nothing_false(whole):
    judged, refused = 0, 0
    for seed in seeds(36):
        problem, scores = case(seed, whole)
        certificate = BranchAndBound(root_iter=1, max_nodes=9).solve(problem).certificate
        if not isinstance(certificate, SearchCertificate) or not scores:
            continue
        rng = np.random.default_rng([9, seed])
        for _ in range(12):
            wrong, _ = tampered(certificate, rng)
            y = list(scores)[int(rng.integers(len(scores)))]
            try:
                wrong.verify(problem, np.array(y))
            except MaxsumError:
                refused += 1
                continue
            with np.errstate(all="ignore"):
                assert_true(wrong, problem, scores, [y])
            judged += 1
    assert judged > share(100) and refused > share(20)


def test_the_excess_of_a_closed_box_is_part_of_the_gap():
    """A box that is closed because its excess is as good as none still has that excess."""
    problem = ms.Problem(ms.Graph.chain(2), np.zeros((2, 2)), tables=np.array([[0.0, -1.0], [-1.0, -2.0]]))
    excess = 1e-3 * problem.resolution
    problem = ms.Problem(problem.graph, problem.unary, problem.tables + 0.25)
    zero = np.zeros(1, dtype=np.int64)
    certificate = SearchCertificate(zero, zero, zero, zero, zero, np.array([0, 1]), np.array([0]), np.array([excess]))
    gap = certificate.evaluate(problem, np.array([0, 0], dtype=np.int32))[1]
    exact = certificate.evaluate_exactly(problem, np.array([0, 0], dtype=np.int32))[1]
    assert 0 < excess * (1 - 1e-6) <= gap <= 1.01 * excess + 1e-14
    assert exact == pytest.approx(excess, rel=1e-3)


def test_large_terms_that_are_not_touched_cost_nothing():
    """Errors are those of the terms at the maxima: entries of -1e14 beside them add nothing."""
    unary = np.random.default_rng(0).normal(size=(3, 2))
    unary[:, 0] += np.array([9, -9, 9])
    zero = np.zeros(1, dtype=np.int64)
    certificate = SearchCertificate(zero, zero, zero, zero, zero, np.array([0, 0]), zero[:0], np.zeros(0))
    for size in (1.0, 1e14, 1e90):
        problem = ms.Problem(ms.Graph.chain(3), unary, tables=-size * np.eye(2), offset=1e14)
        assert certificate.evaluate(problem, np.array([0, 1, 0], dtype=np.int32))[1] <= 1e-13


def test_exact_and_float_verdicts_agree():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        graph = ms.Graph.complete(9)
        problem = ms.Problem(graph, rng.normal(size=(9, 4)), rng.normal(size=(graph.n_edges, 4, 4)))
        result = BranchAndBound().solve(problem)
        anew = replace(result.certificate)  # nothing is remembered of it
        gap, exact = (f(problem, result.labels)[1] for f in (anew.evaluate, anew.evaluate_exactly))
        assert result.guarantee == "optimal" and exact <= problem.resolution
        assert abs(gap - exact) <= 1e-9 and gap <= result.gap


def test_integers_are_the_numbers():
    rng = np.random.default_rng(0)
    values = rng.normal(size=50) * 10.0 ** rng.integers(-300, 90, size=50)
    exponent = lowest_exponent(values, np.array([3.0, -np.inf, 0.0]))
    whole = to_integers(values, exponent)
    assert all(Fraction(int(i)) * Fraction(2) ** exponent == Fraction(float(x)) for i, x in zip(whole, values, strict=True))
    assert lowest_exponent(np.array([0.0, 8.0, -np.inf])) == 0 and to_integers(np.array([-np.inf]), 0)[0] is None


def searched():
    rng = np.random.default_rng(3)
    graph = ms.Graph.complete(12)
    problem = ms.Problem(graph, rng.normal(size=(12, 5)), 3 * rng.normal(size=(graph.n_edges, 5, 5)))
    result = BranchAndBound(root_iter=5).solve(problem)
    assert isinstance(result.certificate, SearchCertificate)
    return problem, result


def test_files_keep_what_is_proven(tmp_path):
    problem, result = searched()
    save_answer(tmp_path / "a.npz", result)
    answer = read_answer(tmp_path / "a.npz", problem)
    anew = replace(result.certificate)
    assert answer.certificate.evaluate(problem, answer.labels) == anew.evaluate(problem, result.labels)
    assert answer.verify(problem).optimal
    problem.save(tmp_path / "p.npz")
    assert (tmp_path / "a.npz").stat().st_size <= 10 * (tmp_path / "p.npz").stat().st_size


def test_files_of_version_1_are_read(tmp_path):
    """The frustrated triangle: a box for each label of node 0, with messages of its own."""
    problem = ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), tables=1.0 - np.eye(2), offset=0.5)
    index = [2 * (3 + 0) + 1, 2 * (3 + 1) + 1, 2 * 2 + 1, 2 * (3 + 2) + 1]
    boxes = dict(parent=[-1, 0, 0], node=[-1, 0, 0], label=[-1, 0, 1], relation=[0, 1, 1], message_set=[0, 1, 2])
    text = {name: np.frombuffer(word.encode(), dtype=np.uint8) for name, word in (("form", "search"), ("solver", "old"))}
    members = dict(
        answer=np.int64(1),
        score=np.float64(2.5),
        bound=np.float64(2.5),
        labels=np.array([0, 0, 1], dtype="<i4"),
        ptr=np.array([0, 0, 4, 8], dtype="<i8"),
        index=np.array(index + [i - 1 for i in index], dtype="<i8"),
        value=np.array([-1, -1, 0.5, 0.5] * 2, dtype="<f8"),
        **{name: np.array(numbers, dtype="<i4") for name, numbers in boxes.items()},
        **text,
    )
    np.savez(tmp_path / "old.npz", **members)
    answer = read_answer(tmp_path / "old.npz", problem)
    assert answer.verify(problem).optimal
    np.savez(tmp_path / "new.npz", **{**members, "answer": np.int64(2)})
    with pytest.raises(ms.ParseError, match="lacks the member"):
        read_answer(tmp_path / "new.npz", problem)


def test_a_check_computes_everything_anew(monkeypatch):
    """The value that a search keeps of its own proof is for its run only."""
    from maxsum.core.certificates.search import certificate as search_certificate

    problem, result = searched()
    monkeypatch.setitem(search_certificate._evaluated, result.certificate, (problem, result.labels, (-1e9, 0.0)))
    assert result.certificate.evaluate(problem, result.labels)[0] == -1e9
    assert result.certificate.verify(problem, result.labels).bound >= result.score
