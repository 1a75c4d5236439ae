"""Statistics of bounded fading laws against numpy draws that are clipped or redrawn, and in whole rounds."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.errors import UserError
from airfl.uplinks.radio import cut_by_bounds
from channels.fading import FADING_LAWS, FadeStatistics, FadingLaw, bounded, fade_statistics
from tests.conftest import small_settings
from tests.end_to_end.test_command_line import airfl
from tests.laws.decoding import everybody, send
from tests.laws.samples import assert_mean, assert_share
from tests.radios import check_radio

Array = NDArray[np.float64]
Bounds = Literal["clip", "redraw"]

N = 400_000
PARAMETERS = {"rician": {"k": 6.0}, "nakagami": {"m": 2.5}}
# scipy's law of |h| with mean 1 for each law of the table.
REFERENCES: dict[str, Any] = {
    "exponential": stats.expon(),
    "rayleigh": stats.rayleigh(scale=math.sqrt(2 / math.pi)),
    "rician": stats.rice(math.sqrt(12), scale=1 / stats.rice(math.sqrt(12)).mean()),
    "nakagami": stats.nakagami(2.5, scale=1 / stats.nakagami(2.5).mean()),
}
LIMITS = [(0.05, 5.0), (0.8, 500.0), (1e-4, 0.9), (0.7, 1.3)]


def draws(name: str, low: float, high: float, bounds: Bounds) -> Array:
    """|h| of mean 1 before bounds: moved to the nearer limit, or drawn until it lies within."""
    generator = np.random.default_rng(1)
    if bounds == "clip":
        return np.asarray(np.clip(REFERENCES[name].rvs(N, random_state=generator), low, high))
    kept: list[Array] = []
    while sum(map(len, kept)) < N:
        some = REFERENCES[name].rvs(2 * N, random_state=generator)
        kept.append(some[(some >= low) & (some <= high)])
    return np.concatenate(kept)[:N]


def law_of(name: str) -> FadingLaw:
    return FADING_LAWS[name](**PARAMETERS.get(name, {})).law()


def of(name: str, low: float, high: float, bounds: Bounds) -> tuple[FadeStatistics, float, float]:
    """Statistics, mean and mean square of the law as bounded."""
    law = bounded(law_of(name), low, high, bounds)
    return fade_statistics(law), law.mean, law.mean_square


@pytest.mark.parametrize("bounds", ["clip", "redraw"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_statistics_are_of_the_law_as_bounded(name: str, limits: tuple[float, float], bounds: Bounds) -> None:
    """n = 400,000 draws: moments, shares above a threshold, the mean power of inversion, and the shares that thresholds
    are for, within 5 standard errors."""
    gains = draws(name, *limits, bounds)
    found, mean, mean_square = of(name, *limits, bounds)
    assert_mean(gains, mean)
    assert_mean(gains**2, mean_square)
    powers = gains**2 / mean_square
    for threshold in (0.0, 0.01, 0.3, 0.9, 1.4, 4.0):
        above = powers >= threshold
        assert_share(above, found.exceedance(threshold), rounding=5 / N)
        assert_mean(above / powers, found.inverse_power(threshold))
    assert found.least_power == pytest.approx(limits[0] ** 2 / mean_square, rel=1e-9)
    # Thresholds: a share that lies within those clipped to one gain comes out as all or none of these.
    for share in (1.0, 0.9, 0.5, 0.2, 0.01):
        threshold = found.threshold_for(share)
        assert_share(gains**2 >= threshold * mean_square, found.exceedance(threshold), rounding=5 / N)
        at_least = np.quantile(gains, 1 - share, method="lower")
        if np.mean(gains == at_least) < 0.001:  # no clipped gain
            assert found.exceedance(threshold) == pytest.approx(share, abs=2e-6)
        else:
            assert found.exceedance(threshold) == pytest.approx(
                REFERENCES[name].sf(limits[0] if at_least == limits[0] else limits[1]) if at_least > limits[0] else 1.0,
                abs=2e-6,
            )


@pytest.mark.parametrize("name", REFERENCES)
def test_bounds_that_hardly_bite_leave_the_law(name: str) -> None:
    law = law_of(name)
    for bounds in ("clip", "redraw"):
        same = bounded(law, 1e-9, 1e9, bounds)
        assert (same.mean, same.mean_square) == pytest.approx((1.0, law.mean_square), rel=2e-9)
        for threshold in (0.1, 1.0):
            before, after = fade_statistics(law), fade_statistics(same)
            assert after.inverse_power(threshold) == pytest.approx(before.inverse_power(threshold), rel=1e-8)
            assert after.exceedance(threshold) == pytest.approx(before.exceedance(threshold), rel=1e-8)


def test_a_fixed_gain_is_bounded_too() -> None:
    fixed = law_of("fixed")
    for bounds, low, high, gain in (("clip", 0.5, 1.0, 1.0), ("clip", 2.0, 3.0, 2.0), ("redraw", 1.0, 3.0, 1.0)):
        law = bounded(fixed, low, high, bounds)  # type: ignore[arg-type]
        assert law.mean == pytest.approx(gain, rel=1e-12)
        assert law.mean_square == pytest.approx(gain**2, rel=1e-12)
        found = fade_statistics(law)
        assert found.inverse_power(0.5) == pytest.approx(1.0, rel=1e-12)
        assert (found.exceedance(0.9), found.exceedance(1.1)) == (1.0, 0.0)


# --- whole rounds ---------------------------------------------------------------------------------------------------

NARROW = ("channel.min_gain=0.02", "channel.max_gain=10")
WAYS: dict[str, tuple[str, ...]] = {
    "redraw": ("channel.fading=rayleigh", "channel.bounds=redraw", *NARROW),
    "clip": ("channel.fading=rayleigh", "channel.bounds=clip", "channel.min_gain=0.012", "channel.max_gain=0.021"),
    "exponential": ("channel.fading=exponential", "channel.bounds=redraw", "channel.max_gain=0.03"),
    "tapped line": ("channel.fading=tapped-line", "channel.min_gain=0.012", "channel.max_gain=0.021"),
}


@pytest.mark.parametrize("way", WAYS)
def test_half_of_the_fades_are_sent_on_at_the_mean_limit(way: str) -> None:
    """Truncated inversion at participation 0.5 under a limit on the mean over fades, 40 rounds of 400 devices: half are
    silent, the energy is the limit, and what is decoded is the mean; within 5 standard errors each. A tapped line is
    asked subcarrier by subcarrier, which are better than more devices: 60 rounds of 40."""
    entries = 32
    devices, rounds = (40, 60) if way == "tapped line" else (400, 40)
    power = (
        *("power.policy=truncated-inversion", "power.participation=0.5", "power.average_over=fading"),
        *("power.divide_by=expected", "power.max_snr_db=10.0", "power.limit=transmit_power"),
    )
    # A prefix that holds every path.
    band = ("grid.subcarriers=32", "channel.delay_spread_s=4e-5", "grid.symbol_duration_s=2.5e-4")
    norm = f"local.clip_norm={math.sqrt(entries)!r}"
    settings = small_settings(*everybody(devices), *power, *band, norm, "channel.noise=false", *WAYS[way])
    scenario = build_scenario(settings, entries, np.ones(devices))
    sent, energy, decoded, powers = (np.empty(rounds) for _ in range(4))
    for t in range(rounds):
        plan = plan_round(scenario, t, scenario.memory)
        reception = send(plan, np.ones((devices, entries)))
        sent[t], decoded[t] = reception.report.devices.active.mean(), float(reception.mean.mean())
        energy[t] = (reception.report.devices.energy / scenario.power_limits).mean()
        powers[t] = (np.abs(plan.channel.response) ** 2).mean()
    if way != "tapped line":  # there a device is silent on half of its subcarriers
        assert_mean(sent, 0.5)
    assert_mean(decoded, 1.0)
    assert_mean(energy, 1.0)
    assert 5 * max(decoded.std(), energy.std()) / math.sqrt(rounds) < (0.02 if way == "tapped line" else 0.045)
    assert_mean(powers, float(scenario.radio.mean_power[0]))


def test_clipped_shares_that_no_threshold_has_are_refused() -> None:
    """Rayleigh fading of mean 0.02 is below 0.012 with probability 1 - exp(-pi/4 0.36) = 0.246."""
    base = ("power.policy=truncated-inversion", *WAYS["clip"])
    check_radio(small_settings(*base, "power.participation=1.0"))
    check_radio(small_settings(*base, "power.participation=0.75"))
    with pytest.raises(UserError, match=r"^power\.participation: .* 0\.9, .* 1 or 0\.75"):
        check_radio(small_settings(*base, "power.participation=0.9"))


@pytest.mark.parametrize("bounds", ["clip", "redraw"])
@pytest.mark.parametrize("fading", ["exponential", "rayleigh", "fixed", "tapped-line", "tdl-c"])
def test_a_mean_gain_outside_the_bounds_is_refused(fading: str, bounds: str) -> None:
    settings = small_settings(f"channel.fading={fading}", f"channel.bounds={bounds}", "channel.mean_gain=1.0")
    with pytest.raises(UserError) as raised:
        check_radio(settings)
    assert "\n" not in str(raised.value)
    assert "mean_gain" in str(raised.value) or "redraw" in str(raised.value)
    if bounds == "clip":
        assert "channel.max_gain" in str(raised.value)


def test_a_mean_gain_that_the_bounds_move_is_told() -> None:
    """Exponential |h| of mean 0.06 has the mean 0.06 (1 - exp(-0.1/0.06)) = 0.0487 when clipped to 0.1."""
    assert cut_by_bounds(small_settings().radio) is None
    assert cut_by_bounds(small_settings("channel.units=physical", "channel.mean_gain=0.06").radio) is None
    told = cut_by_bounds(small_settings("channel.mean_gain=0.06").radio)
    assert "0.0487" in told
    ended = airfl("budget", "demo", "run.rounds=1", "channel.mean_gain=0.06")
    assert ended.returncode == 0
    assert ended.stderr.splitlines()[0] == told
