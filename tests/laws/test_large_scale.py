"""One drop for all: Sionna's scenarios with the K factors and the shadowing of the topology, and the spreads of indoor
factories."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from channels.topology import PATH_LOSS
from tests.laws.decoding import built
from tests.laws.samples import Array, assert_law
from tests.refusals import one_line

PLACED = ("channel.units=physical", "topology.kind=disc", "run.selected=4", "grid.subcarriers=4")
Captured = Callable[..., dict[str, Array]]


def scenario_of(fading: str, devices: int, *overrides: str) -> Scenario:
    given = (f"channel.fading={fading}", f"run.devices={devices}", "scheme.name=wfl-p", *overrides)
    return built(31, *PLACED, *given)


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Captured:
    """The large-scale parameters that Sionna has for the channels of a round, as its own object returns them; what it
    makes of them is left out, because it takes long."""
    import torch
    from sionna.phy.channel.tr38901 import LSPGenerator, SystemLevelChannel

    kept: list[Any] = []
    whole = LSPGenerator.__call__

    def call(self: Any) -> Any:
        kept.append(whole(self))
        return kept[-1]

    def path(self: Any, blocks: int, rate_hz: float) -> Any:
        return torch.ones(1, 1, 1, 1, 1, 1, blocks, dtype=torch.complex64), torch.zeros(1, 1, 1, 1)

    def of(scenario: Scenario, round_index: int = 0) -> dict[str, Array]:
        kept.clear()
        with monkeypatch.context() as patch:
            patch.setattr(LSPGenerator, "__call__", call)
            patch.setattr(SystemLevelChannel, "__call__", path)
            scenario.radio.channel(round_index, np.arange(scenario.radio.devices), scenario.frame)
        assert len(kept) == scenario.radio.devices
        return {name: np.array([getattr(one, name).item() for one in kept]) for name in ("ds", "asa", "k_factor", "sf")}

    return of


@pytest.mark.parametrize(("fading", "radius_m"), [("umi", 120), ("rma", 900), ("inf-sl", 40)])
def test_a_drop_has_one_k_factor_and_one_shadow(fading: str, radius_m: int, captured: Captured) -> None:
    """40 devices: Sionna's K is that of the drop, from table 7.5-6, if there is a line of sight, and its shadowing in
    dB is the drop's, with the other sign: it is a gain. They hold in every round, while channels fade."""
    drop_of = "channel.large_scale=drop"
    scenario = scenario_of(fading, 40, drop_of, f"topology.radius_m={radius_m}", "topology.shadowing_correlation_m=0")
    radio, found = scenario.radio, captured(scenario)
    drop = radio.drop
    seen = drop.line_of_sight
    assert 5 < seen.sum() < 35
    np.testing.assert_allclose(found["k_factor"][seen], drop.k_factor[seen], rtol=1e-4)
    bare = scenario_of(fading, 40, f"topology.radius_m={radius_m}", "topology.shadowing_std_db=0").radio.drop
    np.testing.assert_allclose(-10 * np.log10(found["sf"]), drop.path_loss_db - bare.path_loss_db, atol=1e-4)
    later = captured(scenario, 1)
    for name, values in found.items():
        np.testing.assert_array_equal(later[name], values)
    ids = np.arange(2)
    first, second = (radio.channel(t, ids, scenario.frame).response for t in (0, 1))
    assert np.all(first[:, 0, 0, 0] != second[:, 0, 0, 0])
    assert len(np.unique(found["ds"])) == 40


def test_redrawn_parameters_are_not_those_of_the_drop(captured: Captured) -> None:
    """The default, in which each round has parameters of its own."""
    scenario = scenario_of("umi", 10, "topology.los=los")
    first, second = captured(scenario), captured(scenario, 1)
    assert not np.any(np.isclose(first["k_factor"], scenario.radio.drop.k_factor, rtol=1e-3))
    assert not np.any(first["ds"] == second["ds"])


