"""Receiver noise on the observed real entries, and noise levels from bandwidth and noise figure."""

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from channels.units import db_to_linear

BOLTZMANN_J_PER_K = 1.380649e-23


class NormalSource(Protocol):
    """A source of standard normal numbers, such as numpy's generators."""

    def standard_normal(self, size: int, dtype: Any) -> NDArray[Any]:
        """Return the next `size` numbers."""
        ...


def receiver_noise(generator: NormalSource, entries: int, noise_std: float) -> NDArray[np.float32]:
    """Draw Gaussian noise z ~ N(0, noise_std^2 I) of PFELS eq. 7, [entries], float32.

    noise_std is sigma_0 on one observed real entry: the real part of CN(0, 2 sigma_0^2). Under I/Q packing both parts
    are observed, each with this standard deviation. Draws are sequential: the noise of a shorter message is a prefix of
    that of a longer one.
    """
    noise: NDArray[np.float32] = generator.standard_normal(entries, dtype=np.float32)
    return noise * np.float32(noise_std)


def thermal_noise_std(spacing_hz: float, noise_figure_db: float, temperature_k: float = 290.0) -> float:
    """Return sigma_0 of one observed real entry in sqrt(W), for a receiver with a given noise figure.

    A subcarrier of width spacing_hz has complex noise of power N_0 = k_B T F spacing_hz (W). An observed real entry is
    one of its two parts, so sigma_0^2 = N_0/2. At 290 K, k_B T is -173.975 dBm/Hz.
    Raises ValueError for a spacing or temperature that is not positive, or a noise figure below 0 dB.
    """
    if not 0 < spacing_hz < math.inf:
        raise ValueError(f"spacing_hz must be positive and finite, got {spacing_hz:g}")
    if not 0 < temperature_k < math.inf:
        raise ValueError(f"temperature_k must be positive and finite (usually 290), got {temperature_k:g}")
    if not 0 <= noise_figure_db < math.inf:
        raise ValueError(f"noise_figure_db must be finite and at least 0 (no added noise), got {noise_figure_db:g}")
    power = BOLTZMANN_J_PER_K * temperature_k * float(db_to_linear(noise_figure_db)) * spacing_hz
    return math.sqrt(power / 2)


def interference_std(noise_std: float, interference_to_noise_db: float | None) -> float:
    """Return the standard deviation of inter-cell interference on one observed real entry, in the unit of noise_std.

    The interference of many other cells is modelled as Gaussian and independent of the noise, with a power
    `interference_to_noise_db` above that of the noise; None means no interference. It disturbs the aggregate as noise
    does, but never counts as privacy noise: it is not guaranteed, and its senders may know it.
    Raises ValueError for a level that is nan or +inf.
    """
    if interference_to_noise_db is None:
        return 0.0
    if not interference_to_noise_db < math.inf:
        raise ValueError(
            f"interference_to_noise_db must be finite, or None for no interference, got {interference_to_noise_db:g}"
        )
    return noise_std * math.sqrt(float(db_to_linear(interference_to_noise_db)))


def disturbance_energy(noise_std: float, interference_to_noise_db: float | None) -> float:
    """Return the energy of noise and interference, noise_std^2 (1 + I), as needed for the SINR of digital links.

    noise_std: square root of the noise energy on a resource element. Interference affects both parts of an element as
    the noise does, so its energy is I times that of the noise. Raises ValueError as `interference_std` does.
    """
    return noise_std**2 + interference_std(noise_std, interference_to_noise_db) ** 2
