"""Files of a dataset as its authors publish them, to the files that are kept: names to arrays, or to bytes as they are.

What comes is compared with what is known about the data: checksums of members of archives, numbers of samples of each label.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import re
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from ..core.errors import ParseError
from ..core.files.text import Limits
from .multilabel import MultiLabelData, read_arff, read_libsvm_multilabel
from .source import lines
from .sudoku import read_givens
from .sudoku_puzzles import solutions

Arrays = dict[str, np.ndarray]
Files = dict[str, Any]

_LARGEST = 1 << 26  # bytes of an archive that is read into memory; the published ones are smaller
_VOID = 255  # label of pixels without a class
_PARTS = ("train", "test")
_BROKEN = (zipfile.BadZipFile, tarfile.TarError, KeyError, EOFError, RuntimeError, NotImplementedError, zlib.error, OSError)


def check(counts: Any, wanted: Any, what: str, path: Path) -> None:
    """Compare numbers of samples with those of the dataset.

    Parameters
    ----------
    counts, wanted : sequence of int
    what : str
        What is counted, for the message.
    path : Path
        Where it was read from.
    """
    found = np.asarray(counts).ravel().tolist()
    if found != list(wanted):
        raise ParseError(f"{what} are {found}, wanted {list(wanted)}; this is not the dataset.", path.name)


def _libsvm_parts(paths: list[Path], n_features: int) -> list[MultiLabelData]:
    """Training and test part of LIBSVM files; labels in ascending order."""
    train = read_libsvm_multilabel(paths[0], n_features=n_features)
    labels = [int(label) for label in train.label_names]
    return [train, read_libsvm_multilabel(paths[1], labels=labels, n_features=n_features)]


def _split(parts: list[MultiLabelData], paths: list[Path], counts: tuple[tuple[int, ...], ...]) -> Arrays:
    found: Arrays = {}
    for part, data, path, wanted in zip(_PARTS, parts, paths, counts, strict=True):
        check(np.sort(data.Y.sum(axis=0)), sorted(wanted), "numbers of samples with each label", path)
        X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
        found[f"X_{part}"], found[f"y_{part}"] = X, data.Y.astype(np.uint8)
    return found


def scene(paths: list[Path]) -> Files:
    """The Scene data (Boutell et al. 2004) as ``scene.npz``, its label counts compared with the published ones."""
    counts = ((227, 165, 197, 196, 277, 224), (200, 199, 200, 237, 256, 207))
    return {"scene.npz": _split(_libsvm_parts(paths, 294), paths, counts)}


def yeast(paths: list[Path]) -> Files:
    """The Yeast data (Elisseeff & Weston 2001) as ``yeast.npz``, its label counts compared with the published ones."""
    train = (476, 645, 598, 532, 441, 378, 261, 289, 98, 161, 198, 1128, 1116, 21)
    test = (286, 393, 385, 330, 281, 219, 167, 191, 80, 92, 91, 688, 683, 13)
    return {"yeast.npz": _split([read_arff(path, 14) for path in paths], paths, (train, test))}


def usps(paths: list[Path]) -> Files:
    """The USPS digits as ``usps.npz``: pixels from 0 to 1, class counts compared with the published ones."""
    train, test = (1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644), (359, 264, 198, 166, 200, 160, 170, 147, 166, 177)
    found = _split(_libsvm_parts(paths, 256), paths, (train, test))
    for part in _PARTS:
        found[f"X_{part}"] = ((found[f"X_{part}"] + 1.0) / 2.0).astype(np.float32)
        found[f"y_{part}"] = found[f"y_{part}"].argmax(axis=1)
    return {"usps.npz": found}


def letters(paths: list[Path]) -> Files:
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
    check(np.bincount(folds, minlength=10), counts, "numbers of words in each fold", paths[0])
    check([len(labels), sum(lengths)], [52152, 52152], "numbers of letters, and of those in words that end,", paths[0])
    return {
        "letters.npz": {
            "pixels_packed": np.frombuffer(bytes(pixels), dtype=np.uint8).reshape(-1, 16),
            "labels": np.array(labels, dtype=np.uint8),
            "lengths": np.array(lengths, dtype=np.int32),
            "folds": np.array(folds, dtype=np.uint8),
            "words": np.array(words),
        }
    }


CONLL = {
    "train.txt": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "test.txt": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
}


def conll(paths: list[Path]) -> Files:
    """The CoNLL-2000 chunking data as compressed text files, their SHA-256 compared with the known ones."""
    found: Files = {}
    for name, wanted in CONLL.items():
        try:
            with zipfile.ZipFile(paths[0]) as archive, archive.open(f"conll2000/{name}") as file:
                text = file.read(_LARGEST + 1)
        except _BROKEN as error:
            raise ParseError(f"conll2000/{name} cannot be read from the archive ({error}).", paths[0].name) from error
        digest = hashlib.sha256(text).hexdigest()
        if digest != wanted:
            raise ParseError(f"conll2000/{name} has the SHA-256 {digest}, wanted {wanted}.", paths[0].name)
        found[f"{name}.gz"] = gzip.compress(text, mtime=0)
    return found


def unchanged(paths: list[Path]) -> Files:
    """The files as they are: their checksums are known."""
    return {path.name: path.read_bytes() for path in paths}


def sudoku(paths: list[Path]) -> Files:
    """Puzzles of Norvig's pages with their solutions, which are computed here and must be unique; and solved puzzles of others."""
    rows = []
    for path in paths[:2]:
        for given in read_givens(path):
            found = solutions(given, most=2)
            if len(found) != 1:
                raise ParseError(
                    f"puzzle {''.join(map(str, given))} has {len(found)} solutions or more, wanted one.", path.name
                )
            rows.append(f"{path.stem},{''.join(map(str, given))},{''.join(map(str, found[0]))},1\n")
    return {"norvig_with_solutions.csv": "".join(rows).encode(), **unchanged(paths[2:])}


