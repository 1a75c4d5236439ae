"""Exports the channel: channel.h5 with the channel of every device in every round, which another run replays exactly.

A trace holds only the gains of participating devices, in single precision. So all gains are generated again from its
settings; random numbers are addressed by round and device, so they are the same as in the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.config.load import validate
from airfl.config.part_keys import name_of
from airfl.errors import UserError
from airfl.exports.format import Format, attributes_of
from airfl.exports.recorded_files import check_recorded
from airfl.runtime.streams import Streams
from airfl.storage.trace.writer import NO_VARIABLE
from airfl.uplinks.radio import Radio, build_radio
from channels.frame import Frame
from channels.recorded.layout import BLOCK_TIMES, FREQUENCIES, LEAKED_POWER, MEAN_POWER

if TYPE_CHECKING:
    import xarray

FILE = "channel.h5"
GAINS = "gains"
PART_VALUES = 1 << 22
"""Coefficients that are drawn together, about."""
NO_CHANNEL = (("power", "policy"), ("antennas", "combining"))
"""Parts that do not affect the channel. They may be user-defined, and cannot be restored from a trace."""


def check(trace: xarray.Dataset) -> None:
    """Raise UserError unless the channel can be drawn again, and has one mean power for each device."""
    check_recorded(trace, _settings(trace))
    if _radio(trace)[0].moving is not None:
        raise UserError(
            "the channel of devices that move has no mean power over the run, which the format needs; run with "
            'topology.motion = "none"'
        )
    model = _settings(trace).blockage.model
    if model != "none":
        raise UserError(
            "the channel of devices whose paths are blocked has no mean power over the run, which the format needs; "
            f'run with blockage.model = "none" (given: {model!r})'
        )


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write gains and mean_power, E|h|^2, [device].

    Gains of a flat channel that is constant over a round are complex128 [round, device, antenna]. Those of any other
    are complex [round, device, antenna, block, subcarrier], in the precision in which they are drawn, with the starts
    of the blocks, the frequencies of the subcarriers and, if paths arrive after the prefix, the power that they leak.
    Estimation errors, ageing and offsets are not included; a replay applies those of its own settings.
    """
    radio, frame = _radio(trace)
    settings = _settings(trace)
    run, antennas = settings.run, settings.antennas.count
    blocks, subcarriers = radio.response_shape(frame)
    plain = not radio.selective and blocks == 1
    sizes = {"round": run.rounds, "device": run.devices, "antenna": antennas}
    if not plain:
        sizes |= {"block": blocks, "subcarrier": subcarriers}
    first = radio.channel(0, np.arange(1), frame)
    with h5py.File(folder / FILE, "x") as file:
        for number, (name, size) in enumerate(sizes.items()):
            scale = file.create_dataset(name, shape=(size,), dtype=">f4")
            scale.make_scale(NO_VARIABLE % size)
            scale.attrs["_Netcdf4Dimid"] = np.int32(number)
        kind = "c16" if plain else first.response.dtype
        each = run.devices if plain else 1
        gains = file.create_dataset(GAINS, tuple(sizes.values()), kind, chunks=(1, each, *list(sizes.values())[2:]))
        beside: dict[str, tuple[NDArray[Any], str]] = {MEAN_POWER: (radio.mean_power, "device")}
        if not plain:
            times_s = frame.block_times_s if blocks > 1 else np.zeros(1)
            frequencies_hz = frame.frequencies_hz if subcarriers > 1 else np.zeros(1)
            beside |= {BLOCK_TIMES: (times_s, "block"), FREQUENCIES: (frequencies_hz, "subcarrier")}
        for name, (values, dimension) in beside.items():
            file.create_dataset(name, data=values).dims[0].attach_scale(file[dimension])
        for axis, name in enumerate(sizes):
            gains.dims[axis].attach_scale(file[name])
        for index in range(run.rounds):
            for part in _parts(run.devices, antennas * blocks * subcarriers):
                state = radio.channel(index, part, frame)
                ids = slice(int(part[0]), int(part[-1]) + 1)
                gains[index, ids] = state.response[:, :, 0, 0] if plain else state.response
                if state.leaked_power is not None:
                    _leaked_power(file, sizes)[index, ids] = state.leaked_power
        _describe(file, trace, settings, placed=radio.drop is not None)


