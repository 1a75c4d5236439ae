"""Checks that a saved state and saved records belong to the run that resumes from them, which no checksum can show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.core.checkpoint.folder import STATE_PREFIX, Saved
from airfl.core.checkpoint.records import RECORDS_NAME
from airfl.core.checkpoint.serialisation import DamagedCheckpointError
from airfl.core.checkpoint.state import PARAMETERS, ROW, SERVER
from airfl.core.checkpoint.writer import stored_records
from airfl.core.run_trace import signal_dimensions, slots_of
from airfl.core.state import World
from airfl.errors import UserError
from airfl.storage.output_files import CHECKPOINT_NAME
from airfl.storage.trace.contents import NEEDED
from airfl.storage.trace.schema import METRIC, PER_MOVING_DEVICE, PER_ROUND, PER_SLOT, metric_variable, signal_variables

Array = NDArray[Any]
OF_A_ROUND = {
    variable.name: variable for variable in (*PER_ROUND, *PER_SLOT, *PER_MOVING_DEVICE, *signal_variables("iq"))
}
REPLAYED = ("device_id", "noise_multiplier")
"""Variables from which the privacy ledger is restored."""
KINDS = {"i": "biu", "f": "biuf", "c": "biufc"}
"""For each kind of variable (numpy's `dtype.kind`), the kinds of values that it can hold."""


def check_fits(world: World, saved: Saved, folder: Path) -> None:
    """Raise UserError, naming the file, for a state or records that this run cannot have saved."""
    checkpoint = folder / CHECKPOINT_NAME
    name = f"{STATE_PREFIX}{saved.rounds:08d}"
    try:
        if saved.arrays is not None:
            _check_state(world, saved.rounds, saved.arrays)
        name = RECORDS_NAME
        for record in stored_records(folder, saved):
            _check_record(world, record)
    except DamagedCheckpointError as error:
        raise UserError(f"{checkpoint / name}: {error}; start again with another --out") from None


def _check_state(world: World, rounds: int, arrays: Mapping[str, Array]) -> None:
    run, memory = world.scenario.run, world.scenario.memory
    if rounds > run.rounds:
        raise DamagedCheckpointError(f"is the state after {rounds:,} rounds, but the run has {run.rounds:,}")
    initial = world.model.initial()
    vector = (np.dtype(str(initial.dtype).removeprefix("torch.")), (len(initial),))
    required: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {PARAMETERS: vector}
    for name, stored in memory.arrays():
        required[f"memory:{name}"] = (stored.dtype, stored.shape)
    missing = [name for name in required if name not in arrays]
    if missing:
        raise DamagedCheckpointError(f"is not a state of this run: {missing[0]} is missing")
    holders: dict[str, set[int]] = {}
    for name, array in arrays.items():
        if name.startswith(SERVER):
            expected: tuple[Any, ...] | None = vector
        elif name.startswith(ROW):
            expected = _of_a_row(world, name, vector[0], holders)
        else:
            expected = required.get(name)
        if expected is None or (array.dtype, array.shape) != expected:
            raise DamagedCheckpointError(
                f"is not a state of this run: {name[:60]!r} is {array.dtype} of shape {array.shape}"
            )
        if array.dtype.kind != "f":
            raise DamagedCheckpointError(f"is not a state of this run: {name[:60]!r} is not an array of real numbers")
    together = [holders.get(one.name, set()) for one in world.scenario.recipe.local.device_state(len(initial), 1)]
    if any(one != together[0] for one in together):
        raise DamagedCheckpointError("is not a state of this run: some devices have only a part of their local state")


def _of_a_row(
    world: World, name: str, dtype: np.dtype[Any], holders: dict[str, set[int]]
) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Return the expected type and shape of a device's local state `name`, and add the device to its holders.

    Returns None if there is no such device, or devices have no such state.
    """
    state, _, number = name.removeprefix(ROW).rpartition(":")
    sizes = world.task.partition.sizes
    if not (number.isascii() and number.isdecimal() and len(number) < 10 and int(number) < len(sizes)):
        return None
    device = int(number)
    holders.setdefault(state, set()).add(device)
    scenario = world.scenario
    states = (*scenario.recipe.local.device_state(scenario.dimension, int(sizes[device])), *scenario.bound.device_state)
    return next(((dtype, one.shape) for one in states if one.name == state), None)


def _check_record(world: World, record: Mapping[str, Array]) -> None:
    missing = [name for name in (*NEEDED, *REPLAYED) if name not in record]
    if missing:
        raise DamagedCheckpointError(f"contains a record without {missing[0]}")
    scenario = world.scenario
    sizes = {"slot": slots_of(scenario), **(signal_dimensions(scenario) if scenario.link == "analog" else {})}
    own = {f"{METRIC}{name}": metric_variable(name) for name in world.task.metrics}
    for name, value in record.items():
        variable = OF_A_ROUND.get(name) or own.get(name)
        if variable is None:
            raise DamagedCheckpointError(f"contains a record with {name[:60]!r}, which is not a variable of a trace")
        dtype = np.dtype(variable.dtype)
        most = [sizes.get(one, 0) for one in variable.dimensions[1:]]
        fits = value.ndim == len(most) and all(have <= size for have, size in zip(value.shape, most, strict=True))
        if not fits or value.dtype.kind not in KINDS[dtype.kind] or not _holds(dtype, value):
            raise DamagedCheckpointError(
                f"contains a record whose {name} is {value.dtype} of shape {value.shape}, or too large"
            )
    devices, multiplier = record["device_id"], float(record["noise_multiplier"])
    if devices.size and not (devices.min() >= 0 and devices.max() < scenario.run.devices):
        raise DamagedCheckpointError("contains a record of a device that does not exist")
    if len(set(devices.tolist())) < devices.size or not multiplier >= 0:
        raise DamagedCheckpointError("contains a record with a device twice, or with negative noise")


def _holds(dtype: np.dtype[Any], value: Array) -> bool:
    """Whether a type can hold these values: finite values must stay finite, non-finite ones are allowed."""
    if not value.size:
        return True
    if dtype.kind == "i":
        limits = np.iinfo(dtype)
        return int(value.min()) >= limits.min and int(value.max()) <= limits.max
    parts = np.stack([value.real, value.imag])
    return bool((np.abs(parts[np.isfinite(parts)]) <= np.finfo(dtype).max).all())
