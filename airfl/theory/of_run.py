"""The bound of a run: from its settings, its radio, round by round as planned or as recorded, and its task."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.budget import planned_rounds, scenario_of
from airfl.config import Config, Overrides, Settings, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.core.accounting import noise_std
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.runtime.text import brief
from airfl.theory import fed_smp, fed_spa, pfels, soteriafl
from airfl.theory.bound import Bound, Condition, Constants
from airfl.uplinks import AnalogUplink
from airfl.uplinks.stages import kept_entries

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.core.state import World
    from airfl.learning.own_task import Task

Array = NDArray[np.float64]

PFELS = ("pfels", "wfl-p", "wfl-pdp")
FED_SMP = ("fed-smp-randk", "fed-smp-topk")
FED_SPA = ("fed-spa",)
DIRECT = ("cdp-sgd", "ldp-sgd")
SHIFTED = ("soteriafl-gd", "soteriafl-sgd", "soteriafl-svrg", "soteriafl-saga", "ldp-svrg")
THEOREMS: Mapping[str, str] = {
    **dict.fromkeys(PFELS, "PFELS's theorem 4"),
    **dict.fromkeys(FED_SMP, "Fed-SMP's theorem 2"),
    **dict.fromkeys(FED_SPA, "Fed-SPA's theorem 2"),
    **dict.fromkeys(DIRECT, "SoteriaFL's theorem 1"),
    **dict.fromkeys(SHIFTED, "SoteriaFL's theorem 3"),
}
"""Scheme -> the theorem on its convergence."""
SAME, ALIKE = 1e-6, 1e-5
"""Relative difference up to which beta counts as that of theorem 5, and up to which amplitudes count as the same."""


@dataclass(frozen=True)
class Measured:
    """The measured squared gradient norm of a run, at theta^0 and after the rounds that were evaluated.

    Attributes:
        rounds: Numbers of finished rounds, from 0, int64 [points].
        gradient_norm_squared: ||grad f(theta)||^2 then, [points].
        mean: Their mean over t = 0 ... T - 1, the quantity that the bound is on; over the evaluated rounds among them.
    """

    rounds: NDArray[np.int64]
    gradient_norm_squared: Array
    mean: float


@dataclass(frozen=True)
class Theory:
    """The convergence bound of a run.

    Attributes:
        scheme: Name of the scheme.
        rounds: T, rounds of the run.
        dimension: d, number of model parameters.
        bound: The bound, its terms and conditions.
        constants: The constants of the objective that it was computed with.
        corollary: What the corollary sets for the run's epsilon and delta; None for other schemes and without epsilon.
        measured: What a run measured; None without one.
    """

    scheme: str
    rounds: int
    dimension: int
    bound: Bound
    constants: Constants
    corollary: soteriafl.Corollary | None = None
    measured: Measured | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        bound = self.bound
        return brief(self, scheme=self.scheme, rounds=self.rounds, printed=bound.printed, corrected=bound.corrected)

    def figures(self) -> dict[str, Any]:
        """Return the figures that `airfl theory --json` prints."""
        bound, constants = self.bound, asdict(self.constants)
        figures: dict[str, Any] = {
            "scheme": self.scheme,
            "rounds": self.rounds,
            "dimension": self.dimension,
            "theorem": bound.theorem,
            "printed": bound.printed,
            "corrected": bound.corrected,
            "printed_conditions_hold": bound.holds("printed"),
            "corrected_conditions_hold": bound.holds("corrected") and not math.isnan(bound.corrected),
            "terms": [asdict(term) for term in bound.terms],
            "conditions": [asdict(one) for one in bound.conditions],
            "largest_step": bound.largest_step,
            "largest_step_corrected": bound.largest_step_corrected,
            "preferred_ratio": asdict(bound.preferred_ratio),
            "errors": list(bound.errors),
            "unproven": bound.unproven,
            "further": dict(bound.rest),
            "constants": constants,
        }
        if self.corollary is not None:
            figures["corollary"] = asdict(self.corollary)
        if self.measured is not None:
            figures["measured"] = {
                "mean": self.measured.mean,
                "rounds": self.measured.rounds.tolist(),
                "gradient_norm_squared": self.measured.gradient_norm_squared.tolist(),
            }
        return figures


@public
def theory_of(
    config: Config,
    run: str | Path | None = None,
    data_dir: str | Path | None = None,
    task: Task | None = None,
    *,
    overrides: Overrides = (),
    constants: Constants | None = None,
) -> Theory:
    """Compute the convergence bound of a scheme's paper for a run.

    Args:
        config: An `airfl.Experiment`, settings, the name or path of a settings file, or a dict of tables: see
            `airfl.load_settings`.
        run: The folder of a run of these settings: its noise is used, and its gradient norms are the measured curve.
            Without it the noise is that of the planned rounds.
        data_dir: Where to look for data sets first, as in `run`.
        task: As in `run`.
        overrides: As in `airfl.load_settings`.
        constants: The constants of the objective; None estimates them on the task.

    Raises UserError for a scheme without a theorem, for settings that the theorem is not of, and for a folder with
    another run.
    """
    settings, task = load_settings(config, overrides), task_of(config, task, changes_of(overrides))
    check_covered(settings)

    import torch

    from airfl.core.world import build_world
    from airfl.learning.chosen_task import with_task
    from airfl.learning.tasks.datasets import data_folders
    from airfl.theory.constants import Sought, estimate

    settings = with_task(settings, task)
    unmeasured = settings.resolved(local={"engine": "loop"})  # nothing is trained, so no engine has to be fast
    world = build_world(unmeasured, torch.device("cpu"), data_folders(data_dir), task)
    name = settings.scheme.name
    _check_steps(settings, world)
    radio = _planned(world.scenario) if run is None else _recorded(settings, world.scenario, Path(run))
    course = None if run is None else _course(Path(run))
    if constants is None:
        batch = min(settings.local.batch_size, int(world.task.partition.sizes.max()))
        kept = _selected_on_public_data(world) if name == "fed-smp-topk" else None
        sought = Sought(name in (*DIRECT, *SHIFTED), batch, settings.local.learning_rate, kept)
        constants = estimate(world.model, world.task, sought)
    corollary = None
    if name in PFELS:
        bound = pfels_bound(settings, world, radio, constants, (data_dir, task))
    elif name in FED_SMP:
        bound = fed_smp_bound(settings, world, radio, constants)
    elif name in FED_SPA:
        bound = fed_spa_bound(settings, world, constants)
    else:
        soteria = soteria_run(settings, world)
        bound = soteriafl.theorem_3(soteria, constants) if soteria.shifted else soteriafl.theorem_1(soteria, constants)
        epsilon = settings.privacy.epsilon
        if math.isfinite(epsilon):
            constant = settings.scheme.noise_constant  # type: ignore[attr-defined]
            corollary = soteriafl.corollary(soteria, constants, epsilon, settings.delta, constant)
    return Theory(
        scheme=name,
        rounds=settings.run.rounds,
        dimension=world.model.dimension,
        bound=replace(bound, conditions=(*bound.conditions, *_of_the_run(settings, world, radio))),
        constants=constants,
        corollary=corollary,
        measured=None if course is None else measured_of(course, constants.initial_gradient),
    )


def check_covered(settings: Settings) -> None:
    """Raise UserError, in one line, if no theorem covers these settings."""
    name = settings.scheme.name
    if name not in THEOREMS:
        raise UserError(
            f"scheme.name: no paper has a convergence theorem of {name!r}; there is one of {', '.join(THEOREMS)}"
        )
    local, server = settings.local, settings.server
    wrong = {
        "local.momentum": (local.momentum != 0 and name not in (*DIRECT, *SHIFTED), local.momentum, "0.0"),
        "local.schedule": (local.schedule != "constant", local.schedule, "constant"),
        "server.schedule": (server.schedule != "constant", server.schedule, "constant"),
        "server.learning_rate": (
            server.learning_rate != 1 and name in (*PFELS, *FED_SMP),
            server.learning_rate,
            "1.0",
        ),
        "server.weights": (server.weights != "equal", server.weights, "equal"),
        "selection.kind": (_kind(settings) != "uniform", _kind(settings), "uniform"),
        "scheme.rescale": (getattr(settings.scheme, "rescale", False), True, "false"),
        "scheme.unscaled": (getattr(settings.scheme, "unscaled", False), True, "false"),
        "scheme.error_feedback": (getattr(settings.scheme, "error_feedback", False), True, "false"),
        "power.strict": (settings.power.strict and name in PFELS, True, "false"),
        "run.selected": (
            settings.run.selected != settings.run.devices and name in (*DIRECT, *SHIFTED),
            settings.run.selected,
            f"{settings.run.devices}, all devices",
        ),
    }
    for key, (is_wrong, value, allowed) in wrong.items():
        if is_wrong:
            raise UserError(f"{key}: {THEOREMS[name]} does not cover {value!r}; set {key} = {allowed}")


def _kind(settings: Settings) -> str:
    return str(settings.selection.rule.name)


def _check_steps(settings: Settings, world: World) -> None:
    """Raise UserError if devices take unequal numbers of local steps."""
    if settings.scheme.name in (*DIRECT, *SHIFTED):
        return
    steps = {local_steps(settings, int(size)) for size in world.task.partition.sizes}
    if len(steps) > 1:
        raise UserError(
            f"local.epochs: {THEOREMS[settings.scheme.name]} is of the same number of local steps for all devices, "
            f"got {min(steps)} to {max(steps)}; set local.steps instead"
        )


def local_steps(settings: Settings, size: int) -> int:
    """Return tau, the local steps of a device with `size` samples."""
    local = settings.local
    return local.steps or local.epochs * -(-size // local.batch_size)


@dataclass(frozen=True)
class RadioRounds:
    """What the radio does to the mean update, by round.

    Attributes:
        noise_std: Standard deviation of the noise on a kept entry of the decoded mean update, [T].
        alignment: beta, nan for links without, [T].
        all_heard: Whether all selected devices are heard in all rounds.
        disturbances: What there is beside noise on the mean update, in words; none where channels are known and nothing
            interferes or is clipped on the air.
        alike: Whether all messages that are heard arrive with the same amplitude; None where only the power policy can
            tell: over selective channels, and with several antennas.
        planned: Whether these are of planned rounds and not of a run.
    """

    noise_std: Array
    alignment: Array
    all_heard: bool
    disturbances: tuple[str, ...]
    alike: bool | None
    planned: bool


def _planned(scenario: Scenario) -> RadioRounds:
    """Return what the radio will do: the same rounds as in a run with this seed. What is clipped depends on the
    messages, so that the settings decide."""
    noise, alignment, heard, known, interfered = [], [], True, True, False
    alike = True if _flat(scenario) else None
    for plan in planned_rounds(scenario):
        report = plan.link.link_budget()
        noise.append(noise_std(scenario, report))
        alignment.append(report.alignment_coefficient)
        heard &= int(report.devices.active.sum()) == scenario.run.selected  # those that take no part have no row
        known &= np.array_equal(plan.channel.gains, plan.estimate.gains)
        interfered |= bool(report.interference_std)
        if alike:
            devices, beta = report.devices, np.array(report.alignment_coefficient)
            alike = _alike(plan.channel.gains, devices.transmit_scale, devices.active, beta)
    found = _disturbances(known, interfered, _may_clip(scenario))
    return RadioRounds(np.array(noise), np.array(alignment), heard, found, alike, planned=True)


def _flat(scenario: Scenario) -> bool:
    """Return whether each device has a single gain on an analog link."""
    flat = scenario.radio.observed_shape(scenario.frame) == (1, 1) and scenario.antennas == 1
    return flat and isinstance(scenario.recipe.uplink, AnalogUplink)


def _alike(gains: NDArray[Any], scale: Array, active: NDArray[Any], beta: Array) -> bool:
    """Return whether |h_i| alpha_i = beta for all devices that send (PFELS, eq. 12); shapes [..., devices], [...]."""
    arriving, sends = np.abs(gains) * scale, active == 1
    wanted = np.broadcast_to(beta[..., None], arriving.shape)
    return bool(np.allclose(arriving[sends], wanted[sends], rtol=ALIKE, atol=0))


def _disturbances(known: bool, interfered: bool, clipped: bool) -> tuple[str, ...]:
    """Return the disturbances in words: whether channels are known, and anything interferes or is clipped."""
    words = {"channels not known exactly": not known, "interference": interfered, "clipping on the air": clipped}
    return tuple(name for name, present in words.items() if present)


def _may_clip(scenario: Scenario) -> bool:
    """Return whether an analog link clips entries, waveforms, or what it decodes."""
    radio = scenario.radio.sections
    entries = radio.power.peak_db is not None and radio.power.peak == "clip"
    clips = entries or radio.grid.clip_db is not None or radio.antennas.median_clip is not None
    return clips and isinstance(scenario.recipe.uplink, AnalogUplink)


def _recorded(settings: Settings, scenario: Scenario, folder: Path) -> RadioRounds:
    """Return what the radio did in a run. Raises UserError if the folder has another run, or one that is not over."""
    from airfl.core.checkpoint import check_asked
    from airfl.storage.trace import open_trace

    with open_trace(folder) as trace:
        attributes = trace.attrs
        if attributes["status"] != "complete":
            raise UserError(f"{folder}: the run in it is {attributes['status']}, not complete; give a complete one")
        try:
            check_asked(str(attributes["config"]), str(attributes.get("own_parts", "{}")), folder, settings)
        except UserError as error:
            told = str(error).removesuffix("; choose another --out")
            raise UserError(f"{told}; give the settings of the run") from None
        gains, known = trace["channel_gain"].values, trace["channel_estimate"].values
        alignment = trace["alignment_coefficient"].values.astype(float)
        scale, active = trace["transmit_scale"].values, trace["active"].values
        shares = [trace[f"{part}clipped_share"].values for part in ("", "waveform_", "receiver_")]
        return RadioRounds(
            noise_std=trace["noise_std"].values.astype(float),
            alignment=alignment,
            all_heard=bool((trace["heard"].values == settings.run.selected).all()),
            disturbances=_disturbances(
                known=np.array_equal(gains, known, equal_nan=True),  # nan for devices that took no part
                interfered=bool(trace["interference_std"].values.any()),
                clipped=any(bool(share.any()) for share in shares),
            ),
            alike=_alike(gains, scale, active, alignment) if _flat(scenario) else None,
            planned=False,
        )


def _course(folder: Path) -> Array:
    """Return the gradient norms of a run, nan after rounds without, [T]. Raises UserError if it has none."""
    from airfl.storage.trace import open_trace

    with open_trace(folder) as trace:
        course = trace["gradient_norm_squared"].values.astype(float)
    if not np.isfinite(course).any():
        raise UserError(
            f"{folder}: the run has no gradient norms; run it with trace.gradient_norm=true run.evaluate_every=1"
        )
    return np.asarray(course)


def measured_of(course: Array, initial: float) -> Measured:
    """Return the measured curve of a run.

    Args:
        course: ||grad f||^2 after every round, nan where not evaluated, [T].
        initial: ||grad f(theta^0)||^2.
    """
    after = np.flatnonzero(np.isfinite(course))
    rounds, values = np.concatenate([[0], after + 1]), np.concatenate([[initial], course[after]])
    return Measured(rounds, values, float(values[rounds < len(course)].mean()))


def _of_the_run(settings: Settings, world: World, radio: RadioRounds) -> tuple[Condition, ...]:
    """Return the conditions that every theorem takes for granted."""
    sizes, local, uplink = world.task.partition.sizes, settings.local, world.scenario.recipe.uplink
    equal = bool((sizes == sizes[0]).all())
    robust = isinstance(uplink, AnalogUplink) and settings.antennas.count > 1 and uplink.control.receiver.robust
    disturbances = (*radio.disturbances, *(["antennas that are not summed"] if robust else []))
    found = [
        Condition(
            "samples of a device, so that f is the mean over devices and over samples",
            f"{sizes.min()} to {sizes.max()}",
            "equal",
            equal,
        ),
        Condition("selected devices are heard", "all" if radio.all_heard else "not all", "all", radio.all_heard),
        Condition(
            "disturbances of the mean update",
            ", ".join(disturbances) or "noise alone",
            "noise alone",
            not disturbances,
        ),
    ]
    if isinstance(uplink, AnalogUplink):
        found.append(_same_amplitude(settings, uplink, radio.alike))
    if settings.scheme.name in (*PFELS, *FED_SMP):
        passes = local.batch_size < int(sizes.max()) and local_steps(settings, int(sizes.max())) > 1
        found.append(
            Condition(
                "mini-batches of a device's steps",
                "parts of one shuffled pass" if passes else "independent",
                "independent",
                not passes,
            )
        )
    return tuple(found)


def _same_amplitude(settings: Settings, uplink: AnalogUplink, alike: bool | None) -> Condition:
    """Return the condition that the messages that are heard make up the mean in equal parts (PFELS, eq. 12 and 13)."""
    policy, power = uplink.control.rule, settings.power
    entries = policy.least_power > 0 or power.participation is not None  # of which some devices may leave out some
    silent = entries or policy.target is not None or power.alignment == "schedule"
    value = f"power policy {policy.name}"
    if alike is None:
        alike = policy.aligned and not entries
    elif not alike:
        value += ", different amplitudes"
    if silent and power.divide_by == "expected":
        alike, value = False, f"{value}, divided by the expected number"
    return Condition("messages arrive with the same amplitude", value, "in all rounds", alike)


def _gradient_limit(settings: Settings, steps: int) -> float:
    """Return the largest norm of an update without clipping: C, or less where gradients are clipped."""
    local = settings.local
    step_clip = local.gradient_clip_norm
    limit = math.inf if step_clip is None else local.learning_rate * steps * step_clip
    return min(local.update_bound, limit)


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


def _selected_on_public_data(world: World) -> Callable[[Tensor, int], Tensor]:
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
