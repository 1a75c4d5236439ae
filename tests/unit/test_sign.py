"""One-bit aggregation by majority vote."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.runtime.streams import Streams
from airfl.uplinks.stages.sign import SignMajority
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound
from tests.rounds import a_round


def opened(stage: SignMajority, devices: int = 3) -> Coder:
    """The stage in round 0."""
    return stage.open(a_round(Streams(0), 0, devices))


def voted(stage: SignMajority, updates: Tensor, scale: Tensor | None = None) -> Tensor:
    """What the mean of the messages is decoded to."""
    coder = opened(stage, len(updates))
    scale = torch.ones(len(updates)) if scale is None else scale
    return coder.decode(coder.encode(Batch(updates, scale)).messages.mean(dim=0))


def test_messages_are_signs_and_nought_counts_as_plus() -> None:
    """Those that are received, through noise and gain, are not decoded to one."""
    batch = opened(SignMajority(4, 0.1)).encode(Batch(torch.tensor([[-3.0, 0.0, -0.0, 1e-30]]), torch.ones(1)))
    assert torch.equal(batch.messages, torch.tensor([[-1.0, 1.0, 1.0, 1.0]]))
    decode = opened(SignMajority(3, 0.5)).decode
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
    batch = opened(SignMajority(3, 1.0)).encode(Batch(values, scale, torch.tensor([3.0, 5.0]), rows, coordinates))
    assert batch.rows == rows
    assert batch.coordinates is coordinates
    torch.testing.assert_close(batch.scale, torch.ones(2))
    torch.testing.assert_close(batch.norms, torch.full((2,), math.sqrt(3)))
    torch.testing.assert_close(batch.norms, batch.values.norm(dim=1))


def test_bounds_of_the_message() -> None:
    """A norm of sqrt(d) exactly, one bit an entry; the noise of a device is in the signs."""
    before = MessageBound(16, math.inf, math.inf, noise_std=2.0, side_bits=9)
    after = SignMajority(16, 1.0).bound(before)
    assert (after.entries, after.peak, after.rms, after.sensitivity) == (16, 4.0, 4.0, 4.0)
    assert (after.sent_values, after.value_bits, after.payload_bits) == (16, 1, 16 + 9)
    assert after.noise_std == 0
    assert math.isnan(opened(SignMajority(16, 1.0)).noise_gain)
