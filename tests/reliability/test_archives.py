"""Archives that are damaged, malicious or larger than they appear: requested members, or an error of one line."""

import io
import itertools
import os
import tarfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from airfl.errors import MachineError, UserError
from airfl.learning.tasks.downloads import download
from airfl.learning.tasks.downloads.archive import unpack
from airfl.learning.tasks.downloads.sources import DOWNLOADS, Download, Source
from tests.reliability.mutations import mutations
from tests.reliability.refusals import case, refusal
from tests.reliability.scale import Measured, cases
from tests.unit.datasets.support import peak_of, put
from tests.unit.downloads.support import all_files

CONTENT = {name: np.random.default_rng(len(name)).bytes(3000) for name in ("set/one.bin", "set/second.bin")}
MEMBERS = tuple(CONTENT)
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
PACKINGS = ("", "gz", "bz2", "xz")
LONG = "set/" + "x" * 150  # needs an entry of its own, of which readers differ


def packed(kind: str, packing: str, *entries: tarfile.TarInfo) -> bytes:
    """An archive with those entries before the members."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=f"w:{packing}", format=FORMATS[kind]) as tar:  # type: ignore[call-overload]
        for entry in entries:
            tar.addfile(entry, io.BytesIO(bytes(entry.size)))
        for name, content in CONTENT.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), 1.5 if kind == "pax" else 1
            tar.addfile(info, io.BytesIO(content))
        if kind != "ustar":
            tar.addfile(tarfile.TarInfo(LONG))
    return file.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, size
    return info


def unpacked(folder: Path, content: bytes) -> str:
    """The line in which it is refused, else empty; beside the archive there are the members and nothing else."""
    archive, target = folder / "x.tar", folder / "target"
    archive.write_bytes(content)
    line = ""
    try:
        unpack(archive, target, MEMBERS)
    except (MachineError, UserError) as error:
        line = str(error)
        assert line.isprintable()
        assert str(archive) in line
    left = all_files(folder) - {"x.tar"}
    assert left <= {f"target/{name}" for name in MEMBERS}
    assert line or len(left) == len(MEMBERS)
    return line


@pytest.mark.parametrize("kind", FORMATS)
def test_a_damaged_archive_is_unpacked_or_refused(tmp_path: Path, kind: str, measured: Measured) -> None:
    count, refused = cases(60, 1500), 0
    for packing in PACKINGS:
        good = packed(kind, packing)
        assert unpacked(tmp_path, good) == ""
        rng = np.random.default_rng(zlib.crc32(f"{kind}{packing}".encode()))
        for name, content in itertools.islice(mutations(rng, good), count):
            for member in MEMBERS:
                (tmp_path / "target" / member).unlink(missing_ok=True)
            with case(f"{kind}, {packing}: {name}"):
                refused += bool(unpacked(tmp_path, content))
    measured(f"archives, {kind}: {count * len(PACKINGS)} damaged, {refused} refused")


ONE, _ = MEMBERS
LEADING_OUT = {
    "dots": entry("../evil", size=5),
    "dots behind a folder": entry(f"set/../../{ONE}", size=5),
    "absolute": entry("/tmp/airfl-evil", size=5),
    "a link to a folder": entry("set", tarfile.SYMTYPE, "/tmp"),
    "a link out": entry("set/link", tarfile.SYMTYPE, "../../../etc/passwd"),
    "a hard link out": entry("set/link", tarfile.LNKTYPE, "/etc/passwd"),
    "a device": entry("set/null", tarfile.CHRTYPE),
    "a pipe": entry("set/pipe", tarfile.FIFOTYPE),
    "another archive": entry("set/nested.tar", size=10_240),
}


@pytest.mark.parametrize("trap", LEADING_OUT)
@pytest.mark.parametrize("kind", FORMATS)
def test_nothing_but_the_members_is_written(tmp_path: Path, trap: str, kind: str) -> None:
    assert unpacked(tmp_path, packed(kind, "gz", LEADING_OUT[trap])) == ""
    assert {name: (tmp_path / "target" / name).read_bytes() for name in MEMBERS} == CONTENT
    assert not (tmp_path / "target" / "set").is_symlink()
    assert not os.path.lexists("/tmp/airfl-evil")


def test_a_member_of_a_terabyte_is_refused(tmp_path: Path) -> None:
    """A sparse file takes no room in the archive."""
    sparse = bytearray(entry(ONE).tobuf(tarfile.GNU_FORMAT))
    sparse[156:157] = tarfile.GNUTYPE_SPARSE
    sparse[386:410] = b"%011o\0%011o\0" % (0, 0)
    sparse[483:495] = b"\x80" + (1 << 40).to_bytes(11, "big")
    sparse[148:156] = b"        "
    sparse[148:156] = b"%06o\0 " % sum(sparse)
    line = unpacked(tmp_path, bytes(sparse) + bytes(1024))
    assert "1,099,511,627,776 bytes" in line
    assert all_files(tmp_path) == {"x.tar"}


def said(name: str, kind: bytes, content: bytes) -> bytes:
    """An entry that stands for what follows it."""
    info = entry(name, kind, size=len(content))
    return info.tobuf(tarfile.GNU_FORMAT) + content.ljust(512, b"\0")


BROKEN = {
    "a member that breaks off": packed("gnu", "")[:2000],
    # Every one of them is a call within a call of tarfile.
    "long names without end": said("././@LongLink", tarfile.GNUTYPE_LONGNAME, b"name\0") * 3000,
    # A record that says it has 10^20 bytes: tarfile passes the OverflowError on.
    "an odd number": said("x", tarfile.XHDTYPE, b"99999999999999999999 mtime=1\n") + packed("ustar", ""),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_archive_leaves_nothing(broken: str, tmp_path: Path) -> None:
    assert "cannot be unpacked" in unpacked(tmp_path, BROKEN[broken])
    assert all_files(tmp_path) == {"x.tar"}


def test_many_other_members_take_no_memory(tmp_path: Path) -> None:
    """64 MiB of something else before the members."""
    content = packed("gnu", "gz", entry("other", size=64 << 20))
    lines: list[str] = []
    assert peak_of(lambda: lines.append(unpacked(tmp_path, content))) < 4 << 20
    assert lines == [""]


def test_an_archive_is_not_looked_into_without_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = Source(("http://localhost:9/set.tar",), "set.tar", "sha256:" + "0" * 64, None, MEMBERS)
    monkeypatch.setitem(DOWNLOADS, "set", (Download("set", (wanted,)),))
    looked: list[Path] = []
    monkeypatch.setattr(download, "unpack", lambda archive, *_: looked.append(archive))

    def transfer(_url: str, part: Path, *_rest: object) -> None:
        part.write_bytes(packed("gnu", ""))

    monkeypatch.setattr(download, "_transfer_patiently", transfer)
    refusal(lambda: download.get("set", tmp_path), "sha256 ", MachineError)
    put(tmp_path / "set" / "set.tar", packed("gnu", ""))
    refusal(lambda: download.get("set", tmp_path), "a different file already exists")
    assert looked == []
