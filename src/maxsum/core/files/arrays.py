"""Named arrays in one file, each at a multiple of 64 bytes, so that they can be read by mapping the file into memory."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import ParseError
from .store import atomic

_MARK = b"maxsum arrays 1\n"
_LENGTH = struct.Struct("<Q")
_ALIGN = 64  # bytes to which arrays are aligned in a file: a line of the cache, so that mapped arrays are as fast as others
_HEADER_BYTES = 1_000_000  # of the largest header that is read: files from strangers are not trusted with memory


def write_arrays(path: str | Path, arrays: Mapping[str, np.ndarray]) -> tuple[int, str]:
    """Write arrays of numbers, whole or not at all; returns bytes and SHA-256 of the file."""
    own = {name: np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")) for name, array in arrays.items()}
    header = json.dumps([[name, array.dtype.str, list(array.shape)] for name, array in own.items()]).encode()
    total, size = hashlib.sha256(), 0

    def write(file: BinaryIO) -> None:
        nonlocal size
        parts: list[Any] = [_MARK + _LENGTH.pack(len(header)) + header]
        parts += [array.data.cast("B") for array in own.values() if array.size]
        for part in parts:
            for piece in (bytes(-size % _ALIGN), part):
                file.write(piece)
                total.update(piece)
                size += len(piece)

    atomic(Path(path), None, write)
    return size, total.hexdigest()


def map_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file, read-only and read from the disk when they are used.

    Raises
    ------
    ParseError
        If it is no such file, or a truncated one.
    """
    try:
        with Path(path).open("rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except ValueError:
        raise ParseError("the file is empty.", str(path)) from None
    start = len(_MARK) + _LENGTH.size
    if len(content) < start or bytes(content[: len(_MARK)]) != _MARK:
        raise ParseError("this is no file of arrays of maxsum, or one of another version.", str(path))
    (length,) = _LENGTH.unpack(content[len(_MARK) : start])
    if length > min(_HEADER_BYTES, len(content) - start):
        raise ParseError(f"the header claims {length} bytes, which the file does not have.", str(path))
    arrays: dict[str, np.ndarray] = {}
    at = start + length
    try:
        rows: list[Any] = json.loads(bytes(content[start:at]))
        for name, kind, shape in rows:
            dtype = np.dtype(kind)
            if dtype.kind not in "biuf" or not all(type(n) is int and n >= 0 for n in shape):
                raise ValueError(f"array {name!r} has type {kind} and shape {shape}")
            size = math.prod(shape) * dtype.itemsize
            at += -at % _ALIGN if size else 0
            if size > len(content) - at:
                raise ValueError(f"array {name!r} does not fit into the file")
            arrays[name] = np.frombuffer(content[at : at + size], dtype=dtype).reshape(shape)
            at += size
        if at != len(content):
            raise ValueError(f"{len(content) - at} bytes are left over")
    except (ValueError, TypeError, RecursionError) as error:
        raise ParseError(f"the header is broken ({error}).", str(path)) from None
    return arrays


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
