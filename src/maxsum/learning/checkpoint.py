r"""Checkpoints: the state of a training in one file, whole or not at all, and used only where it belongs.

A file holds a mark, a version, the SHA-256 of all that follows, the length of a JSON header, the header (learner, data, names,
types and shapes of arrays) and the arrays. Nothing in it is executed.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from ..core.errors import CheckpointError
from ..core.files.store import atomic

if TYPE_CHECKING:
    from .driver import Learner
    from .objective import Objective

VERSION = 1
_MARK = b"maxsum checkpoint"
_START = struct.Struct(f"<{len(_MARK)}sI32s")
_LENGTH = struct.Struct("<Q")
_RUN_ONLY = {"tol", "max_iter", "time_limit", "checkpoint", "checkpoint_seconds"}


def save_checkpoint(path: str | Path, learner: Learner, objective: Objective, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a state, whole or not at all: after any failure ``path`` is as it was before.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    save_arrays(path, _origin(learner, objective), arrays)


def save_arrays(path: str | Path, origin: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays and what they belong to, whole or not at all."""
    own = {name: _portable(array) for name, array in arrays.items()}
    header = {**origin, "arrays": [[name, array.dtype.str, list(array.shape)] for name, array in own.items()]}
    text = json.dumps(header).encode()
    parts = [_LENGTH.pack(len(text)), text, *(array.data.cast("B") if array.size else b"" for array in own.values())]
    digest = _digest(parts)

    def write(file: BinaryIO) -> None:
        file.write(_START.pack(_MARK, VERSION, digest))
        for part in parts:
            file.write(part)

    atomic(Path(path), None, write)


def load_checkpoint(path: str | Path, learner: Learner, objective: Objective) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint of this learner and these data.

    Raises
    ------
    CheckpointError
        If the file is broken, of another version, or of another learner or other data.
    """
    return load_arrays(path, _origin(learner, objective))


def load_arrays(path: str | Path, origin: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays that `save_arrays` wrote with this origin."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error.strerror or error}. {_way_out(path)}") from error
    if len(content) < _START.size + _LENGTH.size or content[: len(_MARK)] != _MARK:
        raise CheckpointError(f"checkpoint {path} is no checkpoint of maxsum, or a truncated one. {_way_out(path)}")
    _, version, digest = _START.unpack_from(content)
    if version != VERSION:
        raise CheckpointError(f"checkpoint {path} has format version {version}, wanted {VERSION}. {_way_out(path)}")
    body = memoryview(content)[_START.size :]
    found = _digest([body])
    if found != digest:
        raise CheckpointError(
            f"checkpoint {path} is truncated or damaged: its checksum is {found.hex()[:12]}, wanted {digest.hex()[:12]}. "
            f"{_way_out(path)}"
        )
    header, arrays = _unpack(path, body)
    for name, wanted in origin.items():
        if header.get(name) != wanted:
            raise CheckpointError(
                f"checkpoint {path} was written with another {_NAMES.get(name, name)}: found {header.get(name)}, wanted {wanted}. "
                f"{_way_out(path)}"
            )
    return arrays


_NAMES = {
    "learner": "learner",
    "parameters": "learner's parameters",
    "objective": "objective",
    "data": "training set, loss or C",
}


def _way_out(path: str | Path) -> str:
    return f"Remove {path} to start from nothing, or name another file."


def _origin(learner: Learner, objective: Objective) -> dict[str, Any]:
    """What a state belongs to."""
    own = {field.name: getattr(learner, field.name) for field in fields(learner) if field.name not in _RUN_ONLY}
    parameters = {name: repr(value.item() if isinstance(value, np.generic) else value) for name, value in own.items()}
    oracle = getattr(objective, "oracle", None)
    return {
        "learner": type(learner).__name__,
        "parameters": parameters,
        "objective": type(objective).__name__ + ("" if oracle is None else f" with {type(oracle).__name__}"),
        "data": fingerprint(objective),
    }


def fingerprint(objective: Objective) -> str:
    """SHA-256 of the data of an objective and of the weights of its examples."""
    return _digest([objective.digest, _portable(objective.c).tobytes()]).hex()


def digest_arrays(arrays: Iterable[np.ndarray]) -> bytes:
    """SHA-256 of types, shapes and contents of arrays."""
    parts: list[Any] = []
    for array in arrays:
        own = _portable(array)
        parts += [f"{own.dtype.str}{own.shape}".encode(), own.data.cast("B") if own.size else b""]
    return _digest(parts)


def _digest(parts: Iterable[Any]) -> bytes:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
    return total.digest()


def _portable(array: Any) -> np.ndarray:
    """Contiguous, little-endian, and nothing but numbers."""
    own = np.asarray(array)
    if own.dtype.kind not in "biuf":
        raise TypeError(f"a checkpoint holds numbers, not {own.dtype}.")
    return np.ascontiguousarray(own, dtype=own.dtype.newbyteorder("<")).reshape(own.shape)


def _unpack(path: str | Path, body: memoryview) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        (length,) = _LENGTH.unpack_from(body)
        start = _LENGTH.size + length
        header = json.loads(bytes(body[_LENGTH.size : start]))
        arrays = {}
        for name, kind, shape in header["arrays"]:
            dtype = np.dtype(kind)
            if dtype.kind not in "biuf" or not all(isinstance(n, int) and n >= 0 for n in shape):
                raise ValueError(f"array {name!r} has type {kind} and shape {shape}")
            size = math.prod(shape) * dtype.itemsize
            if size > len(body) - start:
                raise ValueError(f"array {name!r} does not fit into the file")
            arrays[name] = np.frombuffer(body[start : start + size], dtype=dtype).reshape(shape).copy()
            start += size
        if start != len(body):
            raise ValueError(f"{len(body) - start} bytes are left over")
    except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise CheckpointError(f"checkpoint {path} has a broken header ({error}). {_way_out(path)}") from None
    return header, arrays
