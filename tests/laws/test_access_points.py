"""Several access points: path gains and fading of each, places of devices, independent lines of sight, what combining
gains, what estimates are based on, links and refusals."""

import math

import numpy as np
import pytest

from airfl.errors import UserError
from channels.draws import Draw
from channels.topology import Drop, Topology, drop, drops, nearest_by_loss
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, Complex, assert_mean

PHYSICAL = ("channel.units=physical", "channel.fading=rayleigh", "grid.subcarriers=64", "privacy.epsilon=inf")
LOG = (*PHYSICAL, "topology.path_loss=log-distance", "topology.device_height_m=1", "topology.base_height_m=1")
PAIR = "topology.access_points=[[-100,0],[100,0]]"


def numbers(seed: int, rows: int) -> Draw:
    """Uniform numbers of these rows, which depend neither on the number of rows nor on that of columns."""
    return lambda count: np.random.default_rng(seed).random((rows, 260))[:, :count]


def seen(devices: int, **settings: object) -> tuple[Drop, ...]:
    cell = Topology(**settings)  # type: ignore[arg-type]
    return drops(cell, numbers(1, devices), numbers(2, devices), numbers(3, devices))


def at(*places: tuple[float, float]) -> tuple[str, ...]:
    text = ",".join(f"[{x},{y}]" for x, y in places)
    return (*everybody(len(places)), "topology.kind=coordinates", f"topology.coordinates=[{text}]")


def responses(*given: str, rounds: int) -> Complex:
    """Of all devices, [rounds, devices, antennas]."""
    scenario = built(64, *given)
    everyone, frame = np.arange(scenario.run.devices), scenario.frame
    return np.array([scenario.radio.channel(t, everyone, frame).response[:, :, 0, 0] for t in range(rounds)])


def test_one_point_at_the_origin_is_the_base_station() -> None:
    """And the first of several points has the draws that it has alone."""
    for los in ("probability", "nlos"):
        alone = drop(Topology(los=los), numbers(1, 40))
        (stated,) = seen(40, los=los, access_points=((0.0, 0.0),))
        first, _ = seen(40, los=los, access_points=((0.0, 0.0), (0.0, 5000.0)), path_loss="log-distance")
        same = drop(Topology(los=los, path_loss="log-distance"), numbers(1, 40))
        for one, other in ((alone, stated), (same, first)):
            assert np.array_equal(one.positions_m, other.positions_m)
            assert np.array_equal(one.path_loss_db, other.path_loss_db)
            assert np.array_equal(one.line_of_sight, other.line_of_sight)
    cell = (*everybody(6), *PHYSICAL, "topology.kind=disc", "antennas.count=2", "channel.fading=rician")
    one, two = (responses(*cell, *extra, rounds=2) for extra in ((), ("topology.access_points=[[0,0]]",)))
    assert np.array_equal(one, two)


def test_a_device_has_the_distance_loss_and_direction_to_each_point() -> None:
    points = ((0.0, 0.0), (60.0, -30.0), (-200.0, 10.0))
    places = ((30.0, 40.0), (90.0, 10.0))
    found = seen(2, kind="coordinates", coordinates=places, access_points=points, path_loss="log-distance",
                 exponent=2.5, reference_loss_db=40.0, base_height_m=11.5)  # fmt: skip
    for point, one in zip(points, found, strict=True):
        for device, place in enumerate(places):
            far = math.hypot(math.dist(place, point), 10.0)
            assert one.distance_m[device] == pytest.approx(far)
            assert one.path_loss_db[device] == pytest.approx(40 + 25 * math.log10(far))
            assert one.azimuth_rad[device] == pytest.approx(math.atan2(place[1] - point[1], place[0] - point[0]))
    distance_m, loss_db = nearest_by_loss(found)
    assert distance_m == pytest.approx([math.hypot(50, 10), math.hypot(50, 10)])
    assert loss_db == pytest.approx(np.min([one.path_loss_db for one in found], axis=0))


