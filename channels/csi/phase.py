"""Residual phase: the oscillators of the devices are not perfectly synchronised."""

from __future__ import annotations

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, apply_factor
from channels.draws import Draw, circular_gaussian
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class ResidualPhase(Impairment):
    """Residual phase errors of the devices' oscillators."""

    name = "phase"
    source = "Gaussian phase error of a locked oscillator, one for a round"

    phase_std_rad: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="phase_std_rad",
        description="standard deviation of the Gaussian residual phase, one per device and round",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether the phase has a positive standard deviation."""
        return self.phase_std_rad > 0

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Multiply h by e^(j phi_i), phi_i ~ N(0, phase_std_rad^2), one per device and round."""
        normal = np.sqrt(2) * circular_gaussian(draw(2)).real
        return apply_factor(csi, np.exp(1j * self.phase_std_rad * normal)[:, :, None, None])
