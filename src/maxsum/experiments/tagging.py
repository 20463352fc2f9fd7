r"""Parts of speech and chunks at once (CoNLL-2000), Tables 2 to 4 of Jancsary, Nowozin & Rother 2013: two chains with a rung at each word.

Local linear SVMs score each label of each word from words in a window. The structured models see nothing but these scores, for
training sentences out of sample, by cross-validation. With :math:`n` nodes in all the paper's objective
:math:`\tfrac c2\|w\|^2 + \tfrac1n\sum_j\xi_j` is ours, :math:`\tfrac12\|w\|^2 + C\sum_j\xi_j`, for :math:`C = 1 / (cn)`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ..core.graph import Graph
from ..datasets.conll import Sentence, read_conll
from ..estimators.graph import GraphLabeler
from ..executors.threads import thread_map
from ..models.convex import Convex
from ..models.sample import GraphSample
from . import Claim, Plot, Progress, Report, data_folder
from .chunking import FILES, SOURCE

N_QUICK = 30  # sentences of a quick run
N_FOLDS = 3  # that local classifiers score training sentences by
N_TIMED = 500  # sentences that slow solvers are timed on
N_TRAIN = 1000  # sentences that every surrogate learns from; all in a full run
TOL = 1e-2  # relative gap of a training
SVM_TOL = 0.1  # of the local classifiers
GAIN = 2.0  # factor on their scores, whose margins are 1
SPEED = 2000.0  # wanted, sentences a second of QP-M3N
RATIO = 10.0  # wanted, of its speed and that of LP-M3N
SECONDS = 15.0  # of every training, the same for all surrogates and every c
FULL_SECONDS = 600.0  # the same in a full run
QUICK_SECONDS = 0.2  # the same in a quick run
SMOOTHING = 1e-2  # weight of the entropies in the smoothed LP, as in the paper
RIDGES = (1e-2, 1e-1, 1.0)  # curvatures that every node has, of QP-M3N and the LRF
RIDGE_C = 1e-3  # the paper's c at which one of them is chosen
COLUMNS = {"exact": "M3N", "lp": "LP-M3N", "smoothed": "LP-M3N, smoothed", "qp": "QP-M3N", "logistic": "LRF"}
SOLVERS = {"exact": "JunctionTree", "lp": "TRWS", "smoothed": "TRWS"}
ROWS = (1.0, 1e-3, 1e-6, 1e-9)
PATHS = {"exact": ROWS[:2], "lp": ROWS, "smoothed": ROWS, "qp": ROWS, "logistic": ROWS}
QUICK_PATH = ROWS[1:3]
ALONE_PATH = ROWS[1:3]  # of classifiers that are not of the paper


class Setting(NamedTuple):
    """Features of the local classifiers, and what is published for them: their own loss, and that of each model for each c."""

    name: str
    window: int
    C: float
    published: float | None
    table: dict[str, tuple[float | None, ...]]


STRONG = Setting(
    "strong",
    3,
    0.1,
    3.78,
    {
        "exact": (13.88, 3.58, None, None),
        "smoothed": (15.18, 3.54, 3.48, 3.41),
        "qp": (13.54, 3.76, 3.56, 3.56),
        "logistic": (3.87, 3.87, 3.81, 4.03),
    },
)
_WEAK_TABLE: dict[str, tuple[float | None, ...]] = {
    "exact": (22.15, 6.22, None, None),
    "smoothed": (28.60, 6.14, 5.74, 5.74),
    "qp": (21.06, 7.98, 6.64, 6.61),
    "logistic": (5.53, 6.61, 6.02, 5.95),
}
WEAK = Setting("weak, window 1", 1, 0.1, 13.17, _WEAK_TABLE)
ALONE = Setting("weak, word alone", 0, 0.1, None, {})
"""Not of the paper: its loss is near the published one, that of the published window is far below it."""
PUBLISHED_SPEED = {"exact": 12, "smoothed": 11, "qp": 313, "logistic": 165}


class Scores(NamedTuple):
    """Labels of one chain, and their scores at the words of the training sentences (out of sample) and of the test sentences."""

    classes: np.ndarray
    train: np.ndarray
    test: np.ndarray


class Fit(NamedTuple):
    """A training: the paper's c, the loss on the test sentences in percent, the relative gap, wall seconds, and how it ended."""

    c: float
    loss: float
    gap: float
    seconds: float
    ended: str = ""


