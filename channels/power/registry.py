"""The registry of power policies. A new built-in policy needs one module and one line here."""

from __future__ import annotations

from channels.part import Registry
from channels.power.plan import Policy

POLICIES: Registry[Policy] = Registry(
    "power policy",
    Policy,
    {
        "pfels": "channels.power.aligned:Pfels",
        "full-inversion": "channels.power.inversion:FullInversion",
        "truncated-inversion": "channels.power.truncated:TruncatedInversion",
        "cao": "channels.power.cao:Cao",
        "correlated": "channels.power.correlated:Correlated",
        "cotaf": "channels.power.cotaf:Cotaf",
        "blind": "channels.power.blind:Blind",
        "statistical": "channels.power.statistical:Statistical",
        "statistical-truncation": "channels.power.statistical_truncation:StatisticalTruncation",
        "per-subcarrier": "channels.power.per_subcarrier:PerSubcarrier",
        "per-subcarrier-truncated": "channels.power.per_subcarrier:PerSubcarrierTruncated",
    },
    group="airfl.power",
)
