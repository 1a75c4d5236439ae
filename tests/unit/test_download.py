"""Downloads against a server on this machine that cuts, lies and refuses; only what has its checksum gets its name."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest

from airfl.errors import MachineError, UserError
from airfl.tasks.downloads import download
from airfl.tasks.downloads.download import Patience, get
from airfl.tasks.downloads.sources import DOWNLOADS, NOT_DOWNLOADABLE, Download, Source
from airfl.version import __version__

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

    def paths_asked(self) -> list[str]:
        return [path for path, _, _ in self.requests]


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
    """Half of the file, the other half long after."""
    send_file(handler, HALF)
    handler.server.closing.wait(1.5)
    handler.wfile.write(handler.content()[HALF:])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server with /data.bin."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    with Server() as server:
        server.files["/data.bin"] = CONTENT
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        yield server
        server.closing.set()
        server.shutdown()
        thread.join()


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
        return self.target / "set" / "data.bin.part"

    def place(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def __call__(self, *sources: Source, patience: Patience = QUICK) -> list[Path]:
        self.patch.setattr(download, "DOWNLOADS", {"set": (Download("set", sources),)})
        return get("set", self.target, lambda *told: self.told.append(told), patience)

    def refused(self, *sources: Source, by: type[Exception] = MachineError) -> str:
        """The line in which it is refused."""
        return refusal(lambda: self(*sources), by)


def refusal(action: Callable[[], object], by: type[Exception]) -> str:
    """One printable line."""
    with pytest.raises(by) as caught:
        action()
    line = str(caught.value)
    assert line.isprintable()
    return line


@pytest.fixture
def fetch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fetcher:
    return Fetcher(tmp_path / "data", monkeypatch)


def sha256(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def source(*urls: str, content: bytes = CONTENT, sized: bool = True) -> Source:
    """data.bin with that content."""
    return Source(urls, "data.bin", sha256(content), len(content) if sized else None)


def all_files(folder: Path) -> set[str]:
    """Everything below a folder that is not a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()}


# Downloads that succeed


@pytest.mark.parametrize("sized", [True, False])
def test_a_fresh_download(server: Server, fetch: Fetcher, sized: bool) -> None:
    assert fetch(source(server.url("/data.bin"), sized=sized)) == [fetch.path]
    assert fetch.path.read_bytes() == CONTENT
    assert all_files(fetch.target) == {"set/data.bin"}
    assert server.requests == [("/data.bin", None, f"airfl/{__version__}")]


@pytest.mark.parametrize("sized", [True, False])
def test_a_length_that_is_not_told_is_no_matter(server: Server, fetch: Fetcher, sized: bool) -> None:
    server.faults["/data.bin"] = [unannounced]
    fetch(source(server.url("/data.bin"), sized=sized))
    assert fetch.path.read_bytes() == CONTENT
    assert {total for _, _, total in fetch.told} == {len(CONTENT) if sized else None}


