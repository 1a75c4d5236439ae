"""User-defined schemes: as an object, by decorator and in a plugin file; in other processes, resumed and reloaded."""

import importlib.metadata
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import airfl
from airfl.analysis.results import read_results
from airfl.config.plugins import load_plugin
from airfl.errors import UserError
from airfl.schemes.names import SCHEMES
from tests.conftest import SMALL, small_settings
from tests.processes import airfl as airfl_command
from tests.processes import script, succeeded

PLUGIN = '''
from typing import Literal

from airfl.schemes import Scheme
from airfl.schemes.recipe import Problem, Recipe
from airfl.learning.server import Averaging
from airfl.uplinks.stages import Clip, RandK, kept_entries
from channels.part import parameter


class Halved(Scheme):
    """PFELS' compression at half the ratio, without its privacy."""

    name = "halved"
    title = "Halved"
    paper = "nobody (2026)"
    links = ("analog", "ideal")

    ratio: float = parameter(0.5, gt=0, le=1, description="p before it is halved")
    of: Literal["all", "some"] = parameter("all", description="of nothing")

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, mask, average."""
        kept = kept_entries(self.ratio / 2, problem.dimension)
        return Recipe(
            stages=(Clip(problem.settings.local.update_bound), RandK(problem.dimension, kept)),
            uplink=problem.uplink(),
            server=Averaging(problem.settings.server),
        )
'''
SETTINGS = 'plugins = ["mine.py"]\n[run]\nrounds = 3\ndevices = 30\nselected = 4\nevaluate_every = 3\n[local]\nsteps = 2\nclip_norm = 1.0\n[scheme]\nname = "halved"\nratio = 0.4\n'  # noqa: E501
SCRIPT = """

if __name__ == "__main__":
    import sys

    import airfl

    settings = airfl.load_settings("demo", sys.argv[2:]).resolved(scheme={"name": Halved, "ratio": 0.3})
    results = airfl.sweep(settings, {"scheme.ratio": [0.2, 0.4]}, out=sys.argv[1], jobs=2)
    assert not results.failed, results.failed
    print(sorted(run.digest.settings["scheme"]["ratio"] for run in results.runs), results.runs[0].digest.summary.scheme)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(PLUGIN)
    (tmp_path / "mine.toml").write_text(SETTINGS)
    return tmp_path / "mine.toml"


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(SCHEMES, "_registered", dict(SCHEMES._registered))
    monkeypatch.setattr("airfl.config.plugins._allowed", False)


def halved(folder: Path, text: str = PLUGIN) -> Any:
    """The class of the plugin, which is not registered."""
    file = folder / "own.py"
    file.write_text(text)
    return load_plugin(file).Halved


def values(run: airfl.Run) -> dict[str, np.ndarray]:
    with run.trace() as trace:
        return {name: one.values for name, one in trace.load().data_vars.items()}


def test_an_object_runs_as_what_it_is_made_of(tmp_path: Path) -> None:
    """Half of 0.4 is PFELS' 0.2 without a privacy bound: the same numbers, bit for bit."""
    own = small_settings().resolved(scheme={"name": halved(tmp_path), "ratio": 0.4})
    assert repr(own.scheme) == "Halved(ratio=0.4)"
    assert own.resolved(run={"rounds": 2}).scheme is own.scheme
    pfels = small_settings("scheme.ratio=0.2", "privacy.epsilon=inf", "run.rounds=2")
    mine, theirs = values(airfl.run(own.resolved(run={"rounds": 2}))), values(airfl.run(pfels))
    for name in ("test_accuracy", "alignment_coefficient", "energy_j", "update_norm"):
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert airfl.link_budget(own).dimension == 25_450
    with pytest.raises(UserError, match=r"scheme\.ratio must be at most 1, got 2"):
        small_settings().resolved(scheme={"name": halved(tmp_path), "ratio": 2.0})


def test_a_plugin_runs_only_where_it_may(mine: Path) -> None:
    with pytest.raises(UserError, match=r"names plugins \(mine\.py\), which would run code; allow them with --plug"):
        airfl.load_settings(mine)
    settings = airfl.load_settings(mine, ["scheme.of=some"], plugins=True)
    assert repr(settings.scheme) == "Halved(ratio=0.4, of='some')"
    assert airfl.load_settings("demo", ["scheme.name=halved"]).scheme.name == "halved"  # its name is there now
    for key, said in (
        ("scheme.ratio=2.0", r"scheme\.ratio must be at most 1"),
        ("scheme.of=none", r"scheme\.of must be 'all' or 'some', got 'none'"),
        ("scheme.levels=3", "scheme 'halved' has no levels, which belongs to cpsgd"),
        ("scheme.link=digital", r"does not support link 'digital' \(allowed: analog, ideal\)"),
    ):
        with pytest.raises(UserError, match=said):
            airfl.load_settings(mine, [key], plugins=True)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("1 / 0", r"the plugin cannot be loaded \(ZeroDivisionError: division by zero, line 1\)"),
        (PLUGIN.replace('"halved"', '"pfels"'), "scheme 'pfels' already exists; give Halved another name"),
        (None, r"the plugin cannot be read \(No such file or directory\)"),
    ],
)
def test_a_plugin_that_cannot_be_loaded_is_told(mine: Path, content: str | None, said: str) -> None:
    if content is None:
        (mine.parent / "mine.py").unlink()
    else:
        (mine.parent / "mine.py").write_text(content)
    with pytest.raises(UserError, match=said):
        airfl.load_settings(mine, plugins=True)


