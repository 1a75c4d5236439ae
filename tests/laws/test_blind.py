"""Blind aggregation: the decoded mean against the exact law of its signal, its interference and its noise."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from airfl.errors import UserError
from airfl.uplinks import AnalogUplink, Reception
from airfl.uplinks.control import PowerControl
from airfl.uplinks.stages import Batch
from airfl.uplinks.stages.stage import MessageBound
from channels.csi import ChannelInformation, impair
from channels.csi.estimation import Estimation
from channels.csi.impairment import Surroundings
from channels.csi.imperfections import Imperfections
from channels.frame import Frame
from channels.grid import OfdmaGrid, Packing
from tests.conftest import small_settings
from tests.laws.decoding import built, planned, send
from tests.laws.samples import Array, assert_mean, draws, gaussian
from tests.radios import radio_of
from tests.refusals import one_line
from tests.uplink_contexts import SYMBOL_S, context_of

# What four devices send on every element, real and imaginary part; alpha and sigma_0; subcarriers that fade by
# themselves, each of which is a sample.
U, V = np.array([0.9, -0.4, 0.3, 0.7]), np.array([0.2, 0.5, -0.6, 0.1])
ALPHA, NOISE_STD, SAMPLES, DEVICES = 1.5, 0.8, 3000, 4
EXACT = Estimation()


def received(antennas: int, packing: Packing = "real", noise: bool = True, estimation: Estimation = EXACT) -> Reception:
    """What is decoded under Rayleigh fading of mean power 1 where every subcarrier carries U, or U + j V."""
    response = gaussian(np.random.default_rng([7, antennas]), DEVICES, antennas, 1, SAMPLES)
    entries = SAMPLES * (2 if packing == "iq" else 1)
    norm = math.sqrt(entries)
    message = MessageBound(entries=entries, peak=norm, rms=norm, sensitivity=norm)
    context = context_of(response, message, subcarriers=SAMPLES, elements=SAMPLES, limit=ALPHA**2)
    csi = known(replace(context.csi, pilot_noise_variance=np.full(DEVICES, PILOT_NOISE / DEVICES)), estimation)
    uplink = AnalogUplink(
        grid=OfdmaGrid(SAMPLES, SYMBOL_S, packing),
        control=PowerControl("blind", "round_energy", NOISE_STD, combining="sum"),
        noise_std=NOISE_STD,
        noise=noise,
    )
    link = uplink.open(replace(context, csi=csi))
    symbols = np.stack([U, V], axis=1) if packing == "iq" else U[:, None]
    values = torch.tensor(np.tile(symbols, SAMPLES), dtype=torch.float32)
    link.send(Batch(values, torch.ones(DEVICES)), slice(0, DEVICES))
    return link.close()


PILOT_NOISE = 1.7
"""N_0/E of a pilot: the variance of the noise on the estimate of the sum from one pilot symbol."""


def known(csi: ChannelInformation, estimation: Estimation) -> ChannelInformation:
    """What the receiver knows after this estimation."""
    frame = Frame(np.arange(SAMPLES) * 15e3, SAMPLES, SYMBOL_S, 1000)
    return impair(csi, Imperfections(estimation=estimation), Surroundings(), frame, draws(DEVICES, 11))


def variance(antennas: int, v: Array, noise: bool = True, pilot_noise: float = 0.0) -> float:
    """The law, in the terms of the page: h_i of K antennas are CN(0, 1), and everything is divided by (r K)^2.

    Signal: var ||h_i||^2 = K. Interference: E (Re h_l^H h_i)^2 = K/2 = E (Im h_l^H h_i)^2, where the product of a pair
    carries u_i + u_l on its real part, and v_l - v_i on its imaginary one. Noise: E||s||^2 = r K. Error of the
    estimated sum: its product with all that is received, of power sum |x_i|^2 + N_0 at an antenna.
    """
    signal = antennas * (U**2).sum()
    pairs = [(i, j) for i in range(DEVICES) for j in range(i)]
    interference = antennas / 2 * sum((U[i] + U[j]) ** 2 + (v[i] - v[j]) ** 2 for i, j in pairs)
    per_antenna = 2 * (NOISE_STD / ALPHA) ** 2 if noise else 0.0
    heard = DEVICES * antennas * per_antenna / 2
    misjudged = antennas * pilot_noise / 2 * ((U**2 + v**2).sum() + per_antenna)
    return float((signal + interference + heard + misjudged) / (DEVICES * antennas) ** 2)


@pytest.mark.parametrize("antennas", [1, 4, 16, 64, 256])
@pytest.mark.parametrize("noise", [False, True])
def test_the_decoded_mean_is_unbiased_with_the_exact_variance(antennas: int, noise: bool) -> None:
    """3,000 elements of Rayleigh fading: mean and mean square deviation within 5 standard errors."""
    decoded = received(antennas, noise=noise).mean.double().numpy()
    assert_mean(decoded, U.mean())
    assert_mean((decoded - U.mean()) ** 2, variance(antennas, np.zeros(DEVICES), noise))


@pytest.mark.parametrize("antennas", [1, 8])
def test_both_parts_of_an_element_carry_a_mean(antennas: int) -> None:
    decoded = received(antennas, packing="iq").mean.double().numpy()
    assert_mean(decoded[0::2], U.mean())
    assert_mean(decoded[1::2], V.mean())
    assert_mean((decoded[0::2] - U.mean()) ** 2, variance(antennas, V))


def test_the_variance_falls_as_one_over_the_antennas() -> None:
    """From 1 to 256 antennas: the slope of a line through the logarithms is -1 within 5 standard errors, which follow
    from those of the five mean squares."""
    counts = np.array([1, 4, 16, 64, 256])
    squares = [(received(int(antennas)).mean.double().numpy() - U.mean()) ** 2 for antennas in counts]
    means = np.array([one.mean() for one in squares])
    errors = np.array([one.std() / math.sqrt(SAMPLES) for one in squares]) / means
    x = np.log(counts) - np.log(counts).mean()
    slope = x @ np.log(means) / (x @ x)
    assert abs(slope + 1) < 5 * math.sqrt(x**2 @ errors**2) / (x @ x)


@pytest.mark.parametrize("method", ["ls", "mmse"])
@pytest.mark.parametrize("pilots", [1, 3])
def test_an_error_of_the_estimated_sum_adds_its_own_term(method: str, pilots: int) -> None:
    """The scale of an estimate cancels: MMSE decodes what LS does."""
    decoded = received(8, estimation=Estimation(method=method, pilots=pilots)).mean.double().numpy()
    assert_mean(decoded, U.mean())
    assert_mean((decoded - U.mean()) ** 2, variance(8, np.zeros(DEVICES), pilot_noise=PILOT_NOISE / pilots))


def test_the_scale_of_the_estimate_has_no_effect() -> None:
    ls, mmse = (received(4, estimation=Estimation(method=method)).mean for method in ("ls", "mmse"))
    torch.testing.assert_close(ls, mmse, rtol=1e-4, atol=1e-5)


def test_protection_is_that_of_the_noise_alone() -> None:
    """sigma_0 over the largest |Re a^H h_i| alpha, a = s/||s||, worked out from the channel; the updates of other
    devices count for nothing, and without noise there is none."""
    response = gaussian(np.random.default_rng([7, 16]), DEVICES, 16, 1, SAMPLES)[:, :, 0]
    total = response.sum(axis=0)
    arriving = np.einsum("kn,ikn->in", total.conj(), response) / np.linalg.norm(total, axis=0)
    report = received(16).report
    assert report.protection == pytest.approx(NOISE_STD / (ALPHA * np.abs(arriving.real).max()), rel=1e-9)
    assert received(16, noise=False).report.protection == 0
    expected = NOISE_STD * np.sqrt((np.linalg.norm(total, axis=0) ** 2).mean()) / (DEVICES * 16 * ALPHA)
    assert report.noise_std == pytest.approx(expected, rel=1e-9)


def test_pfels_claims_nothing_for_messages_that_do_not_arrive_with_beta() -> None:
    """Under its bound on beta the largest message arrives with it at most, by the estimate, and the ledger has that."""
    unaligned = ("scheme.name=pfels", "power.policy=blind", "antennas.combining=sum", "antennas.count=4")
    for overrides, claimed in (((), math.isfinite), (unaligned, math.isinf)):
        scenario = built(12, "channel.fading=rayleigh", "privacy.epsilon=0.5", *overrides)
        assert scenario.recipe.claim is not None
        report = planned(scenario).link.link_budget()
        assert claimed(scenario.recipe.claim.epsilon(report, 1))
        assert report.privacy_bound_binding
        bound = scenario.recipe.uplink.control.privacy_bound
        assert 1 / report.protection <= bound * (1 + 1e-9)


BLIND = ("scheme.name=blind", "antennas.count=4", "channel.fading=rayleigh", "csi.estimation=ls")


def test_pilots_are_sent_at_once() -> None:
    """L pilots for all devices together, from each the energy of the weakest; the estimates of 3 devices sum up to
    that of the sum: error variance N_0/(L E) on 2,000 rounds' antennas."""
    scenario = built(12, *BLIND, "csi.pilots=2", "csi.pilot_snr_db=3", "run.devices=3", "run.selected=3")
    report = planned(scenario).link.link_budget()
    assert report.pilot_elements == 2
    errors = []
    for t in range(500):
        csi = planned(scenario, t).csi
        errors.append((csi.estimate.response - csi.state.response).sum(axis=0).ravel())
    assert_mean(np.abs(np.concatenate(errors)) ** 2, 2 / (2 * 10**0.3))

    unequal = built(12, *BLIND, "power.max_snr_db=[0, 20]", "run.devices=3", "run.selected=3")
    plan = planned(unequal)
    weakest = unequal.element_power.min()
    budget = plan.link.link_budget().devices
    assert budget.transmit_scale == pytest.approx(np.full(3, math.sqrt(unequal.power_limits.min()) / unequal.bound.rms))
    np.testing.assert_allclose(budget.energy, unequal.power_limits.min() + weakest, rtol=1e-9)
    assert (budget.energy <= unequal.most_energy * (1 + 1e-12)).all()
    own = radio_of(small_settings("csi.estimation=ls")).pilots((3, 1, 1, 1), *[np.arange(3)] * 2, np.ones(3))
    assert own.resource_elements == 3  # the same with pilots of their own


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ("antennas.combining=principal", "antennas.combining: scheme 'blind' prescribes 'sum', got 'principal'"),
        ("csi.phase_bits=3", "csi.phase_bits: devices of power policy 'blind' are told nothing"),
        ("csi.gain_bits=3", "csi.gain_bits: devices of power policy 'blind' are told nothing"),
        ("selection.kind=best-k", "selection.kind: 'best-k' needs the channel of every candidate"),
        ("power.alignment=population", "power.alignment: policy 'blind' derives beta from the devices that send"),
        ("power.threshold=0.1", "power: power policy 'blind' has no parameter threshold"),
        ("power.policy=cao", "power.policy: scheme 'blind' prescribes blind, got 'cao'"),
    ],
)
def test_what_does_not_reach_it_is_refused(setting: str, refusal: str) -> None:
    with pytest.raises(UserError, match=one_line(begins=refusal)):
        built(12, *BLIND, setting)


def test_a_policy_without_phases_needs_its_combiner() -> None:
    needs = "antennas.combining: power policy 'blind' leaves the phases to the receiver, which needs sum"
    with pytest.raises(UserError, match=one_line(begins=needs)):
        built(12, "power.policy=blind", "antennas.count=4")
    with pytest.raises(UserError, match=one_line(begins="grid.waveform: is decoded without combining")):
        built(12, "scheme.name=blind", "grid.waveform=true", "grid.subcarriers=8")


def test_a_combiner_has_no_effect_on_one_antenna_with_a_waveform() -> None:
    """Devices that know their channels are received with the phase of the sum's only weight."""
    waveform = ("scheme.name=wfl-p", "grid.waveform=true", "grid.subcarriers=8", "channel.fading=rayleigh")
    means = []
    for combiner in ("first", "sum"):
        scenario = built(12, *waveform, f"antennas.combining={combiner}")
        plan = planned(scenario)
        means.append(send(plan, np.tile(np.linspace(-1, 1, 12), (len(plan.devices), 1))).mean)
    torch.testing.assert_close(*means, rtol=1e-4, atol=1e-4)
