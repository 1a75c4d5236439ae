"""Neighbouring cells that aggregate at the same time: what crosses, its mean in closed form, the SINR of two symmetric
cells, what it does to links, privacy and records, and refusals."""

import math

import numpy as np
import pytest
from scipy.special import exp1

from airfl.core.round_plan import RoundPlan
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from channels.interference.cells import Crossing, crossing
from channels.topology import Topology, check_topology, neighbouring
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean

ENTRIES, FREQUENCY_HZ, LIGHT = 64, 3.5e9, 299_792_458.0
LOG = (
    "channel.units=physical", "grid.subcarriers=64", "privacy.epsilon=inf", "topology.path_loss=log-distance",
    "topology.device_height_m=1", "topology.base_height_m=1", "topology.shadowing_std_db=0", "power.tx_power_dbm=10",
)  # fmt: skip
CELL = (*LOG, "topology.kind=disc", "topology.radius_m=150", "topology.min_distance_m=10", "channel.fading=rayleigh")
BESIDE = "topology.neighbours=[[400,0]]"
TWO = "topology.neighbours=[[400,0],[-300,200]]"
PAIR = "topology.access_points=[[-60,0],[60,30]]"


def at(*places: tuple[float, float]) -> tuple[str, ...]:
    text = ",".join(f"[{x},{y}]" for x, y in places)
    return (*everybody(len(places)), *LOG, "topology.kind=coordinates", f"topology.coordinates=[{text}]")


def path_gain(distance_m: float) -> float:
    """The power gain of free space at 1 m, and an exponent of 3 from there on."""
    return (LIGHT / (4 * math.pi * FREQUENCY_HZ)) ** 2 * distance_m**-3


def variance(scenario: Scenario, plan: RoundPlan) -> float:
    """Of what crosses, on an observed entry before it is decoded."""
    report = plan.link.link_budget()
    decoded = report.noise_std / scenario.radio.noise_std
    return (report.interference_std / decoded) ** 2


# --- closed forms ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_two_symmetric_cells_have_the_sinr_of_the_closed_form(packing: str) -> None:
    """One device each, at full power P: P|h|^2/(N_0 + P|g|^2) on an element of two entries. A real entry has twice the
    signal, and of what crosses the part that the phase between g and b turns to it: 2P|h|^2/(N_0 + 2P|g|^2 cos^2)."""
    given = (*at((0, 50)), BESIDE, "channel.fading=fixed", f"grid.packing={packing}", "power.policy=full-inversion")
    scenario = built(128, *given)  # on 64 or 128 elements of the whole band
    noise_energy, power = 2 * scenario.radio.noise_std**2, 10 ** ((10 - 30) / 10) / 64
    own, cross = path_gain(50), path_gain(math.hypot(400, 50))
    found = []
    for t in range(100 if packing == "real" else 1):
        plan = planned(scenario, t)
        report = plan.link.link_budget()
        signal = (report.alignment_coefficient * scenario.bound.rms) ** 2 / 128
        noise = (report.noise_std**2 + report.interference_std**2) / report.noise_std**2 * noise_energy / 2
        found.append(signal / noise)
    if packing == "iq":
        assert found[0] == pytest.approx(power * own / (noise_energy + power * cross), rel=1e-6)
        return
    turned = (2 * power * own / np.array(found) - noise_energy) / (2 * power * cross)
    assert turned.min() > -1e-6
    assert turned.max() < 1 + 1e-6
    assert_mean(turned, 0.5)


@pytest.mark.parametrize("antennas", [1, 3])
def test_the_mean_power_is_that_of_inversion_in_the_neighbour(antennas: int) -> None:
    """E|sum_j a^H g_j p_j m_j|^2 with p_j = beta/|h_j| above a threshold t of |h_j|^2/Omega_j: sum_j Omega'_j beta^2
    E_1(t)/Omega_j an entry of energy 1, half of it on the observed part. Weights of unit norm leave the mean alone."""
    t, beta = 0.2, 1e-8
    given = (
        *everybody(4), *CELL, BESIDE, f"antennas.count={antennas}", "power.policy=truncated-inversion",
        f"power.threshold={t}", f"power.coefficient={beta}", "antennas.combining=first",
    )  # fmt: skip
    scenario = built(ENTRIES, *given)
    (cell,) = scenario.neighbours
    each = beta**2 * exp1(t) * cell.crossing.mean_power / cell.serving.mean_power * scenario.bound.rms**2 / ENTRIES
    found = []
    for index in range(300):
        plan = planned(scenario, index)
        assert not plan.link.link_budget().power_bound_binding
        link = plan.link
        found.append(link._disturbances.crossing.real)  # type: ignore[attr-defined]
    assert_mean(np.array(found), float(each.sum()) / 2)


