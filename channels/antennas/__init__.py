"""Many receive antennas: where they are, what they have in common, and how they are combined into one. A new combiner
is one file beside these and one line in the table."""

from channels.antennas.array import ARRAYS, AntennaArray, Directions, check_array, steering_turns
from channels.antennas.bound import upper_bound
from channels.antennas.coherent_sum import COHERENT_SUM
from channels.antennas.combiner import Combiner, check_antennas, combine
from channels.antennas.correlation import (
    CORRELATIONS,
    SpatialCorrelation,
    check_correlation,
    correlation_matrices,
    correlation_roots,
)
from channels.antennas.first import FIRST
from channels.antennas.max_min import MAX_MIN
from channels.antennas.principal import PRINCIPAL

COMBINERS: dict[str, Combiner] = {
    "first": FIRST,
    "sum": COHERENT_SUM,
    "principal": PRINCIPAL,
    "max-min": MAX_MIN,
}

__all__ = [
    "ARRAYS",
    "COMBINERS",
    "CORRELATIONS",
    "AntennaArray",
    "Combiner",
    "Directions",
    "SpatialCorrelation",
    "check_antennas",
    "check_array",
    "check_correlation",
    "combine",
    "correlation_matrices",
    "correlation_roots",
    "steering_turns",
    "upper_bound",
]
