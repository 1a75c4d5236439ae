"""Blockage by TR 38.901, clause 7.6.4: both models against their formulas taken one by one, Sionna's own objects,
Fresnel integrals and means that are integrated; and how regions and screens move."""

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from channels.blockage import BLOCKERS, FIELD, Blockage, Regions, Standing, regions_at, screens_of
from channels.blockage.regions import spectrum, uniform_field
from tests.laws.samples import Array, assert_law, assert_mean

WAVELENGTH_M = 0.0107
BASE_M = np.array([0.0, 0.0, 10.0])


# --- Model A ----------------------------------------------------------------------------------------------------------


def table_of_signs(away: float, span: float) -> tuple[int, int]:
    """Table 7.6.4.1-3, for the azimuth and the zenith angle alike."""
    if span / 2 < away <= span:
        return -1, 1
    if -span < away <= -span / 2:
        return 1, -1
    return 1, 1


def region_by_hand(azimuth: float, zenith: float, centre: float, span: float) -> float:
    """Eq. 7.6-22 to 7.6-27 for one region of UMi, in degrees, term by term."""
    away, up = (azimuth - centre + 180) % 360 - 180, zenith - 90
    if not (abs(away) < span and abs(up) < 5):
        return 0.0
    sums = []
    for angle, width in ((away, span), (up, 5.0)):
        terms = []
        for sign, edge in zip(table_of_signs(angle, width), (angle - width / 2, angle + width / 2), strict=True):
            root = math.sqrt(math.pi / WAVELENGTH_M * 10 * (1 / math.cos(math.radians(edge)) - 1))
            terms.append(math.atan(sign * math.pi / 2 * root) / math.pi)
        sums.append(sum(terms))
    return -20 * math.log10(1 - sums[0] * sums[1])


def body_by_hand(azimuth: float, zenith: float, bearing: float, orientation: str) -> float:
    """Table 7.6.4.1-1 and eq. 7.6-20: whole degrees that are in the region, in the coordinates of the device."""
    low, high, top, bottom = {"portrait": (200, 320, 60, 140), "landscape": (-40, 120, 72.5, 147.5)}[orientation]
    own = (azimuth - bearing) % 360
    return 30.0 if (low < own < high or low < own - 360 < high) and top < zenith < bottom else 0.0


@pytest.mark.parametrize("orientation", ["portrait", "landscape", "none"])
def test_regions_are_the_clause_term_by_term_and_sionnas(orientation: str) -> None:
    """3 devices, 4 regions each, 1,200 directions: the sum of all regions, and Sionna's own object, to 1e-9 dB."""
    import torch
    from sionna.phy.channel.tr38901 import BlockageModelA

    generator = np.random.default_rng(1)
    centres, spans, bearings = (
        360 * generator.random((3, 4)),
        generator.uniform(5, 15, (3, 4)),
        np.array([0, 77, 300.0]),
    )
    found = Regions(centres, spans, bearings, orientation, WAVELENGTH_M)
    azimuth, zenith = generator.uniform(-180, 180, (3, 1200)), generator.uniform(82, 98, (3, 1200))
    azimuth[:, :400] = centres[:, :1] + spans[:, :1] * generator.uniform(-1.1, 1.1, (3, 400))
    scenario = SimpleNamespace(
        precision="double",
        device="cpu",
        scenario_kind="umi",
        lambda_0=torch.tensor(WAVELENGTH_M, dtype=torch.float64),
        ut_orientations=torch.tensor(np.radians(np.stack([bearings, 0 * bearings, 0 * bearings], axis=1)))[None],
    )
    sionna: Any = BlockageModelA(scenario, orientation, 4)  # type: ignore[arg-type]
    sionna._blocker_phi, sionna._blocker_x = torch.tensor(centres)[None], torch.tensor(spans)[None]
    sionna._blocker_y = torch.full((1, 3, 4), 5.0, dtype=torch.float64)
    theirs = sionna(torch.tensor(azimuth)[None, None], torch.tensor(zenith)[None, None])[0].numpy()[0, 0]
    for device in range(3):
        loss = found.paths_db(device, azimuth[device], zenith[device])
        by_hand = [
            sum(region_by_hand(one, up, *region) for region in zip(centres[device], spans[device], strict=True))
            + (body_by_hand(one, up, bearings[device], orientation) if orientation != "none" else 0)
            for one, up in zip(azimuth[device], zenith[device], strict=True)
        ]
        np.testing.assert_allclose(loss, by_hand, atol=1e-9)
        np.testing.assert_allclose(loss, theirs[device], atol=1e-9)
        np.testing.assert_array_equal(found.direct_db(device, azimuth[device, :3], zenith[device, :3]), loss[:3])
        assert 0.05 < (loss > 1).mean() < 0.7


