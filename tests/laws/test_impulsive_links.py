"""Impulsive interference on links: the law of what is received, by closed forms, and rates at the effective SINR."""

import math

import numpy as np
import pytest
import torch

from airfl.core.round_plan import RoundPlan
from airfl.errors import UserError
from airfl.uplinks.uplink import Reception
from channels.interference import AlphaStable, BernoulliGaussian, Interference, effective_sinr
from tests.laws.decoding import built, everybody, planned, send
from tests.laws.samples import Array, assert_mean, assert_share

ENTRIES = 60_000
LEVEL_DB, GAMMA = 6.0, math.sqrt(10**0.6 / 2)
"""2 gamma^2/sigma_0^2 is the level; sigma_0 is 1."""
RADIO = (
    *everybody(2),
    *("channel.fading=rayleigh", "channel.mean_gain=1.0", "channel.min_gain=1e-3", "channel.max_gain=1e3"),
    *("channel.noise=false", f"channel.interference_to_noise_db={LEVEL_DB}", "channel.noise_std=1.0"),
    "grid.subcarriers=24",
)
STABLE, BURSTS = "channel.interference=alpha-stable", "channel.interference=bernoulli-gaussian"
INDEPENDENT = "channel.interference_across_antennas=independent"


def received(*overrides: str, entries: int = ENTRIES, t: int = 0) -> Array:
    """What is received of silent messages in a round without receiver noise."""
    scenario = built(entries, *RADIO, "trace.signals=true", *overrides)
    plan = planned(scenario, t)
    signals = send(plan, np.zeros((2, entries))).signals
    assert signals is not None
    if np.iscomplexobj(signals.rx):
        return np.stack([signals.rx.real, signals.rx.imag], axis=1).reshape(-1)[:entries].astype(np.float64)
    return signals.rx.astype(np.float64)


@pytest.mark.parametrize("way", [(), ("grid.packing=iq",), ("grid.waveform=true",), ("antennas.count=3",)], ids=str)
def test_an_observed_entry_is_symmetric_stable(way: tuple[str, ...]) -> None:
    """E exp(j t y) = exp(-gamma^alpha |t|^alpha) on every link that superposes, within 5 standard errors."""
    entries = 8000 if way == ("grid.waveform=true",) else ENTRIES
    sample = received(STABLE, "channel.interference_tail_index=1.3", *way, entries=entries)
    for t in (0.1, 0.4, 1.5):
        assert_mean(np.exp(1j * t * sample), math.exp(-((GAMMA * t) ** 1.3)))


def test_both_parts_of_an_element_are_struck_by_the_same_impulse() -> None:
    """Under I/Q packing both are silent or neither, a share of p of the elements; and isotropic: of a stable law
    E exp(j t (y' + y'')) = exp(-(sqrt(2) gamma t)^alpha), which of independent parts is exp(-2 (gamma t)^alpha)."""
    bursts = received(BURSTS, "channel.interference_burst_probability=0.2", "grid.packing=iq").reshape(-1, 2)
    assert ((bursts[:, 0] == 0) == (bursts[:, 1] == 0)).all()
    assert_share(bursts[:, 0] != 0, 0.2)
    assert_mean(bursts**2, 10**0.6)
    pairs = received(STABLE, "grid.packing=iq").reshape(-1, 2)
    assert_mean(np.exp(0.5j * pairs.sum(axis=1)), math.exp(-((math.sqrt(2) * GAMMA * 0.5) ** 1.5)))


@pytest.mark.parametrize("fading", ["rayleigh", "tapped-line"])
def test_antennas_with_impulses_of_their_own_have_the_dispersion_of_their_weights(fading: str) -> None:
    """gamma (sum_k |a_k|^alpha)^(1/alpha) of weights of unit norm: the mean over elements of
    exp(-gamma^alpha |t|^alpha sum_k |a_k|^alpha), within 5 standard errors; it is heavier than of common impulses."""
    words = (STABLE, INDEPENDENT, "antennas.count=4", f"channel.fading={fading}", "channel.delay_spread_s=1e-6")
    scenario = built(ENTRIES, *RADIO, *words)
    plan = planned(scenario)
    combiner = plan.link._control.combiner  # type: ignore[attr-defined]
    weight = (np.abs(combiner) ** 1.5).sum(axis=0)
    assert weight.shape[1] == (24 if fading == "tapped-line" else 1)
    assert weight.mean() > 1.1
    sample = received(*words)
    for t in (0.1, 0.5):
        expected = np.exp(-((GAMMA * t) ** 1.5) * weight).mean()
        assert_mean(np.exp(1j * t * sample), expected)
        assert expected < math.exp(-((GAMMA * t) ** 1.5)) - 0.01


