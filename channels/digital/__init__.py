"""Digital links over orthogonal resource elements: OFDMA with rates, errors, retransmissions and costs.

    Nr(target_error=0.05, mcs_table=2)

All allocations and error models are available here by name. A new built-in one is one module in this package and one
line in registry.py. User-defined ones derive from `Allocation` or `ErrorModel`; `ALLOCATIONS.register` and
`ERROR_MODELS.register` let settings name them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.digital.kinds import Allocation, ErrorModel
from channels.digital.mcs import mcs_rate
from channels.digital.nr_tables import nr_block_error_rate
from channels.digital.registry import ALLOCATIONS, ERROR_MODELS
from channels.digital.send import send
from channels.digital.task import Demand, DigitalOutcome, DigitalTask
from channels.part import lazily

if TYPE_CHECKING:  # for editors and type checkers, which cannot resolve `__getattr__`
    from channels.digital.allocation import Equal as Equal
    from channels.digital.allocation import Gain as Gain
    from channels.digital.allocation import RateFair as RateFair
    from channels.digital.capacity import Capacity as Capacity
    from channels.digital.finite_blocklength import FiniteBlocklength as FiniteBlocklength
    from channels.digital.nr import Nr as Nr

__all__ = [
    "ALLOCATIONS",
    "ERROR_MODELS",
    "Allocation",
    "Demand",
    "DigitalOutcome",
    "DigitalTask",
    "ErrorModel",
    "mcs_rate",
    "nr_block_error_rate",
    "send",
]

__getattr__, __dir__ = lazily(__name__, __all__, ALLOCATIONS, ERROR_MODELS)