class Speed(NamedTuple):
    """Test sentences a CPU second on one thread, and a second of wall time on all cores."""

    cpu: float
    wall: float


def load(limit: int | None = None) -> tuple[list[Sentence], list[Sentence]]:
    """Sentences to train and to test, from the folder that ``MAXSUM_DATA`` names."""
    folder = data_folder("conll2000", FILES, SOURCE)
    train, test = (read_conll(folder / name)[:limit] for name in FILES)
    return train, test


# ---- local classifiers -----------------------------------------------------------------------------------------------


def word_features(sentence: Sentence, window: int) -> Iterator[list[str]]:
    """Names of the binary features of each word: words in the window, and spelling (case, digits, affixes) next to the word."""
    words = [token[0] for token in sentence]
    spelling = [_spelling(word) for word in words]
    n = len(words)
    for i in range(n):
        names = ["bias"]
        for d in range(-window, window + 1):
            j = i + d
            if 0 <= j < n:
                names.append(f"{d}w={words[j]}")
                if abs(d) <= 1:
                    names += [f"{d}{own}" for own in spelling[j]]
            elif j in (-1, n):
                names.append(f"{d}end")
        yield names


def _spelling(word: str) -> list[str]:
    kinds = {
        "capital": word[0].isupper(),
        "upper": word.isupper(),
        "digit": any(letter.isdigit() for letter in word),
        "hyphen": "-" in word,
        "mark": not any(letter.isalnum() for letter in word),
    }
    names = [name for name, has in kinds.items() if has]
    names += [f"starts={word[:k]}" for k in (1, 2, 3) if len(word) > k]
    return names + [f"ends={word[-k:]}" for k in (1, 2, 3, 4) if len(word) > k]


def encode(sentences: Sequence[Sentence], window: int, known: dict[str, int], grow: bool) -> Any:
    """Features of all words as a CSR matrix; ``known`` numbers the features, and learns new ones if it may ``grow``."""
    indices: list[int] = []
    ends = [0]
    for sentence in sentences:
        for names in word_features(sentence, window):
            if grow:
                indices += [known.setdefault(name, len(known)) for name in names]
            else:
                indices += [known[name] for name in names if name in known]
            ends.append(len(indices))
    shape = (len(ends) - 1, len(known))
    return sparse.csr_matrix((np.ones(len(indices)), np.array(indices, dtype=np.int32), np.array(ends, dtype=np.int32)), shape)


