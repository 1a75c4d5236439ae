"""The registries of allocations and error models. A new built-in part needs one module and one line here.

Only import locations are stored, so that settings can be read without importing the dependencies of a model.
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
