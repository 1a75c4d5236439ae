"""Uplinks carry the messages of a round. Each is opened with the channel, receives messages in chunks of devices, and
is closed."""

from airfl.uplinks.analog import AnalogUplink
from airfl.uplinks.digital import DigitalUplink
from airfl.uplinks.ideal import IdealUplink
from airfl.uplinks.noncoherent import NoncoherentUplink
from airfl.uplinks.uplink import DeviceUse, Link, LinkReport, Reception, Uplink, UplinkContext

__all__ = [
    "AnalogUplink",
    "DeviceUse",
    "DigitalUplink",
    "IdealUplink",
    "Link",
    "LinkReport",
    "NoncoherentUplink",
    "Reception",
    "Uplink",
    "UplinkContext",
]
