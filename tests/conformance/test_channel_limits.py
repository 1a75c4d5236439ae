"""Every power policy and combiner keeps its limits, devices in outage do not transmit, and the noise is unchanged."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.core.round_plan import plan_round
from airfl.uplinks.stages import Batch, open_encoder
from channels.antennas import COMBINERS
from channels.power import POLICIES
from tests.conformance.channel_cases import (
    DIMENSION,
    LIGHT,
    Case,
    KeptUplink,
    in_turn,
    messages_of,
    pass_through,
    policy_cases,
    scenario_of,
    send,
)
from tests.rounds import a_round

Array = NDArray[np.float64]

HALF = ("scheme.name=pfels", "scheme.ratio=0.5", "privacy.epsilon=inf")
WHOLE = {"real": DIMENSION, "iq": (DIMENSION + 1) // 2}
"""Resource elements of an update that is sent as it is."""


def spike_energies(kept: KeptUplink, peak: float, elements: int | None = None) -> Array:
    """Energies of messages that are one entry of that size, on every element in turn (or the first ones), [elements,
    devices], pilots left out. Over all elements a fixed start of the placement meets every coefficient, as random
    starts do for any one entry."""
    plan = plan_round(kept.scenario, 0, kept.scenario.memory)
    grid, count = kept.scenario.radio.grid, len(plan.devices)
    energies = []
    for element in range(elements or kept.scenario.frame.elements):
        spikes = torch.zeros(count, kept.scenario.bound.entries)
        spikes[:, element if grid.packing == "real" else 2 * element] = peak
        energies.append(send(kept.again(), spikes).report.devices.energy - kept.context.pilots.energy)
    return np.array(energies).reshape(-1, count)


@pytest.mark.parametrize(("case", "limit"), in_turn(LIGHT, ("round_energy", "transmit_power", "strict"), "policy"))
def test_limits_are_kept_and_the_budget_is_the_mean(case: Case, limit: str) -> None:
    """Of messages at their bound, exactly: the mean energy over all starts of the placement is what `link_budget` says
    and within the limit; in strict mode, and under a policy with an amplitude for each coefficient, no start exceeds
    it."""
    strict = limit == "strict"
    kept = KeptUplink(scenario_of(case, *HALF, "power.strict=true" if strict else f"power.limit={limit}"))
    scenario, power = kept.scenario, kept.scenario.radio.sections.power
    assert scenario.bound.entries == DIMENSION // 2
    energies = spike_energies(kept, scenario.bound.rms)
    link_budget = kept.again().link_budget().devices.energy - kept.context.pilots.energy
    np.testing.assert_allclose(energies.mean(axis=0), link_budget, rtol=1e-5)
    ratio = scenario.bound.entries / scenario.dimension if scenario.power_limit == "transmit_power" else 1.0
    allowed = kept.context.power_limits * ratio * scenario.radio.energy_unit * (1 + 1e-5)
    if power.average_over == "fading" and not strict:
        return  # there the mean over fades is limited, not a round: see tests/laws/test_closed_forms.py
    assert (link_budget <= allowed).all()
    if strict or power.power_policy.per_coefficient:
        assert scenario.bound.peak == pytest.approx(scenario.bound.rms) or not strict
        assert (energies <= allowed).all()


@pytest.mark.parametrize(("case", "packing"), in_turn(policy_cases(), ("real", "iq")))
def test_the_budget_is_the_mean_over_masks_and_starts(case: Case, packing: str) -> None:
    """n = 120 rounds of one fade, which is drawn once: rand-k, random placement, updates at their bound that differ a
    lot from entry to entry. The mean energy within 5 standard errors of `link_budget`."""
    rounds = 120
    two = ("channel.variation=constant", "run.devices=2", "run.selected=2", "run.rounds=1")
    kept = KeptUplink(scenario_of(case, *HALF, *two, f"grid.packing={packing}"))
    scenario = kept.scenario
    expected = plan_round(scenario, 0, scenario.memory).link.link_budget().devices.energy
    updates = torch.tensor(np.random.default_rng(3).exponential(size=(2, DIMENSION)) ** 2, dtype=torch.float32)
    updates /= updates.norm(dim=1, keepdim=True)
    sent = np.empty((rounds, 2))
    for t in range(rounds):
        encoder, link = open_encoder(scenario.recipe.stages, a_round(scenario.streams, t)), kept.again(t)
        link.send(encoder.encode(Batch(updates, torch.ones(2))), slice(0, 2))
        sent[t] = link.close().report.devices.energy
    assert np.all(np.abs(sent.mean(axis=0) - expected) <= 5 * sent.std(axis=0) / math.sqrt(rounds) + 1e-9 * expected)


@pytest.mark.parametrize("case", policy_cases(), ids=str)
@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("peak", ["back-off", "clip"])
def test_no_element_exceeds_its_peak_limit(case: Case, packing: str, peak: str) -> None:
    """3 dB over the mean, P_i over the elements of a whole update, on every element, for one entry that is the whole
    message: the worst there is. It meets every subcarrier. What is cut is recorded, and backing off cuts nothing."""
    half = (*HALF, f"grid.packing={packing}")
    kept = KeptUplink(scenario_of(case, *half, "power.peak_db=3", f"power.peak={peak}"))
    scenario, elements = kept.scenario, kept.scenario.frame.elements
    assert scenario.bound.peak > 1.4 * scenario.bound.rms
    cut = spike_energies(kept, scenario.bound.peak, min(elements, 9))
    allowed = kept.context.power_limits / WHOLE[packing] * 10**0.3
    assert (cut <= allowed * (1 + 1e-5)).all()

    loose = KeptUplink(scenario_of(case, *half))
    uncut = spike_energies(loose, scenario.bound.peak, min(elements, 9))
    spikes = torch.zeros(3, scenario.bound.entries)
    spikes[:, 4] = scenario.bound.peak
    share = send(kept.again(), spikes).report.clipped_share
    if peak == "back-off":
        assert share == 0
        assert (cut <= uncut * (1 + 1e-5)).all()
    else:
        np.testing.assert_allclose(cut, np.minimum(uncut, allowed), rtol=1e-4)
        place = 4 if packing == "real" else 2
        assert share == pytest.approx((uncut[place] > allowed * (1 + 1e-5)).sum() / (3 * elements))


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
def test_the_record_holds_elements_as_they_were_cut(fading: str, packing: str) -> None:
    """With power.peak = clip too: |x|^2 of the recorded elements within the limit, their sum the energy charged."""
    cutting = f"channel.fading={fading} power.peak_db=-3 power.peak=clip trace.signals=true"
    scenario = scenario_of(Case("way", "clip", cutting), f"grid.packing={packing}")
    plan, reception = pass_through(scenario)
    assert reception.report.clipped_share > 0
    power = np.abs(reception.signals.tx.astype(np.complex128)) ** 2
    allowed = scenario.power_limits[plan.devices] / WHOLE[packing] * 10**-0.3
    np.testing.assert_allclose(power.sum(axis=1), reception.report.devices.energy, rtol=1e-5)
    assert (power.max(axis=1) <= allowed * (1 + 1e-5)).all()


TRUNCATING = [name for name, entry in POLICIES.items() if entry.truncates]


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
@pytest.mark.parametrize("name", TRUNCATING)
def test_a_silent_device_sends_nothing_and_is_recorded(name: str, fading: str) -> None:
    """30 devices, some of which a threshold, or a coefficient that they do not reach, keeps silent. Theirs are the
    pilots alone; what they would have said changes no bit of what is received."""
    own = POLICIES[name]().values()
    common = ("run.devices=30", "run.selected=30", "channel.delay_spread_s=1e-8", "trace.signals=true")
    pilots = ("csi.estimation=mmse", "csi.pilots=2", "csi.pilot_snr_db=20", "grid.spacing_hz=1e3")
    value = next((text for text in ("threshold=0.7", "coefficient=60.0") if text.partition("=")[0] in own), None)
    if value is None:
        pytest.fail(f"power policy {name!r} truncates: say here by which parameter", pytrace=False)
    case = Case("policy", name, f"power.policy={name} channel.fading={fading} power.{value}")
    kept = KeptUplink(scenario_of(case, *common, *pilots))
    plan = plan_round(kept.scenario, 0, kept.scenario.memory)
    messages = messages_of(plan, kept.scenario)
    reception = send(kept.again(), messages)
    use = reception.report.devices
    silent = use.active == 0
    assert 3 <= silent.sum() <= 27
    coefficients = int(np.prod(plan.estimate.response.shape[2:]))
    pilot_energy = 2 * coefficients * 100.0  # 20 dB over sigma_0 = 1
    assert np.all(use.transmit_scale[silent] == 0)
    np.testing.assert_allclose(use.energy[silent], pilot_energy, rtol=1e-12)
    assert np.all(use.snr_db[silent] == -np.inf)
    assert np.all(use.transmit_scale[~silent] > 0)
    assert np.all(use.energy[~silent] > pilot_energy)
    assert np.array_equal(use.active, plan.link.link_budget().devices.active)
    assert not reception.signals.tx[silent].any()
    assert reception.signals.tx[~silent].any(axis=1).all()

    louder = messages.clone()
    louder[torch.from_numpy(silent)] *= -1e3
    assert torch.equal(send(kept.again(), louder).mean, reception.mean)


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
@pytest.mark.parametrize("name", TRUNCATING)
def test_where_nobody_sends_nothing_is_decoded(name: str, fading: str) -> None:
    """Every device silent: nothing is spent. Where beta says so the mean is 0, noise included, and nothing needs
    protection; where beta was announced, noise is decoded, lest silence tell of the sample, and protects as ever."""
    own = POLICIES[name]().values()
    value = "power.threshold=1e3" if "threshold" in own else "power.coefficient=1e6"
    case = Case("policy", name, f"power.policy={name} channel.fading={fading} {value}")
    _, reception = pass_through(scenario_of(case))
    assert not reception.report.devices.active.any()
    assert not reception.report.devices.energy.any()
    if value == "power.coefficient=1e6":
        assert reception.mean.any()
        assert reception.report.noise_std > 0
        assert 0 < reception.report.protection < math.inf
        return
    assert not reception.mean.any()
    assert reception.report.noise_std == 0
    assert reception.report.protection == math.inf


@pytest.mark.parametrize("name", list(COMBINERS))
@pytest.mark.parametrize("antennas", [1, 3, 64])
def test_combining_leaves_the_noise_as_it_is(name: str, antennas: int) -> None:
    """||a|| = 1 on every coefficient, so sigma_0 is on an entry of the sum whatever the antennas are; n = 4,000."""
    case = Case("combiner", name, f"channel.fading=tapped-line antennas.combining={name}")
    kept = KeptUplink(scenario_of(case, f"antennas.count={antennas}", "channel.noise_std=2", dimension=4000))
    plan = plan_round(kept.scenario, 0, kept.scenario.memory)
    weights = COMBINERS[name]().weights(plan.estimate.response, np.ones(3))
    assert weights.shape == (antennas, 1, 8)
    np.testing.assert_allclose(np.linalg.norm(weights, axis=0), 1, rtol=1e-6)
    silence = send(plan.link, torch.zeros(3, 4000))
    assert silence.report.noise_std == pytest.approx(2 / (3 * silence.report.alignment_coefficient))
    if COMBINERS[name].robust and antennas > 1:  # which is another noise: tests/laws/test_robust_combining.py
        return
    noise = silence.mean.numpy() * 3 * silence.report.alignment_coefficient
    assert abs(noise.std() / 2 - 1) < 5 / math.sqrt(2 * 4000)
