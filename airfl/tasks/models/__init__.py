"""Models for the data sets of airfl.

    airfl.models.Mlp().build()

The classes can be imported from here by name; torch is imported only to build one. To add a model, add a file beside
these and a line in registry.py. A user-defined one derives from `Model` and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.tasks.models.model import Model
from airfl.tasks.models.registry import MODELS
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which cannot follow the imports of `__getattr__`.
    from airfl.tasks.models.cnn import Cnn
    from airfl.tasks.models.cnn_cifar10 import CnnCifar10
    from airfl.tasks.models.cnn_fashion import CnnFashion
    from airfl.tasks.models.cnn_svhn import CnnSvhn
    from airfl.tasks.models.logistic import Logistic
    from airfl.tasks.models.lstm import Lstm
    from airfl.tasks.models.mlp import Mlp
    from airfl.tasks.models.mlp_sigmoid import MlpSigmoid
    from airfl.tasks.models.resnet18 import ResNet18
    from airfl.tasks.models.vgg11 import Vgg11

__all__ = [
    "MODELS",
    "Cnn",
    "CnnCifar10",
    "CnnFashion",
    "CnnSvhn",
    "Logistic",
    "Lstm",
    "Mlp",
    "MlpSigmoid",
    "Model",
    "ResNet18",
    "Vgg11",
]

__getattr__, __dir__ = lazily(__name__, __all__, MODELS)
