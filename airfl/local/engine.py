"""How a chunk is computed.

compiled: all devices at once, where a C++ compiler (on a GPU: Triton) is found and pays; eager: the same, not compiled;
loop: one device after another, for large models on a CPU and models that torch cannot compute in batches of devices.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import shutil

import torch
from torch import nn

from airfl.config import Settings
from airfl.local.sgd import Step
from airfl.tasks import check_engine
from airfl.tasks.models import MODELS

log = logging.getLogger(__name__)

# Compiling takes some 15 s the first time; below this many batched steps the eager engine is done sooner.
STEPS_WORTH_COMPILING = 400
# On a CPU a batch of one device fills the cores from here on, and vmapped convolutions only add to it: at 1,663,370
# parameters a loop is 4 to 5 times as fast as the eager batch, and faster than the compiled one (make bench).
PARAMETERS_WORTH_A_LOOP = 250_000
CHUNK_MEMORY_BYTES = 512 << 20


def compiler_found(device: torch.device) -> bool:
    """Whether torch.compile has what it needs on this device."""
    if device.type == "cuda":
        return importlib.util.find_spec("triton") is not None
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++", "cl"))


def choose_chunk(
    settings: Settings, engine: str, module: nn.Module, dimension: int, input_shape: tuple[int, ...]
) -> int:
    """Devices in one computation: `run.chunk`, else 1 in a loop, as many of the r as fit into half a gigabyte else."""
    if settings.run.chunk:
        return settings.run.chunk
    if engine == "loop":
        return 1
    # Parameters, velocities, gradients, update and a temporary; activations and their gradients for a batch.
    floats = 5 * dimension + 3 * settings.local.batch_size * _activations(module, input_shape)
    return max(1, min(settings.run.selected, CHUNK_MEMORY_BYTES // (4 * floats)))


def choose_engine(settings: Settings, device: torch.device, dimension: int) -> str:
    """`local.engine`; "auto" becomes "loop" for a large model on a CPU and for one that has no batched form anywhere.

    Else it stays "auto" (a batched engine). UserError for an engine that cannot compute the model.
    """
    check_engine(settings)
    if settings.local.engine != "auto":
        return settings.local.engine
    large = device.type == "cpu" and dimension >= PARAMETERS_WORTH_A_LOOP
    return "loop" if large or not MODELS[settings.task.model].batched else "auto"


def worth_compiling(engine: str, device: torch.device, batched_steps: int) -> bool:
    """Whether a batched engine is to be compiled for a run of that many steps."""
    wanted = engine == "compiled" or (engine == "auto" and batched_steps >= STEPS_WORTH_COMPILING)
    return wanted and compiler_found(device)


def compiled(step: Step) -> Step:
    """The step, compiled at its first call; one graph, no fall-back within it."""
    return torch.compile(step, dynamic=False, fullgraph=True)


def _numbers(output: object) -> int:
    """Numbers in a module's output: a tensor, or (of a recurrent layer) tuples of some."""
    if isinstance(output, torch.Tensor):
        return output.numel()
    return sum(_numbers(part) for part in output) if isinstance(output, tuple | list) else 0


def _activations(module: nn.Module, input_shape: tuple[int, ...]) -> int:
    """Numbers that a forward pass of one sample produces."""
    total = 0

    def count(_module: nn.Module, _inputs: object, output: object) -> None:
        nonlocal total
        total += _numbers(output)

    hooks = [part.register_forward_hook(count) for part in module.modules()]
    with torch.no_grad():
        module(torch.zeros(1, *input_shape, device=next(module.parameters()).device))
    for hook in hooks:
        hook.remove()
    return total
