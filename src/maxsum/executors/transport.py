"""How values travel between processes of one machine: pickles, whose arrays lie beside them in a file and are mapped, not copied."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# Bytes from which results go through a file that is mapped and not through the pipe, which would copy them twice.
_LARGE = 2**20
_ALIGNED = 64  # bytes to which arrays are aligned in it: a line of the cache
_last: tuple[str, Any] = ("", None)


def store(value: Any, folder: str | Path) -> tuple[str, int]:
    """Write a value to a new file of a folder; its path and size."""
    return _write(_parts(value), folder)


def _parts(value: Any) -> list[memoryview]:
    """The pickle of a value, and the arrays that it leaves out."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, 5, buffer_callback=buffers.append)
    return [memoryview(head), *(buffer.raw() for buffer in buffers)]


def _write(parts: list[memoryview], folder: str | Path) -> tuple[str, int]:
    """A file with the number of parts and their lengths, then the parts, each from a multiple of 64 bytes on."""
    path = Path(folder, uuid.uuid4().hex)
    with path.open("wb") as file:
        np.array([len(parts), *map(len, parts)], dtype="<i8").tofile(file)
        for part in parts:
            file.seek(_next(file.tell()))
            file.write(part)
        size = file.truncate()
    return str(path), size


def fetch(path: str | Path, keep: bool = True) -> tuple[Any, int]:
    """What `store` wrote, and how many bytes it takes; arrays are views of the file, and writable, but never written to it."""
    with open(path, "rb") as file:
        content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    if not keep:
        with contextlib.suppress(OSError):
            os.unlink(path)
    n = int(np.frombuffer(content, dtype="<i8", count=1)[0])
    parts, end = [], 8 * (n + 1)
    for length in np.frombuffer(content, dtype="<i8", count=n, offset=8).tolist():
        start = _next(end)
        end = start + length
        parts.append(content[start:end])
    return pickle.loads(parts[0], buffers=parts[1:]), len(content)


def _next(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED


def work(packed: bytes, handle: Any) -> Any:
    """What a worker does: unpack a function and its item, and run it, with what its path or its own ``load`` brings."""
    function, item = pickle.loads(packed)
    if isinstance(handle, str):
        handle = cached(handle, lambda: fetch(handle)[0])
    elif handle is not None:
        handle = handle.load()
    return apply(function, item, handle)


def work_beside(packed: bytes, handle: str | None, folder: str) -> bytes | str:
    """`work` on the same machine: small results are pickled, large ones stored in a folder."""
    found = work(packed, handle)
    parts = _parts(found)
    if sum(map(len, parts)) > _LARGE:
        with contextlib.suppress(OSError):
            return _write(parts, folder)[0]
    return pickle.dumps(found, 5)


def received(found: bytes | str) -> tuple[Any, int]:
    """What `work_beside` returned, and its bytes."""
    return (pickle.loads(found), len(found)) if isinstance(found, bytes) else fetch(found, keep=False)


def apply(function: Callable[..., Any], item: Any, shared: Any) -> Any:
    """The function with or without what all tasks share."""
    return function(item) if shared is None else function(item, shared)


def cached(token: str, load: Callable[[], Any]) -> Any:
    """The shared object of the newest call, kept for the next task of it."""
    global _last
    last = _last
    if last[0] != token:
        last = _last = (token, load())
    return last[1]
