"""The settings of the digital uplink: subcarrier allocation (OFDMA), error model and secure aggregation."""

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
    """Transmission of bits, for schemes whose link is digital."""

    model_config = ConfigDict(defer_build=True)

    allocation: Annotated[str | Allocation, ALLOCATION] = Field(
        "equal", description="how the subcarriers are allocated to the devices"
    )
    error_model: Annotated[str | ErrorModel, ERROR_MODEL] = Field(
        "capacity", description="model of a link's rate and block errors"
    )
    power: Literal["total", "per-element"] = Field(
        "total",
        description="total = a device spreads its power over its own subcarriers (energy = power x air time); "
        "per-element = its power per resource element is the same as over the whole band",
    )
    deadline_s: MaybeInfinite = Field(
        float("inf"),
        gt=0,
        description="deadline of the uplink, also of an ideal one; messages that are not complete by then are lost",
    )
    secure_aggregation: Literal["assumed", "counted", "off"] = Field(
        "assumed",
        description="assumed = the server sees the sum only, at no cost, as in the papers; counted = the bits of "
        "modular arithmetic and of the key exchange are charged; off = the server sees every message",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, data: Any) -> Any:
        # Both parts may read gap_db. The value in a part given as an object must not become that of the other part.
        for slot, other in ((ERROR_MODEL, ALLOCATION), (ALLOCATION, ERROR_MODEL)):
            data = slot.flattened(data, cls.model_fields, shared=other.keys_read(data))
        return data

    @property
    def allocation_rule(self) -> Allocation:
        """The allocation rule, with its parameters."""
        return ALLOCATION.of(self)

    @property
    def link_errors(self) -> ErrorModel:
        """The error model, with its parameters."""
        return ERROR_MODEL.of(self)


if TYPE_CHECKING:

    class DigitalSettings(_Digital):
        """The section, with the keys of all error models and allocation rules; `link_errors` and `allocation_rule` are
        the chosen ones with their parameters."""

        gap_db: float = 0.0
        target_error: float = 0.1
        block_elements: int = 1000
        transmissions: int = 4
        mcs_table: Literal[1, 2] = 1

else:
    DigitalSettings = with_keys(
        _Digital, "DigitalSettings", (ERROR_MODELS, ALLOCATIONS), after="error_model", places={}
    )
