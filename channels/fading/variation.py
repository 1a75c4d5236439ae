"""Variation of flat fading over time: independent per round, constant over the run, or correlated.

Covers the diffuse part, and the phase and Doppler shift of the line of sight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from channels.draws import Array, Complex, Draw, circular_gaussian
from channels.units import SPEED_OF_LIGHT_M_S

# Number of paths in the correlated process. The marginal law and the mean correlation are exact for any number; more
# paths bring the correlation of each device closer to the mean.
PATHS = 64


@dataclass(frozen=True)
class Variation:
    """A model of how fading varies with time.

    Attributes:
        diffuse: (uniforms [devices, antennas, columns], doppler_hz, times_s [times] or [devices, times]) -> CN(0, 1)
            numbers [devices, antennas, times].
        columns: Number of uniform numbers per antenna.
        per_run: Whether the uniform numbers are drawn once per run, or else once per round.
        source: Source of the model.
    """

    diffuse: Callable[[Array, float, Array], Complex]
    columns: int
    per_run: bool
    source: str

    def __call__(self, per_round: Draw, per_run: Draw, antennas: int, doppler_hz: float, times_s: Array) -> Complex:
        """Return CN(0, 1) numbers g, [devices, antennas, times].

        Args:
            per_round: Streams of this round.
            per_run: Streams of the run.
            antennas: Number of antennas.
            doppler_hz: Maximum Doppler shift in Hz; 1 if times are ways.
            times_s: Times since the start of the run in s, [times], or the ways of the devices since then in
                wavelengths, [devices, times], if they do not have one constant speed.

        The value at a time does not depend on the other requested times.
        """
        uniforms = (per_run if self.per_run else per_round)(self.columns * antennas)
        return self.diffuse(uniforms.reshape(-1, antennas, self.columns), doppler_hz, times_s)


def _block(uniforms: Array, doppler_hz: float, times_s: Array) -> Complex:
    gains = _gaussian(uniforms)
    times = times_s.shape[-1]
    return gains if times == 1 else np.broadcast_to(gains, (*gains.shape[:2], times))


def _jakes(uniforms: Array, doppler_hz: float, times_s: Array) -> Complex:
    """g(t) = sum_m a_m exp(j 2 pi f_D t cos alpha_m), a_m ~ CN(0, 1/M), alpha_m uniform in the m-th of M sectors.

    Conditional on the angles, it is a Gaussian process. Over the angles, E[g(s) g*(s + t)] = J0(2 pi f_D t) for any M.
    With f_D = 1 and ways in wavelengths for t, it is that of devices whose speed changes.
    """
    angles = 2 * np.pi * (np.arange(PATHS) + uniforms[..., :PATHS]) / PATHS
    rates = 2 * np.pi * doppler_hz * np.cos(angles)
    weights = _gaussian(uniforms[..., PATHS:]) / np.sqrt(PATHS)
    total = np.zeros((*uniforms.shape[:2], times_s.shape[-1]), dtype=np.complex128)
    times = times_s if times_s.ndim == 1 else times_s[:, None]
    for path in range(PATHS):  # one path at a time, so that memory does not grow with the number of paths
        total += weights[..., path, None] * np.exp(1j * rates[..., path, None] * times)
    return total


def _gaussian(uniforms: Array) -> Complex:
    """CN(0, 1), [devices, antennas, 2 n] -> [devices, antennas, n]."""
    devices, antennas, columns = uniforms.shape
    return circular_gaussian(uniforms.reshape(devices * antennas, columns)).reshape(devices, antennas, columns // 2)


VARIATIONS: dict[str, Variation] = {
    "independent": Variation(_block, columns=2, per_run=False, source="block fading, PFELS section 4.1"),
    "constant": Variation(_block, columns=2, per_run=True, source="devices that stand still"),
    "jakes": Variation(
        _jakes, columns=3 * PATHS, per_run=True, source="Jakes, Microwave mobile communications (1974), section 1.1"
    ),
}


def line_of_sight_phase(name: str, per_round: Draw, per_run: Draw, antennas: int) -> Array:
    """Return the phase of the line of sight in units of 2 pi at the start of the run, in [0, 1), [devices].

    It is drawn per round or per run, as the diffuse part is under the variation of that name, from the column after
    those that `VARIATIONS[name]` uses for all antennas, so that no random number is shared.
    """
    return _beyond_the_diffuse_part(name, per_round, per_run, antennas, 1)


def line_of_sight_cosines(name: str, per_round: Draw, per_run: Draw, antennas: int) -> Array:
    """Return the cosine of the angle between a device's motion and its line of sight, [devices].

    It equals the Doppler shift of the line of sight over f_D. The angle is uniform, is drawn as often as the phase, and
    uses the column after that of `line_of_sight_phase`.
    """
    return np.asarray(np.cos(2 * np.pi * _beyond_the_diffuse_part(name, per_round, per_run, antennas, 2)))


def _beyond_the_diffuse_part(name: str, per_round: Draw, per_run: Draw, antennas: int, column: int) -> Array:
    """Return the column-th random number after those of the diffuse part, counted from 1, [devices]."""
    variation = VARIATIONS[name]
    return (per_run if variation.per_run else per_round)(variation.columns * antennas + column)[:, -1]


def doppler_hz(speed_m_s: float, carrier_hz: float) -> float:
    """Return the maximum Doppler shift f_D = v f_c / c.

    Raises ValueError for a negative speed or a carrier frequency that is not positive.
    """
    if not (np.isfinite(speed_m_s) and speed_m_s >= 0):
        raise ValueError(f"speed_m_s must be finite and at least 0, got {speed_m_s:g}")
    if not (np.isfinite(carrier_hz) and carrier_hz > 0):
        raise ValueError(f"carrier_hz must be finite and positive, got {carrier_hz:g}")
    return speed_m_s * carrier_hz / SPEED_OF_LIGHT_M_S
