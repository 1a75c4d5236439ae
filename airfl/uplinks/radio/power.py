"""The power policy of a radio, and checks of its settings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from airfl.config.part_keys import name_of
from airfl.config.radio import POLICY, AntennaSettings, PowerSettings
from airfl.config.radio_sections import RadioSections
from airfl.errors import AlignmentError, UserError
from airfl.selection import ChannelRule, SelectionRule
from airfl.uplinks.radio.laws import missing_law_reason, statistics_for_power
from airfl.uplinks.radio.parts import settings_of
from channels.antennas import COMBINERS, Combiner
from channels.fading import FadeStatistics
from channels.part import parameters_of
from channels.power import POLICIES, Policy

# Fractions of fades closer than this count as equal. channels.fading places thresholds at half this distance from a
# gain that many fades share.
SHARE_ACCURACY = 2e-6


def power_policy(radio: RadioSections) -> Policy:
    """Return the power policy. A configured participation is converted to the threshold that gives it."""
    power, policy = radio.power, radio.power.power_policy
    changes: dict[str, float | None] = {}
    if power.participation is not None:
        fades = statistics_for_power(radio)
        if fades is None:
            raise UserError(f"power.participation: {missing_law_reason(radio)}; set power.threshold")
        changes["threshold"] = _threshold_for(power.participation, fades)
    if power.alignment == "schedule":  # the coefficient is announced and not a target of the policy
        changes["coefficient"] = None
    with settings_of("power"):
        return replace(policy, **{name: value for name, value in changes.items() if name in policy.values()})


def _threshold_for(share: float, fades: FadeStatistics) -> float:
    """Return the threshold that this fraction of fades reaches. Raises UserError if no threshold gives the fraction,
    because bounds put many fades on the same gain."""
    threshold = fades.threshold_for(share)
    reached = fades.exceedance(threshold)
    if reached > share + SHARE_ACCURACY:
        fewer = fades.exceedance(threshold * (1 + 4 * SHARE_ACCURACY))
        possible = f"{reached:.6g} or {fewer:.6g}" if fewer > 0 else f"{reached:.6g}"
        raise UserError(
            f"power.participation: no threshold gives {share:g}, because a fraction {reached - fewer:.3g} of fades has "
            f"the same gain (channel.bounds, channel.fading); use {possible}, or set power.threshold"
        )
    return threshold


def check_power(radio: RadioSections) -> None:
    """Check the policy against its parameters, the fading and the divisor; raises UserError."""
    power, channel, antennas, fades = radio.power, radio.channel, radio.antennas, statistics_for_power(radio)
    if power.spread == "message" and channel.units != "physical":
        raise UserError(
            'power.spread: "message" needs channel.units = "physical", where power is in dBm (given: '
            f'{channel.units!r}); use "band"'
        )
    name, configured = name_of(power.policy), power.power_policy
    if power.participation is not None and "threshold" not in configured.values():
        raise UserError(
            f"power.participation: power policy {name!r} has no threshold (given: {power.participation}); omit it, or "
            f"use one of {_policies_with('threshold')}"
        )
    policy = power_policy(radio)
    if policy.over_fading and fades is None:
        raise UserError(f'power.average_over: {missing_law_reason(radio)}; use "round"')
    for key, policies in POLICY.foreign(power):
        if not (key == "coefficient" and power.alignment == "schedule"):
            raise UserError(
                f"power: power policy {name!r} has no parameter {key}; omit it, or use one of {', '.join(policies)}"
            )
    if fades is not None:
        with settings_of("power"):
            policy.check_fades(fades.inverse_power)
    one_gain = antennas.count == 1 or antennas.combiner.one_antenna
    for key, asked, remedy in (
        ("average_over", policy.over_fading, 'use "round"'),
        ("divide_by", power.divide_by == "expected", 'use "active"'),
        ("participation", power.participation is not None, "set power.threshold"),
    ):
        if asked and not one_gain:
            raise UserError(
                f"power.{key}: the fading law of combined antennas is not known (given: antennas.count = "
                f"{antennas.count}); {remedy}, or use one antenna"
            )
    if policy.statistical:
        _check_statistical(radio, policy, fades, one_gain)
    _check_alignment(power, antennas, policy, one_gain)
    if power.divide_by == "expected" and fades is None and policy.truncates:
        raise UserError(f'power.divide_by: {missing_law_reason(radio)}; use "selected" or "active"')
    if power.divide_by == "expected" and not policy.truncates:
        raise UserError(
            f'power.divide_by: "expected" needs a policy with a threshold (given: {name!r}); use "selected" or "active"'
        )


def check_blind(radio: RadioSections, rule: SelectionRule) -> None:
    """Check what a policy without channel knowledge at the devices needs; raises UserError.

    rule: of the selection of devices.
    """
    name, antennas, csi = name_of(radio.power.policy), radio.antennas, radio.csi.imperfections
    able = [one for one, combiner in COMBINERS.items() if combiner.mean_gains is not Combiner.mean_gains]
    if type(antennas.combiner).mean_gains is Combiner.mean_gains:
        raise UserError(
            f"antennas.combining: power policy {name!r} leaves the phases to the receiver, which needs "
            f"{' or '.join(able)} (given: {name_of(antennas.combining)!r})"
        )
    for key, bits in (("phase_bits", csi.feedback.phase_bits), ("gain_bits", csi.feedback.gain_bits)):
        if bits:
            raise UserError(
                f"csi.{key}: devices of power policy {name!r} are told nothing of their channels (given: {bits}); use 0"
            )
    if isinstance(rule, ChannelRule) and rule.needs_csi:
        raise UserError(
            f"selection.kind: {rule.name!r} needs the channel of every candidate, but the receiver of power policy "
            f"{name!r} knows only the sum of the channels; use uniform, poisson or energy-budget"
        )
    if radio.topology.points > 1 and csi.estimation.method != "perfect":
        raise UserError(
            f"csi.estimation: pilots that are sent at once, as under power policy {name!r}, are not modelled for "
            f'several access points (given: {csi.estimation.method!r}); use "perfect", or one of topology.access_points'
        )
    if radio.surface.surface.follows_channels and antennas.combiner.name == "sum":
        raise UserError(
            "antennas.combining: 'sum' is for channels of independent phases, but surface.configuration = "
            f'{radio.surface.surface.configuration!r} sets them; use "aligned-sum"'
        )
    if radio.grid.waveform:
        raise UserError(
            f"grid.waveform: is decoded without combining, but power policy {name!r} leaves the phases to it; use false"
        )


def check_law_of_selected(radio: RadioSections, rule: SelectionRule) -> None:
    """Check that devices are not selected by their channels where the power control goes by the law of fading, which is
    another one for those selected; raises UserError.

    rule: of the selection of devices.
    """
    if not (isinstance(rule, ChannelRule) and rule.needs_csi):
        return
    power, policy = radio.power, power_policy(radio)
    relying = {
        f"power.policy = {name_of(power.policy)!r}": policy.statistical,
        "power.participation": power.participation is not None,
        'power.average_over = "fading"': policy.over_fading,
        'power.divide_by = "expected"': power.divide_by == "expected",
    }
    for setting, relies in relying.items():
        if relies:
            raise UserError(
                f"selection.kind: {rule.name!r} selects by the channels, but {setting} relies on the fading law of all "
                "devices, which is another one for those selected; use uniform, poisson or energy-budget"
            )


def check_statistics_hold(radio: RadioSections, privacy_bound: float) -> None:
    """Check that what arrives under a policy by the statistics of fading has the bound that privacy needs; raises
    UserError.

    Args:
        radio: The sections of the radio.
        privacy_bound: The largest amplitude with which a message may arrive, inf for none.
    """
    name, policy, fades = name_of(radio.power.policy), radio.power.power_policy, statistics_for_power(radio)
    if not policy.knows_gains and np.isfinite(privacy_bound) and not (fades and np.isfinite(fades.most_power)):
        remedy = 'statistical-truncation, channel.units = "normalised" with channel.max_gain'
        if radio.surface.elements:  # with which the fading law is not known
            remedy = "a policy whose devices know their gains, surface.elements = 0"
        raise UserError(
            f"power.policy: devices of {name!r} do not know their gains, and the fading has no largest gain, so that "
            f"nothing bounds what arrives, as the privacy bound of this scheme needs; use {remedy}, or "
            "privacy.epsilon = inf"
        )
    errors = radio.csi.imperfections.synchronisation
    if not policy.knows_gains and np.isfinite(privacy_bound) and errors.exceeds_the_channel:
        raise UserError(
            f"power.policy: nothing bounds what arrives from devices of {name!r} with synchronisation errors, as the "
            "privacy bound of this scheme needs; set csi.amplitude_std_db to 0, leave csi.residual_file out, or use "
            f"privacy.epsilon = inf (given: {errors.amplitude_std_db:g}, {errors.file!r})"
        )


def _check_statistical(radio: RadioSections, policy: Policy, fades: FadeStatistics | None, one_gain: bool) -> None:
    """Check what a policy by the statistics of fading needs of the radio."""
    power, antennas, name = radio.power, radio.antennas, name_of(radio.power.policy)
    if not one_gain:
        raise UserError(
            f"power.policy: {name!r} needs the fading law of what is received, which is not known of combined antennas "
            f'(given: antennas.count = {antennas.count}); use one antenna, or antennas.combining = "first"'
        )
    if policy.needs_law and fades is None:
        remedy = 'use power.objective = "mean-power", or another power.policy'
        if "objective" not in policy.values():
            remedy = "use another power.policy"
        raise UserError(f"power.policy: {missing_law_reason(radio)}; {remedy}")
    if power.divide_by != "selected":
        raise UserError(
            f"power.divide_by: beta of power policy {name!r} allows for devices that do not send (given: "
            f'{power.divide_by!r}); use "selected"'
        )
    bits = radio.csi.imperfections.feedback.gain_bits
    if bits and not policy.knows_gains:
        raise UserError(f"csi.gain_bits: devices of power policy {name!r} use no gain (given: {bits}); use 0")


def _policies_with(parameter: str) -> str:
    """Return the names of the policies that have this parameter."""
    return ", ".join(name for name, one in POLICIES.items() if parameter in (own.name for own in parameters_of(one)))


def _check_alignment(power: PowerSettings, antennas: AntennaSettings, policy: Policy, one_gain: bool) -> None:
    if power.alignment in ("auto", "sample"):
        return
    if not (policy.announces and policy.one_by_one):
        able = ", ".join(name for name, one in POLICIES.items() if one.announces and one.one_by_one)
        raise AlignmentError(
            f"power.alignment: policy {name_of(power.policy)!r} derives beta from the devices that send (given: "
            f'{power.alignment!r}); use "sample", or power.policy = {able}'
        )
    if power.alignment == "population" and policy.target is not None:
        raise AlignmentError(
            f'power.coefficient: power.alignment = "population" derives beta from the channels (given: '
            f'{policy.target:g}); use "schedule", or omit the coefficient'
        )
    if power.alignment == "population" and not one_gain:
        raise AlignmentError(
            "power.alignment: the gain of combined antennas depends on the selected devices (given: antennas.count = "
            f'{antennas.count}); use "schedule", antennas.combining = "first", or one antenna'
        )
