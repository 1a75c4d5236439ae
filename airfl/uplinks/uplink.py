"""The interface between a round and an uplink."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.streams import Streams
from airfl.uplinks.stages.stage import Batch, MessageBound
from channels.csi import ChannelInformation, Response
from channels.fading import FadeStatistics
from channels.frame import Frame
from channels.grid import GridUse

if TYPE_CHECKING:
    from torch import Tensor, device

    from channels.waveform_channel import Multipath

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PilotCost:
    """The cost of channel estimation.

    Attributes:
        resource_elements: Resource elements of all pilots.
        energy: Pilot energy of each selected device, [r], in J or normalised units.
        energy_of_others: Total pilot energy of candidates that were not selected, in the same unit.
    """

    resource_elements: int
    energy: Array
    energy_of_others: float = 0.0


@dataclass(frozen=True)
class NeighbourRound:
    """A round of a neighbouring cell, whose devices send at the same time.

    Attributes:
        context: The round as its own base station sees it.
        crossing: The true channels of its devices to the base station of this cell, complex [devices, antennas, blocks,
            subcarriers].
    """

    context: UplinkContext
    crossing: Response

    def with_device_noise(self, factor: float) -> NeighbourRound:
        """Return the round with this factor on the devices' own noise."""
        return replace(self, context=self.context.with_device_noise(factor))


@dataclass(frozen=True)
class UplinkContext:
    """The input for opening an uplink: the channel of the round and the known properties of its messages.

    Attributes:
        csi: The true and the estimated channel.
        frame: Resource elements of the message.
        power_limits: P_i over the energy unit, [r].
        rms_norms: Bounds on sqrt(E||m_i||^2), weights included, [r].
        peak_norms: Bounds on ||m_i|| in any round, weights included, [r].
        weights: Weights of the devices in the mean, [r].
        message: Bound on a message, without weights.
        ids: Ids of the devices, [r].
        element_power: Mean transmit energy of a device on a resource element, over the energy unit, when it sends over
            the whole band at its limit, [r].
        entries: m, entries of a message.
        dimension: d, entries of an update.
        divisor: The number by which the sum is divided to give the mean: r, or qN under Poisson sampling.
        fades: Statistics of the fading law, None if they are not known.
        pilots: The cost of channel estimation.
        energy_unit: Energy of a resource element of unit power: 1 in normalised units, the symbol duration in s in
            physical units.
        streams: Random number streams of the run.
        round_index: t, from 0.
        device: Torch device that holds the messages.
        record: Whether to keep the signals.
        multipath: Taps of the channel if the waveform is modulated; else None.
        device_noise_factor: Factor on the devices' own noise relative to `message`; it is included in `rms_norms`.
        sampled: Ids of the selected devices, those among them that have no channel and take no part, [s]; None if these
            are `ids`.
        absent_weight: Sum of the weights of the selected devices that take no part, except for those that never have a
            channel (mean power 0). A receiver without pilots does not know that they are missing.
        population: The context of all devices, if beta depends on them or reveals information about who was selected;
            else None.
        neighbours: The same round of the neighbouring cells.
        elsewhere: The true channels of the devices to the base stations of the neighbouring cells, in the order of the
            cells and without that of their own, complex [devices, antennas, blocks, subcarriers] each; () unless power
            is controlled across cells.
    """

    csi: ChannelInformation
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
    device_noise_factor: float = 1.0
    sampled: NDArray[np.int64] | None = None
    absent_weight: float = 0.0
    population: UplinkContext | None = field(default=None, repr=False)
    neighbours: tuple[NeighbourRound, ...] = field(default=(), repr=False)
    elsewhere: tuple[Response, ...] = field(default=(), repr=False)

    def with_device_noise(self, factor: float) -> UplinkContext:
        """Return the context with this factor on the devices' own noise, for which their power is then set."""
        more = (factor**2 - self.device_noise_factor**2) * self.entries * self.message.noise_std**2
        norms = np.sqrt(np.maximum(self.rms_norms**2 + more * self.weights**2, 0.0))
        population = self.population and self.population.with_device_noise(factor)
        neighbours = tuple(cell.with_device_noise(factor) for cell in self.neighbours)
        return replace(self, rms_norms=norms, device_noise_factor=factor, population=population, neighbours=neighbours)


