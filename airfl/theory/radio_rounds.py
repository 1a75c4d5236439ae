"""What the radio does to the mean update of a run, by round: as planned, or as recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from airfl.analysis.budget import planned_rounds
from airfl.config import Settings
from airfl.core.accounting import noise_std
from airfl.core.scenario import Scenario
from airfl.errors import UserError
from airfl.uplinks import AnalogUplink

Array = NDArray[np.float64]

ALIKE = 1e-5
"""Relative difference up to which amplitudes count as the same."""


@dataclass(frozen=True)
class RadioRounds:
    """What the radio does to the mean update, by round.

    Attributes:
        noise_std: Standard deviation of the noise on a kept entry of the decoded mean update, [T].
        alignment: beta, nan for links without, [T].
        all_heard: Whether all selected devices are heard in all rounds.
        disturbances: What there is beside noise on the mean update, in words; none where channels are known and nothing
            interferes or is clipped on the air.
        alike: Whether all messages that are heard arrive with the same amplitude; None where only the power policy can
            tell: over selective channels, and with several antennas.
        planned: Whether these are of planned rounds and not of a run.
    """

    noise_std: Array
    alignment: Array
    all_heard: bool
    disturbances: tuple[str, ...]
    alike: bool | None
    planned: bool


def planned(scenario: Scenario) -> RadioRounds:
    """Return what the radio will do: the same rounds as in a run with this seed. What is clipped depends on the
    messages, so that the settings decide."""
    noise, alignment, heard, known, interfered = [], [], True, True, False
    alike = True if _flat(scenario) else None
    for plan in planned_rounds(scenario):
        report = plan.link.link_budget()
        noise.append(noise_std(scenario, report))
        alignment.append(report.alignment_coefficient)
        heard &= int(report.devices.active.sum()) == scenario.run.selected  # those that take no part have no row
        known &= np.array_equal(plan.channel.gains, plan.estimate.gains)
        interfered |= bool(report.interference_std)
        if alike:
            devices, beta = report.devices, np.array(report.alignment_coefficient)
            alike = _alike(plan.channel.gains, devices.transmit_scale, devices.active, beta)
    found = _disturbances(known, interfered, _may_clip(scenario))
    return RadioRounds(np.array(noise), np.array(alignment), heard, found, alike, planned=True)


def recorded(settings: Settings, scenario: Scenario, folder: Path) -> RadioRounds:
    """Return what the radio did in a run. Raises UserError if the folder has another run, or one that is not over."""
    from airfl.core.checkpoint import check_asked
    from airfl.storage.trace import open_trace

    with open_trace(folder) as trace:
        attributes = trace.attrs
        if attributes["status"] != "complete":
            raise UserError(f"{folder}: the run in it is {attributes['status']}, not complete; give a complete one")
        try:
            check_asked(str(attributes["config"]), str(attributes.get("own_parts", "{}")), folder, settings)
        except UserError as error:
            told = str(error).removesuffix("; choose another --out")
            raise UserError(f"{told}; give the settings of the run") from None
        gains, known = trace["channel_gain"].values, trace["channel_estimate"].values
        alignment = trace["alignment_coefficient"].values.astype(float)
        scale, active = trace["transmit_scale"].values, trace["active"].values
        shares = [trace[f"{part}clipped_share"].values for part in ("", "waveform_", "receiver_")]
        return RadioRounds(
            noise_std=trace["noise_std"].values.astype(float),
            alignment=alignment,
            all_heard=bool((trace["heard"].values == settings.run.selected).all()),
            disturbances=_disturbances(
                known=np.array_equal(gains, known, equal_nan=True),  # nan for devices that took no part
                interfered=bool(trace["interference_std"].values.any()),
                clipped=any(bool(share.any()) for share in shares),
            ),
            alike=_alike(gains, scale, active, alignment) if _flat(scenario) else None,
            planned=False,
        )


def _flat(scenario: Scenario) -> bool:
    """Return whether each device has a single gain on an analog link."""
    flat = scenario.radio.observed_shape(scenario.frame) == (1, 1) and scenario.antennas == 1
    return flat and isinstance(scenario.recipe.uplink, AnalogUplink)


def _alike(gains: NDArray[Any], scale: Array, active: NDArray[Any], beta: Array) -> bool:
    """Return whether |h_i| alpha_i = beta for all devices that send (PFELS, eq. 12); shapes [..., devices], [...]."""
    arriving, sends = np.abs(gains) * scale, active == 1
    wanted = np.broadcast_to(beta[..., None], arriving.shape)
    return bool(np.allclose(arriving[sends], wanted[sends], rtol=ALIKE, atol=0))


def _disturbances(known: bool, interfered: bool, clipped: bool) -> tuple[str, ...]:
    """Return the disturbances in words: whether channels are known, and anything interferes or is clipped."""
    words = {"channels not known exactly": not known, "interference": interfered, "clipping on the air": clipped}
    return tuple(name for name, present in words.items() if present)


def _may_clip(scenario: Scenario) -> bool:
    """Return whether an analog link clips entries, waveforms, or what it decodes."""
    radio = scenario.radio.sections
    entries = radio.power.peak_db is not None and radio.power.peak == "clip"
    clips = entries or radio.grid.clip_db is not None or radio.antennas.median_clip is not None
    return clips and isinstance(scenario.recipe.uplink, AnalogUplink)
