"""Downloads that succeed, at once or after faults that are got over."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

import pytest

from airfl.errors import MachineError
from airfl.tasks.downloads import download
from airfl.tasks.downloads.download import Patience, get
from airfl.tasks.downloads.sources import Download, Source
from airfl.version import __version__
from tests.unit.downloads.support import (
    CONTENT,
    HALF,
    OTHER,
    Fetcher,
    Server,
    all_files,
    another_range,
    cut,
    refusal,
    silent,
    source,
    status,
    unannounced,
)


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
    fetch(source(server.url("/data.bin")), patience=Patience(attempts=2, pause=0.001, timeout=1.0))
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
