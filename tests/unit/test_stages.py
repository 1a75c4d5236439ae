"""Encoder stages: clip and rand-k, alone and chained."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from airfl.stages import Batch, Clip, RandK, Stage, bound_after, kept_entries, open_encoder
from airfl.streams import Streams
from tests.rounds import a_round

STREAMS = Streams(9)
CPU = torch.device("cpu")


def encoded(stages: tuple[Stage, ...], updates: Tensor) -> Tensor:
    """The messages that leave the encoder in round 0, [devices, m]."""
    batch = open_encoder(stages, a_round(STREAMS, 0)).encode(Batch(updates, torch.ones(len(updates))))
    return batch.scale[:, None] * batch.values


def test_clip_shortens_the_long_and_leaves_the_rest() -> None:
    updates = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.6, 0.8], [0.0, 0.0]])
    messages = encoded((Clip(1.0),), updates)
    torch.testing.assert_close(messages, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.6, 0.8], [0.0, 0.0]]))


def test_clip_counts_the_scale_a_message_comes_with() -> None:
    coder = Clip(1.0).open(a_round(STREAMS, 0))
    batch = coder.encode(Batch(torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.tensor([0.1, 2.0])))
    torch.testing.assert_close(batch.scale, torch.tensor([0.1, 0.2]))


def test_rand_k_sends_the_same_coordinates_of_every_device() -> None:
    coder = RandK(dimension=8, kept=3, rescale=False).open(a_round(STREAMS, 0))
    assert coder.coordinates is not None
    assert np.all(np.diff(coder.coordinates) > 0)
    updates = torch.arange(16.0).reshape(2, 8)
    batch = coder.encode(Batch(updates, torch.ones(2)))
    assert torch.equal(batch.values, updates[:, torch.from_numpy(coder.coordinates)])


@pytest.mark.parametrize(("rescale", "gain"), [(False, 1.0), (True, 8 / 3)])
def test_rand_k_decodes_to_zero_outside_its_coordinates(rescale: bool, gain: float) -> None:
    coder = RandK(dimension=8, kept=3, rescale=rescale).open(a_round(STREAMS, 0))
    assert coder.coordinates is not None
    decoded = coder.decode(torch.tensor([1.0, 2.0, 3.0]))
    wanted = torch.zeros(8)
    wanted[torch.from_numpy(coder.coordinates)] = gain * torch.tensor([1.0, 2.0, 3.0])
    torch.testing.assert_close(decoded, wanted)
    assert coder.noise_gain == pytest.approx(gain)


@pytest.mark.parametrize("rescale", [False, True])
def test_rand_k_of_everything_is_the_identity(rescale: bool) -> None:
    coder = RandK(dimension=8, kept=8, rescale=rescale).open(a_round(STREAMS, 0))
    np.testing.assert_array_equal(coder.coordinates, np.arange(8))
    updates = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(coder.encode(Batch(updates, torch.ones(2))).values, updates)
    assert torch.equal(coder.decode(updates[0]), updates[0])
    assert coder.noise_gain == 1


def test_rand_k_draws_anew_every_round() -> None:
    stage = RandK(dimension=1000, kept=10, rescale=False)
    masks = {tuple(stage.open(a_round(Streams(seed), t)).coordinates) for seed in (0, 1) for t in range(5)}  # type: ignore[arg-type]
    assert len(masks) == 10
    np.testing.assert_array_equal(
        stage.open(a_round(STREAMS, 3)).coordinates, stage.open(a_round(STREAMS, 3)).coordinates
    )


@pytest.mark.parametrize(
    ("ratio", "dimension", "kept"),
    [
        (0.3, 9_750_922, 2_925_276),
        (0.29, 100, 29),  # 0.29 x 100 is 28.999999999999996
        (0.7, 25_450, 17_815),  # 0.7 x 25,450 is 17,814.999999999996
        (0.25, 7, 1),
        (1e-9, 1000, 1),
        (1.0, 9_750_922, 9_750_922),
        (0.9999999, 9_750_922, 9_750_921),
    ],
)
def test_kept_entries(ratio: float, dimension: int, kept: int) -> None:
    assert kept_entries(ratio, dimension) == kept


def test_a_ratio_written_as_a_fraction_keeps_its_numerator() -> None:
    for dimension in (8, 1000, 25_450):
        for kept in range(1, dimension + 1, 7):
            assert kept_entries(kept / dimension, dimension) == kept


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
    dimension, kept, clip_norm = 8, 2, 0.5
    limit = math.sqrt(kept / dimension) * clip_norm
    stages = (Clip(clip_norm), RandK(dimension, kept, False), Clip(limit))
    updates = torch.zeros(3, dimension)
    updates[0, :2], updates[1, 4], updates[2] = 3.0, 2.0, 0.01
    norms = []
    for t in range(60):
        batch = open_encoder(stages, a_round(STREAMS, t)).encode(Batch(updates, torch.ones(3)))
        norms.append((batch.scale[:, None] * batch.values).norm(dim=1))
    longest = torch.stack(norms).amax(dim=0)
    torch.testing.assert_close(longest[:2], torch.full((2,), limit))
    torch.testing.assert_close(longest[2], torch.tensor(0.01 * math.sqrt(2)))


def test_an_encoder_decodes_backwards() -> None:
    """rand-k of a rand-k: the mean message of 2 goes to 4, then to 8 entries."""
    stages = (RandK(8, 4, True), RandK(4, 2, True))
    encoder = open_encoder(stages, a_round(STREAMS, 0))
    updates = torch.arange(1.0, 9.0)[None]
    batch = encoder.encode(Batch(updates, torch.ones(1)))
    decoded = encoder.decode(batch.values[0])
    assert decoded.shape == (8,)
    assert torch.count_nonzero(decoded) == 2
    nonzero = decoded != 0
    torch.testing.assert_close(decoded[nonzero], 4 * updates[0][nonzero])
    assert encoder.noise_gain == pytest.approx(4.0)
