"""Files from a real server on this machine: checksums, truncation, resuming, full disks, two processes at once."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from maxsum import ParseError
from maxsum.datasets.source import MissingDataError
from maxsum.datasets.transfer import Remote, transfer

CONTENT = bytes(range(256)) * 1024
SHA256 = hashlib.sha256(CONTENT).hexdigest()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("length", [True, False])
def test_a_file_comes_whole(server: Any, tmp_path: Path, length: bool) -> None:
    server.length = length
    seen: list[tuple[str, int, int | None]] = []
    received = transfer(Remote(server.url, SHA256, len(CONTENT)), tmp_path, 10, lambda *step: seen.append(step))
    assert received.path.read_bytes() == CONTENT and received.sha256 == SHA256 and received.size == len(CONTENT)
    assert names(tmp_path) == ["data.bin"] and server.ranges_asked == [None]
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert seen[-1] == ("data.bin", len(CONTENT), len(CONTENT))


@pytest.mark.parametrize(
    ("remote", "message"),
    [
        ({"sha256": "0" * 64}, f"262144 bytes with the SHA256 {SHA256} came, wanted 0000"),
        ({"md5": "0" * 32}, "bytes with the MD5 .* came, wanted 0000"),
        ({"size": len(CONTENT) + 1}, "the server has 262144 bytes, wanted 262145"),
        ({"size": len(CONTENT) - 1}, "more than 262143 bytes came; refused"),
        ({"most": 1000}, "more than 1000 bytes came; refused"),
    ],
)
def test_another_file_is_refused(server: Any, tmp_path: Path, remote: dict[str, Any], message: str) -> None:
    server.length = remote.get("size") == len(CONTENT) + 1
    with pytest.raises(ParseError, match=message):
        transfer(Remote(server.url, **remote), tmp_path, 10)
    assert names(tmp_path) == []


def test_a_broken_connection_is_taken_up_again_at_once(server: Any, tmp_path: Path) -> None:
    server.breaks = [1000, 5000]
    received = transfer(Remote(server.url), tmp_path, 10)
    assert received.path.read_bytes() == CONTENT
    assert server.ranges_asked == [None, "bytes=1000-", "bytes=6000-"]


def test_a_broken_download_goes_on_in_the_next_call(server: Any, tmp_path: Path) -> None:
    server.breaks = [1000, 1000, 1000]
    with pytest.raises(
        MissingDataError, match=r"ended after 3000 of 262144 bytes\)\. 3000 bytes are kept in .*data\.bin\.part"
    ):
        transfer(Remote(server.url, SHA256), tmp_path, 10)
    assert (tmp_path / "data.bin.part").read_bytes() == CONTENT[:3000]
    received = transfer(Remote(server.url, SHA256), tmp_path, 10)
    assert (
        received.path.read_bytes() == CONTENT and server.ranges_asked[-1] == "bytes=3000-" and names(tmp_path) == ["data.bin"]
    )


@pytest.mark.parametrize("case", ["another version", "no ranges", "another address", "no version and no checksum"])
def test_what_does_not_fit_is_fetched_from_the_start(server: Any, tmp_path: Path, case: str) -> None:
    server.breaks = [1000, 0]
    server.tag = "" if case.startswith("no version") else '"1"'
    with pytest.raises(MissingDataError):
        transfer(Remote(server.url), tmp_path, 10)
    url = server.url
    if case == "another version":
        server.tag, server.pages = '"2"', {"data.bin": CONTENT[::-1]}
    elif case == "no ranges":
        server.ranges = False
    elif case == "another address":
        url = server.url.replace("data.bin", "other/data.bin")
    received = transfer(Remote(url), tmp_path, 10)
    assert received.path.read_bytes() == server.pages["data.bin"] and names(tmp_path) == ["data.bin"]
    assert server.ranges_asked[-1] == (None if case in ("another address", "no version and no checksum") else "bytes=1000-")


def test_a_part_of_another_file_is_found_out(server: Any, tmp_path: Path) -> None:
    """No version from the server, so only the checksum can tell that the two halves do not belong together."""
    server.tag, server.breaks = "", [1000, 0]
    remote = Remote(server.url, SHA256)
    with pytest.raises(MissingDataError):
        transfer(remote, tmp_path, 10)
    (tmp_path / "data.bin.part").write_bytes(b"x" * 1000)
    assert transfer(remote, tmp_path, 10).path.read_bytes() == CONTENT
    assert server.ranges_asked[-2:] == ["bytes=1000-", None]


def test_a_whole_part_needs_no_server(server: Any, tmp_path: Path) -> None:
    server.breaks = [1000, 0]
    remote = Remote(server.url, SHA256, len(CONTENT))
    with pytest.raises(MissingDataError):
        transfer(remote, tmp_path, 10)
    (tmp_path / "data.bin.part").write_bytes(CONTENT)
    asked = len(server.asked)
    assert transfer(remote, tmp_path, 10).sha256 == SHA256 and len(server.asked) == asked


def test_a_part_that_is_too_long(server: Any, tmp_path: Path) -> None:
    server.breaks = [1000, 0]
    with pytest.raises(MissingDataError):
        transfer(Remote(server.url), tmp_path, 10)
    (tmp_path / "data.bin.part").write_bytes(CONTENT + b"more")
    assert transfer(Remote(server.url), tmp_path, 10).path.read_bytes() == CONTENT
    assert server.ranges_asked[-2:] == [f"bytes={len(CONTENT) + 4}-", None]


@pytest.mark.parametrize("status", [403, 404, 500])
def test_a_server_that_refuses(server: Any, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(MissingDataError, match=f"is out of reach .HTTP Error {status}"):
        transfer(Remote(server.url), tmp_path, 10)
    assert names(tmp_path) == [] and len(server.asked) == 1


def test_nobody_there(server: Any, tmp_path: Path) -> None:
    url = server.url
    server.shutdown()
    server.server_close()
    with pytest.raises(MissingDataError, match=r"is out of reach \(.*refused\)"):
        transfer(Remote(url), tmp_path, 10)
    assert names(tmp_path) == []


def test_a_server_that_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/data.bin"
        with pytest.raises(MissingDataError, match="timed out"):
            transfer(Remote(url), tmp_path, 0.2)


CHILD = """
import json, resource, sys
from maxsum.datasets import fetch
from maxsum.datasets.fetch import download
from maxsum.datasets.sources import Source
from maxsum.datasets.transfer import Remote
url, folder, limit = sys.argv[1:]
if int(limit):
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
make = lambda paths: {"data.bin": paths[0].read_bytes()}
fetch.SOURCES["data"] = Source("data", "none", ("data.bin",), (Remote(url),), make, "nothing")
try:
    print(download("data", folder))
