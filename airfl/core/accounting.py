"""What a run accounts: the privacy ledger, what a round releases, and the papers' cost.

Everything here is computed from the scenario and from reports of rounds. It needs no data, no model and no torch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from airfl.core.scenario import Scenario
from airfl.privacy.accountants import accountant_of_settings
from airfl.privacy.disclosure import Disclosure, Kind, kind_of
from airfl.privacy.events import Event, masked
from airfl.privacy.ledger import PrivacyLedger
from airfl.selection import ChannelRule, sampling_of
from airfl.uplinks import LinkReport


def build_ledger(scenario: Scenario) -> PrivacyLedger:
    """Return the privacy ledger of a run of this scenario.

    Raises UserError if its accountant has no bound for what is released.
    """
    release = scenario.recipe.release
    release.check(sampling_of(scenario.rule))
    with accountant_of_settings():
        return PrivacyLedger(scenario.statement, like=release_event(scenario, 1.0))


def noise_multiplier(scenario: Scenario, report: LinkReport) -> float:
    """Return the noise in what is released, relative to the largest contribution of one device or one record.

    It is 0 without noise or without a bound, and inf if the channel let no device take part, so that nothing is
    released.
    """
    if isinstance(scenario.rule, ChannelRule) and not len(report.devices.energy):
        return float("inf")
    return scenario.recipe.release.noise_multiplier(scenario.bound, scenario.largest_weight, report)


def noise_std(scenario: Scenario, report: LinkReport) -> float:
    """Return the standard deviation of the noise on an entry of the mean message, by receiver and devices together."""
    return math.hypot(report.noise_std, scenario.bound.noise_std * report.device_noise_gain)


def release_event(scenario: Scenario, multiplier: float) -> Event:
    """Return what a round with this noise multiplier releases about a device that takes part in it."""
    return masked(scenario.recipe.release.event(multiplier), scenario.bound.seen)


def worst_round_epsilon(
    scenario: Scenario,
    ledger: PrivacyLedger,
    rounds: Iterable[tuple[float, Disclosure | None]],
    devices: NDArray[np.int64],
) -> tuple[float, float]:
    """Return an upper bound on epsilon of the worst single round, and a lower bound, nan where none is known.

    Args:
        scenario: The scenario.
        ledger: Its ledger.
        rounds: (noise multiplier, what beta disclosed) of each round.
        devices: The devices that take part in some round.
    """
    worst: dict[Kind | None, tuple[float, Disclosure | None]] = {}
    for multiplier, told in rounds:
        kind = None if told is None else kind_of(told)
        if kind not in worst or multiplier < worst[kind][0]:
            worst[kind] = multiplier, told
    events = [(release_event(scenario, least), told) for least, told in worst.values()]
    upper = max(ledger.of_one_round(event, told) for event, told in events)
    lower = [ledger.of_one_round_at_least(event, told, devices) for event, told in events]
    return upper, max((one for one in lower if not math.isnan(one)), default=math.nan)


def paper_cost_mb(scenario: Scenario) -> float:
    """Return the papers' "Cost (MB)" of a device: values x bits x T r/N, in 10^6 bytes.

    See Fed-SPA section 5.2 and Fed-SMP section 6.3. As there, the bits that name the coordinates are left out. nan for
    links that send no bits.
    """
    if scenario.link in ("analog", "noncoherent"):
        return float("nan")
    run = scenario.run
    rounds = run.rounds * run.selected / run.devices
    return scenario.bound.sent_values * scenario.bound.value_bits * rounds / 8e6
