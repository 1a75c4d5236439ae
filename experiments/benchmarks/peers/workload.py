"""Workloads shared by the peers: FedAvg with clipping and Gaussian noise. Needs only torch.

N devices hold n samples each. In every round, r of them run some epochs of SGD with momentum, updates are clipped to
norm 1, and noise of standard deviation 0.1 is added to the sum. Inputs and labels are random, since only speed is
measured.
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
    """LSTM from character ids [batch, 80] to logits of the next character [batch, 90], 822,570 parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, 8)
        self.lstm = nn.LSTM(8, 256, num_layers=2, batch_first=True)
        self.dense = nn.Linear(256, CHARACTERS)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits from the output of the last step."""
        outputs, _ = self.lstm(self.embedding(inputs.long()))
        logits: Tensor = self.dense(outputs[:, -1])
        return logits


def perceptron() -> nn.Module:
    """Return a 64-64-10 MLP, 4,810 parameters."""
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def small_cnn() -> nn.Module:
    """Return a CNN with 5x5 convolutions of 10 and 20 channels and a hidden layer of 50, 21,840 parameters."""
    first = (nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU())
    second = (nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU())
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10))


def large_cnn() -> nn.Module:
    """Return a CNN with padded 5x5 convolutions of 32 and 64 channels and a hidden layer of 512, 1,663,370
    parameters."""
    first = (nn.Conv2d(1, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    second = (nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 10))


@dataclass(frozen=True)
class Workload:
    """A workload. build: creates the model; shape: shape of an input (of character ids for text); samples: samples per
    device; rounds: minimum number of timed rounds."""

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
        """The number of per-sample gradients in a round."""
        return self.selected * self.epochs * self.samples

    def model(self) -> nn.Module:
        """Return the model, initialized from seed 0."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.build()

    def data(self) -> tuple[Tensor, Tensor]:
        """Return inputs [N, n, *shape], float32 or ids as uint8, and labels [N, n]."""
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
    """Return the data of a workload, created once per process. Defined here because Ray cannot send such a function of
    a script."""
    return WORKLOADS[name].data()


@dataclass(frozen=True)
class Result:
    """The result that a peer prints. rate: rounds per second after the first; first_s: seconds of the first round,
    including one-time setup; note: a remark on the configuration."""

    peer: str
    workload: str
    rate: float
    rounds: int
    first_s: float
    note: str = ""

    def print(self) -> None:
        """Print a line that `read` recognizes."""
        print(f"\n{MARK}{json.dumps(asdict(self))}", flush=True)

    @classmethod
    def read(cls, output: str) -> Result:
        """Return the result in a program's output; raises ValueError if there is none."""
        lines = [line for line in output.splitlines() if line.startswith(MARK)]
        if not lines:
            raise ValueError(f"the output has no line that starts with {MARK!r}; run the peer alone to see why")
        return cls(**json.loads(lines[-1].removeprefix(MARK)))


def use_all_cores() -> None:
    """Use as many threads as available cores, unless OMP_NUM_THREADS is set."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def time_rounds(peer: str, workload: Workload, step: Callable[[], object], least_s: float, note: str = "") -> Result:
    """Return the rate of step(), called once for warm-up and then for at least `workload.rounds` rounds and `least_s`
    seconds."""
    begin = time.perf_counter()
    step()
    start = time.perf_counter()
    rounds, now = 0, start
    while rounds < workload.rounds or now - start < least_s:
        step()
        rounds, now = rounds + 1, time.perf_counter()
    return Result(peer, workload.name, rounds / (now - start), rounds, start - begin, note)


def rate_between(peer: str, workload: Workload, begin: float, ends: list[float], note: str = "") -> Result:
    """Return the rate from the start time of a run and the end times of its rounds, for peers with their own loop."""
    rounds = len(ends) - 1
    return Result(peer, workload.name, rounds / (ends[-1] - ends[0]), rounds, ends[0] - begin, note)
