"""The trace of a run: one HDF5 file, valid netCDF-4, which is written while the run proceeds."""

from airfl.storage.trace.reader import open_trace
from airfl.storage.trace.writer import TraceWriter

__all__ = ["TraceWriter", "open_trace"]