def many_regions(count: int, time_s: float = 0.0, apart_m: float = 1000.0, **parameters: Any) -> Regions:
    """Of devices on a line, each with streams of its own."""
    numbers, generator = Streams(3), np.random.default_rng(9)
    part = Blockage(model="model-a", **parameters)
    return regions_at(
        part,
        lambda columns: device_uniforms.draw(numbers, Purpose.BLOCKERS, None, np.arange(count), columns),
        generator.random((part.regions, *FIELD)),
        apart_m * np.stack([np.arange(count), np.zeros(count)], axis=1),
        time_s,
        28e9,
    )


def test_regions_have_the_laws_of_the_table() -> None:
    """4,000 devices a kilometre apart: centres and bearings uniform over the circle, spans from 5 to 15 degrees."""
    found = many_regions(4000)
    for region in range(4):
        assert_law(found.centre_deg[:, region], stats.uniform(0, 360).cdf)
        assert_law(found.span_deg[:, region], stats.uniform(5, 10).cdf)
    assert_law(found.bearing_deg, stats.uniform(0, 360).cdf)
    assert found.wavelength_m == pytest.approx(299_792_458 / 28e9)
    assert abs(np.corrcoef(found.centre_deg.T)[0, 1]) < 5 / math.sqrt(4000)


def test_the_mean_loss_of_a_level_path_is_that_of_the_integral() -> None:
    """4,000 devices, no body: four regions, each over a span that is uniform and a centre that is anywhere."""
    found, level = many_regions(4000, orientation="none"), np.zeros(1)
    sample = [float(found.paths_db(device, level, level + 90)[0]) for device in range(4000)]
    spans, ways = np.linspace(5, 15, 41), np.linspace(-0.99999, 0.99999, 401)
    losses = [[_level(way * span, span, found.wavelength_m) for way in ways] for span in spans]
    of_span = np.trapezoid(losses, ways, axis=1) * spans / 360
    assert_mean(sample, 4 * float(np.trapezoid(of_span, spans)) / 10)
    body = many_regions(4000, regions=0)
    assert_mean([float(body.paths_db(device, level, level + 90)[0]) for device in range(4000)], 30 * 120 / 360)


def _level(away: float, span: float, wavelength_m: float) -> float:
    def term(sign: int, angle: float) -> float:
        root = math.sqrt(10 * math.pi / wavelength_m * (1 / math.cos(math.radians(angle)) - 1))
        return math.atan(sign * math.pi / 2 * root) / math.pi

    signs = table_of_signs(away, span)
    across = term(signs[0], away - span / 2) + term(signs[1], away + span / 2)
    return -20 * math.log10(1 - across * 2 * term(1, 2.5))


def test_a_centre_is_uniform_and_has_the_correlation_of_the_clause() -> None:
    """3,000 fields at two places and three times: uniform, and over d and t exp(-d/10 m - t/12 s), eq. 7.6-28."""
    generator, places = np.random.default_rng(5), np.array([[30.0, -20.0], [30.0, -16.0]])
    times_s = (0.0, 4.0, 1000.0)
    numbers = generator.random((3000, *FIELD))
    values = np.array([[uniform_field(one, 10.0, 12.0, places, time_s) for time_s in times_s] for one in numbers])
    points = list(itertools.product(range(3), range(2)))
    for time, place in points:
        assert_law(values[:, time, place], stats.uniform(0, 1).cdf)
    for one, other in itertools.combinations(points, 2):
        apart = 0.4 * (one[1] != other[1]) + abs(times_s[one[0]] - times_s[other[0]]) / 12
        products = 12 * (values[(slice(None), *one)] - 0.5) * (values[(slice(None), *other)] - 0.5)
        assert_mean(products, math.exp(-apart), rounding=1e-3)  # a field's powers are divided by their own sum
    alone = uniform_field(numbers[0], 10.0, 12.0, places[1:], 4.0)
    np.testing.assert_array_equal(alone, values[0, 1, 1:])


