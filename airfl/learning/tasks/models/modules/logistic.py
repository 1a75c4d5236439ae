"""Logistic regression with a nonconvex regulariser: 123 parameters, 124 with a bias (SoteriaFL appendix A.1, a9a)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

FEATURES = 123
LAMBDA = 0.2


class Logistic(nn.Module):
    """Features a, [batch, 123], to logits [0, a.x], [batch, 2]; cross-entropy is then log(1 + exp(-b a.x)), b = +-1.

    x is the only parameter. It begins at zero, where the loss is log 2. bias: whether a has a constant feature of 1
    appended, whose entry of x is penalised like the others, as in the paper's public code; the paper has none.
    """

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(FEATURES + bias))

    def forward(self, inputs: Tensor) -> Tensor:
        """Class 1 is b = +1."""
        products = inputs.to(self.weight.dtype) @ self.weight[:FEATURES]
        if len(self.weight) > FEATURES:
            products = products + self.weight[FEATURES]
        return torch.stack([torch.zeros_like(products), products], dim=-1)

    def penalty(self, parameters: dict[str, Tensor]) -> Tensor:
        """lambda sum_j x_j^2 / (1 + x_j^2), a number, of the parameters given by name."""
        squares = parameters["weight"].square()
        return LAMBDA * (squares / (1 + squares)).sum()


def build(bias: bool = False) -> nn.Module:
    """Return the module: input [batch, 123], logits [batch, 2]."""
    return Logistic(bias)
