"""Recorded channels: files of gains, frequency responses or paths, read a round at a time.

A `Source` is a file with named arrays: one small module per format (hdf5.py, numpy_files.py, mat.py). `layout_of` finds
the arrays that describe a channel, a `Recording` reads rounds of them, `survey` looks at every value once before a run,
`resampling` puts frequencies and times onto a grid, `mapping` selects rounds and devices, and a `Replay` is all of it
for one run.
"""

from channels.recorded.mapping import DeviceChoice, RoundOrder, RoundsAtEnd, device_rows
from channels.recorded.recording import HeldRounds, Recording, Rounds
from channels.recorded.replay import Replay
from channels.recorded.source import ChoiceError, RecordingError, Source, open_source
from channels.recorded.surveying import Survey, survey

__all__ = [
    "ChoiceError",
    "DeviceChoice",
    "HeldRounds",
    "Recording",
    "RecordingError",
    "Replay",
    "RoundOrder",
    "Rounds",
    "RoundsAtEnd",
    "Source",
    "Survey",
    "device_rows",
    "open_source",
    "survey",
]
