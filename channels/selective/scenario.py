"""Cell scenarios of TR 38.901, clause 7.5, through Sionna: line of sight and spreads depend on a device's position."""

from __future__ import annotations

from typing import ClassVar, Literal

from channels.fading.kinds import SelectiveFading
from channels.part import parameter
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
    large_scale: Literal["redrawn", "drop"] = parameter(
        default="redrawn",
        key="large_scale",
        description="K factors, delay and angle spreads of umi, uma, rma and inf-sl to inf-hh: drawn with each "
        "realisation, or once a run from the drop of the topology, with its K factors and correlated with its "
        "shadowing (table 7.5-6 of TR 38.901)",
    )

    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """Return Sionna's response of this scenario.

        Raises ValueError if the large-scale parameters are those of the drop, but the request has no scores.
        """
        return respond_scenario(self.scenario, request, self.tr38901_version, of_drop=self.large_scale == "drop")


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


class InfSl(Tr38901Scenario):
    """Indoor factory with sparse clutter and a low base station."""

    name, scenario = "inf-sl", "InF-SL"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6 part 3, InF-SL"


class InfDl(Tr38901Scenario):
    """Indoor factory with dense clutter and a low base station."""

    name, scenario = "inf-dl", "InF-DL"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6 part 3, InF-DL"


class InfSh(Tr38901Scenario):
    """Indoor factory with sparse clutter and a base station above it."""

    name, scenario = "inf-sh", "InF-SH"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6 part 3, InF-SH"


class InfDh(Tr38901Scenario):
    """Indoor factory with dense clutter and a base station above it."""

    name, scenario = "inf-dh", "InF-DH"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6 part 3, InF-DH"


class InfHh(Tr38901Scenario):
    """Indoor factory in which base station and devices are above the clutter."""

    name, scenario = "inf-hh", "InF-HH"
    source = "3GPP TR 38.901, clause 7.5, table 7.5-6 part 3, InF-HH"
