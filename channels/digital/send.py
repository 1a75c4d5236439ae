"""The digital uplink of one round: allocation, rates and errors, turns, deadline and energy."""

from __future__ import annotations

import numpy as np

from channels.digital.allocation import allocate
from channels.digital.elements import device_resources
from channels.digital.own import check_demand
from channels.digital.shannon import check_count
from channels.digital.task import Array, Counts, DigitalOutcome, DigitalTask
from channels.part import is_built_in


def send(task: DigitalTask) -> DigitalOutcome:
    """Return the outcome of every device's message.

    A device that is not done by the deadline stops there, and its message is lost; the resources used until then count.
    The energy is that of the used resource elements.

    Raises ValueError for gains whose shape does not fit the grid, and for invalid results of a user-defined allocation
    or error model; OverflowError if the number of resource elements exceeds a 64-bit integer.
    """
    _check_gains(task)
    subcarriers, turns = allocate(task)
    resources = device_resources(task, subcarriers)
    demand = task.error_model.send(task, resources)
    if not is_built_in(task.error_model):
        check_demand(task.error_model, demand, task)
    needed = np.ceil(demand.resource_elements / subcarriers)
    start, symbols = _on_air(needed, turns, max(task.deadline_symbols, 0.0))
    in_time = symbols == needed
    elements = np.where(in_time, demand.resource_elements, symbols * subcarriers)
    check_count(max(elements.sum(), (start + symbols).max(initial=0.0)))
    share = elements / np.maximum(demand.resource_elements, 1.0)
    return DigitalOutcome(
        subcarriers=subcarriers,
        rate=demand.rate,
        resource_elements=elements.astype(np.int64),
        symbols=symbols.astype(np.int64),
        start_symbol=start.astype(np.int64),
        energy=elements * resources.energy,
        bits_on_air=np.rint(demand.bits_on_air * share).astype(np.int64),
        block_error_rate=demand.block_error_rate,
        heard=demand.decoded & in_time,
    )


def _on_air(needed: Array, turns: Counts, deadline: float) -> tuple[Array, Array]:
    """Return start and duration in symbols, [devices].

    A turn starts after the slowest device of the previous one. No device sends in a symbol that ends after the
    deadline.
    """
    last = float(np.floor(deadline))
    start, symbols, now = np.zeros_like(needed), np.zeros_like(needed), 0.0
    for turn in range(int(turns.max(initial=-1)) + 1):
        members = turns == turn
        start[members] = now
        symbols[members] = np.minimum(needed[members], last - now)
        now += symbols[members].max()
    return start, symbols


def _check_gains(task: DigitalTask) -> None:
    for gains in (task.known, task.true):
        if gains.ndim != 3 or len(gains) != len(task.bits) or gains.shape[2] not in (1, task.subcarriers):
            raise ValueError(
                f"power gains for {len(task.bits)} devices on {task.subcarriers} subcarriers must be [devices, blocks, "
                f"1 or subcarriers], got shape {gains.shape}"
            )
    if task.known.shape != task.true.shape:
        raise ValueError(f"known and true gains must have the same shape, got {task.known.shape} and {task.true.shape}")
