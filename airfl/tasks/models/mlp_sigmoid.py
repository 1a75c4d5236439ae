"""784-64-10 perceptron with sigmoid: 50,890 parameters (SoteriaFL, MNIST)."""

from torch import nn


def build() -> nn.Module:
    """Input [batch, 1, 28, 28], logits [batch, 10]."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.Sigmoid(), nn.Linear(64, 10))
