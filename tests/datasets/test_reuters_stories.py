"""Newswire stories: what is read from an archive of SGML, and what is refused."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from maxsum import ParseError
from maxsum.datasets import reuters
from maxsum.datasets.reuters import read_reuters

STORY = (
    '<REUTERS TOPICS="YES" LEWISSPLIT="TRAIN" NEWID="{number}">\n<DATE>26-FEB-1987 15:01:01.79</DATE>\n'
    "<TOPICS><D>crude</D><D>ship</D></TOPICS>\n<TEXT>&#2;\n<TITLE>OIL &amp; GAS</TITLE>\n"
    "<DATELINE> HOUSTON, Feb 26 - </DATELINE><BODY>Prices rose.\n&#3;</BODY></TEXT>\n</REUTERS>\n"
)


def packed(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:xz") as archive:
        for name, text in files.items():
            raw = text.encode("latin-1")
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return path


def test_stories_are_read_in_order(tmp_path: Path) -> None:
    test = STORY.format(number=2).replace("TRAIN", "TEST").replace("26-FEB-1987", " 1-OCT-1987")
    unused = STORY.format(number=3).replace('TOPICS="YES"', 'TOPICS="NO"').replace("<DATE>26-FEB-1987 15:01:01.79</DATE>", "")
    path = packed(tmp_path / "r.tar.xz", {"b.sgm": unused, "README.txt": "no", "a.sgm": STORY.format(number=1) + test})
    one, two, three = read_reuters(path)
    assert (one.number, one.part, one.date, one.topics) == (1, "train", "1987-02-26T15:01:01", ("crude", "ship"))
    assert "OIL & GAS" in one.text and "Prices rose." in one.text and "HOUSTON" not in one.text and "<" not in one.text
    assert (two.part, two.date) == ("test", "1987-10-01T15:01:01")
    assert (three.number, three.part, three.date) == (3, "", "")


def test_broken_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParseError, match="there are no stories"):
        read_reuters(packed(tmp_path / "a.tar.xz", {"a.sgm": "nothing"}))
    with pytest.raises(ParseError, match="NEWID 'x', wanted a number"):
        read_reuters(packed(tmp_path / "b.tar.xz", {"a.sgm": STORY.format(number="x")}))
    with pytest.raises(ParseError, match="story 7 has no <TEXT>"):
        read_reuters(packed(tmp_path / "c.tar.xz", {"a.sgm": STORY.format(number=7).replace("TEXT>", "TXT>")}))
    whole = packed(tmp_path / "d.tar.xz", {"a.sgm": STORY.format(number=1) * 200})
    (tmp_path / "e.tar.xz").write_bytes(whole.read_bytes()[:-60])
    with pytest.raises(ParseError, match="cannot be read"):
        read_reuters(tmp_path / "e.tar.xz")
    with pytest.raises(FileNotFoundError):
        read_reuters(tmp_path / "none.tar.xz")
    monkeypatch.setattr(reuters, "_LARGEST", 1000)
    with pytest.raises(ParseError, match="at most 1000 bytes"):
        read_reuters(whole)
