"""The sections of the settings that define the radio."""

from __future__ import annotations

from dataclasses import dataclass, field

from airfl.config.blockage import BlockageSettings
from airfl.config.digital import DigitalSettings
from airfl.config.hardware import HardwareSettings
from airfl.config.radio import (
    AntennaSettings,
    ChannelSettings,
    CsiSettings,
    GridSettings,
    PowerSettings,
    TopologySettings,
)
from airfl.config.surface import SurfaceSettings


@dataclass(frozen=True)
class RadioSections:
    """The settings of the radio, except the number of devices. Learning, selection and privacy are not part of it.

    Attributes:
        channel: Fading, receiver noise and units.
        topology: Positions of the devices, and path loss.
        blockage: Blockage of paths by people, vehicles and machines.
        csi: Channel state information (CSI).
        antennas: The antennas of the receiver.
        surface: A reconfigurable intelligent surface.
        power: Power limits of the devices, and power control.
        grid: The OFDM resource grid, and the downlink.
        digital: Transmission of bits, for schemes whose link is digital.
        hardware: Hardware of the radios.
    """

    channel: ChannelSettings = field(default_factory=ChannelSettings)
    topology: TopologySettings = field(default_factory=TopologySettings)
    blockage: BlockageSettings = field(default_factory=BlockageSettings)
    csi: CsiSettings = field(default_factory=CsiSettings)
    antennas: AntennaSettings = field(default_factory=AntennaSettings)
    surface: SurfaceSettings = field(default_factory=SurfaceSettings)
    power: PowerSettings = field(default_factory=PowerSettings)
    grid: GridSettings = field(default_factory=GridSettings)
    digital: DigitalSettings = field(default_factory=DigitalSettings)
    hardware: HardwareSettings = field(default_factory=HardwareSettings)
