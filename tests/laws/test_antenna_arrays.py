"""Multiple antennas: phases of a device's line of sight over the array, and correlation of its diffuse part.

Sample covariances of whole radios are compared with closed forms. With R = E[h h^H] of unit power, an entry of the
sample covariance of n Gaussian vectors has variance 1/n.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, special, stats
from scipy.linalg import toeplitz

from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.uplinks.radio.laws import gain_law
from channels.antennas import (
    COMBINERS,
    AntennaArray,
    Directions,
    SpatialCorrelation,
    correlation_matrices,
    correlation_roots,
    steering_phase,
)
from channels.draws import correlate
from tests.conftest import small_settings
from tests.laws.samples import assert_law, assert_share

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]

EVERYWHERE = ("channel.min_gain=1e-18", "channel.max_gain=1e18")
AZIMUTH_RAD = 0.6


def scenario_of(*overrides: str, devices: int, selected: int = 2) -> Scenario:
    settings = small_settings("scheme.name=wfl-p", *overrides, f"run.devices={devices}", f"run.selected={selected}")
    return build_scenario(settings, 30, np.ones(devices))


def channel_of(scenario: Scenario, t: int = 0) -> Complex:
    """h of everybody at the first block and subcarrier, [devices, antennas]."""
    everybody = np.arange(scenario.run.devices)
    response = scenario.radio.channel(t, everybody, scenario.frame).response
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


def line_phase(antenna: int, azimuth_rad: float, elevation_rad: float = 0.0, spacing: float = 0.5) -> float:
    """2 pi m d sin(azimuth) cos(elevation), as in a textbook."""
    return 2 * math.pi * antenna * spacing * math.sin(azimuth_rad) * math.cos(elevation_rad)


def by_integral(array_phase: Any, std_rad: float, distribution: str) -> complex:
    """E[e^(j phase(azimuth + delta))], by adaptive quadrature of both parts."""
    width = 9 * std_rad if distribution == "gaussian" else math.sqrt(3) * std_rad

    def density(delta: float) -> float:
        if distribution == "uniform":
            return 1 / (2 * width)
        return math.exp(-((delta / std_rad) ** 2) / 2) / (math.sqrt(2 * math.pi) * std_rad)

    def part(of: Any) -> float:
        return float(integrate.quad(lambda delta: of(array_phase(delta)) * density(delta), -width, width, limit=400)[0])

    return complex(part(math.cos), part(math.sin))


def exponential(antennas: int, rho: float, azimuth_rad: float) -> Complex:
    """r^(m - n) below the diagonal, conjugated above it, r = rho e^(j pi sin(azimuth))."""
    return toeplitz((rho * np.exp(1j * line_phase(1, azimuth_rad))) ** np.arange(antennas))


def local_scattering(antennas: int, std_rad: float, distribution: str, azimuth_rad: float) -> Complex:
    """Every pair by its own integral, which depends on the distance of the two alone."""

    def at(antenna: int) -> complex:
        return by_integral(lambda delta: line_phase(antenna, azimuth_rad + delta), std_rad, distribution)

    return toeplitz([at(antenna) for antenna in range(antennas)])


def seen_from(*azimuths_rad: float, elevation_rad: float = 0.0) -> Directions:
    return Directions(np.array(azimuths_rad), np.full(len(azimuths_rad), elevation_rad))


# Closed forms


@pytest.mark.parametrize("azimuth", [-1.2, 0.0, 0.5, 2.5])
@pytest.mark.parametrize("elevation", [0.0, -0.4])
def test_phases_are_those_of_the_paths_to_the_antennas(azimuth: float, elevation: float) -> None:
    """From a source 10^7 wavelengths away, every antenna's distance by Pythagoras; the far field is off by 10^-6."""
    source = 1e7 * np.array(
        [math.cos(elevation) * math.cos(azimuth), math.cos(elevation) * math.sin(azimuth), math.sin(elevation)]
    )
    radius = 0.7 / (2 * math.sin(math.pi / 6))
    places = {
        "linear": [(0.0, 0.7 * m, 0.0) for m in range(6)],
        "rectangular": [(0.0, 0.7 * column, 0.7 * row) for row in range(2) for column in range(3)],
        "circular": [(radius * math.cos(m * math.pi / 3), radius * math.sin(m * math.pi / 3), 0.0) for m in range(6)],
    }
    for kind, points in places.items():
        turns = steering_phase(
            AntennaArray(kind=kind, count=6, spacing_wavelengths=0.7, rows=2),
            seen_from(azimuth, elevation_rad=elevation),
        )
        nearer = 1e7 - np.linalg.norm(source - np.array(points), axis=1)
        np.testing.assert_allclose(turns[0], nearer, atol=1e-6, err_msg=kind)
    line = steering_phase(
        AntennaArray(kind="linear", count=6, spacing_wavelengths=0.7), seen_from(azimuth, elevation_rad=elevation)
    )[0]
    np.testing.assert_allclose(2 * np.pi * line, [line_phase(m, azimuth, elevation, 0.7) for m in range(6)], atol=1e-12)


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
@pytest.mark.parametrize("std_deg", [0.5, 10.0, 60.0])
def test_local_scattering_is_the_integral(std_deg: float, distribution: Any) -> None:
    """Bjornson, Hoydis, Sanguinetti 2017, eq. 2.23, far from small angles too."""
    asked = SpatialCorrelation(kind="local-scattering", angular_std_deg=std_deg, distribution=distribution)
    found = correlation_matrices(AntennaArray(kind="linear", count=6), asked, seen_from(0.4, -1.3))
    for matrix, azimuth in zip(found, (0.4, -1.3), strict=True):
        expected = local_scattering(6, math.radians(std_deg), distribution, azimuth)
        np.testing.assert_allclose(matrix, expected, atol=1e-8)


