"""Cases, cells and rounds for the conformance suites of `channels` and `airfl.selection`.

A new entry of a registry is tested automatically. An entry that does not run with the default settings of the suites
states the settings it needs in `NEEDS`; a policy with a new parameter states it in `READS`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from airfl.core.building import build_scenario
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.selection import SELECTIONS
from airfl.uplinks import Link, Reception, UplinkContext
from airfl.uplinks.stages import Batch
from channels.antennas import ARRAYS, COMBINERS, CORRELATIONS
from channels.csi import IMPAIRMENTS
from channels.fading import FADING_LAWS, VARIATIONS
from channels.power import POLICIES
from channels.selective import SELECTIVE_MODELS
from channels.topology import PATH_LOSS, PLACEMENTS
from tests.conftest import small_settings

Array = NDArray[np.float64]

# 27 entries on 8 subcarriers: the last of 4 OFDM symbols is filled in part, and so is the last element under I/Q.
DIMENSION = 27
BASE = (
    "run.devices=6 run.selected=3 run.rounds=4 scheme.name=wfl-p grid.subcarriers=8 channel.mean_gain=0.7 "
    "channel.min_gain=1e-6 channel.max_gain=1e6 channel.delay_spread_s=1e-5"
)
PHYSICAL = "channel.units=physical topology.kind=disc"
MOVING = "channel.speed_m_s=30 channel.round_s=0.5"
RAYLEIGH, TAPPED, IQ = "channel.fading=rayleigh", "channel.fading=tapped-line", "grid.packing=iq"

NEEDS = {
    ("variation", "jakes"): MOVING,
    ("placement", "coordinates"): f"topology.coordinates={[[20 + 10 * i, -35] for i in range(200)]}".replace(" ", ""),
    ("impairment", "estimation"): "csi.estimation=mmse",
    ("impairment", "feedback"): "csi.phase_bits=3 csi.gain_bits=4",
    ("impairment", "ageing"): f"{MOVING} csi.delay_s=1e-3",
    ("impairment", "phase"): "csi.phase_std_rad=0.3",
    ("impairment", "timing"): "csi.timing_offset_s=1e-5",
    ("impairment", "frequency"): "csi.frequency_offset_hz=500",
    ("impairment", "oscillator"): "csi.linewidth_hz=50",
    ("impairment", "synchronisation"): "csi.amplitude_std_db=2",
    ("policy", "blind"): "antennas.count=3 antennas.combining=sum",
    ("selection", "threshold"): "selection.min_gain=0.3",
    ("selection", "energy-budget"): "selection.energy_budget=1e9",
}
READS = {
    "threshold": "power.threshold=0.4",
    "coefficient": "power.coefficient=4.0",
    "objective": "power.objective=least-error",
    "prescalers": "power.prescalers=unbiased",
    "common_share": "power.common_share=0.8",
    "average_over": "power.average_over=fading power.threshold=0.4",
}


@dataclass(frozen=True)
class Case:
    """An entry of a table, and settings under which it runs, as they are written in a command."""

    table: str
    name: str
    overrides: str

    def __str__(self) -> str:
        return f"{self.table}:{self.name}"

    @property
    def is_sionna(self) -> bool:
        return self.table == "selective" and not self.name.startswith("tapped-line")


def fading_cases() -> list[Case]:
    laws = [("flat", law, way, "") for law in FADING_LAWS for way in VARIATIONS]
    laws += [
        ("selective", name, way, PHYSICAL if model.needs_positions else "")
        for name, model in SELECTIVE_MODELS.items()
        for way in model.variations
    ]
    return [
        Case(kind, f"{law}/{way}", f"channel.fading={law} channel.variation={way} {need('variation', way)} {more}")
        for kind, law, way, more in laws
    ]


def policy_cases() -> list[Case]:
    plain = [Case("policy", name, f"power.policy={name} {TAPPED} {need('policy', name)}") for name in POLICIES]
    reading = [
        Case("policy", f"{name}/{field}", f"power.policy={name} {TAPPED} {reads(name, field)}")
        for name, entry in POLICIES.items()
        for field in sorted(entry().values())
    ]
    return plain + reading


OTHERS: tuple[tuple[str, Iterable[str], str], ...] = (
    ("placement", PLACEMENTS, f"{RAYLEIGH} {PHYSICAL} topology.kind={{}}"),
    ("path loss", PATH_LOSS, f"{RAYLEIGH} {PHYSICAL} topology.path_loss={{}}"),
    ("impairment", IMPAIRMENTS, TAPPED),
    ("combiner", COMBINERS, f"{TAPPED} antennas.count=3 antennas.combining={{}}"),
    ("array", ARRAYS, "channel.fading=rician antennas.count=3 antennas.array={}"),
    ("correlation", CORRELATIONS, f"{TAPPED} antennas.count=3 antennas.correlation={{}}"),
    ("selection", SELECTIONS, f"{RAYLEIGH} selection.kind={{}}"),
)


def other_cases() -> list[Case]:
    return [
        Case(table, name, f"{settings.format(name)} {need(table, name)}")
        for table, names, settings in OTHERS
        for name in names
    ]


def need(table: str, name: str) -> str:
    return NEEDS.get((table, name), "")


def reads(name: str, field: str) -> str:
    if field not in READS:
        pytest.fail(f"power policy {name!r} reads {field!r}: say in READS what gives it a value", pytrace=False)
    return READS[field]


# What no table has and every table meets: packing, time within a round, other cells, peak limits, the waveform.
WAYS = {
    "iq": f"{TAPPED} {IQ}",
    "iq turned": f"{TAPPED} {IQ} csi.phase_std_rad=0.5",
    "iq turned flat": f"{RAYLEIGH} {IQ} csi.phase_std_rad=0.5",
    "iq locked": f"{RAYLEIGH} {IQ} csi.oscillator=tr38803-30ghz channel.carrier_hz=3e10",
    "iq offset": f"{RAYLEIGH} {IQ} csi.frequency_offset_hz=3000",
    "moving": f"{TAPPED} channel.coherence=symbol {MOVING}",
    "own K": f"channel.fading=rician channel.rician_k=tr38901 {PHYSICAL}",
    "interference": f"{RAYLEIGH} channel.interference_to_noise_db=3",
    "neighbours": f"{RAYLEIGH} {PHYSICAL} antennas.count=2 topology.neighbours=[[600,0],[0,700]]",
    "access points of neighbours": f"{RAYLEIGH} {PHYSICAL} antennas.count=2 topology.access_points=[[-90,0],[90,0]] "
    "topology.neighbours=[[600,0]]",
    "power across cells": f"{RAYLEIGH} {PHYSICAL} {IQ} topology.neighbours=[[600,0],[0,700]] power.across_cells=sum",
    "heavy tails": f"{RAYLEIGH} channel.interference_to_noise_db=3 channel.interference=alpha-stable",
    "clipped": f"{TAPPED} channel.interference_to_noise_db=3 channel.interference=alpha-stable antennas.median_clip=3",
    "bursts iq": f"{TAPPED} {IQ} antennas.count=3 channel.interference_to_noise_db=3 "
    "channel.interference=bernoulli-gaussian channel.interference_across_antennas=independent",
    "back-off": f"{TAPPED} power.peak_db=6",
    "waveform": f"{TAPPED} grid.waveform=true",
    "waveform iq": f"{TAPPED} grid.waveform=true {IQ}",
}
CASES = [*fading_cases(), *policy_cases(), *other_cases(), *(Case("way", *way) for way in WAYS.items())]
LIGHT = [case for case in CASES if not case.is_sionna]


def param(case: Case) -> object:
    """A channel of Sionna's that stays is, in `make test`, one of each family: the others differ from it in a table,
    and are all there as channels that change."""
    name, _, way = case.name.partition("/")
    repeated = case.is_sionna and way == "constant" and name not in ("tdl-a", "cdl-d", "umi")
    return pytest.param(case, id=str(case), marks=[pytest.mark.full] if repeated else [])


each_case = pytest.mark.parametrize("case", [param(case) for case in CASES])


def in_turn(cases: Sequence[Case], values: Sequence[str], *crossed: str) -> list[object]:
    """All pairs (case, value); in `make test` cases take turns at values, those of the tables `crossed` have all."""
    found = []
    for number, case in enumerate(cases):
        for place, value in enumerate(values):
            now = case.table in crossed or place == number % len(values)
            found.append(pytest.param(case, value, id=f"{case}-{value}", marks=[] if now else [pytest.mark.full]))
    return found


def scenario_of(case: Case, *overrides: str, dimension: int = DIMENSION) -> Scenario:
    """The scenario of a case; a clear failure where an entry does not run on everybody's settings."""
    try:
        settings = small_settings(*BASE.split(), *case.overrides.split(), *overrides)
        return build_scenario(settings, dimension, np.ones(settings.run.devices))
    except UserError as error:
        message = f"{case} does not run on the settings of all others ({error}): say in NEEDS what it takes"
    pytest.fail(message, pytrace=False)


