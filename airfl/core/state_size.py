"""The memory that a run needs for the state of its devices, checked before it starts."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.runtime.memory import machine_bytes
from airfl.runtime.numbers import figure

log = logging.getLogger(__name__)

LARGEST_SHARE = 0.7


def store_bytes(scenario: Scenario, samples: int) -> tuple[int, int]:
    """Return the bytes that a device with this many samples stores, and the largest number of devices that may have
    taken part by the end."""
    kept = (*scenario.recipe.local.device_state(scenario.dimension, samples), *scenario.bound.device_state)
    run = scenario.run
    return sum(one.nbytes for one in kept), min(run.devices, run.selected * run.rounds)


def check_store(scenario: Scenario, sizes: NDArray[np.int64], scheme: str) -> None:
    """Log the memory for the state of devices, and raise UserError where the machine does not have enough."""
    each, devices = store_bytes(scenario, int(sizes.max(initial=1)))
    if not each:
        return
    memory = machine_bytes()
    total = each * devices
    text = f"the state of {devices:,} devices takes {figure(each / 1e6)} MB each, {figure(total / 1e9)} GB in total"
    if total > LARGEST_SHARE * memory:
        raise UserError(
            f"scheme.name: {scheme!r}: {text}, too much for {figure(memory / 1e9)} GB of memory; use fewer devices or "
            "rounds (run.devices, run.rounds), fewer samples per device, or a smaller model"
        )
    log.info("at most, %s", text)