def _parts(devices: int, values: int) -> Iterator[NDArray[np.int64]]:
    """Yield the ids of some devices at a time, so that their channels take little memory."""
    step = max(PART_VALUES // values, 1)
    for begin in range(0, devices, step):
        yield np.arange(begin, min(begin + step, devices))


def _leaked_power(file: h5py.File, sizes: dict[str, int]) -> h5py.Dataset:
    """Return the variable of the leaked power, which is added with the first device that has any; 0 elsewhere."""
    if LEAKED_POWER not in file:
        dimensions = ("round", "device", "block", "subcarrier")
        shape = tuple(sizes[name] for name in dimensions)
        leaked = file.create_dataset(LEAKED_POWER, shape, "f4", chunks=(1, 1, *shape[2:]), fillvalue=0.0)
        for axis, name in enumerate(dimensions):
            leaked.dims[axis].attach_scale(file[name])
    return file[LEAKED_POWER]


def _settings(trace: xarray.Dataset) -> Settings:
    """Return the settings of the channel, without parts such as the scheme, which do not affect it."""
    source = str(trace.encoding["source"])
    tables = {name: table for name, table in json.loads(trace.attrs["config"]).items() if name != "scheme"}
    for section, key in NO_CHANNEL:
        table = tables.get(section)
        if isinstance(table, dict) and isinstance(table.get(key), dict):
            tables[section] = {name: value for name, value in table.items() if name != key}
    channel = tables.get("channel")
    own = channel.get("fading") if isinstance(channel, dict) else None
    if isinstance(own, dict):
        raise UserError(
            f"{source}: channel.fading is user-defined ({own.get('name')}), and the trace contains only its name and "
            "parameters; save its gains where it is defined, or export a run with built-in fading"
        )
    return validate(tables, source)


def _radio(trace: xarray.Dataset) -> tuple[Radio, Frame]:
    """Return the radio of the run, and the frame that its messages occupy."""
    if _settings(trace).surface.elements:
        raise UserError(
            f"{trace.encoding['source']}: has channels over a surface (surface.elements), which depend on the devices "
            "that are selected; export a run without a surface"
        )
    if not trace.sizes["round"]:
        raise UserError(
            f"{trace.encoding['source']}: has no finished round, which gives the length of a round; export another run"
        )
    settings = _settings(trace)
    run = settings.run
    radio = build_radio(settings.radio, Streams(run.seed), devices=run.devices, rounds=run.rounds)
    entries = int(trace["message_length"][0])
    if entries < 1:
        raise UserError(f"{trace.encoding['source']}: damaged: message_length is {entries}; run it again")
    if trace.attrs["link"] == "noncoherent":
        entries = int(trace["resource_elements"][0]) - int(trace["pilot_elements"][0])
    elif trace.attrs["link"] != "analog":
        entries = max(entries, 2 * radio.grid.used_subcarriers)  # as in `build_scenario`
    return radio, radio.frame(entries)


def _describe(file: h5py.File, trace: xarray.Dataset, settings: Settings, *, placed: bool) -> None:
    """Write attributes on the meaning and origin of the data. placed: whether devices have positions."""
    of_run, loss = attributes_of(trace), "path loss and shadowing in it" if placed else "no path loss"
    descriptions: dict[str, dict[str, Any]] = {
        GAINS: {
            "units": "1",
            "long_name": f"true channel gain h: received over sent amplitude, {loss}; before ageing and offsets",
            "dimensions": "round, device, antenna; counted from 0",
        },
        MEAN_POWER: {
            "units": "1",
            "long_name": "E|h|^2 over the fading, which estimators and policies know",
            "dimensions": "device",
        },
        BLOCK_TIMES: {"units": "s", "long_name": "start of a block from the start of its round", "dimensions": "block"},
        FREQUENCIES: {"units": "Hz", "long_name": "frequency from the carrier", "dimensions": "subcarrier"},
        LEAKED_POWER: {
            "units": "1",
            "long_name": "power that paths beyond the cyclic prefix leak to other elements, per unit of power on one",
            "dimensions": "round, device, block, subcarrier",
        },
    }
    if BLOCK_TIMES in file:
        descriptions[GAINS]["dimensions"] = "round, device, antenna, block, subcarrier; counted from 0"
    for name, attributes in descriptions.items():
        if name not in file:
            continue
        file[name].attrs.update(attributes)
    file.attrs.update(
        {
            "created_from": f"{Path(trace.encoding['source']).name} of {of_run['created_utc']}",
            "airfl_version": of_run["airfl_version"],
            "seed": settings.run.seed,
            "fading": name_of(settings.channel.fading),
            "channel_units": settings.channel.units,
            "topology": settings.topology.kind,
            "config": of_run["config"],
            "replay": "channel.fading=replay channel.replay_file=channel.h5 topology.kind=none, and the same run.seed, "
            "run.devices, antennas.count and channel.units",
        }
    )


FORMAT = Format(files=(FILE,), write=write, check=check)