_DOCUMENT = re.compile(rb"<REUTERS ([^>]*)>(.*?)</REUTERS>", re.DOTALL)
_ATTRIBUTE = re.compile(rb'(\w+)="([^"]*)"')
_DATE = re.compile(rb"<DATE>\s*(\d+)-([A-Z]{3})-(\d{4}) (\d\d:\d\d:\d\d)")
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_TOPICS = re.compile(rb"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
_TOPIC = re.compile(rb"<D>(.*?)</D>", re.DOTALL)
_N_REUTERS = {"train": 9603, "test": 3299, "": 8676}  # stories of the ModApte split and unused ones, as published
_N_MSRC = (335, 256)  # images of the training and the test half


def reuters(paths: list[Path]) -> Files:
    """The files of the archive, packed as xz, and an index: a line a document, with its number, splits, date and topics."""
    table = ["newid\tlewissplit\ttopics_attr\tmodapte\tdate\ttopics"]
    counts = dict.fromkeys(_N_REUTERS, 0)
    try:
        with tarfile.open(paths[0]) as archive:
            members = [member for member in archive if member.isfile() and re.search(r"reut2-\d{3}\.sgm$", member.name)]
            for member in sorted(members, key=lambda one: one.name):
                file = archive.extractfile(member)
                text = b"" if file is None else file.read(_LARGEST)
                for document in _DOCUMENT.finditer(text):
                    row = _index_row(document)
                    counts[row[3]] += 1
                    table.append("\t".join(row))
    except _BROKEN as error:
        raise ParseError(f"the archive cannot be read ({error}).", paths[0].name) from error
    check(list(counts.values()), list(_N_REUTERS.values()), "numbers of documents to train, to test, and of neither", paths[0])
    with gzip.open(paths[0]) as packed:
        return {
            "index.tsv.gz": gzip.compress(("\n".join(table) + "\n").encode(), mtime=0),
            "reuters21578.tar.xz": lzma.compress(packed.read(_LARGEST), preset=1),
        }


def _index_row(document: re.Match[bytes]) -> list[str]:
    """Number, split of Lewis, whether topics were given, ModApte split, date and topics of a document."""
    about = {key.decode("latin-1"): value.decode("latin-1") for key, value in _ATTRIBUTE.findall(document[1])}
    split, given = about.get("LEWISSPLIT", ""), about.get("TOPICS", "")
    modapte = {"TRAIN": "train", "TEST": "test"}.get(split, "") if given == "YES" else ""
    when = _DATE.search(document[2])
    date = ""
    if when is not None:
        day, month, year, clock = (part.decode() for part in when.groups())
        if month in _MONTHS:
            date = f"{year}-{_MONTHS.index(month) + 1:02}-{int(day):02}T{clock}"
    topics = _TOPICS.search(document[2])
    names = [] if topics is None else [name.decode("latin-1") for name in _TOPIC.findall(topics[1])]
    return [about.get("NEWID", ""), split, given, modapte, date, " ".join(names)]


MSRC_CLASSES = {
    "building": (128, 0, 0),
    "grass": (0, 128, 0),
    "tree": (128, 128, 0),
    "cow": (0, 0, 128),
    "sheep": (0, 128, 128),
    "sky": (128, 128, 128),
    "aeroplane": (192, 0, 0),
    "water": (64, 128, 0),
    "face": (192, 128, 0),
    "car": (64, 0, 128),
    "bicycle": (192, 0, 128),
    "flower": (64, 128, 128),
    "sign": (192, 128, 128),
    "bird": (0, 64, 0),
    "book": (128, 64, 0),
    "chair": (0, 192, 0),
    "road": (128, 64, 128),
    "cat": (0, 192, 128),
    "dog": (128, 192, 128),
    "body": (64, 64, 0),
    "boat": (192, 64, 0),
    "horse": (128, 0, 128),
    "mountain": (64, 0, 0),
}
"""Names and colours of the classes of MSRC v2; black is void."""


def msrc(paths: list[Path]) -> Files:
    """Images halved by averaging 2 x 2 pixels, labels by taking one of the four; which of two lists each is in."""
    parts = [[Path(line.strip()).stem for _, line in lines(path, Limits(bytes=1 << 20)) if line.strip()] for path in paths[1:]]
    check([len(part) for part in parts], _N_MSRC, "numbers of images to train and to test", paths[1])
    names = sorted(parts[0] + parts[1], key=lambda name: [int(number) for number in re.findall(r"\d+", name)])
    images, labels, sizes = [], [], []
    codes = {(r << 16) | (g << 8) | b: i for i, (r, g, b) in enumerate(MSRC_CLASSES.values())} | {0: _VOID}
    try:
        with zipfile.ZipFile(paths[0]) as archive:
            members = {Path(member).name.lower(): member for member in archive.namelist()}
            for name in names:
                image = _pixels(archive, members[f"{name}.bmp".lower()])
                truth = _pixels(archive, members[f"{name}_GT.bmp".lower()])
                if image.shape != truth.shape:
                    raise ParseError(
                        f"{name} has {image.shape[:2]} pixels, but its labels have {truth.shape[:2]}.", paths[0].name
                    )
                images.append(_halved(image))
                labels.append(_labels(truth[: truth.shape[0] // 2 * 2 : 2, : truth.shape[1] // 2 * 2 : 2], codes, name))
                sizes.append(labels[-1].shape)
    except _BROKEN as error:
        raise ParseError(f"the archive cannot be read ({error!r}).", paths[0].name) from error
    return {
        "msrc_v2_half.npz": {
            "ids": np.array(names),
            "size": np.array(sizes, dtype=np.int32),
            "image": np.concatenate([image.ravel() for image in images]),
            "label": np.concatenate([label.ravel() for label in labels]),
            "class_names": np.array(list(MSRC_CLASSES)),
            "class_rgb": np.array(list(MSRC_CLASSES.values()), dtype=np.uint8),
            "split": np.array([name in set(parts[1]) for name in names], dtype=np.uint8),
        }
    }


def _pixels(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    from PIL import Image

    with archive.open(member) as file, Image.open(file, formats=("BMP",)) as image:
        if image.width * image.height > 1 << 20:
            raise ParseError(f"{member} has {image.width} x {image.height} pixels; refused.")
        return np.asarray(image.convert("RGB"))


def _halved(image: np.ndarray) -> np.ndarray:
    height, width = image.shape[0] // 2, image.shape[1] // 2
    blocks = image[: 2 * height, : 2 * width].reshape(height, 2, width, 2, 3).astype(np.float64)
    return np.asarray(np.rint(blocks.mean(axis=(1, 3))).astype(np.uint8))


def _labels(colours: np.ndarray, codes: dict[int, int], name: str) -> np.ndarray:
    values = colours.astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    found, at = np.unique(values, return_inverse=True)
    unknown = [value for value in found.tolist() if value not in codes]
    if unknown:
        raise ParseError(f"the labels of {name} have the colour #{unknown[0]:06x}, which is that of no class.")
    return np.array([codes[value] for value in found.tolist()], dtype=np.uint8)[at].reshape(values.shape)
