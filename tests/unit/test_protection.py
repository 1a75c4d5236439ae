"""The amplitude with which a device is observed, for the three values of privacy.csi_error."""

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from scipy.special import j0

from airfl.config import Settings
from airfl.core.accounting import noise_multiplier
from airfl.core.round_plan import plan_round
from airfl.privacy.events import Gaussian
from airfl.privacy.gaussian import gaussian_epsilon
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import Statement
from airfl.uplinks.control import Control, PowerControl
from airfl.uplinks.protection import largest_amplitude
from airfl.uplinks.stages import Batch, MessageBound
from channels.antennas import combine
from channels.csi import IMPAIRMENTS, ChannelInformation, ChannelState, perfect_csi
from channels.frame import Frame
from channels.grid import Packing
from channels.power import POLICIES
from tests.conftest import small_settings
from tests.imperfections import impair
from tests.rounds import opened
from tests.uplink_contexts import context_of

Array = NDArray[np.float64]

POWER = 0.49  # E|h|^2
READINGS = ("realised", "quantile", "unbounded")


def gaussian(generator: np.random.Generator, *shape: int) -> NDArray[np.complex128]:
    pairs = generator.standard_normal((*shape, 2)) * math.sqrt(0.5)
    return np.asarray(pairs[..., 0] + 1j * pairs[..., 1])


def frame_of(coefficients: int) -> Frame:
    return Frame(np.arange(coefficients) * 15e3, elements=4 * coefficients, symbol_s=1 / 14e3, symbols_per_block=4)


def known(devices: int, coefficients: int, seed: int = 0, **parameters: Any) -> ChannelInformation:
    """Channels CN(0, POWER), independent over devices and subcarriers, and what these impairments leave known; the
    noise on one pilot is half of POWER."""
    generator = np.random.default_rng(seed)
    h = math.sqrt(POWER) * gaussian(generator, devices, 1, 1, coefficients)
    perfect = perfect_csi(ChannelState(h), np.full(devices, POWER), np.full(devices, POWER / 2))

    def draw(count: int) -> Array:
        return generator.random((devices, count))

    return impair(perfect, frame_of(coefficients), dict.fromkeys(IMPAIRMENTS, draw), **parameters)


def controlled(
    csi: ChannelInformation, policy: str = "pfels", **control: Any
) -> tuple[ChannelInformation, NDArray[np.complexfloating], Control]:
    """What is known, true effective channels, and how everybody sends: limits that differ from device to device."""
    response = csi.state.response
    devices, _, _, coefficients = response.shape
    frame = frame_of(coefficients)
    message = MessageBound(frame.elements, 1.0, 1.0)
    context = context_of(response, message, subcarriers=coefficients, elements=frame.elements)
    context = replace(context, csi=csi, frame=frame, power_limits=np.linspace(1, 3, devices))
    settled = PowerControl(policy, "round_energy", 1.0, **control).of_round(context)
    return csi, combine(settled.combiner, response), settled


# --- exact knowledge ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    ("policy", "coefficients"),
    [("pfels", 1), ("pfels", 5), ("full-inversion", 3), ("cotaf", 2), ("per-subcarrier", 16)],
)
def test_exact_knowledge_observes_beta(policy: str, coefficients: int, reading: Any, packing: Packing) -> None:
    """Its largest where every subcarrier is inverted by itself: neither the mean, nor the root mean square."""
    csi, gains, control = controlled(known(6, coefficients), policy)
    assert control.plan.active.all()
    beta = control.plan.coefficient
    assert (beta.max() > 1.5 * np.sqrt((beta**2).mean())) == (policy == "per-subcarrier")
    largest = largest_amplitude(gains, control, csi, packing, reading, tail=0.01)
    assert largest == pytest.approx(float(beta.max()), rel=1e-12)


