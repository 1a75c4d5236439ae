"""Requests to and responses of frequency-selective channel models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from channels.antennas.array import AntennaArray, Directions
from channels.draws import Array, Complex, Draw
from channels.fading.kinds import SelectiveFading
from channels.frame import Frame
from channels.units import SPEED_OF_LIGHT_M_S

Variation = Literal["independent", "constant", "jakes"]


@dataclass(frozen=True)
class SelectiveResponse:
    """The response of a frequency-selective channel model.

    Attributes:
        response: H on every resource element, complex64 [devices, antennas, blocks, subcarriers] as in `ChannelState`,
            with a single block if the channel is static (see `SelectiveRequest.moves`).
        leaked_power: Power that paths beyond the cyclic prefix leak to other elements, float32 [devices, blocks,
            subcarriers] as in `ChannelState`; None if there are no such paths.
    """

    response: NDArray[np.complex64]
    leaked_power: NDArray[np.float32] | None = None


class Blocked(Protocol):
    """What blocks the paths of the devices of a request, by the directions in which they arrive at a device.

    Attributes:
        of_rays: Whether each ray of a cluster has a loss of its own, or all have that of the cluster.
    """

    of_rays: ClassVar[bool]

    def direct_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss in dB of the line of sight of a device, given by its row, of the shape of the angles."""

    def paths_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        """Return the loss in dB of all other paths of a device, given by its row, of the shape of the angles."""


@dataclass(frozen=True)
class SelectiveRequest:
    """The resource elements of one round, and the radio conditions on them.

    Attributes:
        frame: Resource elements on which the channel is needed.
        antennas: Number of receive antennas at the base station.
        carrier_hz: Carrier frequency in Hz.
        speed_m_s: Speed of every device in m/s, or the largest one if there are velocities.
        variation: "independent" draws a new realisation each round, "constant" keeps one static realisation for the
            run, "jakes" is one process over the run with autocorrelation J0.
        start_s: Start of this round in s from the start of the run.
        per_round: Uniform numbers from each device's stream for this round.
        per_run: Uniform numbers from each device's stream for the whole run.
        bandwidth_hz: Bandwidth of the used subcarriers in Hz, which may exceed that of the frame.
        positions_m: Positions of the devices in m, [devices, 3], with the base station at (0, 0, base_height_m); None
            if unknown. Used only by umi, uma, rma and indoor factories.
        base_height_m: Height of the base station's antenna in m.
        line_of_sight: Which devices have a line of sight, bool [devices]; None to draw it with TR 38.901's probability.
            Used only by the same.
        scores: N(0, 1) numbers of each device's shadowing and K factor, and of its spreads if these are fields of the
            place, `channels.topology.Drop.scores`, [devices, 2 or 7]; None to draw them. Used only by the same, with
            `large_scale` = "drop".
        hall_m: Length, width and height of an indoor factory in m; None for the usual ones. Used only by these.
        prefix_s: Cyclic prefix of an OFDM symbol in s; paths that arrive later are partly lost. inf if no path is late.
        spacing_hz: Subcarrier spacing in Hz.
        array: Receive antenna array, None for a linear array with half-wavelength spacing.
        directions: Directions of the devices relative to that array, None for broadside.
        broadside_rad: Azimuth of the array's broadside in rad, for models that use positions.
        spatial_roots: Square roots of the spatial correlation matrices of the diffuse part, complex [devices, antennas,
            antennas]; None if the antennas are independent.
        velocities_m_s: Velocities of the devices during the round in m/s, [devices, 3]; None for directions that are
            drawn and `speed_m_s`.
        ways_m: Length of the way of each device from the start of the run to that of the round in m, [devices]; None if
            its speed never changes. Used only with variation "jakes".
        blocked: What blocks the paths in this round, None for nothing. Used only by umi, uma, rma and indoor factories.
    """

    frame: Frame
    antennas: int
    carrier_hz: float
    speed_m_s: float
    variation: Variation
    start_s: float
    per_round: Draw
    per_run: Draw
    bandwidth_hz: float
    positions_m: Array | None = None
    base_height_m: float = 10.0
    line_of_sight: NDArray[np.bool_] | None = None
    scores: Array | None = None
    hall_m: tuple[float, float, float] | None = None
    prefix_s: float = math.inf
    spacing_hz: float = 15e3
    array: AntennaArray | None = None
    directions: Directions | None = None
    broadside_rad: float = 0.0
    spatial_roots: Complex | None = None
    velocities_m_s: Array | None = None
    ways_m: Array | None = None
    blocked: Blocked | None = None

    @property
    def doppler_hz(self) -> float | Array:
        """The maximum Doppler shift, f_D = v f_c/c, of all devices, or of each, [devices], if there are velocities."""
        speed_m_s = self.speed_m_s if self.velocities_m_s is None else np.linalg.norm(self.velocities_m_s, axis=1)
        return speed_m_s * self.carrier_hz / SPEED_OF_LIGHT_M_S

    @property
    def wavelengths(self) -> float | Array:
        """The way at the first block in wavelengths, from the time for which the realisation was drawn, of all devices
        or [devices]."""
        if self.variation == "jakes" and self.ways_m is not None:
            return self.ways_m * (self.carrier_hz / SPEED_OF_LIGHT_M_S)
        return self.doppler_hz * self.first_block_s

    @property
    def moves(self) -> bool:
        """Whether the channel changes from block to block. If not, the response has one block."""
        return self.speed_m_s > 0 and self.variation != "constant"

    @property
    def blocks(self) -> int:
        """The number of blocks of the response."""
        return self.frame.blocks if self.moves else 1

    @property
    def draw(self) -> Draw:
        """The streams to draw from: those of the round if the variation is "independent", else those of the run."""
        return self.per_round if self.variation == "independent" else self.per_run

    @property
    def first_block_s(self) -> float:
        """Time of the first block in s, measured from the time for which the realisation was drawn."""
        return self.start_s if self.variation == "jakes" else 0.0


def check(
    model: type[SelectiveFading] | SelectiveFading,
    *,
    subcarriers: int,
    antennas: int,
    carrier_hz: float,
    speed_m_s: float,
    variation: str,
    positions: bool,
    base_height_m: float = 10.0,
) -> None:
    """Check, before anything runs, that `model` can handle such requests. positions: whether positions are known.

    Raises ValueError for a count below 1, a speed that is negative or not finite, a carrier frequency or base station
    height that is not positive and finite, a variation that the model does not support, and missing positions if the
    model needs them.
    """
    for count, name in ((subcarriers, "subcarriers"), (antennas, "antennas")):
        if count < 1:
            raise ValueError(f"the number of {name} must be at least 1, got {count}")
    if not 0 <= speed_m_s < math.inf:
        raise ValueError(f"the speed must be finite and at least 0 m/s, got {speed_m_s:g}")
    for amount, name in ((carrier_hz, "carrier frequency"), (base_height_m, "base station height")):
        if not 0 < amount < math.inf:
            raise ValueError(f"the {name} must be positive and finite, got {amount:g}")
    if variation not in model.variations:
        supported = " or ".join(f"'{one}'" for one in model.variations)
        hint = "; the tapped line supports 'jakes'" if variation == "jakes" else ""
        raise ValueError(f"variation '{variation}' is not supported by this channel model, use {supported}{hint}")
    if model.needs_positions and not positions:
        raise ValueError("this channel model needs positions of devices; add a topology")
