"""Rules of who takes part in a round, blind or by the channel. The registry of names is in registry.py.

    airfl.selection.Threshold(min_gain=0.02)

Its classes are here by name, and imported when they are asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.selection.draws import (
    first_memory,
    most_participations,
    most_selected,
    remembered,
    sampling_of,
    select,
    select_among,
)
from airfl.selection.registry import SELECTIONS
from airfl.selection.rule import BlindRule, Candidates, ChannelRule, Ids, Memory, Sampling, SelectionRule
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
