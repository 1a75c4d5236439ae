"""Non-coherent aggregation against closed forms: exact moments and majorities in Rayleigh fading, and sums by hand.

Every element has its own independent fade, and all entries of a message are equal, so that the entries of a decoded
mean are independent samples of one law.
"""

import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.runtime import philox
from airfl.runtime.store import Store
from airfl.runtime.streams import Purpose, Streams
from airfl.schemes.error_feedback import with_feedback
from airfl.uplinks import NoncoherentUplink, UplinkContext
from airfl.uplinks.stages import Batch, Round, open_encoder
from airfl.uplinks.stages.clamp import Clamp
from airfl.uplinks.stages.quantise import StochasticQuantise
from airfl.uplinks.stages.stage import MessageBound
from airfl.uplinks.stages.votes import Votes
from channels.codewords import Affine, AugmentedAffine, Codewords, DigitEnergies, EnergyDifference
from channels.energy import first_is_larger, phase_table
from channels.grid import OfdmaGrid
from channels.interference import AlphaStable, BernoulliGaussian, Gaussian
from channels.resource_mapping import ResourceMapping
from tests.uplink_contexts import context_of

M = 20_000
SIGMA_0 = 0.3
N_0 = 2 * SIGMA_0**2
Array = NDArray[np.float64]


def uplink_of(codewords: Codewords, chips: int = 1, **more: object) -> NoncoherentUplink:
    grid = OfdmaGrid(max(2, codewords.resources) * chips * M, 1e-3)
    return NoncoherentUplink(grid, codewords, "round_energy", SIGMA_0, chips=chips, **more)  # type: ignore[arg-type]


def faded(devices: int, elements: int, antennas: int = 1, mean_power: Array | None = None) -> UplinkContext:
    """A round in which every element of every antenna fades on its own, and messages of M entries have norm sqrt(M)."""
    generator = np.random.default_rng(7)
    shape = (devices, antennas, 1, elements)
    response = (generator.standard_normal(shape) + 1j * generator.standard_normal(shape)) / math.sqrt(2)
    powers = np.ones(devices) if mean_power is None else mean_power
    bound = MessageBound(M, math.sqrt(M), math.sqrt(M))
    context = context_of(
        response * np.sqrt(powers)[:, None, None, None], bound, subcarriers=elements, elements=elements, limit=float(M)
    )
    norms = math.sqrt(M) * context.weights
    return replace(context, csi=replace(context.csi, mean_power=powers), rms_norms=norms, peak_norms=norms)


def received(uplink: NoncoherentUplink, context: UplinkContext, values: Array) -> Array:
    """The decoded mean if all entries of device i are values[i]."""
    messages = torch.from_numpy(np.repeat(values[:, None], context.entries, axis=1)).float()
    link = uplink.open(context)
    link.send(Batch(messages, torch.from_numpy(context.weights).float()), slice(0, len(values)))
    return link.close().mean.double().numpy()


@pytest.mark.parametrize("antennas", [1, 3])
@pytest.mark.parametrize("ayes", [3, 4])
def test_the_probability_of_a_correct_majority_is_sahins(ayes: int, antennas: int) -> None:
    """P = mu_+/(mu_+ + mu_-) with mu = E K + N_0 for one antenna; each device has E = 1 per vote. 5 standard errors."""
    votes = np.where(np.arange(5) < ayes, 1.0, -1.0)
    context = faded(5, 2 * M, antennas)
    right = received(uplink_of(EnergyDifference(), phases="qpsk"), context, votes) > 0
    aye, nay = ayes + N_0, 5 - ayes + N_0
    expected = first_is_larger(aye, nay, antennas)
    if antennas == 1:
        assert expected == pytest.approx(aye / (aye + nay), rel=1e-12)
    assert right.mean() == pytest.approx(expected, abs=5 * math.sqrt(expected * (1 - expected) / M))


