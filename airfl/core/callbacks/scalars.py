"""The scalars of a round that trackers log: variables of the trace by section."""

from __future__ import annotations

import math

from airfl.core.callbacks.callback import Told
from airfl.storage.trace.schema import is_metric

SCALARS = {
    "learning": (
        "test_accuracy",
        "test_loss",
        "train_loss",
        "validation_accuracy",
        "validation_loss",
        "aggregation_error",
    ),
    "radio": (
        "alignment_coefficient",
        "noise_std",
        "receive_snr_db",
        "heard",
        "power_bound_binding",
        "privacy_bound_binding",
    ),
    "cost": ("energy_j", "resource_elements", "uplink_bits", "latency_s"),
    "privacy": (
        "noise_multiplier",
        "epsilon_paper",
        "epsilon_round",
        "epsilon",
        "epsilon_as_poisson",
        "epsilon_at_least",
        "epsilon_round_at_least",
    ),
}
"""Variables of the trace by the section in which they are logged."""
SUMMED = "cost"
"""The section whose scalars are cumulative sums over rounds."""


class Scalars:
    """Computes the finite scalars of a run, round by round, by "section/name"."""

    def __init__(self) -> None:
        self._sums = dict.fromkeys(SCALARS[SUMMED], 0.0)
        self._logged: set[str] = set()

    def of(self, record: Told) -> dict[str, float]:
        """Return the scalars of the next round."""
        for name in self._sums:
            self._sums[name] += float(record.get(name, math.nan))
        scalars = self._finite(record)
        self._logged = set(scalars)
        return scalars

    def more(self, record: Told) -> dict[str, float]:
        """Return the further scalars that the same round has as the last one of the run."""
        return {tag: value for tag, value in self._finite(record).items() if tag not in self._logged}

    def _finite(self, record: Told) -> dict[str, float]:
        values = {
            f"{section}/{name}": float(self._sums[name] if section == SUMMED else record.get(name, math.nan))
            for section, names in SCALARS.items()
            for name in names
        }
        values |= {f"learning/{name}": float(record[name]) for name in filter(is_metric, record)}
        return {tag: value for tag, value in values.items() if math.isfinite(value)}


def rounds_of(record: Told) -> int:
    """Return the number of rounds finished with this one, the step at which trackers log its scalars."""
    return int(record["round"]) + 1
