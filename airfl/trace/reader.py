"""Opens a trace, or says in one line why it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.output import TRACE_NAME
from airfl.trace.contents import check_contents, check_own
from airfl.trace.integrity import DamagedError, check_whole, open_checked, read_seal
from airfl.trace.schema import SCHEMA
from channels.isolated.hdf5 import probe

if TYPE_CHECKING:
    import h5py
    import xarray

BEING_WRITTEN = "unable to lock file"
"""What HDF5 says of a file that another process is writing."""


def open_trace(path: str | Path, *, cache: bool = True) -> xarray.Dataset:
    """The trace as a lazy xarray dataset; `path` is the file or the run folder that holds it as trace.h5.

    Values are read when they are asked for, and kept unless `cache` is false; close it, or use it in a `with` block.
    Raises UserError, naming file and fault, where there is none, its run still goes on, it is cut off or damaged, or it
    is not a trace of this schema; so does reading values that are damaged. A trace whose run has ended is checked as
    far as it is read (`airfl.trace.integrity`).
    """
    import h5py

    from airfl.trace.backend import damaged, one_line

    file = Path(path)
    file = file / TRACE_NAME if file.is_dir() else file
    if not file.exists():
        raise UserError(f"{file}: no such trace")
    if not file.is_file():  # a pipe is waited for without end
        raise UserError(f"{file}: is no regular file, as a trace is")
    try:
        sealed = read_seal(file) is not None
        if not sealed and h5py.is_hdf5(file):
            _check_length(file)
            probe(file)
        with open_checked(file) as raw:
            _check_schema(file, raw)
            check_own(file, raw)
        dataset = _open(file, sealed, cache)
    except UserError:
        raise
    except DamagedError as error:
        raise UserError(damaged(file, str(error))) from None
    except Exception as error:  # HDF5 and netCDF say what they cannot read in many ways
        if BEING_WRITTEN in str(error):
            raise UserError(f"{file}: its run still writes it; wait for the end of the run, or copy it") from None
        raise UserError(f"{file}: not a readable trace, or cut off ({one_line(error)})") from None
    try:
        check_contents(file, dataset)
    except BaseException:
        dataset.close()
        raise
    return dataset


def _open(file: Path, sealed: bool, cache: bool) -> xarray.Dataset:
    """As a trace is; where that cannot be, as any netCDF file, checked whole where it can be checked."""
    import xarray

    from airfl.trace.backend import TraceBackend, UnusualError

    try:
        return xarray.open_dataset(file, engine=TraceBackend, cache=cache)
    except UnusualError:
        if sealed:
            check_whole(file)
        return xarray.open_dataset(file, engine="h5netcdf", cache=cache, phony_dims="sort")


def _check_length(file: Path) -> None:
    """UserError for a file that is shorter than its first bytes say: then it need not be looked at further."""
    with file.open("rb") as raw:
        head = raw.read(48)
    if len(head) == 48 and head[8] == 0:  # the version that a trace is written in
        length, size = int.from_bytes(head[40:48], "little"), file.stat().st_size
        if length > size:
            raise UserError(f"{file}: cut off: {size:,} of {length:,} bytes are there; take a copy that is whole")


def _check_schema(file: Path, raw: h5py.File) -> None:
    found = raw.attrs.get("schema")
    if isinstance(found, str) and found == SCHEMA:
        return
    family = SCHEMA.partition("/")[0]
    if isinstance(found, str) and found.startswith(f"{family}/"):
        writer = raw.attrs.get("airfl_version", "a later one")
        raise UserError(
            f"{file}: a trace of schema {found}, and this airfl reads {SCHEMA}; open it with the airfl that wrote it "
            f"({writer})"
        )
    what = "without the attribute schema" if found is None else f"of schema {str(found)[:60]!r}"
    raise UserError(f"{file}: not a trace of schema {SCHEMA}, but an HDF5 file {what}")