def test_a_data_set_of_several_folders(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an md5 sum."""
    server.files["/labels"] = OTHER
    labels = Source((server.url("/labels"),), "labels", f"md5:{hashlib.md5(OTHER).hexdigest()}")
    downloads = (Download("images", (source(server.url("/data.bin")),)), Download("writers", (labels,)))
    monkeypatch.setattr(download, "DOWNLOADS", {"set": downloads})
    assert get("set", tmp_path) == [tmp_path / "images" / "data.bin", tmp_path / "writers" / "labels"]
    assert (tmp_path / "writers" / "labels").read_bytes() == OTHER


def test_progress_counts_up_to_all_there_is(server: Server, fetch: Fetcher) -> None:
    fetch(source(server.url("/data.bin")))
    assert {(file, total) for file, _, total in fetch.told} == {("data.bin", len(CONTENT))}
    counts = [so_far for _, so_far, _ in fetch.told]
    assert len(counts) > 1
    assert counts == sorted(set(counts))
    assert counts[-1] == len(CONTENT)


@pytest.mark.parametrize("sized", [True, False])
def test_a_part_is_continued(server: Server, fetch: Fetcher, sized: bool) -> None:
    fetch.place(fetch.part, CONTENT[:HALF])
    fetch(source(server.url("/data.bin"), sized=sized))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [f"bytes={HALF}-"]
    assert min(so_far for _, so_far, _ in fetch.told) > HALF
    assert {total for _, _, total in fetch.told} == {len(CONTENT)}
    assert not fetch.part.exists()


def test_a_server_without_ranges_sends_all_again(server: Server, fetch: Fetcher) -> None:
    server.ranges = False
    fetch.place(fetch.part, CONTENT[:HALF])
    fetch(source(server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [f"bytes={HALF}-"]


def test_a_server_that_sends_another_range_is_asked_for_all(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [another_range]
    fetch.place(fetch.part, CONTENT[:HALF])
    fetch(source(server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [f"bytes={HALF}-", None]


def test_a_complete_part_is_not_fetched_again(server: Server, fetch: Fetcher) -> None:
    """Its size is known, or the server says that nothing is left (416)."""
    fetch.place(fetch.part, CONTENT)
    fetch(source(server.url("/data.bin")))
    assert server.requests == []
    fetch.path.rename(fetch.part)
    fetch(source(server.url("/data.bin"), sized=False))
    assert server.ranges_asked() == [f"bytes={len(CONTENT)}-"]
    assert fetch.path.read_bytes() == CONTENT


@pytest.mark.parametrize("sized", [True, False])
def test_a_server_that_refuses_to_continue_is_asked_for_all(server: Server, fetch: Fetcher, sized: bool) -> None:
    server.faults["/data.bin"] = [cut(HALF), status(416)]
    fetch(source(server.url("/data.bin"), sized=sized))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [None, f"bytes={HALF}-", None]


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("length", [HALF, len(CONTENT), len(CONTENT) + 9], ids=["shorter", "as long", "longer"])
def test_a_part_of_another_file_is_replaced(server: Server, fetch: Fetcher, sized: bool, length: int) -> None:
    fetch.place(fetch.part, (OTHER + OTHER)[:length])
    fetch(source(server.url("/data.bin"), sized=sized))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked()[-1] is None
    assert len(server.requests) <= 2


# Faults that are got over


@pytest.mark.parametrize("sized", [True, False])
def test_a_broken_transfer_is_continued(server: Server, fetch: Fetcher, sized: bool) -> None:
    server.faults["/data.bin"] = [cut(HALF), cut(HALF + 1000)]
    fetch(source(server.url("/data.bin"), sized=sized))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [None, f"bytes={HALF}-", f"bytes={HALF + 1000}-"]


def test_a_broken_transfer_without_ranges_or_length(server: Server, fetch: Fetcher) -> None:
    server.ranges = False
    server.faults["/data.bin"] = [cut(HALF), lambda handler: unannounced(handler, HALF)]
    fetch(source(server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert len(server.requests) == 3


def test_a_silent_server_is_left_and_asked_again(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [silent]
    fetch(source(server.url("/data.bin")), patience=Patience(attempts=2, pause=0.001, timeout=0.2))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [None, f"bytes={HALF}-"]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_with_a_passing_trouble_is_asked_again(server: Server, fetch: Fetcher, code: int) -> None:
    server.faults["/data.bin"] = [status(code), status(code)]
    fetch(source(server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT


def test_the_pauses_double(server: Server, fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    server.faults["/data.bin"] = [status(503)] * 9
    fetch.patch.setattr(download, "DOWNLOADS", {"set": (Download("set", (source(server.url("/data.bin")),)),)})
    refusal(lambda: get("set", fetch.target, None, Patience(attempts=4, pause=1.0)), MachineError)
    assert pauses == [1.0, 2.0, 4.0]
    assert len(server.requests) == 4


def test_the_second_mirror_is_used(server: Server, fetch: Fetcher) -> None:
    """Without asking the first again, which does not have the file."""
    fetch(source(server.url("/nowhere"), server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.paths_asked() == ["/nowhere", "/data.bin"]


def test_the_second_mirror_continues_the_first_ones_part(server: Server, fetch: Fetcher) -> None:
    server.files["/first"] = CONTENT
    server.faults["/first"] = [cut(HALF), status(404)]
    fetch(source(server.url("/first"), server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.requests[-1][:2] == ("/data.bin", f"bytes={HALF}-")


def test_a_wrong_file_at_the_first_mirror(server: Server, fetch: Fetcher) -> None:
    server.files["/first"] = OTHER
    fetch(source(server.url("/first"), server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [None, None]


def test_the_halves_of_different_files_are_not_joined(server: Server, fetch: Fetcher) -> None:
    """The first mirror breaks off half a wrong file: the second's half is tried with it, then all of the second's."""
    server.files["/first"] = OTHER
    server.faults["/first"] = [cut(HALF), status(404)]
    fetch(source(server.url("/first"), server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked()[2:] == [f"bytes={HALF}-", None]


# Refusals


def test_a_wrong_checksum_is_refused(server: Server, fetch: Fetcher) -> None:
    server.files["/data.bin"] = OTHER
    line = fetch.refused(source(server.url("/data.bin")))
    assert str(fetch.path) in line
    assert hashlib.sha256(OTHER).hexdigest() in line
    assert hashlib.sha256(CONTENT).hexdigest() in line
    assert all_files(fetch.target) == set()
    assert len(server.requests) == 1


def test_a_part_of_a_file_is_kept_but_not_named_the_file(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [cut(HALF)] * QUICK.attempts
    line = fetch.refused(source(server.url("/data.bin")))
    assert "broken off" in line
    assert f"{HALF:,} of {len(CONTENT):,} bytes" in line
    assert all_files(fetch.target) == {"set/data.bin.part"}
    assert fetch.part.read_bytes() == CONTENT[:HALF]
    assert len(server.requests) == QUICK.attempts


@pytest.mark.parametrize("sized", [True, False])
def test_endless_data_is_cut_off(server: Server, fetch: Fetcher, sized: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    most = len(CONTENT) if sized else 100_000
    monkeypatch.setattr(download, "MOST_BYTES", 100_000)
    server.faults["/data.bin"] = [endless] * 9
    line = fetch.refused(source(server.url("/data.bin"), sized=sized))
    assert f"more than {most:,} bytes" in line
    assert max(so_far for _, so_far, _ in fetch.told) == most + 1
    assert all_files(fetch.target) == set()
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", [1, len(CONTENT) - 1, len(CONTENT) + 1, 10**12])
def test_a_wrong_length_is_refused_before_it_comes(server: Server, fetch: Fetcher, length: int) -> None:
    server.faults["/data.bin"] = [announcing(length)]
    line = fetch.refused(source(server.url("/data.bin")))
    assert f"{length:,} bytes announced, {len(CONTENT):,} wanted" in line
    assert fetch.told == []
    assert all_files(fetch.target) == set()


def test_a_wrong_length_of_a_file_of_unknown_size(server: Server, fetch: Fetcher) -> None:
    """Told too short, the rest is missed by the checksum; too long, the server says at the retry that this was all."""
    file = source(server.url("/data.bin"), sized=False)
    server.faults["/data.bin"] = [announcing(HALF)]
    assert "sha256" in fetch.refused(file)
    assert all_files(fetch.target) == set()
    server.faults["/data.bin"] = [announcing(5 << 30)]
    assert "at most 4,294,967,296" in fetch.refused(file)
    server.faults["/data.bin"] = [announcing(len(CONTENT) + 5)]
    fetch(file)
    assert fetch.path.read_bytes() == CONTENT


def test_an_answer_without_a_file_leaves_the_part(server: Server, fetch: Fetcher) -> None:
    fetch.place(fetch.part, CONTENT[:HALF])
    server.faults["/data.bin"] = [status(204)]
    assert "HTTP 204" in fetch.refused(source(server.url("/data.bin")))
    assert fetch.part.read_bytes() == CONTENT[:HALF]


def test_all_mirrors_are_told(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [status(403)]
    line = fetch.refused(source(server.url("/nowhere"), server.url("/data.bin")))
    assert str(fetch.path) in line
    assert f"{server.url('/nowhere')}: HTTP 404 Not Found; {server.url('/data.bin')}: HTTP 403 Forbidden" in line
    assert "reason" not in line  # the server's own words


@pytest.mark.parametrize("scheme", ["file", "ftp", "data", "gopher"])
def test_a_redirect_to_another_scheme_is_refused(server: Server, fetch: Fetcher, scheme: str) -> None:
    secret = fetch.target.parent / "secret"
    secret.write_bytes(CONTENT)  # it would even have the right checksum
    server.faults["/data.bin"] = [status(302, Location=f"{scheme}://{secret}")]
    assert "HTTP 302, a redirect that is not followed" in fetch.refused(source(server.url("/data.bin")))
    assert all_files(fetch.target) == set()
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_to_http_is_followed_with_the_range(server: Server, fetch: Fetcher, code: int) -> None:
    fetch.place(fetch.part, CONTENT[:HALF])
    server.faults["/old"] = [status(code, Location=server.url("/data.bin"))]
    fetch(source(server.url("/old")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.requests[-1] == ("/data.bin", f"bytes={HALF}-", f"airfl/{__version__}")


@pytest.mark.parametrize("location", ["/data.bin", "http://[", "http://127.0.0.1:x/"])
def test_a_redirect_that_leads_nowhere(server: Server, fetch: Fetcher, location: str) -> None:
    server.faults["/data.bin"] = [status(302, Location=location)] * 99
    assert server.url("/data.bin") in fetch.refused(source(server.url("/data.bin")))


@pytest.mark.parametrize("scheme", ["file", "ftp", "data"])
def test_another_scheme_is_refused(fetch: Fetcher, scheme: str) -> None:
    secret = fetch.target.parent / "secret"
    secret.write_bytes(CONTENT)
    assert "only http and https" in fetch.refused(source(f"{scheme}://{secret}"))
    assert all_files(fetch.target) == set()


def test_no_server(server: Server, fetch: Fetcher) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening: refused
        line = fetch.refused(source(f"http://127.0.0.1:{taken.getsockname()[1]}/data.bin"))
    assert str(fetch.path) in line
    assert os.strerror(errno.ECONNREFUSED) in line
    assert "try again" in line


# What is there already


def test_a_right_file_is_kept(server: Server, fetch: Fetcher) -> None:
    fetch.place(fetch.path, CONTENT)
    before = fetch.path.stat()
    assert fetch(source(server.url("/data.bin"))) == [fetch.path]
    assert fetch.path.stat().st_ino == before.st_ino
    assert server.requests == []


def test_another_file_is_not_overwritten(server: Server, fetch: Fetcher) -> None:
    """And nothing is downloaded before that is seen."""
    fetch.place(fetch.path, b"mine")
    first = Source((server.url("/data.bin"),), "first.bin", sha256(CONTENT))
    line = fetch.refused(first, source(server.url("/data.bin")), by=UserError)
    assert str(fetch.path) in line
    assert "move it away" in line
    assert fetch.path.read_bytes() == b"mine"
    assert server.requests == []


def test_no_file_in_a_members_place(server: Server, fetch: Fetcher) -> None:
    (fetch.target / "set" / TWO).mkdir(parents=True)
    line = fetch.refused(archive(server, list(MEMBERS.items())), by=UserError)
    assert f"{fetch.target / 'set' / TWO}: is not a file" in line
    assert server.requests == []


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_no_file_in_a_files_place(server: Server, fetch: Fetcher, kind: str) -> None:
    fetch.path.parent.mkdir(parents=True)
    if kind == "folder":
        fetch.path.mkdir()
    else:
        fetch.path.symlink_to("nowhere")
    line = fetch.refused(source(server.url("/data.bin")), by=UserError)
    assert f"{fetch.path}: is not a file" in line
    assert server.requests == []


def test_a_target_that_is_a_file(server: Server, fetch: Fetcher) -> None:
    fetch.target.write_bytes(b"mine")
    assert f"{fetch.target}: is a file" in fetch.refused(source(server.url("/data.bin")), by=UserError)
    fetch.target.unlink()
    fetch.place(fetch.target / "set", b"mine")
    assert str(fetch.target / "set") in fetch.refused(source(server.url("/data.bin")), by=UserError)
    assert (fetch.target / "set").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("number", "by"), [(errno.EACCES, UserError), (errno.EROFS, UserError), (errno.ENOSPC, MachineError)]
)
@pytest.mark.parametrize("where", ["mkdir", "fsync"])
def test_a_disk_that_does_not_take_it(
    server: Server,
    fetch: Fetcher,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    by: type[Exception],
    where: str,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path if where == "mkdir" else os, where, fail)
    if where == "fsync":
        fetch.target.joinpath("set").mkdir(parents=True)
    line = fetch.refused(source(server.url("/data.bin")), by=by)
    assert str(fetch.target) in line
    assert os.strerror(number) in line
    assert not fetch.path.exists()


# Archives

ONE, TWO = "batches/one.bin", "batches/two.bin"
MEMBERS = {ONE: CONTENT, TWO: OTHER}


def packed(entries: list[tuple[str, bytes | tarfile.TarInfo]]) -> bytes:
    """A gzipped tar archive of files, or of whatever a TarInfo says."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, entry in entries:
            info = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            content = entry if isinstance(entry, bytes) else b""
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def archive(server: Server, entries: list[tuple[str, bytes | tarfile.TarInfo]]) -> Source:
    """A source whose archive with those entries is served."""
    server.files["/set.tar.gz"] = content = packed(entries)
    return Source((server.url("/set.tar.gz"),), "set.tar.gz", sha256(content), len(content), (ONE, TWO))


def test_an_archive_is_unpacked_and_removed(server: Server, fetch: Fetcher) -> None:
    unwanted = {"readme.html": b"more", "../evil": b"evil", f"../{ONE}": b"evil", f"./{ONE}": b"evil"}
    absolute = {str(fetch.target.parent / "evil"): b"evil"}
    entries = [*unwanted.items(), *absolute.items(), *MEMBERS.items()]
    assert fetch(archive(server, list(entries))) == [fetch.target / "set" / ONE, fetch.target / "set" / TWO]
    assert all_files(fetch.target.parent) == {f"data/set/{ONE}", f"data/set/{TWO}"}
    for name, content in MEMBERS.items():
        assert (fetch.target / "set" / name).read_bytes() == content
    assert {file for file, _, _ in fetch.told} == {"set.tar.gz"}


def test_an_archive_with_all_members_there_is_not_fetched(server: Server, fetch: Fetcher) -> None:
    for name in MEMBERS:
        fetch.place(fetch.target / "set" / name, b"mine")
    fetch(archive(server, list(MEMBERS.items())))
    assert server.requests == []
    assert (fetch.target / "set" / ONE).read_bytes() == b"mine"


def test_a_member_that_is_there_is_not_overwritten(server: Server, fetch: Fetcher) -> None:
    fetch.place(fetch.target / "set" / ONE, b"mine")
    fetch(archive(server, list(MEMBERS.items())))
    assert (fetch.target / "set" / ONE).read_bytes() == b"mine"
    assert (fetch.target / "set" / TWO).read_bytes() == OTHER
    assert all_files(fetch.target) == {f"set/{ONE}", f"set/{TWO}"}


def test_an_archive_that_is_there_is_unpacked(server: Server, fetch: Fetcher) -> None:
    """As after an interruption."""
    file = archive(server, list(MEMBERS.items()))
    fetch.place(fetch.target / "set" / "set.tar.gz", server.files["/set.tar.gz"])
    fetch(file)
    assert server.requests == []
    assert all_files(fetch.target) == {f"set/{ONE}", f"set/{TWO}"}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_a_member_that_is_no_file_is_refused(server: Server, fetch: Fetcher, kind: bytes) -> None:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, TWO
    line = fetch.refused(archive(server, [(TWO, OTHER), (ONE, info)]))
    assert ONE in line
    assert "not a regular file" in line
    assert all_files(fetch.target.parent) == {f"data/set/{TWO}", "data/set/set.tar.gz"}


def test_a_missing_member_is_told(server: Server, fetch: Fetcher) -> None:
    line = fetch.refused(archive(server, [(ONE, CONTENT), ("../" + TWO, OTHER)]))
    assert str(fetch.target / "set" / "set.tar.gz") in line
    assert f"holds no {TWO}" in line
    assert ONE not in line


@pytest.mark.parametrize("damage", ["no archive", "cut off"])
def test_a_broken_archive_is_told(server: Server, fetch: Fetcher, damage: str) -> None:
    """With the right checksum."""
    good = packed(list(MEMBERS.items()))
    server.files["/set.tar.gz"] = content = {
        "no archive": CONTENT,
        "cut off": good[: len(good) // 2],
    }[damage]
    line = fetch.refused(Source((server.url("/set.tar.gz"),), "set.tar.gz", sha256(content), None, (ONE, TWO)))
    assert "cannot be unpacked" in line
    assert not (fetch.target / "set" / TWO).exists()


# Names and the table


def test_an_unknown_name(tmp_path: Path) -> None:
    line = refusal(lambda: get("fashon-mnist", tmp_path), UserError)
    assert "did you mean fashion-mnist?" in line
    assert "cifar10" in line


def test_femnist_says_how_to_make_it(tmp_path: Path) -> None:
    line = refusal(lambda: get("femnist", tmp_path), UserError)
    assert "github.com/TalwalkarLab/leaf" in line
    assert "preprocess.sh -s niid --sf 1.0 -k 0 -t sample" in line
    assert all_files(tmp_path) == set()


def test_the_table_is_sound() -> None:
    """No name leaves its folder, none is there twice, sums are sums, only http and https."""
    assert set(DOWNLOADS).isdisjoint(NOT_DOWNLOADABLE)
    for downloads in DOWNLOADS.values():
        names = []
        for part in downloads:
            for file in part.sources:
                names += [f"{part.folder}/{name}" for name in (file.file, *file.members)]
                kind, _, value = file.checksum.partition(":")
                assert re.fullmatch(r"[0-9a-f]+", value)
                assert len(value) == {"md5": 32, "sha256": 64}[kind]
                assert file.size is None or file.size > 0
                assert file.urls
                for url in file.urls:
                    assert urlsplit(url).scheme in ("http", "https")
                    assert url.endswith("/" + file.file)
        assert len(set(names)) == len(names)
        for name in names:
            assert re.fullmatch(r"[A-Za-z0-9._/-]+", name)
            assert not PurePosixPath(name).is_absolute()
            assert ".." not in PurePosixPath(name).parts
