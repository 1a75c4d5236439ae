"""Many receive antennas, combined into one. A new combiner is one file beside these and one line in the table."""

from channels.antennas.bound import upper_bound
from channels.antennas.coherent_sum import COHERENT_SUM
from channels.antennas.combiner import Combiner, check_antennas, combine
from channels.antennas.first import FIRST
from channels.antennas.max_min import MAX_MIN
from channels.antennas.principal import PRINCIPAL

COMBINERS: dict[str, Combiner] = {
    "first": FIRST,
    "sum": COHERENT_SUM,
    "principal": PRINCIPAL,
    "max-min": MAX_MIN,
}

__all__ = ["COMBINERS", "Combiner", "check_antennas", "combine", "upper_bound"]
