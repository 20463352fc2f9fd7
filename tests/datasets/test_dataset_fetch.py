"""Data from the net: checked, whole or not at all, and clear words without a net. No test asks the net."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import urllib.error
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxsum import MaxsumError, ParseError
from maxsum.datasets import MissingDataError, download, fetch, read_conll

CONLL = {"train.txt": b"He PRP B-NP\n\n", "test.txt": b"Home NN B-NP\n\n"}


class Net:
    """Addresses to bytes, or to an error; remembers what was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, Any] = {}
        self.asked: list[str] = []

    def __call__(self, url: str, timeout: float) -> Any:
        self.asked.append(url)
        page = self.pages.get(url.rsplit("/", 1)[-1], urllib.error.URLError("no route"))
        if isinstance(page, Exception):
            raise page
        return page if hasattr(page, "read") else io.BytesIO(page)


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    found = Net()
    monkeypatch.setattr(fetch, "_opened", found)
    monkeypatch.delenv("MAXSUM_DATA", raising=False)
    return found


def archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in files.items():
            file.writestr(f"conll2000/{name}", text)
    return packed.getvalue()


@pytest.fixture
def conll(net: Net, monkeypatch: pytest.MonkeyPatch) -> Net:
    net.pages["conll2000.zip"] = archive(CONLL)
    monkeypatch.setattr(fetch, "_CONLL", {name: hashlib.sha256(text).hexdigest() for name, text in CONLL.items()})
    return net


def test_once_is_enough(conll: Net, tmp_path: Path) -> None:
    folder = download("conll2000", tmp_path)
    assert folder == tmp_path / "conll2000" and len(conll.asked) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["test.txt.gz", "train.txt.gz"]
    assert read_conll(folder / "train.txt.gz") == [[("He", "PRP", "B-NP")]]
    assert download("conll2000", tmp_path) == folder and len(conll.asked) == 1
    (folder / "test.txt.gz").unlink()
    download("conll2000", tmp_path)
    assert len(conll.asked) == 2 and (folder / "test.txt.gz").is_file()


def test_the_data_folder_comes_first(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "usps").mkdir()
    (tmp_path / "usps" / "usps.npz").write_bytes(b"")
    monkeypatch.setenv("MAXSUM_DATA", str(tmp_path))
    assert download("usps", tmp_path / "other") == tmp_path / "usps" and not net.asked


