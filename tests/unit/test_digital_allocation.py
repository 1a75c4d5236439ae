"""Subcarrier allocation, turns, deadline and costs: small cases by hand, and properties of random ones."""

import itertools
import math
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from channels.digital import ALLOCATIONS, ERROR_MODELS, DigitalOutcome, DigitalTask, send
from channels.digital.sequential import sequential_cost, single_user_rates
from channels.part import PartError
from tests.digital_parts import KEYS, digital_parts
from tests.refusals import one_line

Array = NDArray[np.float64]
thorough = settings(derandomize=True, max_examples=60, deadline=None)
every_model = pytest.mark.parametrize("model", list(ERROR_MODELS))


def in_blocks(gains: Any) -> Array:
    """[devices, blocks, elements], of [devices] or [devices, elements] too."""
    found = np.asarray(gains, dtype=np.float64)
    return found if found.ndim == 3 else found.reshape(len(found), 1, *found.shape[1:] or (1,))


def task(gains: Any, bits: Any = 1000, **changes: Any) -> DigitalTask:
    """Of perfectly known gains in any shape of `in_blocks`; other fields and those of the parameters by name."""
    known = in_blocks(gains)
    devices = len(known)
    parameters = {name: changes.pop(name) for name in KEYS if name in changes}
    asked = {
        "known": known,
        "symbol_energy": np.full(devices, 100.0),
        "noise_energy": 1.0,
        "subcarriers": 12,
        "concentrate": True,
        "deadline_symbols": math.inf,
        "uniforms": lambda count: np.full((devices, count), 0.5),
        **changes,
        "bits": np.broadcast_to(np.asarray(bits, dtype=np.int64), devices).copy(),
        "true": in_blocks(changes.get("true", known)),
        **digital_parts(**parameters),
    }
    return DigitalTask(**asked)


def shares_of(gains: Any, bits: Any = 1000, **changes: Any) -> list[int]:
    """Subcarriers of each device."""
    return send(task(gains, bits, **changes)).subcarriers.tolist()


def same(left: DigitalOutcome, right: DigitalOutcome, rtol: float = 0.0) -> None:
    for name in DigitalOutcome.__dataclass_fields__:
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=rtol, err_msg=name)


@st.composite
def tasks(draw: st.DrawFn) -> DigitalTask:
    """One to nine devices on one to 40 subcarriers, flat or selective, one block or three, with a deadline or not."""
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
        **digital_parts(
            draw(st.sampled_from(list(ALLOCATIONS))),
            draw(st.sampled_from(list(ERROR_MODELS))),
            block_elements=draw(st.sampled_from([10, 200])),
            transmissions=draw(st.integers(1, 4)),
            mcs_table=draw(st.sampled_from([1, 2])),
        ),
        uniforms=lambda count: uniforms[:, :count],
    )


@thorough
@given(tasks())
def test_what_every_outcome_keeps_to(asked: DigitalTask) -> None:
    done = send(asked)
    devices, subcarriers = len(asked.bits), asked.subcarriers
    assert (done.subcarriers >= 1).all()
    assert (np.add.reduceat(done.subcarriers, range(0, devices, subcarriers)) == subcarriers).all()
    np.testing.assert_array_equal(done.symbols, np.ceil(done.resource_elements / done.subcarriers))
    spread = done.subcarriers if asked.concentrate else subcarriers
    np.testing.assert_allclose(done.energy, done.resource_elements * asked.symbol_energy / spread)
    assert (done.start_symbol + done.symbols <= asked.deadline_symbols).all()
    assert done.air_time_symbols == (done.start_symbol + done.symbols).max()
    assert ((done.block_error_rate >= 0) & (done.block_error_rate <= 1)).all()
    assert (done.bits_on_air[done.heard] >= asked.bits[done.heard]).all()
    assert (done.bits_on_air <= asked.bits * getattr(asked.error_model, "transmissions", 1)).all()
    nothing = (asked.bits == 0) | (asked.known.sum(axis=(1, 2)) == 0)
    assert not done.resource_elements[nothing].any()
    np.testing.assert_array_equal(done.heard[nothing], (asked.bits == 0)[nothing])
    assert asked.deadline_symbols > 0 or not done.resource_elements.any()


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
    asked = replace(asked, **digital_parts("equal"), deadline_symbols=math.inf, true=asked.known)
    done, stronger = send(asked), send(replace(asked, symbol_energy=factor * asked.symbol_energy))
    assert (stronger.resource_elements <= done.resource_elements).all()
    assert done.heard[asked.known.sum(axis=(1, 2)) > 0].all()


