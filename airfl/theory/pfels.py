"""PFELS: lemmas 3 and 4, theorem 4 (eq. 23), and problems P1 and P2 with theorem 5 (eq. 36).

Symbols: eta local learning rate, tau local steps, L smoothness, zeta^2 variance of a mini-batch gradient, kappa^2 and
gamma^2 dissimilarity of the devices, lambda_k = 1 - k/d, r devices of a round, T rounds, p = k/d.

What does not hold as printed:

- Assumption 2 (eq. 16) has ||grad f_i(x) - grad f_i(y)||^2 <= L||x - y||^2, where the proof uses L^2.
- The noise of a round, E||A^T z/(r beta)||^2 = k sigma_0^2/(r beta)^2, stands in lemma 3 and eq. 23 divided by r once
  more (appendix B has it inside a mean over r devices, though all of them share one z).
- The sparsification term of eq. 23 is divided by r; the proof ends without that factor (after eq. 30), as all devices
  share one mask.
- Eq. 44 needs lambda_k <= pi with pi = 1/3, so the proof holds for p >= 2/3 alone. Below that the bound is false:
  without noise, a small p slows all progress down by 1/p, which eq. 23 has nowhere.
- Eq. 53 leaves out the covariance of a step's noise with later gradients. Its constant 2L^2 has to be 3L^2.

The corrected bound. The mask A is independent of the updates, so that E_A[A^T A x] = p x and E_A||A^T A x||^2 = p
||x||^2 hold exactly. With S = (1/N) sum_i sum_s E||theta^t - theta_i^{t,s}||^2 and a = eta tau L, smoothness gives

    E f(theta^{t+1}) - f(theta^t) <= p <grad f, E mean Delta_i> + (L/2) p mean E||Delta_i||^2 + L k sigma_0^2/(2 r^2
    beta^2)
    <= p [ -(eta tau/2)||grad f||^2 + (eta L^2/2) S ]
     + (p L eta^2 tau^2/2) [ 3 L^2 S/tau + 2 gamma^2 ||grad f||^2 + 2 kappa^2 + zeta^2 ] + L k sigma_0^2/(2 r^2 beta^2)

The second bracket is lemma 11 mended: with a_i = grad f_i(theta^t), b_i the mean drift of the gradient and n_i the mean
noise of the steps, E<a_i, n_i> = 0, so E||a + b + n||^2 <= 2||a||^2 + 3 E||b||^2 + 2 E||n||^2, and E||n||^2 <=
zeta^2/tau; for tau = 1, b = 0. Lemma 4 holds as printed and bounds S/tau. Under a <= 1/(24 gamma^2) the factor of
||grad f||^2 is at least p eta tau (1/2 - 1/24 - 9/576) >= p eta tau/4, and dividing by p eta tau/8 leaves

    8 (f(theta^0) - f_inf)/(p T eta tau) + 8 a (3 kappa^2 + 2 zeta^2) + 4 L k/(p eta tau r^2 T) sum_t sigma_0^2/beta_t^2

which is eq. 23 with 1/p on the first and the last term, r^2 for r^3, and no further term of lambda_k. It holds for
every p, and for steps twice as long when p is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from airfl.theory.bound import (
    Bound,
    Condition,
    Constants,
    PreferredRatio,
    Term,
    Version,
    preferred,
    ratios,
    step_condition,
)

Array = NDArray[np.float64]

PI = 1 / 3
"""pi of the proof of theorem 4."""
ERRORS = (
    "Assumption 2 (eq. 16) has L on the squared norms, where the proof uses L^2.",
    "The noise term has r^3 where the proof's own quantities give r^2.",
    "The sparsification term is divided by r, which the proof does not do.",
    "The proof needs p >= 2/3 (eq. 44: lambda_k <= pi = 1/3), which the theorem does not say; for small p it is false.",
)


@dataclass(frozen=True)
class Pfels:
    """What eq. 23 needs of a run.

    Attributes:
        step: eta, local learning rate.
        steps: tau, local steps.
        selected: r, devices of a round.
        kept: k, entries that are sent.
        dimension: d, entries of the update.
        rounds: T, number of rounds.
        inverse_alignment: (1/T) sum_t sigma_0^2/(beta^t)^2; 0 without noise.
        clip_norm: C, to which an update is clipped; inf for none.
    """

    step: float
    steps: int
    selected: int
    kept: int
    dimension: int
    rounds: int
    inverse_alignment: float
    clip_norm: float = math.inf

    @property
    def ratio(self) -> float:
        """The ratio p = k/d."""
        return self.kept / self.dimension

    @property
    def left_out(self) -> float:
        """The share lambda_k = 1 - k/d of entries that are left out."""
        return 1 - self.ratio


def largest_step(run: Pfels, of: Constants) -> float:
    """Return the largest eta of theorem 4: min{1/(24 tau L (lambda_k + 1) gamma^2), 1/(4 tau L sqrt(4 gamma^2 + 2)),
    1/(12 tau L)}."""
    gamma, tau_l = of.growth, run.steps * of.smoothness
    return min(
        1 / (24 * tau_l * (run.left_out + 1) * gamma), 1 / (4 * tau_l * math.sqrt(4 * gamma + 2)), 1 / (12 * tau_l)
    )


def largest_step_corrected(run: Pfels, of: Constants) -> float:
    """Return the largest eta of the corrected bound, 1/(24 tau L gamma^2)."""
    return 1 / (24 * run.steps * of.smoothness * of.growth)


def lemma_3(
    run: Pfels, of: Constants, gradient: float, divergence: float, noise: float, *, printed: bool = True
) -> float:
    """Return the right side of lemma 3, a bound on E_t[f(theta^{t+1}) - f(theta^t)].

    Args:
        run: The run.
        of: Constants of the objective.
        gradient: ||grad f(theta^t)||^2.
        divergence: (1/N) sum_i sum_s E_t||theta^t - theta_i^{t,s-1}||^2.
        noise: sigma_0^2/(beta^t)^2 of the round.
        printed: Whether as printed, at pi = 1/3, or as proven above.
    """
    eta, tau, length, lam = run.step, run.steps, of.smoothness, run.left_out
    if printed:
        return (
            length * eta**2 * tau**2 * (lam + 1) * (of.variance + 2 * of.dissimilarity)
            + eta * tau * lam * of.variance / (2 * PI)
            + (eta * length**2 / 2 + 2 * length**3 * eta**2 * tau * (lam + 1)) * divergence
            + (-eta * tau * (1 - PI) / 2 + 2 * length * eta**2 * tau**2 * of.growth * (lam + 1)) * gradient
            + length * run.kept * noise / (2 * run.selected**3)
        )
    descent = -eta * tau / 2 * gradient + eta * length**2 / 2 * divergence
    update = 3 * length**2 * divergence / tau + 2 * of.growth * gradient + 2 * of.dissimilarity + of.variance
    return run.ratio * (descent + length * eta**2 * tau**2 / 2 * update) + length * run.kept * noise / (
        2 * run.selected**2
    )


def lemma_4(run: Pfels, of: Constants, gradient: float) -> float:
    """Return the bound of lemma 4 on the divergence (1/N) sum_i E_t||theta^t - theta_i^{t,s-1}||^2 of one step s.

    It holds as printed for eta <= 1/(2 sqrt(2) tau L), and is 0 at tau = 1. gradient: ||grad f(theta^t)||^2.
    """
    eta, tau = run.step, run.steps
    if tau == 1:
        return 0.0
    return 16 * eta**2 * tau**2 * (of.growth * gradient + of.dissimilarity) + 4 * tau * eta**2 * of.variance


def terms(run: Pfels, of: Constants) -> tuple[Term, ...]:
    """Return the terms of eq. 23, as printed and corrected."""
    walked = run.step * run.steps  # eta tau
    a, length, ratio = walked * of.smoothness, of.smoothness, run.ratio
    progress = 8 * of.initial_gap / (run.rounds * walked)
    noise = 4 * length * run.kept / walked * run.inverse_alignment
    sparsified = 8 * (a * (2 * of.dissimilarity + of.variance) + 3 * of.variance / 2) * run.left_out / run.selected
    heterogeneity, variance = 24 * a * of.dissimilarity, 16 * a * of.variance
    return (
        Term("optimisation", progress, progress / ratio),
        Term("heterogeneity of the devices", heterogeneity, heterogeneity),
        Term("variance of mini-batches", variance, variance),
        Term("sparsification", sparsified, 0.0),
        Term("noise", noise / run.selected**3, noise / (ratio * run.selected**2)),
    )


def theorem_4(run: Pfels, of: Constants, alignment: Alignment | None = None) -> Bound:
    """Return eq. 23 for a run.

    Args:
        run: The run.
        of: Constants of the objective.
        alignment: The limits of beta in every round, for the preferred p; without them beta is taken as it is.
    """
    largest, proven = largest_step(run, of), largest_step_corrected(run, of)
    unclipped = run.step * run.steps * of.gradient_bound
    return Bound(
        theorem="PFELS, theorem 4 (eq. 23)",
        terms=terms(run, of),
        conditions=(
            step_condition(run.step, largest, "printed"),
            step_condition(run.step, proven, "corrected"),
            Condition("ratio p (hidden in eq. 44)", f"{run.ratio:.4g}", "at least 2/3", run.left_out <= PI, "printed"),
            Condition(
                "no update is clipped, eta tau G",
                f"{unclipped:.4g}",
                f"at most {run.clip_norm:.4g}",
                unclipped <= run.clip_norm,
            ),
        ),
        largest_step=largest,
        largest_step_corrected=proven,
        preferred_ratio=preferred_ratio(run, of, alignment),
        errors=ERRORS,
    )


@dataclass(frozen=True)
class Alignment:
    """The limits of beta in problem P2, by round.

    Attributes:
        power: min_i |h_i^t| sqrt(P_i)/C, what the power limits allow at p = 1, [T]; it is divided by sqrt(p) (eq. 35c).
        privacy: epsilon/C_2, what privacy allows, [T]; inf without a limit (eq. 35b).
        noise_std: sigma_0.
    """

    power: Array
    privacy: Array
    noise_std: float

    def optimal(self, ratio: float) -> Array:
        """Return theorem 5's solution of P2, the beta of every round at this ratio p (eq. 36), [T].

        The objective sum_t 1/(beta^t)^2 falls in every beta^t and no constraint ties two rounds together, so that each
        is at its smaller limit.
        """
        return np.minimum(self.power / math.sqrt(ratio), self.privacy)

    def objective(self, ratio: float) -> float:
        """Return (1/T) sum_t sigma_0^2/(beta^t)^2 at the optimum of P2, the only part of eq. 23 that beta enters."""
        return float(np.mean((self.noise_std / self.optimal(ratio)) ** 2)) if self.noise_std else 0.0


def bound_at(run: Pfels, of: Constants, alignment: Alignment | None, ratio: float, version: Version) -> float:
    """Return eq. 23 at another p, with the beta that P2 has there; inf where the step or p is not allowed."""
    noise = run.inverse_alignment if alignment is None else alignment.objective(ratio)
    kept = max(1, round(ratio * run.dimension))
    there = Pfels(run.step, run.steps, run.selected, kept, run.dimension, run.rounds, noise, run.clip_norm)
    if version == "printed" and there.left_out > PI:
        return math.inf
    largest = largest_step(there, of) if version == "printed" else largest_step_corrected(there, of)
    return math.fsum(getattr(one, version) for one in terms(there, of)) if run.step <= largest else math.inf


def preferred_ratio(run: Pfels, of: Constants, alignment: Alignment | None) -> PreferredRatio:
    """Return the p with the least eq. 23: P1 with the bound in the place of the loss, over beta and p.

    At each p the beta of every round is that of theorem 5. Where power sets it, 1/beta^2 grows as p, so that the
    corrected bound is A/p + B + D p with an optimum at sqrt(A/D); where privacy sets it, its noise does not depend on
    p, and p = 1 is best. Only such p count as the conditions on step and p allow.
    """

    why = "beta of every round as theorem 5 has it at each p"
    if not alignment:
        why = "beta as it is at every p: the power control is not that of theorem 5"
    versions: tuple[Version, Version] = ("printed", "corrected")
    bounds = {version: partial(bound_at, run, of, alignment, version=version) for version in versions}
    return preferred(ratios(run.dimension), bounds, why)
