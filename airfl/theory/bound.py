"""A convergence bound as numbers: its terms, the conditions that it is proven under, and the constants that it needs.

Every theorem of the four papers bounds the same quantity, the mean over the rounds of the expected squared norm of the
objective's gradient, (1/T) sum_t E||grad f(theta^t)||^2 for t = 0 ... T - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

Version = Literal["printed", "corrected"]
"""A bound as its paper prints it, or as it can be proven."""

POINTS = 400
"""Number of ratios between 1/d and 1 among which the preferred one is looked for."""


@dataclass(frozen=True)
class Constants:
    """What the theorems assume of the objective f = (1/N) sum_i f_i.

    Attributes:
        smoothness: L, Lipschitz constant of the gradients of every f_i (SoteriaFL: of every sample's function).
        gradient_bound: G (PFELS: C_1), bound on the l2 norm of a gradient: of every sample for Fed-SPA and SoteriaFL,
            of a mini-batch for PFELS and Fed-SMP.
        dissimilarity: kappa^2 of PFELS and Fed-SMP, zeta_g^2 of Fed-SPA: mean over the devices of
            ||grad f_i - grad f||^2, its largest value.
        variance: zeta^2, mean over the devices of E||g_i - grad f_i||^2 of a mini-batch gradient, its largest value.
        initial_gap: f(theta^0) - f_inf.
        initial_shift: (1/N) sum_i ||grad f_i(theta^0)||^2, which SoteriaFL's potential starts from.
        initial_gradient: ||grad f(theta^0)||^2, the first point of the measured curve.
        coordinate_bound: Largest absolute value of a coordinate of a sample's gradient, G/sqrt(d) of Fed-SPA.
        growth: gamma^2 of PFELS, beta^2 of Fed-SMP, the factor on ||grad f||^2 in the bounded dissimilarity. It is 1
            with `dissimilarity` as defined here.
        kept_share: q, the least share of ||grad f||^2 that is on the coordinates that the public data selects, for
            Fed-SMP with top-k; nan where it is not known.
        how: Name of a constant -> how its value was found, in words.
    """

    smoothness: float
    gradient_bound: float
    dissimilarity: float
    variance: float
    initial_gap: float
    initial_shift: float
    initial_gradient: float
    coordinate_bound: float = math.nan
    growth: float = 1.0
    kept_share: float = math.nan
    how: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Term:
    """A term of a bound.

    Attributes:
        name: What it comes from: optimisation, heterogeneity, sparsification, compression, noise ...
        printed: Its value in the paper's bound.
        corrected: Its value in the proven bound; nan where there is none.
    """

    name: str
    printed: float
    corrected: float


@dataclass(frozen=True)
class Condition:
    """A condition of a bound.

    Attributes:
        name: The condition in words.
        value: What the run has.
        limit: What is allowed.
        holds: Whether the run meets it.
        of: Which version of the bound needs it, or "both".
    """

    name: str
    value: str
    limit: str
    holds: bool
    of: Version | Literal["both"] = "both"


@dataclass(frozen=True)
class PreferredRatio:
    """The ratio p = k/d that makes a bound least.

    Attributes:
        printed: That of the paper's bound; None where it has no say, or its conditions hold at no p.
        corrected: That of the proven bound; None likewise.
        why: How p enters, or why there is no preference.
    """

    printed: float | None
    corrected: float | None
    why: str


@dataclass(frozen=True)
class Bound:
    """A bound on the mean squared gradient norm of a run.

    Attributes:
        theorem: Where the bound stands in its paper.
        terms: Its terms.
        conditions: The conditions that it is proven under.
        largest_step: The largest local learning rate that the paper's condition allows.
        largest_step_corrected: The same for the proven bound; nan where there is none.
        preferred_ratio: The ratio p that it prefers.
        errors: What does not hold as printed, a sentence each.
        unproven: Why there is no corrected bound; "" where there is one.
        rest: Further figures by name, such as the choices of a corollary.
    """

    theorem: str
    terms: tuple[Term, ...]
    conditions: tuple[Condition, ...]
    largest_step: float
    largest_step_corrected: float
    preferred_ratio: PreferredRatio
    errors: tuple[str, ...] = ()
    unproven: str = ""
    rest: Mapping[str, float] = field(default_factory=dict)

    @property
    def printed(self) -> float:
        """The paper's bound, the sum of its terms."""
        return math.fsum(term.printed for term in self.terms)

    @property
    def corrected(self) -> float:
        """The proven bound, the sum of its terms; nan where there is none, inf where the step is too long for it."""
        return sum(term.corrected for term in self.terms)

    def holds(self, version: Version) -> bool:
        """Return whether the run meets all conditions of this version of the bound."""
        return all(one.holds for one in self.conditions if one.of in (version, "both"))


def step_condition(step: float, largest: float, of: Version | Literal["both"] = "both") -> Condition:
    """Return the condition on the local learning rate eta."""
    return Condition("local learning rate", f"{step:.4g}", f"at most {largest:.4g}", step <= largest, of)


def ratios(dimension: int) -> np.ndarray:
    """Return ratios k/d from 1/d to 1 for a search, evenly spaced in their logarithm, [ratios]."""
    kept = np.unique(np.round(np.geomspace(1, dimension, POINTS)).astype(np.int64))
    return np.asarray(kept / dimension)


def preferred(
    candidates: Sequence[float] | np.ndarray, bounds: Mapping[Version, Callable[[float], float]], why: str
) -> PreferredRatio:
    """Return the ratio with the least bound of each version; None for a version that is not given.

    bounds: Version -> the bound at a ratio, inf where a condition that depends on the ratio does not hold.
    """
    found = {version: least(candidates, bound) for version, bound in bounds.items()}
    without = [version for version in bounds if found[version] is None]
    if without:
        why += f"; at no p does the run's learning rate meet the conditions of the {' or the '.join(without)} bound"
    return PreferredRatio(found.get("printed"), found.get("corrected"), why)


def least(candidates: Sequence[float] | np.ndarray, bound: Callable[[float], float]) -> float | None:
    """Return the candidate with the least finite bound; the largest of equals, None if no bound is finite."""
    values = np.array([bound(float(one)) for one in candidates])
    if not np.isfinite(values).any():
        return None
    values[~np.isfinite(values)] = np.inf
    return float(np.asarray(candidates)[len(values) - 1 - int(np.argmin(values[::-1]))])
