"""What rounds decode wrongly, by the radio alone."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from airfl.building import build_cell
from airfl.config import Settings
from airfl.opening import open_round
from airfl.stages import Batch


def decoding_errors(settings: Settings, entries: int, rounds: int) -> NDArray[np.float64]:
    """Of Gaussian messages of unit power from all devices: the mean square error of the decoded mean on an entry, times
    the number of devices, [rounds]."""
    devices = settings.run.devices
    cell = build_cell(settings, entries, np.ones(devices))
    errors = []
    for t in range(rounds):
        opening = open_round(cell, t, cell.memory)
        messages = torch.randn(devices, entries, generator=torch.Generator().manual_seed(t))
        opening.link.send(Batch(messages, torch.ones(devices)), slice(0, devices))
        difference = opening.link.close().mean - messages.mean(dim=0)
        errors.append(float(difference.square().mean()) * devices)
    return np.array(errors)
