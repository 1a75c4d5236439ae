"""Conformance of every entry of the registries of `channels` and `airfl.selection`: scenario, rounds and links."""

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.config.radio import path_loss_of
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.core.scheduling import everybody, schedule
from airfl.runtime.streams import Purpose
from airfl.selection import SELECTIONS, ChannelRule
from channels.topology import PATH_LOSS
from tests.conformance.channel_cases import (
    CASES,
    DIMENSION,
    LIGHT,
    Case,
    KeptUplink,
    each_case,
    fading_cases,
    messages_of,
    need,
    pass_through,
    scenario_of,
    send,
)

Array = NDArray[np.float64]


# --- every entry: what comes out ------------------------------------------------------------------------------------


@each_case
def test_shapes_types_and_finite_figures(case: Case) -> None:
    scenario = scenario_of(case)
    plan, reception = pass_through(scenario)
    ids, entries = plan.devices, scenario.bound.entries
    assert ids.dtype == np.int64
    assert np.all(np.diff(ids) > 0)

    shape = (len(ids), scenario.antennas, *scenario.radio.observed_shape(scenario.frame))
    assert plan.channel.response.shape == shape
    known = plan.estimate.response.shape  # before offsets, which may make the channel differ over more elements
    assert all(length in (1, true) for length, true in zip(known, shape, strict=True))
    for response in (plan.channel.response, plan.estimate.response):
        assert response.dtype in (np.complex64, np.complex128)
        assert np.isfinite(response).all()
    csi = plan.csi
    for values in (csi.mean_power, csi.pilot_noise_variance, csi.slope, csi.leakage):
        assert values.shape == ids.shape
        assert np.isfinite(values).all()
    assert (csi.mean_power > 0).all()
    assert ((csi.leakage >= 0) & (csi.leakage < 1)).all()
    if csi.error_variance is not None:
        assert (csi.error_variance >= 0).all()

    assert reception.mean.shape == (entries,)
    assert reception.mean.dtype == torch.float32
    assert reception.mean.device.type == "cpu"
    assert torch.isfinite(reception.mean).all()
    report, link_budget = reception.report, plan.link.link_budget()
    heard = bool(report.devices.active.any())  # nobody may be: then nothing is decoded, noise neither
    assert math.isfinite(reception.receive_snr_db) == heard
    assert bool(reception.mean.any()) == heard
    for figures in (report, link_budget):
        use = figures.devices
        for each in (use.transmit_scale, use.energy, use.bits, use.active, use.snr_db):
            assert each.shape == ids.shape
        assert use.energy.dtype == np.float64
        assert use.active.dtype == np.int8
        assert np.isfinite(use.energy).all()
        assert (use.energy[use.active == 1] > 0).all()
        assert ((use.transmit_scale > 0) == (use.active == 1)).all()
        assert 0 < figures.noise_std < math.inf if heard else figures.noise_std == 0
        assert 0 < figures.protection < math.inf if heard else figures.protection == math.inf
        endless = not scenario.radio.sections.channel.interference_model.finite_power and heard
        assert figures.interference_std == math.inf if endless else 0 <= figures.interference_std < math.inf
        assert 0 < figures.alignment_coefficient < math.inf
        assert figures.use.resource_elements == scenario.radio.grid.elements_for(entries) + figures.pilot_elements
    assert np.array_equal(report.devices.active, link_budget.devices.active)
    assert report.protection == link_budget.protection


@each_case
def test_the_seed_names_every_draw(case: Case) -> None:
    """Same seed, same bits; another seed, another draw; and chunks of one device change nothing but rounding."""
    plan, reception = pass_through(scenario_of(case))
    again, repeated = pass_through(scenario_of(case))
    assert np.array_equal(plan.devices, again.devices)
    assert np.array_equal(plan.channel.response, again.channel.response)
    assert np.array_equal(plan.estimate.response, again.estimate.response)
    assert torch.equal(reception.mean, repeated.mean)
    assert np.array_equal(reception.report.devices.energy, repeated.report.devices.energy)

    kept = KeptUplink(scenario_of(case, "run.seed=1"))
    other, disturbed = pass_through(kept.scenario)
    assert disturbed.mean.shape == reception.mean.shape
    assert not torch.equal(reception.mean, disturbed.mean)
    law = kept.scenario.radio.law
    if len(other.devices) and (law is None or not law.constant):
        assert not np.isin(other.channel.response, plan.channel.response).any()

    pieces = send(kept.again(), messages_of(other, kept.scenario), chunk=1)
    largest = float(disturbed.mean.abs().max())
    torch.testing.assert_close(pieces.mean, disturbed.mean, rtol=1e-5, atol=1e-6 * largest)
    np.testing.assert_allclose(pieces.report.devices.energy, disturbed.report.devices.energy, rtol=1e-5)
    np.testing.assert_allclose(pieces.report.devices.snr_db, disturbed.report.devices.snr_db, rtol=1e-4, atol=1e-3)


