"""Channels from ray tracers and measurements, read from the files of other tools and written as recorded channels.

Each kind of source is one module with a function `read(source, choice, **options) -> Imported`; `registry.py` lists
them. `writing.py` writes what they return as the HDF5 file that `channels.recorded` reads, and reads it back before it
counts as written.
"""

from channels.imported.channel import Choice, Imported, scaled
from channels.imported.kinds import Kind
from channels.imported.registry import KINDS
from channels.imported.writing import write_channel
from channels.recorded.source import RecordingError

__all__ = ["KINDS", "Choice", "Imported", "Kind", "RecordingError", "scaled", "write_channel"]