def test_bursts_on_independent_antennas_come_more_often_and_of_less_power() -> None:
    """With 4 antennas an element is silent with probability (1 - p)^4, and the mean power stays that of one."""
    words = (BURSTS, INDEPENDENT, "antennas.count=4", "antennas.combining=sum")
    sample = received(*words)
    assert_share(sample == 0, 0.9**4)
    assert_mean(sample**2, 10**0.6)
    assert_share(received(*words[:1], *words[2:]) == 0, 0.9)  # common: one impulse strikes all


def test_leakage_comes_on_top_of_impulses() -> None:
    """Noise of a variance that the report has without interference, where no burst strikes."""
    offset = ("csi.frequency_offset_hz=3000", "channel.noise_std=1e-3")
    messages = torch.randn(2, ENTRIES, generator=torch.Generator().manual_seed(0)) / math.sqrt(ENTRIES)

    def round_of(*more: str) -> tuple[RoundPlan, Reception]:
        words = [word for word in RADIO if "interference" not in word]
        plan = planned(built(ENTRIES, *words, *offset, "trace.signals=true", *more))
        return plan, send(plan, messages)

    _, plain = round_of()
    _, struck = round_of("channel.interference_to_noise_db=90", BURSTS, "channel.interference_burst_probability=0.01")
    assert plain.report.interference_std > 0
    assert plain.signals is not None
    assert struck.signals is not None
    # The same numbers of a Gaussian for both, so that they differ by bursts alone.
    same = np.isclose(plain.signals.rx, struck.signals.rx, rtol=1e-4, atol=1e-7)
    assert_share(same, 0.99)
    together = plain.report.interference_std**2 + (1e-3 * 10**4.5 / 2 / struck.report.alignment_coefficient) ** 2
    assert struck.report.interference_std**2 == pytest.approx(together, rel=1e-6)


def test_what_is_reported_is_infinite_where_the_power_is() -> None:
    report = planned(built(50, *RADIO, STABLE)).link.link_budget()
    assert report.interference_std == math.inf
    for more in ((STABLE, "channel.interference_tail_index=2.0"), (BURSTS,)):
        other = planned(built(50, *RADIO, *more)).link.link_budget()
        assert other.interference_std == pytest.approx(10**0.3 / 2 / other.alignment_coefficient)


def test_at_index_2_the_rounds_are_those_of_gaussian_interference() -> None:
    for one in (
        f"{STABLE} channel.interference_tail_index=2.0",
        f"{BURSTS} channel.interference_burst_probability=1.0",
    ):
        np.testing.assert_array_equal(received(*one.split()), received())
    assert not np.array_equal(received(STABLE), received())


def test_the_same_address_has_the_same_impulses() -> None:
    """In every round of its own, and a shorter message has the first of a longer one's."""
    for law in (STABLE, BURSTS):
        first = received(law, entries=400)
        np.testing.assert_array_equal(received(law, entries=400), first)
        np.testing.assert_allclose(received(law, entries=100), first[:100], rtol=1e-6)
        other = received(law, entries=400, t=1)
        assert not np.isin(other[other != 0], first).any()


@pytest.mark.parametrize("words", [(), (STABLE,), (BURSTS,)], ids=str)
def test_interference_of_any_law_protects_nobody(words: tuple[str, ...]) -> None:
    """Protection is that of the receiver noise, and none without it."""
    noisy = [word for word in RADIO if word != "channel.noise=false"]
    plain = planned(built(50, *[word for word in noisy if "interference" not in word])).link.link_budget()
    assert planned(built(50, *noisy, *words)).link.link_budget().protection == plain.protection > 0
    assert planned(built(50, *RADIO, *words)).link.link_budget().protection == 0


# --- links that carry bits -------------------------------------------------------------------------------------------


LAWS: list[tuple[str, Interference]] = [
    (STABLE, AlphaStable()),
    (f"{STABLE} channel.interference_tail_index=1.1", AlphaStable(tail_index=1.1)),
    (f"{BURSTS} channel.interference_burst_probability=0.03", BernoulliGaussian(burst_probability=0.03)),
]
BITS = (
    *("run.devices=8", "run.selected=4", "scheme.name=fedavg", "channel.fading=rayleigh", "channel.mean_gain=1.0"),
    *(
        "channel.min_gain=1e-6",
        "channel.max_gain=1e6",
        "grid.subcarriers=24",
        f"power.max_snr_db={20 + 10 * math.log10(2)}",
    ),
)


