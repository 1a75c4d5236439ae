"""Embedding of size 8, two LSTM layers of 256 units and a linear layer: 822,570 parameters (Fed-SMP, Shakespeare)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class Lstm(Model):
    """Embedding of size 8, two LSTM layers of 256 units and a linear layer (Fed-SMP, Shakespeare)."""

    name = "lstm"
    input_shape = (80,)
    classes = 90
    parameters = 822_570
    text = "embedding 8, 2 LSTM layers of 256 (Fed-SMP on Shakespeare)"
    batched = False

    def build(self) -> nn.Module:
        """Return the module: input [batch, 80], logits [batch, 90]."""
        from airfl.learning.tasks.models.modules.lstm import build

        return build()
