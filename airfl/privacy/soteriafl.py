"""The privacy claim of SoteriaFL (theorem 2), as stated in the paper.

Record level, for each device separately. The theorem holds "for some constants": the paper gives neither c nor the
bound c' b^2 T/m^2 that epsilon has to stay below.
"""

from __future__ import annotations

from math import inf, log, sqrt
from typing import Literal

Estimator = Literal["sgd", "gd", "svrg", "saga"]

# In place of c (G_A^2/4 + G_B^2) the authors' code has 12 G^2 for SoteriaFL-SGD and 96 G^2 for SVRG, which is this c,
# and 8 G^2 for CDP-SGD and LDP-SGD, which is c = 32.
PUBLIC_CODE = 48.0


def gradient_bounds(estimator: Estimator, clip_norm: float) -> tuple[float, float]:
    """Return (G_A, G_B) of lemma 1 for gradients of norm at most G: (G, 0) for SGD and GD, (2 G, G) for SVRG and
    SAGA."""
    return (clip_norm, 0.0) if estimator in ("sgd", "gd") else (2 * clip_norm, clip_norm)


def noise_std(
    epsilon: float,
    estimator: Estimator,
    clip_norm: float,
    rounds: float,
    samples: int,
    delta: float,
    constant: float = PUBLIC_CODE,
) -> float:
    """Return sigma_p of eq. 4: sigma_p^2 = c (G_A^2/4 + G_B^2) T log(1/delta)/(m^2 epsilon^2). samples: m, of a device.

    Raises ValueError unless epsilon is positive.
    """
    if not epsilon > 0:
        raise ValueError(f"epsilon must be positive, got {epsilon:g}")
    return _noise_times_epsilon(estimator, clip_norm, rounds, samples, delta, constant) / epsilon


def theorem_2_epsilon(
    noise: float,
    estimator: Estimator,
    clip_norm: float,
    rounds: float,
    samples: int,
    delta: float,
    constant: float = PUBLIC_CODE,
) -> float:
    """Return epsilon of eq. 4 after t = `rounds` rounds with noise of this standard deviation; inf without noise."""
    if noise <= 0:
        return inf
    return _noise_times_epsilon(estimator, clip_norm, rounds, samples, delta, constant) / noise


def _noise_times_epsilon(
    estimator: Estimator, clip_norm: float, rounds: float, samples: int, delta: float, constant: float
) -> float:
    in_batch, in_all = gradient_bounds(estimator, clip_norm)
    return sqrt(constant * (in_batch**2 / 4 + in_all**2) * rounds * log(1 / delta)) / samples
