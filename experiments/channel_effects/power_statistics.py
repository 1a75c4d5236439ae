"""Power control by statistics: devices that know mean powers, pre-scalers, and messages with a part in common."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import brentq, minimize_scalar

from channel_effects.drawing import dots, label, line, panels, quote
from channel_effects.rounds import RAYLEIGH, Array, Round, errors, scenario_of, sent

DEVICES = 10
KAPPA = math.pi / 4  # (E|h|)^2/E|h|^2 of Rayleigh fading
SPREAD_DB = 10.0  # half of the range of the devices' limits
LEVELS = np.arange(-5.0, 31.0, 5.0)
SHARES = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.95])
SUM = "error of the sum per device"


def statistical(figure: Figure) -> list[str]:
    """Left against the middle of limits that differ by 20 dB, 300 rounds; right against the share of the messages'
    power in a common part, limits from -5 to 15 dB, 150 rounds. 10 devices, Rayleigh."""
    left, right = panels(figure)
    return [*_against_snr(left), *_against_common_share(right)]


def _against_snr(axis: Axes) -> list[str]:
    policies: dict[str, tuple[tuple[str, ...], Callable[[Array], float]]] = {
        "mean power, unbiased": (_named("statistical", "objective=unbiased"), _unbiased),
        "mean power, least error": (_named("statistical", "objective=least-error"), _least_error),
        "pre-scalers, unbiased": (_named("statistical-truncation", "prescalers=unbiased"), _unbiased_prescalers),
        "pre-scalers, least error": (_named("statistical-truncation"), _best_prescalers),
    }
    numbers = []
    for number, (name, (overrides, law)) in enumerate(policies.items()):
        rounds = [_rounds(level, 300, *overrides) for level in LEVELS]
        measured = [errors(one).mean() for one in rounds]
        axis.plot(LEVELS, [law(_limits(level)) for level in LEVELS], label=name, **line(number))
        axis.plot(LEVELS, measured, **dots(number))
        numbers.append(quote(f"{name}: error", measured, {1: "0 dB", 3: "10 dB", 5: "20 dB"}))
    known = [errors(_rounds(level, 300, *_named("cao"))).mean() for level in LEVELS]
    axis.plot(LEVELS, known, label="channels known, Cao et al.", **line(len(policies), marked=True))
    numbers.append(quote("channels known, Cao et al.: error", known, {1: "0 dB", 3: "10 dB", 5: "20 dB"}))
    label(axis, "P/σ0² (dB), middle of ±10 dB", SUM, legend="upper right", yscale="log", ylim=(1e-3, 300))
    return numbers


def _against_common_share(axis: Axes) -> list[str]:
    numbers, limits = [], _limits(5.0)
    for number, name in enumerate(("cao", "correlated")):
        measured, expected = [], []
        for share in SHARES:
            given = _named(name, *((f"common_share={share}",) if name == "correlated" else ()))
            rounds = _rounds(5.0, 150, *given, common_share=float(share))
            measured.append(errors(rounds).mean())
            assumed = float(share) if name == "correlated" else 0.0
            expected.append(np.mean([_correlated(one, limits, assumed, float(share)) for one in rounds]))
        title = "Cao et al." if name == "cao" else "correlated"
        axis.plot(SHARES, expected, label=title, **line(number))
        axis.plot(SHARES, measured, **dots(number))
        numbers.append(quote(f"{title}: error", measured, {0: "none in common", 3: "60%", 5: "95%"}))
    label(axis, "share of power in common", SUM, legend="upper left")
    return numbers


def _named(policy: str, *parameters: str) -> tuple[str, ...]:
    return (f"power.policy={policy}", *(f"power.{one}" for one in parameters))


def _rounds(level_db: float, count: int, *overrides: str, common_share: float = 0.0) -> list[Round]:
    limits = f"power.max_snr_db=[{level_db - SPREAD_DB},{level_db + SPREAD_DB}]"
    unit = (*RAYLEIGH, limits, "power.spacing=db", *overrides)
    return sent(scenario_of(unit, devices=DEVICES, selected=DEVICES), count, common_share)


def _limits(level_db: float) -> Array:
    """Return P_i/sigma_0^2 of the devices, [devices]."""
    limits = f"power.max_snr_db=[{level_db - SPREAD_DB},{level_db + SPREAD_DB}]"
    scenario = scenario_of((*RAYLEIGH, limits, "power.spacing=db"), devices=DEVICES, selected=DEVICES)
    return np.asarray(scenario.power_limits / scenario.dimension)


# The closed forms, implemented independently of the policies; E|h|^2 = 1.


def _unbiased(limits: Array) -> float:
    return float(1 / KAPPA - 1 + 1 / (KAPPA * limits.min()) / DEVICES)


def _least_error(limits: Array) -> float:
    reaches = np.sort(np.sqrt(limits / KAPPA))
    beta = np.min((1 / KAPPA + np.cumsum(reaches**2)) / np.cumsum(reaches))
    short = KAPPA * (np.minimum(reaches / beta, 1) - 1) ** 2
    return float((short + 1 - KAPPA).sum() + 1 / beta**2) / DEVICES


def _unbiased_prescalers(limits: Array) -> float:
    """Of all strengths s that every device can have, the least of sum_i (gamma_i/s - 1) + 1/s^2."""
    scales = np.sqrt(limits)

    def error(strength: float) -> float:
        found = [_threshold(strength / one) for one in scales]
        return float((scales * found / strength - 1).sum() + 1 / strength**2) / DEVICES

    most = scales.min() * math.exp(-0.5) / math.sqrt(2)
    return float(minimize_scalar(error, bounds=(most * 1e-3, most), method="bounded").fun)


def _threshold(strength: float) -> float:
    """Return u up to 1/sqrt(2) with u exp(-u^2) = strength."""
    top = 1 / math.sqrt(2)
    if strength >= top * math.exp(-0.5):
        return top
    return float(brentq(lambda u: u * math.exp(-u * u) - strength, 0, top))


def _best_prescalers(limits: Array) -> float:
    """For each beta, the root x = gamma/beta of (1 - x) P_i = x^2 (2 - x) beta^2 is best; the least over beta."""

    def error(exponent: float) -> float:
        beta = math.exp(exponent)
        total = 0.0
        for limit in limits:
            x = brentq(lambda x, limit=limit: (1 - x) * limit - x * x * (2 - x) * beta**2, 0, 1)
            share = math.exp(-((x * beta) ** 2) / limit)
            total += share * (x - 1) ** 2 + 1 - share
        return (total + 1 / beta**2) / DEVICES

    return float(minimize_scalar(error, bounds=(-5, 8), method="bounded").fun)


def _correlated(one: Round, limits: Array, assumed: float, share: float) -> float:
    """Return the error for the fades of a round, with power control for a share of the power in common and messages
    with another one."""
    reaches, odds = np.abs(one.plan.channel.gains) * np.sqrt(limits), assumed / (1 - assumed)

    def missing_at(inverse: float) -> Array:
        short = reaches * inverse - 1
        level = brentq(lambda t: t + odds * np.minimum(t, short).sum(), 0, odds * DEVICES) if odds else 0.0
        return np.minimum(level, short)

    def error(inverse: float, common: float) -> float:
        missing = missing_at(inverse)
        return float(common * missing.sum() ** 2 + (1 - common) * (missing**2).sum() + inverse**2) / DEVICES

    highest = (1 + odds * DEVICES) / reaches.min()
    best = minimize_scalar(lambda y: error(y, assumed), bounds=(0, highest), method="bounded", options={"xatol": 1e-10})
    return error(float(best.x), share)
