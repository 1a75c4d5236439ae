"""The closed forms of over-the-air sums, laws 1 to 8, against whole rounds: settings, fades, CSI, power, noise.

Only the results of a round are taken from the code: its estimate of the mean, its channel and its record. Signals are
written in the tests, and expectations follow from the formulas. The sum is r times the mean; its errors are per entry.
(Law 6, of the mask, is in test_rand_k.py.)
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import hadamard
from scipy.special import exp1

from airfl.core.round_plan import RoundPlan
from airfl.core.scenario import Scenario
from airfl.uplinks import Reception
from airfl.uplinks.stages import Batch, open_encoder
from airfl.uplinks.stages.stage import Coder
from channels.fading import Replay
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_law, assert_mean, assert_share
from tests.rounds import a_round

Replayed = Callable[[Sequence[float]], tuple[str, ...]]

# |h| Rayleigh with E|h|^2 = 1 and no bounds that matter.
UNIT_RAYLEIGH = (
    *("channel.fading=rayleigh", f"channel.mean_gain={math.sqrt(math.pi) / 2!r}"),
    *("channel.min_gain=1e-12", "channel.max_gain=1e12"),
)
CHOSEN_GAINS = ([1.0, 0.6, 0.3, 0.1], [0.8, 0.8], [2.0, 1e-3, 0.5], [0.05])  # |h|^2


def decibels(ratio: float) -> float:
    return 10 * math.log10(ratio)


def scenario_of(devices: int, entries: int, *overrides: str, power: float = 1.0, noise: float = 1.0) -> Scenario:
    """Every device in every round; an entry has unit variance, power P and noise sigma^2: P_i = P d, C = sqrt(d)."""
    norms = (f"local.clip_norm={math.sqrt(entries)!r}", f"channel.noise_std={math.sqrt(noise)!r}")
    limit = f"power.max_snr_db={decibels(power / noise)!r}"
    return built(entries, *everybody(devices), *norms, limit, *UNIT_RAYLEIGH, *overrides)


def pfels(ratio: float, rescale: bool) -> tuple[str, ...]:
    """Settings of a compressed scheme bound by power alone."""
    compressed = (f"scheme.ratio={ratio}", f"scheme.rescale={str(rescale).lower()}")
    return ("scheme.name=pfels", "privacy.epsilon=inf", *compressed)


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> Replayed:
    """Settings that replay gains of these |h|^2 and of phases that differ, in one round. No file is read, as that
    starts a process each time; tests/unit/test_replay.py reads files."""

    def settings(powers: Sequence[float]) -> tuple[str, ...]:
        gains = np.sqrt(powers) * np.exp(1j * np.arange(1, len(powers) + 1))
        replay = Replay.of(gains[None, :, None], np.array(powers))
        monkeypatch.setattr("channels.fading.replay._read", lambda *_, **__: replay)
        return ("run.rounds=1", "channel.fading=replay", "channel.replay_file=gains.h5")

    return settings


def error_of_sum(plan: RoundPlan, messages: Array) -> Array:
    """Per entry, (r mean - sum_i m_i)^2."""
    return np.asarray((len(messages) * send(plan, messages).mean.double().numpy() - messages.sum(axis=0)) ** 2)


def errors_of_rounds(scenario: Scenario, seed: int, rounds: int, entries: int) -> Array:
    """Mean errors of the sum of Gaussian messages of all devices, [rounds]."""
    messages = np.random.default_rng(seed).standard_normal((rounds, scenario.run.devices, entries))
    return np.array([error_of_sum(planned(scenario, t), messages[t]).mean() for t in range(rounds)])


def through_stages(scenario: Scenario, t: int, updates: Any) -> tuple[Coder, Batch, Reception]:
    """A round's encoder, the batch that it made of these updates of all devices, and what is received of it."""
    plan, encoder = planned(scenario, t), open_encoder(scenario.recipe.stages, a_round(scenario.streams, t))
    batch = encoder.encode(Batch(torch.as_tensor(updates, dtype=torch.float32), torch.ones(len(updates))))
    plan.link.send(batch, slice(0, len(updates)))
    return encoder, batch, plan.link.close()


