"""``load_`` and ``fetch_``: shapes and values as documented, taken by the estimators as they are, and broken files refused."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maxsum as ms
from maxsum import datasets
from maxsum.datasets import sudoku_puzzles

pytestmark = pytest.mark.filterwarnings("ignore:.* ended .iteration limit.")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    return tmp_path


def keep(folder: Path, name: str, **arrays: Any) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    np.savez(folder / name, **arrays)


# ---- at hand ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("load", "sizes", "shape"),
    [(datasets.load_noisy_blocks, (12, 8), (24, 24, 3)), (datasets.load_shapes, (8, 4), (50, 50))],
)
def test_images(load: Callable[..., Any], sizes: tuple[int, int], shape: tuple[int, ...]) -> None:
    for subset, size in zip(("train", "test"), sizes, strict=True):
        X, y = load(subset)
        again = load(subset)[0]
        assert len(X) == len(y) == size and X[0].shape == shape and y[0].shape == shape[:2]
        assert all((a == b).all() for a, b in zip(X, again, strict=True))
    assert not (load("train")[0][0] == load("test")[0][0]).all()
    with pytest.raises(ms.InvalidParameterError, match="subset is 'all', wanted one of 'train', 'test'"):
        load("all")


def test_digits_are_learned() -> None:
    X, y = datasets.load_digits()
    assert len(X) == 150 and X[0].shape == (8, 64) and X[0].min() >= 0 and X[0].max() <= 1
    steps = np.concatenate([(own[1:] - own[:-1]) % 10 == 1 for own in y])
    assert 0.75 < steps.mean() < 0.9
    net = ms.SequenceLabeler(C=10.0, tol=0.1, max_iter=30).fit(X[:60], y[:60])
    X_test, y_test = datasets.load_digits("test")
    assert len(X_test) == 75 and net.score(X_test, y_test) > 0.9
    shuffled = np.concatenate([(own[1:] - own[:-1]) % 10 == 1 for own in datasets.load_digits(follow=0, length=20)[1]])
    assert shuffled.mean() < 0.15
    for wrong in ({"length": 0}, {"length": 2.0}, {"follow": 1.5}, {"follow": None}, {"subset": "x"}):
        with pytest.raises(ms.InvalidParameterError, match=next(iter(wrong))):
            datasets.load_digits(**wrong)


def is_solved(grid: np.ndarray) -> bool:
    square = grid.reshape(9, 9)
    boxes = square.reshape(3, 3, 3, 3).transpose(0, 2, 1, 3).reshape(9, 9)
    return all((np.sort(units, axis=1) == np.arange(1, 10)).all() for units in (square, square.T, boxes))


def test_sudoku_at_hand() -> None:
    for subset, fewest, most in (("easy", 36, 36), ("hard", 21, 27)):
        X, y = datasets.load_sudoku(subset)
        assert len(X) == 25 and all(is_solved(solution) for solution in y)
        assert all(fewest <= (given > 0).sum() <= most for given in X)
        for given, solution in zip(X, y, strict=True):
            assert sudoku_puzzles.solutions(given.tolist(), most=2) == [solution.tolist()]
    with pytest.raises(ms.InvalidParameterError, match="wanted one of 'easy', 'hard'"):
        datasets.load_sudoku("train")


def test_sudoku_made() -> None:
    X, y = datasets.make_sudoku(3, 40, random_state=5)
    assert [int((given > 0).sum()) for given in X] == [40, 40, 40]
    assert all(is_solved(solution) and ((given == 0) | (given == solution)).all() for given, solution in zip(X, y, strict=True))
    assert not (y[0] == y[1]).all() and (datasets.make_sudoku(3, 40, random_state=5)[1][2] == y[2]).all()
    assert (datasets.make_sudoku(1, 81)[0][0] > 0).all() and datasets.make_sudoku(0) == ([], [])
    for wrong in (16, 82, 30.0, True):
        with pytest.raises(ms.InvalidParameterError, match="n_given"):
            datasets.make_sudoku(1, wrong)


def test_solutions_are_counted_as_by_trying_all() -> None:
    """Grids with few blanks, against all ways to fill them."""
    import itertools

    random = np.random.default_rng(0)
    solution = datasets.make_sudoku(1, 81)[1][0]
    counts = set()
    for _ in range(30):
        given = solution.copy()
        pair = random.choice(9, size=2, replace=False) + 1
        cells = np.flatnonzero(np.isin(solution, pair) & (np.arange(81) // 27 == random.integers(3)))
        given[cells] = 0
        fills = itertools.product(pair.tolist(), repeat=len(cells))
        expected = []
        for fill in fills:
            grid = given.copy()
            grid[cells] = fill
            if is_solved(grid):
                expected.append(grid.tolist())
        assert sorted(sudoku_puzzles.solutions(given.tolist(), most=1000)) == sorted(expected)
        counts.add(len(expected))
    assert max(counts) > 1


# ---- fetched ---------------------------------------------------------------------------------------------------------


def test_multi_label_data(folder: Path) -> None:
    X, Y = np.arange(12.0).reshape(4, 3), np.array([[0, 1], [1, 1], [1, 0], [0, 0]], dtype=np.uint8)
    for name, fetch in (("scene", datasets.fetch_scene), ("yeast", datasets.fetch_yeast)):
        keep(folder, f"{name}/{name}.npz", X_train=X, y_train=Y, X_test=X[:2] + 1, y_test=Y[:2])
        got, labels = fetch()
        assert (got == X).all() and (labels == Y).all() and labels.dtype == np.int64
        assert (fetch("test")[0] == X[:2] + 1).all()
        with pytest.raises(ms.InvalidParameterError, match="subset is 'both'"):
            fetch("both")
    ms.MultiLabelClassifier(max_iter=3).fit(*datasets.fetch_scene())
    keep(folder, "usps/usps.npz", X_train=X.astype(np.float32), y_train=[0, 1, 2, 9], X_test=X, y_test=[1, 1])
    assert datasets.fetch_usps()[1].tolist() == [0, 1, 2, 9] and datasets.fetch_usps()[0].dtype == np.float64
    with pytest.raises(ms.ParseError, match=r"X has shape \(4, 3\) and y has shape \(2,\)"):
        datasets.fetch_usps("test")


def test_broken_arrays(folder: Path) -> None:
    (folder / "scene").mkdir()
    whole = folder / "yeast" / "yeast.npz"
    keep(folder, "yeast/yeast.npz", X_train=np.ones((50, 3)))
    with pytest.raises(ms.ParseError, match=r"y_train is missing, wanted X_train, y_train"):
        datasets.fetch_yeast()
    pickled = folder / "pickled.npz"
    np.savez(pickled, X_train=np.array([{}], dtype=object), y_train=[1])
    for content in (b"", b"no arrays", whole.read_bytes()[:200], pickled.read_bytes()):
        (folder / "scene" / "scene.npz").write_bytes(content)
        with pytest.raises(ms.ParseError, match="no file of arrays"):
            datasets.fetch_scene()


def test_letters(folder: Path) -> None:
    bits = np.random.default_rng(0).integers(2, size=(5, 128), dtype=np.uint8)
    parts = {"pixels_packed": np.packbits(bits, axis=1), "labels": np.array([7, 8, 0, 1, 2], dtype=np.uint8)}
    parts |= {"lengths": np.array([2, 3]), "folds": np.array([3, 0], dtype=np.uint8), "words": np.array(["hi", "abc"])}
    keep(folder, "letters/letters.npz", **parts)
    X, y, folds = datasets.fetch_letters()
    assert (X[0] == bits[:2]).all() and (X[1] == bits[2:]).all() and [own.tolist() for own in y] == [[7, 8], [0, 1, 2]]
    assert folds.tolist() == [3, 0]
    ms.SequenceLabeler(max_iter=3).fit(X, y)
    for change in ({"lengths": np.array([2, 4])}, {"lengths": np.array([5, 0])}, {"folds": np.array([1])}):
        keep(folder, "letters/letters.npz", **parts | change)
        with pytest.raises(ms.ParseError, match="do not fit"):
            datasets.fetch_letters()


def test_conll(folder: Path) -> None:
    (folder / "conll2000").mkdir()
    text = "He PRP B-NP\nran VBD B-VP\n\nHome NN B-NP\n\n"
    for part in ("train", "test"):
        (folder / "conll2000" / f"{part}.txt.gz").write_bytes(gzip.compress(text.encode()))
    X, y = datasets.fetch_conll2000()
    assert y == [["B-NP", "B-VP"], ["B-NP"]] and X[0] == datasets.conll_features([("He", "PRP"), ("ran", "VBD")])
    assert "w[-1]" not in datasets.fetch_conll2000("test", window=0)[0][0][1]
    ms.SequenceLabeler(max_iter=3).fit(X, y)
    (folder / "conll2000" / "train.txt.gz").write_bytes(gzip.compress(b"He PRP\n"))
    with pytest.raises(ms.ParseError, match="wanted three columns"):
        datasets.fetch_conll2000()


def test_msrc(folder: Path) -> None:
    parts = {"size": np.array([[1, 2], [2, 2]], dtype=np.int32), "image": np.arange(18, dtype=np.uint8)}
    parts |= {"label": np.array([0, 255, 20, 21, 22, 3], dtype=np.uint8), "split": np.array([1, 0], dtype=np.uint8)}
    keep(folder, "msrc_v2/msrc_v2_half.npz", **parts)
    X, y = datasets.fetch_msrc()
    assert len(X) == 1 and X[0].shape == (2, 2, 3) and X[0][0, 0].tolist() == [6 / 255, 7 / 255, 8 / 255]
    assert y[0].tolist() == [[20, -1], [-1, 3]] and datasets.fetch_msrc("test")[1][0].tolist() == [[0, -1]]
    ms.GridLabeler(max_iter=3).fit(X, y)
    keep(folder, "msrc_v2/msrc_v2_half.npz", **parts | {"image": np.zeros(3)})
    with pytest.raises(ms.ParseError, match="do not fit"):
        datasets.fetch_msrc()


def test_sudoku(folder: Path) -> None:
    X, y = datasets.load_sudoku()
    rows = [f"sudoku-easy50,{''.join(map(str, a))},{''.join(map(str, b))},1" for a, b in zip(X, y, strict=True)]
    (folder / "sudoku").mkdir()
    (folder / "sudoku" / "norvig_with_solutions.csv").write_text("\n".join(rows))
    (folder / "sudoku" / "rrn-validation.csv.xz").write_bytes(b"")
    assert len(datasets.fetch_sudoku()[0]) == 25 and (datasets.fetch_sudoku("sudoku-easy50")[1][3] == y[3]).all()
    with pytest.raises(ms.InvalidParameterError, match="no puzzles of the set 'x'"):
        datasets.fetch_sudoku("x")


CONTENT = "http://a\t1 0 1\tcourse\nhttp://b\t0 0 1\tstudent\nc\t1 1 1\tstaff\n"


def test_webkb(folder: Path) -> None:
    (folder / "webkb").mkdir()
    for name in ("cornell", "texas", "washington", "wisconsin"):
        (folder / "webkb" / f"{name}.content").write_text(CONTENT)
        (folder / "webkb" / f"{name}.cites").write_text("http://a c\nc http://a\nhttp://b http://b\n\nc http://b\n")
    X, y, groups = datasets.fetch_webkb()
    assert groups.tolist() == ["cornell", "texas", "washington", "wisconsin"] and len(X) == 4
    assert X[0].X.tolist() == [[1, 0, 1], [0, 0, 1], [1, 1, 1]] and X[0].graph.edges.tolist() == [[0, 2], [1, 2]]
    assert y[1].tolist() == ["course", "student", "staff"]
    ms.GraphLabeler(max_iter=3).fit(X[:3], y[:3]).predict(X[3:])


def test_reuters(folder: Path) -> None:
    (folder / "reuters21578").mkdir()
    (folder / "reuters21578" / "index.tsv.gz").write_bytes(b"")
    text = (
        b'<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="1"><DATE>26-FEB-1987 15:01:01.79</DATE><TOPICS><D>grain</D></TOPICS>'
    )
    text += b"<TEXT><TITLE>WHEAT</TITLE><BODY>Up.</BODY></TEXT></REUTERS>"
    member = tarfile.TarInfo("reut2-000.sgm")
    member.size = len(text)
    with tarfile.open(folder / "reuters21578" / "reuters21578.tar.xz", "w:xz") as archive:
        archive.addfile(member, io.BytesIO(text))
    (story,) = datasets.fetch_reuters()
    assert (story.number, story.part, story.topics, story.date) == (1, "train", ("grain",), "1987-02-26T15:01:01")
    assert "WHEAT" in story.text and "Up." in story.text


@pytest.mark.parametrize(
    ("content", "cites", "message"),
    [
        ("a 1 x\nb 1 0 x\n", "", "line 2: there are 4 columns, wanted 3"),
        ("a x\n", "", "line 1: there are 2 columns, wanted 3"),
        ("a 1 x\n\na 1 x\n", "", 'line 3: the page "a" stands there twice'),
        ("a one x\n", "", "line 1: wanted numbers"),
        ("a nan x\n", "", "line 1: a number is not finite"),
        ("\n", "", "no pages"),
        ("a 1 x\n", "a\n", "line 1: there are 1 names"),
        ("a 1 x\n", "a a\na b\n", 'line 2: there is no page "b"'),
    ],
)
def test_broken_pages(tmp_path: Path, content: str, cites: str, message: str) -> None:
    (tmp_path / "x.content").write_text(content)
    (tmp_path / "x.cites").write_text(cites)
    with pytest.raises(ms.ParseError, match=message):
        datasets.webkb.read_linked_pages(tmp_path / "x.content", tmp_path / "x.cites")


# ---- the real ones -----------------------------------------------------------------------------------------------------


def test_on_the_data(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA", str(data_folder))
    if not all((data_folder / name).is_dir() for name in ("scene", "letters", "webkb", "sudoku", "usps")):
        pytest.skip("the data folder lacks some datasets")
    assert datasets.fetch_scene("test")[0].shape == (1196, 294) and datasets.fetch_usps()[0].shape == (7291, 256)
    X, y, folds = datasets.fetch_letters()
    assert len(X) == len(y) == 6877 and np.bincount(folds)[0] == 626
    pages, _, _ = datasets.fetch_webkb()
    assert [sample.n_nodes for sample in pages] == [195, 187, 230, 265] and pages[0].X.shape[1] == 1703
    assert len(datasets.fetch_sudoku("sudoku-top95")[0]) == 95
