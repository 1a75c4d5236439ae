"""Balanced digits: energies of the digits of a balanced number system (Sahin 2022)."""

from __future__ import annotations

import math
from typing import Literal

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.links import noncoherent_uplink
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip, Stage
from airfl.uplinks.stages.balanced_digits import MOST_LEVELS, BalancedDigits
from airfl.uplinks.stages.quantise import StochasticQuantise
from channels.codewords import DigitEnergies
from channels.part import PartError, parameter


class BalancedNumbers(Scheme):
    """Clip to C, write every coordinate with digits of a balanced number system, and send each digit as energy on the
    resource element of its value; the server counts the devices on every element, or takes the largest."""

    name = "balanced-digits"
    title = "Balanced digits"
    paper = "Sahin, A.: Over-the-air computation based on balanced number systems for federated edge learning (2022)"
    links = ("noncoherent",)
    uses = LOCAL_SGD

    base: int = parameter(
        3, ge=3, le=31, description="b, odd: digits are the whole numbers from -(b - 1)/2 to (b - 1)/2"
    )
    digits: int = parameter(2, ge=1, le=14, description="D, digits of an entry, which has one of b^D levels")
    entry_range: float = parameters.entry_range()
    dither: bool = parameter(
        False, description="round to the level below or above at random, without bias; false = to the nearest level"
    )
    receiver: Literal["counting", "majority"] = parameter(
        "counting",
        description="how a digit is received: counting = the mean by the energies of its values, majority = the value "
        "that most devices have",
    )
    zero_digit: Literal["silent", "sent"] = parameter(
        "silent", description="a digit 0: silent = no energy, b - 1 elements per digit; sent = an element of its own"
    )
    chips: int = parameters.chips()

    def check(self) -> None:
        """Check that the base is odd, and that single precision has all levels."""
        if self.base % 2 == 0:
            raise PartError(
                f"base must be odd, so that digits are balanced about 0, got {self.base}; use {self.base - 1} or "
                f"{self.base + 1}",
                "base",
            )
        if self.base**self.digits > MOST_LEVELS:
            raise PartError(
                f"digits: {self.digits} digits to the base {self.base} are {self.base**self.digits:,} levels, more "
                f"than the {MOST_LEVELS:,} of single precision; use fewer digits or a smaller base",
                "digits",
            )

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, write as digits, send energies of equal mean power with QPSK phases, and average the digits."""
        settings = problem.settings
        clip_norm = settings.local.update_bound
        limit = self.entry_range * clip_norm / math.sqrt(problem.dimension)  # v_max
        counting = self.receiver == "counting"
        stages: tuple[Stage, ...] = (BalancedDigits(self.base, self.digits, limit, counting),)
        if self.dither:  # whole numbers of steps
            levels = self.base**self.digits
            whole = BalancedDigits(self.base, self.digits, (levels - 1) / 2, counting)
            stages = (StochasticQuantise(levels, limit), whole)
        codewords = DigitEnergies(self.base, zero_sent=self.zero_digit == "sent", counting=counting)
        return Recipe(
            stages=(Clip(clip_norm), *stages),
            uplink=noncoherent_uplink(settings, codewords, chips=self.chips, phases="qpsk"),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # the noise of an energy depends on the signal: nothing is proven
        )
