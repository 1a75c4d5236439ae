"""The radio of a run, built from its settings on what `channels` has."""

from airfl.radio.checks import check_radio, check_size
from airfl.radio.laws import cut_by_bounds
from airfl.radio.power import power_policy
from airfl.radio.radio import Radio, build_radio

__all__ = ["Radio", "build_radio", "check_radio", "check_size", "cut_by_bounds", "power_policy"]
