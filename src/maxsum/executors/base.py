"""Executors: the one place that knows whether tasks run here, in threads, in processes or on a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Self

from ..core.errors import ExecutorError, InvalidParameterError
from ..core.parameters import WholeNumber, check_value
from .threads import n_threads
from .transport import apply, received, store, work_beside

log = logging.getLogger(__name__)
PATIENCE = 5


class Executor(ABC):
    """Who runs tasks. Tasks must be pure, or write the same files when they run again: a task whose worker is lost runs once more.

    Attributes
    ----------
    n_workers : int
        Tasks that run at the same time.
    bytes_sent, bytes_received : int
        What went to workers and came back so far; 0 where nothing is copied.
    n_lost : int
        How often workers were lost and replaced.
    """

    n_workers = 1
    bytes_sent = 0
    bytes_received = 0
    n_lost = 0

    def run(
        self,
        function: Callable[..., Any],
        items: Sequence[Any],
        names: Sequence[str] | None = None,
        shared: Any = None,
        homes: Sequence[int] | None = None,
    ) -> list[Any]:
        """``[function(item, shared) for item in items]``, in this order whoever is ready first; without ``shared`` ``function(item)``.

        Parameters
        ----------
        function : callable
            A function of a module, so that other processes find it.
        items : sequence
        names : sequence of str, optional
            What the tasks are called on a dashboard.
        shared : object, optional
            Goes to each worker once, however many tasks it has.
        homes : sequence of int, optional
            Number of the worker that should have each task, as it may remember what it needs; another one takes it who is idle.

        Raises
        ------
        ExecutorError
            If workers die again and again, or the scheduler is gone. What a task raises itself is raised as it is.
        """
        items = list(items)
        labels = [f"{getattr(function, '__name__', 'task')}-{i}" for i in range(len(items))] if names is None else list(names)
        if len(labels) != len(items):
            raise InvalidParameterError(f"names has {len(labels)} entries, wanted one for each of {len(items)} tasks.")
        return self._run(function, items, labels, shared, list(homes) if homes is not None else None) if items else []

    @abstractmethod
    def _run(
        self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any, homes: list[int] | None
    ) -> list[Any]: ...

    def close(self) -> None:  # noqa: B027
        """Let workers go; the executor starts new ones if it is used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Serial(Executor):
    """Tasks one after the other, here."""

    def _run(
        self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any, homes: list[int] | None
    ) -> list[Any]:
        return [apply(function, item, shared) for item in items]


class Threads(Executor):
    """Tasks in threads of this process; kernels run side by side, Python code does not.

    Parameters
    ----------
    n_workers : int, optional
        By default one a core.
    """

    def __init__(self, n_workers: int | None = None):
        self.n_workers = as_workers(n_workers)

    def _run(
        self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any, homes: list[int] | None
    ) -> list[Any]:
        with ThreadPoolExecutor(min(self.n_workers, len(items)), "maxsum") as pool:
            futures = [pool.submit(apply, function, item, shared) for item in items]
            try:
                return [future.result() for future in futures]
            except BaseException:
                _cancel(futures)
                raise


