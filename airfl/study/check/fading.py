"""Checks of user-defined fading: the distribution and draws of a law, and the responses of a channel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from airfl.study.check import selective
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.draws import Draw, circular_gaussian
from channels.fading import (
    ChannelRequest,
    FlatFading,
    OwnChannel,
    SelectiveFading,
    check_law,
    check_response,
    flat_parts,
)
from channels.fading.law import fade_statistics
from channels.frame import Frame
from channels.part import Part

DRAWN, LEVEL = 20_000, 1e-6
"""Number of draws from a law, and the significance level: the probability that a correct law is rejected."""
THRESHOLDS = (0.01, 0.1, 1.0)
DEVICES, ANTENNAS, ROUNDS = 7, 2, 300
SHARE = 1e-6
"""Relative tolerance of a closed form."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a law or channel. They need no runs. There are none for recorded gains."""
    del overrides

    def of(find: Callable[..., str | None], what: str, *after: str) -> Check:
        name = find.__name__.rpartition("parameters")[1] or find.__name__.replace("_", "-")
        return Check(name, what, partial(find, part), after)

    if isinstance(part, FlatFading):
        return [
            of(law, "cdf and quantile are inverse to each other, the mean is 1, the mean square is as declared"),
            of(draws, "the gains of devices have that law", "law"),
            of(inverse_power, "a closed form of the power of channel inversion matches the integral", "law"),
            of(law_parameters, "every parameter is read", "law"),
        ]
    if isinstance(part, OwnChannel):
        return [
            of(response, "H is finite and has the requested axes"),
            of(same_again, "requests for the same round and devices give the same H", "response"),
            of(alone, "the H of a device does not depend on the other devices in a request", "response"),
            of(power, "the mean power is as declared", "response"),
            of(channel_parameters, "every parameter is read", "response"),
        ]
    return selective.checks(part) if isinstance(part, SelectiveFading) else []


def law(fading: FlatFading) -> str | None:
    """Check the law as a run does."""
    check_law(fading.law(), repr(fading))
    return None


def draws(fading: FlatFading) -> str | None:
    """Compare the distribution of |h|, drawn as in a run, with the cdf by the Kolmogorov-Smirnov test."""
    made = fading.law()
    if made.constant or made.atoms:
        return None
    uniforms = np.random.default_rng(5).random((DRAWN, 3))
    diffuse, phases = circular_gaussian(uniforms[:, :2]), uniforms[:, 2]
    parts = flat_parts(made, diffuse, phases, scale=1.0, min_gain=0.0, max_gain=math.inf, bounds="clip")
    p_value = float(kstest(np.abs(parts.gains).ravel(), made.cdf).pvalue)
    if p_value < LEVEL:
        return f"{DRAWN:,} gains do not follow the law's cdf (p = {p_value:.2g}); check line_of_sight and mean_square"
    return None


def inverse_power(fading: FlatFading) -> str | None:
    """Compare the closed form with the integral at three thresholds."""
    made = fading.law()
    if made.closed_inverse_power is None:
        return None
    integral = fade_statistics(replace(made, closed_inverse_power=None)).inverse_power
    for threshold in THRESHOLDS:
        closed, expected = made.closed_inverse_power(threshold), integral(threshold)
        if not math.isclose(closed, expected, rel_tol=SHARE, abs_tol=1e-12):
            return f"closed_inverse_power({threshold:g}) is {closed:.6g}, but the integral is {expected:.6g}"
    return None


def law_parameters(fading: FlatFading) -> str | None:
    """Check that creating and evaluating the law reads all parameters."""
    spied, read = recording(fading)
    made = spied.law()
    made.cdf(np.ones(1))
    made.quantile(np.full(1, 0.5))
    return unread(fading, read)


def response(channel: OwnChannel) -> str | None:
    """Check responses for all devices, for one, and for different numbers of antennas."""
    for one in (request(0, range(DEVICES)), request(5, [3]), request(1, [0, 6], antennas=1), request(2, range(2))):
        answer(channel, one)
    return None


def same_again(channel: OwnChannel) -> str | None:
    """Compare the responses to two equal requests bit for bit, with one for another round in between."""
    first = answer(channel, request(3, range(DEVICES)))
    answer(channel, request(4, range(DEVICES)))
    if not np.array_equal(first, answer(channel, request(3, range(DEVICES)))):
        return "gives another H when called again; draw random numbers from `per_round` and `per_run` alone"
    return None


def alone(channel: OwnChannel) -> str | None:
    """Compare the response of a device alone with that among all."""
    for index in (0, 3):
        together = answer(channel, request(index, range(DEVICES)))
        for device in range(DEVICES):
            if not np.allclose(answer(channel, request(index, [device]))[0], together[device], rtol=1e-9, atol=0):
                return f"device {device} has another H in round {index} when requested alone"
    return None


def power(channel: OwnChannel) -> str | None:
    """Compare with the mean over rounds of all devices, whose powers are assumed to be independent between rounds."""
    declared = channel.mean_power(DEVICES)
    if declared is None:
        return None
    declared = np.asarray(declared, dtype=np.float64)
    if declared.shape != (DEVICES,) or not (np.isfinite(declared).all() and (declared > 0).all()):
        return f"mean_power({DEVICES}) must be a finite positive number for each device, got {declared}"
    powers = np.array([_power(answer(channel, request(index, range(DEVICES)))) for index in range(ROUNDS)]) / declared
    mean, spread = powers.mean(), float(powers.mean(axis=1).std()) / math.sqrt(ROUNDS)
    if abs(mean - 1) > 5 * spread + SHARE:
        return f"over {ROUNDS} rounds E|H|^2 is {mean:.4g} times the declared mean_power"
    return None


def channel_parameters(channel: OwnChannel) -> str | None:
    """Check that a response, or the mean power, reads all parameters."""
    spied, read = recording(channel)
    answer(spied, request(0, range(DEVICES)))
    spied.mean_power(DEVICES)
    return unread(channel, read)


def answer(channel: OwnChannel, made: ChannelRequest) -> NDArray[np.complex128]:
    """Return H in full shape after checking it as a run does."""
    return check_response(channel.response(made), made, channel)


def request(index: int, devices: Sequence[int], antennas: int = ANTENNAS) -> ChannelRequest:
    """Return a request for five subcarriers and three blocks of two symbols."""
    frame = Frame(np.arange(5, dtype=np.float64) * 15e3, elements=28, symbol_s=7e-5, symbols_per_block=2)
    per_round, per_run = _draw(devices, index + 1), _draw(devices, 0)
    return ChannelRequest(index, np.array(devices, dtype=np.int64), antennas, frame, 0.01 * index, per_round, per_run)


def _draw(devices: Sequence[int], stream: int) -> Draw:
    return lambda count: np.array([np.random.default_rng([stream, one]).random(count) for one in devices])


def _power(response: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.asarray((np.abs(response) ** 2).mean(axis=(1, 2, 3)))