def test_mean_power_at_each_antenna_is_the_gain_of_the_path_to_its_point() -> None:
    """n = 100 rounds of 8 devices, 2 antennas a point; and what the radio states of them."""
    given = (*everybody(8), *LOG, "topology.kind=disc", "topology.radius_m=150", PAIR, "antennas.count=4")
    for fading in ("rayleigh", "exponential", "rician", "nakagami"):
        scenario = built(64, *given, f"channel.fading={fading}")
        radio = scenario.radio
        gains = np.array([10 ** (-one.path_loss_db / 10) for one in radio.drops])
        assert radio.point_power is not None
        np.testing.assert_allclose(radio.point_power, gains.T, rtol=1e-9)
        np.testing.assert_allclose(radio.mean_power, gains.mean(axis=0), rtol=1e-9)
        power = np.abs(responses(*given, f"channel.fading={fading}", rounds=100)) ** 2
        assert_mean(power[:, :, :2] / gains[0][:, None], 1.0)
        assert_mean(power[:, :, 2:] / gains[1][:, None], 1.0)


def test_devices_that_are_too_near_are_placed_again() -> None:
    """Uniform over the disc without the circles around the points: n = 8,000, against the areas."""
    points = ((0.0, 0.0), (100.0, 0.0), (-60.0, 60.0))
    found = seen(8_000, radius_m=150.0, min_distance_m=20.0, access_points=points, path_loss="log-distance")
    for one in found:
        assert np.hypot(*one.positions_m[:, :2].T).min() >= 20.0
    place = found[0].positions_m[:, :2]
    area = math.pi * (150**2 - 3 * 20**2)
    ring = np.hypot(place[:, 0] - 100, place[:, 1]) < 40
    assert_mean(ring.astype(float), math.pi * (40**2 - 20**2) / area)
    inner = np.hypot(*place.T) < 35
    assert_mean(inner.astype(float), math.pi * (35**2 - 20**2) / area)
    few = seen(50, radius_m=150.0, min_distance_m=20.0, access_points=points, path_loss="log-distance")
    assert np.array_equal(few[1].positions_m, found[1].positions_m[:50])
    ring_of = ((90.0, 0.0), (-90.0, 0.0), (0.0, 90.0), (0.0, -90.0))
    with pytest.raises(ValueError, match=r"no place was found for .* devices at least 99 m from all 5 access points"):
        seen(50, radius_m=100.0, min_distance_m=99.0, access_points=(*ring_of, (0.0, 0.0)))


def test_shadowing_and_lines_of_sight_of_points_are_independent() -> None:
    """n = 400 devices midway between two points, which have one law at both."""
    places = tuple((0.0, 40.0 + 10 * index) for index in range(400))
    midway = {"kind": "coordinates", "coordinates": places, "access_points": ((-30.0, 0.0), (30.0, 0.0))}
    first, second = seen(400, **midway, shadowing_correlation_m=0.0, los="nlos")
    model = seen(400, **midway, shadowing_std_db=0.0, los="nlos")
    shadow = np.array(
        [one.path_loss_db - other.path_loss_db for one, other in zip((first, second), model, strict=True)]
    )
    assert np.array_equal(model[0].path_loss_db, model[1].path_loss_db)
    assert_mean(shadow[0] * shadow[1], 0.0)
    assert shadow[0].std() == pytest.approx(7.82, rel=5 / math.sqrt(2 * 400))
    sight = seen(400, **midway)
    assert (sight[0].line_of_sight != sight[1].line_of_sight).any()


