"""What allocations and error models of digital links have to hold: over messages of all sorts, and in a short run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.budget import link_budget
from airfl.check.finding import Check
from airfl.check.reading import recording
from airfl.check.short import Short
from airfl.schemes import FedAvg
from channels.digital import ALLOCATIONS, ERROR_MODELS, Allocation, Demand, DigitalTask, ErrorModel
from channels.digital.allocation import allocate
from channels.digital.elements import OwnElements, own_elements
from channels.digital.own import check_demand, check_shares
from channels.part import Part

SUBCARRIERS = 24
DEVICES = 6
SNRS_DB = (-30.0, -10.0, -3.0, 0.0, 3.0, 6.0, 10.0, 15.0, 20.0, 30.0, 40.0)
BITS = (1, 100, 1_000, 10_000, 100_000)
FADES = 40
"""Devices at each SNR of one that is asked for a curve: all the same, but for their random numbers."""
ROUNDING = 1e-9
SLACK = 0.02
"""By how much an error rate may rise where it should fall: sampled curves do, between the sizes of their blocks."""


def allocation_checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one allocation. overrides: settings of other sections for the short run."""
    assert isinstance(part, Allocation)
    return [
        _of(part, shares, "shares are whole, of at least 1, and add up to the subcarriers that there are"),
        _of(part, order, "devices in another order have the same shares, but for a subcarrier", "shares"),
        _of(part, same_shares, "it gives the same shares again, and changes nothing of what it is given", "shares"),
        _of(part, read_by_shares, "every parameter is read", "shares"),
        _run("allocation", part, overrides, "shares"),
    ]


