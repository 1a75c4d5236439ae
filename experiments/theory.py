"""The papers' convergence bounds beside what is measured, on a quadratic objective whose constants are all known.

python experiments/theory.py            print the table, in about a minute
python experiments/theory.py --write    and keep it as experiments/tables/theory.md
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import airfl
from airfl.core.round import run_round
from airfl.core.state import State
from airfl.core.world import build_world
from airfl.learning.evaluation import gradient_norm_squared
from airfl.runtime.streams import Purpose, Streams
from airfl.storage.output_files import replace_text
from airfl.theory.bound import Constants
from airfl.theory.covered import DIRECT, SHIFTED
from airfl.theory.of_run import Theory, theory_of

TABLE = Path(__file__).resolve().parent / "tables" / "theory.md"
DEVICES, SAMPLES, DIMENSION, BATCH = 16, 8, 40, 4
SEEDS, ROUNDS = 3, 30
LESS = 1 - 1e-6
"""Factor on the largest learning rate, so that rounding does not lift it above the limit."""
REGION = 1.1
"""G holds where ||grad f|| is at most this much of its value at theta^0; `Outcome.in_region` says whether runs stay."""


class Quadratic(nn.Module):
    """f(theta; x) = (1/2) sum_j h_j (theta_j - x_j)^2, as a module whose output is sqrt(h) (theta - x)."""

    def __init__(self, curvature: Tensor) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(len(curvature)))
        self.curvature = tuple(curvature.tolist())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return sqrt(h) (theta - x), [batch, d]."""
        return torch.tensor(self.curvature, device=inputs.device).sqrt() * (self.theta - inputs)


