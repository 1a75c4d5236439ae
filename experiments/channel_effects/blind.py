"""Blind aggregation: the error of the decoded mean against the antennas, with the terms of its law."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from channel_effects.drawing import ERROR, dots, label, line, panels, quote
from channel_effects.rounds import RAYLEIGH, Array, errors, scenario_of, sent
from channels.units import db_to_linear

DEVICES, ROUNDS = 16, 200
COUNTS = np.array([1, 2, 4, 8, 16, 32, 64, 128, 256])
PLACES = {0: "K = 1", 4: "16", 8: "256"}
TERMS = ("signal", "interference", "noise", "estimate")


def blind(figure: Figure) -> list[str]:
    """Left: the terms of the law at 0 dB, and mean (dots) and median (open) of rounds; right: the mean by the SNR of a
    device. r = 16, Rayleigh, real payload, one LS pilot, 200 rounds."""
    left, right = panels(figure)
    return [*_by_term(left), *_by_snr(right)]


def law(snr_db: float, antennas: Array) -> dict[str, Array]:
    """Return the terms of the error at E|h|^2 = 1, for messages whose entries are independent with mean square 1.

    Times r K, the page's terms have the means r, r (r - 1)/2, r/SNR and (r + 2/SNR)/SNR over r, as alpha^2 = SNR with
    sigma_0 = 1, and nu = 2/SNR with one pilot; the power of the mean is 1/r.
    """
    snr = float(db_to_linear(snr_db))
    means = (1.0, (DEVICES - 1) / 2, 1 / snr, (DEVICES + 2 / snr) / (DEVICES * snr))
    return {term: mean / antennas for term, mean in zip(TERMS, means, strict=True)}


def total(snr_db: float, antennas: Array) -> Array:
    """Return the sum of the terms."""
    return np.asarray(sum(law(snr_db, antennas).values()))


def _by_term(axis: Axes) -> list[str]:
    rounds = [_errors(int(count), 0.0) for count in COUNTS]
    means, medians = (np.array([of(one) for one in rounds]) for of in (np.mean, np.median))
    for number, (term, values) in enumerate(law(0.0, COUNTS).items()):
        axis.plot(COUNTS, values, label=term, **line(number))
    axis.plot(COUNTS, total(0.0, COUNTS), label="all", **line(6))
    axis.plot(COUNTS, means, **dots(6))
    axis.plot(COUNTS, medians, **{**dots(6), "fillstyle": "none", "markersize": 6})
    _label(axis)
    slope = np.polyfit(np.log(COUNTS[2:]), np.log(medians[2:]), 1)[0]
    shares = [f"{100 * values[0] / total(0.0, COUNTS)[0]:.0f} % {term}" for term, values in law(0.0, COUNTS).items()]
    return [
        f"0 dB: {', '.join(shares)}",
        quote("0 dB: law", total(0.0, COUNTS), PLACES),
        quote("0 dB: mean", means, PLACES),
        quote("0 dB: median", medians, PLACES),
        f"0 dB: the median falls as K^{slope:.2f} from 4 antennas on",
    ]


def _by_snr(axis: Axes) -> list[str]:
    numbers = []
    for number, level in enumerate((-10.0, 0.0, 20.0)):
        means = np.array([_errors(int(count), level).mean() for count in COUNTS])
        axis.plot(COUNTS, total(level, COUNTS), label=f"{level:g} dB", **line(number))
        axis.plot(COUNTS, means, **dots(number))
        ratios = means / total(level, COUNTS)
        numbers.append(f"{level:g} dB: mean over the law {ratios.min():.2f} to {ratios.max():.2f}")
    _label(axis)
    return numbers


def _label(axis: Axes) -> None:
    ticks: dict[str, Any] = {"xscale": "log", "xticks": COUNTS, "xticklabels": [str(count) for count in COUNTS]}
    label(axis, "receive antennas K", ERROR, legend="lower left", yscale="log", **ticks)
    axis.minorticks_off()


def _errors(count: int, snr_db: float) -> Array:
    """Return the error of each round."""
    unit = (
        *RAYLEIGH,
        "scheme.name=blind",
        "csi.estimation=ls",
        f"antennas.count={count}",
        f"power.max_snr_db={snr_db}",
    )
    return errors(sent(scenario_of(unit, devices=DEVICES, selected=DEVICES), ROUNDS))
