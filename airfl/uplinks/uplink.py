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
    """What estimating the channels takes.

    Attributes:
        resource_elements: Resource elements of all pilots.
        energy: Pilot energy of each selected device, [r], in J or normalised units.
        energy_of_others: Pilot energy of candidates that were not selected, their sum, in the same unit.
    """

    resource_elements: int
    energy: Array
    energy_of_others: float = 0.0


@dataclass(frozen=True)
class Terms:
    """What an uplink is opened with: the channel of the round and what is known of the messages to come.

    Attributes:
        knowledge: The channel as it is and as it is known.
        frame: Resource elements of the message.
        power_limits: P_i over the energy unit, [r].
        rms_norms: Bounds on sqrt(E||m_i||^2), weights included, [r].
        peak_norms: Bounds on ||m_i|| in any round, weights included, [r].
        weights: Of the devices in the mean, [r].
        message: What is known of one message, without weights.
        ids: Of the devices, [r].
        element_power: Mean transmit energy of a device on a resource element, over the energy unit, when it sends over
            the whole band at its limit, [r].
        entries: m, entries of a message.
        dimension: d, entries of an update.
        divisor: What the sum is divided by to give the mean: r, or qN under Poisson sampling.
        fades: Statistics of the fading law, None where they are not known.
        pilots: What the knowledge has cost.
        energy_unit: Energy of a resource element of unit power: 1 in normalised units, the symbol duration in s in
            physical ones.
        streams: Random numbers of the run.
        round_index: t, from 0.
        device: Torch device on which the messages are.
        record: Whether to keep the signals.
        multipath: Taps behind the response, where the waveform is modulated; None elsewhere.
        own_noise: Factor by which the devices' own noise is larger than `message` has it; `rms_norms` have it in them.
        population: The terms of all devices, where beta follows from them or tells of who was selected among them; None
            elsewhere.
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
    """What each selected device does on the link.

    Attributes:
        transmit_scale: alpha_i, amplitude that a unit of the message is sent with, [r].
        energy: Transmit energy, pilots included, in J or normalised units, [r].
        bits: Bits of the message, [r].
        active: 1 where the device took part, else 0, int8 [r].
        snr_db: The device's own receive SNR in dB, [r].
        rate: Bits per resource element on a digital or ideal link, [r]; None elsewhere.
        air_time_s: Air time on a digital link in s, [r]; None elsewhere.
        block_error_rate: Error rate of a block's first transmission on a digital link, [r]; None elsewhere.
        bits_on_air: Bits sent on a digital link, with those sent again, [r]; None elsewhere.
    """

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
    """What was on the air.

    Attributes:
        tx: Baseband signal of each device, complex64 [r, elements].
        rx: Received signal, [elements]: float32 under real packing, complex64 under I/Q packing.
        response: The true channel, complex [r, blocks, subcarriers, antennas].
    """

    tx: NDArray[np.complex64]
    rx: NDArray[np.float32] | NDArray[np.complex64]
    response: Response


@dataclass(frozen=True)
class LinkReport:
    """What a round on the link takes, and what it does to the mean.

    Attributes:
        noise_std: Standard deviation of the receiver noise that really was on an entry of the mean message (root mean
            square over entries).
        alignment_coefficient: beta, the largest over a selective channel; nan where there is none.
        power_bound_binding: Whether a power limit set beta.
        privacy_bound_binding: Whether the privacy bound set beta.
        protection: sigma_0 over the largest amplitude with which a unit of anybody's message is observed; 0 where
            nothing protects.
        use: Resource elements, symbols and air time of the round, pilots included.
        devices: What each device does.
        noisy_devices: Sum of (w_i a_i)^2 over the largest a^2, a_i the amplitudes of those that are heard: by its root
            the devices' own noise on the sum exceeds one device's, at least.
        own_noise_gain: Factor by which a device's own noise on an entry becomes noise on an entry of the mean (root
            mean square).
        interference_std: Standard deviation of everything else on an entry of the mean, which protects nobody.
        pilot_elements: Resource elements of the pilots alone.
        energy_of_others: Pilot energy of candidates that were not selected, in J or normalised units.
        clipped_share: Share of the entries (elements under I/Q packing) that were cut to the peak limit.
        papr_db: Largest peak-to-average power ratio of an OFDM symbol in dB, nan without a waveform.
        waveform_clipped_share: Share of the waveform's samples that were clipped.
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
    """What a closed uplink gives back.

    Attributes:
        mean: Estimate of the mean message, [m].
        receive_snr_db: Receive SNR of the sum in dB.
        report: What the round took.
        signals: What was on the air, None where it was not recorded.
    """

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