def test_the_normal_numbers_behind_a_centre_make_up_for_what_turning_them_uniform_takes() -> None:
    """200,000 waves: the cosine of their turn between two places and times, by their powers, has the mean
    2 sin(pi/6 rho), at which uniform numbers made of normal ones are correlated by rho; for a field that stays, too."""
    uniforms = np.random.default_rng(7).random((200_000, 4))
    for changing in (True, False):
        vectors, rates, power = spectrum(uniforms, changing)
        for way, time in ((0.0, 0.0), (0.1, 0.0), (0.4, 0.3), (0.7, 0.0), (0.0, 0.7), (1.5, 0.5)):
            rho = math.exp(-way - time * changing)
            turns = np.cos(vectors @ np.array([0.6, 0.8]) * way + rates * time * changing)
            assert_mean(turns * power * len(power), 2 * math.sin(math.pi / 6 * rho))


def test_a_field_without_speed_stays() -> None:
    """And its correlation over the plane is the one it has with speed."""
    still, slow = many_regions(50, 0.0, speed_m_s=0.0), many_regions(50, 3600.0, speed_m_s=0.0)
    np.testing.assert_array_equal(still.centre_deg, slow.centre_deg)
    near = np.array([many_regions(2, t, 5.0, regions=1).centre_deg[:, 0] / 360 - 0.5 for t in np.arange(1000) * 200.0])
    assert 12 * (near[:, 0] * near[:, 1]).mean() == pytest.approx(
        math.exp(-0.5), abs=0.15
    )  # of one field: 5/sqrt(1000)
    with_speed, without = (
        many_regions(200, 2.0, 2.0),
        many_regions(200, 4.0, 2.0, speed_m_s=BLOCKERS["human"].speed_m_s / 2),
    )
    np.testing.assert_array_equal(with_speed.centre_deg, without.centre_deg)  # t/t_corr is the same


# --- Model B ----------------------------------------------------------------------------------------------------------


def screen_by_hand(receiver: Array, towards: Array, transmitter: Array | None, centre: Array, size: Any) -> float:
    """Eq. 7.6-29 and 7.6-30 from the edges of the turned screen in space, projected to the top and the side view."""
    ahead = towards / np.linalg.norm(towards)
    level = np.array([ahead[0], ahead[1], 0.0]) / math.hypot(ahead[0], ahead[1])
    left = np.array([-level[1], level[0], 0.0])
    above = np.cross(ahead, left)
    sums = []
    for axis, width, view in ((left, size[0], (level, left)), (above, size[1], (level, np.array([0, 0, 1.0])))):
        edges = [np.array(view) @ (centre + side * width / 2 * axis - receiver) for side in (-1, 1)]
        middle = np.array(view) @ (centre - receiver)
        ray = np.array(view) @ ahead / np.linalg.norm(np.array(view) @ ahead)
        if middle @ ray <= 0:
            return 0.0
        if transmitter is None:
            ways = [float(np.linalg.norm(edge)) for edge in edges]
            direct = float(middle @ ray)
        else:
            end = np.array(view) @ (transmitter - receiver)
            if middle @ ray >= np.linalg.norm(end):
                return 0.0
            ways = [float(np.linalg.norm(edge) + np.linalg.norm(end - edge)) for edge in edges]
            direct = float(np.linalg.norm(end))
        sides = [ray[0] * edge[1] - ray[1] * edge[0] for edge in edges]
        hit = sides[0] <= 0 <= sides[1] or sides[1] <= 0 <= sides[0]
        signs = [1 if hit or way > min(ways) else -1 for way in ways]
        terms = [
            math.atan(sign * math.pi / 2 * math.sqrt(math.pi / WAVELENGTH_M * max(way - direct, 0))) / math.pi
            for sign, way in zip(signs, ways, strict=True)
        ]
        sums.append(sum(terms))
    return -20 * math.log10(1 - sums[0] * sums[1])


def crowd(count: int, seed: int = 2) -> tuple[Array, Array]:
    """Screens around five devices, and the devices."""
    generator = np.random.default_rng(seed)
    devices = np.concatenate([generator.uniform(-30, 30, (5, 2)), np.full((5, 1), 1.5)], axis=1)
    around = devices[generator.integers(0, 5, count)] + generator.normal(0, 4, (count, 3))
    around[:, 2] = generator.uniform(0.3, 4, count)
    return around, devices


