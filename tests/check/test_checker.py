"""The checker of one file: it accepts what is true and proven, refuses every lie, and agrees with `verify`."""

from __future__ import annotations

import ast
import itertools
import math
import subprocess
import sys
import tempfile
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from reference.seeds import seeds, share
from typer.testing import CliRunner

import maxsum as ms
from check.judging import answer_faults, verdict
from check.tampering import best_score, seal, small_problem, tampered_answers, tampered_models
from maxsum import check
from maxsum.cli.app import app
from maxsum.core.certificates import scale
from maxsum.core.certificates.answers import save_answer
from maxsum.storage import save_training
from maxsum.storage.format import FILE

ROOT = Path(__file__).parents[2]
N_ANSWERS, N_MODELS = len(seeds(600)), max(90, len(seeds(200)))


def code_of(*paths) -> int:
    """The exit code, in this process."""
    return check.main([str(path) for path in paths])


def test_it_imports_nothing_of_ours_and_is_one_file():
    source = (ROOT / "src/maxsum/check.py").read_text(encoding="utf-8")
    names = {
        alias.name.split(".")[0] for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names
    }
    names |= {(node.module or "").split(".")[0] for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    assert names <= {"numpy"} | set(sys.stdlib_module_names)
    assert not any(node.level for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom))
    assert (ROOT / "tools/check_maxsum.py").resolve() == ROOT / "src/maxsum/check.py"


@pytest.mark.parametrize("call", [["tools/check_maxsum.py"], ["-m", "maxsum.check"]], ids=["file", "module"])
def test_exit_codes_of_the_command(call, tmp_path):
    problem = ms.Problem(ms.Graph.grid(3, 3), np.random.default_rng(0).normal(size=(9, 2)), tables=np.eye(2))
    problem.save(tmp_path / "p.npz")
    save_answer(tmp_path / "a.npz", ms.solve(problem))

    def run(*paths):
        return subprocess.run([sys.executable, *call, *map(str, paths)], capture_output=True, text=True, cwd=ROOT)

    done = run(tmp_path / "p.npz", tmp_path / "a.npz")
    assert done.returncode == 0 and done.stdout.count("holds") == 3, done.stdout + done.stderr
    with np.load(tmp_path / "a.npz") as archive:
        members = {name: archive[name] for name in archive.files}
    np.savez(tmp_path / "b.npz", **{**members, "bound": members["bound"] - 1e-3})
    done = run(tmp_path / "p.npz", tmp_path / "b.npz")
    assert done.returncode == 1 and "DOES NOT HOLD" in done.stdout
    (tmp_path / "c.npz").write_bytes((tmp_path / "a.npz").read_bytes()[:-30])
    done = run(tmp_path / "p.npz", tmp_path / "c.npz")
    assert done.returncode == 2 and "cannot be checked" in done.stdout
    assert run(tmp_path / "p.npz").returncode == 2


def test_no_lie_of_an_answer_passes(tmp_path):
    count = Counter()
    for case in itertools.islice(tampered_answers(np.random.default_rng(0), tmp_path), N_ANSWERS):
        assert answer_faults(case) == []
        count[case.lie] += 1
    assert count[False] > share(20) and count[True] > share(20)


def test_no_lie_of_a_model_passes_the_checker(tmp_path):
    count = Counter()
    for case in itertools.islice(tampered_models(np.random.default_rng(0), tmp_path), N_MODELS):
        code, told = verdict(case)
        assert code in (0, 1, 2) and "did not expect" not in told
        assert case.lie is not False or code == 0, f"{case.what} was refused: {told[-400:]}"
        assert not (case.lie and code == 0), f"{case.what} is a lie and was accepted"
        count[case.lie] += 1
    assert count[False] > share(1) and count[True] > share(40)


def answer_with(path, **members) -> None:
    """An answer file of any content."""
    words = {name: np.frombuffer(own.encode(), dtype=np.uint8) for name, own in members.items() if isinstance(own, str)}
    np.savez(path, **{"solver": np.frombuffer(b"nobody", dtype=np.uint8), **members, **words})


