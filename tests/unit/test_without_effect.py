"""Overrides that change nothing are said to; a run shows that it is so."""

from __future__ import annotations

import numpy as np
import pytest

from airfl.config.without_effect import BELONGS_TO, without_effect
from airfl.simulation import run
from tests.conftest import small_settings
from tests.end_to_end.test_command_line import airfl

ANOTHER = {
    "channel.rician_k": "7.0",
    "channel.nakagami_m": "3.0",
    "channel.replay_variable": "h",
    "channel.delay_spread_s": "1e-6",
    "channel.taps": "5",
    "channel.noise_std": "2.0",
    "channel.noise_figure_db": "3.0",
    "channel.temperature_k": "100.0",
    "power.max_snr_db": "3.0",
    "power.tx_power_dbm": "10.0",
    "csi.pilots": "9",
    "csi.pilot_snr_db": "20.0",
    "selection.min_gain": "0.01",
    "selection.window": "7",
    "selection.energy_budget": "1e3",
    "task.dirichlet_alpha": "0.1",
    "topology.radius_m": "90.0",
    "topology.path_loss": "uma",
    "topology.exponent": "2.0",
    "grid.downlink_snr_db": "10.0",
    "grid.downlink_power_dbm": "10.0",
}
IN_WATTS = ("channel.units=physical", "channel.fading=rayleigh", "channel.mean_gain=1e-6", "privacy.epsilon=inf")


@pytest.mark.parametrize("key", list(BELONGS_TO))
def test_what_is_said_to_change_nothing_changes_nothing(key: str) -> None:
    base = IN_WATTS if BELONGS_TO[key] == ("channel.units", ("normalised",)) else ()
    override = f"{key}={ANOTHER[key]}"
    plain, changed = small_settings(*base), small_settings(*base, override)
    (sentence,) = without_effect([override], [changed])
    assert sentence.startswith(f"{key} changes nothing: {BELONGS_TO[key][0]} is ")
    with run(plain).trace() as one, run(changed).trace() as other:
        for name in one:
            if not str(name).startswith("wall_time"):
                np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=str(name))


def test_nothing_is_said_of_what_counts_in_one_row() -> None:
    overrides = ["channel.rician_k=5.0"]
    rician = small_settings("channel.fading=rician", *overrides)
    assert not list(without_effect(overrides, [rician]))
    assert not list(without_effect(overrides, [small_settings(*overrides), rician]))
    assert len(list(without_effect(overrides, [small_settings(*overrides)]))) == 1
    assert not list(without_effect(["run.rounds=3"], [rician]))


def test_a_budget_says_so() -> None:
    ended = airfl("budget", "demo", "run.rounds=2", "channel.rician_k=5.0")
    assert ended.returncode == 0
    assert "channel.rician_k changes nothing: channel.fading is exponential, not rician" in ended.stderr
