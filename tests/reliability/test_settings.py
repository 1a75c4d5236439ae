"""Any settings are refused in one line before anything starts, or run without a hang or more memory than usual."""

import contextlib
import re
import resource
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from airfl.analysis.budget import link_budget
from airfl.analysis.calculator import privacy_of
from airfl.config import Settings, load_rows, load_settings, to_json
from airfl.config.load import validate
from airfl.config.swept_values import split_axes, split_intervals, values_only
from airfl.core.preflight import check_recipe
from airfl.errors import MOST_CHARACTERS, UserError, one_line
from airfl.learning.chosen_task import check_fit
from airfl.simulation import run
from airfl.study.sweeps.points import SweepPlan, build_points
from tests.reliability import settings_cases as cases_of
from tests.reliability.hangs import within_seconds
from tests.reliability.scale import FULL, Measured, cases
from tests.reliability.settings_cases import to_toml
from tests.reliability.settings_values import BUNDLES, SMALL, Tables, put
from tests.small_data import people

# A case takes some tens of milliseconds; privacy.bound = "accountant" and a compiler may take seconds.
# An engine that is compiled takes 15 s of processor time, several times as much beside other work.
LONGEST_S, MOST_MEMORY = 300, 3 * 2**30
MOST_POINTS = 40


def fuzz(short: int, full: int, check: Callable[..., object], *strategies: st.SearchStrategy[Any]) -> None:
    """Check so many cases; the same ones every time in the short version."""
    how = settings(
        max_examples=cases(short, full),
        deadline=None,
        database=None,
        derandomize=not FULL,
        phases=[Phase.explicit, Phase.generate],  # a case is small as it is; shrinking one that runs takes minutes
        suppress_health_check=list(HealthCheck),
    )
    how(given(*strategies)(check))()


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Ends what hangs, and refuses memory beyond a bound to what is inside, that of C code too."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MOST_MEMORY, before[1]))
    try:
        with within_seconds(LONGEST_S):
            yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def accepted(call: Callable[[], object], *places: str) -> bool:
    """Whether the call returns; else it has raised a UserError of one line that says where to look: at one of `places`,
    or at a section of the settings."""
    try:
        with bounded():
            call()
    except UserError as error:
        line = str(error)
        assert line.isprintable(), line
        assert 10 < len(line) < 2 * MOST_CHARACTERS, line
        sections = "|".join(Settings.model_fields)
        assert re.search(rf"\b({sections})\b", line) or any(place in line for place in places), line
        return False
    return True


def before_a_run(tables: Tables, look: bool = True) -> None:
    """All that happens before a run starts; look: also what needs no learning, of the first rounds."""
    given = validate(tables, "settings")
    assert validate(given.model_dump(), "again") == given
    assert Settings.model_validate_json(to_json(given.model_dump())) == given
    check_fit(given)
    check_recipe(given)
    if look:
        first = given.resolved(run={"rounds": min(given.run.rounds, 2)}, trace={"signals": False})
        assert link_budget(first).rounds == first.run.rounds


@pytest.fixture
def taken(request: pytest.FixtureRequest, measured: Measured) -> Iterator[list[bool]]:
    """Whether each case of the test is accepted, told at its end."""
    answers: list[bool] = []
    yield answers
    what = request.function.__name__.removeprefix("test_").replace("_", " ")
    measured(f"settings, {what}: {len(answers):,} cases, {sum(answers):,} accepted, the others refused in one line")


def test_valid_combinations_are_accepted_or_refused_in_one_line(taken: list[bool]) -> None:
    def check(tables: Tables, one_in: int) -> None:
        taken.append(accepted(lambda: before_a_run(tables)))
        if taken[-1] and not one_in:
            accepted(lambda: privacy_of(validate(tables, "settings")))

    fuzz(15, 3000, check, cases_of.valid_tables(), st.integers(0, 49))
    assert sum(taken) > len(taken) / 2, "the strategy draws too little that runs"


def test_what_is_drawn_together_is_accepted_and_reaches_what_needs_other_settings() -> None:
    """What a bundle holds would otherwise always be refused, as a fronthaul is with one antenna."""
    for bundle in BUNDLES:
        tables = put(SMALL, bundle)
        assert accepted(lambda tables=tables: before_a_run(tables)), bundle  # type: ignore[misc]
    keys = {(section, key) for bundle in BUNDLES for section, table in bundle.items() for key in table}
    assert {("hardware", "fronthaul_bits"), ("hardware", "adc_bits"), ("surface", "elements")} <= keys
    assert {("topology", "access_points"), ("topology", "neighbours"), ("antennas", "count")} <= keys


def test_values_at_and_beyond_limits_are_accepted_or_refused_in_one_line(taken: list[bool]) -> None:
    with warnings.catch_warnings():
        # A number of 1e300 may overflow: what becomes of it in a run is for the policy on numbers that are none.
        warnings.simplefilter("ignore", RuntimeWarning)
        fuzz(40, 3500, lambda tables: taken.append(accepted(lambda: before_a_run(tables))), cases_of.extreme_tables())
    assert 0 < sum(taken) < len(taken)


def test_garbage_is_refused_in_one_line(taken: list[bool]) -> None:
    def check(tables: Tables) -> None:
        taken.append(accepted(lambda: before_a_run(tables, look=False), "settings"))

    fuzz(100, 1500, check, cases_of.garbage_tables())
    assert sum(taken) < len(taken)


def test_broken_files_are_refused_in_one_line(tmp_path: Path, taken: list[bool]) -> None:
    file = tmp_path / "broken.toml"

    def check(text: bytes) -> None:
        file.write_bytes(text)
        taken.append(accepted(lambda: load_settings(file), str(file)))
        accepted(lambda: load_rows(file), str(file))

    fuzz(60, 800, check, cases_of.broken_toml())


def test_rows_of_a_comparison_are_refused_in_one_line(tmp_path: Path, taken: list[bool]) -> None:
    file = tmp_path / "rows.toml"

    def check(tables: Tables) -> None:
        file.write_bytes(to_toml(tables))
        taken.append(accepted(lambda: load_rows(file), str(file)))

    fuzz(40, 500, check, cases_of.row_tables())


def test_overrides_and_sweeps_are_refused_in_one_line(tmp_path: Path, taken: list[bool]) -> None:
    file = tmp_path / "good.toml"
    file.write_bytes(to_toml(SMALL))

    def sweep(texts: list[str]) -> None:
        rest, _ = split_intervals(texts)
        fixed, axes = split_axes(rest)
        few = {key: values[:MOST_POINTS] for key, values in values_only(axes).items()}
        build_points(file, fixed, SweepPlan(few))

    def check(texts: list[str]) -> None:
        taken.append(accepted(lambda: load_settings(file, texts), "override"))
        keys = [one_line(text.partition("=")[0].strip())[:20] for text in texts]
        accepted(lambda: sweep(texts), "override", *keys)

    fuzz(60, 700, check, st.lists(cases_of.override_texts(), min_size=1, max_size=2))


def test_what_is_accepted_runs(taken: list[bool]) -> None:
    def check(tables: Tables) -> None:
        if accepted(lambda: before_a_run(tables, look=False)):
            taken.append(accepted(lambda: finished(validate(tables, "settings"))))

    fuzz(8, 1500, check, cases_of.valid_tables())
    assert sum(taken) > 0.9 * len(taken), "what cannot run is to be refused before"


def finished(given: Settings) -> None:
    with run(given, data=people()).trace() as trace:
        assert trace.attrs["status"] == "complete"
        assert trace.sizes["round"] == given.run.rounds
