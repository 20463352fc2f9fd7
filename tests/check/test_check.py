"""The checker of one file: it accepts what is true and proven, refuses every lie, and agrees with `verify`."""

from __future__ import annotations

import ast
import itertools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from tampering import tampered_answers, tampered_models

import maxsum as ms
from maxsum import check
from maxsum.core.answers import read_answer, save_answer
from maxsum.storage import verify_model

ROOT = Path(__file__).parents[2]
N_ANSWERS, N_MODELS = 600, 400


def verdict(paths) -> int:
    """The exit code, in this process."""
    return check.main([str(path) for path in paths])


def accepted(call) -> bool:
    """Whether `verify` accepts; which error it raises otherwise is the subject of other tests."""
    try:
        call()
    except Exception:
        return False
    return True


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


def test_no_lie_of_an_answer_passes(tmp_path, capsys):
    count, strange = Counter(), []
    for case in itertools.islice(tampered_answers(np.random.default_rng(0), tmp_path), N_ANSWERS):
        found = verdict(case.paths)
        problem = ms.read_problem(case.paths[0])
        ours = accepted(lambda: read_answer(case.paths[1], problem).verify(problem))  # noqa: B023
        count[case.lie, found, ours] += 1
        assert found in (0, 1, 2)
        assert case.lie is not False or found == 0, f"{case.what} was refused: {capsys.readouterr().out[-400:]}"
        assert not (case.lie and found == 0), f"{case.what} is a lie and was accepted"
        if (found == 0) != ours:
            strange.append((case.what, case.lie, found, ours))
    print(count, strange)
    assert count[False, 0, True] > 40 and sum(n for (lie, _, _), n in count.items() if lie) > 40


def test_no_lie_of_a_model_passes(tmp_path, capsys):
    count, strange = Counter(), []
    for case, trained in itertools.islice(tampered_models(np.random.default_rng(0), tmp_path), N_MODELS):
        found = verdict(case.paths)
        ours = accepted(lambda: verify_model(case.paths[0], trained.X, trained.y))  # noqa: B023
        count[case.lie, found, ours] += 1
        assert found in (0, 1, 2)
        assert case.lie is not False or found == 0, f"{case.what} was refused: {capsys.readouterr().out[-400:]}"
        assert not (case.lie and found == 0), f"{case.what} is a lie and was accepted"
        if (found == 0) != ours:
            strange.append((case.what, case.lie, found, ours))
    print(count, strange)
    assert count[False, 0, True] > 4 and sum(n for (lie, _, _), n in count.items() if lie) > 40