@pytest.mark.parametrize("k", ["10", "tr38901"])
def test_the_line_of_sight_has_another_phase_at_each_point(k: str) -> None:
    """E[h_1 h_2^*] = 0 between points, and K/(K+1) of the mean power between antennas of a point at broadside."""
    given = (
        *at((0.0, 50.0), (0.0, -50.0)), *PHYSICAL, "topology.los=los", "channel.fading=rician", f"channel.rician_k={k}",
        PAIR, "antennas.count=4", "antennas.angle=broadside",
    )  # fmt: skip
    scenario = built(64, *given)
    found = responses(*given, rounds=300)
    assert scenario.radio.point_power is not None
    found = found / np.sqrt(np.repeat(scenario.radio.point_power, 2, axis=1))
    factor = np.full((2, 2), 10.0) if k == "10" else scenario.radio.k_factors
    assert factor is not None
    assert_mean(np.abs(found) ** 2, 1.0)
    for device in range(2):
        for point in range(2):
            share = factor[device, point] / (factor[device, point] + 1)
            near = found[:, device, 2 * point] * found[:, device, 2 * point + 1].conj()
            assert_mean(near, share)
        assert_mean(found[:, device, 0] * found[:, device, 2].conj(), 0.0)
    still = responses(*given, "channel.variation=constant", rounds=2)
    assert np.array_equal(still[0], still[1])


def test_correlation_is_that_within_a_point() -> None:
    given = (*at((0.0, 50.0), (20.0, -50.0)), *LOG, PAIR, "antennas.count=4", "antennas.angle=broadside")
    found = responses(*given, "antennas.correlation=exponential", "antennas.correlation_coefficient=0.8", rounds=300)
    found = found / np.sqrt(np.repeat(built(64, *given).radio.point_power, 2, axis=1))  # type: ignore[arg-type]
    for a, b, expected in ((0, 1, 0.8), (2, 3, 0.8), (1, 2, 0.0), (0, 3, 0.0)):
        assert_mean(found[:, :, a] * found[:, :, b].conj(), expected)


def test_symmetric_devices_are_received_alike() -> None:
    """Two devices mirrored in the midline between two points have mirrored mean powers; of one in the middle, both
    antennas have the same, and of a fixed |h| combining makes exactly their sum."""
    given = (*at((-60.0, 20.0), (60.0, 20.0), (0.0, 70.0)), *LOG, PAIR, "antennas.count=2")
    power = built(64, *given).radio.point_power
    assert power is not None
    np.testing.assert_allclose(power[0], power[1][::-1], rtol=1e-12)
    assert power[2, 0] == pytest.approx(power[2, 1], rel=1e-12)
    alone = (*at((0.0, 70.0)), *LOG, PAIR, "antennas.count=2", "channel.fading=fixed")
    plan = planned(built(64, *alone))
    gain = 10 ** (-built(64, *alone).radio.drops[0].path_loss_db[0] / 10)
    assert plan.link.link_budget().devices.snr_db[0] - _snr_of_one(alone) == pytest.approx(10 * math.log10(2), abs=1e-6)
    assert np.abs(plan.channel.response[0, :, 0, 0]) ** 2 == pytest.approx([gain, gain], rel=1e-9)


def _snr_of_one(given: tuple[str, ...]) -> float:
    alone = [text for text in given if not text.startswith(("topology.access", "antennas.count"))]
    one = built(64, *alone, "topology.access_points=[[-100,0]]")
    return float(planned(one).link.link_budget().devices.snr_db[0])


