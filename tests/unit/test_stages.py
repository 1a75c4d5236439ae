"""Encoder stages: clip and rand-k, individually and chained; top-k, its masks and its bits; signs by majority vote."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.runtime.streams import Streams
from airfl.uplinks.stages import Batch, Clip, MessageBound, RandK, Stage, bound_after, kept_entries, open_encoder
from airfl.uplinks.stages.sign import SignMajority
from airfl.uplinks.stages.stage import Round
from airfl.uplinks.stages.top_k import PerDeviceTopK, PublicTopK, largest, largest_on_device, subset_bits
from tests.rounds import a_round

STREAMS = Streams(9)


def encoded(stages: tuple[Stage, ...], updates: Tensor, index: int = 0) -> Tensor:
    """The messages that leave the encoder in a round, [devices, m]."""
    return open_encoder(stages, a_round(STREAMS, index)).encode(Batch(updates, torch.ones(len(updates)))).messages


def test_clip_shortens_the_long_and_leaves_the_rest() -> None:
    """The scale that a message comes with counts."""
    updates = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.6, 0.8], [0.0, 0.0]])
    messages = encoded((Clip(1.0),), updates)
    torch.testing.assert_close(messages, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.6, 0.8], [0.0, 0.0]]))
    batch = Clip(1.0).open(a_round(STREAMS, 0)).encode(Batch(updates[[0, 0]], torch.tensor([0.1, 2.0])))
    torch.testing.assert_close(batch.scale, torch.tensor([0.1, 0.2]))


@pytest.mark.parametrize(("kept", "rescale", "gain"), [(3, False, 1), (3, True, 8 / 3), (8, False, 1), (8, True, 1)])
def test_rand_k_sends_the_same_coordinates_of_every_device(kept: int, rescale: bool, gain: float) -> None:
    """And decodes to zero elsewhere."""
    coder = RandK(dimension=8, kept=kept, rescale=rescale).open(a_round(STREAMS, 0))
    assert np.all(np.diff(coder.coordinates) > 0)
    taken, updates = torch.from_numpy(coder.coordinates), torch.arange(16.0).reshape(2, 8)
    batch = coder.encode(Batch(updates, torch.ones(2)))
    assert torch.equal(batch.values, updates[:, taken])
    wanted = torch.zeros(8)
    wanted[taken] = gain * updates[1, taken]
    torch.testing.assert_close(coder.decode(batch.values[1]), wanted)
    assert coder.noise_gain == pytest.approx(gain)


def test_rand_k_draws_anew_every_round() -> None:
    stage = RandK(dimension=1000, kept=10, rescale=False)
    masks = [stage.open(a_round(Streams(seed), t)).coordinates for seed in (0, 1) for t in range(5)]
    assert len(np.unique(masks, axis=0)) == 10
    np.testing.assert_array_equal(masks[3], stage.open(a_round(Streams(0), 3)).coordinates)


def test_kept_entries() -> None:
    """Of a ratio that is written as a fraction its numerator; 0.29 x 100 is 28.999999999999996."""
    for ratio, dimension, kept in (
        *((0.3, 9_750_922, 2_925_276), (1.0, 9_750_922, 9_750_922), (0.9999999, 9_750_922, 9_750_921)),
        *((0.29, 100, 29), (0.7, 25_450, 17_815), (0.25, 7, 1), (1e-9, 1000, 1)),
        *((k / d, d, k) for d in (8, 1000, 25_450) for k in range(1, d + 1, 7)),
    ):
        assert kept_entries(ratio, dimension) == kept


def test_bounds_follow_the_stages() -> None:
    assert bound_after((), 8).peak == math.inf
    clipped = bound_after((Clip(0.5),), 8)
    assert (clipped.entries, clipped.peak, clipped.rms) == (8, 0.5, 0.5)
    # A masked vector may keep its whole norm, and has p of its square on average.
    masked = bound_after((Clip(0.5), RandK(8, 2, False)), 8)
    assert (masked.entries, masked.peak, masked.rms) == (2, 0.5, 0.25)
    strict = bound_after((Clip(0.5), RandK(8, 2, False), Clip(0.25)), 8)
    assert (strict.entries, strict.peak, strict.rms) == (2, 0.25, 0.25)


def test_a_strict_clip_after_rand_k_holds_in_every_round() -> None:
    """Updates with all their weight in two of eight entries: of those that are kept, sqrt(p) C is left."""
    limit = math.sqrt(2 / 8) * 0.5
    stages = (Clip(0.5), RandK(8, 2, False), Clip(limit))
    updates = torch.zeros(3, 8)
    updates[0, :2], updates[1, 4], updates[2] = 3.0, 2.0, 0.01
    longest = torch.stack([encoded(stages, updates, t).norm(dim=1) for t in range(60)]).amax(dim=0)
    torch.testing.assert_close(longest, torch.tensor([limit, limit, 0.01 * math.sqrt(2)]))


def test_an_encoder_decodes_backwards() -> None:
    """rand-k of a rand-k: the mean message of 2 goes to 4, then to 8 entries."""
    encoder = open_encoder((RandK(8, 4, True), RandK(4, 2, True)), a_round(STREAMS, 0))
    updates = torch.arange(1.0, 9.0)[None]
    decoded = encoder.decode(encoder.encode(Batch(updates, torch.ones(1))).values[0])
    assert decoded.shape == (8,)
    assert torch.count_nonzero(decoded) == 2
    torch.testing.assert_close(decoded[decoded != 0], 4 * updates[0][decoded != 0])
    assert encoder.noise_gain == pytest.approx(4.0)


def opened(devices: int = 3, public: Tensor | None = None) -> Round:
    return a_round(Streams(0), 0, devices, public)


def normal(*shape: int) -> Tensor:
    """Gaussian numbers, the same at every call."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kept", [1, 7, 99, 100])
