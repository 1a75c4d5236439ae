"""Digits, nearest words, seeds of k-means and message passing in compiled C, beside the same by torch and by hand."""

import math

import numpy as np
import pytest
import torch

from airfl.uplinks.stages import Batch, kernels
from airfl.uplinks.stages.balanced_digits import BalancedDigits
from airfl.uplinks.stages.codebooks import blocks_of, nearest_words, nearest_words_of_rows, trained_codebook
from channels import count_detection
from channels.count_detection import CountDenoiser, detect_counts, first_law, sequences, std_of_line, torch_steps

compiled = pytest.mark.skipif(kernels.load_library() is None, reason="no C compiler")


def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "load_library", lambda: None)


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("base", "digits"), [(3, 1), (3, 2), (3, 5), (31, 3)])
def test_digits_are_those_of_torch(base: int, digits: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bit for bit, beyond the range, at ties, and for rows that are not contiguous; they add up to the number."""
    monkeypatch.setattr(kernels, "run_threads", lambda: threads)
    stage, generator = BalancedDigits(base, digits, 1.0), torch.Generator().manual_seed(0)
    updates = torch.randn(3, 20_006, generator=generator)[:, 2:-3]
    updates[:, ::5] = torch.randint(-9, 10, (3, 4001), generator=generator) * (stage.step / 2)
    batch = Batch(updates, torch.tensor([1.0, 0.3, 2.0]))
    found = stage._encode(batch).values
    numbers = (found.double().view(3, digits, -1) * torch.tensor(stage.places)[:, None]).sum(dim=1)
    exact = (updates * batch.scale[:, None]).clamp(-1, 1).double()
    assert float((numbers - exact).abs().max()) <= stage.step * 0.501
    by_torch(monkeypatch)
    np.testing.assert_array_equal(found.numpy(), stage._encode(batch).values.numpy())


@compiled
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("entries", "length", "words"), [(1, 1, 2), (97, 20, 3), (24_011, 20, 67), (320, 5, 16)])
def test_nearest_words_are_those_of_all_distances(
    entries: int, length: int, words: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is nearer by more than rounding, and hardly any other is found than by torch."""
    monkeypatch.setattr(kernels, "run_threads", lambda: threads)
    generator = torch.Generator().manual_seed(1)
    rows, codebook = torch.randn(3, entries + 2, generator=generator)[:, 1:-1], torch.randn(words, length)
    factors = torch.tensor([1.0, 0.2, 3.0])
    found = nearest_words_of_rows(rows, factors, codebook)
    blocks = blocks_of(rows * factors[:, None], length).double()
    distances = (blocks[:, :, None] - codebook.double()).square().sum(dim=3)
    chosen = distances.gather(2, found.long()[:, :, None])[:, :, 0]
    assert float((chosen - distances.amin(dim=2)).max()) <= 1e-5 * float(distances.max())
    by_torch(monkeypatch)
    assert float((found != nearest_words_of_rows(rows, factors, codebook)).float().mean()) < 1e-3


def test_factors_of_another_type_are_left_to_torch() -> None:
    batch = Batch(torch.tensor([[4.0, -3.0, 1.0]]), torch.tensor([0.25], dtype=torch.float64))
    assert BalancedDigits(3, 2, 1.0)._encode(batch).values.tolist() == [[1.0, 0.0, 1.0, 1.0, -1.0, 0.0]]
    blocks, words = torch.tensor([[1.0, 2.0]]), torch.tensor([[0.0], [2.0]], dtype=torch.float64)
    assert kernels.nearest_of(blocks, torch.ones(1), words, -(words[:, 0] ** 2) / 2) is None


@compiled
def test_the_first_of_equal_words_is_taken() -> None:
    codebook = torch.tensor([[9.0], [1.0], [1.0], [2.0], [1.0]])
    assert nearest_words(torch.tensor([[1.1], [2.1], [8.0]]), codebook).tolist() == [1, 3, 0]


@compiled
@pytest.mark.parametrize("distinct", [500, 3])
def test_codebooks_are_those_of_torch(distinct: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are fewer different blocks than words."""
    blocks = torch.randn(distinct, 7, generator=torch.Generator().manual_seed(2)).repeat(2, 1)
    found = trained_codebook(blocks, 16, np.random.default_rng(3))
    by_torch(monkeypatch)
    wanted = trained_codebook(blocks, 16, np.random.default_rng(3))
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    assert int((wanted.abs().sum(dim=1) > 0).sum()) == min(distinct, 16)


@compiled
@pytest.mark.parametrize(("length", "words"), [(40, 64), (7, 18), (16, 70)])
def test_iterations_are_those_of_torch(length: int, words: int) -> None:
    """Every step up to rounding, on some of the blocks; the others are left as they are."""
    generator = np.random.default_rng(4)
    columns = torch.from_numpy(sequences(words, length, generator)).float()
    received = torch.from_numpy(generator.normal(size=(30, length))).float()
    denoiser, lines = CountDenoiser(first_law(6, words)), np.array([8, 11])
    tables = torch.from_numpy(denoiser.means(lines)).float()
    active = torch.arange(0, 30, 2)
    own = torch.from_numpy(generator.integers(0, 2, len(active), dtype=np.int32))
    compiled_steps, found, wanted = kernels.steps_for(received, columns), received.clone(), received.clone()
    assert compiled_steps is not None
    counts, expected = (torch.zeros(30, words) for _ in range(2))
    for _ in range(3):
        noisy, noise = compiled_steps.correlate(found, counts, active)
        reference, variance = torch_steps(received, columns).correlate(wanted, expected, active)
        torch.testing.assert_close(noisy, reference, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(noise, variance, rtol=1e-4, atol=1e-5)
        changes = compiled_steps.decide(found, counts, active, noisy, tables, own)
        references = torch_steps(received, columns).decide(wanted, expected, active, reference, tables, own)
        for one, other in ((changes, references), (counts, expected), (found, wanted)):
            torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert counts[active].abs().max() > 0.1
    assert counts[1::2].abs().max() == 0
    assert found[1::2].equal(received[1::2])


@compiled
def test_counts_are_those_of_torch() -> None:
    generator, devices = np.random.default_rng(5), 8
    columns = torch.from_numpy(sequences(32, 20, generator)).float()
    counts = generator.multinomial(devices, np.full(32, 1 / 32), size=300)
    received = torch.from_numpy(counts @ columns.numpy().T + 0.2 * generator.normal(size=(300, 20))).float()
    found = detect_counts(received, columns, devices, 12, steps=kernels.steps_for(received, columns))
    wanted = detect_counts(received, columns, devices, 12)
    assert float((found.counts - wanted.counts).square().mean().sqrt()) < 2e-3
    np.testing.assert_allclose(found.law, wanted.law, atol=1e-3)


def test_a_block_is_finished_by_the_noise_on_its_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What stopping leaves out is small beside the noise: 60 iterations without it give nearly the same counts."""
    generator, devices = np.random.default_rng(6), 32
    columns = torch.from_numpy(sequences(64, 40, generator)).float()
    sent = generator.multinomial(devices, np.full(64, 1 / 64), size=400) @ columns.numpy().T
    received = torch.from_numpy(sent + 0.8 * generator.normal(size=sent.shape)).float()
    law = first_law(devices, 64)
    found = detect_counts(received, columns, devices, 60, law, learn=False)
    monkeypatch.setattr(count_detection, "SETTLED", 0.0)
    wanted = detect_counts(received, columns, devices, 60, law, learn=False)
    apart = float((found.counts - wanted.counts).square().mean().sqrt())
    assert 0 < apart < 0.02 * math.sqrt(float(wanted.variances[-1]))


def test_a_step_of_learning_is_that_of_sums_over_all_counts() -> None:
    """P(n) becomes the mean of P(n | r) over what was seen: here by the whole matrix of likelihoods."""
    law = np.array([0.5, 0.3, 0.15, 0.05])
    denoiser, lines = CountDenoiser(law), np.array([3, 9])
    seen = np.random.default_rng(7).integers(0, 5, (2, denoiser.points)).astype(float)
    points, expected = -1 + np.arange(denoiser.points) / count_detection.STEPS, np.zeros(4)
    for line, often in zip(lines, seen, strict=True):
        joint = law * np.exp(-(((points[:, None] - np.arange(4)) / std_of_line(int(line))) ** 2) / 2)
        expected += often @ (joint / joint.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(denoiser.learned(lines, seen), expected / expected.sum(), rtol=1e-6)
