"""User-defined channels in a run, with checks that they keep their contract."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from airfl.config.part_keys import name_of
from airfl.errors import UserError, described, one_line_errors
from airfl.selection import Ids
from channels.fading import (
    ChannelRequest,
    Fading,
    FadingLaw,
    FlatFading,
    OwnChannel,
    SelectiveFading,
    check_law,
    check_response,
)
from channels.part import is_built_in
from channels.selective import SelectiveRequest, SelectiveResponse

Array = NDArray[np.float64]

ROUNDS_AVERAGED = 100
"""Largest number of rounds over which the power of a channel is averaged if it does not state it."""
DEVICES_AT_ONCE = 64


def own_response(channel: OwnChannel, request: ChannelRequest) -> NDArray[np.complex128]:
    """Return the channel response H in full shape. Raises UserError if it is invalid."""
    with one_line_errors(f"channel.fading: {channel!r}: response() for round {request.round_index}"):
        response = channel.response(request)
    try:
        return check_response(response, request, channel)
    except ValueError as error:
        raise UserError(f"channel.fading: {' '.join(str(error).split())}") from None


def own_mean_power(
    channel: OwnChannel, devices: int, rounds: int, response: Callable[[int, Ids], NDArray[np.complexfloating]]
) -> Array:
    """Return E|H|^2 of every device, as the channel states it or as the mean over rounds.

    Args:
        channel: The channel.
        devices: N.
        rounds: Rounds of the run.
        response: Maps (round, device ids) to H.

    Raises UserError if the channel does not state a valid power for every device.
    """
    with one_line_errors(f"channel.fading: {channel!r}: mean_power()"):
        stated = channel.mean_power(devices)
    if stated is None:
        sampled = np.unique(np.linspace(0, rounds - 1, min(rounds, ROUNDS_AVERAGED)).astype(int))
        power = np.zeros(devices)
        for index in sampled.tolist():
            for first in range(0, devices, DEVICES_AT_ONCE):
                ids = np.arange(first, min(first + DEVICES_AT_ONCE, devices))
                power[ids] += (np.abs(response(index, ids)) ** 2).mean(axis=(1, 2, 3)) / len(sampled)
    else:
        with one_line_errors(f"channel.fading: {channel!r}: mean_power()"):
            power = np.asarray(stated, dtype=np.float64)
    if power.shape != (devices,) or not (np.isfinite(power).all() and (power > 0).all()):
        given = f"shape {power.shape}" if power.shape != (devices,) else f"{power.min():g} to {power.max():g}"
        raise UserError(
            f"channel.fading: mean_power() of {name_of(channel)!r} must return a finite number above 0 for each of "
            f"{devices:,} devices, got {given}"
        )
    return np.asarray(power)


def selective_response(
    fading: SelectiveFading, request: SelectiveRequest, round_index: int, devices: int
) -> SelectiveResponse:
    """Return the response of a frequency-selective model. Raises UserError if that of a user-defined one is invalid.

    Args:
        fading: The model.
        request: The request.
        round_index: t, of which messages tell.
        devices: Number of the request's devices.
    """
    if is_built_in(fading):
        return fading.respond(request)
    what = f"channel.fading: {fading!r}: respond() for round {round_index}"
    with one_line_errors(what):
        found: object = fading.respond(request)
    if not isinstance(found, SelectiveResponse):
        raise UserError(f"{what} must return a SelectiveResponse, got {described(found)}")
    wanted = (devices, request.antennas, request.blocks, request.frame.subcarriers)
    _check_shape(fading, round_index, found.response, wanted)
    return found


def own_law(fading: FlatFading) -> FadingLaw:
    """Return the law of flat fading. Raises UserError, or ValueError, if that of a user-defined one is invalid."""
    if is_built_in(fading):
        return fading.law()
    with one_line_errors(f"channel.fading: {fading!r}: law()"):
        law = fading.law()
    check_law(law, repr(fading))
    return law


def _check_shape(fading: Fading, round_index: int, response: object, wanted: tuple[int, ...]) -> None:
    """Check shape and finiteness of a response of a user-defined model; raises UserError otherwise."""
    if not isinstance(response, np.ndarray):
        raise UserError(f"channel.fading: {fading!r} must return H as a numpy array, got {described(response)}")
    if response.shape != wanted:
        raise UserError(
            f"channel.fading: {fading!r} must return H of shape [devices, antennas, blocks, subcarriers] = {wanted}, "
            f"got {response.shape} in round {round_index}"
        )
    if not np.isfinite(response).all():
        raise UserError(f"channel.fading: {fading!r} returned H that is not finite in round {round_index}")
