"""A device without a path takes no part: under every power policy, selection rule and combiner, and on every link."""

from pathlib import Path
from unittest.mock import patch

import h5py
import numpy as np
import pytest
from numpy.typing import NDArray

import airfl
from airfl import link_budget
from airfl.core.building import build_scenario
from airfl.core.round_plan import plan_round
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.selection.registry import SELECTIONS
from channels.antennas import COMBINERS
from channels.codewords import Affine
from channels.fading import ChannelRequest, FunctionChannel, Recorded
from channels.power import POLICIES
from tests.conformance.channel_cases import messages_of, pass_through, send
from tests.conftest import small_settings
from tests.small_data import LOGISTIC, run

Gains = NDArray[np.complex128]

ENTRIES, DEVICES, ANTENNAS, SUBCARRIERS = 60, 8, 3, 12
SILENT = ({1, 4, 6}, set(range(DEVICES)), {6})
"""Devices without a path in each round; one never has any."""
ROUNDS = len(SILENT)
LINKS = {
    "analog": "scheme.name=wfl-p",
    "analog iq": "scheme.name=wfl-p grid.packing=iq",
    "digital": "scheme.name=fedavg scheme.link=digital",
    "digital nr": "scheme.name=fedavg scheme.link=digital digital.error_model=nr",
    "ideal": "scheme.name=fedavg scheme.link=ideal",
    "noncoherent": "scheme.name=fsk-mv",
    "noncoherent at full power": "scheme.name=fsk-mv scheme.mean_power=limit",
    "blind": "scheme.name=blind antennas.count=3",
    "downlink": "scheme.name=fedavg scheme.link=ideal grid.downlink=true",
}
BY_LAW = ("statistical-truncation",)
ESTIMATED = "csi.estimation=mmse csi.pilot_snr_db=20"


def write_gains(path: Path, shape: tuple[int, ...], silent: tuple[set[int], ...] = SILENT) -> Path:
    generator = np.random.default_rng(5)
    gains = 1 + 0.5 * (generator.standard_normal(shape) + 1j * generator.standard_normal(shape))
    for index, devices in enumerate(silent):
        gains[index, sorted(devices)] = 0
    with h5py.File(path, "w") as file:
        file["gains"] = gains
    return path


@pytest.fixture(scope="module", params=["flat", "selective"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording with silent devices: one gain of each antenna, or one of each subcarrier too."""
    more = (SUBCARRIERS,) if request.param == "selective" else ()
    return write_gains(tmp_path_factory.mktemp("recorded") / "gains.h5", (ROUNDS, DEVICES, ANTENNAS, *more))


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are of this module: no process has to look at each of them first."""
    monkeypatch.setattr("channels.isolated.hdf5.call", lambda *_: b"")


def scenario_of(recorded: Path, *overrides: str, selected: int = DEVICES) -> Scenario:
    settings = small_settings(
        *(f"run.rounds={ROUNDS}", f"run.devices={DEVICES}", f"run.selected={selected}", "power.max_snr_db=20"),
        *(f"grid.subcarriers={SUBCARRIERS}", "channel.fading=replay", f"channel.replay_file={recorded}"),
        *("local.clip_norm=1.0", "privacy.epsilon=inf"),
        *" ".join(overrides).split(),
    )
    return build_scenario(settings, ENTRIES, np.ones(DEVICES))


def check(scenario: Scenario, *, everybody: bool = True, noise_alone: bool = False) -> None:
    """Nobody without a path is selected, spends energy or sends a pilot, and all that is reported is finite."""
    for index, silent in enumerate(SILENT):
        plan = plan_round(scenario, index, scenario.memory)
        reached = [device for device in range(DEVICES) if device not in silent]
        assert not silent & set(plan.devices.tolist())
        if everybody:
            assert plan.devices.tolist() == reached
            assert plan.unreachable == len(silent)
        reception = send(plan.link, messages_of(plan, scenario))
        report = reception.report
        assert np.isfinite(reception.mean.numpy()).all()
        assert len(report.devices.energy) == len(plan.devices)
        for values in (report.devices.energy, report.devices.transmit_scale, [report.energy_of_others]):
            assert np.isfinite(values).all()
        if not reached:
            assert report.devices.energy.sum() == 0
            assert report.pilot_elements == 0
            assert report.energy_of_others == 0
            if not noise_alone:  # which an announced beta has decoded, so as not to tell who was selected
                assert float(reception.mean.abs().max()) == 0
        budget = plan.link.link_budget()
        assert np.isfinite(budget.devices.energy).all()
        assert np.isfinite(budget.noise_std)


@pytest.mark.parametrize("link", LINKS)
def test_on_every_link(link: str, recorded: Path) -> None:
    scenario = scenario_of(recorded, LINKS[link], "" if link.startswith("noncoherent") else ESTIMATED)
    check(scenario)


def test_a_receiver_without_pilots_expects_all_but_those_that_never_have_a_path(recorded: Path) -> None:
    """The affine map is decoded with the weights of the selected devices, of which one never has a path."""
    scenario = scenario_of(recorded, "scheme.name=affine-oac scheme.mapping=affine")
    plan = plan_round(scenario, 0, scenario.memory)
    with patch.object(Affine, "decode", autospec=True, side_effect=Affine.decode) as decode:
        send(plan.link, messages_of(plan, scenario))
    assert len(plan.devices) == DEVICES - 3
    assert decode.call_args.args[-1] == pytest.approx(scenario.weights.sum() - scenario.weights[6])


@pytest.mark.parametrize("antennas", [1, ANTENNAS])
@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "blind"])
def test_under_every_power_policy(policy: str, antennas: int, recorded: Path) -> None:
    if policy in BY_LAW or (policy == "statistical" and antennas > 1):
        pytest.skip("needs a fading law, or one antenna: refused in one line for every recorded channel")
    objective = "power.objective=mean-power" if policy == "statistical" else ""
    threshold = "power.threshold=0.1" if "threshold" in {one.name for one in POLICIES[policy]._parameters} else ""
    given = (f"power.policy={policy} antennas.count={antennas}", threshold, objective)
    check(scenario_of(recorded, "scheme.name=wfl-p", *given), noise_alone=policy == "statistical")