def check_law_1(scenario: Scenario, powers: Sequence[float], law: float) -> None:
    """n = 10,000 entries of one round: a standard error is sqrt(2/n) = 1.4%."""
    plan, devices = planned(scenario), len(powers)
    np.testing.assert_allclose(np.abs(plan.channel.gains) ** 2, powers)
    assert_mean(error_of_sum(plan, np.random.default_rng(1).standard_normal((devices, 10_000))), law)
    assert plan.link.link_budget().noise_std * devices == pytest.approx(math.sqrt(law), rel=1e-6)


INVERSIONS = {"pfels": "real", "full-inversion": "iq", "per-subcarrier": "iq"}  # and a packing for each
every_inversion = pytest.mark.parametrize("policy", INVERSIONS)


@every_inversion
@pytest.mark.parametrize("powers", CHOSEN_GAINS)
@pytest.mark.parametrize(("power", "noise"), [(1.0, 0.1), (4.0, 2.5)])
def test_law_1_full_inversion(replayed: Replayed, powers: Any, policy: str, power: float, noise: float) -> None:
    """sigma^2/min_k(P |h_k|^2)."""
    given = (f"power.policy={policy}", f"grid.packing={INVERSIONS[policy]}", *replayed(powers))
    scenario = scenario_of(len(powers), 10_000, *given, power=power, noise=noise)
    check_law_1(scenario, powers, noise / (power * min(powers)))


@every_inversion
def test_law_1_with_limits_that_differ(replayed: Replayed, policy: str) -> None:
    """The least P_k |h_k|^2 counts, not the least gain."""
    powers = [0.5, 0.52, 0.54, 0.56, 0.58, 0.6]
    given = (f"power.policy={policy}", f"grid.packing={INVERSIONS[policy]}", *replayed(powers))
    scenario = scenario_of(6, 10_000, *given, "power.max_snr_db=[-10.0, 10.0]", noise=0.5)
    reaches = scenario.power_limits / 10_000 * powers
    assert reaches.argmin() != 0
    check_law_1(scenario, powers, 0.5 / reaches.min())


def test_law_2_published_figures(replayed: Replayed) -> None:
    """|h|^2 = {1, .6, .3, .1}, P = 1, sigma^2 = .1: eta* = .33494, MSE .50718, full inversion 1; n = 20,000."""
    messages = np.random.default_rng(2).standard_normal((4, 20_000))
    best, inverted = (
        planned(scenario_of(4, 20_000, f"power.policy={policy}", *replayed([1, 0.6, 0.3, 0.1]), noise=0.1))
        for policy in ("cao", "full-inversion")
    )
    report = best.link.link_budget()
    assert report.alignment_coefficient**2 == pytest.approx(0.33494, abs=5e-6)
    assert_mean(error_of_sum(best, messages), 0.50718)
    assert_mean(error_of_sum(inverted, messages), 1.0)
    # The two strongest invert, the others send at full power: 20,000 entries of power 1.
    np.testing.assert_allclose(report.devices.energy[2:], 20_000, rtol=1e-6)
    np.testing.assert_allclose(report.devices.energy[:2], 20_000 * 0.33494 / np.array([1, 0.6]), rtol=1e-4)


@pytest.mark.parametrize("powers", CHOSEN_GAINS)
@pytest.mark.parametrize(("power", "noise", "packing"), [(1.0, 0.1, "iq"), (4.0, 2.5, "real"), (1.0, 20.0, "iq")])
def test_law_2_optimal_power(replayed: Replayed, powers: list[float], power: float, noise: float, packing: str) -> None:
    """eta* = min_k [(sigma^2 + sum_{i<=k} a_i^2)/sum_{i<=k} a_i]^2 and its error; n = 10,000 entries."""
    count = len(powers)
    reaches = np.sort(np.sqrt(power * np.array(powers)))
    eta = min(((noise + (reaches[:k] ** 2).sum()) / reaches[:k].sum()) ** 2 for k in range(1, count + 1))
    law = ((np.sqrt(np.minimum(reaches**2, eta) / eta) - 1) ** 2).sum() + noise / eta
    chosen = ("power.policy=cao", f"grid.packing={packing}", *replayed(powers))
    plan = planned(scenario_of(count, 10_000, *chosen, power=power, noise=noise))
    assert plan.link.link_budget().alignment_coefficient ** 2 == pytest.approx(eta, rel=1e-6)
    assert_mean(error_of_sum(plan, np.random.default_rng(3).standard_normal((count, 10_000))), law)


