"""Rotation, quantisation and binomial noise: ranges, inverses, bounds, and independent draws per device."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.linalg import hadamard
from torch import Tensor

from airfl.runtime.philox import MOST_TRIALS
from airfl.runtime.streams import Streams
from airfl.schemes.binomial_release import BinomialRelease
from airfl.schemes.recipe import Problem
from airfl.uplinks.stages.clip import Clip
from airfl.uplinks.stages.quantise import BinomialNoise, StochasticQuantise
from airfl.uplinks.stages.rand_k import RandK
from airfl.uplinks.stages.rotation import Rotation, walsh_hadamard
from airfl.uplinks.stages.stage import Batch, MessageBound, Round, Stage, bound_after, open_encoder
from tests.conftest import small_settings
from tests.rounds import a_round

IDS = np.array([3, 8, 21, 40, 77])


def opened(index: int = 0, devices: NDArray[np.int64] = IDS, seed: int = 0) -> Round:
    return a_round(Streams(seed), index, devices)


def updates(dimension: int, devices: int = len(IDS), dtype: torch.dtype = torch.float32) -> Tensor:
    """[devices, d], norms around 1."""
    drawn = np.random.default_rng(dimension).standard_normal((devices, dimension)) / math.sqrt(dimension)
    return torch.from_numpy(drawn).to(dtype)


def batch_of(values: Tensor, start: int = 0) -> Batch:
    return Batch(values, torch.ones(len(values), dtype=values.dtype), rows=slice(start, start + len(values)))


# --- rotation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entries", [1, 2, 8, 64])
def test_the_fast_transform_is_the_matrix(entries: int) -> None:
    vectors = updates(entries, dtype=torch.float64)
    matrix = torch.from_numpy(hadamard(entries)).double()
    torch.testing.assert_close(walsh_hadamard(vectors), vectors @ matrix.T)


@pytest.mark.parametrize(("dimension", "padded"), [(1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (1000, 1024), (1025, 2048)])
def test_rotation_keeps_norms_and_turns_back(dimension: int, padded: int) -> None:
    stage = Rotation(dimension)
    assert stage.padded == padded
    coder = stage.open(opened())
    sent = updates(dimension)
    message = coder.encode(batch_of(sent))
    assert message.values.shape == (len(IDS), padded)
    torch.testing.assert_close(message.values.norm(dim=1), sent.norm(dim=1))
    torch.testing.assert_close(coder.decode(message.values.mean(dim=0)), sent.mean(dim=0), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(coder.expand(message.values), sent, atol=1e-6, rtol=1e-5)


def test_rotation_is_orthonormal_and_shared_and_new_each_round() -> None:
    """Unit vectors through encode are the columns of the matrix: H diag(s)/sqrt(n), the same for every device."""
    columns = Rotation(16).open(opened()).encode(batch_of(torch.eye(16))).values
    torch.testing.assert_close(columns @ columns.T, torch.eye(16))
    signs = columns[:, 0] * 4
    assert set(signs.tolist()) == {-1.0, 1.0}
    torch.testing.assert_close(columns, torch.diag(signs) @ torch.from_numpy(hadamard(16)).float() / 4)
    later = Rotation(16).open(opened(index=1)).encode(batch_of(torch.eye(16))).values
    assert not torch.equal(columns, later)
    others = Rotation(16).open(opened(devices=IDS + 1)).encode(batch_of(torch.eye(16))).values
    assert torch.equal(columns, others)


def test_rotation_leaves_scale_norms_and_bounds_known() -> None:
    values = updates(10)
    batch = Batch(values, torch.arange(5.0), known_norms=values.norm(dim=1), rows=slice(0, 5))
    message = Rotation(10).open(opened()).encode(batch)
    assert torch.equal(message.scale, batch.scale)
    torch.testing.assert_close(message.norms, message.values.norm(dim=1))
    torch.testing.assert_close(Rotation(10).open(opened()).decode(message.messages[3]), 3 * values[3])
    after = Rotation(10).bound(MessageBound(10, peak=2.0, rms=1.5, sensitivity=1.0, noise_std=0.1, values=4))
    assert (after.entries, after.sent_values) == (16, 16)
    assert (after.peak, after.rms, after.sensitivity, after.noise_std) == (2.0, 1.5, 1.0, 0.1)


# --- quantisation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [2, 3, 16, 255])
def test_levels_are_whole_steps_around_the_middle(levels: int) -> None:
    stage = StochasticQuantise(levels, 0.05)
    coder = stage.open(opened())
    sent = 3 * updates(500)
    message = coder.encode(batch_of(sent)).messages
    level = message + (levels - 1) / 2
    assert torch.equal(level, level.round())
    assert (level.min(), level.max()) == (0, levels - 1)
    restored = coder.decode(message[0])
    assert torch.all((restored - sent[0].clamp(-0.05, 0.05)).abs() <= stage.step * (1 + 1e-5))
    assert coder.noise_gain == stage.step == pytest.approx(0.1 / (levels - 1))
    torch.testing.assert_close(coder.expand(message)[0], restored)


@pytest.mark.parametrize("levels", [2, 5, 16])
def test_the_levels_themselves_are_kept_and_what_is_outside_is_cut(levels: int) -> None:
    """B(r) = -X + 2 r X/(k - 1) is rounded to r, whatever is drawn."""
    grid = torch.linspace(-1, 1, levels, dtype=torch.float64)
    beyond = torch.tensor([-7.0, -1.0, 1.0, 1.5, math.inf, -math.inf], dtype=torch.float64)
    sent = torch.cat([grid, beyond]).repeat(5, 1)
    message = StochasticQuantise(levels, 1.0).open(opened()).encode(batch_of(sent)).messages
    most = (levels - 1) / 2
    exact = torch.cat([torch.arange(levels) - most, most * torch.tensor([-1, -1, 1, 1, 1, -1])])
    # linspace is off by a last binary digit, so that one in 10^15 draws could differ.
    assert torch.equal(message, exact.double().repeat(5, 1))


def test_with_many_levels_nothing_is_lost_and_the_scale_of_a_batch_counts() -> None:
    sent = updates(400)
    coder = open_encoder((Rotation(400), StochasticQuantise(2**20, 1.0)), opened())
    message = coder.encode(batch_of(sent)).messages
    torch.testing.assert_close(coder.decode(message.mean(dim=0)), sent.mean(dim=0), atol=1e-5, rtol=0)
    stage, halved = StochasticQuantise(64, 0.1), Batch(sent, torch.full((5,), 0.5), rows=slice(0, 5))
    whole = stage.open(opened()).encode(batch_of(sent * 0.5)).messages
    assert torch.equal(stage.open(opened()).encode(halved).messages, whole)


@pytest.mark.parametrize("trials", [0, 7, 1000])
def test_sum_is_exact_whole_numbers(trials: int) -> None:
    """Taking the middles away again gives the whole numbers in 0 .. k - 1 + m that go over the air; their sum over any
    of the devices minus its middle is the sum of the messages."""
    coder = open_encoder((StochasticQuantise(16, 0.1), BinomialNoise(trials)), opened())
    message = coder.encode(batch_of(updates(300))).messages
    middle = (15 + trials) / 2
    on_air = (message + middle).long()
    assert torch.equal(on_air.to(message.dtype) - middle, message)
    assert 0 <= on_air.min() <= on_air.max() <= 15 + trials
    for heard in ([0, 1, 2, 3, 4], [1, 3], [2]):
        assert torch.equal(on_air[heard].sum(dim=0) - len(heard) * middle, message[heard].sum(dim=0))


@pytest.mark.parametrize(
    "stages",
    [(StochasticQuantise(8, 0.1),), (BinomialNoise(50),), (StochasticQuantise(8, 0.1), BinomialNoise(50, 0.5))],
)
def test_a_devices_draws_are_its_own(stages: tuple[Stage, ...]) -> None:
    """The same in chunks, among other devices, and twice; different between devices, rounds and seeds."""
    sent = torch.full((5, 100), 0.033)
    together = open_encoder(stages, opened()).encode(batch_of(sent)).messages
    coder = open_encoder(stages, opened())
    chunks = [coder.encode(batch_of(sent[i : i + 2], start=i)).messages for i in (0, 2, 4)]
    assert torch.equal(torch.cat(chunks), together)
    alone = open_encoder(stages, opened(devices=IDS[2:3])).encode(batch_of(sent[:1])).messages
    assert torch.equal(alone[0], together[2])
    assert len(together.unique(dim=0)) == 5
    for other in (opened(index=1), opened(seed=1)):
        assert not torch.equal(open_encoder(stages, other).encode(batch_of(sent)).messages, together)


def test_draws_belong_to_coordinates() -> None:
    """A kept coordinate is rounded and perturbed as when all are sent; rounding is the same with and without noise
    after it, and the noise is the same whatever it is added to."""
    sent, quantise, noise = updates(60), StochasticQuantise(8, 0.1), BinomialNoise(50)
    mask = RandK(60, 13).open(opened())
    some = open_encoder((RandK(60, 13), quantise, noise), opened()).encode(batch_of(sent)).messages
    whole = open_encoder((quantise, noise), opened()).encode(batch_of(sent)).messages
    assert torch.equal(some, whole[:, torch.from_numpy(mask.coordinates)])
    rounded = quantise.open(opened()).encode(batch_of(sent)).messages
    added = noise.open(opened()).encode(batch_of(torch.zeros_like(sent))).messages
    assert torch.equal(whole, rounded + added)
    batch = batch_of(sent)
    assert BinomialNoise(0).open(opened()).encode(batch) is batch


def test_rounding_and_noise_are_drawn_apart() -> None:
    """Halfway between two levels, with one trial, either is -1/2 or 1/2 by the first bit of a draw: from one stream
    they would be each other's opposite. Over n = 5,000 entries they are uncorrelated within 5 standard errors."""
    halfway = torch.zeros(5, 1000)
    rounded = StochasticQuantise(2, 0.1).open(opened()).encode(batch_of(halfway)).messages
    noise = BinomialNoise(1).open(opened()).encode(batch_of(halfway)).messages
    assert set(rounded.abs().unique().tolist()) == set(noise.abs().unique().tolist()) == {0.5}
    assert abs(float((4 * rounded * noise).mean())) < 5 / math.sqrt(rounded.numel())


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_bits_of_a_message() -> None:
    """log2(k) bits a value, with noise log2(k + m) (Fed-SPA, section 5.2); half steps make twice as many values."""
    quantised = bound_after((StochasticQuantise(16, 1.0),), 100)
    assert (quantised.value_bits, quantised.payload_bits) == (4, 400)
    noisy = bound_after((StochasticQuantise(24, 1.0), BinomialNoise(1000)), 100)
    assert noisy.value_bits == pytest.approx(10, abs=1e-12)
    halves = bound_after((StochasticQuantise(16, 1.0), BinomialNoise(30, scale=0.5)), 100)
    assert halves.value_bits == pytest.approx(math.log2(2 * 15 + 30 + 1), abs=1e-12)


