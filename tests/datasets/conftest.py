"""A real server on this machine, which can break off, refuse, and change its files."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

CONTENT = bytes(range(256)) * 1024


class Server(http.server.ThreadingHTTPServer):
    """Serves `pages`; `breaks` lists how many bytes each next answer ends after; `asked` keeps names and Range headers."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pages = {"data.bin": CONTENT}
        self.tag, self.ranges, self.status, self.length, self.pause = '"1"', True, 200, True, 0.0
        self.breaks: list[int] = []
        self.asked: list[tuple[str, str | None]] = []

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/"

    @property
    def url(self) -> str:
        return f"{self.root}data.bin"

    @property
    def ranges_asked(self) -> list[str | None]:
        return [wanted for _, wanted in self.asked]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is part of the tests."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        name = self.path.rsplit("/", 1)[-1]
        self.server.asked.append((name, wanted))
        time.sleep(self.server.pause)
        if self.server.status != 200 or name not in self.server.pages:
            self.send_error(404 if self.server.status == 200 else self.server.status)
            return
        content, first = self.server.pages[name], 0
        if wanted and self.server.ranges and self.headers.get("If-Range") in (None, self.server.tag):
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if self.server.tag:
            self.send_header("ETag", self.server.tag)
        if self.server.length:
            self.send_header("Content-Length", str(len(content) - first))
        self.end_headers()
        end = first + self.server.breaks.pop(0) if self.server.breaks else len(content)
        self.wfile.write(content[first:end])

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Server()
    thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()
