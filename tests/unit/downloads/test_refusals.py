"""Downloads that are refused, and files that already exist."""

from __future__ import annotations

import errno
import hashlib
import os
import socket
from pathlib import Path

import pytest

from airfl.errors import MachineError, UserError
from airfl.learning.tasks.downloads import download
from airfl.learning.tasks.downloads.sources import Source
from airfl.version import __version__
from tests.unit.downloads.support import (
    CONTENT,
    HALF,
    OTHER,
    QUICK,
    Fetcher,
    Server,
    all_files,
    announcing,
    cut,
    endless,
    sha256,
    source,
    status,
)
from tests.unit.downloads.test_archives import MEMBERS, TWO, archive


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
    assert "interrupted" in line
    assert f"{HALF:,} of {len(CONTENT):,} bytes" in line
    assert all_files(fetch.target) == {"set/data.bin.airfl-part"}
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
    assert f"must have {len(CONTENT):,} bytes, the server declares {length:,}" in line
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
def test_another_scheme_is_refused(server: Server, fetch: Fetcher, scheme: str) -> None:
    """Of a source, and of a redirect."""
    secret = fetch.target.parent / "secret"
    secret.write_bytes(CONTENT)  # it would even have the right checksum
    assert "only http and https" in fetch.refused(source(f"{scheme}://{secret}"))
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


def test_no_server(server: Server, fetch: Fetcher) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening: refused
        line = fetch.refused(source(f"http://127.0.0.1:{taken.getsockname()[1]}/data.bin"))
    assert str(fetch.path) in line
    assert os.strerror(errno.ECONNREFUSED) in line
    assert "try again" in line


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
    server: Server, fetch: Fetcher, monkeypatch: pytest.MonkeyPatch, number: int, by: type[Exception], where: str
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
