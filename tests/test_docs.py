"""Every block of Python and every command of the documentation runs, page by page; links and pictures lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from maxsum.cli.app import app

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "api", "auto_examples"} & set(path.parts))
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)
CODE = re.compile(r"#\s*exit code (\d)")


def named(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))], ids=named)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    if "maxsum.torch import" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch", reason="PyTorch is not installed: pip install torch==2.13.0")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    for number, (kind, block) in enumerate(blocks):
        if kind == "python":
            exec(compile(block, f"{page.name}, block {number}", "exec", dont_inherit=True), names)
        else:
            run_commands(block)
    assert len(names) > 2


def run_commands(block: str) -> None:
    """Each line that starts with maxsum, in the present folder; ``# exit code 5`` says that another code than 0 is expected."""
    for line in block.splitlines():
        if line.startswith("maxsum "):
            wanted = CODE.search(line)
            result = CliRunner().invoke(app, shlex.split(line, comments=True)[1:])
            assert result.exit_code == (int(wanted[1]) if wanted else 0), f"{line}\n{result.stdout}{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_to_pages_and_headings(page):
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), f"{named(page)} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, f"{named(page)} links to {target}, which is not among {sorted(slugs)}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_no_merge_was_left_open(page):
    assert not re.search(r"^(<{7}|={7}|>{7})( |$)", page.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_the_site_lists_every_page():
    tree = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w/]+)$", tree, flags=re.MULTILINE))
    assert {named(page).removesuffix(".md") for page in PAGES} - {"index"} <= listed


@pytest.mark.slow
def test_the_kernel_of_a_page_compiles_and_runs(tmp_path):
    nanobind = pytest.importorskip("nanobind", reason="nanobind is in the extra `test`")
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    (code,) = re.findall(
        r"^```cpp\n(.*?)^```", (DOCS / "extending.md").read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    module = '#include "shift.cpp"\nNB_MODULE(page_kernel, m) { maxsum::bind_shift(m); }\n'
    (tmp_path / "shift.cpp").write_text(code, encoding="utf-8")
    (tmp_path / "module.cpp").write_text(module, encoding="utf-8")
    core = Path(nanobind.source_dir())
    folders = [DOCS.parent / "src" / "maxsum" / "kernels", nanobind.include_dir(), sysconfig.get_path("include")]
    folders.append(core.parent / "ext" / "robin_map" / "include")
    out = tmp_path / f"page_kernel{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", *(f"-I{folder}" for folder in folders)]
    subprocess.run([compiler, *flags, "-o", out, tmp_path / "module.cpp", core / "nb_combined.cpp"], check=True)
    spec = importlib.util.spec_from_file_location("page_kernel", out)
    kernel = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kernel)
    values = np.random.default_rng(0).normal(size=(5, 3))
    shifted = values.copy()
    assert kernel.shift(shifted) == pytest.approx(values.max(axis=1).sum())
    np.testing.assert_array_equal(shifted, values - values.max(axis=1, keepdims=True))
