"""Transmit power limits, and the scaling of an aligned superposition to them.

In an aligned transmission, every payload arrives with the same amplitude beta: |h_i| alpha_i = beta (PFELS eq. 12).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from channels.units import db_to_linear

Array = NDArray[np.float64]
SnrSpacing = Literal["linear", "db"]
LimitReading = Literal["round_energy", "transmit_power"]


def draw_max_snr(uniforms: Array, max_snr_db: float | tuple[float, float], spacing: SnrSpacing) -> Array:
    """Draw the maximum SNR of each device as a ratio, [devices], from uniforms [devices] in [0, 1).

    A pair (low, high) in dB is sampled uniformly between the two *ratios* ("linear", which reproduces the energy tables
    of PFELS) or uniformly in dB ("db"). A single number applies to all devices.
    """
    if not isinstance(max_snr_db, tuple):
        return np.full(len(uniforms), float(db_to_linear(max_snr_db)))
    low, high = max_snr_db
    if spacing == "db":
        return db_to_linear(low + (high - low) * uniforms)
    low_ratio, high_ratio = db_to_linear([low, high])
    return np.asarray(low_ratio + (high_ratio - low_ratio) * uniforms)


def power_limits(max_snr: Array, dimension: int, noise_std: float) -> Array:
    """Return P_i = SNR_i d sigma_0^2 (PFELS section 8.1): the energy of an uncompressed update at the maximum SNR."""
    return max_snr * dimension * noise_std**2


def round_energy_limits(limits: Array, ratio: float, reading: LimitReading) -> Array:
    """Return the energy limit of a round in which a device sends a share `ratio` = m/d of its entries.

    "round_energy": E||x_i||^2 <= P_i for any message length (PFELS eq. 8). "transmit_power": the power per entry is
    limited, so the limit of a message of m entries is P_i m/d.
    """
    return limits if reading == "round_energy" else limits * ratio


@dataclass(frozen=True)
class Alignment:
    """The alignment coefficient of a round, and the bounds that determine it (both, if they are equal).

    Attributes:
        coefficient: beta.
        power_bound_binding: Whether the energy limit of a device determines it.
        privacy_bound_binding: Whether the privacy bound determines it.
    """

    coefficient: float
    power_bound_binding: bool
    privacy_bound_binding: bool


def align(gains: Array, energy_limits: Array, rms_norms: Array, privacy_bound: float) -> Alignment:
    """Return the largest beta within every device's energy limit and the privacy bound (PFELS theorem 5, eq. 36).

    gains: |hhat_i|; energy_limits: limits of the round; rms_norms: bound on sqrt(E||m_i||^2) of device i's message, C
    sqrt(k/d) for a rand-k message of an update clipped to C; all [devices]. privacy_bound: eps/C_2, inf for none.
    Without any device, beta is the privacy bound. This function covers the flat channel of the paper. Rounds use the
    policy `pfels`, which gives the same result there.
    """
    power_bound = float(np.min(gains * np.sqrt(energy_limits) / rms_norms, initial=np.inf))
    coefficient = min(power_bound, privacy_bound)
    return Alignment(
        coefficient=coefficient,
        power_bound_binding=bool(power_bound <= privacy_bound and np.isfinite(power_bound)),
        privacy_bound_binding=bool(privacy_bound <= power_bound and np.isfinite(privacy_bound)),
    )


def invert_channel(estimate: NDArray[np.complex128], coefficient: float) -> NDArray[np.complex128]:
    """Return precoders e^(-j phi_i) alpha_i, alpha_i = beta/|hhat_i| (PFELS eq. 12 and section 4.1), [devices]."""
    return np.asarray(coefficient * estimate.conj() / np.abs(estimate) ** 2)
