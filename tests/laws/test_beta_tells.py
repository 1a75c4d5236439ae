"""The information that beta reveals about the selected devices, against the joint law of (beta, sum).

Divergences are computed independently, by enumerating all samples and integrating sums of Gaussian densities.
"""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from airfl.privacy.disclosure import beta_disclosure
from airfl.privacy.events import Gaussian
from airfl.privacy.ledger import PrivacyLedger
from airfl.privacy.statement import Sampling, Statement
from tests.laws.samples import Array

Samples = list[tuple[NDArray[np.int64], float]]
DELTA = 1e-2
NOISE_STD, CLIP = 1.0, 1.0
# The grid of densities of one sum: to 10 standard deviations beyond the outermost mean, where 1e-23 is left. At a kink
# of slope 1 its sum is out by STEP^2/8, 3e-8.
STEP, TAIL = 5e-4, 10 * NOISE_STD
FIVE = np.array([0.3, 0.9, 1.4, 2.0, 2.7])


def samples_of(sampling: Sampling, devices: int, selected: int) -> Samples:
    """Every sample there can be, and its probability."""
    if sampling == "without_replacement":
        every = [np.array(chosen) for chosen in itertools.combinations(range(devices), selected)]
        return [(chosen, 1 / len(every)) for chosen in every]
    rate = selected / devices
    return [
        (np.flatnonzero(coins), float(np.prod(np.where(coins, rate, 1 - rate))))
        for coins in itertools.product([0, 1], repeat=devices)
    ]


def by_beta(sampling: Sampling, reaches: Array, selected: int, bound: float = math.inf) -> dict[float, Samples]:
    """The samples that lead to each beta, with their probabilities given it. Nobody leads to an infinite one."""
    found: dict[float, Samples] = defaultdict(list)
    for chosen, probability in samples_of(sampling, len(reaches), selected):
        found[min([bound, *reaches[chosen]])].append((chosen, probability))
    found.pop(math.inf, None)
    totals = {beta: sum(share for _, share in kinds) for beta, kinds in found.items()}
    return {beta: [(chosen, share / totals[beta]) for chosen, share in kinds] for beta, kinds in found.items()}


def sums_of(kinds: Samples, device: int, own: float, others: float) -> list[float]:
    """The sum of each sample where the device contributes `own`."""
    return [float(np.where(chosen == device, own, others).sum()) for chosen, _ in kinds]


def delta_at(epsilon: float, kinds: Samples, beta: float, device: int, adjacency: str) -> float:
    """Hockey-stick divergence at e^epsilon of the sum given beta, between neighbours: all others contribute -C, the
    device C or -C (or nothing, where it is there or not); the larger of both directions."""
    others = -CLIP if adjacency == "replace_one" else 0.0
    ones, without = (sums_of(kinds, device, own, others) for own in (CLIP, others))
    y = np.arange(beta * min(ones + without) - TAIL, beta * max(ones + without) + TAIL, STEP)
    return hockey_stick(*(mixture(y, beta, sums, kinds) for sums in (ones, without)), epsilon, STEP)


def mixture(y: Array, beta: float, sums: list[float], kinds: Samples) -> Array:
    """Density at y of beta times a sum, one for each sample, in noise."""
    different, which = np.unique(sums, return_inverse=True)
    weights = np.bincount(which, weights=[share for _, share in kinds])
    densities = np.exp(-(((y - beta * different[:, None]) / NOISE_STD) ** 2) / 2)
    return np.asarray(weights @ densities / (NOISE_STD * math.sqrt(2 * math.pi)))


def hockey_stick(one: Array, other: Array, epsilon: float, cell: float) -> float:
    """Divergence of two densities on a grid whose points stand for `cell` each, the larger of both directions."""
    factor = math.exp(epsilon)
    return max(float(np.maximum(a - factor * b, 0).sum() * cell) for a, b in ((one, other), (other, one)))


def ledger_of(sampling: Sampling, selected: int, devices: int) -> PrivacyLedger:
    return PrivacyLedger(Statement("client", sampling, selected, devices, "third_party", DELTA))


@pytest.mark.parametrize("bound", [math.inf, 1.2])
@pytest.mark.parametrize("sampling", ["without_replacement", "poisson"])
def test_a_round_is_exact_given_beta(sampling: Sampling, bound: float) -> None:
    """No device's divergence exceeds delta at the ledger's epsilon, and that of whoever pays most attains it."""
    ledger, paid = ledger_of(sampling, 2, 5), 0
    adjacency = ledger.statement.adjacency
    for beta, kinds in by_beta(sampling, FIVE, 2, bound).items():
        told = beta_disclosure(kinds[0][0], FIVE, bound, poisson=sampling == "poisson")
        epsilon = ledger.of_one_round(Gaussian(NOISE_STD / (beta * CLIP)), told)
        worst = max(delta_at(epsilon, kinds, beta, device, adjacency) for device in range(5))
        assert worst == pytest.approx(DELTA, rel=2e-3)
        paid += len(told.named)
    assert paid  # in some round somebody was named


def test_the_amplified_figure_is_false_where_gains_are_known() -> None:
    """As it was accounted before: the device that sets beta pays more than a sample of fixed size hides."""
    ledger = ledger_of("without_replacement", 2, 5)
    kinds = by_beta("without_replacement", FIVE, 2)[0.9]
    amplified = ledger.of_one_round(Gaussian(NOISE_STD / 0.9))
    assert delta_at(amplified, kinds, 0.9, 1, "replace_one") > 2 * DELTA


