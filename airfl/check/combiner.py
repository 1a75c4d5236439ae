"""What a receive combiner has to hold: what the tests of airfl's own combiners hold, on drawn channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from airfl.check.finding import Check
from airfl.check.reading import recording
from channels.antennas import Combiner, check_weights, combine
from channels.antennas.combiner import Array, Complex
from channels.csi.state import Response
from channels.part import Part, parameters_of

SHAPES = ((1, 2, 1, 1), (5, 3, 1, 1), (5, 7, 1, 4), (9, 2, 3, 1), (4, 6, 2, 3))
"""Devices, antennas, blocks and subcarriers that are tried."""
ROUNDING = 1e-6


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one combiner, which needs no runs, and so no settings of them."""
    del overrides
    assert isinstance(part, Combiner)

    def of(find: Callable[[Combiner], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(weights, "weights are finite, of the response's axes and of norm 1 over the antennas"),
        of(one_antenna, "one antenna is heard as strongly as it is", "weights"),
        of(nothing_heard, "there are weights where no device is heard, and where one has no channel", "weights"),
        of(same_again, "it gives the same weights again, and changes nothing of what it is given", "weights"),
        of(coefficients, "a block and subcarrier is combined as if it were alone", "weights"),
        of(parameters, "every parameter is read", "weights"),
    ]


def weights(combiner: Combiner) -> str | None:
    """As a run holds them to, in double and in single precision."""
    for response, factors in responses():
        for given in (response, response.astype(np.complex64)):
            found = _wrong(combiner, given, factors)
            if found:
                return found
    return None


def one_antenna(combiner: Combiner) -> str | None:
    """|a| = 1."""
    response, factors = drawn(4, 1, 2, 3), np.ones(4)
    found = _wrong(combiner, response, factors)
    if found:
        return found
    heard = np.abs(combine(np.asarray(combiner.weights(response, factors)), response))
    off = np.abs(heard / np.abs(response[:, 0]) - 1).max()
    return f"one antenna's channel is heard wrong by a share of {off:.3g}" if off > ROUNDING else None


def nothing_heard(combiner: Combiner) -> str | None:
    """No channel at all, one device without one, one that is left out."""
    silent = drawn(5, 3, 1, 2)
    silent[2] = 0
    cases = ((np.zeros_like(silent), np.ones(5)), (silent, np.ones(5)), (drawn(5, 3, 1, 2), np.zeros(5)))
    return next((found for one in cases if (found := _wrong(combiner, *one))), None)


def same_again(combiner: Combiner) -> str | None:
    """Bit for bit."""
    for response, factors in responses():
        kept = response.copy(), factors.copy()
        first, again = (np.asarray(combiner.weights(response, factors)) for _ in range(2))
        if not np.array_equal(first, again):
            return "gives other weights when it is asked again; take no random numbers, and keep nothing between calls"
        if not (np.array_equal(response, kept[0]) and np.array_equal(factors, kept[1])):
            return "changes the response or the factors that it is given; copy them first"
    return None


def coefficients(combiner: Combiner) -> str | None:
    """What is heard over it then is, whatever the phase of the weights."""
    response, factors = drawn(5, 4, 2, 3), np.linspace(0.5, 2, 5)
    together = np.abs(combine(np.asarray(combiner.weights(response, factors)), response))
    for block, subcarrier in np.ndindex(2, 3):
        one = response[:, :, block : block + 1, subcarrier : subcarrier + 1]
        alone = np.abs(combine(np.asarray(combiner.weights(one, factors)), one))[:, 0, 0]
        off = np.abs(together[:, block, subcarrier] - alone).max()
        if off > ROUNDING * np.abs(alone).max():
            return f"block {block}, subcarrier {subcarrier} is combined otherwise than by itself, by {off:.3g}"
    return None


def parameters(combiner: Combiner) -> str | None:
    """By something that weights are asked of."""
    made, read = recording(combiner)
    for response, factors in responses():
        made.weights(response, factors)
    unread = [one.name for one in parameters_of(type(combiner)) if one.name not in read]
    return f"the parameter {unread[0]} is never read" if unread else None


def _wrong(combiner: Combiner, response: Response, factors: Array) -> str | None:
    try:
        check_weights(combiner, response, combiner.weights(response, factors))
    except ValueError as error:
        return str(error)
    return None


def responses() -> Iterator[tuple[Complex, Array]]:
    """Channels to combine, and the devices' factors, one of them 0."""
    for shape in SHAPES:
        factors = np.linspace(0.5, 2, shape[0])
        if shape[0] > 1:
            factors[1] = 0.0
        yield drawn(*shape), factors


def drawn(*shape: int) -> Complex:
    """Independent CN(0, 1) numbers, the same every time."""
    real, imaginary = np.random.default_rng(shape).standard_normal((2, *shape)) / np.sqrt(2)
    return np.asarray(real + 1j * imaginary)
