"""Settings that change nothing, since what they belong to is not chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airfl.config.settings import Settings
from channels.selective import SELECTIVE_MODELS

NORMALISED, PHYSICAL = ("channel.units", ("normalised",)), ("channel.units", ("physical",))
PLACED = ("topology.kind", ("disc", "annulus", "coordinates"))
ESTIMATED = ("csi.estimation", ("ls", "mmse"))

BELONGS_TO: dict[str, tuple[str, tuple[str, ...]]] = {
    "channel.rician_k": ("channel.fading", ("rician",)),
    "channel.nakagami_m": ("channel.fading", ("nakagami",)),
    "channel.replay_variable": ("channel.fading", ("replay",)),
    "channel.delay_spread_s": ("channel.fading", tuple(SELECTIVE_MODELS)),
    "channel.taps": ("channel.fading", ("tapped-line",)),
    "channel.noise_std": NORMALISED,
    "channel.noise_figure_db": PHYSICAL,
    "channel.temperature_k": PHYSICAL,
    "power.max_snr_db": NORMALISED,
    "power.tx_power_dbm": PHYSICAL,
    "csi.pilots": ESTIMATED,
    "csi.pilot_snr_db": ESTIMATED,
    "selection.min_gain": ("selection.kind", ("threshold",)),
    "selection.window": ("selection.kind", ("proportional-fair",)),
    "selection.energy_budget": ("selection.kind", ("energy-budget",)),
    "task.dirichlet_alpha": ("task.partition", ("dirichlet",)),
    "topology.radius_m": PLACED,
    "topology.path_loss": PLACED,
    "topology.exponent": ("topology.path_loss", ("log-distance",)),
    "grid.downlink_snr_db": ("grid.downlink", ("True",)),
    "grid.downlink_power_dbm": ("grid.downlink", ("True",)),
}
"""key -> the setting that it belongs to, and the values of that with which it counts."""


def without_effect(overrides: Sequence[str], rows: Sequence[Settings]) -> Iterator[str]:
    """A sentence for each overridden key that changes none of these settings' runs."""
    for key in dict.fromkeys(text.partition("=")[0].strip() for text in overrides):
        if key not in BELONGS_TO:
            continue
        owner, counts = BELONGS_TO[key]
        chosen = dict.fromkeys(_value(settings, owner) for settings in rows)
        if not any(value in counts for value in chosen):
            yield f"{key} changes nothing: {owner} is {', '.join(chosen)}, not {' or '.join(counts)}"


def _value(settings: Settings, key: str) -> str:
    section, _, name = key.partition(".")
    return str(getattr(getattr(settings, section), name))
