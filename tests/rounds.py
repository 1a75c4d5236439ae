"""A round opened by hand, for stages to be tried in. Apart from conftest: it takes torch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from airfl.stages import Round
from airfl.store import Store
from airfl.streams import Streams


def a_round(
    streams: Streams, index: int, devices: int | NDArray[np.int64] = 100, public: Tensor | None = None
) -> Round:
    """Round `index` of these devices, or of 0, 1, ..., all of whom are heard and who have kept nothing. public: the
    server's update on public data."""
    ids = np.arange(devices) if isinstance(devices, int) else devices
    heard, update = np.ones(len(ids), dtype=np.bool_), torch.zeros(1) if public is None else public
    return Round(streams, index, torch.device("cpu"), ids, heard, Store(), lambda: update)
