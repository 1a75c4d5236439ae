"""Checks of interference models on uniform numbers, as the tests make them for built-in ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from airfl.study.check.finding import Check
from airfl.study.check.reading import recording, unread
from channels.interference import Interference, check_powers
from channels.part import Part

ELEMENTS = 20_000
"""Elements whose powers are drawn; their mean is known to 5 of its standard errors."""


def checks(part: Part, overrides: Sequence[str] = ()) -> list[Check]:
    """Return the checks of an interference model. They need no runs, and so ignore the overrides."""
    del overrides
    assert isinstance(part, Interference)
    return [
        Check("powers", "powers are float64 [elements], finite and not negative", partial(powers, part)),
        Check("mean-power", "their mean is 1, unless finite_power is false", partial(mean_power, part), ("powers",)),
        Check(
            "own-elements", "an element's power depends on its own numbers", partial(own_elements, part), ("powers",)
        ),
        Check("parameters", "every parameter is read", partial(parameters, part), ("powers",)),
    ]


def powers(model: Interference) -> str | None:
    """Check the powers of many elements, of one, and of none."""
    import torch

    for count in (ELEMENTS, 1, 0):
        uniforms = torch.from_numpy(np.random.default_rng(0).random((count, model.uniforms)))
        try:
            check_powers(model, count, model.powers(uniforms))
        except ValueError as error:
            return str(error)
    return None


def mean_power(model: Interference) -> str | None:
    """Compare the mean of the powers with 1, within 5 standard errors."""
    if not model.finite_power:
        return None
    drawn = _drawn(model)
    off, error = abs(drawn.mean() - 1), 5 * drawn.std() / math.sqrt(len(drawn))
    if off > error + 1e-9:
        return f"the mean power is {drawn.mean():.4g}, not 1 +- {error:.2g}; scale it, so that the level is what is set"
    return None


def own_elements(model: Interference) -> str | None:
    """Compare the powers of the first elements with those that they have among all."""
    if not np.array_equal(_drawn(model)[:10], _drawn(model, 10)):
        return "the power of an element depends on how many others there are; compute each from its own row of numbers"
    return None


def parameters(model: Interference) -> str | None:
    """Check that computing powers reads all parameters; a link reads that of the antennas."""
    made, read = recording(model)
    _drawn(made, 10)
    return unread(model, {*read, "across_antennas"})


def _drawn(model: Interference, count: int = ELEMENTS) -> np.ndarray:
    import torch

    uniforms = torch.from_numpy(np.random.default_rng(1).random((ELEMENTS, model.uniforms))[:count])
    return model.powers(uniforms).numpy()
