"""Writes a trace: HDF5 with the dimension scales of netCDF-4, to which rounds are appended in blocks."""

from __future__ import annotations

import contextlib
import math
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5a, h5ds, h5s, h5t

from airfl.errors import UserError
from airfl.runtime.interrupt import undisturbed
from airfl.storage.trace.fail_safe_file import FailSafeFile
from airfl.storage.trace.integrity import seal_own
from airfl.storage.trace.schema import ROUND, SCHEMA, Variable, true_name

NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable. %9d"
SECONDS_BETWEEN_FLUSHES = 1.0
ROUNDS_IN_A_CHUNK = (64, 1024)
"""Least and most rounds. HDF5 keeps about 300 bytes of memory per chunk, so long runs use longer chunks."""
VALUES_IN_A_CHUNK = (1 << 12, 1 << 16)
"""Most values in a chunk of more than the least number of rounds; most values in any chunk."""
CACHED_BYTES = 1 << 13
"""Size of the chunk cache per variable. HDF5's default of a megabyte would fill up in a long run without any use."""
LARGE = ("coordinate", "antenna")
"""Last dimensions of the variables that hold signals."""
TEXT = h5py.string_dtype()
IN_FILE, ONE = h5t.py_create(TEXT, logical=True), h5s.create(h5s.SCALAR)
"""Type and shape of a text attribute."""


