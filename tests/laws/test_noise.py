"""Receiver noise: sigma_0 on an observed real entry, its level in W, and interference."""

import math

import numpy as np
import pytest
from scipy import stats

from airfl.runtime.streams import Purpose, Streams
from channels.noise import interference_std, receiver_noise, thermal_noise_std
from channels.units import dbm_to_watt, subcarrier_power_w, watt_to_dbm
from tests.laws.samples import assert_law, assert_mean


def generator(round_index: int = 0) -> np.random.Generator:
    return Streams(3).generator(Purpose.RECEIVER_NOISE, round_index)


@pytest.mark.parametrize("noise_std", [0.25, 1.0, 40.0])
def test_variance_is_sigma_0_squared(noise_std: float) -> None:
    """n = 100,000: the sum of squares within the 99.99% interval of chi-square (0.9% either side of sigma_0^2)."""
    noise = receiver_noise(generator(), 100_000, noise_std).astype(np.float64) / noise_std
    low, high = stats.chi2(100_000).interval(0.9999)
    assert low < np.sum(noise**2) < high
    assert_mean(noise, 0)
    assert_law(noise, "norm")


def test_a_shorter_message_sees_a_prefix_and_a_round_noise_of_its_own() -> None:
    one = receiver_noise(generator(), 100, 1.0)
    assert one.dtype == np.float32
    for entries in (0, 1, 2, 33, 99):
        np.testing.assert_array_equal(receiver_noise(generator(), entries, 1.0), one[:entries])
    np.testing.assert_array_equal(receiver_noise(generator(), 100, 4.0), 4 * one)
    assert not np.any(receiver_noise(generator(1), 100, 1.0) == one)


@pytest.mark.parametrize("spacing_hz", [15e3, 30e3, 120e3])
@pytest.mark.parametrize("noise_figure_db", [0.0, 5.0, 9.5])
def test_thermal_noise_is_that_of_a_link_budget(spacing_hz: float, noise_figure_db: float) -> None:
    """-174 dBm/Hz + 10 log10 B + NF at 290 K, which rounds 10 log10(k_B 290 K) = -173.9751872 dBm/Hz; both parts of the
    complex noise together, which grow with the temperature."""
    both_parts_w = 2 * thermal_noise_std(spacing_hz, noise_figure_db) ** 2
    above = 10 * math.log10(spacing_hz) + noise_figure_db
    assert watt_to_dbm(both_parts_w) == pytest.approx(-173.9751872 + above, abs=1e-6)
    assert thermal_noise_std(spacing_hz, noise_figure_db, 580.0) ** 2 == pytest.approx(both_parts_w, rel=1e-12)


def test_noise_that_cannot_be_is_refused() -> None:
    for arguments, message in {
        (0.0, 5.0): "spacing_hz must be positive and finite, got 0",
        (math.inf, 5.0): "spacing_hz must be .* got inf",
        (15e3, -1.0): "noise_figure_db must be .*at least 0 .*, got -1",
        (15e3, math.nan): "noise_figure_db must be .* got nan",
        (15e3, 5.0, 0.0): "temperature_k must be positive .*, got 0",
    }.items():
        with pytest.raises(ValueError, match=message):
            thermal_noise_std(*arguments)
    for level in (math.nan, math.inf):
        with pytest.raises(ValueError, match="interference_to_noise_db must be finite"):
            interference_std(0.5, level)


def test_interference_is_so_many_decibels_over_the_noise() -> None:
    for level_db, over_noise in ((None, 0), (-math.inf, 0), (0.0, 1), (6.0, 3.9810717), (-20.0, 0.01)):
        assert interference_std(0.5, level_db) ** 2 == pytest.approx(0.25 * over_noise, rel=1e-7, abs=0)


def test_power_in_dbm() -> None:
    np.testing.assert_allclose(dbm_to_watt([0, 23, 30, 46]), [1e-3, 0.199526231, 1, 39.8107171], rtol=1e-8)
    np.testing.assert_allclose(watt_to_dbm([1e-3, 0.199526231, 1, 0]), [0, 23, 30, -np.inf], rtol=1e-8, atol=1e-12)


def test_a_devices_power_is_shared_by_its_subcarriers() -> None:
    """23 dBm over 3300 subcarriers: 60.46 uW, -12.185 dBm each."""
    each = subcarrier_power_w(np.array([23.0, 20.0]), 3300)
    np.testing.assert_allclose(each * 3300, dbm_to_watt([23, 20]), rtol=1e-12)
    assert watt_to_dbm(each[0]) == pytest.approx(-12.185, abs=1e-3)
    with pytest.raises(ValueError, match="subcarriers must be at least 1, got 0"):
        subcarrier_power_w(23.0, 0)
