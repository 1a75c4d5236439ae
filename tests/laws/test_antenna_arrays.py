"""Multiple antennas: phases of a device's line of sight over the array, and correlation of its diffuse part.

Sample covariances of whole radios are compared with closed forms. With R = E[h h^H] of unit power, an entry of the
sample covariance of n Gaussian vectors has variance 1/n.
"""

import cmath
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats
from scipy.linalg import toeplitz

from airfl.core.scenario import Scenario
from airfl.uplinks.radio.laws import gain_law
from channels.antennas import COMBINERS, AntennaArray, Directions, SpatialCorrelation, steering_phase
from channels.antennas.correlation import correlation_matrices, correlation_roots
from channels.draws import correlate
from tests.laws.decoding import built, planned
from tests.laws.samples import Array, Complex, assert_law, assert_share

EVERYWHERE = ("channel.min_gain=1e-18", "channel.max_gain=1e18")
AZIMUTH_RAD = 0.6


def scenario_of(*overrides: str, devices: int, selected: int = 2) -> Scenario:
    return built(30, "scheme.name=wfl-p", *overrides, f"run.devices={devices}", f"run.selected={selected}")


def channel_of(scenario: Scenario, t: int = 0) -> Complex:
    """h of everybody at the first block and subcarrier, [devices, antennas]."""
    response = scenario.radio.channel(t, np.arange(scenario.run.devices), scenario.frame).response
    return np.asarray(response[:, :, 0, 0], dtype=np.complex128)


def coordinates(azimuths_rad: Any, distances_m: Any) -> tuple[str, ...]:
    places = distances_m * np.stack([np.cos(azimuths_rad), np.sin(azimuths_rad)])
    placed = ("topology.kind=coordinates", f"topology.coordinates={places.T.tolist()}")
    return ("channel.units=physical", "privacy.epsilon=inf", *placed)


def placed_at(*azimuths_rad: float) -> tuple[str, ...]:
    """Devices 100 m away, at the height of the base station."""
    return (*coordinates(azimuths_rad, 100.0), "topology.path_loss=log-distance", "topology.shadowing_std_db=0.0")


def correlated(rho: float) -> tuple[str, ...]:
    return ("antennas.correlation=exponential", f"antennas.correlation_coefficient={rho}")


def one_place(devices: int) -> tuple[str, ...]:
    return placed_at(*(AZIMUTH_RAD,) * devices)


def line_phase(antenna: Any, azimuth_rad: float, elevation_rad: float = 0.0, spacing: float = 0.5) -> Any:
    """2 pi m d sin(azimuth) cos(elevation), as in a textbook."""
    return 2 * math.pi * antenna * spacing * math.sin(azimuth_rad) * math.cos(elevation_rad)


def steering(antennas: int, *seen: float) -> Complex:
    return np.asarray(np.exp(1j * line_phase(np.arange(antennas), *seen)))


def by_integral(array_phase: Any, std_rad: float, distribution: str) -> complex:
    """E[e^(j phase(azimuth + delta))], by adaptive quadrature."""
    width = 9 * std_rad if distribution == "gaussian" else math.sqrt(3) * std_rad

    def integrand(delta: float) -> complex:
        bell = math.exp(-((delta / std_rad) ** 2) / 2) / (math.sqrt(2 * math.pi) * std_rad)
        return cmath.exp(1j * array_phase(delta)) * (bell if distribution == "gaussian" else 1 / (2 * width))

    return complex(integrate.quad(integrand, -width, width, limit=400, complex_func=True)[0])


def exponential(antennas: int, rho: float, azimuth_rad: float) -> Complex:
    """r^(m - n) below the diagonal, conjugated above it, r = rho e^(j pi sin(azimuth))."""
    return toeplitz(rho ** np.arange(antennas) * steering(antennas, azimuth_rad))


def local_scattering(antennas: int, std_rad: float, distribution: str, azimuth_rad: float) -> Complex:
    """Every pair by its own integral, which depends on the distance of the two alone."""
    phases = [lambda delta, m=m: line_phase(m, azimuth_rad + delta) for m in range(antennas)]
    return toeplitz([by_integral(phase, std_rad, distribution) for phase in phases])


def seen_from(*azimuths_rad: float, elevation_rad: float = 0.0) -> Directions:
    return Directions(np.array(azimuths_rad), np.full(len(azimuths_rad), elevation_rad))


def towards(azimuth_rad: float, elevation_rad: float) -> Array:
    level = math.cos(elevation_rad)
    return np.array([level * math.cos(azimuth_rad), level * math.sin(azimuth_rad), math.sin(elevation_rad)])


