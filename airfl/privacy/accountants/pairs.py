"""Pairs of distributions that a Gaussian release on a sample is compared by, as functions of the privacy loss.

y = e^-loss is the ratio of the two likelihoods, distributed as under the first of them. For t = e^-l a pair is told by
F(t) = E (t - y)+ where l >= 0 and by G(t) = E (y - t)+ = F(t) - t + 1 where l <= 0, both over t, which stay numbers
where e^-l does not. delta(eps) of the pair is F(t)/t at l = eps, and the slope of F at t is P(loss > l).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

Array = NDArray[np.float64]
Direction = Literal["removed", "added", "envelope"]

# Beyond, e^loss is no number.
LARGE = 500.0
# So small a share of the largest loss is none.
SMALL = 1e-9


@dataclass(frozen=True)
class Pair:
    """A Gaussian release that somebody is in with some probability, as a pair of distributions.

    Attributes:
        direction: "removed" is (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1); "added" the two the other way round;
            "envelope" the pair whose hockey-stick divergence is the larger of both at every order, for samples of fixed
            size under replace-one.
        mu: Sensitivity over the standard deviation of the noise.
        rate: q, probability of being in it.
    """

    direction: Direction
    mu: float
    rate: float

    def scaled(self, losses: Array) -> Array:
        """F/t where the loss is at least 0, G/t where it is below."""
        values = np.empty_like(losses)
        positive, size = losses >= 0, np.abs(losses)
        # Of the Gaussian: what a likelihood ratio above e^size (to the right) or below e^-size (to the left) is worth.
        right = positive == (self.direction != "added")
        if self.direction == "envelope":
            right = np.ones_like(positive)
        worth = self.rate * _delta(self.inner(size[right]), self.mu)
        values[right] = np.where(positive[right], worth, np.exp(-size[right]) * worth)
        left = ~right
        inner = self.inner(-size[left])
        worth = _delta(-inner, self.mu)
        if self.direction == "added":  # e^size q e^inner
            less = np.minimum(np.log1p(-self.rate) + size[left], 0.0) if self.rate < 1 else -math.inf
            share = -np.expm1(less) * np.ones(len(inner))
        else:
            share = self.rate * np.exp(inner)
        values[left] = np.where(np.isfinite(inner), np.maximum(share, 0.0) * worth, 0.0)
        return values

    def slopes(self, losses: Array) -> Array:
        """P(loss > l) where l is at least 0, -P(loss < l) where it is below: of F and of G at t."""
        values = np.empty_like(losses)
        positive, size = losses >= 0, np.abs(losses)
        if self.direction == "added":
            values[positive] = ndtr(self._place(-size[positive]))
            values[~positive] = -ndtr(-self._place(size[~positive]))
            return values
        at = self._place(size[positive])
        values[positive] = (1 - self.rate) * ndtr(-at) + self.rate * ndtr(self.mu - at)
        if self.direction == "envelope":
            values[~positive] = -ndtr(-self._place(size[~positive]))
        else:
            at = self._place(-size[~positive])
            values[~positive] = -((1 - self.rate) * ndtr(at) + self.rate * ndtr(at - self.mu))
        return values

    def reach(self, deviations: float) -> tuple[float, float]:
        """The smallest and the largest loss with all but what is so many standard deviations away."""
        far = self._loss(self.mu * (deviations + self.mu / 2))
        near = self._loss(self.mu * (deviations - self.mu / 2))
        low = self._loss(-self.mu * (deviations + self.mu / 2))
        if self.direction == "added":
            return min(-near, low), -low
        return (min(-near, -SMALL * far) if self.direction == "envelope" else low), far

    @property
    def most(self) -> float:
        """The largest loss there is, inf where there is none."""
        return self.absent if self.direction == "added" and self.rate < 1 else math.inf

    @property
    def absent(self) -> float:
        """The loss, about, of a release that they were not in: of nearly all where noise is small and samples are."""
        if self.direction == "envelope" or self.rate == 1:
            return 0.0
        return math.log1p(-self.rate) * (1 if self.direction == "removed" else -1)

    def inner(self, losses: Array) -> Array:
        """log((e^l - 1 + q)/q), the loss of somebody who is in it for certain; -inf where a loss cannot be so small."""
        small = np.minimum(losses, LARGE)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.log1p(np.maximum(np.expm1(small) / self.rate, -1.0))
            above = losses - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(losses, 1.0)))
        return np.where(losses > 1, above, below)

    def spread(self, deviations: float, points: int) -> Array:
        """Losses by which the pair is told coarsely: those of places around both means, and their opposites."""
        places = np.linspace(-deviations, deviations, points)
        inner = self.mu * (np.concatenate([places, places + self.mu]) - self.mu / 2)
        losses = self._losses(inner)
        low, high = self.reach(deviations)
        beyond = high + SMALL * (high - low)  # where the largest loss there is may be an atom
        every = np.unique(np.concatenate([[0.0, -SMALL * high, low, high, beyond], losses, -losses]))
        return np.asarray(every[(every >= low) & (every <= beyond)])

    def _place(self, losses: Array) -> Array:
        """Where on the line the removed pair has this loss."""
        return self.inner(losses) / self.mu + self.mu / 2

    def _loss(self, inner: float) -> float:
        """log(1 - q + q e^inner)."""
        return float(self._losses(np.array([inner]))[0])

    def _losses(self, inner: Array) -> Array:
        if self.rate == 1:
            return inner
        near = np.log1p(self.rate * np.expm1(np.minimum(inner, LARGE)))
        return np.where(inner > LARGE, inner + math.log(self.rate), near)


def _delta(epsilon: Array, mu: float) -> Array:
    """delta(eps) = Phi(-u) - e^eps Phi(-u - mu) of the Gaussian at u = eps/mu - mu/2, for eps >= 0, by ratios of Mills:
    phi(u) (R(u) - R(u + mu)), which loses no digits to the difference of exponentials."""
    u = np.minimum(epsilon / mu - mu / 2, 1e150)
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    beyond = _mills(np.maximum(u + mu, 0.0))
    return np.asarray(np.where(u < 0, ndtr(-u) - density * beyond, density * (_mills(np.maximum(u, 0.0)) - beyond)))


def _mills(at: Array) -> Array:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(at / math.sqrt(2)))
