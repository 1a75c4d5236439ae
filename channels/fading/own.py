"""Channels of the user's own: a function of a round, and whether what a part of theirs gives is what it promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.fading.kinds import ChannelRequest, Fading, OwnChannel
from channels.fading.law import ALMOST_ONE, FadingLaw
from channels.fading.registry import FADINGS
from channels.part import parameter

SHARES = np.array([1e-6, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 1 - 1e-6])
"""At which a law's two functions are held against each other."""
ACCURACY = 1e-6
MOMENT_ACCURACY = 1e-3


class FunctionChannel(OwnChannel):
    """A channel given by a function of the request: request -> H [devices, antennas, blocks, subcarriers].

    A function that is given as `channel.fading` becomes this by itself, and is taken to differ between subcarriers.
    """

    name = "function"

    function: Callable[[ChannelRequest], NDArray[Any]] = parameter(description="request -> H")
    selective: bool = parameter(default=True, description="whether H differs between subcarriers")
    moves: bool = parameter(default=False, description="whether H differs between the blocks of a round")
    power: float | None = parameter(
        default=None, gt=0, description="E|H|^2 of every device; default its mean over rounds of the run"
    )

    def __repr__(self) -> str:
        where = self.function if hasattr(self.function, "__qualname__") else type(self.function)
        return f"the function {where.__qualname__}"

    def response(self, request: ChannelRequest) -> NDArray[Any]:
        """What the function gives."""
        return self.function(request)

    def mean_power(self, devices: int) -> Array | None:
        """As given."""
        return None if self.power is None else np.full(devices, self.power)


def fading_of(given: object) -> Fading:
    """The fading that is meant: a part, a name, a table of a name and its parameters, or a function of a request.

    Raises PartError for what is none of these.
    """
    if callable(given) and not isinstance(given, (type, Fading)):
        return FunctionChannel(function=given)
    return FADINGS.build(given)  # type: ignore[arg-type]


def check_response(response: object, request: ChannelRequest, channel: OwnChannel) -> NDArray[np.complex128]:
    """H of a channel of one's own in full shape; ValueError, one line, for another shape and for what is not finite."""
    frame, devices = request.frame, len(request.devices)
    full = (
        devices,
        request.antennas,
        frame.blocks if channel.moves else 1,
        frame.subcarriers if channel.selective else 1,
    )
    found = np.asarray(response)
    if found.dtype.kind not in "iufc":
        raise ValueError(f"{channel!r} gave {found.dtype}, complex numbers are wanted")
    fits = found.ndim == 4 and all(
        there in (1, wanted) for there, wanted in zip(found.shape[2:], full[2:], strict=True)
    )
    if not fits or found.shape[:2] != full[:2]:
        raise ValueError(
            f"{channel!r} gave H of shape {found.shape} in round {request.round_index}; [devices, antennas, blocks, "
            f"subcarriers] = {full} is wanted, the last two 1 where nothing changes"
        )
    wrong = ~np.isfinite(found)
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(
            f"{channel!r} gave H that is not finite in round {request.round_index}, at device "
            f"{request.devices[place[0]]}, antenna {place[1]}, block {place[2]}, subcarrier {place[3]}"
        )
    return np.array(np.broadcast_to(found, full), dtype=np.complex128)


def check_law(law: FadingLaw, whose: str) -> None:
    """ValueError, one line, for a law whose functions are no distribution of a gain, do not fit each other, or are not
    of mean 1 and of the mean square that it says."""
    gains = np.asarray(law.quantile(SHARES.copy()))
    if gains.shape != SHARES.shape or not (np.isfinite(gains).all() and (gains >= 0).all()):
        raise ValueError(
            f"the quantile of {whose} gives {_first(gains)} for shares of shape {SHARES.shape}; finite gains of 0 or "
            "more, one for each, are wanted"
        )
    if (np.diff(gains) < 0).any():
        raise ValueError(f"the quantile of {whose} falls between shares {_at(SHARES[1:], np.diff(gains) < 0)}")
    found = np.asarray(law.cdf(gains.copy()))
    if found.shape != SHARES.shape or not ((found >= 0) & (found <= 1)).all():
        raise ValueError(f"the cdf of {whose} gives {_first(found)}; shares from 0 to 1, one for each gain, are wanted")
    # Where a gain has a probability of its own its share is the largest of its fades.
    off = found < SHARES - ACCURACY if law.constant or law.atoms else np.abs(found - SHARES) > ACCURACY
    if off.any():
        raise ValueError(
            f"cdf and quantile of {whose} do not fit each other: cdf(quantile({SHARES[off][0]:g})) is "
            f"{found[off][0]:.6g}"
        )
    for order, said, what in ((1, law.mean, "mean"), (2, law.mean_square, "mean_square")):
        moment = _moment(law, order)
        if abs(moment - said) > MOMENT_ACCURACY * abs(said):
            raise ValueError(
                f"the {what} of |h| under {whose} is {moment:.6g} by its quantile, and {said:.6g} is wanted"
            )


def _moment(law: FadingLaw, order: int) -> float:
    """E|h|^order, the quantile integrated over shares 1 - e^(-s), which leaves neither end too few."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    edges = np.array([0.0, 1e-4, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 36.0])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    points = (middle[:, None] + half[:, None] * nodes).ravel()
    shares = np.minimum(-np.expm1(-points), ALMOST_ONE)
    values = np.asarray(law.quantile(shares)) ** order * np.exp(-points)
    return float(((half[:, None] * weights).ravel() * values).sum())


def _first(values: NDArray[Any]) -> str:
    return (
        f"shape {values.shape}" if values.shape != SHARES.shape else np.array2string(values, threshold=4, precision=4)
    )


def _at(shares: Array, where: NDArray[np.bool_]) -> str:
    return f"{shares[where][0]:g}"
