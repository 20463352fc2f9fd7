"""What is done with one part at a time, in any thread, process or machine that sees the files."""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from ..core.certificates.dual import largest_rounding, slack, up
from ..core.certificates.scale import UNIT, score_rounding, tolerance
from ..core.errors import CheckpointError
from ..core.files.store import atomic
from ..core.problem import Messages
from ..core.validation import as_labels
from ..inference.moves.icm import polish
from ..inference.prepare import Prepared, centred_tables, prepare
from ..inference.relaxations.table_forms import table_forms
from ..inference.relaxations.trws import uniform_passes
from ..kernels.trws import decode
from .sources import Local, Source

_NEVER = -1e30  # a score that no label with it wins, and whose sums stay finite
_ICM_SWEEPS = 10  # sweeps of ICM over a part; most labels stand still after three or four, and a visit is read from disk


class Step(StrEnum):
    """What a visit does with a part."""

    FORWARD = "forward"
    """A pass of TRW-S over the nodes in ascending order."""
    BACKWARD = "backward"
    """The same in descending order."""
    LABEL = "label"
    """A labelling, by conditioning on the labels of earlier parts."""
    POLISH = "polish"
    """Local search with the labels of all neighbours fixed."""
    TRUTH = "truth"
    """The true labels as the labelling."""
    FEATURES = "features"
    """Features and loss of the labelling."""
    CHECK = "check"
    """Whether the messages are finite."""


@dataclass(frozen=True, eq=False)
class Task:
    """One visit.

    Attributes
    ----------
    source : Source
    work : Path
        Folder with the messages and labels of parts.
    part : int
    steps : tuple of Step
        In this order.
    early : ndarray of bool
        Which cuts lead to earlier parts.
    messages : ndarray, shape (2, n_cuts, K)
        Of the part's cuts.
    labels : ndarray, shape (2, n_cuts)
        At both ends of the cuts.
    generation : int
        Number of the labelling.
    """

    source: Source
    work: Path
    part: int
    steps: tuple[Step, ...]
    early: np.ndarray
    messages: np.ndarray
    labels: np.ndarray
    generation: int = 0


class Outcome(NamedTuple):
    """What a visit leaves for others: messages and labels of its cuts, its share of the bound of each pass and of the score; of the
    features, the loss, and what rounding can hide in a bound."""

    messages: np.ndarray
    labels: np.ndarray
    bounds: list[float]
    score: float
    features: np.ndarray | None
    loss: float
    error: float


def visit(task: Task) -> Outcome:
    """Do the steps of a task. Running it twice does no harm: any messages are valid."""
    local = task.source.load(task.part, task.early)
    prepared = prepare(local.problem)
    edge = open_messages(task.work, task.part, local.problem.n_edges, task.source.n_labels)
    edge[:, local.cut_edges] = task.messages
    messages = Messages(edge, np.zeros((0, task.source.n_labels)))
    labels, bounds, score = task.labels.copy(), [], 0.0
    features, loss, error = None, 0.0, 0.0
    for step in task.steps:
        if step in (Step.FORWARD, Step.BACKWARD):
            bounds.append(_pass(local, prepared, messages, step == Step.FORWARD))
        elif step == Step.CHECK:
            if not np.isfinite(edge).all():
                path = messages_path(task.work, task.part)
                raise CheckpointError(f"{path} holds numbers that are not finite. Delete it: its part starts again from zero.")
        elif step == Step.FEATURES:
            features, loss = _features(task, local, labels)
            error = _hidden(local, edge)
        else:
            own, score = _label(task, local, prepared, messages, labels, step)
            ends = local.problem.graph.edges[local.cut_edges][np.arange(len(local.side)), local.side] - local.first
            labels[local.side, np.arange(len(local.side))] = own[ends]
    return Outcome(np.array(edge[:, local.cut_edges]), labels, bounds, score, features, loss, error)


def _pass(local: Local, prepared: Prepared, messages: Messages, forward: bool) -> float:
    """One pass of TRW-S over the part's own nodes; its share of the bound."""
    constant = prepared.constant
    moved = centred_tables(local.problem)[1]
    if len(moved) == local.problem.n_edges:
        constant -= float(moved[local.cut_edges][local.early if forward else ~local.early].sum())
    if not local.problem.n_edges:
        return constant
    net = prepared.net
    one_pass = uniform_passes(net, table_forms(net.tables), nodes=(local.first, local.last))
    return constant + one_pass(messages, forward)


def _label(
    task: Task, local: Local, prepared: Prepared, messages: Messages, cut_labels: np.ndarray, step: Step
) -> tuple[np.ndarray, float]:
    """A labelling of the part, kept in its file, and (after `Step.POLISH`) its score with the cuts to later parts."""
    net, path = prepared.net, labels_path(task.work, task.generation, task.part)
    if step == Step.TRUTH:
        own = np.array(task.source.truth(task.part))
        save_labels(path, own)
        return own, 0.0
    own = np.zeros(local.last - local.first, dtype=np.int32) if step == Step.LABEL else load_labels(path)
    labels = local.labels(own, cut_labels)
    known = local.halo[local.early] if step == Step.LABEL else local.halo
    net.unary[local.halo] = 0.0
    net.unary[known] = _NEVER
    net.unary[known, labels[known]] = 0.0
    if step == Step.LABEL:
        decode(net, True, messages.edge, messages.clique, labels)
    else:
        labels = polish(net, labels, _ICM_SWEEPS)
    own = labels[local.first : local.last]
    save_labels(path, own)
    return own, _score(local, labels, ~local.early) if step == Step.POLISH else 0.0


