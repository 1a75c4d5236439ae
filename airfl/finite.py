"""Numbers that are none: found, named by round and device, and dealt with as run.non_finite says.

Nothing that is not finite is ever averaged. What no single device can be blamed for, the model's, stops the run.
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

    from airfl.local.evaluation import Evaluation
    from airfl.store import Store

log = logging.getLogger(__name__)

Policy = Literal["stop", "drop", "clip"]
Ids = NDArray[np.int64]
LOWER = "lower local.learning_rate, or server.learning_rate"


def keep_finite(
    updates: Tensor, devices: Ids, round_index: int, policy: Policy, clip_norm: float, store: Store
) -> tuple[Tensor, NDArray[np.bool_]]:
    """The norms of what these devices have computed, all finite, and whose updates were not.

    updates: [devices, d], those rows changed in place as `policy` says: zeros ("drop"), or what clipping to C makes of
    an update as it grows without bound ("clip"). What such a device keeps between rounds is forgotten where it is not
    finite. DivergedError, with round and device, for "stop".
    """
    norms = updates.norm(dim=1)
    wrong: NDArray[np.bool_] = ~norms.isfinite().cpu().numpy()
    if not wrong.any():
        return norms, wrong
    if policy == "stop":
        raise DivergedError(
            f"round {round_index}, device {devices[wrong][0]}: its update is not finite, training diverged; {LOWER}, "
            "or say with run.non_finite what is done about such a device"
        )
    for row in np.flatnonzero(wrong).tolist():
        updates[row] = clipped_limit(updates[row], clip_norm) if policy == "clip" else 0.0
        store.forget_non_finite(int(devices[row]))
    log.warning(
        "round %d: the update of %s is not finite and was %s",
        round_index,
        named(devices[wrong]),
        {"drop": "dropped", "clip": "clipped"}[policy],
    )
    return updates.norm(dim=1), wrong


def clipped_limit(update: Tensor, clip_norm: float) -> Tensor:
    """What clipping to `clip_norm` makes of an update [d] whose infinite entries grow together without bound: they
    alone are left, with their signs. nan counts as 0; the norm of finite entries is taken where it has room."""
    infinite = update.isinf()
    if infinite.any():
        signs = infinite * update.nan_to_num(nan=0.0).sign()
        return signs * (clip_norm / float(signs.double().norm()))
    known = update.nan_to_num(nan=0.0)
    norm = float(known.double().norm())
    return known * min(1.0, clip_norm / norm) if norm else known


def check_channel(finite: NDArray[np.bool_], devices: Ids, round_index: int, policy: Policy) -> None:
    """Where some device's channel is not finite: DivergedError for "stop", else a line in the log."""
    if policy == "stop":
        raise DivergedError(
            f"round {round_index}, device {devices[~finite][0]}: its channel is not finite; see [channel] and "
            "[topology], or leave such devices out with run.non_finite = drop"
        )
    log.warning("round %d: the channel of %s is not finite: left out", round_index, named(devices[~finite]))


def check_model(parameters: Tensor, round_index: int) -> None:
    """DivergedError if the new model [d] is not finite."""
    if not all_finite(parameters):
        raise DivergedError(f"round {round_index}: the model is not finite after the server's step; {LOWER}")


def check_public(update: Tensor, round_index: int) -> None:
    """DivergedError if what the server computed on public data [d] is not finite: it would choose coordinates by it."""
    if not all_finite(update):
        raise DivergedError(f"round {round_index}: the update on the public samples is not finite; {LOWER}")


def check_losses(evaluation: Evaluation | None, round_index: int) -> None:
    """DivergedError if a loss or metric of the model is not finite, which the trace would show as not evaluated."""
    losses = {"training": evaluation.train_loss, "test": evaluation.test_loss} if evaluation else {}
    for name, loss in losses.items():
        if not math.isfinite(loss):
            raise DivergedError(f"round {round_index}: the model's {name} loss is {loss}, training diverged; {LOWER}")
    for name, value in evaluation.metrics.items() if evaluation else ():
        if not math.isfinite(value):
            raise DivergedError(
                f"round {round_index}: metric {name!r} is {value} on the test set, and a number is wanted"
            )


def all_finite(values: Tensor) -> bool:
    """Whether all are. Their sum tells, but for where finite ones add up to what is not."""
    return math.isfinite(float(values.sum())) or bool(values.isfinite().all())


def named(devices: Ids) -> str:
    """ "device 3", "devices 3, 5 and 17 others"."""
    shown = devices[:5].tolist()
    more = f" and {len(devices) - len(shown)} others" if len(devices) > len(shown) else ""
    return f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, shown))}{more}"