@thorough
@given(tasks())
def test_no_device_can_be_made_faster_by_one_subcarrier_of_another(asked: DigitalTask) -> None:
    """At Shannon rates of a flat channel: the slowest stays the slowest whoever gives a subcarrier to whom."""
    asked = replace(asked, known=asked.known[:, :1, :1], true=asked.known[:, :1, :1])
    asked = replace(asked, **digital_parts("rate-fair"))
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
        given: dict[str, Any] = {"subcarriers": 10, "concentrate": concentrate, "gap_db": 3.0}
        asked = task(rng.exponential(size=3), rng.integers(1, 4000, 3), allocation="rate-fair", **given)
        ways = [(a, b, 10 - a - b) for a in range(1, 9) for b in range(1, 10 - a)]
        best = min(makespan(asked, np.array(way)) for way in ways)
        assert makespan(asked, send(asked).subcarriers) == pytest.approx(best, rel=1e-12)


def makespan(asked: DigitalTask, shares: NDArray[np.int64]) -> float:
    """Symbols until the slowest is through at capacity, not rounded, of the first devices, by the definition."""
    times = []
    for device, share in enumerate(shares):
        spread = share if asked.concentrate else asked.subcarriers
        snr = asked.known[device, 0, 0] * asked.symbol_energy[device] / spread / asked.noise_energy
        rate = math.log2(1 + snr / 10 ** (asked.allocation.gap_db / 10))
        times.append(asked.bits[device] / (share * rate) if rate > 0 else 0.0)
    return max(times)


def test_shares_by_hand() -> None:
    assert shares_of([1, 1, 1, 1, 1]) == [3, 3, 2, 2, 2]
    assert shares_of([6, 3, 1, 2], allocation="gain") == [6, 3, 1, 2]
    # 12 x (5, 4, 3)/12.1 = 4.96, 3.97, 2.98 and 0.1: the last has its one, 11 are left: 4.58, 3.67, 2.75.
    assert shares_of([5, 4, 3, 0.1], allocation="gain") == [4, 4, 3, 1]
    assert shares_of([100, 1, 1, 1], allocation="gain") == [9, 1, 1, 1]
    assert shares_of([0, 0, 0], allocation="gain") == [4, 4, 4]
    # Equal rates of an element: twice the bits have twice the subcarriers.
    assert shares_of([1, 1, 1], [400, 800, 1200], allocation="rate-fair", concentrate=False) == [2, 4, 6]
    assert shares_of([1, 0, 1], [1000, 1000, 0], allocation="rate-fair") == [10, 1, 1]


def test_a_selective_channel_shares_by_the_mean_over_the_band() -> None:
    gains = np.repeat([[4.0, 2.0], [1.0, 1.0]], 6, axis=1)
    assert shares_of(gains, allocation="gain") == [9, 3]
    first, _ = shares_of(gains, 30_000, allocation="rate-fair", concentrate=False)
    rates = np.log2(1 + gains * 100 / 12).mean(axis=1)
    splits = [max(1 / (rates[0] * k), 1 / (rates[1] * (12 - k))) for k in range(1, 12)]
    assert first == 1 + int(np.argmin(splits)) < 6


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
    wanted = [[50, 70, 0], [200, 280, 0], [200 * 25, 280 * 25, 0], [1000, 1400, 0]]
    np.testing.assert_allclose([done.symbols, done.resource_elements, done.energy, done.bits_on_air], wanted)


def test_the_capacity_model_costs_what_the_ideal_link_does() -> None:
    """With perfect CSI, no gap, and power that is not concentrated."""
    gains = np.random.default_rng(3).exponential(size=(6, 2, 1))
    power = np.arange(1.0, 7)
    done = send(task(gains, 10_000, concentrate=False, symbol_energy=12 * power))
    rates = single_user_rates(gains * power[:, None, None], 12)
    np.testing.assert_allclose(done.rate, rates, rtol=1e-12)
    np.testing.assert_array_equal(done.resource_elements, sequential_cost(10_000, rates).resource_elements)
    assert done.heard.all()


