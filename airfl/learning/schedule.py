"""Learning rate schedules over the rounds."""

from __future__ import annotations

import math
from typing import Protocol


class Scheduled(Protocol):
    """A section of the settings with a learning rate and its schedule."""

    @property
    def learning_rate(self) -> float:
        """eta in the first round."""
        ...

    @property
    def schedule(self) -> str:
        """ "constant", "inverse-sqrt" or "exponential"."""
        ...

    @property
    def decay(self) -> float:
        """Factor of each decay of the exponential schedule."""
        ...

    @property
    def decay_every(self) -> int:
        """Rounds between two decays."""
        ...


def learning_rate(settings: Scheduled, round_index: int) -> float:
    """Return eta_t: eta, eta/sqrt(t + 1) (Fed-SPA app. A.1) or eta decay^floor(t/decay_every) (Fed-SMP sec. 6.2)."""
    if settings.schedule == "inverse-sqrt":
        return settings.learning_rate / math.sqrt(round_index + 1)
    if settings.schedule == "exponential":
        return float(settings.learning_rate * settings.decay ** (round_index // settings.decay_every))
    return settings.learning_rate
