r"""Several labels at once on public data, beside scikit-learn: one machine for each label, a chain of machines, and our network, in one run.

All see the same features, scaled to a largest size of 1 by the training part. The base of the peers is `LinearSVC`; ours has the same hinge for
each label and a table for pairs of labels (a spanning tree of their mutual information, or all pairs where there are few). Each has its own
:math:`C`, chosen on a third of the training part that is held out for it; the test part of the collection is used once.
"""

from __future__ import annotations

import time
import warnings
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import ParseError
from ..datasets.multilabel import read_arff
from ..estimators.multilabel import MultiLabelClassifier
from ..metrics import hamming_loss
from . import Claim, Progress, Report, data_folder

SOURCE = (
    "NAME-train.arff, NAME-test.arff (perhaps packed as .xz) and NAME.xml of the Mulan collection, github.com/tsoumakas/mulan."
)
NAMES = ("emotions", "medical", "enron", "bibtex", "corel5k")
FILES = tuple(f"{name}{end}" for name in NAMES for end in ("-train.arff.xz", "-test.arff.xz", ".xml"))
FEW = 20  # labels up to which all pairs have a table; more have a spanning tree, whose problems are exact as well
C_VALUES = (0.01, 0.1, 1.0, 10.0)
QUICK_C = (0.1, 1.0)  # the same in a quick run
N_QUICK = 120  # rows of each part in a quick run
HELD_OUT = 3  # one of so many training rows is held out to choose C
SEED = 0  # of the order of rows and of the chain
TOL = 1e-2  # relative gap of a training
MAX_SECONDS = 60.0  # of a training
LARGEST_XML = 2**20  # bytes of a file of label names
METHODS = ("one-vs-rest", "chain", "maxsum")


class Part(NamedTuple):
    """Features and indicators of labels."""

    X: Any
    Y: np.ndarray


class Found(NamedTuple):
    """One row: errors in percent, CPU seconds of the last training, C, relative gap (nan for the peers)."""

    data: str
    method: str
    C: float
    hamming: float
    subset: float
    f1: float
    seconds: float
    gap: float


def label_names(path: Path) -> list[str]:
    """Names of the attributes that are labels, from a Mulan header."""
    if path.stat().st_size > LARGEST_XML:
        raise ParseError(f"the file has {path.stat().st_size} bytes, wanted {LARGEST_XML} at most.", str(path))
    text = path.read_text(encoding="utf-8")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ParseError("the file declares entities, wanted label elements alone.", str(path))
    try:
        root = xml.fromstring(text)
    except xml.ParseError as error:
        raise ParseError(f"it is no XML: {error}.", str(path)) from error
    found = [own.get("name", "") for own in root.iter() if own.tag.rpartition("}")[2] == "label"]
    if not found or "" in found:
        raise ParseError("there is no label with a name, wanted <label name=...> elements.", str(path))
    return found


def load(folder: Path, name: str, limit: int | None = None) -> tuple[Part, Part]:
    """Training and test part, features scaled by the training part."""
    from sklearn.preprocessing import MaxAbsScaler

    labels = label_names(folder / f"{name}.xml")
    both = [read_arff(folder / f"{name}-{part}.arff.xz", labels) for part in ("train", "test")]
    scaler = MaxAbsScaler().fit(both[0].X)
    train, test = (Part(scaler.transform(own.X)[:limit], own.Y[:limit]) for own in both)
    return train, test


def machine(method: str, C: float, n_labels: int, limit: float = MAX_SECONDS) -> Any:
    """An untrained classifier."""
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import ClassifierChain
    from sklearn.svm import LinearSVC

    base = LinearSVC(C=C, loss="hinge", random_state=SEED)
    if method == "one-vs-rest":
        return OneVsRestClassifier(base)
    if method == "chain":
        return ClassifierChain(base, order="random", random_state=SEED)
    graph = "complete" if n_labels <= FEW else "tree"
    return MultiLabelClassifier(label_graph=graph, C=C, tol=TOL, time_limit=limit)


def fit(method: str, C: float, part: Part, limit: float) -> tuple[Any, float]:
    """A trained classifier and its CPU seconds. Peers need both values of each label: labels without get a constant answer from scikit-learn, or
    are left out of the chain."""
    from sklearn.exceptions import ConvergenceWarning

    net = machine(method, C, part.Y.shape[1], limit)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        net.fit(part.X, part.Y)
    return net, time.process_time() - began


