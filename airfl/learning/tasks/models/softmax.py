"""Softmax regression: a linear layer with a bias, for inputs of any shape."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model
from channels.part import parameter

if TYPE_CHECKING:
    from torch import nn

    from airfl.learning.tasks.datasets.dataset import Dataset


class Softmax(Model):
    """Softmax regression (multinomial logistic regression): a linear layer with a bias, convex under cross-entropy.

    By its name alone it takes the shape and classes of the data set, unless that has byte features or text.
    """

    name = "softmax"
    text = "softmax regression: linear layer with bias, takes the shape of the data set"
    fully_connected = True

    shape: tuple[int, ...] | None = parameter(
        default=None, description="shape of an input; by default that of the data set, or (60,)"
    )
    outputs: int | None = parameter(
        default=None, ge=1, description="number of classes; by default that of the data set, or 10"
    )

    def check(self) -> None:
        """Raise ValueError for a shape without a number."""
        if self.shape is not None and (not self.shape or min(self.shape) < 1):
            raise ValueError(f"shape must be positive integers, got {self.shape}")

    @property
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of an input."""
        return (60,) if self.shape is None else self.shape

    @property
    def classes(self) -> int:  # type: ignore[override]
        """Number of classes."""
        return 10 if self.outputs is None else self.outputs

    @property
    def parameters(self) -> int:  # type: ignore[override]
        """Number of weights and biases."""
        return self.classes * (math.prod(self.input_shape) + 1)

    def fitted(self, data: Dataset) -> Model:
        """Return the model with the shape and classes of the data set where it has none of its own."""
        if data.kind == "text" or (data.kind == "features" and data.bytes) or not data.classes:
            return self
        shape = tuple(data.input_shape) if self.shape is None else self.shape
        return dataclasses.replace(self, shape=shape, outputs=self.outputs or data.classes)

    def build(self) -> nn.Module:
        """Return the module: input [batch, *shape], logits [batch, classes]."""
        from torch import nn

        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(self.input_shape), self.classes))
