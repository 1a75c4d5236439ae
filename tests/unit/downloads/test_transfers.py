"""Downloads that succeed, immediately or after transient faults."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from airfl.errors import MachineError
from airfl.learning.tasks.downloads import download
from airfl.learning.tasks.downloads.download import Patience, get
from airfl.learning.tasks.downloads.sources import Download, Source
from airfl.version import __version__
from tests.unit.downloads.support import (
    CONTENT,
    HALF,
    OTHER,
    Answer,
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


@dataclass(frozen=True)
class Transfer:
    """The ranges that a server is asked for which does this first, where so much of the file lies there already."""

    asked: list[str | None]
    faults: tuple[Answer, ...] = ()
    part: bytes = b""
    ranges: bool = True


REST = f"bytes={HALF}-"
TRANSFERS = {
    "per_round": Transfer([None]),
    "of a length that is not told": Transfer([None], (unannounced,)),
    "of a part": Transfer([REST], part=CONTENT[:HALF]),
    "of a part, without ranges": Transfer([REST], part=CONTENT[:HALF], ranges=False),
    "of another range": Transfer([REST, None], (another_range,), CONTENT[:HALF]),
    "that is not continued": Transfer([None, REST, None], (cut(HALF), status(416))),
    "broken off": Transfer([None, REST, f"bytes={HALF + 1000}-"], (cut(HALF), cut(HALF + 1000))),
    "broken off without ranges": Transfer([None, REST, REST], (cut(HALF), cut(HALF)), ranges=False),
    "after a passing trouble": Transfer([None, None, None], (status(429), status(503))),
    "after another": Transfer([None, None], (status(500),)),
}


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("name", TRANSFERS)
def test_a_transfer(server: Server, fetch: Fetcher, name: str, sized: bool) -> None:
    how = TRANSFERS[name]
    server.faults["/data.bin"], server.ranges = list(how.faults), how.ranges
    if how.part:
        fetch.place(fetch.part, how.part)
    assert fetch(source(server.url("/data.bin"), sized=sized)) == [fetch.path]
    assert fetch.path.read_bytes() == CONTENT
    assert all_files(fetch.target) == {"set/data.bin"}
    assert server.requests == [("/data.bin", asked, f"airfl/{__version__}") for asked in how.asked]


def test_a_data_set_of_several_folders(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And an md5 sum."""
    server.files["/labels"] = OTHER
    labels = Source((server.url("/labels"),), "labels", f"md5:{hashlib.md5(OTHER).hexdigest()}")
    downloads = (Download("images", (source(server.url("/data.bin")),)), Download("writers", (labels,)))
    monkeypatch.setattr(download, "DOWNLOADS", {"set": downloads})
    assert get("set", tmp_path) == [tmp_path / "images" / "data.bin", tmp_path / "writers" / "labels"]
    assert (tmp_path / "writers" / "labels").read_bytes() == OTHER


@pytest.mark.parametrize(
    ("faults", "there", "sized", "total"),
    [
        ((), 0, True, len(CONTENT)),
        ((), HALF, True, len(CONTENT)),
        ((), HALF, False, len(CONTENT)),
        ((unannounced,), 0, True, len(CONTENT)),
        ((unannounced,), 0, False, None),
    ],
)
def test_progress_counts_up_to_all_there_is(
    server: Server, fetch: Fetcher, faults: tuple[Answer, ...], there: int, sized: bool, total: int | None
) -> None:
    """From what is there already; how much it is all in all is known beforehand, or when it is announced."""
    server.faults["/data.bin"] = list(faults)
    fetch.place(fetch.part, CONTENT[:there])
    fetch(source(server.url("/data.bin"), sized=sized))
    assert {(file, of) for file, _, of in fetch.told} == {("data.bin", total)}
    counts = [so_far for _, so_far, _ in fetch.told]
    assert len(counts) > 1
    assert counts == sorted(set(counts))
    assert counts[0] > there
    assert counts[-1] == len(CONTENT)


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
@pytest.mark.parametrize("length", [HALF, len(CONTENT), len(CONTENT) + 9], ids=["shorter", "as long", "longer"])
def test_a_part_of_another_file_is_replaced(server: Server, fetch: Fetcher, sized: bool, length: int) -> None:
    fetch.place(fetch.part, (OTHER + OTHER)[:length])
    fetch(source(server.url("/data.bin"), sized=sized))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked()[-1] is None
    assert len(server.requests) <= 2


def test_a_silent_server_is_left_and_asked_again(server: Server, fetch: Fetcher) -> None:
    server.faults["/data.bin"] = [silent]
    fetch(source(server.url("/data.bin")), patience=Patience(attempts=2, pause=0.001, timeout=1.0))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [None, f"bytes={HALF}-"]


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


def test_a_transfer_broken_off_without_ranges_or_length(server: Server, fetch: Fetcher) -> None:
    server.ranges = False
    server.faults["/data.bin"] = [cut(HALF), lambda handler: unannounced(handler, HALF)]
    fetch(source(server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert len(server.requests) == 3
