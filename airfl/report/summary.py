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

ADJACENCIES = {"replace_one": "replace-one", "add_remove": "add/remove"}


@dataclass(frozen=True)
class Summary:
    """One run in numbers. Energies and counts are sums over all rounds and devices; epsilons as in the trace; air time
    includes the downlink where it is charged; claim_scope: what the paper's claim is for, a "round" or the "run";
    level: whose data is protected; paper_cost_mb: the papers' own "Cost (MB)", nan for analog links; gradients: of
    single samples, all devices; adjacency, sampling, observer, accountant, csi_error: as at the trace's `epsilon`."""

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
    epsilon_paper_tables: float = math.nan
    epsilon_at_least: float = math.nan
    adjacency: str = "replace_one"
    sampling: str = "without_replacement"
    observer: str = "third_party"
    accountant: str = ""
    csi_error: str = "realised"

    @property
    def claim_holds(self) -> bool:
        """Whether no round costs more than is claimed of any, or the run no more than is claimed of it (true where
        nothing is claimed)."""
        true = self.epsilon_round if self.claim_scope == "round" else self.epsilon
        return math.isnan(self.epsilon_paper) or math.isnan(true) or true <= self.epsilon_paper * (1 + 1e-9)

    @property
    def claim_refuted(self) -> bool:
        """Whether what is claimed of a round, or of the run, is less than what it costs for certain."""
        least = self.epsilon_round if self.claim_scope == "round" else self.epsilon_at_least
        # Figures for a bound on the channel error are bounds from above, all of them.
        return self.csi_error == "realised" and least > self.epsilon_paper * (1 + 1e-9)

    def broken_claim(self) -> str | None:
        """One sentence with the true figures, if the claim does not hold or is not proven."""
        if self.claim_holds:
            return None
        refuted, of_a_round = self.claim_refuted, self.claim_scope == "round"
        costs = "really costs" if refuted else "costs"
        one_round = figure(self.epsilon_round) if refuted else f"at most {figure(self.epsilon_round)}"
        true = f"one round {costs} {one_round} and the run {self._cost}" if of_a_round else f"it {costs} {self._cost}"
        whose, verdict = "a round" if of_a_round else "the run", "does not hold" if refuted else "is not proven"
        poisson = f"; accounted as Poisson the run is {figure(self.epsilon_as_poisson)}"
        return (
            f"{self.scheme}: epsilon {figure(self.epsilon_paper)} is claimed for {whose}, which {verdict}: {true} "
            f"(delta {self.delta:g}, {self.level} level, {ADJACENCIES[self.adjacency]}"
            f"{'' if math.isnan(self.epsilon_as_poisson) else poisson})"
        )

    @property
    def _cost(self) -> str:
        """What the run costs, as far as is known."""
        least, most = figure(self.epsilon_at_least), figure(self.epsilon)
        if math.isnan(self.epsilon_at_least) or self.csi_error != "realised":
            return f"at most {most}"
        return most if least == most else f"between {least} and {most}"


def summarise(dataset: xarray.Dataset) -> Summary:
    """The summary of a trace; accuracy and composed epsilons are those of the last evaluated round.

    Figures that the trace of an older version lacks are nan.
    """
    about = dataset["epsilon"].attrs
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
        delta=float(about["delta"]),
        epsilon_paper=_largest(dataset["epsilon_paper"].values),
        epsilon_round=_largest(dataset["epsilon_round"].values),
        epsilon=_last(dataset["epsilon"].values),
        epsilon_as_poisson=_last(dataset["epsilon_as_poisson"].values),
        energy_units=str(dataset["energy_j"].attrs["units"]),
        claim_scope=str(dataset["epsilon_paper"].attrs["scope"]),
        level=str(about["level"]),
        paper_cost_mb=float(dataset.attrs["paper_cost_mb"]),
        gradients=_exact_sum(np.maximum(dataset["gradient_evaluations"].values, 0).sum(axis=1)),
        epsilon_paper_tables=_last(values_of(dataset, "epsilon_paper_tables")),
        epsilon_at_least=_last(values_of(dataset, "epsilon_at_least")),
        adjacency=str(about["adjacency"]),
        sampling=str(about["sampling"]),
        observer=str(about["observer"]),
        accountant=str(about["accountant"]),
        csi_error=str(about.get("csi_error", "realised")),
    )


def values_of(dataset: xarray.Dataset, name: str) -> np.ndarray:
    """A variable's values, one a round; nan where the trace is of a version that did not write it."""
    if name not in dataset:
        return np.full(dataset.sizes["round"], np.nan)
    values: np.ndarray = dataset[name].values
    return values


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