class TraceWriter:
    """A trace that is being written. Whole rounds are appended, and flushed in blocks at least once a second.

    The default HDF5 file version is used on purpose: files of the latest version cannot be read after the writing
    process was killed.
    """

    def __init__(
        self,
        path: Path,
        attributes: Mapping[str, Any],
        dimensions: Mapping[str, int],
        variables: Sequence[Variable],
        epsilon_attributes: Mapping[str, Any],
        rounds: int = 0,
    ) -> None:
        """Create the file.

        Args:
            path: The file to create.
            attributes: Attributes of the file.
            dimensions: Sizes of the dimensions besides the unlimited `round`.
            variables: The variables to create.
            epsilon_attributes: Attributes of the variables that hold epsilon.
            rounds: Expected number of rounds; it only sets the size of chunks.

        Raises:
            UserError: If the file exists.
        """
        self._path = path
        try:
            self._sink = FailSafeFile(path)
        except FileExistsError:
            raise UserError(f"{path}: the trace already exists; choose another output folder") from None
        self._variables = {variable.name: variable for variable in variables}
        self._expected = rounds
        self._buffer: list[Mapping[str, Any]] = []
        self._rounds = 0
        self._flushed = time.monotonic()
        self._dimensions = {"round": None, **dimensions}
        self._scales: dict[str, h5py.Dataset] = {}
        self._close_file: Callable[[], object] = self._sink.close
        try:
            with self._whole():
                self._file = h5py.File(self._sink, "w", rdcc_nbytes=CACHED_BYTES)
                # Closed even if this writer is never closed: HDF5 must not call the file after Python has ended.
                self._close_file = weakref.finalize(self, _close, self._file, self._sink)
                self._file.attrs.update({"schema": SCHEMA, **attributes, "status": "running"})
                self._create_all(variables, epsilon_attributes)
                self._file.flush()
        except BaseException:
            self.abandon()
            raise
        # Looking up a dataset takes as long as writing a block into it.
        self._growing = {
            name: self._file[name] for name, variable in self._variables.items() if variable.dimensions[0] == "round"
        }

    def _create_all(self, variables: Sequence[Variable], epsilon_attributes: Mapping[str, Any]) -> None:
        for number, (name, size) in enumerate(self._dimensions.items()):
            if name == ROUND.name:
                scale = self._file.create_dataset(
                    name,
                    shape=(0,),
                    maxshape=(None,),
                    dtype=ROUND.dtype,
                    fillvalue=np.dtype(ROUND.dtype).type(ROUND.fill),
                    chunks=_chunks((None,), self._expected),
                )
                scale.make_scale(name)  # a variable named like its dimension is the coordinate of that dimension
                _describe(scale, ROUND)
            else:
                scale = self._file.create_dataset(name, shape=(size,), maxshape=(size,), dtype=">f4")
                scale.make_scale(NO_VARIABLE % size)
            scale.attrs["_Netcdf4Dimid"] = np.int32(number)
            self._scales[name] = scale
        for variable in variables:
            self._create(variable)
            other = true_name(variable.name, variable.units)
            if other != variable.name:
                self._file[other] = self._file[variable.name]  # a second name for the same values
        for name in ("epsilon_paper", "epsilon_round", "epsilon", "epsilon_as_poisson"):
            self._file[name].attrs.update(epsilon_attributes)

    def annotate(self, variable: str, attributes: Mapping[str, Any]) -> None:
        """Add attributes to a variable."""
        with self._whole():
            self._file[variable].attrs.update(attributes)

    def write_population(self, name: str, values: np.ndarray) -> None:
        """Write a variable that does not grow with rounds."""
        with self._whole():
            self._file[name][...] = values

    def append(self, record: Mapping[str, Any]) -> None:
        """Append one finished round. Entries that are not variables of this trace are ignored."""
        self._buffer.append(self.stored_values(record))
        if "tx_symbols" in record or time.monotonic() - self._flushed > SECONDS_BETWEEN_FLUSHES:
            self.flush()

    def amend(self, record: Mapping[str, Any]) -> None:
        """Set values of the round appended last; the last round of a run has more values than others."""
        stored_values = self.stored_values(record)
        if self._buffer:
            self._buffer[-1] = stored_values
            return
        with self._whole():
            for name, value in stored_values.items():
                self._growing[name][_place(self._rounds - 1, np.asarray(value))] = value

    def stored_values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the entries of a record that are variables of this trace."""
        return {name: value for name, value in record.items() if name in self._variables}

    def flush(self) -> None:
        """Write the rounds appended since the last flush."""
        end = self._rounds + len(self._buffer)
        with self._whole():
            if self._buffer:
                rounds = self._file[ROUND.name]
                rounds.resize(end, axis=0)
                rounds[self._rounds : end] = np.arange(self._rounds, end)
                for name, dataset in self._growing.items():
                    self._write_block(self._variables[name], dataset, end)
            self._rounds, self._buffer = end, []
            self._file.flush()
        self._flushed = time.monotonic()

    def close(self, status: str, failure: str | None = None, stopped_early: str | None = None) -> None:
        """Flush, record how the run ended, close the file, and seal it if the run has ended.

        Args:
            status: "running", "complete" or "failed".
            failure: Why the run failed, in one line.
            stopped_early: Why the run was complete before its last round, in one line.
        """
        try:
            self.flush()
            with self._whole():
                self._file.attrs["status"] = status
                for name, why in (("failure", failure), ("stopped_early", stopped_early)):
                    if why is not None:
                        self._file.attrs[name] = why
                self._file.close()
        finally:
            self.abandon()
        if status != "running":
            seal_own(self._path)

    def move_to(self, path: Path) -> None:
        """Move the file to `path`, replacing what is there, and keep writing to it. It is flushed to disk first."""
        self.flush()
        self._sink.sync()
        self._path = self._path.replace(path)

    def abandon(self) -> None:
        """Close the file without writing more. It may be called repeatedly."""
        self._close_file()

    @contextlib.contextmanager
    def _whole(self) -> Iterator[None]:
        """Run a block of HDF5 calls without interruption, then raise OSError if a write has failed."""
        try:
            with undisturbed():
                yield
        finally:
            self._sink.check()

    def _write_block(self, variable: Variable, dataset: h5py.Dataset, end: int) -> None:
        dataset.resize(end, axis=0)
        present = [(row, np.asarray(r[variable.name])) for row, r in enumerate(self._buffer) if variable.name in r]
        if variable.dimensions[-1] in LARGE:
            # Signals are large and present in few rounds: only those are written, the others stay unallocated.
            for row, value in present:
                dataset[_place(self._rounds + row, value)] = value
        elif present:
            block = np.full((len(self._buffer), *dataset.shape[1:]), variable.fill, dtype=variable.dtype)
            for row, value in present:
                block[_place(row, value)] = value
            dataset[self._rounds : end] = block

    def _create(self, variable: Variable) -> None:
        sizes = tuple(self._dimensions[name] for name in variable.dimensions)
        growing = sizes[0] is None
        dataset = self._file.create_dataset(
            variable.name,
            shape=tuple(size or 0 for size in sizes),
            maxshape=sizes,
            dtype=variable.dtype,
            fillvalue=np.dtype(variable.dtype).type(variable.fill),
            chunks=_chunks(sizes, self._expected) if growing else None,
            compression="gzip" if growing and variable.dimensions[-1] in LARGE else None,
            compression_opts=1 if growing and variable.dimensions[-1] in LARGE else None,
        )
        for axis, name in enumerate(variable.dimensions):
            h5ds.attach_scale(dataset.id, self._scales[name].id, axis)
        _describe(dataset, variable)


def _describe(dataset: h5py.Dataset, variable: Variable) -> None:
    """Write units and long_name as h5py's `attrs` writes a new text, in half the time."""
    for name, text in ((b"units", variable.units), (b"long_name", variable.long_name)):
        h5a.create(dataset.id, name, IN_FILE, ONE).write(np.array(text, dtype=TEXT))


def _close(file: h5py.File, file_object: FailSafeFile) -> None:
    with contextlib.suppress(OSError, RuntimeError), undisturbed():
        file.close()
    file_object.close()


def _place(row: int, value: np.ndarray) -> tuple[int | slice, ...]:
    """Return the index of a round's value: its row, from the start of every other dimension."""
    return (row, *(slice(0, size) for size in value.shape))


def _chunks(sizes: tuple[int | None, ...], rounds: int) -> tuple[int, ...]:
    """Return the shape of a chunk: many rounds for scalars and slots, one row of one device for signals."""
    rest = [size or 1 for size in sizes[1:]]
    least, most = ROUNDS_IN_A_CHUNK
    values = math.prod(rest)
    if values * least <= VALUES_IN_A_CHUNK[1]:
        return (max(least, min(most, rounds, VALUES_IN_A_CHUNK[0] // values)), *rest)
    chunk, room = [], VALUES_IN_A_CHUNK[1]
    for size in reversed(rest):
        chunk.append(max(min(size, room), 1))
        room //= chunk[-1]
    return (1, *reversed(chunk))