@pytest.mark.parametrize("combining", ["first", "principal", "sum", "max-min"])
def test_the_error_is_that_of_a_direct_computation(combining: str) -> None:
    """Full inversion: beta = min_i sqrt(P_i) |a^H h_i| / rms_i, and the decoded mean is off by sigma_0 / (r beta) an
    entry; with the weights a computed here, and the response drawn by the scenario."""
    given = (
        *everybody(6), *LOG, "topology.kind=disc", "topology.radius_m=150", PAIR, "antennas.count=4",
        f"antennas.combining={combining}", "power.policy=full-inversion",
    )  # fmt: skip
    scenario = built(512, *given)
    plan = planned(scenario)
    h = plan.channel.response[:, :, 0, 0].astype(complex)
    factors = np.sqrt(scenario.power_limits) / np.sqrt(scenario.bound.rms**2)
    if combining == "first":
        a = np.eye(4)[0].astype(complex)
    elif combining == "sum":
        a = h.sum(axis=0) / np.linalg.norm(h.sum(axis=0))
    elif combining == "principal":
        scaled = factors[:, None] * h
        a = np.linalg.eigh(scaled.T @ scaled.conj())[1][:, -1]
    else:
        a = _max_min(factors[:, None] * h)
    beta = float((factors * np.abs(h @ a.conj())).min())
    report = plan.link.link_budget()
    found = report.alignment_coefficient
    assert found == pytest.approx(beta, rel=1e-6) if combining != "max-min" else found >= 0.97 * beta
    messages = np.random.default_rng(1).standard_normal((6, 512))
    missed = send(plan, messages).mean.numpy() - messages.mean(axis=0)
    sigma = scenario.radio.noise_std / (6 * found)
    assert_mean((missed / sigma) ** 2, 1.0, rounding=1e-3)


def _max_min(vectors: Complex) -> Complex:
    """The best of many random weights, each improved by gradient steps on the weakest gain."""
    generator = np.random.default_rng(2)
    best, found = 0.0, vectors[0]
    for _ in range(60):
        a = generator.standard_normal(4) + 1j * generator.standard_normal(4)
        a /= np.linalg.norm(a)
        for step in range(300):
            gains = vectors @ a.conj()
            weakest = int(np.abs(gains).argmin())
            direction = vectors[weakest] * np.exp(-1j * np.angle(gains[weakest]))
            a = a + 0.3 / (1 + step) ** 0.7 * direction / np.linalg.norm(direction)
            a /= np.linalg.norm(a)
            weakest_gain = float(np.abs(vectors @ a.conj()).min())
            if weakest_gain > best:
                best, found = weakest_gain, a.copy()
    return found


def test_points_near_the_devices_raise_the_weakest() -> None:
    """Macro-diversity: four antennas at four points against four at the centre, mean of the weakest gain in dB."""
    spread = "topology.access_points=[[-100,-100],[100,-100],[-100,100],[100,100]]"
    given = (*everybody(8), *LOG, "topology.kind=disc", "topology.radius_m=200", "antennas.count=4")
    shadowed = "topology.shadowing_std_db=8"
    weakest = []
    for extra in ((), (spread,)):
        scenario = built(64, *given, "power.policy=full-inversion", shadowed, *extra)
        betas = [planned(scenario, t).link.link_budget().alignment_coefficient for t in range(20)]
        weakest.append(float(np.mean(20 * np.log10(betas))))
    assert weakest[1] > weakest[0] + 3


def test_an_estimate_is_shrunk_by_the_mean_power_of_its_antenna() -> None:
    """c = P/(P + v) at each antenna; the error has the variance P v/(P + v) there."""
    given = (*everybody(8), *LOG, "topology.kind=disc", "topology.radius_m=150", PAIR, "antennas.count=2",
             "csi.estimation=mmse", "csi.pilot_snr_db=80")  # fmt: skip
    scenario = built(64, *given)
    radio, frame = scenario.radio, scenario.frame
    assert radio.point_power is not None
    v, p = 2 / 1e8, radio.point_power
    errors, crossed = [], []
    for t in range(300):
        csi = radio.csi_of(t, np.arange(8), frame, scenario.element_power)
        true, seen_at = csi.state.response[:, :, 0, 0], csi.estimate.response[:, :, 0, 0]
        errors.append(np.abs(true - seen_at) ** 2)
        crossed.append((seen_at.conj() * true).real)
        assert csi.error_variance is None
    assert_mean(np.array(errors) / (p * v / (p + v)), 1.0)
    assert_mean(np.array(crossed) / (p**2 / (p + v)), 1.0)
    np.testing.assert_allclose(csi.cross_power, (p**2 / (p + v)).mean(axis=1), rtol=1e-9)


