"""Truncated inversion with pre-scalers from the statistics of fading: each device arrives with its own strength."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from channels.part import parameter
from channels.power.aligned import carried, invert, reach, unbounded
from channels.power.plan import Array, Policy, PowerPlan, PowerTask

Survival = Callable[[Array], Array]

# Thresholds on |g|/sqrt(E|g|^2) that are tried first. Below the first, hardly a fade is lost.
GRID = np.geomspace(1e-4, 1e2, 700)
# Values of beta that are tried first, steps of the golden sections around the best, and halvings of a threshold.
COARSE, STEPS, HALVINGS = 64, 36, 60
GOLDEN = (np.sqrt(5) - 1) / 2
# Relative lowering of a threshold, so that an atom of the law is included despite rounding to single precision.
BELOW_ATOM = 1 - 1e-6


class StatisticalTruncation(Policy):
    """A device inverts its channel to its own pre-scaler gamma_i if its limit allows that at present, or is silent.

    Source: M. F. Ul Abrar, N. Michelusi, "Biased Over-the-Air Federated Learning under Wireless Heterogeneity", arXiv
    2403.19849 (2024). Pre-scalers and the receiver's post-scaler follow from mean powers and the law of fading, which
    the server knows; a device knows its own channel. Device i is received with gamma_i where |g_i| >= gamma_i
    rms_i/sqrt(limit_i), with probability pi_i, so that alpha_i = gamma_i pi_i is its mean strength. The error of the
    noisy sum of independent messages has the mean, over the fading,

        sum_i rms_i^2 (pi_i (gamma_i/beta - 1)^2 + 1 - pi_i) + noise/beta^2,

    which is bias, sum_i rms_i^2 (alpha_i/beta - 1)^2, plus the variance of truncation and noise. `prescalers`:

    - "least-error": its minimum over beta and all gamma_i. For a given beta, each device has a problem of its own in
      gamma_i <= beta, and for given gamma_i the best beta is a quotient. The best beta of a grid is improved until both
      agree (Brent's method), and each gamma_i is found on a grid and then by golden sections.
    - "unbiased": its minimum among those with alpha_i = beta for all devices, by a search over that value.
    - "least-noise": the largest alpha_i for each device, and beta = sum_i rms_i alpha_i/sum_i rms_i, so that the
      strengths have the weighted mean 1 ("minimum noise variance" of the source).
    - "least-noise-unbiased": alpha_i = beta for all devices, the largest that every device can have ("minimum noise
      variance zero-bias").

    A privacy bound is a bound on gamma_i. Over a selective channel, each coefficient is truncated by itself. Without a
    device that can send, beta is the privacy bound, or 1 if there is none. `plan` raises ValueError if the law of
    fading is not known.
    """

    name = "statistical-truncation"
    source = "Abrar, Michelusi 2024, truncated inversion with pre-scalers from statistical CSI"
    within_beta = False
    statistical = True

    prescalers: Literal["least-error", "unbiased", "least-noise", "least-noise-unbiased"] = parameter(
        default="least-error",
        key="prescalers",
        description="how the strengths with which devices arrive follow from the statistics of their channels "
        "(statistical-truncation): the least squared error, with a bias; the least without bias; the least noise; the "
        "least noise without bias",
    )

    def plan(self, task: PowerTask) -> PowerPlan:
        """Return inversion to the pre-scalers where the limit allows it."""
        rms_gains = np.sqrt(task.mean_power)
        # gamma_i at the threshold |g_i|^2 = E|g_i|^2.
        scales = reach(rms_gains, task.energy_limits, task.rms_norms)
        counts, free = np.isfinite(scales) & (scales > 0), unbounded(task)
        prescalers, coefficient = np.zeros(len(scales)), free.coefficient
        if counts.any():
            strengths, coefficient = _designed(
                self.prescalers,
                tuple(scales[counts]),
                tuple(task.rms_norms[counts]),
                float((task.rms_norms[scales == 0] ** 2).sum()),
                task.noise_energy,
                task.privacy_bound,
                self._law(task),
            )
            prescalers[counts] = strengths
        prescalers[np.isinf(scales)] = min(coefficient, task.privacy_bound)  # nothing is sent, at no cost
        thresholds = np.divide(prescalers * rms_gains, scales, out=np.zeros(len(scales)), where=counts)
        used = carried(task.gains, task.weights) & (task.gains >= thresholds[:, None, None])
        private = counts & (prescalers >= task.privacy_bound * (1 - ROUNDING))
        return PowerPlan(
            amplitudes=invert(task.gains, prescalers[:, None, None], used & (prescalers > 0)[:, None, None]),
            coefficient=np.full((1, 1), coefficient),
            power_bound_binding=bool(counts.any() and not private.all()),
            privacy_bound_binding=bool(private.any()) or (not counts.any() and free.privacy_bound_binding),
        )

    def _law(self, task: PowerTask) -> Survival:
        if task.survival is None:
            raise ValueError(
                f"prescalers {self.prescalers!r} need the law of fading, which is not known here; use another policy"
            )
        return task.survival


# Relative difference up to which a pre-scaler is at the privacy bound; above that of BELOW_ATOM.
ROUNDING = 1e-5


@dataclass(frozen=True)
class _Problem:
    """The choice of pre-scalers gamma_i = scales_i u_i by thresholds u_i on |g_i|/sqrt(E|g_i|^2).

    Attributes:
        scales: sqrt(E|g_i|^2 limit_i)/rms_i, [devices], positive.
        rms_norms: sqrt(E||m_i||^2), [devices], positive.
        lost: Sum of rms_i^2 of devices that cannot send.
        noise_energy: Energy of the noise on all observed entries.
        bound: Largest gamma_i.
        survival: P(|g|^2 >= t E|g|^2) at t.
    """

    scales: Array
    rms_norms: Array
    lost: float
    noise_energy: float
    bound: float
    survival: Survival

    @property
    def powers(self) -> Array:
        """rms_i^2, [devices]."""
        return np.asarray(self.rms_norms**2)

    @property
    def highest(self) -> Array:
        """The largest threshold within the privacy bound, [devices]."""
        return np.asarray(self.bound / self.scales)

    def shares(self, thresholds: Array) -> Array:
        """pi_i, probability of transmission, [devices]."""
        return np.asarray(self.survival(thresholds**2))

    def error(self, thresholds: Array, coefficient: float) -> float:
        """The squared error of the sum."""
        shares, relative = self.shares(thresholds), self.scales * thresholds / coefficient
        devices = self.powers @ (shares * (relative - 1) ** 2 + 1 - shares)
        return float(devices + self.lost + self.noise_energy / coefficient**2)

    def best_coefficient(self, thresholds: Array) -> float:
        """beta of the least error for these thresholds."""
        received, strengths = self.powers * self.shares(thresholds), self.scales * thresholds
        return float((received @ strengths**2 + self.noise_energy) / (received @ strengths))


@functools.lru_cache(maxsize=8)
def _on_grid(survival: Survival) -> Array:
    """Survival on `GRID`. Cached, as a run has one law."""
    return np.asarray(survival(GRID**2))


def _strongest(problem: _Problem) -> Array:
    """Thresholds of the largest alpha_i = scales_i u S(u), [devices]."""
    values = np.where(problem.highest[:, None] >= GRID, GRID * _on_grid(problem.survival), -1.0)

    def strength(thresholds: Array) -> Array:
        return thresholds * problem.shares(thresholds)

    return _refined(strength, np.argmax(values, axis=1), problem.highest)


def _refined(value: Callable[[Array], Array], best: NDArray[np.int64], highest: Array) -> Array:
    """Return the thresholds of the largest values near the best of `GRID`, at most `highest`, by golden sections."""
    low = np.minimum(GRID[np.maximum(best - 1, 0)] * (best > 0), highest)
    high = np.minimum(GRID[np.minimum(best + 1, len(GRID) - 1)], highest)
    edges = np.minimum(GRID[best], highest), high
    for _ in range(STEPS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        up = value(left) < value(right)
        low, high = np.where(up, left, low), np.where(up, high, right)
    # The law may have its best value at a step, on which a section does not end.
    found = np.stack([low, high, *edges])
    values = np.stack([value(one) for one in found])
    return np.asarray(np.take_along_axis(found, values.argmax(axis=0)[None], axis=0)[0])


def _best_on_grid(problem: _Problem, coefficient: float) -> tuple[NDArray[np.int64], float]:
    """Return the best of `GRID` for each device at this beta, [devices], and the error."""
    ratios, highest = problem.scales / coefficient, _highest(problem, coefficient)
    shares, relative = _on_grid(problem.survival), ratios[:, None] * GRID
    gains = np.where(highest[:, None] >= GRID, shares * relative * (2 - relative), 0.0)
    best = np.argmax(gains, axis=1)
    at_end = np.interp(highest, GRID, shares, left=1.0, right=0.0) * ratios * highest * (2 - ratios * highest)
    gained = np.maximum(gains[np.arange(len(best)), best], at_end)
    return best, float(problem.powers @ (1 - gained) + problem.lost + problem.noise_energy / coefficient**2)


def _highest(problem: _Problem, coefficient: float) -> Array:
    """The largest thresholds within the privacy bound at which gamma_i <= beta, [devices]. More only loses fades."""
    return np.minimum(problem.highest, coefficient / problem.scales)


def _thresholds(problem: _Problem, coefficient: float) -> Array:
    """Return the best thresholds for this beta, [devices]."""
    ratios, highest = problem.scales / coefficient, _highest(problem, coefficient)

    def gains(thresholds: Array) -> Array:
        """By how much of rms_i^2 the error is smaller than if a device were silent."""
        return np.asarray(problem.shares(thresholds) * ratios * thresholds * (2 - ratios * thresholds))

    refined = _refined(gains, _best_on_grid(problem, coefficient)[0], highest)
    return np.where(gains(highest) > gains(refined), highest, refined)


def _least_error(problem: _Problem) -> tuple[Array, float]:
    """Pre-scalers and beta of the least error."""
    strongest = _strongest(problem)
    received = problem.powers * problem.shares(strongest)
    strengths = problem.scales * strongest
    # With the largest alpha_i, the error falls by M1^2/(M2 + noise). Since no choice of thresholds has a larger sum
    # than M1, and the best falls by no less, its beta is at most (M2 + noise)/M1. As noise/beta^2 is at most the error
    # of receiving nothing, beta is at least sqrt(noise/sum_i rms_i^2).
    high = float((received @ strengths**2 + problem.noise_energy) / (received @ strengths))
    low = min(np.sqrt(problem.noise_energy / problem.powers.sum()), high)
    betas = np.geomspace(max(low, high * LEAST), high, COARSE)
    index = int(np.argmin([_best_on_grid(problem, float(beta))[1] for beta in betas]))
    left, right = np.log(betas[max(index - 1, 0)]), np.log(betas[min(index + 1, COARSE - 1)])

    def falls(exponent: float) -> float:
        """Positive where the error falls with beta: log of the best beta for the thresholds that are best for beta."""
        return float(np.log(problem.best_coefficient(_thresholds(problem, float(np.exp(exponent))))) - exponent)

    exponent = np.log(betas[index])
    if falls(left) > 0 > falls(right):
        exponent = brentq(falls, left, right, xtol=CONVERGED)
    thresholds = _thresholds(problem, float(np.exp(exponent)))
    thresholds = thresholds * BELOW_ATOM
    return problem.scales * thresholds, problem.best_coefficient(thresholds)


# Without noise the best beta is 0; the smallest that is tried, relative to the largest.
LEAST = 1e-9
# Change of log(beta) that ends the search.
CONVERGED = 1e-10


def _section(value: Callable[[float], float], low: float, high: float) -> float:
    """Return the place of the least value between the ends, by golden sections."""
    for _ in range(STEPS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if value(left) <= value(right) else (left, high)
    return (low + high) / 2


def _with_strength(problem: _Problem, strongest: Array, strength: float) -> Array:
    """Return the thresholds below `strongest` at which all alpha_i equal `strength`, [devices]."""
    low, high = np.zeros(len(strongest)), strongest.copy()
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        less = problem.scales * middle * problem.shares(middle) < strength
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return high


def _least_noise(problem: _Problem) -> tuple[Array, float]:
    """Pre-scalers of the largest alpha_i, and beta as their mean, weighted as the messages are."""
    thresholds = _strongest(problem) * BELOW_ATOM
    strengths = problem.scales * thresholds
    weights = problem.rms_norms / problem.rms_norms.sum()
    return strengths, float(weights @ (strengths * problem.shares(thresholds)))


def _least_noise_unbiased(problem: _Problem) -> tuple[Array, float]:
    """Pre-scalers at which all alpha_i are the largest value that every device can have, and beta as this value."""
    strongest = _strongest(problem) * BELOW_ATOM
    strength = float((problem.scales * strongest * problem.shares(strongest)).min())
    return problem.scales * _with_strength(problem, strongest, strength), strength


def _unbiased(problem: _Problem) -> tuple[Array, float]:
    """Pre-scalers and beta of the least error among those with alpha_i = beta."""
    strongest = _strongest(problem) * BELOW_ATOM
    most = float((problem.scales * strongest * problem.shares(strongest)).min())
    # Along the grid, up to its largest value, alpha_i/scales_i as an increasing function of the threshold.
    rising = np.maximum.accumulate(GRID * _on_grid(problem.survival))

    def error(exponent: float) -> float:
        strength = float(np.exp(exponent))
        thresholds = np.minimum(np.interp(strength / problem.scales, rising, GRID), strongest)
        # The error at these strengths: sum_i rms_i^2 (1/pi_i - 1) + noise/beta^2, with pi_i = alpha_i/gamma_i.
        return float(problem.powers @ (problem.scales * thresholds / strength - 1) + problem.noise_energy / strength**2)

    # At a strength s the noise alone contributes noise/s^2, so that none below s0 can be better than the largest.
    low = np.sqrt(problem.noise_energy / error(np.log(most)))
    grid = np.log(np.geomspace(min(max(float(low), most * LEAST), most), most, COARSE))
    index = int(np.argmin([error(float(one)) for one in grid]))
    place = _section(error, grid[max(index - 1, 0)], grid[min(index + 1, len(grid) - 1)])
    strength = most if error(grid[-1]) <= error(place) else float(np.exp(place))
    return problem.scales * _with_strength(problem, strongest, strength), strength


_DESIGNS: dict[str, Callable[[_Problem], tuple[Array, float]]] = {
    "least-error": _least_error,
    "unbiased": _unbiased,
    "least-noise": _least_noise,
    "least-noise-unbiased": _least_noise_unbiased,
}


# Cached, since a run in which all devices take part has one design.
@functools.lru_cache(maxsize=32)
def _designed(
    name: str,
    scales: tuple[float, ...],
    rms_norms: tuple[float, ...],
    lost: float,
    noise_energy: float,
    bound: float,
    survival: Survival,
) -> tuple[Array, float]:
    """Return the pre-scalers of a design, [devices], read-only, and beta. Arguments as in `_Problem`."""
    problem = _Problem(np.array(scales), np.array(rms_norms), lost, noise_energy, bound, survival)
    prescalers, coefficient = _DESIGNS[name](problem)
    prescalers.flags.writeable = False
    return prescalers, coefficient
