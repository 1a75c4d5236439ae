"""Every scheme, interrupted and resumed, leaves the trace of the run that was not."""

from pathlib import Path

import pytest
import torch

import airfl
from airfl.config import Settings
from airfl.schemes import SCHEME_NAMES
from tests.conftest import small_settings
from tests.resuming import assert_same_trace, interrupted

# Before there is a state, and when there are records beyond the last one.
STOPS = (1, 3)
ROUNDS = 5
# Selection and channels that remember what was.
REMEMBERING = {
    "proportional-fair": ("selection.kind=proportional-fair",),
    "energy-budget": ("selection.kind=energy-budget", "selection.energy_budget=1e12"),
    "poisson": ("selection.kind=poisson",),
    "jakes": ("channel.fading=rayleigh", "channel.variation=jakes", "channel.speed_m_s=3"),
    "signals": ("trace.signals=[0,3,4]",),
    "third party who knows the sample": ("privacy.observer=server",),
}


def in_pieces(settings: Settings, out: Path) -> airfl.Run:
    for after in STOPS:
        with pytest.raises(KeyboardInterrupt):
            airfl.run(settings, out, progress=interrupted(after), resume=True)
    return airfl.run(settings, out, resume=True)


@pytest.mark.parametrize("name", SCHEME_NAMES)
def test_a_resumed_run_is_the_run(name: str, tmp_path: Path) -> None:
    settings = small_settings(
        f"scheme.name={name}",
        f"run.rounds={ROUNDS}",
        "run.devices=20",  # so few that everybody comes back
        "run.evaluate_every=2",
        "run.checkpoint_every=2",
    )
    whole, pieces = airfl.run(settings, tmp_path / "whole"), in_pieces(settings, tmp_path / "pieces")
    assert_same_trace(whole.path, pieces.path)
    assert pieces.parameters.equal(whole.parameters)
    assert [file.name for file in (tmp_path / "pieces").iterdir()] == ["trace.h5"]


@pytest.mark.parametrize("name", REMEMBERING)
def test_so_does_everything_that_remembers(name: str, tmp_path: Path) -> None:
    settings = small_settings(*REMEMBERING[name], f"run.rounds={ROUNDS}", "run.checkpoint_every=1")
    assert_same_trace(airfl.run(settings, tmp_path / "whole").path, in_pieces(settings, tmp_path / "pieces").path)


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
