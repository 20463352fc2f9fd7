"""Data from public places on the net, checked, into a folder that `MAXSUM_DATA` can name."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.request import Request, urlopen

import numpy as np

from ..core.errors import InvalidSampleError, ParseError
from ..core.files.store import atomic
from ..core.files.text import Limits
from .multilabel import read_libsvm_multilabel
from .source import MissingDataError, lines

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_NLTK = "https://raw.githubusercontent.com/nltk/nltk_data/5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora/"
_LARGEST = 1 << 26
_CHUNK = 1 << 16

Arrays = dict[str, np.ndarray]


class Remote(NamedTuple):
    """A file on the net and its MD5, where that is known."""

    url: str
    md5: str | None = None


class Source(NamedTuple):
    """Which files a dataset has here, where it comes from, and how the files are made: names to arrays or bytes."""

    files: tuple[str, ...]
    remotes: tuple[Remote, ...]
    make: Callable[[list[Path]], dict[str, Any]]


def download(name: str, folder: str | os.PathLike[str] | None = None, *, timeout: float = 60.0) -> Path:
    """Make sure that a dataset is on this machine.

    What is in the folder that ``MAXSUM_DATA`` names is taken from there. Otherwise files come from the net, are checked (by a
    checksum where one is published, and by the numbers of samples of each label always) and written whole or not at all.

    ================= ============================================================= =======================================
    ``scene``         scene.npz: X_train, y_train, X_test, y_test                   LIBSVM, multi-label
    ``yeast``         yeast.npz: X_train, y_train, X_test, y_test                   LIBSVM, multi-label
    ``usps``          usps.npz: X_train, y_train, X_test, y_test, grey values 0..1  LIBSVM, multi-class
    ``letters``       letters.npz: pixels_packed, labels, lengths, folds, words     Taskar, ai.stanford.edu
    ``conll2000``     train.txt.gz, test.txt.gz                                     nltk_data on GitHub
    ================= ============================================================= =======================================

    Parameters
    ----------
    name : str
        One of these. Their licences are those of their authors.
    folder : path-like, optional
        Where to keep data, each dataset in a folder of its own; by default ``maxsum`` in ``XDG_CACHE_HOME`` or ``~/.cache``. Set
        ``MAXSUM_DATA`` to it to let experiments find them.
    timeout : float
        Seconds to wait for an answer.

    Returns
    -------
    Path
        The folder with the files of the dataset.

    Raises
    ------
    MissingDataError
        They are not here, and the net is out of reach; the message says what to put where.
    ParseError
        What came is not the dataset.
    """
    if name not in SOURCES:
        raise InvalidSampleError(f"there is no dataset {name!r} to download; wanted one of {', '.join(SOURCES)}.")
    source = SOURCES[name]
    root = os.environ.get("MAXSUM_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "maxsum" if folder is None else Path(folder)
    for place in ([Path(root)] if root else []) + [cache]:
        if all((place / name / file).is_file() for file in source.files):
            return place / name
    target = cache / name
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target, prefix=".part") as work:
            fetched = [_fetch(name, remote, Path(work), target, timeout) for remote in source.remotes]
            made = source.make(fetched)
            for file, content in made.items():
                _store(target / file, content)
    except (MissingDataError, ParseError):
        raise
    except OSError as error:
        raise MissingDataError(
            f"the dataset {name!r} could not be kept in {target}: {error}. Give download() a folder that can be written."
        ) from error
    return target


def _fetch(name: str, remote: Remote, work: Path, target: Path, timeout: float) -> Path:
    """Download one file into ``work`` and compare its checksum."""
    path = work / remote.url.rsplit("/", 1)[-1]
    digest, size = hashlib.md5(usedforsecurity=False), 0
    wanted = f"put {', '.join(SOURCES[name].files)} into {target} yourself, or into the folder {name} of MAXSUM_DATA"
    with path.open("wb") as file:
        try:
            with _opened(remote.url, timeout) as stream:
                while data := stream.read(_CHUNK):
                    size += len(data)
                    if size > _LARGEST:
                        raise ParseError(f"more than {_LARGEST} bytes came; refused.", remote.url)
                    digest.update(data)
                    file.write(data)
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            raise MissingDataError(
                f"the dataset {name!r} is not on this machine, and {remote.url} is out of reach ({reason}). Try again with a "
                f"connection, or {wanted}."
            ) from error
    if remote.md5 is not None and digest.hexdigest() != remote.md5:
        raise ParseError(
            f"{size} bytes with the MD5 {digest.hexdigest()} came, wanted {remote.md5}. Try again later, or {wanted}.",
            remote.url,
        )
    return path


def _opened(url: str, timeout: float) -> Any:
    return urlopen(Request(url, headers={"User-Agent": "maxsum"}), timeout=timeout)


def _store(path: Path, content: Arrays | bytes) -> None:
    def write(file: BinaryIO) -> None:
        if isinstance(content, bytes):
            file.write(content)
        else:
            np.savez_compressed(file, **content)  # type: ignore[arg-type]

    atomic(path, "gz" if path.suffix == ".gz" else None, write)


def _check(counts: Any, wanted: Any, what: str, path: Path) -> None:
    """Compare numbers of samples of each label with those of the dataset."""
    found = np.asarray(counts).ravel().tolist()
    if found != list(wanted):
        raise ParseError(f"{what} are {found}, wanted {list(wanted)}; this is not the dataset.", path.name)


def _pair(paths: list[Path], n_features: int, counts: tuple[tuple[int, ...], ...]) -> Arrays:
    """Training and test part of LIBSVM files; labels in ascending order."""
    found: Arrays = {}
    labels: list[int] | None = None
    for part, path, wanted in zip(("train", "test"), paths, counts, strict=True):
        data = read_libsvm_multilabel(path, labels=labels, n_features=n_features)
        labels = [int(label) for label in data.label_names]
        _check(np.sort(data.Y.sum(axis=0)), sorted(wanted), "numbers of samples with each label", path)
        found[f"X_{part}"], found[f"y_{part}"] = data.X.toarray(), data.Y.astype(np.uint8)
    return found


def _scene(paths: list[Path]) -> dict[str, Any]:
    return {"scene.npz": _pair(paths, 294, ((227, 165, 197, 196, 277, 224), (200, 199, 200, 237, 256, 207)))}


def _yeast(paths: list[Path]) -> dict[str, Any]:
    train = (476, 645, 598, 532, 441, 378, 261, 289, 98, 161, 198, 1128, 1116, 21)
    test = (286, 393, 385, 330, 281, 219, 167, 191, 80, 92, 91, 688, 683, 13)
    return {"yeast.npz": _pair(paths, 103, (train, test))}


def _usps(paths: list[Path]) -> dict[str, Any]:
    train, test = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644), (359, 264, 198, 166, 200, 160, 170, 147, 166, 177)
    found = _pair(paths, 256, (train, test))
    for part in ("train", "test"):
        found[f"X_{part}"] = ((found[f"X_{part}"] + 1.0) / 2.0).astype(np.float32)
        found[f"y_{part}"] = found[f"y_{part}"].argmax(axis=1)
    return {"usps.npz": found}


def _letters(paths: list[Path]) -> dict[str, Any]:
    """Lines of tabs: id, letter, id of the next letter or -1, word, position, fold, 16 x 8 pixels."""
    pixels, labels, folds, lengths, words = bytearray(), [], [], [], []
    word = ""
    for number, line in lines(paths[0], Limits(bytes=1 << 28)):
        row = line.rstrip("\t").split("\t")
        if row == [""]:
            continue
        bits = "".join(row[6:])
        if len(row) != 134 or len(row[1]) != 1 or not "a" <= row[1] <= "z" or len(bits) != 128 or bits.strip("01"):
            raise ParseError("wanted a letter, numbers and 128 pixels, separated by tabs.", paths[0].name, number)
        pixels += np.packbits(np.frombuffer(bits.encode(), dtype=np.uint8) - ord("0")).tobytes()
        labels.append(ord(row[1]) - ord("a"))
        word += row[1]
        if row[2] == "-1":
            if row[5] not in tuple("0123456789"):
                raise ParseError(f"the fold is {row[5]!r}, wanted 0 to 9.", paths[0].name, number)
            folds.append(int(row[5]))
            lengths.append(len(word))
            words.append(word)
            word = ""
    counts = (626, 704, 684, 698, 693, 651, 739, 717, 690, 675)
    _check(np.bincount(folds, minlength=10), counts, "numbers of words in each fold", paths[0])
    _check([len(labels), sum(lengths)], [52152, 52152], "numbers of letters, and of those in words that end,", paths[0])
    return {
        "letters.npz": {
            "pixels_packed": np.frombuffer(bytes(pixels), dtype=np.uint8).reshape(-1, 16),
            "labels": np.array(labels, dtype=np.uint8),
            "lengths": np.array(lengths, dtype=np.int32),
            "folds": np.array(folds, dtype=np.uint8),
            "words": np.array(words),
        }
    }


_CONLL = {
    "train.txt": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "test.txt": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
}


def _conll(paths: list[Path]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, wanted in _CONLL.items():
        try:
            with zipfile.ZipFile(paths[0]) as archive, archive.open(f"conll2000/{name}") as file:
                text = file.read(_LARGEST + 1)
        except (zipfile.BadZipFile, KeyError, EOFError, RuntimeError, zlib.error) as error:
            raise ParseError(f"conll2000/{name} cannot be read from the archive ({error}).", paths[0].name) from error
        digest = hashlib.sha256(text).hexdigest()
        if digest != wanted:
            raise ParseError(f"conll2000/{name} has the SHA-256 {digest}, wanted {wanted}.", paths[0].name)
        found[f"{name}.gz"] = text
    return found


SOURCES = {
    "scene": Source(
        ("scene.npz",), (Remote(f"{_LIBSVM}multilabel/scene_train.bz2"), Remote(f"{_LIBSVM}multilabel/scene_test.bz2")), _scene
    ),
    "yeast": Source(
        ("yeast.npz",),
        (Remote(f"{_LIBSVM}multilabel/yeast_train.svm.bz2"), Remote(f"{_LIBSVM}multilabel/yeast_test.svm.bz2")),
        _yeast,
    ),
    "usps": Source(
        ("usps.npz",),
        (
            Remote(f"{_LIBSVM}multiclass/usps.bz2", "ec16c51db3855ca6c91edd34d0e9b197"),
            Remote(f"{_LIBSVM}multiclass/usps.t.bz2", "8ea070ee2aca1ac39742fdd1ef5ed118"),
        ),
        _usps,
    ),
    "letters": Source(("letters.npz",), (Remote("https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"),), _letters),
    "conll2000": Source(("train.txt.gz", "test.txt.gz"), (Remote(f"{_NLTK}conll2000.zip"),), _conll),
}
