"""Power of impulsive interference on the resource elements of a round, drawn by address."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airfl.errors import UserError
from airfl.runtime.streams import Purpose
from airfl.uplinks.uplink import UplinkContext
from channels.interference import Interference, check_powers
from channels.part import is_built_in

if TYPE_CHECKING:
    from torch import Tensor


def element_powers(
    model: Interference, context: UplinkContext, elements: int, shares: list[Tensor] | None = None
) -> Tensor:
    """Return A of each element after combining, float64 [elements].

    Args:
        model: The law of the interference.
        context: The round, whose streams and device the draws are from and on.
        elements: Number of elements.
        shares: |a|^2 of each antenna, on each element or a single number, if each antenna has a power of its own. The
            power after combining is then the sum of |a|^2 A over them. None if all have the same one, as ||a|| = 1.
    """
    if shares is None:
        return antenna_powers(model, context, elements, 0)
    total = antenna_powers(model, context, elements, 0) * shares[0]
    for antenna, share in enumerate(shares[1:], 1):
        total += antenna_powers(model, context, elements, antenna) * share
    return total


def antenna_powers(model: Interference, context: UplinkContext, elements: int, antenna: int) -> Tensor:
    """Return A on one antenna, or on all antennas under the number 0, float64 [elements].

    Raises UserError if a user-defined model returns no powers.
    """
    import torch

    from airfl.runtime.philox.tensors import uniforms

    address = context.streams.address(Purpose.IMPULSES, context.round_index)
    drawn = uniforms(address, np.array([antenna]), elements * model.uniforms, torch.device(context.device))
    powers = model.powers(drawn[0].double().view(elements, model.uniforms))
    if not is_built_in(model):
        try:
            check_powers(model, elements, powers)
        except ValueError as error:
            raise UserError(f"channel.interference: {error}") from None
    return powers
