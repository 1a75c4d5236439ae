"""Settings as their scheme needs them: its own power policy, and nothing that only analog messages use."""

from __future__ import annotations

from airfl.config.part_keys import name_of
from airfl.config.radio import AntennaSettings
from airfl.config.settings import Settings
from airfl.errors import UserError
from airfl.selection import ChannelRule


def settings_for_scheme(settings: Settings) -> Settings:
    """Return the settings adapted to the scheme.

    If the scheme prescribes a power policy or a combiner, it is set, and any other one raises UserError. On a
    frequency-selective channel, a policy for flat channels is replaced by its per-subcarrier version. On other links
    than analog, settings that affect only analog messages are reset.
    """
    entry = settings.scheme
    if entry.carrier != "analog":
        settings = _without_analog(settings)
    if entry.carrier == "noncoherent":
        settings = _without_csi(settings)
    settings, power = _with_combiner(settings), settings.power
    if entry.policy is None:
        return settings
    prescribed = [entry.policy]
    if entry.policy == "truncated-inversion":
        prescribed.append("per-subcarrier-truncated")
    default = prescribed[-1 if settings.channel.fading_model.selective else 0]
    policy = default if power.policy == "pfels" else power.policy
    if policy not in prescribed:
        raise UserError(
            f"power.policy: scheme {entry.name!r} prescribes {' or '.join(prescribed)}, got {power.policy!r}; omit it"
        )
    threshold_set = power.threshold or power.participation is not None or power.coefficient is not None
    threshold = power.threshold if threshold_set else entry.threshold
    return settings.resolved(power={"policy": policy, "threshold": threshold})


def _with_combiner(settings: Settings) -> Settings:
    """Set the combiner that the scheme prescribes in place of the default one."""
    entry, combining = settings.scheme, settings.antennas.combining
    if entry.combining is None or combining == entry.combining:
        return settings
    if combining != AntennaSettings.model_fields["combining"].default:
        raise UserError(
            f"antennas.combining: scheme {entry.name!r} prescribes {entry.combining!r}, got {name_of(combining)!r}; "
            "omit it"
        )
    return settings.resolved(antennas={"combining": entry.combining})


def _without_csi(settings: Settings) -> Settings:
    """Reset settings of channel knowledge that nobody uses on a non-coherent link, so that no pilot is sent for it.

    Selection by the channel needs estimates all the same, and the cost of a downlink depends on feedback and ageing.
    """
    rule = settings.selection.rule
    used: dict[str, object] = {"estimation": "perfect"}
    if isinstance(rule, ChannelRule) and rule.needs_csi:
        return settings
    if not settings.grid.downlink:
        used |= {"delay_s": 0.0, "gain_bits": 0}
    return settings.resolved(csi=used) if any(getattr(settings.csi, key) != used[key] for key in used) else settings


def _without_analog(settings: Settings) -> Settings:
    """Reset settings that have no effect on links other than analog.

    Modulated bits and energies use both parts of a resource element, the receiver tracks the phase or does not need it,
    privacy does not depend on the channel, and cells send at their limit. `airfl.config.without_effect` warns users who
    set these keys.
    """
    analog_only: dict[str, dict[str, object]] = {
        "grid": {"packing": "real"},
        "csi": {"phase_std_rad": 0.0} if settings.grid.downlink else {"phase_std_rad": 0.0, "phase_bits": 0},
        "privacy": {"csi_error": "realised"},
        "power": {"across_cells": "none"},
    }
    for section, values in analog_only.items():
        if any(getattr(getattr(settings, section), key) != value for key, value in values.items()):
            settings = settings.resolved(**{section: values})
    return settings
