"""Sweeps of a user-defined part's own parameter through its default value, for parts of every kind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import airfl
from airfl.config.load import NAMED
from airfl.errors import UserError
from airfl.selection import SELECTIONS
from channels.part import Part, parameter
from tests.conftest import small_settings
from tests.in_this_process import points_here as points_here
from tests.refusals import one_line
from tests.small_data import OF_PEOPLE

BASES = {
    "antennas.combining": ("sum", ()),
    "channel.fading": ("rician", ()),
    "channel.interference": ("bernoulli-gaussian", ("channel.interference_to_noise_db=3",)),
    "digital.allocation": ("equal", ("scheme.name=fedavg", "scheme.link=digital")),
    "digital.error_model": ("nr", ("scheme.name=fedavg", "scheme.link=digital")),
    "power.policy": ("truncated-inversion", ("power.threshold=0.5",)),
    "privacy.accountant": ("rdp", ()),
    "selection.kind": ("proportional-fair", ()),
    "task.dataset": ("a9a-sample", ()),
    "task.model": ("logistic", ()),
    "task.partition": ("dirichlet", ()),
}
"""Key -> a built-in part of which a user's is derived, and settings that it needs. Most read keys of their section."""


def test_every_kind_is_swept_here() -> None:
    assert set(BASES) == set(NAMED)


@pytest.fixture
def registered(request: pytest.FixtureRequest) -> Iterator[str]:
    key: str = request.param
    registry: Any = NAMED[key].registry
    base = registry[BASES[key][0]]

    class Own(base):  # type: ignore[misc]
        name = "of-my-own"
        spare: int = parameter(default=3, ge=1, description="nothing")

    registry.register(Own)
    yield key
    registry.forget(__name__)


@pytest.mark.usefixtures("points_here")
@pytest.mark.parametrize("registered", BASES, indirect=True)
def test_a_sweep_includes_the_default(registered: str, tmp_path: Path) -> None:
    words = (*OF_PEOPLE, "run.rounds=1", *BASES[registered][1], f"{registered}=of-my-own")
    swept = f"{registered}.spare"
    found = airfl.sweep(small_settings(*words), {swept: [1, 3]}, out=tmp_path / "s").runs
    assert [(run.values, run.digest.setting(swept)) for run in found] == [({swept: value}, value) for value in (1, 3)]
    assert f"{swept}=3" not in words
    assert own_part(registered, f"{swept}=3").values()["spare"] == 3


def own_part(key: str, *overrides: str) -> Part:
    section, _, slot = key.partition(".")
    held: Part = getattr(getattr(small_settings(*BASES[key][1], f"{key}=of-my-own", *overrides), section), slot)
    return held


@pytest.mark.parametrize("registered", ["selection.kind"], indirect=True)
def test_keys_of_the_section_reach_a_part_that_is_a_table(registered: str) -> None:
    """Also where another of its parameters has its default or is set; a value of its own may not contradict a key."""
    for spare in (1, 3):
        for candidates in ("selection.candidates=24", "selection.kind.candidates=24"):
            part = own_part(registered, candidates, "selection.window=7", f"selection.kind.spare={spare}")
            assert part.values() == {"candidates": 24, "window": 7, "spare": spare}
    held = SELECTIONS["of-my-own"](candidates=24)  # type: ignore[call-arg]
    settings = small_settings().resolved(selection={"kind": held})
    assert airfl.load_settings(settings, ["selection.window=9"]).selection.rule.values()["window"] == 9
    with pytest.raises(UserError, match=one_line("selection.candidates: 25 contradicts candidates of selection.kind")):
        airfl.load_settings(settings, ["selection.candidates=25"])
