"""Power policies go by the estimate of a channel: thresholds are relative to its mean power, and statistics of fading
are those of its law, under estimation errors as large as a third of the channel's power or more."""

from typing import Any

import numpy as np
import pytest

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.uplinks.analog import AnalogUplink
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean, assert_share
from tests.refusals import one_line

ENTRIES, DEVICES = 8, 300
METHODS = ("ls", "mmse")
# E|h|^2 = 1, and v = 2/10^.5 = .63 of one pilot: P + v = 1.63 (ls), c P = .61 (mmse).
PILOTS = ("csi.pilot_snr_db=5",)
V = 2 / 10**0.5
UNBOUNDED = ("channel.min_gain=1e-9", "channel.max_gain=1e9")
RAYLEIGH = ("channel.fading=rayleigh", "channel.mean_gain=0.8862269254527580", *UNBOUNDED)
TRUNCATED = "power.policy=truncated-inversion"
PARTICIPATION = (TRUNCATED, "power.participation=0.7")


def scenario_of(method: str, *overrides: str, devices: int = DEVICES) -> Scenario:
    """All devices in every round, with one limit of 15 dB over the noise."""
    unit = (f"local.clip_norm={ENTRIES**0.5!r}", "power.max_snr_db=15.0")
    return built(ENTRIES, *everybody(devices), *unit, *RAYLEIGH, *PILOTS, f"csi.estimation={method}", *overrides)


