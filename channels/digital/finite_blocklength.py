"""Rates and errors of finite blocks over the complex AWGN channel by the normal approximation, with ARQ.

See Polyanskiy, Poor, Verdu 2010, theorem 54 and eq. 296.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from channels.digital.elements import DeviceResources
from channels.digital.kinds import ErrorModel
from channels.digital.parameters import target_error, transmissions
from channels.digital.retransmission import retransmit
from channels.digital.shannon import MIN_RATE, bits_per_element
from channels.digital.task import Array, Demand, DigitalTask
from channels.part import parameter


class FiniteBlocklength(ErrorModel):
    """Blocks of finite length with ARQ.

    Blocks of `block_elements` resource elements are sent at the rate that the estimated channel allows at
    `target_error`. Each fails with the error probability of the true channel at that rate, and is sent again, up to
    `transmissions` times in total, without combining. The last block is padded.

    A device's subcarriers and the round's time blocks are parallel channels with capacities C_k and dispersions V_k,
    and C and V are their means.
    """

    name = "finite-blocklength"
    source = "Polyanskiy, Poor, Verdu 2010, normal approximation, eq. 296; ARQ"

    target_error: float = target_error()
    block_elements: int = parameter(
        1000,
        ge=1,
        key="block_elements",
        description="resource elements of a code block, for error_model = finite-blocklength",
    )
    transmissions: int = transmissions()

    def send(self, task: DigitalTask, resources: DeviceResources) -> Demand:
        """Return the resources that the messages need, and whether they are decoded."""
        length = self.block_elements
        rate = normal_rate(*_moments(resources, resources.known), length, self.target_error)
        error = normal_error(*_moments(resources, resources.true), length, rate)
        bits = task.bits.astype(float)
        sends = (bits > 0) & (rate > MIN_RATE)
        blocks = np.where(sends, np.ceil(bits / np.where(sends, rate * length, 1.0)), 0.0)
        error = np.where(sends, error, bits > 0)
        failure = np.repeat(error[:, None], self.transmissions, axis=1)
        sent, wrong = retransmit(blocks, failure, task.uniforms(self.transmissions))
        return Demand(
            rate=rate,
            resource_elements=sent * length,
            bits_on_air=bits * sent / np.maximum(blocks, 1.0),
            block_error_rate=error,
            decoded=(wrong == 0) & (sends | (bits == 0)),
        )


def normal_rate(capacity: Array, dispersion: Array, length: int, error: float) -> Array:
    """Return R = C - sqrt(V/n) Q^-1(eps) + log2(n)/(2n) in bits per complex symbol, clipped to 0 and C.

    If C does not exceed the last term (a few bits per block), the approximation is invalid, and R = 0.
    """
    rate = capacity + np.sqrt(dispersion / length) * ndtri(error) + _third(length)
    return np.asarray(np.where(capacity > _third(length), np.clip(rate, 0.0, capacity), 0.0))


def normal_error(capacity: Array, dispersion: Array, length: int, rate: Array) -> Array:
    """Return eps of the same equation at rate R: Q((C - R + log2(n)/(2n)) / sqrt(V/n)); 1 if C does not exceed the last
    term."""
    received = capacity > _third(length)
    spread = np.where(received, np.sqrt(dispersion / length), 1.0)
    return np.asarray(np.where(received, ndtr((rate - capacity - _third(length)) / spread), 1.0))


def _third(length: int) -> float:
    """Return log2(n)/(2n), the third term."""
    return math.log2(length) / (2 * length)


def _moments(resources: DeviceResources, snr: Array) -> tuple[Array, Array]:
    """Return C in bits and V = (1 - 1/(1 + SNR)^2) log2(e)^2 in bits^2 per complex symbol, [devices]."""
    dispersion = -np.expm1(-2 * np.log1p(snr)) / np.log(2.0) ** 2
    return resources.mean(bits_per_element(snr)), resources.mean(dispersion)
