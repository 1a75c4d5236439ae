"""Archives: only the named members are extracted; names and the table of sources."""

import io
import re
import tarfile
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

import pytest

from airfl.errors import UserError
from airfl.learning.tasks.downloads.download import get
from airfl.learning.tasks.downloads.sources import DOWNLOADS, NOT_DOWNLOADABLE, Source
from tests.unit.downloads.support import CONTENT, OTHER, Fetcher, Server, all_files, refusal, sha256

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


@pytest.mark.parametrize("there", [[ONE], [ONE, TWO]], ids=["one", "all"])
def test_a_member_that_is_there_is_not_overwritten(server: Server, fetch: Fetcher, there: list[str]) -> None:
    """With all of them there, nothing is fetched."""
    for name in there:
        fetch.place(fetch.target / "set" / name, b"mine")
    fetch(archive(server, list(MEMBERS.items())))
    for name, content in MEMBERS.items():
        assert (fetch.target / "set" / name).read_bytes() == (b"mine" if name in there else content)
    assert all_files(fetch.target) == {f"set/{ONE}", f"set/{TWO}"}
    assert len(server.requests) == (0 if TWO in there else 1)


@pytest.mark.parametrize(("name", "stays"), [("set.tar.gz.airfl-part", False), ("set.tar.gz", True)])
def test_an_archive_that_is_there_is_unpacked(name: str, stays: bool, server: Server, fetch: Fetcher) -> None:
    """After an interruption; and where somebody has put it there, whose it is."""
    file = archive(server, list(MEMBERS.items()))
    fetch.place(fetch.target / "set" / name, server.files["/set.tar.gz"])
    fetch(file)
    assert server.requests == []
    assert all_files(fetch.target) == {f"set/{ONE}", f"set/{TWO}"} | ({f"set/{name}"} if stays else set())


@pytest.mark.parametrize("kind", ["SYMTYPE", "LNKTYPE", "CHRTYPE", "BLKTYPE", "FIFOTYPE", "DIRTYPE"])
def test_a_member_that_is_no_file_is_refused(server: Server, fetch: Fetcher, kind: str) -> None:
    info = tarfile.TarInfo()
    info.type, info.linkname = getattr(tarfile, kind), TWO
    fetch.refused(archive(server, [(TWO, OTHER), (ONE, info)]), says=[ONE, "not a regular file"])
    assert all_files(fetch.target.parent) == {f"data/set/{TWO}", "data/set/set.tar.gz.airfl-part"}


def test_a_missing_member_is_told(server: Server, fetch: Fetcher) -> None:
    says = [str(fetch.target / "set" / "set.tar.gz"), f"holds no {TWO}"]
    assert ONE not in fetch.refused(archive(server, [(ONE, CONTENT), ("../" + TWO, OTHER)]), says=says)


@pytest.mark.parametrize("damage", ["no archive", "cut off"])
def test_a_broken_archive_is_told(server: Server, fetch: Fetcher, damage: str) -> None:
    """With the right checksum."""
    good = packed(list(MEMBERS.items()))
    server.files["/set.tar.gz"] = content = {"no archive": CONTENT, "cut off": good[: len(good) // 2]}[damage]
    file = Source((server.url("/set.tar.gz"),), "set.tar.gz", sha256(content), None, (ONE, TWO))
    fetch.refused(file, says=["cannot be unpacked"])
    assert not (fetch.target / "set" / TWO).exists()


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