def local_scores(train: Sequence[Sentence], test: Sequence[Sentence], setting: Setting, n_folds: int) -> tuple[Scores, Scores]:
    """Scores of parts of speech and of chunks. Labels that a fold has not seen get -1, as far outside as the margin."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    known: dict[str, int] = {}
    X = encode(train, setting.window, known, True)
    Z = encode(test, setting.window, known, False)
    fold = np.repeat(np.arange(len(train)) % n_folds, [len(own) for own in train])
    labels = [np.array([token[column] for own in train for token in own]) for column in (1, 2)]
    classes = [np.unique(own) for own in labels]

    def one(job: tuple[int, int]) -> np.ndarray:
        chain, left_out = job
        rows, seen = (X[fold == left_out], fold != left_out) if left_out < n_folds else (Z, fold >= 0)
        svm = LinearSVC(C=setting.C, tol=SVM_TOL, random_state=0).fit(X[seen], labels[chain][seen])
        values = svm.decision_function(rows)
        if values.ndim == 1:
            values = np.stack([-values, values], axis=1)
        out = np.full((rows.shape[0], len(classes[chain])), -1.0)
        out[:, np.searchsorted(classes[chain], svm.classes_)] = values
        return out

    jobs = [(chain, left_out) for chain in (0, 1) for left_out in range(n_folds + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = dict(zip(jobs, thread_map(one, jobs, -1), strict=True))
    chains = []
    for chain in (0, 1):
        honest = np.empty((len(fold), len(classes[chain])))
        for left_out in range(n_folds):
            honest[fold == left_out] = found[chain, left_out]
        chains.append(Scores(classes[chain], honest, found[chain, n_folds]))
    return chains[0], chains[1]


# ---- two chains ------------------------------------------------------------------------------------------------------


def ladder(n: int) -> Graph:
    """Two chains of ``n`` nodes and a rung at each word; edges within each chain and between them are of three types."""
    i = np.arange(n)
    chain = np.stack([i[:-1], i[1:]], axis=1)
    edges = np.concatenate([chain, n + chain, np.stack([i, n + i], axis=1)])
    return Graph.from_edges(edges, 2 * n, edge_type=np.repeat([0, 1, 2], [n - 1, n - 1, n]))


def samples(sentences: Sequence[Sentence], pos: np.ndarray, chunk: np.ndarray) -> list[GraphSample]:
    """Sentences as graphs: parts of speech are nodes of type 0, chunks of type 1; features are scores, 0 beyond the margin."""
    width = max(pos.shape[1], chunk.shape[1])
    both = [np.pad(GAIN * np.maximum(own + 1.0, 0.0), ((0, 0), (0, width - own.shape[1]))) for own in (pos, chunk)]
    ends = np.cumsum([0] + [len(own) for own in sentences]).tolist()
    return [
        GraphSample(np.concatenate([own[a:b] for own in both]), ladder(b - a), node_types=np.repeat([0, 1], b - a))
        for a, b in pairwise(ends)
    ]


def truth(sentences: Sequence[Sentence]) -> list[list[str]]:
    """Labels of the nodes of `samples`."""
    return [[token[column] for column in (1, 2) for token in own] for own in sentences]


def mean_loss(predicted: Sequence[Any], labels: Sequence[Any]) -> float:
    """Wrong labels of a sentence, in percent, averaged over the sentences."""
    pairs = zip(predicted, labels, strict=True)
    return 100.0 * float(np.mean([np.mean([a != b for a, b in zip(*own, strict=True)]) for own in pairs]))


def local_loss(pos: Scores, chunk: Scores, test: Sequence[Sentence]) -> float:
    """Loss of the local classifiers on the test sentences."""
    cuts = np.cumsum([len(own) for own in test])[:-1]
    chains = [np.split(own.classes[own.test.argmax(axis=1)], cuts) for own in (pos, chunk)]
    return mean_loss([np.concatenate(own) for own in zip(*chains, strict=True)], truth(test))


class Task(NamedTuple):
    """What the structured models learn from and are tested on."""

    X: list[GraphSample]
    y: list[list[str]]
    test: list[GraphSample]
    labels: list[list[str]]
    classes: list[list[str]]

    @property
    def n_nodes(self) -> int:
        """Nodes of all training sentences."""
        return sum(map(len, self.y))


def labeler(task: Task, surrogate: str, seconds: float, ridge: float) -> GraphLabeler:
    """An untrained estimator for a column of the tables."""
    net = GraphLabeler(
        surrogate={"exact": "margin", "smoothed": "lp"}.get(surrogate, surrogate),
        oracle="JunctionTree" if surrogate == "exact" else None,
        smoothing=SMOOTHING if surrogate == "smoothed" else 0.0,
        solver=SOLVERS.get(surrogate),
        bias=True,
        classes=task.classes,
        tol=TOL,
        warm_start=True,
        time_limit=seconds,
        n_jobs=-1,
    )
    convex = surrogate in ("qp", "logistic")
    return net.set_params(potentials=Convex(ridge=ridge)) if convex else net


def choose_ridge(task: Task, surrogate: str, seconds: float) -> float:
    """The curvature of least loss on every fifth training sentence after a short training on the others, for c = `RIDGE_C`."""

    def part(items: Sequence[Any], left_out: bool) -> list[Any]:
        return [one for j, one in enumerate(items) if (j % 5 == 4) == left_out]

    X, y, Z, z = part(task.X, False), part(task.y, False), part(task.X, True), part(task.y, True)
    n = sum(len(own) for own in y)
    losses = []
    for ridge in RIDGES:
        net = labeler(task, surrogate, seconds / len(RIDGES), ridge).set_params(C=1.0 / (RIDGE_C * n), warm_start=False)
        losses.append(mean_loss(_fit(net, X, y).predict(Z), z))
    return RIDGES[int(np.argmin(losses))]


def _fit(net: GraphLabeler, X: Any, y: Any) -> GraphLabeler:
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return net.fit(X, y)


def learn(task: Task, surrogate: str, path: Sequence[float], seconds: float) -> tuple[list[Fit], GraphLabeler, float]:
    """Train along a path of c, each for the same seconds, warm from the training before; the estimator of the last c, and its ridge."""
    ridge = choose_ridge(task, surrogate, seconds) if surrogate in ("qp", "logistic") else 0.0
    net = labeler(task, surrogate, seconds, ridge)
    fits: list[Fit] = []
    for c in path:
        _fit(net.set_params(C=1.0 / (c * task.n_nodes)), task.X, task.y)
        found = net.result_
        fits.append(
            Fit(c, mean_loss(net.predict(task.test), task.labels), found.relative_gap, found.seconds, found.termination.value)
        )
    return fits, net, ridge


def speed(net: GraphLabeler, test: list[GraphSample]) -> Speed:
    """Predictions of all sentences together, samples made before."""
    net.set_params(n_jobs=1)
    net.predict(test[:2])
    cpu = time.process_time()
    net.predict(test)
    cpu = time.process_time() - cpu
    net.set_params(n_jobs=-1)
    wall = time.perf_counter()
    net.predict(test)
    return Speed(len(test) / cpu, len(test) / (time.perf_counter() - wall))


def run(quick: bool, progress: Progress, tables: tuple[int, ...] = (2, 3, 4), full: bool = False) -> Report:
    """Local classifiers, then all models on their scores; quick: few sentences, a fraction of a second for each training."""
    train, test = load(N_QUICK if quick else None)
    n, seconds = (len(train), FULL_SECONDS) if full else (N_TRAIN, QUICK_SECONDS if quick else SECONDS)
    classes = [sorted({token[column] for own in train + test for token in own}) for column in (1, 2)]
    base: dict[str, float] = {}
    fits: dict[tuple[str, str], list[Fit]] = {}
    speeds: dict[str, Speed] = {}
    ridges: list[str] = []
    for setting in [STRONG] * (2 in tables) + [WEAK] * (3 in tables or 4 in tables) + [ALONE] * (3 in tables and not quick):
        started = time.perf_counter()
        pos, chunk = local_scores(train, test, setting, N_FOLDS)
        base[setting.name] = local_loss(pos, chunk, test)
        progress(f"{setting.name} classifiers: loss {base[setting.name]:.2f} %, {time.perf_counter() - started:.0f} s")
        X, y = samples(train, pos.train, chunk.train), truth(train)
        task = Task(X[:n], y[:n], samples(test, pos.test, chunk.test), truth(test), classes)
        for surrogate in COLUMNS:
            path = QUICK_PATH if quick else PATHS[surrogate]
            if setting is ALONE:
                path = tuple(c for c in path if c in ALONE_PATH)
            found, net, ridge = learn(task, surrogate, path, seconds)
            fits[setting.name, surrogate] = found
            if ridge:
                ridges.append(f"{COLUMNS[surrogate]}, {setting.name}: {ridge:g}")
            progress(f"{setting.name}, {COLUMNS[surrogate]}: {', '.join(f'{own.loss:.2f}' for own in found)} %")
            if setting is WEAK and 4 in tables:
                speeds[surrogate] = speed(net, task.test if surrogate not in SOLVERS else task.test[:N_TIMED])
                progress(f"{COLUMNS[surrogate]}: {speeds[surrogate].cpu:.0f} sentences a CPU second")
    return _report(base, fits, speeds, quick, tables, n, seconds, ridges)


def _report(
    base: dict[str, float],
    fits: dict[tuple[str, str], list[Fit]],
    speeds: dict[str, Speed],
    quick: bool,
    tables: tuple[int, ...] = (2, 3, 4),
    n: int = N_TRAIN,
    seconds: float = SECONDS,
    ridges: Sequence[str] = (),
) -> Report:
    claims, rows, plots = [], [], []
    settings = [(number, own) for number, own in ((2, STRONG), (3, WEAK), (3, ALONE)) if number in tables and own.name in base]
    for number, setting in settings:
        own, given = base[setting.name], "" if setting.published is None else f"{setting.published:.2f} %"
        claims.append(Claim(f"Table {number}: loss of the classifiers ({setting.name})", given, f"{own:.2f} %"))
        for surrogate, name in COLUMNS.items():
            for fit in fits[setting.name, surrogate]:
                published = setting.table[surrogate][ROWS.index(fit.c)] if surrogate in setting.table else None
                rows.append(
                    (
                        setting.name, f"{fit.c:g}", name, "" if published is None else f"{published:.2f}", f"{fit.loss:.2f}",
                        f"{fit.loss / own:.3f}", f"{fit.gap:.1e}" if np.isfinite(fit.gap) else "none", f"{fit.seconds:.1f}", fit.ended,
                    )
                )  # fmt: skip
        curves = {
            name: ([fit.c for fit in fits[setting.name, surrogate]], [fit.loss for fit in fits[setting.name, surrogate]])
            for surrogate, name in COLUMNS.items()
        }
        plots.append(Plot(f"Loss on test sentences, {setting.name}", "c", "%", curves))
    rows.sort(key=lambda row: ([setting.name for _, setting in settings].index(row[0]), -float(row[1])))
    for surrogate, name in COLUMNS.items() if 4 in tables else ():
        found_speed = speeds[surrogate]
        claims.append(
            Claim(
                f"Table 4: sentences/s of {name}",
                f"{PUBLISHED_SPEED.get(surrogate, '')}",
                f"{found_speed.wall:.0f} ({found_speed.cpu:.0f} a CPU second)",
                found_speed.wall >= SPEED if surrogate == "qp" and not quick else None,
                f"{SPEED:g} or more" if surrogate == "qp" else "",
            )
        )
    if 4 in tables:
        ratio, theirs = speeds["qp"].cpu / speeds["smoothed"].cpu, PUBLISHED_SPEED["qp"] / PUBLISHED_SPEED["smoothed"]
        holds = None if quick else ratio >= RATIO
        claims.append(
            Claim("Table 4: speed of QP-M3N over that of LP-M3N", f"{theirs:.0f}", f"{ratio:.0f}", holds, f"{RATIO:g} or more")
        )
    return Report(
        "tagging",
        "Jancsary, Nowozin & Rother 2013, section 5.2, Tables 2, 3 and 4",
        "Parts of speech and chunks at once: four surrogates on two chains a sentence",
        tuple(claims),
        ("classifiers", "c", "model", "published %", "loss %", "share of the classifiers'", "gap", "seconds", "ended"),
        tuple(rows),
        (
            f"Equal budgets: every model learns from the first {n} sentences, {seconds:g} s for each c, or to a relative gap of {TOL:g}, warm from "
            "the c before. Published: all 8936 sentences, 11 to 58 hours. 'Ended' says how: the LRF has no gap, and counts as converged "
            "only if its gradient has shrunk to 1e-5 of the first; 'time_limit' and 'stalled' are not converged, so no verdict is given on losses "
            "that more time would change. `maxsum reproduce tagging --full` gives all sentences and "
            f"{FULL_SECONDS:g} s to each.",
            f"Local classifiers learn from all training sentences, scores by {N_FOLDS} folds (sentence number modulo {N_FOLDS}), LinearSVC with C = 0.1. Rows "
            "are losses on the test sentences for each c, there as here; no c is chosen.",
            "Weak classifiers see the words in a window of one to each side, as published; with LinearSVC their loss is far below the published "
            "13.17 %. 'Word alone' is not of the paper: its spelling and nothing else, whose loss is near the published one.",
            f"The LP column of the paper is the relaxation smoothed by entropies of weight {SMOOTHING:g}: the rows 'LP-M3N, smoothed', whose gap is that of "
            "the smoothed problem. The rows 'LP-M3N' are the relaxation itself. Both predict by TRW-S, the paper by convex belief propagation.",
            f"QP-M3N and LRF have a curvature of each node beside the learned matrices; it decides how sure the LRF can be. One of "
            f"{', '.join(f'{own:g}' for own in RIDGES)} is chosen on every fifth training sentence, after a training of {seconds / len(RIDGES):g} s on the "
            f"others at c = {RIDGE_C:g}: {'; '.join(ridges)}.",
            f"Sentences/s: all test sentences in one call on all cores, samples made before; relaxed and rounded (QP-M3N), linear systems (LRF), "
            f"TRW-S (both LP-M3N) and junction trees (M3N), these on {N_TIMED} sentences; with the weights of the least c.",
        ),
        plots=tuple(plots),
    )
