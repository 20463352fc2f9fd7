"""Evidence and results of the UAI competitions: both layouts of each, what is refused, and the networks of 2014."""

from __future__ import annotations

import gzip
import math
import os
from pathlib import Path

import numpy as np
import pytest
from factories.problems import random_case
from files.file_samples import MANY_UAI, outcome
from reference.enumeration import every_labelling
from reference.seeds import THOROUGH

import maxsum as ms
from maxsum.core.files import read_evidence, read_problem, read_uai_solution

DATA = Path(os.environ.get("MAXSUM_DATA") or Path(__file__).parents[3] / "shared" / "data") / "uai2014"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="no folder uai2014: set MAXSUM_DATA to the shared data")


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0", {}),
        ("0\n", {}),
        ("2 0 1 5 1", {0: 1, 5: 1}),
        ("1\n2 0 1 5 1\n", {0: 1, 5: 1}),
        ("1 3 0", {3: 0}),
        ("1\n1\n3 0", {3: 0}),
        ("1\n0\n", {}),
        ("2 0 1 0 1", {0: 1}),
    ],
)
def test_both_layouts_of_evidence(tmp_path, text, wanted):
    assert read_evidence(write(tmp_path / "p.evid", text)) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: the file ends"),
        ("2\n1 0 1\n1 5 1", "holds 2 sets of evidence"),
        ("3 1 0 1 1 1 1 2 0 1 1 1", "holds 3 sets of evidence"),
        ("2 0 1", "2 variables are observed, which takes 4 numbers, but 2 follow"),
        ("1 0 1 7", "1 variables are observed"),
        ("2 0 1 0 0", "variable 0 is observed twice, with the values 1 and 0"),
        ("1 0 x", '"x" stands where'),
        ("1 0 -1", '"-1" stands where'),
        ("-1", '"-1", wanted 0'),
        ("1 0 1.0", '"1.0" stands where'),
    ],
)
def test_fault_61_of_evidence_is_named(tmp_path, text, message):
    with pytest.raises(ms.ParseError, match=message):
        read_evidence(write(tmp_path / "p.evid", text))


def test_evidence_forbids_all_other_labels(tmp_path):
    plain = outcome(tmp_path / "p.uai", MANY_UAI)
    problem = read_problem(tmp_path / "p.uai", evidence={1: 2, 0: 0})
    for y in every_labelling(plain):
        assert problem.score(y) == (plain.score(y) if (y[0], y[1]) == (0, 2) else -math.inf)
    assert problem.n_nodes == plain.n_nodes
    assert len(problem.factors) == 1


@pytest.mark.parametrize("suffix", [".npz", ".wcsp", ".cfn", ".uai"])
def test_evidence_for_every_format(tmp_path, suffix):
    graph = ms.Graph.chain(2)
    path = tmp_path / f"p{suffix}"
    ms.Problem(graph, [[-3.0, -1], [0, -5]], np.zeros((2, 2))).save(path)
    problem = read_problem(path, evidence={0: 0})
    assert problem.score([0, 0]) == pytest.approx(-3)
    assert problem.score([1, 0]) == -math.inf


def test_evidence_beside_the_file(tmp_path):
    path = tmp_path / "p.uai"
    free = outcome(path, MANY_UAI).score([1, 0, 0])
    for name in ("p.uai.evid", "p.evid"):
        evidence = write(tmp_path / name, "1 0 0")
        assert read_problem(path, evidence="auto").score([1, 0, 0]) == -math.inf
        assert read_problem(path).score([1, 0, 0]) == free
        evidence.unlink()
    assert read_problem(path, evidence="auto").score([1, 0, 0]) == free
    (tmp_path / "p.uai.evid.gz").write_bytes(gzip.compress(b"1 0 0"))
    packed = tmp_path / "p.uai.gz"
    packed.write_bytes(gzip.compress(MANY_UAI.encode()))
    assert read_problem(packed, evidence="auto").score([1, 0, 0]) == -math.inf
    write(tmp_path / "p.evid", "0")
    with pytest.raises(ms.ParseError, match=r"two files of evidence lie beside it, p\.uai\.evid\.gz and p\.evid"):
        read_problem(path, evidence="auto")
    with pytest.raises(FileNotFoundError):
        read_problem(path, evidence=tmp_path / "absent.evid")


