"""The summary of a run, computed from its trace."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from airfl.privacy.verdict import broken_claim, claim_holds, claim_refuted
from airfl.runtime.notebook.html import html_table, safe
from airfl.runtime.text import brief
from airfl.selection import SELECTIONS, ChannelRule
from airfl.storage.trace.reader import open_trace
from airfl.storage.trace.schema import NORMALISED

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Summary:
    """The summary of one run. Counts and energies are sums over all rounds and devices.

    Attributes:
        scheme: Name of the scheme.
        seed: run.seed.
        status: "complete", "running" (or interrupted) or "failed", as in the trace.
        rounds: T, number of rounds in the trace.
        test_accuracy: Test accuracy of the last evaluated round, from 0 to 1.
        test_loss: Test loss of the last evaluated round.
        energy: Energy of the uplink, in `energy_units`.
        resource_elements: Resource elements of the uplink, including pilots.
        air_time_s: Air time in s, including the downlink if it is charged.
        uplink_bits: Bits of all messages; 0 for analog links.
        delta: Delta of the privacy guarantee.
        epsilon_paper: Epsilon claimed by the paper, the largest of a round or that of the run; see `claim_scope`.
        epsilon_round: Proven upper bound on epsilon of the worst round.
        epsilon: Epsilon of the run by `accountant`, a proven upper bound.
        epsilon_as_poisson: Epsilon of the run by the literature's convention, Poisson sampling and add/remove.
        energy_units: "J", or "normalised" to a noise variance of 1 per entry.
        claim_scope: Scope of the paper's claim, "round" or "run".
        level: Unit of privacy, "client" or "record".
        paper_cost_mb: "Cost (MB)" as defined by the papers, nan for analog links.
        gradients: Number of per-sample gradient evaluations.
        epsilon_paper_tables: Epsilon in the paper's tables if they use another formula, else nan.
        epsilon_at_least: Proven lower bound on epsilon, attained by a pair of neighbours; nan if none is known.
        epsilon_round_at_least: The same of the worst round.
        adjacency: Neighbouring relation of `epsilon`, "replace_one" or "add_remove".
        sampling: Sampling of the devices, as accounted by the ledger.
        observer: The adversary, "third_party" or "server".
        accountant: The accountant of `epsilon`.
        csi_error: Accounting of contributions received above beta, as privacy.csi_error.
        beta_tells: What beta reveals about the selection.
        tuned: Whether the settings state that they were tuned for this scheme.
        silent_share: Share of the selected devices whose message was not received, from 0 to 1.
        waits_for_ever: Whether the link is the ideal one without a deadline. There, a device in a deep fade transmits
            for as long as its message takes, so that the costs are not those of a real system.
        stopped_early: Why the run is complete with fewer rounds than its settings say, "" if it has all rounds.
        best_accuracy: Largest test accuracy of an evaluated round, from 0 to 1. The test set has chosen the round, so
            that it is larger than the accuracy on new data.
        non_finite_share: Share of the updates of selected devices that were not finite, and were dropped or clipped as
            run.non_finite says, from 0 to 1.
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
    epsilon_round_at_least: float = math.nan
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
    best_accuracy: float = math.nan
    non_finite_share: float = 0.0

    def __repr__(self) -> str:
        keys = ("scheme", "seed", "rounds", "test_accuracy", "energy", "resource_elements", "epsilon_paper", "epsilon")
        return brief(self, **{key: getattr(self, key) for key in keys})

    def _repr_html_(self) -> str:
        """Return the figures as a table, for notebooks."""
        claim = self.broken_claim()
        return html_table(f"{self.scheme}, seed {self.seed}", self.rows()) + (f"<p>{safe(claim)}</p>" if claim else "")

    def rows(self) -> list[tuple[str, object]]:
        """Return the rows of a short table: names and figures."""
        return [
            ("status", self.status),
            ("rounds", self.rounds),
            ("test accuracy", self.test_accuracy),
            ("best test accuracy", self.best_accuracy),
            ("test loss", self.test_loss),
            (f"energy ({self.energy_units})", self.energy),
            ("resource elements", self.resource_elements),
            ("air time (s)", self.air_time_s),
            *([("uplink bits", self.uplink_bits)] if self.uplink_bits else []),
            *([] if self.claim_scope == "none" else [(f"ε claimed for the {self.claim_scope}", self.epsilon_paper)]),
            ("ε of the worst round", self.epsilon_round),
            (f"ε of the run (δ = {self.delta:g}, one {self.level})", self.epsilon),
        ]

    @property
    def claim_holds(self) -> bool:
        """Whether the accounted epsilon is at most the claimed one; true if nothing is claimed."""
        return claim_holds(self)

    @property
    def claim_refuted(self) -> bool:
        """Whether the lower bound that a pair of neighbours attains exceeds the claimed one."""
        return claim_refuted(self)

    def broken_claim(self) -> str | None:
        """Return one sentence with the accounted epsilon if the claim does not hold or is not proven, else None."""
        return broken_claim(self)


