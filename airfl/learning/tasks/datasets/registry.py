"""The registry of data sets. To add one, add a file beside this one and a line here; user-defined ones need none.

torch is not needed to load one.
"""

from __future__ import annotations

from airfl.learning.tasks.datasets.dataset import Dataset
from channels.part import Registry

DATASETS: Registry[Dataset] = Registry(
    "data set",
    Dataset,
    {
        "fashion-mnist-sample": "airfl.learning.tasks.datasets.fashion_mnist_sample:FashionMnistSample",
        "fashion-mnist": "airfl.learning.tasks.datasets.fashion_mnist:FashionMnist",
        "mnist": "airfl.learning.tasks.datasets.mnist:Mnist",
        "cifar10": "airfl.learning.tasks.datasets.cifar10:Cifar10",
        "femnist": "airfl.learning.tasks.datasets.femnist:Femnist",
        "svhn": "airfl.learning.tasks.datasets.svhn:Svhn",
        "svhn-extra": "airfl.learning.tasks.datasets.svhn_extra:SvhnExtra",
        "a9a-sample": "airfl.learning.tasks.datasets.a9a_sample:A9aSample",
        "a9a": "airfl.learning.tasks.datasets.a9a:A9a",
        "shakespeare": "airfl.learning.tasks.datasets.shakespeare:Shakespeare",
        "shakespeare-plays": "airfl.learning.tasks.datasets.shakespeare_plays:ShakespearePlays",
        "synthetic": "airfl.learning.tasks.datasets.synthetic:Synthetic",
        "gaussian-classes": "airfl.learning.tasks.datasets.gaussian_classes:GaussianClasses",
    },
    group="airfl.datasets",
)
