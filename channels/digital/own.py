"""Checks of shares and demands, applied to all results of user-defined allocations and error models."""

from __future__ import annotations

import numpy as np

from channels.digital.kinds import Allocation, ErrorModel
from channels.digital.task import Counts, Demand, DigitalTask


def check_shares(allocation: Allocation, shares: object, devices: int, subcarriers: int) -> Counts:
    """Return the shares as int64.

    Raises ValueError unless there is an integer of at least 1 for each device, and the sum is `subcarriers`.
    """
    counts = np.asarray(shares)
    if counts.shape != (devices,) or not np.issubdtype(counts.dtype, np.integer):
        raise ValueError(
            f"{allocation!r} must return integer shares of shape ({devices},), got {counts.dtype} of shape "
            f"{counts.shape}"
        )
    if counts.min(initial=1) < 1:
        raise ValueError(f"{allocation!r} must return shares of at least 1 subcarrier, got {counts.min()}")
    if counts.sum() != subcarriers:
        raise ValueError(f"{allocation!r} must return shares with sum {subcarriers}, got {counts.sum()}")
    return counts.astype(np.int64)


def check_demand(model: ErrorModel, demand: Demand, task: DigitalTask) -> None:
    """Check a demand.

    Raises ValueError for a wrong type or shape, invalid numbers, an error rate that is not a probability, and a lost
    message under perfect CSI if the class declares `certain`.
    """
    devices = len(task.bits)
    if not isinstance(demand, Demand):
        raise ValueError(f"{model!r} must return a Demand, got {type(demand).__name__}")
    for name in Demand.__dataclass_fields__:
        values = np.asarray(getattr(demand, name))
        if values.shape != (devices,):
            raise ValueError(f"{model!r} must return {name} of shape ({devices},), got {values.shape}")
        if name == "decoded":
            fits, allowed = np.full(devices, values.dtype == np.bool_), "true or false"
        elif name == "block_error_rate":
            fits, allowed = (values >= 0) & (values <= 1), "from 0 to 1"
        else:
            fits, allowed = np.isfinite(values) & (values >= 0), "finite and at least 0"
        if not fits.all():
            raise ValueError(f"{model!r} must return {name} {allowed}, got {values[~fits][0]}")
    elements = np.asarray(demand.resource_elements)
    if (elements != np.rint(elements)).any():
        part = elements[elements != np.rint(elements)][0]
        raise ValueError(f"{model!r} must return whole numbers of resource_elements, got {part}")
    alive = task.true.sum(axis=(1, 2)) > 0
    if model.certain and np.array_equal(task.known, task.true) and not np.asarray(demand.decoded)[alive].all():
        raise ValueError(f"{model!r} declares `certain`, but loses a message under perfect CSI")
