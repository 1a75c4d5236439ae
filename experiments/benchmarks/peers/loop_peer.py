"""Run a workload as a typical research script does: a Python loop over clients, each with a model copy and an
optimizer.

python experiments/benchmarks/peers/loop_peer.py WORKLOAD
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from workload import WORKLOADS, Workload, time_rounds, use_all_cores

LEAST_S = 3.0


def build_round(work: Workload) -> Callable[[], None]:
    """Return a function that runs a round of federated learning from the model of the last one."""
    model = work.model()
    inputs, labels = work.data()

    def one_round() -> None:
        start = parameters_to_vector(model.parameters()).detach()
        total = torch.zeros_like(start)
        for device in torch.randperm(work.devices)[: work.selected].tolist():
            local = copy.deepcopy(model)
            optimiser = torch.optim.SGD(local.parameters(), lr=work.learning_rate, momentum=work.momentum)
            for _ in range(work.epochs):
                for rows in torch.split(torch.randperm(work.samples), work.batch):
                    optimiser.zero_grad()
                    torch.autograd.backward(F.cross_entropy(local(inputs[device, rows]), labels[device, rows]))
                    optimiser.step()
            update = parameters_to_vector(local.parameters()).detach() - start
            total += update * min(1.0, work.clip_norm / float(update.norm()))
        mean: Tensor = (total + work.noise_std * torch.randn_like(total)) / work.selected
        vector_to_parameters(start + mean, model.parameters())

    return one_round


def main() -> None:
    """Print the rate."""
    work = WORKLOADS[sys.argv[1]]
    use_all_cores()
    torch.manual_seed(0)
    time_rounds("loop", work, build_round(work), LEAST_S).print()


if __name__ == "__main__":
    main()
