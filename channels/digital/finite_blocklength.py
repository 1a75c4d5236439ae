"""Rates and errors of blocks of finite length over the complex AWGN channel, by the normal approximation (Polyanskiy,
Poor, Verdu 2010, theorem 54 and eq. 296), and repetition of blocks that fail."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr, ndtri

from channels.digital.elements import OwnElements
from channels.digital.kinds import ErrorModel
from channels.digital.parameters import target_error, transmissions
from channels.digital.retransmission import retransmit
from channels.digital.shannon import LEAST_RATE, bits_per_element
from channels.digital.task import Array, Demand, DigitalTask
from channels.part import parameter


class FiniteBlocklength(ErrorModel):
    """Blocks of `block_elements` resource elements at the rate that the known channel allows at `target_error`; each
    fails with the probability that the true channel then has, and is sent again, up to `transmissions`, by itself (no
    combining). The last block is filled up.

    A device's subcarriers and the round's blocks are parallel channels with capacities C_k and dispersions V_k: C and V
    are the means.
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

    def send(self, task: DigitalTask, own: OwnElements) -> Demand:
        """What the messages take, and whether they arrive."""
        length = self.block_elements
        rate = normal_rate(*_moments(own, own.known), length, self.target_error)
        error = normal_error(*_moments(own, own.true), length, rate)
        bits = task.bits.astype(float)
        sends = (bits > 0) & (rate > LEAST_RATE)
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
    """R = C - sqrt(V/n) Q^-1(eps) + log2(n)/(2n), bits a complex symbol, within 0 and C.

    Where C is not above the last term, a few bits a block, the approximation says nothing: R = 0.
    """
    rate = capacity + np.sqrt(dispersion / length) * ndtri(error) + _third(length)
    return np.asarray(np.where(capacity > _third(length), np.clip(rate, 0.0, capacity), 0.0))


def normal_error(capacity: Array, dispersion: Array, length: int, rate: Array) -> Array:
    """eps of the same equation, at rate R: Q((C - R + log2(n)/(2n)) / sqrt(V/n)); 1 where C is not above the last
    term."""
    received = capacity > _third(length)
    spread = np.where(received, np.sqrt(dispersion / length), 1.0)
    return np.asarray(np.where(received, ndtr((rate - capacity - _third(length)) / spread), 1.0))


def _third(length: int) -> float:
    """log2(n)/(2n), the third term."""
    return math.log2(length) / (2 * length)


def _moments(own: OwnElements, snr: Array) -> tuple[Array, Array]:
    """C in bits and V = (1 - 1/(1 + SNR)^2) log2(e)^2 in bits^2 a complex symbol, [devices]."""
    dispersion = -np.expm1(-2 * np.log1p(snr)) / np.log(2.0) ** 2
    return own.mean(bits_per_element(snr)), own.mean(dispersion)
