"""``.wcsp``, ``.cfn`` and ``.uai`` written and read again: every labelling keeps its score, and toulbar2 finds the same optimum."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from files.toulbar2_runs import optima
from reference.enumeration import every_labelling
from reference.seeds import seeds

import maxsum as ms
from maxsum.core.factors import AllDifferent, Cardinality, Linear, SparseTable
from maxsum.core.files import read_problem, save


def random_problem(seed, whole, offset=-400.0):
    """Unequal labels, edges, every kind of factor, perhaps cliques, -inf everywhere."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 6))
    states = rng.integers(1, 4, n)

    def number(*shape):
        return rng.integers(-9, 9, shape).astype(float) if whole else np.round(rng.normal(size=shape) * 10, 3)

    def hard(array):
        return np.where(rng.random(array.shape) < 0.12, -np.inf, array)

    edges = [pair for pair in itertools.combinations(range(n), 2) if rng.random() < 0.5]
    tables = [hard(number(states[u], states[v])) for u, v in edges]
    factors = []
    for _ in range(int(rng.integers(1, 4))):
        nodes = rng.permutation(n)[: int(rng.integers(2, n + 1))]
        shape = tuple(states[nodes].tolist())
        cells = np.array(list(itertools.product(*map(range, shape))))
        some = cells[rng.permutation(len(cells))[: int(rng.integers(0, len(cells) + 1))]]
        count = np.arange(len(nodes) + 1)
        low, high = sorted(rng.integers(0, len(nodes) + 1, 2))
        gap = np.maximum(np.maximum(low - count, count - high), 0)
        paid = [-np.inf, -3.0 * gap, -2.0 * gap**2, -4.0][int(rng.integers(4))]
        function = [
            lambda shape=shape: hard(number(*shape)),
            lambda shape=shape, some=some: SparseTable(shape, some, number(len(some)), float(rng.choice([0, 2, -np.inf]))),
            AllDifferent,
            lambda nodes=nodes: Cardinality(hard(number(len(nodes) + 1)), [0, 2]),
            lambda gap=gap, paid=paid: Cardinality(np.where(gap > 0, paid, 0.0) + number(1)[0], int(rng.integers(0, 3))),
            lambda shape=shape: Linear(
                [rng.integers(-4, 6, s) for s in shape], int(rng.integers(-5, 3)), int(rng.integers(3, 9))
            ),
        ][int(rng.integers(6))]()
        factors.append((nodes, function))
    cliques = [(range(n), np.abs(number(int(states.max()))))] if rng.random() < 0.3 else None
    graph = ms.Graph.from_edges(np.array(edges, dtype=int).reshape(-1, 2), n)
    return ms.Problem(
        graph,
        [number(s) for s in states],
        tables or None,
        n_states=states,
        cliques=cliques,
        factors=factors,
        offset=float(number(1)[0]) + offset,
    )


def scores(problem):
    return np.array([problem.score(y) for y in every_labelling(problem)])


def read_scores(path, problem, **options):
    try:
        return scores(read_problem(path, **options))
    except ms.ParseError as error:  # a node or a constant that forbids everything
        if "forbid" not in str(error):
            raise
        return np.full(len(scores(problem)), -np.inf)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize(
    ("suffix", "options"), [(".cfn", {}), (".cfn.xz", {}), (".uai", {"values": "costs"}), (".uai", {"values": "scores"})]
)
def test_scores_come_back(tmp_path, suffix, options, whole):
    for seed in seeds(25):
        problem = random_problem(seed, whole)
        path = tmp_path / f"p{suffix}"
        problem.save(path, **options)
        np.testing.assert_allclose(read_scores(path, problem, **options), scores(problem), rtol=0, atol=1e-9)


@pytest.mark.parametrize("precision", [None, 3])
def test_scores_come_back_from_wcsp(tmp_path, precision):
    for seed in seeds(30):
        problem = random_problem(seed, precision is None)
        save(problem, tmp_path / "p.wcsp", precision=precision)
        scale = 10 ** (precision or 0)
        np.testing.assert_allclose(read_scores(tmp_path / "p.wcsp", problem), scores(problem) * scale, rtol=0, atol=1e-6)


def test_toulbar2_solves_what_is_written(tmp_path):
    paths, wanted = [], []
    for seed in seeds(20):
        for whole in (True, False):
            problem = random_problem(seed, whole)
            for suffix, options in ((".cfn", {}), (".wcsp", {} if whole else {"precision": 3})):
                paths.append(tmp_path / f"{seed}{whole}{suffix}")
                save(problem, paths[-1], **options)
                wanted.append(-scores(problem).max() * (1000 if "precision" in options else 1))
    found = [cost for _, cost in optima(paths)]
    np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-3)
    assert 0 < np.isinf(wanted).sum() < len(wanted) / 2


