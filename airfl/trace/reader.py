"""Opens a trace, or says in one line why it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.output import TRACE_NAME
from airfl.trace.schema import SCHEMA

if TYPE_CHECKING:
    import xarray


def open_trace(path: str | Path) -> xarray.Dataset:
    """The trace as a lazy xarray dataset; `path` is the file or the run folder that holds it as trace.h5.

    Raises UserError, naming file and fault, where there is none, it is cut off, or it is not a trace of this schema.
    """
    import h5py
    import xarray

    file = Path(path)
    file = file / TRACE_NAME if file.is_dir() else file
    if not file.exists():
        raise UserError(f"{file}: no such trace")
    try:
        with h5py.File(file) as raw:
            found = raw.attrs.get("schema")
        if found != SCHEMA:
            raise UserError(f"{file}: not a trace of schema {SCHEMA} (schema: {found!r})")
        return xarray.open_dataset(file, engine="h5netcdf")
    except UserError:
        raise
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{file}: not a readable trace, or cut off ({reason})") from None
