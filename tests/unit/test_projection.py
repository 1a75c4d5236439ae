"""The projection of A-DSGD: its matrix, its thresholds and its use among the stages."""

import math
from unittest.mock import patch

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from airfl.runtime.streams import Streams
from airfl.uplinks.stages.projection import (
    Projection,
    Projector,
    draw_projector,
    least_risk_threshold,
    minimax_threshold,
    recover,
    soft_threshold,
    transform_length,
)
from airfl.uplinks.stages.stage import Batch, MessageBound, Round, open_encoder
from airfl.uplinks.stages.top_k import PerDeviceTopK
from tests.rounds import a_round


def opened(devices: int = 2) -> Round:
    return a_round(Streams(0), 0, devices)


def matrix(projector: Projector) -> Tensor:
    """A, [s, d]."""
    return projector.project(torch.eye(projector.dimension, dtype=torch.float64)).T


def draw(dimension: int, measurements: int, index: int = 0) -> Projector:
    return draw_projector(Streams(0), index, dimension, measurements, torch.device("cpu"))


@pytest.mark.parametrize(("d", "s"), [(8, 5), (9, 4), (10, 10), (7, 7), (1, 1), (2, 1), (15, 1), (7, 6), (14, 12)])
def test_rows_are_orthogonal_and_columns_are_cut_from_them(d: int, s: int) -> None:
    """For n = d, A A' = (n/s) I; else A is d columns of such a matrix, and no longer than that."""
    projector = draw(d, s)
    A, n = matrix(projector), projector.length
    assert A.shape == (s, d)
    torch.testing.assert_close(projector.back(torch.eye(s, dtype=torch.float64)).T, A.T)
    if n == d:
        torch.testing.assert_close(A @ A.T, n / s * torch.eye(s, dtype=torch.float64))
    assert torch.linalg.matrix_norm(A, 2) <= math.sqrt(n / s) * (1 + 1e-12)


@pytest.mark.parametrize(("d", "s", "n"), [(25_450, 1000, 25_600), (25_450, 25_450, 25_450), (1000, 999, 1000)])
def test_the_transform_has_a_fast_length(d: int, s: int, n: int) -> None:
    assert transform_length(d, s) == n
    assert Projection(d, s).gain == pytest.approx(math.sqrt(n / s))


def test_a_round_has_one_matrix_and_the_next_another() -> None:
    """Updates are multiplied by it, in chunks as the whole; scale, rows and norms go along."""
    A = [matrix(draw(12, 5, index)) for index in (0, 0, 1)]
    assert torch.equal(A[0], A[1])
    assert not torch.allclose(A[0], A[2])
    vectors = torch.randn(3, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scale, coder = torch.tensor([2.0, 0.5, 3.0], dtype=torch.float64), Projection(12, 5).open(opened(5))
    for some in (slice(0, 3), slice(0, 1), slice(1, 3)):
        rows = slice(some.start + 1, some.stop + 1)
        batch = coder.encode(Batch(vectors[some], scale[some], vectors[some].norm(dim=1), rows, np.arange(12)))
        torch.testing.assert_close(batch.messages, (scale[:, None] * vectors @ A[0].T)[some])
        torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))
        assert (batch.rows, batch.coordinates) == (rows, None)


def test_nothing_comes_out_of_nothing_and_the_same_of_the_same() -> None:
    for s in (1, 7, 20):
        decode = Projection(20, s).open(opened()).decode
        assert torch.equal(decode(torch.zeros(s)), torch.zeros(20))
        received = torch.randn(s, generator=torch.Generator().manual_seed(0))
        assert torch.isfinite(decode(received)).all()
        assert torch.equal(decode(received), decode(received.clone()))


