"""The fronthaul of access points: the error against its resolution, and against the transmit power."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.access_points import CELL, DEVICES, points
from channel_effects.drawing import ERROR, label, line, panels, quote
from channel_effects.rounds import errors, scenario_of, sent

BITS = np.array([1, 2, 3, 4, 6, 8, 10, 12])
POWERS_DBM = np.array([3, 13, 23, 33, 43])
DROPS = 10


def fronthaul(figure: Figure) -> list[str]:
    """16 antennas at one point in the centre, or divided over 4 or 16 points on a circle of 180 m; a disc of 300 m,
    UMi, 256 subcarriers, full inversion, max-min, r = 16. Left the error by the bits of each part of a sample, at 33
    dBm; right by the transmit power, 4 points. Median of 10 drops of 2 rounds."""
    left, right = panels(figure)
    return [*_by_bits(left), *_by_power(right)]


def _error(count: int, bits: int | None, power_dbm: float) -> float:
    """Return the median error of this number of points."""
    given = [*CELL, points(count), "power.policy=full-inversion", f"power.tx_power_dbm={float(power_dbm)}"]
    if bits is not None:
        given.append(f"hardware.fronthaul_bits={bits}")
    found = []
    for seed in range(DROPS):
        scenario = scenario_of((*given, f"run.seed={seed}"), devices=DEVICES, selected=DEVICES)
        found.append(np.median(errors(sent(scenario, 2))))
    return float(np.median(found))


def _by_bits(axis: Axes) -> list[str]:
    numbers, at = [], {0: "1 bit", 3: "4 bits", 5: "8 bits", 7: "12 bits"}
    for number, (count, name) in enumerate({1: "1 point", 4: "4 points", 16: "16 points"}.items()):
        found = [_error(count, int(bits), 33) for bits in BITS]
        axis.plot(BITS, found, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: error", found, at))
    label(axis, "bits of each part of a sample", ERROR, legend="upper right", yscale="log")
    return numbers


def _by_power(axis: Axes) -> list[str]:
    numbers, at = [], {0: "3 dBm", 2: "23 dBm", 4: "43 dBm"}
    for number, (bits, name) in enumerate({2: "2 bits", 4: "4 bits", 8: "8 bits", None: "exact"}.items()):
        found = [_error(4, bits, float(power)) for power in POWERS_DBM]
        axis.plot(POWERS_DBM, found, label=name, **line(number, marked=True))
        numbers.append(quote(f"{name}: error", found, at))
    label(axis, "transmit power (dBm)", ERROR, legend="lower left", yscale="log")
    return numbers
