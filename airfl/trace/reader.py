"""Opens a trace, or says in one line why it cannot."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.input import as_path
from airfl.output import TRACE_NAME
from airfl.trace.integrity import BEING_WRITTEN, DamagedError

if TYPE_CHECKING:
    import xarray


def open_trace(path: str | Path, *, cache: bool = True) -> xarray.Dataset:
    """The trace as a lazy xarray dataset; `path` is the file or the run folder that holds it as trace.h5.

    Values are read when they are asked for, and kept unless `cache` is false; close it, or use it in a `with` block.
    Raises UserError, naming file and fault, where there is none, its run still goes on, it is cut off or damaged, or it
    is not a trace of this schema; so does reading values that are damaged. A trace whose run has ended is checked as
    far as it is read (`airfl.trace.integrity`); what another process has written is read in a process of its own
    (`airfl.trace.isolated`).
    """
    import xarray

    from airfl.trace.backend import TraceBackend, damaged, one_line

    file = as_path(path)
    file = file / TRACE_NAME if file.is_dir() else file
    if not file.exists():
        raise UserError(f"{file}: no such trace")
    if not file.is_file():  # a pipe is waited for without end
        raise UserError(f"{file}: not a readable trace: it is no regular file")
    try:
        _check_length(file)
        return xarray.open_dataset(file, engine=TraceBackend, cache=cache, shown=str(file))
    except UserError:
        raise
    except DamagedError as error:
        raise UserError(damaged(file, str(error))) from None
    except Exception as error:  # HDF5 and netCDF say what they cannot read in many ways
        if BEING_WRITTEN in str(error):
            raise UserError(f"{file}: its run still writes it; wait for the end of the run, or copy it") from None
        raise UserError(f"{file}: not a readable trace, or cut off ({one_line(error)})") from None


def _check_length(file: Path) -> None:
    """UserError for a file that is shorter than its first bytes say: then it need not be looked at further."""
    with file.open("rb") as raw:
        head = raw.read(48)
    if len(head) == 48 and head.startswith(b"\x89HDF\r\n\x1a\n\0"):  # the version that a trace is written in
        length, size = int.from_bytes(head[40:48], "little"), file.stat().st_size
        if length > size:
            raise UserError(f"{file}: cut off: {size:,} of {length:,} bytes are there; take a copy that is whole")
