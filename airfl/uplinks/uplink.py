"""What a round and an uplink say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.stages.stage import Batch
from airfl.streams import Streams
from channels.csi import Knowledge, Response
from channels.fading import FadeStatistics
from channels.frame import Frame
from channels.grid import GridUse

if TYPE_CHECKING:
    from torch import Tensor, device

    from channels.waveform_channel import Multipath

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PilotCost:
    """What estimating the channels takes: resource elements of all, energy of each selected device [r], energy of
    candidates that were not selected."""

    resource_elements: int
    energy: Array
    energy_of_others: float = 0.0


@dataclass(frozen=True)
class Terms:
    """What an uplink is opened with: the channel of the round and what is known of the messages to come.

    knowledge: the channel as it is and as it is known; frame: the resource elements of the message; power_limits: P_i;
    rms_norms: sqrt(E||m_i||^2) bounds; peak_norms: bounds on ||m_i|| in any round; weights included, all [r]. entries:
    m; dimension: d; divisor: what the sum is divided by to give the mean (r, or qN under Poisson sampling); fades: of
    the fading law, where they are known; energy_unit: energy of a resource element of unit power (1 in normalised
    units, the symbol duration in physical ones); multipath: taps behind the response, where the waveform is modulated;
    record: keep signals.
    """

    knowledge: Knowledge
    frame: Frame
    power_limits: Array
    rms_norms: Array
    peak_norms: Array
    entries: int
    dimension: int
    divisor: float
    fades: FadeStatistics | None
    pilots: PilotCost
    energy_unit: float
    streams: Streams
    round_index: int
    device: device | str
    record: bool
    multipath: Multipath | None = None


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
    """What was on the air: tx [r, elements] complex64; rx [elements], float32 (real packing) or complex64; response:
    the true channel, [r, blocks, subcarriers, antennas]."""

    tx: NDArray[np.complex64]
    rx: NDArray[np.float32] | NDArray[np.complex64]
    response: Response


@dataclass(frozen=True)
class LinkReport:
    """What a round on the link takes, and what it does to the mean.

    noise_std: of the receiver noise that really was on an entry of the mean message (root mean square over entries);
    interference_std: of everything else on it, which protects nobody; alignment_coefficient: beta (nan where there is
    none, the largest over a selective channel); binding: which bounds set it; protection: sigma_0 over the largest
    amplitude with which a unit of anybody's message is observed, 0 where nothing protects; use: pilots included;
    energy_of_others: pilots of candidates that were not selected; clipped_share: of the entries, cut to the peak limit;
    papr_db: largest peak-to-average power ratio of an OFDM symbol, nan where no waveform is made.
    """

    noise_std: float
    alignment_coefficient: float
    power_bound_binding: bool
    privacy_bound_binding: bool
    protection: float
    use: GridUse
    devices: DeviceUse
    interference_std: float = 0.0
    pilot_elements: int = 0
    energy_of_others: float = 0.0
    clipped_share: float = 0.0
    papr_db: float = float("nan")
    waveform_clipped_share: float = 0.0


@dataclass(frozen=True)
class Reception:
    """What a closed uplink gives back. mean: estimate of the mean message, [m]; receive_snr_db: of the sum."""

    mean: Tensor
    receive_snr_db: float
    report: LinkReport
    signals: Signals | None = field(default=None, repr=False)


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
