"""Whether what a data set of the user's own gives is what it promises."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.errors import UserError
from airfl.tasks.datasets.dataset import Dataset
from airfl.tasks.datasets.raw import RawData


def checked_data(dataset: Dataset, raw: Any) -> RawData:
    """Its arrays, whole numbers of targets as int64 and floats as float32.

    Raises UserError, in one line, for arrays of another shape than the class declares, lengths that do not go together,
    labels out of range, numbers that are not finite, and a normalisation that is none.
    """
    what = f"task.dataset: {dataset!r}"
    if not isinstance(raw, RawData):
        raise UserError(f"{what} gave {type(raw).__name__}, a RawData is wanted")
    arrays = {}
    for part in ("train", "test"):
        inputs = _numbers(getattr(raw, f"{part}_inputs"), f"{what} gave {part}_inputs")
        targets = _numbers(getattr(raw, f"{part}_targets"), f"{what} gave {part}_targets")
        _check_part(dataset, part, inputs, targets, what)
        arrays[f"{part}_inputs"] = inputs
        arrays[f"{part}_targets"] = targets.astype(np.int64) if targets.dtype.kind in "iub" else targets
    declared = dataset.training_samples
    if declared is not None and len(arrays["train_targets"]) > declared:
        raise UserError(
            f"{what} gave {len(arrays['train_targets']):,} training samples, and its training_samples says {declared:,}"
        )
    for part in ("train", "test"):
        writers = getattr(raw, f"{part}_writers")
        if writers is not None:
            writers = _numbers(writers, f"{what} gave {part}_writers")
            if writers.shape != (len(arrays[f"{part}_targets"]),) or writers.dtype.kind not in "iu":
                raise UserError(
                    f"{what} gave {part}_writers of {writers.dtype} and shape {writers.shape}; a whole number a sample "
                    "is wanted"
                )
            arrays[f"{part}_writers"] = writers.astype(np.int64)
    mean, std = (tuple(float(one) for one in values) for values in (raw.mean, raw.std))
    _check_normalisation(dataset, arrays["train_inputs"], mean, std, what)
    return replace(raw, **arrays, classes=dataset.classes, mean=mean, std=std)


def _numbers(values: Any, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise UserError(f"{what} of {array.dtype}; numbers are wanted")
    if array.dtype.kind == "f":
        array = array if array.dtype == np.float32 else array.astype(np.float32)
        if not np.isfinite(array).all():
            raise UserError(f"{what} with numbers that are not finite; leave such samples out, or mend them")
    return array


def _check_part(dataset: Dataset, part: str, inputs: NDArray[Any], targets: NDArray[Any], what: str) -> None:
    if inputs.shape[1:] != tuple(dataset.input_shape) or inputs.ndim == 0:
        raise UserError(
            f"{what} gave {part}_inputs of shape {inputs.shape}, and its input_shape says (n, "
            f"{', '.join(map(str, dataset.input_shape))})"
        )
    if targets.ndim == 0 or len(inputs) != len(targets) or not len(inputs):
        raise UserError(
            f"{what} gave {len(inputs):,} {part}_inputs and {len(targets) if targets.ndim else 'a number as'} "
            f"{part}_targets; one of each a sample is wanted"
        )
    if dataset.classes:
        if targets.ndim != 1 or targets.dtype.kind not in "iu":
            raise UserError(
                f"{what} gave {part}_targets of {targets.dtype} and shape {targets.shape}; class numbers are wanted, "
                "or classes = 0"
            )
        wrong = np.flatnonzero((targets < 0) | (targets >= dataset.classes))
        if len(wrong):
            raise UserError(
                f"{what} gave sample {wrong[0]} of {part} the label {targets[wrong[0]]}; 0 to {dataset.classes - 1} "
                "are allowed"
            )


def _check_normalisation(
    dataset: Dataset, inputs: NDArray[Any], mean: tuple[float, ...], std: tuple[float, ...], what: str
) -> None:
    """mean and std are of each channel of bytes."""
    if not mean and not std:
        return
    channels = dataset.input_shape[0] if dataset.input_shape else 0
    if inputs.dtype != np.uint8 or len(dataset.input_shape) != 3:
        raise UserError(
            f"{what} gave mean and std, which normalise pixels (uint8, channels x height x width), and inputs of "
            f"{inputs.dtype} and shape {inputs.shape[1:]} each; give () where they are as the model takes them"
        )
    if not len(mean) == len(std) == channels or not all(np.isfinite([*mean, *std])) or min(std) <= 0:
        raise UserError(f"{what} gave mean {mean} and std {std}; {channels} numbers each are wanted, std above 0")