def test_parts_of_an_element() -> None:
    """Two devices by hand, over two coefficients of unequal shares."""
    effective = np.array([[[1 + 2j, 3.0]], [[0.5j, 1 - 1j]]])
    energies, shares = np.array([2.0, 4.0]), np.array([[0.25, 0.75]])
    real = 2 * (0.25 * 1 + 0.75 * 9) + 4 * (0.75 * 1)
    imaginary = 2 * (0.25 * 4) + 4 * (0.25 * 0.25 + 0.75 * 1)
    assert crossing(effective, energies, shares, "real") == Crossing(real, imaginary)
    assert crossing(effective, energies, shares, "iq") == Crossing(real + imaginary, real + imaginary)
    assert Crossing(1.0, 2.0) + Crossing(3.0, 4.0) == Crossing(4.0, 6.0)


# --- against a direct computation ------------------------------------------------------------------------------------


@pytest.mark.parametrize("antennas", ["antennas.count=3", f"antennas.count=4 {PAIR}"])
def test_what_crosses_is_the_superposition_of_the_neighbours(antennas: str) -> None:
    """Of two cells of 5 devices with 3 antennas, or 2 at each of two access points: channels of the radio, precoders
    and weights computed here, random messages of the largest norm added up entry by entry; variance of the sums against
    that of the report."""
    given = (*everybody(5), *CELL, TWO, *antennas.split(), "antennas.combining=sum", "power.policy=full-inversion")
    scenario = built(ENTRIES, *given)
    plan, everyone = planned(scenario), np.arange(5)
    sums: Array = np.zeros(20_000)
    generator = np.random.default_rng(3)
    a = _sum_weights(plan.channel.response[:, :, 0, 0])
    for cell, (limits, _) in zip(scenario.neighbours, scenario.neighbour_powers, strict=True):
        h = cell.serving.channel(0, everyone, scenario.frame).response[:, :, 0, 0]
        g = cell.crossing_of(0, everyone, scenario.frame)[:, :, 0, 0]
        served = h @ _sum_weights(h).conj()
        beta = (np.sqrt(limits) * np.abs(served) / scenario.bound.rms).min()
        effective = (g @ a.conj()) * beta / served
        entries = generator.standard_normal((5, len(sums))) * scenario.bound.rms / math.sqrt(ENTRIES)
        sums += (effective[:, None] * entries).real.sum(axis=0)
    assert_mean(sums**2 / variance(scenario, plan), 1.0)


def _sum_weights(response: np.ndarray) -> np.ndarray:
    total = response.sum(axis=0)
    return np.asarray(total / np.linalg.norm(total))


def test_it_is_received_as_the_report_says() -> None:
    """Without receiver noise, which leaves interference; the link budget is the report of the round."""
    scenario = built(4096, *everybody(6), *CELL, BESIDE, "channel.noise=false", "power.policy=full-inversion")
    plan = planned(scenario)
    budget = plan.link.link_budget()
    messages = np.random.default_rng(1).standard_normal((6, 4096))
    reception = send(plan, messages)
    missed = reception.mean.numpy() - messages.mean(axis=0)
    assert reception.report.interference_std == budget.interference_std > 0
    assert_mean((missed / budget.interference_std) ** 2, 1.0, rounding=1e-4)


def test_each_round_and_each_cell_has_its_own() -> None:
    scenario = built(ENTRIES, *everybody(3), *CELL, TWO)
    one, two = (variance(scenario, planned(scenario, t)) for t in (0, 1))
    assert one != pytest.approx(two, rel=1e-3, abs=0)
    assert variance(scenario, planned(scenario)) == one
    first, second = scenario.neighbours
    assert not np.isclose(first.serving.mean_power, second.serving.mean_power, atol=0).any()
    assert not np.isclose(first.serving.mean_power, scenario.radio.mean_power, atol=0).any()
    alone = built(ENTRIES, *everybody(3), *CELL, BESIDE)
    assert np.array_equal(alone.neighbours[0].serving.mean_power, first.serving.mean_power)
    assert np.array_equal(alone.neighbours[0].crossing.mean_power, first.crossing.mean_power)
    crossed = [cell.crossing_of(0, np.arange(3), scenario.frame) for cell in (alone.neighbours[0], first)]
    assert np.array_equal(*crossed)


