"""AugmentingDAG: every step lowers the height by what it promises; fixpoints are arc consistent; honest stalls."""

from itertools import pairwise

import numpy as np
import pytest
from contracts.common import check_result
from factories.problems import dense, on_graph, random_case
from reference.dense_lp import local_polytope_value
from reference.families import build, complete_edges, grid_edges, make, shuffle
from reference.seeds import seeds, share

import maxsum as ms
from maxsum.core.consistency import locally_consistent, maximal_set
from maxsum.inference import LinearProgram, TreeDP
from maxsum.inference.prepare import prepare
from maxsum.inference.relaxations.augmenting_dag import AugmentingDAG, Tuning
from maxsum.kernels import augmenting_dag as kernels
from maxsum.kernels.records import scratch


def options(seed):
    """Four to six nodes, one to four labels; forbidden labels and pairs in every third problem."""
    hard = 0.2 * (seed % 3 == 0)
    return dict(n_nodes=(4, 7), n_labels=4, density=0.7, unequal=True, hard=hard, forbidden=hard)


def test_each_step_lowers_the_height_by_its_length():
    n_steps = 0
    for seed in seeds(120):
        problem, _ = random_case(seed, **options(seed))
        prepared = prepare(problem)
        if not prepared.feasible or not problem.n_edges:
            continue
        messages = problem.zero_messages()
        dag = scratch(problem.n_nodes, problem.n_edges, problem.n_labels)
        kernels.refresh(prepared.net, messages.edge, dag)
        for epsilon in (1.0, 0.3, 0.05, 1e-3):
            for _ in range(30):
                before = problem.bound(messages)
                node, size = kernels.propagate(prepared.net, messages.edge, epsilon, dag)
                if node < 0:
                    break
                n_touched = kernels.direct(prepared.net, messages.edge, epsilon, dag, node, size)
                asked = dag.asked.max()
                step, change = kernels.advance(prepared.net, messages.edge, dag, node, size, n_touched)
                n_steps += 1
                assert step >= epsilon / (2 * asked) * (1 - 1e-9)
                assert change <= -step + 1e-12
                assert problem.bound(messages) - before == pytest.approx(change, abs=1e-11)
                assert np.isfinite(messages.edge).all()
                assert not dag.asked.any() and not dag.direction.any() and not dag.marked.any()
    assert n_steps > share(1000)


def test_bounds_lie_above_the_relaxation_and_the_optimum():
    tight, above = 0, 0
    for seed in seeds(250):
        problem, raw = random_case(seed, **options(seed))
        result = AugmentingDAG().solve(problem)
        if not raw.feasible:
            assert result.guarantee in ("infeasible", "upper_bound")
            continue
        lp = local_polytope_value(raw)
        assert result.bound >= lp - 1e-7 and result.bound >= raw.best - 1e-9
        assert result.score <= raw.best + 1e-9
        assert result.certificate.verify(problem, result.labels, bound=result.bound).bound == pytest.approx(result.bound)
        if result.guarantee == "optimal":
            assert result.score == pytest.approx(raw.best, abs=1e-8) and result.termination == "converged"
        else:
            assert result.termination == "stalled"
        tight += lp - raw.best < 1e-7
        above += result.bound > lp + 1e-3
        if lp - raw.best < 1e-7 and result.bound < lp + 1e-7:
            assert result.guarantee == "optimal", seed
    assert tight > share(150) and above < share(25)


ODD = ["hard_feasible", "hard_random", "ties", "zeros", "one_node", "no_nodes", "scale_1e12", "one_huge_edge", "edge_weights"]


@pytest.mark.parametrize("family", ODD)
def test_claims_hold_on_odd_problems(family):
    for seed in seeds(15):
        case = make(family, seed)
        check_result(case, AugmentingDAG().solve(case.problem))


def test_trees_are_solved_with_proof():
    for seed in seeds(40):
        case = make("tree" if seed % 2 else "hard_tree", seed)
        result = AugmentingDAG().solve(case.problem)
        assert result.guarantee == ("optimal" if case.raw.feasible else "infeasible"), case
    rng = np.random.default_rng(0)
    chain = ms.Problem(ms.Graph.chain(60), rng.normal(size=(60, 5)), rng.normal(size=(59, 5, 5)))
    result = AugmentingDAG().solve(chain)
    assert result.guarantee == "optimal" and result.score == pytest.approx(TreeDP().solve(chain).score, rel=1e-12)


def test_two_labels_and_supermodular_tables_reach_the_relaxation():
    for seed in seeds(40):
        rng = np.random.default_rng(seed)
        edges = shuffle(rng, complete_edges(6) if seed % 2 else grid_edges(2, 3))
        unary = [rng.normal(size=2) for _ in range(6)]
        problem, raw = build(unary, edges, [2 * rng.normal(size=(2, 2)) for _ in edges])
        result = AugmentingDAG(stall=1e-5).solve(problem)
        assert result.bound == pytest.approx(local_polytope_value(raw), abs=1e-4 * (1 + result.gap))
        case = make("ordered_supermodular", seed)
        assert AugmentingDAG().solve(case.problem).guarantee == "optimal", case


