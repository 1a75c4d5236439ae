"""Shares of the subcarriers, turns, the deadline, what is charged: small cases by hand, and laws over random ones."""

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from channels.digital import (
    ALLOCATIONS,
    ERROR_MODELS,
    DigitalOutcome,
    DigitalParameters,
    DigitalTask,
    check_digital,
    send,
)
from channels.digital.sequential import sequential_cost, single_user_rates

Array = NDArray[np.float64]
thorough = settings(derandomize=True, max_examples=60, deadline=None)
every_model = pytest.mark.parametrize("model", list(ERROR_MODELS))
every_allocation = pytest.mark.parametrize("allocation", list(ALLOCATIONS))


def halves(devices: int) -> Callable[[int], Array]:
    return lambda count: np.full((devices, count), 0.5)


def in_blocks(gains: Any) -> Array:
    """[devices, blocks, elements]."""
    found = np.asarray(gains, dtype=np.float64)
    found = found[:, None] if found.ndim == 1 else found
    return found[:, None] if found.ndim == 2 else found


def task(gains: Any, bits: Any = 1000, **changes: Any) -> DigitalTask:
    """Perfectly known gains, [devices], [devices, elements] or [devices, blocks, elements]; other fields by name, those
    of the parameters too."""
    known = in_blocks(gains)
    changes = {**changes, "true": in_blocks(changes["true"])} if "true" in changes else changes
    devices = len(known)
    names = DigitalParameters.__dataclass_fields__
    asked = {
        "bits": np.broadcast_to(np.asarray(bits, dtype=np.int64), devices).copy(),
        "known": known,
        "true": known,
        "symbol_energy": np.full(devices, 100.0),
        "noise_energy": 1.0,
        "subcarriers": 12,
        "concentrate": True,
        "deadline_symbols": math.inf,
        "parameters": DigitalParameters(**{name: value for name, value in changes.items() if name in names}),
        "uniforms": halves(devices),
    }
    return DigitalTask(**{**asked, **{name: value for name, value in changes.items() if name not in names}})


def same(left: DigitalOutcome, right: DigitalOutcome) -> None:
    for name in DigitalOutcome.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)


