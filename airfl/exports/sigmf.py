"""Exports to SigMF: recordings of the transmitted and received symbols, annotated with round and device.

No library is used: a recording consists of raw samples and a JSON file (SigMF 1.2, https://sigmf.org). The tests
validate both with the sigmf library.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.exports.format import Format, attributes_of
from airfl.storage.trace.schema import NORMALISED, RECORDED_CARRIER, true_name
from airfl.version import __version__

if TYPE_CHECKING:
    import xarray

VERSION = "1.2.0"
EXTENSION = {"name": "airfl", "version": "1.0.0", "optional": True}
PARTS = ("rx", "tx")
FILES = tuple(f"{part}.sigmf-{kind}" for part in PARTS for kind in ("data", "meta"))

NO_RATE = (
    "A sample is one entry of the OFDM grid, subcarrier first, before the IFFT: not a sample in time, so there is no "
    "sample rate."
)
RX = "Received symbols, one round after another"
TX = (
    "Transmitted symbols, one round after another and in it one device after another, though all devices of a round "
    "send at the same time on the same resource elements"
)

Piece = tuple[NDArray[np.complex64], dict[str, Any]]
"""Samples and their annotation."""


@dataclass(frozen=True)
class _Signals:
    """A trace with signals, the rounds that have signals, and the settings."""

    trace: xarray.Dataset
    rounds: list[int]
    settings: dict[str, Any]

    def of_round(self, name: str, index: int) -> NDArray[np.complex64]:
        """Return the symbols of a round, [..., elements]; if only the real part is observed, the imaginary one is 0."""
        entries = int(self.trace["message_length"][index])
        elements = entries if self.settings["grid"]["packing"] == "real" else -(-entries // 2)
        return np.asarray(self.trace[name][index].values[..., :elements], dtype=np.complex64)


def check(trace: xarray.Dataset) -> None:
    """Raise UserError for a trace without signals."""
    if not _rounds(trace):
        why = "symbols are recorded on analog links alone" if trace.attrs["link"] != "analog" else "no round has any"
        raise UserError(
            f"{trace.encoding['source']}: has no transmitted and received symbols ({why}); run an analog scheme with "
            "trace.signals=true or trace.signals=[rounds]"
        )


def write(trace: xarray.Dataset, folder: Path) -> None:
    """Write the recordings rx and tx, cf32_le, each as a .sigmf-data and a .sigmf-meta file."""
    signals = _Signals(trace, _rounds(trace), json.loads(trace.attrs["config"]))
    for part, pieces, description in (("rx", _received, RX), ("tx", _transmitted, TX)):
        _record(folder / part, signals, pieces, f"{description}. {NO_RATE}")


def _rounds(trace: xarray.Dataset) -> list[int]:
    if "coordinates" not in trace:
        return []
    first = trace["coordinates"].isel(coordinate=0).values  # -1 in rounds without signals
    return [int(index) for index in np.flatnonzero(first >= 0)]


def _received(signals: _Signals) -> Iterator[Piece]:
    for index in signals.rounds:
        at = signals.trace.isel(round=index)
        yield (
            signals.of_round("rx_symbols", index),
            {
                "core:label": f"round {index}",
                "core:comment": f"Superposition of {int(at['heard'])} devices, and noise",
                "airfl:round": index,
                "airfl:heard": int(at["heard"]),
                **_numbers(at, "alignment_coefficient", "receive_snr_db", _energy(at, "energy")),
            },
        )


def _transmitted(signals: _Signals) -> Iterator[Piece]:
    for index in signals.rounds:
        at = signals.trace.isel(round=index)
        symbols = signals.of_round("tx_symbols", index)
        for slot, device in enumerate(at["device_id"].values):
            if device < 0:
                continue
            of_device = at.isel(slot=slot)
            gain = complex(of_device["channel_gain"])
            yield (
                symbols[slot],
                {
                    "core:label": f"round {index}, device {device}",
                    "core:comment": "Sent" if of_device["active"] else "Silent: truncated by the power policy",
                    "airfl:round": index,
                    "airfl:slot": slot,
                    "airfl:device_id": int(device),
                    "airfl:active": int(of_device["active"]),
                    **_numbers(of_device, _energy(at, "transmit_energy"), "transmit_scale", "snr_db"),
                    **({"airfl:channel_gain": [gain.real, gain.imag]} if np.isfinite(gain) else {}),
                },
            )


def _energy(trace: xarray.Dataset, of: str) -> str:
    """Return the name of an energy in the trace, which depends on its units."""
    return next(name for name in (f"{of}_j", true_name(f"{of}_j", NORMALISED)) if name in trace)


def _numbers(at: xarray.Dataset, *names: str) -> dict[str, float]:
    """Return the values that are finite, the only ones that JSON has."""
    values = {f"airfl:{name}": float(at[name]) for name in names}
    return {name: value for name, value in values.items() if np.isfinite(value)}


def _record(path: Path, signals: _Signals, pieces: Callable[[_Signals], Iterator[Piece]], description: str) -> None:
    digest, annotations, start = hashlib.sha512(), [], 0
    with path.with_suffix(".sigmf-data").open("wb") as file:
        for samples, annotation in pieces(signals):
            data = samples.astype("<c8").tobytes()
            file.write(data)
            digest.update(data)
            annotations.append({"core:sample_start": start, "core:sample_count": len(samples), **annotation})
            start += len(samples)
    metadata = {
        "global": {
            "core:datatype": "cf32_le",
            "core:version": VERSION,
            "core:sha512": digest.hexdigest(),
            "core:description": description,
            "core:recorder": f"airfl {__version__}",
            "core:extensions": [EXTENSION],
            **_about_the_run(signals),
        },
        "captures": [{"core:sample_start": 0, **_frequency(signals)}],
        "annotations": annotations,
    }
    path.with_suffix(".sigmf-meta").write_text(json.dumps(metadata, indent=1, allow_nan=False), encoding="utf-8")


def _about_the_run(signals: _Signals) -> dict[str, Any]:
    attributes, grid = attributes_of(signals.trace), signals.settings["grid"]
    return {
        "airfl:scheme": attributes["scheme"],
        "airfl:seed": attributes["seed"],
        "airfl:status": attributes["status"],
        "airfl:units": signals.settings["channel"]["units"],
        "airfl:energy_units": signals.trace[_energy(signals.trace, "energy")].attrs["units"],
        "airfl:packing": grid["packing"],
        "airfl:subcarriers": int(signals.trace["subcarriers"][signals.rounds[0]]),
        "airfl:spacing_hz": grid["spacing_hz"],
        "airfl:settings": signals.settings,
    }


def _frequency(signals: _Signals) -> dict[str, float]:
    """Return the carrier frequency, for a recorded channel that of its file.

    In normalised units the carrier only sets Doppler shift and phase noise, and is left out.
    """
    channel = signals.settings["channel"]
    carrier_hz = float(signals.trace.attrs.get(RECORDED_CARRIER, channel["carrier_hz"]))
    return {"core:frequency": carrier_hz} if channel["units"] == "physical" else {}


FORMAT = Format(files=FILES, write=write, check=check)
