"""Every scheme leaves the same trace whether or not the run is interrupted and resumed."""

from pathlib import Path

import pytest
import torch

import airfl
from tests.conformance.scheme_runs import each_that_remembers
from tests.conftest import small_settings
from tests.resuming import assert_same_trace, interrupted
from tests.small_data import LOGISTIC, people

# Before there is a state, which is the same for every scheme, and when there are records beyond the last one.
EARLY, LATE = 1, 3
ROUNDS = 4
# So few devices that everybody comes back.
SMALL = (f"run.rounds={ROUNDS}", "run.devices=20", "run.evaluate_every=2", *LOGISTIC)
# Selection and channels that remember what was.
REMEMBERING = {
    "proportional-fair": ("selection.kind=proportional-fair",),
    # It covers the first rounds of six devices and hardly any later one: whoever forgets what was spent takes others.
    "energy-budget": ("selection.kind=energy-budget", "selection.energy_budget=1.055e5", "run.selected=3"),
    "poisson": ("selection.kind=poisson",),
    "jakes": ("channel.fading=rayleigh", "channel.variation=jakes", "channel.speed_m_s=3"),
    "neighbours": (
        *("channel.units=physical", "channel.fading=rayleigh", "topology.kind=disc"),
        *("topology.neighbours=[[500,0]]", "selection.kind=poisson", "privacy.epsilon=inf"),
        "power.across_cells=min-max",
    ),
    "signals": ("trace.signals=[0,2,3]",),
    "third party who knows the sample": ("privacy.observer=server",),
}


def whole_and_in_pieces(folder: Path, stops: tuple[int, ...], *overrides: str) -> tuple[airfl.Run, airfl.Run]:
    """A run, and the same stopped and resumed."""
    settings, out = small_settings(*SMALL, *overrides), folder / "pieces"
    whole = airfl.run(settings, folder / "whole", data=people())
    for after in stops:
        with pytest.raises(KeyboardInterrupt):
            airfl.run(settings, out, progress=interrupted(after), data=people(), resume=True)
    pieces = airfl.run(settings, out, data=people(), resume=True)
    assert_same_trace(whole.path, pieces.path)
    return whole, pieces


@each_that_remembers("pfels")
def test_a_resumed_run_is_the_run(name: str, tmp_path: Path) -> None:
    whole, pieces = whole_and_in_pieces(tmp_path, (LATE,), f"scheme.name={name}", "run.checkpoint_every=2")
    assert pieces.parameters.equal(whole.parameters)
    assert [file.name for file in (tmp_path / "pieces").iterdir()] == ["trace.h5"]


@pytest.mark.parametrize("name", REMEMBERING)
def test_so_does_everything_that_remembers(name: str, tmp_path: Path) -> None:
    whole_and_in_pieces(tmp_path, (EARLY, LATE), *REMEMBERING[name], "run.checkpoint_every=1")


def test_what_was_chosen_automatically_is_not_chosen_again(tmp_path: Path) -> None:
    settings = small_settings("local.engine=auto", "run.threads=0", f"run.rounds={ROUNDS}", "run.checkpoint_every=1")
    threads = torch.get_num_threads()
    with pytest.raises(KeyboardInterrupt):
        airfl.run(settings, tmp_path, progress=interrupted(2))
    with airfl.open_trace(tmp_path) as trace:
        before = trace.attrs["config"]
    try:
        torch.set_num_threads(threads + 1)
        done = airfl.run(settings, tmp_path, resume=True)
    finally:
        torch.set_num_threads(threads)
    with done.trace() as trace:
        assert trace.attrs["config"] == before