@pytest.mark.parametrize("combiner", COMBINERS)
def test_under_every_combiner(combiner: str, recorded: Path) -> None:
    check(scenario_of(recorded, "scheme.name=wfl-p", f"antennas.count={ANTENNAS} antennas.combining={combiner}"))


@pytest.mark.parametrize("rule", SELECTIONS)
def test_under_every_selection_rule(rule: str, recorded: Path) -> None:
    """A rule by channel does not consider them; a blind one may draw them, and then they take no part."""
    more = {"threshold": "selection.min_gain=0.1", "energy-budget": "selection.energy_budget=1e9"}.get(rule, "")
    scenario = scenario_of(recorded, "scheme.name=wfl-p", f"selection.kind={rule}", more, ESTIMATED, selected=4)
    check(scenario, everybody=False)
    drawn = plan_round(scenario, 0, scenario.memory)
    if rule in ("threshold", "best-k", "proportional-fair"):
        assert drawn.unreachable == len(SILENT[0])
        assert len(drawn.devices) == 4


@pytest.mark.parametrize("alignment", ["sample", "population", "schedule"])
def test_under_every_alignment(alignment: str, recorded: Path) -> None:
    more = "power.coefficient=0.5" if alignment == "schedule" else ""
    scenario = scenario_of(recorded, "scheme.name=wfl-p", f"power.alignment={alignment}", more, ESTIMATED, selected=4)
    check(scenario, everybody=False, noise_alone=alignment == "schedule")


@pytest.mark.parametrize("rule", ["uniform", "energy-budget selection.energy_budget=1e20 digital.deadline_s=1e4"])
@pytest.mark.parametrize("link", ["analog", "digital", "ideal"])
def test_those_who_are_reached_are_received_as_without_the_others(link: str, rule: str, recorded: Path) -> None:
    """Without noise, the mean over all selected devices contains the messages of those that are reached, and 0 for the
    others."""
    given = ("channel.noise=false", "power.policy=full-inversion", f"selection.kind={rule}")
    scenario = scenario_of(recorded, LINKS[link], *given)
    plan, reception = pass_through(scenario)
    expected = messages_of(plan, scenario).sum(dim=0) / DEVICES
    np.testing.assert_allclose(reception.mean.numpy(), expected.numpy(), atol=1e-5 * float(expected.abs().max()))
    assert plan.link.heard.all()


def test_only_those_who_are_reached_send_pilots(recorded: Path) -> None:
    scenario = scenario_of(recorded, "scheme.name=wfl-p", "csi.estimation=ls csi.pilots=2")
    coefficients = SUBCARRIERS if scenario.radio.selective else 1
    for index, silent in enumerate(SILENT):
        report = plan_round(scenario, index, scenario.memory).link.link_budget()
        assert report.pilot_elements == 2 * coefficients * (DEVICES - len(silent))