@pytest.mark.parametrize("reading", READINGS)
def test_under_optimal_static_power_weak_devices_arrive_with_less(reading: Any) -> None:
    """Beta where a device inverts; where all send at full power nobody is observed with as much."""
    csi, gains, control = controlled(known(4, 1), "cao")
    arriving = np.abs(gains * control.precoders).max()
    assert largest_amplitude(gains, control, csi, "real", reading, 0.01) == pytest.approx(arriving, rel=1e-12)
    assert arriving <= float(control.plan.coefficient[0, 0]) * (1 + 1e-12)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_a_turned_exact_channel_is_observed_with_beta_at_most(packing: Packing) -> None:
    """Residual phase on an exact estimate: |h/hhat| = 1, so beta bounds it before the fact; under I/Q it is beta."""
    csi, gains, control = controlled(known(3, 1, phase_std_rad=0.8))
    beta = float(control.plan.coefficient[0, 0])
    for reading in ("quantile", "unbounded"):
        assert largest_amplitude(gains, control, csi, packing, reading, 0.01) == pytest.approx(beta, rel=1e-12)
    realised = largest_amplitude(gains, control, csi, packing, "realised", 0.01)
    turned = np.angle(gains * control.precoders)[:, 0, 0]
    assert realised == pytest.approx(beta * (np.abs(np.cos(turned)).max() if packing == "real" else 1.0), rel=1e-12)


# --- realised -------------------------------------------------------------------------------------------------------

UNKNOWN = ("csi.estimation=mmse", "csi.pilot_snr_db=3", "csi.phase_std_rad=0.4", "csi.timing_offset_s=2e-6")
TAPPED = ("channel.fading=tapped-line", "channel.delay_spread_s=1e-5")
SYSTEMS = {
    "flat": ("channel.fading=rayleigh",),
    "offset": ("channel.fading=rayleigh", "csi.timing_offset_s=4e-6"),
    "tapped line": TAPPED,
    "per subcarrier": (*TAPPED, "power.policy=per-subcarrier"),
    "truncated": (*TAPPED, "power.policy=per-subcarrier-truncated", "power.threshold=0.5"),
    "three antennas": (*TAPPED, "antennas.count=3"),
    "moving": ("channel.fading=tapped-line", "channel.speed_m_s=40", "channel.coherence=symbol", "csi.delay_s=1e-3"),
}


def system(*overrides: str) -> Settings:
    return small_settings(
        *("run.devices=3", "run.selected=3", "scheme.name=wfl-p", "grid.subcarriers=4"),
        *("channel.mean_gain=0.7", "channel.min_gain=1e-6", "channel.max_gain=1e6"),
        "grid.symbol_duration_s=1.5e-4",  # a prefix that holds every path: nothing leaks as noise
        *overrides,
    )


@pytest.mark.parametrize(("name", "packing"), [*zip(SYSTEMS, itertools.cycle(["real", "iq"])), ("flat", "iq")])
def test_realised_is_what_a_unit_message_arrives_with(name: str, packing: str) -> None:
    """Brute force: every device alone sends 1 on every element in turn, without noise; the largest number received (a
    modulus under I/Q). 10 entries on 4 subcarriers leave coefficients of the last symbol on which nothing falls."""
    overrides = (*UNKNOWN, *SYSTEMS[name], f"grid.packing={packing}")
    quiet, _, _ = opened(system(*overrides, "channel.noise=false", "trace.signals=true"), 10)
    largest = 0.0
    for device, element in itertools.product(range(3), range(quiet.frame.elements)):
        messages = torch.zeros(3, 10)
        messages[device, element if packing == "real" else 2 * element] = 1.0
        link = plan_round(quiet, 0, quiet.memory).link
        link.send(Batch(messages, torch.ones(3)), slice(0, 3))
        signals = link.close().signals
        assert signals is not None
        largest = max(largest, float(np.abs(signals.rx).max()))
    scenario, _, report = opened(system(*overrides, "channel.noise_std=1.7"), 10)
    # Beta follows sigma_0 here, as limits are given over it.
    assert report.protection == pytest.approx(1.7 / (1.7 * largest), rel=1e-5)
    assert noise_multiplier(scenario, report) == pytest.approx(report.protection / scenario.bound.peak)
    if name != "flat":  # what is unknown moved it
        assert report.protection != pytest.approx(1.7 / report.alignment_coefficient, rel=1e-3)


