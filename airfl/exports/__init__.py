"""Traces in the formats of other tools: of a run, or of every run in a folder, all checked before one is written.

A format is one file and one line in the table.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import UserError, unknown_name
from airfl.input import as_path
from airfl.output import TRACE_NAME, check_can_be_folder, put_new

if TYPE_CHECKING:
    import xarray

    from airfl.exports.format import Format

FORMATS = {
    "mat": "airfl.exports.mat",
    "sigmf": "airfl.exports.sigmf",
    "tfrecord": "airfl.exports.tfrecord",
    "csv": "airfl.exports.csv",
    "npz": "airfl.exports.npz",
    "channel": "airfl.exports.channel",
}
"""Modules of the formats; each holds its own as FORMAT."""


def check_format(to: str) -> None:
    """UserError for a format that is not in the table."""
    if to not in FORMATS:
        raise UserError(unknown_name("--to", str(to), FORMATS))


def find_traces(path: str | Path) -> list[tuple[Path, Path]]:
    """(file, folder relative to `path`) of every trace: `path` is a trace, a run folder, or any folder of runs.

    UserError if there is none. Links to folders are not followed.
    """
    path = as_path(path)
    if path.is_file():
        return [(path, Path())]
    if not path.is_dir():
        raise UserError(f"{path}: no such folder")
    if (path / TRACE_NAME).is_file():
        return [(path / TRACE_NAME, Path())]
    found = sorted(file for file in path.rglob(TRACE_NAME) if file.is_file())
    if not found:
        raise UserError(f"{path}: holds no run ({TRACE_NAME}), and no folder in it does")
    return [(file, file.parent.relative_to(path)) for file in found]


def export(path: str | Path, to: str, out: str | Path, say: Callable[[str], None] = lambda message: None) -> list[Path]:
    """Write the run(s) in `path` to the folder `out` in the format `to`, a name of FORMATS; returns the files.

    A folder that holds no trace itself is searched for some; each run goes to the folder in `out` that it has in
    `path`. say(message) is told what is left out, and of runs that are not complete. Raises UserError for what cannot
    be exported and for files that are there already: then nothing is written.
    """
    from airfl.exports.format import under_true_names
    from airfl.trace import open_trace

    check_format(to)
    out = as_path(out)
    form: Format = import_module(FORMATS[to]).FORMAT
    traces = [(file, out / folder) for file, folder in find_traces(path)]
    said = []
    for file, folder in traces:
        _check_target(folder, form)
        with open_trace(file, cache=False) as trace, _of_a_trace(file, to):
            form.check(trace)
            status, left_out = str(trace.attrs["status"]), form.left_out(trace)
            if status != "complete":
                said.append(
                    f"{file}: the run's status is {status!r}; its {trace.sizes['round']} finished rounds are exported"
                )
            if left_out:
                said.append(f"{file}: {left_out}")
    written = []
    for file, folder in traces:
        with open_trace(file, cache=False) as trace, _of_a_trace(file, to):
            written += _write(form, under_true_names(trace), folder)
    for sentence in said:
        say(sentence)
    return written


@contextmanager
def _of_a_trace(file: Path, to: str) -> Iterator[None]:
    """What a format does not find, or finds to be another thing, is the file's fault: nothing of it is believed, and
    only what tables need is looked at when it is opened."""
    try:
        yield
    except UserError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UserError(
            f"{file}: cannot be exported to {to}, as it lacks what airfl writes ({what}); run it again"
        ) from error


def _check_target(folder: Path, form: Format) -> None:
    check_can_be_folder(folder)
    for name in form.files:
        if os.path.lexists(folder / name):
            raise UserError(f"{folder / name}: is there already; choose another --out, or delete it")


def _write(form: Format, trace: xarray.Dataset, folder: Path) -> list[Path]:
    """All files of one run, or none: they are made in a folder beside and moved when they are whole."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
    except OSError as error:
        raise UserError(f"{folder}: cannot be written to ({error.strerror})") from None
    try:
        form.write(trace, making)
        _check_target(folder, form)
        for name in form.files:
            put_new(making / name, folder / name)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return [folder / name for name in form.files]
