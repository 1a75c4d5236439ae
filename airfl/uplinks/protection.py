"""The largest amplitude with which a message is observed, which the privacy accounting compares with receiver noise.

With perfect CSI it is beta. With imperfect CSI a contribution is received with amplitude |1 + e/hhat| beta, and
`CsiError` states how the accounting treats the error e.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from airfl.uplinks.control import Control
from channels.csi import ChannelInformation, Response
from channels.grid import Packing

CsiError = Literal["realised", "quantile", "unbounded"]
"""realised: the amplitude of the realised channel, which the observer is assumed to know; quantile: an a priori bound
that holds except with a small probability over the error; unbounded: no bound, hence no protection."""


def largest_amplitude(
    gains: Response,
    control: Control,
    csi: ChannelInformation,
    packing: Packing,
    csi_error: CsiError,
    tail: float,
    least_gain: float = 0.0,
) -> float:
    """Return the largest amplitude with which a unit of a device's message is observed in this round, over devices and
    elements.

    Args:
        gains: True effective channel, [devices, blocks, subcarriers].
        control: Power control of the round.
        csi: The true and the estimated channel.
        packing: How entries are packed into resource elements.
        csi_error: How the accounting treats the channel estimation error.
        tail: Probability, over all devices and elements of the round, that a "quantile" is exceeded.
        least_gain: Gain to which weaker fades are raised, which a Gaussian error law does not describe; 0 for none.

    If coefficients differ over elements, the largest counts, not the mean. Returns inf if there is no bound: for
    "unbounded" with imperfect CSI, and for "quantile" with an error that is not Gaussian.
    """
    if not len(gains):
        return float(control.plan.coefficient.max())
    used = control.weights > 0
    if csi_error == "realised":
        effective = gains * control.precoders
        observed = np.abs(effective.real) if packing == "real" else np.abs(effective)
        return float(np.max(observed * used, initial=0.0))
    error = csi.error_variance
    nominal = np.abs(control.estimate) * control.plan.amplitudes * used
    slope = np.abs(csi.slope)[:, None, None]
    if error is not None and not error.any():
        return float((slope * nominal).max())
    if csi_error == "unbounded" or error is None:
        return math.inf
    each = tail / nominal.size
    bound = slope * nominal + least_gain * control.plan.amplitudes * used
    deviation = np.sqrt(error / 2)[:, None, None] * control.plan.amplitudes * used
    # Two-sided for the real part of e/hhat, else for its modulus.
    quantile = -ndtri(each / 2) if packing == "real" else math.sqrt(-2 * math.log(each))
    return float((bound + quantile * deviation).max())


def largest_raw_amplitude(response: Response, control: Control, share: NDArray[np.float64]) -> float:
    """Return the largest ||h_i|| |b_i| over devices and used elements: the amplitude with which the server observes a
    unit of a message in the samples of all antennas.

    Args:
        response: True channel, [devices, antennas, blocks, subcarriers].
        control: Power control of the round.
        share: Fraction of entries on each coefficient, [blocks, subcarriers].

    For real and for complex payloads alike, the direction of a message in the samples is h_i, and the noise along it
    has standard deviation sigma_0.
    """
    norms = np.sqrt((np.abs(response) ** 2).sum(axis=1))
    return float(np.max(norms * control.plan.amplitudes * (share > 0), initial=0.0))


def largest_amplified_amplitude(response: Response, control: Control, share: NDArray[np.float64]) -> float:
    """Return the largest max_k ||h_ik|| max_k |b_ik| over devices i, over the used elements k.

    An amplifier may bring what was meant for an element with a weak channel to one with a strong channel, and a real
    payload to the imaginary part. The norm of its output is at most its largest gain times that of its input, which is
    at most max_k |b_ik| times that of the message.

    Args:
        response: True channel, [devices, antennas, blocks, subcarriers].
        control: Power control of the round.
        share: Fraction of entries on each coefficient, [blocks, subcarriers].
    """
    norms = np.linalg.norm(response, axis=1)
    norms, amplitudes = np.broadcast_arrays(norms * (share > 0), control.plan.amplitudes)
    if not len(norms):
        return 0.0
    return float((norms.max(axis=(1, 2)) * amplitudes.max(axis=(1, 2))).max())
