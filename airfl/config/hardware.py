"""The settings of the radios' hardware: the devices' power amplifiers, the receiver's converter and fronthaul."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import ConfigDict, Field

from airfl.config.part_keys import parts_of, with_keys
from airfl.config.section import Section
from channels.hardware.amplifier import AMPLIFIERS
from channels.hardware.amplifiers import Amplifiers
from channels.hardware.converter import MOST_BITS, Converter
from channels.hardware.efficiency import AmplifierClass


class _Hardware(Section):
    """Hardware of the radios. The defaults are ideal."""

    model_config = ConfigDict(defer_build=True)

    amplifier: Literal["none", "soft-limiter", "rapp", "saleh", "polynomial"] = Field(
        "none", description="power amplifier of the devices: none (linear, and its supply is not charged) or a model"
    )
    back_off_db: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = Field(
        8.0,
        description="input power at which the amplifier saturates over the limit on a device's power, in dB; a device "
        "that sends with less than its limit has more",
    )
    amplifier_class: AmplifierClass = Field(
        "b", description="class of the amplifier, which gives its supply power: a (1/2 at saturation) or b (pi/4)"
    )
    calibrated: bool = Field(
        True,
        description="whether a device divides by the amplifier's gain at the power that it plans with; false: its "
        "message arrives weaker, and turned by saleh",
    )
    adc_bits: Annotated[int, Field(ge=1, le=MOST_BITS)] | None = Field(
        None,
        description="resolution of the receiver's analog-to-digital converter, with ideal gain control; default exact",
    )
    fronthaul_bits: Annotated[int, Field(ge=1, le=MOST_BITS)] | None = Field(
        None,
        description="resolution of both parts of every sample that a fronthaul carries from each antenna to where all "
        "are combined, with ideal gain control; default exact",
    )

    @property
    def fronthaul(self) -> Converter | None:
        """The converter of every antenna, None if their samples are carried exactly."""
        return None if self.fronthaul_bits is None else Converter(self.fronthaul_bits)

    @property
    def converter(self) -> Converter | None:
        """The receiver's converter, None for an exact one."""
        return None if self.adc_bits is None else Converter(self.adc_bits)

    @property
    def amplifiers(self) -> Amplifiers | None:
        """The power amplifiers of the devices, None if none are modelled. Raises PartError for parameters that do not
        fit each other."""
        if self.amplifier == "none":
            return None
        model = parts_of(self, {self.amplifier: AMPLIFIERS[self.amplifier]})[self.amplifier]
        return Amplifiers(model, self.back_off_db, self.amplifier_class, self.calibrated)


if TYPE_CHECKING:

    class HardwareSettings(_Hardware):
        """The section, with the keys of all amplifiers; `amplifiers` has the chosen one with its parameters."""

else:
    HardwareSettings = with_keys(_Hardware, "HardwareSettings", AMPLIFIERS, after="back_off_db", places={})