@pytest.mark.parametrize("azimuth", [-1.2, 0.0, 0.5, 2.5])
@pytest.mark.parametrize("elevation", [0.0, -0.4])
def test_phases_are_those_of_the_paths_to_the_antennas(azimuth: float, elevation: float) -> None:
    """From a source 10^7 wavelengths away, every antenna's distance by Pythagoras; the far field is off by 10^-6."""
    directions, around = seen_from(azimuth, elevation_rad=elevation), np.arange(6) * math.pi / 3
    places = {
        "linear": [(0.0, 0.7 * m, 0.0) for m in range(6)],
        "rectangular": [(0.0, 0.7 * column, 0.7 * row) for row in range(2) for column in range(3)],
        "circular": 0.7 / (2 * math.sin(math.pi / 6)) * np.stack([np.cos(around), np.sin(around), 0 * around], axis=1),
    }
    for kind, points in places.items():
        turns = steering_phase(AntennaArray(kind=kind, count=6, spacing_wavelengths=0.7, rows=2), directions)[0]
        nearer = 1e7 - np.linalg.norm(1e7 * towards(azimuth, elevation) - np.array(points), axis=1)
        np.testing.assert_allclose(turns, nearer, atol=1e-6, err_msg=kind)
        if kind == "linear":
            by_hand = line_phase(np.arange(6), azimuth, elevation, 0.7)
            np.testing.assert_allclose(2 * np.pi * turns, by_hand, atol=1e-12)


def test_neighbours_on_a_circle_are_a_spacing_apart() -> None:
    for count in (2, 3, 8, 64):
        points = AntennaArray(kind="circular", count=count, spacing_wavelengths=0.5).positions
        np.testing.assert_allclose(np.linalg.norm(points - np.roll(points, 1, axis=0), axis=1), 0.5)
    assert not AntennaArray(kind="circular", count=1).positions.any()


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.9, 1.0])
def test_exponential_correlation_on_a_line(rho: float) -> None:
    array, asked = AntennaArray(kind="linear", count=5), SpatialCorrelation(kind="exponential", coefficient=rho)
    found = correlation_matrices(array, asked, seen_from(0.4, -1.0))
    for matrix, azimuth in zip(found, (0.4, -1.0), strict=True):
        np.testing.assert_allclose(matrix, exponential(5, rho, azimuth), atol=1e-12)
    if rho == 0:
        np.testing.assert_allclose(correlation_roots(array, asked, seen_from(0.4))[0], np.eye(5), atol=1e-12)


@pytest.mark.parametrize("distribution", ["gaussian", "uniform"])
@pytest.mark.parametrize("std_deg", [0.5, 10.0, 60.0, 103.923])
def test_local_scattering_is_the_integral(std_deg: float, distribution: Any) -> None:
    """Bjornson, Hoydis, Sanguinetti 2017, eq. 2.23, far from small angles too, to a whole turn of uniform angles."""
    asked = SpatialCorrelation(kind="local-scattering", angular_std_deg=std_deg, distribution=distribution)
    found = correlation_matrices(AntennaArray(kind="linear", count=6), asked, seen_from(0.4, -1.3))
    for matrix, azimuth in zip(found, (0.4, -1.3), strict=True):
        expected = local_scattering(6, math.radians(std_deg), distribution, azimuth)
        np.testing.assert_allclose(matrix, expected, atol=1e-8)


def test_local_scattering_of_other_arrays_and_at_an_elevation() -> None:
    """Each pair by its own integral: a circle of 4, two rows of 2, and a wide line whose phases turn 30 times."""
    azimuth, elevation = 0.7, -0.5
    asked = SpatialCorrelation(kind="local-scattering", angular_std_deg=15.0)
    for kind, spacing in (("circular", 0.8), ("rectangular", 0.6), ("linear", 10.0)):
        array = AntennaArray(kind=kind, count=4, spacing_wavelengths=spacing, rows=2)
        found = correlation_matrices(array, asked, seen_from(azimuth, elevation_rad=elevation))[0]
        for m, n in ((0, 1), (2, 0), (1, 3)):
            apart = 2 * math.pi * (array.positions[m] - array.positions[n])
            phase = partial(lambda delta, apart: apart @ towards(azimuth + delta, elevation), apart=apart)
            assert abs(found[m, n] - by_integral(phase, math.radians(15), "gaussian")) < 1e-8, array.kind


