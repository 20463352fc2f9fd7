"""A file of named arrays that can be mapped into memory: a mark, a JSON header, and the arrays, each at a multiple of 64 bytes."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..errors import ParseError
from .store import atomic
from .text import shown

_MARK = b"maxsum arrays 1\n"
_ALIGN = 64
_MOST_HEADER = 1 << 20
_BLOCK = 1 << 22
_TYPES = ("<f8", "<f4", "<i8", "<i4", "|i1", "|u1")


class Written(NamedTuple):
    """SHA-256 (hexadecimal) and number of bytes of a file."""

    sha256: str
    size: int


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> Written:
    """Write arrays to one file, whole or not at all."""
    own = {name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    header = json.dumps([[name, array.dtype.str, list(array.shape)] for name, array in own.items()]).encode("ascii")
    digest, size = hashlib.sha256(), 0

    def write(file: BinaryIO) -> None:
        nonlocal size

        def put(content: Any) -> None:
            nonlocal size
            file.write(content)
            digest.update(content)
            size += memoryview(content).nbytes

        put(_MARK)
        put(len(header).to_bytes(8, "little"))
        put(header)
        for array in own.values():
            put(bytes(-size % _ALIGN))
            if array.size:
                put(array.data.cast("B"))

    atomic(Path(path), None, write)
    return Written(digest.hexdigest(), size)


def map_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file, read-only, mapped into memory: their pages are read when they are used.

    Raises
    ------
    ParseError
        If the file is missing, truncated, or not one of ours; it names the file.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            mark, length = file.read(len(_MARK)), int.from_bytes(file.read(8), "little")
            if mark != _MARK or length > _MOST_HEADER:
                raise ParseError("not a file of arrays of maxsum.", str(path))
            text = file.read(length)
        found = path.stat().st_size
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror or error}.", str(path)) from error
    layout, place = [], len(_MARK) + 8 + length
    for name, kind, shape in _header(text, path):
        place += -place % _ALIGN
        layout.append((name, kind, shape, place))
        place += math.prod(shape) * np.dtype(kind).itemsize
    if place != found:
        raise ParseError(f"holds {found} bytes, but its header declares {place}: truncated or damaged.", str(path))
    content = np.asarray(np.memmap(path, np.uint8, "r"))
    return {
        name: content[start : start + math.prod(shape) * np.dtype(kind).itemsize].view(kind).reshape(shape)
        for name, kind, shape, start in layout
    }


def _header(text: bytes, path: Path) -> list[tuple[str, str, tuple[int, ...]]]:
    try:
        rows = json.loads(text.decode("ascii"))
        found = [(name, kind, tuple(shape)) for name, kind, shape in rows]
    except (ValueError, TypeError, RecursionError) as error:
        raise ParseError(f"has a broken header ({error}).", str(path)) from None
    for name, kind, shape in found:
        sizes = all(type(size) is int and 0 <= size < 2**48 for size in shape)
        if not isinstance(name, str) or kind not in _TYPES or len(shape) > 8 or not sizes:
            raise ParseError(f"declares an array {shown(str((name, kind, shape)))}, which is none of ours.", str(path))
    if len({name for name, _, _ in found}) < len(found):
        raise ParseError("declares an array twice.", str(path))
    return found


def digest(path: str | Path) -> Written:
    """SHA-256 and size of a file, read block by block."""
    total, size = hashlib.sha256(), 0
    try:
        with Path(path).open("rb") as file:
            while block := file.read(_BLOCK):
                total.update(block)
                size += len(block)
    except OSError as error:
        raise ParseError(f"cannot be read: {error.strerror or error}.", str(path)) from error
    return Written(total.hexdigest(), size)
