"""Channel ageing: what the channel has become between its estimation and the transmission."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import j0

from channels.csi.knowledge import CsiParameters, Impairment, Knowledge
from channels.csi.state import Response
from channels.draws import Draw, circular_gaussian
from channels.frame import Frame


def _age(knowledge: Knowledge, parameters: CsiParameters, frame: Frame, draw: Draw) -> Knowledge:
    """h' = rho h + sqrt(1 - rho^2) sqrt(P) w, rho = J0(2 pi f_D delay), w ~ CN(0, 1) independent of h.

    A Gauss-Markov step with the correlation of Jakes' spectrum. rho may be negative. Antennas have independent w.
    """
    h = knowledge.state.response
    rho = ageing_correlation(parameters.doppler_hz, parameters.delay_s)
    spread = (1 - rho**2) * knowledge.mean_power
    w = _innovation(h, draw) * np.sqrt(spread)[:, None, None, None].astype(h.real.dtype)
    error = knowledge.error_variance
    return replace(
        knowledge,
        state=replace(knowledge.state, response=rho * h + w),
        slope=rho * knowledge.slope,
        error_variance=None if error is None else rho**2 * error + spread,
    )


def ageing_correlation(doppler_hz: float, delay_s: float) -> float:
    """rho = J0(2 pi f_D delay), correlation of a channel with itself a delay later (Clarke 1968, Jakes 1974)."""
    return float(j0(2 * np.pi * doppler_hz * delay_s))


def _innovation(h: Response, draw: Draw) -> Response:
    """w, axes and dtype of h; every coefficient is CN(0, 1) whatever h is.

    Over blocks and subcarriers w has the device's own delays and Doppler shifts: the square root of h's periodogram
    (mean of the antennas, total 1) times white Gaussian numbers, transformed back. So w is flat where h is, and no
    longer in delay than h; its correlation over frequency is close to the channel's, and periodic over the band.
    """
    white = circular_gaussian(draw(2 * int(np.prod(h.shape[1:])))).reshape(h.shape).astype(h.dtype)
    power = (np.abs(np.fft.ifft2(h)) ** 2).mean(axis=1, keepdims=True)
    total = power.sum(axis=(2, 3), keepdims=True)
    power[..., :1, :1] += total == 0  # a channel that is 0 everywhere is flat
    shaped: Response = np.fft.fft2(white * np.sqrt(power / np.where(total == 0, 1, total)))
    return shaped


AGEING = Impairment(
    apply=_age,
    present=lambda parameters: parameters.delay_s > 0 and parameters.doppler_hz > 0,
    source="W. C. Jakes, Microwave Mobile Communications (1974), section 1.1; K. E. Baddour and N. C. Beaulieu, "
    "Autoregressive modeling for fading channel simulation, IEEE Trans. Wireless Commun. 4(4), 2005",
)