def test_the_largest_of_each_device_are_kept(kept: int) -> None:
    updates = normal(3, 100)
    order = np.argsort(-np.abs(updates.numpy()), axis=1, kind="stable")
    wanted = np.zeros((3, 100), dtype=np.float32)
    np.put_along_axis(wanted, order[:, :kept], np.take_along_axis(updates.numpy(), order[:, :kept], 1), 1)
    batch = PerDeviceTopK(100, kept).open(opened()).encode(Batch(updates, torch.tensor([1.0, 2.0, 0.5])))
    np.testing.assert_array_equal(batch.values.numpy(), wanted)
    np.testing.assert_array_equal(batch.scale.numpy(), [1.0, 2.0, 0.5])


def test_of_equal_magnitudes_the_first_are_kept() -> None:
    updates = torch.tensor([[1.0, -2.0, 2.0, 0.5, -2.0, 2.0], [0.0] * 6])
    messages = PerDeviceTopK(6, 3).open(opened(2)).encode(Batch(updates, torch.ones(2))).messages
    assert torch.equal(messages, torch.tensor([[0.0, -2.0, 2.0, 0.0, -2.0, 0.0], [0.0] * 6]))
    for find in (largest, largest_on_device):
        np.testing.assert_array_equal(find(torch.ones(2, 40), 3).numpy(), [[0, 1, 2], [0, 1, 2]])


@pytest.mark.parametrize("kept", [1, 20, 59, 60])
def test_both_ways_find_the_same(kept: int) -> None:
    """Of few different magnitudes, so that most rows have ties at the threshold, and some have none."""
    magnitudes = torch.randint(8, (50, 60), generator=torch.Generator().manual_seed(1)).float()
    magnitudes[::5] = normal(10, 60).abs()
    order = np.sort(np.argsort(-magnitudes.numpy(), axis=1, kind="stable")[:, :kept], axis=1)
    for find in (largest, largest_on_device):
        np.testing.assert_array_equal(find(magnitudes, kept).numpy(), order)


def test_norms_are_those_of_what_is_kept() -> None:
    """Everything kept is the identity."""
    updates = normal(2, 20)
    batch = PerDeviceTopK(20, 5).open(opened(4)).encode(Batch(updates, torch.ones(2), updates.norm(dim=1), slice(2, 4)))
    torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))
    assert batch.rows == slice(2, 4)
    assert not torch.equal(batch.values, updates)
    coder = PerDeviceTopK(20, 20).open(opened())
    assert torch.equal(coder.encode(Batch(updates, torch.ones(2))).values, updates)
    assert torch.equal(coder.decode(updates[0]), updates[0])


