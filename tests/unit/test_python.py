"""airfl from Python: types of configurations and overrides, one-line errors, and displayed objects."""

import ast
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

import airfl
from airfl.config import Row, Settings, load_rows, to_json
from airfl.config.load import read_tables
from airfl.config.plugins import REGISTRIES
from airfl.schemes import Pfels
from airfl.schemes.names import SCHEMES
from airfl.study.sweeps.points import SweepPlan, build_points
from airfl.study.sweeps.tuning import points_of, rows_to_tune
from channels.part import PartError, Registry, parameters_of
from tests.conftest import DEMO, ROOT, small_settings
from tests.processes import forked_workers as forked_workers
from tests.refusals import one_line
from tests.small_data import LITTLE

SNRS = [5.0, 7.5]
ASKED = ("scheme.ratio=0.1", "run.rounds=3", f"power.max_snr_db={SNRS}")
EXPECTED = airfl.load_settings(DEMO, ASKED)
DEFAULTS = airfl.load_settings(DEMO)
FLAT = {f"{section}.{key}": value for section, table in EXPECTED.model_dump().items() for key, value in table.items()}
PLAIN = {key: value for key, value in read_tables(DEMO).items() if key != "compare"}


class Unnamed(Pfels):
    """A scheme that no name stands for."""

    name = "unnamed"


@pytest.mark.parametrize(
    ("config", "overrides"),
    [
        ("demo", list(ASKED)),
        (str(DEMO), ASKED),
        (DEMO, {"scheme.ratio": 0.1, "run.rounds": 3, "power.max_snr_db": [5.0, 7.5]}),
        ("demo", {"scheme": Pfels(ratio=0.1), "run": {"rounds": 3}, "power.max_snr_db": (5.0, 7.5)}),
        ("demo", {"scheme": {"ratio": np.float64(0.1)}, "run.rounds": np.int64(3), "power.max_snr_db": np.array(SNRS)}),
        ("demo", {"scheme": Pfels, "scheme.ratio": 0.1, "run.rounds": 3, "power.max_snr_db": [5.0, 7.5]}),
        (DEFAULTS, ASKED),
        (EXPECTED, ()),
        (PLAIN, ASKED),
        (EXPECTED.model_dump(), ()),
        (FLAT, {}),
        (dict(EXPECTED), ()),
        ({**dict(EXPECTED), "scheme": Pfels(ratio=0.7), "scheme.ratio": 0.1}, ()),
        ({**dict(EXPECTED), "scheme": "pfels"}, {"scheme.ratio": 0.1}),
    ],
)
def test_every_form_gives_the_same_settings(config: Any, overrides: Any) -> None:
    found = airfl.load_settings(config, overrides)
    assert found == EXPECTED
    assert found.model_dump_json() == EXPECTED.model_dump_json()
    assert build_points(config, overrides, SweepPlan())[0].settings == EXPECTED


def test_another_scheme_as_an_object_drops_what_it_has_no_use_for() -> None:
    scheme = airfl.load_settings("demo", {"scheme": airfl.schemes.WflP()}).scheme
    assert scheme == airfl.schemes.WflP()
    own = airfl.load_settings(airfl.load_settings("demo", {"scheme": Unnamed(ratio=0.2)}), {"run.rounds": 3}).scheme
    assert own == Unnamed(ratio=0.2)
    assert airfl.load_settings(EXPECTED) is EXPECTED


