"""Fed-SMP: theorem 2 (eq. 7), with rand-k and top-k.

Symbols: eta_l local learning rate, tau local steps, L smoothness, zeta^2 variance of a mini-batch gradient, kappa^2 and
beta^2 dissimilarity of the clients, r clients of a round, C clip, sigma noise multiplier, phi_k = d/k - 1 for rand-k,
1 - k/d for top-k.

rand-k holds as printed, though lemma 11's proof leaves out the covariance of a step's noise with later gradients. With
a = eta_l tau L, S = (1/n) sum_i sum_s E||theta^t - theta_i^{t,s}||^2 and E||spar(d)||^2 = ||d||^2/p,

    E f(theta^{t+1}) - f(theta^t) <= -(eta tau/2)||grad f||^2 + (eta L^2/2) S
      + (L eta^2 tau^2/(2 p)) [ 3 L^2 S/tau + 2 beta^2 ||grad f||^2 + 2 kappa^2 + zeta^2 ] + L k C^2 sigma^2/(2 r^2)

with the bracket of `airfl.theory.pfels`. The condition on eta_l gives a beta^2/p <= 1/24, so the factor of ||grad f||^2
is at least eta tau (1/2 - 1/24 - 9/576) >= eta tau/4, and all constants of eq. 7 follow with room to spare.

top-k does not hold as printed. Its proof needs phi_k <= gamma with gamma = 1/3, that is k >= 2d/3, which the theorem
does not say; and it takes the mask for that of the top k entries of the mean update itself, where algorithm 2 takes
those of an update on public data.

The corrected bound of top-k. The mask M depends on theta^t and the public data, and not on what the devices draw in
this round. Only the coordinates that it keeps descend, so that a bound needs the share q of ||grad f||^2 that is on
them, ||M grad f(theta^t)||^2 >= q ||grad f(theta^t)||^2 in every round. With the steps of the proof within the mask,
where ||M x|| <= ||x|| for the drift, the noise and the differences between devices,

    E f(theta^{t+1}) - f(theta^t) <= -(eta tau/2)||M grad f||^2 + (eta L^2/2) S
      + (L eta^2 tau^2/2) [ 3 L^2 S/tau + 2 beta^2 ||M grad f||^2 + 2 kappa^2 + zeta^2 ] + L k C^2 sigma^2/(2 r^2)

where for beta^2 = 1 the dissimilarity within the mask is at most kappa^2, and is assumed to be otherwise. Lemma 4 of
PFELS bounds S/tau by 16 eta^2 tau^2 (beta^2 ||grad f||^2 + kappa^2) + 4 tau eta^2 zeta^2. With a = eta tau L and
a beta^2 <= 1/24, what is left of the factor of ||grad f||^2 is at least eta tau [q (1/2 - 1/24) - 9 a^2 beta^2], which
is eta tau q/4 or more for 9 a^2 beta^2 <= 5 q/24. Dividing by eta tau q/8 leaves

    (1/q) [ 8 (f(theta^0) - f_inf)/(T eta tau) + 8 a (3 kappa^2 + 2 zeta^2) + 4 L k C^2 sigma^2/(eta tau r^2) ]

with no further term of phi_k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from airfl.theory.bound import (
    Bound,
    Condition,
    Constants,
    PreferredRatio,
    Term,
    Version,
    least,
    preferred,
    ratios,
    step_condition,
)

GAMMA = 1 / 3
"""gamma of the proof with top-k."""
TOP_K_ERRORS = (
    "The proof with top-k needs 1 - k/d <= gamma = 1/3, so p >= 2/3, which the theorem does not say.",
    "The proof with top-k takes the mask for that of the mean update, where the algorithm's is of public data.",
)
RAND_K_ERRORS = (
    "Lemma 11 leaves out the covariance of a step's noise with later gradients; the theorem's constants cover it.",
)


@dataclass(frozen=True)
class FedSmp:
    """What theorem 2 needs of a run.

    Attributes:
        sparsifier: "rand-k", scaled by d/k, or "top-k".
        step: eta_l, local learning rate.
        steps: tau, local steps.
        selected: r, clients of a round.
        kept: k, entries that are sent.
        dimension: d, entries of the update.
        rounds: T, number of rounds.
        noise_variance: C^2 sigma^2/r^2, variance of the noise on a kept entry of the mean update, mean over the rounds.
        clip_norm: C, to which an update is clipped after it was sparsified; inf for none.
    """

    sparsifier: str
    step: float
    steps: int
    selected: int
    kept: int
    dimension: int
    rounds: int
    noise_variance: float
    clip_norm: float = math.inf

    @property
    def ratio(self) -> float:
        """The ratio p = k/d."""
        return self.kept / self.dimension

    @property
    def phi(self) -> float:
        """phi_k: d/k - 1 for rand-k, 1 - k/d for top-k."""
        return 1 / self.ratio - 1 if self.sparsifier == "rand-k" else 1 - self.ratio


def largest_step(run: FedSmp, of: Constants) -> float:
    """Return the largest eta_l of theorem 2: min{1/(24 tau L (phi_k + 1) beta^2), 1/(4 tau L sqrt(4 beta^2 + 2)),
    1/(12 tau L)}."""
    tau_l = run.steps * of.smoothness
    return min(
        1 / (24 * tau_l * (run.phi + 1) * of.growth), 1 / (4 * tau_l * math.sqrt(4 * of.growth + 2)), 1 / (12 * tau_l)
    )


def largest_step_corrected(run: FedSmp, of: Constants) -> float:
    """Return the largest eta_l of the corrected bound: for rand-k that of theorem 2, for top-k min{1/(24 tau L beta^2),
    sqrt(5 q/216)/(tau L beta)}."""
    if run.sparsifier == "rand-k":
        return largest_step(run, of)
    within = min(1 / (24 * of.growth), math.sqrt(5 * of.kept_share / (216 * of.growth)))
    return math.nan if math.isnan(of.kept_share) else within / (run.steps * of.smoothness)


def terms(run: FedSmp, of: Constants) -> tuple[Term, ...]:
    """Return the terms of eq. 7; those of top-k have a corrected value if q is known."""
    walked = run.step * run.steps
    a = walked * of.smoothness
    prime = 4 * of.variance / GAMMA if run.sparsifier == "top-k" else 0.0  # zeta'
    values = {
        "optimisation": 8 * of.initial_gap / (run.rounds * walked),
        "heterogeneity of the devices": 24 * a * of.dissimilarity,
        "variance of mini-batches": 16 * a * of.variance,
        "sparsification": (8 * a * (2 * of.dissimilarity + of.variance) + prime) * run.phi,
        "noise": 4 * of.smoothness * run.kept * run.noise_variance / walked,
    }
    if run.sparsifier == "rand-k":
        return tuple(Term(name, value, value) for name, value in values.items())
    proven = {name: value / of.kept_share if of.kept_share else math.inf for name, value in values.items()}
    proven["sparsification"] = 0.0
    return tuple(Term(name, value, proven[name]) for name, value in values.items())


def largest_sent(run: FedSmp, of: Constants) -> float:
    """Return the largest norm of an update before the clip: eta tau G, times d/k for rand-k."""
    rand_k = run.sparsifier == "rand-k"
    return run.step * run.steps * of.gradient_bound / (run.ratio if rand_k else 1)


def theorem_2(run: FedSmp, of: Constants) -> Bound:
    """Return eq. 7 for a run."""
    largest, proven = largest_step(run, of), largest_step_corrected(run, of)
    rand_k, known = run.sparsifier == "rand-k", not math.isnan(proven)
    sent = largest_sent(run, of)
    conditions = [
        step_condition(run.step, largest, "both" if rand_k else "printed"),
        Condition(
            f"no update is clipped, eta tau G{' d/k' if rand_k else ''}",
            f"{sent:.4g}",
            f"at most {run.clip_norm:.4g}",
            sent <= run.clip_norm,
        ),
    ]
    if not rand_k and known:
        conditions.insert(1, step_condition(run.step, proven, "corrected"))
    if not rand_k:
        hidden = "ratio p (hidden in the proof of eq. 31)"
        conditions.append(Condition(hidden, f"{run.ratio:.4g}", "at least 2/3", run.phi <= GAMMA, "printed"))
    return Bound(
        theorem=f"Fed-SMP, theorem 2 (eq. 7) with {run.sparsifier}",
        terms=terms(run, of),
        conditions=tuple(conditions),
        largest_step=largest,
        largest_step_corrected=proven,
        preferred_ratio=preferred_ratio(run, of),
        errors=RAND_K_ERRORS if rand_k else TOP_K_ERRORS,
        unproven="" if known else "top-k: the share of ‖∇f‖² that the public data selects is not known",
    )


def bound_at(run: FedSmp, of: Constants, ratio: float, rounds: int | None = None) -> float:
    """Return eq. 7 at another p and number of rounds, at the same noise on every kept entry; inf where the step, the
    clip of scaled updates (rand-k) or p (top-k) is not allowed there."""
    there = replace(run, kept=max(1, round(ratio * run.dimension)), rounds=rounds or run.rounds)
    allowed = largest_sent(there, of) <= run.clip_norm if run.sparsifier == "rand-k" else there.phi <= GAMMA
    if not allowed or run.step > largest_step(there, of):
        return math.inf
    return math.fsum(one.printed for one in terms(there, of))


def preferred_ratio(run: FedSmp, of: Constants) -> PreferredRatio:
    """Return the p with the least eq. 7, at the same noise on every kept entry, of those that its conditions allow.

    For rand-k the sparsification term falls as 1/p - 1 and the noise grows as p; for top-k they are linear in p, so
    that one of the ends is best. The corrected bound of top-k prefers none, as q is known at the p of the run alone.
    """
    why = "the same noise on every kept entry and the same number of rounds at each p"
    bounds: dict[Version, Callable[[float], float]] = {"printed": partial(bound_at, run, of)}
    if run.sparsifier == "rand-k":  # both versions are the same
        bounds["corrected"] = bounds["printed"]
    else:
        why += "; the corrected bound prefers none, as q is known at the p of the run alone"
    return preferred(ratios(run.dimension), bounds, why)


def ratio_at_equal_bits(run: FedSmp, of: Constants) -> float | None:
    """Return the p with the least eq. 7 if the run sends the same bits at each p: T k stays, so that T grows as 1/p.

    The noise on an entry stays, too; the privacy of the run is then another one at each p. None if the conditions hold
    at no p.
    """
    entries = run.rounds * run.kept

    def value(ratio: float) -> float:
        kept = max(1, round(ratio * run.dimension))
        return bound_at(run, of, ratio, rounds=max(1, entries // kept))

    return least(ratios(run.dimension), value)
