"""Channels of the user's own in a run: asked, and held to what they promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.config.part_keys import name_of
from airfl.errors import UserError
from airfl.selection import Ids
from channels.fading import ChannelRequest, Fading, OwnChannel, check_response

Array = NDArray[np.float64]

ROUNDS_AVERAGED = 100
"""Over so many rounds at most the power of a channel is averaged that does not say it."""
DEVICES_AT_ONCE = 64


def own_response(channel: OwnChannel, request: ChannelRequest) -> NDArray[np.complex128]:
    """H in full shape; UserError for one that is none."""
    try:
        return check_response(channel.response(request), request, channel)
    except ValueError as error:
        raise UserError(f"channel.fading: {' '.join(str(error).split())}") from None


def own_mean_power(
    channel: OwnChannel, devices: int, rounds: int, response: Callable[[int, Ids], NDArray[np.complexfloating]]
) -> Array:
    """E|H|^2 of every device: as the channel says, else the mean over rounds. response: H in a round, of devices.

    Raises UserError for what is no power of every device.
    """
    said = channel.mean_power(devices)
    if said is None:
        wanted = np.unique(np.linspace(0, rounds - 1, min(rounds, ROUNDS_AVERAGED)).astype(int))
        found = np.zeros(devices)
        for index in wanted.tolist():
            for first in range(0, devices, DEVICES_AT_ONCE):
                ids = np.arange(first, min(first + DEVICES_AT_ONCE, devices))
                found[ids] += (np.abs(response(index, ids)) ** 2).mean(axis=(1, 2, 3)) / len(wanted)
    else:
        found = np.asarray(said, dtype=np.float64)
    if found.shape != (devices,) or not (np.isfinite(found).all() and (found > 0).all()):
        given = f"shape {found.shape}" if found.shape != (devices,) else f"{found.min():g} to {found.max():g}"
        raise UserError(
            f"channel.fading: the mean power of {name_of(channel)!r} is {given}; finite numbers above 0 of {devices:,} "
            "devices are wanted"
        )
    return np.asarray(found)


def check_shape(fading: Fading, round_index: int, response: NDArray[Any], wanted: tuple[int, ...]) -> None:
    """UserError for a response of a user's own model that has another shape, or is not finite."""
    if response.shape != wanted:
        raise UserError(
            f"channel.fading: {fading!r} gave H of shape {response.shape} in round {round_index}; [devices, antennas, "
            f"blocks, subcarriers] = {wanted} is wanted"
        )
    if not np.isfinite(response).all():
        raise UserError(f"channel.fading: {fading!r} gave H that is not finite in round {round_index}")
