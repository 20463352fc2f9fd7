"""The package as a whole: version, names, cheap import, and a README whose code runs."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import maxsum

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_version_is_the_installed_one():
    assert maxsum.__version__ == version("maxsum")
    assert f"## {maxsum.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {maxsum.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", maxsum.__all__)
def test_public_names_resolve(name):
    assert getattr(maxsum, name) is not None
    assert name in dir(maxsum)


def test_unknown_names_do_not():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        maxsum.nonsense  # noqa: B018


def test_import_stays_cheap():
    code = "import sys, maxsum; print(sorted({m.split('.')[0] for m in sys.modules} & {%s}))"
    heavy = ", ".join(repr(m) for m in ("numba", "scipy", "rich", "typer", "highspy", "PIL", "sklearn", "networkx"))
    run = subprocess.run([sys.executable, "-c", code % heavy], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_first_two_blocks_are_the_main_job_and_the_tests():
    assert [block for _, block in BLOCKS[:2]] == [
        "python3 -m venv .venv && .venv/bin/pip install -c constraints.txt . && .venv/bin/maxsum demo\n",
        'python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e ".[test]" && .venv/bin/python -m pytest\n',
    ]


def test_python_blocks_of_the_readme_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = [block for language, block in BLOCKS if language == "python"]
    assert len(blocks) >= 3
    names: dict = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"README.md, python block {number}", "exec"), names)
    assert (tmp_path / "net.maxsum").exists()
    printed = capsys.readouterr().out
    for line in (
        "[1 1 0] 4.2 optimal True\n",
        "4 optimal [",
        "3 infeasible None\n",
        "score=-12",
        "verified: score",
        "verified: objective",
    ):
        assert line in printed
    assert "[1 1 0] 4.2 optimal True" in README and len(README.splitlines()) <= 120


def test_links_of_the_pages_lead_somewhere():
    for page in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "docs/index.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_constraints_pin_every_requirement():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["test"]
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0].lower() for line in lines if "==" in line}
    assert {re.split(r"[^\w.-]", name)[0].lower() for name in wanted} <= pinned
