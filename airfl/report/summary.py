"""The figures of a whole run, from its trace."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from airfl.trace.schema import NORMALISED

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Summary:
    """One run in numbers. Energies and counts are sums over all rounds and devices; epsilons as in the trace; air time
    includes the downlink where it is charged; claim_scope: what the paper's claim is for, a "round" or the "run";
    level: whose data is protected; paper_cost_mb: the papers' own "Cost (MB)", nan for analog links; gradients: of
    single samples, all devices."""

    scheme: str
    seed: int
    status: str
    rounds: int
    test_accuracy: float
    test_loss: float
    energy: float
    resource_elements: int
    air_time_s: float
    uplink_bits: int
    delta: float
    epsilon_paper: float
    epsilon_round: float
    epsilon: float
    epsilon_as_poisson: float
    energy_units: str = NORMALISED
    claim_scope: str = "round"
    level: str = "client"
    paper_cost_mb: float = math.nan
    gradients: int = 0

    @property
    def claim_holds(self) -> bool:
        """Whether no round costs more than is claimed of any, or the run no more than is claimed of it (true where
        nothing is claimed)."""
        true = self.epsilon_round if self.claim_scope == "round" else self.epsilon
        return math.isnan(self.epsilon_paper) or math.isnan(true) or true <= self.epsilon_paper * (1 + 1e-9)

    @property
    def _claimed_for(self) -> str:
        return "a round" if self.claim_scope == "round" else "the run"

    def broken_claim(self) -> str | None:
        """One sentence with the true figures, if the claim does not hold."""
        if self.claim_holds:
            return None
        return (
            f"{self.scheme}: epsilon {figure(self.epsilon_paper)} is claimed for {self._claimed_for}, one round really "
            f"costs {figure(self.epsilon_round)} and the run {figure(self.epsilon)} (delta {self.delta:g}, "
            f"{self.level} level; accounted as Poisson the run is {figure(self.epsilon_as_poisson)})"
        )


def summarise(dataset: xarray.Dataset) -> Summary:
    """The summary of a trace; accuracy and composed epsilons are those of the last evaluated round."""
    return Summary(
        scheme=str(dataset.attrs["scheme"]),
        seed=int(dataset.attrs["seed"]),
        status=str(dataset.attrs["status"]),
        rounds=int(dataset.sizes["round"]),
        test_accuracy=_last(dataset["test_accuracy"].values),
        test_loss=_last(dataset["test_loss"].values),
        energy=float(dataset["energy_j"].sum()),
        resource_elements=_exact_sum(dataset["resource_elements"].values),
        air_time_s=float(dataset["latency_s"].sum() + dataset["downlink_latency_s"].sum()),
        uplink_bits=_exact_sum(dataset["uplink_bits"].values),
        delta=float(dataset["epsilon"].attrs["delta"]),
        epsilon_paper=_largest(dataset["epsilon_paper"].values),
        epsilon_round=_largest(dataset["epsilon_round"].values),
        epsilon=_last(dataset["epsilon"].values),
        epsilon_as_poisson=_last(dataset["epsilon_as_poisson"].values),
        energy_units=str(dataset["energy_j"].attrs["units"]),
        claim_scope=str(dataset["epsilon_paper"].attrs["scope"]),
        level=str(dataset["epsilon"].attrs["level"]),
        paper_cost_mb=float(dataset.attrs["paper_cost_mb"]),
        gradients=_exact_sum(np.maximum(dataset["gradient_evaluations"].values, 0).sum(axis=1)),
    )


def settings_of(dataset: xarray.Dataset) -> dict[str, dict[str, object]]:
    """The resolved settings as plain tables."""
    tables: dict[str, dict[str, object]] = json.loads(dataset.attrs["config"])
    return tables


def figure(value: float) -> str:
    """A number for people: four digits, thousands separated, nan as a dash."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "inf"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def scientific(value: float) -> str:
    """A large or small number for people: 6.28e9."""
    if not math.isfinite(value):
        return figure(value)
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _exact_sum(counts: np.ndarray) -> int:
    """The sum as Python counts: rounds near the end of 64 bits must not wrap around."""
    return sum(int(count) for count in counts)


def _last(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if known.size else math.nan


def _largest(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else math.nan
