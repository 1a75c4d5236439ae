"""What a model is: a part that builds a torch module for inputs of a known shape."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from channels.part import Part

if TYPE_CHECKING:
    from torch import nn

_counted: dict[tuple[type[Model], str], int] = {}


class Model(Part):
    """A model that settings name.

    What depends on its parameters may be a property of the class.

    Attributes:
        name: What settings call it, lower case with hyphens.
        input_shape: Of one input.
        classes: How many it gives a score of.
        parameters: Its exact count of numbers that are trained; None where it is to be found out.
        text: What it is, for lists.
        batched: Whether torch can compute many devices' copies of it at once (engine vmap).
        layered: Whether all its layers are in the table of hand-batched ones (engine layers).
    """

    input_shape: ClassVar[tuple[int, ...]] = ()
    classes: ClassVar[int] = 0
    parameters: ClassVar[int | None] = None
    text: ClassVar[str] = ""
    batched: ClassVar[bool] = True
    layered: ClassVar[bool] = True

    @abstractmethod
    def build(self) -> nn.Module:
        """A model with fresh initial parameters, drawn from torch's global generator.

        It takes [batch, *input_shape] and gives scores [batch, classes]. Pixels come as float32, normalised; features
        and characters' ids as the data set has them.
        """

    @property
    def dimension(self) -> int:
        """d, its count of parameters: as declared, else of one that is built."""
        if self.parameters is not None:
            return self.parameters
        known = type(self), repr(self.values())
        if known not in _counted:
            import torch

            with torch.random.fork_rng(devices=[]):
                _counted[known] = sum(one.numel() for one in self.build().parameters())
        return _counted[known]
