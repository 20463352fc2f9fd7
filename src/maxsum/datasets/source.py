"""Where data come from: the folder ``MAXSUM_DATA``, the cache, and lines of text files that nobody vouches for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..core.errors import MaxsumError, ParseError
from ..core.files.text import COMPRESSIONS, Limits, opened

_LONGEST_LINE = 1 << 24  # bytes of a line; more is no text


class MissingDataError(MaxsumError, FileNotFoundError):
    """Data are not where they are looked for."""


def cache_folder() -> Path:
    """Where downloaded data are kept: what ``MAXSUM_DATA_CACHE`` names, or ``maxsum`` in ``XDG_CACHE_HOME`` or ``~/.cache``.

    Returns
    -------
    Path
    """
    named = os.environ.get("MAXSUM_DATA_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "maxsum"


def found_folder(name: str, files: Iterable[str], cache: Path) -> Path | None:
    """The folder ``name`` in that which ``MAXSUM_DATA`` names, or else in ``cache``, if all ``files`` are in it."""
    root = os.environ.get("MAXSUM_DATA")
    for place in ([Path(root)] if root else []) + [cache]:
        if all((place / name / file).is_file() for file in files):
            return place / name
    return None


def data_folder(name: str, files: Iterable[str], source: str) -> Path:
    """The folder ``name`` in that which ``MAXSUM_DATA`` names, or else in the cache, with all ``files`` in it.

    Parameters
    ----------
    name : str
        Of the dataset.
    files : iterable of str
        Names of the files that are needed.
    source : str
        A sentence that says where they come from.

    Returns
    -------
    Path

    Raises
    ------
    MissingDataError
        If something is not there; the message says where to get it.
    """
    files = list(files)
    folder = found_folder(name, files, cache_folder())
    if folder is not None:
        return folder
    root = os.environ.get("MAXSUM_DATA")
    if not root:
        raise MissingDataError(
            f"the data of {name!r} are needed, but MAXSUM_DATA is not set. Set it to a folder that has {name}/{', '.join(files)}, "
            f"or see `maxsum datasets list`. {source}"
        )
    missing = next(file for file in files if not (Path(root) / name / file).is_file())
    raise MissingDataError(f"there is no {missing} in {Path(root) / name} (MAXSUM_DATA is {root}). {source}")


def lines(path: Path, limits: Limits) -> Iterator[tuple[int, str]]:
    """Number (from 1) and text of each line of a UTF-8 file, which may be compressed (.gz, .xz, .bz2), one chunk in memory."""
    suffix = path.suffix.lower()[1:]
    number, rest = 0, b""
    with opened(path, suffix if suffix in COMPRESSIONS else None, limits) as stream:
        while True:
            data = stream.read()
            parts = (rest + data).split(b"\n")
            rest = parts.pop()
            for raw in parts if data or not rest else [rest]:
                number += 1
                yield number, _decoded(raw, path, number)
            if not data:
                return
            if len(rest) > _LONGEST_LINE:
                raise ParseError(f"the line is longer than {_LONGEST_LINE} bytes; refused.", str(path), number + 1)


def _decoded(raw: bytes, path: Path, number: int) -> str:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ParseError(f"byte {raw[error.start]:#x} is not UTF-8; convert the file.", str(path), number) from None
    return (text.removeprefix("\ufeff") if number == 1 else text).removesuffix("\r")
