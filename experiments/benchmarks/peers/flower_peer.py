"""Run a workload with Flower's simulation engine (Ray).

PYTHONPATH=experiments/benchmarks/peers python experiments/benchmarks/peers/flower_peer.py WORKLOAD

Ray's workers import workload.py, so its folder must be on PYTHONPATH.
"""

# mypy: disable-error-code="import-not-found"
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import flwr
import numpy as np
import torch
import torch.nn.functional as F
from flwr.client import ClientApp, NumPyClient
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation
from numpy.typing import NDArray
from torch import nn
from workload import WORKLOADS, Workload, data_once, rate_between

Arrays = list[NDArray[np.float32]]


def arrays(model: nn.Module) -> Arrays:
    """Return the parameters as Flower sends them."""
    return [parameter.detach().numpy().copy() for parameter in model.parameters()]


def client_of(name: str) -> Callable[[Any], Any]:
    """Return the function that creates the client of a device; it is created again in every worker."""

    class Client(NumPyClient):  # type: ignore[misc]  # Flower is not installed for type checking
        def __init__(self, device: int) -> None:
            self.device = device

        def fit(self, parameters: Arrays, config: dict[str, Any]) -> tuple[Arrays, int, dict[str, Any]]:
            torch.set_num_threads(1)  # a worker has one core
            work, (inputs, labels) = WORKLOADS[name], data_once(name)
            model = work.model()
            with torch.no_grad():
                for parameter, values in zip(model.parameters(), parameters, strict=True):
                    parameter.copy_(torch.from_numpy(values))
            optimiser = torch.optim.SGD(model.parameters(), lr=work.learning_rate, momentum=work.momentum)
            for _ in range(work.epochs):
                for rows in torch.split(torch.randperm(work.samples), work.batch):
                    optimiser.zero_grad()
                    loss = F.cross_entropy(model(inputs[self.device, rows]), labels[self.device, rows])
                    torch.autograd.backward(loss)
                    optimiser.step()
            return arrays(model), work.samples, {}

    return lambda context: Client(int(context.node_config["partition-id"])).to_client()


def server_of(work: Workload, ends: list[float]) -> Callable[[Any], Any]:
    """Return the function that creates the server with FedAvg, clipping and noise. The end times of rounds are appended
    to `ends`."""

    class Clocked(DifferentialPrivacyServerSideFixedClipping):  # type: ignore[misc]
        def aggregate_fit(self, server_round: int, results: list[Any], failures: list[Any]) -> Any:
            aggregated = super().aggregate_fit(server_round, results, failures)
            if len(results) < work.selected:  # a failed round must not count as a fast one
                ends.append(float("nan"))
            ends.append(time.perf_counter())
            return aggregated

    average = FedAvg(
        fraction_fit=work.selected / work.devices,
        fraction_evaluate=0.0,
        min_fit_clients=work.selected,
        min_available_clients=work.devices,
        initial_parameters=flwr.common.ndarrays_to_parameters(arrays(work.model())),
    )
    strategy = Clocked(average, work.noise_std / work.clip_norm, work.clip_norm, work.selected)
    config = ServerConfig(num_rounds=work.rounds + 1)
    return lambda context: ServerAppComponents(strategy=strategy, config=config)


def main() -> None:
    """Print the rate."""
    work, begin = WORKLOADS[sys.argv[1]], time.perf_counter()
    ends: list[float] = []
    run_simulation(
        server_app=ServerApp(server_fn=server_of(work, ends)),
        client_app=ClientApp(client_fn=client_of(work.name)),
        num_supernodes=work.devices,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    if len(ends) != work.rounds + 1 or not np.isfinite(ends).all():
        raise SystemExit(f"{work.name}: clients failed, or rounds are missing; see above")
    rate_between("flower", work, begin, ends, f"Flower {version('flwr')}, a thread a worker").print()


if __name__ == "__main__":
    main()