@pytest.mark.parametrize("kind", ["linear", "rectangular", "circular"])
@pytest.mark.parametrize("correlation", ["exponential", "local-scattering"])
def test_roots_are_of_correlation_matrices(kind: str, correlation: str) -> None:
    """Hermitian, of unit diagonal, and their square is the matrix: none of these has a negative eigenvalue."""
    array = AntennaArray(kind=kind, count=12, spacing_wavelengths=0.5, rows=3)
    asked = SpatialCorrelation(kind=correlation, coefficient=0.95, angular_std_deg=3.0)
    directions = seen_from(0.3, -2.0, elevation_rad=-0.2)
    matrices, roots = correlation_matrices(array, asked, directions), correlation_roots(array, asked, directions)
    np.testing.assert_allclose(matrices, matrices.conj().swapaxes(1, 2), atol=1e-12)
    np.testing.assert_allclose(np.einsum("daa->da", matrices), 1.0, atol=1e-12)
    np.testing.assert_allclose(roots @ roots, matrices, atol=1e-7)


def test_a_device_is_the_same_whoever_else_is_there() -> None:
    array, asked = AntennaArray(kind="linear", count=4), SpatialCorrelation(kind="local-scattering")
    roots = correlation_roots(array, asked, seen_from(0.3, -0.2, 0.9))
    numbers = np.random.default_rng(1).standard_normal((3, 4, 5)) + 0j
    together = correlate(roots, numbers)
    np.testing.assert_array_equal(correlate(roots[1:2], numbers[1:2])[0], together[1])
    np.testing.assert_allclose(together[2], roots[2] @ numbers[2], rtol=1e-12)
    assert correlate(roots[:0], numbers[:0]).shape == (0, 4, 5)


MODELS = {
    "rayleigh": ("channel.fading=rayleigh",),
    "jakes": ("channel.fading=rayleigh", "channel.variation=jakes", "channel.speed_m_s=3.0"),
    "constant": ("channel.fading=rayleigh", "channel.variation=constant"),
    "tapped-line": ("channel.fading=tapped-line", "grid.subcarriers=8"),
    "tdl-a": ("channel.fading=tdl-a", "grid.subcarriers=8"),
}
SCATTERED = ("antennas.correlation=local-scattering", "antennas.angular_std_deg=20.0")
UNIFORM = (*SCATTERED, "antennas.angular_distribution=uniform")
CORRELATIONS = {
    "exponential": (correlated(0.8), exponential(4, 0.8, AZIMUTH_RAD)),
    "local-scattering": (SCATTERED, local_scattering(4, math.radians(20), "gaussian", AZIMUTH_RAD)),
    "uniform": (UNIFORM, local_scattering(4, math.radians(20), "uniform", AZIMUTH_RAD)),
    "independent": ((), np.eye(4)),
}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("correlation", CORRELATIONS)
def test_the_sample_covariance_is_the_correlation_matrix(model: str, correlation: str) -> None:
    """n = 3,000 devices (500 of Sionna's, which are slow) at one place, within 5 standard errors."""
    if model == "tdl-a":
        pytest.importorskip("sionna")
    n = 500 if model == "tdl-a" else 3_000
    overrides, expected = CORRELATIONS[correlation]
    scenario = scenario_of(*MODELS[model], *one_place(n), "antennas.count=4", *overrides, devices=n)
    h = channel_of(scenario, t=1) / np.sqrt(scenario.radio.mean_power[:1, None])
    np.testing.assert_allclose(h.T @ h.conj() / n, expected, atol=5 / math.sqrt(n))


@pytest.mark.parametrize("bounds", ["clip", "redraw"])
@pytest.mark.parametrize("law", ["exponential", "rayleigh", "rician", "nakagami"])
def test_every_antenna_keeps_its_law(law: str, bounds: str) -> None:
    """n = 4,000 drawn directions; |h| at each antenna against the law as bounded, which no correlation moves."""
    fading = (f"channel.fading={law}", "channel.rician_k=3.0", "channel.nakagami_m=2.0")
    limits = (f"channel.bounds={bounds}", "channel.min_gain=0.008", "channel.max_gain=0.05")
    scenario = scenario_of(*fading, *limits, "antennas.count=3", *correlated(0.9), devices=4_000)
    found, expected = np.abs(channel_of(scenario)), gain_law(scenario.radio.sections)
    assert found.min() >= 0.008 * (1 - 1e-12)
    assert found.max() <= 0.05 * (1 + 1e-12)
    for antenna in found.T:
        inside = (antenna > 0.008 * (1 + 1e-9)) & (antenna < 0.05 * (1 - 1e-9))
        low, high = (float(expected.cdf(np.array(edge / 0.02))) for edge in (0.008, np.nextafter(0.05, 0.0)))
        assert_law(antenna[inside], lambda g, a=low, b=high: (expected.cdf(np.asarray(g) / 0.02) - a) / (b - a))
        assert_share(inside, high - low)
    # At rho = 0.9 neighbours rise and fall together, those two apart less so, and independent ones not at all.
    near, far = (stats.spearmanr(found[:, 0], found[:, other]).statistic for other in (1, 2))
    assert near > far > 5 / math.sqrt(4_000)


