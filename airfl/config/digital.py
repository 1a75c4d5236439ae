"""The settings of the digital uplink: orthogonal OFDMA, its error model, secure aggregation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from airfl.config.json_numbers import MaybeInfinite
from airfl.config.part_keys import NamedPart, with_keys
from airfl.config.section import Section
from channels.digital.kinds import Allocation, ErrorModel
from channels.digital.registry import ALLOCATIONS, ERROR_MODELS

ALLOCATION = NamedPart(ALLOCATIONS, "digital.allocation", "equal")
ERROR_MODEL = NamedPart(ERROR_MODELS, "digital.error_model", "capacity")


class _Digital(Section):
    """How bits go over the air where a scheme's link is digital."""

    model_config = ConfigDict(defer_build=True)

    allocation: Annotated[str | Allocation, ALLOCATION] = Field(
        "equal", description="how the devices share the subcarriers"
    )
    error_model: Annotated[str | ErrorModel, ERROR_MODEL] = Field("capacity", description="rate and errors of a link")
    power: Literal["total", "per-element"] = Field(
        "total",
        description="a device's power is spread over its own subcarriers (energy = power x air time), or it has the "
        "same power on an element as over the whole band",
    )
    deadline_s: MaybeInfinite = Field(
        float("inf"), gt=0, description="of the uplink, the ideal one too: who is not through by then is not heard"
    )
    secure_aggregation: Literal["assumed", "counted", "off"] = Field(
        "assumed",
        description="the server sees the sum only, as the papers have it; counted: modular bits and key exchange are "
        "charged; off: it sees every message",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        # Both may read gap_db: that of an object is not made the other part's.
        for slot, other in ((ERROR_MODEL, ALLOCATION), (ALLOCATION, ERROR_MODEL)):
            data = slot.flattened(data, cls.model_fields, shared=other.keys_read(data))
        return data

    @property
    def allocation_rule(self) -> Allocation:
        """The allocation itself, with its parameters."""
        return ALLOCATION.of(self)

    @property
    def link_errors(self) -> ErrorModel:
        """The error model itself, with its parameters."""
        return ERROR_MODEL.of(self)


if TYPE_CHECKING:

    class DigitalSettings(_Digital):
        """With the keys of all error models and allocations, which the part of the one that is chosen has:
        `link_errors`, `allocation_rule`."""

        gap_db: float = 0.0
        target_error: float = 0.1
        block_elements: int = 1000
        transmissions: int = 4
        mcs_table: Literal[1, 2] = 1

else:
    DigitalSettings = with_keys(
        _Digital, "DigitalSettings", (ERROR_MODELS, ALLOCATIONS), after="error_model", places={}
    )
