"""Hardware: power amplifiers of the devices, converter of the receiver, by element and in time."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import FIXED, Array, errors, scenario_of, sent
from channels.hardware import AMPLIFIERS, Converter, consumed_over_radiated, operating_point
from channels.units import db_to_linear
from channels.waveform import Waveform, receive, transmit

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
            point = operating_point(rapp, float(ratio))
            law.append(100 / consumed_over_radiated(rapp, point, float(ratio), kind))
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


def converter(figure: Figure) -> list[str]:
    """Left: error by resolution; right: by the SNR of a device. r = 8, K = 256, real payload, 20 rounds; dots: model
    per element, open: samples in time."""
    left, right = panels(figure)
    return [*_by_bits(left), *_by_snr(right)]


def conversion_error(bits: int, snr_db: float) -> float:
    """Return the error of a real sum of r aligned messages of this SNR, receiver noise included."""
    converter, signal = Converter(bits), DEVICES * 10 ** (snr_db / 10)
    power = signal + 2.0
    noise = 1.0 + converter.distortion * power / 2 * (1 + converter.likeness(signal / power))
    return noise / signal


def _by_bits(axis: Axes) -> list[str]:
    bits, numbers = np.arange(1.0, 13.0), []
    for number, level in enumerate((10.0, 30.0, 50.0)):
        law = [conversion_error(int(one), level) for one in bits]
        axis.plot(bits, law, label=f"{level:g} dB", **line(number))
        modelled, in_time = _conversion_points(axis, number, bits, [(int(one), level) for one in bits])
        places = {0: "1 bit", 3: "4 bits", 7: "8 bits", 10: "11 bits"}
        numbers.append(quote(f"SNR {level:g} dB: error", modelled, places))
    numbers.append(quote("SNR 50 dB, in time: error", in_time, places))
    label(axis, "bits", ERROR, legend="upper right", yscale="log")
    return numbers


def _by_snr(axis: Axes) -> list[str]:
    levels, smooth, numbers = np.arange(0.0, 61.0, 10.0), np.linspace(0, 60, 80), []
    axis.plot(smooth, 10 ** (-smooth / 10) / DEVICES, label="receiver noise alone", **line(6))
    for number, bits in enumerate((1, 4, 8)):
        law = [conversion_error(bits, at) for at in smooth]
        axis.plot(smooth, law, label=f"{bits} bit{'s' * (bits > 1)}", **line(number))
        modelled, _ = _conversion_points(axis, number, levels, [(bits, level) for level in levels])
        numbers.append(quote(f"bits {bits}: error", modelled, {0: "0 dB", 3: "30 dB", 6: "60 dB"}))
    label(axis, "SNR of a device (dB)", ERROR, legend="lower left", yscale="log")
    return numbers


def _conversion_points(axis: Axes, number: int, places: Array, points: list[tuple[int, float]]) -> tuple[Array, Array]:
    """Draw and return the errors of the model per element and of samples in time."""
    modelled = np.array([_conversion_error(bits, level) for bits, level in points])
    axis.plot(places, modelled, **dots(number))
    in_time = np.array([_converted_in_time(bits, level) for bits, level in points])
    axis.plot(places, in_time, **{**dots(number), "fillstyle": "none", "markersize": 7})
    return modelled, in_time


def _conversion_error(bits: int, snr_db: float) -> float:
    """Return the mean error of rounds."""
    given = (*FIXED, f"grid.subcarriers={SUBCARRIERS}", f"hardware.adc_bits={bits}", f"power.max_snr_db={snr_db}")
    scenario = scenario_of(given, entries=ENTRIES, devices=DEVICES, selected=DEVICES)
    return float(errors(sent(scenario, ROUNDS)).mean())


def _converted_in_time(bits: int, snr_db: float) -> float:
    """Return the error of the sum of real symbols whose samples, with noise, go through a converter."""
    rng, waveform = np.random.default_rng([bits, int(snr_db)]), Waveform(SUBCARRIERS, 18, SUBCARRIERS)
    messages = rng.standard_normal((DEVICES, 160, SUBCARRIERS)) * 10 ** (snr_db / 20) + 0j
    samples = transmit(messages, waveform).samples.sum(axis=0)
    samples = samples + rng.standard_normal(samples.shape) + 1j * rng.standard_normal(samples.shape)
    output = Converter(bits).quantise(samples, float(np.sqrt((np.abs(samples) ** 2).mean() / 2)))
    missed = receive(output, waveform, 160).real - messages.sum(axis=0).real
    return float((missed**2).mean() / (DEVICES * (np.abs(messages) ** 2).mean()))