except Exception as error:
    print(type(error).__name__, error)
"""


def child(server: Any, folder: Path, limit: int = 0) -> subprocess.Popen[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MAXSUM")}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, server.url, str(folder), str(limit)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment | {"no_proxy": "127.0.0.1"},
    )


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of processes")
def test_a_full_disk(server: Any, tmp_path: Path) -> None:
    with child(server, tmp_path, limit=100_000) as process:
        said = process.communicate(timeout=60)[0]
    assert said.startswith("MissingDataError the dataset 'data' could not be kept in") and "Free some space" in said
    assert not (tmp_path / "data" / "data.bin").exists()
    with child(server, tmp_path) as process:
        assert process.communicate(timeout=60)[0].strip() == str(tmp_path / "data")
    assert (tmp_path / "data" / "data.bin").read_bytes() == CONTENT


def test_two_processes_at_once(server: Any, tmp_path: Path) -> None:
    server.pause = 1.0
    with child(server, tmp_path) as first, child(server, tmp_path) as second:
        said = [process.communicate(timeout=60) for process in (first, second)]
    assert [out.strip() for out, _ in said] == [str(tmp_path / "data")] * 2
    assert len(server.asked) == 1
    assert names(tmp_path / "data") == ["SOURCE.json", "data.bin"]
    record = json.loads((tmp_path / "data" / "SOURCE.json").read_text())
    assert record["files"] == [{"url": server.url, "size": len(CONTENT), "sha256": SHA256, "sha256_was_known": False}]
    assert sum(f"no checksum of {server.url} is known" in err and SHA256 in err for _, err in said) == 1
