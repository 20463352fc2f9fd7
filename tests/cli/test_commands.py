"""Each command on small files: what it prints, valid JSON, and the exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from typer.testing import CliRunner

import maxsum as ms
from maxsum.cli.app import app
from maxsum.core.result import TracePoint

TRIANGLE = [[0, 1], [1, 2], [0, 2]]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def read_json(result):
    assert len(result.stdout.strip().splitlines()) == 1
    return json.loads(result.stdout, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


@pytest.fixture
def chain(tmp_path):
    """File of a chain of three nodes with the optimum 5.2 at labels 1, 1, 0."""
    path = tmp_path / "chain.npz"
    ms.Problem(ms.Graph.chain(3), [[0, 1.2], [0, 0], [2, 0]], tables=[[0.5, 0], [1, 1]]).save(path)
    return path


@pytest.fixture
def impossible(tmp_path):
    """File of a triangle that two colours cannot colour."""
    path = tmp_path / "triangle.npz"
    differ = np.array([[-np.inf, 0], [0, -np.inf]])
    ms.Problem(ms.Graph.from_edges(TRIANGLE), np.zeros((3, 2)), tables=differ).save(path)
    return path


def test_version_and_help():
    assert run("--version").stdout == f"maxsum {ms.__version__}\n"
    for command in ((), ("solve",), ("verify",), ("info",), ("demo",)):
        shown = " ".join(run(*command, "--help").stdout.replace("│", " ").split())
        assert "Exit codes: 0 done; 1 a claim" in shown


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom maxsum.cli import main\nsys.argv = ['maxsum', '--help']\n"
        "try:\n    main()\nexcept SystemExit as leave:\n    assert not leave.code\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'numba', 'scipy', 'highspy', 'PIL'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")


# ---- solve -----------------------------------------------------------------------------------------------------


def test_solve_prints_what_is_proven(chain):
    result = run("solve", chain)
    assert result.exit_code == 0
    for word in ("3 nodes, 2 edges, 2 labels", "TreeDP", "5.2", "optimal", "converged"):
        assert word in result.stdout
    assert "cost" not in result.stdout
    assert result.stderr == ""


def test_solve_json(chain):
    content = read_json(run("solve", chain, "--json", "--solver", "treedp"))
    assert content["labels"] == [1, 1, 0]
    assert content["score"] == pytest.approx(5.2)
    assert content["gap"] <= 1e-9 * abs(content["score"])
    assert (content["solver"], content["guarantee"], content["termination"]) == ("TreeDP", "optimal", "converged")
    assert content["problem"] == {"n_nodes": 3, "n_edges": 2, "n_labels": 2, "n_tables": 1, "n_cliques": 0, "n_factors": 0}


def test_solve_shows_costs_of_files_of_costs(tmp_path):
    path = tmp_path / "p.uai"
    ms.Problem.from_costs(ms.Graph.chain(2), [[3, 1], [0, 5]], tables=np.zeros((2, 2))).save(path, values="costs")
    shown = run("solve", path, "--values", "costs").stdout.split()
    assert shown[shown.index("cost") + 1] == "1"
    assert shown[shown.index("bound") - 1 : shown.index("bound") + 2] == ["lower", "bound", "1"]
    assert "score" not in shown
    content = read_json(run("solve", path, "--values", "costs", "--json"))
    assert (content["cost"], content["cost_bound"], content["score"]) == (1, 1, -1)
    assert "cost" not in read_json(run("solve", path, "--values", "scores", "--json"))
    assert "costs, minimised" in " ".join(run("info", path, "--values", "costs").stdout.split())
    assert read_json(run("info", path, "--json"))["costs"] is False


def test_evidence_on_the_command_line(tmp_path):
    path = tmp_path / "p.uai"
    ms.Problem(ms.Graph.chain(2), [[3, 1], [0, 5]], np.zeros((2, 2))).save(path, values="scores")
    options = ("--values", "scores", "--json")
    assert read_json(run("solve", path, *options))["labels"] == [0, 1]
    (tmp_path / "p.uai.evid").write_text("1 0 1\n")
    assert read_json(run("solve", path, *options))["labels"] == [0, 1]
    assert read_json(run("solve", path, *options, "--evidence", "auto"))["labels"] == [1, 1]
    other = tmp_path / "other.evid"
    other.write_text("1 1 0\n")
    assert read_json(run("solve", path, *options, "--evidence", other))["labels"] == [0, 0]
    assert read_json(run("info", path, *options, "--evidence", other))["structure"]["hard"]
    assert run("solve", path, "--evidence", tmp_path / "absent.evid").exit_code == 2


def test_infeasible_problems_exit_with_3(impossible, tmp_path):
    result = run("solve", impossible, "--json", "--out", tmp_path / "a.npz")
    content = read_json(result)
    assert result.exit_code == 3
    assert (content["labels"], content["score"], content["bound"]) == (None, "-inf", "-inf")
    assert content["guarantee"] == "infeasible"
    checked = run("verify", impossible, tmp_path / "a.npz")
    assert checked.exit_code == 0
    assert "no labelling satisfies the hard constraints" in checked.stdout


def test_a_file_with_a_node_without_labels_is_infeasible(tmp_path):
    path = tmp_path / "p.uai"
    path.write_text("MARKOV\n1\n2\n1\n1 0\n2\n0 0\n")
    result = run("solve", path)
    assert result.exit_code == 3
    assert "infeasible" in result.stderr


def test_a_gap_ends_a_run(tmp_path):
    path = tmp_path / "p.npz"
    unary = np.random.default_rng(0).normal(size=(900, 4))
    ms.Problem(ms.Graph.grid(30, 30), unary, tables=0.5 * np.eye(4)).save(path)
    loose, tight = (read_json(run("solve", path, "--gap", gap, "--json")) for gap in ("0.05", "0.001"))
    assert 0.001 < loose["gap"] / loose["bound"] <= 0.05 and tight["gap"] / tight["bound"] <= 0.001
    assert loose["n_iter"] < tight["n_iter"]


def test_no_labelling_within_the_time_exits_with_4(tmp_path):
    path = tmp_path / "p.npz"
    differ = np.where(np.eye(5, dtype=bool), -np.inf, 0.0)
    unary = np.random.default_rng(0).normal(size=(40, 5))
    ms.Problem(ms.Graph.complete(40), unary, tables=differ).save(path)
    result = run("solve", path, "--solver", "BranchAndBound", "--time-limit", "0", "--json")
    content = read_json(result)
    assert result.exit_code == (3 if content["guarantee"] == "infeasible" else 4)
    assert content["labels"] is None


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["{missing}"], "No such file"),
        (["{garbage}"], "garbage"),
        (["{unknown}"], "suffix"),
        (["{chain}", "--solver", "Oracle"], "no solver 'Oracle'; wanted one of TreeDP"),
        (["{chain}", "--format", "xml"], "xml"),
        (["{chain}", "--out", "{folder}"], "folder"),
        (["{chain}", "--out", "{nowhere}"], "No such file"),
        (["{triangle}", "--solver", "TreeDP"], "needs a forest"),
    ],
)
def test_bad_input_is_one_line_and_2(chain, tmp_path, arguments, fault):
    (tmp_path / "garbage.npz").write_bytes(b"garbage")
    (tmp_path / "p.xyz").write_text("1")
    ms.Problem(ms.Graph.from_edges(TRIANGLE), np.zeros((3, 2)), tables=np.eye(2)).save(tmp_path / "t.npz")
    names = dict(
        missing=tmp_path / "missing.npz",
        garbage=tmp_path / "garbage.npz",
        unknown=tmp_path / "p.xyz",
        chain=chain,
        folder=tmp_path,
        nowhere=tmp_path / "no" / "where.npz",
        triangle=tmp_path / "t.npz",
    )
    result = run("solve", *(argument.format(**names) for argument in arguments))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 and result.stderr.startswith("maxsum: ")
    assert fault in result.stderr


@pytest.mark.parametrize(
    "arguments", [["solve"], ["solve", "x.npz", "--time-limit", "-1"], ["nonsense"], ["demo", "--labels", "1"]]
)
def test_bad_usage_is_2(arguments):
    assert run(*arguments).exit_code == 2


def test_progress_is_quiet_off_a_terminal_and_loud_on_demand(chain):
    assert run("solve", chain).stderr == ""
    assert run("solve", chain, "--progress").stderr != ""


def test_progress_line():
    from maxsum.progress import line

    point = TracePoint(7, 1.5, 3.25, 4.0)
    assert line(point, None) == "iteration 7   score 3.25   bound 4   gap 0.75   1.5 s"
    assert line(point, 10).endswith("8.5 s left")
    assert line(point, 1).endswith("0.0 s left")


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_interrupt_gives_the_best_so_far(tmp_path):
    random = np.random.default_rng(0)
    path = tmp_path / "p.npz"
    graph = ms.Graph.complete(60)
    ms.Problem(graph, random.normal(size=(60, 6)), tables=random.normal(size=(graph.n_edges, 6, 6))).save(path)
    script = (
        "import signal, sys\nsignal.signal(signal.SIGINT, signal.default_int_handler)\nfrom maxsum.cli import app\nfrom maxsum.progress import Progress\n"
        "def call(self, point):\n    if point.iteration >= 2:\n        sys.stderr.write('ready\\n'); sys.stderr.flush()\n"
        "Progress.__call__ = call\n"
        f"app.app(['solve', {str(path)!r}, '--json', '--time-limit', '100'])"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None and process.stderr.readline() == "ready\n"
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=60)
        assert time.monotonic() - started < 20
    finally:
        process.kill()
    content = json.loads(stdout)
    assert process.returncode == 0
    assert content["termination"] == "interrupted"
    assert len(content["labels"]) == 60


# ---- verify ----------------------------------------------------------------------------------------------------


@pytest.fixture
def answer(chain, tmp_path):
    path = tmp_path / "answer.npz"
    assert run("solve", chain, "--out", path).exit_code == 0
    return path


def tamper(path, **changes):
    with np.load(path) as archive:
        content = dict(archive)
    for name, change in changes.items():
        content[name] = change(content[name])
    np.savez(path, **content)


def test_verify_accepts_an_honest_answer(chain, answer):
    result = run("verify", chain, answer)
    assert result.exit_code == 0
    assert "The claims hold" in result.stdout and "the labelling is optimal" in result.stdout
    content = read_json(run("verify", chain, answer, "--json"))
    assert content["holds"] is True and content["fault"] is None
    assert content["proven"]["optimal"] is True
    assert content["proven"]["bound"] == pytest.approx(5.2)


@pytest.mark.parametrize(
    "changes",
    [
        dict(labels=lambda y: 1 - y),
        dict(bound=lambda b: b - 0.5),
        dict(bound=lambda b: b * -np.inf),
        dict(score=lambda s: s + 0.5),
        dict(edge=lambda m: m + np.arange(m.size).reshape(m.shape)),
    ],
    ids=["labels", "bound", "infeasible", "score", "messages"],
)
def test_verify_catches_a_tampered_answer(chain, answer, changes):
    tamper(answer, **changes)
    result = run("verify", chain, answer)
    assert result.exit_code == 1
    assert "A claim does not hold" in result.stdout
    content = read_json(run("verify", chain, answer, "--json"))
    assert content["holds"] is False and content["proven"] is None and content["fault"]


def test_verify_refuses_other_files(chain, answer, impossible, tmp_path):
    assert run("verify", chain, tmp_path / "none.npz").exit_code == 2
    assert run("verify", chain, chain).exit_code == 2
    other = run("verify", impossible, answer)
    assert other.exit_code == 2
    assert "belong to this problem" in other.stderr


@pytest.mark.parametrize(
    "solver", ["TreeDP", "JunctionTree", "MaxFlow", "BranchAndBound", "LinearProgram", "TRWS", "Exhaustive", "ICM"]
)
def test_the_answer_of_every_solver_is_verified(chain, tmp_path, solver):
    if solver not in ms.inference.registry.SOLVERS:
        pytest.skip(f"{solver} is not registered")
    out = tmp_path / "a.npz"
    assert run("solve", chain, "--solver", solver, "--out", out).exit_code == 0
    content = read_json(run("verify", chain, out, "--json"))
    assert content["holds"] is True
    assert content["proven"]["score"] == pytest.approx(5.2)
    assert content["proven"]["optimal"] is (solver != "ICM")
    if solver != "ICM":
        tamper(out, bound=lambda b: b - 0.5)
        assert run("verify", chain, out).exit_code == 1


# ---- info and demo ---------------------------------------------------------------------------------------------


def test_info(chain, impossible):
    shown = " ".join(run("info", chain).stdout.split())
    assert "3 in 1 component" in shown and "forest yes" in shown and "TreeDP yes" in shown
    content = read_json(run("info", impossible, "--json"))
    assert content["structure"]["forest"] is False
    assert content["structure"]["witness"]["value"] == "-inf"
    assert content["solvers"]["TreeDP"]["ok"] is False
    assert "forest" in content["solvers"]["TreeDP"]["reason"]


def test_demo(tmp_path):
    from PIL import Image

    out = tmp_path / "picture.png"
    content = read_json(run("demo", "--size", 24, "--labels", 3, "--out", out, "--json"))
    assert content["accuracy"] > content["pixelwise_accuracy"] + 0.1
    assert content["verified"]["bound"] >= content["score"] and content["verified"]["optimal"]
    learning = content["learning"]
    assert learning["relative_gap"] <= 0.02 and learning["termination"] == "converged" and learning["n_examples"] == 6
    assert learning["verified"]["objective"] == pytest.approx(learning["objective"], rel=2e-5)
    assert learning["verified"]["lower_bound"] == pytest.approx(learning["lower_bound"], rel=1e-9)
    with Image.open(out) as picture:
        assert picture.format == "PNG" and picture.width > 3 * picture.height
    assert [path.name for path in tmp_path.iterdir()] == ["picture.png"]
    result = run("demo", "--size", 24, "--labels", 2, "--seed", 1, "--out", out)
    assert result.exit_code == 0 and result.stderr == ""
    assert "pixel by pixel" in result.stdout and result.stdout.count("checked:") == 2
    assert "Weights, learned from noisy images" in result.stdout


def test_demo_without_time(tmp_path):
    content = read_json(run("demo", "--size", 8, "--labels", 2, "--time-limit", 0, "--out", tmp_path / "p.png", "--json"))
    assert content["learning"]["termination"] == "time_limit" and content["learning"]["verified"]["objective"] > 0


def test_demo_is_the_same_for_the_same_seed():
    from maxsum.cli.demo import noisy_image

    one, same, other = noisy_image(16, 3, 1), noisy_image(16, 3, 1), noisy_image(16, 3, 2)
    np.testing.assert_array_equal(one.pixels, same.pixels)
    assert (one.truth != other.truth).any()
    assert set(np.unique(noisy_image(64, 4, 0).truth)) == {0, 1, 2, 3}


def test_progress_line_of_a_training():
    from maxsum.learning.result import LearningPoint
    from maxsum.progress import learning_line

    point = LearningPoint(3, 1.5, 4.0, 3.0, 12)
    assert learning_line(point, None) == "pass 3  objective 4  bound 3  gap 25 %  12 calls  1.5 s"
    assert learning_line(point, 2.0).endswith("0.5 s left")
