"""The convergence bounds on a quadratic objective whose constants are all known: they hold, within a stated factor.

Where a paper's bound does not hold as printed, the run that violates it is here, too.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import airfl
from airfl.core.state import State
from airfl.core.world import build_world
from airfl.learning.flat import FlatModel
from airfl.learning.task import build_task
from airfl.runtime.streams import Streams
from airfl.theory import fed_smp, fed_spa, pfels
from airfl.theory.constants import Sought, estimate
from airfl.theory.of_run import theory_of
from experiments.theory import BASE, BATCH, DEVICES, DIMENSION, ROWS, SAMPLES, TABLE, outcome, problem
from tests.conftest import ROOT

VIOLATED = {
    "PFELS, p = 0.05, no noise, T = 400": 0.85,
    "Fed-SMP top-k, p = 0.05, no noise, T = 400": 0.89,
}
"""Run -> what the printed bound over the measured quantity is below."""
WITHIN = {"PFELS": 16, "WFL-PDP": 16, "Fed-SMP": 18, "Fed-SPA": 8, "CDP-SGD": 8, "SoteriaFL": 6}
"""Paper's scheme -> factor within which the corrected bound is of what is measured, as docs/theory.md states it."""


@pytest.mark.parametrize("label", [label for label in ROWS if label not in VIOLATED])
def test_a_bound_holds_and_is_within_a_factor(label: str) -> None:
    """One seed: what is measured differs by a few percent between seeds, the bound is further away than that."""
    found = outcome(label, seeds=1)
    assert found.in_region
    assert found.theory.bound.holds("printed")
    assert found.theory.bound.holds("corrected")
    factor = next(limit for name, limit in WITHIN.items() if label.startswith(name))
    assert 1.2 < found.corrected < factor
    assert found.printed > 1.2


@pytest.mark.parametrize("label", VIOLATED)
def test_without_its_hidden_condition_a_bound_is_violated(label: str) -> None:
    """Without noise and at p = 0.05 the printed eq. 23 of PFELS, and eq. 7 of Fed-SMP with top-k, are below what is
    measured, the corrected ones above it.

    The measured gradient norm hardly varies between seeds (half a percent), the bounds are a sixth or more below it.
    """
    found = outcome(label, seeds=1)
    assert found.in_region
    assert found.theory.bound.conditions[0].holds  # the step
    assert found.printed < VIOLATED[label]
    assert 1.2 < found.corrected < WITHIN[label.split()[0].strip(",")]
    assert not found.theory.bound.holds("printed")
    assert found.theory.bound.holds("corrected")


def test_the_share_that_top_k_keeps_of_the_gradient() -> None:
    """What is measured at points of the descent is at least the q that holds everywhere, and close to the best k of d.

    The gradient's coordinates are h_j (theta - mean)_j, and the public update's are in their order but for 1%.
    """
    objective = problem()
    task = objective.task_with(SAMPLES)
    for ratio in (0.05, 0.5, 1.0):
        settings = _settings("Fed-SMP top-k, p = 0.7").resolved(scheme={"ratio": ratio})
        found = theory_of(settings, task=task).constants
        best = np.sort(objective.gradient(np.zeros(DIMENSION)) ** 2)[::-1]
        assert objective.kept_share(ratio, 2) - 1e-6 <= found.kept_share  # 1e-6: float32
        assert found.kept_share <= best[: round(ratio * DIMENSION)].sum() / best.sum() * (1 + 1e-5)
        assert "least" in found.how["kept_share"]
    rand_k = _settings("Fed-SMP rand-k, p = 0.5").resolved(task={"public_samples": SAMPLES})
    assert math.isnan(theory_of(rand_k, task=task).constants.kept_share)


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_a_round_of_top_k_descends_as_the_corrected_bound_needs(share: float) -> None:
    """The exact change of f in one round on the quadratic, at the largest step that is allowed.

    theta_i^s - theta = ((1 - eta h)^s - 1)(theta - x_i) with the means x_i of the devices, of which 8 of 16 are drawn;
    the mask takes the coordinates with the smallest gradient that have a share of at least q of it.
    """
    objective, noise = problem(), 1e-4
    h, means, theta = objective.curvature, objective.samples.mean(axis=1), np.zeros(DIMENSION)
    slope = objective.gradient(theta)
    order = np.argsort(slope**2)
    kept = int(np.searchsorted(np.cumsum(slope[order] ** 2), share * (slope**2).sum() * (1 - 1e-9))) + 1
    mask = np.zeros(DIMENSION)
    mask[order[:kept]] = 1
    q = float((mask * slope**2).sum() / (slope**2).sum())
    of = objective.constants(SAMPLES, of_samples=False, kept_share=q)
    run = fed_smp.FedSmp("top-k", 1.0, 4, 8, kept, DIMENSION, 1, noise)
    eta = fed_smp.largest_step_corrected(run, of)
    update = mask * ((1 - eta * h) ** 4 - 1) * (theta - means)
    spread = ((update - update.mean(axis=0)) ** 2 * h).sum(axis=1).mean()
    second = (update.mean(axis=0) ** 2 * h).sum() + spread / 8 * (DEVICES - 8) / (DEVICES - 1)
    change = float(slope @ update.mean(axis=0)) + second / 2 + h @ mask * noise / 2
    # The bound of one round, solved for the change of f: its first term stands for the gap.
    rest = sum(t.corrected for t in fed_smp.terms(replace(run, step=eta), of) if t.name != "optimisation")
    allowed = -eta * 4 * q / 8 * (float((slope**2).sum()) - rest)
    assert change <= allowed
    assert change < -eta * 4 * q / 4 * float((slope**2).sum()) + second / 2 + h @ mask * noise / 2  # a share q descends


