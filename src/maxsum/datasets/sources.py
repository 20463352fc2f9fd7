"""Where each dataset comes from: addresses, sizes, checksums and licences.

A checksum stands here only if it was computed from that very file, or is published by others; where there is none, `convert`
compares what is inside with published numbers of samples, and `download` reports what it computed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from . import convert
from .transfer import Remote

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
_GITHUB = "https://raw.githubusercontent.com/"
_NLTK = f"{_GITHUB}nltk/nltk_data/5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora/"
_YEAST = f"{_GITHUB}daricyang/Mutli-tagging/675778d17641a4eae6aa6d66d533971737715a3f/data/"
_WEBKB = f"{_GITHUB}hazdzz/ChebyNet/c8564bdb86c144df7f7238f480b52d751830ccb9/data/"
_PYTUDES = f"{_GITHUB}norvig/pytudes/414fe258a4181c2a819959d9a29bfcbe4c4b19c7/py/"
_CFN = f"{_GITHUB}toulbar2/CFN-learn/f02969d987f015ab3bb13a56cacc594349b18295/Sudoku/validation-set/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
_MICROSOFT = "https://download.microsoft.com/download/3/3/9/339D8A24-47D7-412F-A1E8-1A415BC48A15/"
_DISSOLVE = (
    f"{_GITHUB}dalab/dissolve-struct/67f37377b74c32cf05d8f43a0e3658a10864f9bf/dissolve-struct-examples/src/main/resources/"
)


class Source(NamedTuple):
    """A dataset on the net.

    Attributes
    ----------
    title : str
        What it is, in a few words.
    licence : str
        What its authors allow, or that they do not say.
    files : tuple of str
        What is kept here.
    remotes : tuple of Remote
        Where it comes from.
    make : callable
        Paths of what came to names of ``files`` and their content: arrays, or bytes.
    checked : str
        What is compared with known values.
    """

    title: str
    licence: str
    files: tuple[str, ...]
    remotes: tuple[Remote, ...]
    make: Callable[[list[Path]], dict[str, Any]]
    checked: str

    @property
    def size(self) -> int | None:
        """Bytes to download, where they are known."""
        sizes = [remote.size for remote in self.remotes]
        return None if None in sizes else sum(size for size in sizes if size is not None)


_PAGES = {
    "cornell.content": ("28d1a6593981e47859965341735b2b9e1b42ea96502dad3c0857b3bf8967e960", 676692),
    "cornell.cites": ("9b553733f8621bde1e149b2570da31701d6c41ac1263a4d1e94bc9fd08054a13", 30824),
    "texas.content": ("b56017ff6e0097218f238c6dafa5265e0bbe70c0cae39b3a5a4d862611d36b98", 645878),
    "texas.cites": ("c7b6cc42170870e4470dafd9ad9330422d42ae2a1f3a746aba93039dc8b41710", 24174),
    "washington.content": ("89a63171f394529849da1319b3d55426582c04dc9cdb196c29c5335931269e60", 796102),
    "washington.cites": ("7aa0e59b0dcba44f63fe2248671bb4c551e7322ecb512284732a08a968759223", 40624),
    "wisconsin.content": ("bca4574c8f77db5bda3ad9fc734f67ea87b06c43e239b9bb77725ea58d0315d6", 915830),
    "wisconsin.cites": ("f5b60f45a277d93f4e883d8845b4e81fda632818ba0fe8ab8d118d9d2a9e9c73", 41900),
}

SOURCES = {
    "scene": Source(
        "images of scenes, 294 features, 6 labels (Boutell and others, 2004)",
        "none stated",
        ("scene.npz",),
        (Remote(f"{_LIBSVM}multilabel/scene_train.bz2"), Remote(f"{_LIBSVM}multilabel/scene_test.bz2")),
        convert.scene,
        "samples of each label",
    ),
    "yeast": Source(
        "functions of genes, 103 features, 14 labels (Elisseeff and Weston, 2001)",
        "none stated",
        ("yeast.npz",),
        (
            Remote(f"{_YEAST}yeast-train.arff", "04e317497bafdd3710a996cbecdf375efe23019dd32a534fef8373fd870ce81e", 1501116),
            Remote(f"{_YEAST}yeast-test.arff", "12c2c2d84bbff103e5f66d29dad2cfa84eb736d537c434668debb96bf6a5842e", 918514),
        ),
        convert.yeast,
        "SHA-256",
    ),
    "usps": Source(
        "handwritten digits, 16 x 16 pixels",
        "none stated",
        ("usps.npz",),
        (
            Remote(f"{_LIBSVM}multiclass/usps.bz2", md5="ec16c51db3855ca6c91edd34d0e9b197"),
            Remote(f"{_LIBSVM}multiclass/usps.t.bz2", md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
        ),
        convert.usps,
        "MD5, samples of each label",
    ),
    "letters": Source(
        "handwritten words, 16 x 8 pixels a letter, 10 folds (Kassel, 1995; Taskar and others, 2003)",
        "none stated",
        ("letters.npz",),
        (Remote("https://ai.stanford.edu/~btaskar/ocr/letter.data.gz"),),
        convert.letters,
        "words of each fold",
    ),
    "conll2000": Source(
        "words, parts of speech and chunks (Tjong Kim Sang and Buchholz, 2000)",
        "for research: text of the Wall Street Journal",
        ("train.txt.gz", "test.txt.gz"),
        (Remote(f"{_NLTK}conll2000.zip"),),
        convert.conll,
        "SHA-256 of the texts",
    ),
    "webkb": Source(
        "web pages of four universities, 1703 words, links, 5 classes (Craven and others, 1998)",
        "none stated",
        tuple(_PAGES),
        tuple(Remote(f"{_WEBKB}{name.partition('.')[0]}/{name}", *known) for name, known in _PAGES.items()),
        convert.unchanged,
        "SHA-256",
    ),
    "reuters21578": Source(
        "21578 newswire stories with topics (Lewis, 1997)",
        "for research only",
        ("index.tsv.gz", "reuters21578.tar.xz"),
        (Remote(f"{_UCI}reuters21578-mld/reuters21578.tar.gz"),),
        convert.reuters,
        "documents of each split",
    ),
    "sudoku": Source(
        "145 puzzles of Norvig's pages, and 18000 solved ones of 17 to 34 digits",
        "MIT (pytudes); none stated (CFN-learn)",
        ("norvig_with_solutions.csv", "rrn-validation.csv.xz"),
        (
            Remote(f"{_PYTUDES}sudoku-easy50.txt", "42e6745e6dad9c8a35e73254b9e3b5fcfb203995a72f87f5df6cf598f1c47d05", 4100),
            Remote(f"{_PYTUDES}sudoku-top95.txt", "b16eff35fbe41fb7b122f21c5c6ba30b85861b47946d33257070df1a69cddd36", 7790),
            Remote(f"{_CFN}rrn-validation.csv.xz", "aaa8fe47c1f4645a4d82dc8c2713d78c41d68c096451b7ed325059dffc145932", 1040552),
        ),
        convert.sudoku,
        "SHA-256",
    ),
    "msrc_v2": Source(
        "591 photographs, each pixel of one of 23 classes or void (Shotton and others, 2006)",
        "not for commercial use (Microsoft Research Digital Image License); halved here, which a copy must say",
        ("msrc_v2_half.npz",),
        (
            Remote(f"{_MICROSOFT}msrc_objcategimagedatabase_v2.zip", most=1 << 29),
            Remote(f"{_DISSOLVE}imageseg_train.txt"),
            Remote(f"{_DISSOLVE}imageseg_test.txt"),
        ),
        convert.msrc,
        "numbers of images, colours of all labels",
    ),
}