def half_square(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return half the squared norm of each output, [batch]."""
    return outputs.square().sum(dim=1) / 2


@dataclass(frozen=True)
class Problem:
    """The quadratic objective and its exact constants.

    Attributes:
        curvature: h, the diagonal of the Hessian, [d]; its largest entry is L.
        samples: x of each device's samples, [devices, m, d].
    """

    curvature: np.ndarray
    samples: np.ndarray

    @property
    def task(self) -> airfl.Task:
        """The task, one device after another."""
        return self.task_with()

    def task_with(self, public: int = 0, seed: int = 0) -> airfl.Task:
        """Return the task, one device after another, with public samples that are the mean of all devices' samples.

        A run with this seed takes the public samples from where they are put, so that devices keep all of theirs.
        """
        devices, m, d = self.samples.shape
        order = Streams(seed).generator(Purpose.PARTITION).permutation(devices * m + public)
        own = np.ones(len(order), dtype=bool)
        own[order[:public]] = False
        inputs = np.tile(self.samples.mean(axis=(0, 1)), (len(order), 1)).astype(np.float32)
        inputs[own] = self.samples.reshape(-1, d)
        owner, targets = np.zeros(len(order), dtype=np.int64), np.zeros(len(order), dtype=np.int64)
        owner[own] = np.repeat(np.arange(devices), m)
        module = Quadratic(torch.tensor(self.curvature, dtype=torch.float32))
        return airfl.Task(module, (inputs, targets), (inputs, targets), owner, half_square, name="quadratic")

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return grad f(theta) = h (theta - mean x), [d]."""
        return np.asarray(self.curvature * (theta - self.samples.mean(axis=(0, 1))))

    def kept_share(self, ratio: float, steps: int) -> float:
        """Return a q that holds at every theta where the public data is the mean of all samples.

        The public update is w grad f(theta) by coordinate, w_j = (1 - (1 - eta h_j)^tau)/h_j, which falls with h_j. The
        square of every kept coordinate of grad f is at least (w_min/w_max)^2 that of every other one, at any step up to
        1/(24 tau L).
        """
        h, kept = self.curvature, round(ratio * len(self.curvature))
        w = (1 - (1 - h / (24 * steps * h.max())) ** steps) / h
        return float(kept / (kept + (len(h) - kept) * (w.max() / w.min()) ** 2))

    def constants(self, batch: int, *, of_samples: bool, kept_share: float = math.nan) -> Constants:
        """Return the constants; G holds within RADIUS of the mean of all samples.

        Args:
            batch: b, samples of a mini-batch without replacement.
            of_samples: Whether G is of samples' gradients, and not of devices'.
            kept_share: q, for Fed-SMP with top-k.
        """
        h, means, mean = self.curvature, self.samples.mean(axis=1), self.samples.mean(axis=(0, 1))
        m = self.samples.shape[1]
        spread = ((h * (self.samples - means[:, None])) ** 2).sum(axis=2).mean()
        centres = self.samples.reshape(-1, len(h)) if of_samples or batch < m else means
        start = float((self.gradient(np.zeros(len(h))) ** 2).sum())
        # grad f_j(theta) = grad f(theta) + h (mean - x_j), for a sample or the mean of a device.
        farthest = float(np.sqrt(((h * (centres - mean)) ** 2).sum(axis=1).max()))
        return Constants(
            smoothness=float(h.max()),
            gradient_bound=REGION * math.sqrt(start) + farthest,
            dissimilarity=float(((h * (means - mean)) ** 2).sum(axis=1).mean()),
            variance=float((m - batch) / (batch * (m - 1)) * spread),
            initial_gap=float((h * mean**2).sum() / 2),
            initial_shift=float(((h * means) ** 2).sum(axis=1).mean()),
            initial_gradient=start,
            kept_share=kept_share,
            coordinate_bound=float((h * (REGION * np.abs(mean) + np.abs(self.samples - mean).max(axis=(0, 1)))).max()),
        )


@cache
def problem() -> Problem:
    """Return the objective: curvatures from 1.5 to 2, devices whose means differ, samples that scatter around them."""
    generator = np.random.default_rng(0)
    curvature = np.linspace(1.5, 2.0, DIMENSION)
    centre = np.full(DIMENSION, 0.5)
    means = centre + 0.1 * generator.standard_normal((DEVICES, 1, DIMENSION))
    samples = means + 0.2 * generator.standard_normal((DEVICES, SAMPLES, DIMENSION))
    return Problem(curvature, samples)


BASE: Mapping[str, Any] = {
    "run.rounds": ROUNDS,
    "run.devices": DEVICES,
    "run.selected": 8,
    "run.evaluate_every": 1000,
    "local.steps": 2,
    "local.batch_size": SAMPLES,
    "local.clip_norm": 1.0,
    "local.engine": "vmap",
    "channel.noise_std": 1.0,
    "power.max_snr_db": 60.0,
    "privacy.epsilon": math.inf,
    "privacy.delta": 1e-3,
}
SMP = {"scheme.link": "ideal", "scheme.noise_multiplier": 0.05}
PUBLIC = {"task.public_samples": SAMPLES}
SPA = {
    "scheme.link": "ideal",
    "scheme.noise_multiplier": 0.0,
    "scheme.coordinate_clip": math.inf,
    "run.selected": DEVICES,
    "server.beta1": 0.0,
}
SOTERIA = {
    "run.selected": DEVICES,
    "scheme.link": "ideal",
    "scheme.ratio": 0.5,
    "scheme.gradient_clip": 100.0,
    "scheme.noise_multiplier": 4e-3,
}
"""Gradients that are never clipped; sigma_p is the multiplier times 100/b."""
NOISE = {"scheme.noise_multiplier": 0.03, "scheme.coordinate_clip": 100.0}
"""Coordinates that are never clipped; sigma is the multiplier times 100 sqrt(k)/b."""
BATCHES = {"local.batch_size": BATCH}
ROWS: Mapping[str, Mapping[str, Any]] = {
    "PFELS, p = 1": {"scheme.name": "pfels", "scheme.ratio": 1.0},
    "PFELS, p = 0.7": {"scheme.name": "pfels", "scheme.ratio": 0.7},
    "WFL-PDP, mini-batches": {"scheme.name": "wfl-pdp", "local.steps": 1, **BATCHES},
    "PFELS, p = 0.05, no noise, T = 400": {
        "scheme.name": "pfels",
        "scheme.ratio": 0.05,
        "channel.noise": False,
        "run.rounds": 400,
    },
    "Fed-SMP rand-k, p = 0.5": {"scheme.name": "fed-smp-randk", "scheme.ratio": 0.5, **SMP},
    "Fed-SMP top-k, p = 0.7": {"scheme.name": "fed-smp-topk", "scheme.ratio": 0.7, **SMP, **PUBLIC},
    "Fed-SMP top-k, p = 0.05, no noise, T = 400": {
        "scheme.name": "fed-smp-topk",
        "scheme.ratio": 0.05,
        "run.rounds": 400,
        **SMP,
        **PUBLIC,
        "scheme.noise_multiplier": 0.0,
    },
    "Fed-SPA, p = 0.5, no noise": {"scheme.name": "fed-spa", "scheme.ratio": 0.5, "server.kappa": 1.0, **SPA},
    "Fed-SPA, p = 0.5, noise": {"scheme.name": "fed-spa", "scheme.ratio": 0.5, "server.kappa": 1.0, **SPA, **NOISE},
    "CDP-SGD, p = 0.5": {"scheme.name": "cdp-sgd", **SOTERIA, **BATCHES},
    "SoteriaFL-GD, p = 0.5": {"scheme.name": "soteriafl-gd", **SOTERIA},
    "SoteriaFL-SGD, p = 0.5": {"scheme.name": "soteriafl-sgd", **SOTERIA, **BATCHES},
    "SoteriaFL-SVRG, p = 0.5": {"scheme.name": "soteriafl-svrg", **SOTERIA, **BATCHES},
    "SoteriaFL-SAGA, p = 0.5": {"scheme.name": "soteriafl-saga", **SOTERIA, **BATCHES},
}
"""Label -> changes of BASE. The learning rate is the largest that both versions of the theorem allow."""


@dataclass(frozen=True)
class Outcome:
    """A row of the table.

    Attributes:
        label: What it is of.
        theory: The bound, at the noise of the first seed.
        measured: (1/T) sum_t ||grad f(theta^t)||^2, of each seed.
        largest: The largest ||grad f(theta^t)||^2 of all seeds.
        step: The learning rate.
    """

    label: str
    theory: Theory
    measured: tuple[float, ...]
    largest: float
    step: float

    @property
    def mean(self) -> float:
        """The measured quantity, mean over the seeds."""
        return statistics.mean(self.measured)

    @property
    def printed(self) -> float:
        """The paper's bound over the measured quantity; below 1 it is violated."""
        return self.theory.bound.printed / self.mean

    @property
    def corrected(self) -> float:
        """The same for the proven bound; nan where there is none."""
        return self.theory.bound.corrected / self.mean

    @property
    def in_region(self) -> bool:
        """Whether the runs stay where G holds."""
        return self.largest <= REGION**2 * self.theory.constants.initial_gradient


@torch.compiler.set_stance("force_eager")  # compiling takes longer than these rounds
def outcome(label: str, seeds: int = SEEDS) -> Outcome:
    """Run a row and compare it with its bound."""
    changes = {**BASE, **ROWS[label]}
    objective, of_samples = problem(), changes["scheme.name"] in (*DIRECT, *SHIFTED)
    public, share = int(changes.get("task.public_samples", 0)), math.nan
    if public:
        share = objective.kept_share(changes["scheme.ratio"], changes["local.steps"])
    constants = objective.constants(int(changes["local.batch_size"]), of_samples=of_samples, kept_share=share)

    def bound_at(step: float, rounds: int) -> Theory:
        now = {**changes, "local.learning_rate": step, "run.rounds": rounds}
        return theory_of(now, task=objective.task_with(public), constants=constants)

    first = bound_at(1e-3, changes["run.rounds"]).bound
    step = LESS * float(np.nanmin([first.largest_step, first.largest_step_corrected]))
    settings = airfl.load_settings({**changes, "local.learning_rate": step})
    courses = [
        course(settings.resolved(run={"seed": seed}), objective.task_with(public, seed)) for seed in range(seeds)
    ]
    return Outcome(
        label=label,
        theory=bound_at(step, changes["run.rounds"]),
        measured=tuple(float(one.mean()) for one in courses),
        largest=max(float(one.max()) for one in courses),
        step=step,
    )


def course(settings: airfl.Settings, task: airfl.Task) -> np.ndarray:
    """Return ||grad f(theta^t)||^2 for t = 0 ... T - 1 of a run, [T]."""
    world = build_world(settings, torch.device("cpu"), task=task)
    state, found = State(0, world.model.initial(), world.scenario.memory), []
    while state.round_index < settings.run.rounds:
        found.append(gradient_norm_squared(world.model, state.parameters, world.task))
        state, _ = run_round(world, state)
    return np.array(found)


def lines(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield "| run | learning rate | measured | bound, printed | ratio | corrected | ratio |"
    yield "| :--- | ---: | ---: | ---: | ---: | ---: | ---: |"
    for one in outcomes:
        bound = one.theory.bound
        proven = ("-", "-") if math.isnan(bound.corrected) else (f"{bound.corrected:.4g}", f"{one.corrected:.3g}")
        yield (
            f"| {one.label} | {one.step:.3g} | {one.mean:.3g} | {bound.printed:.4g} | {one.printed:.3g} | "
            f"{' | '.join(proven)} |"
        )


HEADING = f"""Bounds of the papers' convergence theorems on a quadratic objective whose constants are exact (`python
experiments/theory.py --write`): d = {DIMENSION}, {DEVICES} devices of {SAMPLES} samples,
T = {ROUNDS} unless said, {SEEDS} seeds.
Measured is the mean of ||grad f(theta^t)||^2 over t = 0 ... T - 1 and the seeds; the learning rate is the largest that
the theorem allows. A ratio below 1 is a bound that does not hold.
"""


def main() -> None:
    """Print the table; --write keeps it."""
    found = []
    for label in ROWS:
        found.append(outcome(label))
        if not found[-1].in_region:
            print(f"{label}: left the region in which G holds", file=sys.stderr)
    text = "\n".join([HEADING, *lines(found), ""])
    print(text)
    if "--write" in sys.argv[1:]:
        replace_text(TABLE, text)


if __name__ == "__main__":
    main()