def test_fault_61_evidence_that_does_not_fit_is_refused(tmp_path):
    path = tmp_path / "p.uai"
    outcome(path, MANY_UAI)
    for evidence, message in (
        ({3: 0}, "variable 3 is observed, but there are 3"),
        ({1: 3}, r"values 0\.\.2"),
        ({-1: 0}, "variable -1"),
    ):
        with pytest.raises(ms.ParseError, match=message):
            read_problem(path, evidence=evidence)
    with pytest.raises(ms.InvalidParameterError, match="wanted whole numbers"):
        read_problem(path, evidence={0: "a"})
    ms.Problem(ms.Graph.chain(1), [[0.0, -math.inf]]).save(tmp_path / "q.npz")
    with pytest.raises(ms.ParseError, match="which the problem forbids") as caught:
        read_problem(tmp_path / "q.npz", evidence={0: 1})
    assert isinstance(caught.value.__cause__, ms.core.errors.InfeasibleError)


# ---- results -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("MAP\n3 0 2 1", [0, 2, 1]),
        ("MPE\n1\n3 0 2 1\n", [0, 2, 1]),
        ("MAP 1 0", [0]),
        ("MPE\n-BEGIN-\n1\n2 0 0\n-BEGIN-\n1\n2 1 1\n", [1, 1]),
    ],
)
def test_labellings(tmp_path, text, labels):
    found = read_uai_solution(write(tmp_path / "p.MAP", text))
    assert found.labels.tolist() == labels
    assert found.marginals is None


@pytest.mark.parametrize("text", ["MAR\n2 2 0.25 0.75 3 0 0.5 0.5", "MAR\n1\n2 2 0.25 0.75 3 0 0.5 0.5\n"])
def test_marginals(tmp_path, text):
    found = read_uai_solution(write(tmp_path / "p.MAR", text)).marginals
    assert [one.tolist() for one in found] == [[0.25, 0.75], [0, 0.5, 0.5]]


@pytest.mark.parametrize("text", ["PR\n-12.5", "PR\n1\n-12.5"])
def test_partition_functions(tmp_path, text):
    assert read_uai_solution(write(tmp_path / "p.PR", text)).log10_z == -12.5


@pytest.mark.parametrize(
    "text",
    ["", "MAX 1 0", "MAP", "MAP 3 0 1", "MAP 2 0 1.5", "MAP 2 0 -1", "MAR 1 2 0.5", "MAR 1 2 0.9 0.9", "MAR 1 2 1.5 -0.5", "PR", "PR 1 2 3", "PR nan",
     "MAP x", "MAP 1_0 1", "MAR 2 0", "MAP 2\n1 0\n1 1", "MAR 99999999 2 0.5 0.5"],
)  # fmt: skip
def test_fault_61_of_a_result_is_named(tmp_path, text):
    with pytest.raises(ms.ParseError):
        read_uai_solution(write(tmp_path / "p.MAP", text))


# ---- 2014 --------------------------------------------------------------------------------------------------------------


@needs_data
@pytest.mark.parametrize("task", ["MAP", "PR", "MAR"])
def test_networks_of_2014(task):
    """Read with evidence; reference labellings are possible, marginals have the shapes of the nodes and respect the evidence."""
    files = sorted((DATA / task).glob("*.uai.xz"))
    assert len(files) > 50
    files = files[:: 1 if THOROUGH else 4]
    observed = 0
    for path in files:
        problem = read_problem(path, evidence="auto")
        evidence = read_evidence(path.with_name(path.name.replace(".uai.xz", ".uai.evid.xz")))
        observed += len(evidence)
        found = read_uai_solution(path.with_name(path.name.replace(".uai.xz", f".uai.{task}.xz")))
        assert found.kind == task
        if task == "MAP":
            assert math.isfinite(problem.score(found.labels)), path.name
        elif task == "MAR":
            assert [len(one) for one in found.marginals] == problem.n_states.tolist()
            assert all(found.marginals[v][k] > 0.99 for v, k in evidence.items()), path.name
        else:
            assert math.isfinite(found.log10_z)
    assert observed > (100 if THOROUGH else 15)


@needs_data
def test_factors_of_a_network_share_their_tables():
    problem = read_problem(DATA / "MAP" / "Promedas_11.uai.xz")
    shapes = {tuple(problem.n_states[nodes].tolist()) for nodes, _ in problem.factors.items()}
    assert len(shapes) <= len(problem.factors.functions) < len(problem.factors)


def test_evidence_keeps_a_problem_with_everything(tmp_path):
    problem, _ = random_case(4, unequal=True, hard=0.15, weights=(0.5, 2.0), cliques=(3, 2))
    problem.save(tmp_path / "p.npz")
    v = int(np.argmax(problem.n_states))
    k = int(np.argmax(problem.unary[v]))
    seen = read_problem(tmp_path / "p.npz", evidence={v: k})
    for y in every_labelling(problem):
        assert seen.score(y) == (problem.score(y) if y[v] == k else -math.inf)