def test_screens_are_the_clause_term_by_term_and_sionnas() -> None:
    """60 screens of 4.8 m by 1.4 m, five devices: direct paths, and 60 others each, to 1e-6 dB (rounding of lengths);
    Sionna's own object to 1e-3 dB."""
    import torch
    from sionna.phy.channel.tr38901 import BlockageModelB

    centres, devices = crowd(60)
    found = Standing(centres, 4.8, 1.4, WAVELENGTH_M)
    ways = BASE_M - devices
    direct = found.direct_loss_db(devices, BASE_M)
    generator = np.random.default_rng(3)
    azimuth, zenith = generator.uniform(-180, 180, (5, 4, 15)), generator.uniform(70, 110, (5, 4, 15))
    losses = np.array([found.path_loss_db(devices[one], azimuth[one], zenith[one]) for one in range(5)])
    for one, place in enumerate(devices):
        by_hand = [screen_by_hand(place, ways[one], BASE_M, centre, (4.8, 1.4)) for centre in centres]
        assert direct[one] == pytest.approx(sum(by_hand), abs=1e-6)
        for index in np.ndindex(4, 3):
            down, turn = math.radians(zenith[one][index]), math.radians(azimuth[one][index])
            towards = np.array([math.sin(down) * math.cos(turn), math.sin(down) * math.sin(turn), math.cos(down)])
            by_hand = [screen_by_hand(place, towards, None, centre, (4.8, 1.4)) for centre in centres]
            assert losses[(one, *index)] == pytest.approx(sum(by_hand), abs=1e-6)
    assert (direct > 3).any()
    assert 0.1 < (losses > 3).mean() < 0.9
    double = {"dtype": torch.float64}
    scenario = SimpleNamespace(
        precision="double",
        device="cpu",
        ut_loc=torch.tensor(devices)[None],
        bs_virtual_loc=torch.tensor(BASE_M).reshape(1, 1, 1, 3).expand(1, 1, 5, 3),
        lambda_0=torch.tensor(WAVELENGTH_M, **double),
    )
    widths, heights = torch.full((60,), 4.8, **double), torch.full((60,), 1.4, **double)
    sionna: Any = BlockageModelB(scenario, torch.tensor(centres), widths, heights)  # type: ignore[arg-type]
    sight = [
        np.degrees(np.arctan2(ways[:, 1], ways[:, 0])),
        np.degrees(np.arccos(ways[:, 2] / np.linalg.norm(ways, axis=1))),
    ]
    angles = [torch.tensor(one)[None, None] for one in (azimuth, zenith, *sight)]
    rays, line = sionna(*angles)
    np.testing.assert_allclose(losses, rays.numpy()[0, 0], atol=1e-3)
    np.testing.assert_allclose(direct, line.numpy()[0, 0], atol=1e-3)


def half_plane_db(detour_wavelengths: float) -> float:
    """The loss in the shadow of a half plane by Fresnel's integrals, nu = 2 sqrt(detour/wavelength)."""
    sine, cosine = special.fresnel(2 * math.sqrt(detour_wavelengths))
    return float(-20 * math.log10(abs((1 - cosine - sine + 1j * (sine - cosine)) / 2)))


def level_loss_db(beside_m: float, width_m: float, along_m: float = 50.0, length_m: float = 100.0) -> float:
    """The loss of a screen without an upper edge on a level path."""
    standing = Standing(np.array([[along_m, beside_m, 0.0]]), width_m, 1e7, WAVELENGTH_M)
    return float(standing.direct_loss_db(np.zeros((1, 3)), np.array([length_m, 0.0, 0.0]))[0])


def test_a_half_plane_takes_6_db_where_the_path_grazes_it_and_fresnels_loss_in_its_shadow() -> None:
    """The edge in the middle of 100 m: 20 log10(2); deeper within 0.5 dB of the exact integral, up to nu = 5."""
    width_m = 1e6
    assert level_loss_db(width_m / 2, width_m) == pytest.approx(20 * math.log10(2), abs=1e-3)
    for shadow_m in (0.1, 0.3, 0.6, 1.0, 1.3):
        detour = 2 * (math.hypot(50, shadow_m) - 50) / WAVELENGTH_M
        assert detour < 6.25
        assert level_loss_db(width_m / 2 - shadow_m, width_m) == pytest.approx(half_plane_db(detour), abs=0.5)


def test_a_screen_that_is_far_away_or_behind_takes_nothing() -> None:
    """Beside the path the loss falls without end; behind the device and behind the base station there is none."""
    losses = [level_loss_db(beside_m, 0.3) for beside_m in (0.0, 1.0, 10.0, 100.0, 1000.0)]
    assert all(later < earlier for earlier, later in itertools.pairwise(losses))
    assert 0 < losses[-1] < 1e-3 < 1 < losses[0]
    assert level_loss_db(0.0, 0.3, along_m=-0.1) == 0
    assert level_loss_db(0.0, 0.3, along_m=100.1) == 0
    below = Standing(np.array([[5.5, 0.0, 0.85]]), 0.3, 1.7, WAVELENGTH_M)  # of a path to a base station 10 m high
    assert below.direct_loss_db(np.array([[0.0, 0.0, 1.5]]), np.array([5.0, 0.0, 10.0]))[0] == 0
    level = Standing(np.array([[-1.0, 0.0, 0.0]]), 0.3, 1.7, WAVELENGTH_M)
    towards = np.array([0.0, 180.0])
    found = level.path_loss_db(np.zeros(3), towards, np.full(2, 90.0))
    assert found[0] == 0 < found[1]