def test_coefficients_on_which_nothing_falls_do_not_count() -> None:
    csi, gains, control = controlled(known(1, 4, estimation="mmse"))

    def without(place: int) -> Control:
        weights = control.weights.copy()
        weights[0, place] = 0
        return replace(control, weights=weights)

    observed = np.abs((gains * control.precoders).real)[0, 0]
    worst, rest = int(observed.argmax()), float(np.sort(observed)[-2])
    assert largest_amplitude(gains, control, csi, "real", "realised", 0.0) > rest
    masked = largest_amplitude(gains, without(worst), csi, "real", "realised", 0.0)
    assert masked == pytest.approx(rest, rel=1e-12)
    strongest = int(control.plan.amplitudes[0, 0].argmax())  # the weakest estimate has the largest quantile
    bounds = [largest_amplitude(gains, one, csi, "real", "quantile", 0.1) for one in (without(strongest), control)]
    assert bounds[0] < bounds[1]


# --- quantile -------------------------------------------------------------------------------------------------------

AGEING = {"doppler_hz": 100.0, "delay_s": 3e-3}  # J0(2 pi 0.3) = 0.29
PASSED_ZERO = {"doppler_hz": 100.0, "delay_s": 5e-3}  # J0(pi) = -0.30
ROUNDS, TAIL = 400, 0.1


def chances(csi: ChannelInformation, control: Control, bound: float, packing: str) -> Array:
    """Exact probability given hhat that each contribution |b (s |hhat| + e)| (its real part) exceeds a bound, with
    slope s and e ~ CN(0, error variance)."""
    assert csi.error_variance is not None
    middle = csi.slope[:, None, None] * np.abs(control.estimate) * control.plan.amplitudes
    spread = np.sqrt(csi.error_variance / 2)[:, None, None] * control.plan.amplitudes
    if packing == "real":
        return np.asarray(stats.norm.sf((bound - middle) / spread) + stats.norm.cdf((-bound - middle) / spread))
    return np.asarray(stats.ncx2.sf((bound / spread) ** 2, 2, (middle / spread) ** 2))


def exceedances(
    whole: ChannelInformation, devices: int, policy: str
) -> Iterator[tuple[Packing, NDArray[np.bool_], Array]]:
    """By packing: whether the realised amplitude exceeds the quantile in each round, and the exact chance of every
    element by itself, whose sum never exceeds the tail."""
    each = np.arange(ROUNDS * devices).reshape(ROUNDS, devices)
    rounds = [controlled(whole.take(of_round), policy) for of_round in each]
    for packing in get_args(Packing):
        exceeded, chance = [], []
        for csi, gains, control in rounds:
            bound = largest_amplitude(gains, control, csi, packing, "quantile", TAIL)
            exceeded.append(largest_amplitude(gains, control, csi, packing, "realised", TAIL) > bound)
            chance.append(chances(csi, control, bound, packing).ravel())
            assert chance[-1].sum() <= TAIL * (1 + 1e-9)
        yield packing, np.array(exceeded), np.array(chance)


@pytest.mark.parametrize(
    ("devices", "coefficients", "parameters"),
    [
        (1, 1, {"estimation": "mmse"}),
        (4, 1, {"estimation": "ls", "pilots": 3}),
        (1, 1, {"estimation": "mmse", **AGEING}),
        (1, 1, PASSED_ZERO),
        (2, 6, {"estimation": "mmse", "pilots": 2}),
    ],
)
def test_a_quantile_is_exceeded_as_often_as_the_error_says(
    devices: int, coefficients: int, parameters: dict[str, Any]
) -> None:
    """n = 400 rounds, tail 0.1. How often the realised amplitude exceeds the quantile: within 4 standard deviations
    of the sum of its exact chances given hhat. These are not absurdly below the tail: from half of it (one device, real
    part: the other sign hardly ever happens) to a hundredth (the weakest of twelve decides)."""
    whole = known(ROUNDS * devices, coefficients, seed=3, **parameters)
    for packing, exceeded, each in exceedances(whole, devices, "pfels"):
        chance = 1 - np.prod(1 - each, axis=1)
        assert abs(exceeded.sum() - chance.sum()) <= 4 * math.sqrt((chance * (1 - chance)).sum())
        assert chance.mean() > TAIL / 100
        if devices * coefficients == 1 and packing == "real":
            assert chance.mean() > 0.45 * TAIL


