"""Residual phase: devices' oscillators are not aligned perfectly."""

from __future__ import annotations

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.knowledge import Knowledge, turn
from channels.draws import Draw, circular_gaussian
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class ResidualPhase(Impairment):
    """Oscillators are off by a phase."""

    name = "phase"
    source = "Gaussian phase error of a locked oscillator, one for a round"

    phase_std_rad: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="phase_std_rad",
        description="residual phase, Gaussian, one a device and round",
    )

    def present(self, around: Surroundings) -> bool:
        """Where the phase varies."""
        return self.phase_std_rad > 0

    def apply(self, knowledge: Knowledge, around: Surroundings, frame: Frame, draw: Draw) -> Knowledge:
        """h' = h e^(j phi_i), phi_i ~ N(0, phase_std_rad^2), one per device and round."""
        normal = np.sqrt(2) * circular_gaussian(draw(2)).real
        return turn(knowledge, np.exp(1j * self.phase_std_rad * normal)[:, :, None, None])
