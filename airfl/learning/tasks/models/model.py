"""The interface of models, which build a torch module for inputs of a known shape."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from channels.part import Part

if TYPE_CHECKING:
    from torch import nn

    from airfl.learning.tasks.datasets.dataset import Dataset

_counted: dict[tuple[type[Model], str], int] = {}


class Model(Part):
    """A model that the settings name.

    Attributes that depend on the model's parameters may be properties of the class.

    Attributes:
        name: Name in the settings, lower case with hyphens.
        input_shape: Shape of one input.
        classes: Number of classes.
        parameters: Exact number of trainable parameters; None to count them.
        text: Short description for lists.
        batched: Whether torch.func.vmap supports it (engine vmap).
        layered: Whether all its layers are in the table of hand-batched layers (engine layers).
        fully_connected: Whether it consists of linear layers and ReLU, sigmoid or tanh alone (engine dense).
    """

    input_shape: ClassVar[tuple[int, ...]] = ()
    classes: ClassVar[int] = 0
    parameters: ClassVar[int | None] = None
    text: ClassVar[str] = ""
    batched: ClassVar[bool] = True
    layered: ClassVar[bool] = True
    fully_connected: ClassVar[bool] = False

    def fitted(self, data: Dataset) -> Model:
        """Return the model for a data set: itself, unless its shape follows the data."""
        del data
        return self

    @abstractmethod
    def build(self) -> nn.Module:
        """Return a module with fresh initial parameters, drawn from torch's global generator.

        It maps [batch, *input_shape] to logits [batch, classes]. Pixels are passed as normalised float32, features and
        character ids as in the data set.
        """

    @property
    def dimension(self) -> int:
        """d, the number of parameters: as declared, otherwise counted on a module that is built for it."""
        if self.parameters is not None:
            return self.parameters
        known = type(self), repr(self.values())
        if known not in _counted:
            import torch

            with torch.random.fork_rng(devices=[]):
                _counted[known] = sum(one.numel() for one in self.build().parameters())
        return _counted[known]
