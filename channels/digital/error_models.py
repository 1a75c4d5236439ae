"""Rates and errors. A new model is one file beside this one and one line in the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from channels.digital.capacity import capacity
from channels.digital.elements import OwnElements
from channels.digital.finite_blocklength import finite_blocklength
from channels.digital.nr import nr
from channels.digital.task import Demand, DigitalTask


@dataclass(frozen=True)
class ErrorModel:
    """send: what the messages take and whether they arrive; source: where it is from."""

    send: Callable[[DigitalTask, OwnElements], Demand]
    source: str


ERROR_MODELS: dict[str, ErrorModel] = {
    "capacity": ErrorModel(capacity, "Shannon 1948, with an SNR gap; outage where the channel is not as believed"),
    "finite-blocklength": ErrorModel(
        finite_blocklength, "Polyanskiy, Poor, Verdu 2010, normal approximation, eq. 296; ARQ"
    ),
    "nr": ErrorModel(nr, "3GPP TS 38.214, clauses 5.1.3 and 6.1.4; error tables of Sionna's PHYAbstraction; HARQ"),
}
