"""Every Python block of the documentation runs, page by page; links and pictures lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if not {"_build", "api", "auto_examples"} & set(path.parts))
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def named(page: Path) -> str:
    return page.relative_to(DOCS).as_posix()


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text(encoding="utf-8"))], ids=named)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "docs"}
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    for number, block in enumerate(blocks):
        exec(compile(block, f"{page.name}, block {number}", "exec"), names)
    assert len(names) > 2


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


def test_the_site_lists_every_page():
    tree = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^([\w/]+)$", tree, flags=re.MULTILINE))
    assert {named(page).removesuffix(".md") for page in PAGES} - {"index"} <= listed
