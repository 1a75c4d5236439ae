"""Bookkeeping of imperfect CSI: random streams, shapes, unchanged parts, costs and errors."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from airfl.config.part_keys import parts_of, with_keys
from airfl.config.radio import CsiSettings
from airfl.config.section import Section
from airfl.errors import UserError
from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from channels.antennas import AntennaArray
from channels.csi import (
    IMPAIRMENTS,
    ChannelEstimate,
    ChannelInformation,
    ChannelState,
    Estimation,
    Imperfections,
    Response,
    match,
    perfect_csi,
)
from channels.draws import Array, Draw
from channels.frame import Frame
from channels.part import Part, parameter, parameters_of
from channels.topology import Topology
from tests.conftest import small_settings
from tests.imperfections import csi_of, impair
from tests.radios import radio_of
from tests.refusals import one_line

BLOCKS, SUBCARRIERS = 3, 5
FRAME = Frame(np.linspace(-30e3, 30e3, SUBCARRIERS), BLOCKS * SUBCARRIERS, symbol_s=1 / 14e3, symbols_per_block=1)
# Settings under which each impairment is present, by its name in the table.
ONLY: dict[str, dict[str, Any]] = {
    "estimation": {"estimation": "mmse", "pilots": 2},
    "feedback": {"phase_bits": 3, "gain_bits": 4},
    "ageing": {"delay_s": 2e-3, "doppler_hz": 60.0},
    "phase": {"phase_std_rad": 0.3},
    "timing": {"timing_offset_s": 2e-5, "prefix_s": 5e-6},
    "frequency": {"frequency_offset_hz": 700.0},
    "oscillator": {"linewidth_hz": 300.0},
    "synchronisation": {"amplitude_std_db": 2.0},
}
EVERY = {key: value for setting in ONLY.values() for key, value in setting.items()}
every_impairment = pytest.mark.parametrize("name", IMPAIRMENTS)


def draws(devices: Sequence[int]) -> dict[str, Draw]:
    """Each device's own numbers, a stream for each impairment."""
    uniforms = partial(device_uniforms.draw, Streams(5))
    return {name: partial(uniforms, Purpose.CSI, address, devices) for address, name in enumerate(ONLY)}


def channel(*shape: int, dtype: type = np.complex128) -> ChannelInformation:
    """A channel of that shape, powers and pilot noise different for every device."""
    generator = np.random.default_rng(4)
    response: Response = (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)).astype(dtype)
    return perfect_csi(ChannelState(response), np.linspace(1, 3, shape[0]), np.linspace(0.1, 0.4, shape[0]))


def impaired(source: ChannelInformation, **parameters: Any) -> ChannelInformation:
    """By all devices' own draws."""
    return impair(source, FRAME, draws(range(len(source.mean_power))), **parameters)


def test_perfect_knowledge_is_left_as_it_is() -> None:
    """The table is in the order of application."""
    order = ["estimation", "feedback", "ageing", "phase", "timing", "frequency", "oscillator", "synchronisation"]
    assert list(IMPAIRMENTS) == order
    assert set(ONLY) == set(IMPAIRMENTS), "an impairment that is added needs its line in ONLY"
    assert all(impairment.source for impairment in IMPAIRMENTS.values())
    source = channel(4, 2, BLOCKS, SUBCARRIERS)
    assert impair(source, FRAME, {}) is source
    assert source.estimate.response is source.state.response
    for values, wanted in ((source.slope, 1), (source.error_variance, 0), (source.leakage, 0)):
        np.testing.assert_array_equal(values, wanted)


@every_impairment
def test_an_impairment_is_present_when_its_settings_say_so(name: str) -> None:
    """A channel ages only with delay and movement."""
    perfect, only = csi_of(), csi_of(**ONLY[name])
    assert not perfect[0].present(perfect[1])
    assert [one.name for one in only[0] if one.present(only[1])] == [name]
    for still in ({"delay_s": 1e-3}, {"doppler_hz": 50.0}):
        assert not Imperfections.present(*csi_of(**still))


@every_impairment
def test_truth_and_estimate_are_kept_apart(name: str) -> None:
    source = channel(4, 2, 1, 1)
    copy = source.state.response.copy()
    after = impaired(source, **ONLY[name])
    np.testing.assert_array_equal(source.state.response, copy)
    kept, changed = ("state", "estimate") if name in ("estimation", "feedback") else ("estimate", "state")
    assert getattr(after, kept) is getattr(source, kept)
    assert np.abs(getattr(after, changed).response - copy).max(axis=(2, 3)).min() > 0
    np.testing.assert_array_equal(after.mean_power, source.mean_power)
    match(after.state, after.estimate)


