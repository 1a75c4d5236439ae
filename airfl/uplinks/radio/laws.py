"""Fading laws of the devices and their statistics, as far as they are known."""

from __future__ import annotations

import functools
import math

import numpy as np
from numpy.typing import NDArray

from airfl.config.blockage import BlockageSettings
from airfl.config.part_keys import name_of
from airfl.config.radio import ChannelSettings, GridSettings, TopologySettings, path_loss_of
from airfl.config.radio_sections import RadioSections
from airfl.errors import UserError
from airfl.runtime.streams import Purpose, Streams
from airfl.uplinks.radio.own import own_law
from airfl.uplinks.radio.parts import grid_of, settings_of, whole_population
from channels.csi import Imperfections
from channels.csi.measured import MeasuredErrors, read_measured
from channels.fading import (
    FadeStatistics,
    FadingLaw,
    FlatFading,
    Recorded,
    Replay,
    SelectiveFading,
    VariableError,
    bounded,
    fade_statistics,
)
from channels.fading.gains import Bounds
from channels.fading.rayleigh import Rayleigh
from channels.fading.rician import Rician
from channels.recorded.layout import PHYSICAL
from channels.recorded.mapping import Draw
from channels.topology import Drop
from channels.units import linear_to_db

Array = NDArray[np.float64]

DRAWN_OF_REPLAY = {"rounds": Purpose.REPLAY_ROUNDS, "devices": Purpose.REPLAY_DEVICES}
"""Random stream of what a replay may draw."""

# Bounds that change the mean gain by a larger fraction cause a notice.
MOST_MOVED = 0.1
SAME_CARRIER = 1e-3
"""Relative distance up to which two carriers count as one: the Doppler shift is wrong by as much."""
# Share of fades that bounds may change without the law counting as another one.
NEGLIGIBLE = 1e-3


def fading_law(channel: ChannelSettings, topology: TopologySettings, blockage: BlockageSettings) -> FadingLaw | None:
    """Return the flat fading law shared by all devices. None if the channel is replayed or frequency-selective, or if
    devices have different laws."""
    fading = channel.fading_model
    if not isinstance(fading, FlatFading) or k_varies(channel, topology, blockage):
        return None
    if isinstance(fading, Rician) and topology.kind != "none" and topology.los == "nlos":
        return _law(Rayleigh())
    with settings_of("channel"):
        return _law(fading)


# Cached, since a run uses its law several times and the moments of a bounded law are integrals.
@functools.lru_cache(maxsize=64)
def _law(fading: FlatFading) -> FadingLaw:
    return own_law(fading)


@functools.lru_cache(maxsize=64)
def _bounded(law: FadingLaw, low: float, high: float, bounds: Bounds) -> FadingLaw:
    return bounded(law, low, high, bounds)


def k_varies(channel: ChannelSettings, topology: TopologySettings, blockage: BlockageSettings) -> bool:
    """Whether the Rician K-factor differs between devices, by line of sight, by a draw per device, or because lines of
    sight are blocked."""
    fading = channel.fading_model
    if not isinstance(fading, Rician):
        return False
    if fading.k == "tr38901":
        return topology.los != "nlos"
    if topology.kind == "none" or topology.los == "nlos":
        return False
    if fading.k > 0 and blockage.model != "none":
        return True
    return fading.k > 0 and topology.los == "probability" and path_loss_of(channel, topology) != "log-distance"


def k_factors(
    channel: ChannelSettings, topology: TopologySettings, blockage: BlockageSettings, placed: Drop
) -> Array | None:
    """Return the Rician K-factor of every device to one access point before blockage, [N], 0 without line of sight;
    None if all devices share one law."""
    fading = channel.fading_model
    if not (isinstance(fading, Rician) and k_varies(channel, topology, blockage)):
        return None
    if fading.k == "tr38901":
        return placed.k_factor
    return np.where(placed.line_of_sight, fading.k, 0.0)


