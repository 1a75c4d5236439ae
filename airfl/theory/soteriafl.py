"""SoteriaFL: theorem 1 (CDP-SGD), theorem 3, lemma 1 and corollaries 1 to 3.

Symbols: eta step size, L smoothness of every sample's function, G bound on a sample's gradient, n clients, m samples of
each, b mini-batch, omega = d/k - 1 of the compressor, sigma_p noise on every entry of a gradient, tau = (1 +
omega)^{3/2}/n^{1/2} (not a number of local steps), p probability with which SVRG's snapshot moves (not a ratio).

What does not hold as printed:

- C_2 = (m - b)G^2/(m b) of lemma 1, and the same term of theorem 1, are of mini-batches in which every sample is drawn
  by a coin of its own (eq. 42, 48). For b of m samples without replacement, which the algorithm draws, the variance can
  be (m - b)G^2/((m - 1) b), larger by m/(m - 1). With replacement it can be G^2/b.
- SAGA: E_t Delta^{t+1} (eq. 54) takes the choice of the samples whose table entry moves for independent of x^{t+1},
  which is computed from them. Young's inequality without the expectation inside, ||x^{t+1} - w||^2 <= (1 +
  b/(2m))||x^t - w||^2 + (1 + 2m/b)||x^{t+1} - x^t||^2, gives (3c) with theta = b/(2m), C_3 = 0 and C_4 = 1 + 2m/b. The
  bound stays, its largest step does not; that of corollary 3 still meets it.
- Corollary 1: with its beta = tau/(2(1 + omega)) the utility is G sqrt((1 + omega)L d log(1/delta))/(sqrt(n) m eps)
  times (1 + 2 tau)/sqrt(2 tau), which is not O(1 + sqrt(tau)) for tau < 1, the case that the paper calls typical. With
  beta = min(tau, tau^2)/(2(1 + omega)) and the step of theorem 3 it is.
- Corollary 2: its step violates theorem 3's condition where omega is small and tau near 1 (omega = 1, n = 8, for
  instance), since 12(1 - p)beta/((1 + omega)p^2 b) times eta L is 6 min{1, tau^2} min{1, 1/tau}/(1 + omega)^2, which
  need not be below 1.

Theorem 3 itself follows from Assumption 3 as printed (lemmas 6 to 8), and theorem 1 from its lemma 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from scipy.optimize import brentq

from airfl.privacy.soteriafl import Estimator, noise_std
from airfl.theory.bound import Bound, Condition, Constants, PreferredRatio, Term, Version, preferred, step_condition

ESTIMATOR_ERRORS: dict[Estimator, tuple[str, ...]] = {
    "sgd": (
        "C_2 = (m - b)G^2/(m b) is of samples drawn by independent coins; without replacement it is "
        "(m - b)G^2/((m - 1) b), with replacement G^2/b.",
    ),
    "svrg": (),
    "gd": (),
    "saga": (
        "(3c) takes the choice of the table's entries for independent of x^{t+1}; C_4 = 1 + 2m/b and C_3 = 0 instead.",
    ),
}


@dataclass(frozen=True)
class Soteria:
    """What theorems 1 and 3 need of a run.

    Attributes:
        estimator: The gradient estimator, "gd", "sgd", "svrg" or "saga".
        shifted: Whether the compression is shifted (SoteriaFL) or direct (CDP-SGD).
        step: eta, step size.
        clients: n, all of which take part in every round.
        samples: m, samples of a client.
        batch: b, samples of a mini-batch; m for "gd".
        dimension: d, number of parameters.
        kept: k, entries that are sent; omega = d/k - 1.
        rounds: T, number of rounds.
        noise_std: sigma_p, standard deviation of the noise on every entry of a gradient.
        refresh: p, probability that SVRG's snapshot moves.
        replacement: Whether a mini-batch is drawn with replacement.
        gradient_clip: The bound to which gradients are clipped; inf for none.
        shift_step: gamma of the shift; None for that of the theorem.
    """

    estimator: Estimator
    shifted: bool
    step: float
    clients: int
    samples: int
    batch: int
    dimension: int
    kept: int
    rounds: int
    noise_std: float
    refresh: float = 1.0
    replacement: bool = False
    gradient_clip: float = math.inf
    shift_step: float | None = None

    @property
    def omega(self) -> float:
        """omega = d/k - 1 of rand-k (example 1)."""
        return self.dimension / self.kept - 1

    @property
    def tau(self) -> float:
        """tau = (1 + omega)^{3/2}/n^{1/2}."""
        return math.sqrt((1 + self.omega) ** 3 / self.clients)


@dataclass(frozen=True)
class Estimate:
    """The constants of Assumption 3 (lemma 1); C_3 is divided by eta^2.

    Attributes:
        g_a: G_A.
        g_b: G_B.
        c1: C_1.
        c2: C_2.
        c3: C_3/eta^2.
        c4: C_4.
        theta: theta.
    """

    g_a: float
    g_b: float
    c1: float
    c2: float
    c3: float
    c4: float
    theta: float


def batch_variance(run: Soteria, gradient_bound: float, version: Version) -> float:
    """Return C_2 of a mini-batch gradient: printed (m - b)G^2/(m b), corrected for how the samples are drawn."""
    m, b, square = run.samples, run.batch, gradient_bound**2
    if version == "printed":
        return (m - b) * square / (m * b)
    if run.replacement:
        return square / b
    return (m - b) * square / ((m - 1) * b) if m > b else 0.0


def lemma_1(run: Soteria, of: Constants, version: Version) -> Estimate:
    """Return the constants of Assumption 3 for the estimator of the run."""
    m, b, bound, length = run.samples, run.batch, of.gradient_bound, of.smoothness
    if run.estimator in ("gd", "sgd"):
        return Estimate(bound, 0.0, 0.0, batch_variance(run, bound, version), 0.0, 0.0, 1.0)
    if run.estimator == "svrg":
        p = run.refresh
        return Estimate(2 * bound, bound, length**2 / b, 0.0, 2 * (1 - p) / p, 1.0, p / 2)
    if version == "printed":
        return Estimate(2 * bound, bound, length**2 / b, 0.0, 2 * (m - b) / b, 1.0, b / (2 * m))
    return Estimate(2 * bound, bound, length**2 / b, 0.0, 0.0, 1 + 2 * m / b, b / (2 * m))


def alpha(run: Soteria, of: Constants, estimate: Estimate, beta: float) -> float:
    """Return alpha = 3 beta C_1/(2(1 + omega) theta L^2) of theorem 3."""
    return 3 * beta * estimate.c1 / (2 * (1 + run.omega) * estimate.theta * of.smoothness**2)


def limits(run: Soteria, of: Constants, beta: float, version: Version) -> tuple[float, float]:
    """Return the two limits on eta of theorem 3 for this beta: the first falls with beta, the second rises. C_3/eta^2
    does not depend on eta."""
    estimate = lemma_1(run, of, version)
    scale, size = alpha(run, of, estimate, beta), 1 + run.omega
    common = 1 + 2 * scale * estimate.c4 + 4 * beta * size
    first = 1 / ((common + 2 * scale * estimate.c3) * of.smoothness)
    return first, math.sqrt(beta * run.clients / common) / (size * of.smoothness)


def best_beta(run: Soteria, of: Constants, version: Version) -> float | None:
    """Return the beta with the least bound of those that allow the run's step; None if none does.

    The bound grows with beta, in its noise and in Phi_0, so it is the smallest that allows the step: that of the second
    limit, (eta (1 + omega) L)^2 (1 + c beta) <= beta n, if the first limit allows the step, too.
    """
    square = (run.step * (1 + run.omega) * of.smoothness) ** 2
    slope = 2 * alpha(run, of, estimate := lemma_1(run, of, version), 1.0) * estimate.c4 + 4 * (1 + run.omega)
    if run.clients <= square * slope:
        return None
    beta = square / (run.clients - square * slope)
    return beta if limits(run, of, beta, version)[0] >= run.step else None


def largest_step(run: Soteria, of: Constants, version: Version) -> float:
    """Return the largest eta that theorem 3 allows for some beta: where its two limits are equal."""

    def excess(exponent: float) -> float:
        first, second = limits(run, of, math.exp(exponent), version)
        return math.log(first / second)

    return limits(run, of, math.exp(float(brentq(excess, -60.0, 60.0))), version)[0]


def theorem_3_terms(run: Soteria, of: Constants) -> tuple[Term, ...]:
    """Return 2 Phi_0/(eta T) + 3 beta/((1 + omega) L eta) (C_2 + d sigma_p^2) term by term, at the best beta of each
    version; inf where no beta allows the step."""
    values: dict[str, list[float]] = {"optimisation": [], "shift": [], "variance of mini-batches": [], "noise": []}
    versions: tuple[Version, Version] = ("printed", "corrected")
    for version in versions:
        beta = best_beta(run, of, version)
        if beta is None:
            found = [math.inf] * len(values)
        else:
            estimate, factor = lemma_1(run, of, version), 3 * beta / ((1 + run.omega) * of.smoothness * run.step)
            # Delta^0 = 0: SVRG's snapshot and SAGA's table begin at x^0; the shift begins at 0.
            found = [
                2 * of.initial_gap / (run.step * run.rounds),
                2 * beta * of.initial_shift / (of.smoothness * run.step * run.rounds),
                factor * estimate.c2,
                factor * run.dimension * run.noise_std**2,
            ]
        for name, value in zip(values, found, strict=True):
            values[name].append(value)
    return tuple(Term(name, *both) for name, both in values.items())


def theorem_3(run: Soteria, of: Constants) -> Bound:
    """Return theorem 3 for a run of SoteriaFL, with the beta that makes it least."""
    printed, corrected = (largest_step(run, of, version) for version in ("printed", "corrected"))
    gamma = math.sqrt((1 + 2 * run.omega) / (2 * (1 + run.omega) ** 3))
    same = run.shift_step is None or math.isclose(run.shift_step, gamma, rel_tol=1e-9)
    shift = Condition("shift step gamma", f"{gamma if same else run.shift_step:.4g}", f"{gamma:.4g}", same)
    return Bound(
        theorem=f"SoteriaFL, theorem 3 with lemma 1 ({run.estimator.upper()})",
        terms=theorem_3_terms(run, of),
        conditions=(
            step_condition(run.step, printed, "printed"),
            step_condition(run.step, corrected, "corrected"),
            shift,
            unclipped(run, of),
        ),
        largest_step=printed,
        largest_step_corrected=corrected,
        preferred_ratio=_preference(run, lambda there, version: largest_step(there, of, version)),
        errors=(*ESTIMATOR_ERRORS[run.estimator], *_corollary_errors(run.estimator)),
    )


def _corollary_errors(estimator: Estimator) -> tuple[str, ...]:
    if estimator in ("gd", "sgd"):
        return ("Corollary 1's beta gives (1 + 2 tau)/sqrt(2 tau), not O(1 + sqrt(tau)), for tau < 1.",)
    return (
        ("Corollary 2's step need not meet theorem 3's condition where omega is small and tau near 1.",)
        if estimator == "svrg"
        else ()
    )


def theorem_1(run: Soteria, of: Constants) -> Bound:
    """Return theorem 1's bound with its constants (eq. 46, first line) for a run of CDP-SGD."""
    omega, factor, bound = run.omega, of.smoothness * run.step / run.clients, of.gradient_bound
    printed, corrected = (batch_variance(run, bound, version) for version in ("printed", "corrected"))
    optimisation = 2 * of.initial_gap / (run.step * run.rounds)
    compression = factor * omega * bound**2
    noise = factor * (1 + omega) * run.dimension * run.noise_std**2
    return Bound(
        theorem="SoteriaFL, theorem 1 (CDP-SGD, eq. 46)",
        terms=(
            Term("optimisation", optimisation, optimisation),
            Term("compression", compression, compression),
            Term("variance of mini-batches", factor * (1 + omega) * printed, factor * (1 + omega) * corrected),
            Term("noise", noise, noise),
        ),
        conditions=(step_condition(run.step, 1 / of.smoothness), unclipped(run, of)),
        largest_step=1 / of.smoothness,
        largest_step_corrected=1 / of.smoothness,
        preferred_ratio=_preference(run, lambda there, version: 1 / of.smoothness),
        errors=ESTIMATOR_ERRORS["sgd"],
    )


