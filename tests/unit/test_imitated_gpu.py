"""The imitated GPU of experiments/gpu, and what it has found: numbers that are copied to a GPU in every local step."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import airfl
from airfl.learning.perturbed import noise_of
from airfl.learning.sgd import normalise
from airfl.runtime.philox.tensors import add_normals_
from airfl.runtime.streams import Purpose, Streams
from airfl.schemes.names import SCHEMES
from experiments.gpu.imitation import CUDA, imitated_gpu
from experiments.gpu.repeated import trace_differences
from experiments.gpu.worlds import short_settings

CPU = torch.device("cpu")
ADDRESS = Streams(5).address(Purpose.LOCAL_NOISE, 3)
ROUNDED = {"train_loss", "test_loss"}
"""Images are evaluated in another memory format on a CPU."""
QUICK = ("pfels", "fed-spa")


def test_tensors_say_where_they_are_and_compute_as_on_the_cpu() -> None:
    inputs = torch.arange(6.0).view(2, 3)
    with imitated_gpu() as waits:
        layer = torch.nn.Linear(3, 1).to("cuda")
        outputs = layer(inputs.to("cuda"))
        outputs.square().sum().backward()
        gradient = layer.weight.grad
        assert gradient is not None
        assert gradient.is_cuda
        assert (outputs.device, torch.zeros(2, device=CUDA).device) == (CUDA, CUDA)
        noted = len(waits.noted)
        found = (gradient.cpu(), outputs.detach().cpu())
        assert [wait.operation for wait in waits.noted[noted:]] == ["to(cpu)", "to(cpu)"]
    torch.testing.assert_close(found[0], (2 * found[1] * inputs).sum(dim=0, keepdim=True))
    assert not torch.cuda.is_available()


def test_what_cuda_refuses_is_refused_and_what_waits_is_noted() -> None:
    with imitated_gpu() as waits:
        there, here = torch.ones(3).to("cuda"), torch.ones(3)
        for wrong in (lambda: there + here, lambda: here[there.long()], lambda: torch.stack([there, here])):
            with pytest.raises(RuntimeError, match="device"):
                wrong()
        with pytest.raises(TypeError, match="can't convert cuda"):
            there.numpy()
        assert (there + 1.0 + torch.tensor(2.0)).tolist() == [4.0] * 3
        waits.noted.clear()
        assert float(there.sum()) == 3.0
        assert bool((there > 0).all())
        there[there > 0] += 1
        torch.unique(there)
        there[torch.tensor([0])].add_(1)
    words = ["_local_scalar_dense", "_local_scalar_dense", "by a mask", "by a mask", "unique", "by indices of the CPU"]
    assert len(waits.noted) == len(words)
    for word, wait in zip(words, waits.noted, strict=True):
        assert word in wait.operation


def test_bytes_of_several_channels_are_normalised_without_a_wait() -> None:
    inputs = torch.randint(256, (2, 3, 4, 4), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    mean, std = (0.5, 0.4, 0.6), (0.2, 0.3, 0.25)
    wanted = (inputs.float() / 255 - torch.tensor(mean).view(-1, 1, 1)) / torch.tensor(std).view(-1, 1, 1)
    torch.testing.assert_close(normalise(inputs, mean, std), wanted, rtol=0, atol=0)
    with imitated_gpu() as waits:
        there = inputs.to("cuda")
        waits.noted.clear()
        normalised = normalise(there, mean, std)
        assert not waits.noted
        torch.testing.assert_close(normalised.cpu(), wanted, rtol=0, atol=0)


def test_a_gpu_draws_the_noise_of_local_steps_itself() -> None:
    """The same bits, without a wait. Steps begin within a block of four numbers."""
    steps, devices = np.array([5, 4, 2]), [4, 0, 9]
    wanted = torch.stack([noise[:2] for noise in noise_of(ADDRESS, devices, steps, 7, CPU)])
    with imitated_gpu() as waits:
        drawn = [noise[:2] for noise in noise_of(ADDRESS, devices, steps, 7, CUDA)]
        assert not waits.noted
        assert torch.equal(torch.stack(drawn).cpu(), wanted)
        rows = add_normals_(torch.zeros(1, 9, device=CUDA), ADDRESS, [4], 1.0, start=3)
        few = add_normals_(torch.zeros(1, 2, device=CUDA), ADDRESS, [4], 1.0, positions=np.array([5, 11]))
        assert torch.equal(rows.cpu()[0, [2, 8]], few.cpu()[0])
    assert torch.equal(rows.held[0, :4], wanted[:, 0].flatten()[3:7])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "scheme", [name if name in QUICK else pytest.param(name, marks=pytest.mark.full) for name in SCHEMES]
)
def test_a_run_on_the_imitated_gpu_has_the_trace_of_the_cpu(scheme: str) -> None:
    """No tensors of two devices meet, and nothing is read without a copy. Only sums in another order differ."""
    settings = short_settings(scheme, "run.rounds=2")
    here = airfl.run(settings)
    with imitated_gpu():
        there = airfl.run(settings, device="cuda")
        different = set(trace_differences(there.path, here.path)) - ROUNDED
    assert different <= {"aggregation_error", "update_norm"}, different
    with there.trace() as found, here.trace() as wanted:
        for name in different | ROUNDED:
            np.testing.assert_allclose(found[name], wanted[name], rtol=1e-4, err_msg=name)
