"""Two 5x5 convolutions of 10 and 20 channels, each pooled, and a layer of 50: 21,840 parameters (Fed-SPA, MNIST)."""

from torch import nn


def build() -> nn.Module:
    """Input [batch, 1, 28, 28], logits [batch, 10]."""
    return nn.Sequential(
        nn.Conv2d(1, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(320, 50),
        nn.ReLU(),
        nn.Linear(50, 10),
    )
