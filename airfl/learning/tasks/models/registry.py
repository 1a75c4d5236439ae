"""The registry of models. To add one, add a file beside this one and a line here; user-defined ones need none.

torch is imported only to build one.
"""

from __future__ import annotations

from airfl.learning.tasks.models.model import Model
from channels.part import Registry

MODELS: Registry[Model] = Registry(
    "model",
    Model,
    {
        "mlp": "airfl.learning.tasks.models.mlp:Mlp",
        "mlp-sigmoid": "airfl.learning.tasks.models.mlp_sigmoid:MlpSigmoid",
        "cnn": "airfl.learning.tasks.models.cnn:Cnn",
        "cnn-fashion": "airfl.learning.tasks.models.cnn_fashion:CnnFashion",
        "cnn-cifar10": "airfl.learning.tasks.models.cnn_cifar10:CnnCifar10",
        "cnn-femnist": "airfl.learning.tasks.models.cnn_femnist:CnnFemnist",
        "lenet-cifar10": "airfl.learning.tasks.models.lenet_cifar10:LenetCifar10",
        "vgg11": "airfl.learning.tasks.models.vgg11:Vgg11",
        "resnet18": "airfl.learning.tasks.models.resnet18:ResNet18",
        "cnn-svhn": "airfl.learning.tasks.models.cnn_svhn:CnnSvhn",
        "lstm": "airfl.learning.tasks.models.lstm:Lstm",
        "logistic": "airfl.learning.tasks.models.logistic:Logistic",
        "softmax": "airfl.learning.tasks.models.softmax:Softmax",
        "logistic-bias": "airfl.learning.tasks.models.logistic_bias:LogisticBias",
    },
    group="airfl.models",
)
