"""Rounds of a small run on the actual radio and uplink, with random messages at their bound instead of updates.

Messages of different devices are independent, and their entries have mean square 1 (C = sqrt(d)). The mean of r
messages therefore has power 1/r per entry, and its relative error equals the error of the sum per device and entry.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from airfl.config import load_settings
from airfl.core.building import build_scenario
from airfl.core.round_plan import RoundPlan, plan_round
from airfl.core.scenario import Scenario
from airfl.uplinks import LinkReport
from airfl.uplinks.stages import Batch

DEMO = Path(__file__).resolve().parents[1] / "configs" / "demo.toml"
Array = NDArray[np.float64]
MOST_ROUNDS = ContextVar("MOST_ROUNDS", default=sys.maxsize)
"""Largest number of rounds per point of a figure, set by channel_effects.py --rounds."""

UNIT_POWER = math.sqrt(math.pi) / 2
"""channel.mean_gain at which Rayleigh fading has E|h|^2 = 1."""
WIDE = ("channel.min_gain=1e-9", "channel.max_gain=1e9")
RAYLEIGH = ("channel.fading=rayleigh", f"channel.mean_gain={UNIT_POWER}", *WIDE)
FIXED = ("channel.fading=fixed", "channel.mean_gain=1.0", *WIDE)


@dataclass(frozen=True)
class Round:
    """The result of one round.

    Attributes:
        error: ||decoded mean - mean||^2 over the expected power of the mean, C^2/r.
        receive_snr_db: Receive SNR of the sum in dB.
        report: The link report.
        plan: The opened round.
    """

    error: float
    receive_snr_db: float
    report: LinkReport
    plan: RoundPlan


def scenario_of(overrides: Sequence[str], *, entries: int = 256, devices: int = 32, selected: int = 32) -> Scenario:
    """Build a scenario from the demo's settings with wfl-p (no sparsification, no privacy bound), sigma_0 = 1 and
    overrides.

    entries: d; devices, selected: N and r.
    """
    settings = load_settings(
        DEMO,
        [
            "scheme.name=wfl-p",
            f"run.devices={devices}",
            f"run.selected={selected}",
            f"local.clip_norm={math.sqrt(entries)}",
            *overrides,
        ],
    )
    return build_scenario(settings, entries, np.ones(devices))


def opened(scenario: Scenario, rounds: int) -> list[RoundPlan]:
    """Open rounds without sending anything, at most `MOST_ROUNDS`."""
    memory, plans = scenario.memory, []
    for index in range(min(rounds, MOST_ROUNDS.get())):
        plans.append(plan_round(scenario, index, memory))
        memory = plans[-1].memory
    return plans


def sent(scenario: Scenario, rounds: int, common_share: float = 0.0) -> list[Round]:
    """Run rounds in which every device sends a message at its bound, this share of whose power is common to all."""
    return [_send(scenario, plan, index, common_share) for index, plan in enumerate(opened(scenario, rounds))]


def coefficients(scenario: Scenario, rounds: int) -> Array:
    """Return beta of each round, [rounds]."""
    return np.array([one.link.link_budget().alignment_coefficient for one in opened(scenario, rounds)])


def errors(rounds: Sequence[Round]) -> Array:
    """Return the error of each round, [rounds]."""
    return np.array([one.error for one in rounds])


def noise_error(one: Round) -> float:
    """Return the part of the error due to receiver noise, sigma_0^2 r/(r beta)^2."""
    return 1 / (len(one.plan.devices) * one.report.alignment_coefficient**2)


def messages(devices: int, entries: int, norm: float, index: int, common_share: float = 0.0) -> NDArray[np.float32]:
    """Return messages of this norm with Gaussian directions, [devices, entries], to which a direction that is common to
    all contributes this share of the power in the mean."""
    generator = np.random.default_rng([2024, index])
    values = generator.standard_normal((devices, entries))
    if common_share:
        common = generator.standard_normal(entries)
        values = math.sqrt(common_share) * common + math.sqrt(1 - common_share) * values
    return np.asarray(norm * values / np.linalg.norm(values, axis=1, keepdims=True), dtype=np.float32)


def _send(scenario: Scenario, plan: RoundPlan, index: int, common_share: float) -> Round:
    import torch

    devices = len(plan.devices)
    values = messages(devices, scenario.bound.entries, scenario.bound.rms, index, common_share)
    plan.link.send(Batch(torch.from_numpy(values), torch.ones(devices)), slice(0, devices))
    reception = plan.link.close()
    missed = reception.mean.numpy().astype(np.float64) - values.astype(np.float64).mean(axis=0)
    error = float(missed @ missed) * devices / scenario.bound.rms**2
    return Round(error, reception.receive_snr_db, reception.report, plan)
