"""The link budget: channel, power control and noise of all rounds, with updates at their bound and no learning.

It is the radio side of a run with the same seed, round by round: the same devices, fading, limits and beta. It creates
no arrays of length d, so that d = 10^7 and T = 2,000 take seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.config.task import OWN
from airfl.core.accounting import (
    build_ledger,
    noise_multiplier,
    noise_std,
    paper_cost_mb,
    release_event,
    worst_round_epsilon,
)
from airfl.core.building import build_scenario
from airfl.core.preflight import equal_weights
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.core.state_size import store_bytes
from airfl.learning.chosen_task import dimension_of, equal_share, load_data, training_samples, with_task
from airfl.learning.server import mean_weights
from airfl.learning.tasks.datasets import data_folders
from airfl.privacy.disclosure import Disclosure
from airfl.runtime.notebook.html import html_table
from airfl.runtime.streams import Streams
from airfl.runtime.text import brief
from airfl.schemes.release import RecordRelease
from airfl.storage.trace.schema import NORMALISED
from channels.broadcast import Broadcast
from channels.grid import GridUse

if TYPE_CHECKING:
    from airfl.learning.own_task import Task


@dataclass(frozen=True)
class Budget:
    """The costs and privacy figures of a whole run with every update at its bound, ||A Delta_i||^2 = p C^2.

    Energies are in `units`.

    Attributes:
        scheme: Name of the scheme.
        rounds: T, rounds of the run.
        dimension: d, number of model parameters.
        entries_per_round: k, entries that a device sends in a round.
        entries_per_device: k T, entries of a device that takes part in every round.
        energy_j: Energy of all devices in all rounds, pilots included.
        resource_elements: Resource elements of the uplink in all rounds, pilots included.
        air_time_s: Air time of all rounds in s, including the downlink if it is charged.
        alignment_coefficient_median: Median of beta over rounds.
        privacy_bound_binding_share: Share of the rounds in which the privacy bound sets beta, from 0 to 1.
        noise_multiplier_min: Noise over sensitivity, smallest of all rounds.
        epsilon_paper: Epsilon claimed by the paper, largest of all rounds; see `claim_scope`.
        epsilon_round_max: Exact epsilon for the sampling of the run, largest of all rounds.
        epsilon_round_max_as_poisson: The same by the literature's convention of Poisson sampling and add/remove.
        pilot_elements: The part of `resource_elements` that carries pilots.
        downlink_elements: Resource elements of the downlink; 0 if it is ideal.
        downlink_air_time_s: The downlink's part of `air_time_s`, in s.
        downlink_energy_j: Energy of the base station in J; 0 if the downlink is ideal.
        amplifier_energy_j: Energy that the devices' power amplifiers draw in all rounds; 0 if none is modelled.
        fronthaul_bits: Bits from the antennas to where they are combined; 0 if their samples arrive exactly.
        noise_std: Standard deviation of the noise of receiver and devices on an entry of the mean message, root mean
            square over rounds. On links that add up energies, it is that without any signal. The trace has it after
            decoding, which multiplies it (by 1/p under `scheme.rescale`), and nan where decoding is not linear.
        interference_std: The same for everything else on an entry that is neither message nor noise: other cells,
            leakage between subcarriers, distortion, quantised samples. It is inf if it has no finite power. On links
            that carry bits, it is 0, and what disturbs them lowers their rates.
        silent_share: Share of the selected devices that send nothing, from 0 to 1.
        uplink_bits: Bits of all messages; 0 for analog links.
        paper_cost_mb: The papers' communication cost in MB; nan for analog links.
        device_memory_bytes: Memory of the state that a device keeps between rounds.
        units: Units of energies: "J", or "normalised" to a noise variance of 1 per entry.
        claim_scope: What epsilon_paper refers to: a "round", or the "run" so far.
        level: Whose data is protected: a "client" or a "record".
        alignment_coefficient: beta of each round, float64 [T].
        power_bound_binding: Whether the power limits set beta in each round, bool [T].
        privacy_bound_binding: Whether the privacy bound sets beta in each round, bool [T].
        round_energy: Energy of all devices in each round, float64 [T].
    """

    scheme: str
    rounds: int
    dimension: int
    entries_per_round: int
    entries_per_device: int
    energy_j: float
    resource_elements: int
    air_time_s: float
    alignment_coefficient_median: float
    privacy_bound_binding_share: float
    noise_multiplier_min: float
    epsilon_paper: float
    epsilon_round_max: float
    epsilon_round_max_as_poisson: float
    pilot_elements: int
    downlink_elements: int
    downlink_air_time_s: float
    downlink_energy_j: float
    amplifier_energy_j: float
    fronthaul_bits: int
    noise_std: float
    interference_std: float
    silent_share: float
    uplink_bits: int
    paper_cost_mb: float
    device_memory_bytes: int
    units: str
    claim_scope: str
    level: str
    alignment_coefficient: NDArray[np.float64] = field(repr=False)
    power_bound_binding: NDArray[np.bool_] = field(repr=False)
    privacy_bound_binding: NDArray[np.bool_] = field(repr=False)
    round_energy: NDArray[np.float64] = field(repr=False)

    @property
    def error_over_noise_db(self) -> float:
        """Squared error of the mean by noise and interference together over that by noise alone, in dB, with both
        averaged over rounds; inf if there is no noise, and nan if there is neither."""
        noise, interference = self.noise_std**2, self.interference_std**2
        if not noise:
            return math.inf if interference else math.nan
        return 10 * math.log10(1 + interference / noise)

    def __repr__(self) -> str:
        keys = ("scheme", "rounds", "energy_j", "resource_elements", "air_time_s", "epsilon_paper", "epsilon_round_max")
        return brief(self, **{key: getattr(self, key) for key in keys})

    def _repr_html_(self) -> str:
        """Return the figures as a table, for notebooks."""
        units = {"_j": f" ({self.units})", "_s": " (s)", "_mb": " (MB)"}
        rows = []
        for name, value in self.figures().items():
            unit = next((end for end in units if name.endswith(end)), "")
            rows.append((name.removesuffix(unit).replace("_", " ") + units.get(unit, ""), value))
        return html_table(f"{self.scheme}: {self.rounds:,} rounds without training", rows)

    def figures(self) -> dict[str, str | int | float]:
        """Return the figures that `airfl budget --json` prints: all but the arrays over rounds."""
        return {name: value for name, value in vars(self).items() if not isinstance(value, np.ndarray)}


@public
def link_budget(
    config: Config, data_dir: str | Path | None = None, task: Task | None = None, *, overrides: Overrides = ()
) -> Budget:
    """Compute energy, resources and privacy of a whole run without training, with every update at its bound.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        data_dir: Where to look for data sets first, as in `run`. The data is only read if weights, or the privacy of a
            record, depend on the devices' numbers of samples.
        task: As in `run`.
        overrides: As in `airfl.load_settings`.

    Raises UserError for invalid settings, and if the scheme cannot be built from them.
    """
    settings = load_settings(config, overrides)
    scenario = scenario_of(settings, data_dir, task_of(config, task, changes_of(overrides)))
    rounds = [_in_short(scenario, plan, index + 1) for index, plan in enumerate(planned_rounds(scenario))]
    multiplier = min(one.noise_multiplier for one in rounds)
    coefficient = np.array([one.alignment_coefficient for one in rounds])
    binding = np.array([one.privacy_bound_binding for one in rounds])
    energy = np.array([one.energy for one in rounds])
    ledger, worst = build_ledger(scenario), release_event(scenario, multiplier)
    told = ((one.noise_multiplier, one.told) for one in rounds)
    largest, _ = worst_round_epsilon(scenario, ledger, told, np.arange(scenario.run.devices))
    return Budget(
        scheme=settings.scheme.name,
        rounds=len(rounds),
        dimension=scenario.dimension,
        entries_per_round=scenario.bound.entries,
        entries_per_device=scenario.bound.entries * len(rounds),
        energy_j=math.fsum(energy),
        resource_elements=sum(one.use.resource_elements for one in rounds),
        air_time_s=math.fsum(one.use.air_time_s + one.downlink.air_time_s for one in rounds),
        pilot_elements=sum(one.pilot_elements for one in rounds),
        downlink_elements=sum(one.downlink.resource_elements for one in rounds),
        downlink_air_time_s=math.fsum(one.downlink.air_time_s for one in rounds),
        downlink_energy_j=math.fsum(one.downlink.energy for one in rounds),
        amplifier_energy_j=math.fsum(one.amplifier_energy for one in rounds),
        fronthaul_bits=sum(one.fronthaul_bits for one in rounds),
        noise_std=_root_mean_square([one.noise_std for one in rounds]),
        interference_std=_root_mean_square([one.interference_std for one in rounds]),
        silent_share=_silent_share(rounds),
        uplink_bits=sum(one.bits for one in rounds),
        paper_cost_mb=paper_cost_mb(scenario),
        device_memory_bytes=store_bytes(scenario, scenario.samples)[0],
        units="J" if scenario.radio.physical else NORMALISED,
        claim_scope=scenario.recipe.claim.scope if scenario.recipe.claim else "round",
        level=ledger.statement.level,
        alignment_coefficient_median=float(np.median(coefficient)),
        privacy_bound_binding_share=float(binding.mean()),
        noise_multiplier_min=multiplier,
        epsilon_paper=max(one.epsilon_paper for one in rounds),
        epsilon_round_max=largest,
        epsilon_round_max_as_poisson=ledger.of_one_round_as_poisson(worst),
        alignment_coefficient=coefficient,
        power_bound_binding=np.array([one.power_bound_binding for one in rounds]),
        privacy_bound_binding=binding,
        round_energy=energy,
    )


def planned_rounds(scenario: Scenario) -> Iterator[RoundPlan]:
    """Yield the plans of all rounds of a run in order. No device trains, so nothing is sent."""
    memory = scenario.memory
    for index in range(scenario.run.rounds):
        plan = plan_round(scenario, index, memory)
        memory = plan.memory
        yield plan


@dataclass(frozen=True)
class _Round:
    """Figures of a round. None has length r, so that memory does not grow with the devices of all rounds."""

    noise_multiplier: float
    alignment_coefficient: float
    power_bound_binding: bool
    privacy_bound_binding: bool
    energy: float
    amplifier_energy: float
    fronthaul_bits: int
    noise_std: float
    interference_std: float
    use: GridUse
    pilot_elements: int
    downlink: Broadcast
    devices: int
    silent: int
    bits: int
    epsilon_paper: float
    told: Disclosure | None


def _in_short(scenario: Scenario, plan: RoundPlan, rounds: int) -> _Round:
    claim, report = scenario.recipe.claim, plan.link.link_budget()
    return _Round(
        noise_multiplier=noise_multiplier(scenario, report),
        alignment_coefficient=report.alignment_coefficient,
        power_bound_binding=report.power_bound_binding,
        privacy_bound_binding=report.privacy_bound_binding,
        energy=float(report.devices.energy.sum()) + report.energy_of_others,
        amplifier_energy=report.amplifier_energy,
        fronthaul_bits=report.fronthaul_bits,
        noise_std=noise_std(scenario, report),
        interference_std=report.interference_std,
        use=report.use,
        pilot_elements=report.pilot_elements,
        downlink=plan.broadcast or Broadcast(0, 0, 0, 0.0, 0.0),
        devices=plan.selected,
        bits=int(report.devices.bits.sum()),
        silent=plan.selected - int((report.devices.active != 0).sum()),
        epsilon_paper=claim.epsilon(report, rounds) if claim else math.nan,
        told=plan.disclosure,
    )


def _root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(math.fsum(value**2 for value in values) / len(values))


def _silent_share(rounds: Sequence[_Round]) -> float:
    """Return the share of the selected devices that the power policy keeps silent, or that have no path."""
    return sum(one.silent for one in rounds) / max(sum(one.devices for one in rounds), 1)


def scenario_of(settings: Settings, data_dir: str | Path | None = None, task: Task | None = None) -> Scenario:
    """Build the scenario of a run, and read its data only if necessary.

    If all devices hold equally many samples, their number is known without reading the data.
    """
    settings, dimension = with_task(settings, task), dimension_of(settings.task, task)
    folders = data_folders(data_dir)
    samples = equal_share(settings.task, settings.run.devices, training_samples(settings.task, folders, task))
    scenario = build_scenario(settings, dimension, equal_weights(settings.run), samples)
    unequal = settings.task.partition == OWN or not settings.task.partition_rule.equal
    if settings.server.weights == "equal" and not (unequal and isinstance(scenario.recipe.release, RecordRelease)):
        return scenario

    from airfl.learning.division import divide

    raw, streams = load_data(settings.task, folders, task), Streams(settings.run.seed)
    sizes = divide(settings.task, settings.run.devices, raw, streams, task.shares if task else None).partition.sizes
    return build_scenario(settings, dimension, mean_weights(settings.server.weights, sizes), sizes)
