"""The schemes. One file each, in its paper's order; the table of names is in names.py."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from airfl.errors import UserError
from airfl.memory import machine_bytes
from airfl.schemes.names import SCHEME_NAMES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from airfl.config.settings import Settings
    from airfl.schemes.recipe import LinkKind, Scheme

# Measured: a cell takes 50 a device of the population, 150 with a topology; twice that, for what else a run holds.
BYTES_A_DEVICE = 300
MOST_ROUNDS = 1_000_000


def scheme(name: str) -> Scheme:
    """The scheme of that name; every scheme's file holds it as SCHEME."""
    found: Scheme = import_module(SCHEME_NAMES[name]).SCHEME
    return found


def link_of(settings: Settings) -> LinkKind:
    """What carries the messages; UserError for a link that the scheme cannot use."""
    wanted, entry = settings.scheme.link, scheme(settings.scheme.name)
    if wanted == "auto":
        return entry.link
    if wanted not in entry.links:
        raise UserError(
            f"scheme.link: scheme {entry.name!r} cannot use a link that is {wanted!r} (allowed: "
            f"{', '.join(entry.links)})"
        )
    return wanted


def fitted(settings: Settings) -> Settings:
    """The settings with the power policy that is part of the scheme, where it has one, UserError for another one; and
    over a link that carries bits without what only analog messages meet.

    A policy for flat channels becomes its version per coefficient over a selective one.
    """
    entry = scheme(settings.scheme.name)
    if link_of(settings) != "analog":
        settings = _for_bits(settings)
    power = settings.power
    if entry.policy is None:
        return settings
    from channels.selective import SELECTIVE_MODELS

    own = [entry.policy]
    if entry.policy == "truncated-inversion":
        own.append("per-subcarrier-truncated")
    selective = settings.channel.fading in SELECTIVE_MODELS
    wanted = own[-1 if selective else 0] if power.policy == "pfels" else power.policy
    if wanted not in own:
        raise UserError(
            f"power.policy: scheme {entry.name!r} has its own, {' or '.join(own)} (given: {power.policy!r}); leave it "
            "out"
        )
    chosen = power.threshold or power.participation is not None or power.coefficient is not None
    threshold = power.threshold if chosen else entry.threshold
    return settings.resolved(power={"policy": wanted, "threshold": threshold})


def _for_bits(settings: Settings) -> Settings:
    """Bits fill both parts of an element and are decoded from a phase that the receiver tracks; what they protect does
    not rest on the channel. `airfl.config.without_effect` tells who sets it otherwise."""
    analog_only: dict[str, dict[str, object]] = {
        "grid": {"packing": "real"},
        "csi": {"phase_std_rad": 0.0} if settings.grid.downlink else {"phase_std_rad": 0.0, "phase_bits": 0},
        "privacy": {"csi_error": "realised"},
    }
    for section, values in analog_only.items():
        if any(getattr(getattr(settings, section), key) != value for key, value in values.items()):
            settings = settings.resolved(**{section: values})
    return settings


def check_recipe(settings: Settings) -> None:
    """UserError if scheme or radio cannot be built from these settings; needs neither data nor torch."""
    from airfl.building import build_cell
    from airfl.tasks.models import MODELS

    dimension = MODELS[settings.task.model].parameters
    build_cell(settings, dimension, equal_weights(settings), nominal_samples(settings))


def equal_weights(settings: Settings) -> NDArray[np.float64]:
    """Of the devices' updates, 1 each, [N]; UserError for more devices than fit, or rounds than anybody counts."""
    import numpy as np

    devices, rounds = settings.run.devices, settings.run.rounds
    memory = machine_bytes()
    if devices * BYTES_A_DEVICE > memory:
        raise UserError(
            f"run.devices: {devices:,} devices take {devices * BYTES_A_DEVICE / 1e9:.3g} GB of {memory / 1e9:.3g} GB; "
            "take fewer"
        )
    if rounds > MOST_ROUNDS:
        raise UserError(f"run.rounds: {rounds:,} rounds, at most {MOST_ROUNDS:,} are allowed; take fewer")
    return np.ones(devices)


def nominal_samples(settings: Settings) -> int:
    """Samples of a device if the training data is divided equally: known without reading it."""
    from airfl.tasks.datasets import DATASETS

    total = DATASETS[settings.task.dataset].training_samples
    held = round(settings.task.validation_share * total) + settings.task.public_samples
    return max((total - held) // settings.run.devices, 1)
