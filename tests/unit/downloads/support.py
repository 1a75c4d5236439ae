"""A server with configurable faults, and helpers shared by the tests of downloads."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from airfl.errors import MachineError
from airfl.learning.tasks.downloads import download
from airfl.learning.tasks.downloads.download import Patience, get
from airfl.learning.tasks.downloads.sources import Download, Source

CONTENT = bytes(range(256)) * 2000  # several blocks
HALF = len(CONTENT) // 2
OTHER = CONTENT[::-1]
QUICK = Patience(attempts=3, pause=0.001, timeout=5.0)


class Handler(BaseHTTPRequestHandler):
    """Answers with the next of the server's faults for the path, if one is left, else with the file."""

    server: Server

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers["Range"], self.headers["User-Agent"]))
        faults = self.server.faults.get(self.path, [])
        answer = faults.pop(0) if faults else send_file
        with suppress(ConnectionError):  # the client has had enough
            answer(self)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def content(self) -> bytes:
        return self.server.files[self.path]

    def offset(self) -> int:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        return int(match[1]) if match and self.server.ranges else 0

    def head(self, status: int, **headers: object) -> None:
        self.send_response(status, "\x1b[31mreason" if status >= 400 else None)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()


Answer = Callable[[Handler], None]


class Server(ThreadingHTTPServer):
    """What is served, how, and what was asked for."""

    daemon_threads = False  # server_close waits for the answers under way

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, str | None, str]] = []
        self.ranges = True
        self.closing = threading.Event()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}{path}"

    def ranges_asked(self) -> list[str | None]:
        return [asked for _, asked, _ in self.requests]


def send_file(handler: Handler, upto: int | None = None) -> None:
    """The file from the offset asked for; only up to some byte, if wanted."""
    if handler.path not in handler.server.files:
        handler.head(404)
        return
    content, offset = handler.content(), handler.offset()
    if offset and offset >= len(content):
        handler.head(416, Content_Range=f"bytes */{len(content)}")
        return
    length = len(content) - offset
    if offset:
        handler.head(206, Content_Length=length, Content_Range=f"bytes {offset}-{len(content) - 1}/{len(content)}")
    else:
        handler.head(200, Content_Length=length)
    handler.wfile.write(content[offset:upto])


def cut(upto: int) -> Answer:
    """All is announced, the connection is closed before."""
    return lambda handler: send_file(handler, upto)


def status(code: int, **headers: str) -> Answer:
    """No file."""
    return lambda handler: handler.head(code, **headers)


def endless(handler: Handler) -> None:
    """No length, no end."""
    handler.head(200)
    while not handler.server.closing.is_set():
        handler.wfile.write(bytes(4096))


def unannounced(handler: Handler, upto: int | None = None) -> None:
    """All the file, its length not told."""
    handler.head(200)
    handler.wfile.write(handler.content()[:upto])


def announcing(length: int) -> Answer:
    """All the file under a wrong length."""

    def answer(handler: Handler) -> None:
        handler.head(200, Content_Length=length)
        handler.wfile.write(handler.content())

    return answer


def another_range(handler: Handler) -> None:
    """Bytes from the beginning whatever was asked for."""
    content = handler.content()
    handler.head(206, Content_Length=len(content), Content_Range=f"bytes 0-{len(content) - 1}/{len(content)}")
    handler.wfile.write(content)


def silent(handler: Handler) -> None:
    """Half of the file, the other half when nobody waits any more."""
    send_file(handler, HALF)
    handler.server.closing.wait()
    handler.wfile.write(handler.content()[HALF:])


@dataclass
class Fetcher:
    """Gets a data set of one source into a folder; keeps what the progress function was told."""

    target: Path
    patch: pytest.MonkeyPatch
    told: list[tuple[str, int, int | None]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        return self.target / "set" / "data.bin"

    @property
    def part(self) -> Path:
        return self.target / "set" / "data.bin.airfl-part"

    def place(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def __call__(self, *sources: Source, patience: Patience = QUICK) -> list[Path]:
        self.patch.setattr(download, "DOWNLOADS", {"set": (Download("set", sources),)})
        return get("set", self.target, lambda *told: self.told.append(told), patience)

    def refused(self, *sources: Source, says: Iterable[str] = (), by: type[Exception] = MachineError) -> str:
        """The line in which it is refused, which says all that."""
        line = refusal(lambda: self(*sources), by)
        assert [words for words in says if words not in line] == [], line
        return line


def refusal(action: Callable[[], object], by: type[Exception]) -> str:
    """One printable line."""
    with pytest.raises(by) as caught:
        action()
    line = str(caught.value)
    assert line.isprintable()
    return line


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def source(*urls: str, content: bytes = CONTENT, sized: bool = True) -> Source:
    """data.bin with that content."""
    return Source(urls, "data.bin", sha256(content), len(content) if sized else None)


def all_files(folder: Path) -> set[str]:
    """Everything below a folder that is not a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}
