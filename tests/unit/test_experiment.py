"""Experiments built from objects: equal to settings files, written and read back, with errors of one line."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import field_validator

import airfl
from airfl.config.load import plain_key
from airfl.config.section import Section
from airfl.storage.resources import configurations
from airfl.study.sweeps.points import SweepPlan, build_points
from channels import fading, power
from tests.conftest import DEMO

LOCAL = {"steps": 5, "clip_norm": 1.0}
MADE = airfl.Experiment(
    scheme=airfl.schemes.Pfels(ratio=0.3),
    local=airfl.LocalSgd(**LOCAL),
    radio=airfl.Radio(
        fading=fading.Rician(k=5.0),
        power=power.TruncatedInversion(threshold=0.2),
        max_snr_db=(25.0, 35.0),
        grid=airfl.Grid(subcarriers=600),
        csi={"phase_std_rad": 0.1},
    ),
    privacy=airfl.Privacy(epsilon=2.0),
    selection="poisson",
    rounds=3,
    devices=100,
    selected=8,
)
AS_A_FILE = """
run = { rounds = 3, devices = 100, selected = 8 }
local = { steps = 5, clip_norm = 1.0 }
scheme = { ratio = 0.3 }
channel = { fading = "rician", rician_k = 5.0 }
power = { policy = "truncated-inversion", threshold = 0.2, max_snr_db = [25.0, 35.0] }
grid = { subcarriers = 600 }
csi = { phase_std_rad = 0.1 }
privacy = { epsilon = 2.0 }
selection = { kind = "poisson" }
"""


class Own(power.Policy):
    """No policy, and without a name."""

    def plan(self, task: power.PowerTask) -> power.PowerPlan:
        raise NotImplementedError


def own_task() -> Any:
    samples = torch.randn(40, 4), torch.arange(40) % 2
    return airfl.Task(model=torch.nn.Linear(4, 2), train=samples, test=samples)


def made(**arguments: Any) -> airfl.Experiment:
    return airfl.Experiment(**{"local": LOCAL, **arguments})


def test_it_is_the_same_as_its_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(AS_A_FILE)
    read = airfl.Experiment.load(file)
    assert read == MADE
    assert read.settings == airfl.load_settings(file) == airfl.load_settings(MADE)
    assert (read.rounds, read.scheme, read.radio) == (3, airfl.schemes.Pfels(ratio=0.3), MADE.radio)
    assert read.radio.channel.fading_model == fading.Rician(k=5.0)
    assert airfl.Experiment.load(file, {"scheme.ratio": 0.1}) != MADE
    assert repr(MADE.radio).startswith("Radio(fading=Rician(k=5.0), ")
    assert "power=TruncatedInversion(threshold=0.2)" in repr(MADE)


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("name", ["made", *configurations()])
def test_it_writes_itself_and_reads_back_equal(name: str, everything: bool, tmp_path: Path) -> None:
    experiment = MADE if name == "made" else airfl.Experiment.load(name)
    file = experiment.save(tmp_path / "saved.toml", everything=everything)
    assert airfl.Experiment.load(file) == experiment
    with pytest.raises(airfl.UserError, match=r"already exists; .*overwrite=True"):
        experiment.save(file)
    assert (len(file.read_text().splitlines()) > 100) == everything


def test_what_no_file_can_hold_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(airfl.UserError, match=r"power\.policy = Own\(\) is not registered"):
        MADE.replace(radio=airfl.Radio(power=Own())).save(tmp_path / "own.toml")
    with pytest.raises(airfl.UserError, match="the task 'Linear' is user-defined"):
        made(task=own_task(), devices=4, selected=2).save(tmp_path / "own.toml")
    assert not list(tmp_path.iterdir())


def test_replace_changes_what_it_names_alone() -> None:
    other = MADE.replace(rounds=7, scheme="fedavg")
    assert (other.rounds, other.scheme) == (7, airfl.schemes.FedAvg())
    assert other.replace(rounds=3, scheme=MADE.scheme) == MADE
    task = own_task()
    own = made(task=task, devices=4, selected=2)
    assert own.replace(rounds=3).task is task
    assert own.settings.task.model == "own"
    with pytest.raises(airfl.UserError, match=r"the experiment already has a task; .*, not both"):
        airfl.run(own, task=own_task())


@pytest.mark.parametrize(
    ("key", "settings_key"),
    [
        ("radio.fading.k", "channel.rician_k"),
        ("radio.power.threshold", "power.threshold"),
        ("radio.max_snr_db", "power.max_snr_db"),
        ("radio.noise_std", "channel.noise_std"),
        ("radio.grid.subcarriers", "grid.subcarriers"),
        ("channel.fading.k", "channel.rician_k"),
        ("scheme.ratio", "scheme.ratio"),
    ],
)
def test_keys_are_those_of_the_objects_or_of_the_file(key: str, settings_key: str) -> None:
    value = 612 if "subcarriers" in key else 0.25
    points = build_points(MADE, {key: value}, SweepPlan({key: [value * 2]} if value != 612 else {}))
    found = airfl.load_settings(MADE, {key: value})
    section, _, name = settings_key.partition(".")
    table = found.scheme.values() if section == "scheme" else dict(getattr(found, section))
    assert table[name] == value
    assert airfl.load_settings(MADE, [f"{key}={value}"]) == found
    assert list(points[0].values) == ([settings_key] if value != 612 else [])
    assert plain_key("scheme.ratio", {}) == "scheme.ratio"


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: made(round=3), "Experiment: unknown argument 'round'; did you mean rounds?"),
        (lambda: made(rounds=0), "Experiment: run.rounds must be at least 1, got 0"),
        (lambda: made(local={"steps": 5}), "Experiment: give exactly one of local.clip_norm and local.gradient_bound"),
        (lambda: made(local=5), "local must be LocalSgd or a mapping of its arguments, got 5"),
        (lambda: made(scheme="pfel"), "Experiment: scheme.name: unknown scheme 'pfel'; did you mean pfels?"),
        (lambda: made(task=5), "task must be an airfl.Task or an airfl.NamedTask, got 5"),
        (lambda: made(radio={"max_snr": 3}), "radio.max_snr: unknown argument 'max_snr' of airfl.Radio"),
        (lambda: made(radio=5), "radio must be an airfl.Radio or a mapping of its arguments, got 5"),
        (lambda: made(selected=2000), "Experiment: run.selected must be at most run.devices = 1000, got 2000"),
        (lambda: airfl.Radio(max_snr=3), "Radio: unknown argument 'max_snr'; did you mean max_snr_db?"),
        (lambda: airfl.Radio(fading="rican"), "Radio: channel.fading: unknown fading law 'rican'; did you mean"),
        (lambda: airfl.LocalSgd(steps=-1), "LocalSgd: steps must be at least 0, got -1"),
        (lambda: airfl.LocalSgd(5), "LocalSgd: takes keyword arguments only, such as epochs=..."),
        (lambda: airfl.Privacy(epsilom=1), "Privacy: epsilom: unknown key; did you mean epsilon?"),
        (lambda: airfl.Settings(local={"steps": 5}), "Settings: give exactly one of local.clip_norm"),
        (lambda: MADE.settings.resolved(run={"rounds": -1}), "Settings: run.rounds must be at least 1, got -1"),
        (lambda: airfl.Experiment.load("dmo"), "dmo: no such settings file"),
        (lambda: airfl.Experiment(scheme="pfels"), "Experiment: local: missing"),
        (lambda: airfl.Experiment(LOCAL), "Experiment: takes keyword arguments only"),
        (lambda: airfl.Radio("rician"), "Radio: takes keyword arguments only, such as fading=..."),
        (lambda: airfl.Radio(fadin="x"), "Radio: unknown argument 'fadin'; did you mean fading? (allowed: fading, "),
        (lambda: airfl.run(MADE, task=torch.nn.Linear(4, 2)), "task must be an airfl.Task, got 'Linear"),
        (lambda: MADE.save("/no/such/folder/x.toml"), "/no/such/folder/x.toml: cannot be written"),
    ],
)
def test_objects_made_by_hand_refuse_wrong_arguments(call: Any, line: str) -> None:
    with pytest.raises(airfl.UserError) as caught:
        call()
    assert str(caught.value).startswith(line)


def test_an_error_of_a_validator_is_told_as_what_it_is() -> None:
    class Broken(Section):
        number: int = 0

        @field_validator("number")
        @classmethod
        def _raises(cls, value: int) -> int:
            raise TypeError("a fault in the code")

    with pytest.raises(TypeError, match="a fault in the code"):
        Broken(number=1)


def test_every_function_takes_an_experiment() -> None:
    small = airfl.Experiment.load(DEMO, ["run.rounds=2", "run.devices=100", "run.selected=8"])
    budget, settings = airfl.link_budget(small), airfl.load_settings(small)
    assert repr(budget.figures()) == repr(airfl.link_budget(settings).figures())
    np.testing.assert_array_equal(budget.round_energy, airfl.link_budget(settings).round_energy)
    assert airfl.privacy(small).epsilon == airfl.privacy(settings).epsilon
    for name in ("run", "compare", "sweep", "tune", "link_budget", "audit"):
        function = getattr(airfl, name)
        function = function._function() if hasattr(function, "__calls__") else function
        assert "airfl.Experiment" in (function.__doc__ or "")


def test_a_part_comes_before_what_is_said_of_it() -> None:
    """In whatever order they are given; an object in the place of one with other parameters."""
    radio = {"fading": "rician", "fading.k": 7.0}
    for given in ({"radio.fading.k": 7.0, "radio.fading": "rician"}, {"radio": radio}):
        assert airfl.load_settings("demo", given).channel.fading_model == fading.Rician(k=7.0)
    assert airfl.Radio(fading="rician") != made(radio=radio).radio
    replaced = airfl.load_settings(MADE, {"radio.fading": fading.Rician(k=7.0)})
    assert replaced.channel.fading_model == fading.Rician(k=7.0)


def test_replace_keeps_what_is_said_beside_an_own_task() -> None:
    held = airfl.NamedTask(validation_share=0.25, partition="dirichlet", dirichlet_alpha=0.3)
    own = airfl.Experiment.of(made(task=held, devices=4, selected=2).settings, own_task()).replace(rounds=3)
    assert (own.settings.task.validation_share, own.settings.task.dirichlet_alpha, own.rounds) == (0.25, 0.3, 3)
    assert own.own_task is not None


def test_arguments_are_listed_and_described() -> None:
    for kind, names in ((airfl.Radio, ("fading", "noise_std", "grid")), (airfl.Experiment, ("scheme", "rounds"))):
        assert set(names) <= set(inspect.signature(kind).parameters)
        assert all(f"{name}:" in (kind.__doc__ or "") for name in names if name not in ("fading",))
