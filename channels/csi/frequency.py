"""Carrier frequency offset: a common phase that grows from symbol to symbol, and inter-carrier interference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.knowledge import Knowledge, turn
from channels.draws import Draw
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class FrequencyOffset(Impairment):
    """Carriers of devices are off that of the receiver."""

    name = "frequency"
    source = (
        "P. H. Moose, A technique for orthogonal frequency division multiplexing frequency offset correction, "
        "IEEE Trans. Commun. 42(10), 1994"
    )
    in_waveform = True

    frequency_offset_hz: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="frequency_offset_hz",
        description="largest carrier frequency offset; uniform within +-",
    )

    def present(self, around: Surroundings) -> bool:
        """Where a carrier may be off."""
        return self.frequency_offset_hz > 0

    def apply(self, knowledge: Knowledge, around: Surroundings, frame: Frame, draw: Draw) -> Knowledge:
        """h'_b = h_b sinc(eps) e^(j pi eps) e^(j 2 pi df t_b), df uniform within plus and minus frequency_offset_hz.

        eps = df/spacing; t_b: start of block b, from the useful part of the first symbol, where the phase is the
        estimate's. The phase is that of a block's first symbol: a frame whose blocks are one symbol long follows it
        exactly. A share 1 - sinc^2(eps) of the power falls on other subcarriers, where all are loaded; it comes from
        near by, with the phase of what stays.
        """
        offset_hz = self.frequency_offset_hz * (2 * draw(1) - 1)
        eps = offset_hz / around.spacing_hz
        useful = np.sinc(eps)
        phase = np.pi * eps + 2 * np.pi * offset_hz * frame.block_times_s
        turned = turn(knowledge, (useful * np.exp(1j * phase))[:, None, :, None], 1 - useful[:, 0] ** 2, in_phase=True)
        return replace(turned, offsets=replace(turned.offsets, carrier=eps[:, 0]))

    def check_within(self, around: Surroundings) -> None:
        """The receiver tells a subcarrier from the next."""
        if self.frequency_offset_hz >= around.spacing_hz / 2:
            raise PartError(
                f"frequency_offset_hz must be below half the spacing, {around.spacing_hz / 2:.6g} Hz, got "
                f"{self.frequency_offset_hz}",
                "frequency_offset_hz",
            )
