"""`maxsum solve --k`, `marginals`, `sample`, and answer files of the UAI competitions."""

from __future__ import annotations

import numpy as np
import pytest

import maxsum as ms


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.npz"
    problem = ms.Problem(ms.Graph.chain(3), [[0, 1.2], [0, 0], [2, 0, -1]], tables=[np.eye(2), np.eye(2, 3)], offset=0.5)
    problem.save(path)
    return path, problem


@pytest.fixture
def impossible(tmp_path):
    path = tmp_path / "triangle.npz"
    differ = np.where(np.eye(2), -np.inf, 0.0)
    ms.Problem(ms.Graph.complete(3), np.zeros((3, 2)), tables=differ).save(path)
    return path


def test_the_k_best(maxsum, chain, tmp_path):
    path, problem = chain
    found = maxsum("solve", path, "--k", 5, json_=True)
    assert found["proven"] == 5 and [problem.score(y) for y in found["labels"]] == found["scores"]
    assert found["scores"] == sorted(found["scores"], reverse=True) and found["bound"] <= found["scores"][-1]
    shown = maxsum("solve", path, "--k", 5, "--out", tmp_path / "best.MPE").stdout
    assert "all others" in shown and (tmp_path / "best.MPE").read_text().split("\n")[0] == "MPE"
    assert "chooses its own way" in maxsum("solve", path, "--k", 2, "--solver", "TRWS", code=2).stderr
    assert "no proof" in maxsum("solve", path, "--k", 2, "--out", tmp_path / "a.npz", code=2).stderr


def test_settings_of_a_solver(maxsum, chain):
    path, _ = chain
    assert maxsum("solve", path, "--solver", "trws", "--option", "max_iter=1", json_=True)["n_iter"] == 1
    assert "max_iter" in maxsum("solve", path, "--solver", "TRWS", "--option", "passes=3", code=2).stderr
    assert "name the solver" in maxsum("solve", path, "--option", "max_iter=3", code=2).stderr
    assert "max_iter" in maxsum("solve", path, "--solver", "TRWS", "--option", "max_iter=many", code=2).stderr


def test_answer_files_of_the_competitions(maxsum, chain, tmp_path):
    path, problem = chain
    maxsum("solve", path, "--out", tmp_path / "a.MPE")
    words = (tmp_path / "a.MPE").read_text().split()
    assert words[:2] == ["MPE", "3"] and problem.score([int(k) for k in words[2:]]) == ms.solve(problem).score
    maxsum("marginals", path, "--out", tmp_path / "a.MAR")
    words, exact = (tmp_path / "a.MAR").read_text().split(), ms.marginals(problem).node
    assert words[:3] == ["MAR", "3", "2"] and words[8] == "3"
    assert np.allclose([float(w) for w in words[9:]], exact[2]) and len(words) == 12
    maxsum("marginals", path, "--out", tmp_path / "a.PR")
    head, value = (tmp_path / "a.PR").read_text().split()
    assert head == "PR" and float(value) == pytest.approx(ms.log_partition(problem).upper / np.log(10))
    assert ".MAR" in maxsum("marginals", path, "--out", tmp_path / "a.txt", code=2).stderr


def test_marginals_and_samples(maxsum, chain):
    path, problem = chain
    found = maxsum("marginals", path, json_=True)
    assert found["exact"] and [len(row) for row in found["marginals"]] == [2, 2, 3]
    assert found["log_partition"]["upper"] == pytest.approx(ms.log_partition(problem).upper)
    sampled = maxsum("marginals", path, "--method", "gibbs", "--random-state", 0, json_=True)
    assert not sampled["exact"] and np.abs(np.array(sampled["marginals"][0]) - found["marginals"][0]).max() < 0.2
    assert "log Z" in maxsum("marginals", path).stdout
    drawn = maxsum("sample", path, "-n", 10, "--random-state", 3, json_=True)
    assert drawn["exact"] and drawn["labels"] == ms.sample(problem, 10, random_state=3).labels.tolist()
    assert "independent exact samples" in " ".join(maxsum("sample", path).stdout.split())


def test_what_has_no_labelling_is_infeasible(maxsum, impossible):
    for command in (("marginals",), ("sample",)):
        assert "no labelling" in maxsum(*command, impossible, code=3).stderr
    assert maxsum("solve", impossible, "--k", 2, code=3, json_=True)["scores"] == []


def test_the_k_best_of_a_file_of_costs_are_costs(maxsum, tmp_path):
    path = tmp_path / "two.wcsp"
    path.write_text("two 2 2 1 100\n2 2\n2 0 1 7 2\n0 0 5\n1 1 0\n", encoding="utf-8")
    found = maxsum("solve", path, "--k", 2, json_=True)
    assert found["costs"] == [0.0, 5.0] and found["labels"] == [[1, 1], [0, 0]]
    assert 5.0 < found["cost_bound"] <= 7.0
    shown = maxsum("solve", path, "--k", 2).stdout
    assert "5  0 0" in shown and "cost at least 7" in shown
