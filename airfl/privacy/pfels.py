"""The privacy claim of PFELS (theorem 3), as stated in the paper."""

from math import log, sqrt


def theorem_3_factor(clip_norm: float, selected: int, devices: int, delta: float, noise_std: float) -> float:
    """Return C_2 of eq. 21: a round at alignment beta is claimed to be (C_2 beta, delta)-private. C replaces eta tau
    C_1.

    The proof needs epsilon < 2 r/N. Above that the claim does not follow and is false, as the exact epsilon shows.
    """
    rate = selected / devices
    return 2 * sqrt(2) * clip_norm * rate * sqrt(log(1.25 * rate / delta)) / noise_std