@pytest.mark.parametrize(("antennas", "branches", "p"), [(1, 1, 0.7), (2, 2, 0.784)])
def test_two_branches_are_worked_out_by_hand(antennas: int, branches: int, p: float) -> None:
    """I_p(2, 2) = 3 p^2 - 2 p^3 = 0.784 at p = 0.7."""
    assert first_is_larger(7.0, 3.0, branches) == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize(("chips", "antennas"), [(1, 1), (4, 1), (1, 2)])
def test_the_energy_difference_has_its_exact_mean_and_variance(chips: int, antennas: int) -> None:
    """E = sum_i w_i u_i/r and Var = sum_+- (U + L N_0/rho)^2/(L A r^2), U the sum of the positive or negative parts:
    fading, fading times noise, and noise. Unequal mean powers are equalised to the weakest. 5 standard errors; that of
    a variance is sqrt((kurtosis - 1)/M), with a kurtosis of at most 9, that of an exponential."""
    values, powers = np.array([0.8, -0.5, 0.3, 1.0]), np.array([1.0, 4.0, 0.5, 2.0])
    context = faded(4, 2 * chips * M, antennas, powers)
    mean = received(uplink_of(EnergyDifference(), chips), context, values)
    rho = powers.min()  # the limit is the energy of M entries of 1
    parts = np.array([values[values > 0].sum(), -values[values < 0].sum()])
    variance = float(((parts + chips * N_0 / rho) ** 2).sum() / (chips * antennas * 4**2))
    assert mean.mean() == pytest.approx(values.mean(), abs=5 * math.sqrt(variance / M))
    assert mean.var() == pytest.approx(variance, rel=5 * math.sqrt(8 / M))


@pytest.mark.parametrize(("chips", "antennas"), [(1, 1), (3, 2)])
@pytest.mark.parametrize("codewords", [AugmentedAffine(1.5), Affine(1.5)], ids=["augmented", "affine"])
def test_affine_energies_have_their_exact_mean_and_variance(codewords: Codewords, chips: int, antennas: int) -> None:
    """Augmented: Var = sum_+- (C + L N_0/rho)^2/(L A r^2) with C = sum_i w_i (v +- x_i)/2; affine: four times the first
    term, and what is subtracted for v and the noise leaves no bias. rho = E|h|^2/v, as v is spent on every entry."""
    values, weights, v = np.array([0.8, -1.5, 0.3]), np.array([1.0, 0.5, 1.5]), 1.5
    context = faded(3, codewords.resources * chips * M, antennas)
    context = replace(context, weights=weights)
    mean = received(uplink_of(codewords, chips), context, values)
    rho = 1 / (1.5 * v)
    sums = [(weights * (v + sign * values)).sum() / 2 + chips * N_0 / rho for sign in (1, -1)]
    squares = sums[0] ** 2 + sums[1] ** 2 if codewords.resources == 2 else 4 * sums[0] ** 2
    variance = float(squares / (chips * antennas * 3**2))
    assert mean.mean() == pytest.approx((weights * values).sum() / 3, abs=5 * math.sqrt(variance / M))
    assert mean.var() == pytest.approx(variance, rel=5 * math.sqrt(8 / M))


# The map, and the number of each device.
MAPS: dict[str, tuple[Codewords, tuple[float, ...]]] = {
    "fsk-mv": (EnergyDifference(), (1.0, -1.0, 0.4)),  # two votes, and one that counts less
    "reed": (EnergyDifference(), (0.8, -0.5, 0.3)),
    "ncairfl": (EnergyDifference(), (0.6, -0.6, 0.6)),
    "augmented": (AugmentedAffine(1.5), (0.8, -1.5, 0.3)),
    "affine": (Affine(1.5), (0.8, -1.5, 0.3)),
    "balanced digits": (DigitEnergies(5), (2.0, -1.0, 0.0)),
    "balanced digits, zero sent": (DigitEnergies(5, zero_sent=True), (2.0, -1.0, 0.0)),
}


