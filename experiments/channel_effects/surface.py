"""A reconfigurable surface: its coherent gain, and what its phases do for many devices at once."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import RAYLEIGH, Array, errors, opened, scenario_of, sent

COUNTS = np.array([4, 8, 16, 32, 64, 128, 256])
PLACES = {0: "4", 4: "64", 6: "256"}
GAIN_DB = -20.0
IN_SIGHT = (f"surface.element_gain_db={GAIN_DB}", "surface.base_k=1e6")
DEVICES, ONE_DEVICE_ROUNDS, ROUNDS = 16, 200, 30


def surface(figure: Figure) -> list[str]:
    """Left: mean power of one device's channel over that of its direct path, by the resolution of the phases, 200
    rounds. Right: error for 16 devices of 10 dB, median of 30 rounds. Rayleigh, an element 20 dB below the direct path,
    4 bits on the right."""
    left, right = panels(figure)
    return [*_of_one(left), *_of_many(right)]


def mean_power(elements: Array, bits: int, gain: float) -> Array:
    """Return E|h|^2 for phases that are turned to that of the direct path, E|h_d|^2 = 1, to within pi/2^b.

    The mean of e^(j error) is s = 2^b sin(pi/2^b)/pi, and E|h_d| = E|g| = sqrt(pi)/2.
    """
    share = 2**bits * math.sin(math.pi / 2**bits) / math.pi
    mean = math.pi / 4
    alone = 1 + elements * gain
    return alone + 2 * share * mean * np.sqrt(gain) * elements + share**2 * mean * gain * elements * (elements - 1)


def _of_one(axis: Axes) -> list[str]:
    numbers = []
    smooth = np.geomspace(COUNTS[0], COUNTS[-1], 60)
    for number, bits in enumerate((1, 2, 4)):
        found, name = [], f"{bits} bit{'s'[: bits - 1]}"
        for count in COUNTS:
            scenario = scenario_of(
                (*RAYLEIGH, *IN_SIGHT, f"surface.elements={count}", f"surface.phase_bits={bits}"), devices=1, selected=1
            )
            gains = [plan.channel.gains[0] for plan in opened(scenario, ONE_DEVICE_ROUNDS)]
            found.append(float(np.mean(np.abs(gains) ** 2)))
        axis.plot(smooth, mean_power(smooth, bits, 10 ** (GAIN_DB / 10)), label=name, **line(number))
        axis.plot(COUNTS, found, **dots(number))
        numbers.append(quote(f"{name}: mean power", found, PLACES, ".3g"))
        ratios = np.array(found) / mean_power(COUNTS, bits, 10 ** (GAIN_DB / 10))
        numbers.append(f"{name}: over the law {ratios.min():.2f} to {ratios.max():.2f}")
    axis.plot(smooth, 1 + smooth * 10 ** (GAIN_DB / 10), label="random phases", **line(3))
    label(axis, "elements M", "E|h|² over the direct path's", legend="upper left", xscale="log", yscale="log")
    return numbers


def _of_many(axis: Axes) -> list[str]:
    numbers = []
    blind = ("power.policy=blind", "antennas.combining=aligned-sum", "surface.configuration=alignment")
    for number, (name, given) in enumerate(
        {
            "random, full inversion": ("power.policy=full-inversion", "surface.configuration=random"),
            "max-min, full inversion": ("power.policy=full-inversion",),
            "alignment, no CSI at devices": blind,
        }.items()
    ):
        medians = np.array([float(np.median(_errors(int(count), *given))) for count in COUNTS])
        axis.plot(COUNTS, medians, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: error", medians, PLACES))
    label(axis, "elements M", ERROR, legend="lower left", xscale="log", yscale="log")
    return numbers


def _errors(count: int, *given: str) -> Array:
    unit = (*RAYLEIGH, "power.max_snr_db=10.0", f"surface.elements={count}", f"surface.element_gain_db={GAIN_DB}")
    return errors(sent(scenario_of((*unit, *given), devices=DEVICES, selected=DEVICES), ROUNDS))
