"""Writing an imported channel as the HDF5 file that `channels.recorded` reads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from channels.imported.channel import Imported
from channels.recorded.layout import (
    AZIMUTH,
    BASE_POSITION,
    BLOCK_TIMES,
    CARRIER,
    DELAYS,
    DOPPLER,
    ELEVATION,
    FREQUENCIES,
    LEAKED_POWER,
    PATH_GAINS,
    PHYSICAL,
    POSITIONS,
    REFERENCE,
    layout_of,
)
from channels.recorded.recording import Recording
from channels.recorded.source import RecordingError, open_source
from channels.recorded.surveying import survey

GAINS = "gains"
NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable. %9d"
"""Name of a dimension scale without values, by netCDF's rules, so that xarray opens the file."""

OF_PATHS = ("round", "device", "path")
MEANINGS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    GAINS: ("1", "channel gain h: received over sent amplitude", ("round", "device", "antenna", "block", "subcarrier")),
    PATH_GAINS: ("1", "complex amplitude of a path at the carrier", ("round", "device", "antenna", "path")),
    DELAYS: ("s", "delay of a path", OF_PATHS),
    DOPPLER: ("Hz", "Doppler shift of a path", OF_PATHS),
    AZIMUTH: ("rad", "azimuth of arrival at the base station", OF_PATHS),
    ELEVATION: ("rad", "elevation of arrival above the horizon", OF_PATHS),
    LEAKED_POWER: (
        "1",
        "power that paths beyond the cyclic prefix leak to other elements, per unit of power on one",
        ("round", "device", "block", "subcarrier"),
    ),
    FREQUENCIES: ("Hz", "frequency from the carrier", ("subcarrier",)),
    BLOCK_TIMES: ("s", "start of a block from the start of its round", ("block",)),
    POSITIONS: ("m", "position of a device", ("round", "device", "coordinate")),
    BASE_POSITION: ("m", "position of the base station", ("coordinate",)),
}
"""Unit, meaning and axes of each array."""


def write_channel(imported: Imported, path: Path, attributes: Mapping[str, str] | None = None) -> None:
    """Write a channel to a new or empty HDF5 file, and read all of it back as a run would.

    The caller removes the file if this raises, and gives it its name if it does not.

    Args:
        imported: The channel.
        path: The file; what is there is replaced.
        attributes: Further attributes, such as the source.

    Raises RecordingError if every gain is 0, and, with the place, for gains that are not finite or out of
    range, delays beyond 1 ms, angles beyond a turn, and, in physical units, a path loss of 0 dB or less.
    """
    import h5py

    if not imported.gains.any():
        raise RecordingError("no device has a path in any round: every gain is 0; check the source and what is chosen")
    paths = imported.delays_s is not None
    arrays: dict[str, Any] = {
        PATH_GAINS if paths else GAINS: imported.gains,
        DELAYS: imported.delays_s,
        DOPPLER: imported.doppler_hz,
        AZIMUTH: imported.azimuth_rad,
        ELEVATION: imported.elevation_rad,
        LEAKED_POWER: imported.leaked_power,
        FREQUENCIES: imported.frequencies_hz,
        BLOCK_TIMES: imported.block_times_s,
        POSITIONS: imported.positions_m,
        BASE_POSITION: imported.base_m,
    }
    with h5py.File(path, "w") as file:
        scales: dict[str, Any] = {}
        for name, values in arrays.items():
            if values is None:
                continue
            unit, meaning, axes = MEANINGS[name]
            if name == GAINS and values.ndim == 4:
                axes = ("round", "device", "antenna", "subcarrier")
            array = file.create_dataset(name, data=values)
            for number, (axis, length) in enumerate(zip(axes, values.shape, strict=False)):
                if axis not in scales:
                    scales[axis] = file.create_dataset(axis, shape=(length,), dtype=">f4")
                    scales[axis].make_scale(NO_VARIABLE % length)
                    scales[axis].attrs["_Netcdf4Dimid"] = np.int32(len(scales) - 1)
                array.dims[number].attach_scale(scales[axis])
            array.attrs.update(units=unit, long_name=meaning, dimensions=", ".join(axes[: values.ndim]))
        if imported.carrier_hz is not None:
            file.attrs[CARRIER] = imported.carrier_hz
        file.attrs[PHYSICAL] = imported.physical
        if imported.reference_db is not None:
            file.attrs[REFERENCE] = imported.reference_db
        if imported.notes:
            file.attrs["notes"] = "; ".join(imported.notes)
        file.attrs.update(attributes or {})
    _check(path, physical=imported.physical)


def _check(path: Path, *, physical: bool) -> None:
    """Look at all that was written as a run does before it begins."""
    source = open_source(path)
    try:
        layout = layout_of(source)
        recording = Recording(source, layout, layout.antennas)
        survey(recording, np.arange(layout.rounds), np.arange(layout.devices), physical=physical)
    finally:
        source.close()
