"""Ray-traced channels of DeepMIMO, read from its files: scenarios of versions 3 and 4, and MATLAB datasets.

A scenario of version 4 is a folder with `params.json` and a matrix for each quantity, transmitter and set of receivers,
such as `power_t001_tx000_r000.mat`, .npz or .npy: powers in dB of received over sent, phases and angles in degrees,
delays in s, [receivers, paths], NaN where there is no path; angles of elevation count from the zenith. A scenario of
version 3 is a folder with `params.mat` and files such as `BS1_UE_0-1024.mat`, whose powers are in dBm.

Base stations send there, and receive here: the channel is reciprocal, so that angles of departure are those of arrival.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.imported.channel import Choice, Imported, check_positive, check_room
from channels.imported.files import read_json
from channels.imported.trajectory import nearest, read_positions
from channels.isolated import deepmimo
from channels.isolated.hdf5 import probe
from channels.recorded.opening import opened, readable, regular_file, whole
from channels.recorded.source import RecordingError, shown

PARAMS = "params.json"
OLD_PARAMS = "params.mat"
MATRIX = re.compile(r"power_t(\d{3})_tx(\d{3})_r(\d{3})\.(mat|npz|npy)")
OLD_USERS = re.compile(r"BS(\d+)_UE_(\d+)-(\d+)\.mat")
FORMATS = ("mat", "npz", "npy")
WITHOUT_CARRIER = "Sionna"
"""Ray tracer whose phases leave out the turns of the carrier over the delay."""

OPTIONS = {
    "base_station": "transmitter: SET:NUMBER for version 4, a number from 1 for others; by default the first",
    "receivers": "set of receivers, for version 4; by default the largest",
    "paths": "number of strongest paths of a device that are kept",
    "positions": "CSV file of positions over rounds; each takes the nearest receiver",
    "carrier_hz": "carrier frequency, where the files do not have it",
}


@dataclass(frozen=True, eq=False)
class _Rays:
    """Paths of all receivers in one scene.

    Attributes:
        power_db: Received over sent power in dB, [receivers, paths]; NaN where there is no path.
        phase_deg: Phase in degrees.
        delay_s: Delay in s.
        azimuth_deg: Azimuth of departure at the base station in degrees.
        zenith_deg: Its angle from the zenith in degrees.
        places_m: Positions of the receivers in m, [receivers, 3].
        base_m: Position of the base station in m, [3]; None if unknown.
    """

    power_db: Array
    phase_deg: Array
    delay_s: Array
    azimuth_deg: Array
    zenith_deg: Array
    places_m: Array
    base_m: Array | None


def read(
    source: str,
    choice: Choice,
    *,
    base_station: str | None = None,
    receivers: int | None = None,
    paths: int | None = None,
    positions: str | None = None,
    carrier_hz: float | None = None,
) -> Imported:
    """Read the paths of a scenario: each receiver is a device, each scene a round.

    Args:
        source: Folder of a scenario of version 3 or 4, or a .mat file with `DeepMIMO_dataset`.
        choice: What is read of it.
        base_station: The transmitter; None for the first.
        receivers: Number of the set of receivers, for version 4; None for the largest.
        paths: Number of strongest paths that are kept; None for all.
        positions: CSV file of positions of devices over rounds, see `read_positions`; None for every receiver.
        carrier_hz: Carrier frequency in Hz, where the files do not have it.

    Raises RecordingError with one line.
    """
    check_positive(paths=paths, carrier_hz=carrier_hz)
    folder = Path(source)
    turned = False
    with readable("DeepMIMO scenario"):
        if folder.is_dir() and (folder / PARAMS).exists():
            folders, code, carrier_hz, turned, note = _version_4(folder, base_station, receivers, carrier_hz)
            count, scene = len(folders), lambda row: _scene(folders[row], code)
        else:
            if receivers is not None:
                raise RecordingError("receivers has no effect but on scenarios of version 4")
            if folder.is_dir():
                rays, carrier_hz, note = _version_3(folder, base_station, carrier_hz)
            else:
                rays, note = _dataset(regular_file(folder), base_station)
            count, scene = 1, lambda _: rays
        if positions is None:
            walked, rounds = None, choice.round_rows(count).tolist()
        else:
            walked = read_positions(Path(positions))
            if count > 1 and len(walked) not in (1, count):
                raise RecordingError(f"has {count} scenes, but {positions} has {len(walked)} rounds")
            walked = np.broadcast_to(walked, (max(len(walked), count), *walked.shape[1:]))
            rounds = choice.round_rows(len(walked)).tolist()
        scenes = _loaded(scene, [row if count > 1 else 0 for row in rounds])
    notes = [note]
    if walked is None:
        every = np.arange(len(scenes[0].power_db))
        devices = choice.device_rows(len(every), lambda: _reached([(one, every) for one in scenes]))
        taken = [(one, devices) for one in scenes]
    else:
        taken, far = [], 0.0
        for row, one in zip(rounds, scenes, strict=True):
            ids, apart = nearest(walked[row], one.places_m)
            taken.append((one, ids))
            far = max(far, apart)
        devices = choice.device_rows(walked.shape[1], lambda: _reached(taken))
        taken = [(one, ids[devices]) for one, ids in taken]
        notes.append(f"positions are up to {far:.2f} m from the nearest receiver")
    if choice.antennas not in ("all", "1"):
        raise RecordingError(
            "--antennas: one antenna is read, with angles; the array is that of the run (antennas.count)"
        )
    return _imported(taken, carrier_hz, turned, paths, tuple(filter(None, notes)))


def _loaded(scene: Callable[[int], _Rays], rows: Sequence[int]) -> list[_Rays]:
    """Return the scenes of these rounds, each of which is read once.

    Raises RecordingError if they are too large together, or have different numbers of receivers.
    """
    loaded: dict[int, _Rays] = {}
    for row in rows:
        if row not in loaded:
            loaded[row] = scene(row)
            check_room((len(set(rows)), *loaded[row].power_db.shape), 5 * 8)
    if len({len(one.power_db) for one in loaded.values()}) > 1:
        raise RecordingError("scenes have different numbers of receivers")
    return [loaded[row] for row in rows]


def _reached(taken: Sequence[tuple[_Rays, NDArray[np.int64]]]) -> Array:
    """Return 1 for each round and receiver with a path, else 0, [rounds, receivers]."""
    return np.array([np.isfinite(scene.power_db[ids]).any(axis=1) for scene, ids in taken], dtype=np.float64)


def _imported(
    taken: Sequence[tuple[_Rays, NDArray[np.int64]]],
    carrier_hz: float | None,
    turned: bool,
    paths: int | None,
    notes: tuple[str, ...],
) -> Imported:
    """Return the paths of the receivers of each round as amplitudes, delays and angles."""
    most = max(scene.power_db.shape[1] for scene, _ in taken)
    check_room((len(taken), len(taken[0][1]), most), 8 * 8)
    power, phase, delay, azimuth, zenith = (
        np.stack([_widened(getattr(scene, name)[ids], most) for scene, ids in taken])
        for name in ("power_db", "phase_deg", "delay_s", "azimuth_deg", "zenith_deg")
    )
    there = ~np.isnan(power) & (power > -np.inf)
    for name, values in (("phase", phase), ("delay", delay), ("azimuth", azimuth), ("elevation", zenith)):
        if not np.isfinite(values[there]).all():
            raise RecordingError(f"a path with a power has a {name} that is not finite")
    if there.any() and float(power[there].max()) >= 0:
        raise RecordingError(
            f"a path has a power of {power[there].max():g} dB over what was sent, a path loss of 0 dB or less; powers "
            "must be in dB, for 0 dBW sent"
        )
    if np.any((zenith[there] < 0) | (zenith[there] > 180)):
        raise RecordingError("angles of elevation must be from 0 (zenith) to 180 degrees")
    order = np.argsort(np.where(there, -power, np.inf), axis=-1, kind="stable")[..., : paths or most]
    order = order[..., : max(int(there.sum(axis=-1).max()), 1)]
    there = np.take_along_axis(there, order, axis=-1)
    power, phase, delay, azimuth, zenith = (
        np.take_along_axis(one, order, axis=-1) for one in (power, phase, delay, azimuth, zenith)
    )
    delay = np.where(there, delay, 0.0)
    turns = np.deg2rad(np.where(there, phase, 0.0))
    if turned:
        assert carrier_hz is not None
        turns = turns - 2 * np.pi * np.mod(carrier_hz * delay, 1.0)
    amplitude = np.where(there, 10 ** (np.where(there, power, 0.0) / 20), 0.0)
    return Imported(
        gains=(amplitude * np.exp(1j * turns))[:, :, None],
        delays_s=delay,
        azimuth_rad=np.deg2rad(np.where(there, (azimuth + 180) % 360 - 180, 0.0)),
        elevation_rad=np.deg2rad(np.where(there, 90 - zenith, 0.0)),
        positions_m=np.stack([scene.places_m[ids] for scene, ids in taken]),
        base_m=taken[0][0].base_m,
        carrier_hz=carrier_hz,
        physical=True,
        notes=notes,
    )


def _widened(values: Array, most: int) -> Array:
    wide = np.full((len(values), most), np.nan)
    wide[:, : values.shape[1]] = values
    return wide


def _version_4(
    folder: Path, base_station: str | None, receivers: int | None, carrier_hz: float | None
) -> tuple[list[Path], str, float | None, bool, str]:
    """Return the folders of the scenes, the code in the names of their files, the carrier, whether phases leave out its
    turns, and which base station and receivers these are in words."""
    params = read_json(folder / PARAMS)
    if not isinstance(params, dict):
        raise RecordingError(f"{PARAMS} must hold a table of names and values")
    ray_tracing = params.get("rt_params", {})
    ray_tracing = ray_tracing if isinstance(ray_tracing, dict) else {}
    carrier_hz = _carrier(ray_tracing.get("frequency"), carrier_hz)
    turned = WITHOUT_CARRIER in str(ray_tracing.get("raytracer_name", ""))
    if turned and carrier_hz is None:
        raise RecordingError(f"{PARAMS} has no frequency in rt_params, which phases of Sionna need; give carrier_hz")
    scene = params.get("scene", {})
    count = scene.get("num_scenes", 1) if isinstance(scene, dict) else 1
    folders = [folder]
    if isinstance(count, int) and count > 1:
        folders = sorted(one for one in folder.iterdir() if one.is_dir())
        if len(folders) < count:
            raise RecordingError(f"{PARAMS} has {count} scenes, but the scenario {len(folders)} folders")
        folders = folders[:count]
    code, told = _chosen_set(folders[0], base_station, receivers)
    return folders, code, carrier_hz, turned, told


def _chosen_set(folder: Path, base_station: str | None, receivers: int | None) -> tuple[str, str]:
    """Return the code in the file names of a transmitter and a set of receivers, and which these are in words."""
    found = sorted(
        (int(match[1]), int(match[2]), int(match[3]), one.stat().st_size)
        for one in folder.iterdir()
        if (match := MATRIX.fullmatch(one.name))
    )
    if not found:
        raise RecordingError("has no matrix such as power_t001_tx000_r000.mat")
    stations = sorted({f"{one[0]}:{one[1]}" for one in found}, key=lambda one: [int(part) for part in one.split(":")])
    if base_station is not None and base_station not in stations:
        raise RecordingError(f"base_station must be one of {', '.join(stations)}, got {base_station[:40]!r}")
    of_station = [one for one in found if f"{one[0]}:{one[1]}" == (base_station or stations[0])]
    sets = sorted({one[2] for one in of_station})
    if receivers is not None and receivers not in sets:
        raise RecordingError(f"receivers must be one of {', '.join(map(str, sets))}, got {receivers}")
    tx_set, tx, rx_set, _ = max((one for one in of_station if receivers in (None, one[2])), key=lambda one: one[3])
    told = f"base station {tx_set}:{tx} of {', '.join(stations)}; receivers {rx_set} of {', '.join(map(str, sets))}"
    return f"t{tx_set:03}_tx{tx:03}_r{rx_set:03}", told


def _scene(folder: Path, code: str) -> _Rays:
    power = _matrix(folder, "power", code)
    shape = power.shape
    if power.ndim != 2 or 0 in shape:
        raise RecordingError(f"power_{code} must be [receivers, paths], got {shape}")
    check_room(shape, 8 * 8)
    rest = {name: _matrix(folder, name, code) for name in ("phase", "delay", "aod_az", "aod_el")}
    for name, values in rest.items():
        if values.shape != shape:
            raise RecordingError(f"{name}_{code} must be {shape} beside the powers, got {values.shape}")
    places = _matrix(folder, "rx_pos", code)
    if places.shape != (shape[0], 3):
        raise RecordingError(f"rx_pos_{code} must be {(shape[0], 3)}, got {places.shape}")
    base = _matrix(folder, "tx_pos", code).reshape(-1)
    return _Rays(power, rest["phase"], rest["delay"], rest["aod_az"], rest["aod_el"], places, _base(base))


def _base(position: Array) -> Array | None:
    return position[:3] if len(position) >= 3 and np.isfinite(position[:3]).all() else None


def _matrix(folder: Path, name: str, code: str) -> Array:
    """Return a matrix of a scenario of version 4 as float64."""
    for suffix in FORMATS:
        path = folder / f"{name}_{code}.{suffix}"
        if path.exists():
            with opened(regular_file(path)) as file:
                inside = name if name in file.shapes else "" if "" in file.shapes else None
                if inside is None:
                    raise RecordingError(f"{path.name} has no array {name!r} of numbers")
                values = whole(file, inside)
            if values.dtype.kind not in "iuf":
                raise RecordingError(f"{path.name} must be real numbers, got {values.dtype}")
            return np.asarray(values, dtype=np.float64)
    raise RecordingError(f"has no file {name}_{code}.mat, .npz or .npy")


def _version_3(folder: Path, base_station: str | None, carrier_hz: float | None) -> tuple[_Rays, float | None, str]:
    params = _params(folder)
    files = sorted(
        (int(match[1]), int(match[2]), one.name) for one in folder.iterdir() if (match := OLD_USERS.fullmatch(one.name))
    )
    stations = sorted({one[0] for one in files})
    if not files:
        raise RecordingError(f"is no scenario of DeepMIMO: no {PARAMS}, and no files such as BS1_UE_0-1024.mat")
    number = _number(base_station, stations)
    polarisation = "_VV" if params.get("dual_polar_available") else ""
    parts = []
    for _, _, name in (one for one in files if one[0] == number):
        regular_file(folder / name)
        parts.append(_users(folder / name, polarisation=polarisation))
    most = max(one["paths"].shape[-1] for one in parts)
    paths = np.full((sum(len(one["paths"]) for one in parts), len(deepmimo.PARAMETERS), most), np.nan)
    check_room(paths.shape)
    at = 0
    for one in parts:
        paths[at : at + len(one["paths"]), :, : one["paths"].shape[-1]] = one["paths"]
        at += len(one["paths"])
    sent_dbm = params.get("transmit_power", 0.0)
    rays = _rays(paths, np.concatenate([one["places"] for one in parts]), parts[0]["base"])
    rays = _Rays(rays.power_db - sent_dbm, *list(vars(rays).values())[1:])
    told = f"base station {number} of {', '.join(map(str, stations))}"
    return rays, _carrier(params.get("carrier_freq"), carrier_hz), told


def _carrier(recorded_hz: Any, given_hz: float | None) -> float | None:
    """Return the carrier frequency of a scenario in Hz. Raises RecordingError if another one is given."""
    if not isinstance(recorded_hz, int | float) or not 0 < recorded_hz < np.inf:
        return given_hz
    if given_hz not in (None, recorded_hz):
        raise RecordingError(f"the scenario has the carrier {recorded_hz:g} Hz; leave carrier_hz out")
    return float(recorded_hz)


def _params(folder: Path) -> dict[str, float]:
    """Return the numbers of the description of a scenario of version 3."""
    path = folder / OLD_PARAMS
    if not path.exists():
        raise RecordingError(f"is no scenario of DeepMIMO: it has no {PARAMS} and no {OLD_PARAMS}")
    numbers: dict[str, float] = {}
    with opened(regular_file(path)) as file:
        for name in ("carrier_freq", "transmit_power", "dual_polar_available"):
            if name in file.shapes:
                numbers[name] = float(np.ravel(file.small(name))[0])
    if not all(map(np.isfinite, numbers.values())):
        raise RecordingError(f"{OLD_PARAMS} has numbers that are not finite")
    return numbers


def _dataset(path: Path, base_station: str | None) -> tuple[_Rays, str]:
    import h5py

    if h5py.is_hdf5(path):
        probe(path)
        raise RecordingError("is a .mat file of version 7.3, whose cells are not read; save it with -v7")
    number = _number(base_station, None)
    found = _users(path, station=number)
    paths = found["paths"]
    power = paths[:, 2]
    if (power < 0).any():
        raise RecordingError(
            f"a path has a power of {power[power < 0][0]:g} W, but powers are 0 or more; are they in dBm?"
        )
    paths[:, 2] = 10 * np.log10(np.where(power > 0, power, np.nan))  # 0 beyond the field of view
    return _rays(paths, found["places"], found["base"]), f"base station {number}"


def _users(path: Path, station: int | None = None, polarisation: str = "") -> dict[str, Any]:
    with readable(f"{shown(path.name)} of DeepMIMO"):
        return deepmimo.users(path, "" if station is None else str(station), polarisation)


def _number(base_station: str | None, stations: Sequence[int] | None) -> int:
    allowed = ", ".join(map(str, stations)) if stations else "a number from 1"
    if base_station is None:
        return stations[0] if stations else 1
    usable = base_station.isdecimal() and len(base_station) <= 9
    if not usable or (stations is not None and int(base_station) not in stations):
        raise RecordingError(
            f"base_station must be {'one of ' if stations else ''}{allowed}, got {base_station[:40]!r}"
        )
    return int(base_station)


def _rays(paths: Array, places: Array, base: Array) -> _Rays:
    phase, delay, power, _, _, azimuth, zenith = (paths[:, row] for row in range(len(deepmimo.PARAMETERS)))
    return _Rays(power, phase, delay, azimuth, zenith, places, _base(base))
