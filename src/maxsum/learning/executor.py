"""Executors: the one place that knows whether tasks run here, in threads, in processes or on a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import shutil
import tempfile
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

from ..core.errors import ExecutorError, InvalidSampleError
from ..inference.parallel import n_threads

log = logging.getLogger(__name__)
_PATIENCE = 5
_CONNECT_SECONDS = 30
_last: tuple[str, Any] = ("", None)


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
        self, function: Callable[..., Any], items: Sequence[Any], names: Sequence[str] | None = None, shared: Any = None
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

        Raises
        ------
        ExecutorError
            If workers die again and again, or the scheduler is gone. What a task raises itself is raised as it is.
        """
        items = list(items)
        labels = [f"{getattr(function, '__name__', 'task')}-{i}" for i in range(len(items))] if names is None else list(names)
        if len(labels) != len(items):
            raise InvalidSampleError(f"names has {len(labels)} entries, wanted one for each of {len(items)} tasks.")
        return self._run(function, items, labels, shared) if items else []

    @abstractmethod
    def _run(self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any) -> list[Any]: ...

    def close(self) -> None:  # noqa: B027
        """Let workers go; the executor starts new ones if it is used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Serial(Executor):
    """Tasks one after the other, here."""

    def _run(self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any) -> list[Any]:
        return [_apply(function, item, shared) for item in items]


class Threads(Executor):
    """Tasks in threads of this process; kernels run side by side, Python code does not.

    Parameters
    ----------
    n_workers : int, optional
        By default one a core.
    """

    def __init__(self, n_workers: int | None = None):
        self.n_workers = as_workers(n_workers)

    def _run(self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any) -> list[Any]:
        with ThreadPoolExecutor(min(self.n_workers, len(items)), "maxsum") as pool:
            futures = [pool.submit(_apply, function, item, shared) for item in items]
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
        self._pool: ProcessPoolExecutor | None = None
        self._folder: str | None = None

    def _run(self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any) -> list[Any]:
        handle = self._share(shared)
        done: dict[int, Any] = {}
        failures = 0
        try:
            while len(done) < len(items):
                left = [i for i in range(len(items)) if i not in done]
                if self._attempt(function, items, left, handle, done):
                    continue
                self._abandon()
                self.n_lost += 1
                failures = failures + 1 if len(done) == len(items) - len(left) else 1
                if failures >= _PATIENCE:
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
        self, function: Callable[..., Any], items: list[Any], left: list[int], handle: str | None, done: dict[int, Any]
    ) -> bool:
        """Run what is left; False if a worker died, with what others finished in ``done``."""
        futures: dict[int, Future[bytes]] = {}
        whole = True
        try:
            pool = self._workers()
            for i in left:
                packed = pickle.dumps((function, items[i]), 5)
                futures[i] = pool.submit(_work, packed, handle)
                self.bytes_sent += len(packed)
            for i, future in futures.items():
                with contextlib.suppress(BrokenProcessPool):
                    found = future.result()
                    done[i] = pickle.loads(found)
                    self.bytes_received += len(found)
                    continue
                whole = False
        except BrokenProcessPool:
            whole = False
        except BaseException:
            _cancel(futures.values())
            raise
        return whole

    def _share(self, shared: Any) -> str | None:
        if shared is None:
            return None
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="maxsum-")
        path = Path(self._folder, uuid.uuid4().hex)
        with path.open("wb") as file:
            pickle.dump(shared, file, 5)
        self.bytes_sent += self.n_workers * path.stat().st_size
        return str(path)

    def _workers(self) -> ProcessPoolExecutor:
        if self._pool is None:
            self._pool = ProcessPoolExecutor(self.n_workers, get_context("spawn"))
        return self._pool

    def _abandon(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def close(self) -> None:
        self._abandon()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class DaskExecutor(Executor):
    """Tasks on a Dask cluster; Dask restarts and replaces workers, this class counts and names.

    Parameters
    ----------
    client : dask.distributed.Client
    owned : bool
        Whether `close` closes the client; by default it stays open.
    """

    def __init__(self, client: Any, owned: bool = False):
        self.client, self.owned = client, owned

    @classmethod
    def connect(cls, address: str) -> DaskExecutor:
        """An executor on the scheduler at an address, with a client of its own, which `close` closes."""
        try:
            distributed = import_module("distributed")
        except ImportError as error:
            raise ExecutorError(
                f"executor is the address {address!r}, but dask.distributed is not installed: pip install 'maxsum[dask]'."
            ) from error
        try:
            return cls(distributed.Client(address, timeout=_CONNECT_SECONDS), owned=True)
        except (OSError, TimeoutError, ValueError) as error:
            raise ExecutorError(
                f"no Dask scheduler answers at {address!r} ({error}). Is it running, and the address right?"
            ) from error

    def close(self) -> None:
        if self.owned:
            self.client.close()

    @property
    def n_workers(self) -> int:  # type: ignore[override]
        try:
            return max(1, sum(self.client.nthreads().values()))
        except (OSError, TimeoutError, AttributeError) as error:
            raise self._gone(error) from error

    def _run(self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any) -> list[Any]:
        done: dict[int, Any] = {}
        failures = 0
        while len(done) < len(items):
            left = [i for i in range(len(items)) if i not in done]
            try:
                self._attempt(function, items, names, left, shared, done)
            except BaseException as error:
                kind = type(error).__name__
                if (
                    kind in ("CommClosedError", "TimeoutError", "ClosedClientError", "AttributeError")
                    or self.client.status != "running"
                ):
                    raise self._gone(error) from error
                if kind not in ("KilledWorker", "CancelledError", "FutureCancelledError", "NoValidWorkerError"):
                    raise
                self.n_lost += 1
                failures = failures + 1 if len(done) == len(items) - len(left) else 1
                if failures >= _PATIENCE:
                    raise ExecutorError(
                        f"task {names[left[0]]!r}: workers of {self._where()} died {failures} times ({error}). Their logs say why; use "
                        "workers with more memory, or smaller shards."
                    ) from error
                log.warning("workers of Dask died (%s); %d tasks run again.", error, len(items) - len(done))
        return [done[i] for i in range(len(items))]

    def _attempt(
        self,
        function: Callable[..., Any],
        items: list[Any],
        names: list[str],
        left: list[int],
        shared: Any,
        done: dict[int, Any],
    ) -> None:
        handle = None
        if shared is not None:
            packed = pickle.dumps(shared, 5)
            self.bytes_sent += len(packed) * max(1, len(self.client.nthreads()))
            handle = self.client.scatter(_Packed(packed), broadcast=True, hash=False)
        stamp, futures = uuid.uuid4().hex[:8], {}
        for i in left:
            work = pickle.dumps((function, items[i]), 5)
            self.bytes_sent += len(work)
            futures[i] = self.client.submit(_work, work, handle, key=f"{names[i]}-{stamp}", pure=False)
        try:
            for i, future in futures.items():
                found = future.result()
                done[i] = pickle.loads(found)
                self.bytes_received += len(found)
        finally:
            for future in futures.values():
                with contextlib.suppress(Exception):
                    future.cancel() if not future.done() else future.release()

    def _where(self) -> str:
        return f"the Dask scheduler {getattr(getattr(self.client, 'scheduler', None), 'address', '')}".rstrip()

    def _gone(self, error: BaseException) -> ExecutorError:
        return ExecutorError(
            f"{self._where()} does not answer any more ({type(error).__name__}: {error}). Start it again and run the same call: "
            "finished rounds are kept in the folder of the training."
        )


class _Packed:
    """Bytes on a worker that are unpacked once."""

    def __init__(self, content: bytes):
        self.content = content
        self.token = uuid.uuid4().hex

    def load(self) -> Any:
        return _cached(self.token, lambda: pickle.loads(self.content))


def _apply(function: Callable[..., Any], item: Any, shared: Any) -> Any:
    return function(item) if shared is None else function(item, shared)


def _work(packed: bytes, handle: Any) -> bytes:
    """What a worker does: unpack, run, pack."""
    function, item = pickle.loads(packed)
    if isinstance(handle, str):
        handle = _cached(handle, lambda: pickle.loads(Path(handle).read_bytes()))
    elif isinstance(handle, _Packed):
        handle = handle.load()
    return pickle.dumps(_apply(function, item, handle), 5)


def _cached(token: str, load: Callable[[], Any]) -> Any:
    """The shared object of the newest call, kept for the next task of it."""
    global _last
    last = _last
    if last[0] != token:
        last = _last = (token, load())
    return last[1]


def _cancel(futures: Any) -> None:
    for future in futures:
        future.cancel()


def as_workers(n_workers: Any) -> int:
    """A number of workers; None for one a core."""
    if n_workers is None:
        return n_threads(-1)
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise InvalidSampleError(f"n_workers is {n_workers!r}, wanted a whole number >= 1, or None for one a core.")
    return n_workers


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
        return DaskExecutor.connect(value)
    if all(hasattr(value, name) for name in ("submit", "scatter", "gather", "nthreads")):
        return DaskExecutor(value)
    raise InvalidSampleError(
        f"executor is {value!r}, wanted 'serial', 'threads', 'processes', an Executor of maxsum.learning, a dask.distributed.Client, or its "
        "scheduler's address, 'tcp://host:8786'."
    )


@contextlib.contextmanager
def executing(value: Any = None, n_workers: int | None = None) -> Iterator[Executor]:
    """`as_executor` for the time of a ``with``: closes what it made itself, leaves open what was given."""
    executor = as_executor(value, n_workers)
    try:
        yield executor
    finally:
        if executor is not value:
            executor.close()
