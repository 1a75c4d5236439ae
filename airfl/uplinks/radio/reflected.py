"""The channels of a round with a reconfigurable intelligent surface."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from airfl.runtime.philox import device_uniforms
from airfl.runtime.streams import Purpose, Streams
from airfl.selection import Ids
from channels.csi import ChannelState
from channels.draws import Complex, circular_gaussian
from channels.surface import (
    Alignment,
    Objective,
    Surface,
    WeakestGain,
    cascaded,
    configured,
    starts_of,
    towards_base,
    towards_devices,
)

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reflections:
    """The surface of a run, with what its paths depend on.

    Attributes:
        surface: The surface.
        streams: Random number streams of the run.
        antennas: Number of receive antennas.
        variation: How fading varies in time.
        doppler_hz: Maximum Doppler shift.
    """

    surface: Surface
    streams: Streams
    antennas: int
    variation: str
    doppler_hz: float

    def added(
        self,
        state: ChannelState,
        round_index: int,
        devices: Ids,
        times_s: Array,
        mean_power: Array,
        element_power: Array,
        noise_energy: float,
        training_noise: Array | None,
    ) -> ChannelState:
        """Return the channels of these devices with the paths over the surface, whose phases are set for them.

        Args:
            state: The direct paths, before their loss.
            round_index: t.
            devices: The devices that send in this round.
            times_s: Times since the start of the run at which the response is wanted, [blocks]. The phases are set by
                the channels at the first one.
            mean_power: Mean power of the direct paths before their loss, [devices].
            element_power: Power of the devices on a resource element, [devices].
            noise_energy: N_0 of an antenna.
            training_noise: Variance of the error of every gain that the phases are chosen by, [devices]; None if these
                are known exactly.
        """
        surface = self.surface
        direct = np.sqrt(surface.direct_gain) * state.response[..., 0]
        cascades = self._cascades(round_index, devices, times_s, np.sqrt(surface.element_gain * mean_power))
        starts = self._starts(round_index)
        chosen = starts[0]
        if surface.follows_channels and len(devices):
            seen = np.concatenate([cascades[..., 0], direct[..., :1]], axis=2)
            if training_noise is not None:
                seen = seen + self._training_errors(round_index, devices, seen.shape[1:], training_noise)
            objective = self._objective(element_power, noise_energy)
            chosen = configured(seen[..., -1], seen[..., :-1], surface.levels, starts, objective)
        reflected = np.einsum("dant,n->dat", cascades, surface.levels[chosen])
        return replace(state, response=np.asarray(direct + reflected)[..., None])

    def _cascades(self, round_index: int, devices: Ids, times_s: Array, amplitudes: Array) -> Complex:
        streams, surface = self.streams, self.surface
        hop = towards_devices(
            surface.elements,
            surface.device_k,
            self.variation,
            lambda count: device_uniforms.draw(streams, Purpose.SURFACE, round_index, devices, count),
            lambda count: device_uniforms.draw(streams, Purpose.SURFACE, None, devices, count),
            self.doppler_hz,
            times_s,
        )
        base = towards_base(
            surface.elements,
            self.antennas,
            surface.base_k,
            lambda count: streams.generator(Purpose.SURFACE_TO_BASE).random((1, count)),
        )
        return cascaded(base, hop, amplitudes)

    def _starts(self, round_index: int) -> NDArray[np.int64]:
        """Return random levels, [starts, elements]; the first of them are those of a surface at random."""
        surface = self.surface
        count = starts_of(surface.elements) if surface.follows_channels else 1
        generator = self.streams.generator(Purpose.SURFACE_PHASES, round_index)
        return generator.integers(0, 1 << surface.phase_bits, (count, surface.elements))

    def _training_errors(self, round_index: int, devices: Ids, shape: tuple[int, ...], variances: Array) -> Complex:
        count = 2 * int(np.prod(shape))
        uniforms = device_uniforms.draw(self.streams, Purpose.SURFACE_TRAINING, round_index, devices, count)
        errors = circular_gaussian(uniforms).reshape(len(devices), *shape)
        return np.asarray(np.sqrt(variances)[:, None, None] * errors)

    def _objective(self, element_power: Array, noise_energy: float) -> Objective:
        if self.surface.configuration == "max-min":
            return WeakestGain(element_power)
        weakest = float(element_power.min())
        return Alignment(noise_energy / weakest if weakest else np.inf)
