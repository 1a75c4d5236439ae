"""For every scheme, settings that it does not list have no effect, and settings that it lists are read."""

from typing import Any

import numpy as np
import pytest

from airfl.config.section import Section
from airfl.config.without_effect import OF_SCHEMES
from airfl.schemes.keys import SHARED, has_setting, uses
from airfl.schemes.names import SCHEMES
from airfl.schemes.scheme import Scheme
from airfl.simulation import run
from airfl.study.check.scheme import OTHER
from channels.part import parameters_of
from tests.conformance.scheme_runs import each_scheme, finished, sample, short, trace_of
from tests.conftest import small_settings

OR_ELSE = {"local.epochs": "local.steps", "local.gradient_bound": "local.clip_norm"}
"""Keys that stand in the place of another, of which they share the fate."""


def test_every_key_that_not_all_have_is_tried() -> None:
    assert SHARED - {*OTHER} == {*OR_ELSE}
    assert SHARED == OF_SCHEMES
    for entry in SCHEMES.values():
        assert entry.uses <= SHARED, entry.name
        assert all(uses(entry, key) == uses(entry, other) for key, other in OR_ELSE.items()), entry.name


@each_scheme
def test_what_a_scheme_does_not_have_changes_no_number(name: str) -> None:
    """Nor does anything but the seed: this is a second run of the same, bit for bit."""
    given = short(name)
    tables, link = given.model_dump(), given.scheme.carrier
    without = [key for key in OTHER if not has_setting(tables, key, link)]
    assert without
    changed: dict[str, dict[str, Any]] = {}
    for key in without:
        section, _, last = key.partition(".")
        changed.setdefault(section, {})[last] = OTHER[key]
    one, other = finished(name), trace_of(given.resolved(**changed))
    for variable in one.data_vars:
        np.testing.assert_array_equal(one[variable].values, other[variable].values, err_msg=str(variable))


@each_scheme
def test_what_a_scheme_has_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: set[str] = set()
    plain, of_scheme = Section.__getattribute__, Scheme.__getattribute__
    own = {f"scheme.{one.name}" for one in parameters_of(SCHEMES[name])} - {"scheme.link"}

    def reading(self: Section, attribute: str) -> Any:
        if attribute in type(self).model_fields:
            section = type(self).__name__.removesuffix("Settings").lower()
            read.add(f"{section}.{attribute}")
        return plain(self, attribute)

    def reading_scheme(self: Scheme, attribute: str) -> Any:
        read.add(f"scheme.{attribute}")
        return of_scheme(self, attribute)

    monkeypatch.setattr(Section, "__getattribute__", reading)
    fewer = ("run.rounds=2", "run.evaluate_every=2")
    settings = short(name, *fewer, "local.schedule=exponential", "server.schedule=exponential")
    monkeypatch.setattr(Scheme, "__getattribute__", reading_scheme)
    monkeypatch.setattr(Scheme, "values", lambda self: {})  # that it is dumped is no use of it
    monkeypatch.setattr("airfl.core.run_trace.to_json", lambda value: "{}")
    run(settings, data=sample())
    assert own | (SCHEMES[name].uses or frozenset()) <= read


def test_a_link_and_another_setting_may_leave_a_key_without_use() -> None:
    settings = small_settings("scheme.name=fedavg").model_dump()
    assert not has_setting(settings, "digital.gap_db", "analog")
    assert has_setting(settings, "digital.gap_db", "digital")
    assert has_setting(settings, "digital.deadline_s", "ideal")
    assert not has_setting(settings, "digital.deadline_s", "analog")
    assert has_setting(settings, "power.policy", "analog")
    assert not has_setting(settings, "power.policy", "ideal")
    assert not has_setting(settings, "channel.rician_k", "analog")  # fading is exponential
    settings["channel"]["fading"] = "rician"
    assert has_setting(settings, "channel.rician_k", "analog")
    assert has_setting(settings, "run.devices", "analog")
    assert has_setting({"scheme": {"name": "of tomorrow"}}, "scheme.ratio", "analog")