def summary_of(folder: Path) -> Summary:
    """Return the summary of the run in this folder. Raises UserError without a readable trace."""
    with open_trace(folder) as dataset:
        return summarise(dataset)


@np.errstate(all="ignore")  # values of a trace may overflow in sums, or be nan
def summarise(dataset: xarray.Dataset) -> Summary:
    """Return the summary of a trace. Accuracy and composed epsilons are those of the last evaluated round.

    Variables that traces of older versions lack become nan.
    """
    attributes = dataset["epsilon"].attrs
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
        delta=float(attributes["delta"]),
        epsilon_paper=_largest(dataset["epsilon_paper"].values),
        epsilon_round=_largest(dataset["epsilon_round"].values),
        epsilon=_last(dataset["epsilon"].values),
        epsilon_as_poisson=_last(dataset["epsilon_as_poisson"].values),
        energy_units=str(dataset["energy_j"].attrs["units"]),
        claim_scope=str(dataset["epsilon_paper"].attrs["scope"]),
        level=str(attributes["level"]),
        paper_cost_mb=float(dataset.attrs["paper_cost_mb"]),
        gradients=_exact_sum(np.maximum(dataset["gradient_evaluations"].values, 0).sum(axis=1)),
        epsilon_paper_tables=_last(values_of(dataset, "epsilon_paper_tables")),
        epsilon_at_least=_last(values_of(dataset, "epsilon_at_least")),
        epsilon_round_at_least=_last(values_of(dataset, "epsilon_round_at_least")),
        adjacency=str(attributes["adjacency"]),
        sampling=str(attributes["sampling"]),
        observer=str(attributes["observer"]),
        accountant=str(attributes["accountant"]),
        csi_error=str(attributes.get("csi_error", "realised")),
        beta_tells=str(attributes.get("beta_tells", "unknown" if dataset.attrs.get("link") == "analog" else "nothing")),
        tuned=bool(settings_of(dataset).get("run", {}).get("tuned", False)),
        silent_share=_silent_share(dataset),
        waits_for_ever=dataset.attrs.get("link") == "ideal" and not _has_deadline(dataset),
        stopped_early=str(dataset.attrs.get("stopped_early", "")),
        best_accuracy=_largest(dataset["test_accuracy"].values),
        non_finite_share=_non_finite_share(dataset),
    )


def _silent_share(dataset: xarray.Dataset) -> float:
    """Return the share of selected devices that were not received; 0 without selected devices or in older traces."""
    if "heard" not in dataset:
        return 0.0
    selected = int((dataset["device_id"].values >= 0).sum())
    if "unreachable" in dataset and _selects_blindly(dataset):
        selected += int(dataset["unreachable"].values.sum())
    return 1 - _exact_sum(dataset["heard"].values) / selected if selected else 0.0


def _non_finite_share(dataset: xarray.Dataset) -> float:
    """Return the share of the updates of devices that were not finite; 0 without devices or in older traces."""
    if "non_finite" not in dataset:
        return 0.0
    took_part = dataset["device_id"].values >= 0
    replaced = (dataset["non_finite"].values == 1) & took_part
    return float(replaced.sum() / took_part.sum()) if took_part.any() else 0.0


def _selects_blindly(dataset: xarray.Dataset) -> bool:
    """Return whether devices without a path may have been selected, as they are by a rule that knows no channel."""
    kind = settings_of(dataset).get("selection", {}).get("kind")
    rule = SELECTIONS[kind] if isinstance(kind, str) and kind in SELECTIONS else None
    return rule is not None and not (issubclass(rule, ChannelRule) and rule.needs_csi)


def _has_deadline(dataset: xarray.Dataset) -> bool:
    """Return whether the uplink has a finite deadline."""
    deadline_s = settings_of(dataset).get("digital", {}).get("deadline_s", math.inf)
    return isinstance(deadline_s, int | float) and math.isfinite(deadline_s)


def values_of(dataset: xarray.Dataset, name: str) -> np.ndarray:
    """Return the per-round values of a variable; nan if the trace, written by an older version, lacks it."""
    if name not in dataset:
        return np.full(dataset.sizes["round"], np.nan)
    values: np.ndarray = dataset[name].values
    return values


def settings_of(dataset: xarray.Dataset) -> dict[str, dict[str, object]]:
    """Return the resolved settings of a trace as plain tables."""
    tables: dict[str, dict[str, object]] = json.loads(dataset.attrs["config"])
    return tables


def _exact_sum(counts: np.ndarray) -> int:
    """Return the sum as a Python integer, which cannot overflow."""
    return sum(int(count) for count in counts)


def _last(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known[-1]) if known.size else math.nan


def _largest(values: np.ndarray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if known.size else math.nan
