"""Superposition against an independent computation on complex symbols."""

from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from channels.frame import Frame
from channels.grid import Packing
from channels.mac import SHORT, MultipleAccessChannel, baseband, pack
from channels.power import invert_channel
from channels.resource_mapping import ResourceMapping
from experiments.gpu.imitation import imitated_gpu

Complex = NDArray[np.complex128]

DEVICES = 5
SCALES = np.array([1.0, 0.5, 2.0, -1.0, 0.25])  # what rides on a precoder
CASES = [(packing, entries, phase) for packing in ("real", "iq") for entries in (6, 7) for phase in (False, True)]


def superpose(
    gains: Complex, precoders: Complex, messages: torch.Tensor, packing: Packing, cuts: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Received entries and transmitted energies with the devices sent in chunks between the cuts."""
    channel = MultipleAccessChannel(flat(gains), flat(precoders / SCALES[: len(gains)]), packing)
    energies = [channel.send(messages[a:b], SCALES[a:b], slice(a, b)).energy for a, b in pairwise(cuts)]
    return channel.close(torch.zeros(messages.shape[1])).numpy(), np.concatenate(energies)


def flat(values: Complex) -> Complex:
    """[devices] as a channel that is the same everywhere."""
    return values[:, None, None]


def observed(symbols: Complex, packing: Packing, entries: int) -> NDArray[np.float64]:
    """What the receiver takes from the sum of all symbols."""
    return symbols.real if packing == "real" else np.stack([symbols.real, symbols.imag], axis=1).ravel()[:entries]


def by_hand(gains: Complex, precoders: Complex, messages: NDArray[np.float64], packing: Packing) -> Complex:
    """sum_i h_i b_i m_i, symbol by symbol in complex numbers."""
    devices, entries = messages.shape
    per_symbol = 1 if packing == "real" else 2
    symbols = np.zeros(-(-entries // per_symbol), dtype=complex)
    for i, entry in np.ndindex(devices, entries):
        part = 1j if entry % per_symbol else 1
        symbols[entry // per_symbol] += gains[i] * precoders[i] * part * messages[i, entry]
    return symbols


@pytest.mark.parametrize(("packing", "entries", "residual_phase"), CASES)
def test_superposition_is_the_sum_of_complex_symbols(packing: Packing, entries: int, residual_phase: bool) -> None:
    """In whatever chunks; what `baseband` records would arrive as what was received, and has the energy charged."""
    generator = np.random.default_rng(3)
    gains = generator.normal(size=DEVICES) + 1j * generator.normal(size=DEVICES)
    precoders = invert_channel(gains, 0.7) * generator.uniform(0.2, 1.0, DEVICES)
    precoders = precoders * np.exp(1j * residual_phase * generator.normal(size=DEVICES))
    messages = torch.from_numpy(generator.normal(size=(DEVICES, entries)))
    received, energies = superpose(gains, precoders, messages, packing, [0, DEVICES])
    sums = by_hand(gains, precoders, messages.numpy(), packing)
    np.testing.assert_allclose(received, observed(sums, packing, entries), atol=1e-13)
    for cuts in ([0, 1, 2, 3, 4, 5], [0, 3, 5]):
        chunked = superpose(gains, precoders, messages, packing, cuts)
        np.testing.assert_allclose(chunked[0], received, atol=1e-13)
        np.testing.assert_allclose(chunked[1], energies, rtol=1e-13)
    symbols = baseband(messages, flat(precoders), packing, None)
    assert symbols.dtype == np.complex64
    np.testing.assert_allclose(observed(gains @ symbols, packing, entries), received, atol=1e-6)
    np.testing.assert_allclose((np.abs(symbols) ** 2).sum(axis=1), energies, rtol=1e-6)


def test_payloads_add_up_scaled_by_beta_at_the_energy_of_their_precoders() -> None:
    """alpha = beta/|h| = (25, 10, 50), and energies alpha^2 (14, 77, 2), in double precision whatever messages are."""
    gains = np.array([0.02, 0.05j, -0.01])
    messages = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [-1.0, 0.0, 1.0]], dtype=torch.float64)
    for packing in ("real", "iq"):
        received, _ = superpose(gains, invert_channel(gains, 0.5), messages, packing, [0, 3])
        np.testing.assert_allclose(received, [2.0, 3.5, 5.0], atol=1e-14)
        _, energies = superpose(gains, invert_channel(gains, 0.5), messages.float(), packing, [0, 3])
        assert energies.dtype == np.float64
        np.testing.assert_allclose(energies, [625 * 14, 100 * 77, 2500 * 2], rtol=1e-6)


def test_packing_fills_real_then_imaginary() -> None:
    """And nobody sending is silence."""
    entries = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(pack(entries, "real"), [[1, 2, 3]])
    np.testing.assert_array_equal(pack(entries, "iq"), [[1 + 2j, 3]])
    silent, nobody = torch.zeros(4), np.empty((0, 1, 1), dtype=complex)
    assert MultipleAccessChannel(nobody, nobody, "real").close(silent) is silent


def selective(packing: Packing, entries: int, per_block: int, start: int) -> tuple[Complex, Complex, ResourceMapping]:
    """A channel and precoders that differ from element to element, and where entries go."""
    generator = np.random.default_rng(8)
    elements = entries if packing == "real" else -(-entries // 2)
    frame = Frame(np.arange(min(3, elements)) * 15e3, elements, 1e-4, per_block)
    shape = (DEVICES, frame.blocks, frame.subcarriers)
    gains, precoders = (generator.normal(size=shape) + 1j * generator.normal(size=shape) for _ in range(2))
    return gains, precoders, ResourceMapping(frame, start)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_chunk_without_devices_adds_nothing(device: str) -> None:
    gains, precoders, place = selective("iq", 6, 1, 0)
    channel = MultipleAccessChannel(gains, precoders, "iq", place)
    with imitated_gpu() if device == "cuda" else nullcontext():
        sent = channel.send(torch.zeros(0, 6, device=device), np.ones(0), slice(0, 0))
        received = channel.close(torch.ones(6)).cpu()
    assert (sent.energy.shape, sent.received_energy.shape) == ((0,), (0,))
    assert torch.equal(received, torch.zeros(6))


def met(coefficients: Complex, place: ResourceMapping, element: int) -> Complex:
    """The coefficient an element of a message meets: subcarrier first, from the start on, going round."""
    frame = place.frame
    where = (element + place.start) % frame.elements
    return coefficients[..., where // frame.subcarriers // frame.symbols_per_block, where % frame.subcarriers]


@pytest.mark.parametrize("packing", ["real", "iq"])
@pytest.mark.parametrize(("entries", "per_block", "start"), [(7, 1, 0), (7, 1, 2), (14, 2, 3), (2, 1, 0), (9, 9, 1)])
@pytest.mark.parametrize("kind", ["cpu", "cuda", "cuda, long messages"])
def test_every_element_meets_its_own_coefficient(
    packing: Packing, entries: int, per_block: int, start: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "long" in kind:
        monkeypatch.setattr("channels.mac.SLAB", 0)
    gains, precoders, place = selective(packing, entries, per_block, start % (entries // 2))
    messages = torch.from_numpy(np.random.default_rng(9).normal(size=(DEVICES, entries)))
    channel = MultipleAccessChannel(gains, precoders, packing, place)
    device = kind.partition(",")[0]
    with imitated_gpu() if device == "cuda" else nullcontext():
        there = messages.to(device)
        sent = [channel.send(there[a:b], SCALES[a:b], slice(a, b)) for a, b in ((0, 2), (2, 5))]
        received = channel.close(torch.zeros(entries)).cpu().numpy()
    elements = pack(messages.numpy(), packing) * SCALES[:, None]
    x = np.stack([met(precoders, place, e) * elements[:, e] for e in range(elements.shape[1])], axis=1)
    y = np.stack([met(gains, place, e) * x[:, e] for e in range(elements.shape[1])], axis=1)
    wanted = observed(y.sum(axis=0), packing, entries)
    np.testing.assert_allclose(received, wanted, atol=1e-12)
    np.testing.assert_allclose(np.concatenate([one.energy for one in sent]), (np.abs(x) ** 2).sum(axis=1))
    np.testing.assert_allclose(np.concatenate([one.received_energy for one in sent]), (np.abs(y) ** 2).sum(axis=1))
    recorded = baseband(messages, precoders * SCALES[:, None, None], packing, place)
    np.testing.assert_allclose(recorded, x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("axes", [1, 2, (1, 2)])
@pytest.mark.parametrize("constant", ["precoders", "gains"])
def test_an_axis_along_which_nothing_changes_may_have_length_one(
    device: str, axes: int | tuple[int, ...], constant: str
) -> None:
    """Such as precoders of a flat channel, whose gains vary with a timing offset."""
    gains, precoders, place = selective("real", 14, 2, 3)
    given = {"gains": gains, "precoders": precoders}
    messages = torch.from_numpy(np.random.default_rng(9).normal(size=(DEVICES, 14)))
    whole = given[constant]
    one = whole.mean(axis=axes, keepdims=True)
    found = []
    with imitated_gpu() if device == "cuda" else nullcontext():
        for shape in (one, np.broadcast_to(one, whole.shape)):
            channel = MultipleAccessChannel(**given | {constant: shape}, packing="real", placement=place)
            sent = channel.send(messages.to(device), SCALES, slice(0, DEVICES))
            found.append([channel.close(torch.zeros(14)).cpu(), sent.energy, sent.received_energy])
    for one_way, other in zip(*found, strict=True):
        np.testing.assert_allclose(one_way, other, atol=1e-13)


def test_a_random_start_keeps_the_energy_limit_on_average_whatever_the_message_is() -> None:
    """Over all starts the mean energy is the norm squared times the mean of the squared precoders, exactly."""
    _, precoders, place = selective("real", 7, 1, 0)
    message = torch.zeros(1, 7, dtype=torch.float64)
    message[0, 4] = 2.0  # all of it on one entry
    energies = []
    for start in range(7):
        channel = MultipleAccessChannel(precoders[:1], precoders[:1], "real", ResourceMapping(place.frame, start))
        energies.append(channel.send(message, np.ones(1), slice(0, 1)).energy[0])
    mean_square = (np.abs(precoders[0]) ** 2 * place.frame.weights).sum()
    assert np.mean(energies) == pytest.approx(4 * mean_square)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_elements_above_the_peak_are_cut_to_it_and_counted(packing: Packing) -> None:
    generator = np.random.default_rng(4)
    messages = torch.from_numpy(generator.normal(size=(2, 101)))
    precoders, peak = np.array([2.0, 1.0j]), np.array([1.0, 4.0])
    channel = MultipleAccessChannel(flat(np.ones(2, complex)), flat(precoders), packing, None, peak)
    sent = channel.send(messages, np.array([0.5, 1.0]), slice(0, 2))
    x = pack(messages.numpy(), packing) * (precoders * [0.5, 1.0])[:, None]
    largest = np.sqrt(peak)[:, None]
    cut = np.where(np.abs(x) > largest, x / np.abs(x) * largest, x)
    np.testing.assert_array_equal(sent.clipped, (np.abs(x) > largest).sum(axis=1))
    assert sent.clipped.min() > 0
    np.testing.assert_allclose(sent.energy, (np.abs(cut) ** 2).sum(axis=1))
    wanted = observed(cut.sum(axis=0), packing, 101)
    np.testing.assert_allclose(channel.close(torch.zeros(101)).numpy(), wanted, atol=1e-12)


def test_long_messages_are_summed_alike() -> None:
    """Above SHORT entries the sum is made row by row: n = 131,079 entries of 3 devices against numpy."""
    entries = SHORT + 7
    messages = torch.randn(3, entries, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gains = np.array([1.0, -0.5, 2.0], dtype=complex)
    channel = MultipleAccessChannel(flat(gains), flat(np.ones(3, complex)), "real")
    channel.send(messages[:2], np.array([1.0, 3.0]), slice(0, 2))
    channel.send(messages[2:], np.array([0.5]), slice(2, 3))
    expected = (gains.real * [1.0, 3.0, 0.5]) @ messages.numpy()
    np.testing.assert_allclose(channel.close(torch.zeros(entries)).numpy(), expected, atol=1e-12)
