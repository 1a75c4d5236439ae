"""`airfl check`: a correct scheme passes, and each single bug is found by the check named after it."""

import importlib
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import airfl
from airfl.config.plugins import defined_parts, load_plugin
from airfl.errors import UserError
from airfl.schemes import FedAvg
from airfl.schemes.names import SCHEMES
from airfl.schemes.scheme import Scheme
from airfl.study.check import check_file, check_part
from airfl.study.check.finding import Finding, findings
from airfl.study.check.parts import checks as of_every_part
from airfl.study.check.scheme import checks as of_schemes
from tests.conftest import fitting
from tests.processes import airfl as command

pytestmark = pytest.mark.usefixtures("no_plugins_left")

GOOD = '''
import math
from dataclasses import replace

import numpy as np
import torch

import airfl
from airfl.learning.work import LocalSgd
from airfl.privacy.events import Gaussian
from airfl.schemes.release import ClientRelease
from airfl.schemes import Scheme
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Claim, Recipe
from airfl.learning.server import Averaging
from airfl.uplinks.stages import Clip, Coder
from airfl.uplinks.stages.device_noise import of_each_device
from airfl.runtime.store import DeviceState
from airfl.runtime.streams import Purpose
from channels.part import parameter

# more
class Slowed:
    """m <- share x + (1 - share) m, with noise of std on every entry of what is sent."""

    def __init__(self, dimension, share, std):
        self.dimension, self.share, self.std, self.own = dimension, share, std, {}

    def bound(self, before):
        return replace(
            before,
            peak=math.inf,
            rms=math.hypot(before.rms, self.std * math.sqrt(before.entries)),
            sensitivity=before.peak,
            noise_std=self.std,
            device_state=(*before.device_state, DeviceState("slowed", self.dimension)),
        )

    def open(self, opened):
        def encode(batch):
            devices = opened.devices[batch.rows]
            before = opened.store.read_all("slowed", devices, batch.messages[0])
            moved = self.share * batch.messages + (1 - self.share) * before
            opened.store.write_all("slowed", devices, moved)
            drawn = of_each_device(
                opened, batch, Purpose.PRIVACY_NOISE, lambda own: own.standard_normal(self.dimension), np.float32
            )
            return batch.of(moved + self.std * opened.device_noise_factor * torch.from_numpy(drawn))

        return Coder(encode, decode=lambda mean: mean)


@airfl.register
class Good(Scheme):
    """Slowed and noisy updates."""

    name = "good"
    title = "Good"
    paper = "Nobody: nothing (2026)"
    links = ("ideal", "analog")
    uses = LOCAL_SGD

    share: float = parameter(0.5, gt=0, le=1, description="of the update")

    def recipe(self, problem):
        settings = problem.settings
        slowed = Slowed(problem.dimension, self.share, 0.01 * settings.local.update_bound)
        return Recipe(
            stages=(Clip(settings.local.update_bound), slowed),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
        )
'''

STAGES, SERVER = "stages=(Clip(settings.local.update_bound), slowed),", "server=Averaging(settings.server),"
ABOVE, READ = "# more", 'opened.store.read_all("slowed", devices, batch.messages[0])'

IDLE = """class Idle(LocalSgd):
    def build(self, *given):
        trainer = super().build(*given)
        trainer.evaluations = lambda devices, index: np.zeros(len(devices), dtype=np.int64)
        return trainer"""
LOOSE = """class Loose(Clip):
    def open(self, opened):
        return Coder(lambda batch: batch, decode=lambda mean: mean)"""
HIDDEN = """class Hidden(ClientRelease):
    def event(self, noise_multiplier):
        return Gaussian(1.0)"""