@pytest.mark.parametrize("d", [1, 6, 7, 1000])
def test_as_many_measurements_as_entries_recover_everything(d: int) -> None:
    """No threshold is applied: the mean of dense messages comes back, and noise as it is."""
    updates = torch.randn(3, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    coder = Projection(d, d).open(opened(3))
    messages = coder.encode(Batch(updates, torch.ones(3, dtype=torch.float64))).messages
    torch.testing.assert_close(messages.norm(dim=1), updates.norm(dim=1))
    torch.testing.assert_close(coder.decode(messages.mean(dim=0)), updates.mean(dim=0))


def test_bounds_of_the_message() -> None:
    """n = 32 for d = 31, s = 8: a factor of 2 at worst, and none in the mean."""
    before = MessageBound(31, 3.0, 2.0, sensitivity=1.5, noise_std=0.5, values=4, side_bits=15)
    after = Projection(31, 8).bound(before)
    assert (after.entries, after.sent_values, after.payload_bits) == (8, 8, 256)
    assert (after.peak, after.rms, after.sensitivity, after.noise_std) == (6.0, 2.0, 3.0, 1.0)


def test_the_noise_gain_is_that_of_the_transpose() -> None:
    """tr(A A') = d, from unit columns on average; n = 400 matrices, 5 standard errors."""
    energies = [float(matrix(draw(7, 3, index)).square().sum()) / 7 for index in range(400)]
    assert abs(np.mean(energies) - 1) < 5 * np.std(energies) / math.sqrt(400)
    assert Projection(7, 3).open(opened()).noise_gain == 1


def test_single_messages_are_expanded_by_recovering_each() -> None:
    updates = torch.zeros(2, 400)
    updates[0, 5], updates[1, 300] = 2.0, -3.0
    encoder = open_encoder((PerDeviceTopK(400, 1), Projection(400, 100)), opened())
    batch = encoder.encode(Batch(updates, torch.ones(2)))
    assert encoder.expand is not None
    torch.testing.assert_close(encoder.expand(batch.messages), updates, atol=1e-4, rtol=0)


@pytest.mark.parametrize("ratio", [1e-4, 0.05, 0.1, 0.3, 0.5, 0.8, 0.95])
def test_the_threshold_is_the_minimax_one(ratio: float) -> None:
    """It is where rho(z) = (1 - (2/delta) q(z))/(1 + z^2 - 2 q(z)), q = (1 + z^2) Phi(-z) - z phi(z), is largest."""
    z = np.linspace(0.01, 7, 70_001)
    q = (1 + z * z) * stats.norm.cdf(-z) - z * stats.norm.pdf(z)
    rho = (1 - 2 / ratio * q) / (1 + z * z - 2 * q)
    assert minimax_threshold(ratio) == pytest.approx(z[np.argmax(rho)], abs=1e-3)


def test_soft_threshold() -> None:
    values = torch.tensor([-3.0, -1.0, -0.5, 0.0, 1.0, 2.5])
    torch.testing.assert_close(soft_threshold(values, 1.0), torch.tensor([-2.0, 0.0, 0.0, 0.0, 0.0, 1.5]))
    assert torch.equal(soft_threshold(values, 0.0), values)


@pytest.mark.parametrize("variance", [0.0, 0.01, 0.3, 1.0, 50.0])
def test_least_risk_threshold_is_the_best_of_all(variance: float) -> None:
    """Against Stein's estimate -n v + 2 v #(|x| > t) + sum min(|x|, t)^2, written out for every candidate."""
    x = np.random.default_rng(0).standard_t(2, 60)
    candidates = [0.0, *np.abs(x)]

    def risk(t: float) -> float:
        return -60 * variance + 2 * variance * np.sum(np.abs(x) > t) + np.sum(np.minimum(np.abs(x), t) ** 2)

    assert least_risk_threshold(torch.from_numpy(x), variance) == min(candidates, key=risk)


def sparse() -> tuple[Projector, Tensor, Tensor]:
    """60 entries of 2,000, and what is measured of them."""
    projector, x = draw(2000, 600), torch.zeros(2000)
    x[:60] = torch.randn(60, generator=torch.Generator().manual_seed(0))
    return projector, x, projector.project(x)


def test_iterations_are_an_upper_limit() -> None:
    projector, x, y = sparse()
    errors = [float((recover(projector, y, iterations) - x).norm() / x.norm()) for iterations in (2, 8, 30)]
    assert errors[0] > 10 * errors[1] > 100 * errors[2]


@pytest.mark.parametrize(("noise", "most"), [(0.0, 30), (0.3, 14), (3.0, 4)])
def test_recovery_stops_when_the_residual_no_longer_shrinks(noise: float, most: int) -> None:
    projector, _, y = sparse()
    y = y + noise * y.square().mean().sqrt() * torch.randn(600, generator=torch.Generator().manual_seed(1))
    for received, least, limit in ((y, 2, most), (torch.zeros(600), 2, 2)):
        with patch.object(Projector, "project", autospec=True, side_effect=Projector.project) as project:
            recover(projector, received)
        assert least <= project.call_count <= limit
