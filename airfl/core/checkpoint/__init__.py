"""Checkpoints, from which a run is resumed: the records of its rounds and its state, in OUT/checkpoint.

OUT/checkpoint/lock              locked by the process that writes the run; its marker shows that airfl made the folder
OUT/checkpoint/about             settings, versions and resolved automatic settings, which a resumed run must share
OUT/checkpoint/records           the record of every round, appended; the trace is rebuilt from them
OUT/checkpoint/state-00000042    the state after 42 rounds: parameters, and state of selection, devices and server; the
                                 last two states are kept
"""

from airfl.core.checkpoint.carried import carried, is_carried, put_carried, rounds_of
from airfl.core.checkpoint.fingerprint import (
    RunFingerprint,
    check_asked,
    check_data,
    check_recorded,
    check_same,
    check_task,
    fingerprint_of_run,
    recorded_files,
)
from airfl.core.checkpoint.fits import check_fits
from airfl.core.checkpoint.folder import (
    ABOUT_NAME,
    LOCK_NAME,
    STATE_PREFIX,
    Saved,
    check_own,
    discard,
    has_begun,
    has_state,
    read_fingerprint,
    read_saved,
)
from airfl.core.checkpoint.records import RECORDS_NAME, read_new_records
from airfl.core.checkpoint.serialisation import DamagedCheckpointError
from airfl.core.checkpoint.writer import Cadence, CheckpointWriter, checkpointing, stored_records

__all__ = [
    "ABOUT_NAME",
    "LOCK_NAME",
    "RECORDS_NAME",
    "STATE_PREFIX",
    "Cadence",
    "CheckpointWriter",
    "DamagedCheckpointError",
    "RunFingerprint",
    "Saved",
    "carried",
    "check_asked",
    "check_data",
    "check_fits",
    "check_own",
    "check_recorded",
    "check_same",
    "check_task",
    "checkpointing",
    "discard",
    "fingerprint_of_run",
    "has_begun",
    "has_state",
    "is_carried",
    "put_carried",
    "read_fingerprint",
    "read_new_records",
    "read_saved",
    "recorded_files",
    "rounds_of",
    "stored_records",
]
