"""Prediction on a graph in parts: labels in files, and a proof that is checked part by part."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..core.certificates.base import Verification
from ..core.errors import CertificateError, CheckpointError, InvalidParameterError, InvalidSampleError, UnsupportedProblemError
from ..core.parameters import RELATIVE_GAP, TIME_LIMIT, WholeNumber, check_value
from ..core.problem import Messages
from ..core.result import Guarantee, Termination, TracePoint
from ..executors.base import executing
from ..inference.base import Callback, Interruptible
from .engine import Engine, Labelling, check_parts, read_state
from .folder import Parts, open_parts, whole_messages
from .sources import Source
from .visit import labels_path, load_labels, open_messages

log = logging.getLogger("maxsum")


@dataclass(frozen=True)
class Tuning:
    """Rests of `solve_parts`."""

    # Between two manifests: what a kill costs at most, beside the messages, which are improved in place.
    save_seconds: float = 30.0
    # Share of the gap that twenty passes must gain, or the run has stalled: at that rate the rest takes 20 000 passes.
    stalled: float = 1e-3


_TUNING = Tuning()


@dataclass(frozen=True, eq=False, repr=False)
class PartsCertificate:
    r"""Messages of all edges, those of cuts too, in the files of a run. They are a `MessageCertificate` of the whole problem:

    .. math:: U(\varphi) = \sum_p \Big[\sum_{v \in p} \max_k q^\varphi_v(k) + \sum_{uv \in p} \max_{k,l} g^\varphi_{uv}(k,l)\Big]
              + \sum_{uv\ \mathrm{cut}} \max_{k,l} g^\varphi_{uv}(k,l)

    and the sum is taken part by part, so a check needs the memory of a part.

    Attributes
    ----------
    source : Source
        Where the scores come from.
    work : Path
        Folder of the run.
    """

    source: Source
    work: Path

    def verify(self, score: float | None = None, bound: float | None = None, executor: Any = None) -> Verification:
        """Recompute in plain numpy, from the files alone, what is proven about the labels of the run.

        Parameters
        ----------
        score, bound : float, optional
            Claims; `CertificateError` is raised if they do not hold.
        executor : optional
            As in `solve_parts`.

        Returns
        -------
        Verification
        """
        parts, state = self.source.parts, read_state(self.source.parts, self.work, self.source.n_labels)
        if state is None:
            raise CheckpointError(f"{self.work} holds no state of a run; wanted the folder that solve_parts wrote.")
        if state.generation < 0:
            raise CheckpointError(f"{self.work} holds no labelling yet.")
        with executing(executor) as running:
            found = check_parts(self.source, self.work, state.generation, state.labels, state.messages, running.run)
        total = math.fsum([own.score for own in found] + [float(entry["offset"]) for entry in parts.manifest["parts"]])
        gap, room = math.fsum(own.gap for own in found), math.fsum(own.rounding for own in found)
        upper = total + room + gap
        if score is not None and not abs(score - total) <= room:
            raise CertificateError(f"the claimed score is {score}, but the labels have {total}.")
        if bound is not None and not upper <= bound + room:
            raise CertificateError(f"the claimed bound is {bound}, but the messages prove only {upper}.")
        return Verification(total, upper, gap, gap <= math.fsum(own.tolerance for own in found), False)

    def messages(self) -> Messages:
        """All messages, in memory, in the order of the edges of ``parts.problem()``."""
        parts, size = self.source.parts, self.source.n_labels
        state = read_state(parts, self.work, size)
        if state is None:
            raise CheckpointError(f"{self.work} holds no state of a run.")
        inner = []
        for p, entry in enumerate(parts.manifest["parts"]):
            own = open_messages(self.work, p, entry["edges"] + entry["cuts"], size, "r")
            inner.append(np.array(own[:, : entry["edges"]]))
        return whole_messages(parts, inner, state.messages)


@dataclass(frozen=True, eq=False)
class PartsResult:
    """Answer of `solve_parts`; score, bound and gap were recomputed from the files in plain numpy.

    Attributes
    ----------
    score, bound, gap : float
    termination : Termination
    guarantee : Guarantee
    message : str
    certificate : PartsCertificate
    n_iter : int
        Rounds: passes forward and back.
    seconds : float
    check_seconds : float
        Part of ``seconds`` that the check at the end took.
    trace : tuple of TracePoint
    """

    score: float
    bound: float
    gap: float
    termination: Termination
    guarantee: Guarantee
    message: str
    certificate: PartsCertificate = field(repr=False)
    n_iter: int = 0
    seconds: float = 0.0
    check_seconds: float = 0.0
    trace: tuple[TracePoint, ...] = field(default=(), repr=False)

    @property
    def relative_gap(self) -> float:
        """``gap / max(|score|, |bound|)``, and 0 if the gap is 0."""
        return _relative(self.gap, self.score, self.bound)

    def part_labels(self, p: int) -> np.ndarray:
        """Labels of the nodes of part ``p``, read from its file."""
        parts, work = self.certificate.source.parts, self.certificate.work
        state = read_state(parts, work, self.certificate.source.n_labels)
        if state is None or not 0 <= p < parts.n_parts:
            raise InvalidParameterError(f"part is {p!r}, wanted 0..{parts.n_parts - 1} of a run that is still in {work}.")
        return load_labels(labels_path(work, state.generation, p))

    def labels(self) -> np.ndarray:
        """Labels of all nodes, in memory, in the order of the whole graph; (height, width) for a grid."""
        parts = self.certificate.source.parts
        found = parts.gather(self.part_labels)
        return found if parts.shape is None else found.reshape(parts.shape)


def _relative(gap: float, score: float, bound: float) -> float:
    scale = max(abs(score), abs(bound))
    return 0.0 if gap == 0 else gap / scale if 0 < scale < np.inf else np.inf


def solve_parts(
    parts: str | Path | Parts,
    out: str | Path,
    tol: float = 1e-3,
    max_iter: int = 500,
    time_limit: float | None = None,
    executor: Any = None,
    callback: Callback | None = None,
) -> PartsResult:
    """Solve a max-sum problem in parts by TRW-S, with messages and labels in files.

    Memory is that of the parts which are visited at the same time, and of the cut edges. A run that was stopped or killed goes on
    from its files when it is called again with the same ``out``. ``Ctrl-C`` returns the best so far.

    Parameters
    ----------
    parts : path or Parts
        A problem in parts: `write_parts`, `write_grid`.
    out : path
        Folder of the run, made if needed: messages, labels, state. About 16 bytes an edge and label.
    tol : float
        Stop at this relative gap.
    max_iter : int
        Rounds, each a pass forward and back.
    time_limit : float, optional
        Seconds, looked at between rounds. The check of the answer comes after it.
    executor : optional
        ``"serial"`` (default), ``"threads"``, ``"processes"``, an executor of `maxsum.learning`, or a client of Dask whose workers see
        the folders. The answer does not depend on it.
    callback : callable, optional
        Called with a `TracePoint` after each step; a true value stops the run.

    Returns
    -------
    PartsResult
    """
    parts = open_parts(parts)
    if parts.kind != "problem":
        raise InvalidSampleError(f"{parts.folder} holds features, not scores; wanted a problem. See predict_parts.")
    return run(Source(parts), out, tol, max_iter, time_limit, executor, callback)


def run(
    source: Source,
    out: str | Path,
    tol: float = 1e-3,
    max_iter: int = 500,
    time_limit: float | None = None,
    executor: Any = None,
    callback: Callback | None = None,
) -> PartsResult:
    """`solve_parts` with scores from any source."""
    check_value("time_limit", time_limit, TIME_LIMIT)
    check_value("tol", tol, RELATIVE_GAP)
    check_value("max_iter", max_iter, WholeNumber(1, wanted="a number of rounds >= 1"))
    if source.n_labels < 2:
        raise UnsupportedProblemError(f"the graph has {source.n_labels} labels; wanted two or more.")
    with executing(executor) as running:
        search = _Search(Engine(source, out, running), tol, max_iter, time_limit, callback)
        with search:
            search.run()
        return search.result(executor=running)


class _Search(Interruptible):
    """One run: clock, best labelling, trace."""

    def __init__(self, engine: Engine, tol: float, max_iter: int, time_limit: float | None, callback: Callback | None):
        super().__init__(time_limit)
        self.engine, self.tol, self.max_iter, self.callback = engine, float(tol), int(max_iter), callback
        self.termination = Termination.iteration_limit
        self.best, self.best_labels = Labelling(-1, -np.inf), engine.labels.copy()
        self.bounds: list[float] = []
        self.trace: list[TracePoint] = []
        self.saved = time.perf_counter()
        state = read_state(engine.parts, engine.work, engine.source.n_labels)
        if state is not None:
            engine.resume(state)
            self.best, self.best_labels = Labelling(state.generation, state.score), state.labels.copy()

    def run(self) -> None:
        n, next_label = 0, 1
        while True:
            step = max(1, min(next_label - n, 5, self.max_iter - n))
            self.bounds += self.engine.rounds(step)
            n += step
            stop = self.over(n)
            if n >= next_label or stop or n >= self.max_iter:
                self.label()
                next_label = max(n + 2, math.ceil(1.5 * n))
                stop = stop or self.over(n)
            self.trace.append(TracePoint(n, self.seconds, self.best.score, self.bounds[-1]))
            log.info("parts, round %d: score %.8g, bound %.8g", n, self.best.score, self.bounds[-1])
            if self.callback is not None and self.callback(self.trace[-1]):
                self.termination, stop = Termination.stopped, True
            if stop or n >= self.max_iter:
                return
            if time.perf_counter() - self.saved > _TUNING.save_seconds:
                self.save()

    def over(self, n: int) -> bool:
        """Whether the gap is small enough, the bound does not fall any more, or the time is over."""
        gap = self.bounds[-1] - self.best.score
        if _relative(max(gap, 0.0), self.best.score, self.bounds[-1]) <= self.tol:
            self.termination = Termination.converged
            return True
        if len(self.bounds) > 40 and self.bounds[-21] - self.bounds[-1] <= _TUNING.stalled * gap:
            self.termination = Termination.stalled
            return True
        if self.seconds_left <= 0:
            self.termination = Termination.time_limit
            return True
        return False

    def label(self) -> None:
        """A new labelling, kept if it is the best so far."""
        found = self.engine.label()
        if found.score > self.best.score:
            old, self.best, self.best_labels = self.best, found, self.engine.labels.copy()
            self.save()
            if old.generation >= 0:
                self.engine.drop(old.generation)
        else:
            self.engine.drop(found.generation)

    def save(self) -> None:
        self.engine.save(self.best.generation, self.best_labels, self.best.score)
        self.saved = time.perf_counter()

    def result(self, executor: Any) -> PartsResult:
        if self.best.generation < 0:
            self.label()
        self.save()
        certificate = PartsCertificate(self.engine.source, self.engine.work)
        started = time.perf_counter()
        found = certificate.verify(executor=executor)
        guarantee = Guarantee.optimal if found.optimal else Guarantee.within_gap
        result = PartsResult(
            score=found.score,
            bound=found.bound,
            gap=found.gap,
            termination=self.termination,
            guarantee=guarantee,
            message=f"{self.engine.parts.n_parts} parts of {len(self.engine.batches)} colours: {self.termination.replace('_', ' ')}; {found}.",
            certificate=certificate,
            n_iter=self.engine.n_rounds,
            seconds=self.seconds,
            check_seconds=time.perf_counter() - started,
            trace=tuple(self.trace),
        )
        log.info("%r", result)
        return result
