"""Phase noise of oscillators: a common phase that wanders from symbol to symbol, and inter-carrier interference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, apply_factor
from channels.draws import Draw, circular_gaussian
from channels.frame import Frame
from channels.hardware.oscillator import SymbolPhaseNoise, symbol_phases
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter


class PhaseNoise(Impairment):
    """Wiener phase noise of the devices' oscillators relative to the receiver's."""

    name = "oscillator"
    source = (
        "D. Petrovic, W. Rave, G. Fettweis, Effects of phase noise on OFDM systems with and without PLL: "
        "characterization and compensation, IEEE Trans. Commun. 55(8), 2007"
    )

    linewidth_hz: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="linewidth_hz",
        description="linewidth (full width at half maximum) of a device's free-running oscillator relative to the "
        "receiver's; its phase is that of the estimate at the beginning of a round",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether the linewidth is positive."""
        return self.linewidth_hz > 0

    def over_symbol(self, around: Surroundings) -> SymbolPhaseNoise:
        """Return the phase noise over the useful part of a symbol."""
        return SymbolPhaseNoise(2 * np.pi * self.linewidth_hz / around.spacing_hz)

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Multiply h_b by sqrt(E|J|^2) e^(j theta_b), theta_b the mean phase over the useful part of block b's first
        symbol.

        The phase is 0 where the useful part of the first symbol begins. A share 1 - E|J|^2 of the power falls on other
        subcarriers, mostly nearby ones. Of the phase within a symbol, less its mean, the part that is odd about the
        middle has 3/4 of the variance of a Wiener process. As a carrier offset does, it makes interference in phase
        with the signal; the even part makes one in quadrature. 3/4 on one part and 1/4 on the other are half in phase
        and half on both.
        """
        symbol = self.over_symbol(around)
        blocks = frame.blocks
        pairs = np.sqrt(2) * circular_gaussian(draw(4 * blocks))
        normals = np.stack([pairs.real, pairs.imag], axis=2).reshape(len(pairs), blocks, 4)[..., :3]
        gap_s = max(frame.block_s - 1 / around.spacing_hz, 0.0)
        phases = symbol_phases(normals, symbol.variance, 2 * np.pi * self.linewidth_hz * gap_s)
        factor = (np.sqrt(symbol.kept) * np.exp(1j * phases))[:, None, :, None]
        turned = apply_factor(csi, factor, np.full(len(phases), 1.0 - symbol.kept), in_phase=0.5)
        return replace(turned, scattered=symbol.scattered)

    def check_within(self, around: Surroundings) -> None:
        """Raise PartError if the phase changes by more than a rad within a symbol."""
        largest = around.spacing_hz / (2 * np.pi)
        if self.linewidth_hz > largest:
            raise PartError(
                f"linewidth_hz must be at most the spacing over 2 pi, {largest:.6g} Hz, got {self.linewidth_hz}",
                "linewidth_hz",
            )
