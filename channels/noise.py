"""Receiver noise on the observed real entries: its numbers, and its level from bandwidth and noise figure."""

import math

import numpy as np
from numpy.typing import NDArray

from channels.units import db_to_linear

BOLTZMANN_J_PER_K = 1.380649e-23


def receiver_noise(generator: np.random.Generator, entries: int, noise_std: float) -> NDArray[np.float32]:
    """Gaussian noise z ~ N(0, noise_std^2 I) of PFELS eq. 7, [entries], float32.

    noise_std is sigma_0 on one observed real entry: the real part of CN(0, 2 sigma_0^2). Under I/Q packing both parts
    are observed, each with this standard deviation. Draws are sequential: a shorter message sees a prefix of a longer
    one's noise.
    """
    noise = generator.standard_normal(entries, dtype=np.float32)
    return noise * np.float32(noise_std)


def thermal_noise_std(spacing_hz: float, noise_figure_db: float, temperature_k: float = 290.0) -> float:
    """sigma_0 of one observed real entry, in sqrt(W), for a receiver of that noise figure.

    A subcarrier of width spacing_hz has complex noise of power N_0 = k_B T F spacing_hz (W); an observed real entry is
    one of its two parts, sigma_0^2 = N_0/2. At 290 K, k_B T is -173.975 dBm/Hz.
    Raises ValueError for a spacing or temperature that is not positive, or a noise figure below 0 dB.
    """
    if not 0 < spacing_hz < math.inf:
        raise ValueError(f"thermal noise over {spacing_hz:g} Hz: the subcarrier spacing must be positive and finite")
    if not 0 < temperature_k < math.inf:
        raise ValueError(
            f"thermal noise at {temperature_k:g} K: the temperature must be positive and finite, usually 290"
        )
    if not 0 <= noise_figure_db < math.inf:
        raise ValueError(
            f"a noise figure of {noise_figure_db:g} dB: it must be finite and at least 0 dB (no added noise)"
        )
    power = BOLTZMANN_J_PER_K * temperature_k * float(db_to_linear(noise_figure_db)) * spacing_hz
    return math.sqrt(power / 2)


def interference_std(noise_std: float, interference_to_noise_db: float | None) -> float:
    """Standard deviation of inter-cell interference on one observed real entry, in the unit of noise_std.

    Interference of many other cells is taken as Gaussian, independent of the noise, with a power that is
    `interference_to_noise_db` above the noise's; None is none. It disturbs the aggregate as noise does and never counts
    as privacy noise: nobody vouches for it, and whoever sends it may know it.
    Raises ValueError for a level that is nan or +inf.
    """
    if interference_to_noise_db is None:
        return 0.0
    if not interference_to_noise_db < math.inf:
        raise ValueError(
            f"interference {interference_to_noise_db:g} dB over the noise: it must be finite, or not given"
        )
    return noise_std * math.sqrt(float(db_to_linear(interference_to_noise_db)))


def disturbance_energy(noise_std: float, interference_to_noise_db: float | None) -> float:
    """Of noise and interference together, noise_std^2 (1 + I): what a link that carries bits has against it.

    noise_std: root of the noise energy on a resource element. Interference is on both parts of an element as the noise
    is, so it is I times that, whichever of the parts are counted. Raises ValueError as `interference_std`.
    """
    return noise_std**2 + interference_std(noise_std, interference_to_noise_db) ** 2
