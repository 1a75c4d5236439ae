"""The privacy statement of PFELS (theorem 3), as the paper has it."""

from math import log, sqrt


def theorem_3_factor(clip_norm: float, selected: int, devices: int, delta: float, noise_std: float) -> float:
    """C_2 of eq. 21: a round at alignment beta is claimed to be (C_2 beta, delta)-private, C in the place of eta tau
    C_1.

    The proof needs epsilon < 2 r/N; above that the claim does not follow, and fails (see the tight figures beside it).
    """
    rate = selected / devices
    return 2 * sqrt(2) * clip_norm * rate * sqrt(log(1.25 * rate / delta)) / noise_std
