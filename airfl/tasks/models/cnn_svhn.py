"""Two padded 5x5 convolutions of 64 and 128 channels, layers of 384 and 192: 3,431,754 parameters (Fed-SMP, SVHN)."""

from torch import nn


def build() -> nn.Module:
    """Input [batch, 3, 32, 32], logits [batch, 10]."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 128, 5, padding=2),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8192, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, 10),
    )
