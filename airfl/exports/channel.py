"""Exports the channel: channel.h5 with the gains of every device in every round, which another run replays exactly.

A trace holds only the gains of participating devices, in single precision. So all gains are generated again from its
settings; random numbers are addressed by round and device, so they are the same as in the run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from airfl.config import Settings
from airfl.config.load import validate
from airfl.config.part_keys import name_of
from airfl.errors import UserError
from airfl.exports.format import Format, attributes_of
from airfl.runtime.streams import Streams
from airfl.storage.trace.writer import NO_VARIABLE
from airfl.uplinks.radio import Radio, build_radio
from channels.fading.replay import MEAN_POWER
from channels.frame import Frame

if TYPE_CHECKING:
    import xarray

FILE = "channel.h5"
GAINS = "gains"
NO_CHANNEL = (("power", "policy"), ("antennas", "combining"))
"""Parts that do not affect the channel. They may be user-defined, and cannot be restored from a trace."""


def check(trace: xarray.Dataset) -> None:
    """Raise UserError unless the channel is one gain per round, device and antenna."""
    source, channel = trace.encoding["source"], _settings(trace).channel
    if channel.fading_model.selective:
        raise UserError(
            f"{source}: channel.fading = {name_of(channel.fading)!r} is frequency selective, but a replay has one gain "
            "per device; export runs with flat fading"
        )
    radio, frame = _radio(trace)
    if radio.response_shape(frame)[0] > 1:
        raise UserError(
            f"{source}: its gains change within a round, but a replay has one gain per round; export runs with "
            'channel.coherence = "round" and no csi.frequency_offset_hz'
        )


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write gains, complex128 [round, device, antenna], and mean_power, E|h|^2, [device].

    Estimation errors, ageing and offsets are not included; a replay applies those of its own settings.
    """
    radio, frame = _radio(trace)
    settings = _settings(trace)
    run, antennas = settings.run, settings.antennas.count
    everyone = np.arange(run.devices)
    sizes = {"round": run.rounds, "device": run.devices, "antenna": antennas}
    with h5py.File(folder / FILE, "x") as file:
        for number, (name, size) in enumerate(sizes.items()):
            scale = file.create_dataset(name, shape=(size,), dtype=">f4")
            scale.make_scale(NO_VARIABLE % size)
            scale.attrs["_Netcdf4Dimid"] = np.int32(number)
        gains = file.create_dataset(GAINS, tuple(sizes.values()), "c16", chunks=(1, run.devices, antennas))
        power = file.create_dataset(MEAN_POWER, data=radio.mean_power)
        for dataset, dimensions in ((gains, list(sizes)), (power, ["device"])):
            for axis, name in enumerate(dimensions):
                dataset.dims[axis].attach_scale(file[name])
        for index in range(run.rounds):
            gains[index] = radio.channel(index, everyone, frame).response[:, :, 0, 0]
        _describe(file, trace, settings, placed=radio.drop is not None)


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
    }
    for name, attributes in descriptions.items():
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
