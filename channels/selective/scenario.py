"""Cell scenarios of TR 38.901, clause 7.5, through Sionna: line of sight and spreads depend on a device's position."""

from __future__ import annotations

from typing import ClassVar

from channels.fading.kinds import SelectiveFading
from channels.selective.parameters import Tr38901Version, tables
from channels.selective.request import SelectiveRequest, SelectiveResponse
from channels.selective.sionna_bridge import ScenarioName, respond_scenario


class Tr38901Scenario(SelectiveFading):
    """Base class of the cell scenarios. They need a topology with the path loss model of the same name.

    Attributes:
        scenario: Sionna's name of the scenario.
    """

    needs_positions = True
    own_angles = True
    line_of_sight = True
    own_path_loss = True
    scenario: ClassVar[ScenarioName]

    tr38901_version: Tr38901Version = tables()

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """Return Sionna's response of this scenario."""
        return respond_scenario(self.scenario, request, self.tr38901_version)


class Umi(Tr38901Scenario):
    """Urban micro cell."""

    name, scenario = "umi", "UMi"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6, UMi"


class Uma(Tr38901Scenario):
    """Urban macro cell."""

    name, scenario = "uma", "UMa"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6, UMa"


class Rma(Tr38901Scenario):
    """Rural macro cell."""

    name, scenario = "rma", "RMa"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6, RMa"
