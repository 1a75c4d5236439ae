"""The uplink of one round: shares, rates and errors, turns, the deadline, energy."""

from __future__ import annotations

import math

import numpy as np

from channels.digital.allocation import ALLOCATIONS, allocate
from channels.digital.elements import own_elements
from channels.digital.error_models import ERROR_MODELS
from channels.digital.mcs import MCS_TABLES
from channels.digital.shannon import check_count
from channels.digital.task import Array, Counts, DigitalOutcome, DigitalParameters, DigitalTask


def send(task: DigitalTask) -> DigitalOutcome:
    """What becomes of every device's message.

    A device that is not through by the deadline stops there and is not heard; what it used until then counts. Energy is
    that of the resource elements used. Raises ValueError for gains of a shape that is no channel of this grid,
    OverflowError where more resource elements are needed than a 64-bit integer counts.
    """
    _check_gains(task)
    subcarriers, turns = allocate(task)
    own = own_elements(task, subcarriers)
    demand = ERROR_MODELS[task.parameters.error_model].send(task, own)
    wanted = np.ceil(demand.resource_elements / subcarriers)
    start, symbols = _on_air(wanted, turns, max(task.deadline_symbols, 0.0))
    in_time = symbols == wanted
    elements = np.where(in_time, demand.resource_elements, symbols * subcarriers)
    check_count(max(elements.sum(), (start + symbols).max(initial=0.0)))
    share = elements / np.maximum(demand.resource_elements, 1.0)
    return DigitalOutcome(
        subcarriers=subcarriers,
        rate=demand.rate,
        resource_elements=elements.astype(np.int64),
        symbols=symbols.astype(np.int64),
        start_symbol=start.astype(np.int64),
        energy=elements * own.energy,
        bits_on_air=np.rint(demand.bits_on_air * share).astype(np.int64),
        block_error_rate=demand.block_error_rate,
        heard=demand.decoded & in_time,
    )


def check_digital(parameters: DigitalParameters) -> None:
    """ValueError, one line, for parameters that make no uplink."""
    given = parameters
    if given.allocation not in ALLOCATIONS:
        raise ValueError(f"allocation {given.allocation!r} is not known: choose one of {', '.join(ALLOCATIONS)}")
    if given.error_model not in ERROR_MODELS:
        raise ValueError(f"error model {given.error_model!r} is not known: choose one of {', '.join(ERROR_MODELS)}")
    if not 0 <= given.gap_db < math.inf:
        raise ValueError(f"an SNR gap of {given.gap_db:g} dB: no code is better than capacity, give 0 or more")
    if not 0 < given.target_error <= 0.5:
        raise ValueError(f"a target error of {given.target_error:g}: give a probability above 0, at most 0.5")
    for count, what in ((given.block_elements, "resource elements in a block"), (given.transmissions, "transmissions")):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
            raise ValueError(f"{count} {what}: give a whole number of at least 1")
    if given.table not in MCS_TABLES:
        raise ValueError(f"MCS table {given.table}: give 1 (up to 64QAM) or 2 (up to 256QAM)")


def _on_air(wanted: Array, turns: Counts, deadline: float) -> tuple[Array, Array]:
    """Start and duration in symbols, [devices]: a turn begins after the slowest of the one before; nobody sends in a
    symbol that is not over by the deadline."""
    last = float(np.floor(deadline))
    start, symbols, now = np.zeros_like(wanted), np.zeros_like(wanted), 0.0
    for turn in range(int(turns.max(initial=-1)) + 1):
        members = turns == turn
        start[members] = now
        symbols[members] = np.minimum(wanted[members], last - now)
        now += symbols[members].max()
    return start, symbols


def _check_gains(task: DigitalTask) -> None:
    for gains in (task.known, task.true):
        if gains.ndim != 3 or len(gains) != len(task.bits) or gains.shape[2] not in (1, task.subcarriers):
            raise ValueError(
                f"power gains of shape {gains.shape} for {len(task.bits)} devices on {task.subcarriers} subcarriers: "
                "give [devices, blocks, 1 or subcarriers]"
            )
    if task.known.shape != task.true.shape:
        raise ValueError(
            f"known gains of shape {task.known.shape}, true ones of {task.true.shape}: give them one shape"
        )
