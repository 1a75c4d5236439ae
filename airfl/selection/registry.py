"""The registry of selection rules. A new rule needs one file and one line here; user-defined rules need no line."""

from __future__ import annotations

from airfl.selection.rule import SelectionRule
from channels.part import Registry

SELECTIONS: Registry[SelectionRule] = Registry(
    "selection rule",
    SelectionRule,
    {
        "uniform": "airfl.selection.uniform:Uniform",
        "poisson": "airfl.selection.poisson:Poisson",
        "threshold": "airfl.selection.threshold:Threshold",
        "best-k": "airfl.selection.best_k:BestK",
        "proportional-fair": "airfl.selection.proportional_fair:ProportionalFair",
        "energy-budget": "airfl.selection.energy_budget:EnergyBudget",
    },
    group="airfl.selection",
)
