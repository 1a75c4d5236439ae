"""Channel impulse responses of Sionna: arrays `a` and `tau`, of its channel models or of its ray tracer.

`a` is [batch, num_rx, num_rx_ant, num_tx, num_tx_ant, num_paths, num_time_steps], `tau` [batch, num_rx, num_tx,
num_paths], or with antennas [batch, num_rx, num_rx_ant, num_tx, num_tx_ant, num_paths]; the ray tracer has no batch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.frame import Frame
from channels.grid import default_symbol_duration_s
from channels.imported.channel import Choice, Imported, check_positive, check_room
from channels.recorded.opening import opened, regular_file, whole
from channels.recorded.source import RecordingError, as_complex
from channels.recorded.surveying import LONGEST_DELAY_S
from channels.selective.late import late_paths, take_late
from channels.selective.request import SelectiveRequest

A, TAU = "a", "tau"
WITH_BATCH = 7
CLOSE_S = 1e-9

OPTIONS = {
    "base": "which side is the base station: rx or tx; by default the one with a single station",
    "base_station": "number of the base station, where there are several",
    "device_antenna": "antenna of the devices that is used",
    "time": "what time steps are: rounds, or blocks of a round, which needs the grid of the response",
    "step_s": "time between time steps, for time=blocks",
    "subcarriers": "subcarriers of the response, for time=blocks",
    "spacing_hz": "their spacing, for time=blocks",
    "prefix_s": "cyclic prefix, after which paths are late, for time=blocks; by default 1/(14 spacing_hz)",
    "carrier_hz": "carrier frequency",
}


def read(
    source: str,
    choice: Choice,
    *,
    base: Literal["rx", "tx"] | None = None,
    base_station: int = 0,
    device_antenna: int = 0,
    time: Literal["rounds", "blocks"] = "rounds",
    step_s: float | None = None,
    subcarriers: int | None = None,
    spacing_hz: float | None = None,
    prefix_s: float | None = None,
    carrier_hz: float | None = None,
) -> Imported:
    """Read impulse responses: every entry of the batch, and every time step, is a round.

    Args:
        source: A .npz, .mat or HDF5 file with `a` and `tau`.
        choice: What is read of it.
        base: The side of the base station; None for the one with a single station. By reciprocity, a transmitter
            receives over the same channel.
        base_station: Its number on that side.
        device_antenna: Antenna of the devices.
        time: Whether time steps are rounds, or blocks of a round.
        step_s: Time between time steps in s.
        subcarriers: K of the response, for blocks.
        spacing_hz: Their spacing in Hz, for blocks.
        prefix_s: Cyclic prefix in s, for blocks: paths that arrive later are partly lost and leak. None for the mean of
            the normal prefix, 1/(14 spacing_hz).
        carrier_hz: Carrier frequency in Hz.

    Raises RecordingError with one line.
    """
    check_positive(carrier_hz=carrier_hz, prefix_s=prefix_s)
    if time == "rounds" and prefix_s is not None:
        raise RecordingError("prefix_s has no effect unless time=blocks")
    _check_blocks(time, step_s, subcarriers, spacing_hz)
    path = regular_file(Path(source))
    with opened(path) as file:
        for name in (A, TAU):
            if name not in file.shapes:
                raise RecordingError(f"has no array {name!r}; save both with numpy.savez(FILE, a=a, tau=tau)")
        check_room(file.shapes[A])
        amplitudes: Complex = as_complex(whole(file, A), double=True).astype(np.complex128, copy=False)
        delays = np.asarray(whole(file, TAU), dtype=np.float64)
    amplitudes, delays = _with_batch(amplitudes, delays)
    batch, receivers, _, transmitters, _, _, steps = amplitudes.shape
    if base is None:
        if receivers > 1 and transmitters > 1:
            raise RecordingError(f"has {receivers} receivers and {transmitters} transmitters; give base=rx or base=tx")
        base = "tx" if receivers > 1 else "rx"
    if base == "tx":  # the reciprocal channel: exchange both ends
        amplitudes = np.transpose(amplitudes, (0, 3, 4, 1, 2, 5, 6))
        delays = np.transpose(delays, (0, 3, 4, 1, 2, 5))
    stations, antennas, devices, of_device = amplitudes.shape[1:5]
    for what, given, most in (("base_station", base_station, stations), ("device_antenna", device_antenna, of_device)):
        if not 0 <= given < most:
            raise RecordingError(f"{what} must be from 0 to {most - 1}, got {given}")
    rows = choice.antenna_rows(antennas)
    # [batch, antennas, devices, paths, steps] -> [batch, steps, devices, antennas, paths]
    amplitudes = np.transpose(amplitudes[:, base_station, :, :, device_antenna], (0, 4, 2, 1, 3))[:, :, :, rows]
    of_antenna = delays[:, base_station, :, :, min(device_antenna, delays.shape[4] - 1)]
    delays = np.transpose(of_antenna, (0, 2, 1, 3))  # [batch, devices, antennas or 1, paths]
    delays = _same_for_antennas(delays, amplitudes, rows)
    if time == "blocks":
        rounds = choice.round_rows(batch)
    else:
        amplitudes = amplitudes.reshape(batch * steps, 1, *amplitudes.shape[2:])
        delays = np.repeat(delays, steps, axis=0)
        rounds = choice.round_rows(batch * steps)
    amplitudes, delays = amplitudes[rounds], delays[rounds]
    picked = choice.device_rows(devices, lambda: np.abs(amplitudes).sum(axis=(1, 3, 4)))
    amplitudes, delays = amplitudes[:, :, picked], delays[:, picked]
    there = (amplitudes != 0).any(axis=(1, 3))
    wrong = there & ~((delays >= 0) & (delays <= LONGEST_DELAY_S))
    if wrong.any():
        raise RecordingError(
            f"a path with an amplitude has a delay of {delays[wrong][0]:g} s, but a delay is from 0 to "
            f"{LONGEST_DELAY_S:g} s; give 'tau' in s"
        )
    delays = np.where(there, delays, 0.0)
    if time == "rounds":
        return Imported(gains=amplitudes[:, 0], delays_s=delays, carrier_hz=carrier_hz)
    assert step_s is not None
    assert subcarriers is not None
    assert spacing_hz is not None
    frequencies = np.asarray(spacing_hz * (np.arange(subcarriers) - subcarriers // 2), dtype=np.float64)
    check_room((len(rounds), len(picked), len(rows), steps, subcarriers), 8)
    relative = _relative(amplitudes, delays)
    gains = _responses(amplitudes, relative, frequencies)
    request = _on_grid(frequencies, steps, spacing_hz, _default_prefix_s(spacing_hz) if prefix_s is None else prefix_s)
    leaked_power, note = _take_late(gains, amplitudes, relative, request)
    return Imported(
        gains=gains,
        leaked_power=leaked_power,
        frequencies_hz=frequencies if subcarriers > 1 else None,
        block_times_s=np.asarray(step_s * np.arange(steps), dtype=np.float64) if steps > 1 else None,
        carrier_hz=carrier_hz,
        notes=(note,) if note else (),
    )


def _check_blocks(time: str, step_s: float | None, subcarriers: int | None, spacing_hz: float | None) -> None:
    given = {"step_s": step_s, "subcarriers": subcarriers, "spacing_hz": spacing_hz}
    for name, value in given.items():
        if time == "rounds" and value is not None:
            raise RecordingError(f"{name} has no effect unless time=blocks")
        if time == "blocks" and (value is None or not 0 < value < np.inf):
            raise RecordingError(f"time=blocks needs {name}, which must be positive")


def _with_batch(amplitudes: Complex, delays: Array) -> tuple[Complex, Array]:
    """Return [batch, rx, rx_ant, tx, tx_ant, paths, steps], and delays with axes of antennas of length 1 if shared."""
    if amplitudes.ndim not in (WITH_BATCH - 1, WITH_BATCH):
        raise RecordingError(
            "'a' must be [batch, num_rx, num_rx_ant, num_tx, num_tx_ant, num_paths, num_time_steps], or without batch; "
            f"got {amplitudes.ndim} axes"
        )
    if amplitudes.ndim == WITH_BATCH - 1:
        amplitudes, delays = amplitudes[None], delays[None]
    if 0 in amplitudes.shape:
        raise RecordingError(f"'a' is empty, its shape is {amplitudes.shape}")
    batch, receivers, at_rx, transmitters, at_tx, paths, _ = amplitudes.shape
    shared, each = (batch, receivers, transmitters, paths), (batch, receivers, at_rx, transmitters, at_tx, paths)
    if delays.shape == shared:
        delays = delays[:, :, None, :, None, :]
    elif delays.shape != each:
        raise RecordingError(f"'tau' must be {shared[-3:]} or {each[-5:]} beside 'a', got {delays.shape[1:]}")
    return amplitudes, delays


def _same_for_antennas(delays: Array, amplitudes: Complex, rows: NDArray[np.int64]) -> Array:
    """Return one delay for each path of a device, [batch, devices, paths]: the largest of its antennas.

    Raises RecordingError where antennas differ by more than 1 ns, which a grid of 100 MHz would show.
    """
    if delays.shape[2] == 1:
        return np.asarray(delays[:, :, 0])
    delays = delays[:, :, rows]
    there = (amplitudes != 0).any(axis=1)
    latest = np.max(delays, axis=2, where=there, initial=-1.0)
    apart = float(np.max(np.where(there, latest[:, :, None] - delays, 0.0), initial=0.0))
    if apart > CLOSE_S:
        raise RecordingError(
            f"delays of a path differ by {apart:.3g} s between antennas, more than {CLOSE_S:g} s; take one antenna "
            "(--antennas), or trace with a synthetic array"
        )
    return np.asarray(latest)


def _relative(amplitudes: Complex, delays: Array) -> Array:
    """Return the delays behind the first path of each device in each round, 0 where there is no path."""
    there = (amplitudes != 0).any(axis=(1, 3))
    first = np.min(delays, axis=-1, where=there, initial=np.inf, keepdims=True)
    return np.where(there, delays - np.where(np.isfinite(first), first, 0.0), 0.0)


def _responses(amplitudes: Complex, relative: Array, frequencies_hz: Array) -> NDArray[np.complex64]:
    """Return H on a grid, complex64 [rounds, devices, antennas, blocks, subcarriers], from the first path on."""
    rounds, steps, devices, antennas, _ = amplitudes.shape
    response = np.empty((rounds, devices, antennas, steps, len(frequencies_hz)), dtype=np.complex64)
    for index in np.ndindex(rounds, devices):
        turns = np.exp(-2j * np.pi * np.outer(relative[index], frequencies_hz))
        response[index] = np.moveaxis(amplitudes[index[0], :, index[1]] @ turns, 0, 1)
    return response


def _default_prefix_s(spacing_hz: float) -> float:
    """Return the mean of the normal cyclic prefix in s, as of a grid with this spacing."""
    return default_symbol_duration_s(spacing_hz) - 1 / spacing_hz


def _on_grid(frequencies_hz: Array, steps: int, spacing_hz: float, prefix_s: float) -> SelectiveRequest:
    """Return the resource elements of a round, on which paths may be late. Nothing is drawn for them."""

    def draw(_count: int) -> Array:
        raise AssertionError("recorded paths are not drawn")

    frame = Frame(frequencies_hz, len(frequencies_hz) * steps, prefix_s + 1 / spacing_hz, 1)
    return SelectiveRequest(
        frame=frame,
        antennas=1,
        carrier_hz=0.0,
        speed_m_s=0.0,
        variation="constant",
        start_s=0.0,
        per_round=draw,
        per_run=draw,
        bandwidth_hz=len(frequencies_hz) * spacing_hz,
        prefix_s=prefix_s,
        spacing_hz=spacing_hz,
    )


def _take_late(
    gains: NDArray[np.complex64], amplitudes: Complex, relative: Array, request: SelectiveRequest
) -> tuple[NDArray[np.float32] | None, str]:
    """Subtract from the gains, in place, what paths beyond the prefix lose.

    Args:
        gains: H, [rounds, devices, antennas, blocks, subcarriers].
        amplitudes: Amplitudes of the paths, [rounds, blocks, devices, antennas, paths].
        relative: Their delays behind the first one of the device in s, [rounds, devices, paths].
        request: The grid and its prefix.

    Returns the power that these paths leak, [rounds, devices, blocks, subcarriers], and a remark; None and no remark if
    no path is late.
    """
    power = (np.abs(amplitudes) ** 2).sum(axis=(1, 3))
    share = float(power[relative > request.prefix_s].sum() / max(power.sum(), np.finfo(float).tiny))
    if not share:
        return None, ""
    leaked = np.zeros((*gains.shape[:2], *gains.shape[3:]), dtype=np.float32)
    for index, response in enumerate(gains):
        paths = np.moveaxis(amplitudes[index], 0, 2)  # [devices, antennas, blocks, paths]
        found = take_late(response, (late_paths(*one, request) for one in zip(paths, relative[index], strict=True)))
        if found is not None:
            leaked[index] = found
    note = (
        f"{100 * share:.2g} % of the power arrives after the cyclic prefix of {request.prefix_s:.3g} s (prefix_s), and "
        "is partly lost and leaks to other elements"
    )
    return leaked, note
