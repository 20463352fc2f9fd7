"""Bytes and tokens of files that nobody vouches for: decompression, limits, numbers, and the line of every fault."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np

from ..errors import ParseError
from ..validation import EXACT, LARGEST

COMPRESSIONS = ("gz", "xz", "bz2")
_CHUNK = 1 << 20  # bytes that are read at a time: large against the overhead of a call, small against memory
_LONGEST_TOKEN = 1 << 16  # bytes without white space after which a file is no text of numbers
_XZ_MEMORY = 1 << 28  # bytes that unpacking xz may take: what its highest level needs (65 MB), four times over
_WHITE = (b" ", b"\n", b"\t", b"\r", b"\v", b"\f")


class Limits(NamedTuple):
    """What a file may cost.

    Attributes
    ----------
    bytes : int
        Size after decompression. JSON, which is held in memory as a whole, may have a quarter of it.
    cells : int
        Numbers in all tables together (8 bytes each), in the file and after padding.
    """

    bytes: int = 1 << 31
    cells: int = 500_000_000 // 8


class _Xz:
    """Streaming xz with a limit on the memory that the file can ask for (`lzma.open` has none)."""

    def __init__(self, raw: BinaryIO):
        self._raw = raw
        self._decoder = self._start()

    @staticmethod
    def _start() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_AUTO, memlimit=_XZ_MEMORY)

    def read(self, size: int) -> bytes:
        while True:
            data = b""
            if self._decoder.eof:
                data = self._decoder.unused_data.lstrip(b"\0")
                while not data:
                    padding = self._raw.read(_CHUNK)
                    if not padding:
                        return b""
                    data = padding.lstrip(b"\0")
                self._decoder = self._start()
            elif self._decoder.needs_input:
                data = self._raw.read(_CHUNK)
                if not data:
                    raise EOFError("the compressed data end early")
            out = self._decoder.decompress(data, size)
            if out:
                return out


class Stream:
    """Decompressed bytes of a file, counted against the limit."""

    def __init__(self, source: Any, path: Path, limits: Limits, seekable: BinaryIO | None):
        self._source = source
        self._limit = limits.bytes
        self._count = 0
        self.path = str(path)
        self.seekable = seekable

    def read(self, size: int = _CHUNK) -> bytes:
        """Up to ``size`` unpacked bytes; none at the end."""
        try:
            data = bytes(self._source.read(size))
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as error:
            raise ParseError(f"broken or truncated compressed data ({error}).", self.path) from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise ParseError(f"broken compressed data ({error}).", self.path) from error
        self._count += len(data)
        if self._count > self._limit:
            raise ParseError(f"the file holds more than {self._limit} bytes after decompression; refused.", self.path)
        return data

    def read_all(self, limit: int) -> bytes:
        """All bytes; more than ``limit`` are refused."""
        parts: list[bytes] = []
        size = 0
        while part := self.read():
            size += len(part)
            if size > limit:
                raise ParseError(f"the file holds more than {limit} bytes; refused, for it must fit into memory.", self.path)
            parts.append(part)
        return b"".join(parts)


@contextmanager
def opened(path: Path, compression: str | None, limits: Limits) -> Iterator[Stream]:
    """The file as a `Stream`; errors of the operating system (no such file) pass through."""
    with open(path, "rb") as raw:
        if compression is None:
            yield Stream(raw, path, limits, raw)
        elif compression == "xz":
            yield Stream(_Xz(raw), path, limits, None)
        else:
            with gzip.GzipFile(fileobj=raw) if compression == "gz" else bz2.BZ2File(raw) as source:
                yield Stream(source, path, limits, None)


def shown(token: bytes | str) -> str:
    """A token as it may stand in a message: printable and short."""
    text = token.decode("utf-8", "backslashreplace") if isinstance(token, bytes) else token
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[:60])
    return f'"{text[:40]}..."' if len(text) > 40 else f'"{text}"'


def size_on_disk(stream: Stream) -> int | None:
    """Bytes of the file as it is stored, or None for a pipe."""
    return None if stream.seekable is None else os.fstat(stream.seekable.fileno()).st_size


class Tokens:
    """Tokens between white space, read chunk by chunk; arrays grow with the tokens, never with a declared count."""

    def __init__(self, stream: Stream):
        self._stream = stream
        self._text = b""
        self._rest = b""
        self._tokens: list[bytes] = []
        self._at = 0
        self._line = 1
        self._last_line = 1
        self._first = True
        self._underscore = False

    # ---- faults ------------------------------------------------------------------------------------------------

    def _line_of(self, index: int) -> int:
        for i, match in enumerate(re.finditer(rb"\S+", self._text)):
            if i == index:
                return self._line + self._text.count(b"\n", 0, match.start())
        return self._last_line

    def fail(self, message: str) -> NoReturn:
        """Raise for the token that was taken last."""
        self._fail_at(self._at - 1, message)

    def _fail_at(self, index: int, message: str) -> NoReturn:
        raise ParseError(message, self._stream.path, self._line_of(index))

    # ---- supply ------------------------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Go on to the next chunk that holds a token."""
        while True:
            if self._tokens:
                self._last_line = self._line + self._text.rstrip().count(b"\n")
            self._line += self._text.count(b"\n")
            self._text, self._tokens, self._at = b"", [], 0
            data = self._stream.read(_CHUNK)
            if not data and not self._rest:
                return False
            text = self._rest + data
            if self._first and len(text) >= 3:
                self._first = False
                text = text.removeprefix(b"\xef\xbb\xbf")
            cut = max(text.rfind(white) for white in _WHITE) + 1 if data else len(text)
            self._text, self._rest = text[:cut], text[cut:]
            self._tokens = self._text.split()
            self._underscore = b"_" in self._text
            if len(self._rest) > _LONGEST_TOKEN:
                self._line += self._text.count(b"\n")
                self._text = b""
                self._last_line = self._line
                self.fail(f"no white space in {_LONGEST_TOKEN} bytes: this is not a text file of numbers.")
            if self._tokens:
                return True

    def next(self, what: str) -> bytes:
        """The next word; ``what`` is named in the error if there is none."""
        if self._at >= len(self._tokens) and not self._fill():
            self._fail_at(-1, f"the file ends where {what} should be.")
        self._at += 1
        return self._tokens[self._at - 1]

    def maybe(self) -> bytes | None:
        """The next word, None at the end of the file."""
        return self.next("") if self._at < len(self._tokens) or self._fill() else None

    def end(self, what: str) -> None:
        """Make sure that nothing follows."""
        if self._at < len(self._tokens) or self._fill():
            self._at += 1
            token = shown(self._tokens[self._at - 1])
            self.fail(f"{token} follows after {what}; are the declared counts too small?")

    # ---- numbers -----------------------------------------------------------------------------------------------

    def integer(self, what: str, low: int | None = None, high: int | None = None) -> int:
        """The next word as a whole number from ``low`` to ``high``."""
        token = self.next(what)
        try:
            value = int(token)
        except ValueError:
            self._bad_number(self._at - 1, what, "a whole number")
        if b"_" in token:
            self._bad_number(self._at - 1, what, "a whole number")
        if (low is not None and value < low) or (high is not None and value > high):
            self._out_of_range(self._at - 1, what, low, high)
        return value

    def integers(self, n: int, what: Sequence[str], low: Sequence[int], high: Sequence[int]) -> np.ndarray:
        """``n`` int64 numbers whose names and limits repeat cyclically."""
        pieces = []
        period, lows, highs = len(low), np.array(low, dtype=np.int64), np.array(high, dtype=np.int64)
        done = 0
        while done < n:
            first, tokens = self._take(n - done, what[done % period])
            try:
                values = np.array(list(map(int, tokens)), dtype=np.int64)
            except (ValueError, OverflowError):
                values = None
            column = np.arange(done, done + len(tokens)) % period
            if values is None or (self._underscore and any(b"_" in token for token in tokens)):
                bad = next(i for i, token in enumerate(tokens) if not _is_int64(token))
                self._bad_number(first + bad, what[column[bad]], "a whole number of 64 bits")
            good = (values >= lows[column]) & (values <= highs[column])
            if not good.all():
                bad = int(np.argmin(good))
                c = int(column[bad])
                self._out_of_range(first + bad, what[c], low[c], high[c])
            pieces.append(values)
            done += len(tokens)
        return np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)

    def floats(self, n: int, what: str, low: float, high: float, hint: str = "", whole: bool = False) -> np.ndarray:
        """``n`` float64 numbers in ``[low, high]``, where a limit of infinity admits the written ``inf``. With ``whole`` a number written
        without a point must be one that float64 can hold."""
        pieces = []
        done = 0
        while done < n:
            first, tokens = self._take(n - done, what)
            try:
                values = np.array(list(map(float, tokens)))
            except ValueError:
                values = None
            if values is None or (self._underscore and any(b"_" in token for token in tokens)):
                bad = next(i for i, token in enumerate(tokens) if not _is_float(token))
                self._bad_number(first + bad, what, "a number")
            good = (values >= low) & (values <= high)
            if np.isinf(values).any():
                good &= [b"inf" in token.lower() or not np.isinf(v) for token, v in zip(tokens, values, strict=True)]
            if not good.all():
                bad = int(np.argmin(good))
                self._fail_at(first + bad, f"{what} is {shown(tokens[bad])}, wanted {_interval(low, high)}.{hint}")
            for i in np.flatnonzero(np.isfinite(values) & (np.abs(values) >= EXACT)) if whole else ():
                if tokens[i].lstrip(b"+-").isdigit() and int(tokens[i]) != int(values[i]):
                    self._fail_at(
                        first + int(i), f"{what} is {shown(tokens[i])}, a whole number beyond 2**53 that a float64 would round."
                    )
            pieces.append(values)
            done += len(tokens)
        return np.concatenate(pieces) if len(pieces) != 1 else pieces[0]

    def _take(self, n: int, what: str) -> tuple[int, list[bytes]]:
        if self._at >= len(self._tokens) and not self._fill():
            self._fail_at(-1, f"the file ends where {what} should be ({n} more numbers are missing).")
        first = self._at
        tokens = self._tokens[first : first + n]
        self._at += len(tokens)
        return first, tokens

    def _bad_number(self, index: int, what: str, wanted: str) -> NoReturn:
        token = self._tokens[index]
        hint = " A decimal comma? Write a point." if re.fullmatch(rb"[+-]?\d+,\d+", token) else ""
        self._fail_at(index, f"{what} is {shown(token)}, wanted {wanted}.{hint}")

    def _out_of_range(self, index: int, what: str, low: int | None, high: int | None) -> NoReturn:
        if low is not None and high is not None and low > high:
            wanted = "none"
        else:
            wanted = f"{low} or more" if high is None or high >= 2**53 else f"{low}..{high}"
        self._fail_at(index, f"{what} is {shown(self._tokens[index])}, wanted {wanted}.")


def _is_int64(token: bytes) -> bool:
    try:
        return -(2**63) <= int(token) < 2**63 and b"_" not in token
    except ValueError:
        return False


def _is_float(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return b"_" not in token


def _interval(low: float, high: float) -> str:
    if low == 0:
        return "a finite number, 0 or more"
    return f"a number of at most {LARGEST} in size, or {'inf' if high > LARGEST else '-inf'} for a forbidden entry"
