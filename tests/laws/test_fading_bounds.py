"""Statistics of bounded fading laws against numpy draws that are clipped or redrawn, and in whole rounds."""

import math
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

from airfl.errors import UserError
from airfl.uplinks.radio import cut_by_bounds
from channels.fading import FADING_LAWS, FadingLaw, bounded, fade_statistics
from tests.conftest import small_settings
from tests.end_to_end.test_command_line import airfl
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean, assert_share
from tests.radios import check_radio

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
    kept = np.empty(0)
    while len(kept) < N:
        some = REFERENCES[name].rvs(2 * N, random_state=generator)
        kept = np.append(kept, some[(some >= low) & (some <= high)])
    return kept[:N]


def law_of(name: str) -> FadingLaw:
    return FADING_LAWS[name](**PARAMETERS.get(name, {})).law()


@pytest.mark.parametrize("bounds", ["clip", "redraw"])
@pytest.mark.parametrize("limits", LIMITS, ids=str)
@pytest.mark.parametrize("name", REFERENCES)
def test_statistics_are_of_the_law_as_bounded(name: str, limits: tuple[float, float], bounds: Bounds) -> None:
    """n = 400,000: moments, shares above thresholds and those that they are for, the mean power of inversion."""
    gains, law = draws(name, *limits, bounds), bounded(law_of(name), *limits, bounds)
    found, powers = fade_statistics(law), gains**2 / law.mean_square
    assert_mean(gains, law.mean)
    assert_mean(powers, 1.0)
    for threshold in (0.0, 0.01, 0.3, 0.9, 1.4, 4.0):
        above = powers >= threshold
        assert_share(above, found.exceedance(threshold), rounding=5 / N)
        assert_mean(above / powers, found.inverse_power(threshold))
    assert found.least_power == pytest.approx(limits[0] ** 2 / law.mean_square, rel=1e-9)
    # Thresholds: a share that lies within those clipped to one gain comes out as all or none of these.
    for share in (1.0, 0.9, 0.5, 0.2, 0.01):
        threshold = found.threshold_for(share)
        assert_share(powers >= threshold, found.exceedance(threshold), rounding=5 / N)
        at_least = np.quantile(gains, 1 - share, method="lower")
        if np.mean(gains == at_least) < 0.001:  # no clipped gain
            wanted = share
        else:
            wanted = REFERENCES[name].sf(limits[1]) if at_least > limits[0] else 1.0
        assert found.exceedance(threshold) == pytest.approx(wanted, abs=2e-6)


@pytest.mark.parametrize("name", REFERENCES)
def test_bounds_that_hardly_bite_leave_the_law(name: str) -> None:
    law = law_of(name)
    for bounds in ("clip", "redraw"):
        same = bounded(law, 1e-9, 1e9, bounds)
        assert (same.mean, same.mean_square) == pytest.approx((1.0, law.mean_square), rel=2e-9)
        before, after = fade_statistics(law), fade_statistics(same)
        for threshold in (0.1, 1.0):
            assert after.inverse_power(threshold) == pytest.approx(before.inverse_power(threshold), rel=1e-8)
            assert after.exceedance(threshold) == pytest.approx(before.exceedance(threshold), rel=1e-8)


def test_a_fixed_gain_is_bounded_too() -> None:
    for bounds, low, high, gain in (("clip", 0.5, 1.0, 1.0), ("clip", 2.0, 3.0, 2.0), ("redraw", 1.0, 3.0, 1.0)):
        law = bounded(law_of("fixed"), low, high, bounds)  # type: ignore[arg-type]
        assert (law.mean, law.mean_square) == pytest.approx((gain, gain**2), rel=1e-12)
        found = fade_statistics(law)
        assert found.inverse_power(0.5) == pytest.approx(1.0, rel=1e-12)
        assert (found.exceedance(0.9), found.exceedance(1.1)) == (1.0, 0.0)


NARROW = ("channel.min_gain=0.012", "channel.max_gain=0.021")
WAYS: dict[str, tuple[str, ...]] = {
    "redraw": ("channel.fading=rayleigh", "channel.bounds=redraw", "channel.min_gain=0.02", "channel.max_gain=10"),
    "clip": ("channel.fading=rayleigh", "channel.bounds=clip", *NARROW),
    "exponential": ("channel.fading=exponential", "channel.bounds=redraw", "channel.max_gain=0.03"),
    "tapped line": ("channel.fading=tapped-line", *NARROW),
}


@pytest.mark.parametrize("way", WAYS)
def test_half_of_the_fades_are_sent_on_at_the_mean_limit(way: str) -> None:
    """Truncated inversion at participation 0.5 under a limit on the mean over fades, 40 rounds of 400 devices: half are
    silent, the energy is the limit, and what is decoded is the mean; within 5 standard errors each. A tapped line is
    asked subcarrier by subcarrier, which are better than more devices: 60 rounds of 40."""
    devices, rounds = (40, 60) if way == "tapped line" else (400, 40)
    chosen = (
        *("power.policy=truncated-inversion", "power.participation=0.5", "power.average_over=fading"),
        *("power.divide_by=expected", "power.max_snr_db=10.0", "power.limit=transmit_power", "channel.noise=false"),
        # A prefix that holds every path.
        *("grid.subcarriers=32", "channel.delay_spread_s=4e-5", "grid.symbol_duration_s=2.5e-4"),
    )
    scenario = built(32, *everybody(devices), *chosen, f"local.clip_norm={math.sqrt(32)!r}", *WAYS[way])
    sent, energy, decoded, powers = (np.empty(rounds) for _ in range(4))
    for t in range(rounds):
        plan = planned(scenario, t)
        reception = send(plan, np.ones((devices, 32)))
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
    for share in (1.0, 0.75):
        check_radio(small_settings(*base, f"power.participation={share}"))
    with pytest.raises(UserError, match=r"^power\.participation: .* 0\.9, .* 1 or 0\.75"):
        check_radio(small_settings(*base, "power.participation=0.9"))


@pytest.mark.parametrize("bounds", ["clip", "redraw"])
@pytest.mark.parametrize("fading", ["exponential", "rayleigh", "fixed", "tapped-line", "tdl-c"])
def test_a_mean_gain_outside_the_bounds_is_refused(fading: str, bounds: str) -> None:
    settings = small_settings(f"channel.fading={fading}", f"channel.bounds={bounds}", "channel.mean_gain=1.0")
    said = r"\A(?=.*(mean_gain|redraw))" + (r"(?=.*channel\.max_gain)" if bounds == "clip" else "") + r".*\Z"
    with pytest.raises(UserError, match=said):
        check_radio(settings)


def test_a_mean_gain_that_the_bounds_move_is_told() -> None:
    """Exponential |h| of mean 0.06 has the mean 0.06 (1 - exp(-0.1/0.06)) = 0.0487 when clipped to 0.1."""
    assert cut_by_bounds(small_settings().radio) is None
    assert cut_by_bounds(small_settings("channel.units=physical", "channel.mean_gain=0.06").radio) is None
    told = cut_by_bounds(small_settings("channel.mean_gain=0.06").radio)
    assert "0.0487" in told
    ended = airfl("budget", "demo", "run.rounds=1", "channel.mean_gain=0.06")
    assert ended.returncode == 0
    assert ended.stderr.splitlines()[0] == told
