"""Web pages of schools: the experiment on made pages, and (slow) on the data themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from maxsum import experiments
from maxsum.datasets.webkb import LinkedPages
from maxsum.experiments import MissingDataError, webkb


def write_schools(folder: Path, n: int = 24) -> None:
    """Pages of three classes with words of their own; page 0 of a class links to the others of it."""
    random = np.random.default_rng(0)
    (folder / "webkb").mkdir()
    for school in webkb.SCHOOLS:
        y = np.arange(n) % 3
        X = random.random((n, 12)) < 0.15 + 0.5 * (np.arange(12) % 3 == y[:, None])
        X[:, 0] |= ~X.any(axis=1)
        content = ["\t".join([f"p{i}", *map(str, X[i].astype(int)), f"c{y[i]}"]) for i in range(n)]
        cites = [f"p{i} p{i % 3}" for i in range(n)]
        (folder / "webkb" / f"{school}.content").write_text("\n".join(content) + "\n")
        (folder / "webkb" / f"{school}.cites").write_text("\n".join(cites) + "\n")


def test_the_experiment_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_schools(tmp_path)
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    lines: list[str] = []
    report = experiments.run("webkb", quick=True, progress=lines.append)
    assert len(lines) == len(webkb.SCHOOLS)
    assert {row[0] for row in report.rows} >= {"SVM", "AMN", "AMN, co-cited", "AMN, similar"}
    cited = next(row for row in report.rows if row[0] == "AMN, co-cited")
    assert cited[2] == "100" and float(cited[-1]) < 40
    assert not report.failed


def test_kinds_of_edges() -> None:
    X = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1], [0, 0, 1]], dtype=float)
    links = np.array([[1, 0], [2, 0], [3, 3], [3, 4], [1, 4]])
    pages = LinkedPages(list("abcde"), X, np.array(list("xxyyy")), links)
    kinds = {kind: webkb.joined(pages, kind) for kind in webkb.EDGES}
    assert kinds["links"][0].edges.tolist() == [[0, 1], [0, 2], [1, 4], [3, 4]]
    assert kinds["co-cited"][0].edges.tolist() == [[1, 2], [1, 3]]
    assert kinds["co-citing"][0].edges.tolist() == [[0, 4]]
    graph, features = kinds["co-cited and similar"]
    for column, kind in enumerate(("co-cited", "similar")):
        inside = {tuple(pair) for pair in kinds[kind][0].edges.tolist()}
        for pair, value in zip(graph.edges.tolist(), features[:, column], strict=True):
            assert tuple(pair) in inside or value == 0
    assert all((own >= 0).all() and (own <= 1 + 1e-12).all() for _, own in kinds.values())


def test_the_picture(tmp_path: Path) -> None:
    errors = {name: np.arange(4.0) + 1 for name in ("SVM", "RMN", "AMN")}
    webkb.picture(tmp_path / "w.png", webkb.Errors(errors, [], {}, {}, 0.0, 4))
    assert (tmp_path / "w.png").read_bytes()[:4] == b"\x89PNG"


def test_missing_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    with pytest.raises(MissingDataError, match="webkb"):
        webkb.load()


@pytest.mark.slow
def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / "webkb" / "cornell.content").is_file():
        pytest.skip("no webkb/cornell.content in the data folder")
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    report = experiments.run("webkb", quick=True)
    assert not report.failed
    assert sum(len(own.y) for own in webkb.load(("similar",)).values()) == 877
