"""kernel.c as a shared library."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import numpy as np

from airfl.storage import c_library

POINTER, SIZE, FLOAT, INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int32
CALLBACK = ctypes.CFUNCTYPE(None)
TOLERANCE = 1e-5
"""Largest difference of numbers of order 1 from those that numpy computes in double precision."""


class CLayer(ctypes.Structure):
    """A linear layer and the activation that follows, as kernel.c declares it."""

    _fields_ = (("inputs", SIZE), ("outputs", SIZE), ("bias", INT), ("activation", INT))


class CSamples(ctypes.Structure):
    """Samples of a data set, as kernel.c declares them."""

    _fields_ = (("floats", POINTER), ("bytes", POINTER), ("values", POINTER), ("channel", SIZE), ("targets", POINTER))


@functools.cache
def load_library() -> ctypes.CDLL | None:
    """Return the compiled library; None without a C compiler, or if it does not compute what numpy does."""
    return c_library.load(SOURCE)


def _declare(loaded: ctypes.CDLL) -> None:
    layers = (POINTER, INT)
    samples = (ctypes.POINTER(CSamples), POINTER, SIZE, SIZE, SIZE)
    loaded.airfl_dense_train.argtypes = (*layers, POINTER, *samples, FLOAT, FLOAT, POINTER, INT, CALLBACK)
    loaded.airfl_dense_sums.argtypes = (*layers, POINTER, INT, *[POINTER] * 3, SIZE, SIZE, FLOAT, FLOAT, POINTER)
    for function in (loaded.airfl_dense_train, loaded.airfl_dense_sums):
        function.restype = INT


def _is_right(loaded: ctypes.CDLL) -> bool:
    """Whether the gradient of one linear layer is that of numpy."""
    generator = np.random.default_rng(0)
    samples, inputs, classes = 7, 19, 3
    weights, biases = generator.normal(size=(classes, inputs)), generator.normal(size=classes)
    features, labels = generator.normal(size=(samples, inputs)), generator.integers(classes, size=samples)
    logits = features @ weights.T + biases
    errors = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True) - np.eye(classes)[labels]
    wanted = np.concatenate([(errors.T @ features).ravel(), errors.sum(axis=0)])
    given = [
        np.ascontiguousarray(part, dtype=np.float32)
        for part in (np.concatenate([weights.ravel(), biases]), features, np.ones(samples), np.zeros(len(wanted)))
    ]
    parameters, inputs_, present, sums = (part.ctypes.data for part in given)
    layer = CLayer(inputs, classes, 1, 0)
    failed = loaded.airfl_dense_sums(
        ctypes.addressof(layer),
        1,
        parameters,
        1,
        inputs_,
        labels.ctypes.data,
        present,
        1,
        samples,
        np.inf,
        np.inf,
        sums,
    )
    return not failed and bool(np.abs(given[-1] - wanted).max() < TOLERANCE * samples)


SOURCE = c_library.Source(
    file=Path(__file__).with_name("kernel.c"),
    flags=("-ffp-contract=fast", "-pthread"),
    declare=_declare,
    is_right=_is_right,
    otherwise="fully connected networks are computed by torch",
)
