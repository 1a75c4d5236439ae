"""Channels with blocked paths: the power that is left, over the rounds of a run and in Sionna's cells, and what is
refused."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.exports import export
from channels.blockage import Obstructed, Standing
from channels.selective import sionna_bridge
from channels.selective.sionna_bridge import device_seeds
from tests.conftest import small_settings
from tests.laws import selective
from tests.laws.decoding import built, planned
from tests.laws.samples import Array, assert_mean
from tests.laws.test_motion_file import in_file
from tests.refusals import one_line
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import few_samples

CELL = ("channel.units=physical", "topology.kind=disc", "topology.radius_m=40", "run.selected=4", "grid.subcarriers=8")
SIGHT = ("channel.fading=rician", "channel.rician_k=10", "topology.los=los", "channel.carrier_hz=28e9")
CROWD = ("blockage.model=model-b", "blockage.count=2000", "channel.round_s=2.0")


def scenario_of(*overrides: str, devices: int = 12) -> Scenario:
    return built(19, *CELL, f"run.devices={devices}", "scheme.name=wfl-p", *overrides)


def people(radio: Any, time_s: float) -> Standing:
    """The screens of a run at a time, at 0.85 m, moved on by hand without those that have met the border."""
    start = radio.obstacles.screens.motion
    ways = np.stack([np.cos(start.heading_rad), np.sin(start.heading_rad)], axis=1) * start.speed_m_s * time_s
    places = start.start_m + ways
    inside = np.linalg.norm(places, axis=1) < 40
    centres = np.concatenate([places, np.full((len(places), 1), 0.85)], axis=1)
    return Standing(centres[inside], 0.3, 1.7, 299_792_458 / 28e9)


def test_a_blocked_line_of_sight_leaves_the_diffuse_part_and_the_rest_of_its_power() -> None:
    """K = 10: with the loss L of the direct path K/L, and mean powers (K/L + 1)/(K + 1) of those without blockage, in
    every round, whatever was asked before; a chance of a line of sight leaves the others as they are."""
    chance = ("topology.los=probability", "topology.radius_m=40")
    for more in ((), chance):
        blocked, plain = (scenario_of(*SIGHT, *more, *extra, devices=60).radio for extra in (CROWD, CROWD[2:]))
        drop = plain.drop
        base = np.array([0.0, 0.0, drop.base_height_m])
        for t in (0, 7, 2):
            here = blocked.at(t)
            standing = blocked.obstacles.screens.at(2.0 * t)
            if t == 0:
                np.testing.assert_allclose(people(blocked, 0.0).centres_m, standing.centres_m)
            loss_db = np.where(drop.line_of_sight, standing.direct_loss_db(drop.positions_m, base), 0.0)
            k = np.where(drop.line_of_sight, 10.0, 0.0)
            left = k * 10 ** (-loss_db / 10)
            np.testing.assert_allclose(here.k_factors, left, rtol=1e-9)
            np.testing.assert_allclose(here.mean_power, plain.mean_power * (left + 1) / (k + 1), rtol=1e-9)
            assert here.law is None
            assert (loss_db[drop.line_of_sight] > 1).any()
    assert not drop.line_of_sight.all()
    np.testing.assert_array_equal(blocked.at(7).at(2).k_factors, blocked.at(2).k_factors)


def test_what_is_received_falls_by_the_loss() -> None:
    """6 devices of 16 antennas behind people that stand still, 400 rounds: the mean of |h|^2 is that of the round, and
    so is the power of its constant part, which is what is left of the line of sight."""
    still = ("blockage.speed_m_s=0", "antennas.count=16", "antennas.angle=broadside")
    radio = scenario_of(*SIGHT, *CROWD, *still, devices=6).radio
    ids, frame = np.arange(6), radio.frame(8)
    found = np.array([radio.channel(t, ids, frame).response[:, :, 0, 0] for t in range(400)])
    assert radio.at(399) is radio
    standing = radio.obstacles.screens.at(800.0)
    base = np.array([0.0, 0.0, radio.drop.base_height_m])
    loss_db = standing.direct_loss_db(radio.drop.positions_m, base)
    np.testing.assert_allclose(radio.k_factors, 10 * 10 ** (-loss_db / 10), rtol=1e-6)
    power, k = radio.at(0).mean_power, radio.at(0).k_factors
    for device in ids:
        assert_mean(np.abs(found[:, device]) ** 2 / power[device], 1.0)
        # E[h_1 h_2^*] is the power of the line of sight, whose phase is the same at both antennas.
        products = (found[:, device, ::2] * found[:, device, 1::2].conj()).mean(axis=1)
        assert_mean(products / power[device], k[device] / (k[device] + 1))
    assert k.min() < 5 < 9 < k.max()


def test_a_blocked_line_of_sight_ages_and_stays_blocked() -> None:
    """Devices behind people with K below 3, 20 rounds, 1 ms at 10 m/s: the mean of |h|^2 after the delay is that of the
    round."""
    late = ("channel.speed_m_s=10", "csi.delay_s=1e-3", "blockage.speed_m_s=0", "blockage.count=6000")
    radio = scenario_of(*SIGHT, CROWD[0], *late, devices=200).radio
    hidden = np.flatnonzero(radio.at(0).k_factors < 3)
    assert len(hidden) > 20
    ones, frame, power = np.ones(len(hidden)), radio.frame(8), radio.at(0).mean_power[hidden]
    aged = [radio.csi_of(t, hidden, frame, ones).state.response[:, 0, 0, 0] for t in range(20)]
    assert_mean(np.ravel(np.abs(aged) ** 2 / power), 1.0)


def test_several_access_points_have_lines_of_sight_of_their_own() -> None:
    """Each behind the same people, from its own place."""
    points = ("topology.access_points=[[0,0],[30,10]]", "antennas.count=2", "antennas.combining=max-min")
    radio = scenario_of(*SIGHT, *CROWD, *points).radio
    standing = radio.obstacles.screens.at(0.0)
    for point, place in enumerate(((0.0, 0.0), (30.0, 10.0))):
        drop = radio.drops[point]
        devices = drop.positions_m + np.array([*place, 0.0])
        loss_db = standing.direct_loss_db(devices, np.array([*place, drop.base_height_m]))
        np.testing.assert_allclose(radio.k_factors[:, point], 10 * 10 ** (-loss_db / 10), rtol=1e-9)
        bare = 10 ** (-drop.path_loss_db / 10)
        np.testing.assert_allclose(radio.point_power[:, point], bare * (radio.k_factors[:, point] + 1) / 11, rtol=1e-9)
    np.testing.assert_allclose(radio.drops[0].positions_m[:, :2], radio.drops[1].positions_m[:, :2] + [30.0, 10.0])


def test_places_and_people_may_both_move() -> None:
    moving = ("topology.motion=straight", "channel.speed_m_s=1.0")
    radio, plain = (scenario_of(*SIGHT, *moving, *extra).radio for extra in (CROWD, CROWD[2:]))
    for t in (3, 1):
        here, bare = radio.at(t), plain.at(t)
        np.testing.assert_array_equal(here.drop.positions_m, bare.drop.positions_m)
        base = np.array([0.0, 0.0, here.drop.base_height_m])
        loss_db = radio.obstacles.screens.at(2.0 * t).direct_loss_db(here.drop.positions_m, base)
        np.testing.assert_allclose(here.k_factors, 10 * 10 ** (-loss_db / 10), rtol=1e-9)


def test_screens_are_in_the_circle_that_holds_all_devices_at_any_time(tmp_path: Path) -> None:
    """As far as the farthest of given coordinates, 60 m, and as a file leads, 80 m, even after the run."""
    given = ("topology.kind=coordinates", "topology.coordinates=[[50,0],[0,-60],[30,40],[40,0]]")
    screens = scenario_of(*SIGHT, *CROWD, *given, devices=4).radio.obstacles.screens
    assert screens.motion.outer_m == 60
    assert 58 < np.linalg.norm(screens.motion.start_m, axis=1).max() <= 60
    file = tmp_path / "places.csv"
    rows = [
        f"{device},{time},{x},{y}"
        for device in range(4)
        for time, x, y in ((0, 0, 40 + device), (9, 60, 0), (30, 80, 0))
    ]
    file.write_text("\n".join(["device,time_s,x_m,y_m", *rows]))
    given = ("topology.kind=coordinates", "topology.motion=file", f"topology.motion_file={file}", "run.rounds=2")
    moved = scenario_of(*SIGHT, *CROWD, *given, "channel.speed_m_s=30", devices=4).radio
    assert moved.moving.motion.distances_m[1] == pytest.approx(60)
    assert moved.obstacles.screens.motion.outer_m == pytest.approx(80)


# --- Sionna's cells ---------------------------------------------------------------------------------------------------


class Even:
    """Every path loses as much, and the line of sight another loss."""

    def __init__(self, paths_db: float, direct_db: float, of_rays: bool) -> None:
        self.losses, self.of_rays = (paths_db, direct_db), of_rays

    def paths_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        assert azimuth_deg.ndim == (5 if self.of_rays else 4)
        return np.full(azimuth_deg.shape, self.losses[0])

    def direct_db(self, device: int, azimuth_deg: Array, zenith_deg: Array) -> Array:
        return np.full(azimuth_deg.shape, self.losses[1])


def request(blocked: Any = None, sight: bool = True, devices: int = 2, **changes: Any) -> selective.Asked:
    places = np.array([[40.0, 3.0, 1.5], [-30.0, 25.0, 1.5]])[:devices]
    asked = selective.request(
        devices, positions_m=places, line_of_sight=np.full(devices, sight), frame=selective.frame(12)
    )
    return dataclasses.replace(asked, blocked=blocked, **changes)


@pytest.mark.parametrize("of_rays", [True, False])
@pytest.mark.parametrize("name", ["umi", "inf-sh"])
def test_a_cell_loses_what_its_paths_lose(name: str, of_rays: bool) -> None:
    """10 dB of all paths: 10 dB of every response. Of the line of sight alone: what is missing is that part, the same
    as with twice the loss in amplitude; without a line of sight nothing."""
    plain = selective.respond(name, request()).response
    even = selective.respond(name, request(Even(10, 10, of_rays))).response
    np.testing.assert_allclose(even, plain * 10**-0.5, rtol=1e-4, atol=1e-7)
    half, none = (
        selective.respond(name, request(Even(0, loss, of_rays))).response for loss in (20 * math.log10(2), 200)
    )
    np.testing.assert_allclose(plain - half, half - none, rtol=1e-3, atol=1e-5)
    assert np.abs(plain - none).max() > 0.1
    hidden = [selective.respond(name, request(one, sight=False)).response for one in (None, Even(0, 60, of_rays))]
    np.testing.assert_array_equal(*hidden)


def test_screens_in_a_cell_are_those_of_sionnas_own_object() -> None:
    """The seed of a device, 28 GHz and 40 vehicles around it: Sionna's UMi with its own model B."""
    import torch
    from sionna.phy import config
    from sionna.phy.channel import cir_to_ofdm_channel, tr38901

    place: dict[str, Any] = {"precision": "single", "device": "cpu"}
    generator, asked = np.random.default_rng(6), request(carrier_hz=28e9, devices=1)
    assert asked.positions_m is not None
    centres = asked.positions_m[0] + generator.normal(0, [6, 6, 0.5], (40, 3))
    standing = Standing(centres, 4.8, 1.4, 299_792_458 / 28e9)
    base = np.array([0.0, 0.0, asked.base_height_m])
    found = selective.respond("umi", dataclasses.replace(asked, blocked=Obstructed(standing, asked.positions_m, base)))
    plain = selective.respond("umi", asked)
    single = tr38901.PanelArray(1, 1, "single", "V", "omni", 28e9, **place)
    with torch.random.fork_rng(devices=[]):
        config.seed = device_seeds(asked)[0]
        model = tr38901.UMi(
            28e9,
            "low",
            single,
            single,
            "uplink",
            enable_pathloss=False,
            enable_shadow_fading=False,
            enable_blockage=True,
            blockage_model="B",
            blockage_screen_centers=torch.tensor(centres, dtype=torch.float32),
            blockage_screen_widths=torch.full((40,), 4.8),
            blockage_screen_heights=torch.full((40,), 1.4),
            spec_version="19.2",
            **place,
        )
        model.set_topology(
            torch.tensor(asked.positions_m[None], dtype=torch.float32),
            torch.tensor(base[None, None], dtype=torch.float32),
            torch.zeros(1, 1, 3),
            torch.zeros(1, 1, 3),
            torch.zeros(1, 1, 3),
            torch.zeros((1, 1), dtype=torch.bool),
            los=True,
        )
        a, tau = model(num_time_samples=1, sampling_frequency=1.0)
        frequencies = torch.tensor(asked.frame.frequencies_hz, dtype=torch.float32)
        theirs = cir_to_ofdm_channel(frequencies, a, tau)[0, 0, :, 0, 0].numpy()
    np.testing.assert_allclose(found.response[0], theirs, atol=2e-4)
    assert np.abs(found.response - plain.response).max() > 0.1


