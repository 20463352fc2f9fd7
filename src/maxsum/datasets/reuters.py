"""Newswire stories: the SGML files of Reuters-21578 (Lewis, 1997), packed in one archive."""

from __future__ import annotations

import html
import lzma
import os
import re
import tarfile
import zlib
from pathlib import Path
from typing import NamedTuple

from ..core.errors import ParseError

_LARGEST = 1 << 26  # bytes of one file of stories; the published ones have below 2 MB
_MEMBERS = 1000  # files of the archive; the published one has about 30
_DOCUMENT = re.compile(r"<REUTERS ([^>]*)>(.*?)</REUTERS>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
_DATE = re.compile(r"<DATE>\s*(\d+)-([A-Z]{3})-(\d{4}) (\d\d:\d\d:\d\d)")
_TOPICS = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
_TOPIC = re.compile(r"<D>(.*?)</D>", re.DOTALL)
_TEXT = re.compile(r"<TEXT[^>]*>(.*?)</TEXT>", re.DOTALL)
_NO_WORDS = re.compile(r"<DATELINE>.*?</DATELINE>|<[^>]*>", re.DOTALL)
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")


class Story(NamedTuple):
    """One story.

    Attributes
    ----------
    number : int
        The NEWID of the collection.
    part : str
        ``train``, ``test`` or, for what the ModApte split leaves out, nothing.
    date : str
        Date and time, as 1987-02-26T15:01:01; empty where there is none.
    topics : tuple of str
    text : str
        Title and body.
    """

    number: int
    part: str
    date: str
    topics: tuple[str, ...]
    text: str


def read_reuters(path: str | os.PathLike[str]) -> list[Story]:
    """Stories of an archive (.tar, perhaps compressed) of files ``*.sgm``, in the order of files and stories.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    list of Story

    Raises
    ------
    ParseError
        The archive is broken, has no stories, or a file that is too large; a story has no number or no text.
    """
    stories: list[Story] = []
    try:
        with tarfile.open(path) as archive:
            texts: dict[str, str] = {}
            for member in archive:
                if member.isfile() and member.name.endswith(".sgm"):
                    if member.size > _LARGEST or len(texts) >= _MEMBERS:
                        raise ParseError(
                            f"{member.name} has {member.size} bytes and is file {len(texts) + 1}; at most {_LARGEST} bytes "
                            f"and {_MEMBERS} files are read.",
                            str(path),
                        )
                    file = archive.extractfile(member)
                    texts[member.name] = "" if file is None else file.read().decode("latin-1")
    except (tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise ParseError(f"the archive cannot be read ({error}).", str(path)) from error
    for name in sorted(texts):
        stories += [_story(match, f"{path}: {name}") for match in _DOCUMENT.finditer(texts[name])]
    if not stories:
        raise ParseError("there are no stories; wanted files *.sgm with <REUTERS ...>.", str(Path(path)))
    return stories


def _story(match: re.Match[str], where: str) -> Story:
    known, body = dict(_ATTRIBUTE.findall(match[1])), match[2]
    if not known.get("NEWID", "").isdigit():
        raise ParseError(f"a story has the NEWID {known.get('NEWID')!r}, wanted a number.", where)
    text = _TEXT.search(body)
    if text is None:
        raise ParseError(f"story {known['NEWID']} has no <TEXT>.", where)
    found, topics = _DATE.search(body), _TOPICS.search(body)
    date = ""
    if found and found[2] in _MONTHS:
        date = f"{found[3]}-{_MONTHS.index(found[2]) + 1:02d}-{int(found[1]):02d}T{found[4]}"
    part = {"TRAIN": "train", "TEST": "test"}.get(known.get("LEWISSPLIT", ""), "") if known.get("TOPICS") == "YES" else ""
    words = html.unescape(_NO_WORDS.sub(" ", text[1]))
    return Story(int(known["NEWID"]), part, date, tuple(_TOPIC.findall(topics[1]) if topics else ()), words)