def test_costs_of_both_signs_go_to_cfn_alone(tmp_path):
    problem = ms.Problem(ms.Graph.chain(2), [[1, 2], [3, 0]], [[5, -np.inf], [0, 1]])
    with pytest.raises(ms.UnsupportedProblemError, match=r"add up to -10, and \.wcsp has no negative costs.*offset=-10\.0"):
        save(problem, tmp_path / "p.wcsp")
    moved = ms.Problem(problem.graph, problem.unary, problem.tables, offset=-10.0)
    save(moved, tmp_path / "p.wcsp")
    np.testing.assert_array_equal(scores(read_problem(tmp_path / "p.wcsp")), scores(moved))
    save(problem, tmp_path / "p.cfn")
    np.testing.assert_array_equal(scores(read_problem(tmp_path / "p.cfn")), scores(problem))


def test_wcsp_refuses_what_it_would_change(tmp_path):
    half = ms.Problem(ms.Graph.chain(2), [[-0.5, -1], [0, 0]], np.zeros((2, 2)))
    with pytest.raises(ms.UnsupportedProblemError, match=r"function 0 \(nodes 0\) has the cost 0\.5, .*precision="):
        save(half, tmp_path / "p.wcsp")
    save(half, tmp_path / "p.wcsp", precision=1)
    assert read_problem(tmp_path / "p.wcsp").score([0, 0]) == -5
    for precision in (-1, 16, 2.0, True):
        with pytest.raises(ms.InvalidParameterError, match="precision is"):
            save(half, tmp_path / "p.wcsp", precision=precision)
    large = ms.Problem(ms.Graph.chain(1), [[-1e15, 0]])
    with pytest.raises(ms.UnsupportedProblemError, match="beyond 2\\*\\*53"):
        save(large, tmp_path / "p.wcsp", precision=4)
    many = ms.Problem(ms.Graph.from_edges([], 200), np.zeros((200, 2)) - [0, 9e15])
    with pytest.raises(ms.UnsupportedProblemError, match="past the whole numbers of toulbar2"):
        save(many, tmp_path / "p.wcsp")
    with pytest.raises(ms.UnsupportedProblemError, match="past what toulbar2 can hold"):
        save(many, tmp_path / "p.cfn")
    counts = Cardinality(np.arange(41.0) % 3, 1)
    problem = ms.Problem(ms.Graph.from_edges([], 40), np.zeros((40, 2)), factors=[(range(40), counts)])
    for suffix in (".wcsp", ".cfn"):
        with pytest.raises(ms.UnsupportedProblemError, match=r"factor 0 \(Cardinality.*no word for.*1099511627776 entries"):
            save(problem, tmp_path / f"p{suffix}")


def test_tables_are_written_once(tmp_path):
    n = 300
    problem = ms.Problem(ms.Graph.chain(n), np.zeros((n, 3)), -np.eye(3))
    for suffix in (".wcsp", ".cfn"):
        save(problem, tmp_path / f"p{suffix}")
        assert (tmp_path / f"p{suffix}").stat().st_size < 70 * n
        assert read_problem(tmp_path / f"p{suffix}").score(np.zeros(n, dtype=int)) == -(n - 1)
    found = optima([tmp_path / "p.wcsp", tmp_path / "p.cfn"])
    assert [cost for _, cost in found] == [0, 0]


def test_functions_keep_their_words(tmp_path):
    n = 40
    count = np.arange(n + 1.0)
    factors = [
        (range(n), AllDifferent()),
        (range(n), Cardinality(np.where(count <= 3, 0.0, -np.inf), [0, 5])),
        (range(n), Cardinality(-2.0 * np.maximum(count - 5, 0), 7)),
        (range(n), Linear([np.arange(50)] * n, 700, 900)),
    ]
    problem = ms.Problem(ms.Graph.from_edges([], n), np.zeros((n, 50)), factors=factors)
    rng = np.random.default_rng(0)
    for suffix in (".wcsp", ".cfn"):
        save(problem, tmp_path / f"p{suffix}")
        again = read_problem(tmp_path / f"p{suffix}")
        kinds = [type(function) for _, function in again.factors.items()]
        assert kinds == [AllDifferent, Cardinality, Cardinality, Linear, Linear]
        for _ in range(30):
            y = rng.permutation(50)[:n] if rng.random() < 0.5 else rng.integers(0, 50, n)
            assert again.score(y) == problem.score(y)
    assert math.isfinite(problem.score(np.arange(n)))
