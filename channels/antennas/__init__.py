"""Multiple receive antennas: array geometries, spatial correlation and receive combining.

    MaxMin()

All combiners are available here by name. A new built-in combiner is one module in this package and one line in
registry.py. User-defined combiners derive from `Combiner`; `register` lets settings name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.antennas.array import ARRAYS, AntennaArray, Directions, steering_phase
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
from channels.antennas.robust import RobustCombiner, check_location, robust_sum
from channels.part import lazily

if TYPE_CHECKING:  # for editors and type checkers, which cannot resolve `__getattr__`
    from channels.antennas.coherent_sum import AlignedSum as AlignedSum
    from channels.antennas.coherent_sum import CoherentSum as CoherentSum
    from channels.antennas.first import First as First
    from channels.antennas.max_min import MaxMin as MaxMin
    from channels.antennas.principal import Principal as Principal
    from channels.antennas.robust import Median as Median
    from channels.antennas.robust import TrimmedMean as TrimmedMean

register = COMBINERS.register
"""A class decorator that registers a user-defined combiner, so that settings can name it."""

__all__ = [
    "ARRAYS",
    "COMBINERS",
    "CORRELATIONS",
    "AntennaArray",
    "Combiner",
    "Directions",
    "RobustCombiner",
    "SpatialCorrelation",
    "check_antennas",
    "check_location",
    "check_weights",
    "combine",
    "correlation_matrices",
    "correlation_roots",
    "register",
    "robust_sum",
    "steering_phase",
    "upper_bound",
]

__getattr__, __dir__ = lazily(__name__, __all__, COMBINERS)
