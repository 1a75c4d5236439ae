"""Clustered delay lines (CDL) of TR 38.901, clause 7.7.1, through Sionna."""

from __future__ import annotations

from typing import ClassVar

from channels.fading.kinds import SelectiveFading
from channels.selective.parameters import Tr38901Version, delay_spread, tables
from channels.selective.request import SelectiveRequest, SelectiveResponse
from channels.selective.sionna_bridge import respond_cdl


class Cdl(SelectiveFading):
    """Base class of the clustered delay lines.

    Attributes:
        profile: Delay profile, "A" to "E".
    """

    own_angles = True
    profile: ClassVar[str] = ""

    delay_spread_s: float = delay_spread()
    tr38901_version: Tr38901Version = tables()

    @property
    def spread_s(self) -> float:
        """The rms delay spread in s."""
        return self.delay_spread_s

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """Return Sionna's response of this delay profile."""
        return respond_cdl(self.profile, request, self.delay_spread_s, self.tr38901_version)


class CdlA(Cdl):
    """CDL-A, without line of sight."""

    name, profile = "cdl-a", "A"
    source = "3GPP TR 38.901, clause 7.7.1, table 7.7.1-1"


class CdlB(Cdl):
    """CDL-B, without line of sight."""

    name, profile = "cdl-b", "B"
    source = "3GPP TR 38.901, clause 7.7.1, table 7.7.1-2"


class CdlC(Cdl):
    """CDL-C, without line of sight."""

    name, profile = "cdl-c", "C"
    source = "3GPP TR 38.901, clause 7.7.1, table 7.7.1-3"


class CdlD(Cdl):
    """CDL-D, with a line of sight."""

    name, profile = "cdl-d", "D"
    source = "3GPP TR 38.901, clause 7.7.1, table 7.7.1-4"
    line_of_sight = True


class CdlE(Cdl):
    """CDL-E, with a line of sight."""

    name, profile = "cdl-e", "E"
    source = "3GPP TR 38.901, clause 7.7.1, table 7.7.1-5"
    line_of_sight = True
