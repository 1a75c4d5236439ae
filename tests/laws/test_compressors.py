"""Moments of compressors with per-device masks, and of noise that devices add to their messages."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.uplinks.stages.clip import Clip
from airfl.uplinks.stages.gaussian_noise import GaussianNoise
from airfl.uplinks.stages.rand_k import PerDeviceRandK, RandK
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round, Stage, bound_after, open_encoder
from airfl.uplinks.stages.top_k import PublicTopK
from tests.laws.samples import assert_law, assert_mean

X = torch.tensor([1.0, -2.0, 0.5, 3.0, 0.0, -0.25, 1.5, 4.0], dtype=torch.float64)
D = len(X)


def opened(stages: Stage | tuple[Stage, ...], devices: int, index: int = 0, first: int = 0) -> Coder:
    """The stages in a round of the devices first, first + 1, ..."""
    ids = np.arange(first, first + devices)
    cpu, public = torch.device("cpu"), torch.arange(100.0)
    round_ = Round(Streams(4), index, cpu, ids, np.ones(devices, dtype=bool), Store(), lambda: public)
    return open_encoder(stages if isinstance(stages, tuple) else (stages,), round_)


def copies(devices: int) -> Batch:
    """The same update of every device."""
    return Batch(X.repeat(devices, 1), torch.ones(devices, dtype=torch.float64))


@pytest.mark.parametrize("kept", [1, 3, 7])
def test_own_rand_k_is_unbiased_with_variance_omega(kept: int) -> None:
    """n = 2,500: E C(x) = x, E||C(x) - x||^2 = (d/k - 1) ||x||^2; without the factor d/k entries are as they are."""
    n, omega = 2_500, D / kept - 1
    messages = opened(PerDeviceRandK(D, kept), n).encode(copies(n)).messages
    assert torch.all(messages.count_nonzero(dim=1) <= kept)
    # An entry is d/k x_j with probability k/d: its variance is omega x_j^2.
    assert torch.all((messages.mean(dim=0) - X).abs() <= 5 * math.sqrt(omega / n) * X.abs())
    squares = (messages - X).square().sum(dim=1)
    assert_mean(squares, float(omega * X.square().sum()))
    assert squares.std() > 0
    plain = opened(PerDeviceRandK(D, kept, rescale=False), 100).encode(copies(100)).messages
    assert torch.equal(plain, torch.where(messages[:100] != 0, X, 0))


def test_to_keep_everything_and_to_add_no_noise_is_no_change() -> None:
    batch, coder = copies(3), opened(PerDeviceRandK(D, D), 3)
    assert torch.equal(coder.encode(batch).messages, batch.messages)
    assert torch.equal(coder.decode(X), X)
    assert opened(GaussianNoise(0.0), 3).encode(batch) is batch
    assert GaussianNoise(0.0).bound(MessageBound(D, 1.0, 0.5)) == MessageBound(D, 1.0, 0.5)


def test_masks_of_devices_and_rounds_are_independent() -> None:
    """n = 1,000 rounds, one entry of 4: two devices' joint choice is uniform over 16, so is one device's over two
    rounds, and that of a device and of the mask shared by all; chi-square below its 99.99% point."""
    batch, rounds = Batch(torch.ones(2, 4), torch.ones(2)), range(1000)
    masks = [opened(PerDeviceRandK(4, 1), 2, t).encode(batch).values.argmax(dim=1).numpy() for t in rounds]
    shared = np.array([int(opened(RandK(4, 1), 1, t).coordinates[0]) for t in rounds])  # type: ignore[index]
    own, other = np.stack(masks, axis=1)
    for first, second in ((own, other), (own[:-1:2], own[1::2]), (own, shared)):
        assert stats.chisquare(np.bincount(4 * first + second, minlength=16)).pvalue > 1e-4


def test_a_mask_belongs_to_the_device_and_not_to_its_place() -> None:
    """Devices 0 to 5 at once, and 3 to 5 alone, in a chunk of their own, at another scale."""
    whole = opened(PerDeviceRandK(D, 3), 6).encode(copies(6)).values
    assert torch.equal(opened(PerDeviceRandK(D, 3), 3, first=3).encode(copies(3)).values, whole[3:])
    batch = opened(PerDeviceRandK(D, 3), 6).encode(Batch(X.repeat(3, 1), torch.full((3,), 2.0), rows=slice(3, 6)))
    assert torch.equal(batch.values, whole[3:])
    assert torch.equal(batch.messages, 2 * whole[3:])
    torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))


@pytest.mark.parametrize(
    ("stage", "gain", "rms"),
    [
        *((PerDeviceRandK(8, 2), 4.0, 2.0), (PerDeviceRandK(8, 2, rescale=False), 1.0, 0.5)),
        *((RandK(8, 2, amplify=True), 4.0, 2.0), (RandK(8, 2, rescale=True), 1.0, 0.5)),
    ],
)
def test_bounds_of_masked_messages(stage: PerDeviceRandK | RandK, gain: float, rms: float) -> None:
    """Peak and sensitivity grow with the factor, the mean square by p times its square; k values are sent."""
    after = stage.bound(MessageBound(8, 1.0, 1.0, 0.5))
    assert (after.peak, after.rms, after.sensitivity) == (gain, rms, gain / 2)
    assert (after.entries, after.sent_values) == (8 if isinstance(stage, PerDeviceRandK) else 2, 2)
    assert after.payload_bits == 64


def test_amplified_before_or_after_is_the_same_without_a_clip() -> None:
    """Fed-SMP's d/k before sending and 1/p at decoding give the same; a clip in between sees the amplified message."""
    before, after = opened(RandK(D, 2, amplify=True), 2), opened(RandK(D, 2, rescale=True), 2)
    sent = [coder.encode(copies(2)).messages for coder in (before, after)]
    torch.testing.assert_close(sent[0], 4 * sent[1])
    torch.testing.assert_close(before.decode(sent[0][0]), after.decode(sent[1][0]))
    torch.testing.assert_close(before.expand(sent[0]), after.expand(sent[1]))
    assert (before.noise_gain, after.noise_gain) == (1.0, 4.0)
    clipped = opened((RandK(D, 2, amplify=True), Clip(1e-3)), 2).encode(copies(2)).messages
    torch.testing.assert_close(clipped, sent[0] * 1e-3 / sent[0].norm(dim=1, keepdim=True))


