"""What is known of a fading law as a whole: for thresholds, and for limits on the mean over fades."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from channels.fading.law import FadingLaw, exceedance, inverse_power, threshold_for


@dataclass(frozen=True)
class FadeStatistics:
    """inverse_power(t): E[P/|h|^2; |h|^2 >= t P] with P = E|h|^2; exceedance(t): P(|h|^2 >= t P); threshold_for(share):
    the t that this share of fades reaches."""

    inverse_power: Callable[[float], float]
    exceedance: Callable[[float], float]
    threshold_for: Callable[[float], float]


def fade_statistics(law: FadingLaw) -> FadeStatistics:
    """The three functions of a law, before any bounds on the gain."""
    return FadeStatistics(
        inverse_power=inverse_power(law),
        exceedance=lambda threshold: exceedance(law, threshold),
        threshold_for=lambda share: threshold_for(law, share),
    )
