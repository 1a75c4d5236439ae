"""Settings that change nothing, since what they belong to is not chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from airfl.config.settings import Settings
from channels.selective import SELECTIVE_MODELS


@dataclass(frozen=True)
class Needs:
    """What a key needs to count: a setting, and the values of that with which it counts; or, in `idle`, those with
    which it does not; `but`: what makes it count all the same."""

    owner: str
    counts: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    but: Needs | None = None

    def met(self, settings: Settings) -> bool:
        """Whether the key counts in these settings."""
        return self.met_by(lambda key: _value(settings, key))

    def met_by(self, value_of: Callable[[str], str | None]) -> bool:
        """The same of settings in another form. value_of: a key's value as text, None where it is not known, and the
        key may count."""
        if self.but and self.but.met_by(value_of):
            return True
        value = value_of(self.owner)
        return value is None or (value in self.counts if self.counts else value not in self.idle)

    def sentence(self, keys: Sequence[str], rows: Sequence[Settings]) -> str:
        """That these keys change nothing in these rows, and why."""
        chosen = dict.fromkeys(_value(settings, self.owner) for settings in rows if not self.met(settings))
        wanted = f", not {' or '.join(self.counts)}" if self.counts else ""
        also = f", and {self.but.owner} is {self.but.idle[0]}" if self.but else ""
        verb = "changes" if len(keys) == 1 else "change"
        return f"{', '.join(keys)} {verb} nothing: {self.owner} is {', '.join(chosen)}{wanted}{also}"


NORMALISED, PHYSICAL = Needs("channel.units", ("normalised",)), Needs("channel.units", ("physical",))
PLACED, NOT_PLACED = Needs("topology.kind", ("disc", "annulus", "coordinates")), Needs("topology.kind", ("none",))
ESTIMATED = Needs("csi.estimation", ("ls", "mmse"))
DRAWN = Needs("channel.fading", idle=("replay",))
"""Of recorded gains nothing is drawn, scaled, or bounded."""
AGED, MOVED = Needs("csi.delay_s", idle=("0", "0.0")), Needs("channel.speed_m_s", idle=("0", "0.0"))
DRAWN_OR_AGED = Needs("channel.fading", idle=("replay",), but=AGED)
IN_SIGHT = Needs("channel.fading", ("rician", "fixed"))
SEVERAL = Needs("antennas.count", idle=("1",))
DIFFUSE, CORRELATED = Needs("channel.fading", idle=("fixed",)), Needs("antennas.correlation", idle=("independent",))
SEEN = Needs(
    "channel.fading",
    idle=("exponential", "rayleigh", "nakagami", "tapped-line", "tdl-a", "tdl-b", "tdl-c", "replay"),
    but=CORRELATED,
)
"""Without a line of sight, independent antennas are all alike wherever they are."""
FROM_DEVICES = Needs("antennas.angle", ("device",))
EXPONENTIAL = Needs("antennas.correlation", ("exponential",))
LOCAL_SCATTERING = Needs("antennas.correlation", ("local-scattering",))

BELONGS_TO: dict[str, tuple[Needs, ...]] = {
    "channel.mean_gain": (DRAWN, NOT_PLACED),
    "channel.min_gain": (DRAWN, NORMALISED),
    "channel.max_gain": (DRAWN, NORMALISED),
    "channel.bounds": (DRAWN, NORMALISED),
    "channel.variation": (DRAWN,),
    "channel.round_s": (DRAWN,),
    "channel.coherence": (DRAWN,),
    "channel.speed_m_s": (DRAWN_OR_AGED,),
    "channel.carrier_hz": (DRAWN_OR_AGED,),
    "channel.rician_k": (Needs("channel.fading", ("rician",)),),
    "channel.nakagami_m": (Needs("channel.fading", ("nakagami",)),),
    "channel.replay_variable": (Needs("channel.fading", ("replay",)),),
    "channel.delay_spread_s": (Needs("channel.fading", tuple(SELECTIVE_MODELS)),),
    "channel.taps": (Needs("channel.fading", ("tapped-line",)),),
    "channel.tr38901_version": (
        Needs("channel.fading", tuple(name for name, model in SELECTIVE_MODELS.items() if model.needs_sionna)),
    ),
    "channel.noise_std": (NORMALISED,),
    "channel.noise_figure_db": (PHYSICAL,),
    "channel.temperature_k": (PHYSICAL,),
    "antennas.array": (DRAWN, SEVERAL, SEEN),
    "antennas.rows": (DRAWN, SEVERAL, SEEN, Needs("antennas.array", ("rectangular",))),
    "antennas.spacing_wavelengths": (DRAWN, SEVERAL, SEEN),
    "antennas.angle": (DRAWN, SEVERAL, SEEN),
    "antennas.sector_deg": (DRAWN, SEVERAL, SEEN, FROM_DEVICES, NOT_PLACED),
    "antennas.broadside_deg": (DRAWN, SEVERAL, SEEN, FROM_DEVICES, PLACED),
    "antennas.correlation": (DRAWN, SEVERAL, DIFFUSE),
    "antennas.correlation_coefficient": (DRAWN, SEVERAL, DIFFUSE, EXPONENTIAL),
    "antennas.angular_std_deg": (DRAWN, SEVERAL, DIFFUSE, LOCAL_SCATTERING),
    "antennas.angular_distribution": (DRAWN, SEVERAL, DIFFUSE, LOCAL_SCATTERING),
    "power.max_snr_db": (NORMALISED,),
    "power.tx_power_dbm": (PHYSICAL,),
    "csi.pilots": (ESTIMATED,),
    "csi.pilot_snr_db": (ESTIMATED,),
    "csi.los_doppler": (AGED, MOVED, IN_SIGHT),
    "selection.min_gain": (Needs("selection.kind", ("threshold",)),),
    "selection.window": (Needs("selection.kind", ("proportional-fair",)),),
    "selection.energy_budget": (Needs("selection.kind", ("energy-budget",)),),
    "task.dirichlet_alpha": (Needs("task.partition", ("dirichlet",)),),
    "topology.radius_m": (PLACED,),
    "topology.path_loss": (PLACED,),
    "topology.exponent": (Needs("topology.path_loss", ("log-distance",)),),
    "grid.downlink_snr_db": (Needs("grid.downlink", ("True",)),),
    "grid.downlink_power_dbm": (Needs("grid.downlink", ("True",)),),
}
"""key -> all that it needs to count."""
OWNERS = frozenset(needs.owner for listed in BELONGS_TO.values() for needs in listed)


def without_effect(overrides: Sequence[str], rows: Sequence[Settings]) -> Iterator[str]:
    """A sentence for each overridden key that changes none of these settings' runs, and one for what else is set of a
    channel that is replayed instead."""
    given = list(dict.fromkeys(text.partition("=")[0].strip() for text in overrides))
    for key in given:
        unmet = [_unmet(key, settings) for settings in rows]
        if unmet and unmet[0] and all(unmet):
            yield unmet[0].sentence([key], rows)
    for needs in (DRAWN, DRAWN_OR_AGED):
        keys = [key for key in BELONGS_TO if needs in BELONGS_TO[key] and key not in given and _is_set(key, rows)]
        if keys and not any(needs.met(settings) for settings in rows):
            yield needs.sentence(keys, rows)


def _unmet(key: str, settings: Settings) -> Needs | None:
    """What the key lacks in these settings, if anything."""
    return next((needs for needs in BELONGS_TO.get(key, ()) if not needs.met(settings)), None)


def _is_set(key: str, rows: Sequence[Settings]) -> bool:
    """Whether the key has, in any of these, another value than by itself."""
    section, _, name = key.partition(".")
    tables = [getattr(settings, section) for settings in rows]
    return any(getattr(table, name) != type(table).model_fields[name].default for table in tables)


def _value(settings: Settings, key: str) -> str:
    section, _, name = key.partition(".")
    return str(getattr(getattr(settings, section), name))