def test_a_quantile_holds_over_correlated_coefficients() -> None:
    """An aged channel of 2 devices and 6 subcarriers, whose innovation has the channel's own delays: n = 400 rounds
    exceed a quantile at 0.1 no more often, by 4 standard deviations of the binomial, and no less often than the
    likeliest element by itself."""
    whole = known(ROUNDS * 2, 6, seed=4, estimation="mmse", **AGEING)
    spread = 4 * math.sqrt(TAIL * (1 - TAIL) / ROUNDS)
    for _, exceeded, each in exceedances(whole, 2, "per-subcarrier"):
        assert each.max(axis=1).mean() - spread / 2 <= exceeded.mean() <= TAIL + spread
        assert exceeded.any()


def test_a_smaller_tail_asks_for_more() -> None:
    csi, gains, control = controlled(known(3, 2, estimation="mmse"))

    def quantile(packing: Packing, tail: float, least_gain: float = 0.0) -> float:
        return largest_amplitude(gains, control, csi, packing, "quantile", tail, least_gain=least_gain)

    for packing in ("real", "iq"):
        assert quantile(packing, 0.5) < quantile(packing, 1e-3) < quantile(packing, 1e-12) < math.inf
    lifted = quantile("real", 0.1) + 0.3 * float(control.plan.amplitudes.max())
    assert quantile("real", 0.1, least_gain=0.3) == pytest.approx(lifted, rel=1e-9)


@pytest.mark.parametrize("least", ["channel.min_gain=0.5", "channel.min_gain=1e-6"])
def test_fades_that_are_lifted_keep_within_the_quantile(least: str) -> None:
    """Half of all fades clipped up to 0.5, which no Gaussian law knows of: 200 rounds at 0.2 a round."""
    share, rounds = 0.2, 200
    overrides = ("csi.estimation=mmse", "csi.pilot_snr_db=10", "privacy.csi_error=quantile", "channel.fading=rayleigh")
    scenario, _, _ = opened(system(*overrides, least, "run.rounds=1", f"privacy.delta={2 * share}"))
    exceeded = []
    for t in range(rounds):
        plan = plan_round(scenario, t, scenario.memory)
        report, estimate = plan.link.link_budget(), plan.estimate.gains
        observed = np.abs((plan.channel.gains * estimate.conj() / np.abs(estimate)).real)
        exceeded.append((observed * report.devices.transmit_scale).max() > 1 / report.protection)
    assert np.mean(exceeded) <= share + 4 * math.sqrt(share * (1 - share) / rounds)


J0 = float(j0(2 * math.pi * 0.06))


@pytest.mark.parametrize(
    ("overrides", "slope", "variance"),
    [
        (("csi.estimation=mmse", "csi.pilots=2", "csi.pilot_snr_db=0"), 1.0, 0.5),
        (("csi.estimation=ls", "csi.pilots=2", "csi.pilot_snr_db=0"), 0.5, 0.5),
        (("csi.delay_s=2e-3", "channel.speed_m_s=30", "channel.carrier_hz=299792458"), J0, 1 - J0**2),
    ],
)
@pytest.mark.parametrize("packing", ["real", "iq"])
def test_half_of_delta_pays_for_quantiles(
    overrides: tuple[str, ...], slope: float, variance: float, packing: str
) -> None:
    """delta/2 over T = 5 rounds, r = 3 devices: by hand, at E|h|^2 = 1; the ledger composes with what is left."""
    unit = ("channel.fading=rayleigh", f"channel.mean_gain={math.sqrt(math.pi) / 2!r}", "channel.min_gain=1e-9")
    quantile = ("privacy.csi_error=quantile", "privacy.delta=0.01", "run.rounds=5", f"grid.packing={packing}")
    settings = system(*overrides, *unit, *quantile)
    scenario, plan, report = opened(settings)
    each = 0.005 / 5 / 3
    if packing == "real":
        width = stats.norm.isf(each / 2) * math.sqrt(variance / 2)
    else:
        width = math.sqrt(-math.log(each) * variance)  # |e|^2 is exponential
    bound = report.alignment_coefficient * (abs(slope) + (width + 1e-9) / np.abs(plan.estimate.gains).min())
    assert 1 / report.protection == pytest.approx(bound, rel=1e-6)
    multiplier = noise_multiplier(scenario, report)
    ledger = PrivacyLedger(Statement("client", "by_channel", 3, 3, "third_party", settings.delta, settings.csi_tail))
    assert settings.csi_tail == 0.005
    figures = ledger.record(Gaussian(multiplier), compose=True, devices=np.arange(3))
    assert figures.epsilon == pytest.approx(gaussian_epsilon(0.005, 2 / multiplier), rel=1e-9)
    assert figures.epsilon_round == pytest.approx(figures.epsilon, rel=1e-9)


