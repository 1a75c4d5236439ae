"""Complex gains of a fading law, from the random numbers of its diffuse part."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Complex
from channels.fading.law import ALMOST_ONE, FadingLaw

Bounds = Literal["clip", "redraw"]

# A law is not conditioned on less of itself than this: double precision would leave it few different gains.
LEAST_SHARE = 1e-12


class FlatParts(NamedTuple):
    """Flat fading, and what of it comes by the line of sight.

    Attributes:
        gains: h, complex [devices, antennas].
        line_of_sight: The part of h that comes by the line of sight, [devices, antennas]; all of h where it does not
            fade, None where there is no line of sight.
    """

    gains: Complex
    line_of_sight: Complex | None


def flat_parts(
    law: FadingLaw,
    diffuse: Complex,
    turns: Array,
    *,
    scale: float | Array,
    min_gain: float,
    max_gain: float,
    bounds: Bounds,
    steering: Array | None = None,
) -> FlatParts:
    """Gains h of flat fading with E|h| = scale before bounds, and what of them comes by the line of sight.

    diffuse: CN(0, 1) numbers g, [devices, antennas]; turns: phase of the line of sight over 2 pi, [devices], the same
    at all antennas of a device, or [devices, antennas]; scale: mean gain, a number or [devices]; steering: what the
    direction of a device adds to the phase of its line of sight at each antenna, over 2 pi, [devices, antennas].
    Without line of sight |h| is the law's quantile at 1 - exp(-|g|^2) and the phase that of g; with it h is the sum of
    both parts, which is the law. A constant law has phase 0, and that of `steering`. Correlated g have the law at each
    antenna all the same, and the correlation is that of g.
    bounds: "clip" moves a gain outside [min_gain, max_gain] to the nearer limit and keeps its phase; "redraw" is the
    law conditioned on the interval (what drawing again until inside would give), by inversion, phase kept. The part by
    the line of sight is that before bounds: what these change counts as diffuse.
    Raises ValueError for "redraw" if the interval holds none of the law.
    """
    means = np.reshape(np.asarray(scale, dtype=np.float64), (-1, 1))
    sight: Complex | None = None
    if law.line_of_sight > 0:
        turned = turns if turns.ndim == 2 else turns[:, None]
        phases = turned if steering is None else turned + steering
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


def rician_parts(k_factors: Array, diffuse: Complex, turns: Array, rms: Array) -> FlatParts:
    """Gains of Rician fading without bounds, where every device has a K of its own; a K of 0 is Rayleigh's.

    k_factors: [devices]; diffuse: CN(0, 1) numbers, [devices, antennas]; turns: phase of the line of sight over 2 pi,
    [devices, 1 or antennas]; rms: square root of E|h|^2, [devices].
    """
    share = (k_factors / (k_factors + 1))[:, None]
    sight = np.asarray(rms[:, None] * np.sqrt(share) * np.exp(2j * np.pi * turns))
    return FlatParts(np.asarray(sight + rms[:, None] * np.sqrt(1 - share) * diffuse), sight)


def keep_within(response: NDArray[np.complexfloating], low: float, high: float) -> None:
    """Clip the moduli of any response to [low, high] in place, keeping phases, as "clip" does with flat gains."""
    modulus = np.abs(response)
    outside = (modulus < low) | (modulus > high)
    if outside.any():
        least = np.finfo(np.float32).tiny
        response[outside] *= np.clip(modulus[outside], low, high) / np.maximum(modulus[outside], least)


def _within(law: FadingLaw, gains: Array, shares: Array, means: Array, limits: tuple[float, float]) -> Array:
    """Unit-mean gains at the same share of the law within the limits, [devices, antennas]."""
    # The next smaller gain, so that a constant law at the lower limit lies within.
    low, high = law.cdf(np.nextafter(limits[0] / means, 0.0)), law.cdf(limits[1] / means)
    empty = high - low < LEAST_SHARE
    if empty.any():
        raise ValueError(
            f"gains from {limits[0]:g} to {limits[1]:g} hold less than {LEAST_SHARE:g} of the law with mean gain "
            f"{means[empty][0]:g}, so none can be redrawn there: widen the limits, or clip to them"
        )
    bites = (low > 0) | (high < 1)
    if not bites.any():
        return gains
    return np.where(bites, law.quantile(_below_one(low + (high - low) * shares)), gains)


def _below_one(shares: Array) -> Array:
    return np.asarray(np.minimum(shares, ALMOST_ONE))
