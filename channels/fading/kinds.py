"""The kinds of fading: a flat law, a frequency-selective model, recorded gains, and a channel of the user's own."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array, Draw
from channels.fading.law import FadingLaw
from channels.part import Part

if TYPE_CHECKING:
    from channels.frame import Frame
    from channels.selective.request import SelectiveRequest, SelectiveResponse


class Fading(Part):
    """How a channel fades. A part is of one of the kinds below.

    Attributes:
        name: What settings call it, lower case with hyphens.
        source: Where it is from: author, title, year, or the clause of a standard.
        drawn: Whether gains are drawn from the run's seed and scaled by it; recorded ones are taken as they are.
        gaussian: Whether H is circularly symmetric Gaussian on every element, so that errors of an estimate are known.
        line_of_sight: Whether a part of H is, or may be, a constant line of sight.
    """

    source: ClassVar[str] = ""
    drawn: ClassVar[bool] = True
    gaussian: ClassVar[bool] = False
    line_of_sight: ClassVar[bool] = False

    @property
    def selective(self) -> bool:
        """Whether the channel differs between subcarriers."""
        return False


class FlatFading(Fading):
    """One gain for all subcarriers, given by the law of |h|. Needs `law`."""

    @abstractmethod
    def law(self) -> FadingLaw:
        """The distribution of |h|, scaled to mean 1; ValueError for parameters that have none."""


class SelectiveFading(Fading):
    """A channel that differs between subcarriers, with E|H|^2 = 1 where all paths are within the cyclic prefix. Needs
    `respond`.

    Attributes:
        needs_positions: Whether it asks where the devices are.
        own_angles: Whether its paths have angles of their own, which say how antennas are correlated.
        variations: Which of "independent", "constant" and "jakes" it offers.
    """

    needs_positions: ClassVar[bool] = False
    own_angles: ClassVar[bool] = False
    variations: ClassVar[tuple[str, ...]] = ("independent", "constant")

    @property
    def selective(self) -> bool:
        """Always."""
        return True

    @property
    def spread_s(self) -> float | None:
        """Its rms delay spread in s, None where it is drawn."""
        return None

    @abstractmethod
    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """H on every element of the request, and what late paths spill."""


@dataclass(frozen=True)
class ChannelRequest:
    """Which gains of a channel of one's own are wanted.

    Attributes:
        round_index: Counted from 0.
        devices: Ids of the devices, int64 [devices]; a device has the same gains whoever else is asked for.
        antennas: Of the receiver.
        frame: The resource elements of the round's message: subcarriers, their frequencies, blocks and times.
        start_s: When the round starts, in s from the start of the run.
        fresh: Uniform numbers of every device's own stream of this round: fresh(count) is [devices, count].
        lasting: The same of the run, equal in every round.
    """

    round_index: int
    devices: NDArray[np.int64]
    antennas: int
    frame: Frame
    start_s: float
    fresh: Draw
    lasting: Draw


class OwnChannel(Fading):
    """A channel of the user's own: H of every round, taken as it is, without `channel.mean_gain`, bounds or a topology.
    Needs `response`. `selective` and `moves` may be set in the class."""

    drawn = False
    source = "the user's own"

    @property
    def selective(self) -> bool:
        """Whether it differs between subcarriers; True unless the class says `selective = False`."""
        return True

    @property
    def moves(self) -> bool:
        """Whether it differs between the blocks of a round; False unless the class says `moves = True`."""
        return False

    @abstractmethod
    def response(self, request: ChannelRequest) -> NDArray[Any]:
        """H, complex [devices, antennas, blocks, subcarriers], with axes of length 1 where nothing changes.

        It has to be the same whenever it is asked for the same round and devices.
        """

    def mean_power(self, devices: int) -> Array | None:
        """E|H|^2 of every device over the fading, [devices]; None to have it averaged over rounds of the run."""
        return None
