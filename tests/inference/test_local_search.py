"""LocalSearch: forests that are forests, moves that are best on them, limits, seeds, hard constraints; good answers."""

import numpy as np
import pytest
from factories.problems import random_problem
from reference.seeds import seeds

import maxsum as ms
from maxsum.inference import BranchAndBound, Exhaustive
from maxsum.inference.base import Run
from maxsum.inference.moves.local_search import ForestSearch, LocalSearch
from maxsum.inference.prepare import prepare
from maxsum.kernels.local_search import forest_moves, grow_forest, total_score

OPTIONS = dict(unequal=True, weights=(0.5, 1.5))


def scratch(net):
    n, k = net.unary.shape
    return (*(np.zeros(n, dtype=np.int32) for _ in range(4)), np.zeros(n, dtype=np.int64), np.zeros((n, k)), np.zeros(k))


@pytest.mark.parametrize("cliques", [False, True])
def test_a_forest_is_a_forest_and_as_large_as_can_be(cliques):
    for seed in seeds(30):
        problem = random_problem(seed, 12, density=0.3, cliques=(1, 2, 4) if cliques else (), **OPTIONS)
        net, state = prepare(problem).net, np.array([seed + 1], dtype=np.uint64)
        order, touch, frontier, _, up, _, _ = scratch(net)
        size = grow_forest(net, state, order, touch, up, frontier)
        chosen = order[:size].tolist()
        assert size == len(set(chosen)) > 0
        inside = [tuple(e) for e in problem.graph.edges.tolist() if set(e) <= set(chosen)]
        assert len(inside) == sum(up[v] >= 0 for v in chosen)
        for place, v in enumerate(chosen):
            if up[v] >= 0:
                ends = problem.graph.edges[net.adj_edge[up[v]]].tolist()
                assert v in ends and sum(ends) - v in chosen[:place]
        for c in range(len(problem.cliques)):
            assert len(set(problem.cliques.members(c).tolist()) & set(chosen)) <= 1
        if not cliques:
            for v in set(range(12)) - set(chosen):
                assert sum(v in e and sum(e) - v in chosen for e in problem.graph.edges.tolist()) > 1


@pytest.mark.parametrize("cliques", [False, True])
def test_a_move_without_noise_is_the_best_labelling_of_its_forest(cliques):
    for seed in seeds(30):
        problem = random_problem(seed, 7, cliques=(1, 2, 4) if cliques else (), **OPTIONS)
        net = prepare(problem).net
        rng = np.random.default_rng(seed)
        labels = (rng.random(7) * problem.n_states).astype(np.int32)
        before, state, work = labels.copy(), np.array([seed + 1], dtype=np.uint64), scratch(net)
        again = state.copy()
        best, level = labels.copy(), np.array([total_score(net, labels)])
        assert level[0] + prepare(problem).constant == pytest.approx(problem.score(labels), abs=1e-9)
        forest_moves(net, 1, 0.0, 1.0, np.zeros(4096), state, labels, best, level, work)
        order, touch, frontier, _, up, _, _ = scratch(net)
        chosen = order[: grow_forest(net, again, order, touch, up, frontier)]
        kept = np.setdiff1d(np.arange(7), chosen)
        assert (labels[kept] == before[kept]).all()
        every = (y for y in np.ndindex(*problem.n_states.tolist()) if all(y[v] == before[v] for v in kept))
        assert problem.score(labels) == pytest.approx(max(problem.score(y) for y in every), abs=1e-9)


@pytest.mark.parametrize(("cliques", "hard"), [(False, 0.0), (True, 0.0), (False, 0.3), (True, 0.2)])
def test_small_problems_are_solved_and_nothing_is_claimed(cliques, hard):
    for seed in seeds(15):
        problem = random_problem(seed, 7, density=0.6, cliques=(1, 2, 4) if cliques else (), hard=hard, **OPTIONS)
        exact, result = Exhaustive().solve(problem), LocalSearch(max_iter=500).solve(problem)
        if exact.labels is None:
            assert result.labels is None and result.guarantee in ("none", "infeasible")
            continue
        assert result.score == pytest.approx(exact.score, abs=1e-9)
        assert result.guarantee == "feasible" and result.certificate is None