class Processes(Executor):
    """Tasks in processes of this machine, each started afresh (``spawn``), so threads and locks of this one do not matter.

    A script that uses them must be importable: its own work below ``if __name__ == "__main__":``.

    Parameters
    ----------
    n_workers : int, optional
        By default one a core.
    """

    def __init__(self, n_workers: int | None = None):
        self.n_workers = as_workers(n_workers)
        self._pools: dict[int, ProcessPoolExecutor] = {}
        self._folder: str | None = None

    def _run(
        self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any, homes: list[int] | None
    ) -> list[Any]:
        handle = self._share(shared)
        done: dict[int, Any] = {}
        failures = 0
        try:
            while len(done) < len(items):
                left = [i for i in range(len(items)) if i not in done]
                n_lost = self.n_lost
                self._attempt(function, items, left, homes, handle, done)
                if self.n_lost == n_lost or len(done) == len(items):
                    continue
                failures = failures + 1 if len(done) == len(items) - len(left) else 1
                if failures >= PATIENCE:
                    raise ExecutorError(
                        f"task {names[left[0]]!r}: its worker process died {failures} times in a row (killed, out of memory, or the "
                        "script does not have its work below `if __name__ == '__main__':`). Use fewer workers or smaller shards."
                    )
                log.warning("a worker process died; %d tasks run again in new ones.", len(items) - len(done))
        finally:
            if handle is not None:
                with contextlib.suppress(OSError):
                    os.unlink(handle)
        return [done[i] for i in range(len(items))]

    def _attempt(
        self,
        function: Callable[..., Any],
        items: list[Any],
        left: list[int],
        homes: list[int] | None,
        handle: str | None,
        done: dict[int, Any],
    ) -> None:
        """Run what is left, each worker its own tasks first, then those of the one who has most; tasks of workers that die stay undone."""
        waiting: list[deque[int]] = [deque() for _ in range(self.n_workers)]
        for place, i in enumerate(left):
            waiting[(place if homes is None else homes[i]) % self.n_workers].append(i)
        running: dict[Future[bytes | str], tuple[int, int]] = {}
        errors: dict[int, Exception] = {}

        def start(worker: int) -> None:
            longest = max(waiting, key=len)
            if not longest:
                return
            i = waiting[worker].popleft() if waiting[worker] else longest.pop()
            packed = pickle.dumps((function, items[i]), 5)
            try:
                future = self._worker(worker).submit(work_beside, packed, handle, self._place())
            except BrokenProcessPool:
                self._lost(worker)
                future = self._worker(worker).submit(work_beside, packed, handle, self._place())
            running[future] = worker, i
            self.bytes_sent += len(packed)

        try:
            for worker in range(self.n_workers):
                start(worker)
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    worker, i = running.pop(future)
                    try:
                        done[i], size = received(future.result())
                    except BrokenProcessPool:
                        self._lost(worker)
                    except Exception as error:
                        errors[i] = error
                    else:
                        self.bytes_received += size
                        if not errors:
                            start(worker)
        except BaseException:
            _cancel(running)
            raise
        if errors:
            raise errors[min(errors)]

    def _share(self, shared: Any) -> str | None:
        if shared is None:
            return None
        path, size = store(shared, self._place())
        self.bytes_sent += self.n_workers * size
        return path

    def _place(self) -> str:
        """A folder for what is large."""
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="maxsum-")
        return self._folder

    def _worker(self, number: int) -> ProcessPoolExecutor:
        """A pool of one process: who dies takes no one with him, and who is asked again remembers."""
        if number not in self._pools:
            self._pools[number] = ProcessPoolExecutor(1, get_context("spawn"), _one_thread_of_blas)
        return self._pools[number]

    def _lost(self, number: int) -> None:
        self._dismiss(number)
        self.n_lost += 1

    def _dismiss(self, number: int) -> None:
        self._pools.pop(number).shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        for number in list(self._pools):
            self._dismiss(number)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def _one_thread_of_blas() -> None:
    """Hold linear algebra to one thread in a worker: as many workers as cores would start as many threads each. Dask does so by itself."""
    import scipy.linalg  # noqa: F401  # has a BLAS of its own, which must be loaded to be told
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    threadpool_limits(1)


def _cancel(futures: Any) -> None:
    for future in futures:
        future.cancel()


def as_workers(n_workers: Any) -> int:
    """A number of workers; None for one a core."""
    if n_workers is None:
        return n_threads(-1)
    check_value("n_workers", n_workers, WholeNumber(1, wanted="a whole number >= 1, or None for one a core"))
    return int(n_workers)


def as_executor(value: Any = None, n_workers: int | None = None) -> Executor:
    """An executor from what users give.

    Parameters
    ----------
    value : None, str, Executor or dask.distributed.Client
        ``"serial"`` (the default), ``"threads"``, ``"processes"``, a client of Dask or the address of its scheduler
        (``"tcp://host:8786"``), or an executor, which is returned as it is.
    n_workers : int, optional
        Of threads or processes; by default one a core.
    """
    if isinstance(value, Executor):
        return value
    if value is None or (isinstance(value, str) and value == "serial"):
        return Serial()
    if isinstance(value, str) and value == "threads":
        return Threads(n_workers)
    if isinstance(value, str) and value == "processes":
        return Processes(n_workers)
    if isinstance(value, str) and "://" in value:
        return _dask().connect(value)  # type: ignore[no-any-return]
    if all(hasattr(value, name) for name in ("submit", "scatter", "gather", "nthreads")):
        return _dask()(value)  # type: ignore[no-any-return]
    raise InvalidParameterError(
        f"executor is {value!r}, wanted 'serial', 'threads', 'processes', an Executor of maxsum.learning, a dask.distributed.Client, or its "
        "scheduler's address, 'tcp://host:8786'."
    )


def _dask() -> Any:
    from .dask import DaskExecutor

    return DaskExecutor


@contextlib.contextmanager
def executing(value: Any = None, n_workers: int | None = None) -> Iterator[Executor]:
    """`as_executor` for the time of a ``with``: closes what it made itself, leaves open what was given."""
    executor = as_executor(value, n_workers)
    try:
        yield executor
    finally:
        if executor is not value:
            executor.close()