def test_large_soft_terms_and_offsets_excuse_no_gap(tmp_path):
    graph = ms.Graph.grid(5, 5)
    problem = ms.Problem(graph, np.random.default_rng(1).normal(size=(25, 3)), tables=-1e14 * np.eye(3), offset=1e12)
    problem.save(tmp_path / "p.npz")
    labels = np.array([(i // 5 + i % 5) % 2 for i in range(25)], dtype=np.int32)
    score, zero = problem.score(labels), dict(edge=np.zeros((2, graph.n_edges, 3)), clique=np.zeros((0, 3)))
    bound = problem.bound()
    paths = tmp_path / "p.npz", tmp_path / "a.npz"
    assert bound > score + 1
    common = dict(answer=np.int64(2), form="messages", labels=labels, **zero)
    answer_with(paths[1], **common, score=score, bound=bound, guarantee="within_gap")
    assert code_of(*paths) == 0
    for change in (dict(guarantee="optimal"), dict(score=score + 0.01), dict(bound=bound - 0.01), dict(guarantee="infeasible")):
        answer_with(paths[1], **{**common, **dict(score=score, bound=bound, guarantee="within_gap"), **change})
        assert code_of(*paths) == 1, change


def test_whole_numbers_are_rounded_down(tmp_path):
    problem = ms.Problem(ms.Graph.chain(2), [[0.0, 1.0], [0.0, 0.0]], tables=np.array([[1.0, 0.0], [0.0, 1.0]]))
    problem.save(tmp_path / "p.npz")
    edge = np.zeros((2, 1, 2))
    edge[0, 0] = [0.5, 0.0]  # loosens the bound from 2 to 2.5
    common = dict(
        answer=np.int64(2), form="messages", labels=np.array([1, 1], dtype=np.int32), clique=np.zeros((0, 2)), score=2.0
    )
    answer_with(tmp_path / "a.npz", **common, edge=edge, bound=2.0, guarantee="optimal")
    assert code_of(tmp_path / "p.npz", tmp_path / "a.npz") == 0
    edge[0, 0] = [1.5, 0.0]  # to 3
    answer_with(tmp_path / "a.npz", **common, edge=edge, bound=3.0, guarantee="optimal")
    assert code_of(tmp_path / "p.npz", tmp_path / "a.npz") == 1


def test_the_variation_is_that_of_the_library():
    rng = np.random.default_rng(0)
    for n in range(40):
        problem = small_problem(rng) if n else ms.Problem(ms.Graph.grid(80, 80), rng.normal(size=(6400, 3)), tables=np.eye(3))
        labels = np.array([rng.integers(k) for k in problem.n_states], dtype=np.int32)
        if not np.isfinite(problem.score(labels)):
            continue
        assert as_checked(problem).variation(labels) == pytest.approx(scale.variation(problem, labels), rel=1e-12)


def as_checked(problem) -> check.Problem:
    with tempfile.TemporaryDirectory() as folder:
        problem.save(Path(folder) / "p.npz")
        return check.Problem(str(Path(folder) / "p.npz"))


def test_graphs_with_cycles_are_decided_by_the_messages_of_the_model(tmp_path, capsys):
    X, y = ms.datasets.make_noisy_blocks(3, 5, 5, 3, noise=0.8, random_state=0)
    net = ms.GridLabeler(C=1.0, potentials="supermodular").fit(X, y)
    paths = tmp_path / "m", tmp_path / "d"
    ms.save_model(net, paths[0], certificate=True)
    save_training(paths[1], net)
    assert code_of(*paths) == 0, capsys.readouterr().out
    header, arrays = FILE.load(paths[0])
    lowered = {**header["result"], "objective": 0.99 * header["result"]["objective"]}
    seal(paths[0], {**header, "result": {**lowered, "gap": 0.0, "relative_gap": 0.0, "guarantee": "optimal"}}, arrays)
    assert code_of(*paths) == 1
    seal(paths[0], {**header, "messages": None}, {name: array for name, array in arrays.items() if name != "messages"})
    assert code_of(*paths) == 2 and "cannot be checked" in capsys.readouterr().out


@pytest.mark.parametrize(
    "net", [ms.GridLabeler(surrogate="trivial"), ms.GridLabeler(surrogate="qp", potentials="convex"), ms.GridLabeler(surrogate="likelihood")]
)  # fmt: skip
def test_other_surrogates_are_named_and_left_to_verify(net, tmp_path, capsys):
    X, y = ms.datasets.make_noisy_blocks(2, 4, 4, 2, noise=0.5, random_state=0)
    net.fit(X, y)
    ms.save_model(net, tmp_path / "m", certificate=True)
    with pytest.raises(ms.ModelFileError, match="maxsum verify MODEL DATA"):
        save_training(tmp_path / "d", net)
    other = ms.GridLabeler().fit(X, y)
    save_training(tmp_path / "d", other)
    assert code_of(tmp_path / "m", tmp_path / "d") == 2
    assert "maxsum verify" in capsys.readouterr().out


def test_another_file_of_data_is_seen(tmp_path, capsys):
    X, y = ms.datasets.make_noisy_blocks(3, 3, 1, 2, noise=0.5, random_state=0)
    net = ms.GridLabeler().fit(X, y)
    ms.save_model(net, tmp_path / "m", certificate=True)
    save_training(tmp_path / "d", net)
    assert code_of(tmp_path / "m", tmp_path / "d") == 0
    with np.load(tmp_path / "d") as archive:
        members = {name: archive[name] for name in archive.files}
    members["loss"] = members["loss"] * 0.5
    np.savez((tmp_path / "d").open("wb"), **members)
    capsys.readouterr()
    assert code_of(tmp_path / "m", tmp_path / "d") == 1
    line = capsys.readouterr().out.splitlines()[0]
    assert line.startswith("data") and line.endswith("DOES NOT HOLD")


def test_the_command_line_writes_what_the_checker_needs(tmp_path):
    lines = "\n\n".join("\n".join(f"{w} {t}" for w, t in zip(["the", "dog", "barks"], "DNV", strict=True)) for _ in range(4))
    (tmp_path / "train.conll").write_text(lines + "\n")
    told = [str(tmp_path / name) for name in ("train.conll", "m", "d.npz")]
    done = CliRunner().invoke(app, ["fit", told[0], "--out", told[1], "--proof", "--save-data", told[2]])
    assert done.exit_code == 0, done.output
    assert code_of(*told[1:]) == 0
    assert CliRunner().invoke(app, ["fit", told[0], "--out", told[1], "--save-data", told[2]]).exit_code == 2


def random_search(rng, problem) -> dict[str, np.ndarray]:
    """A branching tree of any boxes, messages, passes and efforts: valid or not, what it proves must be true."""
    n_boxes, size = int(rng.integers(1, 6)), problem.n_labels
    n_places = (2 * problem.n_edges + problem.cliques.n_members) * size
    parent = np.array([0] + [int(rng.integers(i)) for i in range(1, n_boxes)])
    node, label = rng.integers(problem.n_nodes, size=n_boxes), rng.integers(size, size=n_boxes)
    relation = rng.integers(4, size=n_boxes)
    if n_boxes > 2 and rng.random() < 0.7:  # a split into a label and the others
        parent[1:3], node[2], label[2], relation[1:3] = 0, node[1], label[1], [0, 1]
    n_entries = int(rng.integers(0, n_places + 1)) if n_places else 0
    boxes = dict(parent=parent, node=node, label=label, relation=relation, message_set=rng.integers(-1, 1, size=n_boxes))
    return {
        **{name: own.astype(np.int32) for name, own in boxes.items()},
        "ptr": np.array([0, n_entries]),
        "index": rng.choice(max(n_places, 1), size=n_entries, replace=False),
        "value": rng.normal(size=n_entries),
        "passes": rng.integers(0, 4, size=n_boxes).astype(np.uint8),
        "effort": rng.choice([0, 1, 3, 12], size=n_boxes).astype(np.uint8),
        "level": np.float64(rng.choice([0.0, 0.0, 0.5])),
    }


def test_no_search_proves_what_is_false():
    rng, tight = np.random.default_rng(0), 0
    for _ in seeds(80):
        problem = small_problem(rng)
        labels = np.array([rng.integers(k) for k in problem.n_states], dtype=np.int32)
        if rng.random() < 0.6 and (found := ms.solve(problem)).labels is not None:
            labels = found.labels
        best, own, tree = best_score(problem), as_checked(problem), random_search(rng, problem)
        score = own.total(own.values(labels))
        known = labels if np.isfinite(float(score)) else None
        tolerance = Fraction(0) if known is None else Fraction(1e-9) * Fraction(own.variation(labels))
        bound = check.by_search(own, tree, score, tolerance, float(rng.choice([-np.inf, np.inf, float(best)])))
        assert bound >= best, tree
        tight += bound == best
    assert tight > share(20)


def test_enumeration_leaves_out_no_better_labelling():
    rng, used = np.random.default_rng(0), 0
    for _ in seeds(150):
        problem = small_problem(rng)
        own, labels = as_checked(problem), np.array([rng.integers(k) for k in problem.n_states], dtype=np.int32)
        base, messages = own.total(own.values(labels)), rng.normal(size=(len(own.ends), own.size))
        found = own.tops(messages, own.arc_consistent(own.allowed))
        if own.cliques or found is None or not isinstance(base, Fraction):
            continue
        above = math.ceil((own.total(found) - base) * check.ONE)
        left = check.enumerated(own, messages, own.arc_consistent(own.allowed), base, above, 0, 1 << 20) if above > 0 else [0]
        assert base + Fraction(max([0, *left]), check.ONE) >= best_score(problem)
        used += above > max([0, *left])
    assert used > share(40)


def test_bytes_that_make_no_sense_end_in_code_2(tmp_path):
    problem = small_problem(np.random.default_rng(3))
    problem.save(tmp_path / "p.npz")
    save_answer(tmp_path / "a.npz", ms.solve(problem))
    whole, rng = (tmp_path / "a.npz").read_bytes(), np.random.default_rng(0)
    for _ in seeds(100):
        broken = bytearray(whole)
        for place in rng.integers(len(whole), size=3):
            broken[place] = int(rng.integers(256))
        (tmp_path / "b.npz").write_bytes(bytes(broken))
        assert code_of(tmp_path / "p.npz", tmp_path / "b.npz") in (0, 1, 2)
    for content in (b"", b"maxsum model\0", b"maxsum model\0" + bytes(60)):
        (tmp_path / "m").write_bytes(content)
        assert code_of(tmp_path / "m", tmp_path / "a.npz") == 2


def test_a_proof_of_infeasibility_is_read_to_its_end(tmp_path):
    """The first bag proves it; what follows must still be sound, as `verify` demands."""
    problem = ms.Problem(ms.Graph.chain(3), np.zeros((3, 2)), np.array([np.full((2, 2), -np.inf), np.zeros((2, 2))]))
    result = ms.inference.JunctionTree().solve(problem)
    assert str(result.guarantee) == "infeasible"
    problem.save(tmp_path / "p.npz")
    save_answer(tmp_path / "a.npz", result)
    arrays = dict(np.load(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", **{**arrays, "tables": np.append(arrays["tables"], 0.0)})
    assert check.main([str(tmp_path / "p.npz"), str(tmp_path / "a.npz")]) == 0
    assert check.main([str(tmp_path / "p.npz"), str(tmp_path / "b.npz")]) == 2