def test_quantised_bound_by_hand() -> None:
    """k = 5, X = 2: steps of 1. 100 entries of norm 3: 3 + 10; of unknown norm: 2 each, 20 in all."""
    known = MessageBound(100, peak=3.0, rms=3.0, sensitivity=3.0, noise_std=0.2)
    after = StochasticQuantise(5, 2.0).bound(known)
    assert (after.entries, after.peak, after.sensitivity) == (100, 13.0, 13.0)
    assert after.rms == pytest.approx(math.sqrt(9 + 25))
    assert after.noise_std == 0.2
    half = StochasticQuantise(9, 2.0).bound(known)
    assert (half.peak, half.sensitivity, half.noise_std) == pytest.approx((16.0, 16.0, 0.4))
    unknown = StochasticQuantise(5, 2.0).bound(MessageBound(100, math.inf, math.inf))
    assert (unknown.peak, unknown.rms, unknown.sensitivity) == (20.0, 20.0, 20.0)


@pytest.mark.parametrize("trials", [0, 5, 400])
@pytest.mark.parametrize("levels", [2, 16])
def test_messages_stay_within_their_bounds(levels: int, trials: int) -> None:
    """Norms of 2,000 messages; the mean square within 5 standard errors of the bound's."""
    stages = (Clip(1.0), Rotation(50), StochasticQuantise(levels, 0.2), BinomialNoise(trials))
    bound = bound_after(stages, 50)
    many = np.arange(2000)
    message = open_encoder(stages, opened(devices=many)).encode(batch_of(updates(50, devices=2000))).messages
    squares = message.double().square().sum(dim=1)
    assert bound.entries == message.shape[1] == 64
    assert squares.sqrt().max() <= bound.peak
    assert squares.mean() <= bound.rms**2 + 5 * squares.std() / math.sqrt(2000)
    quantised = bound_after(stages[:3], 50)
    assert bound.peak == pytest.approx(quantised.peak + trials / 2 * 8)
    assert bound.rms**2 == pytest.approx(quantised.rms**2 + trials / 4 * 64)
    assert bound.noise_std == pytest.approx(math.sqrt(trials) / 2)
    assert bound.sensitivity == quantised.sensitivity


