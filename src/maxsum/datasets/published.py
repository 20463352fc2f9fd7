"""Published datasets, as the estimators take them; what is not on this machine is downloaded first."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import ParseError
from .conll import conll_features, read_conll
from .fetch import download
from .reuters import Story, read_reuters
from .small import check_subset
from .sudoku import FILE, read_sudoku
from .transfer import Progress
from .webkb import read_linked_pages

if TYPE_CHECKING:
    from ..models.sample import GraphSample

_MOST_BYTES = 1 << 30  # of one array in an archive
UNIVERSITIES = ("cornell", "texas", "washington", "wisconsin")
Folder = str | os.PathLike[str] | None
Lists = tuple[list[np.ndarray], list[np.ndarray]]


def fetch_scene(
    subset: str = "train", *, folder: Folder = None, progress: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Labels of scenes (Boutell and others, 2004), for `MultiLabelClassifier`: 1211 images to train, 1196 to test.

    Parameters
    ----------
    subset : {"train", "test"}
        The usual split.
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : ndarray, shape (n_samples, 294)
    Y : ndarray of int64, shape (n_samples, 6)
        1 for beach, sunset, fall foliage, field, mountain, urban.
    """
    return _split("scene", subset, folder, progress)


def fetch_yeast(
    subset: str = "train", *, folder: Folder = None, progress: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Functions of genes (Elisseeff and Weston, 2001), for `MultiLabelClassifier`: 1500 genes to train, 917 to test.

    Parameters
    ----------
    subset : {"train", "test"}
        The usual split.
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : ndarray, shape (n_samples, 103)
    Y : ndarray of int64, shape (n_samples, 14)
    """
    return _split("yeast", subset, folder, progress)


def fetch_usps(
    subset: str = "train", *, folder: Folder = None, progress: Progress | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits of envelopes: 7291 to train, 2007 to test.

    Parameters
    ----------
    subset : {"train", "test"}
        The usual split.
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : ndarray, shape (n_samples, 256)
        Grey values in [0, 1] of 16 x 16 pixels, row by row.
    y : ndarray of int64, shape (n_samples,)
        Digits.
    """
    return _split("usps", subset, folder, progress)


def fetch_letters(
    *, folder: Folder = None, progress: Progress | None = None
) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """Handwritten words (Kassel, 1995; Taskar and others, 2003), for `SequenceLabeler`: 6877 words without their first letters.

    Parameters
    ----------
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : list of ndarray, shape (n_letters, 128)
        Binary pixels, 16 x 8 row by row, of each word.
    y : list of ndarray of int64, shape (n_letters,)
        0 for a, 25 for z.
    folds : ndarray of int64, shape (6877,)
        The fold of each word, 0 to 9; usually one is for training, nine for tests.
    """
    path = download("letters", folder, progress=progress) / "letters.npz"
    packed, labels, lengths, folds = arrays(path, ("pixels_packed", "labels", "lengths", "folds"))
    if packed.shape != (len(labels), 16) or lengths.sum() != len(labels) or len(folds) != len(lengths) or lengths.min() < 1:
        raise ParseError(f"{len(labels)} labels, {packed.shape} pixels and {lengths.sum()} letters do not fit.", str(path))
    ends = np.cumsum(lengths)[:-1]
    X = np.split(np.unpackbits(packed, axis=1).astype(np.float64), ends)
    return X, np.split(labels.astype(np.int64), ends), folds.astype(np.int64)


def fetch_conll2000(
    subset: str = "train", *, window: int = 2, folder: Folder = None, progress: Progress | None = None
) -> tuple[list[list[dict[str, Any]]], list[list[str]]]:
    """Chunks of sentences (Tjong Kim Sang and Buchholz, 2000), for `SequenceLabeler`: 8936 sentences to train, 2012 to test.

    Parameters
    ----------
    subset : {"train", "test"}
        The split of the shared task.
    window : int
        How far features look to each side; see `conll_features`.
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : list of lists of dicts
        Features of each token.
    y : list of lists of str
        Chunk tags such as ``B-NP``.
    """
    check_subset(subset)
    path = download("conll2000", folder, progress=progress) / f"{subset}.txt.gz"
    sentences = read_conll(path)
    if any(len(token) != 3 for sentence in sentences[:1] for token in sentence):
        raise ParseError("wanted three columns: word, part of speech, chunk.", str(path))
    return [conll_features(sentence, window) for sentence in sentences], [[token[2] for token in s] for s in sentences]


def fetch_webkb(
    *, folder: Folder = None, progress: Progress | None = None
) -> tuple[list[GraphSample], list[np.ndarray], np.ndarray]:
    """Web pages of four universities with their links (Craven and others, 1998), for `GraphLabeler`: one graph a university.

    Parameters
    ----------
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : list of GraphSample
        1703 words of each page, 1 where it has them; an edge where one page links to another.
    y : list of ndarray of str
        The class of each page: course, faculty, project, staff or student.
    groups : ndarray of str, shape (4,)
        Names of the universities; usually three are for training, one for tests.
    """
    place = download("webkb", folder, progress=progress)
    found = [read_linked_pages(place / f"{name}.content", place / f"{name}.cites") for name in UNIVERSITIES]
    return [pages.sample() for pages in found], [pages.y for pages in found], np.array(UNIVERSITIES)


def fetch_reuters(*, folder: Folder = None, progress: Progress | None = None) -> list[Story]:
    """Newswire stories with topics, dates and the ModApte split (Lewis, 1997); make features and a graph of them first.

    Parameters
    ----------
    folder, progress : optional
        As of `download`.

    Returns
    -------
    list of Story
        21578 stories: number, part, date, topics and text of each.
    """
    return read_reuters(download("reuters21578", folder, progress=progress) / "reuters21578.tar.xz")


def fetch_sudoku(subset: str | None = None, *, folder: Folder = None, progress: Progress | None = None) -> Lists:
    """Norvig's Sudoku puzzles with their solutions: 50 easy and 95 hard ones.

    Parameters
    ----------
    subset : {"sudoku-easy50", "sudoku-top95"}, optional
        All by default.
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : list of ndarray of int64, shape (81,)
        Given digits, 0 for a blank.
    y : list of ndarray of int64, shape (81,)
        Digits of the solution, 1 to 9.
    """
    return read_sudoku(download("sudoku", folder, progress=progress) / FILE, subset)


def fetch_msrc(subset: str = "train", *, folder: Folder = None, progress: Progress | None = None) -> Lists:
    """Photographs with the class of each pixel (Shotton and others, 2006), at half resolution, for `GridLabeler`.

    Not for commercial use: see the licence that `download` writes beside it.

    Parameters
    ----------
    subset : {"train", "test"}
        335 images (training and validation of TextonBoost), or 256.
    folder, progress : optional
        As of `download`.

    Returns
    -------
    X : list of ndarray, shape (height, width, 3)
        Red, green and blue in [0, 1].
    y : list of ndarray of int64, shape (height, width)
        0 to 20 for the 21 usual classes, -1 for void, horse and mountain, which are unknown to the estimators.
    """
    part = check_subset(subset)
    path = download("msrc_v2", folder, progress=progress) / "msrc_v2_half.npz"
    size, pixels, labels, split = arrays(path, ("size", "image", "label", "split"))
    size = size.astype(np.int64)
    ends = np.cumsum(size[:, 0] * size[:, 1])
    if len(split) != len(size) or len(labels) != ends[-1] or len(pixels) != 3 * ends[-1]:
        raise ParseError(f"{len(pixels)} colours, {len(labels)} labels and sizes of {ends[-1]} pixels do not fit.", str(path))
    X, y = [], []
    for i in np.flatnonzero(split == part).tolist():
        height, width = size[i].tolist()
        begin, end = int(ends[i]) - height * width, int(ends[i])
        own = labels[begin:end].reshape(height, width).astype(np.int64)
        X.append(pixels[3 * begin : 3 * end].reshape(height, width, 3) / 255.0)
        y.append(np.where(own > 20, -1, own))
    return X, y


def arrays(path: Path, names: Sequence[str]) -> list[np.ndarray]:
    """Arrays of an ``.npz`` file, which is never unpickled; what a header declares is compared with what the file holds first."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            missing = [name for name in names if name not in members]
            if missing:
                raise ParseError(f"{missing[0]} is missing, wanted {', '.join(names)}.", str(path))
            return [_array(archive, members[name]) for name in names]
    except ParseError:
        raise
    except Exception as error:  # zipfile and numpy have no common base for what broken files raise
        raise ParseError(f"this is no file of arrays ({error}). Remove it to fetch it again.", str(path)) from error


def _array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(member)
        size = math.prod(shape) * dtype.itemsize
        if dtype.hasobject or size > _MOST_BYTES or info.file_size != member.tell() + size:
            raise ValueError(f"{info.filename} declares {dtype} of shape {shape}, and holds {info.file_size} bytes")
        data = member.read(size)
        return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def _split(name: str, subset: str, folder: Folder, progress: Progress | None) -> tuple[np.ndarray, np.ndarray]:
    check_subset(subset)
    path = download(name, folder, progress=progress) / f"{name}.npz"
    X, y = arrays(path, (f"X_{subset}", f"y_{subset}"))
    if X.ndim != 2 or len(X) != len(y):
        raise ParseError(f"X has shape {X.shape} and y has shape {y.shape}, wanted a row for each.", str(path))
    return X.astype(np.float64), y.astype(np.int64)
