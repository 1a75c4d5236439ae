"""Which settings a scheme has: what it says itself of the keys that not every scheme uses, and what its link does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airfl.config.scheme import SchemeSettings
from airfl.config.without_effect import BELONGS_TO, LINK
from airfl.schemes.names import SCHEME_NAMES

Tables = Mapping[str, Mapping[str, Any]]
"""Settings as plain tables, by section."""


def of_scheme(*names: str) -> frozenset[str]:
    """Keys of the section `scheme`."""
    return frozenset(f"scheme.{name}" for name in names)


STEP = frozenset(f"local.{name}" for name in ("learning_rate", "schedule", "decay", "decay_every"))
"""Of schemes whose devices send a gradient: the step that is made of it."""
LOCAL_STEPS = STEP | {"local.epochs", "local.steps", "local.momentum"}
"""Of schemes whose devices take several steps a round."""
LOCAL_SGD = LOCAL_STEPS | {"local.clip_norm", "local.gradient_bound"}
"""Of schemes whose devices clip what they have learned."""
PRIVACY = frozenset(("privacy.epsilon", "privacy.bound"))
"""Of schemes that keep to an epsilon."""
ADAPTIVE = frozenset(("server.beta1", "server.beta2", "server.kappa"))
OWN = of_scheme(*(name for name in SchemeSettings.model_fields if name not in ("name", "link"))) | (
    LOCAL_SGD | PRIVACY | ADAPTIVE
)
"""The keys that not every scheme has; every other key of the settings is for all of them."""


def has_setting(settings: Tables, key: str, link: str) -> bool:
    """Whether a dotted key says anything of a run with these settings over this link: "analog", "digital", "ideal"."""

    def value_of(owner: str) -> str | None:
        return link if owner == LINK else _text(settings, owner)

    if not all(needs.met_by(value_of, key) for needs in BELONGS_TO.get(key, ())):
        return False
    name = str(settings.get("scheme", {}).get("name"))
    if key not in OWN or name not in SCHEME_NAMES:  # what another version can run
        return True
    from airfl.schemes import scheme

    keys = scheme(name).keys
    return keys is None or key in keys


def _text(settings: Tables, key: str) -> str | None:
    """A key's value as text; None where the tables have none."""
    section, _, name = key.partition(".")
    table = settings.get(section, {})
    return str(table[name]) if name in table else None
