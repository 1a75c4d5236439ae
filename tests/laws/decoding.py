"""Rounds over a radio, and what is received in them, computed from the radio alone."""

from typing import Any

import numpy as np
import torch

from airfl.core.building import build_scenario
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.uplinks import Reception
from airfl.uplinks.stages import Batch
from tests.conftest import small_settings


def everybody(devices: int) -> tuple[str, ...]:
    """Settings under which so many devices are all in every round, and send their updates as they are."""
    return (f"run.devices={devices}", f"run.selected={devices}", "scheme.name=wfl-p")


def built(entries: int, *overrides: str) -> Scenario:
    """A small run of a model of so many parameters, whose devices have a sample each."""
    settings = small_settings(*overrides)
    return build_scenario(settings, entries, np.ones(settings.run.devices))


def planned(scenario: Scenario, t: int = 0) -> RoundPlan:
    """A round before which nothing is remembered."""
    return plan_round(scenario, t, scenario.memory)


def send(plan: RoundPlan, messages: Any) -> Reception:
    """What is received of these messages of all devices, [devices, entries]."""
    values = torch.as_tensor(messages, dtype=torch.float32)
    plan.link.send(Batch(values, torch.ones(len(values))), slice(0, len(values)))
    return plan.link.close()
