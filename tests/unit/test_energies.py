"""Amplitudes and sums of symbols in compiled C, beside the same by torch."""

import numpy as np
import pytest
import torch

from airfl.uplinks import energies
from airfl.uplinks.energies.library import load_library
from channels.codewords import Affine, AugmentedAffine, Codewords, DigitEnergies, EnergyDifference
from channels.energy import Phases, phase_table, superpose

compiled = pytest.mark.skipif(load_library() is None, reason="no C compiler")
CODES = [EnergyDifference(), Affine(0.3), AugmentedAffine(0.3)]


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("entries", [1, 7, 20_001])
@pytest.mark.parametrize("codewords", CODES, ids=lambda code: type(code).__name__)
def test_amplitudes_are_those_of_torch(
    codewords: Codewords, entries: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, beyond the range that the code assumes, and for rows that are not contiguous."""
    monkeypatch.setattr(energies, "run_threads", lambda: threads)
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, entries + 5, generator=generator)[:, 2 : entries + 2]
    values[1, 0] = float("nan")
    factors, weights = torch.tensor([0.5, 1.7, 0.0]), torch.tensor([1.0, 0.3, 2.0])
    found, energy = energies.amplitudes_of(codewords, values, factors, weights)
    wanted = codewords.encode(values * factors[:, None], weights)
    monkeypatch.setattr(energies, "load_library", lambda: None)
    assert energy.numpy().tobytes() == energies.amplitudes_of(codewords, values, factors, weights)[1].numpy().tobytes()
    assert found.shape == (3, codewords.resources, entries)
    assert found.isnan().any()
    np.testing.assert_array_equal(found.abs().numpy(), wanted.abs().numpy())  # abs: torch's max(-0, 0) may be -0


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("entries", [1, 20_001])
@pytest.mark.parametrize(("base", "zero_sent"), [(3, False), (3, True), (7, False)])
def test_amplitudes_of_digits_are_those_of_torch(
    base: int, zero_sent: bool, entries: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, and the energy is the weight of the device for each of its digits that has an element."""
    monkeypatch.setattr(energies, "run_threads", lambda: threads)
    codewords, generator = DigitEnergies(base, zero_sent), torch.Generator().manual_seed(0)
    digits = torch.randint(-(base // 2), base // 2 + 1, (4, entries + 5), generator=generator)[:, 2 : entries + 2]
    weights = torch.tensor([0.3, 1.0, 1.7, 0.0])
    found, energy = energies.amplitudes_of(codewords, digits.float(), weights, weights)
    active = torch.full_like(digits, True, dtype=torch.bool) if zero_sent else digits != 0
    np.testing.assert_array_equal(energy.numpy(), (active.sum(dim=1) * (weights > 0) * weights.double()).numpy())
    np.testing.assert_allclose(found.double().square().sum(dim=(1, 2)).numpy(), energy.numpy(), rtol=1e-6)
    monkeypatch.setattr(energies, "load_library", lambda: None)
    wanted, same = energies.amplitudes_of(codewords, digits.float(), weights, weights)
    assert found.equal(wanted)
    assert energy.equal(same)


@compiled
@pytest.mark.parametrize("phases", ["uniform", "qpsk"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("own_bytes", [False, True], ids=["a byte a slot", "a byte an element"])
@pytest.mark.parametrize("slots", [1, 1024, 20_001])
def test_sums_of_symbols_are_those_of_torch(
    slots: int, own_bytes: bool, threads: int, phases: Phases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within the rounding of the sums: torch rounds a product once more where the processor has no fused operation."""
    monkeypatch.setattr(energies, "run_threads", lambda: threads)
    generator, devices, resources = np.random.default_rng(0), 5, 2
    gains = generator.normal(size=(devices, 2)) @ [1, 1j]
    symbols = gains[:, None] * phase_table(phases)
    tables = symbols.real.astype(np.float32), symbols.imag.astype(np.float32)
    size = (devices, resources if own_bytes else 1, slots)
    drawn = torch.from_numpy(generator.integers(256, size=size, dtype=np.uint8))
    amplitudes = torch.from_numpy(generator.random((devices, resources, slots), dtype=np.float32))
    found = torch.ones(2, resources, slots)
    wanted, exact = found.clone(), found.numpy() + 0j
    energies.superpose_symbols(found, tables, drawn, amplitudes)
    superpose(wanted, tables, drawn, amplitudes)
    for device in range(devices):
        one = symbols[device][drawn[device].numpy()] * amplitudes[device].numpy()
        exact = exact + np.stack([one.real, one.imag])
    for sums in (found, wanted):
        np.testing.assert_allclose(sums.numpy(), exact.real, rtol=0, atol=2e-6 * devices)


def test_what_the_kernel_cannot_read_is_computed_by_torch() -> None:
    values, ones = torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3), torch.ones(2, dtype=torch.float64)
    found, _ = energies.amplitudes_of(EnergyDifference(), values, ones, ones)
    wanted = np.sqrt(np.maximum([values.numpy(), -values.numpy()], 0)).swapaxes(0, 1)
    np.testing.assert_allclose(found.numpy(), wanted)
    mixed, _ = energies.amplitudes_of(EnergyDifference(), values.float(), ones, ones.float())
    np.testing.assert_allclose(mixed.numpy(), wanted, rtol=1e-6)
    table = np.ones((2, 256), dtype=np.float32)
    sums = torch.zeros(2, 2, 3, dtype=torch.float64)
    energies.superpose_symbols(sums, (table, table), torch.zeros(2, 1, 3, dtype=torch.uint8), found)
    np.testing.assert_allclose(sums.numpy(), np.broadcast_to(found.sum(dim=0), (2, 2, 3)))
