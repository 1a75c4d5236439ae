"""Median-anchored clipping: its rule, and what it leaves of Gaussian and of Cauchy noise, in closed form."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from airfl.uplinks.uplink import Reception
from channels.median_clip import median_clip
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean, assert_share

ENTRIES = 60_000
RADIO = (
    *everybody(2),
    *("channel.fading=rayleigh", "channel.mean_gain=1.0", "channel.min_gain=1e-3", "channel.max_gain=1e3"),
    *("channel.noise_std=1.0", "grid.subcarriers=24"),
)
CAUCHY = (
    *("channel.noise=false", "channel.interference_to_noise_db=0.0"),
    *("channel.interference=alpha-stable", "channel.interference_tail_index=1.0"),
)
GAMMA = math.sqrt(0.5)
"""2 gamma^2 = sigma_0^2."""


def received(deviations: float, *overrides: str, messages: Array | None = None) -> tuple[Array, Reception]:
    """What is decoded, times the number of devices and beta: the clipped sum."""
    plan = planned(built(ENTRIES, *RADIO, f"antennas.median_clip={deviations}", *overrides))
    reception = send(plan, np.zeros((2, ENTRIES)) if messages is None else messages)
    return reception.mean.double().numpy() * 2 * reception.report.alignment_coefficient, reception


def test_entries_are_clipped_about_the_median_of_all() -> None:
    """By numpy; c median absolute deviations on either side."""
    entries = torch.tensor([5.0, 4.0, 6.0, 4.5, 5.5, 1000.0, -7.0])
    clipped, count = median_clip(entries, 2.0)
    middle = np.median(entries.numpy())
    spread = np.median(np.abs(entries.numpy() - middle))
    np.testing.assert_allclose(clipped, np.clip(entries.numpy(), middle - 2 * spread, middle + 2 * spread))
    assert int(count) == 2
    moved, _ = median_clip(10 * entries + 3, 2.0)
    torch.testing.assert_close(moved, 10 * clipped + 3)


def test_entries_that_nobody_sent_on_are_left_out() -> None:
    entries = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0, 50.0, 2.5])
    clipped, count = median_clip(entries, 3.0, entries != 0)
    alone, same = median_clip(entries[5:], 3.0)
    torch.testing.assert_close(clipped[5:], alone)
    assert not clipped[:5].any()
    assert int(count) == int(same) == 1
    kept, none = median_clip(entries, 3.0)  # more than half are equal: no spread
    assert torch.equal(kept, entries)
    assert int(none) == 0
    assert median_clip(entries[:0], 3.0)[0].shape == (0,)


@pytest.mark.parametrize("way", [(), ("grid.packing=iq",), ("antennas.count=3",)], ids=str)
def test_gaussian_noise_is_clipped_at_its_quartile_times_c(way: tuple[str, ...]) -> None:
    """Of s = 0.6745 sigma_0: P(|z| > c s) of the entries, all of which are then c s away; within 5 standard errors."""
    c = 2.5
    sample, reception = received(c, *way)
    bound = c * stats.norm.ppf(0.75)
    assert np.abs(sample).max() == pytest.approx(bound, rel=0.05)
    # The median of 60,000 entries is off zero by some 0.005, and the two bounds with it.
    assert_share(np.abs(sample) > 0.98 * np.abs(sample).max(), 2 * stats.norm.sf(bound), rounding=0.01)
    assert reception.report.receiver_clipped_share == pytest.approx(2 * stats.norm.sf(bound), rel=0.1)


@pytest.mark.parametrize("c", [1.0, 3.0, 10.0])
def test_cauchy_noise_has_a_power_once_it_is_clipped(c: float) -> None:
    """s = gamma, the quartile of Cauchy's law, and E min(x, c gamma)^2 = gamma^2 (2/pi (c - arctan c) +
    c^2 (1 - 2/pi arctan c)): 5 standard errors, and 2% for s itself."""
    sample, reception = received(c, *CAUCHY)
    share = 1 - 2 / math.pi * math.atan(c)
    expected = GAMMA**2 * (2 / math.pi * (c - math.atan(c)) + c**2 * share)
    assert_mean(sample**2, expected, rounding=0.02 * expected)
    assert reception.report.receiver_clipped_share == pytest.approx(share, abs=5 * math.sqrt(share / ENTRIES) + 0.005)


def test_small_entries_keep_the_share_of_noise_that_is_not_clipped() -> None:
    """E of a clipped entry at a small value g is g P(|x| < c gamma) = 2/pi arctan(c) g: messages shrink by that factor,
    which is the bias of the receiver; the slope of a regression, within 5 standard errors."""
    messages = np.random.default_rng(0).choice([-1.0, 1.0], size=(1, ENTRIES)) * np.ones((2, 1))
    messages *= 0.1 / math.sqrt(ENTRIES)
    sample, reception = received(3.0, *CAUCHY, "power.max_snr_db=0", messages=messages)
    sent = messages.sum(axis=0) * reception.report.alignment_coefficient
    assert np.abs(sent).max() < 0.3 * GAMMA
    slopes = sample * sent / np.mean(sent**2)
    assert_mean(slopes, 2 / math.pi * math.atan(3.0), rounding=0.01)


def test_a_link_leaves_out_subcarriers_on_which_nobody_sends() -> None:
    """More than half of them here: in the median of all they would be the middle, and the spread 0."""
    few = ("channel.fading=tapped-line", "channel.delay_spread_s=1e-6", "power.policy=per-subcarrier-truncated")
    words = (*RADIO[:-1], "grid.subcarriers=64", *few, "power.threshold=1.6", "run.selected=1", "run.devices=1")
    messages = np.random.default_rng(1).standard_normal((1, ENTRIES)) / math.sqrt(ENTRIES)
    plain = send(planned(built(ENTRIES, *words)), messages).mean.numpy()
    clipped = send(planned(built(ENTRIES, *words, "antennas.median_clip=1.5")), messages).mean.numpy()
    sent = plain != 0
    assert 0.05 < sent.mean() < 0.45
    middle = np.sort(plain[sent])[(sent.sum() - 1) // 2]
    away = np.abs(plain[sent] - middle)
    bound = 1.5 * np.sort(away)[(sent.sum() - 1) // 2]
    np.testing.assert_allclose(clipped[sent], np.clip(plain[sent], middle - bound, middle + bound), rtol=1e-5)
    assert not clipped[~sent].any()


def test_without_impulses_and_far_out_it_changes_nothing() -> None:
    plain = planned(built(ENTRIES, *RADIO))
    wide, reception = received(30.0)
    expected = send(plain, np.zeros((2, ENTRIES)))
    np.testing.assert_array_equal(reception.mean, expected.mean)
    assert reception.report.receiver_clipped_share == 0
    assert np.abs(wide).max() < 6


def test_clipping_is_no_privacy_noise_and_takes_none_away() -> None:
    plain, clipped = (planned(built(50, *RADIO, *more)) for more in ((), ("antennas.median_clip=1.0",)))
    assert clipped.link.link_budget().protection == plain.link.link_budget().protection > 0