def missing_law_reason(radio: RadioSections) -> str:
    """Return the reason why there are no fading statistics for all devices, of what their power policy goes by."""
    channel, csi = radio.channel, radio.csi.imperfections
    if statistics_of(radio) is not None:
        if csi.feedback.gain_bits:
            return (
                "the law of gains that are fed back in a few bits is not known (given: csi.gain_bits = "
                f"{csi.feedback.gain_bits})"
            )
        return (
            f"the law of channel estimates is known for Rayleigh fading that channel.bounds leave alone (given: "
            f"csi.estimation = {csi.estimation.method!r}, channel.fading = {name_of(channel.fading)!r})"
        )
    if radio.surface.elements:
        return f"the fading law with a surface of {radio.surface.elements} elements is not known"
    if k_varies(channel, radio.topology, radio.blockage):
        if radio.blockage.model != "none":
            return "lines of sight are blocked one by one, so there is no common fading law (blockage.model)"
        return (
            "devices have different Rician K-factors, so there is no common fading law (for one, set topology.los to "
            "los or nlos, and channel.rician_k to a number)"
        )
    return f"the fading law of {name_of(channel.fading)!r} is not known"


def replay_of(
    channel: ChannelSettings, *, rounds: int, devices: int, antennas: int, streams: Streams | None = None
) -> Replay | None:
    """Return the recorded channel, None if the channel is not replayed. streams: of the run, which draw the order of
    recorded rounds and the recorded devices if these are drawn."""
    fading = channel.fading_model
    if not isinstance(fading, Recorded):
        return None

    def draw(what: str) -> Draw:
        assert streams is not None
        return functools.partial(streams.generator, DRAWN_OF_REPLAY[what])

    with settings_of("channel.replay_file"):
        try:
            return fading.read(
                rounds=rounds,
                devices=devices,
                antennas=antennas,
                physical=channel.units == "physical",
                draw=None if streams is None else draw,
            )
        except VariableError as error:
            raise UserError(f"channel.replay_variable: {error}") from None


def measured_of(imperfections: Imperfections, *, rounds: int, devices: int, streams: Streams) -> MeasuredErrors | None:
    """Return the measured synchronisation errors, None if no file of them is given."""
    with settings_of("csi.residual_file"):
        try:
            return read_measured(
                imperfections.synchronisation,
                rounds=rounds,
                devices=devices,
                uniforms=lambda: whole_population(streams, Purpose.MEASURED_DEVICES, devices)(1)[:, 0],
                order=functools.partial(streams.generator, Purpose.MEASURED_ROUNDS),
            )
        except VariableError as error:
            raise UserError(f"csi.residual_variable: {error}") from None


def interpolated(radio: RadioSections) -> str | None:
    """Return a notice if a recorded channel is interpolated between recorded subcarriers, with its error."""
    fading = radio.channel.fading_model
    if not isinstance(fading, Recorded):
        return None
    grid = grid_of(radio.grid)
    found = fading.interpolation(grid.frame(2 * grid.used_subcarriers, 1), radio.antennas.count)
    if found is None:
        return None
    recorded, error = found
    told = (
        "the first recorded round does not tell the error"
        if math.isnan(error)
        else f"at twice their spacing the error would be {float(linear_to_db(error)):.1f} dB of the channel's power"
    )
    return (
        f"channel.replay_file: {recorded:,} recorded subcarriers are interpolated to {grid.used_subcarriers:,}; {told}"
    )


def physical_as_normalised(radio: RadioSections) -> str | None:
    """Return a notice if a recorded channel of received over sent amplitudes is replayed in normalised units."""
    fading = radio.channel.fading_model
    if not isinstance(fading, Recorded) or radio.channel.units == "physical" or fading.attribute(PHYSICAL) != 1:
        return None
    return (
        f"channel.replay_file: the gains of {fading.file} are received over sent, with path loss, but channel.units is "
        "normalised; set channel.units=physical, or import it again with --normalise or --reference-db"
    )


def check_carrier(radio: RadioSections, recorded_hz: float) -> None:
    """Raise UserError if a recorded channel has another carrier than an effect on it assumes.

    Args:
        radio: The settings.
        recorded_hz: Carrier of the recording in Hz; nan if it is not known.
    """
    channel, csi = radio.channel, radio.csi.imperfections
    if math.isnan(recorded_hz) or math.isclose(channel.carrier_hz, recorded_hz, rel_tol=SAME_CARRIER):
        return
    aged = csi.ageing.delay_s > 0 and channel.speed_m_s > 0
    if aged or csi.oscillator.spectrum is not None:
        raise UserError(
            f"channel.carrier_hz: {'csi.delay_s' if aged else 'csi.oscillator'} depends on it, but it is "
            f"{channel.carrier_hz:g} Hz and channel.replay_file was recorded at {recorded_hz:g} Hz; set "
            f"channel.carrier_hz = {recorded_hz:g}"
        )


