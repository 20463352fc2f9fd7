"""TRWS: bounds that fall, LP values where the LP is tight, honest stalls."""

from itertools import pairwise

import numpy as np
import pytest

import maxsum as ms
from maxsum.inference import TRWS, LinearProgram, TreeDP


def random_grid(side, n_labels, seed, table=None):
    rng = np.random.default_rng(seed)
    n_edges = 2 * side * (side - 1)
    tables = rng.normal(size=(n_edges, n_labels, n_labels)) if table is None else table
    return ms.Problem(ms.Graph.grid(side, side), rng.normal(size=(side * side, n_labels)), tables)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_never_worsens(seed):
    result = TRWS(max_iter=100).solve(random_grid(6, 4, seed))
    bounds = [point.bound for point in result.trace]
    assert all(later <= earlier for earlier, later in pairwise(bounds))


def test_one_pass_over_a_chain_is_exact_up_to_the_order():
    rng = np.random.default_rng(0)
    problem = ms.Problem(ms.Graph.chain(30), rng.normal(size=(30, 5)), rng.normal(size=(29, 5, 5)))
    result = TRWS(max_iter=4).solve(problem)
    assert result.guarantee == "optimal"
    assert result.score == pytest.approx(TreeDP().solve(problem).score, rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_reaches_the_lp_value_on_potts_grids(seed):
    problem = random_grid(6, 3, seed, table=0.5 * np.eye(3))
    lp = LinearProgram().solve(problem).certificate.bound(problem)
    result = TRWS(max_iter=3000, stall=1e-6).solve(problem)
    assert lp - 1e-6 <= result.bound <= lp + 0.05


def test_a_frustrated_triangle_stalls_and_is_not_called_optimal():
    odd = ms.Problem(ms.Graph.complete(3), [[0, 0.1], [0, 0], [0, 0]], -np.eye(2))
    result = TRWS().solve(odd)
    assert result.termination == "stalled" and result.guarantee == "within_gap"
    assert result.bound >= result.score + 0.4


def test_a_warm_start_continues_where_it_stopped():
    problem = random_grid(8, 5, 3)
    first = TRWS(max_iter=30).solve(problem)
    second = TRWS(max_iter=30).solve(problem, init=first)
    assert second.bound <= first.bound and second.score >= first.score
    from_messages = TRWS(max_iter=2).solve(problem, init=first.messages)
    assert from_messages.bound <= first.bound + 1e-9


def test_cliques_pull_labels_together():
    unary = np.array([[0.0, 0.3], [0.0, -0.2], [0.0, -0.2], [0.0, 0.3]])
    problem = ms.Problem(ms.Graph.from_edges([], 4), unary, None, cliques=[([0, 1, 2, 3], [0.0, 1.0])])
    result = TRWS().solve(problem)
    assert result.labels.tolist() == [1, 1, 1, 1] and result.guarantee == "optimal"


def test_whole_numbers_close_a_gap_below_one():
    rng = np.random.default_rng(7)
    problem = ms.Problem(ms.Graph.grid(8, 8), rng.integers(0, 10, (64, 3)).astype(float), 3.0 * np.eye(3))
    assert problem.step == 1.0
    result = TRWS().solve(problem)
    assert result.guarantee == "optimal" and result.bound == result.score
    assert result.certificate.verify(problem, result.labels).optimal