@st.composite
def tasks(draw: st.DrawFn) -> DigitalTask:
    """One to nine devices on one to 40 subcarriers, flat or selective, in one block or three, known well or badly, with
    or without a deadline."""
    devices, subcarriers = draw(st.integers(1, 9)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    blocks, elements = draw(st.sampled_from([1, 3])), draw(st.sampled_from([1, subcarriers]))
    known = rng.exponential(10.0 ** rng.uniform(-2, 1, (devices, 1, 1)), (devices, blocks, elements))
    known[rng.random(devices) < 0.1] = 0
    true = known if draw(st.booleans()) else rng.exponential(size=known.shape)
    uniforms = rng.random((devices, 8))
    return DigitalTask(
        bits=rng.integers(0, 5000, devices) * rng.integers(0, 2, devices),
        known=known,
        true=true,
        symbol_energy=rng.exponential(50.0, devices),
        noise_energy=float(rng.exponential()),
        subcarriers=subcarriers,
        concentrate=draw(st.booleans()),
        deadline_symbols=draw(st.sampled_from([math.inf, 0.0, 13.5, 300.0])),
        parameters=DigitalParameters(
            draw(st.sampled_from(list(ALLOCATIONS))),
            draw(st.sampled_from(list(ERROR_MODELS))),
            block_elements=draw(st.sampled_from([10, 200])),
            transmissions=draw(st.integers(1, 4)),
            table=draw(st.sampled_from([1, 2])),
        ),
        uniforms=lambda count: uniforms[:, :count],
    )


@thorough
@given(tasks())
def test_what_every_outcome_keeps_to(asked: DigitalTask) -> None:
    done = send(asked)
    devices, subcarriers = len(asked.bits), asked.subcarriers
    assert (done.subcarriers >= 1).all()
    for first in range(0, devices, subcarriers):
        assert done.subcarriers[first : first + subcarriers].sum() == subcarriers
    np.testing.assert_array_equal(done.symbols, np.ceil(done.resource_elements / done.subcarriers))
    spread = done.subcarriers if asked.concentrate else subcarriers
    np.testing.assert_allclose(done.energy, done.resource_elements * asked.symbol_energy / spread)
    assert (done.start_symbol + done.symbols <= asked.deadline_symbols).all()
    assert done.air_time_symbols == (done.start_symbol + done.symbols).max()
    assert done.total_resource_elements == done.resource_elements.sum()
    assert ((done.block_error_rate >= 0) & (done.block_error_rate <= 1)).all()
    assert (done.bits_on_air[done.heard] >= asked.bits[done.heard]).all()
    assert (done.bits_on_air <= asked.bits * asked.parameters.transmissions).all()
    nothing = (asked.bits == 0) | (asked.known.sum(axis=(1, 2)) == 0)
    assert not done.resource_elements[nothing].any()
    np.testing.assert_array_equal(done.heard[nothing], (asked.bits == 0)[nothing])
    if asked.deadline_symbols == 0:
        assert not done.resource_elements.any()


@thorough
@given(tasks())
def test_a_deadline_takes_away_and_never_gives(asked: DigitalTask) -> None:
    """Of the same round with more time, also while nobody is disturbed who was in time."""
    done = send(asked)
    longer = send(replace(asked, deadline_symbols=2 * asked.deadline_symbols + 20))
    assert (longer.heard >= done.heard).all()
    assert (longer.resource_elements >= done.resource_elements).all()
    if math.isinf(asked.deadline_symbols):
        same(done, longer)


@thorough
@given(tasks(), st.floats(1.0, 30.0))
def test_more_power_takes_no_more_elements_at_capacity(asked: DigitalTask, factor: float) -> None:
    asked = replace(asked, parameters=DigitalParameters("equal"), deadline_symbols=math.inf, true=asked.known)
    done, stronger = send(asked), send(replace(asked, symbol_energy=factor * asked.symbol_energy))
    assert (stronger.resource_elements <= done.resource_elements).all()
    assert done.heard[asked.known.sum(axis=(1, 2)) > 0].all()


@thorough
@given(tasks())
def test_no_device_can_be_made_faster_by_one_subcarrier_of_another(asked: DigitalTask) -> None:
    """At Shannon rates of a flat channel: the slowest stays the slowest whoever gives a subcarrier to whom."""
    asked = replace(asked, known=asked.known[:, :1, :1], true=asked.known[:, :1, :1])
    asked = replace(asked, parameters=DigitalParameters("rate-fair"))
    shares = send(asked).subcarriers[: asked.subcarriers]
    slowest = makespan(asked, shares)
    for giver, taker in itertools.permutations(range(len(shares)), 2):
        if shares[giver] > 1:
            moved = shares.copy()
            moved[giver] -= 1
            moved[taker] += 1
            assert makespan(asked, moved) >= slowest * (1 - 1e-9)


@pytest.mark.parametrize("concentrate", [True, False])
def test_rate_fair_is_the_best_of_all_ways_to_share(concentrate: bool) -> None:
    """All 36 ways to give 10 subcarriers to 3 devices, for 20 rounds."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        asked = task(
            rng.exponential(size=3),
            rng.integers(1, 4000, 3),
            subcarriers=10,
            concentrate=concentrate,
            allocation="rate-fair",
            gap_db=3.0,
        )
        ways = [(a, b, 10 - a - b) for a in range(1, 9) for b in range(1, 10 - a)]
        assert len(ways) == 36
        best = min(makespan(asked, np.array(way)) for way in ways)
        assert makespan(asked, send(asked).subcarriers) == pytest.approx(best, rel=1e-12)


def makespan(asked: DigitalTask, shares: NDArray[np.int64]) -> float:
    """Symbols until the slowest is through at capacity, not rounded, of the first devices, by the definition."""
    times = []
    for device, share in enumerate(shares):
        spread = share if asked.concentrate else asked.subcarriers
        snr = asked.known[device, 0, 0] * asked.symbol_energy[device] / spread / asked.noise_energy
        rate = math.log2(1 + snr / 10 ** (asked.parameters.gap_db / 10))
        times.append(asked.bits[device] / (share * rate) if rate > 0 else 0.0)
    return max(times)


def test_shares_by_hand() -> None:
    assert send(task([1, 1, 1, 1, 1])).subcarriers.tolist() == [3, 3, 2, 2, 2]
    assert send(task([6, 3, 1, 2], allocation="gain")).subcarriers.tolist() == [6, 3, 1, 2]
    # 12 x (5, 4, 3)/12.1 = 4.96, 3.97, 2.98 and 0.1: the last has its one, 11 are left: 4.58, 3.67, 2.75.
    assert send(task([5, 4, 3, 0.1], allocation="gain")).subcarriers.tolist() == [4, 4, 3, 1]
    assert send(task([100, 1, 1, 1], allocation="gain")).subcarriers.tolist() == [9, 1, 1, 1]
    assert send(task([0, 0, 0], allocation="gain")).subcarriers.tolist() == [4, 4, 4]
    # Equal rates of an element: twice the bits have twice the subcarriers.
    fair = task([1, 1, 1], [400, 800, 1200], allocation="rate-fair", concentrate=False)
    assert send(fair).subcarriers.tolist() == [2, 4, 6]
    idle = task([1, 0, 1], [1000, 1000, 0], allocation="rate-fair")
    assert send(idle).subcarriers.tolist() == [10, 1, 1]


def test_a_selective_channel_shares_by_the_mean_over_the_band() -> None:
    gains = np.ones((2, 12))
    gains[0, :6], gains[0, 6:] = 4.0, 2.0
    assert send(task(gains, allocation="gain")).subcarriers.tolist() == [9, 3]
    bits = np.array([30_000, 30_000])
    fair = send(task(gains, bits, allocation="rate-fair", concentrate=False)).subcarriers
    rates = np.log2(1 + gains * 100 / 12).mean(axis=1)
    splits = [max(bits[0] / (rates[0] * k), bits[1] / (rates[1] * (12 - k))) for k in range(1, 12)]
    assert fair[0] == 1 + int(np.argmin(splits))
    assert fair[0] < 6


def test_a_device_has_its_own_stretch_of_a_selective_channel() -> None:
    """Rates, elements and energy by direct sums over each stretch, in two turns."""
    rng = np.random.default_rng(2)
    gains = rng.exponential(size=(5, 3))
    done = send(task(gains, 500, subcarriers=3))
    assert done.subcarriers.tolist() == [1, 1, 1, 2, 1]
    own = [gains[0, :1], gains[1, 1:2], gains[2, 2:], gains[3, :2], gains[4, 2:]]
    for device, part in enumerate(own):
        rate = float(np.mean(np.log2(1 + part * 100 / len(part))))
        assert done.rate[device] == pytest.approx(rate, rel=1e-12)
        assert done.resource_elements[device] == math.ceil(500 / rate)
        assert done.symbols[device] == math.ceil(math.ceil(500 / rate) / len(part))
    assert (done.start_symbol[:3] == 0).all()
    assert (done.start_symbol[3:] == done.symbols[:3].max()).all()


@every_model
def test_turns_follow_the_slowest(model: str) -> None:
    """Seven devices on three subcarriers: three turns, each after all of the one before."""
    asked = task([1.0, 0.2, 3, 1, 2, 0.7, 5], subcarriers=3, error_model=model)
    done = send(asked)
    assert done.heard.all()
    assert done.subcarriers.tolist() == [1, 1, 1, 1, 1, 1, 3]
    ends = done.start_symbol + done.symbols
    assert done.start_symbol.tolist() == [0] * 3 + [ends[:3].max()] * 3 + [ends[3:6].max()]
    assert done.air_time_symbols == ends[6]
    # The last device is cut off, then its turn and one before, then all but the first turn.
    for deadline in (ends[6] - 0.5, ends[3:6].max() - 1, ends[:3].max()):
        late = send(replace(asked, deadline_symbols=deadline))
        np.testing.assert_array_equal(late.heard, ends <= deadline)
        assert late.air_time_symbols == math.floor(deadline)


def test_a_straggler_stops_at_the_deadline_and_pays_until_then() -> None:
    """SNR 31 on four subcarriers each: 5 bits an element, 20 a symbol; 1000 bits take 50 symbols, the other 100."""
    asked = task([1.24, 1.24, 1.24], [1000, 2000, 0], deadline_symbols=70.9)
    done = send(asked)
    assert done.heard.tolist() == [True, False, True]
    assert done.rate == pytest.approx([5, 5, 5])
    assert done.symbols.tolist() == [50, 70, 0]
    assert done.resource_elements.tolist() == [200, 280, 0]
    np.testing.assert_allclose(done.energy, [200 * 25, 280 * 25, 0])
    assert done.bits_on_air.tolist() == [1000, 1400, 0]


def test_the_capacity_model_costs_what_the_ideal_link_does() -> None:
    """With perfect knowledge, no gap, and power that is not concentrated."""
    gains = np.random.default_rng(3).exponential(size=(6, 2, 1))
    power = np.arange(1.0, 7)
    done = send(task(gains, 10_000, concentrate=False, symbol_energy=12 * power))
    rates = single_user_rates(gains * power[:, None, None], 12)
    np.testing.assert_allclose(done.rate, rates, rtol=1e-12)
    np.testing.assert_array_equal(done.resource_elements, sequential_cost(10_000, rates).resource_elements)
    assert done.heard.all()


@every_model
@every_allocation
def test_nobody_and_nothing(model: str, allocation: str) -> None:
    none = send(task(np.zeros(0), error_model=model, allocation=allocation))
    assert none.heard.shape == (0,)
    assert none.air_time_symbols == none.total_resource_elements == 0
    selective = send(task(np.zeros((0, 12)), error_model=model, allocation=allocation))
    assert selective.heard.shape == (0,)
    empty = send(task([1.0, 0.0], 0, error_model=model, allocation=allocation))
    assert empty.heard.all()
    assert empty.air_time_symbols == 0
    assert not empty.energy.any()
    assert not empty.block_error_rate.any()
    dead = send(task([1.0, 0.0], error_model=model, allocation=allocation))
    assert dead.heard.tolist() == [True, False]
    assert dead.resource_elements[1] == dead.bits_on_air[1] == dead.rate[1] == 0
    assert dead.block_error_rate[1] == 1


@every_model
def test_random_numbers_are_asked_for_once_at_most(model: str) -> None:
    asked: list[int] = []

    def uniforms(count: int) -> Array:
        asked.append(count)
        return np.full((2, count), 0.5)

    send(task([1.0, 2.0], error_model=model, transmissions=3, uniforms=uniforms))
    assert asked == ([] if model == "capacity" else [3])


@every_model
def test_a_flat_channel_is_a_selective_one_that_does_not_change(model: str) -> None:
    flat = np.array([[0.5], [2.0], [1.0]])
    left = send(task(flat, 20_000, error_model=model, true=flat * 0.9))
    right = send(task(np.repeat(flat, 12, axis=1), 20_000, error_model=model, true=np.repeat(flat * 0.9, 12, axis=1)))
    for name in DigitalOutcome.__dataclass_fields__:
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-9, err_msg=name)


@every_model
def test_blocks_in_time_count_as_subcarriers_do(model: str) -> None:
    """A codeword over two blocks of a flat channel gets what it gets over two halves of a device's subcarriers; and
    less than at the mean gain (Jensen), by a few per cent of the rate."""
    gains = np.array([0.2, 3.0])
    in_time = send(task(gains[None, :, None], 20_000, error_model=model))
    in_band = send(task(np.repeat(gains, 6)[None], 20_000, error_model=model))
    at_the_mean = send(task([gains.mean()], 20_000, error_model=model))
    for name in DigitalOutcome.__dataclass_fields__:
        np.testing.assert_allclose(getattr(in_time, name), getattr(in_band, name), rtol=1e-9, err_msg=name)
    assert in_time.rate[0] < 0.95 * at_the_mean.rate[0]


def test_one_after_another_in_the_order_of_what_they_take() -> None:
    """1,000 bits at 1, 2, 4 and 1/2 an element: 1,000, 500, 250 and 2,000 elements; a dead channel sends nothing."""
    rates = np.array([1.0, 2.0, 0.0, 4.0, 0.5])
    free = sequential_cost(1000, rates)
    assert free.resource_elements.tolist() == [1000, 500, 0, 250, 2000]
    assert free.heard.tolist() == [True, True, False, True, True]
    cut = sequential_cost(1000, rates, 1750.9)
    assert cut.resource_elements.tolist() == [1000, 500, 0, 250, 0]
    assert cut.heard.tolist() == [True, True, False, True, False]
    assert sequential_cost(1000, rates, 1749.0).resource_elements.tolist() == [999, 500, 0, 250, 0]
    assert sequential_cost(1000, rates, 1749.0).heard.tolist() == [False, True, False, True, False]
    assert sequential_cost(0, rates, 0.0).heard.all()
    with pytest.raises(OverflowError, match="more than can be counted"):
        sequential_cost(10**10, np.array([1e-12, 1.0]))


def test_what_cannot_be_counted_overflows_unless_a_deadline_ends_it() -> None:
    weak = task([1e-25, 1.0], 10**10)
    with pytest.raises(OverflowError, match="more than can be counted"):
        send(weak)
    done = send(replace(weak, deadline_symbols=10.0))
    assert not done.heard.any()
    assert done.symbols.tolist() == [10, 10]
    assert done.resource_elements.tolist() == [60, 60]


def test_gains_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"give \[devices, blocks, 1 or subcarriers\]"):
        send(task(np.ones((2, 5))))
    with pytest.raises(ValueError, match="give them one shape"):
        send(task(np.ones((2, 12)), true=np.ones((2, 1))))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"allocation": "fair"}, "equal, rate-fair, gain"),
        ({"error_model": "shannon"}, "capacity, finite-blocklength, nr"),
        ({"gap_db": -1.0}, "0 or more"),
        ({"gap_db": math.nan}, "0 or more"),
        ({"target_error": 0.0}, "at most 0.5"),
        ({"target_error": 0.6}, "at most 0.5"),
        ({"target_error": math.nan}, "at most 0.5"),
        ({"block_elements": 0}, "at least 1"),
        ({"transmissions": 0}, "at least 1"),
        ({"transmissions": 2.5}, "whole number"),
        ({"table": 3}, "256QAM"),
    ],
)
def test_parameters_that_make_no_uplink_are_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    check_digital(DigitalParameters())
    with pytest.raises(ValueError, match=message) as error:
        check_digital(DigitalParameters(**changes))
    assert "\n" not in str(error.value)
