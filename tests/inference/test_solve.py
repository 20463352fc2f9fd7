"""solve(): which row fires, limits, names."""

import numpy as np
import pytest

import maxsum as ms
from maxsum.inference import TRWS, list_solvers
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
    assert ms.solve(open_gap, TRWS(tol=-1.0, max_iter=10**9), time_limit=0.05).termination == "time_limit"
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