@dataclass(frozen=True)
class DeviceUse:
    """The use of the link by each selected device.

    Attributes:
        transmit_scale: alpha_i, the amplitude with which a unit of the message is sent, [r].
        energy: Transmit energy, pilots included, in J or normalised units, [r].
        bits: Bits of the message, [r].
        active: 1 where the device took part, else 0, int8 [r].
        snr_db: The device's own receive SNR in dB, [r].
        rate: Bits per resource element on a digital or ideal link, [r]; None elsewhere.
        air_time_s: Air time on a digital link in s, [r]; None elsewhere.
        block_error_rate: Error rate of a block's first transmission on a digital link, [r]; None elsewhere.
        bits_on_air: Bits sent on a digital link, retransmissions included, [r]; None elsewhere.
        supply_energy: Energy that the power amplifier draws, pilots included, in the unit of `energy`, [r]; None if no
            amplifier is modelled.
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
    supply_energy: Array | None = None


@dataclass(frozen=True)
class Signals:
    """The signals on the air.

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
    """The cost of a round on the link, and its effect on the mean.

    Attributes:
        noise_std: Standard deviation of the receiver noise that was added to an entry of the mean message (root mean
            square over entries), of antennas that are summed and before the receiver clips it.
        alignment_coefficient: beta, the largest over a selective channel; nan if there is none.
        power_bound_binding: Whether a power limit set beta.
        privacy_bound_binding: Whether the privacy bound set beta.
        protection: sigma_0 over the largest amplitude with which a unit of any device's message is observed; 0 without
            protection.
        use: Resource elements, symbols and air time of the round, pilots included.
        devices: The use of the link by each device.
        noisy_devices: Sum of (w_i a_i)^2 over the largest a^2, where a_i are the amplitudes of the received messages.
            Its square root is a lower bound on the devices' own noise on the sum, relative to that of one device.
        device_noise_gain: Factor from a device's own noise on an entry to the noise on an entry of the mean (root mean
            square).
        interference_std: Standard deviation of all other disturbances on an entry of the mean, which do not count as
            privacy noise, before the receiver clips it; inf if they have no finite power.
        pilot_elements: Resource elements of the pilots alone.
        energy_of_others: Pilot energy of candidates that were not selected, in J or normalised units.
        clipped_share: Share of the entries (elements under I/Q packing) that were cut to the peak limit.
        papr_db: Largest peak-to-average power ratio of an OFDM symbol in dB, nan without a waveform.
        waveform_clipped_share: Share of the waveform's samples that were clipped.
        receiver_clipped_share: Share of the decoded entries that the receiver clipped.
        fronthaul_bits: Bits from the antennas to where they are combined; 0 if their samples arrive exactly.
    """

    noise_std: float
    alignment_coefficient: float
    power_bound_binding: bool
    privacy_bound_binding: bool
    protection: float
    use: GridUse
    devices: DeviceUse
    noisy_devices: float = 0.0
    device_noise_gain: float = 0.0
    interference_std: float = 0.0
    pilot_elements: int = 0
    energy_of_others: float = 0.0
    clipped_share: float = 0.0
    papr_db: float = float("nan")
    waveform_clipped_share: float = 0.0
    receiver_clipped_share: float = 0.0
    fronthaul_bits: int = 0

    @property
    def amplifier_energy(self) -> float:
        """Energy that the amplifiers of all devices draw, 0 where none is modelled."""
        drawn = self.devices.supply_energy
        return 0.0 if drawn is None else float(drawn.sum())


@dataclass(frozen=True)
class Reception:
    """The result of closing an uplink.

    Attributes:
        mean: Estimate of the mean message, [m].
        receive_snr_db: Receive SNR of the sum in dB.
        report: The cost of the round.
        signals: The signals on the air, None if they were not recorded.
    """

    mean: Tensor
    receive_snr_db: float
    report: LinkReport
    signals: Signals | None = field(default=None, repr=False)


class Link(Protocol):
    """An open uplink."""

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether each device's message is received, [r]. It follows from the channel and is known before training."""
        ...

    @property
    def elementwise(self) -> bool:
        """Whether messages may be sent a slab of entries at a time (`Batch.part`)."""
        ...

    def send(self, batch: Batch, devices: slice) -> None:
        """Send the messages of one chunk, or a slab of their entries; `devices` selects the rows of the round."""
        ...

    def close(self) -> Reception:
        """Finish the round after all messages were sent, and return the mean."""
        ...

    def link_budget(self) -> LinkReport:
        """Return the link budget: the report if every message had its rms norm, without sending anything."""
        ...

    def with_device_noise(self, factor: float) -> Link:
        """Return this link, before anything is sent, for devices with this factor on their own noise.

        What does not depend on that noise is not computed again: which resource elements carry which entry, and all of
        a link whose rates and errors follow from the channel alone.
        """
        ...


class Uplink(Protocol):
    """A link that carries the messages of a run."""

    def open(self, context: UplinkContext) -> Link:
        """Open the link for a round: power control and allocation, before any update is known."""
        ...
