"""Complex gains of flat fading, computed from the random numbers of the diffuse part."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.fading.law import ALMOST_ONE, FadingLaw

Bounds = Literal["clip", "redraw"]

# Smallest probability of an interval to which a law is conditioned; below it, double precision has few distinct gains.
MIN_SHARE = 1e-12


class FlatParts(NamedTuple):
    """Gains of flat fading and their line-of-sight component.

    Attributes:
        gains: h, complex [devices, antennas].
        line_of_sight: Line-of-sight component of h, [devices, antennas]; all of h if it does not fade, None without
            line of sight.
    """

    gains: Complex
    line_of_sight: Complex | None


def flat_parts(
    law: FadingLaw,
    diffuse: Complex,
    phases: Array,
    *,
    scale: float | Array,
    min_gain: float,
    max_gain: float,
    bounds: Bounds,
    steering: Array | None = None,
) -> FlatParts:
    """Return gains h of flat fading with E|h| = scale before bounds, and their line-of-sight component.

    Without line of sight, |h| is the law's quantile at 1 - exp(-|g|^2), and the phase is that of g. With line of sight,
    h is the sum of both components, which follows the law. A constant law has phase 0, plus that of `steering`. With
    correlated g, the marginal distribution at each antenna is still the law, and the correlation is that of g. The
    line-of-sight component is that before bounds, so changes due to bounds count as diffuse.

    Args:
        law: Distribution of |h|, scaled to mean 1.
        diffuse: CN(0, 1) numbers g, [devices, antennas].
        phases: Phase of the line of sight in units of 2 pi, [devices] (equal at all antennas) or [devices, antennas].
        scale: Mean gain, a number, [devices] or [devices, antennas].
        min_gain: Lower bound of |h|.
        max_gain: Upper bound of |h|.
        bounds: "clip" moves a gain outside the bounds to the nearer one; "redraw" conditions the law on the interval
            by inversion, which is equivalent to drawing until the gain is inside. Both keep the phase.
        steering: Phase in units of 2 pi that the direction of a device adds to its line of sight at each antenna,
            [devices, antennas].

    Raises ValueError for "redraw" if the interval has (almost) no probability.
    """
    means = np.asarray(scale, dtype=np.float64)
    means = means if means.ndim == 2 else means.reshape(-1, 1)
    sight: Complex | None = None
    if law.line_of_sight > 0:
        phases = phases if phases.ndim == 2 else phases[:, None]
        phases = phases if steering is None else phases + steering
        sight = np.sqrt(law.line_of_sight) * np.exp(2j * np.pi * phases)
        sums = sight + np.sqrt(1 - law.line_of_sight) * diffuse
        gains, angles = np.sqrt(law.mean_square) * np.abs(sums), np.angle(sums)
        shares = law.cdf(gains) if bounds == "redraw" else gains
    else:
        shares = _below_one(-np.expm1(-(np.abs(diffuse) ** 2)))
        gains, angles = law.quantile(shares), np.angle(diffuse)
    if bounds == "redraw":
        gains = _within(law, gains, shares, means, (min_gain, max_gain))
    gains = np.clip(means * gains, min_gain, max_gain)
    if law.constant:
        constant = np.asarray(gains * (1 + 0j if steering is None else np.exp(2j * np.pi * steering)))
        return FlatParts(constant, constant.copy())
    if sight is not None:
        sight = np.asarray(means * np.sqrt(law.mean_square) * sight)
    return FlatParts(np.asarray(gains * np.exp(1j * angles)), sight)


def rician_parts(k_factors: Array, diffuse: Complex, phases: Array, rms: Array) -> FlatParts:
    """Return gains of Rician fading without bounds, with a K factor for each device; K = 0 is Rayleigh fading.

    k_factors: [devices] or [devices, antennas]; diffuse: CN(0, 1) numbers, [devices, antennas]; phases: phase of the
    line of sight in units of 2 pi, [devices, 1 or antennas]; rms: square root of E|h|^2, [devices] or [devices,
    antennas].
    """
    share, rms = (values if values.ndim == 2 else values[:, None] for values in (k_factors / (k_factors + 1), rms))
    sight = np.asarray(rms * np.sqrt(share) * np.exp(2j * np.pi * phases))
    return FlatParts(np.asarray(sight + rms * np.sqrt(1 - share) * diffuse), sight)


def keep_within(response: NDArray[np.complexfloating], low: float, high: float) -> None:
    """Clip the moduli of a response to [low, high] in place and keep the phases, as "clip" does for flat gains."""
    modulus = np.abs(response)
    outside = (modulus < low) | (modulus > high)
    if outside.any():
        least = np.finfo(np.float32).tiny
        response[outside] *= np.clip(modulus[outside], low, high) / np.maximum(modulus[outside], least)


def _within(law: FadingLaw, gains: Array, shares: Array, means: Array, limits: tuple[float, float]) -> Array:
    """Return unit-mean gains of the law conditioned on the limits, by inversion, [devices, antennas]."""
    # The next smaller gain, so that a constant law at the lower limit is inside.
    low, high = law.cdf(np.nextafter(limits[0] / means, 0.0)), law.cdf(limits[1] / means)
    empty = high - low < MIN_SHARE
    if empty.any():
        raise ValueError(
            f"gains from {limits[0]:g} to {limits[1]:g} have a probability below {MIN_SHARE:g} at mean gain "
            f"{means[empty][0]:g}, so none can be redrawn; widen the limits, or clip to them"
        )
    restricted = (low > 0) | (high < 1)
    if not restricted.any():
        return gains
    return np.where(restricted, law.quantile(_below_one(low + (high - low) * shares)), gains)


def _below_one(shares: Array) -> Array:
    return np.asarray(np.minimum(shares, ALMOST_ONE))
