"""Superposition against a computation on complex symbols, written out on its own."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from channels.csi import ChannelState
from channels.grid import Packing
from channels.mac import MultipleAccessChannel, baseband, pack
from channels.power import invert_channel

DEVICES = 5
CASES = [(packing, entries, phase) for packing in ("real", "iq") for entries in (6, 7) for phase in (False, True)]


def setting(entries: int, residual_phase: bool) -> tuple[ChannelState, NDArray[np.complex128], torch.Tensor]:
    """A channel, precoders that invert it (off by a phase of their own, if asked), messages."""
    generator = np.random.default_rng(3)
    gains = generator.normal(size=DEVICES) + 1j * generator.normal(size=DEVICES)
    precoders = invert_channel(gains, 0.7) * generator.uniform(0.2, 1.0, DEVICES)
    if residual_phase:
        precoders = precoders * np.exp(1j * generator.normal(size=DEVICES))
    return ChannelState(gains), precoders, torch.from_numpy(generator.normal(size=(DEVICES, entries)))


def superpose(
    state: ChannelState, precoders: NDArray[np.complex128], messages: torch.Tensor, packing: Packing, cuts: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Received entries and transmitted energies with the devices sent in chunks between the cuts."""
    channel = MultipleAccessChannel(state, packing)
    energies = [channel.send(messages[a:b], precoders[a:b], slice(a, b)).numpy() for a, b in pairwise(cuts)]
    return channel.close(torch.zeros(messages.shape[1])).numpy(), np.concatenate(energies)


def by_hand(
    gains: NDArray[np.complex128], precoders: NDArray[np.complex128], messages: NDArray[np.float64], packing: Packing
) -> NDArray[np.float64]:
    """sum_i h_i b_i m_i, symbol by symbol in complex numbers, and what the receiver observes of it."""
    devices, entries = messages.shape
    per_symbol = 1 if packing == "real" else 2
    symbols = np.zeros(-(-entries // per_symbol), dtype=complex)
    for i in range(devices):
        for entry in range(entries):
            part = 1j if entry % per_symbol else 1
            symbols[entry // per_symbol] += gains[i] * precoders[i] * part * messages[i, entry]
    seen = [symbols[e // per_symbol].imag if e % per_symbol else symbols[e // per_symbol].real for e in range(entries)]
    return np.array(seen)


@pytest.mark.parametrize(("packing", "entries", "residual_phase"), CASES)
def test_superposition_is_the_sum_of_complex_symbols(packing: Packing, entries: int, residual_phase: bool) -> None:
    state, precoders, messages = setting(entries, residual_phase)
    received, _ = superpose(state, precoders, messages, packing, [0, DEVICES])
    np.testing.assert_allclose(received, by_hand(state.gains, precoders, messages.numpy(), packing), atol=1e-13)


@pytest.mark.parametrize(("packing", "entries", "residual_phase"), CASES)
@pytest.mark.parametrize("cuts", [[0, 1, 2, 3, 4, 5], [0, 3, 5], [0, 4, 5]])
def test_chunks_change_nothing(cuts: list[int], packing: Packing, entries: int, residual_phase: bool) -> None:
    state, precoders, messages = setting(entries, residual_phase)
    whole = superpose(state, precoders, messages, packing, [0, DEVICES])
    chunked = superpose(state, precoders, messages, packing, cuts)
    np.testing.assert_allclose(chunked[0], whole[0], atol=1e-13)
    np.testing.assert_allclose(chunked[1], whole[1], rtol=1e-13)


@pytest.mark.parametrize(("packing", "entries", "residual_phase"), CASES)
def test_recorded_symbols_are_those_that_were_superposed(packing: Packing, entries: int, residual_phase: bool) -> None:
    """What `baseband` records, sent through the channel, is what was received, and has the energy that was charged."""
    state, precoders, messages = setting(entries, residual_phase)
    received, energies = superpose(state, precoders, messages, packing, [0, DEVICES])
    symbols = baseband(messages, precoders, packing)
    assert symbols.dtype == np.complex64
    total = (state.gains[:, None] * symbols).sum(axis=0)
    observed = total.real if packing == "real" else np.stack([total.real, total.imag], axis=1).ravel()[:entries]
    np.testing.assert_allclose(observed, received, atol=1e-6)
    np.testing.assert_allclose((np.abs(symbols) ** 2).sum(axis=1), energies, rtol=1e-6)


def test_without_residual_phase_the_payloads_add_up_scaled_by_beta() -> None:
    gains = np.array([0.02, 0.05j, -0.01])
    messages = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [-1.0, 0.0, 1.0]], dtype=torch.float64)
    for packing in ("real", "iq"):
        received, _ = superpose(ChannelState(gains), invert_channel(gains, 0.5), messages, packing, [0, 3])
        np.testing.assert_allclose(received, [2.0, 3.5, 5.0], atol=1e-14)


@pytest.mark.parametrize("packing", ["real", "iq"])
def test_energy_is_precoder_power_times_message_energy(packing: Packing) -> None:
    """alpha = beta/|h| = (25, 10): energies 625 x 1 and 100 x 4."""
    gains = np.array([0.02, 0.05j])
    messages = torch.tensor([[0.6, 0.8, 0.0], [0.0, 0.0, 2.0]])
    _, energies = superpose(ChannelState(gains), invert_channel(gains, 0.5), messages, packing, [0, 2])
    assert energies.dtype == np.float64
    np.testing.assert_allclose(energies, [625, 400], rtol=1e-6)


def test_nobody_sending_is_silence() -> None:
    silent = torch.zeros(4)
    assert MultipleAccessChannel(ChannelState(np.empty(0, dtype=complex)), "real").close(silent) is silent


def test_packing_fills_real_then_imaginary() -> None:
    entries = np.array([[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(pack(entries, "real"), [[1, 2, 3]])
    np.testing.assert_array_equal(pack(entries, "iq"), [[1 + 2j, 3]])
