"""Build uplinks from the settings. Each builder takes only the parts and sections that it needs; `uplink_of` extracts
them from the full settings."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from airfl.config.digital import DigitalSettings
from airfl.config.hardware import HardwareSettings
from airfl.config.privacy import PrivacySettings
from airfl.config.radio import AntennaSettings, ChannelSettings, PowerSettings
from airfl.config.settings import Settings
from airfl.errors import AlignmentError, UserError, unknown_name
from airfl.schemes.scheme import LinkKind
from airfl.selection import ChannelRule
from airfl.uplinks import AnalogUplink, DigitalUplink, IdealUplink, NoncoherentUplink
from airfl.uplinks.control import PowerControl
from airfl.uplinks.radio.parts import grid_of, link_noise_std_of, noise_std_of, settings_of, waveform_of
from airfl.uplinks.radio.power import power_policy
from airfl.uplinks.uplink import Uplink
from channels.antennas import Combiner
from channels.codewords import Codewords, EnergyDifference
from channels.energy import Phases
from channels.grid import OfdmaGrid
from channels.hardware.amplifiers import Amplifiers
from channels.hardware.converter import Converter
from channels.power import Policy
from channels.power.across_cells import AcrossCells
from channels.waveform import Waveform


@dataclass(frozen=True)
class Hardware:
    """Hardware of the radios; None is ideal.

    Attributes:
        amplifiers: The devices' power amplifiers.
        converter: The receiver's analog-to-digital converter.
        fronthaul: The converter of every antenna, whose samples a fronthaul carries.
    """

    amplifiers: Amplifiers | None = None
    converter: Converter | None = None
    fronthaul: Converter | None = None


IDEAL = Hardware()


def uplink_of(link: LinkKind, settings: Settings, privacy_bound: float = math.inf) -> Uplink:
    """Build the uplink of a run.

    Args:
        link: The kind of link.
        settings: The settings of the run.
        privacy_bound: The largest beta that privacy allows over an analog link.

    Raises UserError if the settings do not allow such a link.
    """
    if link not in get_args(LinkKind):
        raise UserError(unknown_name("scheme.link", link, get_args(LinkKind)))
    if link == "noncoherent":
        return noncoherent_uplink(settings, EnergyDifference())
    grid, channel, power = grid_of(settings.grid), settings.channel, settings.power
    if link != "analog":
        check_antennas_alike(settings.antennas, channel, f"links that carry bits (scheme.link is {link})")
        of_bits = digital_uplink if link == "digital" else ideal_uplink
        noise_std = link_noise_std_of(channel, settings.grid)
        return of_bits(settings.digital, grid, noise_std, channel, power, hardware_of(settings.hardware))
    check_announced(power, privacy_bound, settings.scheme.name)
    control = power_control(
        power,
        privacy_bound,
        policy=power_policy(settings.radio),
        limit=settings.power_limit,
        noise_std=noise_std_of(channel, settings.grid),
        combining=settings.antennas.combiner,
        across_cells=power.across_cells if settings.topology.neighbour_positions else "none",
    )
    return analog_uplink(
        control,
        grid,
        channel,
        settings.privacy,
        waveform=waveform_of(settings.grid),
        hardware=hardware_of(settings.hardware),
        tail=settings.csi_tail / settings.run.rounds,
        median_clip=settings.antennas.median_clip,
    )


def check_antennas_alike(antennas: AntennaSettings, channel: ChannelSettings, what: str) -> None:
    """Check that interference is alike on all antennas, without which rates are not known; raises UserError otherwise.

    Args:
        antennas: The section [antennas].
        channel: The section [channel].
        what: What needs the rates.
    """
    model = channel.interference_model
    if channel.interference_to_noise_db is None or model.gaussian or antennas.count == 1:
        return
    if model.across_antennas != "common":
        raise UserError(
            f"channel.interference_across_antennas: {model.across_antennas!r} is for analog and noncoherent links, but "
            f'{what} need interference that is alike on all {antennas.count} antennas; use "common"'
        )


def check_announced(power: PowerSettings, privacy_bound: float, scheme: str) -> None:
    """Check that `power.alignment = "schedule"` has a beta to announce; raises AlignmentError otherwise."""
    if power.alignment == "schedule" and math.isinf(min(_coefficient(power), privacy_bound)):
        raise AlignmentError(
            f'power.alignment: "schedule" needs a beta to announce, and scheme {scheme!r} has no privacy bound; set '
            'power.coefficient, or use "sample" or "population"'
        )


def power_control(
    power: PowerSettings,
    privacy_bound: float,
    *,
    policy: Policy,
    limit: Literal["round_energy", "transmit_power"],
    noise_std: float,
    combining: Combiner,
    across_cells: AcrossCells = "none",
) -> PowerControl:
    """Build power control: alignment to the largest beta that power and `privacy_bound` allow. Policies other than the
    paper's (power.policy) keep to the same bounds.

    Args:
        power: The section [power].
        privacy_bound: The largest beta that privacy allows.
        policy: The power policy.
        limit: What P_i bounds.
        noise_std: sigma_0, standard deviation of the receiver noise on a real entry.
        combining: The receive combiner.
        across_cells: What the cells minimise together, "none" without neighbouring cells.
    """
    return PowerControl(
        policy=policy,
        limit=limit,
        noise_std=noise_std,
        combining=combining,
        privacy_bound=privacy_bound,
        divide_by=power.divide_by,
        strict=power.strict,
        peak_db=power.peak_db,
        peak=power.peak,
        alignment="sample" if power.alignment == "auto" else power.alignment,
        coefficient=_coefficient(power),
        across_cells=across_cells,
    )


def analog_uplink(
    control: PowerControl,
    grid: OfdmaGrid,
    channel: ChannelSettings,
    privacy: PrivacySettings,
    *,
    waveform: Waveform | None,
    hardware: Hardware = IDEAL,
    tail: float,
    median_clip: float | None = None,
) -> AnalogUplink:
    """Build the analog uplink, on which all devices transmit at once.

    Args:
        control: Power control.
        grid: The grid of resource elements.
        channel: The section [channel].
        privacy: The section [privacy].
        waveform: OFDM modulation in time, None for the per-subcarrier model.
        hardware: Hardware of the radios.
        tail: The part of delta that is spent per round on quantiles of the channel error.
        median_clip: Where decoded entries are clipped, in median absolute deviations; None for no clipping.
    """
    return AnalogUplink(
        grid=grid,
        control=control,
        noise_std=control.noise_std,
        waveform=waveform,
        amplifiers=hardware.amplifiers,
        converter=hardware.converter,
        fronthaul=hardware.fronthaul,
        tail=tail,
        noise=channel.noise,
        interference_to_noise_db=channel.interference_to_noise_db,
        interference=channel.interference_model,
        csi_error=privacy.csi_error,
        least_gain=channel.min_gain if channel.units == "normalised" else 0.0,
        raw_samples=privacy.observer == "server",
        median_clip=median_clip,
    )


def noncoherent_uplink(
    settings: Settings,
    codewords: Codewords,
    *,
    chips: int = 1,
    phases: Phases = "uniform",
    equal_means: bool = True,
    votes: bool = False,
) -> NoncoherentUplink:
    """Build the non-coherent uplink, on which energies of all devices add up.

    Args:
        settings: The settings of the run.
        codewords: How an entry becomes energies.
        chips: How often a codeword is sent, each time with other fades.
        phases: The random phases of the symbols.
        equal_means: Whether devices lower their power until all arrive with the same mean power.
        votes: Whether the scheme uses only the signs of what is decoded.

    Raises UserError for a peak limit that would be kept by backing off, as the largest energy of an element is not
    known before training, and for devices that are selected by their channels, unless it `votes`: energies are divided
    by the mean power of a channel, which is larger for those selected.
    """
    channel, power, rule = settings.channel, settings.power, settings.selection.rule
    if not votes and isinstance(rule, ChannelRule) and rule.needs_csi:
        raise UserError(
            f"selection.kind: {rule.name!r} selects by the channels, but {settings.scheme.name!r} is decoded with the "
            "mean power of all channels, which is less than that of those selected; use uniform, poisson or "
            "energy-budget"
        )
    if power.peak_db is not None and power.peak == "back-off":
        raise UserError(
            "power.peak: 'back-off' needs the largest energy of an element before training, which the noncoherent link "
            "does not know; take power.peak = clip"
        )
    return NoncoherentUplink(
        grid=grid_of(settings.grid),
        codewords=codewords,
        limit=settings.power_limit,
        noise_std=noise_std_of(channel, settings.grid),
        chips=chips,
        phases=phases,
        equal_means=equal_means,
        noise=channel.noise,
        interference_to_noise_db=channel.interference_to_noise_db,
        peak_db=power.peak_db,
        interference=channel.interference_model,
    )


def digital_uplink(
    digital: DigitalSettings,
    grid: OfdmaGrid,
    noise_std: float,
    channel: ChannelSettings,
    power: PowerSettings,
    hardware: Hardware = IDEAL,
) -> DigitalUplink:
    """Build the digital uplink: orthogonal OFDMA with the configured error model and allocation.

    Args:
        digital: The section [digital].
        grid: The grid of resource elements.
        noise_std: Square root of the noise energy on a resource element.
        channel: The section [channel].
        power: The section [power].
        hardware: Hardware of the radios.
    """
    return DigitalUplink(
        grid=grid,
        allocation=digital.allocation_rule,
        error_model=digital.link_errors,
        noise_std=noise_std,
        concentrate=digital.power == "total",
        deadline_s=digital.deadline_s,
        secure_aggregation=digital.secure_aggregation,
        divide_by_received=power.divide_by == "active",
        interference_to_noise_db=channel.interference_to_noise_db,
        interference=channel.interference_model,
        amplifiers=hardware.amplifiers,
        converter=hardware.converter,
    )


def ideal_uplink(
    digital: DigitalSettings,
    grid: OfdmaGrid,
    noise_std: float,
    channel: ChannelSettings,
    power: PowerSettings,
    hardware: Hardware = IDEAL,
) -> IdealUplink:
    """Build the ideal uplink: error-free and orthogonal, charged at capacity. Arguments as in `digital_uplink`."""
    return IdealUplink(
        grid=grid,
        noise_std=noise_std,
        interference_to_noise_db=channel.interference_to_noise_db,
        interference=channel.interference_model,
        deadline_s=digital.deadline_s,
        divide_by_received=power.divide_by == "active",
        amplifiers=hardware.amplifiers,
        converter=hardware.converter,
    )


def hardware_of(section: HardwareSettings) -> Hardware:
    """Return the hardware of the radios. Raises UserError if parameters do not fit each other."""
    with settings_of("hardware"):
        return Hardware(section.amplifiers, section.converter, section.fronthaul)


def _coefficient(power: PowerSettings) -> float:
    """Return the beta of a schedule, inf if none is configured."""
    return math.inf if power.coefficient is None else power.coefficient
