"""Whether shares and demands are what allocations and error models promise: asked of every one of a user's own."""

from __future__ import annotations

import numpy as np

from channels.digital.kinds import Allocation, ErrorModel
from channels.digital.task import Counts, Demand, DigitalTask


def check_shares(allocation: Allocation, shares: object, devices: int, subcarriers: int) -> Counts:
    """The shares as whole numbers; ValueError, one line, unless there is one for each device, of at least 1, and they
    add up to the subcarriers that there are."""
    found = np.asarray(shares)
    if found.shape != (devices,) or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(
            f"{allocation!r} gave {found.dtype} shares of shape {found.shape}, whole numbers of shape ({devices},) are "
            "wanted"
        )
    if found.min(initial=1) < 1:
        raise ValueError(f"{allocation!r} gave a share of {found.min()} subcarriers, at least 1 is wanted")
    if found.sum() != subcarriers:
        raise ValueError(f"{allocation!r} gave shares of {found.sum()} subcarriers together, {subcarriers} are wanted")
    return found.astype(np.int64)


def check_demand(model: ErrorModel, demand: Demand, task: DigitalTask) -> None:
    """ValueError, one line, for a demand of another shape, with numbers that are none, with an error rate that is no
    probability, or with a loss where the class says that there is none."""
    devices = len(task.bits)
    if not isinstance(demand, Demand):
        raise ValueError(f"{model!r} gave {type(demand).__name__}, a Demand is wanted")
    for name in Demand.__dataclass_fields__:
        values = np.asarray(getattr(demand, name))
        if values.shape != (devices,):
            raise ValueError(f"{model!r} gave {name} of shape {values.shape}, ({devices},) is wanted")
        if name == "decoded":
            fits, wanted = np.full(devices, values.dtype == np.bool_), "true or false"
        elif name == "block_error_rate":
            fits, wanted = (values >= 0) & (values <= 1), "a probability from 0 to 1"
        else:
            fits, wanted = np.isfinite(values) & (values >= 0), "a finite number of at least 0"
        if not fits.all():
            raise ValueError(f"{model!r} gave a {name} of {values[~fits][0]}, {wanted} is wanted")
    elements = np.asarray(demand.resource_elements)
    if (elements != np.rint(elements)).any():
        part = elements[elements != np.rint(elements)][0]
        raise ValueError(f"{model!r} gave {part} resource_elements, a whole number is wanted")
    alive = task.true.sum(axis=(1, 2)) > 0
    if model.certain and np.array_equal(task.known, task.true) and not np.asarray(demand.decoded)[alive].all():
        raise ValueError(f"{model!r} is said to be certain, and loses a message over a channel that is known")
