"""Encoder stages: clip and rand-k, individually and chained."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.runtime.streams import Streams
from airfl.uplinks.stages import Batch, Clip, RandK, Stage, bound_after, kept_entries, open_encoder
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


@pytest.mark.parametrize(
    ("kept", "rescale", "gain"), [(3, False, 1.0), (3, True, 8 / 3), (8, False, 1.0), (8, True, 1.0)]
)
def test_rand_k_sends_the_same_coordinates_of_every_device_and_decodes_to_zero_elsewhere(
    kept: int, rescale: bool, gain: float
) -> None:
    coder = RandK(dimension=8, kept=kept, rescale=rescale).open(a_round(STREAMS, 0))
    assert coder.coordinates is not None
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
