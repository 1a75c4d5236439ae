"""The bound of each scheme, from the settings, the world and the radio of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from airfl.analysis.budget import planned_rounds, scenario_of
from airfl.config import Settings
from airfl.core.scenario import Scenario
from airfl.theory import fed_smp, fed_spa, pfels, soteriafl
from airfl.theory.bound import Bound, Constants
from airfl.theory.covered import SHIFTED, local_steps
from airfl.theory.radio_rounds import RadioRounds
from airfl.uplinks import AnalogUplink
from airfl.uplinks.stages import kept_entries

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.core.state import World
    from airfl.learning.own_task import Task

SAME = 1e-6
"""Relative difference up to which beta counts as that of theorem 5."""


def pfels_bound(
    settings: Settings, world: World, radio: RadioRounds, constants: Constants, where: tuple[Any, Task | None]
) -> Bound:
    """Return eq. 23 for a run of PFELS or one of its baselines, at the beta of its rounds."""
    scenario, steps = world.scenario, local_steps(settings, int(world.task.partition.sizes[0]))
    selected = settings.run.selected
    inverse = (selected * radio.noise_std) ** 2  # noise_std is sigma_0/(r beta)
    run = pfels.Pfels(
        step=settings.local.learning_rate,
        steps=steps,
        selected=selected,
        kept=scenario.bound.entries,
        dimension=scenario.dimension,
        rounds=len(inverse),
        inverse_alignment=float(inverse.mean()),
        clip_norm=_gradient_limit(settings, steps),
    )
    return pfels.theorem_4(run, constants, _alignment(settings, scenario, run, radio, where))


def _alignment(
    settings: Settings, scenario: Scenario, run: pfels.Pfels, radio: RadioRounds, where: tuple[Any, Task | None]
) -> pfels.Alignment | None:
    """Return the limits of beta of P2, by round; None if this power control does not give theorem 5's beta."""
    uplink = scenario.recipe.uplink
    if not isinstance(uplink, AnalogUplink):
        return None
    name = settings.scheme.name
    changes: dict[str, Any] = {"scheme": {"ratio": 1.0}} if name == "pfels" else {}
    if name != "wfl-p":
        changes["privacy"] = {"epsilon": math.inf}
    full = scenario_of(settings.resolved(**changes), *where)
    plans = [(len(plan.devices), plan.link.link_budget().alignment_coefficient) for plan in planned_rounds(full)]
    taking_part = np.array([devices > 0 for devices, _ in plans])  # beta of a round without devices is of no device
    if not taking_part.any():
        return None
    power = np.array([beta for _, beta in plans])[taking_part]
    if radio.planned and not scenario.bound.noise_std:  # what these rounds have is known already
        now, noise_std = radio.alignment, radio.noise_std
    else:
        reports = [plan.link.link_budget() for plan in planned_rounds(scenario)]
        now = np.array([report.alignment_coefficient for report in reports])
        noise_std = np.array([report.noise_std for report in reports])
    now = now[taking_part]
    noise = noise_std[taking_part] * run.selected * now
    privacy = np.full_like(power, uplink.control.privacy_bound)
    alignment = pfels.Alignment(power, privacy, float(noise.mean()) if noise.any() else 0.0)
    close = np.allclose(alignment.optimal(run.ratio), now, rtol=SAME, atol=0) and np.allclose(
        noise, alignment.noise_std, rtol=SAME
    )
    return alignment if close else None


def fed_smp_bound(settings: Settings, world: World, radio: RadioRounds, constants: Constants) -> Bound:
    """Return eq. 7 for a run of Fed-SMP."""
    scenario, steps = world.scenario, local_steps(settings, int(world.task.partition.sizes[0]))
    run = fed_smp.FedSmp(
        sparsifier="rand-k" if settings.scheme.name == "fed-smp-randk" else "top-k",
        step=settings.local.learning_rate,
        steps=steps,
        selected=settings.run.selected,
        kept=scenario.bound.entries,
        dimension=scenario.dimension,
        rounds=len(radio.noise_std),
        noise_variance=float((radio.noise_std**2).mean()),
        clip_norm=_gradient_limit(settings, steps),
    )
    bound = fed_smp.theorem_2(run, constants)
    at_bits = fed_smp.ratio_at_equal_bits(run, constants)
    return replace(bound, rest={"preferred ratio at the same bits": math.nan if at_bits is None else at_bits})


def _gradient_limit(settings: Settings, steps: int) -> float:
    """Return the largest norm of an update without clipping: C, or less where gradients are clipped."""
    local = settings.local
    step_clip = local.gradient_clip_norm
    limit = math.inf if step_clip is None else local.learning_rate * steps * step_clip
    return min(local.update_bound, limit)


def selected_on_public_data(world: World) -> Callable[[Tensor, int], Tensor]:
    """Return a function (theta, t) -> the coordinates that the server selects on its public data, [k]."""
    from airfl.uplinks.stages.top_k import largest

    def kept(parameters: Tensor, round_index: int) -> Tensor:
        update = world.public_update(parameters, round_index)
        return largest(update.abs().unsqueeze(0), world.scenario.bound.entries)[0]

    return kept


def fed_spa_bound(settings: Settings, world: World, constants: Constants) -> Bound:
    """Return theorem 2 for a run of Fed-SPA."""
    from airfl.learning.perturbed import PerturbedTrainer
    from airfl.learning.work import PerturbedSgd

    scenario, local, server = world.scenario, settings.local, settings.server
    work, trainer = scenario.recipe.local, world.trainer
    assert isinstance(work, PerturbedSgd)
    assert isinstance(trainer, PerturbedTrainer)
    size, clip = int(world.task.partition.sizes[0]), trainer.coordinate_clip
    noise = 0.0
    if work.noise_multiplier:
        noise = work.noise_multiplier * clip * math.sqrt(work.kept_entries) / min(local.batch_size, size)
    return fed_spa.theorem_2(
        fed_spa.FedSpa(
            step=local.learning_rate,
            server_step=server.learning_rate,
            steps=local_steps(settings, size),
            agents=settings.run.devices,
            selected=settings.run.selected,
            kept=work.kept_entries,
            dimension=scenario.dimension,
            rounds=settings.run.rounds,
            noise_std=noise,
            beta1=server.beta1,
            beta2=server.beta2,
            kappa=server.kappa,
            coordinate_clip=clip,
        ),
        constants,
    )


def soteria_run(settings: Settings, world: World) -> soteriafl.Soteria:
    """Return what theorems 1 and 3 need of a run of a gradient scheme."""
    from airfl.learning.work import GradientEstimate

    scheme, work = settings.scheme, world.scenario.recipe.local
    assert isinstance(work, GradientEstimate)
    samples, dimension = int(world.task.partition.sizes.min()), world.scenario.dimension
    return soteriafl.Soteria(
        estimator=work.estimator,
        shifted=scheme.name in SHIFTED,
        step=settings.local.learning_rate * settings.server.learning_rate,
        clients=settings.run.devices,
        samples=samples,
        batch=samples if work.estimator == "gd" else min(settings.local.batch_size, samples),
        dimension=dimension,
        kept=kept_entries(getattr(scheme, "ratio", 1.0), dimension),  # of each device, at its own coordinates
        rounds=settings.run.rounds,
        noise_std=work.noise_std,
        refresh=work.refresh,
        replacement=work.replacement,
        gradient_clip=math.inf if work.clip_norm is None else work.clip_norm,
        shift_step=getattr(scheme, "gamma", None),
    )
