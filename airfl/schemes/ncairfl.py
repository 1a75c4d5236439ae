"""NCAirFL: non-coherent sums of dithered bits and a memory of the error (Wen, Michelusi, Simeone, Xing 2024)."""

from __future__ import annotations

import math

from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.links import noncoherent_uplink
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.uplinks.stages import Clip
from airfl.uplinks.stages.quantise import StochasticQuantise
from channels.codewords import EnergyDifference
from channels.part import parameter


class NcAirFL(Scheme):
    """Clip to C, dither every coordinate to one of two values, send its energy, and keep the error for later rounds."""

    name = "ncairfl"
    title = "NCAirFL"
    paper = (
        "Wen, Michelusi, Simeone, Xing: NCAirFL: CSI-free over-the-air federated learning based on non-coherent "
        "detection (2024)"
    )
    links = ("noncoherent",)
    uses = LOCAL_SGD

    entry_range: float = parameters.entry_range()
    error_compensation: bool = parameter(True, description="keep what dithering left out, and add it to later updates")

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, dither to +-v, and average the difference of energies."""
        settings, dimension = problem.settings, problem.dimension
        clip_norm = settings.local.update_bound
        # P(+v) = (1 + x/v)/2 for |x| <= v, which has the mean x; the error stays with the device.
        dither = StochasticQuantise(levels=2, limit=self.entry_range * clip_norm / math.sqrt(dimension))
        return Recipe(
            stages=(Clip(clip_norm), *with_feedback(self.error_compensation, (dither,), dimension)),
            uplink=noncoherent_uplink(settings, EnergyDifference()),
            server=Averaging(settings.server),
            release=ClientRelease(attained=False),  # the noise of an energy depends on the signal: nothing is proven
        )