def test_a_device_below_the_outage_gain_is_silent(recorded: Path) -> None:
    with h5py.File(recorded) as file:
        gains = file["gains"][0, :, :1]
    rms = np.sqrt((np.abs(gains) ** 2).mean(axis=tuple(range(1, gains.ndim))))
    outage_gain = float(np.sort(rms[rms > 0])[1:3].mean())
    scenario = scenario_of(recorded, "scheme.name=wfl-p", f"channel.replay_outage_gain={outage_gain}")
    plan = plan_round(scenario, 0, scenario.memory)
    assert plan.devices.tolist() == np.flatnonzero(rms > outage_gain).tolist()
    assert plan.unreachable == int((rms <= outage_gain).sum())


@pytest.mark.parametrize("scheme", ["pfels", "fedavg"])
def test_a_run_counts_them_in_its_trace_and_costs_what_its_budget_says(scheme: str, tmp_path: Path) -> None:
    recorded = write_gains(tmp_path / "gains.h5", (ROUNDS, DEVICES))
    settings = small_settings(
        *(f"run.rounds={ROUNDS}", f"run.devices={DEVICES}", f"run.selected={DEVICES}", "local.steps=1", *LOGISTIC),
        *("channel.fading=replay", f"channel.replay_file={recorded}", f"scheme.name={scheme}", "run.evaluate_every=3"),
        *("scheme.link=digital",) * (scheme == "fedavg"),
    )
    done, budget = run(settings, tmp_path / "run"), link_budget(settings)
    with done.trace() as trace:
        assert trace["unreachable"].values.tolist() == [3, DEVICES, 1]
        for index, silent in enumerate(SILENT):
            present = trace["device_id"].values[index]
            assert set(present[present >= 0].tolist()) == set(range(DEVICES)) - silent
        assert trace["heard"].values[1] == 0
        assert trace["energy_j"].values[1] == 0
        assert np.isfinite(trace["test_loss"].values[-1])
        np.testing.assert_array_equal(trace["resource_elements"].sum(), budget.resource_elements)
        if scheme == "fedavg":
            assert float(trace["energy_j"].sum()) == pytest.approx(budget.energy_j, rel=1e-9)
        else:
            assert float(trace["energy_j"].sum()) <= budget.energy_j * (1 + 1e-6)


# --- privacy ---------------------------------------------------------------------------------------------------------


def test_beta_tells_nothing_of_who_is_silent(tmp_path: Path) -> None:
    """Worked out by hand: of devices with reaches 0, 0, 1, 2, 3 (ids 0 to 4), 0, 2 and 4 were selected. beta names 2;
    the two others are any of the devices that are silent or reach more: 0, 1, 3 and 4."""
    path = tmp_path / "gains.h5"
    with h5py.File(path, "w") as file:
        file["gains"] = np.array([[0.0, 0.0, 1.0, 2.0, 3.0]])
    settings = small_settings(
        *("run.rounds=1", "run.devices=5", "run.selected=3", "channel.fading=replay", f"channel.replay_file={path}"),
        *("scheme.name=wfl-p", "privacy.observer=third_party", "local.clip_norm=1.0", "power.alignment=sample"),
    )
    found = set()
    for seed in range(40):
        scenario = build_scenario(settings.resolved(run={"seed": seed}), ENTRIES, np.ones(5))
        scenario.__dict__["discloses"] = True
        plan = plan_round(scenario, 0, scenario.memory)
        told = plan.disclosure
        assert told is not None
        present = plan.devices.tolist()
        found.add((tuple(present), plan.unreachable))
        limits = scenario.power_limits
        reaches = np.array([0, 0, 1, 2, 3]) * np.sqrt(limits)
        setting = min(present, key=lambda device: reaches[device])
        above = (reaches > reaches[setting]) | (reaches == 0)
        assert told.named.tolist() == [setting]
        assert (told.sample, told.pool) == (2, int(above.sum()))
    assert len(found) > 3


@pytest.mark.parametrize(("silent", "granted"), [((set(), set(), set()), False), (SILENT, True)])
def test_noise_of_the_devices_tells_how_many_take_part(
    silent: tuple[set[int], ...], granted: bool, tmp_path: Path
) -> None:
    """So the observer is granted the selection where some may be silent."""
    recorded = write_gains(tmp_path / "gains.h5", (ROUNDS, DEVICES), silent)
    scenario = scenario_of(recorded, "scheme.name=fed-smp-randk", "privacy.epsilon=2", selected=4)
    assert scenario.radio.silent == bool(silent[0])
    assert scenario.statement.granted == granted
    assert scenario.statement.attained == (not granted)