def test_a_public_mask_is_the_same_for_everybody_and_undone() -> None:
    updates, public = normal(3, 30), normal(31)[1:]
    coder = PublicTopK(30, 6).open(opened(public=public))
    wanted = np.sort(np.argsort(-np.abs(public.numpy()), kind="stable")[:6])
    np.testing.assert_array_equal(coder.coordinates, wanted)
    batch = coder.encode(Batch(updates, torch.full((3,), 2.0), updates.norm(dim=1), slice(0, 3)))
    np.testing.assert_array_equal(batch.coordinates, wanted)
    assert batch.rows == slice(0, 3)
    assert torch.equal(batch.messages, 2 * updates[:, torch.from_numpy(wanted)])
    torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))
    there = torch.zeros(30)
    there[torch.from_numpy(wanted)] = 1.0
    assert torch.equal(coder.expand(batch.values), updates * there)
    torch.testing.assert_close(coder.decode(batch.values.mean(dim=0)), updates.mean(dim=0) * there)
    assert coder.noise_gain == 1
    tied = PublicTopK(6, 3).open(opened(public=torch.tensor([0.0, 1.0, -1.0, 0.0, 1.0, 1.0])))
    np.testing.assert_array_equal(tied.coordinates, [1, 2, 4])


def test_bounds_of_top_k() -> None:
    own = bound_after((PerDeviceTopK(10, 3),), 10)
    assert (own.entries, own.sent_values, own.side_bits, own.payload_bits) == (10, 3, 7, 3 * 32 + 7)
    before = MessageBound(10, 2.0, 1.0, 0.5, side_bits=4)
    after = PerDeviceTopK(10, 3).bound(before)
    assert (after.peak, after.rms, after.sensitivity, after.side_bits) == (2.0, 1.0, 0.5, 11)
    public = PublicTopK(10, 3).bound(before)
    assert (public.entries, public.sent_values, public.side_bits, public.payload_bits) == (3, 3, 4, 100)
    assert (public.peak, public.rms, public.sensitivity) == (2.0, 1.0, 0.5)


@pytest.mark.parametrize(("bits", "payload"), [(32, 320), (1, 10), (math.log2(3), 16), (2.5, 25)])
def test_a_message_has_whole_bits(bits: float, payload: int) -> None:
    assert MessageBound(10, 1.0, 1.0, value_bits=bits).payload_bits == payload
    assert MessageBound(40, 1.0, 1.0, values=10, value_bits=bits, side_bits=7).payload_bits == payload + 7
    assert MessageBound(40, 1.0, 1.0, values=0, side_bits=7).payload_bits == 7


