"""Checks of receive combiners on random channels, as the tests make them for built-in ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.antennas import Combiner, RobustCombiner, check_location, check_weights, combine
from channels.antennas.combiner import Array, Complex
from channels.csi.state import Response
from channels.part import Part

SHAPES = ((1, 2, 1, 1), (5, 3, 1, 1), (5, 7, 1, 4), (9, 2, 3, 1), (4, 6, 2, 3))
"""Numbers of devices, antennas, blocks and subcarriers that are tried."""
ROUNDING = 1e-6


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of a combiner. They need no runs, and so ignore the overrides."""
    del overrides
    assert isinstance(part, Combiner)

    def of(find: Callable[[Combiner], str | None], what: str, *after: str) -> Check:
        return Check(find.__name__.replace("_", "-"), what, partial(find, part), after)

    return [
        of(weights, "weights are finite, have the response's axes and norm 1 over the antennas"),
        of(one_antenna, "a single antenna keeps the magnitude of its channel", "weights"),
        of(nothing_heard, "weights are valid without any device, and if a device has a zero channel", "weights"),
        of(same_again, "calls with the same inputs give the same weights, and do not change the inputs", "weights"),
        of(location, "a robust combiner returns what equal branches share, of each entry by itself", "weights"),
        of(coefficients, "each block and subcarrier is combined independently of the others", "weights"),
        of(parameters, "every parameter is read", "weights"),
    ]


def weights(combiner: Combiner) -> str | None:
    """Check weights as a run does, in double and single precision."""
    for response, factors in responses():
        for channel in (response, response.astype(np.complex64)):
            wrong = _wrong(combiner, channel, factors)
            if wrong:
                return wrong
    return None


def one_antenna(combiner: Combiner) -> str | None:
    """Check that |a| = 1 for one antenna."""
    response, factors = drawn(4, 1, 2, 3), np.ones(4)
    wrong = _wrong(combiner, response, factors)
    if wrong:
        return wrong
    combined = np.abs(combine(np.asarray(combiner.weights(response, factors)), response))
    off = np.abs(combined / np.abs(response[:, 0]) - 1).max()
    return (
        f"the magnitude of a single antenna's channel changes by a factor of 1 +- {off:.3g}" if off > ROUNDING else None
    )


def nothing_heard(combiner: Combiner) -> str | None:
    """Check zero channels of all devices, of one device, and factors of 0."""
    silent = drawn(5, 3, 1, 2)
    silent[2] = 0
    cases = ((np.zeros_like(silent), np.ones(5)), (silent, np.ones(5)), (drawn(5, 3, 1, 2), np.zeros(5)))
    return next((wrong for one in cases if (wrong := _wrong(combiner, *one))), None)


def same_again(combiner: Combiner) -> str | None:
    """Compare the weights of two calls bit for bit."""
    for response, factors in responses():
        before = response.copy(), factors.copy()
        first, again = (np.asarray(combiner.weights(response, factors)) for _ in range(2))
        if not np.array_equal(first, again):
            return "gives other weights when called again; draw no random numbers, and keep no state between calls"
        if not (np.array_equal(response, before[0]) and np.array_equal(factors, before[1])):
            return "changes its input response or factors; copy them first"
    return None


def coefficients(combiner: Combiner) -> str | None:
    """Compare the magnitude of the combined channel with that of each block and subcarrier combined alone."""
    response, factors = drawn(5, 4, 2, 3), np.linspace(0.5, 2, 5)
    together = np.abs(combine(np.asarray(combiner.weights(response, factors)), response))
    for block, subcarrier in np.ndindex(2, 3):
        one = response[:, :, block : block + 1, subcarrier : subcarrier + 1]
        alone = np.abs(combine(np.asarray(combiner.weights(one, factors)), one))[:, 0, 0]
        off = np.abs(together[:, block, subcarrier] - alone).max()
        if off > ROUNDING * np.abs(alone).max():
            return f"block {block}, subcarrier {subcarrier} is combined differently when alone, by {off:.3g}"
    return None


def location(combiner: Combiner) -> str | None:
    """Check a robust combiner on equal branches, and on entries together and alone."""
    import torch

    if not isinstance(combiner, RobustCombiner):
        return None
    branches = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 40)).astype(np.float32))
    found = combiner.location(branches)
    try:
        check_location(combiner, branches, found)
    except ValueError as error:
        return str(error)
    same = combiner.location(branches[:1].expand(5, -1))
    if not torch.allclose(same, branches[0], rtol=ROUNDING):
        return "returns something else where all branches are equal; take a location of the antennas"
    if not torch.allclose(combiner.location(branches[:, :7]), found[:7], rtol=ROUNDING):
        return "an entry depends on the others; take a location of each column by itself"
    return None


def parameters(combiner: Combiner) -> str | None:
    """Check that computing weights reads all parameters."""
    made, read = recording(combiner)
    for response, factors in responses():
        made.weights(response, factors)
    if isinstance(made, RobustCombiner):
        import torch

        made.location(torch.zeros(5, 1))
    return unread(combiner, read)


def _wrong(combiner: Combiner, response: Response, factors: Array) -> str | None:
    try:
        check_weights(combiner, response, combiner.weights(response, factors))
    except ValueError as error:
        return str(error)
    return None


def responses() -> Iterator[tuple[Complex, Array]]:
    """Yield channels to combine and the devices' factors, one of which is 0."""
    for shape in SHAPES:
        factors = np.linspace(0.5, 2, shape[0])
        if shape[0] > 1:
            factors[1] = 0.0
        yield drawn(*shape), factors


def drawn(*shape: int) -> Complex:
    """Draw independent CN(0, 1) numbers with a fixed seed."""
    real, imaginary = np.random.default_rng(shape).standard_normal((2, *shape)) / np.sqrt(2)
    return np.asarray(real + 1j * imaginary)
