"""Device selection (scheduling) rules, independent of or based on the channel. Names are registered in registry.py.

    airfl.selection.Threshold(min_gain=0.02)

The classes are available here by name and are imported on first access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.selection.registry import SELECTIONS
from airfl.selection.rule import Array, BlindRule, Candidates, ChannelRule, Ids, Memory, Sampling, SelectionRule
from airfl.selection.select import (
    first_memory,
    most_participations,
    most_selected,
    remembered,
    sampling_of,
    select,
    select_among,
)
from channels.part import lazily

if TYPE_CHECKING:
    from airfl.selection.best_k import BestK as BestK
    from airfl.selection.energy_budget import EnergyBudget as EnergyBudget
    from airfl.selection.poisson import Poisson as Poisson
    from airfl.selection.proportional_fair import ProportionalFair as ProportionalFair
    from airfl.selection.threshold import Threshold as Threshold
    from airfl.selection.uniform import Uniform as Uniform

__all__ = [
    "SELECTIONS",
    "Array",
    "BlindRule",
    "Candidates",
    "ChannelRule",
    "Ids",
    "Memory",
    "Sampling",
    "SelectionRule",
    "first_memory",
    "most_participations",
    "most_selected",
    "remembered",
    "sampling_of",
    "select",
    "select_among",
]

__getattr__, __dir__ = lazily(__name__, __all__, SELECTIONS)