def test_devices_are_where_their_base_station_is() -> None:
    scenario = built(ENTRIES, *at((30, 40), (0, -60)), TWO)
    places = np.array([(30, 40), (0, -60)])
    for cell, position in zip(scenario.neighbours, ((400, 0), (-300, 200)), strict=True):
        assert cell.serving.drop is not None
        assert cell.crossing.drop is not None
        np.testing.assert_allclose(cell.serving.drop.distance_m, [50, 60])
        np.testing.assert_allclose(cell.crossing.drop.positions_m[:, :2], places + position)
        np.testing.assert_allclose(cell.crossing.drop.distance_m, np.hypot(*(places + position).T))
        gains = [path_gain(distance) for distance in np.hypot(*(places + position).T)]
        np.testing.assert_allclose(cell.crossing.mean_power, gains, rtol=1e-9)


def test_access_points_are_where_those_of_this_cell_are_from_its_origin() -> None:
    """In every cell; and one access point off the origin is a base station there, in a cell that is moved with it."""
    places, points = np.array([(30, 40), (0, -60)]), np.array([(-60, 0), (60, 30)])
    scenario = built(ENTRIES, *at(*map(tuple, places)), TWO, PAIR, "antennas.count=2", "channel.fading=fixed")
    for cell, position in zip(scenario.neighbours, ((400, 0), (-300, 200)), strict=True):
        for radio, offset in ((cell.serving, (0, 0)), (cell.crossing, position)):
            away = places[:, None] + np.array(offset) - points
            expected = [[path_gain(float(one)) for one in row] for row in np.hypot(away[..., 0], away[..., 1])]
            np.testing.assert_allclose(radio.point_power, expected, rtol=1e-9)
    moved = built(ENTRIES, *at((130, 40), (100, -60)), TWO, "topology.access_points=[[100,0]]", "channel.fading=fixed")
    here = built(ENTRIES, *at((30, 40), (0, -60)), TWO, "channel.fading=fixed")
    for one, other in zip(moved.neighbours, here.neighbours, strict=True):
        np.testing.assert_allclose(one.serving.mean_power, other.serving.mean_power, rtol=1e-9)
        np.testing.assert_allclose(one.crossing.mean_power, other.crossing.mean_power, rtol=1e-9)
    assert variance(moved, planned(moved)) == pytest.approx(variance(here, planned(here)), rel=1e-9, abs=0)


def test_no_device_is_near_to_the_base_station_next_to_it() -> None:
    """In a disc that reaches over it."""
    given = (*CELL, "topology.radius_m=500", "topology.min_distance_m=100", "topology.neighbours=[[150,0]]")
    (cell,) = built(ENTRIES, *everybody(300), *given).neighbours
    assert cell.crossing.drop is not None
    assert cell.crossing.drop.distance_m.min() >= 100
    given = (*CELL, "topology.radius_m=500", "topology.min_distance_m=60", "topology.neighbours=[[150,0]]")
    given = (*given, "topology.access_points=[[0,100],[0,-100]]", "antennas.count=2")
    (cell,) = built(ENTRIES, *everybody(300), *given).neighbours
    assert min(one.distance_m.min() for one in (*cell.serving.drops, *cell.crossing.drops)) >= 60


# --- degenerate cases, and what does not change -----------------------------------------------------------------------


def test_the_cell_itself_stays_bit_for_bit() -> None:
    """Its channels, beta, the noise that it draws, and what counts as protection; what is added is the interference."""
    given = (*everybody(4), *CELL, "grid.packing=iq")
    alone, beside = (built(ENTRIES, *given, *extra) for extra in ((), (BESIDE,)))
    plans = [planned(one) for one in (alone, beside)]
    assert np.array_equal(plans[0].channel.response, plans[1].channel.response)
    reports = [plan.link.link_budget() for plan in plans]
    for name in ("noise_std", "alignment_coefficient", "protection", "noisy_devices"):
        assert getattr(reports[0], name) == getattr(reports[1], name)
    assert reports[0].interference_std == 0 < reports[1].interference_std
    assert np.array_equal(reports[0].devices.energy, reports[1].devices.energy)
    far = built(ENTRIES, *given, "topology.neighbours=[[1e6,0]]")
    means = [send(planned(one), np.zeros((4, ENTRIES))).mean.numpy() for one in (alone, far)]
    np.testing.assert_allclose(means[0], means[1], rtol=1e-3)