def test_without_correlation_between_neighbours_nothing_moves() -> None:
    """rho = 0 is the default, and one antenna is what it is under any of these settings, bit for bit."""
    rician = "channel.fading=rician"
    plain = channel_of(scenario_of(rician, "antennas.count=4", devices=40))
    zero = channel_of(scenario_of(rician, "antennas.count=4", *correlated(0.0), devices=40))
    np.testing.assert_allclose(zero, plain, rtol=1e-12)
    one = channel_of(scenario_of(rician, devices=40))
    changed = ("antennas.correlation=local-scattering", "antennas.angle=broadside", "antennas.array=circular")
    np.testing.assert_array_equal(channel_of(scenario_of(rician, *changed, devices=40)), one)


@pytest.mark.parametrize("way", ["independent", "constant", "jakes"])
@pytest.mark.parametrize("fading", ["rician", "fixed"])
def test_a_line_of_sight_has_the_phases_of_its_device_s_direction(fading: str, way: str) -> None:
    """Six devices at known places, the base station 9 m above them, the broadside at 30 degrees; K = 10^8."""
    azimuths = np.array([-2.5, -0.4, 0.0, 0.5236, 1.0, 3.0])
    distances = np.array([12.0, 20.0, 40.0, 80.0, 15.0, 100.0])
    varying = (f"channel.variation={way}", "channel.speed_m_s=2.0", "channel.coherence=symbol")
    heights = ("topology.base_height_m=10.0", "topology.device_height_m=1.5", "topology.los=los")
    array = ("antennas.count=4", "antennas.spacing_wavelengths=0.7", "antennas.broadside_deg=30.0")
    sight = (f"channel.fading={fading}", "channel.rician_k=1e8")
    scenario = scenario_of(*sight, *varying, *coordinates(azimuths, distances), *heights, *array, devices=6)
    for t in (0, 3):
        response = scenario.radio.channel(t, np.arange(6), scenario.frame).response[:, :, :, 0]
        found = response[:, 1:] / response[:, :1]
        for row, azimuth, distance in zip(found, azimuths, distances, strict=True):
            expected = steering(4, azimuth - math.radians(30), math.atan2(-8.5, distance), 0.7)[1:]
            np.testing.assert_allclose(row, np.tile(expected[:, None], row.shape[1]), atol=1e-3)


def test_without_a_cell_azimuths_are_drawn_once_over_the_sector() -> None:
    """n = 2,000, K = 10^8, 90 degrees: uniform within 45 on either side; the same in every round, and alone."""
    overrides = ("channel.fading=rician", "channel.rician_k=1e8", "antennas.sector_deg=90.0", *EVERYWHERE)
    scenario = scenario_of(*overrides, "antennas.count=2", devices=2_000)
    rounds = [np.angle(h[:, 1] / h[:, 0]) for h in (channel_of(scenario), channel_of(scenario, 1))]
    np.testing.assert_allclose(rounds[0], rounds[1], atol=3e-3)
    assert_law(np.degrees(np.arcsin(rounds[0] / np.pi)), stats.uniform(-45, 90).cdf)
    few = scenario.radio.channel(0, np.array([700, 3]), scenario.frame).response
    np.testing.assert_array_equal(few, scenario.radio.channel(0, np.arange(2_000), scenario.frame).response[[700, 3]])


def test_from_the_broadside_all_antennas_see_one_phase() -> None:
    scenario = scenario_of("channel.fading=fixed", "antennas.count=4", "antennas.angle=broadside", devices=20)
    np.testing.assert_array_equal(channel_of(scenario), np.full((20, 4), 0.02 + 0j))
    steered = channel_of(scenario_of("channel.fading=fixed", "antennas.count=4", devices=20))
    np.testing.assert_array_equal(steered[:, 0], 0.02)
    assert np.abs(np.angle(steered[:, 1])).min() > 0


def test_scattering_is_around_the_direction_of_the_line_of_sight() -> None:
    """Without angular spread both parts have the steering vector: the channels at 4 antennas are multiples of it."""
    around = ("antennas.correlation=local-scattering", "antennas.angular_std_deg=0.0")
    scenario = scenario_of("channel.fading=rician", "antennas.count=4", *around, *EVERYWHERE, devices=300)
    h, fixed = channel_of(scenario), channel_of(scenario_of("channel.fading=fixed", "antennas.count=4", devices=300))
    np.testing.assert_allclose(h / h[:, :1], fixed / fixed[:, :1], atol=1e-6)
    assert np.abs(h[:, 0]).std() > 0.1 * np.abs(h[:, 0]).mean()