@each_case
def test_a_device_does_not_see_who_else_is_there(case: Case) -> None:
    scenario = scenario_of(case)
    share = scenario.power_limits / scenario.dimension

    def csi_of(*ids: int) -> tuple[NDArray[np.complexfloating], NDArray[np.complexfloating]]:
        taken = np.array(ids)
        csi = scenario.radio.csi_of(1, taken, scenario.frame, share[taken])
        return csi.state.response, csi.estimate.response

    for company, alone in zip(csi_of(1, 2, 5), csi_of(5), strict=True):
        assert np.array_equal(company[2], alone[0])
        if not (scenario.radio.law and scenario.radio.law.constant):
            assert not any(np.array_equal(company[2], other) for other in company[:2])


@each_case
def test_a_sample_has_the_channels_that_it_has_in_the_population(case: Case) -> None:
    """Bit for bit, also where devices of the population are left out: a round that needs all channels draws them
    once."""
    missed = "csi.missed_probability=0.4" if "waveform" not in case.name else ""
    scenario = scenario_of(case, *filter(None, [missed]))
    if isinstance(scenario.rule, ChannelRule):
        return
    left_out = 0
    for t in range(4):
        everyone = everybody(scenario, t)
        alone, taken = (schedule(scenario, t, scenario.memory, given) for given in (None, everyone))
        left_out += scenario.run.devices - len(everyone.ids)
        for name in ("devices", "sampled", "rows", "estimated", "unreachable"):
            np.testing.assert_array_equal(getattr(taken, name), getattr(alone, name))
        assert_same(taken.csi, alone.csi)
    assert left_out or not missed


def assert_same(one: Any, other: Any) -> None:
    """All arrays of two channels are equal; None stands for zeros, as where no path of a sample is late."""
    if is_dataclass(one) and is_dataclass(other):
        for field in fields(one):
            assert_same(getattr(one, field.name), getattr(other, field.name))
    else:
        np.testing.assert_array_equal(*(0.0 if part is None else part for part in (one, other)))


@each_case
def test_a_round_of_nobody(case: Case) -> None:
    """Arrays of no devices, and a link that carries and costs nothing but its elements."""
    scenario = scenario_of(case, *(["selection.kind=poisson"] if case.table != "selection" else []), "run.selected=1")
    nobody = np.array([], dtype=np.int64)
    csi = scenario.radio.csi_of(0, nobody, scenario.frame, np.array([]))
    assert csi.state.response.shape == (0, scenario.antennas, *scenario.radio.observed_shape(scenario.frame))
    assert csi.mean_power.shape == (0,)
    if scenario.rule.sampling != "poisson":
        return
    sizes = [scenario.streams.generator(Purpose.SELECT, t).binomial(6, 1 / 6) for t in range(20)]
    plan, reception = pass_through(scenario, sizes.index(0))
    assert len(plan.devices) == 0
    # Without a privacy bound beta is inf, and the noise over it 0. A beta that was asked for decodes noise as ever: it
    # does not tell that nobody was there.
    aimed = scenario.radio.sections.power.coefficient
    assert reception.report.alignment_coefficient == (aimed or math.inf)
    assert bool(reception.mean.any()) == (aimed is not None)
    assert reception.report.devices.energy.shape == (0,)
    assert plan.link.link_budget().use == reception.report.use


