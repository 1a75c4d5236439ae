"""The record of a run: one HDF5 file, valid netCDF-4, written while the run goes on."""

from airfl.trace.reader import open_trace
from airfl.trace.writer import TraceWriter

__all__ = ["TraceWriter", "open_trace"]
