"""How strongly anybody's message is observed: what receiver noise is set against in the privacy account.

Under perfect channel knowledge it is beta. Under imperfect knowledge a contribution arrives as |1 + e/hhat| beta, and
the account has to say how it takes e: see `CsiError`.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from airfl.uplinks.control import Control
from channels.csi import Knowledge, Response
from channels.grid import Packing

CsiError = Literal["realised", "quantile", "unbounded"]
"""realised: as it was, the observer being granted the true channel; quantile: a bound that holds but for a small
probability over the error, before the fact; unbounded: no bound at all, so that nothing protects."""


def largest_amplitude(
    gains: Response,
    control: Control,
    knowledge: Knowledge,
    packing: Packing,
    reading: CsiError,
    tail: float,
    least_gain: float = 0.0,
) -> float:
    """Largest amplitude with which a unit of a device's message is observed in this round, over devices and elements.

    gains: true effective channel, [devices, blocks, subcarriers]; tail: probability, over all devices and elements of
    the round, that a "quantile" is exceeded; least_gain: up to which fades are lifted, which no Gaussian law knows of.
    With coefficients that differ over elements the largest counts, not the mean. inf where there is no bound:
    "unbounded" with imperfect knowledge, "quantile" with an error that is not Gaussian.
    """
    if not len(gains):
        return float(control.plan.coefficient.max())
    used = control.weights > 0
    if reading == "realised":
        effective = gains * control.precoders
        observed = np.abs(effective.real) if packing == "real" else np.abs(effective)
        return float(np.max(observed * used, initial=0.0))
    error = knowledge.error_variance
    nominal = np.abs(control.estimate) * control.plan.amplitudes * used
    slope = np.abs(knowledge.slope)[:, None, None]
    if error is not None and not error.any():
        return float((slope * nominal).max())
    if reading == "unbounded" or error is None:
        return math.inf
    each = tail / nominal.size
    bound = slope * nominal + least_gain * control.plan.amplitudes * used
    deviation = np.sqrt(error / 2)[:, None, None] * control.plan.amplitudes * used
    # The real part of e/hhat with either sign, or its modulus.
    quantile = -ndtri(each / 2) if packing == "real" else math.sqrt(-2 * math.log(each))
    return float((bound + quantile * deviation).max())


def largest_raw_amplitude(response: Response, control: Control, share: NDArray[np.float64]) -> float:
    """Largest ||h_i|| |b_i| over devices and the elements that are used: what the server sees of a unit of a message.

    response: true channel, [devices, antennas, blocks, subcarriers]; share: of entries, [blocks, subcarriers]. A
    message is real, or fills both parts of an element: either way its direction in the samples is h_i, and the noise in
    it has the deviation sigma_0.
    """
    norms = np.sqrt((np.abs(response) ** 2).sum(axis=1))
    return float(np.max(norms * control.plan.amplitudes * (share > 0), initial=0.0))