@pytest.mark.parametrize("case", [case for case in LIGHT if "waveform" not in case.name], ids=str)
def test_the_record_is_what_was_on_the_air(case: Case) -> None:
    """Energies are those of the recorded x_i, SNR those of a^H h_i x_i. Without receiver noise the received elements
    are their sum, from the recorded x_i and h_i; what an offset or a late path leaks from one element to others comes
    on top, as noise of that level (27 entries: its rms within a factor of 2)."""
    scenario = scenario_of(case, "trace.signals=true")
    plan, reception = pass_through(scenario)
    signals, report = reception.signals, reception.report
    assert signals.tx.dtype == np.complex64
    assert signals.tx.shape == (len(plan.devices), scenario.frame.elements)
    tx = signals.tx.astype(np.complex128)
    unit, own = scenario.radio.energy_unit, scenario.element_power[plan.devices]
    pilots = report.pilot_elements / max(len(plan.devices), 1) * scenario.radio.pilot_energy(own) * unit
    np.testing.assert_allclose(report.devices.energy, (np.abs(tx) ** 2).sum(axis=1) * unit + pilots, rtol=1e-5)

    factors = np.sqrt(scenario.power_limits[plan.devices]) / scenario.bound.rms
    combiner = scenario.radio.sections.antennas.combiner.weights(plan.estimate.response, factors)
    gains = (combiner.conj() * plan.channel.response).sum(axis=1)
    arriving = np.array([on_elements(gain, scenario, 0) for gain in gains]).reshape(tx.shape) * tx
    received, expected = (np.abs(arriving) ** 2).sum(axis=1), entries_of(arriving.sum(axis=0), scenario)
    noise_energy = scenario.bound.entries * scenario.radio.noise_std**2
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(report.devices.snr_db, 10 * np.log10(received / noise_energy), atol=1e-3)
        snr_db = 10 * np.log10((expected**2).sum() / noise_energy)
    np.testing.assert_allclose(reception.receive_snr_db, snr_db, atol=1e-3)

    if scenario.radio.sections.antennas.combiner.robust:  # not the sum of what arrives
        return
    _, silence = pass_through(scenario_of(case, "trace.signals=true", "channel.noise=false"))
    rest = entries_of(silence.signals.rx, scenario) - expected
    csi = plan.csi
    if csi.leakage.any():
        offsets = 1 - (1 - csi.leakage) / (1 - csi.late)
        leaking = received * offsets / (1 - offsets)
        if (leaked_power := csi.state.leaked_power) is not None:
            on_each = np.array([on_elements(one, scenario, 0) for one in leaked_power]).reshape(tx.shape[0], -1)
            leaking = leaking + (np.abs(tx) ** 2 * on_each).sum(axis=1)
        level = math.sqrt(leaking.sum() / scenario.frame.elements)
        heard = np.sqrt(np.mean(rest**2))
        if leaked_power is not None:  # half of it on each of the two parts; what keeps its phase, on one
            assert 0.3 * level < heard < 2 * level or not level + heard  # all of them silent
        else:
            leaked = silence.report.interference_std * len(plan.devices) * report.alignment_coefficient
            if scenario.radio.grid.packing == "iq":
                assert leaked == pytest.approx(level / math.sqrt(2), rel=1e-5)
            assert 0.3 * level < leaked <= level * (1 + 1e-5)
            assert leaked / 2 < heard < 2 * leaked
    elif not scenario.radio.sections.channel.interference_model.gaussian:
        # Of any level at 27 entries: tests/laws/test_impulsive_links.py has its law.
        assert np.median(np.abs(rest[rest != 0])) > 0.1 * scenario.radio.noise_std
    elif (over_noise_db := scenario.radio.sections.channel.interference_to_noise_db) is not None:
        # It stays without receiver noise; a standard deviation of n numbers within 5 standard errors.
        level = scenario.radio.noise_std * 10 ** (over_noise_db / 20)
        assert abs(np.sqrt(np.mean(rest**2)) / level - 1) < 5 / math.sqrt(2 * len(rest))
    elif scenario.neighbours:
        level = silence.report.interference_std * len(plan.devices) * report.alignment_coefficient
        assert abs(np.sqrt(np.mean(rest**2)) / level - 1) < 5 / math.sqrt(2 * len(rest))
    else:
        assert np.abs(rest).max(initial=0) <= 1e-5 * np.abs(expected).max(initial=0)


def entries_of(elements: NDArray[np.generic], scenario: Scenario) -> Array:
    """What is observed of elements: the real part, or both, of which an odd message leaves the last one out."""
    if scenario.radio.grid.packing == "real":
        return np.asarray(elements.real, dtype=np.float64)
    return np.stack([elements.real, elements.imag], axis=-1).astype(np.float64).reshape(-1)[: scenario.bound.entries]