# A prefix that holds every path; a device truncates coefficient by coefficient.
SELECTIVE = (
    *("channel.fading=tapped-line", "channel.mean_gain=1", "channel.delay_spread_s=4e-5"),
    *("grid.symbol_duration_s=3e-4", "grid.subcarriers=64"),
)


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize(
    ("g", "power", "noise", "setting", "channel", "shape"),
    [
        (0.1, 1.0, 10.0, "power.threshold=0.1", (), (40, 300, 160)),
        (0.5, 4.0, 200.0, "power.threshold=0.5", (), (40, 300, 160)),
        (-math.log(0.75), 0.2, 5.0, "power.participation=0.75", (), (40, 300, 160)),
        (0.3, 1.0, 5.0, "power.threshold=0.3", SELECTIVE, (30, 20, 64)),
    ],
)
def test_law_3_truncated_inversion(
    g: float, power: float, noise: float, setting: str, channel: tuple[str, ...], shape: tuple[int, ...], packing: str
) -> None:
    """So many rounds, K devices and entries; a round's mean error is one number, their mean within 5 standard errors
    (of at most 5%) of K(1 - e^-g) + sigma^2 E1(g)/P, and, divided by the expected senders, of K(e^g - 1) + sigma^2
    E1(g) e^(2g)/P. The silent share is 1 - e^-g, beta^2 = P/E1(g) in every round, the mean power P."""
    rounds, devices, entries = shape
    chosen = ("power.policy=truncated-inversion", "power.average_over=fading", setting, f"grid.packing={packing}")
    biased = devices * -math.expm1(-g) + noise * exp1(g) / power
    rescaled = devices * math.expm1(g) + noise * exp1(g) * math.exp(2 * g) / power
    for divide_by, law, gain in (("selected", biased, 1.0), ("expected", rescaled, math.exp(g))):
        divided = f"power.divide_by={divide_by}"
        scenario = scenario_of(devices, entries, *chosen, *channel, divided, power=power, noise=noise)
        for report in (reports := [planned(scenario, t).link.link_budget() for t in range(rounds)]):
            assert report.alignment_coefficient**2 == pytest.approx(power / exp1(g), rel=1e-9)
            assert report.noise_std * devices == pytest.approx(gain * math.sqrt(noise * exp1(g) / power), rel=1e-9)
        errors = errors_of_rounds(scenario, 4, rounds, entries)
        assert_mean(errors, law)
        assert errors.std() / math.sqrt(rounds) < 0.05 * law
        if not channel:
            assert_mean([report.devices.active == 0 for report in reports], -math.expm1(-g))
        assert_mean([report.devices.energy / entries for report in reports], power)


@pytest.mark.parametrize("spread", [0.1, 0.5, 1.5])
@pytest.mark.parametrize("packing", ["real", "iq"])
def test_law_4_phase_error(spread: float, packing: str) -> None:
    """K = 80, 100 rounds of 160 entries without noise: K(1.5 + .5 e^(-2 s^2) - 2 e^(-s^2/2)) an entry on the real part,
    2K(1 - e^(-s^2/2)) under I/Q packing; a round's mean error is one of 100 numbers."""
    devices, rounds, entries = 80, 100, 160
    real = 1.5 + 0.5 * math.exp(-2 * spread**2) - 2 * math.exp(-(spread**2) / 2)
    law = devices * (real if packing == "real" else 2 * (1 - math.exp(-(spread**2) / 2)))
    chosen = (f"csi.phase_std_rad={spread}", f"grid.packing={packing}", "channel.noise=false")
    errors = errors_of_rounds(scenario_of(devices, entries, *chosen), 6, rounds, entries)
    assert_mean(errors, law)
    assert errors.std() / math.sqrt(rounds) < 0.07 * law


