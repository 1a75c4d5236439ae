"""Robust combining of antennas: against numpy, the noise of order statistics, impulses that it rejects, and privacy."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.analysis.calculator import privacy_of
from airfl.core.round_plan import RoundPlan
from airfl.errors import UserError
from airfl.report.privacy import privacy_table
from airfl.uplinks.uplink import Reception
from channels.antennas import COMBINERS, Median, RobustCombiner, TrimmedMean
from channels.part import parameter
from tests.conftest import small_settings
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean, assert_share

ENTRIES, ANTENNAS = 40_000, 5
RADIO = (
    *everybody(3),
    *("channel.mean_gain=1.0", "channel.min_gain=1e-3", "channel.max_gain=1e3", "channel.noise_std=1.0"),
    *("grid.subcarriers=24", f"antennas.count={ANTENNAS}", "power.max_snr_db=10"),
)
ALIKE = ("channel.fading=fixed", "antennas.angle=broadside")
"""Every device arrives alike on all antennas."""
SCATTERED = ("channel.fading=rayleigh",)
QUIET = "channel.noise=false"
TRIMMED = "antennas.combining={ name = 'trimmed-mean', trim = 0.2 }"
robust = pytest.mark.parametrize("combining", ["antennas.combining=median", TRIMMED], ids=["median", "trimmed-mean"])


def round_of(*overrides: str, messages: Array | None = None, entries: int = ENTRIES) -> tuple[RoundPlan, Reception]:
    plan = planned(built(entries, *RADIO, *overrides))
    return plan, send(plan, np.zeros((3, entries)) if messages is None else messages)


def summed(reception: Reception) -> Array:
    """What is decoded, times the number of devices and beta: the sum at the receiver."""
    return reception.mean.double().numpy() * 3 * reception.report.alignment_coefficient


def messages_of(entries: int = ENTRIES) -> NDArray[np.float64]:
    return np.random.default_rng(3).standard_normal((3, entries)) / math.sqrt(entries)


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
@robust
def test_it_is_the_location_of_the_branches_by_numpy(combining: str, fading: str, packing: str) -> None:
    """A times the median, or the trimmed mean, over antennas k of what is observed of a_k^* sum_i h_ik b_i m_i."""
    words = (f"channel.fading={fading}", "channel.delay_spread_s=1e-6", f"grid.packing={packing}", QUIET, combining)
    messages = messages_of(480)
    plan, reception = round_of(*words, messages=messages, entries=480)
    control = plan.link._control  # type: ignore[attr-defined]
    placement = plan.link._placement  # type: ignore[attr-defined]
    sent = messages if packing == "real" else messages[:, 0::2] + 1j * messages[:, 1::2]

    def spread(coefficients: Any) -> Any:
        full = np.broadcast_to(coefficients, (1, 24))
        return np.array([full[0, (e + placement.start) % 24] for e in range(sent.shape[1])])

    branches = []
    for antenna in range(ANTENNAS):
        effective = control.combiner[antenna].conj() * plan.channel.response[:, antenna] * control.precoders
        branches.append(sum(spread(one) * message for one, message in zip(effective, sent, strict=True)))
    stacked = np.array(branches)
    observed = np.stack([stacked.real, stacked.imag], axis=-1).reshape(ANTENNAS, -1)
    observed = stacked.real if packing == "real" else observed
    ordered = np.sort(observed, axis=0)
    expected = ANTENNAS * (ordered[2] if "median" in combining else ordered[1:4].mean(axis=0))
    decoder = control.decoder
    mean = expected * (decoder[0, 0] if decoder.size == 1 else np.repeat(spread(decoder), 2 if packing == "iq" else 1))
    np.testing.assert_allclose(reception.mean, mean, rtol=1e-4, atol=1e-6 * np.abs(mean).max())


def test_of_an_even_number_the_median_is_between_the_middle_two() -> None:
    branches = torch.tensor([[1.0, -4.0], [3.0, 0.0], [10.0, 2.0], [2.0, 9.0]])
    torch.testing.assert_close(Median().location(branches), torch.tensor([2.5, 1.0]))
    torch.testing.assert_close(TrimmedMean(trim=0.25).location(branches), torch.tensor([2.5, 1.0]))
    torch.testing.assert_close(TrimmedMean(trim=0.0).location(branches), branches.mean(dim=0))


@pytest.mark.parametrize("beam", ["max-min", "sum", "principal"])
def test_without_trimming_it_is_the_beam(beam: str) -> None:
    words = (*SCATTERED, QUIET)
    _, plain = round_of(*words, f"antennas.combining={beam}", messages=messages_of())
    trimmed = f"antennas.combining={{ name = 'trimmed-mean', trim = 0.0, beam = '{beam}' }}"
    _, found = round_of(*words, trimmed, messages=messages_of())
    torch.testing.assert_close(found.mean, plain.mean, rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(found.report.devices.energy, plain.report.devices.energy)
    assert found.report.use == plain.report.use
    assert found.receive_snr_db == plain.receive_snr_db


@robust
def test_devices_that_arrive_alike_on_all_antennas_are_not_biased(combining: str) -> None:
    """And through Rayleigh fading they are: each branch has another share of each device."""
    messages = messages_of()
    _, alike = round_of(*ALIKE, QUIET, combining, messages=messages)
    np.testing.assert_allclose(alike.mean, messages.mean(axis=0), rtol=1e-4, atol=1e-7)
    _, scattered = round_of(*SCATTERED, QUIET, combining, messages=messages)
    mean = messages.mean(axis=0)
    assert 0.03 < np.square(scattered.mean.numpy() - mean).sum() / np.square(mean).sum() < 0.3


def test_gaussian_noise_has_the_variance_of_a_median() -> None:
    """Of 5 standard normal numbers the median has the variance 0.28683 (Sarhan and Greenberg 1962): 5 times that on the
    sum, for 1 of linear combining. Noise on the antennas is independent."""
    _, found = round_of(*ALIKE, "antennas.combining=median")
    assert_mean(summed(found) ** 2, 5 * 0.28683)
    _, linear = round_of(*ALIKE, "antennas.combining={ name = 'trimmed-mean', trim = 0.0 }")
    assert_mean(summed(linear) ** 2, 1.0)
    assert linear.report.noise_std == found.report.noise_std


BURSTS = (
    *("channel.interference_to_noise_db=60", "channel.interference=bernoulli-gaussian"),
    "channel.interference_burst_probability=0.1",
)
INDEPENDENT = "channel.interference_across_antennas=independent"


def test_bursts_on_less_than_half_of_the_antennas_are_rejected() -> None:
    """An entry is wrong where 3 or more of 5 antennas are struck with the same sign: of k struck ones with probability
    1/4, 5/8 and 1 for k = 3, 4, 5, each with C(5, k) p^k (1 - p)^(5 - k). Impulses that are common to all antennas
    come through, with probability p."""
    words = (*ALIKE, QUIET, "antennas.combining=median", *BURSTS)
    _, own = round_of(*words, INDEPENDENT)
    struck = {3: 1 / 4, 4: 5 / 8, 5: 1.0}
    expected = sum(math.comb(5, k) * 0.1**k * 0.9 ** (5 - k) * wrong for k, wrong in struck.items())
    assert_share(np.abs(summed(own)) > 0, expected)
    _, common = round_of(*words)
    assert_share(np.abs(summed(common)) > 0, 0.1)
    _, linear = round_of(*ALIKE, QUIET, *BURSTS, INDEPENDENT)
    assert_share(np.abs(summed(linear)) > 0, 1 - 0.9**5)


@pytest.mark.parametrize("way", ["real", "iq"])
def test_untrimmed_branches_have_the_interference_of_linear_combining(way: str) -> None:
    """Of common stable impulses the dispersion gamma, of independent ones 5^(1/alpha - 1/2) gamma; leakage and Gaussian
    interference the variance that the report has."""
    words = (*ALIKE, QUIET, "antennas.combining={ name = 'trimmed-mean', trim = 0.0 }", f"grid.packing={way}")
    level = ("channel.interference_to_noise_db=0", "channel.interference=alpha-stable")
    for more, wider in ((), 1.0), ((INDEPENDENT,), 5 ** (1 / 1.5 - 0.5)):
        _, found = round_of(*words, *level, *more)
        for t in (0.2, 1.0):
            assert_mean(np.exp(1j * t * summed(found)), math.exp(-((math.sqrt(0.5) * wider * t) ** 1.5)))
    _, found = round_of(*words, "channel.interference_to_noise_db=3")
    assert_mean(summed(found) ** 2, 10**0.3)


def test_chunks_and_slabs_change_nothing() -> None:
    from airfl.uplinks.stages import Batch

    messages = torch.as_tensor(messages_of(600), dtype=torch.float32)
    words = (*SCATTERED, "antennas.combining=median", *BURSTS)
    whole = send(planned(built(600, *RADIO, *words)), messages)
    plan = planned(built(600, *RADIO, *words))
    assert plan.link.elementwise
    for start in (0, 250):
        for device in range(3):
            part = slice(start, 250 if start == 0 else 600)
            rows = slice(device, device + 1)
            plan.link.send(Batch(messages[rows, part], torch.ones(1), part=part), rows)
    torch.testing.assert_close(plan.link.close().mean, whole.mean, rtol=1e-4, atol=1e-5)


@robust
def test_what_is_released_is_accounted_as_the_samples_of_all_antennas(combining: str) -> None:
    """sigma_0 over the largest ||h_i|| |b_i|, as for an observer who sees them; the selection is taken to be known, and
    no lower bound is claimed."""
    plan, found = round_of(*SCATTERED, combining)
    amplitude = np.linalg.norm(plan.channel.response[:, :, 0, 0], axis=1)
    control = plan.link._control  # type: ignore[attr-defined]
    largest = (amplitude * np.abs(control.precoders[:, 0, 0])).max()
    assert found.report.protection == pytest.approx(1 / largest)
    assert largest > 1.05 * found.report.alignment_coefficient
    statement = built(50, *RADIO, *SCATTERED, combining).statement
    assert (statement.granted, statement.attained) == (True, False)
    assert not statement.hidden
    linear = built(50, *RADIO, *SCATTERED).statement
    assert linear.attained


def test_no_beta_is_named_for_a_target_where_the_amplitude_is_another() -> None:
    """And a round's figure is called an upper bound."""
    given = ("scheme.name=pfels", "run.rounds=2", *RADIO, *SCATTERED)
    summed, median = (privacy_of(small_settings(*given, f"antennas.combining={name}")) for name in ("sum", "median"))
    assert summed.alignment_coefficient > 0
    assert math.isnan(median.alignment_coefficient)
    assert median.remedies is not None
    alone = privacy_of(small_settings("scheme.name=wfl-p", "run.rounds=2"))
    # Over several antennas the observer is granted what beta may tell.
    for found, said in ((median, "at most"), (summed, "at most"), (alone, "exact")):
        assert f"ε of the worst round, {said}" in list(privacy_table(found).columns[0].cells)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("csi.estimation=mmse", "privacy.csi_error=quantile"), "privacy.csi_error: antennas.combining = 'median' is"),
        (("privacy.bound=accountant", "privacy.epsilon=3"), 'privacy.bound: "accountant" sets beta for antennas that'),
    ],
)
def test_privacy_that_it_does_not_go_with_is_refused(words: tuple[str, ...], said: str) -> None:
    given = (*RADIO, *SCATTERED, "scheme.name=pfels", "antennas.combining=median", *words)
    with pytest.raises(UserError, match=f"^{said}") as refused:
        built(50, *given)
    assert "\n" not in str(refused.value)
    built(50, *given, "antennas.count=1")