@every_impairment
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("axes", [(1, 1), (BLOCKS, SUBCARRIERS), (1, SUBCARRIERS), (BLOCKS, 1)])
def test_shapes_and_types(name: str, dtype: type, axes: tuple[int, int]) -> None:
    source = channel(4, 2, *axes, dtype=dtype)
    after = impaired(source, **ONLY[name])
    blocks = BLOCKS if name in ("frequency", "oscillator") else axes[0]
    subcarriers = SUBCARRIERS if name == "timing" else axes[1]
    assert after.state.response.shape == (4, 2, blocks, subcarriers)
    assert after.estimate.response.shape == (4, 2, *axes)
    for response in (after.state.response, after.estimate.response):
        assert response.dtype == dtype
        assert np.isfinite(response).all()
    for values in (after.slope, after.leakage):
        assert (values.shape, values.dtype) == ((4,), np.float64)
    assert after.error_variance is None or after.error_variance.shape == (4,)


def test_single_precision_is_the_same_channel() -> None:
    """Not through the quantiser, where a last digit may choose the cell."""
    kinds, given = (np.complex64, np.complex128), {**EVERY, "phase_bits": 0, "gain_bits": 0}
    single, double = (impaired(channel(4, 2, BLOCKS, SUBCARRIERS, dtype=kind), **given) for kind in kinds)
    np.testing.assert_allclose(single.state.response, double.state.response, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(single.estimate.response, double.estimate.response, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [(1, 1), (BLOCKS, SUBCARRIERS)])
def test_a_device_alone_has_the_channel_it_has_among_others(axes: tuple[int, int]) -> None:
    source = channel(6, 2, *axes)
    together = impaired(source, **EVERY)
    for i in (0, 3, 5):
        row, noise = slice(i, i + 1), source.pilot_noise_variance
        lone = perfect_csi(ChannelState(source.state.response[row]), source.mean_power[row], noise[row])
        alone = impair(lone, FRAME, draws([i]), **EVERY)
        for of in (lambda k: k.state.response, lambda k: k.estimate.response, lambda k: k.leakage, lambda k: k.slope):
            np.testing.assert_array_equal(of(alone), of(together)[row])


@every_impairment
def test_adding_an_impairment_moves_no_other_draw(name: str) -> None:
    asked: dict[str, list[Array]] = {other: [] for other in ONLY}

    def recorded(other: str, draw: Draw) -> Draw:
        def ask(count: int) -> Array:
            asked[other].append(draw(count))
            return asked[other][-1]

        return ask

    watched = {other: recorded(other, draw) for other, draw in draws(range(4)).items()}
    source = channel(4, 2, 1, 1)
    impair(source, FRAME, watched, **ONLY[name])
    assert [other for other in asked if asked[other]] == ([] if name == "feedback" else [name])
    alone, asked[name] = asked[name], []
    impair(source, FRAME, watched, **EVERY)
    np.testing.assert_equal(asked[name], alone)


def test_multiplicative_effects_do_not_see_what_came_before() -> None:
    """Phase, timing and frequency put the same factors on the truth whatever else is present."""
    source = channel(4, 2, BLOCKS, SUBCARRIERS)
    first = {**ONLY["estimation"], **ONLY["feedback"], **ONLY["ageing"]}
    before = impaired(source, **first)
    for name in ("phase", "timing", "frequency", "oscillator"):
        alone, after = impaired(source, **ONLY[name]), impaired(source, **first, **ONLY[name])
        factor = alone.state.response / source.state.response
        np.testing.assert_allclose(after.state.response / before.state.response, factor, rtol=1e-12)
        np.testing.assert_array_equal(after.estimate.response, before.estimate.response)


def test_one_phase_for_all_antennas_blocks_and_subcarriers() -> None:
    source = channel(4, 2, BLOCKS, SUBCARRIERS)
    after = impaired(source, phase_std_rad=0.5)
    turned = after.state.response / source.state.response
    np.testing.assert_allclose(turned, turned[:, :1, :1, :1] * np.ones_like(turned), rtol=1e-12)
    assert len(np.unique(np.round(np.angle(turned[:, 0, 0, 0]), 9))) == 4


@pytest.mark.parametrize("name", ["phase", "timing", "frequency", "oscillator", "phase feedback"])
def test_an_exact_estimate_that_is_turned_stays_bounded(name: str) -> None:
    """error_variance 0 promises |h/hhat| <= slope; None promises nothing."""
    parameters = {"phase_bits": 2} if name == "phase feedback" else ONLY[name]
    source = channel(20, 1, 1, 1)
    exact = impaired(source, **parameters)
    np.testing.assert_array_equal(exact.error_variance, 0)
    assert np.abs(exact.state.response / exact.estimate.response).max() <= 1 + 1e-12
    noisy = impaired(source, estimation="ls", **parameters)
    assert noisy.error_variance is None
    some = replace(source, pilot_noise_variance=np.repeat([0.0, 0.1], 10))
    assert impaired(some, estimation="ls", **parameters).error_variance is None


def test_without_pilot_noise_estimates_are_exact() -> None:
    """Gain feedback leaves no law."""
    powers = np.array([1.0, 2.0, 0.0, 3.0])
    source = replace(channel(4, 1, 1, 1), pilot_noise_variance=np.zeros(4), mean_power=powers)
    for estimation in ("ls", "mmse"):
        after = impaired(source, estimation=estimation)
        np.testing.assert_array_equal(after.estimate.response, source.state.response)
        np.testing.assert_array_equal([after.error_variance, after.slope], [[0] * 4, [1] * 4])
    after = impaired(channel(20, 1, 1, 1), gain_bits=6)
    assert after.error_variance is None
    assert np.abs(after.state.response / after.estimate.response).max() > 1
    assert impaired(channel(20, 1, 1, 1), gain_bits=6, **ONLY["ageing"]).error_variance is None


@every_impairment
def test_a_channel_of_zero_stays_finite(name: str) -> None:
    """One that only happens to be zero ages into a flat one."""
    nothing = ChannelState(np.zeros((2, 1, BLOCKS, SUBCARRIERS), complex))
    after = impaired(perfect_csi(nothing, np.zeros(2), np.zeros(2)), **ONLY[name])
    np.testing.assert_array_equal(after.state.response, 0)
    np.testing.assert_array_equal(after.estimate.response, 0)
    if name == "ageing":
        aged = impaired(perfect_csi(nothing, np.ones(2), np.zeros(2)), **ONLY[name]).state.response
        assert np.abs(aged).min() > 0
        np.testing.assert_allclose(aged, aged[:, :, :1, :1] * np.ones((BLOCKS, SUBCARRIERS)), rtol=1e-12)


def test_a_prefix_longer_than_the_offset_costs_nothing() -> None:
    long, short = (impaired(channel(20, 1, 1, 1), timing_offset_s=2e-5, prefix_s=prefix) for prefix in (2e-5, 1e-5))
    assert np.count_nonzero(long.leakage) == 0 < np.count_nonzero(short.leakage) < 20


def test_pilots_are_charged() -> None:
    """8 devices, 12 coefficients, 3 pilots each: 288 resource elements, 36 pilots a device."""
    for estimation, cost in (("ls", (288, 36)), ("mmse", (288, 36)), ("perfect", (0, 0))):
        assert Estimation(method=estimation, pilots=3).pilots_charged(8, 12) == cost


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"estimation": "blind"}, "method must be 'perfect', 'ls' or 'mmse', got 'blind'"),
    ({"pilots": 0}, "pilots must be at least 1, got 0"),
    ({"pilots": 1.5}, "pilots must be an integer, got 1.5"),
    ({"delay_s": -1e-3}, "delay_s must be 0 or at least 1e-20, got -0.001"),
    ({"delay_s": np.nan}, "delay_s must be finite, got nan"),
    ({"doppler_hz": -1.0}, "doppler_hz must be finite and at least 0"),
    ({"doppler_hz": np.inf}, "got inf"),
    ({"phase_bits": -1}, "phase_bits must be at least 0, got -1"),
    ({"phase_bits": 17}, "phase_bits must be at most 16, got 17"),
    ({"gain_bits": 17}, "gain_bits must be at most 16, got 17"),
    ({"gain_bits": 2.5}, "gain_bits must be an integer, got 2.5"),
    ({"gain_range_db": (10.0, -40.0)}, "the lower first, got (10.0, -40.0)"),
    ({"gain_range_db": (3.0, 3.0)}, "got (3.0, 3.0)"),
    ({"gain_range_db": (-np.inf, 3.0)}, "two finite numbers"),
    ({"phase_std_rad": -0.1}, "phase_std_rad must be 0 or at least"),
    ({"timing_offset_s": -1e-6}, "timing_offset_s must be 0 or at least"),
    ({"timing_offset_s": 1 / 15e3}, "below the useful symbol, 6.66667e-05 s"),
    ({"timing_offset_s": 4e-5, "spacing_hz": 30e3}, "3.33333e-05 s"),
    ({"frequency_offset_hz": 7500.0}, "below half the spacing, 7500 Hz"),
    ({"spacing_hz": 0.0}, "spacing_hz must be finite and positive, got 0.0"),
    ({"prefix_s": -1e-6}, "prefix_s must be finite and at least 0, got -1e-06"),
]


