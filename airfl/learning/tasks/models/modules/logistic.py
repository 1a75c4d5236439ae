"""Logistic regression with a nonconvex regulariser: 123 parameters (SoteriaFL appendix A.1, a9a)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEATURES = 123
LAMBDA = 0.2


class Logistic(nn.Module):
    """Features a, [batch, 123], to logits [0, a.x], [batch, 2]; cross-entropy is then log(1 + exp(-b a.x)), b = +-1.

    x is the only parameter: there is no bias, as in the paper. It begins at zero, where the loss is log 2.
    """

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(FEATURES))

    def forward(self, inputs: Tensor) -> Tensor:
        """Class 1 is b = +1."""
        products = inputs.to(self.weight.dtype) @ self.weight
        return torch.stack([torch.zeros_like(products), products], dim=-1)

    def penalty(self, parameters: dict[str, Tensor]) -> Tensor:
        """lambda sum_j x_j^2 / (1 + x_j^2), a number, of the parameters given by name."""
        squares = parameters["weight"].square()
        return LAMBDA * (squares / (1 + squares)).sum()


def build() -> nn.Module:
    """Return the module: input [batch, 123], logits [batch, 2]."""
    return Logistic()