@every_model
@pytest.mark.parametrize("allocation", list(ALLOCATIONS))
def test_nobody_and_nothing(model: str, allocation: str) -> None:
    by: dict[str, Any] = {"error_model": model, "allocation": allocation}
    none = send(task(np.zeros(0), **by))
    assert none.heard.shape == send(task(np.zeros((0, 12)), **by)).heard.shape == (0,)
    assert none.air_time_symbols == none.resource_elements.sum() == 0
    empty = send(task([1.0, 0.0], 0, **by))
    assert empty.heard.all()
    assert empty.air_time_symbols == empty.energy.max() == empty.block_error_rate.max() == 0
    dead = send(task([1.0, 0.0], **by))
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
    """A codeword over two blocks gets what it gets over two halves of the subcarriers: less than at the mean gain."""
    flat = np.array([[0.5], [2.0], [1.0]])
    both = flat, np.repeat(flat, 12, axis=1)
    same(*(send(task(gains, 20_000, error_model=model, true=gains * 0.9)) for gains in both), rtol=1e-9)
    gains = np.array([0.2, 3.0])
    in_time = send(task(gains[None, :, None], 20_000, error_model=model))
    same(in_time, send(task(np.repeat(gains, 6)[None], 20_000, error_model=model)), rtol=1e-9)
    assert in_time.rate[0] < 0.95 * send(task([gains.mean()], 20_000, error_model=model)).rate[0]


def test_one_after_another_in_the_order_of_what_they_take() -> None:
    """1,000 bits at 1, 2, 4 and 1/2 an element: 1,000, 500, 250 and 2,000 elements; a dead channel sends nothing."""
    rates = np.array([1.0, 2.0, 0.0, 4.0, 0.5])
    for deadline, elements, heard in (
        (math.inf, [1000, 500, 0, 250, 2000], [True, True, False, True, True]),
        (1750.9, [1000, 500, 0, 250, 0], [True, True, False, True, False]),
        (1749.0, [999, 500, 0, 250, 0], [False, True, False, True, False]),
    ):
        found = sequential_cost(1000, rates, deadline)
        assert (found.resource_elements.tolist(), found.heard.tolist()) == (elements, heard)
    assert sequential_cost(0, rates, 0.0).heard.all()
    with pytest.raises(OverflowError, match="more than a 64-bit integer"):
        sequential_cost(10**10, np.array([1e-12, 1.0]))


def test_what_cannot_be_counted_overflows_unless_a_deadline_ends_it() -> None:
    weak = task([1e-25, 1.0], 10**10)
    with pytest.raises(OverflowError, match="more than a 64-bit integer"):
        send(weak)
    done = send(replace(weak, deadline_symbols=10.0))
    assert not done.heard.any()
    assert (done.symbols.tolist(), done.resource_elements.tolist()) == ([10, 10], [60, 60])


def test_gains_of_another_shape_are_refused() -> None:
    for asked, words in (
        (task(np.ones((2, 5))), r"must be \[devices, blocks, 1 or subcarriers\], got shape"),
        (task(np.ones((2, 12)), true=np.ones((2, 1))), "must have the same shape, got"),
    ):
        with pytest.raises(ValueError, match=words):
            send(asked)


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("capacity", {"gap_db": -1.0}, "gap_db must be at least 0, got -1.0"),
        ("capacity", {"gap_db": math.nan}, "gap_db must be finite"),
        ("nr", {"target_error": 0.0}, "target_error must be positive"),
        ("nr", {"target_error": 0.6}, "target_error must be at most 0.5"),
        ("finite-blocklength", {"target_error": math.nan}, "target_error must be finite"),
        ("finite-blocklength", {"block_elements": 0}, "block_elements must be at least 1"),
        ("nr", {"transmissions": 0}, "transmissions must be at least 1"),
        ("nr", {"transmissions": 2.5}, "transmissions must be an integer"),
        ("nr", {"mcs_table": 3}, "mcs_table must be 1 or 2, got 3"),
    ],
)
def test_parameters_that_make_no_uplink_are_refused(model: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(PartError, match=one_line(message)):
        ERROR_MODELS.build({"name": model, **changes})