@pytest.mark.parametrize(
    ("estimation", "pilots", "pilot_snr", "ratio", "rescale", "packing"),
    [
        *(("mmse", 1, 20.0, 0.4, False, "real"), ("mmse", 2, 5.0, 0.8, True, "real")),
        *(("mmse", 4, 2.0, 0.2, False, "iq"), ("ls", 1, 4.0, 0.4, False, "real")),
    ],
)
def test_law_5_estimation_error_end_to_end(
    estimation: str, pilots: int, pilot_snr: float, ratio: float, rescale: bool, packing: str
) -> None:
    """PFELS from updates to decoded mean, r = 4, d = 40, 200 rounds less those in which some |hhat|^2 < 0.1. Given
    hhat, E||decoded - mean||^2 = (1-p)||mean||^2 + (p/r^2) sum_i s_e^2/(2|hhat_i|^2) ||Delta_i||^2 + k sigma0^2/(r^2
    beta^2), s_e^2 = v/(1 + v) with v = 2 sigma0^2/(pilots' energy). The error less that has mean 0. Rescaled by 1/p,
    (1-p)||mean||^2 becomes (1/p - 1)||mean||^2 and the rest gets 1/p^2; under I/Q the whole of e/hhat counts, not half;
    least squares answers c = 1/(1 + v) of h, and p (1 - c)^2 ||mean||^2 comes on top."""
    devices, entries, rounds, noise = 4, 40, 200, 0.3
    csi = (f"csi.estimation={estimation}", f"csi.pilots={pilots}", f"csi.pilot_snr_db={decibels(pilot_snr)!r}")
    how = (*pfels(ratio, rescale), *csi, f"grid.packing={packing}", "local.clip_norm=2.0")
    scenario = scenario_of(devices, entries, *how, power=3.0, noise=noise)
    updates = np.random.default_rng(7).standard_normal((devices, entries)) + 0.7
    updates *= np.array([[2.0], [1.6], [1.2], [0.8]]) / np.linalg.norm(updates, axis=1, keepdims=True)
    mean, squares = updates.mean(axis=0), (updates**2).sum(axis=1)
    v = 2 / (pilot_snr * pilots)
    error_variance, slope = v / (1 + v), (1 / (1 + v) if estimation == "ls" else 1.0)
    kept = round(ratio * entries)
    surplus, expected = [], []
    for t in range(rounds):
        known = np.abs(planned(scenario, t).estimate.gains) ** 2
        if (known < 0.1).any():
            continue
        encoder, _, reception = through_stages(scenario, t, updates)
        beta = reception.report.alignment_coefficient
        part = 0.5 if packing == "real" else 1.0
        from_csi = part * error_variance * (squares / known).sum() / devices**2 + (1 - slope) ** 2 * (mean @ mean)
        from_noise = kept * noise / (devices * beta) ** 2
        if rescale:
            law = (1 / ratio - 1) * (mean @ mean) + from_csi / ratio + from_noise / ratio**2
        else:
            law = (1 - ratio) * (mean @ mean) + ratio * from_csi + from_noise
        surplus.append(((encoder.decode(reception.mean).double().numpy() - mean) ** 2).sum() - law)
        expected.append(law)
    assert len(surplus) > 110
    assert_mean(np.array(surplus), 0.0)
    assert np.std(surplus) / math.sqrt(len(surplus)) < 0.07 * np.mean(expected)


@pytest.mark.parametrize("g", [0.3, 10.0, 300.0])
def test_law_7_ergodic_rate_and_outage(g: float) -> None:
    """Of an ideal link's round, whose resource elements are energy over power; n = 20,000 devices: the mean rate
    is e^(1/g) E1(1/g)/ln 2, 2.9065 at g = 10, and the share of rates below R 1 - e^(-(2^R - 1)/g)."""
    scenario = scenario_of(20_000, 10**7, "scheme.name=fedavg", power=2 * g * 0.49, noise=0.49)  # N0 is 2 sigma0^2
    use = planned(scenario).link.link_budget().devices
    rates = use.bits / (use.energy / use.transmit_scale**2)
    ergodic = math.exp(1 / g) * exp1(1 / g) / math.log(2)
    if g == 10:
        assert ergodic == pytest.approx(2.9065, abs=5e-5)
    assert_mean(rates, ergodic)
    for target in (0.1 * ergodic, 0.5 * ergodic, 1.2 * ergodic):
        assert_share(rates < target, -math.expm1(-(2**target - 1) / g))
    assert_law((2 ** rates[:4000] - 1) / g, "expon")