def gain_law(radio: RadioSections) -> FadingLaw | None:
    """Return the law of a coefficient's |h| within the bounds, relative to its mean before the bounds. None if it is
    not known (replayed gains, Sionna's models) or devices have different laws."""
    channel, law = radio.channel, fading_law(radio.channel, radio.topology, radio.blockage)
    mean_gain, fading = channel.mean_gain, channel.fading_model
    if isinstance(fading, SelectiveFading) and fading.gaussian:  # every subcarrier is Rayleigh with rms mean_gain
        law = _law(Rayleigh())
        mean_gain /= math.sqrt(law.mean_square)
    if law is None or not has_bounds(channel, radio.grid):
        return law
    with settings_of("channel.bounds"):
        return _bounded(law, channel.min_gain / mean_gain, channel.max_gain / mean_gain, channel.bounds)


def has_bounds(channel: ChannelSettings, grid: GridSettings) -> bool:
    """Whether gains are kept within channel.min_gain and channel.max_gain. They are not in physical units, for recorded
    gains, and for the taps of a simulated waveform."""
    fading = channel.fading_model
    through_taps = grid.waveform and not isinstance(fading, FlatFading)
    return channel.units == "normalised" and fading.drawn and not through_taps


def bounds_factor(radio: RadioSections) -> float:
    """Return the factor by which the bounds change the mean power E|h|^2; 1 if the law is not known."""
    law, before = gain_law(radio), fading_law(radio.channel, radio.topology, radio.blockage) or _law(Rayleigh())
    return law.mean_square / before.mean_square if law else 1.0


def cut_by_bounds(radio: RadioSections) -> str | None:
    """Return a notice if the bounds change the mean gain by more than a tenth, else None. A mean outside the bounds is
    an error, see `airfl.uplinks.radio.checks`."""
    channel = radio.channel
    law = gain_law(radio) if channel.min_gain <= channel.mean_gain <= channel.max_gain else None
    if law is None or abs(law.mean - 1) <= MOST_MOVED:
        return None
    return (
        f"channel.mean_gain is {channel.mean_gain:g} before the bounds, and {law.mean * channel.mean_gain:.3g} after "
        f"applying them (channel.min_gain {channel.min_gain:g}, channel.max_gain {channel.max_gain:g}, "
        f"channel.bounds {channel.bounds})"
    )


def statistics_of(radio: RadioSections) -> FadeStatistics | None:
    """Return the fading statistics of a coefficient within the bounds. None if the law is not known (replayed gains,
    Sionna's models, a surface) or devices have different laws."""
    law = None if radio.surface.elements else gain_law(radio)
    return fade_statistics(law) if law else None


def statistics_for_power(radio: RadioSections) -> FadeStatistics | None:
    """Return the fading statistics, relative to its mean power, of what the power policy goes by: the estimate of a
    coefficient, or the coefficient if its devices do not know their gains. None if they are not known.

    The estimate of a Gaussian coefficient from pilots is Gaussian, whatever its error. With other laws, that of the
    estimate depends on the device's ratio of error and mean power, and of quantised gains we compute none.
    """
    found, csi = statistics_of(radio), radio.csi.imperfections
    if found is None or not radio.power.power_policy.knows_gains:
        return found
    if csi.feedback.gain_bits:
        return None
    if csi.estimation.method == "perfect":
        return found
    return fade_statistics(_law(Rayleigh())) if _is_gaussian(radio) else None


def _is_gaussian(radio: RadioSections) -> bool:
    """Whether coefficients are circularly symmetric Gaussian, apart from a share `NEGLIGIBLE` that bounds change."""
    channel, rayleigh = radio.channel, _law(Rayleigh())
    law, mean_gain = fading_law(channel, radio.topology, radio.blockage), channel.mean_gain
    if isinstance(channel.fading_model, SelectiveFading) and channel.fading_model.gaussian:
        law, mean_gain = rayleigh, mean_gain / math.sqrt(rayleigh.mean_square)
    if law is not rayleigh:
        return False
    if not has_bounds(channel, radio.grid):
        return True
    below, above = rayleigh.cdf(np.array([channel.min_gain, channel.max_gain]) / mean_gain)
    return bool(below + 1 - above <= NEGLIGIBLE)
