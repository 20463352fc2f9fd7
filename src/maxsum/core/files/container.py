"""One container for states and models: a JSON header and named arrays of numbers, with a checksum; nothing in it is executed.

A file holds a mark, a version, the SHA-256 of all that follows, the length of the header, the header, and the arrays one after
another, little-endian. The header's entry ``arrays`` lists name, type and shape of each.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..errors import MaxsumError
from .store import atomic

_LENGTH = struct.Struct("<Q")
_CHUNK = 2**16  # bytes that are hashed at a time: fits the cache


@dataclass(frozen=True)
class Container:
    """A kind of file.

    Parameters
    ----------
    noun : str
        What the file is called in errors.
    mark : bytes
        First bytes of every such file.
    version : int
        The version that is written.
    error : type
        What is raised for a file that is not sound.
    way_out : str
        Last sentence of an error; ``{path}`` stands for the file.
    oldest : int
        The first version that is still read.
    largest_header : int
        Most bytes of a header.
    """

    noun: str
    mark: bytes
    version: int
    error: type[MaxsumError]
    way_out: str
    oldest: int = 1
    largest_header: int = 2**28

    @property
    def _start(self) -> struct.Struct:
        return struct.Struct(f"<{len(self.mark)}sI32s")

    def save(self, path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, Any], durable: bool = True) -> None:
        """Write a file, whole or not at all: after any failure ``path`` is as it was before; see `atomic` for ``durable``."""
        own = {name: portable(array, self.noun) for name, array in arrays.items()}
        listed = [[name, array.dtype.str, list(array.shape)] for name, array in own.items()]
        text = json.dumps({**header, "arrays": listed}, allow_nan=False).encode()
        parts = [_LENGTH.pack(len(text)), text, *(_bytes(array) for array in own.values())]
        start = self._begin(parts)

        def write(file: BinaryIO) -> None:
            file.write(start)
            for part in parts:
                file.write(part)

        atomic(Path(path), None, write, durable)

    def seal(self, body: bytes) -> bytes:
        """The bytes of a file with a body of one's own, for tests: length, header and arrays."""
        return self._begin([body]) + body

    def _begin(self, parts: Iterable[Any]) -> bytes:
        return self._start.pack(self.mark, self.version, digest(parts))

    def load(self, path: str | Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Header and arrays; never more memory than a small multiple of the file."""
        return self._load(path, True)

    def header(self, path: str | Path) -> dict[str, Any]:
        """The header alone; the checksum of the whole file is tested all the same."""
        return self._load(path, False)[0]

    def _load(self, path: str | Path, everything: bool) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            with open(path, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise self.fault(path, "is no regular file")
                size = os.fstat(file.fileno()).st_size
                self._check(path, file)
                return self._unpack(path, file, size, everything)
        except OSError as error:
            raise self.fault(path, f"cannot be read: {error.strerror or error}") from error

    def _check(self, path: str | Path, file: BinaryIO) -> None:
        """Mark, version and checksum; leaves the file at the length of the header."""
        start = file.read(self._start.size)
        if len(start) < self._start.size or start[: len(self.mark)] != self.mark:
            raise self.fault(path, f"is no {self.noun} of maxsum, or a truncated one")
        _, version, wanted = self._start.unpack(start)
        if not self.oldest <= version <= self.version:
            known = str(self.version) if self.oldest == self.version else f"{self.oldest} to {self.version}"
            newer = "; a newer maxsum wrote it" if version > self.version else ""
            raise self.fault(path, f"has format version {version}, wanted {known}{newer}")
        total = hashlib.sha256()
        while chunk := file.read(_CHUNK):
            total.update(chunk)
        if total.digest() != wanted:
            raise self.fault(
                path, f"is truncated or damaged: its checksum is {total.hexdigest()[:12]}, wanted {wanted.hex()[:12]}"
            )
        file.seek(self._start.size)

    def _unpack(
        self, path: str | Path, file: BinaryIO, size: int, everything: bool
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        try:
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            left = size - file.tell() - length
            if left < 0 or length > self.largest_header:
                raise ValueError(f"its length is given as {length} bytes, in a file of {size}")
            header = json.loads(file.read(length), parse_constant=_no_constant)
            listed = [(name, np.dtype(str(kind)), tuple(shape)) for name, kind, shape in header["arrays"]]
            arrays: dict[str, np.ndarray] = {}
            for name, dtype, shape in listed:
                if dtype.kind not in "biuf" or dtype.hasobject or not all(type(n) is int and n >= 0 for n in shape):
                    raise ValueError(f"array {name!r} has type {dtype} and shape {shape}")
                if type(name) is not str or name in arrays:
                    raise ValueError(f"array {name!r} is listed twice, or has no name")
                left -= math.prod(shape) * dtype.itemsize
                if left < 0:
                    raise ValueError(f"array {name!r} does not fit into the file")
                arrays[name] = np.zeros(0)
            if left:
                raise ValueError(f"{left} bytes are left over")
            for name, dtype, shape in listed if everything else ():
                array = np.empty(shape, dtype=dtype)
                if array.size and file.readinto(array.reshape(-1).view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
                    raise ValueError(f"array {name!r} ends too early")
                arrays[name] = array
        except (ValueError, KeyError, TypeError, struct.error, RecursionError, SyntaxError, OverflowError) as error:
            raise self.fault(path, f"has a broken header ({str(error)[:300]})") from None
        return header, arrays if everything else {}

    def fault(self, path: str | Path, words: str) -> MaxsumError:
        """The error that says what is wrong with a file."""
        return self.error(f"{self.noun} {path} {words}. {self.way_out.format(path=path)}")


def digest(parts: Iterable[Any]) -> bytes:
    """SHA-256 of parts, one after another."""
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.digest()


def digest_arrays(arrays: Iterable[np.ndarray]) -> bytes:
    """SHA-256 of types, shapes and contents of arrays."""
    parts: list[Any] = []
    for array in arrays:
        own = portable(array)
        parts += [f"{own.dtype.str}{own.shape}".encode(), _bytes(own)]
    return digest(parts)


def portable(array: Any, noun: str = "checkpoint") -> np.ndarray:
    """Contiguous, little-endian, and nothing but numbers."""
    own = np.asarray(array)
    if own.dtype.kind not in "biuf":
        raise TypeError(f"a {noun} holds numbers, not {own.dtype}.")
    return np.ascontiguousarray(own, dtype=own.dtype.newbyteorder("<")).reshape(own.shape)


def _bytes(array: np.ndarray) -> Any:
    return array.data.cast("B") if array.size else b""


def _no_constant(text: str) -> Any:
    raise ValueError(f"the number {text}")