@pytest.mark.parametrize("batch", [SAMPLES, BATCH])
def test_constants_of_a_quadratic_are_found(batch: int) -> None:
    """Smoothness, dissimilarity, variance and the gradient at theta^0 do not depend on the point: float32 is left."""
    settings = _settings("PFELS, p = 1").resolved(local={"batch_size": batch})
    task = problem().task
    divided = build_task(settings, task.raw, Streams(0), task)  # type: ignore[arg-type]
    model, exact = FlatModel(divided.model, divided.loss), problem().constants(batch, of_samples=False)
    found = estimate(model, divided, Sought(of_samples=False, batch=batch, step=0.01))
    for name in ("smoothness", "dissimilarity", "variance", "initial_shift", "initial_gradient"):
        rel = 1e-6 if name == "smoothness" else 1e-4
        assert getattr(found, name) == pytest.approx(getattr(exact, name), rel=rel, abs=1e-9), name
    least = (problem().curvature * (problem().samples - problem().samples.mean(axis=(0, 1))) ** 2).sum(
        axis=2
    ).mean() / 2
    assert found.initial_gap == pytest.approx(exact.initial_gap + least, rel=1e-5)  # f_inf = 0 instead of its minimum


def test_a_step_just_above_the_limit_is_too_long() -> None:
    """1/(24 tau L) = 0.0104167 with L = 2 as it is estimated: 0.01043 is above it."""
    for step, holds in ((0.01041, True), (0.01043, False)):
        settings = _settings("PFELS, p = 1").resolved(local={"learning_rate": step, "clip_norm": 50.0})
        found = theory_of(settings, task=problem().task)
        assert found.bound.holds("corrected") == found.bound.holds("printed") == holds
        assert "estimated from below" in found.constants.how["smoothness"]


def test_lemmas_3_and_4_bound_a_round() -> None:
    """Both lemmas on the exact expectation of one round of full gradients on the quadratic, over masks and devices.

    With H diagonal and x_i the means, theta_i^s - theta = ((1 - eta h)^s - 1)(theta - x_i), and the round's mean and
    second moment follow in closed form, so that nothing is drawn.
    """
    objective = problem()
    h, means = objective.curvature, objective.samples.mean(axis=1)
    of = objective.constants(SAMPLES, of_samples=False)
    theta, tau, selected = np.zeros(DIMENSION), 4, 8
    for kept in (2, 20, 28, DIMENSION):
        run = pfels.Pfels(1 / (24 * tau * of.smoothness), tau, selected, kept, DIMENSION, 30, 0.0)
        moved = np.array([((1 - run.step * h) ** s - 1) * (theta - means) for s in range(tau + 1)])  # [tau + 1, N, d]
        square = (moved**2).sum(axis=2).mean(axis=1)  # by step
        gradient = float((objective.gradient(theta) ** 2).sum())
        assert 0 < square[tau - 1] <= pfels.lemma_4(run, of, gradient)

        update = moved[tau]
        spread = ((update - update.mean(axis=0)) ** 2 * h).sum(axis=1).mean()
        of_sample = spread / selected * (DEVICES - selected) / (DEVICES - 1)
        p, noise = kept / DIMENSION, 0.3
        second = p * ((update.mean(axis=0) ** 2 * h).sum() + of_sample) + h.sum() * p * noise / selected**2
        change = p * float(objective.gradient(theta) @ update.mean(axis=0)) + second / 2
        divergence = float(square[:tau].sum())
        proven = pfels.lemma_3(run, of, gradient, divergence, noise, printed=False)
        printed = pfels.lemma_3(run, of, gradient, divergence, noise)
        assert change <= proven
        # As printed it claims more descent than there is when few entries are kept.
        assert (change <= printed) == (kept > 2), kept


