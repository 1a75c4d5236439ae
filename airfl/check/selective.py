"""What a frequency-selective channel of the user's own has to hold: by what it answers, without runs."""

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

from airfl.check.finding import Check
from airfl.check.reading import recording
from channels.draws import Draw
from channels.frame import Frame
from channels.selective import SelectiveFading, SelectiveRequest, SelectiveResponse

DEVICES, ANTENNAS, MANY = 5, 2, 600
SPACING_HZ, SYMBOL_S = 15e3, 7e-5
SPEED_M_S = 20.0
"""Of devices that move: 160 Hz of Doppler at 2.4 GHz, a new fade in some ms."""
SHARE = 1e-3
"""By how much a mean may be off that is known, and a number in single precision."""
DEVIATIONS = 5.0
CORRELATION = 0.9
ODD = 83_119
"""A seed that nobody else takes."""
VARIATIONS = ("independent", "constant", "jakes")


def checks(part: SelectiveFading) -> list[Check]:
    """Of one model."""

    def of(find: Callable[[SelectiveFading], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(response, "H is finite, and of the axes that were asked for"),
        of(same_again, "a round and its devices have the same H whenever they are asked for", "response"),
        of(alone, "a device fades the same whoever else is asked for", "response"),
        of(power, "the mean power is as said", "response"),
        of(variations, "H varies over rounds as `variations` says", "response"),
        of(subcarriers, "a subcarrier has the same H whichever others are asked for", "response"),
        of(correlation, "antennas are correlated as they were asked to be", "response"),
        of(parameters, "every parameter is read", "response"),
    ]


def response(model: SelectiveFading) -> str | None:
    """Standing and moving, of all devices, one, and none."""
    unknown = [one for one in model.variations if one not in VARIATIONS]
    if unknown or not model.variations:
        return f"variations is {model.variations}; some of {', '.join(VARIATIONS)} are wanted"
    for variation in model.variations:
        for speed in (0.0, SPEED_M_S):
            for devices in (range(DEVICES), [3], []):
                answer(model, request(1, devices, variation=variation, speed_m_s=speed))
    answer(model, request(0, range(2), variation=model.variations[0], antennas=1))
    return None


def same_again(model: SelectiveFading) -> str | None:
    """Bit for bit, after another round was asked for and H was scaled in place, as a run does; and nothing global is
    drawn from or seeded."""
    for variation in model.variations:
        asked = request(3, range(DEVICES), variation=variation)
        with _untouched():
            found = answer(model, asked)
        kept = found.response.copy()
        found.response[...] *= np.float32(0.5)
        answer(model, request(4, range(DEVICES), variation=variation))
        if not np.array_equal(kept, answer(model, asked).response):
            return (
                "gives another H when it is asked again; draw from `fresh` and `lasting` of the request alone, and "
                "give an array of its own each time, which a run scales in place"
            )
    return None


def alone(model: SelectiveFading) -> str | None:
    """By itself, and among all."""
    for variation in model.variations:
        together = answer(model, request(3, range(DEVICES), variation=variation)).response
        for device in range(DEVICES):
            found = answer(model, request(3, [device], variation=variation)).response[0]
            if not _near(found, together[device]):
                return f"device {device} has another H where it is asked for alone, with variation = {variation!r}"
    return None


def power(model: SelectiveFading) -> str | None:
    """E|H|^2 = 1 over many devices, whose fades are independent, where no path is later than the prefix."""
    for variation in model.variations:
        asked = request(0, range(MANY), variation=variation, prefix_s=math.inf)
        powers = (np.abs(answer(model, asked).response) ** 2).mean(axis=(1, 2, 3))
        mean, spread = float(powers.mean()), float(powers.std()) / math.sqrt(MANY)
        if abs(mean - 1) > DEVIATIONS * spread + SHARE:
            return f"E|H|^2 is {mean:.4g} over {MANY} devices with variation = {variation!r}, 1 is wanted"
    return None


def variations(model: SelectiveFading) -> str | None:
    """A new fade each round, one that stands, or a process that goes on where the last round left it."""
    devices = range(DEVICES)
    for variation in model.variations:
        first = request(0, devices, variation=variation)
        one, other = (answer(model, asked).response for asked in (first, request(7, devices, variation=variation)))
        if variation == "independent" and _near(one, other):
            return "every round has the same H with variation = 'independent'; draw from `request.draw`"
        if variation == "constant" and not _near(one, other):
            return "rounds have different H with variation = 'constant'; draw from `request.draw`"
        if variation == "jakes":
            late = replace(request(1, devices, variation=variation), start_s=first.start_s + first.frame.block_s)
            if not _near(answer(model, late).response[:, :, 0], one[:, :, 1]):
                return (
                    "a round that starts a block later has not the H of the second block, with variation = 'jakes'; "
                    "count time from `request.first_block_s`"
                )
    return None


def subcarriers(model: SelectiveFading) -> str | None:
    """Two of all, over the same bandwidth."""
    asked = request(0, range(DEVICES), variation=model.variations[0])
    frame = Frame(asked.frame.frequencies_hz[1:4:2], asked.frame.elements, SYMBOL_S, asked.frame.symbols_per_block)
    fewer = replace(frame, elements=frame.subcarriers * asked.frame.symbols)
    found = answer(model, replace(asked, frame=fewer)).response
    if not _near(found, answer(model, asked).response[..., 1:4:2]):
        return "H of a subcarrier is another where fewer are asked for; follow `request.frame.frequencies_hz`"
    return None


def correlation(model: SelectiveFading) -> str | None:
    """Of Gaussian channels, whose every part is diffuse: independent antennas, and two that are correlated."""
    if not model.gaussian or model.own_angles:
        return None
    matrix = np.array([[1, CORRELATION], [CORRELATION, 1]])
    values, vectors = np.linalg.eigh(matrix)
    root = (vectors * np.sqrt(values)) @ vectors.T
    asked = request(0, range(MANY), variation=model.variations[0])
    for wanted, roots in ((0.0, None), (CORRELATION, np.broadcast_to(root + 0j, (MANY, 2, 2)))):
        found = answer(model, replace(asked, spatial_roots=roots)).response[:, :, 0, 0].astype(complex)
        share = complex((found[:, 0] * found[:, 1].conj()).mean() / (np.abs(found) ** 2).mean())
        if abs(share - wanted) > DEVIATIONS / math.sqrt(MANY):
            return (
                f"two antennas that are to be correlated by {wanted:g} are by {abs(share):.3g}; "
                "antennas are independent but for `request.spatial_roots` (`channels.draws.correlate`)"
            )
    return None


def parameters(model: SelectiveFading) -> str | None:
    """By an answer, or by the delay spread that it says."""
    spied, read = recording(model)
    for variation in model.variations:
        answer(spied, request(0, range(DEVICES), variation=variation))
    _ = spied.spread_s
    unread = sorted(model.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None


def answer(model: SelectiveFading, asked: SelectiveRequest) -> SelectiveResponse:
    """H and what is spilled; ValueError, one line, for what is not as promised."""
    given = model.respond(asked)
    if not isinstance(given, SelectiveResponse):
        raise ValueError(f"respond gave {type(given).__name__}, a SelectiveResponse is wanted")
    wanted = (len(asked.fresh(1)), asked.antennas, asked.blocks, asked.frame.subcarriers)
    _check_array("H", given.response, wanted, "c")
    if not given.response.flags.writeable:
        raise ValueError("H cannot be written to, and a run scales it in place; give a copy")
    if given.spilled is not None:
        _check_array("spilled", given.spilled, (wanted[0], *wanted[2:]), "f")
        if (given.spilled < 0).any():
            raise ValueError(f"spilled is {given.spilled.min():g} somewhere; a power of at least 0 is wanted")
    return given


def request(
    index: int,
    devices: Sequence[int],
    *,
    variation: Any,
    speed_m_s: float = SPEED_M_S,
    antennas: int = ANTENNAS,
    prefix_s: float = 4.7e-6,
) -> SelectiveRequest:
    """Nine subcarriers far apart, three blocks of five symbols; devices 100 m away, every second of them in sight."""
    frame = Frame(40 * SPACING_HZ * np.arange(-4.0, 5.0), elements=9 * 15, symbol_s=SYMBOL_S, symbols_per_block=5)
    ids = np.array(devices, dtype=np.int64)
    turns = 0.4 * ids
    return SelectiveRequest(
        frame=frame,
        antennas=antennas,
        carrier_hz=2.4e9,
        speed_m_s=speed_m_s,
        variation=variation,
        start_s=0.1 * index,
        fresh=_draw(devices, index + 1),
        lasting=_draw(devices, 0),
        bandwidth_hz=360 * SPACING_HZ,
        positions_m=np.stack([100 * np.cos(turns), 100 * np.sin(turns), np.full(len(ids), 1.5)], axis=1),
        line_of_sight=ids % 2 == 0,
        prefix_s=prefix_s,
        spacing_hz=SPACING_HZ,
    )


def _draw(devices: Sequence[int], stream: int) -> Draw:
    def draw(count: int) -> NDArray[np.float64]:
        rows = [np.random.default_rng([stream, one]).random(count) for one in devices]
        return np.array(rows, dtype=np.float64).reshape(len(devices), count)

    return draw


def _check_array(what: str, given: object, wanted: tuple[int, ...], kind: str) -> None:
    if not isinstance(given, np.ndarray) or given.dtype.kind != kind:
        told = given.dtype if isinstance(given, np.ndarray) else type(given).__name__
        raise ValueError(f"{what} is {told}, an array of {'complex' if kind == 'c' else 'real'} numbers is wanted")
    if given.shape != wanted:
        axes = "[devices, antennas, blocks, subcarriers]" if kind == "c" else "[devices, blocks, subcarriers]"
        raise ValueError(f"{what} has shape {given.shape}, {axes} = {wanted} is wanted")
    if not np.isfinite(given).all():
        raise ValueError(f"{what} is not finite somewhere")


def _near(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """To single precision."""
    return bool(np.allclose(one, other, rtol=SHARE, atol=SHARE))


@contextmanager
def _untouched() -> Iterator[None]:
    """ValueError where the generators that everybody shares are drawn from or seeded; they are left as they were."""
    import torch

    def states() -> tuple[Any, ...]:
        return random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002

    def told() -> str:
        return "|".join(str(one.numpy().tobytes() if hasattr(one, "numpy") else one) for one in states())

    kept = states()
    try:
        random.seed(ODD)
        np.random.seed(ODD)  # noqa: NPY002
        torch.manual_seed(ODD)
        before = told()
        yield
        if told() != before:
            raise ValueError("draws from or seeds a global generator; draw from `fresh` and `lasting` of the request")
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
        torch.set_rng_state(kept[2])