@pytest.mark.parametrize("fading", ["rayleigh", "rician", "tapped-line"])
def test_an_aged_channel_keeps_its_correlation(fading: str) -> None:
    """n = 3,000, a delay by which J0 is far below 1: E[h' h'^H] is what it was, and E[h' hhat^H] J0 times that."""
    n, k = 3_000, 1.0 if fading == "rician" else 0.0
    j0 = float(special.j0(2 * np.pi * 10.0 * 3.5e9 / 299_792_458 * 4.9e-3))
    moving = (f"channel.fading={fading}", "channel.rician_k=1.0", "channel.speed_m_s=10.0", "csi.delay_s=4.9e-3")
    array = ("grid.subcarriers=4", "antennas.count=4", *correlated(0.8))
    scenario = scenario_of(*moving, *one_place(n), *array, devices=n)
    known = scenario.radio.csi_of(0, np.arange(n), scenario.frame, scenario.element_power)
    both = np.stack([one.response[:, :, 0, 0].astype(complex) for one in (known.state, known.estimate)])
    aged, before = both / np.sqrt(scenario.radio.mean_power[0])
    sight = steering(4, AZIMUTH_RAD)
    whole = (k * np.outer(sight, sight.conj()) + exponential(4, 0.8, AZIMUTH_RAD)) / (k + 1)
    for h in (aged, before):
        np.testing.assert_allclose(h.T @ h.conj() / n, whole, atol=5 / math.sqrt(n))
    # A line of sight at angle theta to the motion turns by 2 pi f_D delay cos(theta): J0 over uniform angles as well.
    np.testing.assert_allclose(aged.T @ before.conj() / n, j0 * whole, atol=5 / math.sqrt(n))


def test_the_worst_of_16_devices_at_k_10_and_8_antennas() -> None:
    """One beam serves 16 devices on the broadside, and none serves 16 directions. 6 rounds: the worst device has the
    gain of 8 antennas, 9 dB, less what the diffuse parts take from it; and what directions take."""
    azimuths, worst = np.random.default_rng(3).uniform(-math.pi / 3, math.pi / 3, 16), {}
    for angle in ("device", "broadside"):
        given = ("channel.fading=rician", "channel.rician_k=10.0", "antennas.count=8", f"antennas.angle={angle}")
        scenario = scenario_of(*given, *placed_at(*map(float, azimuths)), devices=16, selected=16)
        powers = []
        for plan in (planned(scenario, t) for t in range(6)):
            weights = COMBINERS["max-min"]().weights(plan.estimate.response, np.ones(16))[:, 0, 0]
            powers.append((np.abs(plan.channel.response[:, :, 0, 0] @ weights.conj()) ** 2).min())
        worst[angle] = 10 * np.log10(powers / scenario.radio.mean_power[0]).mean()
    assert 6 < worst["broadside"] < 9
    assert worst["device"] < worst["broadside"] - 3


def test_devices_with_a_k_of_their_own_are_steered_and_correlated_too() -> None:
    """Where some have a line of sight, K = 10^6, and some have none: phases along the array of the former, to
    3/sqrt(K); the correlation rho = 0.8 of neighbouring antennas of the latter, n draws within 5/sqrt(n)."""
    azimuths = np.linspace(-1.0, 1.0, 200)
    rician = ("channel.fading=rician", "channel.rician_k=1e6", "antennas.count=4", *correlated(0.8))
    scenario = scenario_of(*rician, *coordinates(azimuths, 60.0), devices=200)
    sees = scenario.radio.drop.line_of_sight
    assert 20 < sees.sum() < 180
    back = np.array([steering(4, azimuth, math.atan2(1.5 - 10.0, 60.0)) for azimuth in azimuths]).conj()
    found = channel_of(scenario)
    assert np.abs(np.angle(found / found[:, :1] * back)[sees]).max() < 6e-3
    turned = np.stack([channel_of(scenario, t)[~sees] for t in range(40)]) * back[~sees]
    pairs = turned[..., 1:] * turned[..., :-1].conj()
    rho = pairs.sum() / math.sqrt((abs(turned[..., 1:]) ** 2).sum() * (abs(turned[..., :-1]) ** 2).sum())
    assert abs(rho - 0.8) < 5 / math.sqrt(pairs.size)