@pytest.mark.parametrize(("parameters", "said"), REFUSED)
def test_bad_parameters_are_refused_in_one_line(parameters: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=one_line(said)):
        Imperfections.check_within(*csi_of(**parameters))


def test_good_parameters_pass() -> None:
    extreme = {"pilots": 1, "phase_bits": 16, "gain_bits": 16}
    extreme |= {"timing_offset_s": 6.66e-5, "frequency_offset_hz": 7499.0}
    for parameters in ({}, EVERY, extreme):
        Imperfections.check_within(*csi_of(**parameters))


@pytest.mark.parametrize("kind", [Estimation, Topology, AntennaArray])
def test_a_parameter_that_a_class_adds_is_a_key_of_its_section(kind: type[Part]) -> None:
    """Type, bounds, default and description come from the class, the value reaches the part."""

    class Windowed(kind):  # type: ignore[valid-type, misc]
        window: int = parameter(default=3, ge=1, key="window", description="pilots that are averaged")

    parts = {**IMPAIRMENTS, "estimation": Windowed}
    made = with_keys(type("Made", (Section,), {"model_config": {"defer_build": True}}), "Made", parts, None, {})
    assert made.model_fields["window"].description == "pilots that are averaged"
    assert parts_of(made(window=5), parts)["estimation"] == Windowed(window=5)
    assert parts_of(made(), parts)["estimation"] == Windowed()
    with pytest.raises(UserError, match="at least 1"):
        made(window=0)