def error_model_checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Of one error model. overrides: settings of other sections for the short run."""
    assert isinstance(part, ErrorModel)
    return [
        _of(part, demands, "rates and counts are finite, error rates are probabilities, and as the class says"),
        _of(part, silence, "nothing to send takes nothing and arrives, over a dead channel nothing arrives", "demands"),
        _of(part, arrival, "what cannot fail arrives, and all of it was sent", "demands"),
        _of(part, snr, "a better channel has no lower rate, and at one rate no more errors", "demands"),
        _of(part, rate, "a higher rate over one channel has no fewer errors", "demands"),
        _of(part, size, "more bits take no fewer resource elements", "demands"),
        _of(part, alone, "a message fares the same whoever else sends", "demands"),
        _of(part, same_demand, "it gives the same again, and changes nothing of what it is given", "demands"),
        _of(part, read_by_demands, "every parameter is read", "demands"),
        _run("error_model", part, overrides, "demands"),
    ]


def _of(part: Any, find: Callable[[Any], str | None], what: str, *after: str) -> Check:
    name = {"same_shares": "same-again", "same_demand": "same-again"}.get(find.__name__, find.__name__)
    return Check("parameters" if name.startswith("read_by") else name, what, partial(find, part), after)


def _run(key: str, part: Part, overrides: Sequence[str], after: str) -> Check:
    short = Short(FedAvg(link="digital"), tuple(overrides))
    _ = short.base  # overrides that are no settings are the caller's fault, not the part's
    what = "a short run ends well, and its link budget counts the same"
    return Check("run", what, partial(run, key, part, short), (after,))


def shares(allocation: Allocation) -> str | None:
    """Of few and many devices, which take turns, whatever their channels and messages."""
    for task in tasks(allocation=allocation):
        allocate(task)  # holds those of a user's own to it
        first = slice(0, min(len(task.bits), task.subcarriers))
        check_shares(allocation, allocation.shares(task, first), first.stop, task.subcarriers)
    return None


def order(allocation: Allocation) -> str | None:
    """Turned round, where all have something to send and a channel for it. Subcarriers that are left over may go by the
    order."""
    for task in tasks(allocation=allocation, most=DEVICES):
        if not (task.bits.all() and task.known.all()):
            continue
        rows = np.arange(len(task.bits))[::-1]
        everybody = slice(0, len(rows))
        there, back = allocation.shares(task, everybody), allocation.shares(taken(task, rows), everybody)[rows]
        off = np.flatnonzero(np.abs(there - back) > 1)
        if len(off):
            device = off[0]
            return f"device {device} of {len(rows)} has {there[device]} subcarriers, and {back[device]} in turned order"
    return None


def same_shares(allocation: Allocation) -> str | None:
    """Number for number."""
    for task in tasks(allocation=allocation, most=DEVICES):
        everybody, kept = slice(0, len(task.bits)), [one.copy() for one in arrays(task)]
        first = np.array(allocation.shares(task, everybody))
        if not np.array_equal(first, allocation.shares(task, everybody)):
            return "gives other shares when it is asked again; take no random numbers, and keep nothing between calls"
        if _changed(task, kept):
            return "changes the task that it is given; copy its arrays first"
    return None


def read_by_shares(allocation: Allocation) -> str | None:
    """By something that shares are asked of."""
    spied, read = recording(allocation)
    for task in tasks(allocation=spied, most=DEVICES):
        spied.shares(task, slice(0, len(task.bits)))
    return _unread(allocation, read)


def demands(model: ErrorModel) -> str | None:
    """As a run holds them to it, and random numbers asked for once."""
    for task in tasks(error_model=model):
        asked: list[int] = []
        numbers = task.uniforms

        def counted(count: int, asked: list[int] = asked, numbers: Any = numbers) -> Any:
            asked.append(count)
            return numbers(count)

        check_demand(model, demand(model, replace(task, uniforms=counted)), task)
        if len(asked) > 1:
            return f"asks for random numbers {len(asked)} times; they are the same each time, ask for all at once"
    return None


def silence(model: ErrorModel) -> str | None:
    """A message of no bits, and one over a channel that is known to be dead."""
    idle = curve(model, 20.0, 20.0, bits=0)
    for name, wanted in (("resource_elements", 0), ("bits_on_air", 0), ("block_error_rate", 0), ("decoded", True)):
        value = np.asarray(getattr(idle, name))
        if (value != wanted).any():
            return f"a message of no bits has a {name} of {value[value != wanted][0]}, {wanted} is wanted"
    dead = curve(model, -np.inf, -np.inf, bits=1000)
    for name, wanted in (("decoded", False), ("block_error_rate", 1)):
        value = np.asarray(getattr(dead, name))
        if (value != wanted).any():
            return f"a message over a dead channel has a {name} of {value[value != wanted][0]}, {wanted} is wanted"
    return None


def arrival(model: ErrorModel) -> str | None:
    """Of whole messages over all sorts of channels."""
    for task in tasks(error_model=model):
        found = demand(model, task)
        lost = (found.block_error_rate == 0) & ~found.decoded
        if lost.any():
            return "a message is lost whose block_error_rate is 0"
        heard = found.decoded & (task.bits > 0)
        for name, least in (("bits_on_air", task.bits * (1 - ROUNDING)), ("resource_elements", 1.0)):
            short = heard & (getattr(found, name) < least)
            if short.any():
                at = np.flatnonzero(short)[0]
                return f"a message of {task.bits[at]} bits arrives with {name} = {getattr(found, name)[at]:g}"
    return None


def snr(model: ErrorModel) -> str | None:
    """Along a known channel, and along a true one that is believed to be as before."""
    rates = [curve(model, known, known).rate[0] for known in SNRS_DB]
    for before, after, lower, upper in zip(rates, rates[1:], SNRS_DB, SNRS_DB[1:], strict=False):
        if after < before * (1 - ROUNDING):
            return f"the rate is {before:.4g} at an SNR of {lower:g} dB, and {after:.4g} at {upper:g} dB"
    for known in (0.0, 10.0):
        errors = [curve(model, known, true).block_error_rate[0] for true in SNRS_DB]
        for before, after, lower, upper in zip(errors, errors[1:], SNRS_DB, SNRS_DB[1:], strict=False):
            if after > before + SLACK:
                return (
                    f"sent for an SNR of {known:g} dB the error rate is {before:.4g} at {lower:g} dB, and {after:.4g} "
                    f"at {upper:g} dB"
                )
    return None


def rate(model: ErrorModel) -> str | None:
    """By a channel that is believed to be better and better."""
    for true in (0.0, 10.0):
        found = [curve(model, known, true) for known in SNRS_DB]
        sends = [one for one in found if one.rate[0] > 0]
        for before, after in itertools.pairwise(sends):
            if after.rate[0] > before.rate[0] and after.block_error_rate[0] < before.block_error_rate[0] - SLACK:
                return (
                    f"at an SNR of {true:g} dB the error rate is {before.block_error_rate[0]:.4g} at a rate of "
                    f"{before.rate[0]:.4g}, and {after.block_error_rate[0]:.4g} at {after.rate[0]:.4g}"
                )
    return None


def size(model: ErrorModel) -> str | None:
    """On the mean over devices, which are retransmitted to by chance."""
    for known in (0.0, 10.0):
        found = [float(np.mean(curve(model, known, known, bits).resource_elements)) for bits in BITS]
        for before, after, fewer, more in zip(found, found[1:], BITS, BITS[1:], strict=False):
            if after < before:
                return f"{fewer} bits take {before:g} resource elements at {known:g} dB, {more} take {after:g}"
    return None


def alone(model: ErrorModel) -> str | None:
    """By itself on the same subcarriers, and among all."""
    for task in tasks(error_model=model, most=DEVICES):
        counts, _ = allocate(task)
        own, together = own_elements(task, counts), demand(model, task)
        for device in range(len(task.bits)):
            one, rows = (
                taken(task, np.array([device])),
                slice(own.starts[device], own.starts[device] + own.counts[device]),
            )
            only = OwnElements(
                own.subcarriers[[device]],
                own.energy[[device]],
                own.known[:, rows],
                own.true[:, rows],
                own.counts[[device]],
            )
            found = model.send(one, only)
            for name in Demand.__dataclass_fields__:
                apart, among = getattr(found, name)[0], getattr(together, name)[device]
                if not np.isclose(float(apart), float(among), rtol=ROUNDING, atol=ROUNDING):
                    return f"device {device} has a {name} of {among:g} among {len(task.bits)}, and {apart:g} by itself"
    return None


def same_demand(model: ErrorModel) -> str | None:
    """Bit for bit."""
    for task in tasks(error_model=model, most=DEVICES):
        own = own_elements(task, allocate(task)[0])
        given = [*arrays(task), own.subcarriers, own.energy, own.known, own.true, own.counts]
        kept = [one.copy() for one in given]
        first, again = model.send(task, own), model.send(task, own)
        if any(not np.array_equal(getattr(first, name), getattr(again, name)) for name in Demand.__dataclass_fields__):
            return "gives another demand when it is asked again; draw from `task.uniforms` alone"
        if not all(np.array_equal(now, before) for now, before in zip(given, kept, strict=True)):
            return "changes the task or the elements that it is given; copy their arrays first"
    return None


def read_by_demands(model: ErrorModel) -> str | None:
    """By something that demands are asked of."""
    spied, read = recording(model)
    for task in tasks(error_model=spied, most=DEVICES):
        demand(spied, task)
    return _unread(model, read)


def run(key: str, part: Part, short: Short) -> str | None:
    """FedAvg over a digital link with it."""
    changes = {"digital": {key: part}}
    planned = link_budget(short.settings(changes))
    with short.again(changes).trace() as trace:
        for name in ("resource_elements", "uplink_bits"):
            told, counted = getattr(planned, name), int(trace[name].sum())
            if told != counted:
                return f"the link budget counts {told:,} {name}, the run {counted:,}"
    return None


def demand(model: ErrorModel, task: DigitalTask) -> Demand:
    """Of a task with the shares that its allocation gives."""
    return model.send(task, own_elements(task, allocate(task)[0]))


def curve(model: ErrorModel, known_db: float, true_db: float, bits: int = 10_000) -> Demand:
    """Of devices on one subcarrier each of a flat channel, which have these SNRs there."""
    known, true = (np.full((FADES, 1, 1), 10 ** (one / 10)) for one in (known_db, true_db))
    ones = np.ones(FADES)
    task = _task(np.full(FADES, bits), known, true, subcarriers=FADES, symbol_energy=FADES * ones, error_model=model)
    return demand(model, task)


def tasks(
    allocation: Allocation | None = None, error_model: ErrorModel | None = None, most: int = 2 * SUBCARRIERS + 3
) -> Iterator[DigitalTask]:
    """Messages of few and of many devices, over flat and selective channels, known and not; most: devices."""
    given: dict[str, Any] = {"allocation": allocation, "error_model": error_model}
    given = {key: one for key, one in given.items() if one is not None}
    for devices, blocks, width in ((1, 1, 1), (DEVICES, 1, 1), (5, 2, SUBCARRIERS), (SUBCARRIERS, 1, 1), (51, 1, 1)):
        if devices > most:
            continue
        numbers = np.random.default_rng([devices, width])
        known = numbers.exponential(size=(devices, blocks, width))
        bits = numbers.integers(500, 50_000, devices)
        task = _task(bits, known, known, symbol_energy=numbers.uniform(20, 500, devices), **given)
        yield task
        yield replace(task, concentrate=True)
        yield replace(task, true=known * numbers.uniform(0.5, 1.5, known.shape))
        yield replace(task, known=1e-6 * known, true=1e-6 * known)
        yield replace(task, bits=bits * (np.arange(devices) != 0))
        dead = known * (np.arange(devices) != devices - 1)[:, None, None]
        yield replace(task, known=dead, true=dead)
        yield replace(task, known=0 * known, true=0 * known)


def _task(bits: NDArray[np.int64], known: Any, true: Any, subcarriers: int = SUBCARRIERS, **given: Any) -> DigitalTask:
    """With noise of 1, equal shares at capacity where nothing else is given, and numbers of each device's own."""
    values = {
        "allocation": ALLOCATIONS["equal"](),
        "error_model": ERROR_MODELS["capacity"](),
        "noise_energy": 1.0,
        "concentrate": False,
        "deadline_symbols": np.inf,
        "uniforms": _uniforms(np.arange(len(bits))),
    }
    return DigitalTask(bits=bits, known=known, true=true, subcarriers=subcarriers, **{**values, **given})


def _uniforms(devices: NDArray[np.int64]) -> Callable[[int], NDArray[np.float64]]:
    return lambda count: np.array([np.random.default_rng([11, one]).random(count) for one in devices])


def taken(task: DigitalTask, rows: NDArray[np.int64]) -> DigitalTask:
    """Of these devices, in this order, with their random numbers."""
    return replace(
        task,
        bits=task.bits[rows],
        known=task.known[rows],
        true=task.true[rows],
        symbol_energy=task.symbol_energy[rows],
        uniforms=_uniforms(rows),
    )


def arrays(task: DigitalTask) -> list[NDArray[Any]]:
    """Of a task."""
    return [task.bits, task.known, task.true, task.symbol_energy]


def _changed(task: DigitalTask, kept: Sequence[NDArray[Any]]) -> bool:
    return not all(np.array_equal(now, before) for now, before in zip(arrays(task), kept, strict=True))


def _unread(part: Part, read: set[str]) -> str | None:
    unread = sorted(part.values().keys() - read)
    return f"{', '.join(unread)} is never read" if unread else None
