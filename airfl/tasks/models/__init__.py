"""The table of models. A new one is one file beside this one and one line here; torch is imported to build one."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from airfl.tasks.table import Table

if TYPE_CHECKING:
    from torch import nn


@dataclass(frozen=True)
class ModelEntry:
    """A model: the module with its `build()`, shape of one input, classes, exact parameter count, one line of text.

    batched: whether torch can compute many devices' copies of it at once (engine vmap); layered: whether all its layers
    are in the table of hand-batched ones (engine layers). The compiled engine takes either.
    """

    home: str
    input_shape: tuple[int, ...]
    classes: int
    parameters: int
    text: str
    batched: bool = True
    layered: bool = True

    def build(self) -> nn.Module:
        """A freshly initialised model; takes [batch, *input_shape] and gives logits [batch, classes].

        Pixels come as float32, normalised; features and characters' ids as the data set has them, uint8.
        """
        module: nn.Module = import_module(self.home).build()
        return module


def _entry(
    home: str,
    shape: tuple[int, ...],
    classes: int,
    parameters: int,
    text: str,
    *,
    batched: bool = True,
    layered: bool = True,
) -> ModelEntry:
    return ModelEntry(f"airfl.tasks.models.{home}", shape, classes, parameters, text, batched, layered)


GREY, COLOUR, FEATURES, TEXT = (1, 28, 28), (3, 32, 32), (123,), (80,)

_ENTRIES: dict[str, ModelEntry] = {
    "mlp": _entry("mlp", GREY, 10, 25_450, "784-32-10, ReLU"),
    "mlp-sigmoid": _entry("mlp_sigmoid", GREY, 10, 50_890, "784-64-10, sigmoid (SoteriaFL on MNIST)"),
    "cnn": _entry("cnn", GREY, 10, 21_840, "conv 5x5 10-20 with max pooling, fc 50 (Fed-SPA on MNIST)"),
    "cnn-fashion": _entry("cnn_fashion", GREY, 10, 1_663_370, "conv 5x5 32-64, fc 512 (Fed-SMP on Fashion-MNIST)"),
    "cnn-cifar10": _entry("cnn_cifar10", COLOUR, 10, 537_610, "conv 3x3 64-128-256, fc 128-256 (Fed-SPA on CIFAR-10)"),
    "vgg11": _entry("vgg11", COLOUR, 10, 9_750_922, "VGG-11 without batch norm (PFELS on CIFAR-10)"),
    "resnet18": _entry("resnet18", GREY, 62, 11_192_746, "ResNet-18 with group norm (PFELS on FEMNIST)"),
    "cnn-svhn": _entry("cnn_svhn", COLOUR, 10, 3_431_754, "conv 5x5 64-128, fc 384-192 (Fed-SMP on SVHN)"),
    "lstm": _entry(
        "lstm", TEXT, 90, 822_570, "embedding 8, 2 LSTM layers of 256 (Fed-SMP on Shakespeare)", batched=False
    ),
    "logistic": _entry(
        "logistic", FEATURES, 2, 123, "logistic regression, nonconvex penalty (SoteriaFL on a9a)", layered=False
    ),
}
MODELS = Table("task.model", _ENTRIES)