@pytest.mark.parametrize(("clip_norm", "wanted"), [(1e6, 0.01 * math.sqrt(25450)), (0.5, 0.5)])
def test_a_message_is_no_longer_than_its_quantisers_box(clip_norm: float, wanted: float) -> None:
    """||X_i|| <= min(C, X sqrt(d)): what cpSGD accounts with when the box is the tighter of the two."""
    given = ("scheme.name=cpsgd", "scheme.quantiser_bound=0.01", "scheme.levels=16", f"local.clip_norm={clip_norm}")
    settings = small_settings(*given)
    release = settings.scheme.recipe(Problem(settings, 25450, "digital")).release
    assert isinstance(release, BinomialRelease)
    assert release.message.clip_norm == pytest.approx(wanted)


def binomials(trials: int, count: int) -> np.ndarray:
    """A device's noise on `count` entries, in trials."""
    sent = BinomialNoise(trials).open(opened()).encode(batch_of(torch.zeros(1, count))).messages
    return np.round(sent[0].numpy() + trials / 2).astype(np.int64)


@pytest.mark.parametrize("trials", [1, 5, 32, 64, 65, 200, MOST_TRIALS, MOST_TRIALS + 1])
def test_counted_bits_are_binomial(trials: int) -> None:
    """Chi-square over all values that are expected ten times or more, the others together; 1 in 10^6 fails."""
    count = 100_000
    drawn = binomials(trials, count)
    assert 0 <= drawn.min() <= drawn.max() <= trials
    expected = count * stats.binom.pmf(np.arange(trials + 1), trials, 0.5)
    seen = np.bincount(drawn, minlength=trials + 1)
    usual = expected >= 10
    found = np.append(seen[usual], seen[~usual].sum())
    wanted = np.append(expected[usual], max(expected[~usual].sum(), 1e-9))
    assert ((found - wanted) ** 2 / wanted).sum() < stats.chi2.ppf(1 - 1e-6, usual.sum())


def test_of_very_many_trials_no_count_is_rounded() -> None:
    """2^40 trials have a deviation of 2^19: float32 would round a count to multiples of 65,536, and no centred one."""
    trials, count = 2**40, 2000
    sent = BinomialNoise(trials).open(opened()).encode(batch_of(torch.zeros(1, count))).messages[0].double()
    assert sent.frac().abs().max() == 0
    assert set((sent % 16).tolist()) == set(range(16))
    assert float(sent.std()) == pytest.approx(2**19, rel=5 / math.sqrt(2 * count))


@pytest.mark.parametrize("trials", [65, MOST_TRIALS + 1])
def test_fewer_numbers_are_the_first_of_more(trials: int) -> None:
    few, many = (binomials(trials, count) for count in (10, 50))
    np.testing.assert_array_equal(few, many[:10])