def test_ageing_has_the_diffuse_power_of_its_antenna() -> None:
    """E|h|^2 stays at every antenna."""
    given = (*everybody(8), *LOG, "topology.kind=disc", "topology.radius_m=150", PAIR, "antennas.count=2",
             "csi.delay_s=0.003", "channel.speed_m_s=10")  # fmt: skip
    scenario = built(64, *given)
    radio, round_of = scenario.radio, (np.arange(8), scenario.frame, scenario.element_power)
    power: Array = np.array([np.abs(radio.csi_of(t, *round_of).state.response[:, :, 0, 0]) ** 2 for t in range(300)])
    assert radio.point_power is not None
    assert_mean((power / radio.point_power)[:, :, 0], 1.0)
    assert_mean((power / radio.point_power)[:, :, 1], 1.0)


def test_fed_back_gains_are_quantised_relative_to_the_mean_power_of_their_antenna() -> None:
    """Over its root, the gains at all antennas take the same values, at most 2^3."""
    given = (*everybody(8), *LOG, "topology.kind=disc", "topology.radius_m=150", PAIR, "antennas.count=2",
             "csi.gain_bits=3")  # fmt: skip
    scenario = built(64, *given)
    radio, round_of = scenario.radio, (np.arange(8), scenario.frame, scenario.element_power)
    assert radio.point_power is not None
    seen_at = np.array([np.abs(radio.csi_of(t, *round_of).estimate.response[:, :, 0, 0]) for t in range(40)])
    assert len(set(np.round(np.log(seen_at**2 / radio.point_power), 4).ravel().tolist())) <= 8


def test_a_policy_of_one_antenna_has_the_mean_power_of_that_antenna() -> None:
    """The share of devices above a threshold that is relative to their mean power is e^-threshold."""
    given = (*everybody(8), *LOG, "topology.kind=disc", "topology.radius_m=150", PAIR, "antennas.count=2")
    scenario = built(
        64, *given, "antennas.combining=first", "power.policy=truncated-inversion", "power.threshold=0.5",
    )  # fmt: skip
    active = [planned(scenario, t).link.link_budget().devices.active for t in range(200)]
    assert_mean(np.array(active, dtype=float), math.exp(-0.5))


REFUSALS = {
    "antennas.count=3": "antennas.count: must be a multiple of the 2 of topology.access_points, got 3",
    "channel.fading=tapped-line": "several need a flat fading law",
    "surface.elements=4": "surface.elements: a surface is for one base station",
    "grid.downlink=true": "grid.downlink: the broadcast of several access points",
    "channel.fading=rician channel.variation=jakes channel.speed_m_s=3": "Doppler shifts of the lines of sight",
    "channel.fading=rician csi.delay_s=1e-3 channel.speed_m_s=3": "csi.delay_s: ageing is not modelled",
    "power.policy=blind antennas.combining=sum csi.estimation=ls": "pilots that are sent at once",
    "privacy.csi_error=quantile csi.estimation=ls": "antennas of equal mean power",
    "grid.waveform=true": "one receive antenna",
    "antennas.array=rectangular antennas.rows=4 antennas.count=8 topology.access_points=[[0,0],[9,0],[0,9],[9,9]]": (
        "rows must divide the number of antennas, 2, got 4"
    ),
    "topology.access_points=[]": "access_points must be 1 to 256 positions",
    "topology.access_points=[[0,0],[0,0]]": "is given twice",
    "topology.access_points=[[0,0],[16000,0]] topology.path_loss=rma topology.base_height_m=10": (
        "a device distance of .* outside the range"
    ),
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str) -> None:
    with pytest.raises(UserError, match=REFUSALS[given]) as refusal:
        built(64, *everybody(8), *LOG, "topology.kind=disc", PAIR, "antennas.count=4", *given.split())
    assert "\n" not in str(refusal.value)


def test_without_a_topology_there_are_no_points() -> None:
    found = [responses(*everybody(4), *extra, rounds=1) for extra in ((), (PAIR,))]
    assert np.array_equal(found[0], found[1])
