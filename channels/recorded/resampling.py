"""Putting recorded frequencies and times onto the grid of a run.

A recorded point is used as it is where the grid has the same one. Between recorded points, H is interpolated: over
frequency by the cubic through the four nearest points, over time on the line between two. Nothing is extrapolated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from channels.draws import Array
from channels.recorded.source import RecordingError

SAME = 1e-6
"""Points closer than this share of the recorded spacing count as one."""
CUBIC, LINEAR = 4, 2
"""Points of an interpolating polynomial."""

V = TypeVar("V", np.complex64, np.complex128, np.float32)


@dataclass(frozen=True)
class Resampler:
    """Interpolation along one axis.

    Attributes:
        indices: Recorded points of each wanted one, [wanted, points]; one point where it is used as it is.
        weights: Their weights, [wanted, points], with sum 1.
    """

    indices: NDArray[np.int64]
    weights: Array

    @property
    def exact(self) -> bool:
        """Whether every wanted point is a recorded one."""
        return bool(self.indices.shape[1] == 1)

    def __call__(self, values: NDArray[V], axis: int) -> NDArray[V]:
        """Return the values at the wanted points, in the type that they have."""
        if self.exact:
            chosen = self.indices[:, 0]
            if len(chosen) == values.shape[axis] and (chosen == np.arange(len(chosen))).all():
                return values
            return np.take(values, chosen, axis=axis)
        shape = [1] * values.ndim
        shape[axis] = len(self.indices)
        total = np.zeros(
            (*values.shape[:axis], len(self.indices), *values.shape[axis + 1 :]), np.result_type(values, 1.0)
        )
        for point in range(self.indices.shape[1]):
            total += np.take(values, self.indices[:, point], axis=axis) * self.weights[:, point].reshape(shape)
        return total.astype(values.dtype)


def resampler(recorded: Array, wanted: Array, points: int, unit: str) -> Resampler:
    """Return the interpolation from recorded to wanted points, both ascending.

    Args:
        recorded: The recorded points, [recorded].
        wanted: The wanted points, [wanted].
        points: Points of the polynomial, at most as many as are recorded.
        unit: Unit of the points, for messages.

    Raises RecordingError if a wanted point lies outside the recorded ones.
    """
    spacing = float(np.diff(recorded).min()) if len(recorded) > 1 else max(abs(float(recorded[0])), 1.0)
    near = np.clip(np.searchsorted(recorded, wanted), 0, len(recorded) - 1)
    left = np.maximum(near - 1, 0)
    nearest = np.where(np.abs(recorded[left] - wanted) < np.abs(recorded[near] - wanted), left, near)
    if (np.abs(recorded[nearest] - wanted) <= SAME * spacing).all():
        return Resampler(nearest[:, None], np.ones((len(wanted), 1)))
    low, high = recorded[0] - SAME * spacing, recorded[-1] + SAME * spacing
    if wanted[0] < low or wanted[-1] > high:
        raise RecordingError(
            f"it holds {recorded[0]:g} to {recorded[-1]:g} {unit}, but the run needs {wanted[0]:g} to {wanted[-1]:g} "
            f"{unit}, and nothing is extrapolated"
        )
    points = min(points, len(recorded))
    interval = np.clip(np.searchsorted(recorded, wanted, side="right") - 1, 0, len(recorded) - 2)
    first = np.clip(interval - (points // 2 - 1), 0, len(recorded) - points)
    indices = first[:, None] + np.arange(points)
    return Resampler(indices, _lagrange(recorded[indices], wanted))


def halving_error(values: NDArray[np.complexfloating], recorded: Array) -> float:
    """Return the error of predicting every other recorded subcarrier from the others, over their energy.

    The prediction is the interpolation over frequency at twice the recorded spacing, on the last axis of `values`. nan
    if too few are recorded, or without any energy.
    """
    kept, left_out = recorded[::2], recorded[1::2]
    inside = left_out <= kept[-1]
    if len(kept) < LINEAR or not inside.any():
        return math.nan
    predicted = resampler(kept, left_out[inside], CUBIC, "Hz")(np.asarray(values[..., ::2]), values.ndim - 1)
    true = values[..., 1::2][..., inside]
    error = np.abs(np.asarray(predicted, dtype=np.complex128) - true) ** 2
    energy = float((np.abs(true).astype(np.float64) ** 2).sum())
    return float(error.sum()) / energy if energy else math.nan


def _lagrange(points: Array, wanted: Array) -> Array:
    """Return the weights of the polynomial through the points at the wanted places, [wanted, points]."""
    weights = np.ones(points.shape)
    for one in range(points.shape[1]):
        for other in range(points.shape[1]):
            if one != other:
                weights[:, one] *= (wanted - points[:, other]) / (points[:, one] - points[:, other])
    return weights
