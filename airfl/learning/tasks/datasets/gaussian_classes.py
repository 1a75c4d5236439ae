"""Gaussian classes with means at equal distances, whose least error has a closed form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from airfl.learning.tasks.datasets.generated import MOST_SAMPLES, Arrays, GeneratedDataset, equal_counts
from channels.part import LEAST_SCALE, MOST_SCALE, PartError, parameter

MOST_FEATURES, MOST_CLASSES = 1 << 16, 1 << 10
END, NODES = 38.0, 15_201
"""Range and nodes of the trapezoidal rule for the least error, correct to nine digits or more."""


class GaussianClasses(GeneratedDataset):
    """Gaussian classes with means at equal distances, and devices that differ in labels and in features.

    A sample of class y on device k is x = m_y + s_k + z, z ~ N(0, I). The class means are sqrt(1/2) separation times
    orthonormal directions, which are drawn once for all devices, so that any two have the distance `separation`. The
    labels of device k follow p_k ~ Dirichlet(concentration), and s_k ~ N(0, shift_std^2 I) moves all features of the
    device. Over all devices the classes are equally likely, and no classifier has a smaller error than `least_error`.
    """

    name = "gaussian-classes"
    text = "Gaussian classes of a given distance, with a least error in closed form, for any N"

    classes_count: int = parameter(
        default=10,
        ge=2,
        le=MOST_CLASSES,
        description="number of classes, for dataset = gaussian-classes",
        key="gaussian_classes",
    )
    features: int = parameter(
        default=20,
        ge=2,
        le=MOST_FEATURES,
        description="number of features, at least that of the classes, for dataset = gaussian-classes",
        key="gaussian_features",
    )
    separation: float = parameter(
        default=4.0,
        ge=0,
        le=MOST_SCALE,
        description="distance of two class means over the standard deviation of a feature, for dataset = "
        "gaussian-classes",
        key="class_separation",
    )
    concentration: float = parameter(
        default=math.inf,
        ge=LEAST_SCALE,
        le=MOST_SCALE,
        also=(math.inf,),
        description="concentration of the Dirichlet distribution of a device's labels, inf for equally likely classes, "
        "for dataset = gaussian-classes",
        key="label_concentration",
    )
    shift_std: float = parameter(
        default=0.0,
        ge=0,
        le=MOST_SCALE,
        description="standard deviation of a device's shift of every feature, for dataset = gaussian-classes",
        key="shift_std",
    )
    device_samples: int = parameter(
        default=100,
        ge=1,
        le=MOST_SAMPLES,
        description="training samples of a device",
        key="device_samples",
    )

    def check(self) -> None:
        """Raise PartError if there are fewer features than classes."""
        if self.features < self.classes_count:
            raise PartError(
                f"features must be at least the number of classes, {self.classes_count}, got {self.features}",
                "features",
            )

    @property
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Shape of an input, (features,)."""
        return (self.features,)

    @property
    def classes(self) -> int:  # type: ignore[override]
        """Number of classes."""
        return self.classes_count

    @property
    def least_error(self) -> float:
        """Least probability of error of a classifier that does not know the device, in closed form.

        Without the device, x is N(m_y, (1 + shift_std^2) I). The error is that of c orthogonal signals, 1 minus the
        integral of phi(z - a) Phi(z)^(c - 1) with a = separation / sqrt(2 (1 + shift_std^2)) (Proakis and Salehi,
        Digital Communications, 5th ed., eq. 4.4-10), and Q(separation / (2 sqrt(1 + shift_std^2))) for two classes.
        """
        from scipy.special import log_ndtr

        amplitude = self.separation / math.sqrt(2 * (1 + self.shift_std**2))
        z = np.linspace(-END, END, NODES)
        density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
        wrong = -np.expm1((self.classes - 1) * log_ndtr(z + amplitude))  # an error given z
        return float(np.sum(density * wrong) * (z[1] - z[0]))

    def counts(self, uniforms: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return `device_samples` for the training of each device, and a ninth of that, rounded up, for the test."""
        return equal_counts(self.device_samples, len(uniforms))

    def common(self, generator: np.random.Generator) -> Arrays:
        """Return the class means, [classes, features], in directions that are uniformly distributed."""
        gaussian = generator.standard_normal((self.features, self.classes))
        directions, upper = np.linalg.qr(gaussian)
        directions = directions * np.sign(np.diag(upper))
        return {"means": self.separation / math.sqrt(2) * directions.T}

    def draw(
        self, generator: np.random.Generator, count: int, common: Arrays
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Draw p_k and s_k, then the samples."""
        shares = np.full(self.classes, 1 / self.classes)
        if math.isfinite(self.concentration):
            shares = generator.dirichlet(np.full(self.classes, self.concentration))
        shift = self.shift_std * generator.standard_normal(self.features)
        ends = np.cumsum(shares)[:-1]
        targets = np.searchsorted(ends, generator.random(count), side="right")
        inputs = common["means"][targets] + shift + generator.standard_normal((count, self.features))
        return inputs.astype(np.float32), targets.astype(np.int64)
