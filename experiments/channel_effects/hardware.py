"""Hardware: power amplifiers of the devices, in the model per element and in the waveform."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, Array, errors, scenario_of, sent
from channels.hardware import AMPLIFIERS, consumed_over_radiated, operating_point
from channels.units import db_to_linear

SUBCARRIERS, DEVICES, ENTRIES, ROUNDS = 256, 8, 4096, 20
SHOWN = ("soft-limiter", "rapp", "saleh")
UNIT = (*FIXED, "channel.noise=false", f"grid.subcarriers={SUBCARRIERS}", "power.max_snr_db=20")


def amplifier(figure: Figure) -> list[str]:
    """Left: error by back-off, calibrated; middle: not calibrated; right: radiated energy over what is drawn. r = 8,
    K = 256, 20 rounds; dots: model per element, open: waveform."""
    left, middle, right = panels(figure, 3)
    return [*_by_back_off(left, True), *_by_back_off(middle, False), *_efficiency(right)]


def amplifier_error(name: str, back_off_db: float, calibrated: bool) -> float:
    """Return (Re c - 1)^2 + E[d^2] of a real payload on a flat channel."""
    point = operating_point(AMPLIFIERS[name](), float(db_to_linear(back_off_db)))
    output = 1 / point.gain if calibrated else 1.0 + 0j
    distortion = abs(output) ** 2 * point.in_band(SUBCARRIERS, output / abs(output))[0]
    return float(((output * point.gain).real - 1) ** 2 + distortion)


def _by_back_off(axis: Axes, calibrated: bool) -> list[str]:
    numbers, levels, smooth = [], np.arange(0.0, 13.0, 3.0), np.linspace(0, 12, 60)
    for number, name in enumerate(SHOWN):
        axis.plot(smooth, [amplifier_error(name, at, calibrated) for at in smooth], label=name, **line(number))
        modelled, simulated = (
            np.array([_error(name, level, calibrated, waveform) for level in levels]) for waveform in (False, True)
        )
        axis.plot(levels, modelled, **dots(number))
        axis.plot(levels, simulated, **{**dots(number), "fillstyle": "none", "markersize": 7})
        what = f"{name}, {'calibrated' if calibrated else 'not calibrated'}: error"
        numbers.append(quote(what, simulated, {0: "0 dB", 2: "6 dB", 3: "9 dB"}))
    title = "back-off (dB), calibrated" if calibrated else "back-off (dB), not calibrated"
    label(axis, title, ERROR, legend="lower left", yscale="log", ylim=(1e-8, 2))
    return numbers


def _error(name: str, back_off_db: float, calibrated: bool, waveform: bool) -> float:
    """Return the mean error of rounds without noise."""
    given = (f"hardware.amplifier={name}", f"hardware.back_off_db={back_off_db}")
    how = (f"hardware.calibrated={str(calibrated).lower()}", f"grid.waveform={str(waveform).lower()}")
    scenario = scenario_of((*UNIT, *given, *how), entries=ENTRIES, devices=DEVICES, selected=DEVICES)
    return float(errors(sent(scenario, ROUNDS)).mean())


def _efficiency(axis: Axes) -> list[str]:
    smooth, levels = np.linspace(0, 12, 60), np.arange(0.0, 13.0, 3.0)
    numbers, rapp = [], AMPLIFIERS["rapp"]()
    for number, kind in enumerate(("a", "b")):
        law = []
        for ratio in db_to_linear(smooth):
            law.append(100 / consumed_over_radiated(rapp, operating_point(rapp, float(ratio)), float(ratio), kind))
        measured = np.array([_share(kind, level) for level in levels])
        axis.plot(smooth, law, label=f"rapp, class {kind.upper()}", **line(number))
        axis.plot(levels, measured, **dots(number))
        what = f"rapp, class {kind.upper()}: % of the drawn energy radiated"
        numbers.append(quote(what, measured, {0: "0 dB", 2: "6 dB", 4: "12 dB"}))
    label(axis, "back-off (dB)", "efficiency (%)", legend="upper right", ylim=(0, 80))
    return numbers


def _share(kind: str, back_off_db: float) -> float:
    """Return the radiated energy over the drawn energy of a round, in %."""
    given = ("hardware.amplifier=rapp", f"hardware.amplifier_class={kind}", f"hardware.back_off_db={back_off_db}")
    one = sent(scenario_of((*UNIT, *given), entries=ENTRIES, devices=DEVICES, selected=DEVICES), 1)[0]
    drawn: Array | None = one.report.devices.supply_energy
    assert drawn is not None
    return float(100 * one.report.devices.energy.sum() / drawn.sum())