class KeptUplink:
    """An uplink that keeps what it was opened with: a round can be opened again without drawing its channel again."""

    def __init__(self, scenario: Scenario) -> None:
        self._uplink = scenario.recipe.uplink
        self.scenario = replace(scenario, recipe=replace(scenario.recipe, uplink=self))

    def open(self, context: UplinkContext) -> Link:
        self.context = context
        return self._uplink.open(context)

    def again(self, round_index: int | None = None) -> Link:
        """Open the same round, or another one over the same channel."""
        other = self.context if round_index is None else replace(self.context, round_index=round_index)
        return self._uplink.open(other)


def messages_of(plan: RoundPlan, scenario: Scenario) -> torch.Tensor:
    """Random messages at their bound; a device's own, whoever else is there."""
    rows = [np.random.default_rng(int(device)).standard_normal(scenario.bound.entries) for device in plan.devices]
    values = torch.tensor(np.array(rows).reshape(len(rows), scenario.bound.entries), dtype=torch.float32)
    return values / values.norm(dim=1, keepdim=True).clamp_min(1e-30) * scenario.bound.rms


def send(link: Link, messages: torch.Tensor, chunk: int | None = None) -> Reception:
    """All messages at once, or in chunks, a part of each in its scale."""
    count = len(messages)
    scale = torch.linspace(0.5, 2.0, count)
    for start in range(0, count, chunk or max(count, 1)):
        rows = slice(start, min(start + (chunk or count), count))
        link.send(Batch(messages[rows] / scale[rows, None], scale[rows]), rows)
    return link.close()


def pass_through(scenario: Scenario, t: int = 0, chunk: int | None = None) -> tuple[RoundPlan, Reception]:
    plan = plan_round(scenario, t, scenario.memory)
    return plan, send(plan.link, messages_of(plan, scenario), chunk)