def test_losses_add_up_and_are_computed_in_parts_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    centres, devices = crowd(30)
    whole = Standing(centres, 0.3, 1.7, WAVELENGTH_M).direct_loss_db(devices, BASE_M)
    parts = [Standing(some, 0.3, 1.7, WAVELENGTH_M).direct_loss_db(devices, BASE_M) for some in np.split(centres, 3)]
    np.testing.assert_allclose(sum(parts), whole, rtol=1e-12)
    monkeypatch.setattr("channels.blockage.screens._AT_ONCE", 60)
    found = Standing(centres, 0.3, 1.7, WAVELENGTH_M).direct_loss_db(devices, BASE_M)
    np.testing.assert_array_equal(found, whole)


def placed(count: int, seed: int, **parameters: Any) -> Any:
    numbers = Streams(seed)
    return screens_of(
        Blockage(model="model-b", count=count, **parameters),
        lambda columns: device_uniforms.draw(numbers, Purpose.BLOCKERS, None, np.arange(count), columns),
        20.0,
        28e9,
    )


def test_screens_stay_uniform_in_the_circle_and_stand_on_the_floor() -> None:
    """20,000 people at the start and after ten minutes, more than ten reflections."""
    found = placed(20_000, 4)
    for time_s in (0.0, 600.0):
        standing = found.at(time_s)
        assert_law((standing.centres_m[:, :2] ** 2).sum(axis=1), stats.uniform(0, 400).cdf)
        assert_law(np.arctan2(standing.centres_m[:, 1], standing.centres_m[:, 0]), stats.uniform(-np.pi, 2 * np.pi).cdf)
        np.testing.assert_allclose(standing.centres_m[:, 2], 0.85)
    gone = np.linalg.norm(found.at(1.0).centres_m - found.at(0.0).centres_m, axis=1)
    assert np.median(gone) == pytest.approx(3 / 3.6, rel=1e-9)
    still = placed(50, 4, speed_m_s=0.0)
    np.testing.assert_allclose(still.at(600.0).centres_m, still.at(0.0).centres_m, atol=1e-9)
    np.testing.assert_array_equal(still.at(0.0).centres_m, found.at(0.0).centres_m[:50])


def test_the_mean_loss_of_a_place_is_that_of_the_integral_over_the_circle() -> None:
    """400 cells of 50 vehicles, a device 12 m away: the mean of their sums is 50 times the mean over the circle."""
    device, base = np.array([[12.0, 0.0, 1.5]]), np.array([0.0, 0.0, 3.0])
    sums = [
        float(placed(50, 1000 + cell, blocker="vehicle").at(0.0).direct_loss_db(device, base)[0]) for cell in range(400)
    ]
    x, y = np.meshgrid((np.arange(800) + 0.5) / 20 - 20, (np.arange(800) + 0.5) / 20 - 20)
    inside = x**2 + y**2 < 400
    grid = np.stack([x[inside], y[inside], np.full(inside.sum(), 0.7)], axis=1)
    each = Standing(grid, 4.8, 1.4, 299_792_458 / 28e9).direct_loss_db(device, base)[0] / len(grid)
    assert_mean(sums, 50 * each)


def test_the_blockers_of_the_table() -> None:
    """Table 7.6.4.2-5 of TR 38.901 v19.4.0: width and height in m, speed in km/h."""
    found = {name: (one.width_m, one.height_m, one.speed_m_s * 3.6) for name, one in BLOCKERS.items()}
    expected = {"human": (0.3, 1.7, 3), "vehicle": (4.8, 1.4, 100), "agv": (3, 1.5, 30), "robot": (2, 0.2, 10.8)}
    assert {name: pytest.approx(values) for name, values in expected.items()} == found
    size = Blockage(model="model-b", blocker="robot", width_m=1.0, speed_m_s=0.0).size
    assert (size.width_m, size.height_m, size.base_m, size.speed_m_s) == (1.0, 0.2, 1.4, 0.0)