@pytest.mark.parametrize("name", IMPAIRMENTS)
def test_the_section_has_every_parameter_as_a_key(name: str) -> None:
    """Under the name that settings files have always had, with the class's default."""
    keys = {one.key or one.name for one in parameters_of(IMPAIRMENTS[name]) if one.name != "gain_range_db"}
    assert set() < keys <= set(CsiSettings.model_fields)
    assert getattr(CsiSettings().imperfections, name) == IMPAIRMENTS[name]()
    given = {key: value for key, value in ONLY[name].items() if key in CsiSettings.model_fields}
    assert getattr(CsiSettings(**given).imperfections, name) == getattr(csi_of(**given)[0], name)


@pytest.mark.parametrize(
    ("true", "known", "said"),
    [
        ((4, 1, 1, 1), (5, 1, 1, 1), "same number of devices, got 4 and 5"),
        ((4, 1, 1, 1), (1, 1, 1, 1), "same number of devices, got 4 and 1"),
        ((4, 2, 1, 1), (4, 1, 1, 1), "same number of antennas, got 2 and 1"),
        ((4, 2, 3, 5), (4, 2, 2, 5), "same number of blocks, got 3 and 2"),
        ((4, 2, 3, 5), (4, 2, 3, 4), "same number of subcarriers, got 5 and 4"),
        ((4,), (4, 1, 1, 1), "[devices, antennas, blocks, subcarriers], got shapes (4,)"),
        ((4, 1, 1, 1), (4, 1), "[devices, antennas, blocks, subcarriers], got shapes (4, 1, 1, 1) and (4, 1)"),
    ],
)
def test_an_estimate_of_the_wrong_shape_is_refused(true: tuple[int, ...], known: tuple[int, ...], said: str) -> None:
    """Axes of length one match any."""
    with pytest.raises(ValueError, match=one_line(said)):
        match(ChannelState(np.ones(true, complex)), ChannelEstimate(np.ones(known, complex)))
    for fits in ((4, 2, 1, 1), (4, 2, 3, 1)):
        match(ChannelState(np.ones((4, 2, 1, 5), complex)), ChannelEstimate(np.ones(fits, complex)))


def test_a_response_that_does_not_fit_estimate_or_frame_is_refused() -> None:
    for source, said in (
        (replace(channel(2, 1, 1, 1), estimate=channel(3, 1, 1, 1).estimate), "same number of devices, got 2 and 3"),
        (channel(2, 1, 1, 4), "number of subcarriers must be 1 or that of the frame, 5, got 4"),
        (channel(2, 1, 2, 5), "number of blocks must be 1 or that of the frame, 3, got 2"),
    ):
        with pytest.raises(ValueError, match=said):
            impaired(source, **EVERY)


def test_a_waveform_has_the_offsets_in_it_and_nobody_puts_them_upon_the_channel_again() -> None:
    every, around = csi_of(**EVERY)
    beside = [*list(ONLY)[:4], "oscillator", "synchronisation"]
    assert [one.name for one in every.beside_a_waveform if one.present(around)] == beside
    offsets = ("csi.timing_offset_s=1e-5", "csi.frequency_offset_hz=300.0", "csi.estimation=ls")
    for waveform in (False, True):
        radio = radio_of(small_settings(f"grid.waveform={str(waveform).lower()}", "grid.subcarriers=8", *offsets))
        known = radio.csi_of(0, np.arange(3), radio.frame(16), np.ones(3))
        assert known.offsets.carrier.any() != waveform
        assert not np.array_equal(known.state.response, known.estimate.response)
