"""A reconfigurable intelligent surface between the devices and the base station."""

from channels.surface.configuration import Alignment, Objective, WeakestGain, configured, starts_of
from channels.surface.reflection import cascaded, towards_base, towards_devices
from channels.surface.surface import Surface

__all__ = [
    "Alignment",
    "Objective",
    "Surface",
    "WeakestGain",
    "cascaded",
    "configured",
    "starts_of",
    "towards_base",
    "towards_devices",
]
