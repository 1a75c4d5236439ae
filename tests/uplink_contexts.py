"""Terms of a round for uplinks built by hand. All numbers are given, so that results can be computed."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.streams import Streams
from airfl.uplinks import UplinkContext
from airfl.uplinks.stages.stage import MessageBound
from airfl.uplinks.uplink import PilotCost
from channels.csi import ChannelState, perfect_csi
from channels.frame import Frame

PILOT_ELEMENTS, PILOT_ENERGY, ENERGY_OF_OTHERS = 8, 0.25, 0.125
ENERGY_UNIT = 0.5
SYMBOL_S = 1e-3


def context_of(
    response: NDArray[np.complex128],
    message: MessageBound,
    *,
    subcarriers: int,
    elements: int,
    limit: float = 1.0,
    weights: Sequence[float] | None = None,
    leakage: float = 0.0,
    device_noise_factor: float = 1.0,
    streams: Streams | None = None,
) -> UplinkContext:
    """Return the context of a round of all devices with perfect CSI.

    A resource element has unit power, and the norm of an update is at most 1.

    Args:
        response: Channel response [devices, antennas, blocks, subcarriers].
        elements: Number of resource elements of a message.
        limit: Limit of every device's energy.
        leakage: Share of every device's power that frequency offsets move outside its elements.
    """
    devices = len(response)
    state = ChannelState(np.asarray(response, dtype=np.complex128))
    csi = perfect_csi(state, np.ones(devices), np.zeros(devices))
    given = np.ones(devices) if weights is None else np.array(weights)
    return UplinkContext(
        csi=replace(csi, leakage=np.full(devices, leakage)),
        frame=Frame(np.arange(min(subcarriers, elements)) * 15e3, elements, SYMBOL_S, 1000),
        power_limits=np.full(devices, limit),
        rms_norms=given.copy(),
        peak_norms=given.copy(),
        weights=given,
        message=message,
        ids=np.arange(devices),
        element_power=np.ones(devices),
        entries=message.entries,
        dimension=message.entries,
        divisor=float(devices),
        fades=None,
        pilots=PilotCost(PILOT_ELEMENTS, np.full(devices, PILOT_ENERGY), ENERGY_OF_OTHERS),
        energy_unit=ENERGY_UNIT,
        streams=streams or Streams(0),
        round_index=0,
        device="cpu",
        record=False,
        device_noise_factor=device_noise_factor,
    )
