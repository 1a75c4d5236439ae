"""Cells of TR 38.901, clause 7.5, through Sionna: every device has the line of sight and spreads of its place."""

from __future__ import annotations

from typing import ClassVar

from channels.fading.kinds import SelectiveFading
from channels.selective.parameters import Tr38901Version, tables
from channels.selective.request import SelectiveRequest, SelectiveResponse
from channels.selective.sionna_bridge import Scenario as ScenarioName
from channels.selective.sionna_bridge import respond_scenario


class Scenario(SelectiveFading):
    """A cell; those below say which. Needs a topology, whose path loss is the one of its name.

    Attributes:
        scenario: As Sionna calls it.
    """

    needs_positions = True
    own_angles = True
    line_of_sight = True
    scenario: ClassVar[ScenarioName]

    tr38901_version: Tr38901Version = tables()

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """As Sionna has it."""
        return respond_scenario(self.scenario, request, self.tr38901_version)


class Umi(Scenario):
    """Urban micro cell."""

    name, scenario = "umi", "UMi"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6, UMi"


class Uma(Scenario):
    """Urban macro cell."""

    name, scenario = "uma", "UMa"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6, UMa"


class Rma(Scenario):
    """Rural macro cell."""

    name, scenario = "rma", "RMa"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6, RMa"
