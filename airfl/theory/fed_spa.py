"""Fed-SPA: theorem 2, with the constants of its proof (appendix F).

Symbols: eta_l and eta_g local and server learning rate, tau local steps, L smoothness, G bound on a sample's gradient
(G/sqrt(d) on its coordinates), zeta_l^2 variance of a mini-batch gradient, zeta_g^2 dissimilarity of the agents, p =
k/d, sigma noise on an entry of a masked gradient, n agents, r of them in a round, kappa and beta_2 of the server,
beta_1 = 0.

The theorem says O(A (Xi + Xi')) with A = sqrt(beta_2) eta_l tau G/sqrt(d) + kappa; the end of appendix F has the factor
8. What does not hold as printed:

- Lemma 9: the noise of S(g + b) = (1/p) rand_k(g + b) has the energy k sigma^2/p^2 = d sigma^2/p, not p d sigma^2:
  the factor 1/p was left off the noise. The least p is then not preferred for its noise.
- One mask is used in all tau steps, so that from the second step on S(g) is no unbiased estimate: theta^{t,s} depends
  on the mask. T_3, lemma 10 and lemma 11 use that it is.
- sqrt(v) <= eta_l tau G/sqrt(d) leaves out that Delta has the factor 1/p, and its noise, which has no bound.
- Assumption 3's G bounds a gradient, so the theorem needs coordinates that are not clipped.

The corrected bound. With P = diag(1/(sqrt(beta_2 v_{t-1}) + kappa)), known before the round, and x_s = theta_i^{t,s} -
theta^t, smoothness gives

    E f(theta^{t+1}) - f(theta^t) <= eta_g E<grad f, P Delta> + [ eta_g sqrt(1 - beta_2) c + L eta_g^2/2 ]
    E||Delta||^2/kappa^2

since |sqrt(v_t) - sqrt(beta_2 v_{t-1})| <= sqrt(1 - beta_2)|Delta| and both denominators are at least kappa; c bounds a
coordinate of grad f. For a mask M_i, E[(1/p) M_i grad f_i(theta^t)] = grad f_i(theta^t), so that only the drift is
biased, and by Young's inequality, entry by entry within the mask,

    E<grad f, P Delta> <= -(eta_l tau/2) ||grad f||_P^2 + (eta_l tau L^2/(2 p kappa)) W,   W >= E||x_s||^2, mean over i
    W = (4 tau eta_l^2/p)(4 tau (||grad f||^2 + zeta_g^2) + zeta_l^2 + d sigma^2)    if eta_l tau L/p <= 1/(2 sqrt 2)

the latter as lemma 4 of PFELS, with E||M grad f_i||^2 = p||grad f_i||^2 and the variance bounded by coordinates
(assumption 2). W = 0 for tau = 1. Splitting Delta into its value without drift, which is unbiased, and the drift,

    E||Delta||^2 <= 2 eta_l^2 [ tau^2 ( ||grad f||^2 + (1/p - 1)(||grad f||^2 + zeta_g^2)/r + s zeta_g^2 )
                                + tau (zeta_l^2 + d sigma^2)/(r p) ] + 2 eta_l^2 tau^2 L^2 W/p^2

with s = (n - r)/(r (n - 1)) of drawing r of n agents. v starts at kappa^2 and is a mean of that and of earlier Delta^2,
so that sqrt(v) of a coordinate is at most the largest of kappa and |Delta|. The noise of a coordinate of Delta is,
given the masks, Gaussian with variance at most nu^2 = eta_l^2 tau sigma^2/(r p^2). In all of T rounds it therefore
stays below x nu except with a probability of at most 2 T exp(-x^2/2), which is set to delta = RARE. With

    A' = sqrt(beta_2) max(eta_l tau c/p + x nu, kappa) + kappa,

1/(sqrt(beta_2 v) + kappa) >= 1/A' for each coordinate except with that probability, where its term of ||grad f||_P^2 is
at least 0. As |grad f| <= c coordinate by coordinate,

    E||grad f||_P^2 >= (E||grad f||^2 - d c^2 delta)/A'.

Collecting the factors of ||grad f||^2 and the rest gives the bound, term by term, if the factor of ||grad f||^2 stays
positive; the largest step is taken where half of it is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.optimize import brentq

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

ERRORS = (
    "Lemma 9 has p d sigma^2 for the energy of the noise, which is d sigma^2/p.",
    "One mask serves all local steps, so that S(g) is biased from the second step on; the proof takes it for unbiased.",
    "sqrt(v) <= eta tau G/sqrt(d) leaves out the factor 1/p of the update, and its noise.",
)
RARE = 1e-6
"""delta, the probability with which the noise may make a coordinate of v exceed its bound in any round."""


@dataclass(frozen=True)
class FedSpa:
    """What theorem 2 needs of a run.

    Attributes:
        step: eta_l, local learning rate.
        server_step: eta_g, server learning rate.
        steps: tau, local steps.
        agents: n, number of agents.
        selected: r, agents of a round.
        kept: k, entries that are trained.
        dimension: d, number of parameters.
        rounds: T, number of rounds.
        noise_std: sigma, standard deviation of the noise on an entry of a mini-batch gradient; 0 for none.
        beta1: beta_1 of the server.
        beta2: beta_2 of the server.
        kappa: kappa of the server.
        coordinate_clip: The bound to which coordinates are clipped; inf for none.
    """

    step: float
    server_step: float
    steps: int
    agents: int
    selected: int
    kept: int
    dimension: int
    rounds: int
    noise_std: float
    beta1: float
    beta2: float
    kappa: float
    coordinate_clip: float = math.inf

    @property
    def ratio(self) -> float:
        """The ratio p = k/d."""
        return self.kept / self.dimension


def coordinate(of: Constants) -> float:
    """Return c = G/sqrt(d), the bound on a coordinate of a gradient; G of the theorem is sqrt(d) times that."""
    return of.coordinate_bound


def largest_step(run: FedSpa, of: Constants) -> float:
    """Return the largest eta_l of theorem 2: min{1/(8 L tau), (1/(8 tau)) min{kappa sqrt(d)/G, (kappa^2 sqrt(d)/(G
    eta_g L))^{1/2}}}."""
    c, length = coordinate(of), of.smoothness
    adaptive = min(run.kappa / c, math.sqrt(run.kappa**2 / (c * run.server_step * length)))
    return min(1 / (8 * length * run.steps), adaptive / (8 * run.steps))


def printed_terms(run: FedSpa, of: Constants) -> dict[str, float]:
    """Return 8 A (Xi + Xi') by what its parts come from: zeta_dp^2 = (G^2 + zeta_l^2)/p + p d sigma^2."""
    c, length, tau, eta = coordinate(of), of.smoothness, run.steps, run.step
    bound = run.dimension * c**2  # G^2
    factor = 8 * (math.sqrt(run.beta2) * eta * tau * c + run.kappa)
    both = run.server_step * length / 2 + c
    drift = 5 * eta**2 * tau * length**2 / (2 * run.kappa) + both * 20 * eta**3 * tau**2 * length**2 / run.kappa**2
    of_variance = drift + both * 4 * eta / (run.agents * run.kappa**2)  # the factor of zeta_dp^2
    whole = bound + of.variance
    return {
        "optimisation": factor * of.initial_gap / (eta * run.server_step * tau * run.rounds),
        "heterogeneity of the agents": factor * drift * 6 * tau * of.dissimilarity,
        "gradients and mini-batches": factor * of_variance * whole,
        "sparsification": factor * of_variance * whole * (1 / run.ratio - 1),
        "noise": factor * of_variance * run.ratio * run.dimension * run.noise_std**2,
    }


def gradient_factor(run: FedSpa, of: Constants) -> float:
    """Return the factor of ||grad f||^2 in the corrected descent, divided by eta_g; the bound needs it positive."""
    divergence, update, gradients, _ = _factors(run, of)
    drift = 16 * run.steps**2 * run.step**2 / run.ratio if run.steps > 1 else 0.0
    spread = 1 + (1 / run.ratio - 1) / run.selected
    return _descent(run, of) - divergence * drift - update * gradients * spread


def _descent(run: FedSpa, of: Constants) -> float:
    """Return eta_l tau/(2 A'), the factor of ||grad f||^2 of an infinitely short step."""
    largest = max(run.step * run.steps * coordinate(of) / run.ratio + largest_noise(run), run.kappa)  # of sqrt(v)
    return run.step * run.steps / (2 * (math.sqrt(run.beta2) * largest + run.kappa))


def largest_noise(run: FedSpa) -> float:
    """Return x nu: the noise on a coordinate of Delta exceeds it in any of T rounds with probability RARE at most."""
    deviation = run.step * math.sqrt(run.steps / run.selected) * run.noise_std / run.ratio  # nu
    return deviation * math.sqrt(2 * math.log(2 * run.rounds / RARE))


def _factors(run: FedSpa, of: Constants) -> tuple[float, float, float, float]:
    """Return, each divided by eta_g, the factors of W, of E||Delta||^2, of its tau^2-part, and of its tau-part."""
    eta, tau, p, length = run.step, run.steps, run.ratio, of.smoothness
    update = (math.sqrt(1 - run.beta2) * coordinate(of) + length * run.server_step / 2) / run.kappa**2
    divergence = eta * tau * length**2 / (2 * p * run.kappa) + update * 2 * eta**2 * tau**2 * length**2 / p**2
    return divergence, update, 2 * eta**2 * tau**2, 2 * eta**2 * tau / (run.selected * p)


def corrected_terms(run: FedSpa, of: Constants) -> dict[str, float]:
    """Return the terms of the corrected bound; inf where the step is too long for it."""
    divergence, update, gradients, variances = _factors(run, of)
    left = gradient_factor(run, of)
    if left <= 0:
        return dict.fromkeys(printed_terms(run, of), math.inf)
    eta, tau, p = run.step, run.steps, run.ratio
    sampling = (run.agents - run.selected) / (run.selected * max(run.agents - 1, 1))
    drift = 4 * tau * eta**2 / p if tau > 1 else 0.0
    variance = divergence * drift + update * variances
    unsparse = _variance_without_masks(run, of)
    return {
        "optimisation": of.initial_gap / (run.server_step * run.rounds * left),
        "heterogeneity of the agents": of.dissimilarity
        * (divergence * drift * 4 * tau + update * gradients * sampling)
        / left,
        "gradients and mini-batches": unsparse * of.variance / left,
        "sparsification": (
            of.dissimilarity * update * gradients * (1 / p - 1) / run.selected + (variance - unsparse) * of.variance
        )
        / left,
        "noise": (
            variance * run.dimension * run.noise_std**2
            + (_descent(run, of) * run.dimension * coordinate(of) ** 2 * RARE if run.noise_std else 0.0)
        )
        / left,
    }


def _variance_without_masks(run: FedSpa, of: Constants) -> float:
    """Return the factor of zeta_l^2 at p = 1."""
    whole = replace(run, kept=run.dimension)
    divergence, update, _, variances = _factors(whole, of)
    drift = 4 * run.steps * run.step**2 if run.steps > 1 else 0.0
    return divergence * drift + update * variances


def largest_step_corrected(run: FedSpa, of: Constants) -> float:
    """Return the largest eta_l at which the factor of ||grad f||^2 is at least half of that of a short step, and eta_l
    tau L/p <= 1/(2 sqrt 2)."""

    def excess(exponent: float) -> float:
        there = replace(run, step=math.exp(exponent))
        return gradient_factor(there, of) / _descent(there, of) - 0.5

    most = math.log(run.ratio / (2 * math.sqrt(2) * run.steps * of.smoothness))
    if excess(most) >= 0:
        return math.exp(most)
    return math.exp(float(brentq(excess, most - 60, most)))


def theorem_2(run: FedSpa, of: Constants) -> Bound:
    """Return the bound of theorem 2 for a run, with the factor 8 of its proof."""
    printed, corrected = printed_terms(run, of), corrected_terms(run, of)
    largest, proven = largest_step(run, of), largest_step_corrected(run, of)
    conditions = (
        step_condition(run.step, largest, "printed"),
        step_condition(run.step, proven, "corrected"),
        Condition("server momentum beta_1", f"{run.beta1:g}", "0", run.beta1 == 0),
        Condition(
            "agents of a round r",
            f"{run.selected}",
            f"all {run.agents}",
            run.selected == run.agents,
            "printed",
        ),
        Condition(
            "no coordinate is clipped, G/sqrt(d)",
            f"{coordinate(of):.4g}",
            f"at most {run.coordinate_clip:.4g}",
            coordinate(of) <= run.coordinate_clip,
        ),
    )
    return Bound(
        theorem="Fed-SPA, theorem 2 with the factor 8 of appendix F",
        terms=tuple(Term(name, value, corrected[name]) for name, value in printed.items()),
        conditions=conditions,
        largest_step=largest,
        largest_step_corrected=proven,
        preferred_ratio=preferred_ratio(run, of),
        errors=ERRORS,
    )


def preferred_ratio(run: FedSpa, of: Constants) -> PreferredRatio:
    """Return the p with the least bound, of those at which the step is allowed.

    The noise sigma on an entry is taken as C sqrt(p) with C as in the run, since the sensitivity of a masked gradient
    grows as sqrt(p) at the same privacy.
    """

    def of_version(version: Version) -> Callable[[float], float]:
        def value(ratio: float) -> float:
            kept = max(1, round(ratio * run.dimension))
            noise = run.noise_std * math.sqrt(ratio / run.ratio)
            there = replace(run, kept=kept, noise_std=noise)
            largest = largest_step(there, of) if version == "printed" else largest_step_corrected(there, of)
            if run.step > largest:
                return math.inf
            found = printed_terms(there, of) if version == "printed" else corrected_terms(there, of)
            return math.fsum(found.values())

        return value

    return preferred(
        ratios(run.dimension),
        {"printed": of_version("printed"), "corrected": of_version("corrected")},
        "noise on an entry grows as sqrt(p), as for the same privacy; compression saves bits, which the bound does not "
        "count",
    )