def test_the_default_folder(conll: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert download("conll2000") == tmp_path / "maxsum" / "conll2000"


@pytest.mark.parametrize("error", [urllib.error.URLError("no route"), TimeoutError("no route"), OSError("no route")])
def test_without_a_net(net: Net, tmp_path: Path, error: Exception) -> None:
    net.pages["usps.bz2"] = error
    with pytest.raises(
        MissingDataError, match=r"'usps' is not on this machine.*usps\.bz2 is out of reach \(no route\).*put usps\.npz"
    ):
        download("usps", tmp_path)
    assert list((tmp_path / "usps").iterdir()) == []


def test_a_net_that_breaks_off(net: Net, tmp_path: Path) -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            if self.tell():
                raise ConnectionResetError("reset")
            return super().read(1)

    net.pages["letter.data.gz"] = Broken(b"ab")
    with pytest.raises(MissingDataError, match="reset"):
        download("letters", tmp_path)
    assert list((tmp_path / "letters").iterdir()) == []


def test_wrong_content_is_refused(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net.pages["usps.bz2"] = b"not it"
    with pytest.raises(ParseError, match=r"6 bytes with the MD5 .* wanted ec16c51db3855ca6c91edd34d0e9b197"):
        download("usps", tmp_path)
    for page in (b"no archive", archive({"train.txt": b"x"}), archive(CONLL)):
        net.pages["conll2000.zip"] = page
        with pytest.raises(ParseError, match=r"conll2000"):
            download("conll2000", tmp_path)
    net.pages |= {"scene_train.bz2": bz2.compress(b"0 1:0.5\n1,2 2:0.5\n"), "scene_test.bz2": b""}
    with pytest.raises(ParseError, match="numbers of samples with each label are"):
        download("scene", tmp_path)
    monkeypatch.setattr(fetch, "_LARGEST", 10)
    net.pages["letter.data.gz"] = b"a" * 11
    with pytest.raises(ParseError, match="more than 10 bytes"):
        download("letters", tmp_path)
    for name in ("usps", "conll2000", "scene", "letters"):
        assert list((tmp_path / name).iterdir()) == []
    with pytest.raises(MaxsumError, match=r"no dataset 'mnist' to download; wanted one of .*usps"):
        download("mnist", tmp_path)


def test_a_folder_that_cannot_be_written(conll: Net, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingDataError, match="could not be kept"):
        download("conll2000", tmp_path / "file")


def libsvm(labels: list[int], offset: int, width: int) -> bytes:
    return bz2.compress("".join(f"{label + offset} {label % width + 1}:-0.5\n" for label in labels).encode())


def test_usps(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644), (359, 264, 198, 166, 200, 160, 170, 147, 166, 177)
    for name, counts in (("usps.bz2", train), ("usps.t.bz2", test)):
        net.pages[name] = libsvm([digit for digit, count in enumerate(counts) for _ in range(count)], 1, 256)
    source = fetch.SOURCES["usps"]
    remotes = tuple(r._replace(md5=hashlib.md5(net.pages[r.url.rsplit("/", 1)[-1]]).hexdigest()) for r in source.remotes)
    monkeypatch.setitem(fetch.SOURCES, "usps", source._replace(remotes=remotes))
    with np.load(download("usps", tmp_path) / "usps.npz") as file:
        assert file["X_train"].shape == (7291, 256) and file["X_test"].shape == (2007, 256)
        assert np.bincount(file["y_train"]).tolist() == list(train) and file["y_test"].max() == 9
        assert (file["X_train"][0, :2] == [0.25, 0.5]).all()


def test_scene(net: Net, tmp_path: Path) -> None:
    for name, counts in (("train", (227, 165, 197, 196, 277, 224)), ("test", (200, 199, 200, 237, 256, 207))):
        net.pages[f"scene_{name}.bz2"] = libsvm([label for label, count in enumerate(counts) for _ in range(count)], 0, 294)
    with np.load(download("scene", tmp_path) / "scene.npz") as file:
        assert file["X_test"].shape[1] == 294 and file["y_train"].sum(axis=0).tolist() == [227, 165, 197, 196, 277, 224]


def letter(name: str, following: int, fold: int, bits: str = "01" * 64) -> str:
    return "\t".join(["1", name, str(following), "7", "1", str(fold), *bits]) + "\t\n"


def test_letters(net: Net, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[list[int], list[int]]] = []
    monkeypatch.setattr(fetch, "_check", lambda counts, wanted, what, path: seen.append((list(counts), list(wanted))))
    text = letter("h", 2, 3) + letter("i", -1, 3) + letter("a", -1, 0, "1" * 128)
    net.pages["letter.data.gz"] = gzip.compress(text.encode())
    with np.load(download("letters", tmp_path) / "letters.npz") as file:
        assert file["words"].tolist() == ["hi", "a"] and file["lengths"].tolist() == [2, 1] and file["folds"].tolist() == [3, 0]
        pixels = np.unpackbits(file["pixels_packed"], axis=1)
        assert pixels.shape == (3, 128) and pixels[0, :4].tolist() == [0, 1, 0, 1] and pixels[2].all()
        assert file["labels"].tolist() == [7, 8, 0]
    assert seen[0][0][:4] == [1, 0, 0, 1] and seen[1] == ([3, 3], [52152, 52152])
    for line in (
        "1\ta\n",
        letter("A", -1, 0),
        letter("a", -1, 0, "2" * 128),
        letter("a", -1, 0).replace("\t0\t0", "\tx\t0", 1),
    ):
        net.pages["letter.data.gz"] = gzip.compress((letter("a", -1, 0) + line).encode())
        with pytest.raises(ParseError, match="line 2"):
            download("letters", tmp_path / line[:3].strip())


def test_the_counts_are_those_of_the_data(data_folder: Path) -> None:
    """What `download` demands of files from the net holds for the files in the data folder."""
    if not (data_folder / "letters" / "letters.npz").is_file():
        pytest.skip("no letters/letters.npz in the data folder")
    with np.load(data_folder / "letters" / "letters.npz") as file:
        assert len(file["labels"]) == 52152 == file["lengths"].sum()
        assert np.bincount(file["folds"]).tolist() == [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]
    for name, sum_of in fetch._CONLL.items():
        with gzip.open(data_folder / "conll2000" / f"{name}.gz") as packed:
            assert hashlib.sha256(packed.read()).hexdigest() == sum_of
