"""Residual phase: devices' oscillators are not aligned perfectly."""

from __future__ import annotations

import numpy as np

from channels.csi.knowledge import CsiParameters, Impairment, Knowledge, turn
from channels.draws import Draw, circular_gaussian
from channels.frame import Frame


def _rotate(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draw: Draw) -> Knowledge:
    """h' = h e^(j phi_i), phi_i ~ N(0, phase_std_rad^2), one per device and round."""
    normal = np.sqrt(2) * circular_gaussian(draw(2)).real
    return turn(knowledge, np.exp(1j * parameters.phase_std_rad * normal)[:, :, None, None])


PHASE = Impairment(
    apply=_rotate,
    present=lambda parameters: parameters.phase_std_rad > 0,
    source="Gaussian phase error of a locked oscillator, one for a round",
)
