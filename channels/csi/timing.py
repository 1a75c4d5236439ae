"""Symbol timing offset: a phase ramp over subcarriers, and interference beyond the cyclic prefix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, apply_factor
from channels.draws import Draw
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class TimingOffset(Impairment):
    """Symbol timing offsets: devices arrive late."""

    name = "timing"
    source = (
        "M. Speth, S. A. Fechtel, G. Fock, H. Meyr, Optimum receiver design for wireless broad-band systems using "
        "OFDM, part I, IEEE Trans. Commun. 47(11), 1999: symbol timing offset"
    )
    in_waveform = True

    timing_offset_s: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="timing_offset_s",
        description="largest timing offset; drawn uniformly from 0, one per device and round",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether there can be an offset."""
        return self.timing_offset_s > 0

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Multiply h(f) by (1 - e/T) e^(-j 2 pi f tau_i), tau_i uniform in [0, timing_offset_s].

        e = max(tau_i - prefix, 0) of the useful duration T = 1/spacing is filled with the previous symbol. If all
        subcarriers are loaded, a share (e/T)(1 - e/T) of the received power leaks to other subcarriers, and e/T comes
        from the previous symbol: 2 e/T - (e/T)^2 in total (Parseval over the truncated window). An offset within the
        cyclic prefix causes no interference.
        """
        late_s = self.timing_offset_s * draw(1)
        lost = np.maximum(late_s - around.prefix_s, 0) * around.spacing_hz
        ramp = (1 - lost) * np.exp(-2j * np.pi * late_s * frame.frequencies_hz)
        delayed = apply_factor(csi, ramp[:, None, None, :], (lost * (2 - lost))[:, 0])
        return replace(delayed, offsets=replace(delayed.offsets, late=lost[:, 0]))

    def check_within(self, around: Surroundings) -> None:
        """Raise PartError if the offset reaches the useful symbol duration."""
        if self.timing_offset_s >= 1 / around.spacing_hz:
            raise PartError(
                f"timing_offset_s must be below the useful symbol, {1 / around.spacing_hz:.6g} s, got "
                f"{self.timing_offset_s}",
                "timing_offset_s",
            )
