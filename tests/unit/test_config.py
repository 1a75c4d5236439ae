"""Settings: accepted values, and one-line errors for others."""

import json
import math
from pathlib import Path

import pytest

from airfl.config import Settings, load_rows, load_settings, to_json
from airfl.config.parts import section_of
from airfl.errors import UserError
from airfl.schemes import FedSpa, WflP
from tests.conftest import small_settings
from tests.radios import check_radio
from tests.refusals import one_line

MINIMAL = "[local]\nsteps = 2\nclip_norm = 1.0\n"


@pytest.fixture
def minimal(tmp_path: Path) -> Path:
    path = tmp_path / "minimal.toml"
    path.write_text(MINIMAL)
    return path


def message(path: Path, *overrides: str) -> str:
    """The error of a setting that cannot be used; it is one line."""
    with pytest.raises(UserError, match=one_line()) as caught:
        load_settings(path, overrides)
    return str(caught.value)


def test_everything_else_has_a_default(minimal: Path) -> None:
    """Of overrides the last one wins; values are TOML, else text."""
    settings = load_settings(minimal)
    assert (settings.run.devices, settings.run.selected, settings.run.seed) == (1000, 32, 0)
    assert (settings.delta, settings.grid.subcarriers, settings.power.max_snr_db) == (1 / 1000, 3300, [2.0, 15.0])
    overrides = ["power.max_snr_db=[5, 7.5]", "scheme.name=wfl-p", "privacy.epsilon=inf", "run.seed=3", "run.seed=4"]
    settings = load_settings(minimal, overrides)
    assert (settings.power.max_snr_db, settings.scheme.name, settings.run.seed) == ([5.0, 7.5], "wfl-p", 4)
    assert settings.privacy.epsilon == math.inf


def test_clip_norm_from_the_gradient_bound(tmp_path: Path) -> None:
    path = tmp_path / "bound.toml"
    path.write_text("[local]\nsteps = 5\nlearning_rate = 0.1\ngradient_bound = 2.0\n")
    assert load_settings(path).local.update_bound == pytest.approx(0.1 * 5 * 2.0)
    assert "clip_norm" in message(path, "local.steps=0", "local.epochs=5")


@pytest.mark.parametrize(
    ("override", "key", "hint"),
    [
        ("run.devics=3", "run.devics", "did you mean devices?"),
        ("rnu.rounds=3", "rnu", "did you mean run?"),
        ("run.rounds=many", "run.rounds", "integer"),
        ("run.rounds=2.5", "run.rounds", "integer"),
        ("run.rounds=true", "run.rounds", "integer"),
        ("run.selected=2000", "run.selected", "2000"),
        ("scheme.name=pfel", "scheme.name", "did you mean pfels?"),
        ("scheme.rescale=1", "scheme.rescale", "true or false"),
        ("channel.noise_std=1e-300", "channel.noise_std", "between 1e-20 and 1e20"),
        ("channel.min_gain=5.0", "channel.min_gain", "max_gain"),
        ("power.max_snr_db=[15, 2]", "power.max_snr_db", "low <= high"),
        ("power.max_snr_db=loud", "power.max_snr_db", "number"),
        ("local.epochs=1", "local.epochs", "exactly one"),
        ("local.gradient_bound=1.0", "local.gradient_bound", "exactly one"),
        ("trace.signals=[0, 100]", "trace.signals", "less than run.rounds = 100"),
        ("trace.signals=[-1]", "trace.signals", "at least 0, got [-1]"),
        ("run=3", "run=3", "section.key=value"),
        ("run.rounds", "run.rounds", "section.key=value"),
    ],
)
def test_one_line_names_key_and_remedy(minimal: Path, override: str, key: str, hint: str) -> None:
    with pytest.raises(UserError, match=one_line(key, hint)):
        load_settings(minimal, [override])


def test_files_that_are_no_settings(tmp_path: Path) -> None:
    assert "no such settings file" in message(tmp_path / "none.toml")
    assert "cannot be read" in message(tmp_path)
    broken = tmp_path / "broken.toml"
    for content, said in (
        (b"[run\nrounds = 3", "not valid TOML"),
        (b"\xff\xfe\x00", "not valid TOML"),
        (b"run = 3\n" + MINIMAL.encode(), "run must be a table [run], got 3"),
        (b"[run]\nrounds = 3\n", "local"),
    ):
        broken.write_bytes(content)
        assert said in message(broken)