def test_local_scattering_of_other_arrays_and_at_an_elevation() -> None:
    """Each pair by its own integral: a circle of 4, two rows of 2, and a wide line whose phases turn 30 times."""
    std, azimuth, elevation = math.radians(15), 0.7, -0.5
    asked = SpatialCorrelation(kind="local-scattering", angular_std_deg=math.degrees(std))
    for array in (
        AntennaArray(kind="circular", count=4, spacing_wavelengths=0.8),
        AntennaArray(kind="rectangular", count=4, spacing_wavelengths=0.6, rows=2),
        AntennaArray(kind="linear", count=4, spacing_wavelengths=10.0),
    ):
        places = array.positions

        def phase(delta: float, apart: Array) -> float:
            angle = azimuth + delta
            towards = (
                math.cos(elevation) * math.cos(angle),
                math.cos(elevation) * math.sin(angle),
                math.sin(elevation),
            )
            return 2 * math.pi * float(apart @ np.array(towards))

        found = correlation_matrices(array, asked, seen_from(azimuth, elevation_rad=elevation))[0]
        for m, n in ((0, 1), (2, 0), (1, 3)):
            expected = by_integral(lambda delta, apart=places[m] - places[n]: phase(delta, apart), std, "gaussian")
            assert abs(found[m, n] - expected) < 1e-8, array.kind


def test_scattering_from_all_around_is_clarke() -> None:
    """Uniform over three whole turns, pi sqrt(3) each way: J0 of the distance, whatever the azimuth (Jakes 1974)."""
    asked = SpatialCorrelation(kind="local-scattering", angular_std_deg=180 / math.sqrt(3), distribution="uniform")
    found = correlation_matrices(AntennaArray(kind="linear", count=6), asked, seen_from(1.1))[0]
    np.testing.assert_allclose(found[:, 0], special.j0(np.pi * np.arange(6)), atol=1e-12)


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


# Whole radios

MODELS = {
    "rayleigh": ("channel.fading=rayleigh",),
    "jakes": ("channel.fading=rayleigh", "channel.variation=jakes", "channel.speed_m_s=3.0"),
    "constant": ("channel.fading=rayleigh", "channel.variation=constant"),
    "tapped-line": ("channel.fading=tapped-line", "grid.subcarriers=8"),
    "tdl-a": ("channel.fading=tdl-a", "grid.subcarriers=8"),
}
SCATTERED = ("antennas.correlation=local-scattering", "antennas.angular_std_deg=20.0")
CORRELATIONS = {
    "exponential": (correlated(0.8), exponential(4, 0.8, AZIMUTH_RAD)),
    "local-scattering": (SCATTERED, local_scattering(4, math.radians(20), "gaussian", AZIMUTH_RAD)),
    "uniform": (
        (*SCATTERED, "antennas.angular_distribution=uniform"),
        local_scattering(4, math.radians(20), "uniform", AZIMUTH_RAD),
    ),
    "independent": ((), np.eye(4)),
}


@pytest.mark.parametrize(
    ("model", "correlation"),
    [(model, one) for model in MODELS for one in CORRELATIONS if (model, one) != ("tdl-a", "uniform")],
)
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


