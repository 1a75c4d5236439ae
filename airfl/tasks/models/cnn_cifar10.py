"""Three unpadded 3x3 convolutions of 64, 128 and 256 channels, layers of 128 and 256: 537,610 parameters.

(Fed-SPA, CIFAR-10.)
"""

from torch import nn


def build() -> nn.Module:
    """Input [batch, 3, 32, 32], logits [batch, 10]."""
    return nn.Sequential(
        nn.Conv2d(3, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(128, 256, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, 256),
        nn.ReLU(),
        nn.Linear(256, 10),
    )
