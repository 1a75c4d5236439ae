"""MD-AirComp: massive digital over-the-air computation (Qiao, Gao, Boloursaz Mashhadi, Gunduz 2024)."""

from __future__ import annotations

import math
from typing import Literal

from airfl.config.run import RunSettings
from airfl.errors import UserError
from airfl.learning.server import Averaging
from airfl.schemes import parameters
from airfl.schemes.error_feedback import with_feedback
from airfl.schemes.keys import LOCAL_SGD
from airfl.schemes.recipe import Problem, Recipe
from airfl.schemes.release import ClientRelease
from airfl.schemes.scheme import Scheme
from airfl.selection import SelectionRule, sampling_of
from airfl.uplinks.stages import Clip
from airfl.uplinks.stages.index_sequences import IndexSequences
from airfl.uplinks.stages.vector_quantise import VectorQuantise
from channels.part import parameter


class MdAirComp(Scheme):
    """Devices quantise blocks of their updates with a shared codebook and send the sequence of each index at once; the
    server counts the devices of each index by approximate message passing, and averages their words.

    With grid.packing = iq two entries of a sequence share a resource element, which is the QPSK of the paper's code.
    """

    name = "md-aircomp"
    title = "MD-AirComp"
    paper = (
        "Qiao, Gao, Boloursaz Mashhadi, Gunduz: Massive digital over-the-air computation for communication-efficient "
        "federated edge learning (2024)"
    )
    links = ("analog",)
    uses = LOCAL_SGD
    policy = "truncated-inversion"
    threshold = 0.02

    words: int = parameter(64, ge=2, le=4096, description="Q, words of the codebook, and sequences")
    block_length: int = parameter(20, ge=1, le=4096, description="V, entries of the update that a word stands for")
    sequence_length: int = parameter(
        40,
        ge=1,
        le=4096,
        description="entries of a sequence; from the number of words on, sequences are orthogonal",
    )
    codebook: Literal["public", "fixed"] = parameter(
        "public",
        description="words: public = trained in every round on the server's update on public data, fixed = drawn at "
        "random for the whole run",
    )
    error_feedback: bool = parameters.error_feedback()
    count_iterations: int = parameter(
        default=10, ge=1, description="largest number of iterations of message passing that counts the devices"
    )

    def recipe(self, problem: Problem) -> Recipe:
        """Clip, quantise, send sequences under truncated inversion, count and average."""
        settings, dimension = problem.settings, problem.dimension
        if settings.server.weights != "equal":
            raise UserError(
                f"server.weights: scheme {self.name!r} counts devices, which all weigh the same, got "
                f"{settings.server.weights!r}; use 'equal'"
            )
        if settings.power.divide_by != "selected":
            raise UserError(
                f"power.divide_by: scheme {self.name!r} divides by the number of devices that it counts, got "
                f"{settings.power.divide_by!r}; use 'selected'"
            )
        limit = settings.local.update_bound
        quantiser = VectorQuantise(dimension, self.words, self.block_length, limit, self.codebook)
        return Recipe(
            stages=(
                *with_feedback(self.error_feedback, (Clip(limit), quantiser), dimension),
                IndexSequences(
                    self.words,
                    self.sequence_length,
                    self.count_iterations,
                    _most_devices(settings.selection.rule, settings.run),
                ),
            ),
            uplink=problem.uplink(),
            server=Averaging(settings.server),
            public_data=self.codebook == "public",
            # Every message has the norm that is bounded, but not every pair of neighbours differs by all of it.
            release=ClientRelease(attained=False),
        )


def _most_devices(rule: SelectionRule, run: RunSettings) -> int | None:
    """Return the largest number of devices that the server reckons with; None for the number selected in the round.

    Neither the size of a Poisson sample nor the number of devices of a sample that have a channel may show in what is
    released. The bound is therefore 5 standard deviations above the mean of a Poisson sample, and the size that was
    asked for of a sample without replacement. For other rules the observer is assumed to know who was selected.
    """
    match sampling_of(rule):
        case "without_replacement":
            return run.selected
        case "poisson":
            return min(run.selected + math.ceil(5 * math.sqrt(run.selected)), run.devices)
        case _:
            return None
