"""Scalars of every round for TensorBoard, written while the run goes on.

The event files are written with TensorBoard's own record writer: torch's SummaryWriter imports TensorFlow wherever that
is installed, which takes seconds and threads that a run wants for itself.
"""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airfl.errors import UserError
from airfl.output import check_can_be_folder, name_of_label
from airfl.own import both_ends, check_no_link, is_file, not_own
from airfl.trace.schema import is_metric

if TYPE_CHECKING:
    from airfl.compare import LabelledProgress
    from airfl.record import Record
    from airfl.run_files import Progress

FOLDER = "tensorboard"
EVENTS = "events.out.tfevents.{}.airfl"
FIRST_EVENT = "brain.Event:2"
"""What the first record of an event file says, and what one of this name is known by."""
HEAD_BYTES = 64
SECONDS_BETWEEN_FLUSHES = 1.0

SCALARS = {
    "learning": (
        "test_accuracy",
        "test_loss",
        "train_loss",
        "validation_accuracy",
        "validation_loss",
        "aggregation_error",
    ),
    "radio": (
        "alignment_coefficient",
        "noise_std",
        "receive_snr_db",
        "heard",
        "power_bound_binding",
        "privacy_bound_binding",
    ),
    "cost": ("energy_j", "resource_elements", "uplink_bits", "latency_s"),
    "privacy": (
        "noise_multiplier",
        "epsilon_paper",
        "epsilon_round",
        "epsilon",
        "epsilon_as_poisson",
        "epsilon_at_least",
    ),
}
"""Variables of the trace that are shown, by the section they are shown in."""
SUMMED = "cost"
"""The section whose scalars are sums up to the round."""


def check_live(out: Path, resume: bool = False) -> None:
    """UserError if the scalars cannot go to out/tensorboard: the package is missing, or something is there already.
    resume: what is there is of the same runs."""
    if importlib.util.find_spec("tensorboard") is None:
        raise UserError('--tensorboard: the package tensorboard is not installed; pip install "airfl[tensorboard]"')
    folder = out / FOLDER
    check_no_link(folder)
    check_can_be_folder(folder)
    for path in folder.rglob("*") if resume and folder.is_dir() else ():
        check_no_link(path)
        if fnmatch(path.name, EVENTS.format("*")) and not _is_own(path):
            raise not_own(path)
    if not resume and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: is there already, and two runs would be drawn as one; choose another --out")


@contextmanager
def live(out: str | Path | None, also: Progress | None = None) -> Iterator[Progress]:
    """A progress function that writes each round's scalars to out/tensorboard, then calls `also`.

    Only finite values are written, at the number of rounds done. Nothing is written where `out` is None. The folder is
    made with the first round, so that a run that cannot start leaves none.
    """
    with live_rows(out, None if also is None else lambda _, *round_: also(*round_)) as report:
        yield lambda done, rounds, record: report("", done, rounds, record)


@contextmanager
def live_rows(out: str | Path | None, also: LabelledProgress | None = None) -> Iterator[LabelledProgress]:
    """The same of several runs, told apart by label: each has a folder of its name in out/tensorboard."""
    with ExitStack() as files:
        boards: dict[str, _Board] = {}

        def report(label: str, done: int, rounds: int, record: Record) -> None:
            if out is not None:
                if label not in boards:
                    boards[label] = _Board(Path(out) / FOLDER / name_of_label(label))
                    files.callback(boards[label].close)
                boards[label].write(done, record)
            if also is not None:
                also(label, done, rounds, record)

        yield report


def _is_own(path: Path) -> bool:
    """Whether it is an event file, as airfl begins one; it may be empty, where its process was killed."""
    if not is_file(path):
        return False
    found = both_ends(path)
    return not found or FIRST_EVENT.encode() in found[:HEAD_BYTES]


class _Board:
    """An open event file."""

    def __init__(self, folder: Path) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob(EVENTS.format("*")):
            if _is_own(old):
                old.unlink()  # a resumed run tells of all its rounds again
        now = time.time()
        self._file = open(folder / EVENTS.format(f"{now:.0f}"), "xb")  # noqa: SIM115  closed by `close`
        self._records, self._event = RecordWriter(self._file), Event
        self._records.write(Event(wall_time=now, file_version=FIRST_EVENT).SerializeToString())
        self._sums: dict[str, float] = {}
        self._flushed = -math.inf

    def write(self, done: int, record: Record) -> None:
        """The scalars after that many rounds."""
        event: Any = self._event(wall_time=time.time(), step=done)
        for section, names in SCALARS.items():
            for name in names:
                value = float(record.get(name, math.nan))
                if section == SUMMED:
                    value = self._sums[name] = self._sums.get(name, 0.0) + value
                if math.isfinite(value):
                    event.summary.value.add(tag=f"{section}/{name}", simple_value=value)
        for name in filter(is_metric, record):
            if math.isfinite(float(record[name])):
                event.summary.value.add(tag=f"learning/{name}", simple_value=float(record[name]))
        self._records.write(event.SerializeToString())
        if time.monotonic() - self._flushed > SECONDS_BETWEEN_FLUSHES:
            self._records.flush()
            self._flushed = time.monotonic()

    def close(self) -> None:
        """Whatever was written is on disk."""
        self._file.close()
