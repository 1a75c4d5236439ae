"""Run a workload with pfl, Apple's simulator of private federated learning.

python experiments/benchmarks/peers/pfl_peer.py WORKLOAD
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import sys
import time
from importlib.metadata import version
from typing import Any

import torch
import torch.nn.functional as F
from pfl.aggregate.simulate import SimulatedBackend
from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
from pfl.callback.base import TrainingProcessCallback
from pfl.data import FederatedDataset
from pfl.data.dataset import Dataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam import NNTrainHyperParams
from pfl.metrics import Metrics, Weighted
from pfl.model.pytorch import PyTorchModel
from pfl.privacy import CentrallyAppliedPrivacyMechanism, GaussianMechanism
from torch import Tensor, nn
from workload import WORKLOADS, Workload, rate_between, use_all_cores


class WithLoss(nn.Module):
    """The model of the workload with the two methods that pfl needs."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.model = work.model()

    def loss(self, inputs: Tensor, labels: Tensor, eval: bool = False) -> Tensor:
        """Return the mean cross-entropy."""
        self.train(not eval)
        return F.cross_entropy(self.model(inputs), labels)

    @torch.no_grad()
    def metrics(self, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
        """Return a placeholder, since evaluation is not measured."""
        return {"loss": Weighted(0.0, 1)}


class Clock(TrainingProcessCallback):  # type: ignore[misc]  # pfl is not installed for type checking
    """Records when rounds end."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def after_central_iteration(
        self, aggregate_metrics: Any, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Record the time and continue training."""
        self.ends.append(time.perf_counter())
        return False, Metrics()


def main() -> None:
    """Print the rate."""
    work, clock = WORKLOADS[sys.argv[1]], Clock()
    use_all_cores()
    inputs, labels = work.data()
    module = WithLoss(work)
    model = PyTorchModel(
        module,
        lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=work.momentum),
        torch.optim.SGD(module.parameters(), lr=1.0),
    )
    devices = get_user_sampler("random", list(range(work.devices)))
    data = FederatedDataset(lambda device: Dataset((inputs[device], labels[device])), devices)
    privacy = CentrallyAppliedPrivacyMechanism(GaussianMechanism(work.clip_norm, work.noise_std / work.clip_norm))
    begin, iterations = time.perf_counter(), work.rounds + 1
    never = iterations + 1  # iterations between evaluations
    FederatedAveraging().run(
        NNAlgorithmParams(iterations, never, work.selected, 0),
        SimulatedBackend(training_data=data, val_data=data, postprocessors=[privacy]),
        model,
        NNTrainHyperParams(work.batch, work.epochs, work.learning_rate),
        None,
        [clock],
        send_metrics_to_platform=False,
    )
    rate_between("pfl", work, begin, clock.ends, f"pfl {version('pfl')}").print()


if __name__ == "__main__":
    main()
