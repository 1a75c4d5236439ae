"""Symbol timing offset: a phase ramp over subcarriers, and interference once the cyclic prefix is used up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.knowledge import CsiParameters, Impairment, Knowledge, turn
from channels.draws import Draw
from channels.frame import Frame


def _delay(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draw: Draw) -> Knowledge:
    """h'(f) = h(f) (1 - e/T) e^(-j 2 pi f tau_i), tau_i uniform in [0, timing_offset_s], e = max(tau_i - prefix, 0).

    Of the useful duration T = 1/spacing, e is filled with the symbol before. So a share (e/T)(1 - e/T) of the received
    power is lost to the other subcarriers and e/T comes from the symbol before: 2 e/T - (e/T)^2 in all, where all
    subcarriers are loaded (Parseval over the truncated window). A prefix that is longer than the offset costs nothing.
    """
    late_s = parameters.timing_offset_s * draw(1)
    lost = np.maximum(late_s - parameters.prefix_s, 0) * parameters.spacing_hz
    ramp = (1 - lost) * np.exp(-2j * np.pi * late_s * frame.frequencies_hz)
    turned = turn(knowledge, ramp[:, None, None, :], (lost * (2 - lost))[:, 0])
    return replace(turned, offsets=replace(turned.offsets, late=lost[:, 0]))


TIMING = Impairment(
    apply=_delay,
    present=lambda parameters: parameters.timing_offset_s > 0,
    source="M. Speth, S. A. Fechtel, G. Fock, H. Meyr, Optimum receiver design for wireless broad-band systems using "
    "OFDM, part I, IEEE Trans. Commun. 47(11), 1999: symbol timing offset",
)
