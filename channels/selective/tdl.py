"""Tapped delay lines (TDL) of TR 38.901, clause 7.7.2, through Sionna."""

from __future__ import annotations

from typing import ClassVar

from channels.fading.kinds import SelectiveFading
from channels.selective.parameters import Tr38901Version, delay_spread, tables
from channels.selective.request import SelectiveRequest, SelectiveResponse
from channels.selective.sionna_bridge import respond_tdl


class Tdl(SelectiveFading):
    """Base class of the tapped delay lines.

    Attributes:
        profile: Delay profile, "A" to "E".
    """

    profile: ClassVar[str] = ""

    delay_spread_s: float = delay_spread()
    tr38901_version: Tr38901Version = tables()

    @property
    def spread_s(self) -> float:
        """The rms delay spread in s."""
        return self.delay_spread_s

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """Return Sionna's response of this delay profile."""
        return respond_tdl(self.profile, request, self.delay_spread_s, self.tr38901_version)


class TdlA(Tdl):
    """TDL-A, without line of sight."""

    name, profile = "tdl-a", "A"
    source = "3GPP TR 38.901, clause 7.7.2, table 7.7.2-1"


class TdlB(Tdl):
    """TDL-B, without line of sight."""

    name, profile = "tdl-b", "B"
    source = "3GPP TR 38.901, clause 7.7.2, table 7.7.2-2"


class TdlC(Tdl):
    """TDL-C, without line of sight."""

    name, profile = "tdl-c", "C"
    source = "3GPP TR 38.901, clause 7.7.2, table 7.7.2-3"


class TdlD(Tdl):
    """TDL-D, with a line of sight."""

    name, profile = "tdl-d", "D"
    source = "3GPP TR 38.901, clause 7.7.2, table 7.7.2-4"
    line_of_sight = True


class TdlE(Tdl):
    """TDL-E, with a line of sight."""

    name, profile = "tdl-e", "E"
    source = "3GPP TR 38.901, clause 7.7.2, table 7.7.2-5"
    line_of_sight = True