def on_elements(coefficients: NDArray[np.generic], scenario: Scenario, t: int) -> NDArray[np.generic]:
    """Coefficients [blocks, subcarriers] on the elements of a message in round t: element e sits e + start elements
    into the frame, which is filled subcarrier first and goes round."""
    frame, start = scenario.frame, 0
    if coefficients.shape != (1, 1):
        start = int(scenario.streams.generator(Purpose.PLACEMENT, t).integers(frame.elements))
    symbol, subcarrier = np.divmod((np.arange(frame.elements) + start) % frame.elements, frame.subcarriers)
    blocks, subcarriers = coefficients.shape
    return coefficients[(symbol // frame.symbols_per_block) % blocks, subcarrier % subcarriers]


# --- every fading law and model -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", fading_cases(), ids=str)
def test_rounds_vary_as_they_are_told(case: Case) -> None:
    """New every round, the same all run, or neither: a process in time, that a device at any speed has left soon."""
    scenario = scenario_of(case)
    ids = np.array([0, 4])
    first, second = (scenario.radio.channel(t, ids, scenario.frame).response for t in (0, 1))
    way, law = scenario.radio.sections.channel.variation, scenario.radio.law
    if way == "constant" or (law is not None and law.constant):
        assert np.array_equal(first, second)
    else:
        assert not np.isin(second, first).any()


PLACES = [case for case in CASES if case.table in ("placement", "path loss")]


def power_cases() -> list[Case]:
    """Every law and model once for each way it varies; Sionna's once, a device takes up to 50 ms."""
    return [case for case in fading_cases() if not case.is_sionna or case.name.endswith("/independent")] + PLACES


@pytest.mark.parametrize("case", power_cases(), ids=str)
def test_mean_power_is_the_scale_squared(case: Case) -> None:
    """E|H|^2 over what the scenario says: 1, within 5 standard errors over n devices: 2,000 of a flat law, 400 of the
    tapped line, 20 of Sionna's; a device's power is its mean over 64 subcarriers of 15 MHz and two antennas."""
    few = {"selective": 400, "coordinates": 200}
    devices = 20 if case.is_sionna else few.get(case.table, few.get(case.name, 2000))
    # A scenario in which nobody's power is that of another: a mean taken with the wrong device's scale shows.
    wide = ("grid.subcarriers=64", "grid.spacing_hz=240e3", "channel.delay_spread_s=3e-7", "antennas.count=2")
    wide = (*wide, "grid.symbol_duration_s=8e-6")  # a prefix that holds every path
    scenario = scenario_of(case, *wide, f"run.devices={devices}", dimension=64)
    ids, channel = np.arange(devices), scenario.radio.sections.channel
    response = scenario.radio.channel(0, ids, scenario.frame).response
    mean_power = scenario.radio.mean_power
    power = (np.abs(response) ** 2).mean(axis=(1, 2, 3)) / mean_power
    assert abs(power.mean() - 1) <= 5 * power.std() / math.sqrt(devices) + 1e-6
    assert power.std() < 3  # so that the tolerance means something

    drop, law = scenario.radio.drop, scenario.radio.law
    if drop is not None:
        np.testing.assert_allclose(mean_power, 10 ** (-drop.path_loss_db / 10), rtol=1e-12)
    elif law is None:
        np.testing.assert_allclose(mean_power, channel.mean_gain**2, rtol=1e-12)
    else:  # of a flat law the scale is the mean gain
        gains = np.abs(response).mean(axis=(1, 2, 3)) / channel.mean_gain
        assert abs(gains.mean() - 1) <= 5 * gains.std() / math.sqrt(devices) + 1e-6
        np.testing.assert_allclose(mean_power, channel.mean_gain**2 * law.mean_square, rtol=1e-12)


@pytest.mark.parametrize("case", PLACES, ids=str)
def test_a_drop_holds_for_the_run_and_within_its_area(case: Case) -> None:
    scenario, other = scenario_of(case, "run.devices=200"), scenario_of(case, "run.devices=200", "run.seed=1")
    drop, again = scenario.radio.drop, scenario_of(case, "run.devices=200").radio.drop
    assert drop.positions_m.shape == (200, 3)
    for values in (drop.distance_m, drop.path_loss_db, drop.line_of_sight):
        assert values.shape == (200,)
        assert np.isfinite(values).all()
    assert np.array_equal(drop.positions_m, again.positions_m)
    assert np.array_equal(drop.path_loss_db, again.path_loss_db)
    distances = np.hypot(*drop.positions_m[:, :2].T)
    if case.name != "coordinates":
        assert not np.isin(drop.positions_m[:, 0], other.radio.drop.positions_m[:, 0]).any()
        assert distances.max() <= scenario.radio.sections.topology.radius_m
    path_loss = path_loss_of(scenario.radio.sections.channel, scenario.radio.sections.topology)
    assert distances.min() >= PATH_LOSS[path_loss].distances_m[0]
    # 23 dBm on 8 subcarriers, for 27 elements of the mean symbol's duration: W, and J.
    np.testing.assert_allclose(scenario.power_limits, 10**-0.7 / 8 * DIMENSION)
    assert scenario.radio.energy_unit == pytest.approx(1 / 14e3)
    # Fewer devices are the first of more: nobody's place depends on how many there are.
    few = scenario_of(case, "run.devices=50").radio.drop
    assert np.array_equal(few.positions_m, drop.positions_m[:50])
    np.testing.assert_allclose(few.path_loss_db, drop.path_loss_db[:50], rtol=1e-9)  # shared shadowing rounds


@pytest.mark.parametrize("case", [case for case in CASES if case.table == "impairment"], ids=str)
def test_an_impairment_is_present_and_charged(case: Case) -> None:
    """It moves the truth or what is known of it, and pilots cost elements and energy if and only if there are some."""
    scenario, perfect = scenario_of(case), scenario_of(replace(case, overrides="channel.fading=tapped-line"))
    present = getattr(scenario.radio.imperfections, case.name).present(scenario.radio.around)
    assert present, f"say in NEEDS which settings bring the impairment {case.name!r} about"
    plan, plain = plan_round(scenario, 0, scenario.memory), plan_round(perfect, 0, perfect.memory)
    assert np.array_equal(plan.devices, plain.devices)
    truth, known = plan.channel.response, plan.estimate.response
    moved = truth.shape != plain.channel.response.shape or not np.array_equal(truth, plain.channel.response)
    assert moved or not np.array_equal(known, plain.estimate.response)
    pilots = plan.link.link_budget().pilot_elements
    assert (pilots > 0) == (scenario.radio.imperfections.estimation.method != "perfect")
    per_run = scenario_of(case, "channel.variation=constant")
    ids = np.arange(2)
    share = (per_run.power_limits / DIMENSION)[ids]
    first, second = (per_run.radio.csi_of(t, ids, per_run.frame, share) for t in (0, 1))
    same = np.array_equal(first.state.response, second.state.response)
    assert (same and np.array_equal(first.estimate.response, second.estimate.response)) == (
        case.name == "feedback"
    )  # which draws nothing; the others are new each round
    coefficients = int(np.prod(known.shape[2:]))
    assert pilots in (0, len(plan.devices) * coefficients * scenario.radio.sections.csi.pilots)


# --- every selection ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(SELECTIONS))
def test_a_selection_takes_at_most_r_of_its_candidates(name: str) -> None:
    rule = SELECTIONS[name]
    some = ("selection.candidates=20",) if issubclass(rule, ChannelRule) else ()
    case = Case("selection", name, f"channel.fading=rayleigh selection.kind={name} {need('selection', name)}")
    scenario = scenario_of(case, "run.devices=40", "run.selected=7", *some)
    assert scenario.recipe.uplink is not None
    memory, taken = scenario.memory, []
    for t in range(6):
        plan = plan_round(scenario, t, memory)
        ids = plan.devices
        assert ids.dtype == np.int64
        assert np.all(np.diff(ids) > 0)
        assert len(ids) == 0 or (ids.min() >= 0 and ids.max() < 40)
        if rule.sampling != "poisson":
            assert len(ids) <= 7
        for array in (plan.memory.mean_rate, plan.memory.spent):
            assert array is None or (array.shape == (40,) and np.isfinite(array).all() and (array >= 0).all())
        memory = plan.memory
        taken.append(tuple(ids))
    assert len(set(taken)) == 6
    assert rule.source
