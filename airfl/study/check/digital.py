"""Checks of allocations and error models of digital links, with various messages and in a short run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.budget import link_budget
from airfl.schemes import FedAvg
from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from airfl.study.check.short import Short
from channels.digital import ALLOCATIONS, ERROR_MODELS, Allocation, Demand, DigitalTask, ErrorModel
from channels.digital.allocation import allocate
from channels.digital.elements import DeviceResources, device_resources
from channels.digital.own import check_demand, check_shares
from channels.part import Part

SUBCARRIERS = 24
DEVICES = 6
SNRS_DB = (-30.0, -10.0, -3.0, 0.0, 3.0, 6.0, 10.0, 15.0, 20.0, 30.0, 40.0)
BITS = (1, 100, 1_000, 10_000, 100_000)
FADES = 40
"""Number of devices at each SNR of a curve, which differ only in their random numbers."""
ROUNDING = 1e-9
SLACK = 0.02
"""How much an error rate may rise where it should fall, as sampled curves do between block sizes."""


def allocation_checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of an allocation. overrides: settings of other sections for the short run."""
    assert isinstance(part, Allocation)
    return [
        _of(part, shares, "shares are integers of at least 1, and add up to the number of subcarriers"),
        _of(part, order, "the order of devices changes their shares by at most one subcarrier", "shares"),
        _of(
            part, same_shares, "calls with the same inputs give the same shares, and do not change the inputs", "shares"
        ),
        _of(part, read_by_shares, "every parameter is read", "shares"),
        _run("allocation", part, overrides, "shares"),
    ]


