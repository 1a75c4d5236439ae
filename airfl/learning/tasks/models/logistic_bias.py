"""Logistic regression with a nonconvex regulariser and a bias: 124 parameters (SoteriaFL's public code, a9a)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class LogisticBias(Model):
    """Logistic regression with a nonconvex regulariser and a bias (SoteriaFL's public code, a9a)."""

    name = "logistic-bias"
    input_shape = (123,)
    classes = 2
    parameters = 124
    text = "logistic with a bias, as a constant feature (SoteriaFL's public code on a9a)"
    layered = False

    def build(self) -> nn.Module:
        """Return the module: input [batch, 123], logits [batch, 2]."""
        from airfl.learning.tasks.models.modules.logistic import build

        return build(bias=True)
