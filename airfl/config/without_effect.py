"""Detection of settings that have no effect, because the option that uses them is not selected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from airfl.config.digital import DigitalSettings
from airfl.config.part_keys import keys_of, name_of
from airfl.config.radio import path_loss_of
from airfl.config.settings import Settings
from airfl.config.surface import SurfaceSettings
from airfl.config.task import OWN
from airfl.learning.tasks.datasets.registry import DATASETS
from airfl.learning.tasks.partitions.registry import PARTITIONS
from airfl.storage.fingerprint import is_own
from channels.fading import FADINGS, Fading, FlatFading, SelectiveFading
from channels.hardware.amplifier import AMPLIFIERS
from channels.interference import INTERFERENCES
from channels.part import Part
from channels.power import POLICIES

LINK = "scheme.link"
"""Pseudo-key whose value is the link of the scheme, with auto resolved."""


@dataclass(frozen=True)
class Needs:
    """A condition under which a key has an effect.

    Attributes:
        owner: Dotted key of the setting that decides.
        active: Values of that setting with which the key has an effect; empty for all except those in `inactive`.
        inactive: Values with which the key has no effect, unless `or_else` is met.
        or_else: An alternative condition, which suffices if it is met; None for none.
        values: Values of the key to which the condition applies; empty for all.
        own: Whether the key may have an effect on a user-defined part, about which nothing is known here.
    """

    owner: str
    active: tuple[str, ...] = ()
    inactive: tuple[str, ...] = ()
    or_else: Needs | None = None
    values: tuple[str, ...] = ()
    own: bool = True

    def met(self, settings: Settings, key: str) -> bool:
        """Return whether the condition is met for the key in these settings."""
        return self.met_by(lambda owner: _value(settings, owner), key)

    def met_by(self, value_of: Callable[[str], str | None], key: str) -> bool:
        """Return whether the condition is met for settings in any form.

        `value_of` gives the value of a key as a string, or None if it is unknown, in which case the condition is met.
        """
        if self.values and value_of(key) not in self.values:
            return True
        if self.or_else is not None and self.or_else.met_by(value_of, key):
            return True
        value = value_of(self.owner)
        if self.owner in NAMES and value is not None and value not in NAMES[self.owner]:
            return self.own
        return value is None or (value in self.active if self.active else value not in self.inactive)

    def sentence(self, keys: Sequence[str], rows: Sequence[Settings]) -> str:
        """Return the message that these keys have no effect in these rows, with the reason."""
        verb = "has" if len(keys) == 1 else "have"
        return f"{', '.join(keys)} {verb} no effect: {self._why(keys, rows)}"

    def _why(self, keys: Sequence[str], rows: Sequence[Settings]) -> str:
        unmet = [settings for settings in rows if not any(self.met(settings, key) for key in keys)]
        values = dict.fromkeys(_value(settings, self.owner).removesuffix(".0") for settings in unmet)
        required = f", not {' or '.join(self.active)}" if self.active else ""
        other = f", and {self.or_else._why(keys, rows)}" if self.or_else else ""
        return f"{self.owner} is {', '.join(values)}{required}{other}"


NORMALISED, PHYSICAL = Needs("channel.units", ("normalised",)), Needs("channel.units", ("physical",))
PLACED, NOT_PLACED = Needs("topology.kind", ("disc", "annulus", "coordinates")), Needs("topology.kind", ("none",))
NEIGHBOURED = Needs("topology.neighbours", inactive=("empty",))
ESTIMATED = Needs("csi.estimation", ("ls", "mmse"))
SYNTHETIC = Needs("task.dataset", ("synthetic",))
NOT_ALIKE = Needs("task.synthetic_iid", inactive=("True",))
EQUAL_SIZES = Needs("task.synthetic_sizes", ("equal",), or_else=Needs("task.dataset", inactive=("synthetic",)))
NAMES: dict[str, frozenset[str]] = {
    "channel.fading": frozenset(FADINGS.classes.values()),
    "task.partition": frozenset([*PARTITIONS.classes.values(), OWN]),
    "task.dataset": frozenset([*DATASETS.classes.values(), OWN]),
    "channel.interference": frozenset(INTERFERENCES.classes.values()),
}
"""Names of the built-in parts, by the key that selects them."""


def _has_angles(fading: type[Fading]) -> bool:
    return issubclass(fading, SelectiveFading) and fading.own_angles


def fadings(predicate: Callable[[type[Fading]], bool]) -> tuple[str, ...]:
    """Return the names of the built-in fadings whose class satisfies the predicate."""
    return tuple(name for name in FADINGS.classes.values() if predicate(FADINGS[name]))


RECORDED = fadings(lambda one: not one.drawn)
SELECTIVE = fadings(lambda one: issubclass(one, SelectiveFading))
DRAWN = Needs("channel.fading", inactive=RECORDED)
"""Recorded gains are not drawn, scaled or bounded."""
AGED, MOVED = Needs("csi.delay_s", inactive=("0", "0.0")), Needs("channel.speed_m_s", inactive=("0", "0.0"))
DRAWN_OR_AGED = Needs("channel.fading", inactive=RECORDED, or_else=AGED)
LOCKED = Needs("csi.oscillator", inactive=("free-running",))
DRAWN_AGED_OR_LOCKED = Needs("channel.fading", inactive=RECORDED, or_else=replace(AGED, or_else=LOCKED))
"""The spectrum of a locked oscillator is scaled to the carrier."""
IN_SIGHT = Needs("channel.fading", fadings(lambda one: one.line_of_sight and issubclass(one, FlatFading)))
LINE_OF_SIGHT = Needs("topology.los", inactive=("nlos",), or_else=NOT_PLACED)
IN_AREA = Needs("topology.kind", ("disc", "annulus"))
SHADOWED = Needs("topology.shadowing_std_db", inactive=("0.0",))
SHADOWED_BY_MODEL = Needs(
    "topology.path_loss",
    inactive=("log-distance",),
    or_else=Needs("topology.shadowing_std_db", inactive=("None", "0.0")),
)
CLUTTERED = ("inf-sl", "inf-dl", "inf-sh", "inf-dh")
"""Models whose line of sight depends on the clutter."""
CHARGED = Needs("grid.downlink", ("True",))
SUPERPOSED = Needs(LINK, ("analog",))
"""Messages superpose on the channel, with individual phases and amplitudes, and with noise."""
NOISY = Needs(LINK, ("analog", "noncoherent"))
"""The receiver's noise and each element's energy reach the decoded mean."""
BY_CHANNEL = Needs("selection.kind", inactive=("uniform", "poisson"))
ESTIMATE_USED = Needs(LINK, ("analog", "digital", "ideal"), or_else=BY_CHANNEL)
"""Energies are sent and received without any estimate; selection by the channel needs one."""
ESTIMATE_USED_OR_CHARGED = Needs(LINK, ("analog", "digital", "ideal"), or_else=replace(BY_CHANNEL, or_else=CHARGED))
SUPERPOSED_OR_CHARGED = Needs(LINK, ("analog",), or_else=CHARGED)
AMPLITUDE_OR_RATE = Needs(LINK, ("analog", "digital"), or_else=CHARGED)
"""The CSI determines a transmit amplitude, or a rate that may exceed the capacity of the true channel."""
LIMITED_OR_ENERGY_BUDGET = Needs(LINK, ("analog", "noncoherent"), or_else=Needs("selection.kind", ("energy-budget",)))
WAVEFORM_MATTERS = Needs(LINK, ("analog",), or_else=Needs("channel.fading", SELECTIVE))
"""For links other than analog, the waveform only affects the taps of a selective channel."""
LOSSY = Needs(LINK, ("analog", "digital"), or_else=Needs("digital.deadline_s", inactive=("inf",)))
"""The ideal link loses only messages that miss a deadline."""
TRUNCATED = Needs(LINK, ("analog",), values=("expected",))
DIGITAL, DIGITAL_OR_IDEAL = Needs(LINK, ("digital",)), Needs(LINK, ("digital", "ideal"))
OF_LINKS = (
    SUPERPOSED,
    SUPERPOSED_OR_CHARGED,
    AMPLITUDE_OR_RATE,
    LIMITED_OR_ENERGY_BUDGET,
    NOISY,
    ESTIMATE_USED,
    ESTIMATE_USED_OR_CHARGED,
    WAVEFORM_MATTERS,
    LOSSY,
    TRUNCATED,
    DIGITAL,
    DIGITAL_OR_IDEAL,
    CHARGED,
)
AMPLIFIED = Needs("hardware.amplifier", inactive=("none",))
SEVERAL = Needs("antennas.count", inactive=("1",))
REFLECTING = Needs("surface.elements", inactive=("0",))
BLOCKED = Needs("blockage.model", inactive=("none",))
BY_REGIONS, BY_SCREENS = Needs("blockage.model", ("model-a",)), Needs("blockage.model", ("model-b",))
DISTURBED = Needs("channel.interference_to_noise_db", inactive=("None",))
IMPULSIVE = Needs("channel.interference", inactive=("gaussian",))
DIFFUSE, CORRELATED = (
    Needs("channel.fading", inactive=("fixed",)),
    Needs("antennas.correlation", inactive=("independent",)),
)
ARRAY_MATTERS = Needs(
    "channel.fading",
    inactive=fadings(lambda one: one.drawn and not (one.line_of_sight or _has_angles(one))),
    or_else=CORRELATED,
)
"""Without a line of sight, the geometry does not matter to independent antennas. Recorded paths may have angles."""
FROM_FILE = Needs("topology.motion", ("file",))
IN_AREA_OR_FILE = replace(IN_AREA, or_else=FROM_FILE)
"""Coordinates are taken as they are given; those of a file are checked."""
MEASURED = Needs("csi.residual_file", inactive=("None",))
FROM_DEVICES = Needs("antennas.angle", ("device",))
REPLAYED = Needs("channel.fading", RECORDED)
FROM_RECORDED, PLACED_OR_RECORDED = replace(FROM_DEVICES, or_else=REPLAYED), replace(PLACED, or_else=REPLAYED)
EXPONENTIAL = Needs("antennas.correlation", ("exponential",))
LOCAL_SCATTERING = Needs("antennas.correlation", ("local-scattering",))
DECAYING, SERVER_DECAYING = (Needs(f"{section}.schedule", ("exponential",)) for section in ("local", "server"))

ALSO_NEEDED = {"rician_k": (LINE_OF_SIGHT,)}
"""Additional conditions of parameters of a fading."""

BELONGS_TO: dict[str, tuple[Needs, ...]] = {
    **{f"local.{name}": (DECAYING,) for name in ("decay", "decay_every")},
    **{f"server.{name}": (SERVER_DECAYING,) for name in ("decay", "decay_every")},
    "channel.mean_gain": (DRAWN, NOT_PLACED),
    "channel.min_gain": (DRAWN, NORMALISED),
    "channel.max_gain": (DRAWN, NORMALISED),
    "channel.bounds": (DRAWN, NORMALISED),
    "channel.variation": (DRAWN,),
    "channel.round_s": (DRAWN,),
    "channel.speed_m_s": (DRAWN_OR_AGED,),
    "channel.carrier_hz": (DRAWN_AGED_OR_LOCKED,),
    **{
        f"channel.{key}": (Needs("channel.fading", tuple(names), own=False), *ALSO_NEEDED.get(key, ()))
        for key, (_, names) in keys_of(FADINGS).items()
        if key != "replay_file"  # validation rejects it with another fading
    },
    "channel.noise_std": (NORMALISED,),
    "channel.noise_figure_db": (PHYSICAL,),
    "channel.temperature_k": (PHYSICAL,),
    "channel.interference": (DISTURBED,),
    **{
        f"channel.{key}": (DISTURBED, Needs("channel.interference", tuple(names), own=False))
        for key, (_, names) in keys_of(INTERFERENCES).items()
    },
    "channel.interference_across_antennas": (SEVERAL, DISTURBED, IMPULSIVE),
    "channel.noise": (NOISY,),
    "antennas.array": (SEVERAL, ARRAY_MATTERS),
    "antennas.rows": (SEVERAL, ARRAY_MATTERS, Needs("antennas.array", ("rectangular",))),
    "antennas.spacing_wavelengths": (SEVERAL, ARRAY_MATTERS),
    "antennas.angle": (DRAWN, SEVERAL, ARRAY_MATTERS),
    "antennas.sector_deg": (DRAWN, SEVERAL, ARRAY_MATTERS, FROM_DEVICES, NOT_PLACED),
    "antennas.broadside_deg": (SEVERAL, ARRAY_MATTERS, FROM_RECORDED, PLACED_OR_RECORDED),
    "antennas.correlation": (DRAWN, SEVERAL, DIFFUSE),
    "antennas.correlation_coefficient": (DRAWN, SEVERAL, DIFFUSE, EXPONENTIAL),
    "antennas.angular_std_deg": (DRAWN, SEVERAL, DIFFUSE, LOCAL_SCATTERING),
    "antennas.angular_distribution": (DRAWN, SEVERAL, DIFFUSE, LOCAL_SCATTERING),
    "power.max_snr_db": (NORMALISED,),
    "power.tx_power_dbm": (PHYSICAL,),
    "csi.estimation": (ESTIMATE_USED,),
    "csi.pilots": (ESTIMATE_USED, ESTIMATED),
    "csi.pilot_snr_db": (ESTIMATE_USED, ESTIMATED),
    "csi.delay_s": (ESTIMATE_USED_OR_CHARGED,),
    **{f"csi.residual_{name}": (MEASURED,) for name in ("variable", "target", "missed_below", "rounds", "devices")},
    "power.limit": (NORMALISED, LIMITED_OR_ENERGY_BUDGET),
    "power.divide_by": (LOSSY, TRUNCATED),
    **dict.fromkeys(
        (
            "power.spread",
            "power.strict",
            "power.policy",
            "power.participation",
            "power.alignment",
            *(f"power.{key}" for key in keys_of(POLICIES)),
            "privacy.gains",
            "privacy.csi_error",
            "csi.phase_std_rad",
            "grid.packing",
            "grid.clip_db",
        ),
        (SUPERPOSED,),
    ),
    "power.peak_db": (NOISY,),
    "power.peak": (NOISY,),
    "power.across_cells": (SUPERPOSED, PLACED, NEIGHBOURED),
    "antennas.combining": (SUPERPOSED,),
    "antennas.median_clip": (SUPERPOSED,),
    "csi.phase_bits": (SUPERPOSED_OR_CHARGED,),
    "csi.gain_bits": (AMPLITUDE_OR_RATE,),
    "grid.waveform": (WAVEFORM_MATTERS,),
    "csi.los_doppler": (ESTIMATE_USED_OR_CHARGED, AGED, MOVED, IN_SIGHT),
    "selection.min_gain": (Needs("selection.kind", ("threshold",)),),
    "selection.window": (Needs("selection.kind", ("proportional-fair",)),),
    "selection.energy_budget": (Needs("selection.kind", ("energy-budget",)),),
    **{f"task.{key}": (Needs("task.partition", tuple(names)),) for key, (_, names) in keys_of(PARTITIONS).items()},
    **{f"task.{key}": (Needs("task.dataset", tuple(names)),) for key, (_, names) in keys_of(DATASETS).items()},
    "task.synthetic_alpha": (SYNTHETIC, NOT_ALIKE),
    "task.synthetic_beta": (SYNTHETIC, NOT_ALIKE),
    "task.device_samples": (
        Needs("task.partition", ("shared",), or_else=Needs("task.dataset", ("synthetic", "gaussian-classes"))),
        EQUAL_SIZES,
    ),
    "topology.motion": (PLACED,),
    **{f"topology.motion_{name}": (PLACED, FROM_FILE) for name in ("file", "end", "start_s")},
    "topology.radius_m": (PLACED, IN_AREA),
    "topology.min_distance_m": (PLACED, IN_AREA_OR_FILE),
    **dict.fromkeys(
        (
            f"topology.{name}"
            for name in ("access_points", "neighbours", "path_loss", "los", "base_height_m", "device_height_m")
        ),
        (PLACED,),
    ),
    "topology.shadowing_std_db": (PLACED,),
    "topology.shadowing_correlation_m": (PLACED, SHADOWED, SHADOWED_BY_MODEL),
    **dict.fromkeys(
        (f"topology.clutter_{name}" for name in ("density", "size_m", "height_m")),
        (Needs("topology.path_loss", CLUTTERED),),
    ),
    "topology.hall_m": (Needs("channel.fading", (*CLUTTERED, "inf-hh")),),
    "topology.exponent": (Needs("topology.path_loss", ("log-distance",)),),
    "grid.downlink_snr_db": (CHARGED,),
    "grid.downlink_power_dbm": (CHARGED,),
    **{f"digital.{name}": (DIGITAL,) for name in DigitalSettings.model_fields},
    "digital.deadline_s": (DIGITAL_OR_IDEAL,),
    **{f"blockage.{name}": (BY_REGIONS,) for name in ("orientation", "regions")},
    **{f"blockage.{name}": (BY_SCREENS,) for name in ("blocker", "count", "width_m", "height_m", "base_m")},
    "blockage.speed_m_s": (BLOCKED,),
    **{f"surface.{name}": (REFLECTING,) for name in SurfaceSettings.model_fields if name != "elements"},
    "hardware.back_off_db": (AMPLIFIED,),
    "hardware.amplifier_class": (AMPLIFIED,),
    "hardware.calibrated": (SUPERPOSED, AMPLIFIED),
    **{
        f"hardware.{key}": (Needs("hardware.amplifier", tuple(names)),)
        for key, (_, names) in keys_of(AMPLIFIERS).items()
    },
}
"""Dotted key -> the conditions under which it has an effect, all of which must be met."""
OWNERS = frozenset(needs.owner for listed in BELONGS_TO.values() for needs in listed) | {"scheme.name"}
OF_SCHEMES = frozenset(
    (
        *(f"local.{name}" for name in ("learning_rate", "schedule", "decay", "decay_every", "epochs", "steps")),
        *(f"local.{name}" for name in ("momentum", "clip_norm", "gradient_bound", "gradient_clip_norm")),
        *("privacy.epsilon", "privacy.bound", "server.beta1", "server.beta2", "server.kappa"),
    )
)
"""Keys of other sections than [scheme] that only some schemes use, as their `uses` says."""
CLIPPED = "local.gradient_clip_norm"
OF_NOISE = ("privacy.epsilon", "privacy.bound")
"""What the noise of devices follows from, unless `scheme.noise_multiplier` gives it."""
NOT_ON_DOWNLINK = (
    "channel.noise",
    "csi.estimation",
    "csi.phase_std_rad",
    "antennas.count",
    "hardware.amplifier",
    "hardware.adc_bits",
    "hardware.fronthaul_bits",
)
"""Impairments, antennas and hardware of the uplink, which do not affect the broadcast."""


def without_effect(overrides: Sequence[str], rows: Sequence[Settings]) -> Iterator[str]:
    """Yield a message for each overridden key that has no effect in any of these rows.

    Further messages name other keys that are set without effect, because the channel is replayed, the link is another
    one, or the downlink does not depend on them.
    """
    overridden = list(dict.fromkeys(text.partition("=")[0].strip() for text in overrides))
    reported = set()
    for key in (key for key in overridden if key.startswith("scheme.") and key != "scheme.name"):
        name = key.partition(".")[2]
        lacking = dict.fromkeys(settings.scheme.name for settings in rows if name not in settings.scheme.values())
        if lacking:
            verb = "has" if len(lacking) == 1 else "have"
            yield f"{key} is ignored for {', '.join(lacking)}, which {verb} no {name}"
    for key in (key for key in overridden if key in OF_SCHEMES):
        unused = dict.fromkeys(settings.scheme.name for settings in rows if not _uses(settings, key))
        if unused:
            yield f"{key} is ignored for {', '.join(unused)}, which {'does' if len(unused) == 1 else 'do'} not use it"
    for key in (key for key in overridden if key in OF_NOISE):
        using = [settings for settings in rows if _uses(settings, key)]
        multipliers = dict.fromkeys(_noise_multiplier(settings) for settings in using)
        if multipliers and None not in multipliers:
            yield f"{key} has no effect: scheme.noise_multiplier is {', '.join(map(str, multipliers))}"
    for key in overridden:
        unmet = [_unmet(key, settings) for settings in rows]
        if unmet and unmet[0] and all(unmet):
            reported.add(key)
            yield unmet[0].sentence([key], rows)
    for needs in (DRAWN, DRAWN_OR_AGED, *OF_LINKS):
        of_needs = [key for key in BELONGS_TO if needs in BELONGS_TO[key] and key not in {*overridden, *reported}]
        keys = [
            key for key in of_needs if _is_set(key, rows) and not any(needs.met(settings, key) for settings in rows)
        ]
        if keys:
            reported.update(keys)
            yield needs.sentence(keys, rows)
    charged = [settings for settings in rows if settings.grid.downlink]
    missed = [key for key in NOT_ON_DOWNLINK if key not in reported and _is_set(key, charged)]
    if missed:
        yield (
            f"{', '.join(missed)} {'does' if len(missed) == 1 else 'do'} not affect the downlink: the broadcast is "
            "charged at the capacity of the true channel with noise and one receive antenna"
        )
    if any(_uses(one, CLIPPED) and one.local.gradient_clip_norm and one.local.engine == "dense" for one in rows):
        yield f"local.engine: 'dense' does not clip gradients ({CLIPPED}); another engine is used"


def _uses(settings: Settings, key: str) -> bool:
    """Return whether the scheme uses this key of `OF_SCHEMES`."""
    return settings.scheme.uses is None or key in settings.scheme.uses


def _noise_multiplier(settings: Settings) -> float | None:
    """Return the noise multiplier that is given to the scheme; None for none, and for a user-defined scheme."""
    value = None if is_own(settings.scheme) else settings.scheme.values().get("noise_multiplier")
    return value if isinstance(value, float) else None


def _unmet(key: str, settings: Settings) -> Needs | None:
    """Return the first condition of the key that is not met in these settings, if any."""
    return next((needs for needs in BELONGS_TO.get(key, ()) if not needs.met(settings, key)), None)


def _is_set(key: str, rows: Sequence[Settings]) -> bool:
    """Return whether the key differs from its default in any of these rows."""
    section, _, name = key.partition(".")
    tables = [getattr(settings, section) for settings in rows]
    return any(getattr(table, name) != type(table).model_fields[name].default for table in tables)


def _value(settings: Settings, key: str) -> str:
    if key == LINK:
        return settings.scheme.carrier
    if key == "topology.path_loss":
        return path_loss_of(settings.channel, settings.topology)
    section, _, name = key.partition(".")
    value = getattr(getattr(settings, section), name)
    if isinstance(value, list | tuple) and not value:
        return "empty"
    return name_of(value) if isinstance(value, Part) else str(value)
