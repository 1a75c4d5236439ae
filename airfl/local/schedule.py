"""Learning rates that change from round to round."""

from __future__ import annotations

import math
from typing import Protocol


class Scheduled(Protocol):
    """A section of settings with a learning rate and what becomes of it."""

    @property
    def learning_rate(self) -> float:
        """eta, of the first round."""
        ...

    @property
    def schedule(self) -> str:
        """constant, inverse-sqrt or exponential."""
        ...

    @property
    def decay(self) -> float:
        """Of schedule exponential."""
        ...

    @property
    def decay_every(self) -> int:
        """Rounds between two decays."""
        ...


def learning_rate(settings: Scheduled, round_index: int) -> float:
    """eta_t: eta, eta/sqrt(t + 1) (Fed-SPA appendix A.1), or eta decay^floor(t/decay_every) (Fed-SMP section 6.2)."""
    if settings.schedule == "inverse-sqrt":
        return settings.learning_rate / math.sqrt(round_index + 1)
    if settings.schedule == "exponential":
        return float(settings.learning_rate * settings.decay ** (round_index // settings.decay_every))
    return settings.learning_rate