@pytest.mark.parametrize("std", [0.3, 2.0])
def test_noise_is_gaussian_with_its_std(std: float) -> None:
    """n = 40 devices x 1,000 entries: KS p-value above 1e-4, mean and variance within 5 standard errors."""
    batch = Batch(torch.full((40, 1000), 3.0), torch.full((40,), 0.5))
    noise = (opened(GaussianNoise(std), 40).encode(batch).messages - 1.5).double().numpy() / std
    assert_law(noise.ravel(), "norm")
    assert_mean(noise, 0)
    assert abs(noise.var() - 1) < 5 * math.sqrt(2 / noise.size)
    # Devices' draws are not each other's: correlations of 780 pairs, each with a standard error of 1/sqrt(1000).
    assert np.abs(np.corrcoef(noise)[np.triu_indices(40, 1)]).max() < 6 / math.sqrt(1000)


def noise_of(stages: tuple[Stage, ...], devices: int, index: int = 0) -> tuple[torch.Tensor, np.ndarray]:
    """What is put on messages of 100 entries of 0, and the coordinates they belong to."""
    batch = opened(stages, devices, index).encode(Batch(torch.zeros(devices, 100), torch.ones(devices)))
    return batch.messages, np.arange(100) if batch.coordinates is None else batch.coordinates


def test_a_coordinate_has_the_same_noise_under_any_mask() -> None:
    noise = GaussianNoise(1.0)
    everywhere, _ = noise_of((noise,), 3)
    for mask in (RandK(100, 40), RandK(100, 10, amplify=True), PublicTopK(100, 25), RandK(100, 100)):
        messages, coordinates = noise_of((mask, Clip(1.0), noise), 3)
        assert messages.shape == (3, mask.kept)
        assert torch.equal(messages, everywhere[:, torch.from_numpy(coordinates)])
    assert not torch.any(noise_of((noise,), 3, index=1)[0] == everywhere)


def test_a_devices_noise_does_not_depend_on_its_chunk() -> None:
    stage = GaussianNoise(0.7)
    whole, _ = noise_of((stage,), 6)
    for rows in (slice(0, 1), slice(2, 5), slice(5, 6)):
        zeros = torch.zeros_like(whole[rows])
        batch = opened(stage, 6).encode(Batch(zeros, torch.ones(len(zeros)), rows=rows))
        assert torch.equal(batch.messages, whole[rows])
        assert batch.rows == rows


def test_noise_is_put_on_the_message_and_not_on_its_values() -> None:
    """A clip before it does not shrink the noise; a weight after it does."""
    updates = 10 * torch.eye(2, 100)
    batch = opened((Clip(1.0), GaussianNoise(0.5)), 2).encode(Batch(updates, torch.ones(2)))
    noise = 0.5 * noise_of((GaussianNoise(1.0),), 2)[0]
    torch.testing.assert_close(batch.messages, updates / 10 + noise)
    torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))
    torch.testing.assert_close(batch.scaled(torch.full((2,), 3.0)).messages, 3 * (updates / 10 + noise))


def test_bounds_of_noisy_messages() -> None:
    """E||m + n||^2 = E||m||^2 + m std^2; variances add, the sensitivity stays."""
    after = bound_after((Clip(3.0), GaussianNoise(1.0), GaussianNoise(math.sqrt(3))), 16)
    assert after.peak == math.inf
    assert after.rms == pytest.approx(math.sqrt(9 + 16 + 48))
    assert after.noise_std == pytest.approx(2.0)
    assert after.sensitivity == 3.0
    masked = bound_after((Clip(3.0), RandK(16, 4), GaussianNoise(1.0)), 16)
    assert masked.rms == pytest.approx(math.sqrt(9 / 4 + 4))


def test_a_clip_counts_the_scale() -> None:
    """Messages 0.5, 5 and 50 long, given as values of norm 5 at scales 0.1, 1 and 10, with and without known norms."""
    values = torch.tensor([[3.0, 4.0]]).repeat(3, 1)
    scale = torch.tensor([0.1, 1.0, 10.0])
    wanted = torch.tensor([[0.3, 0.4], [1.2, 1.6], [1.2, 1.6]])
    for norms in (None, torch.full((3,), 5.0)):
        batch = opened(Clip(2.0), 3).encode(Batch(values, scale, norms, slice(0, 3), np.array([4, 7])))
        torch.testing.assert_close(batch.messages, wanted)
        torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))
        assert batch.rows == slice(0, 3)
        np.testing.assert_array_equal(batch.coordinates, [4, 7])
    twice = opened((Clip(2.0), Clip(1.0)), 3).encode(Batch(values, scale))
    torch.testing.assert_close(twice.messages.norm(dim=1), torch.tensor([0.5, 1.0, 1.0]))