@pytest.mark.parametrize("model", ["model-a", "model-b"])
def test_a_round_of_a_cell_has_the_blockers_of_its_time(model: str) -> None:
    """What the fading is asked for: places and blockers of the round, the same for a device among others and for any
    order of the rounds; fades are those without blockage."""
    more = ("channel.fading=umi", "channel.carrier_hz=28e9", f"blockage.model={model}", "channel.round_s=4.0")
    radio, frame = scenario_of(*more).radio, scenario_of(*more).frame
    losses = {}
    for t in (5, 0):
        asked = radio._request(t, np.array([2, 9]), frame)
        azimuth, zenith = np.linspace(-180, 180, 721), np.full(721, 91.0)
        losses[t] = asked.blocked.paths_db(1, azimuth, zenith)
        alone = radio._request(t, np.array([9]), frame).blocked.paths_db(0, azimuth, zenith)
        np.testing.assert_array_equal(alone, losses[t])
        bare = scenario_of(*(one for one in more if "blockage" not in one)).radio._request(t, np.array([2, 9]), frame)
        np.testing.assert_array_equal(bare.per_round(3), asked.per_round(3))
        assert bare.blocked is None
    assert np.any(losses[5] != losses[0])
    assert radio.at(5) is radio


def test_a_sionna_without_blockage_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from sionna.phy.channel import tr38901

    class Older:
        def __init__(self, scenario: Any) -> None:
            """An older Sionna's."""

    monkeypatch.setattr(tr38901, "RaysGenerator", Older)
    with pytest.raises(ValueError, match=one_line("cannot be told which paths are blocked", "install Sionna 2.2")):
        sionna_bridge.check_blockage()