def test_noise_of_fed_spa_has_the_energy_d_sigma_squared_over_p() -> None:
    """Lemma 9's noise, measured on the updates of one step: k sigma^2/p^2 and not p d sigma^2.

    16 devices of k = 20 entries: a chi-square of 320 degrees, so within 4 sqrt(2/320) = 32% of its mean.
    """
    found = {}
    for noisy in (True, False):
        settings = _settings("Fed-SPA, p = 0.5, no noise").resolved(
            scheme={"noise_multiplier": 1.0 if noisy else 0.0, "coordinate_clip": 100.0},
            local={"steps": 1, "learning_rate": 1.0},
        )
        world = build_world(settings, torch.device("cpu"), task=problem().task)
        state = State(0, world.model.initial(), world.scenario.memory)
        found[noisy] = world.trainer.updates(state.parameters, np.arange(DEVICES), 0, state.store).double()
    sigma = 100.0 * math.sqrt(20) / SAMPLES
    energy = float((found[True] - found[False]).square().sum(dim=1).mean())
    assert energy == pytest.approx(DIMENSION * sigma**2 / 0.5, rel=0.33)
    assert energy > 3 * 0.5 * DIMENSION * sigma**2


@pytest.mark.parametrize("ratio", [0.25, 1.0])
def test_the_noise_of_fed_spa_stays_below_its_limit_in_all_rounds(
    ratio: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The share of 20,000 coordinates whose noise ever exceeds x nu is at most delta, here a fifth.

    With every coordinate in every mask it is known: what a Gaussian exceeds x = sqrt(2 ln(2 T/delta)) with, T times.
    """
    monkeypatch.setattr(fed_spa, "RARE", 0.2)
    entries, rounds, agents, steps, sigma = 20_000, 10, 6, 3, 0.7
    run = fed_spa.FedSpa(0.1, 1.0, steps, agents, agents, round(ratio * entries), entries, rounds, sigma, 0.0, 0.9, 1.0)
    generator, ever = np.random.default_rng(1), np.zeros(entries, dtype=bool)
    for _ in range(rounds):
        masks = generator.random((agents, entries)) < ratio
        noise = sigma * generator.standard_normal((steps, agents, entries)).sum(axis=0)
        ever |= np.abs(run.step * (masks * noise).mean(axis=0) / ratio) > fed_spa.largest_noise(run)
    assert ever.mean() < 0.2 + 4 * math.sqrt(0.2 * 0.8 / entries)
    if ratio == 1:
        wanted = 1 - (1 - math.erfc(math.sqrt(math.log(2 * rounds / 0.2)))) ** rounds
        assert abs(ever.mean() - wanted) < 4 * math.sqrt(wanted / entries)


def test_the_table_is_the_outcome() -> None:
    """A row of experiments/tables/theory.md, computed again with all seeds."""
    label = "SoteriaFL-GD, p = 0.5"
    found = outcome(label)
    line = next(line for line in TABLE.read_text().splitlines() if line.startswith(f"| {label} "))
    cells = [float(cell) for cell in line.split("|")[2:-1]]
    bound = found.theory.bound
    wanted = [found.step, found.mean, bound.printed, found.printed, bound.corrected, found.corrected]
    assert cells == pytest.approx(wanted, rel=5e-3)


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "theory.md").read_text()
    assert all(line in page for line in TABLE.read_text().splitlines() if line.startswith("|"))


def _settings(label: str) -> airfl.Settings:
    return airfl.load_settings({**BASE, **ROWS[label], "local.learning_rate": 0.01})
