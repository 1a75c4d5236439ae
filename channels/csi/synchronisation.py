"""Errors that remain after synchronisation: of amplitude and phase, and devices that missed the trigger."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, apply_factor
from channels.draws import Array, Complex, Draw, circular_gaussian
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, parameter

NUMBERS = 4
"""Uniform numbers per device and round: two for the amplitude, one for a missed trigger, one for a recorded round."""


class SynchronisationErrors(Impairment):
    """Errors of devices that were synchronised in amplitude, phase, frequency and time for a coherent sum."""

    name = "synchronisation"
    source = (
        "A. Sahin, A generic multi-dimensional symbol construction for digital over-the-air computation and practical "
        "aspects, arXiv 2606.18085, 2026: amplitude and phase of the composite channel, as measured (abstract)"
    )

    amplitude_std_db: float = parameter(
        default=0.0,
        ge=0,
        le=20,
        key="amplitude_std_db",
        description="standard deviation of the amplitude error, Gaussian in dB, one per device and round",
    )
    missed_probability: float = parameter(
        default=0.0,
        ge=0,
        lt=1,
        key="missed_probability",
        description="probability with which a device misses the trigger of a round, and takes no part in it",
    )
    file: str | None = parameter(
        default=None,
        key="residual_file",
        description="HDF5, .mat, .npy or .npz file of measured residual gains, with which the channel is multiplied: "
        "complex [rounds, devices], or with the further axes of channel.replay_file",
    )
    variable: str | None = parameter(
        default=None, key="residual_variable", description="array of the residual gains in residual_file"
    )
    target: float = parameter(
        default=1.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        key="residual_target",
        description="residual gain in the file of a device without any error",
    )
    missed_below: float = parameter(
        default=0.0,
        ge=0,
        lt=1,
        key="residual_missed_below",
        description="modulus of a residual gain over residual_target up to which the device missed the trigger",
    )
    rounds: Literal["once", "wrap", "shuffle", "draw"] = parameter(
        default="once",
        key="residual_rounds",
        description="measured round of each round: once = in order, a longer run is refused; wrap = from the start "
        "again; shuffle = every pass in an order drawn for it; draw = each device draws one in every round",
    )
    devices: Literal["in-order", "draw"] | tuple[int, ...] = parameter(
        default="in-order",
        key="residual_devices",
        description="measured device of each device: in-order = the first ones; draw = drawn for the run, with "
        "replacement; or a list of one for each device",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether there are errors."""
        return self.amplitude_std_db > 0 or self.missed_probability > 0 or self.file is not None

    @property
    def exceeds_the_channel(self) -> bool:
        """Whether a device may arrive with more than its channel alone would let arrive."""
        return self.amplitude_std_db > 0 or self.file is not None

    def missed(self, draw: Draw) -> NDArray[np.bool_]:
        """Return which devices miss the trigger of a round, [devices]."""
        return np.asarray(draw(NUMBERS)[:, 2] < self.missed_probability)

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Multiply h by 10^(e_i/20), e_i ~ N(0, amplitude_std_db^2), one per device and round.

        Devices that missed the trigger must have been left out before, see `missed`.
        """
        if not self.amplitude_std_db:
            return csi
        normal = np.sqrt(2) * circular_gaussian(draw(NUMBERS)[:, :2]).real
        return with_errors(csi, 10 ** (self.amplitude_std_db * normal / 20)[:, :, None, None])


def with_errors(csi: ChannelInformation, gains: Array | Complex) -> ChannelInformation:
    """Multiply the true channel by residual gains, which may be larger than 1 and are known to nobody.

    gains: real or complex, broadcast against the response.
    """
    # A gain above 1 has no bound, so that h given hhat has none either.
    return replace(apply_factor(csi, np.asarray(gains)), error_variance=None)