def varied(Y: np.ndarray) -> np.ndarray:
    """Which labels are neither on nor off in all rows."""
    return np.asarray((Y.min(axis=0) < Y.max(axis=0)).nonzero()[0])


def f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    """F1 over all rows and labels together."""
    return float(2 * (truth & predicted).sum() / max(1, truth.sum() + predicted.sum()))


def measure(name: str, method: str, train: Part, test: Part, quick: bool) -> Found:
    """Choose C on held out rows, train on all, test. Labels that do not vary in training are predicted as they are there."""
    order = np.random.default_rng(SEED).permutation(len(train.Y))
    held, rest = order[::HELD_OUT], np.setdiff1d(order, order[::HELD_OUT])
    seconds = MAX_SECONDS / 10 if quick else MAX_SECONDS
    some = varied(train.Y[rest])
    losses = {}
    for C in QUICK_C if quick else C_VALUES:
        net, _ = fit(method, C, Part(train.X[rest], train.Y[rest][:, some]), seconds)
        losses[C] = float(hamming_loss(train.Y[held][:, some], np.asarray(net.predict(train.X[held])).astype(int)))
    C = min(losses, key=lambda own: losses[own])
    some = varied(train.Y)
    net, taken = fit(method, C, Part(train.X, train.Y[:, some]), seconds)
    predicted = np.tile(train.Y[0], (len(test.Y), 1))
    predicted[:, some] = np.asarray(net.predict(test.X)).astype(int)
    gap = net.result_.relative_gap if method == "maxsum" else np.nan
    wrong = predicted != test.Y
    return Found(
        name, method, C, 100 * wrong.mean(), 100 * (~wrong.any(axis=1)).mean(), 100 * f1(test.Y, predicted), taken, gap
    )


def run(quick: bool, progress: Progress) -> Report:
    """All methods on all data; quick: some rows of the smallest."""
    folder = data_folder("mulan", FILES[:3] if quick else FILES, SOURCE)
    found: list[Found] = []
    for name in NAMES[:1] if quick else NAMES:
        train, test = load(folder, name, N_QUICK if quick else None)
        for method in METHODS:
            found.append(measure(name, method, train, test, quick))
            progress(f"{name}, {method}: Hamming {found[-1].hamming:.2f} %, {found[-1].seconds:.1f} CPU s")
    return report(found)


def report(found: list[Found]) -> Report:
    """Claims and table."""
    ours = [own for own in found if own.method == "maxsum"]
    worst = max(own.gap for own in ours)
    claims = [
        Claim("largest gap of our trainings, certified", "", f"{worst:.1e}", worst <= TOL, f"at most {TOL:g}"),
        *(
            Claim(
                f"data on which ours has {words} than both peers",
                "",
                f"{sum(all(better(own, peer) for peer in found if peer.data == own.data and peer.method != 'maxsum') for own in ours)} of {len(ours)}",
            )
            for words, better in (
                ("a lower Hamming loss", lambda a, b: a.hamming < b.hamming),
                ("more rows with all labels right", lambda a, b: a.subset > b.subset),
                ("a higher F1", lambda a, b: a.f1 > b.f1),
            )
        ),
    ]
    rows = [
        (
            own.data, own.method, f"{own.C:g}", f"{own.hamming:.2f}", f"{own.subset:.1f}", f"{own.f1:.1f}", f"{own.seconds:.1f}",
            "" if np.isnan(own.gap) else f"{own.gap:.1e}",
        )
        for own in found
    ]  # fmt: skip
    return Report(
        "mulan",
        "Mulan collection, its own splits",
        "Several labels at once, beside scikit-learn in one run",
        tuple(claims),
        ("data", "method", "C", "Hamming %", "all labels right %", "F1 % (micro)", "CPU s", "gap"),
        tuple(rows),
        (
            f"C of each method from {', '.join(f'{C:g}' for C in C_VALUES)} by the Hamming loss on every third row of the training part in random order "
            f"(seed {SEED}); then it is trained on the whole part. CPU seconds are those of that training.",
            f"one-vs-rest and chain: LinearSVC with hinge loss (the chain in random order, seed {SEED}). maxsum: Hamming loss, all pairs of up to {FEW} "
            f"labels, a spanning tree of more; to a relative gap of {TOL:g} or {MAX_SECONDS:g} s. The peers prove nothing.",
            "Labels that are on or off in all training rows are predicted so by all methods.",
        ),
    )
