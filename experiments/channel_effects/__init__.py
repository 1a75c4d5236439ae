"""Channel effects, one function each, which draws on a figure and returns the lines that its page quotes."""

from collections.abc import Callable

from matplotlib.figure import Figure

from channel_effects import (
    access_points,
    across_cells,
    antennas,
    blind,
    blockage,
    cell,
    csi,
    factory,
    fading,
    fronthaul,
    hardware,
    impulsive,
    motion,
    neighbours,
    noise,
    offsets,
    oscillator,
    power,
    power_statistics,
    privacy,
    selection,
    selective,
    surface,
    synchronisation,
    waveform,
)

EFFECTS: dict[str, Callable[[Figure], list[str]]] = {
    "noise": noise.noise,
    "fading-laws": fading.fading_laws,
    "replay": noise.replay,
    "variation": fading.variation,
    "selective": selective.selective,
    "topology": cell.topology,
    "indoor-factory": factory.factory,
    "motion": motion.motion,
    "blockage": blockage.blockage,
    "grid": cell.grid,
    "estimation": csi.estimation,
    "ageing": csi.ageing,
    "feedback": csi.feedback,
    "phase": csi.phase,
    "timing": offsets.timing,
    "frequency": offsets.frequency,
    "policies": power.policies,
    "statistical": power_statistics.statistical,
    "peak": power.peak,
    "antennas": antennas.antennas,
    "access-points": access_points.access_points,
    "fronthaul": fronthaul.fronthaul,
    "surface": surface.surface,
    "selection": selection.selection,
    "interference": cell.interference,
    "neighbours": neighbours.neighbours,
    "power-across-cells": across_cells.across_cells,
    "impulsive": impulsive.impulsive,
    "waveform": waveform.waveform,
    "amplifier": hardware.amplifier,
    "converter": hardware.converter,
    "oscillator": oscillator.oscillator,
    "synchronisation": synchronisation.synchronisation,
    "privacy": privacy.privacy,
}
"""The effects of docs/channels, each with a page of its name."""
OF_SCHEMES: dict[str, Callable[[Figure], list[str]]] = {"blind": blind.blind}
"""Figures of the radio on pages of docs/schemes, by the name of the page."""