HELD_OUT = {"task.validation_share": 0.1, "task.public_samples": 0}
RATIOS, RATION = {"scheme.ratio": [0.1, 0.3]}, {"scheme.ration": 0.1}
WRONG = {
    "run('dmo')": "dmo: no such settings file or shipped configuration; did you mean demo?",
    "run(5)": "config must be a settings file, the name of a shipped one, a dict of tables, settings, or an experiment",
    "run()": "run: missing a required argument: 'config'",
    "run('demo', outt='x')": "run: unknown argument 'outt'; did you mean out?",
    "run('demo', rounds=5)": "run: unknown argument 'rounds'; did you mean overrides={'run.rounds': ...}?",
    "run('demo', ratio=0.1)": "run: unknown argument 'ratio'; did you mean overrides={'scheme.ratio': ...}?",
    "run('demo', out=5)": "run: out must be the path of a folder, for instance 'runs/first', got 5",
    "run('demo', device=5)": "run: device must be 'cpu', 'cuda' or 'cuda:1', got 5",
    "run('demo', device='gpu')": "--device: unknown value 'gpu'; did you mean cpu?",
    "run('demo', progress='yes')": "run: progress must be True, False or a function, got 'yes'",
    "run('demo', overrides='run.rounds=5')": (
        "overrides must be a list or a mapping, for instance ['run.rounds=50'] or {'run.rounds': 50}, got 'run.rounds="
    ),
    "run('demo', overrides=[5])": "override 5 must have the form section.key=value",
    "run('demo', overrides=RATION)": "demo: scheme.ration: scheme 'pfels' has no ration; did you mean ratio?",
    "run('demo', overrides={'rounds': 5})": "rounds: unknown section; did you mean run.rounds?",
    "run('demo', overrides={'run': 5})": "run must be a table [run], got 5",
    "run('demo', overrides={'scheme': 5})": "scheme must be a scheme, its name, or a table, got 5",
    "run('demo', overrides={5: 5})": "5: keys must be sections or dotted keys, for instance {'run.rounds': 50}",
    "run('demo', overrides={'compare': []})": "override 'compare': only settings",
    "link_budget({'rnu': {}})": "settings: rnu: unknown section; did you mean run?",
    "link_budget({})": "settings: local: missing; [local] needs epochs or steps, and clip_norm or gradient_bound",
    "link_budget('demo', overrides={'run.rounds': '5'})": "demo: run.rounds must be an integer, got '5'",
    "load_settings('demo', overrides={'run.devics': 5})": "demo: run.devics: unknown key; did you mean devices?",
    "privacy('demo', override=())": "privacy_of: unknown argument 'override'; did you mean overrides?",
    "audit('demo', trials='many')": "audit: trials must be a positive integer, got 'many'",
    "audit('demo', others='quiet')": "--others: unknown value 'quiet'; did you mean silent?",
    "sweep('demo', RATIOS)": "sweep: missing a required argument: 'out'",
    "sweep('demo', RATIOS, out='x', seeds=0)": "sweep: seeds must be a positive integer, got 0",
    "sweep('demo', RATIOS, out='x', jobs='two')": (
        "sweep: jobs must be a positive integer, or 0 for as many as fit, got 'two'"
    ),
    "sweep('demo', {'scheme.ratio': 0.1}, out='x')": "scheme.ratio: values to sweep over must be a list",
    "sweep('demo', ['scheme.ratio=0.1'], out='x')": "axes must be a mapping of dotted keys to values",
    "sweep('demo', {'ratio': [0.1]}, out='x')": "ratio: must be a dotted key section.key; did you mean scheme.ratio?",
    "sweep('demo', {'scheme': [5]}, out='x')": "scheme: must be a dotted key section.key; did you mean scheme.name?",
    "sweep('demo', out='x', points=[5])": "points: must be settings by dotted key",
    "sweep('demo', out='x', rows={})": "rows must be a mapping of labels to overrides",
    "sweep('demo', RATIOS, out='x', zipped=['scheme.ratio'])": "zipped must be a list of groups of keys",
    "compare('demo')": "compare: out is missing; give a new folder for the runs, for instance out='runs/compared'",
    "compare('demo', out='x', schemes='pfels')": "compare: schemes must be a list of names",
    "compare('demo', out='x', schemes=['pfles'])": "demo: scheme.name: unknown scheme 'pfles'; did you mean pfels?",
    "compare('demo', out='x', rows={'a': RATION})": (
        "row 'a': scheme.ration: scheme 'pfels' has no ration; did you mean ratio?"
    ),
    "tune('demo', {}, out='x')": "nothing to tune; give values to try",
    "tune('demo', {'local.learning_rate': [0.1]}, out='x')": "task.validation_share: must be positive",
    "tune('demo', {'local.learning_rate': airfl.Interval(0.1, 0.2)}, out='x', overrides=HELD_OUT)": (
        "local.learning_rate: an interval cannot be tried in full"
    ),
    "tune('demo', RATIOS, out='x', schemes=['pfels', 'fedavg'], overrides=HELD_OUT)": (
        "scheme.ratio: scheme 'fedavg' does not have this key"
    ),
    "Interval(2, 1)": "an interval must have low < high",
    "open_trace(5)": "expected the path of a file or folder, for instance 'runs/first', got 5",
    "read_results([5])": "expected the path of a file or folder, for instance 'runs/first', got 5",
    "export('x', 5, 'y')": "--to: unknown value '5'",
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_is_refused_in_one_line(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(airfl.UserError, match=one_line(begins=WRONG[call])):
        eval(f"airfl.{call}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("call", "line"),
    [
        ("ration=0.1", "Pfels has no ration; did you mean ratio? (allowed: link, ratio, rescale, error_feedback)"),
        ("0.1", "parameters of Pfels are keyword-only (link, ratio, rescale, error_feedback), got 0.1"),
        ("ratio=2", "ratio must be at most 1, got 2.0"),
    ],
)
def test_a_part_refuses_a_wrong_parameter_in_one_line(call: str, line: str) -> None:
    with pytest.raises(PartError) as caught:
        eval(f"Pfels({call})")
    assert str(caught.value) == line


def figures(summary: airfl.Summary) -> str:
    """All of them, nan being nan."""
    return to_json(vars(summary))


def test_rows_are_compared_as_they_are_given(tmp_path: Path) -> None:
    """Rows of a mapping, with their seeds, are the runs that complete rows are; one trace is that of a single run."""
    rows = {"a tenth": {"scheme.ratio": 0.1}, "wfl-p": ["scheme.name=wfl-p"]}
    seen: list[tuple[str, int]] = []
    settings = small_settings(*LITTLE)
    one = airfl.compare(settings, 1, tmp_path / "one", rows=rows, progress=lambda *told: seen.append(told[:2]))
    complete = load_rows(settings, given=rows)
    assert complete[0] == Row("a tenth", small_settings(*LITTLE, "scheme.ratio=0.1"))
    other = airfl.compare(complete, out=tmp_path / "other")
    assert [figures(row.summaries[0]) for row in one] == [figures(row.summaries[0]) for row in other]
    assert seen == [("a tenth", 1), ("a tenth", 2), ("wfl-p", 1), ("wfl-p", 2)]
    assert repr(one[0]).startswith("RowResult(label='a tenth', seeds=1, test_accuracy=(")


@pytest.mark.usefixtures("forked_workers")
def test_progress_is_shown_when_it_is_asked_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Lines where there is no terminal, as in a notebook; and the log is left as it was."""
    settings = small_settings(*LITTLE)
    quiet = airfl.run(settings, progress=False)
    assert capsys.readouterr().err == ""
    shown = airfl.run(dict(settings), tmp_path / "run", progress=True)
    assert "pfels: round 2/2, accuracy" in capsys.readouterr().err
    assert figures(quiet.summary()) == figures(shown.summary())
    assert repr(shown) == f"Run(scheme=Pfels(ratio=0.3), rounds=2, seed=0, path='{tmp_path / 'run' / 'trace.h5'}')"
    axes, rows = {"scheme.ratio": np.array([0.1])}, {"one": {"local.learning_rate": 0.2}}
    results = airfl.sweep(settings, axes, rows=rows, out=tmp_path / "sweep", progress=True)
    assert "1 of 1 points, done in" in capsys.readouterr().err
    assert repr(results) == "Results(runs=1, groups=1, axes=('scheme.ratio',))"
    assert results.runs[0].label == "one"
    alone = airfl.run(settings, overrides={"scheme.ratio": 0.1, "local.learning_rate": 0.2})
    assert figures(results.runs[0].digest.summary) == figures(alone.summary())


def test_each_row_of_a_file_is_tuned_though_its_scheme_has_not_all_keys_of_the_file() -> None:
    rows = rows_to_tune("demo")
    tried = {row.label: [{"local.learning_rate": 0.1}] for row in rows}
    assert len(points_of("demo", HELD_OUT, rows, tried, 1)) == len(rows) > 2


@pytest.mark.parametrize("name", ["audit", "compare", "privacy"])
def test_a_module_that_is_called_is_still_a_module(name: str) -> None:
    module = getattr(airfl, name)
    assert module is import_module(f"airfl.{name}")
    assert pickle.loads(pickle.dumps(module)) is module
    assert "overrides" in inspect.signature(module).parameters


def test_privacy_of_a_name_is_that_of_its_settings() -> None:
    few = {"run.rounds": 2}
    found = airfl.privacy("demo", overrides=few)
    assert found.figures() == airfl.privacy(airfl.load_settings("demo", few)).figures()
    assert repr(found).startswith("RunPrivacy(scheme='pfels', rounds=2, epsilon_paper=")


WITHOUT_TORCH = """
import sys, airfl
names = dir(airfl)
assert airfl.schemes.Pfels(ratio=0.3) == airfl.load_settings("demo").scheme
help(airfl.schemes.Pfels)
assert not {"torch", "sionna", "matplotlib"} & set(sys.modules)
"""


def test_what_there_is_is_listed_and_loads_no_torch() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT_TORCH], check=False, cwd=ROOT).returncode == 0
    assert {*airfl.__all__, "tasks", "results"} <= set(dir(airfl))
    for name in dir(airfl):
        assert getattr(airfl, name) is not None
    with pytest.raises(AttributeError, match="'rnu'"):
        _ = airfl.rnu
    assert {*SCHEMES.classes, "Scheme"} <= set(dir(airfl.schemes))


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda one: one.kind)
def test_editors_see_every_class(registry: Registry[Any]) -> None:
    """They do not run `__getattr__`: there is an import for them in the room of the kind."""
    room = registry.base.__module__.rpartition(".")[0]
    tree = ast.parse((ROOT / room.replace(".", "/") / "__init__.py").read_text())
    names = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    assert {*registry.classes, registry.base.__name__} <= {one.asname or one.name for one in names}
    with pytest.raises(AttributeError, match=f"module '{room}' has no attribute 'Nothing'"):
        _ = import_module(room).Nothing


@pytest.mark.parametrize("name", ["accountants", "datasets", "models", "partitions"])
def test_the_shorter_names_are_the_modules(name: str) -> None:
    assert import_module(f"airfl.{name}") is getattr(airfl, name)
    assert getattr(airfl, name).__name__.startswith(("airfl.learning.tasks.", "airfl.privacy."))


@pytest.mark.parametrize("name", sorted(SCHEMES))
def test_help_has_each_parameter_of_a_scheme(name: str) -> None:
    part = SCHEMES[name]
    documented = inspect.getdoc(part) or ""
    assert documented.count("Args:") == 1
    for one in parameters_of(part):
        assert f"    {one.name} (" in documented
        assert one.description.rstrip(".") in documented
        assert inspect.signature(part).parameters[one.name].default == one.default
    assert "ratio (float): p, the fraction of coordinates" in (Pfels.__doc__ or "")
    assert "more than 0 and at most 1; default 1.0." in (Pfels.__doc__ or "")


def test_every_field_of_a_public_class_has_a_line() -> None:
    sections = [field.annotation for field in Settings.model_fields.values()]
    public = [getattr(airfl, name) for name in airfl.__all__]
    for kind in [*public, *sections]:
        if not isinstance(kind, type):
            continue
        names = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
        names += kind.model_fields if issubclass(kind, BaseModel) else []
        for name in names:
            assert re.search(rf"\n    {name}(: | \()", f"{inspect.getdoc(kind)}"), (kind, name)


def test_settings_say_what_is_not_at_its_default() -> None:
    given = {"local.steps": 5, "local.clip_norm": 1.0, "scheme.ratio": 0.3}
    assert repr(airfl.load_settings(given)) == "Settings(local.steps=5, local.clip_norm=1.0, scheme=Pfels(ratio=0.3))"
    assert str(EXPECTED.run) == "Run(rounds=3)"
