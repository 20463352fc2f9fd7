"""Datasets from the net: checked, whole or not at all, and clear words without a net. No test asks the net."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import json
import lzma
import os
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from maxsum import MaxsumError, ParseError
from maxsum.datasets import convert, fetch, read_conll
from maxsum.datasets.fetch import download
from maxsum.datasets.source import MissingDataError, cache_folder, data_folder
from maxsum.datasets.sources import SOURCES
from maxsum.datasets.transfer import Remote

CONLL = {"train.txt": b"He PRP B-NP\n\n", "test.txt": b"Home NN B-NP\n\n"}


def zipped(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return packed.getvalue()


def conll(files: dict[str, bytes]) -> bytes:
    return zipped({f"conll2000/{name}": text for name, text in files.items()})


@pytest.fixture
def net(server: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """All addresses of the registry lead to the local server."""
    monkeypatch.delenv("MAXSUM_DATA", raising=False)
    monkeypatch.setattr(convert, "CONLL", {name: hashlib.sha256(text).hexdigest() for name, text in CONLL.items()})
    server.pages["conll2000.zip"] = conll(CONLL)
    for name, source in SOURCES.items():
        remotes = tuple(remote._replace(url=server.root + remote.name) for remote in source.remotes)
        monkeypatch.setitem(fetch.SOURCES, name, source._replace(remotes=remotes))
    return server


def test_once_is_enough(net: Any, tmp_path: Path) -> None:
    folder = download("conll2000", tmp_path)
    assert folder == tmp_path / "conll2000" and len(net.asked) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["SOURCE.json", "test.txt.gz", "train.txt.gz"]
    assert read_conll(folder / "train.txt.gz") == [[("He", "PRP", "B-NP")]]
    assert download("conll2000", tmp_path) == folder and len(net.asked) == 1
    (folder / "test.txt.gz").unlink()
    download("conll2000", tmp_path)
    assert len(net.asked) == 2 and (folder / "test.txt.gz").is_file()
    record = json.loads((folder / "SOURCE.json").read_text())
    assert record["files"][0]["sha256"] == hashlib.sha256(net.pages["conll2000.zip"]).hexdigest()
    assert record["licence"] == SOURCES["conll2000"].licence and record["checked"] == "SHA-256 of the texts"


def test_the_data_folder_comes_first(net: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usps").mkdir()
    (tmp_path / "usps" / "usps.npz").write_bytes(b"")
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    assert download("usps", tmp_path / "other") == tmp_path / "usps" and not net.asked


def test_the_cache(net: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAXSUM_DATA_CACHE", str(tmp_path / "a"))
    assert download("conll2000") == tmp_path / "a" / "conll2000"
    assert data_folder("conll2000", ("train.txt.gz",), "") == tmp_path / "a" / "conll2000"
    monkeypatch.delenv("MAXSUM_DATA_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "maxsum"
    with pytest.raises(MissingDataError, match=r"MAXSUM_DATA is not set.*maxsum datasets list.*From there\."):
        data_folder("conll2000", ("train.txt.gz",), "From there.")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "maxsum"


def test_without_a_net(net: Any, tmp_path: Path) -> None:
    net.status = 503
    wanted = r"'usps' is not on this machine.*usps\.bz2 is out of reach .*503.*put usps\.npz into .* or into the folder usps of MAXSUM_DATA"
    with pytest.raises(MissingDataError, match=wanted):
        download("usps", tmp_path)
    assert [path for path in (tmp_path / "usps").rglob("*") if path.is_file()] == []


def test_a_broken_download_goes_on(net: Any, tmp_path: Path) -> None:
    net.breaks = [20, 0]
    with pytest.raises(MissingDataError, match=r"20 bytes are kept in .*conll2000\.zip\.part.*Try again with a connection"):
        download("conll2000", tmp_path)
    assert download("conll2000", tmp_path).is_dir() and net.asked[-1] == ("conll2000.zip", "bytes=20-")


def test_wrong_content_is_refused(net: Any, tmp_path: Path) -> None:
    net.pages["usps.bz2"] = b"not it"
    with pytest.raises(ParseError, match=r"6 bytes with the MD5 .* wanted ec16c51db3855ca6c91edd34d0e9b197"):
        download("usps", tmp_path)
    net.pages["yeast-train.arff"] = b"x" * 1501116
    with pytest.raises(ParseError, match=r"1501116 bytes with the SHA256 .* wanted 04e31749"):
        download("yeast", tmp_path)
    for page in (b"no archive", conll({"train.txt": b"x"}), conll(dict.fromkeys(CONLL, b"y"))):
        net.pages["conll2000.zip"] = page
        with pytest.raises(
            ParseError, match=rf"conll2000.*What came was removed \(SHA-256: .*{hashlib.sha256(page).hexdigest()}"
        ):
            download("conll2000", tmp_path)
    net.pages |= {"scene_train.bz2": bz2.compress(b"0 1:0.5\n1,2 2:0.5\n"), "scene_test.bz2": bz2.compress(b"0 1:1\n")}
    with pytest.raises(ParseError, match="numbers of samples with each label are"):
        download("scene", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".lock"] == []
    with pytest.raises(MaxsumError, match=r"no dataset 'mnist' to download; wanted one of .*usps"):
        download("mnist", tmp_path)


def test_a_folder_that_cannot_be_written(net: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingDataError, match=r"could not be kept in .*MAXSUM_DATA_CACHE"):
        download("conll2000", tmp_path / "file")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    if not os.access(closed, os.W_OK):
        with pytest.raises(MissingDataError, match="could not be kept"):
            download("conll2000", closed)


def test_the_registry() -> None:
    for name, source in SOURCES.items():
        assert source.files and source.remotes and source.licence and source.checked, name
        for remote in source.remotes:
            assert remote.url.startswith("https://") and remote.name
            assert remote.sha256 is None or (len(remote.sha256) == 64 and int(remote.sha256, 16))
            assert (remote.sha256 is None) == (remote.size is None)
    assert SOURCES["scene"].size is None and SOURCES["webkb"].size == 3172024
    assert Remote("https://a/b/c.txt").name == "c.txt"


# ---- conversions -----------------------------------------------------------------------------------------------------


def written(folder: Path, files: dict[str, bytes]) -> list[Path]:
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return [folder / name for name in files]


def libsvm(counts: tuple[int, ...], offset: int, width: int) -> bytes:
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    return bz2.compress("".join(f"{label + offset} {label % width + 1}:-0.5\n" for label in labels).encode())


def test_usps(tmp_path: Path) -> None:
    train, test = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644), (359, 264, 198, 166, 200, 160, 170, 147, 166, 177)
    paths = written(tmp_path, {"usps.bz2": libsvm(train, 1, 256), "usps.t.bz2": libsvm(test, 1, 256)})
    made = convert.usps(paths)["usps.npz"]
    assert made["X_train"].shape == (7291, 256) and made["X_test"].shape == (2007, 256)
    assert np.bincount(made["y_train"]).tolist() == list(train) and made["y_test"].max() == 9
    assert (made["X_train"][0, :2] == [0.25, 0.5]).all()


def test_scene(tmp_path: Path) -> None:
    train, test = (227, 165, 197, 196, 277, 224), (200, 199, 200, 237, 256, 207)
    paths = written(tmp_path, {"scene_train.bz2": libsvm(train, 0, 294), "scene_test.bz2": libsvm(test, 0, 294)})
    made = convert.scene(paths)["scene.npz"]
    assert made["X_test"].shape[1] == 294 and made["y_train"].sum(axis=0).tolist() == list(train)


def letter(name: str, following: int, fold: int, bits: str = "01" * 64) -> str:
    return "\t".join(["1", name, str(following), "7", "1", str(fold), *bits]) + "\t\n"


def test_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[int]]] = []
    monkeypatch.setattr(convert, "check", lambda counts, wanted, what, path: seen.append((list(counts), list(wanted))))
    text = letter("h", 2, 3) + letter("i", -1, 3) + letter("a", -1, 0, "1" * 128)
    made = convert.letters(written(tmp_path, {"letter.data.gz": gzip.compress(text.encode())}))["letters.npz"]
    assert made["words"].tolist() == ["hi", "a"] and made["lengths"].tolist() == [2, 1] and made["folds"].tolist() == [3, 0]
    pixels = np.unpackbits(made["pixels_packed"], axis=1)
    assert pixels.shape == (3, 128) and pixels[0, :4].tolist() == [0, 1, 0, 1] and pixels[2].all()
    assert made["labels"].tolist() == [7, 8, 0]
    assert seen[0][0][:4] == [1, 0, 0, 1] and seen[1] == ([3, 3], [52152, 52152])
    for line in (
        "1\ta\n",
        letter("A", -1, 0),
        letter("a", -1, 0, "2" * 128),
        letter("a", -1, 0).replace("\t0\t0", "\tx\t0", 1),
    ):
        paths = written(tmp_path, {"letter.data.gz": gzip.compress((letter("a", -1, 0) + line).encode())})
        with pytest.raises(ParseError, match="line 2"):
            convert.letters(paths)


def test_sudoku(tmp_path: Path) -> None:
    easy = "003020600900305001001806400008102900700000008006708200002609500800203009005010300"
    solved = "483921657967345821251876493548132976729564138136798245372689514814253769695417382"
    files = {
        "sudoku-easy50.txt": easy.encode(),
        "sudoku-top95.txt": easy.replace("0", ".").encode(),
        "more.csv.xz": b"as it is",
    }
    made = convert.sudoku(written(tmp_path, files))
    assert made["norvig_with_solutions.csv"].decode() == f"sudoku-easy50,{easy},{solved},1\nsudoku-top95,{easy},{solved},1\n"
    assert made["more.csv.xz"] == b"as it is"
    for puzzle, message in (("0" * 81, "has 2 solutions or more"), ("11" + "0" * 79, "has 0 solutions"), ("12", "81 digits")):
        paths = written(tmp_path, files | {"sudoku-easy50.txt": puzzle.encode()})
        with pytest.raises(ParseError, match=message):
            convert.sudoku(paths)


STORY = (
    '<REUTERS TOPICS="{}" LEWISSPLIT="{}" CGISPLIT="X" OLDID="5" NEWID="{}">\n<DATE>{}</DATE>\n<TOPICS>{}</TOPICS>\n'
    "<PLACES><D>usa</D></PLACES><TEXT>&#2;\n<BODY>Words &lt;XYZ></BODY></TEXT>\n</REUTERS>\n"
)


def test_reuters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_N_REUTERS", {"train": 1, "test": 1, "": 1})
    stories = (
        STORY.format("YES", "TRAIN", 1, "26-FEB-1987 15:01:01.79", "<D>grain</D><D>wheat</D>")
        + STORY.format("YES", "TEST", 2, " 9-APR-1987 01:02:03.04&#9;&#9;F", "<D>trade</D>")
        + STORY.format("NO", "TRAIN", 3, "garbled", "")
    )
    text = b'<!DOCTYPE lewis SYSTEM "lewis.dtd">\n' + stories.encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in (("README.txt", b"hello"), ("reut2-000.sgm", text)):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    made = convert.reuters(written(tmp_path, {"reuters21578.tar.gz": packed.getvalue()}))
    assert gzip.decompress(made["index.tsv.gz"]).decode().splitlines() == [
        "newid\tlewissplit\ttopics_attr\tmodapte\tdate\ttopics",
        "1\tTRAIN\tYES\ttrain\t1987-02-26T15:01:01\tgrain wheat",
        "2\tTEST\tYES\ttest\t1987-04-09T01:02:03\ttrade",
        "3\tTRAIN\tNO\t\t\t",
    ]
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(made["reuters21578.tar.xz"]))) as archive:
        assert archive.getnames() == ["README.txt", "reut2-000.sgm"]
    for content, message in ((b"no archive", "cannot be read"), (packed.getvalue()[:-30], "cannot be read")):
        with pytest.raises(ParseError, match=message):
            convert.reuters(written(tmp_path, {"reuters21578.tar.gz": content}))
    monkeypatch.setattr(convert, "_N_REUTERS", {"train": 2, "test": 1, "": 1})
    with pytest.raises(ParseError, match=r"are \[1, 1, 1\], wanted \[2, 1, 1\]"):
        convert.reuters(written(tmp_path, {"reuters21578.tar.gz": packed.getvalue()}))


def bmp(pixels: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(file, "BMP")
    return file.getvalue()


def test_msrc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert, "_N_MSRC", (1, 1))
    grey = np.arange(3 * 5)[:, None].repeat(3, axis=1).reshape(3, 5, 3) * 4
    colours = np.zeros((3, 5, 3), dtype=np.uint8)
    colours[0, 0], colours[0, 2], colours[1, 1] = (0, 128, 0), (64, 0, 0), (1, 2, 3)
    images = {"M/Images/10_1_s.bmp": bmp(grey), "M/GroundTruth/10_1_s_GT.bmp": bmp(colours)}
    images |= {"M/Images/2_1_s.bmp": bmp(grey), "M/GroundTruth/2_1_s_GT.bmp": bmp(0 * colours)}
    files = {"msrc.zip": zipped(images), "train.txt": b"10_1_s.bmp\r\n", "test.txt": b"2_1_s.bmp"}
    made = convert.msrc(written(tmp_path, files))["msrc_v2_half.npz"]
    assert made["ids"].tolist() == ["2_1_s", "10_1_s"] and made["split"].tolist() == [1, 0]
    assert made["size"].tolist() == [[1, 2], [1, 2]] and made["label"].tolist() == [255, 255, 1, 22]
    assert made["image"].tolist() == [12, 12, 12, 20, 20, 20] * 2
    assert len(made["class_names"]) == 23 and made["class_rgb"][1].tolist() == [0, 128, 0]
    wrong = colours.copy()
    wrong[0, 0] = 7
    for change, message in (
        ({"M/GroundTruth/10_1_s_GT.bmp": bmp(wrong)}, "colour #070707, which is that of no class"),
        ({"M/GroundTruth/10_1_s_GT.bmp": bmp(colours[:2])}, "but its labels have"),
        ({"M/Images/10_1_s.bmp": b"no image"}, "cannot be read"),
    ):
        with pytest.raises(ParseError, match=message):
            convert.msrc(written(tmp_path, files | {"msrc.zip": zipped(images | change)}))
    del images["M/Images/10_1_s.bmp"]
    with pytest.raises(ParseError, match="cannot be read"):
        convert.msrc(written(tmp_path, files | {"msrc.zip": zipped(images)}))
    with pytest.raises(ParseError, match="numbers of images"):
        convert.msrc(written(tmp_path, files | {"train.txt": b""}))


# ---- what is demanded holds for the files in the data folder -----------------------------------------------------------


def needed(folder: Path) -> Path:
    if not folder.is_dir():
        pytest.skip(f"no {folder.name} in the data folder")
    return folder


def test_the_counts_of_letters(data_folder: Path) -> None:
    with np.load(needed(data_folder / "letters") / "letters.npz") as file:
        assert len(file["labels"]) == 52152 == file["lengths"].sum()
        assert np.bincount(file["folds"]).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]


def test_the_checksums(data_folder: Path) -> None:
    for name, wanted in convert.CONLL.items():
        assert (
            hashlib.sha256(gzip.decompress((needed(data_folder / "conll2000") / f"{name}.gz").read_bytes())).hexdigest()
            == wanted
        )
    for name, pattern in (("webkb", "{}"), ("yeast", "{}.gz"), ("sudoku", "{}")):
        for remote in SOURCES[name].remotes:
            content = (needed(data_folder / name) / pattern.format(remote.name)).read_bytes()
            content = gzip.decompress(content) if pattern.endswith(".gz") else content
            assert (hashlib.sha256(content).hexdigest(), len(content)) == (remote.sha256, remote.size), remote.url


def test_yeast_becomes_the_same_numbers(data_folder: Path, tmp_path: Path) -> None:
    folder = needed(data_folder / "yeast")
    paths = [folder / "yeast-train.arff.gz", folder / "yeast-test.arff.gz"]
    made = convert.yeast(paths)["yeast.npz"]
    with np.load(folder / "yeast.npz") as file:
        assert all((made[name] == file[name]).all() and made[name].dtype == file[name].dtype for name in file.files)


def test_norvigs_puzzles_have_the_same_solutions(data_folder: Path) -> None:
    folder = needed(data_folder / "sudoku")
    made = convert.sudoku([folder / name for name in ("sudoku-easy50.txt", "sudoku-top95.txt")])["norvig_with_solutions.csv"]
    rows = (folder / "norvig_with_solutions.csv").read_text().replace(".", "0").splitlines()
    assert made.decode().splitlines() == [row for row in rows if not row.startswith("sudokus_hard")]


def test_reuters_gets_the_same_index(data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert.lzma, "compress", lambda content, preset: content)
    folder = needed(data_folder / "reuters21578")
    packed = gzip.compress(lzma.decompress((folder / "reuters21578.tar.xz").read_bytes()), 1)
    made = convert.reuters(written(tmp_path, {"reuters21578.tar.gz": packed}))
    assert gzip.decompress(made["index.tsv.gz"]) == gzip.decompress((folder / "index.tsv.gz").read_bytes())
