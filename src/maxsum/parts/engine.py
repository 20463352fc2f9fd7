"""Passes over the parts: the messages and labels of the cuts are here, all else in files that visits read and write."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.errors import CheckpointError, ParseError
from ..core.files.arrays import map_arrays, write_arrays
from .folder import Parts
from .sources import Source
from .visit import Checked, Outcome, Step, Task, check, labels_path, visit

STATE = "state.arrays"


class Labelling(NamedTuple):
    """A labelling of all parts: its number, and its score."""

    generation: int
    score: float


class Engine:
    """TRW-S over a graph in parts.

    Parts get colours so that no cut joins two of one colour. Parts of a colour are visited at the same time, colours one after the
    other; a forward pass takes them from the first colour to the last, a backward pass from the last to the first. That is TRW-S on the
    whole graph with its nodes in this order, so no pass worsens the bound.

    Parameters
    ----------
    source : Source
    work : path
        Folder for messages and labels, made if needed.
    executor : object
        Its ``run(function, items, names)`` returns ``[function(item) for item in items]``.
    """

    def __init__(self, source: Source, work: str | Path, executor: Any):
        self.source, self.executor, self.work = source, executor, Path(work)
        self.work.mkdir(parents=True, exist_ok=True)
        parts = source.parts
        self.parts = parts
        self.colour = colours(parts)
        self.batches = [np.flatnonzero(self.colour == c) for c in range(int(self.colour.max(initial=0)) + 1)]
        self.early = []
        for p in range(parts.n_parts):
            ends = parts.cuts.part[parts.cuts_of[p]]
            other = np.where(ends[:, 0] == p, ends[:, 1], ends[:, 0])
            self.early.append(self.colour[other] < self.colour[p])
        self.messages = np.zeros((2, parts.n_cuts, source.n_labels))
        self.labels = np.zeros((2, parts.n_cuts), dtype=np.int32)
        self.offset = math.fsum(float(entry["offset"]) for entry in parts.manifest["parts"])
        self.n_rounds, self.generation = 0, -1
        self.unchecked: set[int] = set()

    def _task(self, p: int, steps: tuple[Step, ...], generation: int) -> Task:
        ids = self.parts.cuts_of[p]
        messages, labels = self.messages[:, ids], self.labels[:, ids]
        return Task(self.source, self.work, int(p), steps, self.early[p], messages, labels, generation)

    def _visit(self, batch: np.ndarray, steps: tuple[Step, ...], generation: int = 0) -> list[Outcome]:
        """Visit parts of one colour; their cuts get the new messages and labels."""
        tasks = [self._task(p, (Step.CHECK,) * (p in self.unchecked) + steps, generation) for p in batch.tolist()]
        outcomes: list[Outcome] = self.executor.run(visit, tasks, [f"part-{task.part}-{'-'.join(steps)}" for task in tasks])
        for task, outcome in zip(tasks, outcomes, strict=True):
            ids = self.parts.cuts_of[task.part]
            self.messages[:, ids] = outcome.messages
            self.labels[:, ids] = outcome.labels
        self.unchecked -= set(batch.tolist())
        return outcomes

    def resume(self, state: State) -> None:
        """Go on from a state; the messages of each part are looked at when it is visited first."""
        self.messages[:], self.labels[:] = state.messages, state.labels
        self.n_rounds, self.generation = state.n_rounds, state.last
        self.unchecked = set(range(self.parts.n_parts))

    def rounds(self, n: int) -> list[float]:
        """``n`` times a forward and a backward pass; the bound after each pass."""
        bounds: list[list[float]] = [[] for _ in range(2 * n)]
        for colour, first, steps in schedule(len(self.batches), n):
            for outcome in self._visit(self.batches[colour], steps):
                for i, bound in enumerate(outcome.bounds):
                    bounds[first + i].append(bound)
        self.n_rounds += n
        return [self.offset + math.fsum(own) for own in bounds]

    def label(self) -> Labelling:
        """A new labelling, by conditioning in the order of a forward pass and local search; its files stay until `drop`."""
        self.generation += 1
        last = len(self.batches) - 1
        scores: dict[int, float] = {}
        for colour in range(last):
            self._visit(self.batches[colour], (Step.LABEL,), self.generation)
        for colour in range(last, -1, -1):
            steps = (Step.LABEL, Step.POLISH) if colour == last else (Step.POLISH,)
            outcomes = self._visit(self.batches[colour], steps, self.generation)
            scores |= dict(zip(self.batches[colour].tolist(), (outcome.score for outcome in outcomes), strict=True))
        score = self.offset + math.fsum(scores[p] for p in sorted(scores))
        return Labelling(self.generation, score)

    def label_truly(self) -> Labelling:
        """The true labels of a sample as a labelling."""
        self.generation += 1
        self._visit(np.arange(self.parts.n_parts), (Step.TRUTH,), self.generation)
        return Labelling(self.generation, np.nan)

    def describe(self, generation: int, labels: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Features and loss of a labelling, given its labels at the cuts, summed in the order of the parts; and what rounding can hide
        in the bound of the last pass."""
        kept, self.labels = self.labels, labels
        outcomes = self._visit(np.arange(self.parts.n_parts), (Step.FEATURES,), generation)
        self.labels = kept
        psi = np.sum([own.features for own in outcomes if own.features is not None], axis=0)
        return psi, math.fsum(own.loss for own in outcomes), math.fsum(own.error for own in outcomes)

    def drop(self, generation: int) -> None:
        """Delete a labelling."""
        for p in range(self.parts.n_parts):
            labels_path(self.work, generation, p).unlink(missing_ok=True)

    def save(self, generation: int, labels: np.ndarray, score: float) -> None:
        """Write messages of the cuts, and which labelling is the best so far, whole or not at all."""
        write_arrays(
            self.work / STATE,
            {
                "graph": np.frombuffer(bytes.fromhex(self.parts.digest), dtype=np.uint8),
                "messages": self.messages,
                "labels": labels,
                "numbers": np.array([generation, self.n_rounds, self.generation], dtype=np.int64),
                "score": np.array([score]),
            },
        )


