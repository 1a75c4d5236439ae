"""Numbers as digits of a balanced number system, whose averages are digits of the average (Sahin 2022, "Over-the-air
computation based on balanced number systems for federated edge learning")."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airfl.uplinks.stages import kernels
from airfl.uplinks.stages.stage import Batch, Coder, MessageBound, Round

if TYPE_CHECKING:
    from torch import Tensor

MOST_LEVELS = 1 << 23
"""Largest number of levels, up to which single precision has every integer and its half."""


@dataclass(frozen=True)
class BalancedDigits:
    """x -> D digits from -g to g, with g = (b - 1)/2, of the nearest of b^D levels between -v and v.

    x is about s sum_k a_k b^k with the step s = 2 v/(b^D - 1), k from 0 to D - 1, and so the mean of many x is s
    sum_k b^k times the mean of their digits a_k. A message is the digits a_0 of all entries, then a_1 of all
    entries, and so on.

    Attributes:
        base: b, odd, at least 3.
        digits: D, the number of digits of an entry.
        limit: v; entries beyond it are cut to it.
        linear: Whether the receiver averages digits, so that noise on them reaches the entries by a fixed factor.
    """

    base: int
    digits: int
    limit: float
    linear: bool = True

    @property
    def levels(self) -> int:
        """b^D."""
        return int(self.base**self.digits)

    @property
    def step(self) -> float:
        """s, the distance of two levels."""
        return 2 * self.limit / (self.levels - 1)

    @property
    def places(self) -> list[float]:
        """s b^k, what a digit counts."""
        return [self.step * self.base**place for place in range(self.digits)]

    def bound(self, before: MessageBound) -> MessageBound:
        """Return the bound of a message of which every digit is g."""
        entries = self.digits * before.entries
        norm = (self.base - 1) / 2 * math.sqrt(entries)
        return replace(
            before,
            entries=entries,
            peak=norm,
            rms=norm,
            sensitivity=norm,
            noise_std=0.0,
            values=-1,
            value_bits=math.log2(self.base),
        )

    def open(self, opened: Round) -> Coder:
        """Return the coder, the same in every round."""
        gain = math.sqrt(sum(place**2 for place in self.places)) if self.linear else math.nan
        return Coder(self._encode, self._decode, noise_gain=gain, expand=self._expand)

    def _encode(self, batch: Batch) -> Batch:
        import torch

        factors = batch.scale / self.step
        if (found := kernels.digits_of(batch.values, factors, self.base, self.digits)) is not None:
            return batch.of(found)
        middle, entries = (self.levels - 1) // 2, batch.values.shape[1]
        left = batch.values * factors[:, None]
        left.round_().clamp_(-middle, middle)
        sent = left.new_empty(len(left), self.digits * entries)
        for place in range(self.digits - 1):
            # The digit is what the nearest multiple of b leaves; b is odd, so that there is no tie.
            higher = (left / self.base).round_()
            torch.sub(left, higher, alpha=self.base, out=sent[:, place * entries : (place + 1) * entries])
            left = higher
        sent[:, (self.digits - 1) * entries :] = left
        return batch.of(sent)

    def _decode(self, mean: Tensor) -> Tensor:
        return self._expand(mean[None])[0]

    def _expand(self, messages: Tensor) -> Tensor:
        digits = messages.view(len(messages), self.digits, -1).unbind(dim=1)
        numbers = digits[0] * self.places[0]
        for place, digit in zip(self.places[1:], digits[1:], strict=True):
            numbers.add_(digit, alpha=place)
        return numbers
