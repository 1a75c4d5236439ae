"""The registries of allocations and error models. A new one is one file and one line here; a user's own needs no line.

Where they are only, so that settings are read without importing what a model needs.
"""

from __future__ import annotations

from channels.digital.kinds import Allocation, ErrorModel
from channels.part import Registry

ALLOCATIONS: Registry[Allocation] = Registry(
    "allocation",
    Allocation,
    {
        "equal": "channels.digital.allocation:Equal",
        "rate-fair": "channels.digital.allocation:RateFair",
        "gain": "channels.digital.allocation:Gain",
    },
    group="airfl.allocations",
)
ERROR_MODELS: Registry[ErrorModel] = Registry(
    "error model",
    ErrorModel,
    {
        "capacity": "channels.digital.capacity:Capacity",
        "finite-blocklength": "channels.digital.finite_blocklength:FiniteBlocklength",
        "nr": "channels.digital.nr:Nr",
    },
    group="airfl.error_models",
)
