"""The interface of CSI impairments, and the properties of channel and grid that they depend on."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from channels.csi.information import ChannelInformation
from channels.draws import Array, Draw
from channels.frame import Frame
from channels.part import Part


@dataclass(frozen=True)
class Surroundings:
    """Properties of channel and grid that impairments depend on.

    Attributes:
        doppler_hz: Maximum Doppler shift f_D = v f_c/c in Hz, 0 for static devices; the largest of all devices.
        spacing_hz: Subcarrier spacing in Hz.
        prefix_s: Duration of the cyclic prefix in s.
        carrier_hz: Carrier frequency in Hz; 0 where it is not known.
        bandwidth_hz: Bandwidth of the receiver in Hz, that of all subcarriers; 0 where it is not known.
        own_doppler_hz: Maximum Doppler shift of each device in Hz, [devices]; None if they have the same.

    Raises ValueError for negative or infinite values, and for a spacing of 0.
    """

    doppler_hz: float = 0.0
    spacing_hz: float = 15e3
    prefix_s: float = 0.0
    carrier_hz: float = 0.0
    bandwidth_hz: float = 0.0
    own_doppler_hz: Array | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.doppler_hz < math.inf:
            raise ValueError(f"doppler_hz must be finite and at least 0 (speed/wavelength), got {self.doppler_hz}")
        if not 0 < self.spacing_hz < math.inf:
            raise ValueError(f"spacing_hz must be finite and positive, got {self.spacing_hz}")
        for name in ("prefix_s", "carrier_hz", "bandwidth_hz"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ValueError(f"{name} must be finite and at least 0, got {getattr(self, name)}")


class Impairment(Part):
    """Base class of effects that make CSI imperfect. With default parameters, an impairment has no effect.

    Attributes:
        source: Source of the model.
        in_waveform: Whether the time-domain waveform already includes the effect.
    """

    source: ClassVar[str] = ""
    in_waveform: ClassVar[bool] = False

    @abstractmethod
    def present(self, around: Surroundings) -> bool:
        """Whether the impairment has an effect in these surroundings."""

    @abstractmethod
    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Return the CSI after the impairment.

        Args:
            csi: CSI after the preceding impairments.
            around: Doppler shift, subcarrier spacing and cyclic prefix.
            frame: The resource elements of the message.
            draw: Uniform numbers in [0, 1) of each device, not shared with other impairments.
        """

    def check_within(self, around: Surroundings) -> None:
        """Raise PartError for a parameter that is invalid in these surroundings. Does nothing by default."""