def test_a_device_may_be_silent_on_the_elements_of_a_message_alone(tmp_path: Path) -> None:
    """Its gains are 0 on the lowest of the recorded subcarriers, which a short message uses."""
    gains = np.ones((ROUNDS, DEVICES, 1, SUBCARRIERS), dtype=np.complex64)
    for silent in (False, True):
        path = tmp_path / f"{silent}.h5"
        gains[1, 3, 0, :2] = 1 - silent
        with h5py.File(path, "w") as file:
            file["gains"] = gains
        scenario = scenario_of(path, "scheme.name=fed-smp-randk scheme.ratio=0.01", "privacy.epsilon=2", selected=4)
        assert scenario.radio.silent == silent
        assert scenario.statement.granted == silent


@pytest.mark.parametrize("observer", ["third_party", "server"])
def test_noise_of_the_devices_and_a_channel_that_vanishes_unannounced(observer: str) -> None:
    """A channel of one's own without a path: what its noise tells is not in the figures, so the run is refused."""

    def response(request: ChannelRequest) -> Gains:
        here = np.where(request.devices == 5, 0.0, 1.0) + 0j
        return np.broadcast_to(here[:, None, None, None], (len(here), request.antennas, 1, 1))

    settings = small_settings(
        *(f"run.rounds={ROUNDS}", f"run.devices={DEVICES}", f"run.selected={DEVICES}", "scheme.name=fed-smp-randk"),
        *("privacy.epsilon=2", f"privacy.observer={observer}"),
    ).resolved(channel={"fading": FunctionChannel(function=response, selective=False, power=1.0)})
    scenario = build_scenario(settings, ENTRIES, np.ones(DEVICES))
    if observer == "server":
        assert plan_round(scenario, 0, scenario.memory).unreachable == 1
        return
    with pytest.raises(UserError, match=r"^channel.fading: .* without a channel \(H = 0\) in round 0, and the noise"):
        plan_round(scenario, 0, scenario.memory)


def test_the_mean_power_is_that_of_rounds_with_a_path(tmp_path: Path) -> None:
    """Of |h|^2 = 4, 0, 16 it is 10, and of nothing 0; in outage is what is at most the outage gain. A device that is
    always in outage by its mean may be above it on the elements of a message: its mean power is that of its paths."""
    with h5py.File(tmp_path / "gains.h5", "w") as file:
        file["gains"] = np.array([[2.0, 0.0], [0.0, 0.0], [4.0, 0.0]])
    for outage_gain, expected in ((0.0, 10.0), (2.0, 16.0), (5.0, 10.0)):
        part = Recorded(file=str(tmp_path / "gains.h5"), outage_gain=outage_gain)
        assert part.read(rounds=3, devices=2).mean_power.tolist() == [expected, 0.0]


def test_a_replay_that_is_drawn_goes_on_as_it_began(tmp_path: Path) -> None:
    """Shuffled rounds and drawn devices, streamed or not, have addresses, so that a resumed run is the run."""
    recorded = write_gains(tmp_path / "gains.h5", (ROUNDS, 2 * DEVICES, 1, SUBCARRIERS))
    settings = small_settings(
        *("run.rounds=7", f"run.devices={DEVICES}", "run.selected=4", "local.steps=1", *LOGISTIC, "run.seed=4"),
        *("channel.fading=replay", f"channel.replay_file={recorded}", f"grid.subcarriers={SUBCARRIERS}"),
        *("channel.replay_rounds=shuffle", "channel.replay_devices=draw", "run.checkpoint_every=1"),
        *("privacy.epsilon=inf", "run.evaluate_every=7"),
    )

    def stop(done: int, _rounds: int, _record: object) -> None:
        if done == 4:
            raise RuntimeError("stop")

    whole = run(settings, tmp_path / "whole")
    with pytest.raises(RuntimeError, match="stop"):
        run(settings, tmp_path / "parts", progress=stop)
    with patch("channels.recorded.surveying.HELD_BYTES", 0):
        parts = airfl.run(settings, tmp_path / "parts", resume=True)
    np.testing.assert_array_equal(parts.parameters, whole.parameters)
    with whole.trace() as one, parts.trace() as other:
        for name in ("channel_gain", "device_id", "unreachable", "energy_j"):
            np.testing.assert_array_equal(one[name].values, other[name].values)
        assert len({tuple(row) for row in one["channel_gain"].values[:, :1].tolist()}) > 1
