"""What a frequency-selective channel model is asked for, what it answers, and what it cannot answer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

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
    """What a frequency-selective channel model answers.

    Attributes:
        response: H on every element, complex64 [devices, antennas, blocks, subcarriers] as in `ChannelState`, with a
            single block where the channel stands still (`SelectiveRequest.moves`).
        spilled: What paths beyond the cyclic prefix put on other elements, float32 [devices, blocks, subcarriers] as in
            `ChannelState`; None where there are none.
    """

    response: NDArray[np.complex64]
    spilled: NDArray[np.float32] | None = None


@dataclass(frozen=True)
class SelectiveRequest:
    """One round's resource elements, and the radio conditions on them.

    Attributes:
        frame: Resource elements at which the channel is wanted.
        antennas: Receive antennas of the base station.
        carrier_hz: Carrier frequency in Hz.
        speed_m_s: Speed of every device in m/s.
        variation: "independent" is a new fade each round, "constant" one fade for the run that stands still, "jakes"
            one process for the run whose autocorrelation is J0.
        start_s: When this round starts, in s from the start of the run.
        fresh: Uniform numbers of each device's own stream of this round.
        lasting: Uniform numbers of each device's own stream of the run.
        bandwidth_hz: Bandwidth of the used subcarriers in Hz, which may be more than the frame's.
        positions_m: Of the devices in m, [devices, 3], the base station stands at (0, 0, base_height_m); None where
            they are not known. Only umi, uma and rma heed them.
        base_height_m: Height of the base station's antenna in m.
        line_of_sight: Which devices see the base station, bool [devices]; None to have TR 38.901's probability decide.
            Only umi, uma and rma heed it.
        prefix_s: Cyclic prefix of an OFDM symbol in s; a path that is later than it is lost in part. inf: no path is
            late.
        spacing_hz: Subcarrier spacing in Hz.
        array: Where the antennas are, None for a line at half a wavelength.
        directions: Of the devices as that array sees them, None for straight ahead.
        broadside_rad: Azimuth of the array's broadside in rad, where positions say the rest.
        spatial_roots: Square roots of the diffuse part's correlation between antennas, complex [devices, antennas,
            antennas]; None where the antennas are independent.
    """

    frame: Frame
    antennas: int
    carrier_hz: float
    speed_m_s: float
    variation: Variation
    start_s: float
    fresh: Draw
    lasting: Draw
    bandwidth_hz: float
    positions_m: Array | None = None
    base_height_m: float = 10.0
    line_of_sight: NDArray[np.bool_] | None = None
    prefix_s: float = math.inf
    spacing_hz: float = 15e3
    array: AntennaArray | None = None
    directions: Directions | None = None
    broadside_rad: float = 0.0
    spatial_roots: Complex | None = None

    @property
    def doppler_hz(self) -> float:
        """Largest Doppler shift, f_D = v f_c/c."""
        return self.speed_m_s * self.carrier_hz / SPEED_OF_LIGHT_M_S

    @property
    def moves(self) -> bool:
        """Whether the channel changes from block to block; if not, the response has one block."""
        return self.speed_m_s > 0 and self.variation != "constant"

    @property
    def blocks(self) -> int:
        """Blocks of the response."""
        return self.frame.blocks if self.moves else 1

    @property
    def draw(self) -> Draw:
        """Where a device's numbers come from: of the round if every round has a new fade, else of the run."""
        return self.fresh if self.variation == "independent" else self.lasting

    @property
    def first_block_s(self) -> float:
        """Time of the first block since the fade's numbers were drawn."""
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
    """Refuse, before anything runs, what `model` cannot answer. positions: whether the devices' positions are known.

    Raises ValueError: a count below 1; a speed that is negative or not finite; a carrier or base height that is not
    positive and finite; a variation the model does not offer; no positions where the model needs them.
    """
    for count, name in ((subcarriers, "subcarriers"), (antennas, "antennas")):
        if count < 1:
            raise ValueError(f"{count} {name}: a frequency-selective channel needs 1 or more")
    if not 0 <= speed_m_s < math.inf:
        raise ValueError(f"speed of {speed_m_s:g} m/s: it must be finite and 0 or more")
    for amount, name in ((carrier_hz, "carrier of {:g} Hz"), (base_height_m, "base station height of {:g} m")):
        if not 0 < amount < math.inf:
            raise ValueError(f"{name.format(amount)}: it must be finite and above 0")
    if variation not in model.variations:
        offered = " or ".join(f"'{one}'" for one in model.variations)
        hint = "; the tapped line offers 'jakes'" if variation == "jakes" else ""
        raise ValueError(f"variation '{variation}': this channel model offers {offered}{hint}")
    if model.needs_positions and not positions:
        raise ValueError("no positions of devices: this channel model needs them, place the devices in a cell")
