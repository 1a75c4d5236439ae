"""Channels that Sionna RT traces in a scene: one of its own by name, or a Mitsuba file.

The base station is the transmitter and devices are receivers; the channel is reciprocal, so that angles of departure
are those of arrival. Sionna's amplitudes leave out the turns of the carrier over the delay, which are added here in
double precision.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.imported.channel import Choice, Imported, check_positive, check_room
from channels.imported.files import three
from channels.imported.trajectory import read_positions
from channels.recorded.opening import regular_file
from channels.recorded.source import RecordingError

if TYPE_CHECKING:
    from types import ModuleType

MOST_PLACES = 1_000_000
LEAST_LLVM = 17
"""Earlier versions lack an instruction that the kernels of Dr.Jit use, and end the process."""
TURN = np.pi * (3 - np.sqrt(5))
"""Golden angle, by which directions of devices differ."""
SPREAD = (0.7548776662466927, 0.5698402909980532)
"""Steps of the R2 sequence, whose points fill a square evenly for every number of them."""

OPTIONS = {
    "base": "position x,y,z of the base station in m",
    "positions": "CSV file of positions of devices over rounds",
    "area": "x0,x1,y0,y1 in m, which devices fill evenly, instead of positions; --devices says how many",
    "height_m": "height of the devices",
    "walk_m": "how far each device of an area walks from round to round; --rounds says how many",
    "round_s": "time from round to round, which gives Doppler shifts",
    "carrier_hz": "carrier frequency",
    "depth": "largest number of interactions of a path",
    "diffraction": "whether paths are diffracted",
    "refraction": "whether paths go through walls",
    "scattering": "whether paths are scattered",
    "seed": "seed of the ray tracer",
}


def read(
    source: str,
    choice: Choice,
    *,
    base: str,
    positions: str | None = None,
    area: str | None = None,
    height_m: float = 1.5,
    walk_m: float = 0.0,
    round_s: float | None = None,
    carrier_hz: float = 3.5e9,
    depth: int = 3,
    diffraction: bool = False,
    refraction: bool = True,
    scattering: bool = False,
    seed: int = 1,
) -> Imported:
    """Trace the paths between a base station and devices.

    Args:
        source: Name of a scene of Sionna RT, such as simple_street_canyon, or a scene file of Mitsuba (.xml).
        choice: Which devices and rounds are traced.
        base: Position of the base station.
        positions: CSV file of positions, see `read_positions`.
        area: Corners of an area instead.
        height_m: Height of the devices in m.
        walk_m: Distance from round to round in m, in a direction of its own for each device.
        round_s: Time from round to round in s; None for no Doppler shifts.
        carrier_hz: Carrier frequency in Hz.
        depth: Largest number of interactions of a path.
        diffraction: Whether paths are diffracted at edges.
        refraction: Whether paths go through walls.
        scattering: Whether paths are scattered diffusely.
        seed: Seed of the ray tracer.

    Raises RecordingError with one line, also if the ray tracer is not installed.
    """
    check_positive(carrier_hz=carrier_hz, round_s=round_s, depth=depth)
    for name, metres in (("height_m", height_m), ("walk_m", walk_m)):
        if not np.isfinite(metres):
            raise RecordingError(f"{name} must be finite, got {metres:g}")
    if choice.antennas not in ("all", "1"):
        raise RecordingError(
            "--antennas: one antenna is traced, with angles; the array is that of the run, antennas.count"
        )
    at_base = three(base, "base")
    walked = _places(choice, positions, area, height_m, walk_m)
    velocities = None if round_s is None else _velocities(walked, round_s)
    rt, scene = _scene(source)
    scene.frequency = carrier_hz
    scene.tx_array = scene.rx_array = rt.PlanarArray(num_rows=1, num_cols=1, pattern="iso", polarization="V")
    scene.add(rt.Transmitter("base", position=at_base.tolist()))
    for device, at in enumerate(walked[0]):
        scene.add(rt.Receiver(f"device-{device}", position=at.tolist()))
    solver = rt.PathSolver()
    flags = {"diffraction": diffraction, "refraction": refraction, "diffuse_reflection": scattering}
    traced = []
    for number, places in enumerate(walked):
        for device, at in enumerate(places if number or velocities is not None else ()):
            receiver = scene.get(f"device-{device}")
            receiver.position = at.tolist()
            if velocities is not None:
                receiver.velocity = velocities[number, device].tolist()
        traced.append(_paths(solver(scene, max_depth=depth, seed=seed, **flags), carrier_hz, velocities is not None))
    most = max(one["amplitude"].shape[-1] for one in traced)
    check_room((len(traced), walked.shape[1], most), 6 * 8)
    joined = {name: np.stack([_widened(one[name], most) for one in traced]) for name in traced[0]}
    devices = np.arange(walked.shape[1])
    if choice.reachable:
        devices = Choice(reachable=True).device_rows(len(devices), lambda: np.abs(joined["amplitude"]).sum(axis=-1))
    return Imported(
        gains=joined["amplitude"][:, devices, None],
        delays_s=joined["delay"][:, devices],
        doppler_hz=joined["doppler"][:, devices] if "doppler" in joined else None,
        azimuth_rad=joined["azimuth"][:, devices],
        elevation_rad=joined["elevation"][:, devices],
        positions_m=walked[:, devices],
        base_m=at_base,
        carrier_hz=carrier_hz,
        physical=True,
        notes=tuple(filter(None, [_left_out(len(devices), walked.shape[1])])),
    )


def _left_out(kept: int, total: int) -> str:
    return f"{total - kept:,} of {total:,} devices have no path in some round and are left out" if kept < total else ""


def _places(choice: Choice, positions: str | None, area: str | None, height_m: float, walk_m: float) -> Array:
    """Return positions in m, [rounds, devices, 3]."""
    if (positions is None) == (area is None):
        raise RecordingError("devices need positions=FILE.csv or area=x0,x1,y0,y1, one of them")
    if positions is not None:
        if walk_m:
            raise RecordingError("walk_m has no effect beside positions, which are of every round")
        walked = read_positions(Path(positions), height_m)
        picked = Choice(devices=choice.devices).device_rows(walked.shape[1])
        return walked[np.ix_(choice.round_rows(len(walked)), picked)]
    try:
        x0, x1, y0, y1 = (float(one) for one in str(area).split(","))
        usable = bool(np.isfinite([x0, x1, y0, y1]).all()) and x0 < x1 and y0 < y1
    except ValueError:
        usable = False
    if not usable:
        raise RecordingError(f"area must be x0,x1,y0,y1 in m, with x0 < x1 and y0 < y1, got {str(area)[:60]!r}")
    counts = []
    for name, text, default in (("devices", choice.devices, ""), ("rounds", choice.rounds, "1")):
        wanted = default if text == "all" else text
        count = int(wanted) if wanted.isdecimal() and len(wanted) <= len(str(MOST_PLACES)) else 0
        if not 1 <= count <= MOST_PLACES:
            raise RecordingError(
                f"--{name}: an area needs a number of {name}, from 1 to {MOST_PLACES:,}, got {text[:40]!r}"
            )
        counts.append(count)
    devices, rounds = counts
    check_room((rounds, devices, 3))
    ids = np.arange(1, devices + 1)
    unit = [(0.5 + step * ids) % 1 for step in SPREAD]
    start = np.stack([x0 + (x1 - x0) * unit[0], y0 + (y1 - y0) * unit[1]], axis=-1)
    towards = np.stack([np.cos(TURN * ids), np.sin(TURN * ids)], axis=-1)
    plane = start + walk_m * np.arange(rounds)[:, None, None] * towards
    return np.concatenate([plane, np.full((rounds, devices, 1), height_m)], axis=-1)


def _velocities(walked: Array, round_s: float) -> Array:
    """Return the velocities in m/s from each round to the next, [rounds, devices, 3]; the last keeps the one before."""
    if len(walked) < 2:
        raise RecordingError("round_s has no effect with one round; velocities are those from round to round")
    steps = np.diff(walked, axis=0) / round_s
    return np.concatenate([steps, steps[-1:]])


def _scene(source: str) -> tuple[ModuleType, Any]:
    """Load a scene. With LLVM 15 and 16 Sionna RT imports, but compiling its kernels then ends the process."""
    try:
        import drjit
        from sionna import rt
    except ImportError as error:
        raise RecordingError(
            f"Sionna RT cannot be imported; install airfl[rt], and LLVM 17 or later without a GPU ({str(error)[:80]})"
        ) from None
    version = drjit.detail.llvm_version()
    if not drjit.has_backend(drjit.JitBackend.CUDA) and version < (LEAST_LLVM,):
        found = ".".join(map(str, version))
        raise RecordingError(
            f"LLVM must be 17 or later, got {found}; install it, or name its library by DRJIT_LIBLLVM_PATH"
        )
    named = getattr(rt.scene, source, None) if source.isidentifier() else None
    if named is None and not source.endswith(".xml"):
        names = [one for one in dir(rt.scene) if str(getattr(rt.scene, one)).endswith(".xml")]
        raise RecordingError(f"is no scene file (.xml), and no scene of Sionna RT: {', '.join(names)}")
    file = named if named is not None else str(regular_file(source))
    try:
        return rt, rt.load_scene(file)
    except Exception as error:  # Mitsuba raises anything for a damaged scene
        raise RecordingError(f"the scene cannot be loaded ({(str(error).splitlines() or [''])[0][:120]})") from None


def _paths(paths: Any, carrier_hz: float, moves: bool) -> dict[str, NDArray[Any]]:
    """Return what was traced, each [devices, paths], with amplitude 0 where there is no path."""
    real, imaginary = (np.asarray(part.numpy(), dtype=np.float64)[:, 0, 0, 0] for part in paths.a)
    delay, azimuth, zenith = (
        np.asarray(one.numpy(), dtype=np.float64)[:, 0] for one in (paths.tau, paths.phi_t, paths.theta_t)
    )
    amplitude = real + 1j * imaginary
    there = (amplitude != 0) & (delay >= 0)
    delay = np.where(there, delay, 0.0)
    result = {
        "amplitude": np.where(there, amplitude * np.exp(-2j * np.pi * np.mod(carrier_hz * delay, 1.0)), 0),
        "delay": delay,
        "azimuth": np.where(there, azimuth, 0.0),
        "elevation": np.where(there, np.pi / 2 - zenith, 0.0),
    }
    if moves:
        doppler = np.asarray(paths.doppler.numpy(), dtype=np.float64)[:, 0]
        result["doppler"] = np.where(there, doppler, 0.0)
    return result


def _widened(values: NDArray[Any], most: int) -> NDArray[Any]:
    wide = np.zeros((len(values), most), dtype=values.dtype)
    wide[:, : values.shape[1]] = values
    return wide
