"""Blockage by people, vehicles and machines (TR 38.901, clause 7.6.4): regions of angles, or screens in the cell."""

from channels.blockage.blockage import BLOCKERS, Blockage, Blocker
from channels.blockage.regions import FIELD, Regions, regions_at
from channels.blockage.screens import Obstructed, Screens, Standing, screens_of

__all__ = [
    "BLOCKERS",
    "FIELD",
    "Blockage",
    "Blocker",
    "Obstructed",
    "Regions",
    "Screens",
    "Standing",
    "regions_at",
    "screens_of",
]