@pytest.mark.parametrize(
    ("fading", "with_sf", "with_k", "hall", "mean", "std"),
    [
        ("umi", -0.4, -0.7, "", -0.18 * math.log10(4.5) - 7.28, 0.39),
        # V/S = 120 60 10/(2 (120 60 + 120 10 + 60 10)) = 4
        ("inf-sh", 0.0, -0.7, "topology.hall_m=[120,60,10]", math.log10(26 * 4 + 14) - 9.35, 0.15),
        ("inf-hh", 0.0, -0.7, "", math.log10(26 * 4.5454545455 + 14) - 9.35, 0.15),  # the usual hall, 300 x 150 x 10 m
    ],
)
def test_spreads_have_their_law_given_the_drop(
    fading: str, with_sf: float, with_k: float, hall: str, mean: float, std: float, captured: Captured
) -> None:
    """150 devices in line of sight, table 7.5-6 (part 3 for factories): the delay spread is normal in lg s, and
    correlated with the drop's shadowing and K as the table says: within 5 standard errors, (1 - rho^2)/sqrt(n)."""
    more = ("topology.radius_m=100", "topology.los=los", "topology.shadowing_correlation_m=0", *filter(None, [hall]))
    scenario = scenario_of(fading, 150, "channel.large_scale=drop", *more)
    drop, found = scenario.radio.drop, captured(scenario)
    spread = np.log10(found["ds"])
    assert_law((spread - mean) / std, stats.norm.cdf)
    for values, expected in ((drop.scores[:, 0], with_sf), (np.log10(drop.k_factor), with_k)):
        correlation = np.corrcoef(spread, values)[0, 1]
        assert abs(correlation - expected) < 5 * (1 - expected**2) / math.sqrt(150)


def test_scores_are_those_of_shadowing_and_k() -> None:
    """K in dB and the loss in dB from the two numbers, by table 7.5-6: UMi has SF against K of 0.5."""
    drop = scenario_of("umi", 200, "topology.los=los", "topology.radius_m=100").radio.drop
    bare = scenario_of(
        "umi", 200, "topology.los=los", "topology.radius_m=100", "topology.shadowing_std_db=0"
    ).radio.drop
    power, other = drop.scores.T
    np.testing.assert_allclose(drop.path_loss_db - bare.path_loss_db, -4 * power, atol=1e-9)
    k_db = 9 + 5 * (0.5 * power + math.sqrt(0.75) * other)
    np.testing.assert_allclose(10 * np.log10(drop.k_factor), k_db, atol=1e-9)
    assert PATH_LOSS["umi"].k_factor_shadowing == 0.5


def test_without_scores_the_drop_is_not_known() -> None:
    scenario = scenario_of("umi", 4, "channel.large_scale=drop")
    asked = scenario.radio._request(0, np.arange(4), scenario.frame)
    for scores, said in ((None, "got none"), (np.zeros((2, 2)), "got shape (2, 2)")):
        with pytest.raises(ValueError, match=one_line('large_scale = "drop" needs scores', said)):
            scenario.radio.fading.respond(replace(asked, scores=scores))


def test_a_sionna_that_cannot_be_given_a_drop_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As before Sionna 2.1, whose K depended on the delay and angle spreads, drawn first, and whose objects took no
    version of the tables."""
    from sionna.phy.channel import tr38901

    class Older:
        def __init__(self, carrier_frequency: float, o2i_model: str) -> None: ...

    given = ("channel.large_scale=drop", "channel.tr38901_version=v16.1")
    scenario = scenario_of("umi", 4, *given)
    asked = scenario.radio._request(0, np.arange(4), scenario.frame)
    monkeypatch.setattr(tr38901, "UMi", Older)
    refused = ("Sionna 2", 'cannot be given the K factors of a drop; use large_scale = "redrawn"')
    with pytest.raises(UserError, match=one_line("channel.large_scale: ", *refused)):
        scenario_of("umi", 4, *given)
    with pytest.raises(ValueError, match=one_line(*refused)):
        scenario.radio.fading.respond(asked)