def test_what_is_no_part_is_not_registered() -> None:
    with pytest.raises(UserError, match=r"is not a part; derive it from one of airfl\.schemes\.scheme\.Scheme"):
        airfl.register(dict)  # type: ignore[type-var]


def test_a_package_offers_schemes_by_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    point = importlib.metadata.EntryPoint("halved", "theirs:Halved", "airfl.schemes")
    SCHEMES.__dict__.pop("_entry_points", None)
    monkeypatch.setattr(
        "channels.part.metadata.entry_points", lambda group: [point] if group == "airfl.schemes" else []
    )
    try:
        assert airfl.load_settings("demo", ["scheme.name=halved"]).scheme.name == "halved"
    finally:
        SCHEMES.__dict__.pop("_entry_points", None)


def test_on_the_command_line_to_the_end(mine: Path) -> None:
    out = mine.parent
    assert "allow them with --plugins" in airfl_command("run", mine, "--out", out / "run").stderr
    assert not (out / "run").exists()
    succeeded(airfl_command("run", mine, "--plugins", "--out", out / "run"))
    with airfl.open_trace(out / "run") as trace:
        assert trace.attrs["scheme"] == "halved"
        assert '"part": "Halved(ratio=0.4)"' in trace.attrs["own_parts"]
    for words in (
        ("results", out / "run"),
        ("report", out / "run"),
        ("export", out / "run", "--to", "channel", "--out", out / "x"),
    ):
        succeeded(airfl_command(*words))
    assert "already complete" in airfl_command("run", mine, "--plugins", "--out", out / "run", "--resume").stderr
    (out / "mine.py").write_text(PLUGIN.replace("self.ratio / 2", "self.ratio / 3"))
    again = airfl_command("run", mine, "--plugins", "--out", out / "run", "--resume")
    assert again.returncode == 2
    assert "contains a complete run with a different version of Halved(ratio=0.4); choose" in again.stderr


def test_a_run_is_not_gone_on_with_by_other_code(tmp_path: Path) -> None:
    def stop(done: int, *_: object) -> None:
        if done == 2:
            raise KeyboardInterrupt

    own = small_settings("run.rounds=4", "run.checkpoint_every=1").resolved(scheme={"name": halved(tmp_path)})
    with pytest.raises(KeyboardInterrupt):
        airfl.run(own, tmp_path / "cut", progress=stop)
    other = own.resolved(scheme={"name": halved(tmp_path, PLUGIN.replace("self.ratio / 2", "self.ratio / 4"))})
    with pytest.raises(UserError, match="its run was started with a different version of Halved"):
        airfl.run(other, tmp_path / "cut", resume=True)
    resumed = values(airfl.run(own, tmp_path / "cut", resume=True))
    for name, whole in values(airfl.run(own)).items():
        np.testing.assert_array_equal(resumed[name], whole, err_msg=name)


def test_a_sweep_of_a_class_in_a_script_and_of_a_plugin(mine: Path) -> None:
    """In two processes each, which cannot import either; points of other code do not go beside those that are there."""
    folder = mine.parent
    (folder / "script.py").write_text(PLUGIN + SCRIPT)
    done = succeeded(script(folder / "script.py", folder / "swept", *SMALL))
    assert done.stdout.splitlines()[-1] == "[0.2, 0.4] halved"
    settings = airfl.load_settings(mine, plugins=True)
    found = airfl.sweep(settings, {"scheme.ratio": [0.2, 0.6]}, out=folder / "sweep", jobs=1)
    assert not found.failed
    shutil.rmtree(folder / "swept")
    (folder / "mine.py").write_text(PLUGIN.replace("self.ratio / 2", "self.ratio / 3"))
    with pytest.raises(UserError, match="contains points with other code for scheme; choose another --out"):
        airfl.sweep(mine, {"scheme.ratio": [0.2]}, out=folder / "sweep", plugins=True)
    assert len(read_results(folder / "sweep").runs) == 2
