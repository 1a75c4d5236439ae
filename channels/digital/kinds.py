"""What an allocation is, and what an error model is."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from channels.part import Part

if TYPE_CHECKING:
    from channels.digital.elements import OwnElements
    from channels.digital.task import Counts, Demand, DigitalTask


class Allocation(Part):
    """Who gets how many of the K subcarriers."""

    @abstractmethod
    def shares(self, task: DigitalTask, sharing: slice) -> Counts:
        """Subcarriers of each device that shares: whole numbers of at least 1 that add up to K.

        Args:
            task: The messages and channels of all devices.
            sharing: The devices that share, at most K.
        """


class ErrorModel(Part):
    """Rates of the messages, and which of them arrive.

    Attributes:
        source: Where it is from.
        certain: Whether a message over a channel that is known as it is arrives for certain.
    """

    source: ClassVar[str] = ""
    certain: ClassVar[bool] = False

    @abstractmethod
    def send(self, task: DigitalTask, own: OwnElements) -> Demand:
        """What the messages take if nothing cuts them off, and whether they arrive.

        Args:
            task: The messages; `task.uniforms(count)` gives each device's random numbers, once.
            own: SINR of every device on its own subcarriers, as believed and as it is.
        """
