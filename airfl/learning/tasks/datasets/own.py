"""Checks of the arrays that a user-defined data set returns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.learning.tasks.datasets.dataset import Dataset
from airfl.learning.tasks.datasets.raw import RawData


def checked_data(dataset: Dataset, raw: Any) -> RawData:
    """Return the data with integer targets as int64 and floats as float32.

    Raises UserError for shapes other than the class declares, lengths that do not match, labels out of range, numbers
    that are not finite, and an invalid normalisation.
    """
    what = f"task.dataset: {dataset!r}"
    if not isinstance(raw, RawData):
        raise UserError(f"{what} must return a RawData, got {type(raw).__name__}")
    arrays = {}
    for part in ("train", "test"):
        inputs = _numbers(getattr(raw, f"{part}_inputs"), f"{what}: {part}_inputs")
        targets = _numbers(getattr(raw, f"{part}_targets"), f"{what}: {part}_targets")
        _check_part(dataset, part, inputs, targets, what)
        arrays[f"{part}_inputs"] = inputs
        arrays[f"{part}_targets"] = targets.astype(np.int64) if targets.dtype.kind in "iub" else targets
    declared = dataset.training_samples
    if declared is not None and len(arrays["train_targets"]) > declared:
        raise UserError(
            f"{what} must return at most training_samples = {declared:,} training samples, got "
            f"{len(arrays['train_targets']):,}"
        )
    for part in ("train", "test"):
        writers = getattr(raw, f"{part}_writers")
        if writers is not None:
            writers = _numbers(writers, f"{what}: {part}_writers")
            if writers.shape != (len(arrays[f"{part}_targets"]),) or writers.dtype.kind not in "iu":
                raise UserError(
                    f"{what}: {part}_writers must be one integer per sample, got {writers.dtype} of shape "
                    f"{writers.shape}"
                )
            arrays[f"{part}_writers"] = writers.astype(np.int64)
    mean, std = (tuple(float(one) for one in values) for values in (raw.mean, raw.std))
    _check_normalisation(dataset, arrays["train_inputs"], mean, std, what)
    return replace(raw, **arrays, classes=dataset.classes, mean=mean, std=std)


def _numbers(values: Any, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise UserError(f"{what} must be numbers, got {array.dtype}")
    if array.dtype.kind == "f":
        array = array if array.dtype == np.float32 else array.astype(np.float32)
        if not np.isfinite(array).all():
            raise UserError(f"{what} must be finite; remove or correct samples with other values")
    return array


def _check_part(dataset: Dataset, part: str, inputs: NDArray[Any], targets: NDArray[Any], what: str) -> None:
    if inputs.shape[1:] != tuple(dataset.input_shape) or inputs.ndim == 0:
        raise UserError(
            f"{what}: {part}_inputs must have shape (n, {', '.join(map(str, dataset.input_shape))}) by input_shape, "
            f"got {inputs.shape}"
        )
    if targets.ndim == 0 or len(inputs) != len(targets) or not len(inputs):
        raise UserError(
            f"{what} must return one input and one target per sample, got {len(inputs):,} {part}_inputs and "
            f"{len(targets) if targets.ndim else 'a single number as'} {part}_targets"
        )
    if dataset.classes:
        if targets.ndim != 1 or targets.dtype.kind not in "iu":
            raise UserError(
                f"{what}: {part}_targets must be class indices unless classes is 0, got {targets.dtype} of shape "
                f"{targets.shape}"
            )
        wrong = np.flatnonzero((targets < 0) | (targets >= dataset.classes))
        if len(wrong):
            raise UserError(
                f"{what}: {part}_targets must be 0 to {dataset.classes - 1}, got {targets[wrong[0]]} for sample "
                f"{wrong[0]}"
            )


def _check_normalisation(
    dataset: Dataset, inputs: NDArray[Any], mean: tuple[float, ...], std: tuple[float, ...], what: str
) -> None:
    """Check mean and std, which normalise the channels of byte images."""
    if not mean and not std:
        return
    channels = dataset.input_shape[0] if dataset.input_shape else 0
    if inputs.dtype != np.uint8 or len(dataset.input_shape) != 3:
        raise UserError(
            f"{what}: mean and std must be () unless inputs are uint8 of shape (channels, height, width), got "
            f"{inputs.dtype} of {inputs.shape[1:]}"
        )
    if not len(mean) == len(std) == channels or not all(np.isfinite([*mean, *std])) or min(std) <= 0:
        raise UserError(
            f"{what}: mean and std must be {channels} finite numbers each, std positive, got {mean} and {std}"
        )
