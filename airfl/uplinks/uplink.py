"""What a round and an uplink say to each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.stages.stage import Batch
from airfl.streams import Streams
from channels.csi import ChannelEstimate, ChannelState
from channels.grid import GridUse

if TYPE_CHECKING:
    from torch import Tensor, device

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Terms:
    """What an uplink is opened with: the channel of the round and what is known of the messages to come.

    state, estimate: [r]; power_limits: P_i, [r]; rms_norms: sqrt(E||m_i||^2) bounds, weights included, [r]; entries: m;
    dimension: d; divisor: what the sum is divided by to give the mean (r, or qN under Poisson sampling); record: keep
    signals.
    """

    state: ChannelState
    estimate: ChannelEstimate
    power_limits: Array
    rms_norms: Array
    entries: int
    dimension: int
    divisor: float
    streams: Streams
    round_index: int
    device: device | str
    record: bool


@dataclass(frozen=True)
class DeviceUse:
    """Per selected device, [r]: alpha_i, transmit energy, bits, whether it took part, its own receive SNR in dB."""

    transmit_scale: Array
    energy: Array
    bits: NDArray[np.int64]
    active: NDArray[np.int8]
    snr_db: Array


@dataclass(frozen=True)
class Signals:
    """What was on the air: tx [r, elements] complex64; rx [elements], float32 (real packing) or complex64."""

    tx: NDArray[np.complex64]
    rx: NDArray[np.float32] | NDArray[np.complex64]


@dataclass(frozen=True)
class LinkReport:
    """What a round on the link takes, and what it does to the mean.

    noise_std: of the noise that really was on each entry of the mean message; alignment_coefficient: beta (nan where
    there is none); binding: which bounds set it.
    """

    noise_std: float
    alignment_coefficient: float
    power_bound_binding: bool
    privacy_bound_binding: bool
    use: GridUse
    devices: DeviceUse


@dataclass(frozen=True)
class Reception:
    """What a closed uplink gives back. mean: estimate of the mean message, [m]; receive_snr_db: of the sum."""

    mean: Tensor
    receive_snr_db: float
    report: LinkReport
    signals: Signals | None = None


class Link(Protocol):
    """An open uplink."""

    def send(self, batch: Batch, devices: slice) -> None:
        """Messages of one chunk; `devices` says which rows of the round they are."""
        ...

    def close(self) -> Reception:
        """Everything was sent."""
        ...

    def at_bound(self) -> LinkReport:
        """The report if every message had its rms norm: what a link budget counts, with nothing sent."""
        ...


class Uplink(Protocol):
    """A way of carrying messages."""

    def open(self, terms: Terms) -> Link:
        """Power control and allocation, before any update is known."""
        ...
