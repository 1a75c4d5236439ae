"""What an impairment of channel knowledge is, and what it needs from around it."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from channels.csi.knowledge import Knowledge
from channels.draws import Draw
from channels.frame import Frame
from channels.part import Part


@dataclass(frozen=True)
class Surroundings:
    """What impairments need to know of channel and grid.

    Attributes:
        doppler_hz: f_D = v f_c/c, 0 where nobody moves.
        spacing_hz: Of the subcarriers.
        prefix_s: The cyclic prefix of an OFDM symbol.

    Raises ValueError for numbers that no channel or grid has.
    """

    doppler_hz: float = 0.0
    spacing_hz: float = 15e3
    prefix_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.doppler_hz < math.inf:
            raise ValueError(f"doppler_hz must be finite and at least 0 (speed/wavelength), got {self.doppler_hz}")
        if not 0 < self.spacing_hz < math.inf:
            raise ValueError(f"spacing_hz must be finite and positive, got {self.spacing_hz}")
        if not 0 <= self.prefix_s < math.inf:
            raise ValueError(f"prefix_s must be finite and at least 0, got {self.prefix_s}")


class Impairment(Part):
    """One effect that makes channel knowledge imperfect; its defaults leave knowledge as it is.

    Attributes:
        source: Where the model is from.
        in_waveform: Whether a waveform that is made in time has the effect in it already.
    """

    source: ClassVar[str] = ""
    in_waveform: ClassVar[bool] = False

    @abstractmethod
    def present(self, around: Surroundings) -> bool:
        """Whether it does anything there."""

    @abstractmethod
    def apply(self, knowledge: Knowledge, around: Surroundings, frame: Frame, draw: Draw) -> Knowledge:
        """The knowledge with the effect put upon it.

        Args:
            knowledge: Of the channel, after the impairments before this one.
            around: Doppler shift, spacing and prefix.
            frame: The resource elements of the message.
            draw: Numbers of the devices' own, uniform in [0, 1), which no other impairment has.
        """

    def check_within(self, around: Surroundings) -> None:
        """Raise PartError, one line, for a parameter that does not go with these surroundings; nothing by default."""
