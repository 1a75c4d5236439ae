"""What local computation costs, by a stated model; nothing unless cycles are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.config.settings import ComputeSettings


@dataclass(frozen=True)
class Computation:
    """What the devices compute in a round.

    A cycle takes kappa f^2 joules and 1/f seconds (Yang, Chen, Saad, Hong, Shikh-Bahaei 2021, eq. 4 and 5).

    Attributes:
        evaluations: Gradients of single samples, [r].
        energy_j: Energy in J, [r].
        time_s: Time in s, [r].
    """

    evaluations: NDArray[np.int64]
    energy_j: NDArray[np.float64]
    time_s: NDArray[np.float64]

    @classmethod
    def of(cls, settings: ComputeSettings, evaluations: NDArray[np.int64]) -> Computation:
        """The cost of that many evaluations."""
        cycles = settings.cycles_per_sample * evaluations.astype(np.float64)
        return cls(
            evaluations=evaluations,
            energy_j=settings.capacitance * settings.frequency_hz**2 * cycles,
            time_s=cycles / settings.frequency_hz,
        )

    def record(self) -> dict[str, Any]:
        """For the trace: sums over devices, and the slowest device's time, who work at the same time."""
        return {
            "gradient_evaluations": self.evaluations,
            "compute_energy_j": float(self.energy_j.sum()),
            "compute_time_s": float(self.time_s.max(initial=0.0)),
        }
