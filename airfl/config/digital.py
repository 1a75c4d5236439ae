"""The settings of the digital uplink: orthogonal OFDMA, its error model, secure aggregation."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from airfl.config.json_numbers import MaybeInfinite
from airfl.config.names import AllocationName, ErrorModelName
from airfl.config.section import Count, Decibels, Section


class DigitalSettings(Section):
    """How bits go over the air where a scheme's link is digital."""

    allocation: AllocationName = Field("equal", description="how the devices share the subcarriers")
    error_model: ErrorModelName = Field("capacity", description="rate and errors of a link")
    gap_db: Decibels = Field(0.0, description="efficiency gap to capacity, for error_model = capacity")
    target_error: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.1, description="block error rate that link adaptation aims at, of a first transmission"
    )
    block_elements: Count = Field(
        1000, description="resource elements of a code block, for error_model = finite-blocklength"
    )
    transmissions: Count = Field(4, description="most transmissions of a block (HARQ); 1 = no retransmission")
    mcs_table: Literal[1, 2] = Field(1, description="MCS table of TS 38.214 for error_model = nr: 64-QAM or 256-QAM")
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
