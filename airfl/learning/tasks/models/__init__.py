"""Models for the data sets of airfl.

    airfl.models.Mlp().build()

The classes can be imported from here by name; torch is imported only to build one. To add a model, add a file beside
these and a line in registry.py. A user-defined one derives from `Model` and needs no line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airfl.learning.tasks.models.model import Model
from airfl.learning.tasks.models.registry import MODELS
from channels.part import lazily

if TYPE_CHECKING:
    # For editors and type checkers, which cannot follow the imports of `__getattr__`.
    from airfl.learning.tasks.models.cnn import Cnn
    from airfl.learning.tasks.models.cnn_cifar10 import CnnCifar10
    from airfl.learning.tasks.models.cnn_fashion import CnnFashion
    from airfl.learning.tasks.models.cnn_femnist import CnnFemnist
    from airfl.learning.tasks.models.cnn_svhn import CnnSvhn
    from airfl.learning.tasks.models.lenet_cifar10 import LenetCifar10
    from airfl.learning.tasks.models.logistic import Logistic
    from airfl.learning.tasks.models.logistic_bias import LogisticBias
    from airfl.learning.tasks.models.lstm import Lstm
    from airfl.learning.tasks.models.mlp import Mlp
    from airfl.learning.tasks.models.mlp_sigmoid import MlpSigmoid
    from airfl.learning.tasks.models.resnet18 import ResNet18
    from airfl.learning.tasks.models.softmax import Softmax
    from airfl.learning.tasks.models.vgg11 import Vgg11

__all__ = [
    "MODELS",
    "Cnn",
    "CnnCifar10",
    "CnnFashion",
    "CnnFemnist",
    "CnnSvhn",
    "LenetCifar10",
    "Logistic",
    "LogisticBias",
    "Lstm",
    "Mlp",
    "MlpSigmoid",
    "Model",
    "ResNet18",
    "Softmax",
    "Vgg11",
]

__getattr__, __dir__ = lazily(__name__, __all__, MODELS)