def test_the_bound_never_worsens_and_the_end_is_arc_consistent():
    for seed in range(4):
        problem = on_graph(ms.Graph.grid(6, 6), 4, seed)
        result = AugmentingDAG().solve(problem)
        assert all(b.bound <= a.bound + 1e-9 for a, b in pairwise(result.trace))
        top = maximal_set(problem, result.messages, tol=1e-3)
        assert locally_consistent(problem, top).nodes.any(axis=1).all()
        assert result.bound <= LinearProgram().solve(problem).bound + 0.3


def test_dense_graphs_stall_above_the_relaxation_and_say_so():
    problem = dense(8, 4, 0)
    result = AugmentingDAG().solve(problem)
    lp = LinearProgram().solve(problem).bound
    assert result.termination == "stalled" and result.guarantee == "within_gap"
    assert result.bound > lp + 0.1
    binary = ms.Problem(ms.Graph.complete(3), [[0, 0.1], [0, 0], [0, 0]], -np.eye(2))
    odd = AugmentingDAG().solve(binary)
    assert odd.termination == "stalled" and odd.bound == pytest.approx(0.05, abs=1e-3)


def test_a_tight_relaxation_gives_the_labelling_by_search_among_maximal_labels(monkeypatch):
    """Graphs with a hidden 3-colouring: every label is maximal, and conditioning and ICM alone miss most colourings."""
    problems = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        hidden = rng.integers(3, size=30)
        edges = [(u, v) for u, v in complete_edges(30) if hidden[u] != hidden[v] and rng.random() < 0.22]
        weight = rng.random(len(edges)) + 0.5
        problems.append(ms.Problem(ms.Graph.from_edges(edges, 30), np.zeros((30, 3)), 1 - np.eye(3), edge_weight=weight))
    for problem in problems:
        result = AugmentingDAG().solve(problem)
        assert result.guarantee == "optimal" and result.score == pytest.approx(problem.edge_weight.sum())
    monkeypatch.setattr("maxsum.inference.relaxations.augmenting_dag._TUNING", Tuning(most_csp_cells=0))
    assert sum(AugmentingDAG().solve(problem).guarantee == "optimal" for problem in problems) < 6


def test_a_large_grid_takes_seconds():
    rng, graph = np.random.default_rng(0), ms.Graph.grid(20, 20)
    tables = rng.normal(size=(graph.n_edges, 5, 5))
    problem = ms.Problem(graph, rng.normal(size=(400, 5)), tables)
    potts = AugmentingDAG().solve(ms.Problem(problem.graph, problem.unary, 0.7 * np.eye(5)))
    assert potts.guarantee == "optimal"
    result = AugmentingDAG().solve(problem)
    assert result.seconds < 20
    assert 952.4708 <= result.bound <= 954.5 and result.score >= 915


def test_limits_and_parameters_have_an_effect():
    problem = on_graph(ms.Graph.grid(8, 8), 4, 3)
    short = AugmentingDAG(max_iter=5).solve(problem)
    assert short.termination == "iteration_limit" and short.n_iter == 5 and short.guarantee == "within_gap"
    full, coarse = AugmentingDAG(stall=1e-4).solve(problem), AugmentingDAG(stall=0.5).solve(problem)
    assert full.bound < coarse.bound < short.bound and full.n_iter > coarse.n_iter
    assert AugmentingDAG(ratio=0.1).solve(problem).n_iter != AugmentingDAG().solve(problem).n_iter
    timed = AugmentingDAG(time_limit=0.0).solve(problem)
    assert timed.termination == "time_limit" and timed.labels is not None
    again = AugmentingDAG(max_iter=5).solve(problem, init=full)
    assert again.bound <= full.bound + 1e-9 and again.score >= full.score


def test_bad_input_is_refused_with_a_reason():
    cliques = make("cliques_binary", 0).problem
    assert "clique" in AugmentingDAG().supports(cliques).reason
    with pytest.raises(ms.UnsupportedProblemError, match="clique terms"):
        AugmentingDAG().solve(cliques)
    problem = on_graph(ms.Graph.grid(3, 3), 2, 0)
    for init in (np.zeros((2, 3, 2)), np.full((2, 12, 2), np.nan), np.full((2, 12, 2), np.inf)):
        with pytest.raises(ms.InvalidProblemError, match="messages"):
            AugmentingDAG().solve(problem, init=init)
    for options in (dict(max_iter=-1), dict(tol=-1.0), dict(tol=float("nan")), dict(ratio=0.0), dict(ratio=1.0)):
        with pytest.raises(ms.InvalidParameterError, match=r"AugmentingDAG: .* wanted"):
            AugmentingDAG(**options)
