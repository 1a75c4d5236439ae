"""Carrier frequency offset: a common phase that grows from symbol to symbol, and inter-carrier interference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from channels.csi.knowledge import CsiParameters, Impairment, Knowledge, turn
from channels.draws import Draw
from channels.frame import Frame


def _offset(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draw: Draw) -> Knowledge:
    """h'_b = h_b sinc(eps) e^(j pi eps) e^(j 2 pi df t_b), df uniform within plus and minus frequency_offset_hz.

    eps = df/spacing; t_b: start of block b, from the useful part of the first symbol, where the phase is the
    estimate's. The phase is that of a block's first symbol: a frame whose blocks are one symbol long follows it
    exactly. A share 1 - sinc^2(eps) of the power falls on other subcarriers, where all are loaded; it comes from near
    by, with the phase of what stays.
    """
    offset_hz = parameters.frequency_offset_hz * (2 * draw(1) - 1)
    eps = offset_hz / parameters.spacing_hz
    useful = np.sinc(eps)
    phase = np.pi * eps + 2 * np.pi * offset_hz * frame.block_times_s
    turned = turn(knowledge, (useful * np.exp(1j * phase))[:, None, :, None], 1 - useful[:, 0] ** 2, in_phase=True)
    return replace(turned, offsets=replace(turned.offsets, carrier=eps[:, 0]))


FREQUENCY = Impairment(
    apply=_offset,
    present=lambda parameters: parameters.frequency_offset_hz > 0,
    source="P. H. Moose, A technique for orthogonal frequency division multiplexing frequency offset correction, "
    "IEEE Trans. Commun. 42(10), 1994",
)