class State(NamedTuple):
    """What `Engine.save` wrote."""

    messages: np.ndarray
    labels: np.ndarray
    generation: int
    n_rounds: int
    last: int
    score: float


def read_state(parts: Parts, work: Path, n_labels: int) -> State | None:
    """The state of a run on these parts, or None if there is none.

    Raises
    ------
    CheckpointError
        If the file is damaged or of another graph.
    """
    path = work / STATE
    if not path.exists():
        return None
    way_out = "Delete the folder, or name another one."
    try:
        arrays = map_arrays(path)
        graph, numbers = bytes(arrays["graph"]).hex(), arrays["numbers"]
        state = State(
            np.array(arrays["messages"]), np.array(arrays["labels"]), int(numbers[0]), int(numbers[1]), int(numbers[2]),
            float(arrays["score"][0]),
        )  # fmt: skip
    except (ParseError, KeyError, IndexError) as error:
        raise CheckpointError(f"{path} is damaged: {error}. {way_out}") from error
    if graph != parts.digest or state.messages.shape != (2, parts.n_cuts, n_labels):
        raise CheckpointError(
            f"{path} is the state of a run on another graph ({graph[:12]}, wanted {parts.digest[:12]}). {way_out}"
        )
    if state.labels.shape != (2, parts.n_cuts) or not np.isfinite(state.messages).all():
        raise CheckpointError(f"{path} is damaged: its messages are not finite numbers. {way_out}")
    return state


def check_parts(
    source: Source, work: Path, generation: int, labels: np.ndarray, messages: np.ndarray, run: Callable[..., list[Any]]
) -> list[Checked]:
    """`visit.check` of all parts, given the messages and labels of the cuts."""
    parts, tasks = source.parts, []
    for p in range(parts.n_parts):
        ids = parts.cuts_of[p]
        none = np.zeros(len(ids), dtype=bool)
        tasks.append(Task(source, work, p, (), none, messages[:, ids], labels[:, ids], generation))
    return run(check, tasks, [f"check-{p}" for p in range(parts.n_parts)])


def schedule(n_colours: int, n: int) -> list[tuple[int, int, tuple[Step, ...]]]:
    """Visits of ``n`` rounds: (colour, number of the first pass, steps); where a pass turns round, both are one visit."""
    if n_colours == 1:
        return [(0, 0, (Step.FORWARD, Step.BACKWARD) * n)]
    visits: list[tuple[int, int, tuple[Step, ...]]] = []
    for i in range(2 * n):
        order = range(n_colours) if i % 2 == 0 else range(n_colours - 1, -1, -1)
        for colour in order:
            step = Step.FORWARD if i % 2 == 0 else Step.BACKWARD
            if visits and visits[-1][0] == colour:
                visits[-1] = (colour, visits[-1][1], (*visits[-1][2], step))
            else:
                visits.append((colour, i, (step,)))
    return visits


def colours(parts: Parts) -> np.ndarray:
    """Lowest colour of each part, in turn, that no neighbour has: two for strips and tiles."""
    pairs = np.unique(np.sort(parts.cuts.part, axis=1), axis=0)
    near: list[list[int]] = [[] for _ in range(parts.n_parts)]
    for a, b in pairs.tolist():
        near[a].append(b)
        near[b].append(a)
    colour = np.full(parts.n_parts, -1, dtype=np.int64)
    for p in range(parts.n_parts):
        taken = {int(colour[q]) for q in near[p]}
        colour[p] = next(c for c in range(parts.n_parts) if c not in taken)
    return colour
