"""Over-the-air aggregation: combining, power control, superposition, noise (PFELS eq. 7, 11 to 13 and theorem 5)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from airfl.runtime.streams import Purpose
from airfl.uplinks.amplification import RoundAmplifiers
from airfl.uplinks.antenna_sums import AntennaSums
from airfl.uplinks.branches import Branches
from airfl.uplinks.cells import controls_of_cells, crossing_aggregation
from airfl.uplinks.control import PowerControl
from airfl.uplinks.disturbances import Disturbances, Flow
from airfl.uplinks.protection import (
    CsiError,
    largest_amplified_amplitude,
    largest_amplitude,
    largest_raw_amplitude,
)
from airfl.uplinks.stages.stage import Batch
from airfl.uplinks.uplink import Array, DeviceUse, Link, LinkReport, Reception, Signals, UplinkContext
from channels.antennas import RobustCombiner, combine
from channels.grid import GridUse, OfdmaGrid
from channels.hardware.amplifier import Gains
from channels.hardware.amplifiers import Amplifiers
from channels.hardware.converter import Converter
from channels.hardware.fronthaul import carried_bits
from channels.interference import Gaussian, Interference
from channels.interference.cells import Crossing
from channels.mac import EntryRange, MultipleAccessChannel, baseband, energy, pack
from channels.median_clip import median_clip
from channels.noise import interference_std
from channels.resource_mapping import ResourceMapping
from channels.transfer import on_device
from channels.units import linear_to_db
from channels.waveform_channel import WaveformChannel

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from channels.waveform import Waveform


# Phase differences up to this are due to rounding.
MISALIGNED = 1e-6


@dataclass(frozen=True)
class AnalogUplink:
    """All devices send at once on the same resource elements, aligned as far as transmit power and CSI permit.

    Attributes:
        grid: Resource elements, and how entries are packed into them.
        control: Power control.
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry, in normalised units or sqrt(W).
        noise: Whether receiver noise is added; if false, z = 0 and beta does not change.
        interference_to_noise_db: Interference of other cells over the noise in dB, None for none.
        interference: The law of the interference.
        waveform: OFDM modulation in time, None for the per-subcarrier model.
        csi_error: How the privacy accounting treats imperfect CSI, see `CsiError`.
        tail: Probability, over all devices and elements of a round, that a "quantile" is exceeded; it is charged to
            delta.
        least_gain: Gain |h| to which weaker fades are raised, which a Gaussian error law does not describe; 0 for none.
        raw_samples: Whether the observer is the server, which sees the samples of all antennas and not only the sum.
        median_clip: Largest distance of a decoded entry from the median of all, in median absolute deviations, None
            for no clipping.
        amplifiers: The devices' power amplifiers, None for linear ones whose supply is not charged.
        converter: The receiver's analog-to-digital converter, None for one that is exact.
        fronthaul: The converter of every antenna, whose samples a fronthaul carries to where they are combined; None
            for samples that arrive exactly.
    """

    grid: OfdmaGrid
    control: PowerControl
    noise_std: float
    noise: bool = True
    interference_to_noise_db: float | None = None
    interference: Interference = field(default_factory=Gaussian)
    waveform: Waveform | None = None
    csi_error: CsiError = "realised"
    tail: float = 0.0
    least_gain: float = 0.0
    raw_samples: bool = False
    median_clip: float | None = None
    amplifiers: Amplifiers | None = None
    converter: Converter | None = None
    fronthaul: Converter | None = None

    def open(self, context: UplinkContext) -> Link:
        """Open the link. beta is known here, since it depends only on the estimated channel and the bounds."""
        return _AnalogLink(self, context)


class _AnalogLink:
    def __init__(self, uplink: AnalogUplink, context: UplinkContext, placement: ResourceMapping | None = None) -> None:
        self._uplink, self._context = uplink, context
        self._control = uplink.control.of_round(context)
        other_cells, crossing = interference_std(uplink.noise_std, uplink.interference_to_noise_db), Crossing()
        if context.neighbours:
            disturbed = uplink.noise_std**2 + other_cells**2
            controls = controls_of_cells(context, uplink.control, self._control, uplink.grid.packing, disturbed)
            self._control = controls[0]
            crossing = crossing_aggregation(context, controls[1:], self._control.combiner, uplink.grid.packing)
        self._gains = combine(self._control.combiner, context.csi.state.response)
        self._placement = placement or _placement(context, self._gains.shape[1:])
        self._disturbances = Disturbances(
            context=context,
            control=self._control,
            gains=self._gains,
            placement=self._placement,
            grid=uplink.grid,
            noise_std=self._noise_std,
            other_cells=other_cells,
            interference=uplink.interference,
            crossing=crossing,
            in_time=uplink.waveform is not None,
            converter=uplink.converter,
            fronthaul=uplink.fronthaul,
        )
        self._energy: Array = np.zeros(len(self._gains))
        self._received: Array = np.zeros(len(self._gains))
        self._distortion: Array = np.zeros(len(self._gains))
        self._drawn: Array = np.zeros(len(self._gains))
        self._amplifiers: RoundAmplifiers | None = None
        if uplink.amplifiers is not None:
            self._amplifiers = RoundAmplifiers(uplink.amplifiers, context, self._control, uplink.grid)
        self._antenna_sums: AntennaSums | None = None
        if uplink.fronthaul is not None:
            self._antenna_sums = AntennaSums(context, self._control, uplink.grid, self._placement)
        self._clipped = 0
        self._sent: list[np.ndarray] = []

    @property
    def heard(self) -> NDArray[np.bool_]:
        """Whether each device sends, according to the power policy."""
        return self._control.plan.active

    @property
    def elementwise(self) -> bool:
        """Whether the channel is flat and no step needs whole messages."""
        uplink, control = self._uplink, self._control
        in_time = uplink.waveform is not None or uplink.amplifiers is not None
        needs_whole = in_time or control.clip_energy is not None or self._context.record
        return self._flat and not needs_whole and self._uplink.grid.packing == "real"

    @cached_property
    def _channel(self) -> MultipleAccessChannel | WaveformChannel:
        """The channel simulator, created on first use because a link budget does not need it."""
        uplink, context, control = self._uplink, self._context, self._control
        if uplink.waveform is None:
            return MultipleAccessChannel(
                self._gains, control.precoders, uplink.grid.packing, self._placement, control.clip_energy
            )
        assert context.multipath is not None
        amplification = None if self._amplifiers is None else self._amplifiers.in_time(uplink.waveform)
        # A waveform is received by one antenna, whose weight is a phase that all devices then anticipate.
        precoders = control.precoders * control.combiner[0].conj()
        return WaveformChannel(
            uplink.waveform, context.multipath, precoders, uplink.grid.packing, self._placement, amplification
        )

    @cached_property
    def _branches(self) -> Branches | None:
        """The branches of the antennas, if they are not summed."""
        return Branches(self._context, self._control, self._uplink.grid, self._placement) if self._robust else None

    @property
    def _robust(self) -> bool:
        """Whether there are several antennas, which are not summed."""
        return self._uplink.control.receiver.robust and len(self._control.combiner) > 1

    def send(self, batch: Batch, devices: slice) -> None:
        """Superpose a chunk. Clip factors and weights are folded into the precoders, so that the values are read
        once."""
        by_norms = self._flat and batch.part is None and self._control.clip_energy is None
        amplifiers = self._amplifiers
        scale, norms = _read(batch, (by_norms and self._uplink.waveform is None) or amplifiers is not None)
        gains: Array | Gains = scale
        radiated = None
        if norms is not None and amplifiers is not None:
            gains, radiated = self._amplify(amplifiers, scale, norms, devices)
        part = None if batch.part is None else EntryRange(batch.part, self._context.entries)
        if part is None:
            sent = self._channel.send(batch.values, gains, devices, norms if by_norms else None)
        else:
            assert isinstance(self._channel, MultipleAccessChannel)
            sent = self._channel.send(batch.values, gains, devices, part=part)
        if self._branches is not None:
            self._branches.send(batch.values if sent.cut is None else sent.cut, scale, devices, part)
        if self._antenna_sums is not None:
            self._antenna_sums.send(batch.values if sent.cut is None else sent.cut, scale, devices, part)
        self._energy[devices] += sent.energy if radiated is None else radiated
        self._received[devices] += sent.received_energy
        self._clipped += int(sent.clipped.sum())
        if self._context.record:
            precoders = self._control.precoders[devices] * gains[:, None, None]
            place = None if self._flat else self._placement
            values = batch.values if sent.cut is None else sent.cut
            self._sent.append(baseband(values, precoders, self._uplink.grid.packing, place))

    def _amplify(
        self, amplifiers: RoundAmplifiers, scale: Array, norms: Array, devices: slice
    ) -> tuple[Array | Gains, Array | None]:
        """Account for the amplifiers of a chunk. Return scale and gain, complex [chunk], and the radiated energy; a
        simulated waveform has both in its samples, for which these are the scale and None."""
        energy = amplifiers.input_energy(scale * norms, devices)
        amplified = amplifiers.amplified(energy, devices)
        self._drawn[devices] += amplified.consumed * energy
        if self._uplink.waveform is not None:
            return scale, None
        self._distortion[devices] += self._disturbances.observed_distortion(amplified, energy, devices)
        return scale * amplified.gain, energy * amplified.radiated

    def close(self) -> Reception:
        """Add noise to y = sum_i h_i x_i on the observed real entries, and return the mean y/(r beta) (eq. 11 and
        13)."""
        import torch

        context = self._context
        silent = torch.zeros(context.entries, device=context.device)
        antennas = None if self._antenna_sums is None else self._antenna_sums.close(silent)
        signal = self._channel.close(silent)
        flow = Flow(self._energy, self._received, self._distortion, self._drawn, energy(signal), antennas)
        receive_snr_db = float(self._snr_db(np.array(flow.observed)))
        received = self._received_entries(signal, self._disturbances.variance(flow))
        mean, clipped = self._decoded(received)
        return Reception(
            mean=mean,
            receive_snr_db=receive_snr_db,
            report=replace(self._report(flow), receiver_clipped_share=clipped),
            signals=self._signals(received) if context.record else None,
        )

    def link_budget(self) -> LinkReport:
        """Return the link budget: ||A Delta_i||^2 = p C^2 (lemma 5), so device i spends the energy alpha_i^2 p C^2. For
        the converter the messages are taken to be uncorrelated."""
        rms, control = self._context.rms_norms, self._control
        power = np.abs(self._gains * control.precoders) ** 2
        share = self._context.frame.weights_over(power.shape[1:])
        energy = control.plan.mean_square_amplitudes(control.weights) * rms**2
        received = (power * share).sum(axis=(1, 2)) * rms**2
        distortion, drawn = self._distortion, self._drawn
        if self._amplifiers is not None:
            everyone = slice(0, len(energy))
            amplified = self._amplifiers.amplified(energy, everyone)
            distortion, drawn = (
                self._disturbances.observed_distortion(amplified, energy, everyone),
                energy * amplified.consumed,
            )
            energy, received = energy * amplified.radiated, received * np.abs(amplified.gain) ** 2
        observed = float((received * self._disturbances.observed_share).sum())
        antennas = None if self._antenna_sums is None else self._antenna_sums.budget(rms**2)
        return self._report(Flow(energy, received, distortion, drawn, observed, antennas))

    def with_device_noise(self, factor: float) -> Link:
        """Return the link with power control for messages with this noise."""
        return _AnalogLink(self._uplink, self._context.with_device_noise(factor), self._placement)

    def _report(self, flow: Flow) -> LinkReport:
        """Return the report of a round with these energies."""
        context, control, uplink = self._context, self._control, self._uplink
        plan, weights, pilots = control.plan, control.weights, context.pilots
        decoded = float(np.sqrt((control.decoder**2 * weights).sum()))
        elements = uplink.grid.elements_for(context.entries)
        use = uplink.grid.occupy(elements + pilots.resource_elements)
        share = context.frame.weights_over(self._gains.shape[1:])
        largest = self._largest_amplitude(share)
        return LinkReport(
            noise_std=self._noise_std * decoded,
            interference_std=self._disturbances.std(self._disturbances.variance(flow)) * decoded if decoded else 0.0,
            alignment_coefficient=_largest_used(plan.coefficient, weights),
            power_bound_binding=plan.power_bound_binding,
            privacy_bound_binding=plan.privacy_bound_binding,
            protection=self._noise_std / largest if largest else np.inf,
            **self._device_noise(largest, share),
            use=use,
            devices=DeviceUse(
                transmit_scale=np.sqrt(plan.mean_square_amplitudes(weights)),
                energy=flow.transmitted * context.energy_unit + pilots.energy,
                bits=np.zeros(len(flow.transmitted), dtype=np.int64),
                active=plan.active.astype(np.int8),
                snr_db=self._snr_db(flow.received),
                supply_energy=None if self._amplifiers is None else self._amplifiers.supply(flow.drawn),
            ),
            pilot_elements=pilots.resource_elements,
            energy_of_others=pilots.energy_of_others,
            fronthaul_bits=self._fronthaul_bits(use),
            clipped_share=self._clipped / max(elements * len(flow.transmitted), 1),
            **self._waveform_figures(),
        )

    def _largest_amplitude(self, share: Array) -> float:
        """Return the largest amplitude with which a unit of any device's message is observed, in the sum or in the
        samples of all antennas. If no device sends, it is the amplitude of a device that could have been selected
        instead, or 0 if beta reveals that no device sends."""
        amplitude = self._largest_input_amplitude(share)
        return amplitude if self._amplifiers is None else amplitude * self._amplifiers.largest_gain

    def _largest_input_amplitude(self, share: Array) -> float:
        """Return that amplitude for amplifiers of gain 1."""
        uplink, control, csi = self._uplink, self._control, self._context.csi
        if not control.plan.active.any() and not self._raw:
            within = uplink.control.rule.within_beta
            largest = _largest_used(control.plan.coefficient, control.weights) if within else np.inf
            largest = min(largest, uplink.control.privacy_bound)
            return largest if uplink.control.beta_predetermined and np.isfinite(largest) else 0.0
        if self._raw:
            if uplink.amplifiers is not None:
                return largest_amplified_amplitude(csi.state.response, control, share)
            return largest_raw_amplitude(csi.state.response, control, share)
        if uplink.amplifiers is not None and (uplink.csi_error == "realised" or not self._flat):
            known = uplink.csi_error == "realised" or (csi.error_variance is not None and not csi.error_variance.any())
            return largest_amplified_amplitude(self._gains[:, None], control, share) if known else np.inf
        return largest_amplitude(
            self._gains * (share > 0),
            control,
            csi,
            # An amplifier that turns the phase moves a real payload to the imaginary part and back.
            uplink.grid.packing if uplink.amplifiers is None else "iq",
            uplink.csi_error,
            uplink.tail,
            uplink.least_gain,
        )

    def _device_noise(self, largest: float, share: Array) -> dict[str, float]:
        """Return the report's figures on the noise that devices add to their messages, the minimum over the used
        coefficients."""
        control, noise_factor = self._control, self._context.device_noise_factor
        effective = self._gains * control.precoders
        observed = effective.real if self._uplink.grid.packing == "real" else np.abs(effective)
        amplitudes = observed * self._context.weights[:, None, None]
        power = np.broadcast_to((amplitudes**2).sum(axis=0), share.shape)
        used = share > 0
        arriving = control.decoder**2 * (amplitudes**2).sum(axis=0)
        several_antennas = self._context.csi.state.response.shape[1] > 1
        misaligned = np.abs(effective.imag).max(initial=0.0) > MISALIGNED * np.abs(effective).max(initial=0.0)
        if self._raw and (several_antennas or misaligned):
            # The noise of other devices has other directions in the samples, so only a device's own noise is sure to
            # cover its message.
            power = np.full(share.shape, largest**2)
        noisy_devices = 0.0
        if largest and used.any():
            noisy_devices = float(power[used].min()) * noise_factor**2 / largest**2
        return {
            "noisy_devices": noisy_devices,
            "device_noise_gain": float(np.sqrt((arriving * control.weights).sum())) * noise_factor,
        }

    def _waveform_figures(self) -> dict[str, float]:
        """Return the peak-to-average ratio and clipping of the waveform; empty for a link budget."""
        if "_channel" not in vars(self) or not isinstance(self._channel, WaveformChannel):
            return {}
        return {"papr_db": self._channel.papr_db, "waveform_clipped_share": self._channel.clipped_share}

    @property
    def _raw(self) -> bool:
        """Whether what is released is accounted as the samples of all antennas: by the server, which sees them, or as
        what a robust combiner computes of them, which reveals no more."""
        return self._uplink.raw_samples or self._robust

    @property
    def _flat(self) -> bool:
        return self._gains.shape[1:] == (1, 1)

    @property
    def _noise_std(self) -> float:
        """The standard deviation of the receiver noise that is added: sigma_0, or 0 without noise."""
        return self._uplink.noise_std if self._uplink.noise else 0.0

    def _fronthaul_bits(self, use: GridUse) -> int:
        """Return the bits of the round over the fronthaul."""
        uplink, antennas = self._uplink, len(self._control.combiner)
        if uplink.fronthaul is None:
            return 0
        return carried_bits(uplink.fronthaul, antennas, use.ofdm_symbols * uplink.grid.used_subcarriers)

    def _decoded(self, received: Tensor) -> tuple[Tensor, float]:
        """Return the mean, clipped about its median if the receiver does so, and the share of clipped entries."""
        decoder = self._decoder(received)
        mean = received * decoder
        if self._uplink.median_clip is None:
            return mean, 0.0
        sent = decoder != 0 if not isinstance(decoder, float) else None
        mean, clipped = median_clip(mean, self._uplink.median_clip, sent)
        return mean, float(clipped) / len(mean)

    def _decoder(self, signal: Tensor) -> Tensor | float:
        """Return the factor on a received entry: 1/(r beta), per entry over a selective channel."""
        decoder = self._control.decoder
        if decoder.shape == (1, 1):
            return float(decoder[0, 0])
        entries = self._placement.spread(on_device(decoder, signal.device, signal.dtype))
        return entries.repeat_interleave(2)[: len(signal)] if self._uplink.grid.packing == "iq" else entries

    def _snr_db(self, energy: Array) -> Array:
        """Return the receive SNR of signals with this total energy over all entries; inf without noise."""
        noise_energy = self._context.entries * self._noise_std**2
        return linear_to_db(energy / noise_energy) if noise_energy else np.full_like(energy, np.inf)

    def _received_entries(self, signal: Tensor, beside: float) -> Tensor:
        """Return the observed entries after combining, with noise and interference. signal: their sum without; beside:
        as in `_add_noise`."""
        if self._branches is None:
            return self._add_noise(signal, beside)
        combiner = self._uplink.control.receiver
        assert isinstance(combiner, RobustCombiner)
        return self._branches.close(
            combiner,
            signal.new_zeros(len(signal)),
            noise_std=self._noise_std,
            other_cells=self._disturbances.other_cells,
            leakage=beside,
            interference=self._uplink.interference,
        )

    def _add_noise(self, signal: Tensor, beside: float) -> Tensor:
        """Add noise z ~ N(0, sigma_0^2 I) (eq. 7) and interference to the signal in place, drawn on its device.

        beside: variance on an observed entry of the other disturbances, which are drawn together with the interference.
        """
        import torch

        from airfl.runtime.philox.tensors import add_normals_

        impulsive = bool(self._disturbances.other_cells) and not self._uplink.interference.gaussian
        disturbance = 1.0 if impulsive else self._disturbances.std(beside)
        stds = ((Purpose.RECEIVER_NOISE, self._noise_std), (Purpose.INTERFERENCE, disturbance))
        drawn = [(purpose, std) for purpose, std in stds if std]
        # Rounding depends on the order: noise and interference are added up before they are added to the signal.
        total = torch.zeros_like(signal) if len(drawn) > 1 else signal
        for purpose, std in drawn:
            address = self._context.streams.address(purpose, self._context.round_index)
            if impulsive and purpose is Purpose.INTERFERENCE:
                total += add_normals_(torch.zeros_like(signal), address, None, std) * self._disturbances.impulsive_stds(
                    beside
                )
            else:
                add_normals_(total, address, None, std)
        return signal if total is signal else signal.add_(total)

    def _signals(self, received: Tensor) -> Signals:
        packing = self._uplink.grid.packing
        entries = received.cpu().numpy()
        elements = self._uplink.grid.elements_for(self._context.entries)
        tx = np.concatenate(self._sent) if self._sent else np.zeros((0, elements), dtype=np.complex64)
        rx = entries if packing == "real" else pack(entries.astype(np.float64), packing).astype(np.complex64)
        response = np.moveaxis(self._context.csi.state.response, 1, -1)
        return Signals(tx=tx, rx=rx, response=response)


def _largest_used(coefficient: Array, weights: Array) -> float:
    """Return the largest beta over the coefficients that carry entries."""
    if coefficient.shape != weights.shape:
        coefficient = np.broadcast_to(coefficient, weights.shape)
    return float(coefficient.max(where=weights > 0, initial=0.0))


def _placement(context: UplinkContext, shape: tuple[int, ...]) -> ResourceMapping:
    """Draw the placement of the entries; on a flat channel without offsets it has no effect and is not drawn."""
    path = context.multipath
    offsets = path is not None and (path.timing_samples.any() or path.frequency_offset.any())
    if shape == (1, 1) and not offsets:
        return ResourceMapping(context.frame, 0)
    generator = context.streams.generator(Purpose.PLACEMENT, context.round_index)
    return ResourceMapping(context.frame, int(generator.integers(context.frame.elements)))


def _read(batch: Batch, with_norms: bool) -> tuple[Array, Array | None]:
    """Return the scale of a batch and, if wanted, the norms of its values, in one copy from a GPU."""
    import torch

    if not with_norms:
        return batch.scale.double().cpu().numpy(), None
    scale, norms = torch.stack((batch.scale.double(), batch.norms.double())).cpu().numpy()
    return scale, norms