# Lines of sight


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
            seen = (azimuth - math.radians(30), math.atan2(-8.5, distance), 0.7)
            expected = np.exp(1j * np.array([line_phase(antenna, *seen) for antenna in range(1, 4)]))
            np.testing.assert_allclose(row, np.tile(expected[:, None], row.shape[1]), atol=1e-3)


def test_without_a_cell_azimuths_are_drawn_once_over_the_sector() -> None:
    """n = 2,000, K = 10^8, 90 degrees: uniform within 45 on either side; the same in every round, and alone."""
    overrides = ("channel.fading=rician", "channel.rician_k=1e8", "antennas.sector_deg=90.0", *EVERYWHERE)
    scenario = scenario_of(*overrides, "antennas.count=2", devices=2_000)
    rounds = [np.angle(h[:, 1] / h[:, 0]) for h in (channel_of(scenario), channel_of(scenario, 1))]
    np.testing.assert_allclose(rounds[0], rounds[1], atol=3e-3)
    azimuths = np.degrees(np.arcsin(rounds[0] / np.pi))
    assert_law(azimuths, stats.uniform(-45, 90).cdf)
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
    n, rho, k = 3_000, 0.8, 1.0 if fading == "rician" else 0.0
    speed, delay = 10.0, 4.9e-3
    j0 = float(special.j0(2 * np.pi * speed * 3.5e9 / 299_792_458 * delay))
    moving = (f"channel.fading={fading}", "channel.rician_k=1.0", f"channel.speed_m_s={speed}", f"csi.delay_s={delay}")
    array = ("grid.subcarriers=4", "antennas.count=4", *correlated(rho))
    scenario = scenario_of(*moving, *one_place(n), *array, devices=n)
    known = scenario.radio.csi_of(0, np.arange(n), scenario.frame, scenario.element_power)
    scale = np.sqrt(scenario.radio.mean_power[0])
    aged, before = (
        np.asarray(one.response[:, :, 0, 0], dtype=complex) / scale for one in (known.state, known.estimate)
    )
    diffuse = exponential(4, rho, AZIMUTH_RAD)
    steering = np.exp(1j * np.array([line_phase(m, AZIMUTH_RAD) for m in range(4)]))
    sight = np.outer(steering, steering.conj())
    whole = (k * sight + diffuse) / (k + 1)
    for h in (aged, before):
        np.testing.assert_allclose(h.T @ h.conj() / n, whole, atol=5 / math.sqrt(n))
    # A line of sight at angle theta to the motion turns by 2 pi f_D delay cos(theta): J0 over uniform angles as well.
    np.testing.assert_allclose(aged.T @ before.conj() / n, j0 * whole, atol=5 / math.sqrt(n))


# The worst of 16


def test_the_worst_of_16_devices_at_k_10_and_8_antennas() -> None:
    """One beam serves 16 devices on the broadside, and none serves 16 directions. 6 rounds: the worst device has the
    gain of 8 antennas, 9 dB, less what the diffuse parts take from it; and what directions take."""
    n, towards, worst = 16, np.random.default_rng(3).uniform(-math.pi / 3, math.pi / 3, 16), {}
    for angle in ("device", "broadside"):
        given = ("channel.fading=rician", "channel.rician_k=10.0", "antennas.count=8", f"antennas.angle={angle}")
        scenario = scenario_of(*given, *placed_at(*map(float, towards)), devices=n, selected=n)
        powers = []
        for t in range(6):
            plan = plan_round(scenario, t, scenario.memory)
            h = plan.channel.response[:, :, 0, 0] / math.sqrt(scenario.radio.mean_power[0])
            weights = COMBINERS["max-min"]().weights(plan.estimate.response, np.ones(n))[:, 0, 0]
            powers.append((np.abs(h @ weights.conj()) ** 2).min())
        worst[angle] = 10 * np.log10(powers).mean()
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
    elevation = math.atan2(1.5 - 10.0, 60.0)
    found = channel_of(scenario)
    wanted = np.array([[line_phase(m, azimuth, elevation) for m in range(4)] for azimuth in azimuths])
    off = np.angle(found / found[:, :1] * np.exp(-1j * wanted))
    assert np.abs(off[sees]).max() < 6e-3
    draws = np.stack([channel_of(scenario, t)[~sees] for t in range(40)])
    turned = draws * np.exp(-1j * wanted[~sees])
    pairs = turned[..., 1:] * turned[..., :-1].conj()
    rho = pairs.sum() / math.sqrt((abs(turned[..., 1:]) ** 2).sum() * (abs(turned[..., :-1]) ** 2).sum())
    assert abs(rho - 0.8) < 5 / math.sqrt(pairs.size)
