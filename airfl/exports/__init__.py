"""Exports traces to formats of other tools: one run, or all runs in a folder. All are checked before any is written.

Adding a format takes one file and one line in the table.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from airfl.errors import MachineError, UserError, unknown_name
from airfl.storage.input_files import as_path
from airfl.storage.output_files import (
    BEGUN,
    SHARDS_NAME,
    TRACE_NAME,
    check_can_be_folder,
    is_only_begun,
    no_empty_folder,
    put_new,
)

if TYPE_CHECKING:
    from airfl.exports.format import Format

FORMATS = {
    "mat": "airfl.exports.mat",
    "sigmf": "airfl.exports.sigmf",
    "tfrecord": "airfl.exports.tfrecord",
    "csv": "airfl.exports.csv",
    "npz": "airfl.exports.npz",
    "channel": "airfl.exports.channel",
    "bundle": "airfl.exports.bundle",
}
"""The module of each format, which defines it as FORMAT."""


def check_format(to: str) -> None:
    """Raise UserError for an unknown format."""
    if to not in FORMATS:
        raise UserError(unknown_name("--to", str(to), FORMATS))


def find_traces(path: str | Path) -> list[tuple[Path, Path]]:
    """Return (file, folder relative to `path`) for every trace in `path`.

    `path` is a trace, a run folder, or any folder of runs; links to folders are not followed. Raises UserError if there
    is no trace.
    """
    path = as_path(path)
    if path.is_file():
        return [(path, Path())]
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder; check the path")
    if (path / TRACE_NAME).is_file():
        return [(path / TRACE_NAME, Path())]
    found = sorted(file for file in path.rglob(TRACE_NAME) if SHARDS_NAME not in file.parts and file.is_file())
    if not found:
        if is_only_begun(path):
            raise UserError(f"{path}: {BEGUN}")
        raise UserError(f"{path}: no run ({TRACE_NAME}) in this folder or below; check the path")
    return [(file, file.parent.relative_to(path)) for file in found]


def export(path: str | Path, to: str, out: str | Path, say: Callable[[str], None] = lambda message: None) -> list[Path]:
    """Export runs to another format.

    Args:
        path: A trace, a run folder, or a folder that is searched for runs.
        to: The format, a key of FORMATS.
        out: The output folder. Each run goes to the subfolder that it has in `path`; a bundle holds all of them.
        say: Called with a message on what is left out and on each run that is not complete.

    Returns:
        The files that were written.

    Raises:
        UserError: If a trace cannot be exported or a file already exists. Then nothing is written.
    """
    from airfl.exports.format import state_of, under_true_names
    from airfl.storage.trace import open_trace

    check_format(to)
    out = as_path(out)
    form: Format = import_module(FORMATS[to]).FORMAT
    found = find_traces(path)
    traces = [(file, out if form.together else out / folder) for file, folder in found]
    messages = []
    for file, folder in traces:
        _check_target(folder, form)
        with open_trace(file, cache=False) as trace, _of_a_trace(file, to):
            form.check(trace)
            status, left_out = str(trace.attrs["status"]), form.left_out(trace)
            if status != "complete":
                rounds = trace.sizes["round"]
                messages.append(f"{file}: the run is {state_of(status)}; its {rounds} finished rounds are exported")
            if left_out:
                messages.append(f"{file}: {left_out}")
    written = []
    if form.together is not None:
        together = form.together
        with _of_a_trace(as_path(path), to):
            written += _write(form, lambda temporary: together(as_path(path), found, temporary), out)
    elif form.write is not None:
        for file, folder in traces:
            with open_trace(file, cache=False) as trace, _of_a_trace(file, to):
                written += _write(form, functools.partial(form.write, under_true_names(trace)), folder)
    for message in messages:
        say(message)
    return written


@contextmanager
def _of_a_trace(file: Path, to: str) -> Iterator[None]:
    """Turn errors of a format in the block into UserErrors: the file is at fault.

    Opening a trace checks only what summaries need, so other contents may be missing or wrong.
    """
    try:
        yield
    except UserError:
        raise
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise UserError(
            f"{file}: cannot be exported to {to}, as its contents are not those of a trace ({what}); run it again"
        ) from error


def _check_target(folder: Path, form: Format) -> None:
    check_can_be_folder(folder)
    for name in form.files:
        if os.path.lexists(folder / name):
            raise UserError(f"{folder / name}: already exists; choose another --out, or delete it")


def _write(form: Format, write: Callable[[Path], None], folder: Path) -> list[Path]:
    """Write all files of a folder, or none: they are written to a temporary folder and moved when complete."""
    with no_empty_folder(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            temporary = Path(tempfile.mkdtemp(prefix=".export-", dir=folder))
        except OSError as error:
            raise UserError(f"{folder}: cannot be written to ({error.strerror})") from None
        try:
            write(temporary)
            _check_target(folder, form)
            for name in form.files:
                put_new(temporary / name, folder / name)
        except OSError as error:
            reason = error.strerror or str(error)
            raise MachineError(f"{folder}: cannot be written to ({reason}); fix this, then export again") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return [folder / name for name in form.files]
