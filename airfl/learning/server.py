"""The server's update rules, which apply the decoded mean update to the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.learning.schedule import learning_rate

__all__ = ["Adaptive", "Averaging", "Descent", "ServerRule", "learning_rate", "mean_weights"]

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.config.learning import LocalSettings, ServerSettings
    from airfl.runtime.store import Store


class ServerRule(Protocol):
    """A rule that computes theta^(t+1) from theta^t and the decoded mean update."""

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """Return the new parameters, [d]. parameters, mean_update: [d]; state of the rule is kept in store.server."""
        ...


@dataclass(frozen=True)
class Averaging:
    """Federated averaging, theta + eta_s Delta (PFELS algorithm 2, line 16, with a server learning rate).

    Attributes:
        server: The [server] settings, with eta_s.
    """

    server: ServerSettings

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """Return theta + eta_s Delta."""
        return parameters + learning_rate(self.server, round_index) * mean_update


@dataclass(frozen=True)
class Descent:
    """Gradient descent, theta + eta_s eta Delta with Delta minus the mean gradient: x - eta_t v (SoteriaFL algorithm 2,
    line 9).

    The devices take no local steps, so the server uses local.learning_rate.

    Attributes:
        server: The [server] settings, with eta_s.
        local: The [local] settings, with eta of the round.
    """

    server: ServerSettings
    local: LocalSettings

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """Return theta + eta_s eta Delta."""
        eta = learning_rate(self.server, round_index) * learning_rate(self.local, round_index)
        return parameters + eta * mean_update


@dataclass(frozen=True)
class Adaptive:
    """The adaptive server step of Fed-SPA (eq. 6), with initial values u = 0 and v = kappa^2.

    u = beta_1 u + (1 - beta_1) Delta, v = beta_2 v + (1 - beta_2) u^2, theta + eta_g u/(sqrt(v) + kappa).

    Attributes:
        server: The [server] settings, with eta_g, beta_1, beta_2 and kappa.
    """

    server: ServerSettings

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """Return the new parameters, and update u and v, which are "u" and "v" in store.server."""
        import torch

        server = self.server
        u = store.server.get("u", torch.zeros_like(parameters))
        v = store.server.get("v", torch.full_like(parameters, server.kappa**2))
        u = server.beta1 * u + (1 - server.beta1) * mean_update
        v = server.beta2 * v + (1 - server.beta2) * u**2
        store.server["u"], store.server["v"] = u, v
        return parameters + learning_rate(server, round_index) * u / (v.sqrt() + server.kappa)


def mean_weights(kind: str, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the weight w_i of each device's update in the mean sum_i w_i Delta_i / r, [N].

    "equal": 1. "samples": n_i over the mean of the population. The divisor does not depend on the selection, so the
    sensitivity of the sum to one device is its own weighted update (fixed denominator, McMahan et al. 2018).
    """
    if kind == "equal":
        return np.ones(len(sizes))
    return np.asarray(sizes / sizes.mean(), dtype=np.float64)
