"""The interfaces of allocations and error models."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from channels.part import Part

if TYPE_CHECKING:
    from channels.digital.elements import DeviceResources
    from channels.digital.task import Counts, Demand, DigitalTask


class Allocation(Part):
    """Base class of allocations, which divide the K subcarriers among devices."""

    @abstractmethod
    def shares(self, task: DigitalTask, sharing: slice) -> Counts:
        """Return the number of subcarriers of each sharing device: integers of at least 1 with sum K.

        Args:
            task: The messages and channels of all devices.
            sharing: The devices that share the band, at most K.
        """


class ErrorModel(Part):
    """Base class of error models, which determine the rates of messages, and which of them are decoded.

    Attributes:
        source: Source of the model.
        certain: Whether messages are always decoded under perfect CSI.
    """

    source: ClassVar[str] = ""
    certain: ClassVar[bool] = False

    @abstractmethod
    def send(self, task: DigitalTask, resources: DeviceResources) -> Demand:
        """Return the resources that the messages need without a deadline, and whether they are decoded.

        Args:
            task: The messages; `task.uniforms(count)` returns each device's random numbers, and may be called once.
            own: Estimated and true SINR of every device on its own subcarriers.
        """
