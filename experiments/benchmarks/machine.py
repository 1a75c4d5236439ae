"""Measure the machine's limits (matrix product, copy) and count the operations of a round of training.

python experiments/benchmarks/machine.py        prints the limits and the resulting bounds for the peers' workloads
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from peers.workload import WORKLOADS, Workload, use_all_cores
from torch import Tensor, nn

SIZE = 2048
COPY_FLOATS = 16_000_000
REPEATS = 5


@dataclass(frozen=True)
class Machine:
    """Measured limits. product: torch.mm of 2048 x 2048 float32 in GFLOP/s; linear: the same product by oneDNN, None if
    torch does not support it; copy: bytes read and written in GB/s."""

    product: float
    linear: float | None
    copy: float


def measure() -> Machine:
    """Measure the limits, each as the best of several repetitions."""
    left, right = torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)
    operations = 2.0 * SIZE**3
    product = operations / _best(lambda: torch.mm(left, right)) / 1e9
    source = torch.randn(COPY_FLOATS)
    into = torch.empty_like(source)
    copy = 2.0 * source.nbytes / _best(lambda: into.copy_(source)) / 1e9
    onednn = _onednn_linear()
    linear = None if onednn is None else operations / _best(lambda: onednn(left, right)) / 1e9
    return Machine(product, linear, copy)


def _onednn_linear() -> Callable[[Tensor, Tensor], Tensor] | None:
    """Return oneDNN's linear layer, which torch supports only on some processors; None otherwise."""
    operations = getattr(torch.ops, "mkldnn", None)
    if not hasattr(operations, "_linear_pointwise"):
        return None

    def linear(inputs: Tensor, weight: Tensor) -> Tensor:
        output: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, None, "none", [], "")
        return output

    try:
        linear(torch.ones(1, 1), torch.ones(1, 1))
    except (RuntimeError, NotImplementedError):
        return None
    return linear


def _best(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest call, after a warm-up call."""
    work()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


@dataclass(frozen=True)
class Products:
    """Multiplications of one layer for one sample in the forward pass, and whether its inputs need a gradient."""

    multiplications: int
    input_gradient: bool

    @property
    def operations(self) -> int:
        """Floating-point operations of the forward pass, the weight gradient and, if needed, the input gradient."""
        return 2 * self.multiplications * (2 + self.input_gradient)


def products_of(module: nn.Module, inputs: Tensor) -> list[Products]:
    """Return the products of linear layers, convolutions and LSTMs for a batch of one, `inputs` [1, *shape]. Other
    layers are not counted.

    The inputs of the first layer are data and need no gradient.
    """
    products: list[Products] = []

    def record(layer: nn.Module, inputs: tuple[Tensor, ...], output: object) -> None:
        if isinstance(layer, nn.Linear) and isinstance(output, Tensor):
            count = output.numel() * layer.in_features
        elif isinstance(layer, nn.Conv2d) and isinstance(output, Tensor):
            count = output.numel() * layer.weight[0].numel()
        elif isinstance(layer, nn.LSTM):
            count = lstm_multiplications(layer, length=inputs[0].shape[1 if layer.batch_first else 0])
        else:
            return
        products.append(Products(count, inputs[0].requires_grad))

    hooks = [part.register_forward_hook(record) for part in module.modules()]
    with torch.enable_grad():
        module(inputs)
    for hook in hooks:
        hook.remove()
    return products


def lstm_multiplications(layer: nn.LSTM, length: int) -> int:
    """Return the multiplications for a sequence: 4H (inputs + H) per layer and step."""
    hidden = layer.hidden_size
    inputs = [layer.input_size] + [hidden] * (layer.num_layers - 1)
    return length * sum(4 * hidden * (width + hidden) for width in inputs)


def operations_of(workload: Workload) -> int:
    """Return the floating-point operations of the matrix products in one round."""
    inputs = torch.zeros(1, *workload.shape, dtype=torch.uint8 if workload.text else torch.float32)
    sample = sum(layer.operations for layer in products_of(workload.model(), inputs))
    return workload.samples_a_round * sample


def rate_limits(workload: Workload, machine: Machine) -> dict[str, float]:
    """Return the rounds per second if a round consisted only of matrix products at the measured speeds, torch.mm
    first."""
    speeds = {"limit by torch.mm": machine.product, "limit by oneDNN's linear": machine.linear}
    return {name: speed * 1e9 / operations_of(workload) for name, speed in speeds.items() if speed is not None}


def main() -> None:
    """Print the limits."""
    use_all_cores()
    machine = measure()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(f"  matrix product   {machine.product:8.1f} GFLOP/s")
    if machine.linear is not None:
        print(f"  oneDNN's linear  {machine.linear:8.1f} GFLOP/s")
    print(f"  copy             {machine.copy:8.1f} GB/s")
    for name, workload in WORKLOADS.items():
        limits = ", ".join(f"{limit} {rate:.3g}" for limit, rate in rate_limits(workload, machine).items())
        print(f"  {name:12s} {operations_of(workload) / 1e9:8.2f} GFLOP a round; rounds/s: {limits}")


if __name__ == "__main__":
    main()
