"""Which settings a scheme uses, according to its `uses` attribute and its link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airfl.config.without_effect import BELONGS_TO, LINK
from airfl.schemes.names import SCHEMES
from airfl.schemes.scheme import Scheme
from channels.part import parameters_of

Tables = Mapping[str, Mapping[str, Any]]
"""Settings as plain tables, by section."""


STEP = frozenset(f"local.{name}" for name in ("learning_rate", "schedule", "decay", "decay_every"))
"""Keys of schemes whose devices send a gradient: the size of the step along it."""
LOCAL_STEPS = STEP | {"local.epochs", "local.steps", "local.momentum"}
"""Keys of schemes whose devices take several steps per round."""
LOCAL_SGD = LOCAL_STEPS | {"local.clip_norm", "local.gradient_bound", "local.gradient_clip_norm"}
"""Keys of schemes whose devices clip their updates."""
PRIVACY = frozenset(("privacy.epsilon", "privacy.bound"))
"""Keys of schemes that keep to a target epsilon."""
ADAPTIVE = frozenset(("server.beta1", "server.beta2", "server.kappa"))
"""Keys of the adaptive server rule."""
SHARED = LOCAL_SGD | PRIVACY | ADAPTIVE
"""Keys outside [scheme] that only some schemes use; all other keys apply to every scheme."""


def has_setting(settings: Tables, key: str, link: str) -> bool:
    """Whether a dotted key affects a run with these settings over this link ("analog", "digital", "ideal" or
    "noncoherent")."""
    if not counts(settings, key, link):
        return False
    name = str(settings.get("scheme", {}).get("name"))
    if name not in SCHEMES:  # a scheme of another version, or defined by another user
        return True
    return uses(SCHEMES[name], key)


def counts(settings: Tables, key: str, link: str) -> bool:
    """Whether the option that a dotted key belongs to is selected, regardless of the scheme."""

    def value_of(owner: str) -> str | None:
        return link if owner == LINK else _text(settings, owner)

    return all(needs.met_by(value_of, key) for needs in BELONGS_TO.get(key, ()))


def uses(scheme: type[Scheme], key: str) -> bool:
    """Whether a scheme uses a dotted key: one of its own parameters, a key of `SHARED` that it lists, or a key that
    every scheme uses."""
    section, _, parameter = key.partition(".")
    if section == "scheme":
        return parameter in ("name", *(one.name for one in parameters_of(scheme)))
    return key not in SHARED or scheme.uses is None or key in scheme.uses


def _text(settings: Tables, key: str) -> str | None:
    """Return the value of a key as text, None if the tables do not contain it."""
    section, _, name = key.partition(".")
    table = settings.get(section, {})
    return str(table[name]) if name in table else None