@pytest.mark.parametrize(("ratio", "packing"), [(1.0, "real"), (1.0, "iq"), (0.3, "real"), (0.25, "iq")])
@pytest.mark.parametrize(
    ("devices", "noise", "epsilon"), [(1, 1.0, "0.05"), (4, 0.3, "inf"), (16, 5.0, "inf"), (16, 5.0, "0.05")]
)
def test_law_8_receive_snr(ratio: float, packing: str, devices: int, noise: float, epsilon: str) -> None:
    """b = beta C/sigma0: r^2 b^2/d for equal updates, exactly, as their entries are equal in size. Orthogonal updates
    have r b^2/d: exactly at p = 1; under a mask as the mean of 30 rounds, within 5 standard errors. And the l2 norm of
    the noise on the decoded mean is sigma0 sqrt(k)/(r beta), as recorded."""
    entries, clip = 64, 2.5
    population = ("run.devices=200", f"run.selected={devices}", f"channel.noise_std={math.sqrt(noise)!r}")
    scheme = (f"scheme.ratio={ratio}", f"privacy.epsilon={epsilon}", f"local.clip_norm={clip}")
    scenario = built(entries, *population, *scheme, f"grid.packing={packing}", *UNIT_RAYLEIGH)
    kept = scenario.bound.entries
    assert kept == int(ratio * entries)
    rows = hadamard(entries)[1 : devices + 1] * clip / math.sqrt(entries)
    shares = []
    for t in range(30 if ratio < 1 else 2):
        equal, orthogonal = (through_stages(scenario, t, each)[2] for each in (np.tile(rows[:1], (devices, 1)), rows))
        beta = orthogonal.report.alignment_coefficient
        assert orthogonal.report.noise_std == pytest.approx(math.sqrt(noise) / (devices * beta), rel=1e-9)
        if epsilon != "inf":
            assert orthogonal.report.privacy_bound_binding
        unit = (beta * clip) ** 2 / noise / entries  # b^2/d
        assert 10 ** (equal.receive_snr_db / 10) == pytest.approx(devices**2 * unit, rel=1e-4)
        shares.append(10 ** (orthogonal.receive_snr_db / 10) / (devices * unit))
    if ratio == 1:
        np.testing.assert_allclose(shares, 1, rtol=1e-4)
    else:
        assert_mean(shares, 1, rounding=1e-4)


@pytest.mark.parametrize(("ratio", "rescale"), [(1.0, False), (0.4, False), (0.4, True)])
@pytest.mark.parametrize("devices", [2, 9])
def test_law_8_noise_on_the_decoded_mean(ratio: float, rescale: bool, devices: int) -> None:
    """d = 20,000, one round: ||decoded - A^T A mean||^2 is sigma0^2 k/(r beta)^2 times a chi-square variable of k
    degrees over k; 5 standard errors are 5 sqrt(2/k), 4% to 6%. Rescaled by 1/p: the norm 1/p times that."""
    entries, noise = 20_000, 0.4
    scenario = scenario_of(devices, entries, *pfels(ratio, rescale), noise=noise)
    updates = torch.randn(devices, entries, generator=torch.Generator().manual_seed(9))
    encoder, batch, reception = through_stages(scenario, 0, updates)
    exact = encoder.decode((batch.scale[:, None] * batch.values).mean(dim=0))
    rest = (encoder.decode(reception.mean) - exact).double()
    kept, beta = scenario.bound.entries, reception.report.alignment_coefficient
    law = math.sqrt(noise * kept) / (devices * beta) / (ratio if rescale else 1.0)
    assert float(rest.square().sum()) / law**2 == pytest.approx(1, abs=5 * math.sqrt(2 / kept))
    assert reception.report.noise_std * encoder.noise_gain * math.sqrt(kept) == pytest.approx(law, rel=1e-9)
