"""Carrier frequency offset: a common phase that grows from symbol to symbol, and inter-carrier interference (ICI)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, apply_factor
from channels.draws import Draw
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class FrequencyOffset(Impairment):
    """Carrier frequency offsets of the devices relative to the receiver."""

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
        description="largest carrier frequency offset; drawn uniformly between minus and plus this",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether there can be an offset."""
        return self.frequency_offset_hz > 0

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Multiply h_b by sinc(eps) e^(j pi eps) e^(j 2 pi df t_b), df uniform within +-frequency_offset_hz.

        eps = df/spacing; t_b: start of block b, measured from the useful part of the first symbol, where the phase is
        that of the estimate. The phase is that of a block's first symbol, so a frame with blocks of one symbol follows
        it exactly. If all subcarriers are loaded, a share 1 - sinc^2(eps) of the power falls on other subcarriers,
        mostly nearby ones, with the phase of the useful signal.
        """
        offset_hz = self.frequency_offset_hz * (2 * draw(1) - 1)
        eps = offset_hz / around.spacing_hz
        useful = np.sinc(eps)
        phase = np.pi * eps + 2 * np.pi * offset_hz * frame.block_times_s
        factor = (useful * np.exp(1j * phase))[:, None, :, None]
        shifted = apply_factor(csi, factor, 1 - useful[:, 0] ** 2, in_phase=1.0)
        return replace(shifted, offsets=replace(shifted.offsets, carrier=eps[:, 0]))

    def check_within(self, around: Surroundings) -> None:
        """Raise PartError if the offset reaches half the subcarrier spacing."""
        if self.frequency_offset_hz >= around.spacing_hz / 2:
            raise PartError(
                f"frequency_offset_hz must be below half the spacing, {around.spacing_hz / 2:.6g} Hz, got "
                f"{self.frequency_offset_hz}",
                "frequency_offset_hz",
            )
