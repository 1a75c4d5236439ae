"""Dominating pairs of distributions of a subsampled Gaussian release, as functions of the privacy loss.

y = e^-loss is the likelihood ratio of the pair, distributed as under its first distribution. With t = e^-l, a pair is
described by F(t) = E (t - y)+ for l >= 0 and by G(t) = E (y - t)+ = F(t) - t + 1 for l <= 0. Both are divided by t, so
that they do not underflow with e^-l. delta(eps) of the pair is F(t)/t at l = eps, and the slope of F at t is
P(loss > l).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, ndtr

from airfl.privacy.masks import shown

Array = NDArray[np.float64]
Direction = Literal["removed", "added", "envelope"]

# e^loss may overflow above this loss.
LARGE = 500.0
# Losses below this share of the largest one are negligible.
SMALL = 1e-9


@dataclass(frozen=True)
class DominatingPair:
    """A pair of distributions for a Gaussian release with participation probability q.

    Attributes:
        direction: "removed" is (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1); "added" is the reverse; "envelope" is the
            pair whose hockey-stick divergence is the larger of both at every order, for samples of fixed size under
            replace-one.
        mu: Sensitivity over the standard deviation of the noise.
        rate: q, probability of taking part.
        seen: Share of the contribution's square that a random mask leaves on average, 1 without a mask.
        single: Whether the contribution has a single entry, of which a mask leaves all or nothing. Else the
            hockey-stick divergence is the largest of all contributions, at every order.
    """

    direction: Direction
    mu: float
    rate: float
    seen: float = 1.0
    single: bool = False

    def scaled(self, losses: Array) -> Array:
        """Return F/t where the loss is at least 0, and G/t where it is negative. Both are 0 for a loss of 0."""
        values = np.empty_like(losses)
        positive, size = losses >= 0, np.abs(losses)
        # Contributions of the Gaussian's right tail (ratio above e^size) and left tail (ratio below e^-size).
        right = positive == (self.direction != "added")
        if self.direction == "envelope":
            right = np.ones_like(positive)
        tail = self.rate * self._delta(self.inner(size[right]))
        values[right] = np.where(positive[right], tail, np.exp(-size[right]) * tail)
        left = ~right
        inner = self.inner(-size[left])
        tail = self._delta(-inner)
        if self.direction == "added":  # e^size q e^inner
            less = np.minimum(np.log1p(-self.rate) + size[left], 0.0) if self.rate < 1 else -math.inf
            share = -np.expm1(less) * np.ones(len(inner))
        else:
            share = self.rate * np.exp(inner)
        values[left] = np.where(np.isfinite(inner), np.maximum(share, 0.0) * tail, 0.0)
        return values

    def slopes(self, losses: Array) -> Array:
        """Return the slope of F at t, P(loss > l), where l is at least 0, and that of G, -P(loss < l), where it is
        negative."""
        values = np.empty_like(losses)
        positive, size = losses >= 0, np.abs(losses)
        if self.direction == "added":
            values[positive] = self._above(-self.inner(-size[positive]))[0]
            values[~positive] = -self._above(self.inner(size[~positive]))[1]
            return values
        more, less = self._above(self.inner(size[positive]))
        values[positive] = (1 - self.rate) * less + self.rate * more
        if self.direction == "envelope":
            values[~positive] = -self._above(self.inner(size[~positive]))[1]
        else:
            more, less = self._above(-self.inner(-size[~positive]))
            values[~positive] = -((1 - self.rate) * more + self.rate * less)
        return values

    def _delta(self, epsilon: Array) -> Array:
        """Return delta of the release without sampling, for eps >= 0."""
        if self.seen == 1:
            return _delta(epsilon, self.mu)
        if self.single:
            return self.seen * _delta(epsilon, self.mu)
        effective, probability = shown(epsilon, self.mu, self.seen)
        return probability * _delta(epsilon, effective)

    def _above(self, epsilon: Array) -> tuple[Array, Array]:
        """Return the probability of a loss above eps >= 0 without sampling under both distributions of the pair, which
        are the slopes of delta, for the contribution that is the worst at eps."""
        mu: Array | float = self.mu
        probability: Array | float = 1.0
        if self.single:
            probability = self.seen
        elif self.seen < 1:
            mu, probability = shown(epsilon, self.mu, self.seen)
        with np.errstate(invalid="ignore"):
            at = epsilon / mu - mu / 2
        return probability * ndtr(-at), probability * ndtr(-at - mu)

    def reach(self, deviations: float) -> tuple[float, float]:
        """Return the smallest and the largest loss within so many standard deviations."""
        far = self._loss(self.mu * (deviations + self.mu / 2))
        near = self._loss(self.mu * (deviations - self.mu / 2))
        low = self._loss(-self.mu * (deviations + self.mu / 2))
        if self.direction == "added":
            return min(-near, low), -low
        return (min(-near, -SMALL * far) if self.direction == "envelope" else low), far

    @property
    def largest_loss(self) -> float:
        """The largest possible loss, inf where it is unbounded."""
        return self.absent if self.direction == "added" and self.rate < 1 else math.inf

    @property
    def absent(self) -> float:
        """The approximate loss of a release without participation, which is the most likely one at small noise and
        sampling rate."""
        if self.direction == "envelope" or self.rate == 1:
            return 0.0
        return math.log1p(-self.rate) * (1 if self.direction == "removed" else -1)

    def inner(self, losses: Array) -> Array:
        """Return log((e^l - 1 + q)/q), the loss without sampling for the loss l with sampling; -inf below the smallest
        possible l."""
        small = np.minimum(losses, LARGE)
        with np.errstate(divide="ignore", invalid="ignore"):
            below = np.log1p(np.maximum(np.expm1(small) / self.rate, -1.0))
            above = losses - math.log(self.rate) + np.log1p(-(1 - self.rate) * np.exp(-np.maximum(losses, 1.0)))
        return np.where(losses > 1, above, below)

    def spread(self, deviations: float, points: int) -> Array:
        """Return losses for a coarse discretisation: those of points around both means, and their negatives."""
        around = np.linspace(-deviations, deviations, points)
        inner = self.mu * (np.concatenate([around, around + self.mu]) - self.mu / 2)
        losses = self._losses(inner)
        low, high = self.reach(deviations)
        beyond = high + SMALL * (high - low)  # the largest possible loss may be an atom at `high`
        every = np.unique(np.concatenate([[0.0, -SMALL * high, low, high, beyond], losses, -losses]))
        return np.asarray(every[(every >= low) & (every <= beyond)])

    def _loss(self, inner: float) -> float:
        """Return log(1 - q + q e^inner)."""
        return float(self._losses(np.array([inner]))[0])

    def _losses(self, inner: Array) -> Array:
        if self.rate == 1:
            return inner
        near = np.log1p(self.rate * np.expm1(np.minimum(inner, LARGE)))
        return np.where(inner > LARGE, inner + math.log(self.rate), near)


def _delta(epsilon: Array, mu: Array | float) -> Array:
    """Return delta(eps) = Phi(-u) - e^eps Phi(-u - mu) of the Gaussian at u = eps/mu - mu/2, for eps >= 0, by Mills
    ratios: phi(u) (R(u) - R(u + mu)), which avoids cancellation between exponentials."""
    u = np.minimum(epsilon / mu - mu / 2, 1e150)
    density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
    beyond = _mills(np.maximum(u + mu, 0.0))
    return np.asarray(np.where(u < 0, ndtr(-u) - density * beyond, density * (_mills(np.maximum(u, 0.0)) - beyond)))


def _mills(at: Array) -> Array:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(at / math.sqrt(2)))