@pytest.mark.parametrize("name", MAPS)
def test_every_scheme_is_a_case_of_the_general_form(name: str) -> None:
    """Energies c_j(x) on J elements and a decoder sum_j a_j E_j - kappa. With C_j = sum_i w_i c_j(x_i), E = (sum_j a_j
    C_j - kappa)/r is sum_i w_i x_i/r, and Var = sum_j a_j^2 (C_j + L N_0/rho)^2/(L A r^2). 5 standard errors."""
    codewords, given = MAPS[name]
    values, weights, chips, antennas = np.array(given), np.array([1.0, 0.5, 1.5]), 2, 2
    resources = codewords.resources
    context = replace(faded(3, resources * chips * M, antennas), weights=weights)
    mean = received(uplink_of(codewords, chips), context, values)

    messages, of_devices = torch.from_numpy(weights * values)[:, None].double(), torch.from_numpy(weights)
    sums = codewords.encode(messages, of_devices).square().sum(dim=0)[:, 0].double().numpy()  # C_j
    at_zero = codewords.decode(torch.zeros(resources, 1).double(), 0.0, float(weights.sum()))[0]
    columns = codewords.decode(torch.eye(resources).double(), 0.0, float(weights.sum()))
    factors = (columns - at_zero).numpy()  # a_j, as the decoder is linear in energies
    assert factors @ sums + float(at_zero) == pytest.approx((weights * values).sum())
    rho = min(M / codewords.most_energy(M, math.sqrt(M), weight) for weight in weights)  # norm sqrt(M)
    variance = float((factors**2 * (sums + chips * N_0 / rho) ** 2).sum() / (chips * antennas * 3**2))
    assert mean.mean() == pytest.approx((weights * values).sum() / 3, abs=5 * math.sqrt(variance / M))
    assert mean.var() == pytest.approx(variance, rel=5 * math.sqrt(8 / M))


@pytest.mark.parametrize("chips", [1, 3])
def test_no_unbiased_map_with_factors_of_1_varies_less_than_the_difference(chips: int) -> None:
    """Of maps to 2 L elements, L with a_j = 1 and L with a_j = -1: those elements have max(+-x, 0) + t with some t >=
    0, split in any way. Sums of squares of numbers with a given sum are least if they are equal, and grow with t."""
    generator, noise = np.random.default_rng(2), 0.3
    for _ in range(50):
        values = generator.standard_normal(6) + generator.uniform(-1, 1)
        excess = generator.exponential(generator.choice([0.0, 0.1, 1.0]), 6)
        found = least = 0.0
        for sign in (1, -1):
            part = np.maximum(sign * values, 0)
            split = generator.dirichlet(np.full(chips, generator.choice([0.5, 50.0])), 6)
            energies = ((part + excess)[:, None] * split).sum(axis=0)
            found += float(((energies + noise) ** 2).sum())
            least += float((part.sum() + chips * noise) ** 2) / chips  # L times the variance of `reed`'s law
        assert found >= least * (1 - 1e-12)


def test_of_energies_that_are_uniform_the_difference_varies_least() -> None:
    """r devices with x uniform in [-v, v], without noise: E[U_+-] = r v/4, E[C] = r v/2. To the leading order in r the
    variance over fades is r^2 v^2/8 of the difference, r^2 v^2/2 of augmented and r^2 v^2 of affine energies."""
    generator, devices, v = np.random.default_rng(1), 400, 1.0
    values = generator.uniform(-v, v, devices)
    parts = np.array([values[values > 0].sum(), -values[values < 0].sum()])
    shifted = np.array([(v + values).sum(), (v - values).sum()]) / 2
    difference, augmented, affine = (parts**2).sum(), (shifted**2).sum(), 4 * shifted[0] ** 2
    assert augmented / difference == pytest.approx(4, rel=0.2)
    assert affine / augmented == pytest.approx(2, rel=0.2)


