"""The radio of a run, built from its settings on what `channels` has."""

from airfl.uplinks.radio.checks import check_radio, check_size, check_surface
from airfl.uplinks.radio.laws import cut_by_bounds, interpolated, physical_as_normalised
from airfl.uplinks.radio.neighbours import NeighbourCell, check_neighbours, neighbours_of
from airfl.uplinks.radio.parts import slow_shadowing
from airfl.uplinks.radio.power import check_blind, check_law_of_selected, check_statistics_hold, power_policy
from airfl.uplinks.radio.radio import Radio, build_radio

__all__ = [
    "NeighbourCell",
    "Radio",
    "build_radio",
    "check_blind",
    "check_law_of_selected",
    "check_neighbours",
    "check_radio",
    "check_size",
    "check_statistics_hold",
    "check_surface",
    "cut_by_bounds",
    "interpolated",
    "neighbours_of",
    "physical_as_normalised",
    "power_policy",
    "slow_shadowing",
]
