"""The sections of the settings that say what a radio is."""

from __future__ import annotations

from dataclasses import dataclass, field

from airfl.config.digital import DigitalSettings
from airfl.config.radio import (
    AntennaSettings,
    ChannelSettings,
    CsiSettings,
    GridSettings,
    PowerSettings,
    TopologySettings,
)


@dataclass(frozen=True)
class RadioSections:
    """All that a radio is made from, beside how many devices there are: nothing of what is learned, who is selected and
    what is claimed.

    Attributes:
        channel: Fading, noise, units.
        topology: Where devices are, and what is lost on the way.
        csi: What is known of the channel.
        antennas: Of the server.
        power: What devices may send.
        grid: Resource elements, and the downlink.
        digital: Links that carry bits.
    """

    channel: ChannelSettings = field(default_factory=ChannelSettings)
    topology: TopologySettings = field(default_factory=TopologySettings)
    csi: CsiSettings = field(default_factory=CsiSettings)
    antennas: AntennaSettings = field(default_factory=AntennaSettings)
    power: PowerSettings = field(default_factory=PowerSettings)
    grid: GridSettings = field(default_factory=GridSettings)
    digital: DigitalSettings = field(default_factory=DigitalSettings)