# --- no bound at all ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_without_a_bound_nothing_protects(packing: Packing) -> None:
    """An error with Gaussian tails, read as "unbounded"; and one of which no law is known, read as a quantile."""
    for parameters, finite in (
        ({"estimation": "mmse"}, {"realised", "quantile"}),
        ({"estimation": "ls"}, {"realised", "quantile"}),
        (AGEING, {"realised", "quantile"}),
        ({"gain_bits": 3}, {"realised"}),
        ({"estimation": "mmse", "phase_std_rad": 0.1}, {"realised"}),
    ):
        csi, gains, control = controlled(known(3, 2, **parameters))
        for reading in READINGS:
            largest = largest_amplitude(gains, control, csi, packing, reading, 0.1)  # type: ignore[arg-type]
            assert (largest < math.inf) == (reading in finite)


def test_an_unbounded_error_costs_everything() -> None:
    scenario, _, report = opened(system("csi.estimation=mmse", "privacy.csi_error=unbounded"))
    assert report.protection == 0
    ledger = PrivacyLedger(Statement("client", "without_replacement", 3, 3, "third_party", 1e-3))
    figures = ledger.record(Gaussian(noise_multiplier(scenario, report)), compose=True)
    assert figures.epsilon == figures.epsilon_round == math.inf


def test_noise_protects_and_interference_does_not() -> None:
    """Which stays where no receiver noise is added: at 3 dB over sigma_0^2 = 1."""
    disturbance = "channel.interference_to_noise_db=3"
    cases = (("channel.noise=true",), (disturbance,), ("channel.noise=false", disturbance))
    noisy, disturbed, silent = (opened(system(*words))[2] for words in cases)
    for report in (disturbed, silent):
        assert report.interference_std * 3 * report.alignment_coefficient == pytest.approx(10**0.15)
    assert disturbed.protection == noisy.protection > 0
    assert silent.protection == 0


# --- nobody ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_with_nobody_selected_the_privacy_bound_stands(policy: str, reading: Any) -> None:
    """A random sample that came out empty is decoded as any other, with beta at its bound."""
    nobody = known(2, 1, estimation="mmse").take(np.array([], dtype=np.int64))
    csi, gains, control = controlled(
        nobody, policy, privacy_bound=0.7, divide_by="active", combining="first" if POLICIES[policy].coherent else "sum"
    )
    assert gains.shape == (0, 1, 1)
    assert largest_amplitude(gains, control, csi, "real", reading, 0.1) == 0.7


@pytest.mark.parametrize("reading", READINGS)
def test_with_everybody_silent_nothing_is_observed(reading: Any) -> None:
    csi, gains, control = controlled(known(4, 2))
    plan = type(control.plan)(0 * control.plan.amplitudes, control.plan.coefficient, False, False)
    silent = replace(control, plan=plan, precoders=0 * control.precoders)
    assert largest_amplitude(gains, silent, csi, "real", reading, 0.1) == 0


def test_coefficients_that_no_entry_falls_on_do_not_count() -> None:
    """Timing and carrier offsets give a coefficient to every subcarrier of the last symbol, of which one is in use: the
    largest over the nine elements in use, 12 seeds."""
    offsets = ("csi.timing_offset_s=3e-5", "csi.frequency_offset_hz=3000", "grid.subcarriers=4", "scheme.name=wfl-p")
    larger = 0
    for seed in range(12):
        _, plan, report = opened(small_settings(*offsets, f"run.seed={seed}", "channel.fading=fixed"), 9)
        turned = (plan.channel.response / plan.estimate.response)[:, 0].real * report.alignment_coefficient
        assert turned.shape == (8, 3, 4)
        used = np.abs(turned.reshape(8, 12)[:, :9]).max()
        assert report.protection == pytest.approx(1 / used, rel=1e-6)
        larger += np.abs(turned).max() > used * (1 + 1e-6)
    assert larger > 0
