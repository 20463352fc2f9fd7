"""DaskExecutor: tasks on a Dask cluster."""

from __future__ import annotations

import contextlib
import logging
import pickle
import uuid
from collections.abc import Callable
from importlib import import_module
from typing import Any

from ..core.errors import ExecutorError
from .base import PATIENCE, Executor
from .transport import cached, work

log = logging.getLogger(__name__)
# Until a scheduler that does not answer is given up: the default of Dask, so that errors come as its users know them.
_CONNECT_SECONDS = 30


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
        """Threads of all workers of the cluster at this moment, 1 at least."""
        try:
            return max(1, sum(self.client.nthreads().values()))
        except (OSError, TimeoutError, AttributeError) as error:
            raise self._gone(error) from error

    def _run(
        self, function: Callable[..., Any], items: list[Any], names: list[str], shared: Any, homes: list[int] | None
    ) -> list[Any]:
        done: dict[int, Any] = {}
        failures = 0
        while len(done) < len(items):
            left = [i for i in range(len(items)) if i not in done]
            try:
                self._attempt(function, items, names, left, shared, homes, done)
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
                if failures >= PATIENCE:
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
        homes: list[int] | None,
        done: dict[int, Any],
    ) -> None:
        handle = None
        if shared is not None:
            packed = pickle.dumps(shared, 5)
            self.bytes_sent += len(packed) * max(1, len(self.client.nthreads()))
            handle = self.client.scatter(_Packed(packed), broadcast=True, hash=False)
        seats = [address for address, n in sorted(self.client.nthreads().items()) for _ in range(n)]
        homes = homes if seats else None
        stamp, futures = uuid.uuid4().hex[:8], {}
        for i in left:
            own = pickle.dumps((function, items[i]), 5)
            self.bytes_sent += len(own)
            where = {} if homes is None else {"workers": [seats[homes[i] % len(seats)]], "allow_other_workers": True}
            futures[i] = self.client.submit(_work, own, handle, key=f"{names[i]}-{stamp}", pure=False, **where)
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
        return cached(self.token, lambda: pickle.loads(self.content))


def _work(packed: bytes, handle: Any) -> bytes:
    """`work`, with its result packed, so that its bytes are counted."""
    return pickle.dumps(work(packed, handle), 5)
