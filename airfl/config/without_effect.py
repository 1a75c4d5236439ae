"""Settings that change nothing, since what they belong to is not chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from airfl.config.digital import DigitalSettings
from airfl.config.part_keys import keys_of, name_of
from airfl.config.settings import Settings
from airfl.config.task import OWN
from airfl.tasks.partitions.registry import PARTITIONS
from channels.fading import FADINGS, Fading, FlatFading, SelectiveFading
from channels.part import Part
from channels.power import POLICIES

LINK = "scheme.link"
"""An owner whose value is the link that a scheme has, where it is auto."""


@dataclass(frozen=True)
class Needs:
    """What a key needs to count.

    Attributes:
        owner: Dotted key of the setting that decides.
        counts: Values of that setting with which the key counts; empty for all but those of `idle`.
        idle: Values with which it does not count, unless `or_else` is met.
        or_else: Another need, of which either is enough; None for none.
        values: The need is there only where the key has one of these values; empty for any.
        own: Whether the key may count for a part of the user's own, of which nothing is known here.
    """

    owner: str
    counts: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()
    or_else: Needs | None = None
    values: tuple[str, ...] = ()
    own: bool = True

    def met(self, settings: Settings, key: str) -> bool:
        """Whether the key counts in these settings."""
        return self.met_by(lambda owner: _value(settings, owner), key)

    def met_by(self, value_of: Callable[[str], str | None], key: str) -> bool:
        """The same of settings in another form. value_of: a key's value as text, None where it is not known, and the
        key may count."""
        if self.values and value_of(key) not in self.values:
            return True
        if self.or_else is not None and self.or_else.met_by(value_of, key):
            return True
        value = value_of(self.owner)
        if self.owner in NAMES and value is not None and value not in NAMES[self.owner]:
            return self.own
        return value is None or (value in self.counts if self.counts else value not in self.idle)

    def sentence(self, keys: Sequence[str], rows: Sequence[Settings]) -> str:
        """That these keys change nothing in these rows, and why."""
        verb = "changes" if len(keys) == 1 else "change"
        return f"{', '.join(keys)} {verb} nothing: {self._why(keys, rows)}"

    def _why(self, keys: Sequence[str], rows: Sequence[Settings]) -> str:
        unmet = [settings for settings in rows if not any(self.met(settings, key) for key in keys)]
        chosen = dict.fromkeys(_value(settings, self.owner).removesuffix(".0") for settings in unmet)
        wanted = f", not {' or '.join(self.counts)}" if self.counts else ""
        other = f", and {self.or_else._why(keys, rows)}" if self.or_else else ""
        return f"{self.owner} is {', '.join(chosen)}{wanted}{other}"


NORMALISED, PHYSICAL = Needs("channel.units", ("normalised",)), Needs("channel.units", ("physical",))
PLACED, NOT_PLACED = Needs("topology.kind", ("disc", "annulus", "coordinates")), Needs("topology.kind", ("none",))
ESTIMATED = Needs("csi.estimation", ("ls", "mmse"))
NAMES: dict[str, frozenset[str]] = {
    "channel.fading": frozenset(FADINGS.classes.values()),
    "task.partition": frozenset([*PARTITIONS.classes.values(), OWN]),
}
"""Of parts that come with the package, by the key that names them."""


def _has_angles(fading: type[Fading]) -> bool:
    return issubclass(fading, SelectiveFading) and fading.own_angles


def fadings(fits: Callable[[type[Fading]], bool]) -> tuple[str, ...]:
    """Names of the fadings that come with the package of which that is so."""
    return tuple(name for name in FADINGS.classes.values() if fits(FADINGS[name]))


RECORDED = fadings(lambda one: not one.drawn)
SELECTIVE = fadings(lambda one: issubclass(one, SelectiveFading))
DRAWN = Needs("channel.fading", idle=RECORDED)
"""Of recorded gains nothing is drawn, scaled, or bounded."""
AGED, MOVED = Needs("csi.delay_s", idle=("0", "0.0")), Needs("channel.speed_m_s", idle=("0", "0.0"))
DRAWN_OR_AGED = Needs("channel.fading", idle=RECORDED, or_else=AGED)
IN_SIGHT = Needs("channel.fading", fadings(lambda one: one.line_of_sight and issubclass(one, FlatFading)))
SEEN = Needs("topology.los", idle=("nlos",), or_else=NOT_PLACED)
IN_AREA = Needs("topology.kind", ("disc", "annulus"))
SHADOWED = Needs("topology.shadowing_std_db", idle=("0.0",))
SHADOWED_BY_MODEL = Needs(
    "topology.path_loss", idle=("log-distance",), or_else=Needs("topology.shadowing_std_db", idle=("None", "0.0"))
)
CHARGED = Needs("grid.downlink", ("True",))
SUPERPOSED = Needs(LINK, ("analog",))
"""Messages are added up in the air, with phases, amplitudes and noise of their own."""
SUPERPOSED_OR_CHARGED = Needs(LINK, ("analog",), or_else=CHARGED)
AMPLITUDE_OR_RATE = Needs(LINK, ("analog", "digital"), or_else=CHARGED)
"""What is known of a gain sets an amplitude, or a rate that the true one may not carry."""
ANALOG_OR_ENERGY_BUDGET = Needs(LINK, ("analog",), or_else=Needs("selection.kind", ("energy-budget",)))
WAVEFORM_MATTERS = Needs(LINK, ("analog",), or_else=Needs("channel.fading", SELECTIVE))
"""Of a waveform other links have the taps of a selective channel."""
NOT_ALL_HEARD = Needs(LINK, ("analog", "digital"), or_else=Needs("digital.deadline_s", idle=("inf",)))
"""The ideal link loses who is not through by a deadline, and nobody else."""
TRUNCATED = Needs(LINK, ("analog",), values=("expected",))
DIGITAL, DIGITAL_OR_IDEAL = Needs(LINK, ("digital",)), Needs(LINK, ("digital", "ideal"))
OF_LINKS = (
    SUPERPOSED,
    SUPERPOSED_OR_CHARGED,
    AMPLITUDE_OR_RATE,
    ANALOG_OR_ENERGY_BUDGET,
    WAVEFORM_MATTERS,
    NOT_ALL_HEARD,
    TRUNCATED,
    DIGITAL,
    DIGITAL_OR_IDEAL,
    CHARGED,
)
SEVERAL = Needs("antennas.count", idle=("1",))
DIFFUSE, CORRELATED = Needs("channel.fading", idle=("fixed",)), Needs("antennas.correlation", idle=("independent",))
ARRAY_MATTERS = Needs(
    "channel.fading", idle=fadings(lambda one: not (one.line_of_sight or _has_angles(one))), or_else=CORRELATED
)
"""Without a line of sight, independent antennas are all alike wherever they are."""
FROM_DEVICES = Needs("antennas.angle", ("device",))
EXPONENTIAL = Needs("antennas.correlation", ("exponential",))
LOCAL_SCATTERING = Needs("antennas.correlation", ("local-scattering",))

ALSO_NEEDED = {"rician_k": (SEEN,)}
"""What a parameter of a fading needs beside it."""

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
    **{
        f"channel.{key}": (Needs("channel.fading", tuple(names), own=False), *ALSO_NEEDED.get(key, ()))
        for key, (_, names) in keys_of(FADINGS).items()
        if key != "replay_file"  # refused without the fading that it is for
    },
    "channel.noise_std": (NORMALISED,),
    "channel.noise_figure_db": (PHYSICAL,),
    "channel.temperature_k": (PHYSICAL,),
    "channel.noise": (SUPERPOSED,),
    "antennas.array": (DRAWN, SEVERAL, ARRAY_MATTERS),
    "antennas.rows": (DRAWN, SEVERAL, ARRAY_MATTERS, Needs("antennas.array", ("rectangular",))),
    "antennas.spacing_wavelengths": (DRAWN, SEVERAL, ARRAY_MATTERS),
    "antennas.angle": (DRAWN, SEVERAL, ARRAY_MATTERS),
    "antennas.sector_deg": (DRAWN, SEVERAL, ARRAY_MATTERS, FROM_DEVICES, NOT_PLACED),
    "antennas.broadside_deg": (DRAWN, SEVERAL, ARRAY_MATTERS, FROM_DEVICES, PLACED),
    "antennas.correlation": (DRAWN, SEVERAL, DIFFUSE),
    "antennas.correlation_coefficient": (DRAWN, SEVERAL, DIFFUSE, EXPONENTIAL),
    "antennas.angular_std_deg": (DRAWN, SEVERAL, DIFFUSE, LOCAL_SCATTERING),
    "antennas.angular_distribution": (DRAWN, SEVERAL, DIFFUSE, LOCAL_SCATTERING),
    "power.max_snr_db": (NORMALISED,),
    "power.tx_power_dbm": (PHYSICAL,),
    "csi.pilots": (ESTIMATED,),
    "csi.pilot_snr_db": (ESTIMATED,),
    "power.limit": (NORMALISED, ANALOG_OR_ENERGY_BUDGET),
    "power.divide_by": (NOT_ALL_HEARD, TRUNCATED),
    **dict.fromkeys(
        (
            "power.spread",
            "power.strict",
            "power.policy",
            "power.participation",
            "power.alignment",
            *(f"power.{key}" for key in keys_of(POLICIES)),
            "power.peak_db",
            "power.peak",
            "privacy.gains",
            "privacy.csi_error",
            "csi.phase_std_rad",
            "grid.packing",
            "grid.clip_db",
        ),
        (SUPERPOSED,),
    ),
    "antennas.combining": (SUPERPOSED,),
    "csi.phase_bits": (SUPERPOSED_OR_CHARGED,),
    "csi.gain_bits": (AMPLITUDE_OR_RATE,),
    "grid.waveform": (WAVEFORM_MATTERS,),
    "csi.los_doppler": (AGED, MOVED, IN_SIGHT),
    "selection.min_gain": (Needs("selection.kind", ("threshold",)),),
    "selection.window": (Needs("selection.kind", ("proportional-fair",)),),
    "selection.energy_budget": (Needs("selection.kind", ("energy-budget",)),),
    **{f"task.{key}": (Needs("task.partition", tuple(names)),) for key, (_, names) in keys_of(PARTITIONS).items()},
    "topology.radius_m": (PLACED, IN_AREA),
    "topology.min_distance_m": (PLACED, IN_AREA),
    **dict.fromkeys(
        (f"topology.{name}" for name in ("path_loss", "los", "base_height_m", "device_height_m")), (PLACED,)
    ),
    "topology.shadowing_std_db": (PLACED,),
    "topology.shadowing_correlation_m": (PLACED, SHADOWED, SHADOWED_BY_MODEL),
    "topology.exponent": (Needs("topology.path_loss", ("log-distance",)),),
    "grid.downlink_snr_db": (CHARGED,),
    "grid.downlink_power_dbm": (CHARGED,),
    **{f"digital.{name}": (DIGITAL,) for name in DigitalSettings.model_fields},
    "digital.deadline_s": (DIGITAL_OR_IDEAL,),
}
"""key -> all that it needs to count."""
OWNERS = frozenset(needs.owner for listed in BELONGS_TO.values() for needs in listed) | {"scheme.name"}
NOT_ON_DOWNLINK = ("channel.noise", "csi.estimation", "csi.phase_std_rad", "antennas.count")
"""What an uplink may meet, and the broadcast does not."""


def without_effect(overrides: Sequence[str], rows: Sequence[Settings]) -> Iterator[str]:
    """A sentence for each overridden key that changes none of these settings' runs, and one for what else is set of a
    channel that is replayed instead, for another link, or for a downlink that it does not reach."""
    given = list(dict.fromkeys(text.partition("=")[0].strip() for text in overrides))
    told = set()
    for key in (key for key in given if key.startswith("scheme.") and key != "scheme.name"):
        name = key.partition(".")[2]
        lacking = dict.fromkeys(settings.scheme.name for settings in rows if name not in settings.scheme.values())
        if lacking:
            have = "it has" if len(lacking) == 1 else "they have"
            yield f"{key} is left out of {', '.join(lacking)}: {have} no {name}"
    for key in given:
        unmet = [_unmet(key, settings) for settings in rows]
        if unmet and unmet[0] and all(unmet):
            told.add(key)
            yield unmet[0].sentence([key], rows)
    for needs in (DRAWN, DRAWN_OR_AGED, *OF_LINKS):
        of_needs = [key for key in BELONGS_TO if needs in BELONGS_TO[key] and key not in {*given, *told}]
        keys = [
            key for key in of_needs if _is_set(key, rows) and not any(needs.met(settings, key) for settings in rows)
        ]
        if keys:
            told.update(keys)
            yield needs.sentence(keys, rows)
    charged = [settings for settings in rows if settings.grid.downlink]
    missed = [key for key in NOT_ON_DOWNLINK if key not in told and _is_set(key, charged)]
    if missed:
        yield (
            f"{', '.join(missed)} {'does' if len(missed) == 1 else 'do'} not reach the downlink: the broadcast is "
            "counted at the capacity of the channel as it is, over its noise, at one antenna"
        )


def _unmet(key: str, settings: Settings) -> Needs | None:
    """What the key lacks in these settings, if anything."""
    return next((needs for needs in BELONGS_TO.get(key, ()) if not needs.met(settings, key)), None)


def _is_set(key: str, rows: Sequence[Settings]) -> bool:
    """Whether the key has, in any of these, another value than by itself."""
    section, _, name = key.partition(".")
    tables = [getattr(settings, section) for settings in rows]
    return any(getattr(table, name) != type(table).model_fields[name].default for table in tables)


def _value(settings: Settings, key: str) -> str:
    if key == LINK:
        return settings.scheme.carrier
    if key == "topology.path_loss":
        from airfl.radio.parts import path_loss_of

        return path_loss_of(settings.channel, settings.topology)
    section, _, name = key.partition(".")
    value = getattr(getattr(settings, section), name)
    return name_of(value) if isinstance(value, Part) else str(value)