def _preference(run: Soteria, largest: Callable[[Soteria, Version], float]) -> PreferredRatio:
    """Return p = 1, at which the bound is least and the largest step longest, where it allows the step of the run."""
    whole = replace(run, kept=run.dimension)

    def at(version: Version) -> Callable[[float], float]:
        return lambda ratio: 1.0 if run.step <= largest(whole, version) else math.inf

    why = "every term of omega = d/k - 1 falls with k; compression saves bits, it does not help the bound"
    return preferred([1.0], {"printed": at("printed"), "corrected": at("corrected")}, why)


def unclipped(run: Soteria, of: Constants) -> Condition:
    """Return the condition that no gradient is clipped, so that the estimate is unbiased."""
    return Condition(
        "no gradient is clipped, G",
        f"{of.gradient_bound:.4g}",
        f"at most {run.gradient_clip:.4g}",
        of.gradient_bound <= run.gradient_clip,
    )


@dataclass(frozen=True)
class Corollary:
    """What a corollary sets for an epsilon and delta of the whole run, with all constants.

    Attributes:
        name: Which one.
        beta: beta of theorem 3; nan for theorem 1.
        step: eta, step size.
        batch: b, samples of a mini-batch.
        rounds: T, number of rounds.
        noise_std: sigma_p.
        bound: The bound of theorem 1 or 3 at these, with all constants, printed.
        order: What stands in the O(.) of the corollary.
        step_allowed: Whether theorem 3's condition allows the step.
    """

    name: str
    beta: float
    step: float
    batch: int
    rounds: int
    noise_std: float
    bound: float
    order: float
    step_allowed: bool


