"""What lets a run outlive its process: the records of its rounds, and its state, in OUT/checkpoint.

OUT/checkpoint/lock              held by the process that writes the run; its marker says that the folder is airfl's
OUT/checkpoint/about             settings, versions, automatic choices: what a resumed run must share
OUT/checkpoint/records           every round's record, appended; what the trace is made from anew
OUT/checkpoint/state-00000042    after 42 rounds: parameters, what selection, devices and server keep; the last two
"""

from airfl.checkpoint.about import About, about_run, check_asked, check_data, check_same, check_task
from airfl.checkpoint.fits import check_fits
from airfl.checkpoint.folder import LOCK_NAME, Saved, check_own, discard, has_begun, has_state, read_saved
from airfl.checkpoint.keeper import Cadence, Keeper, keeping, kept_records
from airfl.checkpoint.pack import DamagedError

__all__ = [
    "LOCK_NAME",
    "About",
    "Cadence",
    "DamagedError",
    "Keeper",
    "Saved",
    "about_run",
    "check_asked",
    "check_data",
    "check_fits",
    "check_own",
    "check_same",
    "check_task",
    "discard",
    "has_begun",
    "has_state",
    "keeping",
    "kept_records",
    "read_saved",
]
