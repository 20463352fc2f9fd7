"""solve(): which row fires, limits, names."""

from dataclasses import replace

import numpy as np
import pytest

import maxsum as ms
from maxsum.inference import TRWS, BranchAndBound, dispatch, list_solvers
from maxsum.inference.exact import junction, search
from maxsum.inference.registry import SOLVERS


def problem_of(graph, n_labels, tables, seed=0, **more):
    return ms.Problem(graph, np.random.default_rng(seed).normal(size=(graph.n_nodes, n_labels)), tables, **more)


ROWS = {
    "row 1 (no edges)": lambda: problem_of(ms.Graph.from_edges([], 5), 3, None),
    "row 2 (forest)": lambda: problem_of(ms.Graph.chain(6), 3, np.eye(3)),
    "row 3 (supermodular)": lambda: problem_of(ms.Graph.grid(4, 4), 2, np.eye(2)),
    "row 4 (small width)": lambda: problem_of(ms.Graph.grid(4, 4), 3, np.eye(3)),
    "row 5 (general)": lambda: problem_of(ms.Graph.grid(30, 30), 3, np.eye(3)),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_message_names_the_row(row):
    problem = ROWS[row]()
    result = ms.solve(problem, time_limit=20)
    assert result.message.startswith(row)
    assert result.certificate.verify(problem, result.labels, result.score, result.bound).gap <= result.gap + 1e-9


def test_ordered_labels_and_binary_cliques_go_to_max_flow():
    label = np.arange(4)
    ordered = problem_of(ms.Graph.grid(5, 5), 4, -np.abs(label[:, None] - label).astype(float))
    cliques = problem_of(ms.Graph.grid(3, 3), 2, np.eye(2), cliques=[(range(9), [1.0, 2.0])])
    for problem in (ordered, cliques):
        result = ms.solve(problem)
        assert result.solver == "MaxFlow" and result.guarantee == "optimal"


def test_solvers_by_name_and_object_with_a_time_limit():
    problem = ROWS["row 4 (small width)"]()
    assert ms.solve(problem, "TRWS").solver == "TRWS"
    assert ms.solve(problem, TRWS(max_iter=3)).n_iter <= 3
    open_gap = problem_of(ms.Graph.complete(8), 3, -np.eye(3))
    assert ms.solve(open_gap, TRWS(stall=-1.0, max_iter=10**9), time_limit=0.05).termination == "time_limit"
    with pytest.raises(ms.InvalidParameterError, match="no solver 'Viterbi'; known are TreeDP"):
        ms.solve(problem, "Viterbi")


def test_list_solvers_says_who_and_why_not():
    listed = list_solvers(ROWS["row 4 (small width)"]())
    assert set(listed) == set(SOLVERS)
    assert listed["JunctionTree"] and listed["TRWS"]
    assert "forest" in listed["TreeDP"].reason and "supermodular" in listed["MaxFlow"].reason


def test_a_time_limit_covers_both_stages():
    rng = np.random.default_rng(0)
    problem = problem_of(ms.Graph.complete(40), 6, rng.normal(size=(780, 6, 6)))
    ms.solve(problem, time_limit=0.1)
    result = ms.solve(problem, time_limit=1.0)
    assert result.termination == "time_limit" and result.seconds < 3
    seconds = [point.seconds for point in result.trace]
    assert seconds == sorted(seconds)
    result.certificate.verify(problem, result.labels, result.score, result.bound)


def test_an_empty_problem_has_an_empty_answer():
    result = ms.solve(ms.Problem(ms.Graph.from_edges([], 0), np.zeros((0, 3))))
    assert result.labels.shape == (0,) and result.score == 0 and result.guarantee == "optimal"


# ---- how far it goes ---------------------------------------------------------------------------------------------


def spin_glass(side, seed=0):
    """Couplings of both signs: the linear relaxation leaves a fifth of the score open."""
    graph = ms.Graph.grid(side, side)
    sign = np.random.default_rng(seed).choice([-1.0, 1.0], size=graph.n_edges)
    unary = 0.01 * np.random.default_rng(seed).normal(size=(side**2, 2))
    return ms.Problem(graph, unary, tables=sign[:, None, None] * np.eye(2))


@pytest.fixture
def tune(monkeypatch):
    """Changes tuning constants of a module for one test."""

    def change(module, **constants):
        monkeypatch.setattr(module, "_TUNING", replace(module._TUNING, **constants))

    return change


def test_large_problems_stop_at_a_small_gap_and_small_ones_are_proven(tune):
    tune(dispatch, search_seconds=1.0)
    large, small = (problem_of(ms.Graph.grid(n, n), 5, 0.3 * np.eye(5)) for n in (60, 12))
    result = ms.solve(large)
    assert result.termination == "converged" and result.guarantee == "within_gap" and 1e-9 < result.relative_gap <= 1e-5
    further = ms.solve(large, gap=0)
    assert further.relative_gap < result.relative_gap
    assert ms.solve(large, gap=1e-2).n_iter < result.n_iter
    assert ms.solve(small).guarantee == "optimal"


def test_a_large_problem_that_stalls_is_searched_locally_alone(monkeypatch):
    rng, graph = np.random.default_rng(0), ms.Graph.grid(40, 40)
    problem = problem_of(graph, 3, rng.normal(size=(graph.n_edges, 3, 3)))
    monkeypatch.setattr(dispatch, "BranchAndBound", lambda **_: pytest.fail("an exact search was begun"))
    monkeypatch.setattr(dispatch.PartialSearch, "supports", lambda self, problem: False)  # which would close the gap
    result = ms.solve(problem)
    assert result.solver == "LocalSearch" and result.termination == "stalled" and "time limit" not in result.message
    assert result.gap < 0.7 * TRWS().solve(problem).gap
    assert np.array_equal(result.labels, ms.solve(problem).labels)
    result.verify(problem)


@pytest.mark.parametrize("gap", [None, 0.0, 1e-3])
def test_nobody_says_time_limit_where_none_was_given(gap, tune):
    tune(dispatch, search_seconds=0.2)
    rng, graph = np.random.default_rng(0), ms.Graph.complete(40)
    problem = problem_of(graph, 5, rng.normal(size=(graph.n_edges, 5, 5)))
    result = ms.solve(problem, gap=gap)
    assert result.termination == "stalled" and "time limit" not in result.message and "stalled" in result.message
    assert "time_limit" in result.message  # the way to give it more
    assert ms.solve(problem, gap=gap, time_limit=0.2).termination == "time_limit"


def sparse_random(seed=0):
    rng = np.random.default_rng(seed)
    pairs = np.argwhere(np.triu(np.ones((40, 40)), 1))
    graph = ms.Graph.from_edges(pairs[np.sort(rng.choice(len(pairs), 80, replace=False))], n_nodes=40)
    return problem_of(graph, 4, rng.normal(size=(80, 4, 4)), seed)


def test_small_problems_are_tried_with_a_few_boxes_first(tune):
    result = ms.solve(sparse_random())
    assert result.solver == "BranchAndBound" and result.n_iter <= dispatch._TUNING.tried_boxes
    assert result.verify(sparse_random(), exact=True).guarantee == "optimal"
    tune(dispatch, tried_nodes=0)
    other = ms.solve(sparse_random())
    assert other.solver == "JunctionTree" and other.score == pytest.approx(result.score, abs=1e-9)


def test_a_small_problem_that_a_few_boxes_do_not_prove_goes_on(tune):
    tune(dispatch, tried_boxes=0)
    assert ms.solve(sparse_random()).solver == "JunctionTree"
    rng = np.random.default_rng(0)
    graph = ms.Graph.from_edges(sparse_random().graph.edges, n_nodes=40)
    cells = dispatch.narrow_order(ms.Problem(graph, np.zeros((40, 4)), tables=np.eye(4)), 2**24).cells
    tune(dispatch, small_cells=int(cells) - 1, small_passes=0.0)
    wide = problem_of(graph, 4, rng.normal(size=(80, 4, 4)))
    result = ms.solve(wide)
    assert result.guarantee == "optimal" and result.message.startswith("row 5 (general): TRWS left a gap of")


def test_hard_constraints_of_a_large_problem_are_searched():
    """A map that TRW-S cannot colour: moves that repair a labelling are no proof of one."""
    graph = ms.Graph.grid(20, 20)
    problem = problem_of(graph, 3, np.where(np.eye(3, dtype=bool), -np.inf, 0.0))
    assert np.isfinite(ms.solve(problem).score)


def test_elimination_comes_where_search_does_not_end(monkeypatch):
    problem = spin_glass(18)
    found = ms.solve(problem)
    # where other work slows the search of parts down, its share of the time ends first
    assert found.guarantee == "optimal" and found.solver in ("PartialSearch", "JunctionTree")
    monkeypatch.setattr(dispatch.PartialSearch, "supports", lambda self, problem: False)
    result = ms.solve(problem_like(problem))
    assert result.solver == "JunctionTree" and result.guarantee == "optimal"
    assert TRWS().solve(problem).relative_gap > 0.1
    monkeypatch.setattr(junction, "available", lambda: (10**6, "a test"))
    assert ms.solve(problem_like(problem)).solver != "JunctionTree"


def problem_like(problem):
    """The same problem without what was found out about it."""
    return ms.Problem(problem.graph, problem.unary, tables=problem.tables)


def test_elimination_is_not_begun_where_it_takes_too_long(tune, monkeypatch):
    tune(dispatch, search_seconds=0.3)
    monkeypatch.setattr(dispatch.PartialSearch, "supports", lambda self, problem: False)
    result = ms.solve(spin_glass(18))
    assert result.solver != "JunctionTree" and result.termination == "stalled"


def test_a_search_of_many_nodes_ends_when_its_memory_is_full(tune):
    tune(search, few_nodes=10, waiting_copies=4, waiting_floor=0)
    problem = spin_glass(14)
    boxes = search._most_waiting(problem)
    assert boxes == 4
    result = BranchAndBound().solve(problem)
    assert result.termination == "stalled" and "filled the memory" in result.message and result.guarantee == "within_gap"
    result.verify(problem)
    limited = BranchAndBound(time_limit=0.3).solve(problem)
    assert limited.termination == "time_limit" and limited.score >= result.score


def test_an_elimination_that_is_cut_short_leaves_what_was_known(monkeypatch):
    """Its clock says no at the first bag: the labelling and the bound of the stages before it stand."""
    problem, seen = spin_glass(16), []
    plain = junction.JunctionTree

    def cut(**settings):
        seen.append(settings)
        return plain(**{**settings, "time_limit": 0.0}) if "time_limit" in settings else plain(**settings)

    monkeypatch.setattr(dispatch, "JunctionTree", cut)
    monkeypatch.setattr(dispatch, "TABLE", dispatch.TABLE[:2])
    result = ms.solve(problem, time_limit=60.0)
    assert any("time_limit" in settings for settings in seen)
    assert result.termination == "time_limit" and result.relative_gap <= TRWS().solve(problem).relative_gap
    result.verify(problem)
