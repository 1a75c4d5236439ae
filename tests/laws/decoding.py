"""Received and erroneously decoded messages of rounds, computed from the radio alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.core.building import build_scenario
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.uplinks import Reception
from airfl.uplinks.stages import Batch


def everybody(devices: int) -> tuple[str, ...]:
    """Settings under which so many devices are all in every round, and send their updates as they are."""
    return (f"run.devices={devices}", f"run.selected={devices}", "scheme.name=wfl-p")


def send(plan: RoundPlan, messages: Any) -> Reception:
    """What is received of these messages of all devices, [devices, entries]."""
    values = torch.as_tensor(messages, dtype=torch.float32)
    plan.link.send(Batch(values, torch.ones(len(values))), slice(0, len(values)))
    return plan.link.close()


def decoding_errors(settings: Settings, entries: int, rounds: int) -> NDArray[np.float64]:
    """Of Gaussian messages of unit power from all devices: the mean square error of the decoded mean on an entry, times
    the number of devices, [rounds]."""
    devices = settings.run.devices
    scenario = build_scenario(settings, entries, np.ones(devices))
    errors = []
    for t in range(rounds):
        messages = torch.randn(devices, entries, generator=torch.Generator().manual_seed(t))
        difference = send(plan_round(scenario, t, scenario.memory), messages).mean - messages.mean(dim=0)
        errors.append(float(difference.square().mean()) * devices)
    return np.array(errors)