def test_one_antenna_is_as_ever() -> None:
    words = (*SCATTERED, "antennas.count=1")
    ways = ("antennas.combining=median", "antennas.combining=first")
    found, plain = (round_of(*words, way, messages=messages_of())[1] for way in ways)
    torch.testing.assert_close(found.mean, plain.mean, rtol=0, atol=0)


class Mean(RobustCombiner):
    """No robust one, but a user's own; spoilt in one place."""

    name = "my-mean"
    how: Any = parameter(default=None, description="what becomes of the location")

    def location(self, branches: Tensor) -> Any:
        found = branches.mean(dim=0)
        return self.how(found) if self.how else found


@pytest.mark.parametrize(
    ("how", "said"),
    [
        (lambda found: found[:-1], r"must return a location, torch.float32 \(50,\), got torch.float32 \(49,\)"),
        (lambda found: found * math.nan, "returned a location that is not finite"),
        (lambda found: found.tolist(), r"must return a location, torch.float32 \(50,\), got list"),
    ],
)
def test_an_own_combiner_is_held_to_its_contract(how: Any, said: str) -> None:
    from airfl.core.building import build_scenario

    settings = small_settings(*RADIO, *SCATTERED).resolved(antennas={"combining": Mean(how=how)})
    plan = planned(build_scenario(settings, 50, np.ones(3)))
    with pytest.raises(UserError, match=f"^antennas.combining: Mean.*{said}"):
        send(plan, np.zeros((3, 50)))


@pytest.mark.parametrize("combiner", [Median(), TrimmedMean(), Mean()], ids=lambda one: one.name)
def test_sound_combiners_pass_the_checks(combiner: RobustCombiner) -> None:
    from airfl.study.check import check_part

    assert not any(one.found for one in check_part(combiner)), check_part(combiner)


def test_the_check_finds_a_location_that_is_none() -> None:
    from airfl.study.check import check_part

    for how in (lambda found: 2 * found, lambda found: found - found.mean(), lambda found: found[:1]):
        found = {one.check: one.found for one in check_part(Mean(how=how))}
        assert found["location"], found


def test_both_are_in_the_table() -> None:
    assert {name for name in COMBINERS if COMBINERS[name].robust} == {"median", "trimmed-mean"}
