"""Bundles: one zip file, an RO-Crate, with which another machine can repeat runs and compare them.

A bundle that is read is a file from outside. Nothing of it is unpacked to disk, no member may lie outside it, and no
more is read than its manifest announces, which is bounded.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from airfl.errors import UserError
from airfl.storage.input_files import LIST_BYTES, as_path, open_regular

if TYPE_CHECKING:
    import xarray

SCHEMA = "airfl-bundle/1"
BUNDLE_NAME = "bundle.zip"
MANIFEST, CRATE = "bundle.json", "ro-crate-metadata.json"
RUNS = "runs"
"""Folder of the runs in a bundle."""
MOST_FILES, MOST_BYTES = 100_000, 1 << 32
"""Most files in a bundle, and most bytes of all of them together, unpacked. A larger bundle is not written either."""
BLOCK_BYTES = 1 << 20
DATE = (1980, 1, 1, 0, 0, 0)
"""The time of all members, so that the same runs give the same file."""
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 1
"""The bit of a member's flags for encryption."""
UNREADABLE = (
    *(zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError, LookupError),
    *(NotImplementedError, RuntimeError, OverflowError),
)
"""What zipfile raises for files that are damaged, or that it cannot read."""


def digests(trace: xarray.Dataset) -> dict[str, dict[str, Any]]:
    """Return the type, dimensions, shape and SHA-256 of every variable of a trace, coordinates included.

    A digest covers the type, the dimensions, the shape and the bytes, so that equal digests mean variables that are
    equal bit for bit. Variables are read one at a time.
    """
    found = {}
    for name, variable in sorted(trace.variables.items(), key=lambda item: str(item[0])):
        digest = hashlib.sha256(f"{variable.dtype} {variable.dims} {variable.shape}".encode())
        digest.update(variable.values.tobytes())
        found[str(name)] = {
            "dtype": str(variable.dtype),
            "dimensions": list(map(str, variable.dims)),
            "shape": list(variable.shape),
            "sha256": digest.hexdigest(),
        }
    return found


class BundleWriter:
    """Writes a bundle: its files, then the two descriptions of them.

    Attributes:
        files: Path in the bundle -> bytes and SHA-256 of what was added.
    """

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file, self._size = file, 0
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str, content: bytes | Path) -> None:
        """Add a file; a path is read in blocks. UserError if the bundle gets too large to be read."""
        self.files[name] = self._put(name, content)
        self._size += self.files[name]["bytes"]
        if self._size > MOST_BYTES or len(self.files) > MOST_FILES:
            raise UserError(
                f"bundle: {len(self.files):,} files of {self._size:,} bytes; at most {MOST_FILES:,} files of "
                f"{MOST_BYTES:,} bytes fit in one; export fewer runs at a time"
            )

    def describe(self, manifest: bytes, crate: bytes) -> None:
        """Add the manifest of the bundle and its metadata as an RO-Crate; UserError if one is too large to be read."""
        for name, content in ((MANIFEST, manifest), (CRATE, crate)):
            if len(content) > LIST_BYTES:
                raise UserError(
                    f"bundle: {name} has {len(content):,} bytes, at most {LIST_BYTES:,}; export fewer runs at a time"
                )
        self._put(MANIFEST, manifest)
        self._put(CRATE, crate)

    def _put(self, name: str, content: bytes | Path) -> dict[str, Any]:
        info = zipfile.ZipInfo(name, DATE)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        digest, size = hashlib.sha256(), 0
        with self._file.open(info, "w", force_zip64=True) as member, _source(content) as source:
            while block := source.read(BLOCK_BYTES):
                digest.update(block)
                size += len(block)
                member.write(block)
        return {"bytes": size, "sha256": digest.hexdigest()}


def _source(content: bytes | Path) -> IO[bytes]:
    return io.BytesIO(content) if isinstance(content, bytes) else open_regular(content)


@contextmanager
def writing(path: Path) -> Iterator[BundleWriter]:
    """Write a new bundle in the block."""
    with zipfile.ZipFile(path, "x", compresslevel=6) as file:
        yield BundleWriter(file)


