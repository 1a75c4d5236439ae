"""The parameters of a reconfigurable intelligent surface."""

from __future__ import annotations

from typing import Literal

import numpy as np

from channels.draws import Complex
from channels.part import Part, parameter
from channels.units import db_to_linear

MOST_ELEMENTS = 1024
MOST_BITS = 8

Configuration = Literal["max-min", "alignment", "random"]


class Surface(Part):
    """A surface of M elements, each of which reflects what it receives with a phase that can be set.

    A device's channel at antenna k is

        h_ik = sqrt(lambda) h_ik,direct + sum_n theta_n f_kn g_in sqrt(rho P_i),   |theta_n| = 1,

    with the gain g_in from the device to element n and f_kn from there to the antenna, of unit mean power, the mean
    power P_i of the direct path before its loss lambda, and the gain rho of an element.
    """

    elements: int = parameter(
        default=0,
        ge=0,
        le=MOST_ELEMENTS,
        key="elements",
        description="M, number of elements of the surface; 0 for no surface",
    )
    configuration: Configuration = parameter(
        default="max-min",
        key="configuration",
        description="how the phases are set in each round: max-min (the largest gain of the weakest selected device), "
        "alignment (equal gains and phases of all selected devices, which then need no channel knowledge) or random",
    )
    phase_bits: int = parameter(
        default=4, ge=1, le=MOST_BITS, key="phase_bits", description="resolution of an element's phase in bits"
    )
    element_gain_db: float = parameter(
        default=-20.0,
        ge=-200,
        le=200,
        key="element_gain_db",
        unit="dB",
        description="mean power of the path over one element, relative to that of the device's direct path",
    )
    direct_loss_db: float = parameter(
        default=0.0,
        ge=0,
        le=200,
        key="direct_loss_db",
        unit="dB",
        description="additional loss of the direct paths, as by an obstacle; 200 blocks them",
    )
    device_k: float = parameter(
        default=0.0,
        ge=0,
        le=1e6,
        key="device_k",
        description="Rician K factor of the paths between the devices and the surface, linear",
    )
    base_k: float = parameter(
        default=10.0,
        ge=0,
        le=1e6,
        key="base_k",
        description="Rician K factor of the paths between the surface and the base station, linear; they are constant "
        "during a run",
    )

    @property
    def follows_channels(self) -> bool:
        """Whether the phases are chosen by the channels of the selected devices."""
        return self.elements > 0 and self.configuration != "random"

    @property
    def element_gain(self) -> float:
        """rho, linear."""
        return float(db_to_linear(self.element_gain_db))

    @property
    def direct_gain(self) -> float:
        """lambda, what is left of the power of a direct path, linear."""
        return float(db_to_linear(-self.direct_loss_db))

    @property
    def mean_power_factor(self) -> float:
        """Mean power of a device's channel with random phases, relative to that of the direct path before its loss."""
        return self.direct_gain + self.elements * self.element_gain

    @property
    def levels(self) -> Complex:
        """The values that theta_n can have, [2^phase_bits]."""
        count = 1 << self.phase_bits
        return np.asarray(np.exp(2j * np.pi * np.arange(count) / count))
