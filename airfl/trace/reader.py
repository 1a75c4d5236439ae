"""Opens a trace, or says in one line why it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.output import TRACE_NAME
from airfl.trace.schema import SCHEMA

if TYPE_CHECKING:
    import h5py
    import xarray

BEING_WRITTEN = "unable to lock file"
"""What HDF5 says of a file that another process is writing."""


def open_trace(path: str | Path, *, cache: bool = True) -> xarray.Dataset:
    """The trace as a lazy xarray dataset; `path` is the file or the run folder that holds it as trace.h5.

    Values are read when they are asked for, and kept unless `cache` is false; close it, or use it in a `with` block.
    Raises UserError, naming file and fault, where there is none, its run still goes on, it is cut off, or it is not a
    trace of this schema.
    """
    import h5py
    import xarray

    from airfl.trace.backend import TraceBackend, UnusualError

    file = Path(path)
    file = file / TRACE_NAME if file.is_dir() else file
    if not file.exists():
        raise UserError(f"{file}: no such trace")
    try:
        with h5py.File(file) as raw:
            _check_schema(file, raw)
        try:
            return xarray.open_dataset(file, engine=TraceBackend, cache=cache)
        except UnusualError:
            return xarray.open_dataset(file, engine="h5netcdf", cache=cache)
    except UserError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if BEING_WRITTEN in reason:
            raise UserError(f"{file}: its run still writes it; wait for the end of the run, or copy it") from None
        raise UserError(f"{file}: not a readable trace, or cut off ({reason})") from None


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
