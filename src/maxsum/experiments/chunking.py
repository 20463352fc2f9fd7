r"""Text chunking (CoNLL-2000): phrases of sentences as tags of words, a chain with sparse binary features.

Features are those of CRFsuite's example: words and parts of speech in a window of two to each side, pairs of adjacent words, pairs and
triples of adjacent parts of speech. :math:`C` is chosen by cross-validation on the training sentences. CRFsuite, where it is
installed (package python-crfsuite), is trained in the same run on the same features.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..datasets.conll import conll_features, read_conll
from ..estimators.cross.labelers import SequenceLabelerCV
from ..estimators.sequence import SequenceLabeler
from ..learning.learners.block_frank_wolfe import BlockFrankWolfe
from ..learning.result import LearningResult
from ..metrics import chunk_f1
from ..models.features import Dicts
from . import Claim, Progress, Report, data_folder
from .peers.crfsuite import train_crfsuite

SOURCE = "The files of the shared task, a word, its part of speech and its chunk tag a line: corpora/conll2000 of nltk_data."
FILES = ("train.txt.gz", "test.txt.gz")
VALUES = (0.03, 0.1, 0.2)  # of C
QUICK_VALUES = (0.1, 0.3)  # the same in a quick run
N_FOLDS = 3  # of the choice of C
N_QUICK = 150  # sentences of a quick run
MIN_F1 = 93.6  # wanted
TOL = 1e-2  # relative gap of a training
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "CRFsuite, averaged perceptron": ("ap", {}),
    "CRFsuite, L-BFGS": ("lbfgs", {"c2": 1.0}),
}
QUICK_PEER = {"max_iterations": 10}


class Sentences(NamedTuple):
    """Features, a dict a word, and tags of sentences."""

    X: list[list[dict[str, Any]]]
    y: list[list[str]]


class Run(NamedTuple):
    """A training: its F1 on the test sentences in percent, CPU and wall seconds without reading features, and CPU seconds with it."""

    f1: float
    cpu: float
    wall: float
    all_cpu: float
    model: Any


@dataclass(frozen=True)
class Timed(BlockFrankWolfe):
    """`BlockFrankWolfe` that notes its CPU seconds."""

    def fit(self, objective: Any, callback: Any = None, init: Any = None) -> LearningResult:
        """Minimise the objective; ``extra["cpu_seconds"]`` of the result is what it took."""
        cpu = time.process_time()
        result = super().fit(objective, callback, init)
        result.extra["cpu_seconds"] = time.process_time() - cpu
        return result


def load(limit: int | None = None) -> tuple[Sentences, Sentences]:
    """Sentences to train and to test, from the folder that ``MAXSUM_DATA`` names."""
    folder = data_folder("conll2000", FILES, SOURCE)
    parts = []
    for name in FILES:
        sentences = read_conll(folder / name)[:limit]
        parts.append(Sentences([conll_features(own) for own in sentences], [[word[-1] for word in own] for own in sentences]))
    return parts[0], parts[1]


def f1(labels: list[list[str]], predicted: Any) -> float:
    """F1 of all chunks, in percent."""
    return float(chunk_f1(labels, [list(own) for own in predicted]).f1)


def train(data: Sentences, test: Sentences, C: float, min_count: int = 1, n_jobs: int = 1) -> Run:
    """Our chain, to a certified relative gap of ``TOL``."""
    began = time.process_time()
    learner = Timed(tol=TOL)
    net = SequenceLabeler(C=C, n_jobs=n_jobs, features=Dicts(min_count=min_count), learner=learner).fit(data.X, data.y)
    every = time.process_time() - began
    result = net.result_
    return Run(f1(test.y, net.predict(test.X)), result.extra["cpu_seconds"], result.seconds, every, net)


def train_peer(data: Sentences, test: Sentences, algorithm: str, params: dict[str, Any]) -> Run | None:
    """CRFsuite on the same features; None where it is not installed."""
    found = train_crfsuite(map(strings, data.X), data.y, map(strings, test.X), algorithm, params)
    return None if found is None else Run(f1(test.y, found.tags), found.cpu, found.wall, found.all_cpu, None)


def run(quick: bool, progress: Progress) -> Report:
    """Choose C by cross-validation, train on all training sentences, test; beside CRFsuite."""
    data, test = load(N_QUICK if quick else None)
    SequenceLabeler(tol=0.5).fit(data.X[:5], data.y[:5])
    clock = time.perf_counter()
    values = QUICK_VALUES if quick else VALUES
    labeler: Any = SequenceLabelerCV
    chosen = labeler(values, cv=2 if quick else N_FOLDS, cv_tol=0.02, tol=0.02).fit(data.X, data.y)
    progress(f"C = {chosen.C_:g} by cross-validation, {time.perf_counter() - clock:.0f} s")
    runs: dict[str, Run] = {}
    for min_count in (1, 2):
        name = "chain" if min_count == 1 else f"chain, features of {min_count} words or more"
        runs[name] = train(data, test, chosen.C_, min_count)
        progress(f"{name}: F1 {runs[name].f1:.2f}, {runs[name].cpu:.1f} s CPU")
    skipped = False
    for name, (algorithm, params) in PEERS.items():
        peer = train_peer(data, test, algorithm, params | QUICK_PEER if quick else params)
        skipped |= peer is None
        if peer is not None:
            runs[name] = peer
            progress(f"{name}: F1 {peer.f1:.2f}, {peer.cpu:.1f} s CPU")
    return _report(runs, chosen.C_, quick, skipped)


def _report(runs: dict[str, Run], C: float, quick: bool, skipped: bool) -> Report:
    ours = runs["chain"]
    result = ours.model.result_
    claims = [
        Claim(
            "F1, C by cross-validation",
            "93.48 (best of the shared task)",
            f"{ours.f1:.2f}",
            None if quick else ours.f1 >= MIN_F1,
            f"{MIN_F1:g} or more",
        ),
        Claim("gap, certified", "", f"{result.relative_gap:.1e}", result.relative_gap <= TOL, f"at most {TOL:g}"),
    ]
    for name in PEERS:
        if name in runs:
            peer = runs[name]
            claims += [
                Claim(
                    f"F1 beside {name}, in this run",
                    f"{peer.f1:.2f} ({name})",
                    f"{ours.f1:.2f}",
                    None if quick else ours.f1 >= peer.f1,
                    "no less",
                ),
                Claim(
                    f"CPU seconds to a gap of {TOL:g} beside {name}, in this run",
                    f"{peer.cpu:.1f} s ({name})",
                    f"{ours.cpu:.1f} s",
                    None if quick else ours.cpu <= peer.cpu,
                    "no more",
                ),
            ]
    rows = []
    for name, own in runs.items():
        net = own.model
        weights = "-" if net is None else f"{len(net.weights_)} ({int((net.weights_ != 0).sum())} not 0)"
        gap = "-" if net is None else f"{net.result_.relative_gap:.1e}"
        rows.append((name, weights, f"{own.f1:.2f}", gap, f"{own.cpu:.1f}", f"{own.wall:.1f}", f"{own.all_cpu:.1f}"))
    notes = [
        f"C = {C:g}. CPU seconds of the training, all on one thread, and with reading features from dicts. CRFsuite proves no gap: the "
        "perceptron ends after 100 passes, L-BFGS (c2 = 1) by its own rule."
    ]
    if skipped:
        notes.append("CRFsuite is not installed (package python-crfsuite), so it is not in the table.")
    return Report(
        "chunking",
        "CoNLL-2000 shared task",
        "Chunks of sentences, a chain with sparse features",
        tuple(claims),
        ("model", "weights", "F1", "gap", "CPU s", "wall s", "CPU s with features"),
        tuple(rows),
        tuple(notes),
    )


def strings(features: list[dict[str, Any]]) -> list[list[str]]:
    """Names of binary features, as CRFsuite takes them."""
    return [[f"{name}={value}" if isinstance(value, str) else name for name, value in own.items()] for own in features]