@dataclass(frozen=True)
class Bundle:
    """A bundle that is open for reading; its files are those that its manifest lists, unchanged.

    Attributes:
        path: The file.
        manifest: The contents of bundle.json.
    """

    path: Path
    manifest: dict[str, Any]
    _file: zipfile.ZipFile = field(repr=False)

    def read(self, name: str, most: int) -> bytes:
        """Return a file of the bundle; UserError if it is missing or larger than `most` bytes."""
        with self._readable(), self.open(name) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise self.refused(f"{name} is larger than {most:,} bytes")
        return content

    def open(self, name: str) -> IO[bytes]:
        """Open a file of the bundle; UserError if there is none of this name."""
        if name not in self.manifest["files"]:
            raise self.refused(f"{name} is missing")
        return self._file.open(name)

    def refused(self, why: str) -> UserError:
        """Return the error for a file that differs from what airfl writes."""
        return _refused(self.path, why)

    def check(self) -> None:
        """Raise UserError unless every file has the SHA-256 that the manifest gives."""
        for name, described in self.manifest["files"].items():
            digest = hashlib.sha256()
            with self._readable(), self._file.open(name) as file:
                while block := file.read(BLOCK_BYTES):
                    digest.update(block)
            if digest.hexdigest() != described.get("sha256"):
                raise self.refused(f"{name} was changed after the bundle was written")

    @contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except UNREADABLE as error:
            raise self.refused(_reason(error)) from None


@contextmanager
def open_bundle(path: str | Path) -> Iterator[Bundle]:
    """Open a bundle and check its members and its manifest, without reading the other files.

    Raises:
        UserError: If it is no bundle, is truncated, or has members that a bundle does not have: paths that lead
            outside, links, encrypted members, one name twice, or members that the manifest does not list.
    """
    path = as_path(path)
    try:
        raw = open_regular(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give the file of a bundle") from None
    with raw:
        try:
            file = zipfile.ZipFile(raw)
        except UNREADABLE as error:
            raise _refused(path, _reason(error)) from None
        with file:
            members = _checked_members(path, file)
            yield Bundle(path, _checked_manifest(path, file, members), file)


def _checked_members(path: Path, file: zipfile.ZipFile) -> dict[str, int]:
    """Return the size of each member, unpacked."""
    members: dict[str, int] = {}
    for one in file.infolist():
        name = PurePosixPath(one.filename)
        outside = name.is_absolute() or ".." in name.parts or "\\" in one.filename or ":" in one.filename
        if outside or str(name) != one.filename or not one.filename.isprintable():
            raise _refused(path, f"{one.filename!r} is no name of a file in a bundle")
        if one.filename in members:
            raise _refused(path, f"{one.filename} is in it twice")
        if one.flag_bits & ENCRYPTED or one.compress_type not in METHODS or (one.external_attr >> 28) not in (0, 8):
            raise _refused(path, f"{one.filename} is encrypted, packed in another way, or no regular file")
        members[one.filename] = one.file_size
    if len(members) > MOST_FILES + 2 or sum(members.values()) > MOST_BYTES + 2 * LIST_BYTES:
        raise _refused(
            path,
            f"it unpacks to {len(members):,} files of {sum(members.values()):,} bytes, more than a bundle may hold",
        )
    return members


def _checked_manifest(path: Path, file: zipfile.ZipFile, members: dict[str, int]) -> dict[str, Any]:
    if MANIFEST not in members:
        raise _refused(path, f"{MANIFEST} is missing")
    if members[MANIFEST] > LIST_BYTES:
        raise _refused(path, f"{MANIFEST} is larger than {LIST_BYTES:,} bytes")
    try:
        read = json.loads(file.read(MANIFEST))
    except (*UNREADABLE, RecursionError) as error:
        raise _refused(path, f"{MANIFEST}: {_reason(error)}") from None
    manifest: dict[str, Any] = read if isinstance(read, dict) else {}
    schema = manifest.get("schema")
    if schema != SCHEMA:
        raise _refused(path, f"it is of schema {schema!r}, and not of {SCHEMA}")
    files, runs = manifest.get("files"), manifest.get("runs")
    if not (isinstance(files, dict) and all(isinstance(one, dict) for one in files.values())):
        raise _refused(path, f"{MANIFEST} lists no files")
    if not (isinstance(runs, list) and runs and all(isinstance(one, dict) for one in runs)):
        raise _refused(path, f"{MANIFEST} lists no runs")
    differing = files.keys() ^ (members.keys() - {MANIFEST, CRATE})
    if differing:
        raise _refused(path, f"its files are not those that {MANIFEST} lists: {sorted(differing)[0]}")
    for name, described in files.items():
        if described.get("bytes") != members[name]:
            raise _refused(path, f"{name} is not of the size that {MANIFEST} says")
    return manifest


def _refused(path: Path, why: str) -> UserError:
    return UserError(f"{path}: not a bundle of airfl, or a damaged one ({why}); use the file that airfl export wrote")


def _reason(error: BaseException) -> str:
    return " ".join(f"{error}".split())[:200] or type(error).__name__
