"""Datasets from public places on the net, checked, into a cache that experiments find."""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..core.errors import InvalidParameterError, ParseError
from ..core.files.store import atomic
from .source import MissingDataError, cache_folder, found_folder
from .sources import SOURCES, Source
from .transfer import Progress, Received, locked, transfer

_LOG = logging.getLogger("maxsum.datasets")
_PARTS = ".download"
RECORD = "SOURCE.json"


def download(
    name: str, folder: str | os.PathLike[str] | None = None, *, timeout: float = 60.0, progress: Progress | None = None
) -> Path:
    """Make sure that a dataset is on this machine.

    What is in the folder that ``MAXSUM_DATA`` names is taken from there, then what is in the cache. Otherwise files come from the
    net, are checked (by size and checksum where they are known, and by what is inside) and written whole or not at all. A download
    that broke off goes on where it stopped. Processes that want the same dataset wait for each other.

    Parameters
    ----------
    name : str
        One of ``maxsum datasets list``. Licences are those of the authors.
    folder : path-like, optional
        Where to keep data, each dataset in a folder of its own; by default what ``MAXSUM_DATA_CACHE`` names, or ``maxsum`` in
        ``XDG_CACHE_HOME`` or ``~/.cache``, where experiments look too.
    timeout : float
        Seconds to wait for an answer.
    progress : callable, optional
        Called with the name of a file, its bytes so far, and its bytes in all or None.

    Returns
    -------
    Path
        The folder with the files of the dataset, and ``SOURCE.json``: addresses, sizes, SHA-256 and licence of what came.

    Raises
    ------
    MissingDataError
        They are not here, and the net is out of reach or the folder cannot be written; the message says what to do.
    ParseError
        What came is not the dataset.
    """
    if name not in SOURCES:
        raise InvalidParameterError(f"there is no dataset {name!r} to download; wanted one of {', '.join(SOURCES)}.")
    source = SOURCES[name]
    cache = cache_folder() if folder is None else Path(folder)
    found = found_folder(name, source.files, cache)
    if found is not None:
        return found
    target = cache / name
    try:
        target.mkdir(parents=True, exist_ok=True)
        with locked(cache / f".{name}.lock"):
            if found_folder(name, source.files, cache) is None:
                _fetch(name, source, target, timeout, progress)
    except MissingDataError as error:
        raise MissingDataError(
            f"the dataset {name!r} is not on this machine: {error} Try again with a connection, or put {', '.join(source.files)} "
            f"into {target} yourself, or into the folder {name} of MAXSUM_DATA."
        ) from error
    except ParseError:
        raise
    except OSError as error:
        raise MissingDataError(
            f"the dataset {name!r} could not be kept in {target}: {error}. Free some space, or give download() (or MAXSUM_DATA_CACHE) a "
            "folder that can be written."
        ) from error
    return target


def _fetch(name: str, source: Source, target: Path, timeout: float, progress: Progress | None) -> None:
    work = target / _PARTS
    work.mkdir(exist_ok=True)
    came = [transfer(remote, work, timeout, progress) for remote in source.remotes]
    try:
        made = source.make([one.path for one in came])
        for file in source.files:
            _store(target / file, made[file])
        _store(target / RECORD, _record(name, source, came))
    except ParseError as error:
        sums = ", ".join(f"{one.path.name} {one.sha256}" for one in came)
        raise ParseError(f"{error} What came was removed (SHA-256: {sums}).") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for remote, one in zip(source.remotes, came, strict=True):
        if remote.sha256 is None and remote.md5 is None:
            _LOG.warning("no checksum of %s is known; %d bytes with the SHA-256 %s came.", remote.url, one.size, one.sha256)


def _record(name: str, source: Source, came: list[Received]) -> bytes:
    files = [
        {"url": remote.url, "size": one.size, "sha256": one.sha256, "sha256_was_known": remote.sha256 is not None}
        for remote, one in zip(source.remotes, came, strict=True)
    ]
    record = {"dataset": name, "title": source.title, "licence": source.licence, "checked": source.checked, "files": files}
    return (json.dumps(record, indent=2) + "\n").encode()


def _store(path: Path, content: Any) -> None:
    def write(file: BinaryIO) -> None:
        if isinstance(content, bytes):
            file.write(content)
        else:
            np.savez_compressed(file, **content)

    atomic(path, None, write)