def opened(*overrides: str) -> RoundPlan:
    return planned(built(2000, *BITS, *overrides))


@pytest.mark.parametrize(("words", "model"), LAWS, ids=[words for words, _ in LAWS])
def test_rates_are_those_of_the_effective_sinr(words: str, model: Interference) -> None:
    """Digital at capacity, four devices on a quarter of the band each; ideal; the broadcast to the weakest."""
    level = "channel.interference_to_noise_db=7"
    effective = effective_sinr(model, 10**0.7)
    plan = opened("scheme.link=digital", level, *words.split())
    power = 100 * np.abs(plan.channel.response[:, 0, 0, 0]) ** 2
    np.testing.assert_allclose(plan.link.link_budget().devices.rate, np.log2(1 + effective(4 * power)), rtol=1e-9)
    assert plan.link.heard.all()
    downlink = ("grid.downlink=true", "grid.downlink_snr_db=20")
    plan = opened("scheme.link=ideal", level, *downlink, *words.split())
    rates = np.log2(1 + effective(power))
    np.testing.assert_allclose(plan.link.link_budget().devices.rate, rates, rtol=1e-9)
    weakest = float(np.log2(1 + effective(power.min(keepdims=True) / 2))[0])
    assert plan.broadcast is not None
    assert plan.broadcast.resource_elements == pytest.approx(plan.broadcast.bits / weakest, rel=1e-3)


@pytest.mark.parametrize("allocation", ["equal", "rate-fair", "gain"])
@pytest.mark.parametrize("model", ["capacity", "finite-blocklength", "nr"])
def test_every_error_model_works_at_the_effective_sinr(model: str, allocation: str) -> None:
    """Without impulses it is the SINR: the same figures as of Gaussian interference, to the table's 1e-5. Bursts of the
    same mean power cost less."""
    words = ("scheme.link=digital", f"digital.error_model={model}", f"digital.allocation={allocation}")
    level = "channel.interference_to_noise_db=7"
    plain = opened(*words, level).link.link_budget()
    nearly = opened(*words, level, BURSTS, "channel.interference_burst_probability=0.99999999").link.link_budget()
    np.testing.assert_allclose(nearly.devices.rate, plain.devices.rate, rtol=1e-4)
    assert nearly.use.resource_elements == pytest.approx(plain.use.resource_elements, rel=1e-3)
    struck = opened(*words, level, BURSTS).link.link_budget()
    assert (struck.devices.rate >= plain.devices.rate).all()
    assert struck.use.resource_elements < plain.use.resource_elements


def test_leakage_and_impulses_together_cost_more_than_either() -> None:
    for link in ("digital", "ideal"):
        words = (f"scheme.link={link}", "channel.interference_to_noise_db=7", STABLE)
        impulses = opened(*words).link.link_budget()
        both = opened(*words, "csi.frequency_offset_hz=3000").link.link_budget()
        assert (both.devices.rate < impulses.devices.rate).all()


def test_proportional_fair_selection_has_the_effective_rates() -> None:
    """Other devices come first where bursts leave most elements alone; at Gaussian interference those of its SINR."""
    words = ("selection.kind=proportional-fair", "channel.interference_to_noise_db=20", "scheme.link=ideal")
    one, other = (opened(*words, *more).memory.mean_rate for more in ((), (BURSTS,)))
    assert one is not None
    assert other is not None
    assert other[other > 0].mean() > 2 * one[one > 0].mean()


@pytest.mark.parametrize(
    "words",
    [("scheme.link=digital",), ("scheme.link=ideal",), ("scheme.name=wfl-p", "selection.kind=proportional-fair")],
)
def test_rates_of_antennas_with_impulses_of_their_own_are_refused(words: str) -> None:
    level = ("channel.interference_to_noise_db=7", INDEPENDENT, "antennas.count=2")
    with pytest.raises(
        UserError, match=r"^channel.interference_across_antennas: 'independent' is for analog"
    ) as refused:
        opened(*words, *level, STABLE)
    assert "\n" not in str(refused.value)
    opened(*words, *level)  # Gaussian interference is independent between antennas as it is
