"""The cost of local computation by a CPU model; zero unless the cycles per sample are set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.config.run import ComputeSettings


@dataclass(frozen=True)
class Computation:
    """The computation of the devices in a round.

    A cycle takes kappa f^2 joules and 1/f seconds (Yang, Chen, Saad, Hong, Shikh-Bahaei 2021, eq. 4 and 5).

    Attributes:
        evaluations: Number of per-sample gradient evaluations, [r].
        energy_j: Energy in J, [r].
        time_s: Time in s, [r].
    """

    evaluations: NDArray[np.int64]
    energy_j: NDArray[np.float64]
    time_s: NDArray[np.float64]

    @classmethod
    def of(cls, settings: ComputeSettings, evaluations: NDArray[np.int64]) -> Computation:
        """Return the computation with this number of evaluations."""
        cycles = settings.cycles_per_sample * evaluations.astype(np.float64)
        return cls(
            evaluations=evaluations,
            energy_j=settings.capacitance * settings.frequency_hz**2 * cycles,
            time_s=cycles / settings.frequency_hz,
        )

    def record(self) -> dict[str, Any]:
        """Return the trace variables: the energy is summed over devices, and the time is that of the slowest device, as
        devices compute in parallel."""
        return {
            "gradient_evaluations": self.evaluations,
            "compute_energy_j": float(self.energy_j.sum()),
            "compute_time_s": float(self.time_s.max(initial=0.0)),
        }