# --- Runs -------------------------------------------------------------------------------------------------------------


def test_the_link_budget_is_the_run(tmp_path: Path) -> None:
    """Rounds of a run have the beta of the link budget; a run that was interrupted goes on to the same trace; a channel
    without one mean power for each device is not exported."""
    given = ("scheme.name=pfels", *CELL[:3], *SIGHT, *CROWD, "privacy.epsilon=inf")
    settings = small_settings(*given, "run.rounds=3")
    whole = airfl.run(settings, tmp_path / "whole", data=few_samples())
    with airfl.open_trace(whole.path) as trace:
        beta = trace["alignment_coefficient"].values
        scenario = built(trace.attrs["dimension"], *given)
    expected = [planned(scenario, t).link.link_budget().alignment_coefficient for t in range(3)]
    np.testing.assert_allclose(beta, expected, rtol=1e-9)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path / "part", data=few_samples(), progress=interrupted(1))
    airfl.run(settings, tmp_path / "part", data=few_samples(), resume=True)
    assert_same_trace(whole.path, tmp_path / "part" / whole.path.name)
    with pytest.raises(UserError, match=one_line("no mean power over the run", "blockage.model")):
        export(whole.path, "channel", tmp_path / "exported")


def test_more_rounds_leave_the_first_ones_as_they_are(tmp_path: Path) -> None:
    """Places from a file that lead away, 10 m a second, among people: 2 rounds are the first of 4, which may
    also be interrupted; the greater distances of the later rounds move no one."""
    generator = np.random.default_rng(4)
    away = generator.uniform(0, 2 * math.pi, 100)
    starts = generator.uniform(12, 30, 100)[:, None] * np.stack([np.cos(away), np.sin(away)], axis=1)
    steps = 10 * np.stack([np.cos(away), np.sin(away)], axis=1)
    file = in_file(tmp_path / "away.csv", np.arange(12.0), np.stack([starts + k * steps for k in range(12)]))
    given = ("scheme.name=pfels", "channel.units=physical", *SIGHT, *CROWD, "privacy.epsilon=inf")
    given += ("topology.kind=coordinates", "topology.motion=file", f"topology.motion_file={file}")
    given += ("channel.speed_m_s=11", "channel.variation=jakes")
    two, four = (small_settings(*given, f"run.rounds={rounds}") for rounds in (2, 4))
    short = airfl.run(two, tmp_path / "short", data=few_samples())
    long = airfl.run(four, tmp_path / "long", data=few_samples())
    with airfl.open_trace(short.path) as first, airfl.open_trace(long.path) as all_of_them:
        begun = all_of_them.isel(round=slice(0, 2))
        assert len(all_of_them["round"]) == 4
        for name in first.data_vars:
            if "round" in first[name].dims and not str(name).endswith("_at_least"):  # those of the last round of a run
                np.testing.assert_array_equal(begun[name].values, first[name].values, err_msg=name)
    with pytest.raises(KeyboardInterrupt):
        airfl.run(four, tmp_path / "part", data=few_samples(), progress=interrupted(2))
    airfl.run(four, tmp_path / "part", data=few_samples(), resume=True)
    assert_same_trace(long.path, tmp_path / "part" / long.path.name)


