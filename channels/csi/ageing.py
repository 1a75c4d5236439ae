"""Channel ageing between estimation and transmission: the diffuse part fades, and the line of sight rotates."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from scipy.special import j0

from channels.csi.impairment import Impairment, Surroundings
from channels.csi.information import ChannelInformation, if_exact
from channels.csi.state import ChannelEstimate, Response
from channels.draws import Array, Draw, circular_gaussian, correlate
from channels.frame import Frame
from channels.part import LEAST_SCALE, MOST_SCALE, parameter


class Ageing(Impairment):
    """Channel ageing: the channel changes between its estimation and the transmission."""

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
        description="delay from estimation to transmission; the channel ages by channel.speed_m_s",
    )
    los_doppler: Literal["unknown", "known"] = parameter(
        default="unknown",
        key="los_doppler",
        description="whether the phase rotation of the line of sight over delay_s is known, and compensated",
    )

    def present(self, around: Surroundings) -> bool:
        """Whether devices move and the delay is positive."""
        return self.delay_s > 0 and around.doppler_hz > 0

    def apply(self, csi: ChannelInformation, around: Surroundings, frame: Frame, draw: Draw) -> ChannelInformation:
        """Replace h by e^(j psi) s + rho (h - s) + sqrt(1 - rho^2) sqrt(P_d) w, rho = J0(2 pi f_D delay), w ~ CN(0, 1).

        The line-of-sight component s is rotated by psi = 2 pi f_s delay, with its Doppler shift f_s. The diffuse part,
        of mean power P_d, takes a Gauss-Markov step with the correlation of the Jakes spectrum; w is independent of h,
        and correlated between antennas as the diffuse part is. rho may be negative. If the Doppler shift is known, the
        line-of-sight component of the estimate is rotated as well.
        """
        own = around.own_doppler_hz
        sight, rho = csi.line_of_sight, ageing_correlation(around.doppler_hz if own is None else own, self.delay_s)
        if sight is None:
            return _age_diffuse(csi, np.zeros_like(csi.state.response), csi.power_of_coefficients, rho, draw)
        diffuse_power = csi.power_of_coefficients * (1 - sight.share)[:, None, None, None]
        aged = _age_diffuse(csi, sight.part, diffuse_power, rho, draw)
        phases = np.exp(2j * np.pi * sight.doppler_hz * self.delay_s)[:, None, None, None]
        estimate = csi.estimate.response
        if self.los_doppler == "known":
            estimate = estimate + ((phases - 1) * sight.estimated).astype(estimate.dtype)
        # Without a diffuse part, h is a rotated version of an exact estimate. Otherwise, the law of h given the
        # estimate depends on the line of sight.
        rotated_only = not diffuse_power.any()
        return replace(
            aged,
            state=replace(aged.state, response=aged.state.response + (phases * sight.part).astype(estimate.dtype)),
            estimate=ChannelEstimate(estimate),
            slope=csi.slope if rotated_only else aged.slope,
            error_variance=if_exact(csi.error_variance) if rotated_only else None,
        )


def _age_diffuse(
    csi: ChannelInformation, sight: Response, diffuse_power: Array, rho: Array, draw: Draw
) -> ChannelInformation:
    """Apply the Gauss-Markov step to the diffuse part, and return that part only, with its moments.

    sight: line-of-sight component, in the shape of the response; diffuse_power: E|h - s|^2, [devices, 1 or antennas, 1,
    1]; rho: correlation of the step, of all devices or [devices].
    """
    diffuse = csi.state.response - sight
    each = rho.reshape(-1, 1, 1, 1)
    spread = (1 - each**2) * diffuse_power
    innovation = _innovation(diffuse, draw)
    if csi.spatial_roots is not None:
        innovation = correlate(csi.spatial_roots, innovation)
    w = innovation * np.sqrt(spread).astype(diffuse.real.dtype)
    error = csi.error_variance
    return replace(
        csi,
        state=replace(csi.state, response=each.astype(diffuse.real.dtype) * diffuse + w),
        slope=rho * csi.slope,
        error_variance=None if error is None or csi.antenna_power is not None else rho**2 * error + spread[:, 0, 0, 0],
    )


def ageing_correlation(doppler_hz: float | Array, delay_s: float) -> Array:
    """Return rho = J0(2 pi f_D delay), the autocorrelation of a channel at a delay (Clarke 1968, Jakes 1974), in the
    shape of doppler_hz."""
    return np.asarray(j0(2 * np.pi * np.asarray(doppler_hz) * delay_s))


def _innovation(h: Response, draw: Draw) -> Response:
    """Draw w in the shape and dtype of h; every coefficient is CN(0, 1) for any h.

    Over blocks and subcarriers, w has the delays and Doppler shifts of the device: white Gaussian numbers are shaped by
    the square root of the periodogram of h (averaged over antennas, with total 1) and transformed back. w is therefore
    flat if h is, and its delay spread is not longer than that of h. Its correlation over frequency is close to that of
    the channel, and periodic over the band.
    """
    white = circular_gaussian(draw(2 * int(np.prod(h.shape[1:])))).reshape(h.shape).astype(h.dtype)
    power = (np.abs(np.fft.ifft2(h)) ** 2).mean(axis=1, keepdims=True)
    total = power.sum(axis=(2, 3), keepdims=True)
    power[..., :1, :1] += total == 0  # a channel that is 0 everywhere is flat
    shaped: Response = np.fft.fft2(white * np.sqrt(power / np.where(total == 0, 1, total)))
    return shaped
