"""Handling of non-finite numbers according to run.non_finite, with messages that name the round and the device.

A non-finite update is never averaged. A non-finite model, which is not attributable to a single device, stops the run.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from airfl.errors import DivergedError

if TYPE_CHECKING:
    from torch import Tensor

    from airfl.learning.evaluation import Evaluation

log = logging.getLogger(__name__)

NonFinite = Literal["stop", "drop", "clip"]
"""What is done about numbers that are not finite, run.non_finite."""
Ids = NDArray[np.int64]
LOWER = "lower local.learning_rate, or server.learning_rate"


def check_updates(norms: Tensor, devices: Ids, round_index: int, policy: NonFinite) -> NDArray[np.bool_]:
    """Report updates that are not finite: raise DivergedError for policy "stop", else log a warning.

    Args:
        norms: l2 norms of the updates, [devices].
        devices: Ids of the devices, [devices].
        round_index: Index of the round.
        policy: run.non_finite.

    Returns a mask of these updates, [devices].
    """
    bad: NDArray[np.bool_] = ~norms.isfinite().cpu().numpy()
    if not bad.any():
        return bad
    if policy == "stop":
        raise DivergedError(
            f"round {round_index}, device {devices[bad][0]}: its update is not finite, training diverged; {LOWER}, "
            "or say with run.non_finite what is done about such a device"
        )
    log.warning(
        "round %d: the update of %s is not finite and was %s",
        round_index,
        named(devices[bad]),
        {"drop": "dropped", "clip": "clipped"}[policy],
    )
    return bad


def check_channel(finite: NDArray[np.bool_], devices: Ids, round_index: int, policy: NonFinite) -> None:
    """Report channels that are not finite: raise DivergedError for policy "stop", else log a warning."""
    if policy == "stop":
        raise DivergedError(
            f"round {round_index}, device {devices[~finite][0]}: its channel is not finite; see [channel] and "
            "[topology], or leave such devices out with run.non_finite = drop"
        )
    log.warning("round %d: the channel of %s is not finite and was left out", round_index, named(devices[~finite]))


def check_model(parameters: Tensor, round_index: int) -> None:
    """Raise DivergedError if the new model [d] is not finite."""
    if not all_finite(parameters):
        raise DivergedError(f"round {round_index}: the model is not finite after the server's step; {LOWER}")


def check_public(update: Tensor, round_index: int, policy: NonFinite) -> None:
    """Report the server's update on public data [d], which selects coordinates, if it is not finite: raise
    DivergedError for policy "stop", else log a warning."""
    if all_finite(update):
        return
    if policy == "stop":
        raise DivergedError(
            f"round {round_index}: the update on the public samples is not finite; {LOWER}, or scheme.public_steps, or "
            "say with run.non_finite that the run goes on"
        )
    log.warning("round %d: the update on the public samples is not finite; nan counts as 0", round_index)


def check_losses(evaluation: Evaluation | None, round_index: int) -> None:
    """Raise DivergedError if a loss or metric is not finite, as the trace marks rounds without evaluation by nan."""
    losses = {"training": evaluation.train_loss, "test": evaluation.test_loss} if evaluation else {}
    for name, loss in losses.items():
        if not math.isfinite(loss):
            raise DivergedError(f"round {round_index}: the model's {name} loss is {loss}, training diverged; {LOWER}")
    for name, value in evaluation.metrics.items() if evaluation else ():
        if not math.isfinite(value):
            raise DivergedError(f"round {round_index}: metric {name!r} must be finite on the test set, got {value}")


def all_finite(values: Tensor) -> bool:
    """Return whether all values are finite. The sum decides quickly, except where a sum of finite values overflows."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def named(devices: Ids) -> str:
    """Return a short list of devices: "device 3", "devices 3, 5 and 17 others"."""
    shown = devices[:5].tolist()
    more = f" and {len(devices) - len(shown)} others" if len(devices) > len(shown) else ""
    return f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, shown))}{more}"