REFUSALS = {
    "blockage.model=model-a channel.fading=rician": "'model-a' attenuates the clusters of channel.fading = umi, uma or",
    "blockage.model=model-a channel.fading=inf-sl": "'model-a' attenuates the clusters of channel.fading = umi, uma or",
    "blockage.model=model-b channel.fading=rayleigh": "'model-b' blocks the line of sight of channel.fading = 'rician'",
    "blockage.model=model-b channel.fading=tapped-line": "and all paths of umi, uma, rma, inf-sl",
    "blockage.model=model-b topology.kind=none": "needs the places of the devices",
    "blockage.model=model-b topology.los=nlos": "topology.los: blockage.model = 'model-b' blocks lines of sight, of",
    "blockage.model=model-b channel.rician_k=0": "channel.rician_k: blockage.model = 'model-b' blocks lines of sight",
    "blockage.model=model-b surface.elements=4": "surface.elements: paths over a surface are not blocked",
    "blockage.model=model-b topology.neighbours=[[400,0]]": "topology.neighbours: paths from neighbouring cells",
    "blockage.model=model-b channel.fading=umi csi.estimation=mmse": 'csi.estimation: "mmse" needs the mean power',
    "blockage.model=model-a channel.fading=umi topology.los=nlos csi.delay_s=1e-3 channel.speed_m_s=1": (
        "csi.delay_s: channels change over the delay by their mean power"
    ),
    "blockage.model=model-b power.policy=statistical": "lines of sight are blocked one by one, so there is no common",
    "blockage.model=model-c": "blockage.model",
    "blockage.model=model-b blockage.count=0": "blockage.count",
    "blockage.model=model-b blockage.width_m=0": "blockage.width_m",
    "blockage.model=model-b blockage.speed_m_s=-1": "blockage.speed_m_s",
}


@pytest.mark.parametrize("given", REFUSALS)
def test_refusals(given: str) -> None:
    with pytest.raises(UserError, match=one_line(REFUSALS[given])):
        scenario_of("channel.fading=rician", "channel.rician_k=10", *given.split())
