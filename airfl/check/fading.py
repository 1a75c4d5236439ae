"""What fading of the user's own has to hold: a law as a distribution and by its draws, a channel by what it answers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from airfl.check import selective
from airfl.check.finding import Check
from airfl.check.reading import recording
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
"""Draws of a law, and the chance at which a law that is right is told wrong by them."""
THRESHOLDS = (0.01, 0.1, 1.0)
DEVICES, ANTENNAS, ROUNDS = 7, 2, 300
SHARE = 1e-6
"""By how much a closed form may be off."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one law or channel, which needs no runs. Of recorded gains nothing is asked."""
    del overrides

    def of(find: Callable[..., str | None], what: str, *after: str) -> Check:
        name = find.__name__.rpartition("parameters")[1] or find.__name__.replace("_", "-")
        return Check(name, what, partial(find, part), after)

    if isinstance(part, FlatFading):
        return [
            of(law, "cdf and quantile are inverse to each other, the mean is 1, the mean square is as said"),
            of(draws, "the gains of devices have that law", "law"),
            of(inverse_power, "a closed form of the power of inversion is the integral", "law"),
            of(law_parameters, "every parameter is read", "law"),
        ]
    if isinstance(part, OwnChannel):
        return [
            of(response, "H is finite, and of the axes that were asked for"),
            of(same_again, "a round and its devices have the same H whenever they are asked for", "response"),
            of(alone, "a device fades the same whoever else is asked for", "response"),
            of(power, "the mean power is as said", "response"),
            of(channel_parameters, "every parameter is read", "response"),
        ]
    return selective.checks(part) if isinstance(part, SelectiveFading) else []


def law(fading: FlatFading) -> str | None:
    """As a run holds it to it."""
    check_law(fading.law(), repr(fading))
    return None


def draws(fading: FlatFading) -> str | None:
    """Kolmogorov's test of |h|, drawn as a run draws it."""
    found = fading.law()
    if found.constant or found.atoms:
        return None
    uniforms = np.random.default_rng(5).random((DRAWN, 3))
    diffuse, turns = circular_gaussian(uniforms[:, :2]), uniforms[:, 2]
    parts = flat_parts(found, diffuse, turns, scale=1.0, min_gain=0.0, max_gain=math.inf, bounds="clip")
    p_value = float(kstest(np.abs(parts.gains).ravel(), found.cdf).pvalue)
    if p_value < LEVEL:
        return f"{DRAWN:,} gains are not of the law's cdf (p = {p_value:.2g}); look at line_of_sight and mean_square"
    return None


def inverse_power(fading: FlatFading) -> str | None:
    """At three thresholds."""
    found = fading.law()
    if found.closed_inverse_power is None:
        return None
    integral = fade_statistics(replace(found, closed_inverse_power=None)).inverse_power
    for threshold in THRESHOLDS:
        closed, wanted = found.closed_inverse_power(threshold), integral(threshold)
        if not math.isclose(closed, wanted, rel_tol=SHARE, abs_tol=1e-12):
            return f"closed_inverse_power({threshold:g}) is {closed:.6g}, the integral is {wanted:.6g}"
    return None


def law_parameters(fading: FlatFading) -> str | None:
    """By its law."""
    spied, read = recording(fading)
    made = spied.law()
    made.cdf(np.ones(1))
    made.quantile(np.full(1, 0.5))
    return _unread(fading, read)


def response(channel: OwnChannel) -> str | None:
    """Of all devices, one, and of several blocks and antennas."""
    for asked in (request(0, range(DEVICES)), request(5, [3]), request(1, [0, 6], antennas=1), request(2, range(2))):
        answer(channel, asked)
    return None


def same_again(channel: OwnChannel) -> str | None:
    """Bit for bit, after another round was asked for."""
    first = answer(channel, request(3, range(DEVICES)))
    answer(channel, request(4, range(DEVICES)))
    if not np.array_equal(first, answer(channel, request(3, range(DEVICES)))):
        return "gives another H when it is asked again; draw from `fresh` and `lasting` of the request alone"
    return None


def alone(channel: OwnChannel) -> str | None:
    """By itself, and among all."""
    for index in (0, 3):
        together = answer(channel, request(index, range(DEVICES)))
        for device in range(DEVICES):
            if not np.allclose(answer(channel, request(index, [device]))[0], together[device], rtol=1e-9, atol=0):
                return f"device {device} has another H in round {index} where it is asked for alone"
    return None


def power(channel: OwnChannel) -> str | None:
    """Against the mean over rounds of all devices, whose powers are taken to be independent between rounds."""
    said = channel.mean_power(DEVICES)
    if said is None:
        return None
    said = np.asarray(said, dtype=np.float64)
    if said.shape != (DEVICES,) or not (np.isfinite(said).all() and (said > 0).all()):
        return f"mean_power({DEVICES}) is {said}; finite numbers above 0, one of each device, are wanted"
    powers = np.array([_power(answer(channel, request(index, range(DEVICES)))) for index in range(ROUNDS)]) / said
    mean, spread = powers.mean(), float(powers.mean(axis=1).std()) / math.sqrt(ROUNDS)
    if abs(mean - 1) > 5 * spread + SHARE:
        return f"over {ROUNDS} rounds E|H|^2 is {mean:.4g} times what mean_power says"
    return None


def channel_parameters(channel: OwnChannel) -> str | None:
    """By an answer, its mean power, or what it says of itself."""
    spied, read = recording(channel)
    answer(spied, request(0, range(DEVICES)))
    spied.mean_power(DEVICES)
    return _unread(channel, read)


def answer(channel: OwnChannel, asked: ChannelRequest) -> NDArray[np.complex128]:
    """H in full shape, held to what is promised of it."""
    return check_response(channel.response(asked), asked, channel)


def request(index: int, devices: Sequence[int], antennas: int = ANTENNAS) -> ChannelRequest:
    """Five subcarriers, three blocks of two symbols."""
    frame = Frame(np.arange(5, dtype=np.float64) * 15e3, elements=28, symbol_s=7e-5, symbols_per_block=2)
    fresh, lasting = _draw(devices, index + 1), _draw(devices, 0)
    return ChannelRequest(index, np.array(devices, dtype=np.int64), antennas, frame, 0.01 * index, fresh, lasting)


def _draw(devices: Sequence[int], stream: int) -> Draw:
    return lambda count: np.array([np.random.default_rng([stream, one]).random(count) for one in devices])


def _power(found: NDArray[np.complex128]) -> NDArray[np.float64]:
    return np.asarray((np.abs(found) ** 2).mean(axis=(1, 2, 3)))


def _unread(part: Part, read: set[str]) -> str | None:
    unread = sorted(part.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None
