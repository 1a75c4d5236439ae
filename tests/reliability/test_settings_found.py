"""Regression tests of faults found by test_settings.py, and invalid settings on the command line: exit code 2."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from airfl.analysis.budget import link_budget
from airfl.analysis.calculator import privacy_of
from airfl.config import load_settings
from airfl.config.load import override, validate
from airfl.config.swept_values import check_different, split_axes, split_intervals
from airfl.core.computation import Computation
from airfl.errors import MOST_CHARACTERS, MachineError, UserError
from airfl.privacy.calibration import _smallest_population
from tests.conftest import small_settings
from tests.end_to_end.test_command_line import airfl as command
from tests.end_to_end.test_command_line import refused
from tests.reliability.refusals import refusal
from tests.reliability.settings_values import SMALL, Tables, put
from tests.reliability.test_settings import before_a_run, bounded, finished

BAD_ON_THE_COMMAND_LINE = (
    *("run.rounds=0", "run.rouns=3", "rum.rounds=3", "run.rounds", "run.rounds=" + "9" * 5000, "run.rounds=1e3"),
    *("run.seed=-1", "scheme.name=pfel\nsx", "scheme.name=\x1b[31m", "scheme.ratio=nan", "privacy.epsilon=0.0"),
    *("power.max_snr_db=[3, 2]", "run.devices=[[[[[[", "run.selected={}", "local={}", "="),
    *("channel.min_gain=" + "[" * 5000, "\u202e.x=1", "a" * 100_000),
)


@pytest.mark.parametrize("override", BAD_ON_THE_COMMAND_LINE, ids=lambda override: ascii(override)[:30])
def test_the_command_line_ends_with_2_and_one_line(override: str, demo: Path) -> None:
    line = refused(command("config", demo, override))
    assert line.strip().isprintable()
    assert len(line) < 2 * MOST_CHARACTERS


BAD_FOR_A_RUN = (
    *("run.devices=1000000000000000000", "run.rounds=1000000000000000", "run.selected=2000", "task.model=lstm"),
    *("privacy.delta=1e-320", "scheme.noise_multiplier=1e300 scheme.name=fedavg scheme.link=analog"),
)


@pytest.mark.parametrize("overrides", BAD_FOR_A_RUN)
def test_a_run_that_cannot_be_leaves_nothing_behind(overrides: str, demo: Path, tmp_path: Path) -> None:
    line = refused(command("run", demo, *overrides.split(), "--out", tmp_path / "out"))
    assert overrides.partition("=")[0] in line
    assert not (tmp_path / "out").exists()


DOWNLINK, NOISE = {"grid": {"downlink": True}}, {"scheme": {"name": "fed-smp-topk", "noise_multiplier": 1e20}}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"run": {"devices": 10**18}}, "run.devices"),
        ({"run": {"devices": 2**64, "selected": 2**64}}, "run.devices"),
        ({"run": {"rounds": 10**15}}, "run.rounds"),
        ({"run": {"rounds": 10**15}, "privacy": {"bound": "accountant", "epsilon": 8.0}}, "run.rounds"),
        ({"power": {"policy": "truncated-inversion", "coefficient": 5e-324}}, "power.coefficient"),
        ({"scheme": {"name": "fed-smp-topk"}, "privacy": {"epsilon": 1e-300}}, "privacy.epsilon"),
        ({"scheme": {"name": "fed-smp-topk", "noise_multiplier": 1e-300}}, "scheme.noise_multiplier"),
        ({"scheme": {"name": "fed-smp-topk", "noise_multiplier": 1e300}}, "scheme.noise_multiplier"),
        ({"scheme": {"name": "ldp-svrg", "gradient_clip": 1e300}}, "scheme.gradient_clip"),
        ({"scheme": {"name": "fed-spa", "coordinate_clip": 1e300}}, "scheme.coordinate_clip"),
        ({"channel": {"fading": "tapped-line", "delay_spread_s": 1.7e308}}, "channel.delay_spread_s"),
        ({**DOWNLINK, "channel": {"units": "physical", "temperature_k": 5e-324}}, "channel.temperature_k"),
        ({"scheme": {"name": "fed-spa"}, "privacy": {"epsilon": 1e-16}}, "privacy.epsilon"),
        ({**NOISE, "local": {"clip_norm": 1e3}}, "single precision"),
        ({"scheme": {"name": "cpsgd"}, "privacy": {"delta": 5e-324}}, "privacy.delta"),
        ({"\x1b[31m": [1]}, r"\x1b[31m"),
        ({"scheme": {"a" * 100_000: 1}}, "allowed: error_feedback, link"),
        ({"scheme": {"name": "\n" * 100_000}}, "scheme.name"),
    ],
    ids=str,
)
def test_it_is_refused_by_its_key(changes: Tables, key: str) -> None:
    tables = put(SMALL, changes) if all(isinstance(table, dict) for table in changes.values()) else {**SMALL, **changes}
    with bounded():
        line = refusal(lambda: before_a_run(tables), re.escape(key))
        if "run" in changes:  # a link budget and the calculator ask for no recipe before
            refusal(lambda: link_budget(validate(tables, "settings")), re.escape(key))
            refusal(lambda: privacy_of(validate(tables, "settings")), re.escape(key))
    assert line.isprintable()
    assert len(line) < 2 * MOST_CHARACTERS


@pytest.mark.parametrize("error_model", ["capacity", "finite-blocklength", "nr"])
def test_a_timing_offset_over_a_digital_link(error_model: str) -> None:
    """The offset puts a ramp on the true channel, what is known of a flat one stays flat: no loss within the prefix."""
    common = ("scheme.name=fedavg", "scheme.link=digital", f"digital.error_model={error_model}", "grid.subcarriers=16")
    late = link_budget(small_settings(*common, "csi.timing_offset_s=1e-7"))
    assert late.energy_j == pytest.approx(link_budget(small_settings(*common)).energy_j, rel=1e-6)


def test_what_would_do_for_a_population_of_a_few_ends() -> None:
    """Between 12 devices, too few, and 13 there is nothing left to halve."""
    with bounded():
        found = privacy_of(validate(put(SMALL, {"scheme": {"name": "a-dsgd"}}), "settings"))
        assert found.remedies is not None
        assert not found.statement.hidden  # what its devices keep tells of samples, whatever N is
        assert _smallest_population(lambda n: n >= 13, found.statement) is None
        hidden = replace(found.statement, memory=False)
        assert _smallest_population(lambda n: n >= 13, hidden) == 13
        assert _smallest_population(lambda n: n >= 14, hidden) == 14


def test_a_processor_of_any_frequency() -> None:
    """The square of its frequency is no exception."""
    changes = {"scheme": {"name": "fedavg"}, "compute": {"frequency_hz": 1e20, "cycles_per_sample": 1.0}}
    given = validate(put(SMALL, changes), "settings")
    cost = Computation.of(given.compute, np.array([3]))
    assert cost.energy_j[0] == pytest.approx(3 * 1e-28 * 1e40)
    finished(given)


@pytest.mark.parametrize("value", ["9" * 5000, "[" * 100_000], ids=["digits", "brackets"])
def test_a_value_without_end_is_one_that_does_not_fit(value: str, demo: Path, tmp_path: Path) -> None:
    refusal(lambda: load_settings(demo, [f"run.rounds={value}"]), r"run\.rounds must be an integer")
    file = tmp_path / "long.toml"
    file.write_text(f"[run]\nrounds = {value}\n")
    refusal(lambda: load_settings(file), r"long\.toml: not valid TOML")


def test_every_message_is_one_line() -> None:
    for kind in (UserError, MachineError):
        assert str(kind("a\nb\t\x1b[31m\u202e é")) == r"a\nb\t\x1b[31m\u202e é"
        long = str(kind("start" + "x" * 10**6 + "end"))
        assert (long[:5], long[-3:]) == ("start", "end")
        assert len(long) < 2 * MOST_CHARACTERS


RANGES = (
    *("1e99999999999999999999:1:1", "1:9:1e-999999999", "1:1e999:1e-999", "9" * 400 + ":1:-1", "9" * 100_000 + ":1"),
    *("1:" + "9" * 5000 + ":1", "1e400:2e400:log", "1:" + "9" * 5000 + ":linear"),
)


@pytest.mark.parametrize("value", RANGES, ids=range(len(RANGES)))
def test_ranges_of_numbers_that_are_out_of_range(value: str) -> None:
    """Refused in one line, or no range at all and refused as what it is."""

    def sweep() -> None:
        rest, _ = split_intervals([f"scheme.ratio={value}"])
        fixed, axes = split_axes(rest)
        validate(override(SMALL, [*fixed, *(f"{key}={values[0]}" for key, values in axes.items())]), "settings")

    with bounded():
        refusal(sweep)


def test_as_many_values_as_a_sweep_takes() -> None:
    """Each is compared with those before it by its hash: 1e5 squared comparisons would take minutes."""
    with bounded():
        _, axes = split_axes(["run.seed=1:100000:1"])
        assert axes["run.seed"] == list(range(1, 100_001))
        refusal(lambda: check_different("run.seed", [*range(90_000), 7]), "is given twice")
        refusal(lambda: check_different("power.max_snr_db", [[1.0, 2.0], 3.0, [1, 2]]), "is given twice")
