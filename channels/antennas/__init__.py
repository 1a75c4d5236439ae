"""Many receive antennas: where they are, what they have in common, and how they are combined into one.

    MaxMin()

The classes of combiners are here by name. A new one is one file beside these and one line in registry.py; a user's own
derives from `Combiner`, and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.antennas.array import ARRAYS, AntennaArray, Directions, steering_turns
from channels.antennas.bound import upper_bound
from channels.antennas.combiner import Combiner, check_antennas, combine
from channels.antennas.correlation import (
    CORRELATIONS,
    SpatialCorrelation,
    correlation_matrices,
    correlation_roots,
)
from channels.antennas.own import check_weights
from channels.antennas.registry import COMBINERS
from channels.part import lazily

if TYPE_CHECKING:  # for editors and type checkers, which do not see what `__getattr__` imports
    from channels.antennas.coherent_sum import CoherentSum as CoherentSum
    from channels.antennas.first import First as First
    from channels.antennas.max_min import MaxMin as MaxMin
    from channels.antennas.principal import Principal as Principal

register = COMBINERS.register
"""A class decorator that adds a combiner of the user's own, so that settings can name it."""

__all__ = [
    "ARRAYS",
    "COMBINERS",
    "CORRELATIONS",
    "AntennaArray",
    "Combiner",
    "Directions",
    "SpatialCorrelation",
    "check_antennas",
    "check_weights",
    "combine",
    "correlation_matrices",
    "correlation_roots",
    "register",
    "steering_turns",
    "upper_bound",
]

__getattr__, __dir__ = lazily(__name__, __all__, COMBINERS)