def error_model_checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of an error model. overrides: settings of other sections for the short run."""
    assert isinstance(part, ErrorModel)
    return [
        _of(part, demands, "rates and counts are finite, error rates are probabilities, and declarations hold"),
        _of(part, silence, "an empty message arrives at no cost, nothing arrives over a zero channel", "demands"),
        _of(part, arrival, "a message with error rate 0 arrives, and a decoded message was sent in full", "demands"),
        _of(part, snr, "a higher SNR gives no lower rate, and no more errors at the same rate", "demands"),
        _of(part, rate, "a higher rate over the same channel gives no fewer errors", "demands"),
        _of(part, size, "more bits take no fewer resource elements", "demands"),
        _of(part, alone, "the result of a message does not depend on other devices", "demands"),
        _of(
            part,
            same_demand,
            "calls with the same inputs give the same result, and do not change the inputs",
            "demands",
        ),
        _of(part, read_by_demands, "every parameter is read", "demands"),
        _run("error_model", part, overrides, "demands"),
    ]


def _of(part: Any, find: Callable[[Any], str | None], what: str, *after: str) -> Check:
    name = {"same_shares": "same-again", "same_demand": "same-again"}.get(find.__name__, find.__name__)
    return Check("parameters" if name.startswith("read_by") else name, what, partial(find, part), after)


def _run(key: str, part: Part, overrides: Sequence[str], after: str) -> Check:
    short = Short(FedAvg(link="digital"), tuple(overrides))
    _ = short.base  # invalid overrides are an error of the caller, not of the part
    what = "a short run succeeds, and matches its link budget"
    return Check("run", what, partial(run, key, part, short), (after,))


def shares(allocation: Allocation) -> str | None:
    """Check the shares of few devices, and of many, which are served in turn, for various channels and messages."""
    for task in tasks(allocation=allocation):
        allocate(task)  # checks the shares of user-defined allocations
        first = slice(0, min(len(task.bits), task.subcarriers))
        check_shares(allocation, allocation.shares(task, first), first.stop, task.subcarriers)
    return None


def order(allocation: Allocation) -> str | None:
    """Compare the shares of devices in reverse order, if all have something to send and a channel.

    Surplus subcarriers may be assigned by order, which changes shares by one.
    """
    for task in tasks(allocation=allocation, most=DEVICES):
        if not (task.bits.all() and task.known.all()):
            continue
        rows = np.arange(len(task.bits))[::-1]
        everybody = slice(0, len(rows))
        there, back = allocation.shares(task, everybody), allocation.shares(taken(task, rows), everybody)[rows]
        off = np.flatnonzero(np.abs(there - back) > 1)
        if len(off):
            device = off[0]
            return (
                f"device {device} of {len(rows)} has {there[device]} subcarriers, but {back[device]} in reverse order"
            )
    return None


def same_shares(allocation: Allocation) -> str | None:
    """Compare the shares of two calls."""
    for task in tasks(allocation=allocation, most=DEVICES):
        everybody, before = slice(0, len(task.bits)), [one.copy() for one in arrays(task)]
        first = np.array(allocation.shares(task, everybody))
        if not np.array_equal(first, allocation.shares(task, everybody)):
            return "gives other shares when called again; draw no random numbers, and keep no state between calls"
        if _changed(task, before):
            return "changes its input task; copy its arrays first"
    return None


def read_by_shares(allocation: Allocation) -> str | None:
    """Check that computing shares reads all parameters."""
    spied, read = recording(allocation)
    for task in tasks(allocation=spied, most=DEVICES):
        spied.shares(task, slice(0, len(task.bits)))
    return unread(allocation, read)


def demands(model: ErrorModel) -> str | None:
    """Check results as a run does, and that random numbers are drawn only once."""
    for task in tasks(error_model=model):
        calls: list[int] = []
        numbers = task.uniforms

        def counted(count: int, calls: list[int] = calls, numbers: Any = numbers) -> Any:
            calls.append(count)
            return numbers(count)

        check_demand(model, demand(model, replace(task, uniforms=counted)), task)
        if len(calls) > 1:
            return f"calls `task.uniforms` {len(calls)} times, which gives the same numbers; draw all in one call"
    return None


def silence(model: ErrorModel) -> str | None:
    """Check a message of 0 bits, and one over a channel that is known to be zero."""
    idle = curve(model, 20.0, 20.0, bits=0)
    for name, wanted in (("resource_elements", 0), ("bits_on_air", 0), ("block_error_rate", 0), ("decoded", True)):
        value = np.asarray(getattr(idle, name))
        if (value != wanted).any():
            return f"{name} of a message of 0 bits must be {wanted}, got {value[value != wanted][0]}"
    dead = curve(model, -np.inf, -np.inf, bits=1000)
    for name, wanted in (("decoded", False), ("block_error_rate", 1)):
        value = np.asarray(getattr(dead, name))
        if (value != wanted).any():
            return f"{name} of a message over a zero channel must be {wanted}, got {value[value != wanted][0]}"
    return None


def arrival(model: ErrorModel) -> str | None:
    """Check whole messages over various channels."""
    for task in tasks(error_model=model):
        result = demand(model, task)
        lost = (result.block_error_rate == 0) & ~result.decoded
        if lost.any():
            return "a message is lost although its block_error_rate is 0"
        received = result.decoded & (task.bits > 0)
        for name, least in (("bits_on_air", task.bits * (1 - ROUNDING)), ("resource_elements", 1.0)):
            short = received & (getattr(result, name) < least)
            if short.any():
                at = np.flatnonzero(short)[0]
                return f"a message of {task.bits[at]} bits arrives with {name} = {getattr(result, name)[at]:g}"
    return None


def snr(model: ErrorModel) -> str | None:
    """Check rates as the known SNR rises, and error rates as the true SNR rises while the known one is constant."""
    rates = [curve(model, known, known).rate[0] for known in SNRS_DB]
    for before, after, lower, upper in zip(rates, rates[1:], SNRS_DB, SNRS_DB[1:], strict=False):
        if after < before * (1 - ROUNDING):
            return f"the rate is {before:.4g} at an SNR of {lower:g} dB, but {after:.4g} at {upper:g} dB"
    for known in (0.0, 10.0):
        errors = [curve(model, known, true).block_error_rate[0] for true in SNRS_DB]
        for before, after, lower, upper in zip(errors, errors[1:], SNRS_DB, SNRS_DB[1:], strict=False):
            if after > before + SLACK:
                return (
                    f"with a known SNR of {known:g} dB the error rate is {before:.4g} at a true SNR of {lower:g} dB, "
                    f"but {after:.4g} at {upper:g} dB"
                )
    return None


def rate(model: ErrorModel) -> str | None:
    """Check error rates as the known SNR, and so the rate, rises while the true SNR is constant."""
    for true in (0.0, 10.0):
        points = [curve(model, known, true) for known in SNRS_DB]
        sends = [one for one in points if one.rate[0] > 0]
        for before, after in itertools.pairwise(sends):
            if after.rate[0] > before.rate[0] and after.block_error_rate[0] < before.block_error_rate[0] - SLACK:
                return (
                    f"at an SNR of {true:g} dB the error rate is {before.block_error_rate[0]:.4g} at a rate of "
                    f"{before.rate[0]:.4g}, but {after.block_error_rate[0]:.4g} at {after.rate[0]:.4g}"
                )
    return None


def size(model: ErrorModel) -> str | None:
    """Check the mean number of resource elements over devices, whose retransmissions are random."""
    for known in (0.0, 10.0):
        means = [float(np.mean(curve(model, known, known, bits).resource_elements)) for bits in BITS]
        for before, after, fewer, more in zip(means, means[1:], BITS, BITS[1:], strict=False):
            if after < before:
                return f"{fewer} bits take {before:g} resource elements at {known:g} dB, but {more} take {after:g}"
    return None


def alone(model: ErrorModel) -> str | None:
    """Compare a device alone on its subcarriers with the same device among others."""
    for task in tasks(error_model=model, most=DEVICES):
        counts, _ = allocate(task)
        own, together = device_resources(task, counts), demand(model, task)
        for device in range(len(task.bits)):
            one, rows = (
                taken(task, np.array([device])),
                slice(own.starts[device], own.starts[device] + own.counts[device]),
            )
            only = DeviceResources(
                own.subcarriers[[device]],
                own.energy[[device]],
                own.known[:, rows],
                own.true[:, rows],
                own.counts[[device]],
            )
            result = model.send(one, only)
            for name in Demand.__dataclass_fields__:
                apart, among = getattr(result, name)[0], getattr(together, name)[device]
                if not np.isclose(float(apart), float(among), rtol=ROUNDING, atol=ROUNDING):
                    return f"device {device} has a {name} of {among:g} among {len(task.bits)}, but {apart:g} alone"
    return None


def same_demand(model: ErrorModel) -> str | None:
    """Compare the results of two calls bit for bit."""
    for task in tasks(error_model=model, most=DEVICES):
        own = device_resources(task, allocate(task)[0])
        inputs = [*arrays(task), own.subcarriers, own.energy, own.known, own.true, own.counts]
        copies = [one.copy() for one in inputs]
        first, again = model.send(task, own), model.send(task, own)
        if any(not np.array_equal(getattr(first, name), getattr(again, name)) for name in Demand.__dataclass_fields__):
            return "gives another result when called again; draw random numbers only from `task.uniforms`"
        if not all(np.array_equal(now, before) for now, before in zip(inputs, copies, strict=True)):
            return "changes its input task or elements; copy their arrays first"
    return None


def read_by_demands(model: ErrorModel) -> str | None:
    """Check that sending messages reads all parameters."""
    spied, read = recording(model)
    for task in tasks(error_model=spied, most=DEVICES):
        demand(spied, task)
    return unread(model, read)


def run(key: str, part: Part, short: Short) -> str | None:
    """Run FedAvg over a digital link with the part, and compare with the link budget."""
    changes = {"digital": {key: part}}
    planned = link_budget(short.settings(changes))
    with short.again(changes).trace() as trace:
        for name in ("resource_elements", "uplink_bits"):
            expected, counted = getattr(planned, name), int(trace[name].sum())
            if expected != counted:
                return f"the link budget has {expected:,} {name}, but the run {counted:,}"
    return None


def demand(model: ErrorModel, task: DigitalTask) -> Demand:
    """Return the result of sending the messages of a task with the shares of its allocation."""
    return model.send(task, device_resources(task, allocate(task)[0]))


def curve(model: ErrorModel, known_db: float, true_db: float, bits: int = 10_000) -> Demand:
    """Return the result for devices on one subcarrier each of a flat channel with these known and true SNRs."""
    known, true = (np.full((FADES, 1, 1), 10 ** (one / 10)) for one in (known_db, true_db))
    ones = np.ones(FADES)
    task = _task(np.full(FADES, bits), known, true, subcarriers=FADES, symbol_energy=FADES * ones, error_model=model)
    return demand(model, task)


def tasks(
    allocation: Allocation | None = None, error_model: ErrorModel | None = None, most: int = 2 * SUBCARRIERS + 3
) -> Iterator[DigitalTask]:
    """Yield messages of few and many devices, over flat and selective channels, known exactly or not.

    most: highest number of devices.
    """
    parts: dict[str, Any] = {"allocation": allocation, "error_model": error_model}
    parts = {key: one for key, one in parts.items() if one is not None}
    for devices, blocks, width in ((1, 1, 1), (DEVICES, 1, 1), (5, 2, SUBCARRIERS), (SUBCARRIERS, 1, 1), (51, 1, 1)):
        if devices > most:
            continue
        numbers = np.random.default_rng([devices, width])
        known = numbers.exponential(size=(devices, blocks, width))
        bits = numbers.integers(500, 50_000, devices)
        task = _task(bits, known, known, symbol_energy=numbers.uniform(20, 500, devices), **parts)
        yield task
        yield replace(task, concentrate=True)
        yield replace(task, true=known * numbers.uniform(0.5, 1.5, known.shape))
        yield replace(task, known=1e-6 * known, true=1e-6 * known)
        yield replace(task, bits=bits * (np.arange(devices) != 0))
        dead = known * (np.arange(devices) != devices - 1)[:, None, None]
        yield replace(task, known=dead, true=dead)
        yield replace(task, known=0 * known, true=0 * known)


def _task(bits: NDArray[np.int64], known: Any, true: Any, subcarriers: int = SUBCARRIERS, **given: Any) -> DigitalTask:
    """Return a task with noise energy 1, by default equal shares at capacity, and random numbers per device."""
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
    """Return the task of these devices only, in this order, with their random numbers."""
    return replace(
        task,
        bits=task.bits[rows],
        known=task.known[rows],
        true=task.true[rows],
        symbol_energy=task.symbol_energy[rows],
        uniforms=_uniforms(rows),
    )


def arrays(task: DigitalTask) -> list[NDArray[Any]]:
    """Return the arrays of a task."""
    return [task.bits, task.known, task.true, task.symbol_energy]


def _changed(task: DigitalTask, copies: Sequence[NDArray[Any]]) -> bool:
    return not all(np.array_equal(now, before) for now, before in zip(arrays(task), copies, strict=True))
