"""A round opened by hand, for stages to be tried in. Apart from conftest: it takes torch."""

from __future__ import annotations

import numpy as np
import torch

from airfl.stages import Round
from airfl.store import Store
from airfl.streams import Streams


def a_round(streams: Streams, index: int, devices: int = 100) -> Round:
    """Round `index` of devices 0, 1, ..., all of whom are heard and who have kept nothing."""
    everybody = np.arange(devices)
    heard = np.ones(devices, dtype=np.bool_)
    return Round(streams, index, torch.device("cpu"), everybody, heard, Store(), lambda: torch.zeros(1))