def test_it_adds_to_interference_of_a_given_level() -> None:
    level = "channel.interference_to_noise_db=3"
    found = []
    for extra in ((BESIDE,), (level,), (BESIDE, level)):
        scenario = built(ENTRIES, *everybody(4), *CELL, *extra)
        found.append(variance(scenario, planned(scenario)))
    assert found[2] == pytest.approx(found[0] + found[1], rel=1e-9, abs=0)


def test_a_converter_takes_it_as_part_of_its_input() -> None:
    """Of two entries on an element, D/2 of all power there: sum, noise and what crosses."""
    given = (*everybody(4), *CELL, BESIDE, "grid.packing=iq", "power.policy=full-inversion")
    exact, coarse = (built(ENTRIES, *given, *extra) for extra in ((), ("hardware.adc_bits=3",)))
    crossed, beside = (variance(one, planned(one)) for one in (exact, coarse))
    plan = planned(exact)
    uplink = coarse.recipe.uplink
    beta = plan.link.link_budget().alignment_coefficient
    signal = 4 * (beta * exact.bound.rms) ** 2 / ENTRIES
    distortion = uplink.converter.distortion  # type: ignore[union-attr]
    assert beside - crossed == pytest.approx(
        distortion * (signal + exact.radio.noise_std**2 + crossed), rel=1e-9, abs=0
    )


def test_no_device_that_sends_is_no_interference() -> None:
    """Under a target that nobody reaches."""
    given = (*everybody(4), *CELL, BESIDE, "power.policy=full-inversion", "power.coefficient=1.0")
    scenario = built(ENTRIES, *given, "grid.packing=iq")
    report = planned(scenario).link.link_budget()
    assert report.interference_std == 0


# --- links that carry bits --------------------------------------------------------------------------------------------


def test_links_that_carry_bits_work_at_the_sinr() -> None:
    """Two devices in each cell: log2(1 + P|h|^2/(N_0 + I)) at capacity, where I is the mean of the P|g_j|^2 if the
    neighbour's devices take turns, and their sum if both send on half of the band with twice the power there."""
    power = 10 ** ((10 - 30) / 10) / 64
    gains = [path_gain(50), path_gain(60)]
    crossed = [path_gain(math.hypot(400, 50)), path_gain(math.hypot(400, 60))]
    for link, in_turn in (("ideal", True), ("digital", False)):
        given = (*at((0, 50), (0, 60)), BESIDE, "channel.fading=fixed", "scheme.name=fedavg", f"scheme.link={link}",
                 "digital.error_model=capacity", "digital.gap_db=0")  # fmt: skip
        scenario = built(ENTRIES, *given)
        noise = 2 * scenario.radio.noise_std**2 + power * sum(crossed) / (2 if in_turn else 1)
        report = planned(scenario).link.link_budget()
        share = 1.0 if in_turn else 0.5
        rates = [math.log2(1 + power / share * gain / noise) for gain in gains]
        np.testing.assert_allclose(report.devices.rate, rates, rtol=1e-6)
        without = built(ENTRIES, *(text for text in given if text != BESIDE))
        snr = planned(without).link.link_budget().devices.snr_db
        np.testing.assert_allclose(report.devices.snr_db, snr)


@pytest.mark.parametrize(("mode", "activity"), [("total", 1.0), ("per-element", 0.5)])
def test_the_power_of_digital_devices_is_spread_over_all_subcarriers(mode: str, activity: float) -> None:
    """Also if a model has fewer parameters than these: 64 on 256 subcarriers, P = 10 mW/256 on each."""
    given = (
        *at((0, 50), (0, 60)), BESIDE, "grid.subcarriers=256", "channel.fading=fixed", "scheme.name=fedavg",
        "scheme.link=digital", "digital.error_model=capacity", "digital.gap_db=0", f"digital.power={mode}",
    )  # fmt: skip
    scenario = built(ENTRIES, *given)
    power, crossed = 0.01 / 256, sum(path_gain(math.hypot(400, away)) for away in (50, 60))
    noise = 2 * scenario.radio.noise_std**2 + activity * power * crossed
    own = power * (2 if mode == "total" else 1)  # each device has half of the band
    rates = [math.log2(1 + own * path_gain(away) / noise) for away in (50, 60)]
    np.testing.assert_allclose(planned(scenario).link.link_budget().devices.rate, rates, rtol=1e-6)


