"""The table of stages, in the order in which they run."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from experiments.gpu.rows import Work


@dataclass(frozen=True)
class Stage:
    """A stage.

    Attributes:
        name: Its name, also that of its file.
        work: Where its function is, "module:function" in this folder.
        limit_s: Seconds after which it is stopped.
        text: What it checks or measures, in a line.
        beside: Whether it may run beside others, since it measures no time.
    """

    name: str
    work: str
    limit_s: float
    text: str
    beside: bool = False

    def load(self) -> Work:
        """Import the function."""
        module, _, function = self.work.partition(":")
        work: Work = getattr(importlib.import_module(module if "." in module else f"{__package__}.{module}"), function)
        return work


STAGES = {
    stage.name: stage
    for stage in (
        Stage("environment", "environment:environment", 60, "versions, memory, speed of copies and matrix products"),
        Stage("random-numbers", "random_numbers:random_numbers", 60, "Philox on the device, bit for bit"),
        Stage("engines", "engines:engines", 150, "updates of every engine against the loop on the CPU", beside=True),
        Stage(
            "schemes", "rounds:schemes", 150, "rounds of every scheme on both devices from the same state", beside=True
        ),
        Stage("coders", "rounds:coders", 60, "each encoder stage on both devices", beside=True),
        Stage("checkpoints", "repeated:checkpoints", 60, "saved on one device, resumed on another", beside=True),
        Stage("determinism", "repeated:determinism", 90, "the same run twice, bit for bit", beside=True),
        Stage("chunks", "chunks:chunks", 120, "devices trained at once by the GPU's memory; a further GPU"),
        Stage("waits", "waits:waits", 120, "operations for which the CPU waits", beside=True),
        Stage("graphed", "graphed:graphed", 120, "local steps in one CUDA graph against the vmap engine"),
        Stage("overlap", "overlap:overlap", 120, "evaluations beside the next round, plans of batches beside training"),
        Stage(
            "memory",
            "memory:memory",
            90,
            "memory and operations of a round at d = 10^7, r = 32, without numbers",
            beside=True,
        ),
        Stage("convolutions", "convolutions:convolutions", 60, "patches and products against one grouped convolution"),
        Stage("pfels-cifar10", "figures:pfels_cifar10", 90, "PFELS on CIFAR-10, VGG-11, 32 devices x 5 steps of 50"),
        Stage("pfl-cifar10", "figures:pfl_cifar10", 90, "pfl's CIFAR-10: small CNN, 50 of 1,000 clients"),
        Stage("blazefl", "figures:blazefl", 150, "BlazeFL's: 100 clients, 5 epochs, batches of 50"),
        Stage("sweep", "figures:sweep", 300, "100 points of the demo, 1, 4 and as many at a time as fit"),
        Stage("superposition", "figures:superposition", 60, "superposition against memory bandwidth"),
        Stage("large-round", "figures:large_round", 150, "a round of 128 devices at d = 10^8 without training"),
        Stage(
            "compiled", "engines:compiled", 240, "updates of the compiled engines, compilation included", beside=True
        ),
    )
}
"""By name. `compiled` is the last, since compiling takes longest and the other stages do not depend on it."""
