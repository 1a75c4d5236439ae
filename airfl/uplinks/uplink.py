"""What a round and an uplink say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.stages.stage import Batch, MessageBound
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
    rms_norms: sqrt(E||m_i||^2) bounds; peak_norms: bounds on ||m_i|| in any round; weights included, all [r]. weights:
    of the mean, [r]; message: what is known of one; entries: m; dimension: d; ids: of the devices, [r]; element_power:
    mean transmit energy of a device on a resource element when it sends over the whole band at its limit, [r]; divisor:
    what the sum is divided by to give the mean (r, or qN under Poisson sampling); fades: of the fading law, where they
    are known; pilots: what the knowledge has cost; energy_unit: energy of a resource element of unit power (1 in
    normalised units, the symbol duration in physical ones); device: where the messages are; record: keep signals;
    multipath: taps behind the response, where the waveform is modulated; own_noise: by it the devices' own noise is
    larger than `message` has it (rms_norms have it in them); population: the same of all devices, where beta follows
    from them or tells of who was selected among them, None elsewhere.
    """

    knowledge: Knowledge
    frame: Frame
    power_limits: Array
    rms_norms: Array
    peak_norms: Array
    weights: Array
    message: MessageBound
    ids: NDArray[np.int64]
    element_power: Array
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
    own_noise: float = 1.0
    population: Terms | None = field(default=None, repr=False)

    def with_own_noise(self, factor: float) -> Terms:
        """The same with this factor on the devices' own noise, which their power is then set for."""
        more = (factor**2 - self.own_noise**2) * self.entries * self.message.noise_std**2
        norms = np.sqrt(np.maximum(self.rms_norms**2 + more * self.weights**2, 0.0))
        population = self.population and self.population.with_own_noise(factor)
        return replace(self, rms_norms=norms, own_noise=factor, population=population)


@dataclass(frozen=True)
class DeviceUse:
    """Per selected device, [r]: alpha_i, transmit energy, bits of the message, whether it took part, its own receive
    SNR in dB. On a digital link: bits a resource element (on the ideal one, too), air time, error rate of a block, bits
    on the air with those sent again; nan and 0 elsewhere."""

    transmit_scale: Array
    energy: Array
    bits: NDArray[np.int64]
    active: NDArray[np.int8]
    snr_db: Array
    rate: Array | None = None
    air_time_s: Array | None = None
    block_error_rate: Array | None = None
    bits_on_air: NDArray[np.int64] | None = None


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
    amplitude with which a unit of anybody's message is observed, 0 where nothing protects; noisy_devices: sum of (w_i
    a_i)^2 over the largest a^2, a_i the amplitudes of those that are heard: by its root the devices' own noise on the
    sum exceeds one device's, at least; own_noise_gain: by it a device's own noise on an entry becomes noise on an entry
    of the mean (root mean square); use: pilots included, pilot_elements: those alone; energy_of_others: pilots of
    candidates that were not selected; clipped_share: of the entries, cut to the peak limit; papr_db: largest
    peak-to-average power ratio of an OFDM symbol, nan without a waveform; waveform_clipped_share: of its samples.
    """

    noise_std: float
    alignment_coefficient: float
    power_bound_binding: bool
    privacy_bound_binding: bool
    protection: float
    use: GridUse
    devices: DeviceUse
    noisy_devices: float = 0.0
    own_noise_gain: float = 0.0
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

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whose messages arrive, [r]: it follows from the channel, and is known before anybody trains."""
        ...

    @property
    def by_entry(self) -> bool:
        """Whether messages may be sent a slab of entries at a time (`Batch.part`)."""
        ...

    def send(self, batch: Batch, devices: slice) -> None:
        """Messages of one chunk, or their entries in turn; `devices` says which rows of the round they are."""
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
