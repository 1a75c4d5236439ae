"""Checks of user-defined frequency-selective channels by their responses, without runs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.draws import Draw
from channels.frame import Frame
from channels.selective import SelectiveFading, SelectiveRequest, SelectiveResponse

DEVICES, ANTENNAS, MANY = 5, 2, 600
SPACING_HZ, SYMBOL_S = 15e3, 7e-5
SPEED_M_S = 20.0
"""Speed of moving devices: a Doppler shift of 160 Hz at 2.4 GHz, and so a coherence time of a few ms."""
SHARE = 1e-3
"""Tolerance of a known mean, and of values in single precision."""
DEVIATIONS = 5.0
CORRELATION = 0.9
ODD = 83_119
"""A seed that is not used elsewhere."""
VARIATIONS = ("independent", "constant", "jakes")


def checks(part: SelectiveFading) -> list[Check]:
    """Return the checks of a model."""

    def of(find: Callable[[SelectiveFading], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(response, "H is finite and has the requested axes"),
        of(same_again, "requests for the same round and devices give the same H", "response"),
        of(alone, "the H of a device does not depend on the other devices in a request", "response"),
        of(power, "the mean power is as declared", "response"),
        of(variations, "H varies over rounds as `variations` declares", "response"),
        of(subcarriers, "the H of a subcarrier does not depend on the other subcarriers in a request", "response"),
        of(correlation, "antennas have the requested correlation", "response"),
        of(parameters, "every parameter is read", "response"),
    ]


def response(model: SelectiveFading) -> str | None:
    """Check responses for static and moving devices: all of them, one, and none."""
    unknown = [one for one in model.variations if one not in VARIATIONS]
    if unknown or not model.variations:
        return f"variations must be some of {', '.join(VARIATIONS)}, got {model.variations}"
    for variation in model.variations:
        for speed in (0.0, SPEED_M_S):
            for devices in (range(DEVICES), [3], []):
                answer(model, request(1, devices, variation=variation, speed_m_s=speed))
    answer(model, request(0, range(2), variation=model.variations[0], antennas=1))
    return None


def same_again(model: SelectiveFading) -> str | None:
    """Compare responses to two equal requests bit for bit.

    In between, H is scaled in place, as in a run, and another round is requested. Global random generators must not be
    used.
    """
    for variation in model.variations:
        repeated = request(3, range(DEVICES), variation=variation)
        with _untouched():
            first = answer(model, repeated)
        before = first.response.copy()
        first.response[...] *= np.float32(0.5)
        answer(model, request(4, range(DEVICES), variation=variation))
        if not np.array_equal(before, answer(model, repeated).response):
            return (
                "gives another H when called again; draw random numbers only from `per_round` and `per_run` of the "
                "request, and return a new array each time, because a run scales it in place"
            )
    return None


def alone(model: SelectiveFading) -> str | None:
    """Compare the response of a device alone with that among all."""
    for variation in model.variations:
        together = answer(model, request(3, range(DEVICES), variation=variation)).response
        for device in range(DEVICES):
            apart = answer(model, request(3, [device], variation=variation)).response[0]
            if not _near(apart, together[device]):
                return f"device {device} has another H when requested alone, with variation = {variation!r}"
    return None


def power(model: SelectiveFading) -> str | None:
    """Check that E|H|^2 = 1 over many independent devices, if no path is later than the cyclic prefix."""
    for variation in model.variations:
        of_many = request(0, range(MANY), variation=variation, prefix_s=math.inf)
        powers = (np.abs(answer(model, of_many).response) ** 2).mean(axis=(1, 2, 3))
        mean, spread = float(powers.mean()), float(powers.std()) / math.sqrt(MANY)
        if abs(mean - 1) > DEVIATIONS * spread + SHARE:
            return f"E|H|^2 over {MANY} devices with variation = {variation!r} must be 1, got {mean:.4g}"
    return None


def variations(model: SelectiveFading) -> str | None:
    """Check each variation: a new fade per round, a constant one, or a process that continues over rounds."""
    devices = range(DEVICES)
    for variation in model.variations:
        first = request(0, devices, variation=variation)
        one, other = (answer(model, each).response for each in (first, request(7, devices, variation=variation)))
        if variation == "independent" and _near(one, other):
            return "every round has the same H with variation = 'independent'; draw from `request.draw`"
        if variation == "constant" and not _near(one, other):
            return "rounds have different H with variation = 'constant'; draw from `request.draw`"
        if variation == "jakes":
            late = replace(request(1, devices, variation=variation), start_s=first.start_s + first.frame.block_s)
            if not _near(answer(model, late).response[:, :, 0], one[:, :, 1]):
                return (
                    "a round that starts a block later does not have the H of the second block, with "
                    "variation = 'jakes'; measure time from `request.first_block_s`"
                )
    return None


def subcarriers(model: SelectiveFading) -> str | None:
    """Compare a request for two of the subcarriers, over the same bandwidth, with one for all."""
    of_all = request(0, range(DEVICES), variation=model.variations[0])
    frame = Frame(of_all.frame.frequencies_hz[1:4:2], of_all.frame.elements, SYMBOL_S, of_all.frame.symbols_per_block)
    fewer = replace(frame, elements=frame.subcarriers * of_all.frame.symbols)
    of_two = answer(model, replace(of_all, frame=fewer)).response
    if not _near(of_two, answer(model, of_all).response[..., 1:4:2]):
        return "H of a subcarrier changes when fewer are requested; use `request.frame.frequencies_hz`"
    return None


def correlation(model: SelectiveFading) -> str | None:
    """Check Gaussian (entirely diffuse) channels with independent antennas and with two correlated ones."""
    if not model.gaussian or model.own_angles:
        return None
    matrix = np.array([[1, CORRELATION], [CORRELATION, 1]])
    values, vectors = np.linalg.eigh(matrix)
    root = (vectors * np.sqrt(values)) @ vectors.T
    of_many = request(0, range(MANY), variation=model.variations[0])
    for expected, roots in ((0.0, None), (CORRELATION, np.broadcast_to(root + 0j, (MANY, 2, 2)))):
        gains = answer(model, replace(of_many, spatial_roots=roots)).response[:, :, 0, 0].astype(complex)
        observed = complex((gains[:, 0] * gains[:, 1].conj()).mean() / (np.abs(gains) ** 2).mean())
        if abs(observed - expected) > DEVIATIONS / math.sqrt(MANY):
            return (
                f"the correlation of two antennas must be {expected:g}, got {abs(observed):.3g}; draw antennas "
                "independently and apply `request.spatial_roots` (`channels.draws.correlate`)"
            )
    return None


def parameters(model: SelectiveFading) -> str | None:
    """Check that a response, or the delay spread, reads all parameters."""
    spied, read = recording(model)
    for variation in model.variations:
        answer(spied, request(0, range(DEVICES), variation=variation))
    _ = spied.spread_s
    return unread(model, read)


def answer(model: SelectiveFading, made: SelectiveRequest) -> SelectiveResponse:
    """Return the response to a request; ValueError with one line if it is not valid."""
    response = model.respond(made)
    if not isinstance(response, SelectiveResponse):
        raise ValueError(f"respond must return a SelectiveResponse, got {type(response).__name__}")
    shape = (len(made.per_round(1)), made.antennas, made.blocks, made.frame.subcarriers)
    _check_array("H", response.response, shape, "c")
    if not response.response.flags.writeable:
        raise ValueError("H must be writeable, because a run scales it in place; return a copy")
    if response.leaked_power is not None:
        _check_array("leaked_power", response.leaked_power, (shape[0], *shape[2:]), "f")
        if (response.leaked_power < 0).any():
            raise ValueError(f"leaked_power must be a power of at least 0, got {response.leaked_power.min():g}")
    return response


def request(
    index: int,
    devices: Sequence[int],
    *,
    variation: Any,
    speed_m_s: float = SPEED_M_S,
    antennas: int = ANTENNAS,
    prefix_s: float = 4.7e-6,
) -> SelectiveRequest:
    """Return a request for nine widely spaced subcarriers and three blocks of five symbols.

    Devices are 100 m away, every second one with line of sight.
    """
    frame = Frame(40 * SPACING_HZ * np.arange(-4.0, 5.0), elements=9 * 15, symbol_s=SYMBOL_S, symbols_per_block=5)
    ids = np.array(devices, dtype=np.int64)
    azimuths = 0.4 * ids
    return SelectiveRequest(
        frame=frame,
        antennas=antennas,
        carrier_hz=2.4e9,
        speed_m_s=speed_m_s,
        variation=variation,
        start_s=0.1 * index,
        per_round=_draw(devices, index + 1),
        per_run=_draw(devices, 0),
        bandwidth_hz=360 * SPACING_HZ,
        positions_m=np.stack([100 * np.cos(azimuths), 100 * np.sin(azimuths), np.full(len(ids), 1.5)], axis=1),
        line_of_sight=ids % 2 == 0,
        prefix_s=prefix_s,
        spacing_hz=SPACING_HZ,
    )


def _draw(devices: Sequence[int], stream: int) -> Draw:
    def draw(count: int) -> NDArray[np.float64]:
        rows = [np.random.default_rng([stream, one]).random(count) for one in devices]
        return np.array(rows, dtype=np.float64).reshape(len(devices), count)

    return draw


def _check_array(what: str, array: object, shape: tuple[int, ...], kind: str) -> None:
    if not isinstance(array, np.ndarray) or array.dtype.kind != kind:
        got = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{what} must be an array of {'complex' if kind == 'c' else 'real'} numbers, got {got}")
    if array.shape != shape:
        axes = "[devices, antennas, blocks, subcarriers]" if kind == "c" else "[devices, blocks, subcarriers]"
        raise ValueError(f"{what} must have shape {axes} = {shape}, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{what} must be finite")


def _near(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether arrays are equal to single precision."""
    return bool(np.allclose(one, other, rtol=SHARE, atol=SHARE))


@contextmanager
def _untouched() -> Iterator[None]:
    """Raise ValueError if the block draws from or seeds a global random generator, and restore their states."""
    import torch

    def states() -> tuple[Any, ...]:
        return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002

    def as_text() -> str:
        return "|".join(str(one.numpy().tobytes() if hasattr(one, "numpy") else one) for one in states())

    saved = states()
    try:
        random.seed(ODD)
        np.random.seed(ODD)  # noqa: NPY002
        torch.manual_seed(ODD)
        before = as_text()
        yield
        if as_text() != before:
            raise ValueError(
                "draws from or seeds a global generator; draw from the request's `per_round` and `per_run`"
            )
    finally:
        random.setstate(saved[0])
        np.random.set_state(saved[1])  # noqa: NPY002
        torch.set_rng_state(saved[2])
