"""The registry of receive combiners. A new built-in combiner needs one module and one line here."""

from __future__ import annotations

from channels.antennas.combiner import Combiner
from channels.part import Registry

COMBINERS: Registry[Combiner] = Registry(
    "combiner",
    Combiner,
    {
        "first": "channels.antennas.first:First",
        "sum": "channels.antennas.coherent_sum:CoherentSum",
        "aligned-sum": "channels.antennas.coherent_sum:AlignedSum",
        "principal": "channels.antennas.principal:Principal",
        "max-min": "channels.antennas.max_min:MaxMin",
        "median": "channels.antennas.robust:Median",
        "trimmed-mean": "channels.antennas.robust:TrimmedMean",
    },
    group="airfl.combiners",
)
