"""How far the variables of a run may be from those of its bundle where the processor or a version differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.config import Settings
from airfl.core.building import build_scenario
from airfl.core.preflight import equal_weights
from airfl.storage.trace.schema import METRIC
from airfl.uplinks.stages import Clip, ErrorFeedback, GaussianNoise, PerDeviceRandK, RandK, ShiftedCompression


@dataclass(frozen=True)
class Tolerance:
    """How far a variable may be from that of the bundle where the processor or a version differs.

    Attributes:
        relative: The part that grows with the values.
        absolute: The part that does not, in the variable's unit.
        of_mean: Whether the root mean square of the differences counts, against that of the values; otherwise every
            difference counts, |a - b| <= absolute + relative max(|a|, |b|).
    """

    relative: float = 0.0
    absolute: float = 0.0
    of_mean: bool = False

    def __str__(self) -> str:
        relative = f"{self.relative:.0e}" if self.relative < 0.001 else f"{self.relative:.0%}"
        parts = [relative] if self.relative else []
        parts += [f"{self.absolute:g}"] if self.absolute else []
        return (" + ".join(parts) or "equal") + (", rms" if self.of_mean else "")


EQUAL = Tolerance()
"""Integers, such as selected devices, resource elements and bits."""
BEFORE_TRAINING = Tolerance(relative=1e-4)
"""Variables that follow from settings and channel, without training: gains, power limits, beta, noise, epsilon."""
TRAINED = Tolerance(relative=0.01, absolute=1e-6, of_mean=True)
"""Variables that depend on local training: losses, norms, errors, energies."""
SHARE = Tolerance(absolute=0.01, of_mean=True)
"""Shares of test samples, of symbols and of entries, from 0 to 1."""
DECIBELS = Tolerance(absolute=0.1, of_mean=True)
LOOSE = {
    TRAINED: Tolerance(relative=0.3, absolute=1e-6, of_mean=True),
    SHARE: Tolerance(absolute=0.1, of_mean=True),
    DECIBELS: Tolerance(absolute=3.0, of_mean=True),
}
"""The same for schemes that decide on single entries of an update (top-k, quantising, signs). There, a difference in
the last digit can change a decision, and with it the model of the next round."""
OF_TRAINING = {
    **dict.fromkeys(("test_accuracy", "validation_accuracy"), SHARE),
    **dict.fromkeys(("clipped_share", "waveform_clipped_share", "receiver_clipped_share"), SHARE),
    **dict.fromkeys(("test_loss", "train_loss", "validation_loss", "gradient_norm_squared"), TRAINED),
    **dict.fromkeys(("aggregation_error", "update_norm", "interference_std"), TRAINED),
    **dict.fromkeys(("energy", "transmit_energy", "amplifier_energy"), TRAINED),
    **dict.fromkeys(("receive_snr_db", "snr_db", "papr_db"), DECIBELS),
}
"""Tolerances of variables that depend on training; the names of energies are without their unit."""
CONTINUOUS = (Clip, RandK, PerDeviceRandK, GaussianNoise)
"""Stages whose output changes little if their input does."""


def tolerance_of(variable: str, dtype: np.dtype[Any], deciding: bool = False) -> Tolerance:
    """Return the tolerance of a variable of a trace.

    Args:
        variable: Its name, with or without the unit of energies.
        dtype: Its type; integers must be equal.
        deciding: Whether the scheme decides on single entries of an update, see `decides`.
    """
    if not np.issubdtype(dtype, np.inexact):
        return EQUAL
    name = "test_loss" if variable.startswith(METRIC) else variable.removesuffix("_j").removesuffix("_normalised")
    allowed = OF_TRAINING.get(name, BEFORE_TRAINING)
    return LOOSE.get(allowed, allowed) if deciding else allowed


def decides(settings: Settings, dimension: int) -> bool:
    """Whether the encoder of a run decides on single entries of an update, as top-k, quantisers and signs do.

    Args:
        settings: Its settings.
        dimension: d, the number of parameters of its model.
    """
    scenario = build_scenario(settings, dimension, equal_weights(settings.run))
    return not all(map(_is_continuous, scenario.recipe.stages))


def _is_continuous(stage: object) -> bool:
    if isinstance(stage, ErrorFeedback):
        return all(map(_is_continuous, stage.stages))
    if isinstance(stage, ShiftedCompression):
        return _is_continuous(stage.compressor)
    return isinstance(stage, CONTINUOUS)


def off_by(new: NDArray[Any], old: NDArray[Any], allowed: Tolerance) -> float:
    """Return the largest difference over its tolerance; inf if a value is finite in only one of the two.

    Args:
        new: Values of the repeated run.
        old: Values of the bundle, of the same shape.
        allowed: The tolerance.
    """
    each = _each_off_by(new, old, allowed)
    if not allowed.of_mean or not np.isfinite(each).all():
        return float(each.max(initial=0.0))
    finite = np.isfinite(new) & np.isfinite(old)
    return float(np.sqrt(np.mean(each[finite] ** 2))) if finite.any() else 0.0


def first_round_off(
    new: NDArray[Any], old: NDArray[Any], allowed: Tolerance, rounds: NDArray[np.float64]
) -> int | None:
    """Return the first round with a value that is off by more than the tolerance; None if there is none.

    Args:
        new: Values of the repeated run.
        old: Values of the bundle, of the same shape.
        allowed: The tolerance. Where it is one of a root mean square, it is that of the whole run.
        rounds: The round of each value, of the same shape.
    """
    beyond = rounds[_each_off_by(new, old, allowed) > 1]
    return int(beyond.min()) if len(beyond) and np.isfinite(beyond).all() else None


def _each_off_by(new: NDArray[Any], old: NDArray[Any], allowed: Tolerance) -> NDArray[np.float64]:
    """Return the difference of each value over its tolerance; inf for one that is finite in only one of the two."""
    off = np.zeros(new.shape)
    finite, same = np.isfinite(new) & np.isfinite(old), (new == old) | (np.isnan(new) & np.isnan(old))
    off[~finite & ~same] = np.inf
    a, b = np.abs(new[finite]), np.abs(old[finite])
    size = np.sqrt(np.mean(b**2)) if allowed.of_mean and len(b) else np.maximum(a, b)
    difference, limit = np.abs(new[finite] - old[finite]), allowed.absolute + allowed.relative * size
    with np.errstate(divide="ignore", invalid="ignore"):
        off[finite] = np.where(difference > 0, difference / limit, 0.0)
    return off
