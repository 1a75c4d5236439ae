"""The shared workloads of the peers: FedAvg with clipping and Gaussian noise. Needs torch alone.

N devices hold n samples each; every round r of them make some epochs of SGD with momentum; updates are clipped to 1 and
the sum gets noise of deviation 0.1. Inputs and labels are random: what is measured is speed.
"""

from __future__ import annotations

import functools
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

MARK = "peer-result "
CHARACTERS, TEXT_LENGTH = 90, 80


class NextCharacter(nn.Module):
    """Characters' ids [batch, 80] to logits of the next one, [batch, 90]: 822,570 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.dense = nn.Linear(256, CHARACTERS)

    def forward(self, inputs: Tensor) -> Tensor:
        """From the last step's output."""
        outputs, _ = self.lstm(self.embedding(inputs.long()))
        logits: Tensor = self.dense(outputs[:, -1])
        return logits


def perceptron() -> nn.Module:
    """64-64-10: 4,810 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def small_cnn() -> nn.Module:
    """5x5 convolutions of 10 and 20, fc 50: 21,840 parameters."""
    first = (nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU())
    second = (nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU())
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10))


def large_cnn() -> nn.Module:
    """Padded 5x5 convolutions of 32 and 64, fc 512: 1,663,370 parameters."""
    first = (nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


@dataclass(frozen=True)
class Workload:
    """build: of the model; shape: of an input (of characters' ids where it is text); samples: of a device; rounds:
    timed ones, at least."""

    name: str
    build: Callable[[], nn.Module]
    parameters: int
    shape: tuple[int, ...]
    samples: int
    epochs: int
    rounds: int
    classes: int = 10
    text: bool = False
    batch: int = 10
    devices: int = 1000
    selected: int = 32
    learning_rate: float = 0.05
    momentum: float = 0.9
    clip_norm: float = 1.0
    noise_std: float = 0.1

    @property
    def samples_a_round(self) -> int:
        """Gradients of single samples that a round takes."""
        return self.selected * self.epochs * self.samples

    def model(self) -> nn.Module:
        """The model, initialised from seed 0."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build()

    def data(self) -> tuple[Tensor, Tensor]:
        """Inputs [N, n, *shape], float32 or ids as uint8, and labels [N, n]."""
        generator = torch.Generator().manual_seed(0)
        size = (self.devices, self.samples, *self.shape)
        if self.text:
            inputs = torch.randint(0, CHARACTERS, size, generator=generator, dtype=torch.uint8)
        else:
            inputs = torch.randn(size, generator=generator)
        return inputs, torch.randint(0, self.classes, size[:2], generator=generator)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("digits-mlp", perceptron, 4_810, (64,), samples=50, epochs=5, rounds=10),
        Workload("mnist-cnn", small_cnn, 21_840, (1, 28, 28), samples=50, epochs=2, rounds=3),
        Workload("fmnist-cnn", large_cnn, 1_663_370, (1, 28, 28), samples=10, epochs=2, rounds=3),
        Workload(
            "text-lstm", NextCharacter, 822_570, (TEXT_LENGTH,), 20, epochs=1, rounds=2, classes=CHARACTERS, text=True
        ),
    )
}


@functools.cache
def data_once(name: str) -> tuple[Tensor, Tensor]:
    """The data of a workload, made once in each process: here, because Ray cannot send such a function of a script."""
    return WORKLOADS[name].data()


@dataclass(frozen=True)
class Result:
    """What a peer prints. rate: rounds a second after the first; first_s: the first round, with all that is done once;
    note: on how it was run."""

    peer: str
    workload: str
    rate: float
    rounds: int
    first_s: float
    note: str = ""

    def print(self) -> None:
        """One line, which `read` finds among others."""
        print(f"\n{MARK}{json.dumps(asdict(self))}", flush=True)

    @classmethod
    def read(cls, output: str) -> Result:
        """The result in a program's output; ValueError where there is none."""
        lines = [line for line in output.splitlines() if line.startswith(MARK)]
        if not lines:
            raise ValueError(f"no line starts with {MARK!r}; run the peer by itself to see why")
        return cls(**json.loads(lines[-1].removeprefix(MARK)))


def use_all_cores() -> None:
    """As many threads as this process may use cores, where OMP_NUM_THREADS says nothing else."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def time_rounds(peer: str, workload: Workload, step: Callable[[], object], least_s: float, note: str = "") -> Result:
    """The rate of step(), called once before and then for `workload.rounds` rounds and `least_s` seconds at least."""
    begin = time.perf_counter()
    step()
    start = time.perf_counter()
    rounds, now = 0, start
    while rounds < workload.rounds or now - start < least_s:
        step()
        rounds, now = rounds + 1, time.perf_counter()
    return Result(peer, workload.name, rounds / (now - start), rounds, start - begin, note)


def rate_between(peer: str, workload: Workload, begin: float, ends: list[float], note: str = "") -> Result:
    """The same from the times at which a run began and its rounds ended, for peers that run by themselves."""
    rounds = len(ends) - 1
    return Result(peer, workload.name, rounds / (ends[-1] - ends[0]), rounds, ends[0] - begin, note)
