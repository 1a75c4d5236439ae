"""Opens a trace, or explains in one line why it cannot be opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.storage.input_files import as_path
from airfl.storage.output_files import TRACE_NAME
from airfl.storage.trace.integrity import BEING_WRITTEN, DamagedTraceError

if TYPE_CHECKING:
    import xarray


def open_trace(path: str | Path, *, cache: bool = True) -> xarray.Dataset:
    """Open a trace as a lazy xarray dataset.

    Values are read when they are accessed. Close the dataset, or use it in a `with` block. The trace of a finished run
    is verified as far as it is read (`airfl.storage.trace.integrity`), and a file that another process has written is
    read in a separate process (`airfl.storage.trace.isolated`).

    Args:
        path: The file, or the run folder that contains trace.h5.
        cache: Whether values that have been read stay in memory.

    Returns:
        The dataset. Accessing values that are damaged raises UserError.

    Raises:
        UserError: If there is no trace, its run is still writing it, it is truncated or damaged, or it is not of this
            schema. The message names the file and the fault.
    """
    import xarray

    from airfl.storage.trace.backend import TraceBackend, damaged, one_line

    file = as_path(path)
    file = file / TRACE_NAME if file.is_dir() else file
    if not file.exists():
        raise UserError(f"{file}: no such trace; check the path")
    if not file.is_file():  # opening a pipe would block forever
        raise UserError(f"{file}: not a readable trace: not a regular file")
    try:
        _check_length(file)
        return xarray.open_dataset(file, engine=TraceBackend, cache=cache, shown=str(file))
    except UserError:
        raise
    except DamagedTraceError as error:
        raise UserError(damaged(file, str(error))) from None
    except Exception as error:  # HDF5 and netCDF raise many kinds of error for unreadable files
        if BEING_WRITTEN in str(error):
            raise UserError(
                f"{file}: its run is still writing it; wait until the run has ended, or copy the file"
            ) from None
        raise UserError(f"{file}: not a readable trace, or truncated ({one_line(error)})") from None


def _check_length(file: Path) -> None:
    """Raise UserError for a file that is shorter than its HDF5 header says."""
    with file.open("rb") as raw:
        head = raw.read(48)
    if len(head) == 48 and head.startswith(b"\x89HDF\r\n\x1a\n\0"):  # version 0 of the superblock, which traces have
        length, size = int.from_bytes(head[40:48], "little"), file.stat().st_size
        if length > size:
            raise UserError(f"{file}: truncated: {size:,} of {length:,} bytes are left; use an intact copy")