TIES = ([0.5] * 5, [0.5] * 4 + [2.0], [0.5, 0.5, 1.0, 2.0, 2.0], [0.0, 0.5, 0.5, 1.0, 2.0], [0.0, 0.0, 0.7, 0.7, 0.7])


@pytest.mark.parametrize("sampling", ["without_replacement", "poisson"])
@pytest.mark.parametrize("reaches", [np.array(tie) for tie in TIES])
def test_ties_and_silent_devices_are_covered(reaches: Array, sampling: Sampling) -> None:
    """Devices that tie for beta, and those that reach none: for every sample that may have been, nobody pays more."""
    ledger = ledger_of(sampling, 3, 5)
    for beta, kinds in by_beta(sampling, np.where(reaches > 0, reaches, np.inf), 3).items():
        told = [beta_disclosure(chosen, reaches, math.inf, poisson=sampling == "poisson") for chosen, _ in kinds]
        # What is granted beside beta, how many of those that tie were selected, differs between the samples.
        epsilon = max(ledger.of_one_round(Gaussian(NOISE_STD / beta), each) for each in told)
        for device in range(5):
            assert delta_at(epsilon, kinds, beta, device, ledger.statement.adjacency) <= DELTA * (1 + 1e-6)


@pytest.mark.parametrize("sampling", ["without_replacement", "poisson"])
@pytest.mark.parametrize("reaches", [np.array(tie) for tie in (FIVE, *TIES)])
def test_a_lower_bound_is_paid_by_somebody(reaches: Array, sampling: Sampling) -> None:
    """Where devices tie there may be none; what is granted to the observer is not paid."""
    ledger, known = ledger_of(sampling, 3, 5), []
    for beta, kinds in by_beta(sampling, np.where(reaches > 0, reaches, np.inf), 3).items():
        for chosen, _ in kinds:
            told = beta_disclosure(chosen, reaches, math.inf, poisson=sampling == "poisson")
            least = ledger.of_one_round_at_least(Gaussian(NOISE_STD / beta), told, chosen)
            known.append(not math.isnan(least))
            if known[-1]:
                worst = max(delta_at(least, kinds, beta, device, ledger.statement.adjacency) for device in range(5))
                assert worst >= DELTA * (1 - 2e-3)
    assert all(known) or len(np.unique(reaches)) < 5
    if sampling == "without_replacement" and reaches[0] == reaches[4]:
        assert all(known)  # all that are selected tie, of all devices


def test_a_round_with_less_noise_that_is_granted_hides_no_lower_bound() -> None:
    """In the first round devices 0 and 1 tie, in the second device 0 sets beta alone, with as many above it."""
    ledger, chosen = ledger_of("poisson", 2, 5), np.array([0, 3])
    for noise, reaches in ((1.0, [0.5, 0.5, 1.0, 2.0, 2.0]), (2.0, [0.5, 0.3, 1.0, 2.0, 2.0])):
        told = beta_disclosure(chosen, np.array(reaches), math.inf, poisson=True)
        figures = ledger.record(Gaussian(noise), compose=True, devices=chosen, last=True, disclosure=told)
    assert figures.epsilon_round_at_least == ledger.of_one_round_at_least(Gaussian(2.0), told, chosen) > 0


@pytest.mark.parametrize("sampling", ["without_replacement", "poisson"])
def test_all_that_tie_for_beta_pay_for_it(sampling: Sampling) -> None:
    """Devices 0 and 1 tie in the first round; whichever of them alone sets beta in the next has paid for both."""

    def paid(setting: int) -> float:
        ledger, alone = ledger_of(sampling, 2, 5), np.full(5, 2.0)
        alone[setting] = 0.5
        for chosen, reaches in (([0, 1], np.array([0.5, 0.5, 1.0, 2.0, 2.0])), ([setting, 3], alone)):
            told = beta_disclosure(np.array(chosen), reaches, math.inf, poisson=sampling == "poisson")
            figures = ledger.record(Gaussian(2 * NOISE_STD), compose=True, devices=np.array(chosen), disclosure=told)
        return figures.epsilon

    assert paid(1) == pytest.approx(paid(0), rel=1e-9)


def test_everybody_alike_is_an_ordinary_sample() -> None:
    """Where all devices reach the same, beta says nothing."""
    told = beta_disclosure(np.array([1, 3]), np.full(10, 0.4), math.inf, poisson=False)
    assert (told.named.tolist(), told.sample, told.pool, told.exact) == ([], 2, 10, True)


def test_two_rounds_compose_to_no_less_than_they_cost() -> None:
    """Two rounds over constant gains: the joint divergence given both betas, on a grid of both sums, is within delta at
    the ledger's epsilon, and not within it at what the pair is said to pay at least."""
    reaches, ledger = np.array([0.4, 0.8, 1.3, 1.9]), ledger_of("without_replacement", 2, 4)
    for chosen in (np.array([1, 2]), np.array([1, 3])):
        given = {"devices": chosen, "disclosure": beta_disclosure(chosen, reaches, math.inf, poisson=False)}
        figures = ledger.record(Gaussian(NOISE_STD / 0.8), compose=True, last=3 in chosen, **given)
    kinds = by_beta("without_replacement", reaches, 2)[0.8]
    y, largest = np.arange(-12, 12, 0.02), np.zeros(2)
    for device in range(4):
        once = [mixture(y, 0.8, sums_of(kinds, device, own, -CLIP), kinds) for own in (CLIP, -CLIP)]
        one, other = (np.outer(density, density) for density in once)
        epsilons = (figures.epsilon, figures.epsilon_at_least * 0.999)
        largest = np.maximum(largest, [hockey_stick(one, other, epsilon, 0.02**2) for epsilon in epsilons])
    assert largest[0] <= DELTA <= largest[1]
