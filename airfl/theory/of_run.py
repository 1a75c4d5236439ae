"""The bound of a run: from its settings, its radio, round by round as planned or as recorded, and its task."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from airfl.config import Config, Overrides, load_settings
from airfl.config.arguments import public
from airfl.config.given import changes_of, task_of
from airfl.errors import UserError
from airfl.runtime.text import brief
from airfl.theory import soteriafl
from airfl.theory.bound import Bound, Constants
from airfl.theory.covered import (
    DIRECT,
    FED_SMP,
    FED_SPA,
    PFELS,
    SHIFTED,
    check_covered,
    check_steps,
    conditions_of,
)
from airfl.theory.of_scheme import fed_smp_bound, fed_spa_bound, pfels_bound, selected_on_public_data, soteria_run
from airfl.theory.radio_rounds import planned, recorded

if TYPE_CHECKING:
    from airfl.learning.own_task import Task

Array = NDArray[np.float64]


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
    check_steps(settings, world)
    radio = planned(world.scenario) if run is None else recorded(settings, world.scenario, Path(run))
    course = None if run is None else _course(Path(run))
    if constants is None:
        batch = min(settings.local.batch_size, int(world.task.partition.sizes.max()))
        kept = selected_on_public_data(world) if name == "fed-smp-topk" else None
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
        bound=replace(bound, conditions=(*bound.conditions, *conditions_of(settings, world, radio))),
        constants=constants,
        corollary=corollary,
        measured=None if course is None else measured_of(course, constants.initial_gradient),
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