def test_rows_take_dotted_keys_bare_or_quoted(tmp_path: Path) -> None:
    path = tmp_path / "rows.toml"
    path.write_text(
        MINIMAL + '[[compare]]\nlabel = "a"\nscheme.name = "wfl-p"\n'
        '[[compare]]\nlabel = "b"\n"scheme.ratio" = 0.5\nserver.learning_rate = 0.3\n'
    )
    first, second = load_rows(path, ["run.seed=7", "scheme.ratio=0.9"])
    assert (first.label, first.settings.scheme.name, first.settings.run.seed) == ("a", "wfl-p", 7)
    assert (second.settings.scheme.ratio, second.settings.server.learning_rate) == (0.5, 0.3)
    by_scheme = load_rows(path, [], ["fedavg", "pfels"])
    assert [row.settings.scheme.name for row in by_scheme] == ["fedavg", "pfels"]


def test_another_scheme_leaves_the_keys_of_the_one_before_behind(tmp_path: Path) -> None:
    """Of the file; what is given beside its name has to be its own."""
    path = tmp_path / "pfels.toml"
    path.write_text(MINIMAL + '[scheme]\nname = "pfels"\nratio = 0.5\nrescale = true\n')
    assert load_settings(path, ["scheme.name=wfl-p"]).scheme == WflP()
    assert load_settings(path, ["scheme.name=fed-spa"]).scheme == FedSpa(ratio=0.5)
    assert "scheme 'wfl-p' has no ratio" in message(path, "scheme.ratio=0.1", "scheme.name=wfl-p")
    assert "scheme 'pfels' has no levels, which belongs to cpsgd" in message(path, "scheme.levels=3")
    path.write_text(MINIMAL + '[scheme]\nname = "wfl-p"\nratio = 0.5\n')
    assert "scheme 'wfl-p' has no ratio" in message(path)


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    path = tmp_path / "rows.toml"
    for row, said in (
        ("", r"no \[\[compare\]\] rows"),
        ('[[compare]]\nscheme.name = "pfels"\n', "row 1: needs a label"),
        ('[[compare]]\nlabel = "a"\nscheme.nmae = "pfels"\n', r"row 1.*did you mean name"),
        (
            '[[compare]]\nlabel = "a"\n"run.rounds.x" = 1\n',
            r"row 1 \(a\): run\.rounds\.x: run\.rounds has no parameters",
        ),
    ):
        path.write_text(MINIMAL + row)
        with pytest.raises(UserError, match=said):
            load_rows(path)


def test_settings_survive_json_with_infinity(minimal: Path) -> None:
    settings = load_settings(minimal, ["privacy.epsilon=inf"])
    text = to_json(settings.model_dump())
    assert json.loads(text)["privacy"]["epsilon"] == "inf"
    assert Settings.model_validate(json.loads(text)) == settings


def test_the_schema_lists_every_section_and_the_tables_names() -> None:
    """And says of every setting what it is."""
    schema = Settings.model_json_schema()
    assert set(schema["properties"]) == set(Settings.model_fields)
    assert "pfels" in section_of(schema, "scheme")["properties"]["name"]["enum"]
    for section in (section_of(schema, name) for name in schema["properties"]):
        assert not [name for name, field in section["properties"].items() if "description" not in field]
    json.loads(to_json(schema))


def test_a_spacing_whose_symbols_are_no_setting_is_refused_before_the_run() -> None:
    said = "gives symbols of 1.07143e+20 s; "
    with pytest.raises(UserError, match=one_line(said, " 1e-20 to 1e+20 s", begins="grid: spacing_hz = 1e-20 ")):
        check_radio(small_settings("grid.spacing_hz=1e-20"))


@pytest.mark.parametrize("given", ["x" * 5000, [1.0] * 3000, {"x" * 5000: 1}, {"name": [[1] * 3000]}])
@pytest.mark.parametrize("key", ["run.rounds", "local.engine", "task.model", "power.max_snr_db", "privacy.accountant"])
def test_of_a_long_value_a_message_quotes_a_part(key: str, given: object, minimal: Path) -> None:
    with pytest.raises(UserError, match=one_line(key)) as caught:
        load_settings(minimal, {key: given})
    assert len(str(caught.value)) < 500
