"""Receiver noise in normalised and physical units, and replay of recorded gains."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import h5py
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, RAYLEIGH, WIDE, Array, Round, coefficients, errors, opened, scenario_of, sent
from channels.noise import thermal_noise_std
from channels.units import dbm_to_watt, watt_to_dbm

DEVICES, ROUNDS, RECORDED = 16, 20, 60
SUBCARRIERS, ENTRIES, POWER_DBM, FIGURE_DB = 256, 512, 23.0, 7.0


def noise(figure: Figure) -> list[str]:
    """Left against the receive SNR; right against the path loss at 23 dBm over 256 subcarriers, noise figure 7 dB. 20
    rounds, r = 16, no fading."""
    left, right = panels(figure)
    return [*_against_receive_snr(left), *_against_path_loss(right)]


def _against_receive_snr(axis: Axes) -> list[str]:
    numbers, levels, smooth = [], np.arange(-20.0, 21.0, 5.0), np.linspace(-9, 33, 80)
    axis.plot(smooth, 10 ** (-smooth / 10), label="law 1, 1/SNR", **line(6))
    hollow = {**dots(1), "fillstyle": "none", "markersize": 7.0}
    for number, packing in enumerate(("real", "iq")):
        rounds = [_normalised(level, packing) for level in levels]
        received = 10 * np.log10([np.mean([10 ** (one.receive_snr_db / 10) for one in each]) for each in rounds])
        measured = [errors(each).mean() for each in rounds]
        axis.plot(received, measured, label=packing, **(hollow if number else dots(number)))
        at = {index: f"receive SNR {received[index]:.1f} dB" for index in (2, 4, 6)}
        text = quote(f"{packing}, P/σ0² -10, 0, 10 dB: error", measured, at)
        numbers.append(text + _within(measured, 10 ** (-received / 10)))
    label(axis, "receive SNR of the sum (dB)", ERROR, legend="lower left", yscale="log")
    return numbers


def _against_path_loss(axis: Axes) -> list[str]:
    losses, smooth = np.arange(90.0, 141.0, 10.0), np.linspace(90, 140, 80)
    numbers = []
    ways = {"15 kHz, real": (15e3, "real"), "15 kHz, iq": (15e3, "iq"), "120 kHz, real": (120e3, "real")}
    for number, (name, (spacing, packing)) in enumerate(ways.items()):
        variance = thermal_noise_std(spacing, FIGURE_DB) ** 2
        # Two entries share the power of a complex element.
        entry = float(dbm_to_watt(POWER_DBM)) / SUBCARRIERS / (1 if packing == "real" else 2)
        measured = [errors(_at(loss, spacing, packing)).mean() for loss in losses]
        ratio = variance / (DEVICES * entry)
        axis.plot(smooth, ratio * 10 ** (smooth / 10), label=name, **line(number))
        axis.plot(losses, measured, **dots(number))
        text = f"{name}: σ0² {watt_to_dbm(variance):.1f} dBm, error"
        numbers.append(
            quote(text, measured, {1: "path loss 100 dB", 4: "130 dB"}) + _within(measured, ratio * 10 ** (losses / 10))
        )
    label(axis, "path loss (dB)", ERROR, legend="upper left", yscale="log")
    return numbers


def _within(measured: Sequence[float], law: Array) -> str:
    return f", within {100 * np.max(np.abs(np.array(measured) / law - 1)):.0f}% of law 1"


def _normalised(level_db: float, packing: str) -> list[Round]:
    unit = (*FIXED, f"grid.packing={packing}", f"power.max_snr_db={level_db}")
    return sent(scenario_of(unit, devices=DEVICES, selected=DEVICES), ROUNDS)


def _at(loss_db: float, spacing_hz: float, packing: str) -> list[Round]:
    """Return rounds in which all devices have this path loss."""
    unit = (
        "channel.units=physical",
        "channel.fading=fixed",
        f"channel.noise_figure_db={FIGURE_DB}",
        f"grid.subcarriers={SUBCARRIERS}",
        f"grid.spacing_hz={spacing_hz}",
        f"grid.packing={packing}",
        f"power.tx_power_dbm={POWER_DBM}",
        "topology.kind=coordinates",
        f"topology.coordinates={[[1.0, 0.0]] * DEVICES}",
        "topology.path_loss=log-distance",
        f"topology.reference_loss_db={loss_db}",
    )
    return sent(scenario_of(unit, entries=ENTRIES, devices=DEVICES, selected=DEVICES), ROUNDS)


def replay(figure: Figure) -> list[str]:
    """Left |h| of 3 of 8 devices over 60 rounds, right beta of all 8: lines as recorded, dots replayed."""
    left, right = panels(figure)
    moving = ("channel.variation=jakes", "channel.speed_m_s=1.0", "channel.round_s=0.002")
    first = scenario_of((*RAYLEIGH, *moving, "power.max_snr_db=10.0"), devices=8, selected=8)
    gains = np.array([one.channel.gains for one in opened(first, RECORDED)])
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gains.h5"
        with h5py.File(file, "w") as store:
            store["gains"] = gains
        replayed = ("channel.fading=replay", f"channel.replay_file={file}", *WIDE, "power.max_snr_db=10.0")
        again = scenario_of((*replayed, f"run.rounds={len(gains)}"), devices=8, selected=8)
    replayed_gains = np.array([one.channel.gains for one in opened(again, RECORDED)])
    for device in range(3):
        left.plot(np.abs(gains[:, device]), label=f"device {device}", **line(device))
        left.plot(np.abs(replayed_gains[:, device]), **{**dots(device), "markersize": 2.5})
    betas = [coefficients(scenario, RECORDED) for scenario in (first, again)]
    right.plot(betas[0], label="recorded", **line(0))
    right.plot(betas[1], label="replayed", **{**dots(0), "markersize": 2.5})
    label(left, "round", "|h|", legend="upper right", ylim=(0, 2.1))
    label(right, "round", "β of 8 devices", legend="lower left", yscale="log", ylim=(0.05, 3))
    mean_errors = np.mean([errors(sent(scenario, RECORDED)) for scenario in (first, again)], axis=1)
    power = np.abs(gains) ** 2
    return [
        f"{power.size} gains, largest difference of the replay {np.abs(replayed_gains - gains).max():g}",
        f"error: {mean_errors[0]:.4g} recorded, {mean_errors[1]:.4g} replayed",
        f"mean of |h|² used by estimators: {power.mean(axis=0).min():.2f} to {power.mean(axis=0).max():.2f}, by "
        "the law 1",
    ]
