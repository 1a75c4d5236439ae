"""Checks of interference powers, applied to all draws of a user-defined model."""

from __future__ import annotations

from typing import Any

from channels.interference.kinds import Interference


def check_powers(model: Interference, elements: int, powers: Any) -> None:
    """Check the powers that a model returned for a number of elements.

    Raises ValueError for anything but a float64 tensor [elements] of finite numbers that are not negative.
    """
    import torch

    if not isinstance(powers, torch.Tensor) or powers.dtype != torch.float64 or powers.shape != (elements,):
        given = (
            f"{str(powers.dtype).removeprefix('torch.')} {list(powers.shape)}"
            if isinstance(powers, torch.Tensor)
            else type(powers).__name__
        )
        raise ValueError(f"{model!r} must return powers as a tensor, float64 [{elements}], got {given}")
    if not bool(torch.isfinite(powers).all()) or bool((powers < 0).any()):
        raise ValueError(f"{model!r} returned powers that are negative or not finite")
