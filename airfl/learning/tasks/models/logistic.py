"""Logistic regression with a nonconvex regulariser: 123 parameters (SoteriaFL appendix A.1, a9a)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model

if TYPE_CHECKING:
    from torch import nn


class Logistic(Model):
    """Logistic regression with a nonconvex regulariser (SoteriaFL appendix A.1, a9a)."""

    name = "logistic"
    input_shape = (123,)
    classes = 2
    parameters = 123
    text = "logistic regression, nonconvex penalty (SoteriaFL on a9a)"
    layered = False

    def build(self) -> nn.Module:
        """Return the module: input [batch, 123], logits [batch, 2]."""
        from airfl.learning.tasks.models.modules.logistic import build

        return build()
