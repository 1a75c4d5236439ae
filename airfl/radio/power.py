"""The power policy of a radio, and what it cannot be."""

from __future__ import annotations

from dataclasses import replace

from airfl.config.part_keys import name_of
from airfl.config.radio import POLICY, AntennaSettings, PowerSettings
from airfl.config.radio_sections import RadioSections
from airfl.errors import AlignmentError, UserError
from airfl.radio.laws import no_law, statistics_of
from airfl.radio.parts import settings_of
from channels.fading import FadeStatistics
from channels.part import parameters_of
from channels.power import POLICIES, Policy

# Shares of fades closer than that are the same; channels.fading keeps a threshold half as far from a gain of many.
SHARE_ACCURACY = 2e-6


def power_policy(radio: RadioSections) -> Policy:
    """The power policy; a wanted participation becomes the threshold that gives it."""
    power, policy = radio.power, radio.power.power_policy
    changes: dict[str, float | None] = {}
    if power.participation is not None:
        fades = statistics_of(radio)
        if fades is None:
            raise UserError(f"power.participation: {no_law(radio.channel, radio.topology)}; give power.threshold")
        changes["threshold"] = _threshold_for(power.participation, fades)
    if power.alignment == "schedule":  # its coefficient is announced, and no aim of the policy's own
        changes["coefficient"] = None
    with settings_of("power"):
        return replace(policy, **{name: value for name, value in changes.items() if name in policy.values()})


def _threshold_for(share: float, fades: FadeStatistics) -> float:
    """The threshold that this share of fades reaches; UserError where bounds put so many on one gain that none does."""
    threshold = fades.threshold_for(share)
    found = fades.exceedance(threshold)
    if found > share + SHARE_ACCURACY:
        fewer = fades.exceedance(threshold * (1 + 4 * SHARE_ACCURACY))
        offered = f"{found:.6g} or {fewer:.6g}" if fewer > 0 else f"{found:.6g}"
        raise UserError(
            f"power.participation: {share:g} of fades cannot be told by a threshold, as {found - fewer:.3g} have the "
            f"same gain (channel.bounds, channel.fading); ask for {offered}, or give power.threshold"
        )
    return threshold


def check_power(radio: RadioSections) -> None:
    """UserError for a policy that does not go with its parameters, with the fading, or with what is divided by."""
    power, channel, antennas, fades = radio.power, radio.channel, radio.antennas, statistics_of(radio)
    if power.spread == "message" and channel.units != "physical":
        raise UserError(
            'power.spread: "message" needs channel.units = "physical", where power is in dBm (given: '
            f'{channel.units!r}); take "band"'
        )
    name, given = name_of(power.policy), power.power_policy
    if power.participation is not None and "threshold" not in given.values():
        raise UserError(
            f"power.participation: power policy {name!r} has no threshold to set by it (given: "
            f"{power.participation}); leave it out, or choose one of {_readers('threshold')}"
        )
    policy = power_policy(radio)
    if policy.over_fading and fades is None:
        raise UserError(f'power.average_over: {no_law(channel, radio.topology)}; take "round"')
    for key, readers in POLICY.foreign(power):
        if not (key == "coefficient" and power.alignment == "schedule"):
            raise UserError(
                f"power: power policy {name!r} takes no {key}: leave it out, or choose one of {', '.join(readers)}"
            )
    if fades is not None:
        with settings_of("power"):
            policy.check_fades(fades.inverse_power)
    one_gain = antennas.count == 1 or antennas.combiner.one_antenna
    for key, asked, remedy in (
        ("average_over", policy.over_fading, 'take "round"'),
        ("divide_by", power.divide_by == "expected", 'take "active"'),
        ("participation", power.participation is not None, "give power.threshold"),
    ):
        if asked and not one_gain:
            raise UserError(
                f"power.{key}: how combined antennas fade is not known (given: antennas.count = "
                f"{antennas.count}); {remedy}, or one antenna"
            )
    _check_alignment(power, antennas, policy, one_gain)
    if power.divide_by == "expected" and fades is None and policy.truncates:
        raise UserError(f'power.divide_by: {no_law(channel, radio.topology)}; take "selected" or "active"')
    if power.divide_by == "expected" and not policy.truncates:
        raise UserError(
            f'power.divide_by: "expected" needs a policy with a threshold (given: {name!r}); take "selected" '
            'or "active"'
        )


def _readers(parameter: str) -> str:
    """Names of the policies that have a parameter of that name."""
    return ", ".join(name for name, one in POLICIES.items() if parameter in (own.name for own in parameters_of(one)))


def _check_alignment(power: PowerSettings, antennas: AntennaSettings, policy: Policy, one_gain: bool) -> None:
    if power.alignment in ("auto", "sample"):
        return
    if not (policy.announces and policy.one_by_one):
        able = ", ".join(name for name, one in POLICIES.items() if one.announces and one.one_by_one)
        raise AlignmentError(
            f"power.alignment: policy {name_of(power.policy)!r} takes beta from the devices that send (given: "
            f"{power.alignment!r}); take sample, or power.policy = {able}"
        )
    if power.alignment == "population" and policy.target is not None:
        raise AlignmentError(
            f"power.coefficient: power.alignment = 'population' takes beta from the channels (given: "
            f"{policy.target:g}); take schedule, or leave the coefficient out"
        )
    if power.alignment == "population" and not one_gain:
        raise AlignmentError(
            "power.alignment: combined antennas have another gain for every set of devices (given: antennas.count = "
            f'{antennas.count}); take schedule, antennas.combining = "first", or one antenna'
        )
