"""Channel state, and what is known of it: kept apart by type, so that no device precodes by what it cannot know."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class ChannelState:
    """The true flat channel of one round. gains: h_i, [devices], complex128."""

    gains: NDArray[np.complex128]


@dataclass(frozen=True)
class ChannelEstimate:
    """What server and devices believe the channel to be. gains: hhat_i, [devices], complex128."""

    gains: NDArray[np.complex128]


def perfect_csi(state: ChannelState) -> ChannelEstimate:
    """Perfect channel knowledge at both ends (PFELS, section 4.1)."""
    return ChannelEstimate(gains=state.gains)