@pytest.mark.parametrize("devices", [4, 32])
def test_of_more_digital_devices_than_subcarriers_as_many_send_at_a_time(devices: int) -> None:
    """Each on one of 4 subcarriers, with all of its 10 mW there: the mean of what arrives on a subcarrier over all
    turns of 4 devices, of which there are 8 if there are 32 devices."""
    given = (
        *everybody(devices), *CELL, BESIDE, "grid.subcarriers=4", "scheme.name=fedavg", "scheme.link=digital",
        "digital.error_model=capacity", "digital.gap_db=0",
    )  # fmt: skip
    scenario = built(ENTRIES, *given)
    (cell,), everyone = scenario.neighbours, np.arange(devices)
    for t in range(5):
        plan = planned(scenario, t)
        arriving = 0.01 * np.abs(cell.crossing_of(t, everyone, scenario.frame)[:, 0, 0, 0]) ** 2
        turns = arriving.reshape(-1, 4)  # [turn, subcarrier]
        noise = 2 * scenario.radio.noise_std**2 + turns.mean()
        rates = np.log2(1 + 0.01 * np.abs(plan.channel.gains) ** 2 / noise)
        np.testing.assert_allclose(plan.link.link_budget().devices.rate, rates, rtol=1e-6)


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSALS = {
    "scheme.name=fsk-mv": "noncoherent link adds up energies",
    "selection.kind=best-k": "selection.kind: 'best-k' chooses among devices",
    "power.alignment=population": 'power.alignment: "population" needs the channels of all devices',
    "channel.fading=tapped-line": "channel.fading: 'tapped-line' is not simulated between cells",
    "channel.variation=jakes channel.speed_m_s=3 channel.coherence=slot": "channel.coherence: 'slot' is not simulated",
    "topology.access_points=[[-200,0],[200,0]] antennas.count=2": "would have an access point where this cell has one",
    "surface.elements=4": "surface.elements: is not simulated",
    "grid.waveform=true": "grid.waveform: is not simulated",
    "grid.downlink=true": "grid.downlink: is not simulated",
    "hardware.amplifier=rapp": "hardware.amplifier: is not simulated",
    "antennas.combining=median antennas.count=3": "antennas.combining: is not simulated",
    "power.peak=clip power.peak_db=3": "power.peak: is not simulated",
    "scheme.name=fedavg scheme.link=digital antennas.count=2": "antennas.count: the digital link beside signals",
    "scheme.name=fedavg scheme.link=ideal channel.interference_to_noise_db=3 channel.interference=alpha-stable": (
        "channel.interference: rates of the ideal link"
    ),
    "topology.neighbours=[[0,0]]": "is the cell's own base station",
    "topology.neighbours=[[400,0],[400,0]]": "is given twice",
    "topology.neighbours=[[400,0,1]]": "list of at most 2 entries",
    "topology.path_loss=umi topology.base_height_m=10 topology.device_height_m=1.5 topology.neighbours=[[9e3,0]]": (
        "a device distance of .* outside"
    ),
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str) -> None:
    with pytest.raises(UserError, match=REFUSALS[given]) as refusal:
        built(ENTRIES, *everybody(8), *CELL, BESIDE, *given.split())
    assert "\n" not in str(refusal.value)


def test_there_are_not_too_many() -> None:
    cells = tuple((400.0 + place, 0.0) for place in range(37))
    with pytest.raises(ValueError, match="neighbours must be at most 36 positions"):
        check_topology(Topology(neighbours=cells), 3)
    assert neighbouring(Topology(neighbours=cells), (400.0, 3.0)).access_points == ((0.0, 0.0), (-400.0, -3.0))


def test_without_a_topology_there_are_none() -> None:
    assert built(ENTRIES, *everybody(4), BESIDE).neighbours == ()
