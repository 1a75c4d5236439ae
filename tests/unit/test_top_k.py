"""top-k sparsification by each device's own update and by a public one; the cost of coordinate indices."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.runtime.streams import Streams
from airfl.uplinks.stages.stage import Batch, MessageBound, Round, bound_after
from airfl.uplinks.stages.top_k import PerDeviceTopK, PublicTopK, largest, largest_on_device, subset_bits
from tests.rounds import a_round


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
    assert coder.expand is not None
    assert torch.equal(coder.expand(batch.values), updates * there)
    torch.testing.assert_close(coder.decode(batch.values.mean(dim=0)), updates.mean(dim=0) * there)
    assert coder.noise_gain == 1
    tied = PublicTopK(6, 3).open(opened(public=torch.tensor([0.0, 1.0, -1.0, 0.0, 1.0, 1.0])))
    np.testing.assert_array_equal(tied.coordinates, [1, 2, 4])


def test_bounds_of_the_messages() -> None:
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