def _score(local: Local, labels: np.ndarray, counted: np.ndarray) -> float:
    """Score of the part's own nodes and edges and of some of its cuts."""
    problem = local.problem
    node = problem.unary[np.arange(local.first, local.last), labels[local.first : local.last]]
    edges = np.concatenate([np.arange(local.n_inner), local.n_inner + np.flatnonzero(counted)])
    u, v = problem.graph.edges[edges].T
    edge = problem.tables[problem.edge_table[edges], labels[u], labels[v]] * problem.edge_weight[edges]
    return float(node.sum(dtype=np.longdouble) + edge.sum(dtype=np.longdouble))


def _features(task: Task, local: Local, cut_labels: np.ndarray) -> tuple[np.ndarray | None, float]:
    own = load_labels(labels_path(task.work, task.generation, task.part))
    far = np.where(local.owned, cut_labels[1 - local.side, np.arange(len(local.side))], -1)
    return task.source.features(task.part, np.concatenate([own, far]).astype(np.int64)) or (None, 0.0)


def _hidden(local: Local, edge: np.ndarray) -> float:
    """What rounding can hide in the gap of a part."""
    problem = local.problem
    message = max(float(edge.max(initial=0.0)), -float(edge.min(initial=0.0)))
    score = float(np.abs(problem.unary).max(initial=0.0))
    score += float(np.abs(problem.tables).max(initial=0.0) * np.abs(problem.edge_weight).max(initial=0.0))
    return largest_rounding(problem.n_nodes + problem.n_edges, int(problem.graph.degrees.max(initial=0)), score, message)


class Checked(NamedTuple):
    """Share of a part in the score, the gap (rounded up), what counts as none, and the rounding of the score, in plain numpy."""

    score: float
    gap: float
    tolerance: float
    rounding: float


def check(task: Task) -> Checked:
    """Recompute what a part's messages prove about its labels, by `core.certificates.dual` alone."""
    local = task.source.load(task.part)
    edge = np.array(open_messages(task.work, task.part, local.problem.n_edges, task.source.n_labels, "r"))
    edge[:, local.cut_edges] = task.messages
    messages = local.problem.as_messages(edge)
    path = labels_path(task.work, task.generation, task.part)
    own = as_labels(load_labels(path), local.problem.n_states[local.first : local.last])
    labels = as_labels(local.labels(own, task.labels), local.problem.n_states)
    ends = local.problem.graph.edges[local.cut_edges][np.arange(len(local.side)), local.side]
    if (task.labels[local.side, np.arange(len(local.side))] != labels[ends]).any():
        raise CheckpointError(f"{path}: labels at cuts are not those that other parts saw; wanted one labelling.")
    terms = slack(local.problem, messages, labels)
    counted = np.concatenate([np.ones(local.n_inner, dtype=bool), local.owned])
    gap = float(terms.node[local.first : local.last].sum() + terms.edge[counted].sum())
    gap = up(gap * (1 + 2 * UNIT * (len(labels) + len(counted)))) if gap > 0 else gap
    score = _score(local, labels, local.owned)
    return Checked(score, gap, tolerance(local.problem, labels), score_rounding(local.problem, labels))


# ---- files of a run ---------------------------------------------------------------------------------------------


_header = threading.Lock()  # numpy parses headers as Python, which threads of CPython 3.11 must not do at the same time


def messages_path(work: Path, part: int) -> Path:
    """Where the messages of a part are."""
    return work / f"messages-{part:05d}.npy"


def labels_path(work: Path, generation: int, part: int) -> Path:
    """Where a part of a labelling is."""
    return work / f"labels-{generation:05d}-{part:05d}.npy"


def open_messages(work: Path, part: int, n_edges: int, n_labels: int, mode: Literal["r", "r+"] = "r+") -> np.ndarray:
    """Messages (2, n_edges, K) of a part, mapped into memory; zeros if there is no file yet.

    They are improved in place: a torn write leaves other numbers, and any numbers prove a bound.
    """
    path, shape = messages_path(work, part), (2, n_edges, n_labels)
    if not n_edges:
        return np.zeros(shape)
    if not path.exists():
        _zeros(path, shape)
    try:
        with _header:
            found = np.load(path, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Delete it: its part starts again from zero.") from error
    if found.shape != shape or found.dtype != np.float64 or not found.flags.c_contiguous:
        raise CheckpointError(f"{path} has shape {found.shape} and dtype {found.dtype}, wanted float64 {shape}. Delete it.")
    return np.asarray(found)


def _zeros(path: Path, shape: tuple[int, ...]) -> None:
    """A file of zeros with its room on the disk taken, so that a full disk is an error here and not later."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        np.lib.format.open_memmap(temporary, "w+", np.float64, shape)
        if hasattr(os, "posix_fallocate"):
            with temporary.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, temporary.stat().st_size)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def load_labels(path: Path) -> np.ndarray:
    """Labels of a part."""
    try:
        with _header:
            return np.asarray(np.load(path, allow_pickle=False))
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}). Delete the folder of the run, and run again.") from error


def save_labels(path: Path, labels: np.ndarray) -> None:
    """Write the labels of a part, whole or not at all."""

    def write(file: BinaryIO) -> None:
        np.lib.format.write_array(file, np.ascontiguousarray(labels, dtype=np.int32), allow_pickle=False)

    atomic(path, None, write)