def test_dithered_bits_are_unbiased_and_their_error_stays_bounded() -> None:
    """e <- x + e - Q(x + e) stays within 2 v if |x| <= v, and the mean of T messages within 2 v/T of x."""
    rounds, v = 400, 0.5
    update, store = torch.linspace(-0.5, 0.5, 64).repeat(3, 1), Store()
    stages = with_feedback(True, (StochasticQuantise(2, v),), 64)
    total, ids = torch.zeros(64), np.arange(3)
    for index in range(rounds):
        opened = Round(Streams(2), index, torch.device("cpu"), ids, np.ones(3, dtype=np.bool_), store, lambda: update)
        coder = open_encoder(stages, opened)
        sent = coder.encode(Batch(update.clone(), torch.ones(3), rows=slice(0, 3))).messages
        assert set(sent.unique().tolist()) <= {-0.5, 0.5}  # in steps of 2 v
        total += coder.decode(sent.mean(dim=0))
        assert max(float(store.read_all("error", ids, update[0]).abs().max()), 0.0) <= 2 * v * (1 + 1e-5)
    assert float((total / rounds - update[0]).abs().max()) <= 2 * v / rounds * (1 + 1e-3)


def test_weights_count_as_energies() -> None:
    values, weights = np.array([1.0, -0.5]), np.array([0.5, 1.5])
    context = faded(2, 2 * M)
    norms = math.sqrt(M) * weights
    context = replace(context, weights=weights, rms_norms=norms, peak_norms=norms)
    mean = received(uplink_of(EnergyDifference()), context, values)
    rho = 1 / 1.5
    variance = float(((weights * np.abs(values) + N_0 / rho) ** 2).sum() / 4)
    assert mean.mean() == pytest.approx((values * weights).sum() / 2, abs=5 * math.sqrt(variance / M))


def test_the_noise_that_is_reported_is_that_of_silent_devices() -> None:
    context = faded(3, 4 * M)
    link = uplink_of(EnergyDifference(), 2).open(context)
    link.send(Batch(torch.zeros(3, M), torch.ones(3)), slice(0, 3))
    reception = link.close()
    noise = reception.mean.double().numpy()
    assert noise.std() == pytest.approx(reception.report.noise_std, rel=5 * math.sqrt(8 / M) / 2)
    assert reception.report.noise_std == pytest.approx(math.sqrt(2 * 2) * N_0 / 3, rel=1e-12)
    assert reception.report.interference_std == 0


@pytest.mark.parametrize("across", ["common", "independent"])
def test_bursts_that_are_reported_are_those_that_arrive(across: Literal["common", "independent"]) -> None:
    """5 standard errors of a variance whose kurtosis, that of a burst's energy, is at most 9/p + 3."""
    p, antennas = 0.2, 3
    bursts = BernoulliGaussian(burst_probability=p, across_antennas=across)
    uplink = uplink_of(EnergyDifference(), interference_to_noise_db=10.0, interference=bursts)
    link = uplink.open(faded(2, 2 * M, antennas))
    link.send(Batch(torch.zeros(2, M), torch.ones(2)), slice(0, 2))
    reception = link.close()
    variance = reception.report.noise_std**2 + reception.report.interference_std**2
    tolerance = 5 * math.sqrt((9 / p + 3) / M)
    assert float(reception.mean.double().var()) == pytest.approx(variance, rel=tolerance)
    plain = replace(uplink, interference=Gaussian()).open(faded(2, 2 * M, antennas)).link_budget()
    assert variance > 1.5 * (plain.noise_std**2 + plain.interference_std**2)


def test_alpha_stable_interference_reaches_energies_without_a_finite_variance() -> None:
    """An energy's tail falls as x^(-alpha/2): at alpha = 1, 10,000 times the level is 10 times as rare as 100 times."""
    uplink = uplink_of(
        EnergyDifference(), noise=False, interference_to_noise_db=10.0,
        interference=AlphaStable(tail_index=1.0),
    )  # fmt: skip
    link = uplink.open(faded(2, 2 * M))
    link.send(Batch(torch.zeros(2, M), torch.ones(2)), slice(0, 2))
    reception = link.close()
    assert reception.report.interference_std == math.inf
    size = reception.mean.double().abs() / float(reception.mean.abs().median())
    often, seldom = int((size > 100).sum()), int((size > 10_000).sum())
    ratio = math.sqrt(10_000 / 100)
    assert seldom > 20
    assert often / seldom == pytest.approx(ratio, rel=5 * math.sqrt(1 / seldom + 1 / often))