@pytest.mark.parametrize("dimension", [1, 2, 17, 69, 1999, 2000, 2001, 2048, 4096, 7850, 25_450, 10**6, 2**20])
def test_subset_bits(dimension: int) -> None:
    """ceil(log2 C(d, k)) in whole numbers; of a million entries to one bit."""
    for kept in (0, 1, 2, 3, 10, 100, 1000, 10_000, dimension // 10, dimension // 2):
        if kept <= min(dimension, 13_000):
            exact = (math.comb(dimension, kept) - 1).bit_length()
            assert abs(subset_bits(dimension, kept) - exact) <= (1 if dimension >= 10**6 else 0)
            assert subset_bits(dimension, dimension - kept) == subset_bits(dimension, kept)


def voted(stage: SignMajority, updates: Tensor, scale: Tensor | None = None) -> Tensor:
    """What the mean of the messages is decoded to."""
    coder = stage.open(opened(len(updates)))
    scale = torch.ones(len(updates)) if scale is None else scale
    return coder.decode(coder.encode(Batch(updates, scale)).messages.mean(dim=0))


def test_messages_are_signs_and_nought_counts_as_plus() -> None:
    """Those that are received, through noise and gain, are not decoded to one."""
    batch = SignMajority(4, 0.1).open(opened()).encode(Batch(torch.tensor([[-3.0, 0.0, -0.0, 1e-30]]), torch.ones(1)))
    assert torch.equal(batch.messages, torch.tensor([[-1.0, 1.0, 1.0, 1.0]]))
    decode = SignMajority(3, 0.5).open(opened()).decode
    assert torch.equal(decode(torch.tensor([1e-6, -40.0, 0.0])), torch.tensor([0.5, -0.5, 0.0]))


@pytest.mark.parametrize("devices", [1, 2, 5, 101])
def test_the_majority_decides_and_a_tie_moves_nothing(devices: int) -> None:
    updates = torch.randn(devices, 50, generator=torch.Generator().manual_seed(devices))
    ahead = (updates > 0).sum(dim=0) - (updates < 0).sum(dim=0)
    assert torch.equal(voted(SignMajority(50, 0.25), updates), 0.25 * ahead.sign())
    assert bool((ahead == 0).any()) == (devices == 2)


def test_how_long_an_update_is_does_not_matter() -> None:
    updates = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    wanted = voted(SignMajority(40, 1.0), updates)
    assert torch.equal(voted(SignMajority(40, 1.0), updates * torch.tensor([[1e-3], [7.0], [1e5]])), wanted)
    # Scales whose product with an entry is rounded to 0 included.
    assert torch.equal(voted(SignMajority(40, 1.0), 1e-4 * updates, torch.tensor([1e-42, 3.0, 1e30])), wanted)


def test_what_goes_along_with_a_batch() -> None:
    rows, coordinates = slice(1, 3), np.array([2, 5, 7])
    values, scale = torch.tensor([[1.0, 2.0, 2.0], [0.0, 3.0, 4.0]]), torch.tensor([0.5, 2.0])
    batch = (
        SignMajority(3, 1.0).open(opened()).encode(Batch(values, scale, torch.tensor([3.0, 5.0]), rows, coordinates))
    )
    assert batch.rows == rows
    assert batch.coordinates is coordinates
    torch.testing.assert_close(batch.scale, torch.ones(2))
    torch.testing.assert_close(batch.norms, torch.full((2,), math.sqrt(3)))
    torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))


def test_positions_of_a_batch_are_those_of_its_coordinates() -> None:
    """A stage that replaces the coordinates alone leaves no tensor of the former ones behind."""
    coordinates = np.array([2, 5, 7])
    batch = Batch(torch.zeros(2, 9), torch.ones(2)).restricted(torch.from_numpy(coordinates), coordinates)
    assert isinstance(batch.positions, Tensor)
    assert batch.positions.tolist() == [2, 5, 7]
    slab = Batch(torch.zeros(2, 3), torch.ones(2), part=slice(4, 7))
    kept = slab.restricted(torch.from_numpy(coordinates), coordinates).positions
    assert kept is not None
    assert kept.tolist() == [5]
    other = np.array([0, 1, 2])
    assert replace(batch, coordinates=other).positions is other
    assert replace(batch, coordinates=None).positions is None


def test_bounds_of_signs() -> None:
    """A norm of sqrt(d) exactly, one bit an entry; the noise of a device is in the signs."""
    before = MessageBound(16, math.inf, math.inf, noise_std=2.0, side_bits=9)
    after = SignMajority(16, 1.0).bound(before)
    assert (after.entries, after.peak, after.rms, after.sensitivity) == (16, 4.0, 4.0, 4.0)
    assert (after.sent_values, after.value_bits, after.payload_bits) == (16, 1, 16 + 9)
    assert after.noise_std == 0
    assert math.isnan(SignMajority(16, 1.0).open(opened()).noise_gain)


def test_messages_to_read_are_copied_only_if_they_are_scaled() -> None:
    values = torch.arange(6.0).view(2, 3)
    batch = Batch(values, torch.ones(2)).of(values)
    assert batch.messages_to_read is values
    assert batch.messages is not values
    doubled = batch.scaled(torch.full((2,), 2.0))
    assert torch.equal(doubled.messages_to_read, 2 * values)
    assert torch.equal(replace(batch, scale=torch.zeros(2)).messages_to_read, 0 * values)
