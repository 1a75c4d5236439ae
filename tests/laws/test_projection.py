"""Recovery of sparse vectors from random projections: energy, phase transition, noise, superposition."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.runtime.streams import Streams
from airfl.uplinks.stages.projection import Projection, Projector, draw_projector, recover
from airfl.uplinks.stages.stage import Batch, open_encoder
from airfl.uplinks.stages.top_k import PerDeviceTopK
from tests.rounds import a_round

# The densest signals that soft thresholds can recover, k/s at s/d (Donoho, Maleki and Montanari 2009, figure 1).
TRANSITION = {0.1: 0.189, 0.3: 0.291, 0.5: 0.386, 0.8: 0.573}


def draw(dimension: int, measurements: int, index: int = 0) -> Projector:
    """A of a round."""
    return draw_projector(Streams(3), index, dimension, measurements, torch.device("cpu"))


def sparse(dimension: int, kept: int, kind: str, seed: int = 0) -> Tensor:
    """A vector of `kept` entries other than 0: Gaussian or signs anywhere, or a block of ones."""
    generator, x = np.random.default_rng(seed), np.zeros(dimension, dtype=np.float32)
    where = generator.choice(dimension, kept, replace=False)
    if kind == "block":
        x[dimension // 3 : dimension // 3 + kept] = 1.0
    else:
        x[where] = generator.standard_normal(kept) if kind == "gauss" else generator.choice([-1.0, 1.0], kept)
    return torch.from_numpy(x)


def error(projector: Projector, x: Tensor, noise: float = 0.0) -> float:
    """||recovered - x||/||x|| with noise of `noise` times the norm of A x."""
    y = projector.project(x)
    direction = torch.randn(len(y), generator=torch.Generator().manual_seed(1))
    y = y + direction * (noise * y.norm() / direction.norm())
    return float((recover(projector, y) - x).norm() / x.norm())


@pytest.mark.parametrize("d", [60, 61])
def test_energy_is_kept_in_the_mean(d: int) -> None:
    """E||A x||^2 = ||x||^2 over n = 2,000 matrices within 5 standard errors, for any x; n = d = 60, n = 64 for 61."""
    n = 2000
    vectors = torch.stack([torch.ones(d), torch.eye(d)[0], torch.randn(d, generator=torch.Generator().manual_seed(0))])
    vectors /= vectors.norm(dim=1, keepdim=True)
    energies = torch.stack([draw(d, 20, t).project(vectors).square().sum(dim=1) for t in range(n)]).double()
    assert torch.all((energies.mean(dim=0) - 1).abs() < 5 * energies.std(dim=0) / math.sqrt(n))
    assert energies.max() <= draw(d, 20).length / 20 * (1 + 1e-5)


@pytest.mark.parametrize("kind", ["gauss", "sign", "block"])
@pytest.mark.parametrize("kept", [10, 40, 100])
def test_sparse_vectors_are_recovered_without_noise(kept: int, kind: str) -> None:
    """s = 4 k ln(d/k), d = 4,000: an error below 1e-3 in each of 3 rounds."""
    s = math.ceil(4 * kept * math.log(4000 / kept))
    for t in range(3):
        assert error(draw(4000, s, t), sparse(4000, kept, kind, seed=t)) < 1e-3


@pytest.mark.parametrize("ratio", TRANSITION)
def test_recovery_ends_at_the_phase_transition(ratio: float) -> None:
    """d = 6,000: recovered at half the critical density, whatever the values; lost well above it."""
    d, s = 6000, round(ratio * 6000)
    for kind in ("gauss", "sign", "block"):
        assert error(draw(d, s), sparse(d, round(0.5 * TRANSITION[ratio] * s), kind)) < 2e-3
        assert error(draw(d, s), sparse(d, round(1.3 * TRANSITION[ratio] * s), kind)) > 0.1


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("ratio", TRANSITION)
def test_the_error_is_below_that_of_the_noise(ratio: float, noise: float) -> None:
    """At a third of the critical density, ||error||/||x|| is 1/3 to 1.5 times ||noise||/||A x||."""
    d, s = 6000, round(ratio * 6000)
    assert noise / 3 < error(draw(d, s), sparse(d, round(TRANSITION[ratio] * s / 3), "gauss"), noise) < 1.5 * noise


@pytest.mark.parametrize("ratio", [0.05, 0.1, 0.3, 0.5, 0.8, 0.99])
@pytest.mark.parametrize("density", [0.01, 0.3, 1.0])
def test_too_much_noise_or_too_dense_a_message_leaves_little(ratio: float, density: float) -> None:
    """Never much worse than to give up: an error of at most 1.1 ||x|| and a fifth of the noise, down to -20 dB."""
    x, projector = sparse(4000, round(density * 4000), "gauss"), draw(4000, round(ratio * 4000))
    for noise in (0.0, 1.0, 10.0):
        assert error(projector, x, noise) < 1.1 + noise / 5


def test_of_noise_alone_next_to_nothing_is_left() -> None:
    noise = torch.randn(1200, generator=torch.Generator().manual_seed(0))
    assert recover(draw(4000, 1200), noise).norm() < 0.15 * noise.norm()


def test_messages_of_different_supports_superpose() -> None:
    """Two devices' own top-20 of 3,000 entries at weights 0.5 and 2, 900 measurements: their mean is recovered."""
    updates = torch.stack([sparse(3000, 200, "gauss", seed) for seed in (0, 1)])
    batch, opened, top = Batch(updates, torch.tensor([0.5, 2.0])), a_round(Streams(3), 0, 2), PerDeviceTopK(3000, 20)
    encoder = open_encoder((top, Projection(3000, 900)), opened)
    received, wanted = (each.encode(batch).messages.mean(dim=0) for each in (encoder, top.open(opened)))
    assert torch.count_nonzero(wanted) >= 35
    torch.testing.assert_close(encoder.decode(received), wanted, atol=1e-4, rtol=1e-4)