def test_equal_seeds_give_equal_answers_and_others_others():
    problem = random_problem(0, 100, 6, density=0.3)
    scores = [LocalSearch(max_iter=40, random_state=seed).solve(problem) for seed in (3, 3, 4)]
    assert scores[0].labels.tolist() == scores[1].labels.tolist()
    assert scores[0].labels.tolist() != scores[2].labels.tolist()
    assert scores[0].n_iter == 40 and scores[0].termination == "iteration_limit"


def test_more_moves_are_not_worse_and_a_start_is_kept():
    problem = random_problem(1, 60, 6, density=0.3, **OPTIONS)
    short, long = (LocalSearch(max_iter=n).solve(problem) for n in (1, 2000))
    assert long.score > short.score
    assert LocalSearch(max_iter=0).solve(problem, init=long).score == long.score
    assert LocalSearch(max_iter=20).solve(problem, init=long).score >= long.score


def test_a_bound_that_comes_along_is_kept_and_ends_the_search_when_it_is_met():
    problem = random_problem(2, 10, density=0.4, **OPTIONS)
    exact = BranchAndBound().solve(problem)
    result = LocalSearch(max_iter=10**9).solve(problem, init=exact)
    assert result.guarantee == "optimal" and result.termination == "converged" and result.bound == exact.bound
    messages = ms.solve(problem, "TRWS").messages
    assert LocalSearch(max_iter=10).solve(problem, init=messages).guarantee in ("within_gap", "optimal")


def test_limits_and_bad_parameters():
    problem = random_problem(3, 40, 4, density=0.3, **OPTIONS)
    LocalSearch(max_iter=1).solve(problem)
    result = LocalSearch(max_iter=10**9, time_limit=0.2).solve(problem)
    assert result.termination == "time_limit" and result.seconds < 2 and result.guarantee == "feasible"
    stopped = LocalSearch(max_iter=10**9).solve(problem, callback=lambda point: True)
    assert stopped.termination == "stopped" and stopped.labels is not None
    with pytest.raises(ms.InvalidParameterError, match="max_iter is -1"):
        LocalSearch(max_iter=-1)
    for bad in (-1, 0.5, True):
        with pytest.raises(ms.InvalidParameterError, match="random_state is"):
            LocalSearch(random_state=bad)


def test_a_colouring_is_found_where_every_label_looks_alike():
    """Hard constraints alone: graphs with a hidden 3-colouring."""
    rng = np.random.default_rng(0)
    colour = rng.integers(0, 3, size=60)
    edges = [(u, v) for u in range(60) for v in range(u) if colour[u] != colour[v] and rng.random() < 0.25]
    problem = ms.Problem(ms.Graph.from_edges(edges, 60), np.zeros((60, 3)), np.where(np.eye(3, dtype=bool), -np.inf, 0.0))
    assert LocalSearch(max_iter=20_000, time_limit=20).solve(problem).score == 0


def test_rounds_go_on_from_a_better_labelling_of_the_run():
    problem = random_problem(4, 12, density=0.4, **OPTIONS)
    run = Run("test", problem)
    search = ForestSearch(problem, run)
    exact = BranchAndBound().solve(problem)
    run.offer(exact.labels)
    list(search.one_round())
    assert run.score == exact.score and problem.score(search.best) == pytest.approx(exact.score, abs=1e-9)


def test_scen06_comes_within_a_few_per_cent_of_the_optimum(data_folder):
    problem = ms.read_problem(data_folder / "map_benchmarks" / "toulbar2" / "scen06.wcsp.xz")
    result = LocalSearch(max_iter=20_000).solve(problem)
    assert 3389 <= -result.score <= 3500
