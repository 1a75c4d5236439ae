"""The figures of a whole run, from its trace."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airfl.report.verdict import broken_claim, claim_holds, claim_refuted
from airfl.shown import brief
from airfl.trace.reader import open_trace
from airfl.trace.schema import NORMALISED

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Summary:
    """One run in numbers. Counts and energies are sums over all rounds and devices; epsilons are those of the trace.

    Attributes:
        scheme: Its name.
        seed: run.seed.
        status: "complete", "running" (or cut off) or "failed", as in the trace.
        rounds: T, those in the trace.
        test_accuracy: Of the last evaluated round, a share of 1.
        test_loss: Of the last evaluated round.
        energy: Of the uplink, in `energy_units`.
        resource_elements: Of the uplink, pilots included.
        air_time_s: In s, with the downlink where it is charged.
        uplink_bits: Of all messages; 0 for analog links.
        delta: Of the privacy statement.
        epsilon_paper: Claimed by the paper, the largest of a round or of the run; see `claim_scope`.
        epsilon_round: Exact, of the worst round.
        epsilon: Of the run by `accountant`, a proven upper bound.
        epsilon_as_poisson: Of the run by the literature's convention, Poisson sampling and add/remove.
        energy_units: "J", or "normalised" to a noise variance of 1 an entry.
        claim_scope: What the paper's claim is for, a "round" or the "run".
        level: Whose data is protected, a "client"'s or a "record"'s.
        paper_cost_mb: The papers' own "Cost (MB)", nan for analog links.
        gradients: Of single samples.
        epsilon_paper_tables: What the paper's tables print, where that is by another formula, else nan.
        epsilon_at_least: A proven lower bound that a pair of neighbours really pays, nan where none is known.
        adjacency: The relation that `epsilon` is for, "replace_one" or "add_remove".
        sampling: How devices are selected, as the ledger counts it.
        observer: From whom a client is protected, a "third_party" or the "server".
        accountant: By which `epsilon` was computed.
        csi_error: How contributions that arrive stronger than beta count, as privacy.csi_error.
        beta_tells: What beta tells of who was selected.
        tuned: Whether the settings say that they were tuned for this scheme.
        silent_share: Of the selected devices, those not heard; a share of 1.
        waits_for_ever: Whether the link is the ideal one without a deadline, on which a device in a deep fade sends for
            as long as its message takes, so that the costs are no system's.
        stopped_early: Why the run is complete with fewer rounds than its settings say, "" where it has them all.
    """

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
    beta_tells: str = "nothing"
    tuned: bool = False
    silent_share: float = 0.0
    waits_for_ever: bool = False
    stopped_early: str = ""

    def __repr__(self) -> str:
        keys = ("scheme", "seed", "rounds", "test_accuracy", "energy", "resource_elements", "epsilon_paper", "epsilon")
        return brief(self, **{key: getattr(self, key) for key in keys})

    @property
    def claim_holds(self) -> bool:
        """See `verdict.claim_holds`."""
        return claim_holds(self)

    @property
    def claim_refuted(self) -> bool:
        """See `verdict.claim_refuted`."""
        return claim_refuted(self)

    def broken_claim(self) -> str | None:
        """See `verdict.broken_claim`."""
        return broken_claim(self)


def summary_of(folder: Path) -> Summary:
    """Of the run in this folder; UserError without a readable trace."""
    with open_trace(folder) as dataset:
        return summarise(dataset)


@np.errstate(all="ignore")  # sums of what a trace may hold may be too large, or none
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
        beta_tells=str(about.get("beta_tells", "unknown" if dataset.attrs.get("link") == "analog" else "nothing")),
        tuned=bool(settings_of(dataset).get("run", {}).get("tuned", False)),
        silent_share=_silent_share(dataset),
        waits_for_ever=dataset.attrs.get("link") == "ideal" and not _has_deadline(dataset),
        stopped_early=str(dataset.attrs.get("stopped_early", "")),
    )


def _silent_share(dataset: xarray.Dataset) -> float:
    """0 where nobody was selected, or an older trace does not say who was heard."""
    if "heard" not in dataset:
        return 0.0
    selected = int((dataset["device_id"].values >= 0).sum())
    return 1 - _exact_sum(dataset["heard"].values) / selected if selected else 0.0


def _has_deadline(dataset: xarray.Dataset) -> bool:
    """Whether whoever is not through by some time is not heard."""
    deadline_s = settings_of(dataset).get("digital", {}).get("deadline_s", math.inf)
    return isinstance(deadline_s, int | float) and math.isfinite(deadline_s)


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


def _exact_sum(counts: np.ndarray) -> int:
    """The sum as Python counts: rounds near the end of 64 bits must not wrap around."""
    return sum(int(count) for count in counts)


def _last(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if known.size else math.nan


def _largest(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else math.nan
