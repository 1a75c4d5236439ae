"""Channel ageing: what the channel has become between its estimation and the transmission. Diffuse paths fade anew, the
line of sight turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.special import j0

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.knowledge import Knowledge, if_exact
from channels.csi.state import ChannelEstimate, Response
from channels.draws import Array, Draw, circular_gaussian, correlate
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class Ageing(Impairment):
    """The channel goes on fading between its estimation and the transmission."""

    name = "ageing"
    source = (
        "W. C. Jakes, Microwave Mobile Communications (1974), section 1.1; K. E. Baddour and N. C. Beaulieu, "
        "Autoregressive modeling for fading channel simulation, IEEE Trans. Wireless Commun. 4(4), 2005"
    )

    delay_s: float = parameter(
        default=0.0,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(0.0,),
        key="delay_s",
        description="from estimation to transmission: ageing by channel.speed_m_s",
    )
    los_doppler: Literal["unknown", "known"] = parameter(
        default="unknown",
        key="los_doppler",
        description="whether the phase by which a line of sight turns over delay_s is known, and compensated",
    )

    def present(self, around: Surroundings) -> bool:
        """Where devices move, and time passes."""
        return self.delay_s > 0 and around.doppler_hz > 0

    def apply(self, knowledge: Knowledge, around: Surroundings, frame: Frame, draw: Draw) -> Knowledge:
        """h' = e^(j psi) s + rho (h - s) + sqrt(1 - rho^2) sqrt(P_d) w, rho = J0(2 pi f_D delay), w ~ CN(0, 1).

        s: what comes by the line of sight, turned by psi = 2 pi f_s delay, f_s its Doppler shift; the rest, of mean
        power P_d, takes a Gauss-Markov step with the correlation of Jakes' spectrum, w independent of h. rho may be
        negative. w is correlated between antennas as the diffuse part is. Where the shift is known, the estimate's own
        part by the line of sight is turned too.
        """
        sight, rho = knowledge.line_of_sight, ageing_correlation(around.doppler_hz, self.delay_s)
        if sight is None:
            return _age_diffuse(knowledge, np.zeros_like(knowledge.state.response), knowledge.mean_power, rho, draw)
        diffuse_power = knowledge.mean_power * (1 - sight.share)
        aged = _age_diffuse(knowledge, sight.part, diffuse_power, rho, draw)
        turns = np.exp(2j * np.pi * sight.doppler_hz * self.delay_s)[:, None, None, None]
        estimate = knowledge.estimate.response
        if self.los_doppler == "known":
            estimate = estimate + ((turns - 1) * sight.heard).astype(estimate.dtype)
        # Without diffuse paths an exact estimate is turned, at most; otherwise h given it depends on the line of sight.
        turned = not diffuse_power.any()
        return replace(
            aged,
            state=replace(aged.state, response=aged.state.response + (turns * sight.part).astype(estimate.dtype)),
            estimate=ChannelEstimate(estimate),
            slope=knowledge.slope if turned else aged.slope,
            error_variance=if_exact(knowledge.error_variance) if turned else None,
        )


def _age_diffuse(knowledge: Knowledge, sight: Response, diffuse_power: Array, rho: float, draw: Draw) -> Knowledge:
    """The step of what does not come by the line of sight, and the moments of that alone. sight: axes of the response;
    diffuse_power: E|h - s|^2, [devices]."""
    diffuse = knowledge.state.response - sight
    spread = (1 - rho**2) * diffuse_power
    innovation = _innovation(diffuse, draw)
    if knowledge.spatial_roots is not None:
        innovation = correlate(knowledge.spatial_roots, innovation)
    w = innovation * np.sqrt(spread)[:, None, None, None].astype(diffuse.real.dtype)
    error = knowledge.error_variance
    return replace(
        knowledge,
        state=replace(knowledge.state, response=rho * diffuse + w),
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
