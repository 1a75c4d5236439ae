"""The kinds of fading: flat laws, frequency-selective models, recorded gains and user-defined channels."""

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
    """Base class of all fading. Parts derive from one of the kinds below.

    Attributes:
        name: Name in settings, lower case with hyphens.
        source: Source: author, title and year, or the clause of a standard.
        drawn: Whether gains are drawn from the run's seed and scaled; recorded ones are used without scaling.
        gaussian: Whether H is circularly symmetric Gaussian on every element, so that estimation errors are known.
        line_of_sight: Whether H has, or may have, a constant line-of-sight component.
        own_path_loss: Whether it is that of a cell whose path loss model has the same name.
    """

    source: ClassVar[str] = ""
    drawn: ClassVar[bool] = True
    gaussian: ClassVar[bool] = False
    line_of_sight: ClassVar[bool] = False
    own_path_loss: ClassVar[bool] = False

    @property
    def selective(self) -> bool:
        """Whether the channel is frequency-selective."""
        return False


class FlatFading(Fading):
    """Base class of flat fading: one gain for all subcarriers, with the distribution of |h| given by `law`."""

    @abstractmethod
    def law(self) -> FadingLaw:
        """Return the distribution of |h|, scaled to mean 1; raise ValueError if the parameters do not define one."""


class SelectiveFading(Fading):
    """Base class of frequency-selective models, with E|H|^2 = 1 if all paths are within the cyclic prefix.

    Subclasses implement `respond`.

    Attributes:
        needs_positions: Whether it needs the positions of the devices.
        own_angles: Whether its paths have angles, which determine the correlation between antennas.
        variations: Which of "independent", "constant" and "jakes" it supports.
    """

    needs_positions: ClassVar[bool] = False
    own_angles: ClassVar[bool] = False
    variations: ClassVar[tuple[str, ...]] = ("independent", "constant")

    @property
    def selective(self) -> bool:
        """Always True."""
        return True

    @property
    def spread_s(self) -> float | None:
        """The rms delay spread in s, None if it is drawn."""
        return None

    @abstractmethod
    def respond(self, request: SelectiveRequest) -> SelectiveResponse:
        """Return H on every element of the request, and the power that late paths leak."""


@dataclass(frozen=True)
class ChannelRequest:
    """A request for the gains of a user-defined channel.

    Attributes:
        round_index: Index of the round, counted from 0.
        devices: Ids of the devices, int64 [devices]; a device's gains must not depend on the other devices requested.
        antennas: Number of receive antennas.
        frame: The resource elements of the round's message: subcarriers, their frequencies, blocks and times.
        start_s: Start of the round in s from the start of the run.
        per_round: Uniform numbers from each device's stream for this round: per_round(count) is [devices, count].
        per_run: Uniform numbers from each device's stream for the whole run, equal in every round.
    """

    round_index: int
    devices: NDArray[np.int64]
    antennas: int
    frame: Frame
    start_s: float
    per_round: Draw
    per_run: Draw


class OwnChannel(Fading):
    """Base class of user-defined channels: H of every round, used without `channel.mean_gain`, bounds or a topology.

    Subclasses implement `response`, and may set `selective` and `moves`.
    """

    drawn = False
    source = "user-defined"

    @property
    def selective(self) -> bool:
        """Whether H differs between subcarriers; True unless the class sets `selective = False`."""
        return True

    @property
    def moves(self) -> bool:
        """Whether H differs between the blocks of a round; False unless the class sets `moves = True`."""
        return False

    @abstractmethod
    def response(self, request: ChannelRequest) -> NDArray[Any]:
        """Return H, complex [devices, antennas, blocks, subcarriers], with length 1 along constant axes.

        Requests for the same round and devices must return the same values.
        """

    def mean_power(self, devices: int) -> Array | None:
        """Return E|H|^2 of each device over the fading, [devices]; None to average it over rounds of the run."""
        return None