@pytest.mark.parametrize("chips", [1, 3])
def test_a_round_is_the_one_worked_out_with_complex_numbers(chips: int) -> None:
    """Without noise, element by element with the same random bytes, over a channel of 7 subcarriers."""
    entries, devices, band = 5, 3, 7
    elements = 2 * chips * entries
    generator = np.random.default_rng(3)
    response = generator.standard_normal((devices, 2, 1, band)) + 1j * generator.standard_normal((devices, 2, 1, band))
    messages = generator.standard_normal((devices, entries))
    norm = float(np.linalg.norm(messages, axis=1).max())
    context = context_of(response, MessageBound(entries, norm, norm), subcarriers=band, elements=elements, limit=2.0)
    context = replace(context, peak_norms=np.full(devices, norm))
    link = replace(uplink_of(EnergyDifference(), chips), noise=False).open(context)
    link.send(Batch(torch.from_numpy(messages).float(), torch.ones(devices)), slice(0, devices))
    reception = link.close()

    alpha = 2.0 / (math.sqrt(entries) * norm)  # the energy of a unit, by the bound on the l1 norm
    start = int(Streams(0).generator(Purpose.PLACEMENT, 0).integers(elements))
    address = Streams(0).address(Purpose.SYMBOL_PHASE, 0)
    drawn = philox.random_bytes(address, list(range(devices)), chips * entries)
    table, energies = phase_table("uniform"), np.zeros((chips, entries, 2))
    placement = ResourceMapping(context.frame, start)
    for antenna in range(2):
        amplitudes = np.zeros((chips, entries, 2), dtype=np.complex128)
        for device in range(devices):
            gains = placement.spread_array(response[device, antenna]).reshape(chips, entries, 2)
            symbols = table[drawn[device]].reshape(chips, entries)
            for chip in range(chips):
                ahead = (chip * band // chips - chip * 2 * entries) % band // 2 % entries
                for entry, value in enumerate(messages[device]):
                    slot, sign = (entry + ahead) % entries, int(value < 0)
                    energy = alpha * abs(value) / chips
                    amplitudes[chip, slot, sign] += gains[chip, slot, sign] * math.sqrt(energy) * symbols[chip, slot]
        for chip in range(chips):
            ahead = (chip * band // chips - chip * 2 * entries) % band // 2 % entries
            for entry in range(entries):
                energies[chip, entry] += np.abs(amplitudes[chip, (entry + ahead) % entries]) ** 2
    sums = energies.sum(axis=0)
    expected = (sums[:, 0] - sums[:, 1]) / (2 * alpha) / devices
    np.testing.assert_allclose(reception.mean.numpy(), expected, rtol=2e-4, atol=2e-5)
    np.testing.assert_allclose(
        reception.report.devices.energy, alpha * np.abs(messages).sum(axis=1) * 0.5 + 0.25, rtol=1e-5
    )


def test_a_flat_channel_is_a_selective_one_that_does_not_vary() -> None:
    values, entries = np.array([0.4, -1.0, 0.7]), 50
    flat = np.array([1.0 + 0.5j, -0.3j, 0.2 - 1.0j])[:, None, None, None]
    means = []
    for response in (flat, np.repeat(flat, 100, axis=3)):
        context = context_of(response, MessageBound(entries, 8.0, 8.0), subcarriers=100, elements=100)
        means.append(received(uplink_of(EnergyDifference()), context, values))
    np.testing.assert_allclose(means[0], means[1], rtol=1e-4, atol=1e-4)


def test_nobody_sends_more_than_the_limit_and_the_budget_is_what_equal_entries_cost() -> None:
    context = faded(3, 2 * M, mean_power=np.array([1.0, 0.2, 2.0]))
    uplink = uplink_of(EnergyDifference(), equal_means=False)
    link = uplink.open(context)
    budget = link.link_budget().devices.energy
    link.send(Batch(torch.ones(3, M), torch.ones(3)), slice(0, 3))
    np.testing.assert_allclose(link.close().report.devices.energy, budget, rtol=1e-5)
    np.testing.assert_allclose(budget, M * 0.5 + 0.25)  # the energy unit and the pilots of the context
    equal = uplink_of(EnergyDifference()).open(context).link_budget().devices.energy
    np.testing.assert_allclose(equal, M * 0.5 * 0.2 / np.array([1.0, 0.2, 2.0]) + 0.25)


def test_energies_are_cut_to_the_peak() -> None:
    context = faded(2, 2 * M)
    link = uplink_of(EnergyDifference(), peak_db=10 * math.log10(0.25)).open(context)
    link.send(Batch(torch.ones(2, M), torch.ones(2)), slice(0, 2))
    report = link.close().report
    np.testing.assert_allclose(report.devices.energy, 0.25 * M * 0.5 + 0.25, rtol=1e-5)
    assert report.clipped_share == pytest.approx(0.5)  # one of two elements has energy


def test_random_bytes_are_those_of_the_devices_own_streams() -> None:
    address = Streams(5).address(Purpose.SYMBOL_PHASE, 2)
    drawn = philox.random_bytes(address, [4, 9], 13)
    for row, words in zip(drawn, philox.words(address, [4, 9], 4), strict=True):
        assert row.tobytes() == b"".join(int(word).to_bytes(4, "little") for word in words)[:13]
    assert drawn[0].tobytes() != drawn[1].tobytes()
    # All 256 values equally often: chi square of 255 degrees of freedom, within 5 standard deviations sqrt(510).
    counts = np.bincount(philox.random_bytes(address, [4], 256_000)[0], minlength=256)
    assert ((counts - 1000) ** 2 / 1000).sum() == pytest.approx(255, abs=5 * math.sqrt(510))


@pytest.mark.parametrize(("phases", "first"), [("qpsk", 4), ("uniform", 256)])
def test_symbols_have_the_moments_of_uniform_phases(phases: str, first: int) -> None:
    """E s^n = 0 up to the number of points; energies to the second order need n = 1 and 2."""
    table = phase_table(phases)  # type: ignore[arg-type]
    np.testing.assert_allclose(np.abs(table), 1.0)
    moments = [abs(np.mean(table**n)) for n in range(1, first + 1)]
    np.testing.assert_allclose(moments[:-1], 0.0, atol=1e-12)
    assert moments[-1] == pytest.approx(1.0)


def test_votes_have_absentees_and_weights() -> None:
    update = torch.tensor([[0.5, -0.25, 0.0, 0.125, -2.0]])
    opened = Round(
        Streams(0), 0, torch.device("cpu"), np.arange(1), np.ones(1, dtype=np.bool_), Store(), lambda: update
    )

    def votes(threshold: float, full: float) -> list[float]:
        coder = Votes(5, 0.1, threshold, full).open(opened)
        return coder.encode(Batch(update * 2, torch.tensor([0.5]))).messages[0].tolist()

    assert votes(0.0, 0.0) == [1, -1, 1, 1, -1]
    assert votes(0.2, 0.0) == [1, -1, 0, 0, -1]
    assert votes(0.0, 1.0) == [0.5, -0.25, 0, 0.125, -1]
    assert votes(0.2, 1.0) == [0.5, -0.25, 0, 0, -1]
    decoded = Votes(5, 0.1).open(opened).decode(torch.tensor([0.3, -1e-9, 0.0, 2.0, -5.0]))
    assert decoded.tolist() == pytest.approx([0.1, -0.1, 0.0, 0.1, -0.1])


def test_entries_are_clamped() -> None:
    opened = Round(Streams(0), 0, torch.device("cpu"), np.arange(1), np.ones(1, dtype=np.bool_), Store(), torch.zeros)
    batch = Batch(torch.tensor([[4.0, -4.0, 0.5, 0.0]]), torch.tensor([0.5]))
    assert Clamp(1.0).open(opened).encode(batch).messages.tolist() == [[1.0, -1.0, 0.25, 0.0]]
    bound = Clamp(1.0).bound(MessageBound(4, 5.0, 5.0))
    assert (bound.peak, bound.rms, bound.sensitivity) == (2.0, 2.0, 4.0)
