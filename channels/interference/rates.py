"""Rates under interference that is not Gaussian: the mutual information of a Gaussian codebook, as an effective SINR.

Given the power A of an element, Y = X + N with X ~ CN(0, gamma) and N ~ CN(0, 1 + I A), in units of the noise energy.
The receiver knows the law of A but not the A of an element, so a rate up to

    I(X; Y) = h(Y) - h(N)    bits per element

is achievable, with Y and N scale mixtures of isotropic Gaussians. The effective SINR is that of Gaussian noise with
this rate, 2^I(X; Y) - 1. Of Gaussian interference it is gamma/(1 + I).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from channels.interference.kinds import Array, Interference
from channels.noise import disturbance_energy
from channels.units import db_to_linear

EffectiveSinr = Callable[[Array], Array]
"""SNR -> effective SINR, both linear and of any shape."""

PER_DECADE = 20
"""Abscissae per decade of |y|^2 in the integrals."""
STEP_DB, MARGIN_DB = 2.0, 60.0
"""Step of the table over the SNR, and how far it reaches below the noise and above noise and interference."""


@dataclass(frozen=True)
class Disturbance:
    """What a link that carries bits works against.

    Attributes:
        energy: Energy on a resource element of the noise, and of interference that is Gaussian.
        effective: Effective SINR at an SNR over `energy`, None if nothing else disturbs.
    """

    energy: float
    effective: EffectiveSinr | None = None


def disturbance(noise_std: float, interference_to_noise_db: float | None, model: Interference) -> Disturbance:
    """Return the disturbance of a link that carries bits.

    Args:
        noise_std: Square root of the noise energy on a resource element.
        interference_to_noise_db: Interference over the noise in dB, None for none.
        model: The law of the interference.

    Raises ValueError for a level that is nan or +inf.
    """
    if interference_to_noise_db is None or model.gaussian:
        return Disturbance(disturbance_energy(noise_std, interference_to_noise_db))
    return Disturbance(noise_std**2, effective_sinr(model, float(db_to_linear(interference_to_noise_db))))


@functools.lru_cache(maxsize=32)
def effective_sinr(model: Interference, over_noise: float) -> EffectiveSinr:
    """Return the effective SINR under interference, interpolated in a table of 2 dB steps.

    Outside the table, where the rate is linear in the SNR or in its logarithm, it is proportional to the SNR.

    Args:
        model: The law of the interference.
        over_noise: I, linear.
    """
    from scipy.interpolate import PchipInterpolator

    values, shares = model.mixture()
    noise = 1 + over_noise * values
    order = np.argsort(noise)
    loud = noise[order][np.searchsorted(np.cumsum(shares[order]), 0.999).clip(max=len(noise) - 1)]
    highest_db = 10 * math.log10(loud) + MARGIN_DB
    snr = 10 ** (np.arange(-MARGIN_DB, highest_db + STEP_DB, STEP_DB) / 10)
    quiet = _entropy(noise, shares)
    rates = np.array([_entropy(noise + one, shares) - quiet for one in snr])
    sound = rates > 1e-6  # far above the rounding of a difference of entropies
    logs = np.log(snr[sound])
    curve = PchipInterpolator(logs, np.log(np.expm1(rates[sound])))

    def effective(given: Array) -> Array:
        with np.errstate(divide="ignore"):
            log = np.log(np.asarray(given, dtype=np.float64))
        inside = np.clip(log, logs[0], logs[-1])
        return np.asarray(np.exp(curve(inside) + (log - inside)))

    return effective


def _entropy(powers: Array, shares: Array) -> float:
    """Return the differential entropy in nats of an isotropic mixture of CN(0, powers) with probabilities `shares`,
    less ln(pi)."""
    low, high = math.log(powers.min()) - 16, math.log(powers.max()) + 4
    log_s = np.linspace(low, high, max(int((high - low) / math.log(10) * PER_DECADE), 200))
    s = np.exp(log_s)
    density = np.exp(-s[:, None] / powers) @ (shares / powers)
    integrand = -s * density * np.log(np.maximum(density, np.finfo(np.float64).tiny))
    return float(integrand.sum() * (log_s[1] - log_s[0]))