def corollary(run: Soteria, of: Constants, epsilon: float, delta: float, constant: float) -> Corollary:
    """Return what the corollary of the estimator (theorem 1 for direct compression) sets for (epsilon, delta).

    Args:
        run: The run; its step, batch, rounds and noise are not used.
        of: Constants of the objective.
        epsilon: Target epsilon of the whole run.
        delta: Target delta.
        constant: c of theorem 2 (eq. 4), which the paper does not say.
    """
    size, m, n, length, bound = 1 + run.omega, run.samples, run.clients, of.smoothness, of.gradient_bound
    spread = run.dimension * math.log(1 / delta)  # d log(1/delta)
    order = bound * math.sqrt(size * length * spread) / (math.sqrt(n) * m * epsilon)
    tau = run.tau
    if not run.shifted:
        c = constant / 4
        first = m * epsilon * math.sqrt(n * length * of.initial_gap) / (bound * math.sqrt(size * c * spread))
        rounds = max(1, math.ceil(max(first, (m * epsilon) ** 2 / (c * spread))))
        step = min(
            1 / length,
            math.sqrt(n * of.initial_gap * c * spread) / (bound * m * epsilon * math.sqrt(size * length)),
        )
        beta, batch, name, allowed = math.nan, run.batch, "theorem 1", step <= 1 / length * (1 + 1e-9)
        chosen = _chosen(run, step, batch, rounds, run.refresh, of, (epsilon, delta, constant))
        value = theorem_1(chosen, of).printed
    else:
        least_one = min(1.0, 1 / tau**2)
        refresh = run.refresh
        if run.estimator in ("gd", "sgd"):
            name, beta, step = "corollary 1", tau / (2 * size), 1 / ((1 + 2 * tau) * length)
            wanted = m * epsilon * bound * math.sqrt(beta) / math.sqrt(size * length * spread)
            batch = m if run.estimator == "gd" else max(1, min(m, math.ceil(wanted)))
            order *= 1 + math.sqrt(tau)
        elif run.estimator == "svrg":
            name, batch = "corollary 2", max(1, math.floor(m ** (2 / 3) / 4 + 1e-9))
            refresh = batch / m
            slow = refresh ** (2 / 3) * batch ** (1 / 3)
            beta, step = slow**2 * size**2 * least_one / n, slow * min(1.0, 1 / tau) / (2 * length)
        else:
            name, batch = "corollary 3", max(1, min(m, math.ceil(3 * m ** (2 / 3) - 1e-9)))
            beta, step = size**2 * least_one / (3 * n), min(1.0, 1 / tau) / (3 * length)
        at = _chosen(run, step, batch, run.rounds, refresh, of, (epsilon, delta, constant))
        estimate = lemma_1(at, of, "printed")
        potential = of.initial_gap + beta * of.initial_shift / length  # Phi_0
        share = constant * spread * (estimate.g_a**2 / 4 + estimate.g_b**2)
        first = m * epsilon * math.sqrt(2 * size * length * potential / (3 * beta * share))
        rounds = max(1, math.ceil(max(first, estimate.c2 * (m * epsilon) ** 2 / share)))  # eq. 5
        chosen = _chosen(run, step, batch, rounds, refresh, of, (epsilon, delta, constant))
        allowed = step <= min(limits(chosen, of, beta, "printed")) * (1 + 1e-9)
        value = 2 * potential / (step * rounds) + 3 * beta / (size * length * step) * (
            estimate.c2 + run.dimension * chosen.noise_std**2
        )
    return Corollary(name, beta, step, batch, rounds, chosen.noise_std, value, order, allowed)


def _chosen(
    run: Soteria,
    step: float,
    batch: int,
    rounds: int,
    refresh: float,
    of: Constants,
    privacy: tuple[float, float, float],
) -> Soteria:
    """Return the run with a corollary's choices, and the noise of theorem 2 for them."""
    epsilon, delta, constant = privacy
    noise = noise_std(epsilon, run.estimator, of.gradient_bound, rounds, run.samples, delta, constant)
    return replace(
        run,
        step=step,
        batch=batch,
        rounds=rounds,
        noise_std=noise,
        refresh=refresh,
        replacement=False,
        gradient_clip=math.inf,
        shift_step=None,
    )