def controls(scenario: Scenario, rounds: int) -> list[Any]:
    return [planned(scenario, t).link._control for t in range(rounds)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", METHODS)
def test_participation_is_the_share_of_devices_that_transmit(method: str) -> None:
    """n = 3,000."""
    found = controls(scenario_of(method, *PARTICIPATION), 10)
    assert_share([control.plan.active for control in found], 0.7)


@pytest.mark.parametrize("method", METHODS)
def test_participation_over_two_access_points(method: str) -> None:
    """Of devices whose ratio of error and mean power differ, by the estimate at the first antenna."""
    scenario = scenario_of(method, *PARTICIPATION, *CELL, "antennas.combining=first")
    assert_share([control.plan.active for control in controls(scenario, 10)], 0.7)


@pytest.mark.parametrize("method", METHODS)
def test_the_mean_energy_over_fading_is_the_limit(method: str) -> None:
    """Of every device, as all have the same law and limit: n = 6,000 of messages at the bound."""
    scenario = scenario_of(method, TRUNCATED, "power.threshold=0.2", "power.average_over=fading")
    found = np.array([control.plan.amplitudes[:, 0, 0] for control in controls(scenario, 20)])
    energy = (found * scenario.bound.rms) ** 2
    assert_mean(energy / scenario.power_limits, 1.0)


def sums(scenario: Scenario, rounds: int) -> Array:
    """What is decoded of messages that are all equal, relative to them, [rounds]: the sum of the weights."""
    assert isinstance(scenario.recipe.uplink, AnalogUplink)
    messages = np.ones((scenario.run.devices, ENTRIES))
    return np.array([send(planned(scenario, t), messages).mean.double().mean().item() for t in range(rounds)])


@pytest.mark.parametrize(
    "policy",
    [
        (*PARTICIPATION, "power.divide_by=expected"),
        (TRUNCATED, "power.threshold=0.5", "power.divide_by=expected"),
        ("power.policy=statistical-truncation", "power.prescalers=unbiased"),
    ],
    ids=["participation", "threshold", "statistical-truncation"],
)
def test_the_decoded_weights_have_the_sum_1_in_the_mean(policy: tuple[str, ...]) -> None:
    """Under mmse, where E[h/hhat] = 1 given hhat."""
    assert_mean(sums(scenario_of("mmse", *policy), 30), 1.0)


def test_the_decoded_weights_of_least_squares_are_shrunk() -> None:
    """E[h/hhat] = c = P/(P + v) given hhat."""
    assert_mean(sums(scenario_of("ls", *PARTICIPATION, "power.divide_by=expected"), 30), 1 / (1 + V))


# --- E|hhat|^2 --------------------------------------------------------------------------------------------------------

CELL = (
    "channel.units=physical", "topology.kind=disc", "topology.radius_m=150", "topology.path_loss=log-distance",
    "topology.access_points=[[-100,0],[100,0]]", "antennas.count=2", "csi.pilot_snr_db=100",
)  # fmt: skip


@pytest.mark.parametrize("overrides", [("channel.fading=nakagami",), ("csi.pilots=3",), CELL], ids=lambda one: one[0])
@pytest.mark.parametrize("method", METHODS)
def test_the_mean_power_of_the_estimate(method: str, overrides: tuple[str, ...]) -> None:
    """P + v/L and c P, of laws that are not Gaussian too, and at each antenna of several access points."""
    scenario = scenario_of(method, *overrides)
    everyone, found = np.arange(DEVICES), []
    for t in range(20):
        csi = scenario.radio.csi_of(t, everyone, scenario.frame, scenario.element_power)
        assert csi.estimator_power is not None
        stated = csi.estimator_power if overrides is CELL else csi.estimator_power[:, None]
        found.append(np.abs(csi.estimate.response[:, :, 0, 0]) ** 2 / stated)
        some = np.array([2, 7])
        np.testing.assert_array_equal(csi.take(some).estimator_power, csi.estimator_power[some])
    if overrides is CELL:  # errors are small at some antennas and larger than the channel at others
        ratio = csi.pilot_noise_variance[:, None] / csi.antenna_power
        assert ratio.min() < 0.2
        assert ratio.max() > 5
    for antenna in np.moveaxis(np.array(found), 2, 0):
        assert_mean(antenna, 1.0)


@pytest.mark.parametrize("policy", ["truncated-inversion", "cotaf"])
def test_a_threshold_is_relative_to_the_mean_power_of_the_estimate(policy: str) -> None:
    """Also of a law that is not Gaussian; of several antennas, to the mean over them."""
    for overrides in (("channel.fading=nakagami",), (*CELL, "antennas.combining=first"), CELL):
        scenario = scenario_of("ls", f"power.policy={policy}", "power.threshold=0.4", *overrides)
        csi = scenario.radio.csi_of(0, np.arange(DEVICES), scenario.frame, scenario.element_power)
        stated = csi.estimator_power
        assert stated is not None
        if stated.ndim == 2:
            stated = stated[:, 0] if overrides is not CELL else stated.mean(axis=1)
        (control,) = controls(scenario, 1)
        gains = np.abs(control.estimate[:, 0, 0])
        if policy == "cotaf":
            beta = (np.sqrt(0.4 * stated * scenario.power_limits) / scenario.bound.rms).min()
            assert control.plan.coefficient[0, 0] == pytest.approx(beta, rel=1e-6)
            continue
        np.testing.assert_array_equal(control.plan.active, gains**2 >= 0.4 * stated)


def test_devices_that_know_only_their_mean_power_know_that_of_the_channel() -> None:
    """Policy `statistical`: beta as with perfect estimates, of which only the phase is used."""
    exact, noisy = (
        scenario_of(method, "power.policy=statistical", f"channel.fading={fading}")
        for method, fading in (("perfect", "nakagami"), ("ls", "nakagami"))
    )
    assert controls(noisy, 1)[0].plan.coefficient == pytest.approx(controls(exact, 1)[0].plan.coefficient)


# --- refusals ---------------------------------------------------------------------------------------------------------

RELYING = {
    "power.participation: ": PARTICIPATION,
    "power.average_over: ": (TRUNCATED, "power.threshold=0.2", "power.average_over=fading"),
    "power.divide_by: ": (TRUNCATED, "power.threshold=0.2", "power.divide_by=expected"),
    "power.policy: ": ("power.policy=statistical-truncation",),
}
CUT = ("channel.min_gain=0.05",)  # 1 - exp(-.05^2) = .25% of the fades
OTHER = {
    "nakagami": (("channel.fading=nakagami",), "law of channel estimates ... 'ls', channel.fading = 'nakagami'"),
    "bounds": (CUT, "law of channel estimates ... channel.bounds leave alone"),
    "feedback": (("csi.estimation=perfect", "csi.gain_bits=3"), "law of gains that are fed back ... gain_bits = 3"),
}


@pytest.mark.parametrize("key", RELYING)
@pytest.mark.parametrize("case", OTHER)
def test_refusals(case: str, key: str) -> None:
    overrides, words = OTHER[case]
    with pytest.raises(UserError, match=one_line(*words.split(" ... "), begins=key)):
        scenario_of("ls", *RELYING[key], *overrides, devices=8)


@pytest.mark.parametrize("key", RELYING)
@pytest.mark.parametrize(
    "overrides",
    [("csi.estimation=perfect", "channel.fading=nakagami"), ("csi.estimation=perfect", *CUT),
     ("channel.min_gain=0.02",), ("csi.phase_bits=3",), ("csi.delay_s=1e-3", "channel.speed_m_s=3"),
     ("channel.fading=tapped-line", "grid.subcarriers=64")],
)  # fmt: skip
def test_laws_that_are_known(overrides: tuple[str, ...], key: str) -> None:
    """Of exact gains; of Rayleigh fading, .04% of which bounds change; of phases in a few bits, and old estimates."""
    scenario_of("ls", *RELYING[key], *overrides, devices=8)
