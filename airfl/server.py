"""What the server does with the decoded mean update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.local.schedule import learning_rate

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.config.settings import LocalSettings, ServerSettings
    from airfl.store import Store


class ServerRule(Protocol):
    """theta^t and the decoded mean update -> theta^(t+1)."""

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """parameters, mean_update: [d]; what the rule itself remembers is in store.server."""
        ...


@dataclass(frozen=True)
class Averaging:
    """theta + eta_s Delta (PFELS algorithm 2, line 16, with a server learning rate).

    Attributes:
        server: Its section of the settings, of which it takes eta_s.
    """

    server: ServerSettings

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """See `ServerRule`."""
        return parameters + learning_rate(self.server, round_index) * mean_update


@dataclass(frozen=True)
class Descent:
    """theta + eta_s eta Delta for a Delta that is minus the mean gradient: x - eta_t v (SoteriaFL algorithm 2, line 9).

    The devices make no step of their own, so that local.learning_rate is the server's too.

    Attributes:
        server: Its section of the settings, of which it takes eta_s.
        local: That of local training, of which it takes eta of the round.
    """

    server: ServerSettings
    local: LocalSettings

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """See `ServerRule`."""
        eta = learning_rate(self.server, round_index) * learning_rate(self.local, round_index)
        return parameters + eta * mean_update


@dataclass(frozen=True)
class Adaptive:
    """The adaptive server step of Fed-SPA (eq. 6), from u = 0 and v = kappa^2.

    u = beta_1 u + (1 - beta_1) Delta, v = beta_2 v + (1 - beta_2) u^2, theta + eta_g u/(sqrt(v) + kappa).

    Attributes:
        server: Its section of the settings, of which it takes eta_g, beta_1, beta_2 and kappa.
    """

    server: ServerSettings

    def step(self, parameters: Tensor, mean_update: Tensor, round_index: int, store: Store) -> Tensor:
        """See `ServerRule`; u and v are store.server's "u" and "v"."""
        import torch

        server = self.server
        u = store.server.get("u", torch.zeros_like(parameters))
        v = store.server.get("v", torch.full_like(parameters, server.kappa**2))
        u = server.beta1 * u + (1 - server.beta1) * mean_update
        v = server.beta2 * v + (1 - server.beta2) * u**2
        store.server["u"], store.server["v"] = u, v
        return parameters + learning_rate(server, round_index) * u / (v.sqrt() + server.kappa)


def mean_weights(kind: str, sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Weight w_i of each device's update in the mean sum_i w_i Delta_i / r, [N].

    "equal": 1. "samples": n_i over the population's mean: the divisor does not depend on who was drawn, so that one
    device moves the sum by no more than its own weighted update (fixed denominator, McMahan et al. 2018).
    """
    if kind == "equal":
        return np.ones(len(sizes))
    return np.asarray(sizes / sizes.mean(), dtype=np.float64)
