"""Downloads that succeed, immediately or after transient faults."""

import hashlib
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from airfl.errors import MachineError
from airfl.learning.tasks.downloads import download
from airfl.learning.tasks.downloads.download import Patience, get
from airfl.learning.tasks.downloads.sources import Download, Source
from airfl.version import __version__
from tests.unit.downloads import support
from tests.unit.downloads.support import CONTENT, HALF, OTHER, Answer, Fetcher, Server, all_files, refusal, source


@dataclass(frozen=True)
class Transfer:
    """The ranges that a server is asked for which does this first, where so much of the file lies there already."""

    asked: list[str | None]
    faults: tuple[Answer, ...] = ()
    part: bytes = b""
    ranges: bool = True


REST = f"bytes={HALF}-"
BROKEN_OFF = [support.cut(HALF), support.status(404)]
TRANSFERS = {
    "per_round": Transfer([None]),
    "of a length that is not told": Transfer([None], (support.unannounced,)),
    "of a part": Transfer([REST], part=CONTENT[:HALF]),
    "of a part, without ranges": Transfer([REST], part=CONTENT[:HALF], ranges=False),
    "of another range": Transfer([REST, None], (support.another_range,), CONTENT[:HALF]),
    "that is not continued": Transfer([None, REST, None], (support.cut(HALF), support.status(416))),
    "broken off": Transfer([None, REST, f"bytes={HALF + 1000}-"], (support.cut(HALF), support.cut(HALF + 1000))),
    "broken off without ranges": Transfer([None, REST, REST], (support.cut(HALF), support.cut(HALF)), ranges=False),
    "after a passing trouble": Transfer([None, None, None], (support.status(429), support.status(503))),
    "after another": Transfer([None, None], (support.status(500),)),
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


UNTOLD = [support.unannounced]


@pytest.mark.parametrize(
    ("faults", "there", "sized"),
    [([], 0, True), ([], HALF, True), ([], HALF, False), (UNTOLD, 0, True), (UNTOLD, 0, False)],
)
def test_progress_counts_to_all_there_is(server: Server, fetch: Fetcher, faults: Any, there: int, sized: bool) -> None:
    """From what is there already; how much it is all in all is known beforehand, or when it is announced."""
    server.faults["/data.bin"] = list(faults)
    fetch.place(fetch.part, CONTENT[:there])
    fetch(source(server.url("/data.bin"), sized=sized))
    total = None if faults and not sized else len(CONTENT)
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
    server.faults["/data.bin"] = [support.silent]
    fetch(source(server.url("/data.bin")), patience=Patience(attempts=2, pause=0.001, timeout=1.0))
    assert fetch.path.read_bytes() == CONTENT
    assert server.ranges_asked() == [None, REST]


def test_the_pauses_double(server: Server, fetch: Fetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    server.faults["/data.bin"] = [support.status(503)] * 9
    fetch.patch.setattr(download, "DOWNLOADS", {"set": (Download("set", (source(server.url("/data.bin")),)),)})
    refusal(lambda: get("set", fetch.target, None, Patience(attempts=4, pause=1.0)), MachineError)
    assert pauses == [1.0, 2.0, 4.0]
    assert len(server.requests) == 4


@pytest.mark.parametrize(
    ("content", "faults", "asked"),
    [
        (None, [], [("/first", None), ("/data.bin", None)]),
        (OTHER, [], [("/first", None), ("/data.bin", None)]),
        (CONTENT, BROKEN_OFF, [("/first", None), ("/first", REST), ("/data.bin", REST)]),
        # Half of another file: the second mirror's half is tried with it, then all of the second's.
        (OTHER, BROKEN_OFF, [("/first", None), ("/first", REST), ("/data.bin", REST), ("/data.bin", None)]),
    ],
    ids=["has no file", "has another file", "breaks off", "breaks off another file"],
)
def test_the_second_mirror_is_used(server: Server, fetch: Fetcher, content: Any, faults: Any, asked: Any) -> None:
    """The first is not asked again for what it does not have, and the part that it gave is continued."""
    server.files |= {"/first": content} if content else {}
    server.faults["/first"] = list(faults)
    fetch(source(server.url("/first"), server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert [(path, ranges) for path, ranges, _ in server.requests] == asked


def test_a_transfer_broken_off_without_ranges_or_length(server: Server, fetch: Fetcher) -> None:
    server.ranges = False
    server.faults["/data.bin"] = [support.cut(HALF), lambda handler: support.unannounced(handler, HALF)]
    fetch(source(server.url("/data.bin")))
    assert fetch.path.read_bytes() == CONTENT
    assert len(server.requests) == 3
