"""One file from the net: checked by size and checksum, and taken up again where a download broke off."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, build_opener

from ..core.errors import ParseError
from .source import MissingDataError

_CHUNK = 1 << 16  # bytes that are read at a time: small enough that progress is seen
_ATTEMPTS = 3  # connections that may break; each goes on where the last one ended
_MOST = 1 << 26  # bytes of a page that is no download

Progress = Callable[[str, int, int | None], Any]
"""Called with the name of a file, its bytes so far, and its bytes in all where that is known."""


class Remote(NamedTuple):
    """A file on the net, and what is known about its content.

    Attributes
    ----------
    url : str
    sha256 : str or None
        None where nobody has published or checked it.
    size : int or None
        Bytes.
    md5 : str or None
        For files of which only this is published.
    most : int
        More bytes are refused, where the size is not known.
    """

    url: str
    sha256: str | None = None
    size: int | None = None
    md5: str | None = None
    most: int = _MOST

    @property
    def name(self) -> str:
        """The last part of the address, as the name of the file."""
        return self.url.rsplit("/", 1)[-1]


class Received(NamedTuple):
    """A file that came, whole and checked."""

    path: Path
    size: int
    sha256: str


class _BrokenOffError(Exception):
    """The connection ended early; ``n_bytes`` came in this attempt."""

    def __init__(self, reason: object, n_bytes: int):
        super().__init__(str(reason))
        self.n_bytes = n_bytes


def transfer(remote: Remote, folder: Path, timeout: float, progress: Progress | None = None) -> Received:
    """Download a file into a folder.

    What came before a connection broke is kept as ``NAME.part``; the next call asks for the rest (HTTP ranges, with the server's
    mark of the version where it gives one) and starts again where that is not to be had.

    Parameters
    ----------
    remote : Remote
    folder : Path
        Must exist; nobody else may write to it meanwhile.
    timeout : float
        Seconds to wait for an answer.
    progress : callable, optional
        Called with the name of the file, bytes so far and bytes in all.

    Returns
    -------
    Received

    Raises
    ------
    MissingDataError
        The address is out of reach, or the connection breaks again and again.
    ParseError
        What came has another size or checksum; it is removed.
    OSError
        The folder cannot be written, or the disk is full.
    """
    part = _Part(remote, folder)
    for attempt in range(_ATTEMPTS):
        try:
            _receive(remote, part, timeout, progress or (lambda name, done, total: None))
        except _BrokenOffError as error:
            if error.n_bytes and attempt + 1 < _ATTEMPTS:
                continue
            kept = (
                f" {part.size} bytes are kept in {part.path}, so that the next try asks for the rest only." if part.size else ""
            )
            raise MissingDataError(f"{remote.url} is out of reach ({error}).{kept}") from error
        fault = part.fault()
        if fault is None:
            return part.finish()
        resumed = part.resumed
        part.drop()
        if not resumed:
            raise ParseError(f"{fault} It was removed; try again later.", remote.url)
    raise ParseError("what came before and after the connection broke does not fit together. Try again later.", remote.url)


class _Part:
    """A file that is not whole yet, and which version of the remote file it belongs to."""

    def __init__(self, remote: Remote, folder: Path):
        self._remote = remote
        self.path = folder / f"{remote.name}.part"
        self._note = folder / f"{remote.name}.part.json"
        self.resumed = False
        self.version: str | None = None
        try:
            note = json.loads(self._note.read_text(encoding="utf-8"))
            known = note["url"] == remote.url and isinstance(note["version"], str | None)
            self.version = note["version"] if known else None
        except (OSError, ValueError, KeyError, TypeError):
            known = False
        can_check = remote.sha256 is not None or remote.md5 is not None or self.version is not None
        if not known or not can_check:
            self.drop()

    @property
    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def drop(self) -> None:
        self.version, self.resumed = None, False
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def begin(self, version: str | None) -> None:
        self.drop()
        self.version = version
        self._note.write_text(json.dumps({"url": self._remote.url, "version": version}), encoding="utf-8")

    def fault(self) -> str | None:
        """What is wrong with the whole file."""
        remote = self._remote
        if remote.size is not None and self.size != remote.size:
            return f"{self.size} bytes came, wanted {remote.size}."
        for kind, wanted in (("sha256", remote.sha256), ("md5", remote.md5)):
            if wanted is not None and (found := _digest(self.path, kind)) != wanted:
                return f"{self.size} bytes with the {kind.upper()} {found} came, wanted {wanted}."
        return None

    def finish(self) -> Received:
        whole = self.path.with_name(self._remote.name)
        self.path.replace(whole)
        self._note.unlink(missing_ok=True)
        return Received(whole, whole.stat().st_size, _digest(whole, "sha256"))


def _digest(path: Path, kind: str) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).hexdigest()


def _receive(remote: Remote, part: _Part, timeout: float, progress: Progress) -> None:
    """Ask for the file, or for what is missing of it, and add it to the part."""
    have = part.size
    if have and have == remote.size:
        part.resumed = True
        return
    with _opened(remote.url, have, part.version, timeout) as answer:
        if have and not (answer.status == 206 and _first_byte(answer) == have):
            have = 0
        if not have:
            if answer.status != 200:
                part.drop()
                raise _BrokenOffError(f"the server answers {answer.status} to a request for bytes", 0)
            part.begin(_version(answer))
        part.resumed = have > 0
        length = answer.headers.get("Content-Length", "")
        total = have + int(length) if length.isascii() and length.isdigit() else remote.size
        if None not in (total, remote.size) and total != remote.size:
            part.drop()
            raise ParseError(f"the server has {total} bytes, wanted {remote.size}. Try again later.", remote.url)
        most = remote.most if remote.size is None else remote.size
        size = have
        with part.path.open("ab") as file:
            while data := _read(answer, size - have):
                size += len(data)
                if size > most:
                    break
                file.write(data)
                progress(remote.name, size, total)
    if size > most:
        part.drop()
        raise ParseError(f"more than {most} bytes came; refused.", remote.url)
    if total is not None and size < total:
        raise _BrokenOffError(f"the connection ended after {size} of {total} bytes", size - have)


def _opened(url: str, have: int, version: str | None, timeout: float) -> Any:
    headers = {"User-Agent": "maxsum", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
        if version is not None:
            headers["If-Range"] = version
    try:
        return build_opener().open(Request(url, headers=headers), timeout=timeout)
    except HTTPError as error:
        if error.code == 416 and have:
            return _opened(url, 0, None, timeout)
        raise _BrokenOffError(error, 0) from error
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(getattr(error, "reason", None) or error, 0) from error


def _read(answer: Any, n_bytes: int) -> bytes:
    try:
        return bytes(answer.read(_CHUNK))
    except (OSError, http.client.HTTPException) as error:
        raise _BrokenOffError(error, n_bytes) from error


def _first_byte(answer: Any) -> int | None:
    """Where the bytes of a partial answer start: ``Content-Range: bytes 5-9/10``."""
    unit, _, rest = answer.headers.get("Content-Range", "").partition(" ")
    first = rest.partition("-")[0]
    return int(first) if unit == "bytes" and first.isascii() and first.isdigit() else None


def _version(answer: Any) -> str | None:
    """The server's mark of the version of a file, if it is exact enough for ranges."""
    tag = answer.headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else answer.headers.get("Last-Modified")


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock that other processes wait for; the system takes it back if this one dies."""
    with path.open("a+b") as file:
        if sys.platform == "win32":
            import msvcrt
            import time

            while True:
                try:
                    file.seek(0)
                    msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
                    break
                except OSError:
                    time.sleep(0.2)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
