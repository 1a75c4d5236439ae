"""Rounds for tests of stages, built by hand or from settings. Separate from conftest because it imports torch."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.config import Settings
from airfl.core.building import build_scenario
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.runtime.store import Store
from airfl.runtime.streams import Streams
from airfl.uplinks import LinkReport
from airfl.uplinks.stages import Round


def a_round(
    streams: Streams, index: int, devices: int | NDArray[np.int64] = 100, public: Tensor | None = None
) -> Round:
    """Return round `index` of these devices, or of devices 0, 1, ... if `devices` is a number.

    All messages are received, and the devices have stored nothing. `public` is the server's update on public data.
    """
    ids = np.arange(devices) if isinstance(devices, int) else devices
    heard, update = np.ones(len(ids), dtype=np.bool_), torch.zeros(1) if public is None else public
    return Round(streams, index, torch.device("cpu"), ids, heard, Store(), lambda: update)


def opened(settings: Settings, entries: int = 8, index: int = 0) -> tuple[Scenario, RoundPlan, LinkReport]:
    """Return scenario and plan of a round with `entries` parameters, and what is reported before anything is sent."""
    scenario = build_scenario(settings, entries, np.ones(settings.run.devices))
    plan = plan_round(scenario, index, scenario.memory)
    return scenario, plan, plan.link.link_budget()
