"""Files that are written whole or not at all."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO


def atomic(path: Path, compression: str | None, write: Callable[[BinaryIO], None], durable: bool = True) -> None:
    """Let ``write`` fill a new file beside ``path``, force it to the disk and put it in the place of ``path``.

    On any failure, `KeyboardInterrupt` too, ``path`` is as before and the new file is removed. Without ``durable`` nothing is forced: for
    files that are of no use after the machine has gone down.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(8)}.part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if compression is None:
                write(file)
            else:
                with _compressed(file, compression) as packed:
                    write(packed)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    if durable:
        _sync_folder(target.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""

    def write(file: BinaryIO) -> None:
        file.write(content)

    atomic(path, None, write)


def _compressed(file: BinaryIO, compression: str) -> Any:
    if compression == "gz":
        return gzip.GzipFile("", "wb", fileobj=file, mtime=0)
    return lzma.LZMAFile(file, "wb") if compression == "xz" else bz2.BZ2File(file, "wb")


def _sync_folder(folder: Path) -> None:
    """Make the new name last; not every system lets folders be opened."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
