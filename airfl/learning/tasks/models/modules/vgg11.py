"""VGG-11 for 32x32 images, without batch norm: 9,750,922 parameters (PFELS section 8.1, CIFAR-10).

Configuration A of Simonyan and Zisserman 2015 with a head of 512-512-512-10. There is no batch norm, since its
statistics have no meaning for a mean of clipped updates, and no dropout, which the paper does not mention.
"""

from torch import nn

# Output channels of each 3x3 convolution; "pool" halves the image, from 32 to 1 in the end.
LAYERS: tuple[int | str, ...] = (64, "pool", 128, "pool", 256, 256, "pool", 512, 512, "pool", 512, 512, "pool")


def build() -> nn.Module:
    """Return the module: input [batch, 3, 32, 32], logits [batch, 10]."""
    features: list[nn.Module] = []
    channels = 3
    for layer in LAYERS:
        if isinstance(layer, int):
            features += [_convolution(channels, layer), nn.ReLU()]
            channels = layer
        else:
            features.append(nn.MaxPool2d(2))
    head = [nn.Flatten(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)]
    return nn.Sequential(*features, *head)


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """Return a 3x3 convolution with He initialisation (2015), without which the signal of eight layers vanishes."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)
    return convolution