# The check -> what is written instead of what, and what is said of it.
BROKEN: dict[str, tuple[dict[str, str], str]] = {
    "name": ({'name = "good"': 'name = "Good_1"'}, "the name must be lower case"),
    "transport": (
        {
            ABOVE: "import threading\nLOCK = threading.Lock()",
            "settings = problem.settings": "settings = problem.settings if LOCK else None",
        },
        "cannot be sent to another process",
    ),
    "declaration": ({"uses = LOCAL_SGD": 'uses = frozenset({"local.lerning_rate"})'}, "got 'local.lerning_rate'"),
    "run": (
        {"self.share, 0.01": "self.shares, 0.01"},
        "AttributeError: 'Good' object has no attribute 'shares' (mine.py, line 67)",
    ),
    "costs": ({ABOVE: IDLE, SERVER: f"{SERVER} local=Idle(),"}, "gradient_evaluations must be positive, got 0"),
    "clipping": ({STAGES: "stages=(slowed,),"}, "a message is 1000 times longer; add Clip("),
    "bounds": ({"sensitivity=before.peak": "sensitivity=before.peak / 4"}, "declare a sensitivity of 0.25"),
    "bounds: rms": ({"before.rms, self.std": "before.rms / 4, self.std"}, "declare an rms of 1.6"),
    "bounds: peak": (
        {ABOVE: LOOSE, STAGES: STAGES.replace("slowed", "slowed, Loose(1.0)")},
        "bound() states a peak of 1",
    ),
    "noise": (
        {"moved + self.std": "moved + 0.5 * self.std"},
        "an entry's noise has 0.5001 times the standard deviation",
    ),
    "privacy": (
        {ABOVE: HIDDEN, SERVER: f"{SERVER} release=Hidden(),", "noise_std=self.std,": ""},
        "epsilon of a round without noise must be inf",
    ),
    "epsilon": (
        {SERVER: f'{SERVER} claim=Claim(lambda report, rounds: 6 / rounds, "run"),'},
        "epsilon_paper decreases: 6, 3, 2, 1.5",
    ),
    "seed": ({"torch.from_numpy(drawn)": "torch.randn(drawn.shape)"}, "in a second run of the same seed, not"),
    "chunks": ({"self.share * batch": "len(batch.values) / 8 * self.share * batch"}, "the decoded mean changes by"),
    "budget": (
        {ABOVE: "from itertools import count\nBITS = count(8)", "noise_std=": "value_bits=next(BITS), noise_std="},
        "the link budget has",
    ),
    "links": ({STAGES: "stages=(slowed,),"}, "the analog link is in `links`, but a run over it fails: scheme.link"),
    "memory": (
        {'device_state=(*before.device_state, DeviceState("slowed", self.dimension)),': ""},
        "a device keeps 101,800 bytes, but `device_state` declares 0",
    ),
    "resume": (
        {
            READ: "torch.stack([self.own.get(one, torch.zeros(self.dimension)) for one in devices.tolist()])",
            "return batch.of(": "self.own.update(zip(devices.tolist(), moved))\n            return batch.of(",
        },
        "in the resumed run, not",
    ),
    "parameters": ({"problem.dimension, self.share": "problem.dimension, 0.5"}, "share is never read"),
    "unused": ({"0.01 * settings": "settings.server.kappa * settings"}, "with server.kappa = 0.1, which `uses`"),
}


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these files register is forgotten."""
    monkeypatch.setattr(SCHEMES, "_registered", {})


def written(folder: Path, changes: dict[str, str] | None = None) -> Path:
    """A file with the good scheme, texts of it replaced, each of which is there once."""
    text = GOOD
    for old, new in (changes or {}).items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = folder / "mine.py"
    file.write_text(text)
    return file


def scheme_of(file: Path) -> Scheme:
    (kind,) = defined_parts(load_plugin(file))
    assert issubclass(kind, Scheme)
    return kind()


@pytest.mark.parametrize("case", BROKEN)
def test_a_bug_is_found_by_the_check_that_is_named_for_it(case: str, tmp_path: Path) -> None:
    changes, told = BROKEN[case]
    part, name = scheme_of(written(tmp_path, changes)), case.partition(":")[0]
    (check,) = (one for one in (*of_every_part(part), *of_schemes(part)) if one.name == name)
    (found,) = findings(part.name, "scheme", [replace(check, after=())], type(part))
    assert (found.outcome, told in found.found) == ("wrong", True), found
    assert "\n" not in found.found


def test_every_check_finds_something() -> None:
    assert {case.partition(":")[0] for case in BROKEN} | {"variables"} == {
        one.name for one in (*of_every_part(SCHEMES["pfels"]()), *of_schemes(SCHEMES["pfels"]()))
    }


def test_a_good_scheme_passes_with_exit_code_0(tmp_path: Path) -> None:
    """In an empty folder, from the file alone; overrides reach the runs, and the schemes that have them."""
    done = command("check", str(written(tmp_path)), "scheme.share=0.25", "power.max_snr_db=20", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    header, *lines = done.stdout.splitlines()
    assert header.split()[:3] == ["part", "check", "result"]
    assert len(lines) == 3 + len(of_schemes(SCHEMES["pfels"]()))
    assert all(line.split()[0] == "good" and line.split()[2] == "ok" for line in lines)
    assert "checks passed" in done.stderr


def test_a_broken_one_ends_with_exit_code_2(tmp_path: Path) -> None:
    file = written(tmp_path, BROKEN["run"][0])
    done = command("check", str(file), "--json", cwd=tmp_path)
    assert done.returncode == 2
    found = [Finding(**one) for one in json.loads(done.stdout)]
    outcomes = {one.check: one.outcome for one in found}
    assert outcomes["run"] == "wrong"
    assert outcomes["declaration"] == "ok"
    assert (outcomes["costs"], outcomes["seed"]) == ("not checked", "not checked")
    assert done.stderr.splitlines() == [f"airfl: {file}: 1 of 20 checks failed (good: run)"]


@pytest.mark.parametrize(
    ("text", "overrides", "told"),
    [
        ("x = 1", (), "defines no part; add a class that has a name and derives from one of Scheme"),
        ("import nonsense_of_nobody", (), "the plugin cannot be loaded (ModuleNotFoundError"),
        (None, (), "the plugin cannot be read"),
        (GOOD, ("scheme.shares=1",), "scheme.shares: none of the parts in mine.py has this parameter (good)"),
    ],
)
def test_what_is_no_file_of_parts_is_refused_in_one_line(
    text: str | None, overrides: tuple[str, ...], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path("mine.py").write_text(text)
    with pytest.raises(UserError, match=re.escape(told)) as raised:
        check_file("mine.py", overrides)
    assert "\n" not in str(raised.value)


COUNTED: set[int] = set()


class Counting(FedAvg):
    """It tells on how many threads it is run."""

    name = "counting"

    def recipe(self, problem: Any) -> Any:
        COUNTED.add(torch.get_num_threads())
        return super().recipe(problem)


def test_schemes_are_checked_on_the_threads_of_the_short_runs() -> None:
    """Where several wait for each other, a check takes minutes on a busy machine."""
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        named = {"run", "clipping", "chunks", "memory"}
        short = [replace(one, after=()) for one in of_schemes(Counting()) if one.name in named]
        COUNTED.clear()
        assert {one.outcome for one in findings("counting", "scheme", short, Counting)} == {"ok"}
        assert {1} == COUNTED
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


def test_a_part_that_needs_a_parameter_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And any class may be checked, registered or not."""
    file = written(tmp_path, {"parameter(0.5, gt=0": "parameter(gt=0", "@airfl.register\n": ""})
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = airfl.check_part(importlib.import_module(file.stem).Good)
    monkeypatch.delitem(sys.modules, file.stem)
    assert (found.check, found.outcome) == ("defaults", "wrong")
    assert found.found == "scheme 'good' needs share: of the update"
    assert "good" not in SCHEMES
    with pytest.raises(UserError, match="is not a part; derive it from one of"):
        airfl.check_part(str)  # type: ignore[arg-type]


@pytest.mark.full
@pytest.mark.parametrize("name", SCHEMES)
def test_nothing_is_wrong_with_the_schemes_that_come_with_airfl(name: str) -> None:
    shorter = fitting(name, ("scheme.ratio=0.5", "scheme.trials=20000", "scheme.levels=16"))[1:]
    assert [one for one in check_part(SCHEMES[name], shorter) if one.outcome != "ok"] == []
