"""Downloads that are refused, and files that already exist."""

import errno
import hashlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from airfl.errors import MachineError, UserError
from airfl.learning.tasks.downloads import download
from airfl.learning.tasks.downloads.sources import Source
from airfl.version import __version__
from tests.unit.downloads import support
from tests.unit.downloads.support import CONTENT, HALF, OTHER, QUICK, Fetcher, Server, all_files, sha256, source
from tests.unit.downloads.test_archives import MEMBERS, TWO, archive


def test_a_wrong_checksum_is_refused(server: Server, fetch: Fetcher) -> None:
    server.files["/data.bin"] = OTHER
    sums = [hashlib.sha256(content).hexdigest() for content in (OTHER, CONTENT)]
    fetch.refused(source(server.url("/data.bin")), says=[str(fetch.path), *sums])
    assert all_files(fetch.target) == set()
    assert len(server.requests) == 1


def test_a_part_of_a_file_is_kept_but_not_named_the_file(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [support.cut(HALF)] * QUICK.attempts
    says = ["interrupted", f"{HALF:,} of {len(CONTENT):,} bytes"]
    fetch.refused(source(server.url("/data.bin")), says=says)
    assert all_files(fetch.target) == {"set/data.bin.airfl-part"}
    assert fetch.part.read_bytes() == CONTENT[:HALF]
    assert len(server.requests) == QUICK.attempts


@pytest.mark.parametrize("sized", [True, False])
def test_endless_data_is_cut_off(server: Server, fetch: Fetcher, sized: bool) -> None:
    most = len(CONTENT) if sized else 100_000
    fetch.patch.setattr(download, "MOST_BYTES", 100_000)
    server.faults["/data.bin"] = [support.endless] * 9
    fetch.refused(source(server.url("/data.bin"), sized=sized), says=[f"more than {most:,} bytes"])
    assert max(so_far for _, so_far, _ in fetch.told) == most + 1
    assert all_files(fetch.target) == set()
    assert len(server.requests) == 1


@pytest.mark.parametrize("length", [1, len(CONTENT) - 1, len(CONTENT) + 1, 10**12])
def test_a_wrong_length_is_refused_before_it_comes(server: Server, fetch: Fetcher, length: int) -> None:
    server.faults["/data.bin"] = [support.announcing(length)]
    said = f"must have {len(CONTENT):,} bytes, the server declares {length:,}"
    assert said in fetch.refused(source(server.url("/data.bin")))
    assert fetch.told == []
    assert all_files(fetch.target) == set()


def test_a_wrong_length_of_a_file_of_unknown_size(server: Server, fetch: Fetcher) -> None:
    """Told too short, the rest is missed by the checksum; too long, the server says at the retry that this was all."""
    file = source(server.url("/data.bin"), sized=False)
    server.faults["/data.bin"] = [support.announcing(HALF)]
    assert "sha256" in fetch.refused(file)
    assert all_files(fetch.target) == set()
    server.faults["/data.bin"] = [support.announcing(5 << 30)]
    assert "at most 4,294,967,296" in fetch.refused(file)
    server.faults["/data.bin"] = [support.announcing(len(CONTENT) + 5)]
    fetch(file)
    assert fetch.path.read_bytes() == CONTENT


def test_an_answer_without_a_file_leaves_the_part(server: Server, fetch: Fetcher) -> None:
    fetch.place(fetch.part, CONTENT[:HALF])
    server.faults["/data.bin"] = [support.status(204)]
    assert "HTTP 204" in fetch.refused(source(server.url("/data.bin")))
    assert fetch.part.read_bytes() == CONTENT[:HALF]


def test_all_mirrors_are_told(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [support.status(403)]
    both = f"{server.url('/nowhere')}: HTTP 404 Not Found; {server.url('/data.bin')}: HTTP 403 Forbidden"
    line = fetch.refused(source(server.url("/nowhere"), server.url("/data.bin")), says=[str(fetch.path), both])
    assert "reason" not in line  # the server's own words


@pytest.mark.parametrize("scheme", ["file", "ftp", "data", "gopher"])
def test_another_scheme_is_refused(server: Server, fetch: Fetcher, scheme: str) -> None:
    """Of a source, and of a redirect."""
    secret = fetch.target.parent / "secret"
    secret.write_bytes(CONTENT)  # it would even have the right checksum
    assert "only http and https" in fetch.refused(source(f"{scheme}://{secret}"))
    server.faults["/data.bin"] = [support.status(302, Location=f"{scheme}://{secret}")]
    assert "HTTP 302, a redirect that is not followed" in fetch.refused(source(server.url("/data.bin")))
    assert all_files(fetch.target) == set()
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [301, 302, 307, 308])
def test_a_redirect_to_http_is_followed_with_the_range(server: Server, fetch: Fetcher, code: int) -> None:
    fetch.place(fetch.part, CONTENT[:HALF])
    server.faults["/old"] = [support.status(code, Location=server.url("/data.bin"))]
    fetch(source(server.url("/old")))
    assert fetch.path.read_bytes() == CONTENT
    assert server.requests[-1] == ("/data.bin", f"bytes={HALF}-", f"airfl/{__version__}")


@pytest.mark.parametrize("location", ["/data.bin", "http://[", "http://127.0.0.1:x/"])
def test_a_redirect_that_leads_nowhere(server: Server, fetch: Fetcher, location: str) -> None:
    server.faults["/data.bin"] = [support.status(302, Location=location)] * 99
    assert server.url("/data.bin") in fetch.refused(source(server.url("/data.bin")))


def test_no_server(server: Server, fetch: Fetcher) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and not listening: refused
        says = [str(fetch.path), os.strerror(errno.ECONNREFUSED), "try again"]
        fetch.refused(source(f"http://127.0.0.1:{taken.getsockname()[1]}/data.bin"), says=says)


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
    says = [str(fetch.path), "move it away"]
    fetch.refused(first, source(server.url("/data.bin")), says=says, by=UserError)
    assert fetch.path.read_bytes() == b"mine"
    assert server.requests == []


@pytest.mark.parametrize("kind", ["folder", "dangling link", "folder for a member"])
def test_no_file_in_a_files_place(server: Server, fetch: Fetcher, kind: str) -> None:
    wanted, path = source(server.url("/data.bin")), fetch.path
    if kind == "folder for a member":
        wanted, path = archive(server, list(MEMBERS.items())), fetch.target / "set" / TWO
    path.parent.mkdir(parents=True)
    if kind == "dangling link":
        path.symlink_to("nowhere")
    else:
        path.mkdir()
    assert f"{path}: is not a file" in fetch.refused(wanted, by=UserError)
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
def test_a_disk_that_does_not_take_it(server: Server, fetch: Fetcher, number: int, by: Any, where: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    fetch.patch.setattr(Path if where == "mkdir" else os, where, fail)
    if where == "fsync":
        fetch.target.joinpath("set").mkdir(parents=True)
    fetch.refused(source(server.url("/data.bin")), says=[str(fetch.target), os.strerror(number)], by=by)
    assert not fetch.path.exists()
