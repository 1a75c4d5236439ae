"""Synthetic(alpha, beta): softmax regression with a model and a feature law of each device's own.

T. Li, A. K. Sahu, M. Zaheer, M. Sanjabi, A. Talwalkar, V. Smith, "Federated Optimization in Heterogeneous Networks",
MLSys 2020 (FedProx), section 5.1 and appendix C.1. Where the paper and its public code differ, the code is followed,
since it has made the data sets that papers report on.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from airfl.learning.tasks.datasets.generated import MOST_SAMPLES, Arrays, GeneratedDataset, equal_counts
from channels.part import MOST_SCALE, parameter

Array = NDArray[np.float64]

FEATURES, CLASSES = 60, 10
DECAY = 1.2
"""Sigma_jj = j^-1.2, the variance of feature j."""
LOG_MEAN, LOG_STD, FEWEST = 4.0, 2.0, 50
"""Samples of a device: 50 and the integer part of a lognormal number with this mean and deviation of its logarithm."""


class Synthetic(GeneratedDataset):
    """Synthetic(alpha, beta) of Li et al. (2020): 60 features and 10 classes, different on every device.

    Device k labels x ~ N(v_k, Sigma) by y = argmax softmax(W_k x + b_k). The entries of W_k and b_k are normal with
    mean u_k and variance 1, those of v_k with mean B_k and variance 1. u_k and B_k are normal with mean 0 and the
    standard deviations alpha and beta, as in the paper's public code. Sigma is diagonal, Sigma_jj = j^-1.2. Nine tenths
    of a device's samples are for training. As u_k moves the logits of all classes alike, alpha changes no label.
    """

    name = "synthetic"
    input_shape = (FEATURES,)
    classes = CLASSES
    text = "60 features, 10 classes, a model of each device's own: synthetic(alpha, beta) of FedProx, for any N"

    alpha: float = parameter(
        default=1.0,
        ge=0,
        le=MOST_SCALE,
        description="standard deviation of u_k, the mean of a device's model, for dataset = synthetic; it moves all "
        "logits alike and changes no label",
        key="synthetic_alpha",
    )
    beta: float = parameter(
        default=1.0,
        ge=0,
        le=MOST_SCALE,
        description="standard deviation of B_k, the mean of a device's feature means, for dataset = synthetic",
        key="synthetic_beta",
    )
    iid: bool = parameter(
        default=False,
        description="whether all devices have the same W and b, and features of mean 0, for dataset = synthetic",
        key="synthetic_iid",
    )
    sizes: Literal["lognormal", "equal"] = parameter(
        default="lognormal",
        description="samples of a device, for dataset = synthetic: lognormal as in the paper's public code, or equal: "
        "device_samples for training",
        key="synthetic_sizes",
    )
    device_samples: int = parameter(
        default=100,
        ge=1,
        le=MOST_SAMPLES,
        description="training samples of a device with sizes = equal",
        key="device_samples",
    )

    def counts(self, uniforms: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return floor(0.9 n) and the rest of n = 50 + floor(exp(4 + 2 z)), z ~ N(0, 1), or equal numbers."""
        if self.sizes == "equal":
            return equal_counts(self.device_samples, len(uniforms))
        from scipy.special import ndtri  # a tenth of a second, which settings need not wait for

        drawn = np.exp(LOG_MEAN + LOG_STD * ndtri(uniforms))
        total = np.minimum(drawn, MOST_SAMPLES).astype(np.int64) + FEWEST
        train = 9 * total // 10
        return train, total - train

    def common(self, generator: np.random.Generator) -> Arrays:
        """Return W and b of all devices in the iid variant, else nothing."""
        if not self.iid:
            return {}
        return {"W": generator.standard_normal((FEATURES, CLASSES)), "b": generator.standard_normal(CLASSES)}

    def draw(
        self, generator: np.random.Generator, count: int, common: Arrays
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Draw the law of the device, then its samples."""
        mean, weights, bias = self.law_of_device(generator, common)
        deviations = np.arange(1, FEATURES + 1) ** (-DECAY / 2)
        inputs = mean + deviations * generator.standard_normal((count, FEATURES))
        targets = np.argmax(inputs @ weights + bias, axis=1)
        return inputs.astype(np.float32), targets.astype(np.int64)

    def law_of_device(self, generator: np.random.Generator, common: Arrays) -> tuple[Array, Array, Array]:
        """Draw v_k [60], W_k [60, 10] and b_k [10], the first draws of a device's stream."""
        if self.iid:
            return np.zeros(FEATURES), common["W"], common["b"]
        u = self.alpha * generator.standard_normal()
        mean = self.beta * generator.standard_normal() + generator.standard_normal(FEATURES)
        weights = u + generator.standard_normal((FEATURES, CLASSES))
        return mean, weights, u + generator.standard_normal(CLASSES)
