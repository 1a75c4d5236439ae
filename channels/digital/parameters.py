"""Parameters that several allocations or error models share."""

from __future__ import annotations

from typing import Any

from channels.part import parameter


def snr_gap() -> Any:
    """Of Shannon's formula."""
    return parameter(
        0.0,
        ge=0,
        le=200,
        unit="dB",
        key="gap_db",
        description="efficiency gap to capacity, for error_model = capacity and the rates of allocation = rate-fair",
    )


def target_error() -> Any:
    """Of link adaptation."""
    return parameter(
        0.1,
        gt=0,
        le=0.5,
        key="target_error",
        description="block error rate that link adaptation aims at, of a first transmission",
    )


def transmissions() -> Any:
    """Of a block."""
    return parameter(
        4, ge=1, key="transmissions", description="most transmissions of a block (HARQ); 1 = no retransmission"
    )
