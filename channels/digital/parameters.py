"""Parameters shared by several allocations or error models."""

from __future__ import annotations

from typing import Any

from channels.part import parameter


def snr_gap() -> Any:
    """Declare the SNR gap in Shannon's formula."""
    return parameter(
        0.0,
        ge=0,
        le=200,
        unit="dB",
        key="gap_db",
        description="SNR gap to capacity, for error_model = capacity and the rates of allocation = rate-fair",
    )


def target_error() -> Any:
    """Declare the target error rate of link adaptation."""
    return parameter(
        0.1,
        gt=0,
        le=0.5,
        key="target_error",
        description="target block error rate of link adaptation, for the first transmission",
    )


def transmissions() -> Any:
    """Declare the largest number of transmissions of a block."""
    return parameter(
        4,
        ge=1,
        key="transmissions",
        description="largest number of transmissions of a block (HARQ); 1 = no retransmission",
    )
