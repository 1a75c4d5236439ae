"""A worked example of PFELS' power control: N = 10, r = 3, d = 8, k = 4, with all numbers computed independently."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.privacy.pfels import theorem_3_factor
from airfl.runtime.streams import Streams
from airfl.uplinks.stages import Batch, Clip, RandK, bound_after
from channels.grid import Packing
from channels.mac import MultipleAccessChannel
from channels.power import LimitReading, align, invert_channel, power_limits, round_energy_limits
from tests.rounds import a_round

DEVICES, SELECTED, DIMENSION, KEPT = 10, 3, 8, 4
CLIP_NORM = 0.1 * 5 * 1.0  # eta tau C_1
DELTA, NOISE_STD = 0.1, 1.0
GAINS = np.array([0.02, 0.05, 0.01])
PHASES = np.exp(1j * np.array([0.3, -2.0, 1.1]))  # of no consequence: they are inverted
SNR = np.array([10.0, 5.0, 20.0])
COORDINATES = torch.tensor([0, 2, 5, 7])
SIGNS = [0.5 / math.sqrt(8), -0.5 / math.sqrt(8)] * 4
UPDATES = torch.tensor([[0.25] * 4 + [0] * 4, SIGNS, [0] * 4 + [0.25] * 4], dtype=torch.float64)
DECODED = [0.142258898, 0, 0.142258898, 0, 0, 0.024407768, 0, 0.024407768]


def alignment_coefficient(epsilon: float, reading: LimitReading = "round_energy") -> float:
    """beta of theorem 5 from the project's own pieces; C_2 = 2 sqrt(2) C r sqrt(log(1.25 r/(N delta)))/(N sigma_0)."""
    factor = theorem_3_factor(CLIP_NORM, SELECTED, DEVICES, DELTA, NOISE_STD)
    assert factor == pytest.approx(2 * math.sqrt(2) * 0.5 * 0.3 * math.sqrt(math.log(3.75)), rel=1e-14)
    bound = bound_after((Clip(CLIP_NORM), RandK(DIMENSION, KEPT, rescale=False)), DIMENSION)
    limits = round_energy_limits(power_limits(SNR, DIMENSION, NOISE_STD), KEPT / DIMENSION, reading)
    return align(GAINS, limits, np.full(SELECTED, bound.rms), epsilon / factor).coefficient


def send(beta: float, packing: Packing) -> tuple[torch.Tensor, NDArray[np.float64]]:
    """Noise-free decoded update and the energies, for the mask of the example."""
    clip = Clip(CLIP_NORM).open(a_round(Streams(0), 0))
    batch = clip.encode(Batch(UPDATES, torch.ones(SELECTED, dtype=torch.float64)))
    gains, precoders = GAINS * PHASES, invert_channel(GAINS * PHASES, beta)
    channel = MultipleAccessChannel(gains[:, None, None], precoders[:, None, None], packing)
    energies = channel.send(batch.values[:, COORDINATES], batch.scale.numpy(), slice(0, SELECTED)).energy
    mean = channel.close(torch.zeros(KEPT)) / (SELECTED * beta)
    return torch.zeros(DIMENSION, dtype=mean.dtype).index_copy(0, COORDINATES, mean), energies


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_power_binds_at_epsilon_1_5_and_privacy_at_0_15(packing: Packing) -> None:
    for epsilon, coefficient, total, rtol in ((1.5, 0.3577708764, 206.4, 1e-9), (0.15, 0.30752426, 152.496016, 4e-9)):
        beta = alignment_coefficient(epsilon)
        assert beta == pytest.approx(coefficient, abs=5e-9)
        decoded, energies = send(beta, packing)
        np.testing.assert_allclose(energies, total / 206.4 * np.array([40, 6.4, 160]), rtol=rtol)
        np.testing.assert_allclose(decoded, DECODED, rtol=1e-9, atol=5e-10)
    at_fixed_power = alignment_coefficient(1.5, "transmit_power")
    assert at_fixed_power == pytest.approx(0.3577708764 * math.sqrt(0.5), rel=1e-9)


def test_a_whole_round_may_take_the_limit_over_p() -> None:
    """P_i = (80, 40, 160) holds on average over the masks; the device that binds may spend P_i/p in one round."""
    limits, at_most = power_limits(SNR, DIMENSION, NOISE_STD), (alignment_coefficient(1.5) / GAINS * CLIP_NORM) ** 2
    np.testing.assert_allclose(limits, [80, 40, 160])
    assert np.all(at_most * KEPT / DIMENSION <= limits * (1 + 1e-12))
    assert at_most.max() == pytest.approx(160 / 0.5)
